// SPDX-License-Identifier: LGPL-2.1-or-later
/* The backend that wraps another: it passes everything on, counts it, and fails when told to. */
#include <errno.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "host/backend.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "util/error.h"

#define SIZE ((size_t)64 << 20)
#define THREADS 4
#define ROUNDS 500

static struct backend *open_wrapper(void)
{
	struct backend *inner, *be;

	assert_ok(backend_host.open(0, &inner));
	assert_ok(backend_fault_wrap(inner, &be));
	assert_ok(be->ops->enter(be));
	return be;
}

static void close_wrapper(struct backend *be)
{
	struct host_left left, none = { 0 };

	be->ops->leave(be);
	be->ops->close(be);
	backend_host_left(&left);
	g_assert_cmpmem(&left, sizeof(left), &none, sizeof(none));
}

#define assert_left(be, ...) \
	do { \
		struct backend_left left_, expected_ = { __VA_ARGS__ }; \
		backend_fault_left(be, &left_); \
		g_assert_cmpuint(left_.reservations, ==, expected_.reservations); \
		g_assert_cmpuint(left_.handles, ==, expected_.handles); \
		g_assert_cmpuint(left_.mappings, ==, expected_.mappings); \
		g_assert_cmpuint(left_.events, ==, expected_.events); \
		g_assert_cmpuint(left_.small, ==, expected_.small); \
	} while (0)

/* What each operation is called with: arguments that the host backend takes, when called in this order. */
struct state {
	struct backend *be;
	uint64_t va;
	uint64_t handle;
	uint64_t exported;
	uint64_t imported;
	struct backend_export export;
	uint64_t small;
	struct backend_event *event;
	struct backend_event *timed;
	uint64_t host;
	uint64_t room;
};

static int call_enter(struct state *s)
{
	int err = s->be->ops->enter(s->be);

	if (!err)
		s->be->ops->leave(s->be);
	return err;
}

static int call_info(struct state *s)
{
	struct backend_info info;

	return s->be->ops->info(s->be, &info);
}

static int call_reserve(struct state *s)
{
	return s->be->ops->reserve(s->be, SIZE, PAGE, &s->va);
}

static int call_create(struct state *s)
{
	return s->be->ops->create(s->be, PAGE, &s->handle);
}

static int call_configure(struct state *s)
{
	return s->be->ops->configure(s->be, BACKEND_HANDLES_FD, false);
}

static int call_peer_check(struct state *s)
{
	return s->be->ops->peer_check(s->be, 1);
}

static int call_peers(struct state *s)
{
	return s->be->ops->peers(s->be, 2);
}

static int call_create_export(struct state *s)
{
	return s->be->ops->create_export(s->be, PAGE, &s->exported);
}

static int call_export(struct state *s)
{
	return s->be->ops->export(s->be, s->exported, &s->export);
}

/* What was exported is not needed any more. */
static int call_import(struct state *s)
{
	int err = s->be->ops->import(s->be, &s->export, PAGE, &s->imported);

	if (err)
		return err;
	close(s->export.fd);
	return s->be->ops->release(s->be, s->imported) ?: s->be->ops->release(s->be, s->exported);
}

static int call_map(struct state *s)
{
	return s->be->ops->map(s->be, s->va, PAGE, s->handle);
}

static int call_access(struct state *s)
{
	return s->be->ops->access(s->be, s->va, PAGE);
}

static int call_deny(struct state *s)
{
	return s->be->ops->deny(s->be, s->va, PAGE, 2);
}

static int call_stream_id(struct state *s)
{
	uint64_t id;

	return s->be->ops->stream_id(s->be, NULL, &id);
}

static int call_stream_capture(struct state *s)
{
	uint64_t id;

	return s->be->ops->stream_capture(s->be, NULL, &id);
}

static void note_graph(void *data)
{
	*(bool *)data = true;
}

static int call_graph_watch(struct state *s)
{
	struct vpmm_host_graph *graph;
	struct CUstream_st *stream;
	bool watched = false;
	int err;

	assert_ok(vpmm_host_stream_create(&stream));
	assert_ok(vpmm_host_capture_begin(stream));
	err = s->be->ops->graph_watch(s->be, stream, note_graph, &watched);
	assert_ok(vpmm_host_capture_end(stream, &graph));
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_host_stream_destroy(stream));
	g_assert_true(watched == !err);
	return err;
}

