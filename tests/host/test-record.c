// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_TRACE: what is recorded, that a replay comes to the same, and files that cannot be written. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "host/record-fixture.h"
#include "support/fixture.h"
#include "support/life-fixture.h"
#include "support/rlimit.h"
#include "trace/output.h"
#include "trace/recorder.h"

/* Blocks at most, and operations, of a random program. */
#define BLOCKS 64
#define OPERATIONS 4000

/* Any size, on any stream, in any order; a third is freed on another stream. */
static void run_random(struct fixture *f, guint32 seed)
{
	GRand *rand = g_rand_new_with_seed(seed);
	void *blocks[BLOCKS] = { NULL };
	struct CUstream_st *stream;

	for (int i = 0; i < OPERATIONS; i++) {
		void **block = &blocks[g_rand_int_range(rand, 0, BLOCKS)];

		stream = f->streams[g_rand_int_range(rand, 0, STREAMS)];
		if (!*block)
			assert_ok(vpmm_malloc(f->pool, block, (size_t)1 << g_rand_int_range(rand, 9, 23), stream));
		else {
			assert_ok(vpmm_free(f->pool, *block, stream));
			*block = NULL;
		}
	}
	g_rand_free(rand);
}

static struct vpmm_stats replay(const struct trace *trace)
{
	void **slots = g_new0(void *, trace->slots);
	struct vpmm_stats stats;
	struct fixture f;

	g_assert_cmpuint(trace->streams, <=, STREAMS);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];

		if (op->kind == TRACE_ALLOC)
			assert_ok(vpmm_malloc(f.pool, &slots[op->slot], op->bytes, f.streams[op->stream]));
		else
			assert_ok(vpmm_free(f.pool, slots[op->slot], f.streams[op->stream]));
	}
	stats = fixture_stats(&f);
	fixture_close(&f);
	g_free(slots);
	return stats;
}

/* The most that was live, by the order of the trace. */
static uint64_t peak_of(const struct trace *trace)
{
	uint64_t live = 0, peak = 0;

	for (size_t i = 0; i < trace->n_ops; i++) {
		live = trace->ops[i].kind == TRACE_ALLOC ? live + trace->ops[i].bytes : live - trace->ops[i].bytes;
		peak = MAX(peak, live);
	}
	return peak;
}

static void replays_as_recorded(const char *suffix)
{
	char *name = new_name(suffix);
	struct vpmm_stats recorded, replayed;
	struct trace *trace;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	run_random(&f, 7);
	recorded = fixture_stats(&f);
	fixture_close(&f);
	trace = load(name);
	replayed = replay(trace);

	g_assert_cmpuint(recorded.mallocs, ==, trace->allocs);
	g_assert_cmpuint(replayed.mallocs, ==, recorded.mallocs);
	g_assert_cmpuint(replayed.frees, ==, recorded.frees);
	g_assert_cmpuint(replayed.live, ==, recorded.live);
	g_assert_cmpuint(peak_of(trace), ==, recorded.peak_live);
	g_assert_cmpuint(replayed.peak_live, ==, recorded.peak_live);
	trace_free(trace);
	remove_name(name);
}

static void test_replay(void)
{
	replays_as_recorded(".trace");
}

static void test_replay_compressed(void)
{
	replays_as_recorded(".trace.gz");
}

/* On one stream the pool's own peak is exact. */
static void test_peak(void)
{
	char *name = new_name("");
	struct vpmm_stats recorded;
	void *blocks[8];
	struct trace *trace;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	for (int i = 0; i < 100; i++) {
		for (int j = 0; j < 8; j++)
			assert_ok(vpmm_malloc(f.pool, &blocks[j], (size_t)512 << (i + j) % 14, f.streams[0]));
		for (int j = 0; j < 8; j++)
			assert_ok(vpmm_free(f.pool, blocks[(j * 3) % 8], f.streams[0]));
	}
	recorded = fixture_stats(&f);
	fixture_close(&f);
	trace = load(name);

	g_assert_cmpuint(peak_of(trace), ==, recorded.peak_live);
	g_assert_cmpuint(replay(trace).peak_live, ==, recorded.peak_live);
	trace_free(trace);
	remove_name(name);
}

