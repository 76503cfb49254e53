// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_SHAREABLE, vpmm_send() and vpmm_receive(): one memory, two pools. */
#define _GNU_SOURCE 1
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "host/capture-fixture.h"
#include "host/export-fixture.h"

static const struct kind kinds[] = {
	{ "packed", { FIXTURE_PACKED } },
	{ "paged", { FIXTURE_OPTS } },
	{ "driver", { .size = sizeof(struct vpmm_opts), .backend = "host", .page_size = SIZE_MAX } },
	{ "scrub", { FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS } },
};

static uint64_t memory_free(struct fixture *f)
{
	struct vpmm_info info = { .size = sizeof(info) };

	assert_ok(vpmm_pool_info(f->pool, &info));
	return info.memory_free;
}

static void test_one_memory(gconstpointer data)
{
	const struct kind *kind = data;
	char *here, *there;
	size_t size = 0;
	struct ends e;

	ends_open(&e, kind->opts, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	memset(here, 0x11, SIZE);
	assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));

	there = receive_block(&e, &size);

	g_assert_cmpuint(size, ==, SIZE);
	g_assert_true(there != here);
	g_assert_cmpmem(there, SIZE, here, SIZE);
	memset(there, 0x22, SIZE);
	g_assert_cmpint(here[0], ==, 0x22);
	g_assert_cmpint(here[SIZE - 1], ==, 0x22);
	fixture_free(&e.from, here, e.from.streams[0]);
	fixture_free(&e.to, there, e.to.streams[0]);
	ends_close(&e);
}

/* What the one frees, the other keeps, and nobody else gets. */
static void test_either_first(gconstpointer data)
{
	const struct kind *kind = data;

	for (int first = 0; first < 2; first++) {
		struct ends e;
		uint64_t free_before;
		char *blocks[2];

		ends_open(&e, kind->opts, SOCK_STREAM);
		free_before = memory_free(&e.from);
		blocks[0] = shareable_malloc(&e.from, SIZE);
		memset(blocks[0], 0x33, SIZE);
		assert_ok(vpmm_send(NULL, blocks[0], e.sockets[0]));
		blocks[1] = receive_block(&e, NULL);

		assert_ok(vpmm_free(NULL, blocks[first], NULL));
		for (int i = 0; i < 4; i++) {
			char *other = fixture_malloc_bytes(&e.from, SIZE, e.from.streams[0]);

			memset(other, 0x44, SIZE);
			fixture_free(&e.from, other, e.from.streams[0]);
		}

		g_assert_cmpint(blocks[!first][0], ==, 0x33);
		g_assert_cmpint(blocks[!first][SIZE - 1], ==, 0x33);
		assert_ok(vpmm_free(NULL, blocks[!first], NULL));
		assert_ok(vpmm_pool_trim(e.from.pool, 0, NULL));
		g_assert_cmpuint(memory_free(&e.from), >=, free_before - PAGE);
		ends_close(&e);
	}
}

/* Each end counts what it has, once; the block is found at either address. */
static void test_accounts(void)
{
	struct vpmm_allocation found = { .size = sizeof(found) };
	struct vpmm_stats stats;
	char *here, *there;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	pass_block(&e, &here, &there);

	stats = fixture_stats(&e.from);
	g_assert_cmpuint(stats.shareable, ==, 3 * PAGE);
	g_assert_cmpuint(stats.imported, ==, 0);
	g_assert_cmpuint(stats.requested, ==, SIZE);
	g_assert_cmpuint(stats.mapped + stats.live, ==, 0);
	g_assert_cmpuint(stats.peak_taken, >=, 3 * PAGE);
	stats = fixture_stats(&e.to);
	g_assert_cmpuint(stats.shareable, ==, 0);
	g_assert_cmpuint(stats.imported, ==, 3 * PAGE);
	g_assert_cmpuint(stats.requested, ==, SIZE);
	assert_ok(vpmm_lookup(there + SIZE - 1, &found));
	g_assert_true(found.pool == e.to.pool && found.base == there && found.bytes == SIZE);
	assert_error(vpmm_lookup(there + SIZE, &found), EINVAL, "no pool");
	assert_ok(vpmm_lookup(here, &found));
	g_assert_true(found.pool == e.from.pool && found.base == here);

	fixture_free(&e.from, here, e.from.streams[0]);
	fixture_free(&e.to, there, e.to.streams[0]);
	stats = fixture_stats(&e.from);
	g_assert_cmpuint(stats.shareable + stats.requested + stats.held, ==, 0);
	g_assert_cmpuint(stats.given_back, ==, 3 * PAGE);
	g_assert_cmpuint(stats.mallocs, ==, stats.frees);
	stats = fixture_stats(&e.to);
	g_assert_cmpuint(stats.imported + stats.requested + stats.held + stats.given_back, ==, 0);
	g_assert_cmpuint(stats.mallocs, ==, stats.frees);
	ends_close(&e);
}

