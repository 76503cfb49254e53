// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <inttypes.h>
#include <limits.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/query.h"
#include "calls/pool.h"
#include "support/setting.h"
#include "sweep/sweep-inside.h"
#include "util/tag.h"

/* Each call looks at some of what is held, and nothing holds as much as so many see. */
#define HELD_CALLS 4

const int sweep_errors[BACKEND_OP_COUNT][SWEEP_ERRORS] = {
	[BACKEND_OP_enter] = { -EBUSY },
	[BACKEND_OP_reserve] = { -ENOMEM },
	[BACKEND_OP_reserve_at] = { -ENOMEM, -EADDRINUSE, -ENOTSUP },
	[BACKEND_OP_configure] = { -ENOTSUP },
	[BACKEND_OP_peer_check] = { -ENOTSUP },
	[BACKEND_OP_peers] = { -ENOTSUP },
	[BACKEND_OP_create] = { -ENOMEM },
	[BACKEND_OP_create_export] = { -ENOMEM, -ENOTSUP },
	[BACKEND_OP_export] = { -EMFILE },
	[BACKEND_OP_import] = { -EMFILE },
	[BACKEND_OP_map] = { -ENOMEM },
	[BACKEND_OP_access] = { -ENOMEM },
	[BACKEND_OP_deny] = { -ENOMEM },
	[BACKEND_OP_unmap] = { -EBUSY },
	[BACKEND_OP_stream_id] = { -EINVAL, -EBUSY },
	[BACKEND_OP_stream_capture] = { -EBUSY },
	[BACKEND_OP_stream_wait] = { -EINVAL },
	[BACKEND_OP_event_create] = { -ENOMEM },
	[BACKEND_OP_event_create_timed] = { -ENOMEM },
	[BACKEND_OP_event_record] = { -EINVAL },
	[BACKEND_OP_event_record_all] = { -EBUSY, -ENOTSUP },
	[BACKEND_OP_event_elapsed] = { -EBUSY },
	[BACKEND_OP_small_alloc] = { -ENOMEM, -ENOTSUP },
	[BACKEND_OP_small_free] = { -EINVAL },
	[BACKEND_OP_host_create] = { -ENOMEM, -ENOTSUP },
	[BACKEND_OP_host_access] = { -ENOMEM },
	[BACKEND_OP_stream_create] = { -ENOMEM },
};

static const char *const op_names[BACKEND_OP_COUNT + 1] = {
#define X(name) #name,
	BACKEND_FAULT_OPS(X)
#undef X
	"every operation",
};

static const struct sweep_mode modes[SWEEP_MODES] = {
	{ "packed", { FIXTURE_PACKED, .budget = "sweep", .budget_thread = VPMM_BUDGET_THREAD_OFF }, true },
	{ "packed-uncached", { FIXTURE_PACKED }, false },
	{ "paged", { FIXTURE_OPTS }, false },
	{ "paged-cached", { FIXTURE_OPTS }, true },
};

static const char *how_often(unsigned int count)
{
	return !count ? "not at all" : count == UINT_MAX ? "from then on" : count == 1 ? "once" : "twice";
}

