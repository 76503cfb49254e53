// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "calls/pool.h"
#include "sweep/sweep.h"

#define ERRORS_MAX 4

/* Each call looks at some of what is held, and nothing holds as much as so many see. */
#define HELD_CALLS 4

struct sweep_block {
	void *ptr;
	size_t size;
	uint64_t seed;
};

/* Which errors an operation can give, but -EIO, which all can. */
static const int errors[BACKEND_OP_COUNT][ERRORS_MAX] = {
	[BACKEND_OP_enter] = { -EBUSY },
	[BACKEND_OP_reserve] = { -ENOMEM },
	[BACKEND_OP_create] = { -ENOMEM },
	[BACKEND_OP_map] = { -ENOMEM },
	[BACKEND_OP_access] = { -ENOMEM },
	[BACKEND_OP_unmap] = { -EBUSY },
	[BACKEND_OP_stream_id] = { -EINVAL, -EBUSY },
	[BACKEND_OP_stream_capture] = { -EBUSY },
	[BACKEND_OP_stream_wait] = { -EINVAL },
	[BACKEND_OP_event_create] = { -ENOMEM },
	[BACKEND_OP_event_create_timed] = { -ENOMEM },
	[BACKEND_OP_event_record] = { -EINVAL },
	[BACKEND_OP_event_elapsed] = { -EBUSY },
	[BACKEND_OP_small_alloc] = { -ENOMEM, -ENOTSUP },
	[BACKEND_OP_small_free] = { -EINVAL },
};

static const char *const op_names[BACKEND_OP_COUNT + 1] = {
#define X(name) #name,
	BACKEND_FAULT_OPS(X)
#undef X
	"every operation",
};

static const struct mode {
	const char *name;
	struct vpmm_opts opts;
	bool cache;
} modes[SWEEP_MODES] = {
	{ "packed", { FIXTURE_PACKED }, true },
	{ "packed-uncached", { FIXTURE_PACKED }, false },
	{ "paged", { FIXTURE_OPTS }, false },
	{ "paged-cached", { FIXTURE_OPTS }, true },
};

/**
 * struct trial - one run of one action
 * @on: the device
 * @scene: the action
 * @mode: the kind of pool
 * @op: which operation fails; BACKEND_OP_COUNT: all of them
 * @skip: how many calls pass before
 * @count: how many fail then
 * @err: with what; 0: nothing fails
 * @calls: receives how often the action called each operation
 */
struct trial {
	const struct sweep_device *on;
	const struct sweep_scene *scene;
	const struct mode *mode;
	enum backend_op op;
	unsigned int skip;
	unsigned int count;
	int err;
	uint64_t calls[BACKEND_OP_COUNT + 1];
};

/* What a test is about, and what it has counted. */
struct plan {
	const struct sweep_device *on;
	const struct sweep_scene *scene;
	bool (*ready)(void);
	void (*settled)(void);
	uint64_t calls;
	uint64_t runs;
};

static const char *how_often(const struct trial *t)
{
	if (!t->err)
		return "not at all";
	return t->count == UINT_MAX ? "from then on" : t->count == 1 ? "once" : "twice";
}

