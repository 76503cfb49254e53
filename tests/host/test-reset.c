// SPDX-License-Identifier: LGPL-2.1-or-later
/* A device that is reset: what calls on its pools answer, how a pool ends, and how a default pool begins anew. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/backend.h"
#include "host/backend.h"
#include "support/fixture.h"

/* What a pool can have when its device is reset. */
struct state {
	const char *name;
	struct vpmm_opts opts;
	void (*prepare)(struct fixture *f);
};

static void nothing(struct fixture *f)
{
	(void)f;
}

static void live_and_cached(struct fixture *f)
{
	fixture_malloc(f, 3, f->streams[0]);
	fixture_malloc_bytes(f, 1000, f->streams[1]);
	fixture_free(f, fixture_malloc(f, 2, f->streams[2]), f->streams[2]);
	fixture_free(f, fixture_malloc(f, 2, NULL), NULL);
}

/* Free memory of several streams that have not got there, and a block made of it by remapping. */
static void remapped(struct fixture *f)
{
	fixture_free_apart(f);
	fixture_malloc(f, 5, f->streams[2]);
}

static void deferred(struct fixture *f)
{
	void *ptr = fixture_malloc(f, 2, f->streams[0]);

	assert_ok(vpmm_use(f->pool, ptr, f->streams[1]));
	assert_ok(vpmm_host_stream_submit(f->streams[1]));
	fixture_free(f, ptr, f->streams[0]);
	fixture_free(f, fixture_malloc(f, 1, f->streams[3]), VPMM_STREAM_ANY);
}

/* A graph has a block that was freed under its capture, and the capture goes on. */
static void captured(struct fixture *f)
{
	void *ptr;

	assert_ok(vpmm_host_capture_begin(f->streams[0]));
	ptr = fixture_malloc(f, 1, f->streams[0]);
	fixture_malloc(f, 2, f->streams[0]);
	fixture_free(f, ptr, f->streams[0]);
	fixture_free(f, fixture_malloc(f, 1, f->streams[1]), f->streams[1]);
}

static void growable(struct fixture *f)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc_growable(f->pool, &ptr, PAGE, 8 * PAGE, f->streams[0]));
	assert_ok(vpmm_realloc(f->pool, &ptr, 4 * PAGE, f->streams[0]));
}

static void of_the_driver(struct fixture *f)
{
	fixture_malloc_bytes(f, 100, f->streams[0]);
	fixture_free(f, fixture_malloc_bytes(f, 100, f->streams[1]), f->streams[1]);
}

/* One block that is live, one that is freed, and one that came from a socket. */
static void shareable(struct fixture *f)
{
	void *ptrs[2], *received;
	int sockets[2];

	for (int i = 0; i < 2; i++)
		assert_ok(vpmm_malloc_flags(f->pool, &ptrs[i], 3 * PAGE, f->streams[0], VPMM_SHAREABLE));
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), ==, 0);
	assert_ok(vpmm_send(f->pool, ptrs[0], sockets[0]));
	assert_ok(vpmm_receive(f->pool, &received, NULL, sockets[1]));
	close(sockets[0]);
	close(sockets[1]);
	fixture_free(f, ptrs[1], f->streams[0]);
}

static const struct state states[] = {
	{ "empty", { FIXTURE_PACKED }, nothing },
	{ "live", { FIXTURE_PACKED }, live_and_cached },
	{ "remapped", { FIXTURE_PACKED }, remapped },
	{ "deferred", { FIXTURE_PACKED }, deferred },
	{ "captured", { FIXTURE_PACKED }, captured },
	{ "growable", { FIXTURE_PACKED }, growable },
	{ "scrub", { FIXTURE_PACKED, .scrub = VPMM_SCRUB_STREAM }, live_and_cached },
	{ "paged", { FIXTURE_OPTS }, live_and_cached },
	{ "paged-remapped", { FIXTURE_OPTS }, remapped },
	{ "small-driver", { FIXTURE_OPTS }, of_the_driver },
	{ "shareable", { FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD }, shareable },
};

/* A pool in a state, on a device that is reset. The streams are gone. */
static void reset_in(struct fixture *f, const struct state *state)
{
	fixture_open(f, state->opts);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_submit(f->streams[i]));
	state->prepare(f);
	assert_ok(vpmm_host_reset());
}