#define trial_fail(t, format, ...) \
	g_error("%s, %s: call %u of %s fails %s with %d, and any %u calls later %s: " format, (t)->scene->name, \
		(t)->mode->name, (t)->skip + 1, op_names[(t)->op], how_often((t)->err ? (t)->count : 0), (t)->err, \
		(t)->gap + 1, how_often((t)->more), ##__VA_ARGS__)

/* Whether undoing may fail as well. */
static bool is_repeated(const struct trial *t)
{
	return t->count > 1 || t->more;
}

bool sweep_is_full(void)
{
	return !g_strcmp0(g_getenv("VPMM_TEST_SWEEP"), "full");
}

/* One trial */

/*
 * Whether the host may wait for what streams do. Who is short of memory waits before it fails; and a stream that has no
 * id, as beside a capture, gets idle memory, which no stream can wait for in place of the host.
 */
static bool may_wait(const struct trial *t)
{
	return t->scene->waits || t->err == -ENOMEM || (t->op == BACKEND_OP_stream_id && t->err == -EBUSY);
}

/* Whether the library clears or copies memory in the action. */
static bool has_work(const struct sweep_scene *scene)
{
	return scene->reaches == BACKEND_OP_clear || scene->reaches == BACKEND_OP_copy;
}

/* What the library submits to the stream of the action is pending then. */
static void trial_hold(const struct trial *t, struct sweep *s)
{
	s->works = has_work(t->scene);
	if (s->works && !s->captured && !(s->held & 1))
		sweep_busy(s, 0);
}

static void trial_open(struct trial *t, struct sweep *s)
{
	struct backend *inner;

	*s = (struct sweep){ .on = t->on, .opts = t->mode->opts, .cache = t->mode->cache };
	s->idle = may_wait(t) && !t->on->completes;
	s->blocks = g_array_new(FALSE, FALSE, sizeof(struct sweep_block));
	s->graphs = g_ptr_array_new();
	sweep_override(&s->opts, &t->scene->opts);
	/* Tags of earlier trials are no reason to leave the shortest way. */
	atomic_store(&api_defaults.plain_generation, api_defaults.generation);
	if (t->scene->capacity)
		g_setenv("VPMM_HOST_CAPACITY", t->scene->capacity, TRUE);
	assert_ok(t->on->device->open(&inner));
	g_unsetenv("VPMM_HOST_CAPACITY");
	assert_ok(backend_fault_wrap(inner, &s->be));
	assert_ok(s->be->ops->enter(s->be));
	for (int i = 0; i < STREAMS; i++)
		assert_ok(t->on->device->stream_create(&s->streams[i]));
	if (!t->scene->makes)
		assert_ok(sweep_create(s));
	if (t->scene->prepare)
		t->scene->prepare(s);
	if (t->scene->first)
		assert_ok(t->scene->first(s));
	/* On a GPU that would never end. */
	if (!t->scene->waits && sweep_waits_for_held(s))
		trial_fail(t, "the stage waits for work that is held");
	trial_hold(t, s);
}

/* What serves a block: the pool, or the arena of its tag. */
static struct vpmm_pool *pool_of(struct sweep *s, const struct sweep_block *block)
{
	struct tagged tagged;

	return block->word && tags_find(pool_tags(s->pool), (uintptr_t)block->ptr, &tagged) ? tagged.pool : s->pool;
}

/* An address of a block leads to it, whatever has failed. */
static bool is_found(struct sweep *s, const struct sweep_block *block)
{
	struct vpmm_allocation found = { .size = sizeof(found) };
	struct vpmm_pool *pool = pool_of(s, block);
	bool any;

	lock_acquire(&pool->core.lock);
	any = !lookup_pool(pool, (uintptr_t)block->ptr + block->requested - 1, &found);
	lock_release(&pool->core.lock);
	return any && found.base == block->ptr && found.bytes == block->requested;
}

/* The devices that are to access a block can, and no other. */
static bool is_reached(const struct trial *t, const struct sweep *s, const struct sweep_block *block)
{
	uint64_t devices = s->pool->core.settings.peers | UINT64_C(1) << s->pool->core.device;

	for (int device = 0; device < (int)t->on->devices && t->on->reaches; device++) {
		if (t->on->reaches(device, block->ptr, block->size) != (devices >> device & 1))
			return false;
	}
	return true;
}

static void trial_check(struct trial *t, struct sweep *s, const char *when)
{
	/* Without one there are no blocks. */
	if (!s->pool)
		return;
	if (vpmm_pool_check(s->pool))
		trial_fail(t, "%s: %s", when, vpmm_last_error());
	for (guint i = 0; i < s->blocks->len; i++) {
		const struct sweep_block *block = &g_array_index(s->blocks, struct sweep_block, i);

		if (!is_found(s, block))
			trial_fail(t, "%s: the last byte of %zu at %p is not found", when, block->requested,
				   block->ptr);
		/* Nobody can touch it. */
		if (!arena_is_awake(pool_of(s, block)))
			continue;
		if (!block->lost && !t->on->intact(block->ptr, block->size, block->seed))
			trial_fail(t, "%s: the block of %zu bytes at %p is not what it was", when, block->size,
				   block->ptr);
		/* Nobody could undo what was done. */
		if (t->scene->devices && is_repeated(t) && t->err && !s->again)
			continue;
		if (!is_reached(t, s, block))
			trial_fail(t, "%s: the block of %zu bytes at %p is accessible to other devices than"
				   " the pool says", when, block->size, block->ptr);
	}
}

static struct vpmm_stats trial_stats(struct sweep *s)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	if (s->pool)
		assert_ok(vpmm_pool_stats(s->pool, &stats));
	return stats;
}

