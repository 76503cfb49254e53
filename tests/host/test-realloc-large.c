// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_realloc() of large blocks that cannot grow where they are: mapped once more at another address. */
#include <errno.h>
#include <string.h>

#include "host/capture-fixture.h"
#include "host/realloc-fixture.h"
#include "support/fault.h"

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
#define HAD (96 * MIB + 5 * KIB)
#define WANTED (150 * MIB + 7 * KIB)

/* Extents are large from the start on. */
#define LARGE FIXTURE_PACKED, .overhead = 25

static const struct kind kinds[] = { { "packed", { LARGE }, HAD }, KINDS_SCRUB(LARGE), KIND_BLOCK(LARGE) };

/* Below what is worth a mapping in size, or in the size of extents. */
#define SCARCE FIXTURE_PACKED, .limit = 32 * PAGE
#define SCARCE_PAGED FIXTURE_OPTS, .limit = 32 * PAGE

static const struct kind scarce[] = {
	{ "packed", { SCARCE }, 8 * PAGE },
	{ "shared-end", { SCARCE }, 8 * PAGE - 5 * KIB },
	{ "pages", { SCARCE, .extent_max = PAGE, .overhead = 25 }, 20 * PAGE },
	{ "scrub", { SCARCE, .scrub = VPMM_SCRUB_STREAM }, 8 * PAGE },
	{ "scrub-always", { SCARCE, .scrub = VPMM_SCRUB_ALWAYS }, 8 * PAGE },
	{ "block", { SCARCE, .reuse = VPMM_REUSE_BLOCK }, 8 * PAGE },
	{ "paged", { SCARCE_PAGED }, 8 * PAGE },
	{ "paged-scrub", { SCARCE_PAGED, .scrub = VPMM_SCRUB_ALWAYS }, 8 * PAGE },
	{ "paged-block", { SCARCE_PAGED, .reuse = VPMM_REUSE_BLOCK }, 8 * PAGE },
};

/* A block that shares its first and its last extent with neighbours, which are in the way. */
struct wedged {
	struct fixture f;
	char *ptr;
	char *next[2];
	struct text written;
	struct text beside[2];
};

static void wedge(struct wedged *w, const struct kind *kind)
{
	fixture_open_faulty(&w->f, kind->opts);
	/* Extents with pending work are not exchanged for smaller ones. */
	assert_ok(vpmm_host_stream_submit(w->f.streams[0]));
	fixture_free(&w->f, fixture_malloc(&w->f, 60, w->f.streams[0]), w->f.streams[0]);
	assert_ok(vpmm_pool_trim(w->f.pool, SIZE_MAX, NULL));
	w->next[0] = fixture_malloc_bytes(&w->f, 300 * KIB, w->f.streams[0]);
	w->ptr = fixture_malloc_bytes(&w->f, HAD, w->f.streams[0]);
	w->next[1] = fixture_malloc_bytes(&w->f, 300 * KIB, w->f.streams[0]);
	g_assert_true(w->ptr == w->next[1] + 300 * KIB);
	g_assert_true(w->next[0] == w->ptr + HAD);
	vpmm_host_stream_complete(w->f.streams[0], UINT_MAX);
	write_on(w->f.streams[0], w->ptr, HAD, &w->written);
	write_on(w->f.streams[0], w->next[0], 300 * KIB, &w->beside[0]);
	write_on(w->f.streams[0], w->next[1], 300 * KIB, &w->beside[1]);
}

/* The block, wherever it is now, and its neighbours hold what was written, as a stream finds. */
static void assert_contents(struct wedged *w, void *ptr, struct CUstream_st *stream)
{
	struct text read[3];

	check_on(stream, ptr, HAD, &read[0], w->written.seed);
	check_on(w->f.streams[0], w->next[0], 300 * KIB, &read[1], w->beside[0].seed);
	check_on(w->f.streams[0], w->next[1], 300 * KIB, &read[2], w->beside[1].seed);
	vpmm_host_stream_complete(w->f.streams[1], UINT_MAX);
	fixture_complete(w->f.streams[0]);
	fixture_complete(stream);
	for (int i = 0; i < 3; i++)
		g_assert_true(read[i].right);
}