/* Everything is back, and no stream or event of before the reset was used. */
static void assert_all_back(struct fixture *f)
{
	fixture_assert_nothing_left();
	g_string_free(f->log, TRUE);
}

static void test_destroy(gconstpointer data)
{
	struct fixture f;

	reset_in(&f, data);

	vpmm_pool_destroy(f.pool);

	assert_all_back(&f);
}

static void test_abandon(gconstpointer data)
{
	struct fixture f;

	reset_in(&f, data);

	assert_ok(vpmm_pool_abandon(f.pool));

	assert_all_back(&f);
}

/*
 * Before the reset, with work pending: the streams go on, and nobody waits for them. Only what uses its memory must
 * be complete, such as clears.
 */
static void test_abandon_early(gconstpointer data)
{
	const struct state *state = data;
	unsigned int before, pending;
	struct fixture f;

	fixture_open(&f, state->opts);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	state->prepare(&f);
	for (int i = 0; state->opts.scrub && i < STREAMS; i++)
		fixture_complete(f.streams[i]);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &before));

	assert_ok(vpmm_pool_abandon(f.pool));

	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, before);
	g_assert_true(pending || state->opts.scrub);
	assert_ok(vpmm_host_reset());
	assert_all_back(&f);
}

#define assert_stale(call) assert_error(call, ESTALE, "was reset")

/* Every call says so and changes nothing, with a stream of after the reset, too. */
static void test_calls(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct CUstream_st *stream;
	struct fixture f;
	void *ptr, *kept;
	uint64_t id = 77;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = kept = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free(&f, fixture_malloc(&f, 1, NULL), NULL);
	assert_ok(vpmm_host_reset());
	assert_ok(vpmm_host_stream_create(&stream));

	for (int i = 0; i < 2; i++) {
		struct CUstream_st *handle = i ? stream : NULL;

		assert_stale(vpmm_malloc(f.pool, &ptr, PAGE, handle));
		assert_stale(vpmm_malloc_flags(f.pool, &ptr, PAGE, handle, VPMM_ZERO));
		assert_stale(vpmm_malloc_flags(f.pool, &ptr, PAGE, handle, VPMM_IDLE));
		assert_stale(vpmm_malloc_growable(f.pool, &ptr, PAGE, 2 * PAGE, handle));
		assert_stale(vpmm_realloc(f.pool, &ptr, PAGE, handle));
		assert_stale(vpmm_free(f.pool, ptr, handle));
		assert_stale(vpmm_free(NULL, ptr, handle));
		assert_stale(vpmm_use(f.pool, ptr, handle));
		assert_stale(vpmm_stream_retire(f.pool, handle));
		assert_stale(vpmm_capture_id(f.pool, handle, &id));
		assert_stale(vpmm_graph_retire(f.pool, 1, handle));
		assert_stale(vpmm_pool_query(f.pool, PAGE, handle, &forecast));
	}
	assert_stale(vpmm_free(f.pool, ptr, VPMM_STREAM_ANY));
	assert_stale(vpmm_capture_group(f.pool, 1, 1));
	assert_stale(vpmm_send(f.pool, ptr, -1));
	assert_stale(vpmm_receive(f.pool, &ptr, NULL, -1));
	assert_stale(vpmm_pool_trim(f.pool, 0, NULL));
	assert_stale(vpmm_pool_stats(f.pool, &stats));
	assert_stale(vpmm_pool_reset_peaks(f.pool));
	assert_stale(vpmm_pool_set_peers(f.pool, NULL, 0));
	assert_stale(vpmm_pool_info(f.pool, &info));
	assert_stale(vpmm_pool_dump(f.pool, stderr));
	assert_stale(vpmm_pool_check(f.pool));

	g_assert_true(ptr == kept);
	g_assert_cmpuint(id, ==, 77);
	memset(ptr, 1, 2 * PAGE);
	assert_ok(vpmm_host_stream_destroy(stream));
	vpmm_pool_destroy(f.pool);
	assert_all_back(&f);
}