static void trial_count(struct trial *t, struct sweep *s, bool after)
{
	for (int op = 0; op <= BACKEND_OP_COUNT; op++)
		t->calls[op] = backend_fault_calls(s->be, op) - (after ? t->calls[op] : 0);
}

#define AT_MOST(what) \
	do { \
		if (after.what > before->what) \
			trial_fail(t, #what " was %" PRIu64 ", and is %" PRIu64, before->what, \
				   after.what); \
	} while (0)

static void trial_compare_memory(struct trial *t, const struct vpmm_stats *before, struct vpmm_stats after)
{
	AT_MOST(live);
	AT_MOST(small_live);
	AT_MOST(held);
	/* What could not be given back either is tried again. */
	if (!is_repeated(t)) {
		AT_MOST(shareable);
		AT_MOST(imported);
	}
	AT_MOST(mapped);
	AT_MOST(extents);
	AT_MOST(peak_live);
	/* Address space that the driver does not take back when it should serves the next request. */
	if (t->op != BACKEND_OP_COUNT && t->op != BACKEND_OP_unreserve && !t->more) {
		AT_MOST(chunks);
		AT_MOST(reserved);
	}
}

/* What the program has, without what it has freed. */
static uint64_t in_use(const struct vpmm_stats *stats)
{
	return stats->live + stats->small_live + stats->shareable + stats->imported - stats->held;
}

/* Memory may have been given back; none may have come, and what is allocated is as it was. */
static void trial_compare(struct trial *t, struct sweep *s, const struct vpmm_stats *before)
{
	struct vpmm_stats after = trial_stats(s);
	/*
	 * What the driver's allocator has to take back as the rest of the action fails stays where that fails as well.
	 */
	bool lost = is_repeated(t) && ((t->scene->keeps && after.small_live > before->small_live) ||
				     after.shareable > before->shareable || after.imported > before->imported);
	/* So does what a block has gained. */
	bool grown = t->scene->grows && is_repeated(t) && after.requested == before->requested;

	if (!t->scene->keeps && !(t->scene->undoes && is_repeated(t)))
		trial_compare_memory(t, before, after);
	if (!lost && !grown && (in_use(&after) > in_use(before) ||
		      after.mallocs - after.frees > before->mallocs - before->frees))
		trial_fail(t, "something is allocated");
	if (in_use(&after) < in_use(before) || after.frees != before->frees)
		trial_fail(t, "something was freed");
	if (after.mallocs != before->mallocs)
		trial_fail(t, "it counts as allocated");
	/* Only who is short of memory gives some back. */
	if (t->err != -ENOMEM && !t->scene->capacity && !t->scene->gives && after.mapped < before->mapped)
		trial_fail(t, "%" PRIu64 " bytes were given back", before->mapped - after.mapped);
}

static int trial_act_once(struct trial *t, struct sweep *s, bool waits)
{
	uint64_t before = sweep_host_waits(s);
	unsigned int held = s->held;
	int err = t->scene->act(s);

	if (held && !waits && sweep_host_waits(s) > before)
		trial_fail(t, "the host waits, with streams 0x%x at work", held);
	return err;
}

/* Held work that does not complete when it is waited for has to end first. */
static int trial_act_again(struct trial *t, struct sweep *s)
{
	bool waits = t->scene->waits_again || may_wait(t);

	s->again = true;
	for (int i = 0; i < STREAMS && waits && !t->on->completes; i++) {
		if (s->held & 1u << i)
			sweep_finish(s, i);
	}
	return trial_act_once(t, s, waits);
}

