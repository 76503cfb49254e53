// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Random operations on four streams, with a plain model beside the pool. With faults, calls of the driver fail at
 * random besides.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "calls/pool.h"
#include "model/model.h"
#include "support/setting.h"

#define STEPS 4000
#define MOST_LIVE 60
#define MOST_PAGES 12

/* What the host has to copy when a block moves takes time. */
#define MOST_COPIED PAGE

struct walk {
	struct model m;
	GRand *rand;
	bool odd;
	bool trims;
	bool uses;
	bool shares;
};

static struct CUstream_st *any_stream(struct walk *w)
{
	return w->m.f.streams[g_rand_int_range(w->rand, 0, STREAMS)];
}

/* Has the next call but a few of some operation fail, now and then, with an error that the operation can give. */
static void arm(struct walk *w)
{
	static const struct {
		enum backend_op op;
		int err;
	} faults[] = {
		{ BACKEND_OP_enter, -EIO }, { BACKEND_OP_reserve, -ENOMEM }, { BACKEND_OP_create, -ENOMEM },
		{ BACKEND_OP_create, -EIO }, { BACKEND_OP_map, -ENOMEM }, { BACKEND_OP_access, -ENOMEM },
		{ BACKEND_OP_unmap, -EIO }, { BACKEND_OP_stream_id, -EBUSY }, { BACKEND_OP_stream_wait, -EIO },
		{ BACKEND_OP_event_create, -EIO }, { BACKEND_OP_event_record, -EIO }, { BACKEND_OP_event_query, -EIO },
		{ BACKEND_OP_event_sync, -EIO }, { BACKEND_OP_small_alloc, -ENOMEM }, { BACKEND_OP_small_free, -EIO },
		{ BACKEND_OP_event_create_timed, -ENOMEM }, { BACKEND_OP_event_elapsed, -EIO },
		{ BACKEND_OP_peers, -ENOMEM }, { BACKEND_OP_deny, -ENOMEM },
		{ BACKEND_OP_create_export, -ENOMEM }, { BACKEND_OP_export, -EIO }, { BACKEND_OP_import, -ENOMEM },
	};
	int i = g_rand_int_range(w->rand, 0, G_N_ELEMENTS(faults));

	if (w->m.faulty && !g_rand_int_range(w->rand, 0, 3))
		model_arm(&w->m, faults[i].op, (unsigned int)g_rand_int_range(w->rand, 0, 6), 1, faults[i].err);
}

/* Pages and no more or less, as some programs have it; any size, so that nothing fits; and small ones. */
static size_t any_size(struct walk *w)
{
	size_t size;

	if (w->odd && g_rand_boolean(w->rand)) {
		size = (size_t)g_rand_int_range(w->rand, 4096, MOST_PAGES * (gint32)PAGE);
	} else if (g_rand_int_range(w->rand, 0, 5)) {
		size = (size_t)g_rand_int_range(w->rand, 1, MOST_PAGES + 1) * PAGE;
		size -= (size_t)g_rand_int_range(w->rand, 0, 2) * 4096;
	} else {
		size = (size_t)g_rand_int_range(w->rand, 8, 65536);
	}
	return size;
}

static void step_malloc(struct walk *w)
{
	size_t size = any_size(w);

	arm(w);
	model_malloc(&w->m, size, any_stream(w));
}

static guint any_block(struct walk *w)
{
	return (guint)g_rand_int_range(w->rand, 0, (gint)w->m.live->len);
}

/* A block becomes larger or smaller by a little, or as large as any; mostly on the stream that has it. */
static void step_realloc(struct walk *w)
{
	guint index = any_block(w);
	const struct model_allocation *a = w->m.live->pdata[index];
	struct CUstream_st *stream = g_rand_int_range(w->rand, 0, 3) ? a->stream : any_stream(w);
	size_t size = any_size(w);

	if (g_rand_boolean(w->rand))
		size = a->size / 2 + size % a->size + 1;
	if (MIN(size, a->size) > MOST_COPIED)
		size = size % MOST_COPIED + 1;
	arm(w);
	model_realloc(&w->m, index, size, stream);
}

/* Two streams look at a block at once; whoever frees it need not know. */
static void step_use(struct walk *w)
{
	guint index = any_block(w);

	arm(w);
	model_use(&w->m, index, any_stream(w));
	model_lookup(&w->m, index);
}

static void step_free(struct walk *w)
{
	guint index = any_block(w);

	/* Now and then another stream has the last use, after waiting for the first. */
	if (!g_rand_int_range(w->rand, 0, 4))
		model_move(&w->m, index, any_stream(w));
	arm(w);
	model_free(&w->m, index);
}