static void test_dumped(void)
{
	char *here, *there, *line, *text;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	pass_block(&e, &here, &there);

	text = fixture_dump(&e.from);
	line = g_strdup_printf("\nshareable %p %zu\n", (void *)here, 3 * PAGE);
	g_assert_nonnull(strstr(text, line));
	g_free(line);
	free(text);
	text = fixture_dump(&e.to);
	line = g_strdup_printf("\nimported %p %zu\n", (void *)there, 3 * PAGE);
	g_assert_nonnull(strstr(text, line));
	g_free(line);
	free(text);
	ends_close(&e);
}

/* The memory stays until the work that uses it is complete, and goes with the next call after that. */
static void test_freed_at_work(void)
{
	struct ends e;
	char *blocks[2];

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	pass_block(&e, &blocks[0], &blocks[1]);
	assert_ok(vpmm_host_stream_submit(e.from.streams[0]));
	assert_ok(vpmm_host_stream_submit(e.to.streams[1]));

	assert_ok(vpmm_use(e.to.pool, blocks[1], e.to.streams[1]));
	fixture_free(&e.from, blocks[0], e.from.streams[0]);
	fixture_free(&e.to, blocks[1], e.to.streams[0]);

	blocks[0][0] = 1;
	blocks[1][0] = 2;
	g_assert_cmpuint(fixture_stats(&e.from).held, ==, fixture_stats(&e.from).shareable);
	g_assert_cmpuint(fixture_stats(&e.to).held, ==, fixture_stats(&e.to).imported);
	assert_error(vpmm_free(e.from.pool, blocks[0], e.from.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_send(e.from.pool, blocks[0], e.sockets[0]), EINVAL, "no allocation");
	fixture_complete(e.from.streams[0]);
	fixture_complete(e.to.streams[1]);
	assert_ok(vpmm_pool_trim(e.from.pool, 0, NULL));
	fixture_free(&e.to, fixture_malloc(&e.to, 1, e.to.streams[0]), e.to.streams[0]);
	g_assert_cmpuint(fixture_stats(&e.from).shareable, ==, 0);
	g_assert_cmpuint(fixture_stats(&e.to).imported, ==, 0);
	ends_close(&e);
}

/* However many there are, and whatever the pool is to keep of the memory that it can use again. */
static void test_trimmed(void)
{
	char *blocks[40];
	size_t released = 0;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	for (guint i = 0; i < G_N_ELEMENTS(blocks); i++)
		blocks[i] = shareable_malloc(&e.from, PAGE);
	assert_ok(vpmm_host_stream_submit(e.from.streams[0]));
	for (guint i = 0; i < G_N_ELEMENTS(blocks); i++)
		fixture_free(&e.from, blocks[i], e.from.streams[0]);
	g_assert_cmpuint(fixture_stats(&e.from).shareable, ==, G_N_ELEMENTS(blocks) * PAGE);
	fixture_complete(e.from.streams[0]);

	assert_ok(vpmm_pool_trim(e.from.pool, SIZE_MAX, &released));

	g_assert_cmpuint(fixture_stats(&e.from).shareable, ==, 0);
	g_assert_cmpuint(released, ==, G_N_ELEMENTS(blocks) * PAGE);
	ends_close(&e);
}

static void test_freed_any(void)
{
	struct ends e;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	assert_ok(vpmm_host_stream_submit(e.from.streams[2]));

	assert_ok(vpmm_free(e.from.pool, here, VPMM_STREAM_ANY));

	here[0] = 1;
	g_assert_cmpuint(fixture_stats(&e.from).shareable, ==, 3 * PAGE);
	fixture_complete(e.from.streams[2]);
	assert_ok(vpmm_pool_trim(e.from.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&e.from).shareable, ==, 0);
	ends_close(&e);
}

/* A graph may write to the block each time it is launched. */
static void test_used_by_graph(void)
{
	void *captured;
	struct ends e;
	uint64_t id;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	id = begin(&e.from, e.from.streams[0]);
	assert_ok(vpmm_malloc_flags(e.from.pool, &captured, SIZE, e.from.streams[0], VPMM_SHAREABLE));
	assert_ok(vpmm_use(e.from.pool, here, e.from.streams[0]));
	finish(e.from.streams[0]);

	fixture_free(&e.from, here, e.from.streams[1]);
	fixture_free(&e.from, captured, e.from.streams[1]);

	g_assert_cmpuint(fixture_stats(&e.from).shareable, ==, 3 * PAGE);
	here[0] = 1;
	assert_ok(vpmm_graph_retire(e.from.pool, id, e.from.streams[0]));
	assert_ok(vpmm_pool_trim(e.from.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&e.from).shareable, ==, 0);
	ends_close(&e);
}

static void test_not_sent(void)
{
	int file = open("/dev/null", O_RDWR | O_CLOEXEC), inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char *here, *there, *plain;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	pass_block(&e, &here, &there);
	plain = fixture_malloc(&e.from, 1, e.from.streams[0]);

	assert_error(vpmm_send(e.from.pool, plain, e.sockets[0]), EINVAL, "VPMM_SHAREABLE");
	assert_error(vpmm_send(e.to.pool, there, e.sockets[0]), EINVAL, "came from another process");
	assert_error(vpmm_send(e.from.pool, here + PAGE, e.sockets[0]), EINVAL, "no allocation");
	assert_error(vpmm_send(e.to.pool, here, e.sockets[0]), EINVAL, "no allocation");
	assert_error(vpmm_send(e.from.pool, NULL, e.sockets[0]), EINVAL, "ptr is NULL");
	assert_error(vpmm_send(e.from.pool, here, -1), EINVAL, "descriptor -1");
	assert_error(vpmm_send(e.from.pool, here, file), EINVAL, "descriptor");
	assert_error(vpmm_send(e.from.pool, here, inet), EINVAL, "not a Unix socket");
	assert_error(vpmm_receive(e.to.pool, NULL, NULL, e.sockets[1]), EINVAL, "ptr is NULL");
	assert_error(vpmm_receive(e.to.pool, &(void *){ NULL }, NULL, file), EINVAL, "descriptor");
	assert_error(vpmm_receive(e.to.pool, &(void *){ NULL }, NULL, inet), EINVAL, "not a Unix socket");
	ends_close(&e);
	close(file);
	close(inet);
}

static void test_option_needed(void)
{
	void *ptr = (void *)7;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_malloc_flags(f.pool, &ptr, SIZE, f.streams[0], VPMM_SHAREABLE), ENOTSUP, "VPMM_EXPORT");
	g_assert_true(ptr == (void *)7);
	fixture_close(&f);
}