/* Another stream takes what it can have. None of that may still be cleared or copied. */
static void trial_probe(struct trial *t, struct sweep *s, int stream)
{
	static const size_t sizes[] = { 1000, PAGE / 2, PAGE / 2, PAGE, PAGE, 2 * PAGE, 4 * PAGE };
	void *ptrs[G_N_ELEMENTS(sizes)];
	size_t count = 0;

	if (!s->works)
		return;
	while (count < G_N_ELEMENTS(sizes) && !vpmm_malloc(s->pool, &ptrs[count], sizes[count], s->streams[stream]))
		count++;
	trial_check(t, s, "when another stream has got memory");
	while (count)
		assert_ok(vpmm_free(s->pool, ptrs[--count], s->streams[stream]));
}

static void trial_leave(struct trial *t, struct sweep *s)
{
	while (s->blocks->len)
		sweep_drop(s, g_array_index(s->blocks, struct sweep_block, 0).ptr, 2);
	assert_ok(vpmm_pool_trim(s->pool, 0, NULL));
	/* What it has freed, the stream gets without a wait that would order it behind the work of others as well. */
	trial_probe(t, s, 2);
	trial_probe(t, s, 3);
}

static bool may_return(const struct trial *t, int err)
{
	if (t->scene->lacks && err == -ENOMEM && t->err)
		return true;
	if (t->scene->instead && err == t->scene->instead && t->failed)
		return true;
	return t->failed && (err == t->err || (t->failed > 1 && t->more && err == -EIO));
}

/* The action, with its fault, and the same once more if it fails. */
static void trial_act(struct trial *t, struct sweep *s)
{
	struct vpmm_stats before = trial_stats(s);
	bool was = s->pool;
	int err;

	trial_count(t, s, false);
	backend_fault_arm_next(s->be, t->gap, t->more, -EIO);
	backend_fault_arm(s->be, t->op, t->skip, t->err ? t->count : 0, t->err);
	err = trial_act_once(t, s, may_wait(t));
	backend_fault_arm(s->be, t->op, 0, 0, 0);
	t->failed = backend_fault_failed(s->be);
	backend_fault_arm_next(s->be, 0, 0, 0);
	trial_count(t, s, true);
	if (err != t->scene->result && !may_return(t, err))
		trial_fail(t, "the action returns %d: %s", err, vpmm_last_error());
	if (t->op == BACKEND_OP_COUNT && t->count == UINT_MAX && !t->skip && err != -EIO)
		trial_fail(t, "the action returns %d, and no call succeeds", err);
	trial_check(t, s, "after the fault");
	if (err && was)
		trial_compare(t, s, &before);
	if (err && t->leaves) {
		trial_leave(t, s);
		return;
	}
	if (err && was)
		trial_probe(t, s, 3);
	if (err != t->scene->result && trial_act_again(t, s) != t->scene->result)
		trial_fail(t, "the second time, it fails as well: %s", vpmm_last_error());
	trial_check(t, s, "after the action");
}

/* What is paused is back, with what it held; others may have to let go of its memory first. */
static void trial_resume(struct trial *t, struct sweep *s)
{
	for (guint i = s->blocks->len; i > 0; i--) {
		const struct sweep_block *block = &g_array_index(s->blocks, struct sweep_block, i - 1);

		if (!block->word || block->word & VPMM_TAG_STAY)
			sweep_drop(s, block->ptr, (int)(i % STREAMS));
	}
	assert_ok(vpmm_resume(s->pool, VPMM_TAG_ALL, s->streams[0]));
	trial_check(t, s, "when all is resumed");
}

/* Frees all that is allocated, and lets go of the graphs. */
static void trial_free(struct sweep *s)
{
	for (int i = 0; s->blocks->len; i++)
		sweep_drop(s, g_array_index(s->blocks, struct sweep_block, 0).ptr, i % STREAMS);
	if (s->before)
		assert_ok(vpmm_graph_retire(s->pool, s->before, s->streams[2]));
	if (s->graph)
		assert_ok(vpmm_graph_retire(s->pool, s->graph, s->streams[1]));
}

