// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Random calls that make the library clear and copy memory itself, on streams that are at work, while calls of the
 * driver fail. The program hardly uses its blocks, so that nothing but the library orders that work. The host backend
 * finds memory that somebody gets before it; here, each call is followed by vpmm_pool_check(). What the library has
 * cleared and copied is looked for on the device, and so is what a stream must not see of others.
 *
 * VPMM_TEST_SEEDS, VPMM_TEST_SEED and VPMM_TEST_STEPS say how many seeds to run, the first, and the steps of each.
 */
#include <errno.h>
#include <string.h>

#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/setting.h"

#define SEEDS 12
#define STEPS 150
#define MOST_LIVE 24

/* Bytes between those that are written and looked at. */
#define STRIDE ((size_t)64 << 10)

/* What work of a stream writes. */
#define MARK 0x10

static const int errors[] = { EIO, ENOMEM };

/* A block; @zeros: its first bytes are 0; @last: the stream whose work comes after all that was submitted for it. */
struct own {
	char *ptr;
	size_t size;
	size_t max;
	size_t zeros;
	int last;
	bool used;		/* by the program, in the order of @last */
	uint64_t graph;		/* it was allocated for a graph that is not retired; 0: it was not */
};

struct walk {
	struct fixture f;
	GRand *rand;
	guint seed;
	guint step;
	GArray *blocks;
	enum vpmm_scrub scrub;
	bool limited;
	bool driver;		/* what is below a page may be the driver's allocator's */
	bool armed;
	int captured;		/* a stream; -1: none */
	uint64_t graph;		/* of the capture, or that is not retired */
	bool handed_on;		/* a stream may have had what another wrote to a block, and frees it as its own */
};

/* What a piece of work looks at. */
struct look {
	const struct walk *w;
	char *ptr;
	size_t from;
	size_t to;
	int mark;		/* what it writes, or may see beside zeros */
	guint seed;
	guint step;
};

#define fail(w, format, ...) g_error("seed %u, step %u: " format, (w)->seed, (w)->step, ##__VA_ARGS__)

static int below(struct walk *w, int n)
{
	return g_rand_int_range(w->rand, 0, n);
}

static bool one_in(struct walk *w, int n)
{
	return !below(w, n);
}

static struct CUstream_st *handle(const struct walk *w, int stream)
{
	return w->f.streams[stream];
}

/* The offsets that are written and looked at: both ends, and some between. */
static size_t next_spot(size_t at, size_t to)
{
	size_t next = (at / STRIDE + 1) * STRIDE;

	return at + 1 < to && next >= to ? to - 1 : next;
}

static void write_mark(void *data)
{
	struct look *look = data;

	for (size_t at = look->from; at < look->to; at = next_spot(at, look->to))
		look->ptr[at] = (char)look->mark;
	g_free(look);
}

static void look_for(void *data)
{
	struct look *look = data;

	for (size_t at = look->from; at < look->to; at = next_spot(at, look->to)) {
		if (look->ptr[at] && look->ptr[at] != look->mark)
			g_error("seed %u, step %u: byte %zu of %zu to %zu at %p is %#x, and not 0 or %#x", look->seed,
				look->step, at, look->from, look->to, (void *)look->ptr, look->ptr[at], look->mark);
	}
	g_free(look);
}

static void launch(struct walk *w, int stream, vpmm_host_fn fn, char *ptr, size_t from, size_t to, int mark)
{
	struct look *look = g_new(struct look, 1);

	*look = (struct look){ .w = w, .ptr = ptr, .from = from, .to = to, .mark = mark, .seed = w->seed,
			       .step = w->step };
	assert_ok(vpmm_host_stream_launch(handle(w, stream), fn, look));
}

static bool is_captured(const struct walk *w, int stream)
{
	return w->captured == stream;
}

