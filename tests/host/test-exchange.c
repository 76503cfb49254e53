// SPDX-License-Identifier: LGPL-2.1-or-later
/* Small blocks that outlive a large one do not keep its memory from large requests. */
#include <errno.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"

#define MIB ((size_t)1 << 20)
#define TOTAL (1024 * MIB)
#define BLOCKS 512
#define OPTS (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 8 * TOTAL, .limit = TOTAL }

/* The sizes of blocks, and which of them survive. */
struct row {
	const char *name;
	size_t block;
	int nth;
	size_t pages;		/* VPMM_PAGES; 0: one large block comes first instead */
};

static const struct row rows[] = {
	{ "after-large/2-mib", 2 * MIB, 8, 0 },
	{ "after-large/4-mib", 4 * MIB, 4, 0 },
	{ "after-large/16-mib", 16 * MIB, 8, 0 },
	{ "after-large/32-mib", 32 * MIB, 8, 0 },
	{ "pages/2-mib", 2 * MIB, 8, TOTAL / PAGE },
	{ "pages/4-mib", 4 * MIB, 4, TOTAL / PAGE },
};

static struct vpmm_opts opts_of(const struct row *row)
{
	struct vpmm_opts opts = OPTS;

	opts.pages = row->pages;
	return opts;
}

/* Fills the pool with blocks, of which every n-th survives. Return: bytes that are live then. */
static size_t leave_survivors(struct fixture *f, const struct row *row)
{
	size_t count = TOTAL / row->block, live = 0;
	void *blocks[BLOCKS];

	if (!row->pages)
		fixture_free(f, fixture_malloc_bytes(f, TOTAL, NULL), NULL);
	/* All of it: an exchange must not take room that the blocks need. */
	for (size_t i = 0; i < count; i++)
		blocks[i] = fixture_malloc_bytes(f, row->block, NULL);
	for (size_t i = 0; i < count; i++) {
		if (i % (size_t)row->nth)
			fixture_free(f, blocks[i], NULL);
		else
			live += row->block;
	}
	assert_ok(vpmm_pool_check(f->pool));
	return live;
}

/* At the limit, nearly all of what is free can be had in one request. */
static void test_served(const void *data)
{
	const struct row *row = data;
	struct fixture f;
	size_t live;

	fixture_open(&f, opts_of(row));
	live = leave_survivors(&f, row);
	fixture_malloc_bytes(&f, (TOTAL - live) / 100 * 95, NULL);
	fixture_close(&f);
}

/* A block that the survivors' extents have room for is served whatever fails, once it is asked for again. */
static void test_fails(const void *data)
{
	static const enum backend_op ops[] = { BACKEND_OP_create, BACKEND_OP_map, BACKEND_OP_access, BACKEND_OP_unmap,
					       BACKEND_OP_release };
	const size_t op = GPOINTER_TO_SIZE(data);
	struct vpmm_stats before;
	struct fixture f;
	void *ptr;
	int fired = 0;

	fixture_open_faulty(&f, OPTS);
	fixture_free(&f, fixture_malloc_bytes(&f, TOTAL, NULL), NULL);
	for (int i = 0; i < 64; i++) {
		before = fixture_stats(&f);
		backend_fault_arm(f.pool->core.backend, ops[op], 0, 1, op ? -EIO : -ENOMEM);
		ptr = NULL;
		if (vpmm_malloc(f.pool, &ptr, 2 * MIB, NULL))
			g_assert_null(ptr);
		backend_fault_arm(f.pool->core.backend, ops[op], 0, 0, 0);
		fired += fixture_stats(&f).creates > before.creates || !ptr;
		assert_ok(vpmm_pool_check(f.pool));
		if (!ptr)
			fixture_malloc_bytes(&f, 2 * MIB, NULL);
	}
	/* Otherwise there was no exchange, and the test is of nothing. */
	g_assert_cmpint(fired, >, 0);
	fixture_close(&f);
}

/* A query foresees an exchange, and changes nothing. */
static void test_query(void)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct vpmm_stats before, after;
	unsigned int exchanged = 0;
	struct fixture f;

	fixture_open(&f, OPTS);
	fixture_free(&f, fixture_malloc_bytes(&f, TOTAL, NULL), NULL);
	for (int i = 0; i < 64; i++) {
		assert_ok(vpmm_pool_query(f.pool, 2 * MIB, NULL, &forecast));
		before = fixture_stats(&f);
		fixture_malloc_bytes(&f, 2 * MIB, NULL);
		after = fixture_stats(&f);
		g_assert_cmpuint(forecast.grown, ==, after.grown - before.grown);
		exchanged += after.mapped < before.mapped;
	}
	g_assert_cmpuint(exchanged, >, 0);
	fixture_close(&f);
}

/* An extent on which work is pending stays where it is, and is broken. */
static void test_pending(void)
{
	struct vpmm_stats before;
	struct CUstream_st *stream;
	struct fixture f;
	void *large;

	fixture_open(&f, OPTS);
	stream = f.streams[0];
	large = fixture_malloc_bytes(&f, TOTAL, stream);
	fixture_free_at_work(&f, large, stream);
	before = fixture_stats(&f);
	for (int i = 0; i < 64; i++)
		fixture_malloc_bytes(&f, 2 * MIB, stream);
	g_assert_cmpuint(fixture_stats(&f).unmaps, ==, before.unmaps);
	fixture_complete(stream);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "create", "map", "access", "unmap", "release" };

	g_test_init(&argc, &argv, NULL);
	fixture_add_each("/exchange/served", rows, sizeof(rows[0]), G_N_ELEMENTS(rows), test_served);
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *path = g_strdup_printf("/exchange/fails/%s", names[i]);

		g_test_add_data_func(path, GSIZE_TO_POINTER(i), test_fails);
	}
	g_test_add_func("/exchange/query", test_query);
	g_test_add_func("/exchange/pending", test_pending);
	return g_test_run();
}