/* It takes no memory for a second block, and copies no more than what is shared. */
static void test_moves(gconstpointer kind)
{
	struct vpmm_stats before, after;
	struct wedged w;
	char *ptr;

	wedge(&w, kind);
	before = fixture_stats(&w.f);
	ptr = resize(&w.f, w.ptr, WANTED, w.f.streams[0]);
	after = fixture_stats(&w.f);
	g_assert_true(ptr != w.ptr);
	g_assert_cmpuint(after.remapped - before.remapped, >=, HAD / 2);
	g_assert_cmpuint(after.defrags - before.defrags, ==, 1);
	g_assert_cmpuint(after.grows - before.grows, ==, after.grown > before.grown);
	g_assert_cmpuint(copies(&w.f), <=, 2);
	g_assert_cmpuint(after.live - before.live, ==, WANTED - HAD);
	g_assert_cmpuint(after.peak_mapped, <, WANTED + HAD / 2);
	assert_contents(&w, ptr, w.f.streams[0]);
	fixture_free(&w.f, ptr, w.f.streams[0]);
	g_assert_cmpuint(fixture_stats(&w.f).live, ==, 600 * KIB);
	fixture_close(&w.f);
}

/* What it shared is free behind the stream, and so are its old addresses. */
static void test_frees_behind(gconstpointer data)
{
	struct text foreign[120];
	struct wedged w;
	char *ptr;

	wedge(&w, data);
	ptr = resize(&w.f, w.ptr, WANTED, w.f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(foreign); i++)
		write_on(w.f.streams[1], fixture_malloc_bytes(&w.f, 400 * KIB, w.f.streams[1]), 400 * KIB, &foreign[i]);
	vpmm_host_stream_complete(w.f.streams[1], UINT_MAX);
	assert_contents(&w, ptr, w.f.streams[0]);
	fixture_complete(w.f.streams[1]);
	for (size_t i = 0; i < G_N_ELEMENTS(foreign); i++)
		check_on(w.f.streams[1], foreign[i].ptr, foreign[i].size, &foreign[i], foreign[i].seed);
	fixture_complete(w.f.streams[1]);
	for (size_t i = 0; i < G_N_ELEMENTS(foreign); i++)
		g_assert_true(foreign[i].right);
	assert_ok(vpmm_pool_trim(w.f.pool, 0, NULL));
	assert_ok(vpmm_pool_check(w.f.pool));
	assert_contents(&w, ptr, w.f.streams[0]);
	fixture_close(&w.f);
}

/* Another stream's work comes first, and the block is the stream's that has resized it. */
static void test_used(gconstpointer kind)
{
	struct wedged w;
	char *ptr;

	wedge(&w, kind);
	assert_ok(vpmm_use(w.f.pool, w.ptr, w.f.streams[2]));
	assert_ok(vpmm_host_stream_wait(w.f.streams[2], w.f.streams[0]));
	write_on(w.f.streams[2], w.ptr, HAD, &w.written);
	assert_ok(vpmm_host_stream_wait(w.f.streams[1], w.f.streams[0]));
	ptr = resize(&w.f, w.ptr, WANTED, w.f.streams[1]);
	g_assert_true(ptr != w.ptr);
	g_assert_cmpuint(fixture_stats(&w.f).remapped, >=, HAD / 2);
	fixture_submit_waits(w.f.streams[1]);
	fixture_complete(w.f.streams[0]);
	fixture_complete(w.f.streams[2]);
	assert_contents(&w, ptr, w.f.streams[1]);
	fixture_free(&w.f, ptr, w.f.streams[1]);
	fixture_close(&w.f);
}

/* Grown again and again, with neighbours in the way each time, it never takes memory for two. */
static void test_again(gconstpointer kind)
{
	struct wedged w;
	size_t size = HAD;
	char *ptr;

	wedge(&w, kind);
	ptr = w.ptr;
	for (int i = 0; i < 4; i++) {
		size += size / 4;
		ptr = resize(&w.f, ptr, size, w.f.streams[0]);
		fixture_malloc_bytes(&w.f, 700 * KIB, w.f.streams[0]);
	}
	g_assert_cmpuint(fixture_stats(&w.f).peak_mapped, <, size + size / 2);
	assert_contents(&w, ptr, w.f.streams[0]);
	fixture_close(&w.f);
}