static int call_clear(struct state *s)
{
	return s->be->ops->clear(s->be, s->va, PAGE, NULL);
}

static int call_copy(struct state *s)
{
	return s->be->ops->copy(s->be, s->va, s->va + PAGE / 2, PAGE / 2, NULL);
}

static int call_event_create(struct state *s)
{
	return s->be->ops->event_create(s->be, &s->event);
}

static int call_event_record(struct state *s)
{
	return s->be->ops->event_record(s->be, s->event, NULL);
}

static int call_event_record_all(struct state *s)
{
	return s->be->ops->event_record_all(s->be, s->event);
}

static int call_event_query(struct state *s)
{
	int complete;

	return s->be->ops->event_query(s->be, s->event, &complete);
}

static int call_event_sync(struct state *s)
{
	return s->be->ops->event_sync(s->be, s->event);
}

static int call_event_create_timed(struct state *s)
{
	return s->be->ops->event_create_timed(s->be, &s->timed);
}

static int call_event_elapsed(struct state *s)
{
	int64_t ns;

	/* It has to be recorded, and whether that fails is another operation's to say. */
	assert_ok(s->be->ops->event_record(s->be, s->timed, NULL));
	return s->be->ops->event_elapsed(s->be, s->timed, s->timed, &ns);
}

static int call_sync(struct state *s)
{
	return s->be->ops->sync(s->be);
}

static int call_stream_wait(struct state *s)
{
	return s->be->ops->stream_wait(s->be, NULL, s->event);
}

static int call_small_alloc(struct state *s)
{
	return s->be->ops->small_alloc(s->be, 100, NULL, &s->small);
}

static int call_small_held(struct state *s)
{
	uint64_t bytes, peak;

	return s->be->ops->small_held(s->be, &bytes, &peak);
}

static int call_small_trim(struct state *s)
{
	bool pending;

	return s->be->ops->small_trim(s->be, 0, &pending);
}

static int call_small_free(struct state *s)
{
	return s->be->ops->small_free(s->be, s->small, NULL);
}

static int call_unmap(struct state *s)
{
	return s->be->ops->unmap(s->be, s->va, PAGE, s->event);
}

static int call_release(struct state *s)
{
	return s->be->ops->release(s->be, s->handle);
}

/* Addresses that have been free a moment before. */
static int call_reserve_at(struct state *s)
{
	uint64_t va;
	int err;

	assert_ok(s->be->ops->reserve(s->be, SIZE, PAGE, &va));
	assert_ok(s->be->ops->unreserve(s->be, va, SIZE));
	err = s->be->ops->reserve_at(s->be, va, SIZE);
	if (!err)
		assert_ok(s->be->ops->unreserve(s->be, va, SIZE));
	return err;
}

static int call_unreserve(struct state *s)
{
	return s->be->ops->unreserve(s->be, s->va, SIZE);
}

static int call_room(struct state *s)
{
	return s->be->ops->room(s->be, s->va, SIZE, &s->room);
}

static int call_host_create(struct state *s)
{
	int err = s->be->ops->host_create(s->be, PAGE, &s->host);

	/* Beside the other memory. */
	return err ?: s->be->ops->map(s->be, s->va + PAGE, PAGE, s->host);
}

static int call_host_access(struct state *s)
{
	return s->be->ops->host_access(s->be, s->va + PAGE, PAGE);
}

static int call_access_read(struct state *s)
{
	return s->be->ops->access_read(s->be, s->va + PAGE, PAGE);
}

/* After that nothing of it is needed any more. */
static int call_show(struct state *s)
{
	int err = s->be->ops->show(s->be, s->room, s->va + PAGE, PAGE);

	if (err)
		return err;
	s->be->ops->room_end(s->be, s->va, SIZE, s->room);
	return s->be->ops->unmap(s->be, s->va + PAGE, PAGE, NULL) ?: s->be->ops->release(s->be, s->host);
}

static int call_stream_create(struct state *s)
{
	struct CUstream_st *stream;
	int err = s->be->ops->stream_create(s->be, &stream);

	if (!err)
		s->be->ops->stream_destroy(s->be, stream);
	return err;
}