/* Two pools, of which one is made after the reset, on the streams of then. */
static void test_next_pool(void)
{
	struct fixture before, after;

	fixture_open(&before, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&before, 2, before.streams[0]);
	assert_ok(vpmm_host_reset());

	fixture_open(&after, (struct vpmm_opts){ FIXTURE_PACKED });

	fixture_free_apart(&after);
	fixture_malloc(&after, 5, after.streams[2]);
	vpmm_pool_destroy(before.pool);
	g_string_free(before.log, TRUE);
	fixture_close(&after);
}

/* Other devices do not notice. */
static void test_other_device(void)
{
	struct fixture f;

	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	assert_ok(vpmm_host_set_device(1));

	assert_ok(vpmm_host_reset());

	assert_ok(vpmm_host_set_device(0));
	fixture_free(&f, fixture_malloc(&f, 2, f.streams[0]), f.streams[0]);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_DEVICES");
}

static void get_ids(uint64_t ids[2])
{
	struct backend *be;

	assert_ok(backend_open("host", NULL, &be));
	assert_ok(be->ops->enter(be));
	assert_ok(be->ops->stream_id(be, NULL, &ids[0]));
	assert_ok(be->ops->stream_id(be, VPMM_HOST_STREAM_PER_THREAD, &ids[1]));
	be->ops->leave(be);
	be->ops->close(be);
}

/* Streams of a reset device are gone, and the default stream and that of the thread are others. */
static void test_streams(void)
{
	uint64_t before[2], after[2];
	struct CUstream_st *stream;
	unsigned int pending = 77;

	get_ids(before);
	assert_ok(vpmm_host_stream_create(&stream));
	assert_ok(vpmm_host_stream_submit(stream));
	assert_ok(vpmm_host_stream_submit(NULL));
	assert_ok(vpmm_host_stream_submit(VPMM_HOST_STREAM_PER_THREAD));

	assert_ok(vpmm_host_reset());

	assert_error(vpmm_host_stream_submit(stream), EINVAL, "not a stream");
	assert_error(vpmm_host_stream_destroy(stream), EINVAL, "not a stream");
	assert_ok(vpmm_host_stream_pending(NULL, &pending));
	g_assert_cmpuint(pending, ==, 0);
	assert_ok(vpmm_host_stream_pending(VPMM_HOST_STREAM_PER_THREAD, &pending));
	g_assert_cmpuint(pending, ==, 0);
	get_ids(after);
	g_assert_cmpuint(after[0], !=, before[0]);
	g_assert_cmpuint(after[1], !=, before[1]);
}

static void reset_in_work(void *data)
{
	*(int *)data = vpmm_host_reset();
}

static void test_reset_in_work(void)
{
	struct CUstream_st *stream;
	int err = 0;

	assert_ok(vpmm_host_stream_create(&stream));
	assert_ok(vpmm_host_stream_launch(stream, reset_in_work, &err));

	assert_ok(vpmm_host_stream_complete(stream, 1));

	g_assert_cmpint(err, ==, -EBUSY);
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void abandon_in_log(void *data, int level, const char *text)
{
	struct fixture *f = data;

	(void)level;
	if (strstr(text, "destroyed"))
		assert_error(vpmm_pool_abandon(f->pool), EBUSY, "being destroyed");
}

static void test_abandon_in_log(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .log_level = VPMM_LOG_INFO, .log = abandon_in_log };
	struct fixture f;

	f.log = g_string_new(NULL);
	opts.log_data = &f;
	assert_ok(vpmm_pool_create(&f.pool, &opts));

	assert_ok(vpmm_pool_abandon(f.pool));

	assert_all_back(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/reset/destroy", states, test_destroy);
	fixture_add_rows("/reset/abandon", states, test_abandon);
	fixture_add_rows("/reset/abandon-early", states, test_abandon_early);
	g_test_add_func("/reset/calls", test_calls);
	g_test_add_func("/reset/next-pool", test_next_pool);
	g_test_add_func("/reset/other-device", test_other_device);
	g_test_add_func("/reset/streams", test_streams);
	g_test_add_func("/reset/in-work", test_reset_in_work);
	g_test_add_func("/reset/abandon-in-log", test_abandon_in_log);
	return g_test_run();
}