#define trial_fail(t, format, ...) \
	g_error("%s, %s: call %u of %s fails %s with %d: " format, (t)->scene->name, (t)->mode->name, (t)->skip + 1, \
		op_names[(t)->op], how_often(t), (t)->err, ##__VA_ARGS__)

bool sweep_is_full(void)
{
	return !g_strcmp0(g_getenv("VPMM_TEST_SWEEP"), "full");
}

/* Situations and actions */

static uint64_t next_seed(void)
{
	static uint64_t seed;

	return ++seed * UINT64_C(0xD1342543DE82EF95);
}

static int allocate(struct sweep *s, size_t size, int stream, unsigned int flags)
{
	struct sweep_block block = { .size = size, .seed = next_seed() };
	int err;

	err = vpmm_malloc_flags(s->pool, &block.ptr, size, s->streams[stream], flags);
	if (err)
		return err;
	if (s->on->settle && !s->held && !(s->captured & 1u << stream))
		s->on->settle(s->streams[stream]);
	s->on->fill(block.ptr, size, block.seed);
	g_array_append_val(s->blocks, block);
	return 0;
}

int sweep_malloc(struct sweep *s, size_t size, int stream)
{
	return allocate(s, size, stream, 0);
}

int sweep_zero(struct sweep *s, size_t size, int stream)
{
	return allocate(s, size, stream, VPMM_ZERO);
}

int sweep_free(struct sweep *s, void *ptr, int stream)
{
	int err;

	err = vpmm_free(s->pool, ptr, s->streams[stream]);
	for (guint i = 0; i < s->blocks->len && !err; i++) {
		if (g_array_index(s->blocks, struct sweep_block, i).ptr == ptr)
			g_array_remove_index_fast(s->blocks, i--);
	}
	return err;
}

static guint find_block(struct sweep *s, const void *ptr)
{
	guint i = 0;

	while (g_array_index(s->blocks, struct sweep_block, i).ptr != ptr) {
		i++;
		g_assert_cmpuint(i, <, s->blocks->len);
	}
	return i;
}

/* The contents may be copied behind what is pending. */
static void settle_all(struct sweep *s, int stream)
{
	for (int i = 0; i < STREAMS; i++) {
		if (s->held & 1u << i)
			sweep_finish(s, i);
	}
	if (s->on->settle)
		s->on->settle(s->streams[stream]);
}

int sweep_realloc(struct sweep *s, void **ptr, size_t size, int stream)
{
	guint i = find_block(s, *ptr);
	struct sweep_block *block = &g_array_index(s->blocks, struct sweep_block, i);
	size_t kept = MIN(block->size, size);
	int err;

	/* The last word that is kept is one that is looked at. */
	if (!s->captured)
		s->on->fill(*ptr, kept, block->seed);
	err = vpmm_realloc(s->pool, ptr, size, s->streams[stream]);
	if (err)
		return err;
	/* A capture copies nothing before the launch of its graph. */
	if (s->captured & 1u << stream) {
		g_array_remove_index_fast(s->blocks, i);
		return 0;
	}
	settle_all(s, stream);
	block->ptr = *ptr;
	block->size = kept;
	return 0;
}

void *sweep_have(struct sweep *s, size_t size, int stream)
{
	assert_ok(sweep_malloc(s, size, stream));
	return g_array_index(s->blocks, struct sweep_block, s->blocks->len - 1).ptr;
}

void sweep_drop(struct sweep *s, void *ptr, int stream)
{
	assert_ok(sweep_free(s, ptr, stream));
}

void sweep_busy(struct sweep *s, int stream)
{
	if (s->idle)
		return;
	assert_ok(s->on->device->hold(s->streams[stream]));
	s->held |= 1u << stream;
}

void sweep_finish(struct sweep *s, int stream)
{
	assert_ok(s->on->device->finish(s->streams[stream]));
	s->held &= ~(1u << stream);
}

void sweep_capture(struct sweep *s, int stream)
{
	assert_ok(s->on->device->capture_begin(s->streams[stream]));
	s->captured |= 1u << stream;
	assert_ok(vpmm_capture_id(s->pool, s->streams[stream], &s->graph));
	g_assert_cmpuint(s->graph, !=, 0);
}

void sweep_end(struct sweep *s, int stream)
{
	assert_ok(s->on->device->capture_end(s->streams[stream]));
	s->captured &= ~(1u << stream);
}

int sweep_create(struct sweep *s)
{
	struct settings settings;
	int err;

	assert_ok(settings_from_opts(&settings, &s->opts));
	err = pool_new(&s->pool, s->be, &settings);
	/* What a cache serves is not cleared. */
	if (!err)
		s->pool->core.settings.cache = s->cache && s->opts.scrub != VPMM_SCRUB_ALWAYS;
	return err;
}

/* One trial */

static void override(struct vpmm_opts *opts, const struct vpmm_opts *with)
{
	opts->va_size = with->va_size ? with->va_size : opts->va_size;
	opts->pages = with->pages;
	opts->reuse = with->reuse;
	opts->extent_max = with->extent_max ? with->extent_max : opts->extent_max;
	opts->small = with->small ? with->small : opts->small;
	opts->frag_ratio = with->frag_ratio;
	opts->overhead = with->overhead;
	opts->limit = with->limit;
	opts->limit_percent = with->limit_percent;
	opts->keep = with->keep;
	opts->scrub = with->scrub;
}

static void trial_open(struct trial *t, struct sweep *s)
{
	struct backend *inner;

	*s = (struct sweep){ .on = t->on, .opts = t->mode->opts, .cache = t->mode->cache };
	/* What finds no memory waits for what is pending before it fails. */
	s->idle = (t->scene->waits || t->err == -ENOMEM) && !t->on->completes;
	s->blocks = g_array_new(FALSE, FALSE, sizeof(struct sweep_block));
	override(&s->opts, &t->scene->opts);
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
}

static void trial_check(struct trial *t, struct sweep *s, const char *when)
{
	if (s->pool && vpmm_pool_check(s->pool))
		trial_fail(t, "%s: %s", when, vpmm_last_error());
	for (guint i = 0; i < s->blocks->len; i++) {
		const struct sweep_block *block = &g_array_index(s->blocks, struct sweep_block, i);

		if (!t->on->intact(block->ptr, block->size, block->seed))
			trial_fail(t, "%s: the block of %zu bytes at %p is not what it was", when, block->size,
				   block->ptr);
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
			trial_fail(t, #what " was %" G_GUINT64_FORMAT ", and is %" G_GUINT64_FORMAT, before->what, \
				   after.what); \
	} while (0)

static void trial_compare_memory(struct trial *t, const struct vpmm_stats *before, struct vpmm_stats after)
{
	AT_MOST(live);
	AT_MOST(small_live);
	AT_MOST(held);
	AT_MOST(mapped);
	AT_MOST(extents);
	AT_MOST(mallocs);
	AT_MOST(peak_live);
	/* Address space that the driver does not take back when it should serves the next request. */
	if (t->op != BACKEND_OP_COUNT && t->op != BACKEND_OP_unreserve) {
		AT_MOST(chunks);
		AT_MOST(reserved);
	}
}

/* What the program has, without what it has freed. */
static uint64_t in_use(const struct vpmm_stats *stats)
{
	return stats->live + stats->small_live - stats->held;
}

/* Memory may have been given back; none may have come, and what is allocated is as it was. */
static void trial_compare(struct trial *t, struct sweep *s, const struct vpmm_stats *before)
{
	struct vpmm_stats after = trial_stats(s);
	/* What the driver's allocator has to take back as the rest of the action fails stays where that fails as well. */
	bool lost = t->scene->keeps && t->count > 1 && after.small_live > before->small_live;

	if (!t->scene->keeps)
		trial_compare_memory(t, before, after);
	if (!lost && (in_use(&after) > in_use(before) ||
		      after.mallocs - after.frees > before->mallocs - before->frees))
		trial_fail(t, "something is allocated");
	if (in_use(&after) < in_use(before) || (!t->scene->keeps && after.frees != before->frees))
		trial_fail(t, "something was freed");
	/* Only who is short of memory gives some back. */
	if (t->err != -ENOMEM && !t->scene->capacity && !t->scene->gives && after.mapped < before->mapped)
		trial_fail(t, "%" G_GUINT64_FORMAT " bytes were given back", before->mapped - after.mapped);
}

/* The action, with its fault, and the same once more if it fails. */
static void trial_act(struct trial *t, struct sweep *s)
{
	struct vpmm_stats before = trial_stats(s);
	bool was = s->pool;
	int err;

	trial_count(t, s, false);
	backend_fault_arm(s->be, t->op, t->skip, t->err ? t->count : 0, t->err);
	err = t->scene->act(s);
	backend_fault_arm(s->be, t->op, 0, 0, 0);
	trial_count(t, s, true);
	if (err != t->scene->result && (err != t->err || t->calls[t->op] <= t->skip))
		trial_fail(t, "the action returns %d: %s", err, vpmm_last_error());
	if (t->op == BACKEND_OP_COUNT && t->count == UINT_MAX && !t->skip && err != -EIO)
		trial_fail(t, "the action returns %d, and no call succeeds", err);
	trial_check(t, s, "after the fault");
	if (err && was)
		trial_compare(t, s, &before);
	if (err != t->scene->result && t->scene->act(s) != t->scene->result)
		trial_fail(t, "the second time, it fails as well: %s", vpmm_last_error());
	trial_check(t, s, "after the action");
}

/* Frees all that is allocated, and lets go of the graph. */
static void trial_free(struct sweep *s)
{
	for (int i = 0; s->blocks->len; i++)
		sweep_drop(s, g_array_index(s->blocks, struct sweep_block, 0).ptr, i % STREAMS);
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
		trial_fail(t, "left are %" G_GUINT64_FORMAT " reservations, %" G_GUINT64_FORMAT " handles, %"
			   G_GUINT64_FORMAT " mappings, %" G_GUINT64_FORMAT " events, %" G_GUINT64_FORMAT
			   " small allocations", left.reservations, left.handles, left.mappings, left.events,
			   left.small);
}

/* All that is left goes, and the pool serves on; at the end nothing is left. */
static void trial_close(struct trial *t, struct sweep *s)
{
	for (int i = 0; i < STREAMS; i++) {
		if (s->captured & 1u << i && t->on->device->capture_end(s->streams[i]))
			trial_fail(t, "the capture has not survived");
	}
	s->captured = 0;
	/* One may wait for another. */
	for (int i = 0; i < STREAMS * STREAMS; i++)
		sweep_finish(s, i % STREAMS);
	for (int i = 0; i < STREAMS && t->on->settle; i++)
		t->on->settle(s->streams[i]);
	if (s->pool) {
		trial_free(s);
		trial_serve(t, s);
		pool_delete(s->pool);
	}
	trial_left(t, s);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(t->on->device->stream_destroy(s->streams[i]));
	s->be->ops->leave(s->be);
	s->be->ops->close(s->be);
	g_array_free(s->blocks, TRUE);
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
	const char *text = g_getenv("VPMM_TEST_SWEEP");
	guint64 each = text ? g_ascii_strtoull(text, NULL, 10) : on->each;

	return each > 1 && (totals.runs + totals.left_out) % each;
}

static void plan_run(struct plan *p, struct trial t)
{
	if (is_left_out(p->on)) {
		totals.left_out++;
		return;
	}
	trial_run(&t);
	if (p->settled)
		p->settled();
	p->runs++;
	totals.runs++;
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
		plan_run(p, t);
		if (p->scene->unmakes && gives_back(op))
			continue;
		t.count = UINT_MAX;
		plan_run(p, t);
	}
}

/* Each call fails together with the next, which may be there to undo what was done; and with all that follow. */
static void plan_any(struct plan *p, const struct trial *dry)
{
	struct trial t = { .on = p->on, .scene = p->scene, .mode = dry->mode, .op = BACKEND_OP_COUNT, .err = -EIO };

	for (t.skip = 0; t.skip < dry->calls[BACKEND_OP_COUNT]; t.skip++) {
		t.count = 2;
		plan_run(p, t);
		/* Nothing of a pool that is none yet would ever come back. */
		if (p->scene->makes)
			continue;
		t.count = UINT_MAX;
		plan_run(p, t);
	}
}

static void plan_mode(struct plan *p, const struct mode *mode)
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
		for (unsigned int i = 0; i < ERRORS_MAX && errors[op][i]; i++)
			plan_op(p, &dry, op, errors[op][i]);
	}
	/* What fails a second time when a pool goes does not come back. */
	if (!p->scene->unmakes)
		plan_any(p, &dry);
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
	for (int i = 0; i < SWEEP_MODES; i++) {
		if (plan.scene->modes & 1u << i)
			plan_mode(&plan, &modes[i]);
	}
	g_test_message("%s on %s: %" G_GUINT64_FORMAT " calls, %" G_GUINT64_FORMAT " runs", plan.scene->name,
		       plan.on->name, plan.calls, plan.runs);
}

static void total_test(void)
{
	if (!totals.runs) {
		g_test_skip("nothing was run");
		return;
	}
	g_test_message("%zu actions, %" G_GUINT64_FORMAT " calls, %" G_GUINT64_FORMAT " runs with a fault, %"
		       G_GUINT64_FORMAT " left out", sweep_scene_count + sweep_held_scene_count, totals.calls, totals.runs,
		       totals.left_out);
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
	g_test_add_func(path, total_test);
	g_free(path);
}