static void arm(struct walk *w)
{
	static const enum backend_op ops[] = {
		BACKEND_OP_event_record, BACKEND_OP_event_record, BACKEND_OP_event_create, BACKEND_OP_clear,
		BACKEND_OP_copy, BACKEND_OP_stream_wait, BACKEND_OP_event_query, BACKEND_OP_event_sync,
		BACKEND_OP_map, BACKEND_OP_access, BACKEND_OP_create, BACKEND_OP_unmap, BACKEND_OP_small_alloc,
		BACKEND_OP_small_free, BACKEND_OP_sync, BACKEND_OP_COUNT,
	};
	static const unsigned int counts[] = { 1, 1, 2, 3, UINT_MAX };

	w->armed = one_in(w, 3);
	if (w->armed)
		backend_fault_arm(w->f.pool->core.backend, ops[below(w, G_N_ELEMENTS(ops))], (unsigned int)below(w, 6),
				  counts[below(w, G_N_ELEMENTS(counts))], -errors[below(w, G_N_ELEMENTS(errors))]);
}

static bool is_expected(const struct walk *w, int err)
{
	return w->armed || err == -EBUSY || (err == -ENOMEM && w->limited) || (err == -ENOTSUP && w->captured >= 0);
}

/* Whether a call succeeded. It may fail for a fault, and because of a capture. */
static bool succeeded(struct walk *w, int err)
{
	for (int op = 0; op <= BACKEND_OP_COUNT; op++)
		backend_fault_arm(w->f.pool->core.backend, (enum backend_op)op, 0, 0, 0);
	if (err && !is_expected(w, err))
		fail(w, "%d, %s", err, vpmm_last_error());
	w->armed = false;
	return !err;
}

static size_t any_size(struct walk *w)
{
	switch (below(w, 8)) {
	case 0: return (size_t)g_rand_int_range(w->rand, 1, 4096);
	case 1: return (size_t)g_rand_int_range(w->rand, 1, (gint32)PAGE);
	case 2: return (size_t)below(w, 40) ? PAGE : 40 * PAGE + 1000;
	default: return (size_t)g_rand_int_range(w->rand, 1, 7) * PAGE - (size_t)below(w, 3) * 1000;
	}
}

static struct own *any_block(struct walk *w)
{
	return w->blocks->len ? &g_array_index(w->blocks, struct own, below(w, (int)w->blocks->len)) : NULL;
}

/* What the block has from an offset on is as an allocation on the stream would have it. */
static void look_at_new(struct walk *w, struct own *b, size_t from)
{
	if (is_captured(w, b->last) || b->size <= from)
		return;
	if (w->scrub == VPMM_SCRUB_ALWAYS) {
		b->zeros = b->zeros == from ? b->size : b->zeros;
	} else if (w->scrub == VPMM_SCRUB_STREAM && !w->handed_on && one_in(w, 2)) {
		launch(w, b->last, look_for, b->ptr, from, b->size, MARK + b->last);
		b->used = true;
	}
}

static void step_malloc(struct walk *w)
{
	static const unsigned int flags[] = { 0, VPMM_ZERO, VPMM_ZERO, VPMM_ZERO, VPMM_ZERO | VPMM_IDLE, VPMM_IDLE };
	struct own b = { .size = any_size(w), .last = below(w, STREAMS) };
	unsigned int flag = flags[below(w, G_N_ELEMENTS(flags))];
	void *ptr = NULL;
	int err;

	if (one_in(w, 4))
		b.max = 2 * b.size + (size_t)below(w, 4) * PAGE;
	arm(w);
	if (b.max)
		err = vpmm_malloc_growable(w->f.pool, &ptr, b.size, b.max, handle(w, b.last));
	else
		err = vpmm_malloc_flags(w->f.pool, &ptr, b.size, handle(w, b.last), flag);
	if (!succeeded(w, err))
		return;
	b.ptr = ptr;
	b.graph = is_captured(w, b.last) ? w->graph : 0;
	b.zeros = !b.max && flag & VPMM_ZERO && !b.graph ? b.size : 0;
	look_at_new(w, &b, 0);
	g_array_append_val(w->blocks, b);
}

/*
 * Whether a stream can come after the program's uses. It need not come after what the library does, but it has to come
 * after the allocation of what the driver serves.
 */
static bool follow(struct walk *w, const struct own *b, int stream)
{
	bool served = w->driver && !b->max && b->size < PAGE;

	if ((!b->used && !served) || b->last == stream)
		return true;
	if (is_captured(w, stream) || is_captured(w, b->last))
		return false;
	assert_ok(vpmm_host_stream_wait(handle(w, stream), handle(w, b->last)));
	return true;
}

