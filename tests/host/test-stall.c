// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the statistics say of how long streams stood where the pool made them wait: exactly, on the virtual clock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "calls/pool.h"
#include "host/cache-fixture.h"
#include "host/capture-fixture.h"
#include "support/fault.h"
#include "util/error.h"

#define MS 1000000

static const struct kind kinds[] = { KIND_PACKED, KIND_PAGED };

static void open_uncached(struct fixture *f, struct vpmm_opts opts)
{
	fixture_open(f, opts);
	fixture_uncache(f);
}

static void open_faulty(struct fixture *f)
{
	fixture_open_faulty(f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	fixture_uncache(f);
}

static void work(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns)
{
	assert_ok(vpmm_host_stream_submit_for(stream, engine, ns));
}

/* A stream works so long on a block and frees it, and another gets it while the first is at work. */
static void *hand_over(struct fixture *f, struct CUstream_st *from, struct CUstream_st *to, uint64_t ns)
{
	void *first, *second;

	assert_ok(vpmm_malloc(f->pool, &first, PAGE, from));
	work(from, VPMM_HOST_COMPUTE, ns);
	assert_ok(vpmm_free(f->pool, first, from));
	assert_ok(vpmm_malloc(f->pool, &second, PAGE, to));
	g_assert_true(first == second);
	return second;
}

#define assert_stood(f, waits_, sampled_, ns_) \
	do { \
		struct vpmm_stats stats_ = fixture_stats(f); \
		g_assert_cmpuint(stats_.waits, ==, waits_); \
		g_assert_cmpuint(stats_.waits_sampled, ==, sampled_); \
		g_assert_cmpuint(stats_.wait_ns, ==, ns_); \
	} while (0)

static uint64_t calls(struct fixture *f, enum backend_op op)
{
	return backend_fault_calls(f->pool->core.backend, op);
}

static void arm(struct fixture *f, enum backend_op op, unsigned int skip, unsigned int count)
{
	backend_fault_arm(f->pool->core.backend, op, skip, count, -EIO);
}

/* A stream that is at work for so long itself gets memory which another is still at work on for 10 ms. */
static void stand(const struct kind *kind, uint64_t busy, uint64_t stood)
{
	struct fixture f;

	open_uncached(&f, kind->opts);
	if (busy)
		work(f.streams[1], VPMM_HOST_COPY_IN, busy);
	hand_over(&f, f.streams[0], f.streams[1], 10 * MS);
	assert_ok(vpmm_host_time_finish());
	assert_stood(&f, 1, 1, stood);
	fixture_close(&f);
}

static void test_idle_stream_stands_all_the_time(gconstpointer kind)
{
	stand(kind, 0, 10 * MS);
}

static void test_busy_stream_stands_less(gconstpointer kind)
{
	stand(kind, 4 * MS, 6 * MS);
}

static void test_late_stream_does_not_stand(gconstpointer kind)
{
	stand(kind, 12 * MS, 0);
}

static void test_stands_until_the_last_of_several(void)
{
	struct fixture f;
	void *a, *b;

	open_uncached(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE, .extent_max = PAGE });
	a = fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[1]);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10 * MS);
	work(f.streams[1], VPMM_HOST_COPY_OUT, 3 * MS);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	fixture_malloc(&f, 2, f.streams[2]);
	assert_ok(vpmm_host_time_finish());
	assert_stood(&f, 2, 2, 10 * MS);
	fixture_close(&f);
}

/* The stream that frees comes after an earlier free of the memory by the stream that has it. */
static void test_free_on_another_stream(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	fixture_malloc(&f, 1, f.streams[1]);
	a = fixture_malloc(&f, 2, f.streams[0]);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10 * MS);
	fixture_free(&f, a, f.streams[0]);
	g_assert_true(fixture_malloc(&f, 2, f.streams[0]) == a);
	fixture_free(&f, a, f.streams[1]);
	assert_ok(vpmm_host_time_finish());
	assert_stood(&f, 1, 1, 10 * MS);
	fixture_close(&f);
}