/* The limit leaves room for the larger block, and not for both. */
static void test_limit(gconstpointer data)
{
	struct kind kind = *(const struct kind *)data;
	struct wedged w;
	void *ptr;

	kind.opts.limit = WANTED / PAGE * PAGE + 40 * PAGE;
	wedge(&w, &kind);
	ptr = resize(&w.f, w.ptr, WANTED, w.f.streams[0]);
	assert_contents(&w, ptr, w.f.streams[0]);
	fixture_close(&w.f);
}

/* A block with another right behind it, and room for 6 pages more in the device. */
static void *fill_device(struct fixture *f, const struct kind *kind, struct text *written)
{
	size_t all = kind->opts.limit - 6 * PAGE;
	char *ptr;

	fixture_open_faulty(f, kind->opts);
	ptr = resize(f, fixture_malloc_bytes(f, all, f->streams[0]), kind->size, f->streams[0]);
	g_assert_true(fixture_malloc_bytes(f, all - kind->size, f->streams[0]) == ptr + kind->size);
	write_on(f->streams[0], ptr, kind->size, written);
	return ptr;
}

/* A block that is small, or made of small extents, is mapped once more as well where there is no memory for a copy. */
static void test_last_resort(gconstpointer data)
{
	const struct kind *kind = data;
	struct text written, read;
	struct fixture f;
	char *old, *ptr;

	old = fill_device(&f, kind, &written);
	ptr = resize(&f, old, kind->size + 4 * PAGE, f.streams[0]);
	g_assert_true(ptr != old);
	g_assert_cmpuint(fixture_stats(&f).remapped, >, 0);
	check_on(f.streams[0], ptr, kind->size, &read, written.seed);
	fixture_complete(f.streams[0]);
	g_assert_true(read.right);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* Pages are mapped into the hole behind a block, whether something is free in front of it or not. */
static void test_paged_hole(void)
{
	struct text written, read;
	struct fixture f;
	char *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	ptr = fixture_malloc(&f, 8, f.streams[0]);
	write_on(f.streams[0], ptr, 5 * PAGE, &written);
	g_assert_true(resize(&f, ptr, 12 * PAGE, f.streams[0]) == ptr);
	g_assert_true(resize(&f, ptr, 5 * PAGE, f.streams[0]) == ptr);
	g_assert_true(resize(&f, ptr, 20 * PAGE, f.streams[1]) == ptr);
	g_assert_cmpuint(copies(&f), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 20 * PAGE);
	fixture_complete(f.streams[0]);
	check_on(f.streams[1], ptr, 5 * PAGE, &read, written.seed);
	fixture_complete(f.streams[1]);
	g_assert_true(read.right);
	fixture_close(&f);
}

static void test_last_resort_fails(gconstpointer data)
{
	static const enum backend_op ops[] = { BACKEND_OP_reserve, BACKEND_OP_create, BACKEND_OP_map, BACKEND_OP_access,
					       BACKEND_OP_copy, BACKEND_OP_clear, BACKEND_OP_event_record };
	const struct kind *kind = data;

	for (size_t i = 0; i < 3 * G_N_ELEMENTS(ops); i++) {
		struct text written, read;
		struct fixture f;
		void *old, *ptr;

		old = ptr = fill_device(&f, kind, &written);
		backend_fault_arm(f.pool->core.backend, ops[i / 3], i % 3, 1, -EIO);
		if (vpmm_realloc(f.pool, &ptr, kind->size + 4 * PAGE, f.streams[0]))
			g_assert_true(ptr == old);
		backend_fault_arm(f.pool->core.backend, ops[i / 3], 0, 0, 0);
		assert_ok(vpmm_pool_check(f.pool));
		check_on(f.streams[0], ptr, kind->size, &read, written.seed);
		fixture_complete(f.streams[0]);
		g_assert_true(read.right);
		fixture_free(&f, ptr, f.streams[0]);
		fixture_close(&f);
	}
}

/* Nothing of a stranger is in what the block gains. */
static void test_scrubbed(gconstpointer data)
{
	const struct kind *kind = data;
	struct wedged w;
	char *ptr;

	if (!kind->opts.scrub)
		return g_test_skip("the pool does not clear");
	wedge(&w, kind);
	fixture_leave_secret(&w.f, 60 * MIB, w.f.streams[1]);
	assert_ok(vpmm_pool_trim(w.f.pool, SIZE_MAX, NULL));
	ptr = resize(&w.f, w.ptr, WANTED, w.f.streams[0]);
	fixture_complete(w.f.streams[0]);
	g_assert_cmpuint(fixture_stats(&w.f).remapped, >=, HAD / 2);
	g_assert_true(fixture_is_clear(ptr + HAD, WANTED - HAD));
	fixture_close(&w.f);
}

/* Whichever call of the driver fails, the block is where it was, with its contents, or where it is to be. */
static void test_fails(gconstpointer kind)
{
	static const enum backend_op ops[] = { BACKEND_OP_reserve, BACKEND_OP_create, BACKEND_OP_map, BACKEND_OP_access,
					       BACKEND_OP_copy, BACKEND_OP_clear, BACKEND_OP_event_record };

	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		for (unsigned int skip = 0; skip < 2; skip++) {
			struct wedged w;
			void *given;

			wedge(&w, kind);
			given = w.ptr;
			backend_fault_arm(w.f.pool->core.backend, ops[i], skip, 1, -EIO);
			if (vpmm_realloc(w.f.pool, &given, WANTED, w.f.streams[0]))
				g_assert_true(given == w.ptr);
			backend_fault_arm(w.f.pool->core.backend, ops[i], 0, 0, 0);
			assert_ok(vpmm_pool_check(w.f.pool));
			assert_contents(&w, given, w.f.streams[0]);
			fixture_free(&w.f, given, w.f.streams[0]);
			fixture_close(&w.f);
		}
	}
}

