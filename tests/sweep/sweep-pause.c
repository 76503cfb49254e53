// SPDX-License-Identifier: LGPL-2.1-or-later
/* Actions that pause and resume tags, and those on blocks of tags that are paused. */
#include <errno.h>
#include <limits.h>

#include "support/fault.h"
#include "sweep/sweep-scenes.h"
#include "util/tag.h"
#include "vpmm-shared.h"

/* Two pausable tags. */
static vpmm_tag tag_at(int i)
{
	static const char *const names[] = { "sweep-first", "sweep-second" };
	vpmm_tag tag;

	assert_ok(vpmm_tag_open(names[i], VPMM_TAG_PAUSABLE, &tag));
	return tag;
}

static void *have_tagged(struct sweep *s, vpmm_tag word, size_t size, int stream)
{
	void *ptr;

	s->word = word;
	ptr = sweep_have(s, size, stream);
	s->word = 0;
	return ptr;
}

/* Of what is paused and was not saved nothing is left. */
static void lose(struct sweep *s, vpmm_tag tag, bool all)
{
	for (guint i = 0; i < s->blocks->len; i++) {
		struct sweep_block *block = &g_array_index(s->blocks, struct sweep_block, i);

		if ((tag == VPMM_TAG_ALL || tag_of(block->word) == tag) && (all || block->word & VPMM_TAG_DROP))
			block->lost = block->word && !(block->word & VPMM_TAG_STAY);
	}
}

/* A pause that fails, and cannot be undone, has lost nothing. */
static void resume_stuck(struct sweep *s, vpmm_tag tag)
{
	assert_ok(vpmm_resume(s->pool, tag, s->streams[3]));
	for (guint i = 0; i < s->blocks->len; i++) {
		const struct sweep_block *block = &g_array_index(s->blocks, struct sweep_block, i);

		g_assert_true(block->lost || s->on->intact(block->ptr, block->size, block->seed));
	}
}

static int pause_tag(struct sweep *s, vpmm_tag tag, unsigned int flags)
{
	int err;

	if (s->again)
		resume_stuck(s, tag);
	err = vpmm_pause(s->pool, tag, flags);
	if (!err)
		lose(s, tag, flags);
	return err;
}

static int act_pause(struct sweep *s)
{
	return pause_tag(s, tag_at(0), 0);
}

static int act_pause_drop(struct sweep *s)
{
	return pause_tag(s, tag_at(0), VPMM_PAUSE_DROP);
}

/* What the first has dropped is lost, even if the second cannot be paused. */
static int act_pause_all(struct sweep *s)
{
	lose(s, VPMM_TAG_ALL, false);
	return pause_tag(s, VPMM_TAG_ALL, 0);
}

static int act_prepare(struct sweep *s)
{
	return vpmm_pause_prepare(s->pool, tag_at(0));
}

static int act_resume(struct sweep *s)
{
	return vpmm_resume(s->pool, tag_at(0), s->streams[0]);
}

static int act_resume_all(struct sweep *s)
{
	return vpmm_resume(s->pool, VPMM_TAG_ALL, VPMM_STREAM_ANY);
}

/* Blocks of each kind, with what was freed between them. Few have contents that are saved, as copies take time. */
static void have_blocks(struct sweep *s, int tag)
{
	vpmm_tag word = tag_at(tag);
	void *gap;

	have_tagged(s, word, PAGE / 8, 0);
	gap = have_tagged(s, word, PAGE, 1);
	s->ptr = have_tagged(s, word, PAGE + 512, 0);
	have_tagged(s, word, 1000, 1);
	have_tagged(s, word | VPMM_TAG_DROP, PAGE, 0);
	have_tagged(s, word | VPMM_TAG_STAY, PAGE / 8, 0);
	sweep_drop(s, gap, 1);
	s->word = word | VPMM_TAG_DROP;
	assert_ok(sweep_growable(s, PAGE, 3 * PAGE, 2));
	s->word = 0;
}