static void *run_thread(void *data)
{
	struct fixture *f = data;
	void *ptr;

	/* All threads share two streams, so that a block goes from one to another by way of a cache. */
	for (int i = 0; i < OPERATIONS; i++) {
		struct CUstream_st *stream = f->streams[i % 2];

		assert_ok(vpmm_malloc(f->pool, &ptr, PAGE, stream));
		assert_ok(vpmm_free(f->pool, ptr, stream));
	}
	return NULL;
}

/* A free comes before the malloc that gets the same address, or the reader would refuse the trace. */
static void test_threads(void)
{
	char *name = new_name("");
	GThread *threads[4];
	struct trace *trace;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	for (int i = 0; i < 4; i++)
		threads[i] = g_thread_new("calls", run_thread, &f);
	for (int i = 0; i < 4; i++)
		g_thread_join(threads[i]);
	fixture_close(&f);
	trace = load(name);

	g_assert_cmpuint(trace->n_ops, ==, 2 * 4 * OPERATIONS);
	trace_free(trace);
	remove_name(name);
}

/* A growing block has one record of its beginning, one of each change, and one of its end. */
static void test_realloc(void)
{
	char *name = new_name("");
	struct trace *trace;
	struct fixture f;
	void *ptr = NULL;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	for (size_t size = PAGE; size < 20 * PAGE; size += PAGE)
		assert_ok(vpmm_realloc(f.pool, &ptr, size, NULL));
	assert_ok(vpmm_realloc(f.pool, &ptr, 0, NULL));
	fixture_close(&f);
	trace = load(name);

	g_assert_cmpuint(trace->allocs, ==, 1);
	g_assert_cmpuint(trace->n_ops, ==, 20);
	g_assert_cmpint(trace->ops[18].kind, ==, TRACE_RESIZE);
	g_assert_cmpuint(trace->ops[18].bytes, ==, 19 * PAGE);
	trace_free(trace);
	remove_name(name);
}

static void test_lines_of_resizing(void)
{
	char *name = new_name("");
	struct fixture f;
	void *ptr, *other;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	assert_ok(vpmm_malloc_growable(f.pool, &ptr, PAGE, 8 * PAGE, f.streams[0]));
	assert_ok(vpmm_realloc(f.pool, &ptr, 2 * PAGE, f.streams[1]));
	assert_ok(vpmm_realloc(f.pool, &ptr, 0, f.streams[0]));
	assert_ok(vpmm_malloc(f.pool, &ptr, 1000, f.streams[0]));
	assert_ok(vpmm_malloc(f.pool, &other, 1000, f.streams[0]));
	assert_ok(vpmm_realloc(f.pool, &ptr, 3 * PAGE, f.streams[0]));
	fixture_close(&f);

	assert_lines(name, "\\d+ a (0x[0-9a-f]+) 2097152 0 max=16777216\n"
		     "\\d+ m \\1 \\1 4194304 1\n"
		     "\\d+ f \\1 0\n"
		     "\\d+ a (0x[0-9a-f]+) 1000 0\n"
		     "\\d+ a 0x[0-9a-f]+ 1000 0\n"
		     "\\d+ m \\2 (?!\\2)0x[0-9a-f]+ 6291456 0 copied\n");
	remove_name(name);
}

static void test_lines_of_captures(void)
{
	char *name = new_name(""), *expected;
	struct vpmm_host_graph *graph;
	struct fixture f;
	uint64_t id = 0;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	assert_ok(vpmm_host_capture_begin(f.streams[1]));
	assert_ok(vpmm_capture_id(f.pool, f.streams[1], &id));
	assert_ok(vpmm_capture_group(f.pool, id, 77));
	assert_ok(vpmm_malloc(f.pool, &ptr, 1000, f.streams[1]));
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	assert_ok(vpmm_free(f.pool, ptr, f.streams[1]));
	assert_ok(vpmm_host_capture_end(f.streams[1], &graph));
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	fixture_close(&f);

	expected = g_strdup_printf("\\d+ c %" PRIu64 " 77\n"
				   "\\d+ a (0x[0-9a-f]+) 1000 0 capture=%" PRIu64 "\n"
				   "\\d+ u \\1 0 capture=%" PRIu64 "\n"
				   "\\d+ f \\1 0 capture=%" PRIu64 "\n"
				   "\\d+ g %" PRIu64 " 1\n", (uint64_t)id, (uint64_t)id, (uint64_t)id,
				   (uint64_t)id, (uint64_t)id);
	assert_lines(name, expected);
	g_free(expected);
	remove_name(name);
}