static int call_gate(struct state *s)
{
	struct CUstream_st *none = NULL;
	struct backend_gate *gate;
	int err = s->be->ops->gate(s->be, &none, 1, &gate);

	if (!err)
		s->be->ops->gate_open(s->be, gate);
	return err;
}

/* In an order in which each can succeed. */
static const struct {
	const char *name;
	enum backend_op op;
	int (*call)(struct state *s);
} calls[] = {
#define CALL(name) { #name, BACKEND_OP_##name, call_##name }
	CALL(enter), CALL(configure), CALL(peer_check), CALL(peers), CALL(info), CALL(reserve), CALL(reserve_at), CALL(room),
		CALL(create_export),
		CALL(export), CALL(import), CALL(create), CALL(map), CALL(access), CALL(deny), CALL(stream_id),
	CALL(stream_capture), CALL(graph_watch), CALL(clear), CALL(copy),
	CALL(event_create), CALL(event_record), CALL(event_record_all), CALL(event_query), CALL(event_sync),
	CALL(stream_wait),
	CALL(event_create_timed), CALL(event_elapsed), CALL(sync), CALL(small_alloc), CALL(small_held),
		CALL(small_free), CALL(small_trim), CALL(host_create), CALL(host_access), CALL(access_read), CALL(show),
	CALL(stream_create), CALL(gate), CALL(unmap), CALL(release),
	CALL(unreserve),
#undef CALL
};
G_STATIC_ASSERT(G_N_ELEMENTS(calls) == BACKEND_OP_COUNT);

static void test_passes_on(void)
{
	struct state s = { 0 };
	struct backend_info info;
	size_t i;

	if (!fixture_can_map_twice())
		return;
	s.be = open_wrapper();
	for (i = 0; i < G_N_ELEMENTS(calls); i++)
		assert_ok(calls[i].call(&s));
	s.be->ops->event_destroy(s.be, s.event);
	s.be->ops->event_destroy(s.be, s.timed);

	assert_ok(s.be->ops->info(s.be, &info));
	g_assert_cmpstr(info.name, ==, "host");
	assert_left(s.be, 0);
	close_wrapper(s.be);
}

static void test_data_arrives(void)
{
	struct state s = { .be = open_wrapper() };

	assert_ok(call_reserve(&s));
	assert_ok(call_create(&s));
	assert_ok(call_map(&s));
	assert_ok(call_access(&s));
	memset((void *)s.va, 0x5a, PAGE);

	g_assert_cmpint(((unsigned char *)s.va)[PAGE - 1], ==, 0x5a);
	s.event = NULL;
	assert_ok(call_unmap(&s));
	assert_ok(call_release(&s));
	assert_ok(call_unreserve(&s));
	close_wrapper(s.be);
}

/* Each operation in turn fails once, is not carried out, and is then as good as new. */
static void test_fails_once(void)
{
	struct state s = { 0 };
	struct backend_left before, after;
	uint64_t count;
	size_t i;

	if (!fixture_can_map_twice())
		return;
	s.be = open_wrapper();
	for (i = 0; i < G_N_ELEMENTS(calls); i++) {
		count = backend_fault_calls(s.be, calls[i].op);
		backend_fault_left(s.be, &before);
		backend_fault_arm(s.be, calls[i].op, 0, 1, -EIO);

		assert_error(calls[i].call(&s), EIO, calls[i].name);
		backend_fault_left(s.be, &after);
		g_assert_cmpmem(&before, sizeof(before), &after, sizeof(after));
		assert_ok(calls[i].call(&s));
		g_assert_cmpuint(backend_fault_calls(s.be, calls[i].op), ==, count + 2);
	}
	s.be->ops->event_destroy(s.be, s.event);
	s.be->ops->event_destroy(s.be, s.timed);
	close_wrapper(s.be);
}

static void test_skips_and_counts(void)
{
	struct state s = { .be = open_wrapper() };

	backend_fault_arm(s.be, BACKEND_OP_stream_id, 2, 3, -ENOMEM);

	assert_ok(call_stream_id(&s));
	assert_ok(call_stream_id(&s));
	assert_error(call_stream_id(&s), ENOMEM, "stream_id");
	assert_error(call_stream_id(&s), ENOMEM, "stream_id");
	assert_ok(call_info(&s));
	assert_error(call_stream_id(&s), ENOMEM, "stream_id");
	assert_ok(call_stream_id(&s));
	g_assert_cmpuint(backend_fault_calls(s.be, BACKEND_OP_stream_id), ==, 6);
	close_wrapper(s.be);
}