static bool is_paused(struct sweep *s)
{
	struct vpmm_tag_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_tag_stats(s->pool, tag_at(0), &stats));
	return stats.paused;
}

/* Streams work on what is to be paused, and on what was freed of it. */
static void stage_tag(struct sweep *s)
{
	sweep_have(s, PAGE, 1);
	have_blocks(s, 0);
	use(s, s->ptr, 2);
	sweep_busy(s, 1);
	sweep_busy(s, 2);
	s->number = PAGE;
}

/* The second pause and resume have host memory, and blocks where others were. */
static void stage_again(struct sweep *s)
{
	stage_tag(s);
	assert_ok(act_pause(s));
	assert_ok(act_resume(s));
	sweep_drop(s, s->ptr, 0);
	have_tagged(s, tag_at(0), PAGE + 512, 1);
}

/* A pause that was to drop the contents has failed, and undoing it as well. Old mappings may go at a first try. */
static void stage_stuck(struct sweep *s)
{
	stage_tag(s);
	for (int tries = 0; tries < 2 && !is_paused(s); tries++) {
		backend_fault_arm(s->be, OP(unmap), 1, 1, -EIO);
		backend_fault_arm(s->be, OP(map), 0, UINT_MAX, -EIO);
		g_assert_cmpint(vpmm_pause(s->pool, tag_at(0), VPMM_PAUSE_DROP), ==, -EIO);
		backend_fault_arm(s->be, OP(map), 0, 0, 0);
	}
	g_assert_true(is_paused(s));
}

static void stage_tags(struct sweep *s)
{
	have_blocks(s, 0);
	sweep_have(s, PAGE, 0);
	have_blocks(s, 1);
	sweep_busy(s, 0);
}

/* The pause waits for what it copies; the streams go on behind it. */
static void stage_paused(struct sweep *s)
{
	stage_tag(s);
	sweep_finish(s, 1);
	sweep_finish(s, 2);
	assert_ok(act_pause(s));
	sweep_busy(s, 1);
	sweep_busy(s, 2);
}

/* Some was freed meanwhile, as a whole and in part of its memory. */
static void stage_paused_freed(struct sweep *s)
{
	stage_paused(s);
	sweep_drop(s, s->ptr, 1);
}

/* Others have the memory: the pool may hold no more. */
static void stage_paused_full(struct sweep *s)
{
	have_tagged(s, tag_at(0) | VPMM_TAG_DROP, 4 * PAGE, 0);
	assert_ok(act_pause(s));
	s->ptr = sweep_have(s, 6 * PAGE, 1);
}

/* They have freed it, and are not done with it. */
static void stage_paused_taken(struct sweep *s)
{
	stage_paused_full(s);
	sweep_busy(s, 1);
	sweep_drop(s, s->ptr, 1);
}

/* The other tag has it, free. */
static void stage_paused_lent(struct sweep *s)
{
	void *ptr;

	have_tagged(s, tag_at(0) | VPMM_TAG_DROP, 4 * PAGE, 0);
	assert_ok(act_pause(s));
	ptr = have_tagged(s, tag_at(1), 5 * PAGE, 1);
	have_tagged(s, tag_at(1), PAGE, 1);
	sweep_drop(s, ptr, 1);
}

/* Memory of a graph goes with that of other blocks of the tag. */
static void stage_graph(struct sweep *s)
{
	have_blocks(s, 0);
	sweep_capture(s, 0);
	s->word = tag_at(0);
	assert_ok(sweep_malloc(s, PAGE, 0));
	s->word = 0;
	sweep_end(s, 0);
}

static void stage_capture(struct sweep *s)
{
	have_blocks(s, 0);
	sweep_capture(s, 0);
}

static void stage_capture_paused(struct sweep *s)
{
	have_blocks(s, 0);
	assert_ok(act_pause(s));
	sweep_capture(s, 0);
}

static void stage_peers(struct sweep *s)
{
	const int device = 1;

	stage_tag(s);
	assert_ok(vpmm_pool_set_peers(s->pool, &device, 1));
}