/* A stream comes after who freed its memory meanwhile, before its cache is flushed. */
static void test_stranded(void)
{
	struct fixture f;
	void *a;

	open_cached(&f);
	a = fixture_malloc(&f, 1, f.streams[0]);
	calm(&f, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	a = reused(&f, 1, f.streams[0]);
	fixture_complete(f.streams[0]);
	work(f.streams[1], VPMM_HOST_COMPUTE, 10 * MS);
	fixture_free(&f, a, f.streams[1]);
	fixture_malloc(&f, 2, f.streams[0]);
	assert_ok(vpmm_host_time_finish());
	assert_stood(&f, 1, 1, 10 * MS);
	fixture_close(&f);
}

static void test_is_not_known_before_the_stream_goes_on(void)
{
	struct fixture f;

	open_uncached(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	hand_over(&f, f.streams[0], f.streams[1], 10 * MS);
	assert_ok(vpmm_host_time_pass(10 * MS - 1));
	assert_stood(&f, 1, 0, 0);
	assert_ok(vpmm_host_time_pass(1));
	assert_stood(&f, 1, 1, 10 * MS);
	fixture_close(&f);
}

static void test_work_that_is_told_takes_no_time(void)
{
	struct fixture f;
	void *a;

	open_uncached(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[1]);
	fixture_complete(f.streams[0]);
	assert_stood(&f, 1, 1, 0);
	fixture_close(&f);
}

static void test_wait_on_the_host_is_not_measured(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	struct fixture f;

	opts.reuse = VPMM_REUSE_BLOCK;
	open_uncached(&f, opts);
	hand_over(&f, f.streams[0], f.streams[1], 10 * MS);
	assert_stood(&f, 1, 0, 0);
	fixture_close(&f);
}

/* The only memory left is another stream's, which the host waits for; the capture goes on. */
static void test_wait_under_capture_is_not_measured(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	uint64_t id, timed;
	void *a;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE, .limit = 2 * PAGE });
	fixture_uncache(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10 * MS);
	fixture_free(&f, a, f.streams[0]);
	timed = calls(&f, BACKEND_OP_event_create_timed);
	id = begin(&f, f.streams[1]);
	a = fixture_malloc(&f, 2, f.streams[1]);
	fixture_free(&f, a, f.streams[1]);
	graph = end(f.streams[1]);
	g_assert_cmpuint(calls(&f, BACKEND_OP_event_create_timed), ==, timed);
	assert_stood(&f, 1, 0, 0);
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	fixture_close(&f);
}

/* One stream gives a block back to the other after each wait, with all work done. */
static void step(struct fixture *f, uint64_t ns)
{
	void *ptr = hand_over(f, f->streams[0], f->streams[1], ns);

	assert_ok(vpmm_host_time_finish());
	assert_ok(vpmm_free(f->pool, ptr, f->streams[1]));
}

/* Whatever the period of a program, each of its waits is measured as often as the others. */
static void test_samples_are_fair(gconstpointer data)
{
	unsigned int period = GPOINTER_TO_UINT(data);
	struct vpmm_stats stats;
	struct fixture f;
	double mean;

	open_uncached(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	for (unsigned int i = 0; i < 20000; i++)
		step(&f, i % period ? 0 : MS);
	stats = fixture_stats(&f);
	mean = (double)stats.wait_ns / (double)stats.waits_sampled;
	g_test_message("%u samples", (unsigned int)stats.waits_sampled);
	g_assert_cmpuint(stats.waits, ==, 20000);
	g_assert_cmpfloat(mean, >, 0.75 * MS / period);
	g_assert_cmpfloat(mean, <, 1.25 * MS / period);
	fixture_close(&f);
}

static void test_samples_get_rare(void)
{
	struct vpmm_stats before, after;
	struct fixture f;

	open_uncached(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	for (int i = 0; i < 40000; i++)
		step(&f, 1);
	before = fixture_stats(&f);
	for (int i = 0; i < 20000; i++)
		step(&f, 1);
	after = fixture_stats(&f);
	g_assert_cmpuint(after.waits_sampled - before.waits_sampled, >, 0);
	g_assert_cmpuint(after.waits_sampled - before.waits_sampled, <, (after.waits - before.waits) / 100);
	fixture_close(&f);
}

/* A device that is far behind the host does not make samples pile up. */
static void test_pending_samples_are_few(void)
{
	struct backend_left left;
	struct fixture f;
	void *ptr;

	open_faulty(&f);
	ptr = fixture_malloc(&f, 1, f.streams[0]);
	for (int i = 0; i < 1000; i++) {
		work(f.streams[i % 2], VPMM_HOST_COMPUTE, 10);
		assert_ok(vpmm_free(f.pool, ptr, f.streams[i % 2]));
		assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[(i + 1) % 2]));
	}
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 1000);
	g_assert_cmpuint(calls(&f, BACKEND_OP_event_create_timed), <=, 2 * STALLS_PENDING);
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint(fixture_stats(&f).waits_sampled, ==, STALLS_PENDING);
	backend_fault_left(f.pool->core.backend, &left);
	g_assert_cmpuint(left.events, <, 2 * STALLS_PENDING);
	fixture_close(&f);
}

/* What fails of a sample: before the wait, behind it, or when it is read. */
static const struct failing {
	const char *name;
	enum backend_op op;
	unsigned int skip;
} failing[] = {
	{ "first-event", BACKEND_OP_event_create_timed, 0 },
	{ "first-record", BACKEND_OP_event_record, 0 },
	{ "second-event", BACKEND_OP_event_create_timed, 1 },
	{ "second-record", BACKEND_OP_event_record, 1 },
	{ "query", BACKEND_OP_event_query, 0 },
	{ "elapsed", BACKEND_OP_event_elapsed, 0 },
};