/* The pool serves on, and what was held is let go of, but for what is to wait for another thread. */
static void trial_serve(struct trial *t, struct sweep *s)
{
	for (int i = 0; i < HELD_CALLS; i++) {
		void *ptr;

		assert_ok(vpmm_malloc(s->pool, &ptr, (size_t)(i % 2 + 1) * PAGE, s->streams[i % STREAMS]));
		assert_ok(vpmm_free(s->pool, ptr, s->streams[i % STREAMS]));
	}
	if (trial_stats(s).held && !g_hash_table_size(s->pool->pending.silent))
		trial_fail(t, "something is held for nobody");
	sweep_have(s, PAGE + 512, 1);
	sweep_have(s, 2 * PAGE, 2);
	trial_check(t, s, "at the end");
}

static void trial_left(struct trial *t, struct sweep *s)
{
	struct backend_left left, none = { 0 };

	backend_fault_left(s->be, &left);
	if (memcmp(&left, &none, sizeof(left)))
		trial_fail(t, "left are %" PRIu64 " reservations, %" PRIu64 " handles, %"
			   PRIu64 " mappings, %" PRIu64 " events, %" PRIu64
			   " small allocations", left.reservations, left.handles, left.mappings, left.events,
			   left.small);
}

/* All that is left goes, and the pool serves on; at the end nothing is left. */
static void trial_close(struct trial *t, struct sweep *s)
{
	for (int i = 0; i < STREAMS; i++) {
		if (s->captured & 1u << i && sweep_end_try(s, i))
			trial_fail(t, "the capture has not survived");
	}
	/* One may wait for another. */
	for (int i = 0; i < STREAMS * STREAMS; i++)
		sweep_finish(s, i % STREAMS);
	for (int i = 0; i < STREAMS && t->on->settle; i++)
		t->on->settle(s->streams[i]);
	if (s->pool) {
		if (pool_tags(s->pool))
			trial_resume(t, s);
		trial_free(s);
		trial_serve(t, s);
		sweep_destroy_graphs(s);
		pool_delete(s->pool, POOL_END_WAIT);
	}
	trial_left(t, s);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(t->on->device->stream_destroy(s->streams[i]));
	s->be->ops->leave(s->be);
	s->be->ops->close(s->be);
	g_array_free(s->blocks, TRUE);
	g_ptr_array_free(s->graphs, TRUE);
}

static void trial_run(struct trial *t)
{
	struct sweep s;

	trial_open(t, &s);
	trial_act(t, &s);
	trial_close(t, &s);
}

/* All trials of an action */

/* Of all tests of the program. */
static struct {
	uint64_t calls;
	uint64_t runs;
	uint64_t left_out;
} totals;

static bool is_left_out(const struct sweep_device *on)
{
	return (totals.runs + totals.left_out) % setting_sweep(MAX(on->each, 1));
}

void sweep_run(struct plan *p, struct trial *t)
{
	trial_run(t);
	if (p->settled)
		p->settled();
	p->runs++;
	totals.runs++;
}

void sweep_try(struct plan *p, struct trial t)
{
	if (is_left_out(p->on))
		totals.left_out++;
	else
		sweep_run(p, &t);
}

/* What these never get back is lost, whoever asks: after the last try of all there is nobody left to try again. */
static bool gives_back(enum backend_op op)
{
	return op == BACKEND_OP_unmap || op == BACKEND_OP_release || op == BACKEND_OP_unreserve ||
	       op == BACKEND_OP_small_free;
}

/* Each call of an operation fails once, and from then on. */
static void plan_op(struct plan *p, const struct trial *dry, enum backend_op op, int err)
{
	struct trial t = { .on = p->on, .scene = p->scene, .mode = dry->mode, .op = op, .err = err };

	for (t.skip = 0; t.skip < dry->calls[op]; t.skip++) {
		t.count = 1;
		sweep_try(p, t);
		t.leaves = has_work(p->scene);
		if (t.leaves)
			sweep_try(p, t);
		t.leaves = false;
		if (p->scene->unmakes && gives_back(op))
			continue;
		t.count = UINT_MAX;
		sweep_try(p, t);
	}
}