static void step_trim(struct walk *w)
{
	arm(w);
	model_trim(&w->m, g_rand_boolean(w->rand) ? 0 : (size_t)g_rand_int_range(w->rand, 0, 400) * PAGE);
	model_check(&w->m);
}

/* Other devices come and go. */
static void step_peers(struct walk *w)
{
	uint64_t peers = (uint64_t)g_rand_int_range(w->rand, 0, 1 << (MODEL_DEVICES - 1)) << 1;

	arm(w);
	model_set_peers(&w->m, peers);
}

/* A block of its own memory, or one that others have is received once more. */
static void step_share(struct walk *w)
{
	guint index = w->m.live->len ? any_block(w) : 0;
	const struct model_allocation *a = w->m.live->len ? w->m.live->pdata[index] : NULL;
	size_t size = any_size(w);

	arm(w);
	if (a && a->apart && !a->imported)
		model_share(&w->m, index, &w->m, any_stream(w));
	else
		model_malloc_flags(&w->m, size, any_stream(w), VPMM_SHAREABLE);
}

/* Whether streams keep what they free to themselves for a while. */
enum caching {
	AS_USUAL,
	CACHED,
	UNCACHED
};

static void step(struct walk *w)
{
	int what = g_rand_int_range(w->rand, 0, 12);

	if (w->trims && !g_rand_int_range(w->rand, 0, 16))
		step_trim(w);
	if (!g_rand_int_range(w->rand, 0, 40))
		step_peers(w);
	if (w->shares && w->m.live->len < MOST_LIVE && !g_rand_int_range(w->rand, 0, 6))
		step_share(w);
	if (w->uses && w->m.live->len && g_rand_boolean(w->rand))
		step_use(w);
	if (what < 2)
		model_complete(&w->m, any_stream(w), (unsigned int)g_rand_int_range(w->rand, 1, 6));
	else if (w->m.live->len && what < 4)
		step_realloc(w);
	else if (w->m.live->len && (what < 8 || w->m.live->len == MOST_LIVE))
		step_free(w);
	else
		step_malloc(w);
	model_check(&w->m);
}

static void walk(struct walk *w, struct vpmm_opts opts, bool faulty, enum caching caching)
{
	w->odd = opts.extent_max != PAGE;
	w->trims = opts.keep;
	model_open(&w->m, opts, faulty);
	if (caching != AS_USUAL)
		w->m.f.pool->core.settings.cache = caching != UNCACHED;
	for (guint i = setting("VPMM_TEST_STEPS", STEPS) / (w->uses ? 2 : 1); i > 0; i--)
		step(w);
	while (w->m.live->len)
		step_free(w);
	model_close(&w->m);
	g_rand_free(w->rand);
}

static void run_walk(struct vpmm_opts opts, guint32 seed, bool faulty, enum caching caching)
{
	struct walk w = { .rand = g_rand_new_with_seed(seed) };

	walk(&w, opts, faulty, caching);
}

static void run_model(struct vpmm_opts opts, guint32 seed, bool faulty)
{
	run_walk(opts, seed, faulty, AS_USUAL);
}

static void test_async(gconstpointer seed)
{
	run_model((struct vpmm_opts){ FIXTURE_OPTS }, GPOINTER_TO_UINT(seed), false);
}

static void test_block(void)
{
	run_model((struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, 5, false);
}

/* Chunks so small that allocations are larger and holes are short. */
static void test_chunks(void)
{
	run_model((struct vpmm_opts){ FIXTURE_CHUNKS(8) }, 6, false);
}

static void test_faults(gconstpointer seed)
{
	run_model((struct vpmm_opts){ FIXTURE_OPTS }, GPOINTER_TO_UINT(seed), true);
}

static void test_faults_block(void)
{
	run_model((struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, 9, true);
}

static void test_faults_chunks(void)
{
	run_model((struct vpmm_opts){ FIXTURE_CHUNKS(8) }, 10, true);
}

static void test_packed(gconstpointer seed)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED }, GPOINTER_TO_UINT(seed), false);
}

/* Extents so small that a block has many. */
static void test_packed_pages(void)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, 14, false);
}

static void test_packed_large(void)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED, .pages = 64, .small = VPMM_SMALL_DRIVER }, 15, false);
}

static void test_packed_ratio(void)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = 2 * PAGE, .frag_ratio = 30 }, 16, false);
}

static void test_packed_overhead(void)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED, .overhead = 25 }, 19, false);
}

static void test_packed_block(void)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK }, 17, false);
}

static void test_packed_chunks(void)
{
	run_model((struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * PAGE }, 18, false);
}

static void test_packed_faults(gconstpointer seed)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED }, GPOINTER_TO_UINT(seed), true);
}