static void test_lines(void)
{
	char *name = new_name("");
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name), .limit = 4 * PAGE });
	assert_ok(vpmm_malloc_flags(f.pool, &ptr, 1000, f.streams[0], VPMM_ZERO));
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	g_assert_cmpint(vpmm_free(f.pool, ptr, f.streams[0]), ==, -EINVAL);
	assert_ok(vpmm_malloc(f.pool, &ptr, 2000, f.streams[0]));
	assert_ok(vpmm_free(f.pool, ptr, VPMM_STREAM_ANY));
	assert_ok(vpmm_malloc_flags(f.pool, &ptr, 3000, f.streams[0], VPMM_IDLE));
	assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	g_assert_cmpint(vpmm_malloc(f.pool, &ptr, 8 * PAGE, f.streams[0]), ==, -ENOMEM);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	fixture_close(&f);

	assert_lines(name, "^# vpmm-trace 2 source=libvpmm-\\S+\n"
					   "\\d+ p 1 host 0 2097152\n"
					   "\\d+ a (0x[0-9a-f]+) 1000 0 zero\n"
					   "\\d+ u \\1 1\n"
					   "\\d+ f \\1 0\n"
					   "\\d+ a (0x[0-9a-f]+) 2000 0\n"
					   "\\d+ f \\2 any\n"
					   "\\d+ a (0x[0-9a-f]+) 3000 0 idle\n"
					   "\\d+ f \\3 0\n"
					   "\\d+ x 16777216 0\n"
					   "\\d+ r 1\n"
					   "\\d+ t 0\n"
					   "\\d+ e 1\n$");
	remove_name(name);
}

/* Pools with the same file share it, at the same time and later. */
static void test_pools(void)
{
	char *name = new_name(".gz");
	struct vpmm_pool *pools[2], *later;
	struct trace *trace;
	void *ptr;

	for (int i = 0; i < 2; i++)
		assert_ok(vpmm_pool_create(&pools[i], &(struct vpmm_opts){ RECORDED(name) }));
	for (int i = 0; i < 2; i++)
		assert_ok(vpmm_malloc(pools[i], &ptr, PAGE, NULL));
	for (int i = 0; i < 2; i++)
		vpmm_pool_destroy(pools[i]);
	assert_ok(vpmm_pool_create(&later, &(struct vpmm_opts){ RECORDED(name) }));
	assert_ok(vpmm_malloc(later, &ptr, PAGE, NULL));
	vpmm_pool_destroy(later);
	trace = load(name);

	g_assert_cmpuint(trace->pool, ==, 1);
	g_assert_cmpuint(trace->next->pool, ==, 2);
	g_assert_cmpuint(trace->next->next->pool, ==, 3);
	g_assert_null(trace->next->next->next);
	trace_free(trace);
	remove_name(name);
}

/* What only looks at a device leaves an earlier trace as it is; what then does something replaces it. */
static void test_earlier_file(void)
{
	char *name = new_name(""), *text = NULL;
	struct vpmm_pool *pool;
	void *ptr;

	g_assert_true(g_file_set_contents(name, "earlier\n", -1, NULL));
	assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(name) }));
	vpmm_pool_destroy(pool);
	g_assert_true(g_file_get_contents(name, &text, NULL, NULL));
	g_assert_cmpstr(text, ==, "earlier\n");
	g_free(text);

	assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(name) }));
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	vpmm_pool_destroy(pool);
	trace_free(load(name));
	remove_name(name);
}

static void test_environment(void)
{
	struct vpmm_info info = { .size = sizeof(info) };
	char *expected = g_strdup_printf("/tmp/vpmm-record-%ld-%%.trace", (long)getpid());
	struct vpmm_opts opts = { .size = sizeof(opts) };
	struct vpmm_pool *pool;

	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_TRACE", "/tmp/vpmm-record-%p-%%.trace", TRUE);
	assert_ok(vpmm_opts_from_env(&opts));
	g_assert_cmpstr(opts.trace, ==, "/tmp/vpmm-record-%p-%%.trace");
	assert_ok(vpmm_pool_create(&pool, NULL));
	assert_ok(vpmm_pool_info(pool, &info));
	vpmm_pool_destroy(pool);

	g_assert_cmpstr(info.trace, ==, expected);
	remove_name(expected);
}