/* Other devices get access to what sleeps when it is back. */
static void stage_peers_paused(struct sweep *s)
{
	const int device = 2;

	stage_peers(s);
	assert_ok(act_pause(s));
	assert_ok(vpmm_pool_set_peers(s->pool, &device, 1));
}

/* The mirror of the situation: what it was told of is not there, until it is told that it is. */
static struct {
	struct vpmm_mirror *mirror;
	GHashTable *gone;
} told;

static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	(void)mirror;
	(void)data;
	g_assert_true((char *)start < (char *)end);
	for (char *page = start; page < (char *)end; page += PAGE) {
		if (action == VPMM_MIRROR_UNMAP)
			g_hash_table_add(told.gone, page);
		else
			g_hash_table_remove(told.gone, page);
	}
}

static const struct vpmm_mirror_ops ops = { sizeof(ops), update };

static void watch(struct sweep *s)
{
	told.gone = g_hash_table_new(NULL, NULL);
	assert_ok(vpmm_mirror_register(s->pool, &told.mirror, &ops, NULL));
}

/* The mirror is not the pool's alone, so it ends here. The block of the situation is there, or it was told. */
static int end_watched(struct sweep *s, int err, bool there)
{
	char *page = (char *)s->ptr - (uintptr_t)s->ptr % PAGE;

	g_assert_cmpint(!g_hash_table_contains(told.gone, page), ==, there);
	if (err)
		return err;
	vpmm_mirror_unregister(told.mirror);
	g_hash_table_destroy(told.gone);
	return 0;
}

static int act_pause_watched(struct sweep *s)
{
	int err = act_pause(s);

	return end_watched(s, err, !is_paused(s));
}

static int act_resume_watched(struct sweep *s)
{
	int err = act_resume(s);

	return end_watched(s, err, !is_paused(s));
}

static void stage_watched(struct sweep *s)
{
	stage_tag(s);
	watch(s);
}

static int act_destroy(struct sweep *s)
{
	pool_delete(s->pool, POOL_END_WAIT);
	s->pool = NULL;
	g_array_set_size(s->blocks, 0);
	return 0;
}

/* A block of the tag, which has no memory while the tag is paused. */
static int act_realloc(struct sweep *s)
{
	return sweep_realloc(s, &s->ptr, 3 * PAGE, 0);
}

static int act_realloc_paused(struct sweep *s)
{
	void *ptr = s->ptr;

	return vpmm_realloc(s->pool, &ptr, 3 * PAGE, s->streams[0]);
}

static int act_use(struct sweep *s)
{
	return vpmm_use(s->pool, s->ptr, s->streams[3]);
}

static int act_retire(struct sweep *s)
{
	return vpmm_stream_retire(s->pool, s->streams[2]);
}

static int act_retire_graph(struct sweep *s)
{
	return vpmm_graph_retire(s->pool, s->graph, s->streams[1]);
}

static void stage_graph_paused(struct sweep *s)
{
	stage_graph(s);
	assert_ok(act_pause(s));
}

/* A pause gives free memory back before it can fail, and both calls wait for what they copy. */
#define PAUSE .gives = true, .waits = true
#define LIMIT .opts = { .limit = 8 * PAGE }, PAUSE
#define SCRUB .opts = { .scrub = VPMM_SCRUB_STREAM }, PAUSE
#define PEERS .devices = 3, PAUSE

/* What a cache has is free before either call does anything; and they do not ask the policy for anything. */
#define EITHER (SWEEP_PACKED | SWEEP_PAGED)