static void test_packed_faults_pages(void)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, 21, true);
}

static void test_packed_faults_block(void)
{
	run_model((struct vpmm_opts){ FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK }, 22, true);
}

static void test_packed_faults_chunks(void)
{
	run_model((struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * PAGE }, 23, true);
}

/* Streams keep what they free, and all is the same but where things lie. */
static void test_cached(gconstpointer seed)
{
	run_walk((struct vpmm_opts){ FIXTURE_OPTS }, GPOINTER_TO_UINT(seed), false, CACHED);
}

static void test_cached_block(void)
{
	run_walk((struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, 5, false, CACHED);
}

static void test_cached_faults(gconstpointer seed)
{
	run_walk((struct vpmm_opts){ FIXTURE_OPTS }, GPOINTER_TO_UINT(seed), true, CACHED);
}

/* With streams that keep nothing to themselves, so that every free is the pool's at once. */
static void test_uncached(void)
{
	for (guint32 seed = 11; seed < 15; seed++)
		run_walk((struct vpmm_opts){ FIXTURE_PACKED }, seed, false, UNCACHED);
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER }, 25, false, UNCACHED);
}

static void test_uncached_pages(void)
{
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, 26, false, UNCACHED);
}

static void test_uncached_block(void)
{
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK }, 27, false, UNCACHED);
}

static void test_uncached_chunks(void)
{
	run_walk((struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * PAGE }, 28, false,
		 UNCACHED);
}

static void test_uncached_faults(void)
{
	run_walk((struct vpmm_opts){ FIXTURE_PACKED }, 29, true, UNCACHED);
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .reuse = VPMM_REUSE_BLOCK }, 30, true, UNCACHED);
}

/* Memory is given back now and then, and the pool goes on as if it had been so from the start. */
static void test_trimmed(void)
{
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .keep = SIZE_MAX }, 31, false, AS_USUAL);
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .keep = SIZE_MAX, .extent_max = PAGE }, 32, false, UNCACHED);
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .keep = SIZE_MAX, .reuse = VPMM_REUSE_BLOCK }, 33, false,
		 UNCACHED);
	run_walk((struct vpmm_opts){ FIXTURE_OPTS, .keep = SIZE_MAX }, 34, false, AS_USUAL);
	run_walk((struct vpmm_opts){ FIXTURE_CHUNKS(8), .keep = SIZE_MAX }, 35, false, AS_USUAL);
}

static void test_trimmed_faults(void)
{
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .keep = SIZE_MAX }, 36, true, UNCACHED);
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .keep = SIZE_MAX, .extent_max = PAGE }, 37, true, UNCACHED);
	run_walk((struct vpmm_opts){ FIXTURE_OPTS, .keep = SIZE_MAX }, 38, true, AS_USUAL);
}

/* What is beyond the threshold goes a little at a time, and always when it is nothing. */
static void test_kept(void)
{
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .keep = 1 }, 39, false, AS_USUAL);
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .keep = 150 * PAGE }, 40, false, UNCACHED);
	run_walk((struct vpmm_opts){ FIXTURE_PACKED, .keep = 150 * PAGE, .extent_max = PAGE }, 41, true, UNCACHED);
	run_walk((struct vpmm_opts){ FIXTURE_OPTS, .keep = 1 }, 42, false, AS_USUAL);
	run_walk((struct vpmm_opts){ FIXTURE_OPTS, .keep = 150 * PAGE }, 43, true, AS_USUAL);
}

/* Blocks have users on all streams, wherever they are and whatever size they become. */
static const struct kind {
	const char *name;
	struct vpmm_opts opts;
} kinds[] = {
	{ "packed", { FIXTURE_PACKED } },
	{ "pages", { FIXTURE_PACKED, .extent_max = PAGE } },
	{ "paged", { FIXTURE_OPTS } },
	{ "driver", { FIXTURE_PACKED, .page_size = SIZE_MAX } },
	{ "small", { FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER } },
	{ "block", { FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK } },
	{ "chunks", { .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * PAGE } },
	{ "kept", { FIXTURE_PACKED, .keep = 1 } },
	{ "overlap", { FIXTURE_PACKED, .overlap = 50 } },
	{ "overlap-auto", { FIXTURE_PACKED, .overlap = VPMM_OVERLAP_AUTO } },
	{ "overlap-pages", { FIXTURE_PACKED, .overlap = 200, .extent_max = PAGE } },
};

static void test_used(gconstpointer kind)
{
	struct walk w = { .rand = g_rand_new_with_seed(44), .uses = true };

	walk(&w, ((const struct kind *)kind)->opts, false, AS_USUAL);
}