static void test_bad_values(void)
{
	struct vpmm_pool *pool;

	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_TRACE", "/nonexistent/x", TRUE);
	assert_error(vpmm_pool_create(&pool, NULL), EINVAL, "(VPMM_TRACE) is /nonexistent/x: No such file");
	g_setenv("VPMM_TRACE", "/", TRUE);
	assert_error(vpmm_pool_create(&pool, NULL), EINVAL, "(VPMM_TRACE) is /: Is a directory");
	g_setenv("VPMM_TRACE", "x%q", TRUE);
	assert_error(vpmm_pool_create(&pool, NULL), EINVAL, "VPMM_TRACE=x%q: what \"%q\" stands for");
	g_setenv("VPMM_TRACE", "x%", TRUE);
	assert_error(vpmm_pool_create(&pool, NULL), EINVAL, "VPMM_TRACE=x%: what \"%\" stands for");
	assert_error(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED("%d") }), EINVAL, "vpmm_opts.trace is %d");
	assert_error(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED("") }), EINVAL, "vpmm_opts.trace is empty");
	fixture_assert_nothing_left();
}

/* A pool that is created afterwards is not recorded, and says so, whoever has said that the trace ends. */
static void expect_lack(const char *name, const char *why)
{
	char *line = g_strdup_printf("the trace %s (VPMM_TRACE) lacks this pool, as it has ended: %s", name, why);
	struct fixture late;

	for (int i = 0; i < 2; i++) {
		fixture_open(&late, (struct vpmm_opts){ RECORDED(name), .log_level = VPMM_LOG_WARNING });
		g_assert_nonnull(strstr(late.log->str, line));
		fixture_close_beside(&late);
	}
	g_free(line);
}

/* Makes calls until the trace has ended, of which the log is to speak once. */
static void expect_end(const char *name, const char *why)
{
	void *ptr;
	char *line = g_strdup_printf("the trace %s (VPMM_TRACE) ends here: %s", name, why), *first;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name), .log_level = VPMM_LOG_WARNING });
	g_assert_null(strstr(f.log->str, "lacks"));
	while (!strstr(f.log->str, "VPMM_TRACE")) {
		assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, NULL));
		assert_ok(vpmm_free(f.pool, ptr, NULL));
	}
	for (int i = 0; i < OPERATIONS; i++) {
		assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, NULL));
		assert_ok(vpmm_free(f.pool, ptr, NULL));
	}
	first = strstr(f.log->str, line);
	g_assert_nonnull(first);
	g_assert_null(strstr(first + strlen(line), "VPMM_TRACE) ends"));
	expect_lack(name, why);
	fixture_close(&f);
	g_free(line);
}

/* With the default log, where no pool is there any more to say it, or no call. */
static void trace_to_full_disk(bool destroyed)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = 1 << 30, .trace = "/dev/full" };
	struct vpmm_pool *pool;
	void *ptr;

	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	assert_ok(vpmm_free(pool, ptr, NULL));
	if (destroyed)
		vpmm_pool_destroy(pool);
}