/* The request is served, nothing is said, and the next sample is as good as any. */
static void test_failure_costs_the_sample(gconstpointer data)
{
	const struct failing *fails = data;
	struct backend_left left;
	struct fixture f;
	uint64_t events;
	void *a, *b;

	open_faulty(&f);
	a = fixture_malloc(&f, 1, f.streams[0]);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10 * MS);
	fixture_free(&f, a, f.streams[0]);
	backend_fault_left(f.pool->core.backend, &left);
	events = left.events;
	error_set(0, "%s", "as it was");
	if (fails->op != BACKEND_OP_event_query)
		arm(&f, fails->op, fails->skip, 1);
	b = fixture_malloc(&f, 1, f.streams[1]);
	g_assert_true(a == b);
	assert_ok(vpmm_host_time_finish());
	if (fails->op == BACKEND_OP_event_query)
		arm(&f, fails->op, fails->skip, 1);
	assert_stood(&f, 1, 0, 0);
	g_assert_cmpstr(vpmm_last_error(), ==, "as it was");
	backend_fault_left(f.pool->core.backend, &left);
	/* The one more that there may be is behind the wait, and what others wait for. */
	g_assert_cmpuint(left.events, <=, events + 1);

	work(f.streams[1], VPMM_HOST_COMPUTE, 10 * MS);
	fixture_free(&f, b, f.streams[1]);
	fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_host_time_finish());
	assert_stood(&f, 2, 1, 10 * MS);
	fixture_close(&f);
}

/* The wait itself fails, and with it the request: nothing is measured. */
static void test_wait_fails(void)
{
	struct fixture f;
	void *a, *b;

	open_faulty(&f);
	a = fixture_malloc(&f, 1, f.streams[0]);
	work(f.streams[0], VPMM_HOST_COMPUTE, 10 * MS);
	fixture_free(&f, a, f.streams[0]);
	arm(&f, BACKEND_OP_stream_wait, 0, 1);
	assert_error(vpmm_malloc(f.pool, &b, PAGE, f.streams[1]), EIO, "stream_wait");
	assert_ok(vpmm_host_time_finish());
	assert_stood(&f, 0, 0, 0);
	fixture_close(&f);
}

static void test_pool_is_destroyed_with_samples_pending(void)
{
	struct fixture f;

	open_uncached(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	hand_over(&f, f.streams[0], f.streams[1], 10 * MS);
	fixture_close(&f);
}

static void test_dump_has_them(void)
{
	struct fixture f;
	char *text;

	open_uncached(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overlap = VPMM_OVERLAP_NONE });
	hand_over(&f, f.streams[0], f.streams[1], 10 * MS);
	assert_ok(vpmm_host_time_finish());
	text = fixture_dump(&f);
	g_assert_nonnull(strstr(text, "\nwaits: 1\nwaits_sampled: 1\nwait_ns: 10000000\n"));
	free(text);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/stall/idle-stream", kinds, test_idle_stream_stands_all_the_time);
	fixture_add_rows("/stall/busy-stream", kinds, test_busy_stream_stands_less);
	fixture_add_rows("/stall/late-stream", kinds, test_late_stream_does_not_stand);
	g_test_add_func("/stall/several", test_stands_until_the_last_of_several);
	g_test_add_func("/stall/free-on-another-stream", test_free_on_another_stream);
	g_test_add_func("/stall/stranded", test_stranded);
	g_test_add_func("/stall/pending", test_is_not_known_before_the_stream_goes_on);
	g_test_add_func("/stall/told", test_work_that_is_told_takes_no_time);
	fixture_add_rows("/stall/on-the-host", kinds, test_wait_on_the_host_is_not_measured);
	g_test_add_func("/stall/capture", test_wait_under_capture_is_not_measured);
	g_test_add_data_func("/stall/fair/2", GUINT_TO_POINTER(2), test_samples_are_fair);
	g_test_add_data_func("/stall/fair/3", GUINT_TO_POINTER(3), test_samples_are_fair);
	g_test_add_data_func("/stall/fair/4", GUINT_TO_POINTER(4), test_samples_are_fair);
	g_test_add_func("/stall/rare", test_samples_get_rare);
	g_test_add_func("/stall/few-pending", test_pending_samples_are_few);
	fixture_add_rows("/stall/fails", failing, test_failure_costs_the_sample);
	g_test_add_func("/stall/wait-fails", test_wait_fails);
	g_test_add_func("/stall/destroyed", test_pool_is_destroyed_with_samples_pending);
	g_test_add_func("/stall/dump", test_dump_has_them);
	return g_test_run();
}