static void test_used_uncached(gconstpointer kind)
{
	struct walk w = { .rand = g_rand_new_with_seed(45), .uses = true };

	walk(&w, ((const struct kind *)kind)->opts, false, UNCACHED);
}

static void test_used_faults(gconstpointer kind)
{
	struct walk w = { .rand = g_rand_new_with_seed(46), .uses = true };

	walk(&w, ((const struct kind *)kind)->opts, true, AS_USUAL);
}

/* Blocks of memory apart come and go among the others, and are received once more. */
static void test_shared(gconstpointer kind)
{
	struct walk w = { .rand = g_rand_new_with_seed(47), .uses = true, .shares = true };
	struct vpmm_opts opts = ((const struct kind *)kind)->opts;

	opts.export_as = VPMM_EXPORT_FD;
	walk(&w, opts, false, AS_USUAL);
}

static void test_shared_faults(gconstpointer kind)
{
	struct walk w = { .rand = g_rand_new_with_seed(48), .uses = true, .shares = true };
	struct vpmm_opts opts = ((const struct kind *)kind)->opts;

	opts.export_as = VPMM_EXPORT_FD;
	walk(&w, opts, true, AS_USUAL);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_setenv("VPMM_HOST_DEVICES", G_STRINGIFY(MODEL_DEVICES), TRUE);
	fixture_add_rows("/model/used", kinds, test_used);
	fixture_add_rows("/model/used-uncached", kinds, test_used_uncached);
	fixture_add_rows("/model/used-faults", kinds, test_used_faults);
	fixture_add_rows("/model/shared", kinds, test_shared);
	fixture_add_rows("/model/shared-faults", kinds, test_shared_faults);
	g_test_add_data_func("/model/async/1", GUINT_TO_POINTER(1), test_async);
	g_test_add_data_func("/model/async/2", GUINT_TO_POINTER(2), test_async);
	g_test_add_data_func("/model/async/3", GUINT_TO_POINTER(3), test_async);
	g_test_add_func("/model/block", test_block);
	g_test_add_func("/model/chunks", test_chunks);
	g_test_add_data_func("/model/faults/7", GUINT_TO_POINTER(7), test_faults);
	g_test_add_data_func("/model/faults/8", GUINT_TO_POINTER(8), test_faults);
	g_test_add_func("/model/faults/block", test_faults_block);
	g_test_add_func("/model/faults/chunks", test_faults_chunks);
	g_test_add_data_func("/model/packed/11", GUINT_TO_POINTER(11), test_packed);
	g_test_add_data_func("/model/packed/12", GUINT_TO_POINTER(12), test_packed);
	g_test_add_data_func("/model/packed/13", GUINT_TO_POINTER(13), test_packed);
	g_test_add_func("/model/packed/pages", test_packed_pages);
	g_test_add_func("/model/packed/large", test_packed_large);
	g_test_add_func("/model/packed/ratio", test_packed_ratio);
	g_test_add_func("/model/packed/overhead", test_packed_overhead);
	g_test_add_func("/model/packed/block", test_packed_block);
	g_test_add_func("/model/packed/chunks", test_packed_chunks);
	g_test_add_data_func("/model/packed-faults/19", GUINT_TO_POINTER(19), test_packed_faults);
	g_test_add_data_func("/model/packed-faults/20", GUINT_TO_POINTER(20), test_packed_faults);
	g_test_add_func("/model/packed-faults/pages", test_packed_faults_pages);
	g_test_add_func("/model/packed-faults/block", test_packed_faults_block);
	g_test_add_func("/model/packed-faults/chunks", test_packed_faults_chunks);
	g_test_add_data_func("/model/cached/1", GUINT_TO_POINTER(1), test_cached);
	g_test_add_data_func("/model/cached/2", GUINT_TO_POINTER(2), test_cached);
	g_test_add_func("/model/cached/block", test_cached_block);
	g_test_add_data_func("/model/cached/faults/7", GUINT_TO_POINTER(7), test_cached_faults);
	g_test_add_data_func("/model/cached/faults/8", GUINT_TO_POINTER(8), test_cached_faults);
	g_test_add_func("/model/uncached/extents", test_uncached);
	g_test_add_func("/model/uncached/pages", test_uncached_pages);
	g_test_add_func("/model/uncached/block", test_uncached_block);
	g_test_add_func("/model/uncached/chunks", test_uncached_chunks);
	g_test_add_func("/model/uncached/faults", test_uncached_faults);
	g_test_add_func("/model/trimmed/fine", test_trimmed);
	g_test_add_func("/model/trimmed/faults", test_trimmed_faults);
	g_test_add_func("/model/trimmed/kept", test_kept);
	return g_test_run();
}