static void test_full_at_end(gconstpointer destroyed)
{
	if (g_test_subprocess()) {
		trace_to_full_disk(destroyed != NULL);
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
	g_test_trap_assert_stderr("*the trace /dev/full (VPMM_TRACE) ends *: No space left on device*");
}

static void test_full(void)
{
	expect_end("/dev/full", "No space left on device");
}

/* Nobody dies of SIGXFSZ, and the file has whole lines. The host backend's memory is a file, too. */
static void test_largest(void)
{
	char *name = new_name("");
	rlim_t before = rlimit_set(RLIMIT_FSIZE, 8 << 20);
	struct trace *trace;

	expect_end(name, "File too large");
	rlimit_set(RLIMIT_FSIZE, before);
	trace = load(name);
	g_assert_cmpuint(trace->n_ops, >, 1000);
	trace_free(trace);
	remove_name(name);
}

/* A pipe, and the file that what is read from it goes to. */
struct pipe {
	int fd;
	const char *to;
};

static void *read_pipe(void *data)
{
	struct pipe *pipe = data;
	GString *text = g_string_new(NULL);
	char part[65536];
	ssize_t got;

	while ((got = read(pipe->fd, part, sizeof(part))) > 0)
		g_string_append_len(text, part, got);
	g_assert_true(g_file_set_contents(pipe->to, text->str, (gssize)text->len, NULL));
	g_string_free(text, TRUE);
	return NULL;
}

/* A pipe that nobody reads while calls are made takes no more than its buffer: calls return, and none is lost. */
static void test_slow_file(void)
{
	char *name = new_name(""), *copy = new_name("");
	struct pipe pipe = { .to = copy };
	struct trace *trace;
	struct fixture f;
	GThread *reader;
	void *ptr;

	g_assert_cmpint(mkfifo(name, 0600), ==, 0);
	pipe.fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	g_assert_cmpint(pipe.fd, >=, 0);
	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	g_assert_cmpint(fcntl(pipe.fd, F_SETFL, 0), ==, 0);
	for (int i = 0; i < 10 * OPERATIONS; i++) {
		assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]));
		assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	}
	reader = g_thread_new("reader", read_pipe, &pipe);
	fixture_close(&f);
	g_thread_join(reader);
	trace = load(copy);

	g_assert_cmpuint(trace->n_ops, ==, 2 * 10 * OPERATIONS);
	trace_free(trace);
	close(pipe.fd);
	remove_name(copy);
	remove_name(name);
}

/* Creation fails where nobody reads it, and waits for a reader that comes late. */
static void *open_late(void *name)
{
	g_usleep(20 * 1000);
	return GINT_TO_POINTER(open(name, O_RDONLY | O_CLOEXEC));
}

static void test_pipe_reader(void)
{
	unsigned int before = output_reader_ms;
	char *name = new_name("");
	struct vpmm_pool *pool;
	GThread *reader;

	g_assert_cmpint(mkfifo(name, 0600), ==, 0);
	output_reader_ms = 20;
	assert_error(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(name) }), EINVAL,
		     "it is a pipe that no process reads");
	fixture_assert_nothing_left();
	output_reader_ms = 60 * 1000;
	reader = g_thread_new("reader", open_late, name);
	assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(name) }));
	vpmm_pool_destroy(pool);
	close(GPOINTER_TO_INT(g_thread_join(reader)));
	output_reader_ms = before;
	remove_name(name);
}

/* A reader that has stopped holds nobody up for ever, the end of the pool neither. */
static void test_stopped_reader(void)
{
	unsigned int before = recorder_stalled_ms;
	char *name = new_name("");
	struct fixture f;
	void *ptr;
	int fd;

	g_assert_cmpint(mkfifo(name, 0600), ==, 0);
	fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	g_assert_cmpint(fd, >=, 0);
	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	recorder_stalled_ms = 50;
	for (int i = 0; i < 10 * OPERATIONS; i++) {
		assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]));
		assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	}
	fixture_close(&f);
	recorder_stalled_ms = before;
	close(fd);
	remove_name(name);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/record/replay", test_replay);
	g_test_add_func("/record/replay-compressed", test_replay_compressed);
	g_test_add_func("/record/peak", test_peak);
	g_test_add_func("/record/threads", test_threads);
	g_test_add_func("/record/realloc", test_realloc);
	g_test_add_func("/record/lines", test_lines);
	g_test_add_func("/record/lines/resizing", test_lines_of_resizing);
	g_test_add_func("/record/lines/captures", test_lines_of_captures);
	g_test_add_func("/record/pools", test_pools);
	g_test_add_func("/record/earlier-file", test_earlier_file);
	g_test_add_func("/record/slow-file", test_slow_file);
	g_test_add_func("/record/full", test_full);
	g_test_add_data_func("/record/full-at-end-of-pool", "", test_full_at_end);
	g_test_add_data_func("/record/full-at-exit", NULL, test_full_at_end);
	g_test_add_func("/record/pipe-reader", test_pipe_reader);
	g_test_add_func("/record/stopped-reader", test_stopped_reader);
	g_test_add_func("/record/largest", test_largest);
	add_alone("/record/environment", test_environment);
	add_alone("/record/bad-values", test_bad_values);
	return g_test_run();
}