static void step_realloc(struct walk *w, struct own *b)
{
	size_t size = one_in(w, 2) ? any_size(w) : b->size / 2 + (size_t)below(w, (int)MIN(b->size + 2, 1u << 20)) + 1;
	int stream = below(w, 3) ? below(w, STREAMS) : b->last;
	void *ptr = b->ptr;
	size_t kept;

	if (b->max && size > b->max)
		size = b->max;
	if (!follow(w, b, stream))
		return;
	kept = MIN(b->size, size);
	arm(w);
	if (!succeeded(w, vpmm_realloc(w->f.pool, &ptr, size, handle(w, stream))))
		return;
	b->zeros = MIN(b->zeros, kept);
	b->ptr = ptr;
	b->size = size;
	w->handed_on |= b->last != stream;
	b->last = stream;
	if (is_captured(w, stream)) {
		b->graph = w->graph;
		b->zeros = 0;
	}
	look_at_new(w, b, kept);
}

/* The program comes after all that the library does on the stream that has the block. */
static void use(struct walk *w, struct own *b, int stream)
{
	if (stream != b->last) {
		assert_ok(vpmm_host_stream_wait(handle(w, stream), handle(w, b->last)));
		w->handed_on = true;
	}
	b->last = stream;
	b->used = true;
}

static void step_use(struct walk *w, struct own *b)
{
	int stream = below(w, STREAMS);

	if (b->graph || is_captured(w, stream) || is_captured(w, b->last))
		return;
	use(w, b, stream);
	if (one_in(w, 2)) {
		launch(w, stream, look_for, b->ptr, 0, b->zeros, 0);
	} else {
		launch(w, stream, write_mark, b->ptr, 0, b->size, MARK + stream);
		b->zeros = 0;
	}
}

/* Another stream has something to do with the block, and the pool is told so. */
static void step_name(struct walk *w, struct own *b)
{
	int stream = below(w, STREAMS);

	arm(w);
	if (succeeded(w, vpmm_use(w->f.pool, b->ptr, handle(w, stream))) && !is_captured(w, stream))
		assert_ok(vpmm_host_stream_submit(handle(w, stream)));
}

static void step_free(struct walk *w, struct own *b)
{
	int stream = below(w, STREAMS);
	bool any = w->captured < 0 && one_in(w, 8);

	if (!follow(w, b, stream))
		return;
	/* What it holds then is the stream's own, or nobody's. */
	if (w->scrub == VPMM_SCRUB_STREAM && !b->graph && !is_captured(w, stream) && !is_captured(w, b->last)) {
		use(w, b, stream);
		launch(w, stream, write_mark, b->ptr, 0, b->size, MARK + stream);
		b->zeros = 0;
	}
	arm(w);
	if (succeeded(w, vpmm_free(w->f.pool, b->ptr, any ? VPMM_STREAM_ANY : handle(w, stream))))
		g_array_remove_index_fast(w->blocks, (guint)(b - (struct own *)(void *)w->blocks->data));
}

static void step_trim(struct walk *w)
{
	arm(w);
	succeeded(w, vpmm_pool_trim(w->f.pool, one_in(w, 2) ? 0 : 8 * PAGE, NULL));
}

static void step_complete(struct walk *w)
{
	int stream = below(w, STREAMS);

	if (!is_captured(w, stream))
		vpmm_host_stream_complete(handle(w, stream), (unsigned int)below(w, 4));
}

static void step_busy(struct walk *w)
{
	int stream = below(w, STREAMS);

	if (!is_captured(w, stream))
		assert_ok(vpmm_host_stream_submit(handle(w, stream)));
}

static void complete_all(struct walk *w)
{
	bool busy = true;

	while (busy) {
		busy = false;
		for (int i = 0; i < STREAMS; i++)
			busy |= vpmm_host_stream_complete(handle(w, i), UINT_MAX) == -EBUSY;
	}
}

