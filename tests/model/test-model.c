// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Random operations on four streams, with a plain model beside the pool. In some programs the first stream is the
 * default stream, or alone for a while. With faults, calls of the driver fail at random besides. VPMM_TEST_SEEDS is how
 * many programs each case tries, VPMM_TEST_STEPS how long each goes on.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "calls/pool.h"
#include "model/model.h"
#include "support/fault.h"
#include "support/setting.h"

#define STEPS 1000
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
	bool legacy;		/* the first stream is the legacy default stream */
	guint alone;		/* so many more steps are of the first stream alone */
};

static struct CUstream_st *any_stream(struct walk *w)
{
	gint32 stream = w->alone ? 0 : g_rand_int_range(w->rand, 0, STREAMS);

	return stream || !w->legacy ? w->m.f.streams[stream] : NULL;
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
	if (w->uses && !g_rand_int_range(w->rand, 0, 4))
		model_malloc_growable(&w->m, size, 2 * size, any_stream(w));
	else
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
	if (!a->max && MIN(size, a->size) > MOST_COPIED)
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
	guint steps = setting("VPMM_TEST_STEPS", STEPS) / (w->uses ? 2 : 1);

	w->legacy = g_rand_boolean(w->rand);
	w->alone = g_rand_boolean(w->rand) ? steps / 4 : 0;
	w->odd = opts.extent_max != PAGE;
	w->trims = opts.keep;
	model_open(&w->m, opts, faulty);
	if (caching != AS_USUAL)
		w->m.f.pool->core.settings.cache = caching != UNCACHED;
	for (guint i = steps; i > 0; i--) {
		step(w);
		w->alone -= w->alone > 0;
	}
	while (w->m.live->len)
		step_free(w);
	model_close(&w->m);
	g_rand_free(w->rand);
}

/* A pool, and what programs do with it. Those of a case have seeds of its own. */
struct variant {
	const char *name;
	struct vpmm_opts opts;
	bool faulty;
	enum caching caching;
};

/* Chunks so small that allocations are larger and holes are short. */
#define SMALL_CHUNKS .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * PAGE

/*
 * Pages are extents so small that a block has many. With caches, streams keep what they free, and all is the same but
 * where things lie; without, every free is the pool's at once. Of what a pool keeps, memory is given back now and then,
 * and the pool goes on as if it had been so from the start; what is beyond a threshold goes a little at a time, and
 * always if the threshold is nothing.
 */