static void test_fabric_not_there(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .export_as = VPMM_EXPORT_FABRIC };
	struct vpmm_pool *pool;

	assert_error(vpmm_pool_create(&pool, &opts), ENOTSUP, "file descriptors only");
	g_assert_nonnull(strstr(vpmm_last_error(), "export_as (VPMM_EXPORT): "));
	fixture_assert_nothing_left();
}

/* Only what was not changed is not refused. */
static void test_not_resized(void)
{
	char *here, *there;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	pass_block(&e, &here, &there);
	for (int i = 0; i < 2; i++) {
		struct fixture *f = i ? &e.to : &e.from;
		void *ptr = i ? there : here, *before = ptr;

		assert_error(vpmm_realloc(f->pool, &ptr, SIZE + 1, f->streams[0]), ENOTSUP, "shareable");
		assert_error(vpmm_realloc(f->pool, &ptr, SIZE - 1, f->streams[0]), ENOTSUP, "shareable");
		assert_ok(vpmm_realloc(f->pool, &ptr, SIZE, f->streams[0]));
		g_assert_true(ptr == before);
		assert_ok(vpmm_realloc(f->pool, &ptr, 0, f->streams[0]));
		g_assert_null(ptr);
		assert_ok(vpmm_pool_check(f->pool));
	}
	g_assert_cmpuint(fixture_stats(&e.from).shareable + fixture_stats(&e.to).imported, ==, 0);
	ends_close(&e);
}

/* The limit is about memory of this pool's. */
static void test_limited(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .limit = 4 * PAGE };
	char *here, *there[3];
	void *ptr = NULL;
	struct ends e;

	ends_open(&e, opts, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	assert_error(vpmm_malloc_flags(e.from.pool, &ptr, 2 * PAGE, e.from.streams[0], VPMM_SHAREABLE), ENOMEM, "limit");
	assert_error(vpmm_malloc(e.from.pool, &ptr, 2 * PAGE, e.from.streams[0]), ENOMEM, "limit");
	for (int i = 0; i < 3; i++) {
		assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));
		there[i] = receive_block(&e, NULL);
	}
	g_assert_cmpuint(fixture_stats(&e.to).imported, ==, 9 * PAGE);
	for (int i = 0; i < 3; i++)
		fixture_free(&e.to, there[i], e.to.streams[0]);
	ends_close(&e);
}