/* The graph runs once, on the stream that made it, and is gone. */
static void end_capture(struct walk *w)
{
	struct CUstream_st *stream = handle(w, w->captured);
	struct vpmm_host_graph *graph;
	int err;

	err = vpmm_host_capture_end(stream, &graph);
	if (!err) {
		assert_ok(vpmm_host_graph_launch(graph, stream));
		assert_ok(vpmm_host_graph_destroy(graph));
	}
	w->captured = -1;
	arm(w);
	if (!succeeded(w, vpmm_graph_retire(w->f.pool, w->graph, stream)))
		assert_ok(vpmm_graph_retire(w->f.pool, w->graph, stream));
	for (guint i = 0; i < w->blocks->len; i++) {
		struct own *b = &g_array_index(w->blocks, struct own, i);

		if (b->graph == w->graph)
			b->graph = 0;
	}
}

static void step_capture(struct walk *w)
{
	if (w->captured >= 0) {
		end_capture(w);
		return;
	}
	w->captured = below(w, STREAMS);
	assert_ok(vpmm_host_capture_begin(handle(w, w->captured)));
	assert_ok(vpmm_capture_id(w->f.pool, handle(w, w->captured), &w->graph));
}

static void check(struct walk *w)
{
	if (vpmm_pool_check(w->f.pool))
		fail(w, "%s", vpmm_last_error());
}

static void step(struct walk *w)
{
	struct own *b = any_block(w);
	int what = below(w, 24);

	if (what < 3)
		step_complete(w);
	else if (what < 7)
		step_busy(w);
	else if (what == 7 && one_in(w, 2))
		step_trim(w);
	else if (what == 8 && (w->captured >= 0 || one_in(w, 3)))
		step_capture(w);
	else if (!b || (what < 14 && w->blocks->len < MOST_LIVE))
		step_malloc(w);
	else if (what < 20)
		step_realloc(w, b);
	else if (what == 20)
		step_use(w, b);
	else if (what == 21)
		step_name(w, b);
	else
		step_free(w, b);
	check(w);
}

static void free_all(struct walk *w)
{
	if (w->captured >= 0)
		end_capture(w);
	for (guint i = 0; i < w->blocks->len; i++) {
		const struct own *b = &g_array_index(w->blocks, struct own, i);

		launch(w, b->last, look_for, b->ptr, 0, b->zeros, 0);
		assert_ok(vpmm_free(w->f.pool, b->ptr, handle(w, b->last)));
		check(w);
	}
}

static const struct kind {
	const char *name;
	struct vpmm_opts opts;
} kinds[] = {
	{ "packed", { FIXTURE_PACKED } },
	{ "pages", { FIXTURE_PACKED, .extent_max = PAGE } },
	{ "paged", { FIXTURE_OPTS } },
	{ "small", { FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER } },
	{ "block", { FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK } },
	{ "limit", { FIXTURE_PACKED, .limit = 50 * PAGE } },
	{ "paged-limit", { FIXTURE_OPTS, .limit = 50 * PAGE } },
	{ "kept", { FIXTURE_PACKED, .keep = 1 } },
};

static void run_seed(const struct kind *kind, guint seed)
{
	static const enum vpmm_scrub scrubs[] = { VPMM_SCRUB_NONE, VPMM_SCRUB_STREAM, VPMM_SCRUB_ALWAYS };
	struct walk w = { .rand = g_rand_new_with_seed(seed), .seed = seed, .captured = -1 };
	struct vpmm_opts opts = kind->opts;

	w.blocks = g_array_new(FALSE, FALSE, sizeof(struct own));
	w.limited = opts.limit;
	w.driver = opts.small == VPMM_SMALL_DRIVER;
	opts.scrub = w.scrub = scrubs[seed % G_N_ELEMENTS(scrubs)];
	fixture_open_faulty(&w.f, opts);
	if (seed % 5 == 0)
		fixture_uncache(&w.f);
	for (guint steps = setting("VPMM_TEST_STEPS", STEPS); w.step < steps; w.step++)
		step(&w);
	free_all(&w);
	complete_all(&w);
	check(&w);
	fixture_close(&w.f);
	g_array_free(w.blocks, TRUE);
	g_rand_free(w.rand);
}

static void test_work(gconstpointer kind)
{
	guint first = setting("VPMM_TEST_SEED", 1), seeds = setting("VPMM_TEST_SEEDS", SEEDS);

	for (guint i = 0; i < seeds; i++)
		run_seed(kind, first + i);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/work", kinds, test_work);
	return g_test_run();
}