static const struct variant variants[] = {
	{ "paged", { FIXTURE_OPTS }, false, AS_USUAL },
	{ "paged-block", { FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, false, AS_USUAL },
	{ "paged-chunks", { FIXTURE_CHUNKS(8) }, false, AS_USUAL },
	{ "paged-faults", { FIXTURE_OPTS }, true, AS_USUAL },
	{ "paged-faults-block", { FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, true, AS_USUAL },
	{ "paged-faults-chunks", { FIXTURE_CHUNKS(8) }, true, AS_USUAL },
	{ "paged-cached", { FIXTURE_OPTS }, false, CACHED },
	{ "paged-cached-block", { FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK }, false, CACHED },
	{ "paged-cached-faults", { FIXTURE_OPTS }, true, CACHED },
	{ "paged-trimmed", { FIXTURE_OPTS, .keep = SIZE_MAX }, false, AS_USUAL },
	{ "paged-trimmed-chunks", { FIXTURE_CHUNKS(8), .keep = SIZE_MAX }, false, AS_USUAL },
	{ "paged-trimmed-faults", { FIXTURE_OPTS, .keep = SIZE_MAX }, true, AS_USUAL },
	{ "paged-kept-none", { FIXTURE_OPTS, .keep = 1 }, false, AS_USUAL },
	{ "paged-kept-faults", { FIXTURE_OPTS, .keep = 150 * PAGE }, true, AS_USUAL },
	{ "packed", { FIXTURE_PACKED }, false, AS_USUAL },
	{ "packed-pages", { FIXTURE_PACKED, .extent_max = PAGE }, false, AS_USUAL },
	{ "packed-large", { FIXTURE_PACKED, .pages = 64, .small = VPMM_SMALL_DRIVER }, false, AS_USUAL },
	{ "packed-ratio", { FIXTURE_PACKED, .extent_max = 2 * PAGE, .frag_ratio = 30 }, false, AS_USUAL },
	{ "packed-overhead", { FIXTURE_PACKED, .overhead = 25 }, false, AS_USUAL },
	{ "packed-block", { FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK }, false, AS_USUAL },
	{ "packed-chunks", { SMALL_CHUNKS }, false, AS_USUAL },
	{ "packed-faults", { FIXTURE_PACKED }, true, AS_USUAL },
	{ "packed-faults-pages", { FIXTURE_PACKED, .extent_max = PAGE }, true, AS_USUAL },
	{ "packed-faults-block", { FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK }, true, AS_USUAL },
	{ "packed-faults-chunks", { SMALL_CHUNKS }, true, AS_USUAL },
	{ "uncached", { FIXTURE_PACKED }, false, UNCACHED },
	{ "uncached-driver", { FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER }, false, UNCACHED },
	{ "uncached-pages", { FIXTURE_PACKED, .extent_max = PAGE }, false, UNCACHED },
	{ "uncached-block", { FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK }, false, UNCACHED },
	{ "uncached-chunks", { SMALL_CHUNKS }, false, UNCACHED },
	{ "uncached-faults", { FIXTURE_PACKED }, true, UNCACHED },
	{ "uncached-faults-block", { FIXTURE_PACKED, .extent_max = PAGE, .reuse = VPMM_REUSE_BLOCK }, true, UNCACHED },
	{ "trimmed", { FIXTURE_PACKED, .keep = SIZE_MAX }, false, AS_USUAL },
	{ "trimmed-pages", { FIXTURE_PACKED, .keep = SIZE_MAX, .extent_max = PAGE }, false, UNCACHED },
	{ "trimmed-block", { FIXTURE_PACKED, .keep = SIZE_MAX, .reuse = VPMM_REUSE_BLOCK }, false, UNCACHED },
	{ "trimmed-faults", { FIXTURE_PACKED, .keep = SIZE_MAX }, true, UNCACHED },
	{ "trimmed-faults-pages", { FIXTURE_PACKED, .keep = SIZE_MAX, .extent_max = PAGE }, true, UNCACHED },
	{ "kept-none", { FIXTURE_PACKED, .keep = 1 }, false, AS_USUAL },
	{ "kept", { FIXTURE_PACKED, .keep = 150 * PAGE }, false, UNCACHED },
	{ "kept-faults-pages", { FIXTURE_PACKED, .keep = 150 * PAGE, .extent_max = PAGE }, true, UNCACHED },
};

/* The case's programs, one after the other. @like: what they do beside the usual. */
static void walk_seeds(struct walk like, const char *name, struct vpmm_opts opts, bool faulty, enum caching caching)
{
	guint32 first = g_str_hash(name) + setting("VPMM_TEST_SEED", 1), seeds = setting("VPMM_TEST_SEEDS", 1);

	for (guint32 i = 0; i < seeds; i++) {
		struct walk w = like;

		w.rand = g_rand_new_with_seed(first + i);
		walk(&w, opts, faulty, caching);
	}
}

static void test_variant(gconstpointer variant)
{
	const struct variant *v = variant;

	walk_seeds((struct walk){ .uses = false }, v->name, v->opts, v->faulty, v->caching);
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
	const struct kind *k = kind;

	walk_seeds((struct walk){ .uses = true }, k->name, k->opts, false, AS_USUAL);
}

static void test_used_uncached(gconstpointer kind)
{
	const struct kind *k = kind;

	walk_seeds((struct walk){ .uses = true }, k->name, k->opts, false, UNCACHED);
}

static void test_used_faults(gconstpointer kind)
{
	const struct kind *k = kind;

	walk_seeds((struct walk){ .uses = true }, k->name, k->opts, true, AS_USUAL);
}

/* Blocks of memory apart come and go among the others, and are received once more. */
static void share(const struct kind *kind, bool faulty)
{
	struct vpmm_opts opts = kind->opts;

	opts.export_as = VPMM_EXPORT_FD;
	walk_seeds((struct walk){ .uses = true, .shares = true }, kind->name, opts, faulty, AS_USUAL);
}

static void test_shared(gconstpointer kind)
{
	share(kind, false);
}

static void test_shared_faults(gconstpointer kind)
{
	share(kind, true);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_setenv("VPMM_HOST_DEVICES", G_STRINGIFY(MODEL_DEVICES), TRUE);
	fixture_add_rows("/model", variants, test_variant);
	fixture_add_rows("/model/used", kinds, test_used);
	fixture_add_rows("/model/used-uncached", kinds, test_used_uncached);
	fixture_add_rows("/model/used-faults", kinds, test_used_faults);
	fixture_add_rows("/model/shared", kinds, test_shared);
	fixture_add_rows("/model/shared-faults", kinds, test_shared_faults);
	return g_test_run();
}