static bool is_secret_or_clear(const char *ptr, size_t size)
{
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		if (*(const uint64_t *)(ptr + i) && !fixture_is_filled(ptr + i, sizeof(uint64_t), FIXTURE_SECRET))
			return false;
	}
	return true;
}

/* The stream that had the memory which a part was copied to gets it back without what is there now. */
static void test_fails_scrubbed(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_copy, BACKEND_OP_clear, BACKEND_OP_event_record };
	const struct kind *kind = &kinds[1];
	const size_t size = 60 * MIB;

	g_assert_cmpint(kind->opts.scrub, ==, VPMM_SCRUB_STREAM);
	for (unsigned int i = 0; i < 3 * G_N_ELEMENTS(ops); i++) {
		struct wedged w;
		void *given;

		wedge(&w, kind);
		fixture_complete(w.f.streams[0]);
		fixture_leave_secret(&w.f, size, w.f.streams[1]);
		assert_ok(vpmm_pool_trim(w.f.pool, SIZE_MAX, NULL));
		given = w.ptr;
		backend_fault_arm(w.f.pool->core.backend, ops[i / 3], i % 3, 1, -EIO);
		vpmm_realloc(w.f.pool, &given, WANTED, w.f.streams[0]);
		backend_fault_arm(w.f.pool->core.backend, ops[i / 3], 0, 0, 0);
		/* What was set aside is free once the stream calls again. */
		fixture_free(&w.f, fixture_malloc_bytes(&w.f, KIB, w.f.streams[0]), w.f.streams[0]);
		vpmm_host_stream_complete(w.f.streams[0], UINT_MAX);
		if (given == w.ptr)
			g_assert_true(is_secret_or_clear(fixture_malloc_bytes(&w.f, size, w.f.streams[1]), size));
		fixture_close(&w.f);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/realloc-large/moves", kinds, test_moves);
	fixture_add_rows("/realloc-large/frees-behind", kinds, test_frees_behind);
	fixture_add_rows("/realloc-large/used", kinds, test_used);
	fixture_add_rows("/realloc-large/again", kinds, test_again);
	fixture_add_rows("/realloc-large/limit", kinds, test_limit);
	fixture_add_rows("/realloc-large/scrubbed", kinds, test_scrubbed);
	fixture_add_rows("/realloc-large/last-resort", scarce, test_last_resort);
	fixture_add_rows("/realloc-large/last-resort-fails", scarce, test_last_resort_fails);
	g_test_add_func("/realloc-large/paged-hole", test_paged_hole);
	g_test_add_data_func("/realloc-large/fails/packed", &kinds[0], test_fails);
	g_test_add_data_func("/realloc-large/fails/scrub", &kinds[1], test_fails);
	g_test_add_func("/realloc-large/fails-scrubbed", test_fails_scrubbed);
	return g_test_run();
}