const struct sweep_scene sweep_pause_scenes[] = {
	{ "pause-first", EITHER, OP(info), NULL, act_pause, PAUSE },
	{ "pause", ALL, OP(host_create), stage_tag, act_pause, PAUSE },
	{ "pause-drop", EITHER, OP(unmap), stage_tag, act_pause_drop, PAUSE },
	{ "pause-drop-scrub", EITHER, OP(unmap), stage_tag, act_pause_drop, SCRUB },
	{ "pause-prepare", EITHER, OP(host_access), stage_tag, act_prepare, PAUSE },
	{ "pause-prepared", EITHER, OP(stream_create), stage_tag, act_pause, PAUSE, .first = act_prepare },
	{ "pause-again", PACKED, OP(release), stage_again, act_pause, PAUSE },
	{ "pause-all", SWEEP_PACKED, OP(host_create), stage_tags, act_pause_all, PAUSE, .undoes = true },
	{ "pause-other", SWEEP_PACKED, OP(unmap), stage_tags, act_pause_all, PAUSE, .first = act_pause, .undoes = true },
	{ "pause-graph", SWEEP_PACKED, OP(unmap), stage_graph, act_pause, PAUSE },
	{ "pause-captured", EITHER, OP(unmap), stage_capture, act_pause, PAUSE },
	{ "pause-peers", SWEEP_PACKED, OP(unmap), stage_peers, act_pause, PEERS },
	{ "pause-mirror", SWEEP_PACKED, OP(unmap), stage_watched, act_pause_watched, PAUSE },
	{ "paused-malloc", EITHER, OP(create), stage_paused, act_malloc },
	{ "paused-free", ALL, OP(event_record), stage_paused, act_free },
	{ "paused-free-any", EITHER, OP(event_record_all), stage_paused, act_free_any, .waits = true },
	{ "paused-realloc", EITHER, OP(enter), stage_paused, act_realloc_paused, .result = -EBUSY },
	{ "paused-use", EITHER, OP(enter), stage_paused, act_use, .result = -EBUSY },
	{ "paused-retire", EITHER, OP(event_record), stage_paused, act_retire },
	{ "paused-retire-graph", EITHER, OP(event_record), stage_graph_paused, act_retire_graph },
	{ "tagged-realloc", EITHER, OP(event_record), stage_tag, act_realloc, .keeps = true },
	{ "paused-trim", EITHER, OP(enter), stage_paused_freed, act_trim, PAUSE },
	{ "paused-destroy", EITHER, OP(unreserve), stage_paused, act_destroy, .unmakes = true, .waits = true },
	{ "resume", ALL, OP(create), stage_paused, act_resume, PAUSE },
	{ "resume-dropped", EITHER, OP(map), stage_tag, act_resume, PAUSE, .first = act_pause_drop },
	{ "resume-cleared", SWEEP_PACKED, OP(map), stage_tag, act_resume, PAUSE, .first = act_pause_drop, .opts = { .scrub = VPMM_SCRUB_STREAM } },
	{ "resume-stuck", EITHER, OP(map), stage_stuck, act_resume, SCRUB },
	{ "resume-freed", EITHER, OP(access), stage_paused_freed, act_resume, PAUSE },
	{ "resume-all", SWEEP_PACKED, OP(create), stage_tags, act_resume_all, PAUSE, .first = act_pause_all, .undoes = true },
	{ "resume-other", SWEEP_PACKED, OP(create), stage_tags, act_resume_all, PAUSE, .first = act_pause, .undoes = true },
	{ "resume-full", EITHER, OP(stream_capture), stage_paused_full, act_resume, LIMIT, .result = -ENOMEM },
	{ "resume-taken", EITHER, OP(release), stage_paused_taken, act_resume, LIMIT, .lacks = true },
	{ "resume-lent", EITHER, OP(release), stage_paused_lent, act_resume, LIMIT, .lacks = true },
	{ "resume-graph", SWEEP_PACKED, OP(create), stage_graph, act_resume, PAUSE, .first = act_pause },
	{ "resume-captured", EITHER, OP(stream_capture), stage_capture_paused, act_resume, PAUSE, .result = -EBUSY },
	{ "resume-peers", SWEEP_PACKED, OP(access), stage_peers_paused, act_resume, PEERS },
	{ "resume-mirror", SWEEP_PACKED, OP(create), stage_watched, act_resume_watched, PAUSE, .first = act_pause },
};
const size_t sweep_pause_scene_count = G_N_ELEMENTS(sweep_pause_scenes);