/* What the pool has, free or about to be, is given back for a block that needs memory of its own. */
static void test_memory_reclaimed(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .limit = 4 * PAGE };
	struct ends e;
	char *ptr;

	ends_open(&e, opts, SOCK_STREAM);
	ptr = fixture_malloc(&e.from, 4, e.from.streams[0]);
	fixture_free(&e.from, ptr, e.from.streams[0]);
	g_assert_cmpuint(fixture_stats(&e.from).mapped, ==, 4 * PAGE);

	ptr = shareable_malloc(&e.from, 4 * PAGE);

	g_assert_cmpuint(fixture_stats(&e.from).mapped, ==, 0);
	fixture_free(&e.from, ptr, e.from.streams[0]);
	ends_close(&e);
}

static void test_cleared(void)
{
	void *ptr = NULL;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	assert_ok(vpmm_malloc_flags(e.from.pool, &ptr, SIZE, e.from.streams[0], VPMM_SHAREABLE | VPMM_ZERO | VPMM_IDLE));
	g_assert_true(fixture_is_clear(ptr, SIZE));
	g_assert_cmpuint(fixture_stats(&e.from).scrubbed, >=, SIZE);
	fixture_free(&e.from, ptr, e.from.streams[1]);
	ends_close(&e);
}

static const struct socket_type {
	const char *name;
	int type;
} types[] = { { "stream", SOCK_STREAM }, { "seqpacket", SOCK_SEQPACKET }, { "dgram", SOCK_DGRAM } };

/* Each message keeps its bounds, whatever the type of the socket. */
static void test_many(gconstpointer data)
{
	const struct socket_type *type = data;
	char *here[10], *there[10];
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, type->type);
	for (int i = 0; i < 10; i++) {
		here[i] = shareable_malloc(&e.from, (size_t)i * 1000 + 1);
		here[i][0] = (char)i;
	}
	for (int i = 0; i < 10; i++)
		assert_ok(vpmm_send(e.from.pool, here[i], e.sockets[0]));
	for (int i = 0; i < 10; i++) {
		size_t size;

		there[i] = receive_block(&e, &size);
		g_assert_cmpuint(size, ==, (size_t)i * 1000 + 1);
		g_assert_cmpint(there[i][0], ==, i);
	}
	for (int i = 0; i < 10; i++) {
		fixture_free(&e.from, here[i], e.from.streams[0]);
		fixture_free(&e.to, there[i], e.to.streams[0]);
	}
	ends_close(&e);
}

/* A descriptor of the memory that a child of the program inherits would keep it. */
static void test_close_on_exec(void)
{
	struct ends e;
	guint seen = 0;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	assert_ok(vpmm_send(e.from.pool, shareable_malloc(&e.from, SIZE), e.sockets[0]));
	receive_block(&e, NULL);
	for (int fd = 0; fd < 1024; fd++) {
		char *path = g_strdup_printf("/proc/self/fd/%d", fd);
		char *target = g_file_read_link(path, NULL);

		if (target && strstr(target, "vpmm-export")) {
			g_assert_cmpint(fcntl(fd, F_GETFD) & FD_CLOEXEC, ==, FD_CLOEXEC);
			seen++;
		}
		g_free(target);
		g_free(path);
	}
	g_assert_cmpuint(seen, >, 0);
	ends_close(&e);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/export/one-memory", kinds, test_one_memory);
	fixture_add_rows("/export/either-first", kinds, test_either_first);
	g_test_add_func("/export/accounts", test_accounts);
	g_test_add_func("/export/dumped", test_dumped);
	g_test_add_func("/export/freed-at-work", test_freed_at_work);
	g_test_add_func("/export/trimmed", test_trimmed);
	g_test_add_func("/export/freed-any", test_freed_any);
	g_test_add_func("/export/used-by-graph", test_used_by_graph);
	g_test_add_func("/export/not-sent", test_not_sent);
	g_test_add_func("/export/option-needed", test_option_needed);
	g_test_add_func("/export/fabric-not-there", test_fabric_not_there);
	g_test_add_func("/export/not-resized", test_not_resized);
	g_test_add_func("/export/limited", test_limited);
	g_test_add_func("/export/memory-reclaimed", test_memory_reclaimed);
	g_test_add_func("/export/cleared", test_cleared);
	fixture_add_rows("/export/many", types, test_many);
	g_test_add_func("/export/close-on-exec", test_close_on_exec);
	return g_test_run();
}
