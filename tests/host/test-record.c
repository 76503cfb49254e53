// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_TRACE: what is recorded, that a replay comes to the same, and what becomes of the file. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"
#include "support/fixture.h"
#include "support/life-fixture.h"
#include "support/rlimit.h"
#include "trace.h"

#define RECORDED(name) FIXTURE_PACKED, .trace = (name)

/* Blocks at most, and operations, of a random program. */
#define BLOCKS 64
#define OPERATIONS 4000

static char *new_name(const char *suffix)
{
	char *path, *name;
	int fd = g_file_open_tmp("vpmm-record-XXXXXX", &path, NULL);

	g_assert_cmpint(fd, >=, 0);
	close(fd);
	g_unlink(path);
	name = g_strconcat(path, suffix, NULL);
	g_free(path);
	return name;
}

static void remove_name(char *name)
{
	g_unlink(name);
	g_free(name);
}

static struct trace *load(const char *name)
{
	struct trace *trace = NULL;

	if (trace_load(name, NULL, NULL, &trace))
		g_error("%s", fail_text());
	return trace;
}

/* Any size, on any stream, in any order; a third is freed on another stream, and some is used on one. */
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
		else if (g_rand_int_range(rand, 0, 4) == 0)
			assert_ok(vpmm_use(f->pool, *block, stream));
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

		if (op->alloc)
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
		live = trace->ops[i].alloc ? live + trace->ops[i].bytes : live - trace->ops[i].bytes;
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

/* A block that moves is allocated before the old one is freed; one that stays keeps its id. */
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

	g_assert_cmpuint(trace->allocs, ==, 19);
	g_assert_cmpuint(trace->n_ops, ==, 38);
	trace_free(trace);
	remove_name(name);
}

static void test_lines(void)
{
	char *name = new_name(""), *text = NULL;
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name), .limit = 4 * PAGE });
	assert_ok(vpmm_malloc_flags(f.pool, &ptr, 1000, f.streams[0], VPMM_ZERO));
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	g_assert_cmpint(vpmm_free(f.pool, ptr, f.streams[0]), ==, -EINVAL);
	g_assert_cmpint(vpmm_malloc(f.pool, &ptr, 8 * PAGE, f.streams[0]), ==, -ENOMEM);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	fixture_close(&f);

	g_assert_true(g_file_get_contents(name, &text, NULL, NULL));
	g_assert_true(g_regex_match_simple("^# vpmm-trace 2 source=libvpmm-\\S+\n"
					   "\\d+ p 1 host 0 2097152\n"
					   "\\d+ a (0x[0-9a-f]+) 1000 0 zero\n"
					   "\\d+ u \\1 1\n"
					   "\\d+ f \\1 0\n"
					   "\\d+ x 16777216 0\n"
					   "\\d+ r 1\n"
					   "\\d+ t 0\n"
					   "\\d+ e 1\n$", text, (GRegexCompileFlags)0, (GRegexMatchFlags)0));
	g_free(text);
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

/* Makes calls until the trace has ended, of which the log is to speak once. */
static void expect_end(const char *name, const char *why)
{
	void *ptr;
	char *line = g_strdup_printf("the trace %s (VPMM_TRACE) ends here: %s", name, why), *first;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name), .log_level = VPMM_LOG_WARNING });
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
	fixture_close(&f);
	g_free(line);
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

static int wait_for(pid_t child)
{
	int status;

	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	return status;
}

/* Runs before the first pool is created, so that exit() calls @late after whatever the library might have registered. */
static struct vpmm_pool *late_pool;

static void call_late(void)
{
	void *ptr;

	assert_ok(vpmm_malloc(late_pool, &ptr, PAGE, NULL));
}

/* A process that never destroys its pool, and allocates once more while it exits. */
static void test_exit(void)
{
	char *name = new_name(".gz");
	struct trace *trace;
	pid_t child = fork();
	void *ptr;

	if (!child) {
		atexit(call_late);
		assert_ok(vpmm_pool_create(&late_pool, &(struct vpmm_opts){ RECORDED(name) }));
		assert_ok(vpmm_malloc(late_pool, &ptr, PAGE, NULL));
		exit(0);
	}
	g_assert_cmpint(wait_for(child), ==, 0);
	trace = load(name);

	g_assert_cmpuint(trace->allocs, ==, 2);
	trace_free(trace);
	remove_name(name);
}

/* A process that is killed more than a second after its last call. */
static void test_crash(void)
{
	static const char *const suffixes[] = { "", ".gz" };

	for (int i = 0; i < 2; i++) {
		char *name = new_name(suffixes[i]);
		struct trace *trace;
		pid_t child = fork();
		void *ptr;

		if (!child) {
			assert_ok(vpmm_pool_create(&late_pool, &(struct vpmm_opts){ RECORDED(name) }));
			for (int j = 0; j < 100; j++)
				assert_ok(vpmm_malloc(late_pool, &ptr, 512, NULL));
			sleep(2);
			kill(getpid(), SIGKILL);
		}
		g_assert_true(WIFSIGNALED(wait_for(child)));
		trace = load(name);
		g_assert_cmpuint(trace->allocs, ==, 100);
		trace_free(trace);
		remove_name(name);
	}
}

/* A child leaves its parent's file alone, however it ends, and cannot have it as another process either. */
static void test_fork(void)
{
	char *name = new_name("");
	struct trace *trace;
	struct fixture f;
	pid_t child;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	assert_ok(vpmm_malloc(f.pool, &ptr, PAGE, NULL));
	child = fork();
	if (!child) {
		if (vpmm_malloc(f.pool, &ptr, PAGE, NULL) != -EBUSY)
			_exit(1);
		exit(0);
	}
	g_assert_cmpint(wait_for(child), ==, 0);
	assert_ok(vpmm_free(f.pool, ptr, NULL));
	fixture_close(&f);
	trace = load(name);

	g_assert_cmpuint(trace->n_ops, ==, 2);
	trace_free(trace);
	remove_name(name);
}

/* Another process writes the file: it is refused, and stays whole. */
static void test_other_process(void)
{
	char *name = new_name(""), byte = 0;
	int ready[2], done[2];
	struct vpmm_pool *pool;
	pid_t child;
	void *ptr;

	g_assert_cmpint(pipe(ready), ==, 0);
	g_assert_cmpint(pipe(done), ==, 0);
	child = fork();
	if (!child) {
		close(done[1]);
		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(name) }));
		assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
		if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)
			_exit(1);
		vpmm_pool_destroy(pool);
		_exit(0);
	}
	g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
	assert_error(vpmm_pool_create(&pool, &(struct vpmm_opts){ RECORDED(name) }), EINVAL, "another process writes it");
	g_assert_cmpint(write(done[1], &byte, 1), ==, 1);
	g_assert_cmpint(wait_for(child), ==, 0);
	trace_free(load(name));
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
	g_test_add_func("/record/pools", test_pools);
	g_test_add_func("/record/earlier-file", test_earlier_file);
	g_test_add_func("/record/fork", test_fork);
	g_test_add_func("/record/full", test_full);
	g_test_add_func("/record/largest", test_largest);
	add_alone("/record/environment", test_environment);
	add_alone("/record/bad-values", test_bad_values);
	add_alone("/record/exit", test_exit);
	add_alone("/record/crash", test_crash);
	add_alone("/record/other-process", test_other_process);
	return g_test_run();
}