static void plan_mode(struct plan *p, const struct sweep_mode *mode)
{
	struct trial dry = { .on = p->on, .scene = p->scene, .mode = mode };

	trial_run(&dry);
	/* Where work completes when it likes, a wait that is there in one run may not be in the next. */
	if (!dry.calls[p->scene->reaches] && p->on->completes)
		g_error("%s, %s: the action does not call %s", p->scene->name, mode->name,
			op_names[p->scene->reaches]);
	p->calls += dry.calls[BACKEND_OP_COUNT];
	totals.calls += dry.calls[BACKEND_OP_COUNT];
	for (int op = 0; op < BACKEND_OP_COUNT; op++) {
		plan_op(p, &dry, op, -EIO);
		for (unsigned int i = 0; i < SWEEP_ERRORS && sweep_errors[op][i]; i++)
			plan_op(p, &dry, op, sweep_errors[op][i]);
	}
	/* What fails a second time when a pool goes does not come back. */
	if (p->scene->unmakes)
		return;
	sweep_next(p, &dry);
	if (!g_strcmp0(g_getenv("VPMM_TEST_PAIRS"), "all")) {
		sweep_all_pairs(p, &dry);
	} else {
		for (unsigned int i = 0; i < setting("VPMM_TEST_PAIRS", p->on->pairs); i++)
			sweep_pair(p, &dry);
	}
}

static void sweep_test(gconstpointer data)
{
	struct plan plan = *(const struct plan *)data;

	if (!plan.ready())
		return;
	if (plan.scene->capacity && !plan.on->capacity) {
		g_test_skip("nobody says how much memory the device has");
		return;
	}
	if (plan.scene->devices > MAX(plan.on->devices, 1)) {
		g_test_skip("there is no other device");
		return;
	}
	for (int i = 0; i < SWEEP_MODES; i++) {
		if (plan.scene->modes & 1u << i)
			plan_mode(&plan, &modes[i]);
	}
	g_test_message("%s on %s: %" PRIu64 " calls, %" PRIu64 " runs", plan.scene->name,
		       plan.on->name, plan.calls, plan.runs);
}

static void total_test(void)
{
	if (!totals.runs) {
		g_test_skip("nothing was run");
		return;
	}
	g_test_message("%" PRIu64 " calls, %" PRIu64 " runs with a fault, %" PRIu64 " left out", totals.calls,
		       totals.runs, totals.left_out);
	totals.calls = totals.runs = totals.left_out = 0;
}

static void add_scenes(const char *prefix, const struct plan *made, const struct sweep_scene *scenes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct plan *plan = g_memdup2(made, sizeof(*made));
		char *path = g_strdup_printf("%s/%s", prefix, scenes[i].name);

		plan->scene = &scenes[i];
		g_test_add_data_func_full(path, plan, sweep_test, g_free);
		g_free(path);
	}
}

void sweep_add(const char *prefix, const struct sweep_device *on, bool (*ready)(void), void (*settled)(void))
{
	const struct plan plan = { .on = on, .ready = ready, .settled = settled };
	char *path = g_strdup_printf("%s/total", prefix);

	add_scenes(prefix, &plan, sweep_scenes, sweep_scene_count);
	add_scenes(prefix, &plan, sweep_held_scenes, sweep_held_scene_count);
	add_scenes(prefix, &plan, sweep_realloc_scenes, sweep_realloc_scene_count);
	add_scenes(prefix, &plan, sweep_growable_scenes, sweep_growable_scene_count);
	add_scenes(prefix, &plan, sweep_export_scenes, sweep_export_scene_count);
	add_scenes(prefix, &plan, sweep_peer_scenes, sweep_peer_scene_count);
	add_scenes(prefix, &plan, sweep_mirror_scenes, sweep_mirror_scene_count);
	add_scenes(prefix, &plan, sweep_pause_scenes, sweep_pause_scene_count);
	g_test_add_func(path, total_test);
	g_free(path);
}