static void test_disarms(void)
{
	struct state s = { .be = open_wrapper() };

	backend_fault_arm(s.be, BACKEND_OP_stream_id, 0, 5, -ENOMEM);
	backend_fault_arm(s.be, BACKEND_OP_stream_id, 0, 0, 0);

	assert_ok(call_stream_id(&s));
	close_wrapper(s.be);
}

/* An error of the wrapped backend comes through with its own sentence, and counts nothing as given. */
static void test_inner_error(void)
{
	struct state s = { .be = open_wrapper() };
	uint64_t handle;

	g_assert_cmpint(s.be->ops->create(s.be, 1, &handle), ==, -EINVAL);
	g_assert_null(strstr(error_get(), "as the test wants it"));
	g_assert_cmpint(s.be->ops->release(s.be, 12345), ==, -EINVAL);
	assert_left(s.be, 0);
	close_wrapper(s.be);
}

static void test_left(void)
{
	struct state s = { .be = open_wrapper() };
	size_t i;

	assert_ok(call_reserve(&s));
	assert_ok(call_create(&s));
	assert_ok(call_event_create(&s));
	assert_ok(call_event_create_timed(&s));
	assert_ok(call_small_alloc(&s));
	for (i = 0; i < 4; i++)
		assert_ok(s.be->ops->map(s.be, s.va + 2 * i * PAGE, PAGE, s.handle));
	assert_left(s.be, .reservations = 1, .handles = 1, .mappings = 4, .events = 2, .small = 1);

	/* One call that takes the second and the third, and holes between and around them. */
	assert_ok(s.be->ops->unmap(s.be, s.va + PAGE, 5 * PAGE, NULL));
	assert_left(s.be, .reservations = 1, .handles = 1, .mappings = 2, .events = 2, .small = 1);
	assert_ok(s.be->ops->unmap(s.be, s.va, 7 * PAGE, NULL));
	assert_ok(call_release(&s));
	assert_ok(call_unreserve(&s));
	assert_ok(call_small_free(&s));
	s.be->ops->event_destroy(s.be, s.event);
	s.be->ops->event_destroy(s.be, s.timed);
	assert_left(s.be, 0);
	close_wrapper(s.be);
}

static void test_not_opened(void)
{
	struct backend *be = open_wrapper(), *other = NULL;
	int device = 77;

	assert_error(be->ops->open(0, &other), ENOTSUP, "wrapper");
	assert_error(be->ops->current_device(&device), ENOTSUP, "wrapper");
	g_assert_null(other);
	g_assert_cmpint(device, ==, 77);
	close_wrapper(be);
}

static void *run_thread(void *data)
{
	struct state s = { .be = data };
	int i;

	assert_ok(s.be->ops->enter(s.be));
	for (i = 0; i < ROUNDS; i++) {
		assert_ok(call_reserve(&s));
		assert_ok(call_create(&s));
		assert_ok(call_map(&s));
		assert_ok(call_unmap(&s));
		assert_ok(call_release(&s));
		assert_ok(call_unreserve(&s));
	}
	s.be->ops->leave(s.be);
	return NULL;
}

static void test_threads(void)
{
	struct backend *be = open_wrapper();
	GThread *threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		threads[i] = g_thread_new("fault", run_thread, be);
	for (i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);

	g_assert_cmpuint(backend_fault_calls(be, BACKEND_OP_map), ==, THREADS * ROUNDS);
	assert_left(be, 0);
	close_wrapper(be);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	g_test_add_func("/fault/passes-on", test_passes_on);
	g_test_add_func("/fault/data-arrives", test_data_arrives);
	g_test_add_func("/fault/fails-once", test_fails_once);
	g_test_add_func("/fault/skips-and-counts", test_skips_and_counts);
	g_test_add_func("/fault/disarms", test_disarms);
	g_test_add_func("/fault/inner-error", test_inner_error);
	g_test_add_func("/fault/left", test_left);
	g_test_add_func("/fault/not-opened", test_not_opened);
	g_test_add_func("/fault/threads", test_threads);
	return g_test_run();
}
