// SPDX-License-Identifier: LGPL-2.1-or-later
/* What is written of a program: a trace with VPMM_PRELOAD_MONITOR=1, and a report. */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/preload-fixture.h"

#define SIZE 3000000

static char *path;

/* All that was written before a fork is in the file. */
static char *trace(void)
{
	pid_t pid = fork();
	char *text;
	int status;

	if (!pid)
		_exit(0);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	return text;
}

/* Names a file, which the object opens when it has something to write. */
static void start(void)
{
	path = g_strdup_printf("%s/vpmm-test-%ld.trace", g_get_tmp_dir(), (long)getpid());
	use_primary(0);
}

static void assert_trace(char *want)
{
	char *got = trace();
	GRegex *time = g_regex_new("^[0-9]+ | process=[0-9]+ started=[0-9]+$", G_REGEX_MULTILINE, 0, NULL);
	char *bare = g_regex_replace_literal(time, got, -1, 0, "", 0, NULL);

	g_assert_cmpstr(bare, ==, want);
	g_assert_cmpint(remove(path), ==, 0);
	g_regex_unref(time);
	g_free(bare);
	g_free(got);
	g_free(want);
	g_free(path);
}

static void each_kind(void)
{
	drv_deviceptr plain, pitched, ordered, other;
	drv_stream stream;
	size_t pitch;

	/* A program allocates and frees in each way. */
	start();
	g_assert_cmpint(cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING), ==, 0);
	g_assert_cmpint(cuMemAlloc_v2(&plain, SIZE), ==, 0);
	g_assert_cmpint(cuMemAllocPitch_v2(&pitched, &pitch, 100, 1000, 4), ==, 0);
	g_assert_cmpint(cuMemAllocAsync(&ordered, SIZE, stream), ==, 0);
	g_assert_cmpint(cuMemAllocAsync_ptsz(&other, SIZE, NULL), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(ordered, stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync_ptsz(other, NULL), ==, 0);
	g_assert_cmpint(cuMemFree_v2(plain), ==, 0);

	/* What fails, and what was freed before, is no record. */
	g_assert_cmpint(cuMemAlloc_v2(&other, 0), !=, 0);
	g_assert_cmpint(cuMemFree_v2(plain), !=, 0);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);

	/* The driver has served it, and the trace has each call, and the end of what was left. */
	g_assert_cmpuint(driver_calls("cuMemCreate"), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 3);
	assert_trace(g_strdup_printf("# vpmm-trace 2 source=vpmm-preload\n"
				     "p 1 cuda 0 2097152\n"
				     "a %#llx %d 0 pool=1 idle\n"
				     "a %#llx 512000 0 pool=1 idle\n"
				     "a %#llx %d %#llx pool=1\n"
				     "a %#llx %d 0x2 pool=1\n"
				     "f %#llx %#llx pool=1\n"
				     "f %#llx 0x2 pool=1\n"
				     "f %#llx any pool=1\n"
				     "e 1\n",
				     (unsigned long long)plain, SIZE, (unsigned long long)pitched,
				     (unsigned long long)ordered, SIZE, (unsigned long long)(uintptr_t)stream,
				     (unsigned long long)other, SIZE,
				     (unsigned long long)ordered, (unsigned long long)(uintptr_t)stream,
				     (unsigned long long)other, (unsigned long long)plain));
}

/* The number of the file's descriptor. */
static int trace_descriptor(void)
{
	for (int fd = 0; fd < 1024; fd++) {
		char *link = g_strdup_printf("/proc/self/fd/%d", fd);
		char *name = g_file_read_link(link, NULL);
		bool found = name && !strcmp(name, path);

		g_free(name);
		g_free(link);
		if (found)
			return fd;
	}
	return -1;
}

static void allocs_after(drv_deviceptr va)
{
	for (int i = 0; i < 5000; i++)
		g_assert_cmpint(cuMemAlloc_v2(&va, 1000), ==, 0);
}

static void closed(void)
{
	char *name, *said, c;
	int fd, own, status;
	drv_deviceptr va;
	pid_t pid;

	/* A program closes all descriptors that it does not know, and the number becomes that of a file of its own. */
	start();
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	own = g_file_open_tmp(NULL, &name, NULL);
	fd = trace_descriptor();
	g_assert_cmpint(fd, >, STDERR_FILENO);
	g_assert_cmpint(dup2(own, fd), ==, fd);

	/* What it allocates then is not written there, neither at once nor by the exit of a child, and that is said. */
	said = said_by(allocs_after, 0);
	g_assert_nonnull(strstr(said, "nothing more is recorded"));
	pid = fork();
	if (!pid)
		exit(0);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(pread(own, &c, 1, 0), ==, 0);
	g_assert_cmpint(remove(name), ==, 0);
	g_assert_cmpint(remove(path), ==, 0);
	g_free(name);
	g_free(said);
	g_free(path);
}

static void not_served(void)
{
	const drv_mem_pool_props props = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	uint64_t all = UINT64_MAX;
	drv_deviceptr va, large;
	drv_mem_pool pool;

	/* With VPMM_PRELOAD_MIN=1M a program makes requests below that, and some of a pool of its own. */
	start();
	g_assert_cmpint(cuMemPoolCreate(&pool, &props), ==, 0);
	g_assert_cmpint(cuMemPoolSetAttribute(pool, DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), ==, 0);
	g_assert_cmpint(cuMemAlloc_v2(&va, 1000), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(cuMemAllocFromPoolAsync(&va, SIZE, pool, NULL), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, 0);
	g_assert_cmpint(cuMemAllocAsync(&large, SIZE, NULL), ==, 0);
	g_assert_cmpint(cuDeviceSetMemPool(0, pool), ==, 0);
	g_assert_cmpint(cuMemAllocAsync(&va, SIZE, NULL), ==, 0);

	/* The trace has what would have been served. */
	assert_trace(g_strdup_printf("# vpmm-trace 2 source=vpmm-preload\n"
				     "p 1 cuda 0 2097152\n"
				     "a %#llx %d 0 pool=1\n", (unsigned long long)large, SIZE));
}

static void half_left_to_driver(void)
{
	drv_deviceptr plain, ordered;
	bool async = g_getenv("VPMM_PRELOAD_ASYNC");

	/* With VPMM_PRELOAD_ASYNC=driver or VPMM_PRELOAD_IPC=driver, a program allocates in both ways. */
	start();
	g_assert_cmpint(cuMemAlloc_v2(&plain, SIZE), ==, 0);
	g_assert_cmpint(cuMemAllocAsync(&ordered, SIZE, NULL), ==, 0);

	/* The trace has the one that would have been served. */
	assert_trace(g_strdup_printf("# vpmm-trace 2 source=vpmm-preload\n"
				     "p 1 cuda 0 2097152\n"
				     "a %#llx %d 0 pool=1%s\n",
				     (unsigned long long)(async ? plain : ordered), SIZE, async ? " idle" : ""));
}

static void of_its_own(void)
{
	drv_deviceptr va;

	/* VPMM_PRELOAD_TRACE names a file, and VPMM_TRACE one that cannot be; a program allocates. */
	start();
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);

	/* The trace is in the former. */
	assert_trace(g_strdup_printf("# vpmm-trace 2 source=vpmm-preload\n"
				     "p 1 cuda 0 2097152\n"
				     "a %#llx %d 0 pool=1 idle\n", (unsigned long long)va, SIZE));
}

static void switched_off(void)
{
	drv_deviceptr va;

	/* With VPMM_PRELOAD=0 a program allocates and frees. */
	start();
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* Nothing is recorded. */
	g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
	g_free(path);
}

static void devices(void)
{
	drv_deviceptr va[2][3];
	char *text, *end;

	/* A program allocates on two devices, and resets one. */
	start();
	for (int device = 0; device < 2; device++) {
		use_primary(device);
		for (size_t i = 0; i < G_N_ELEMENTS(va[device]); i++)
			g_assert_cmpint(cuMemAlloc_v2(&va[device][i], SIZE), ==, 0);
	}
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va[1][1]), ==, 0);
	use_primary(0);
	cuMemFree_v2(va[0][1]);

	/* Each has a pool; what the reset device had is gone, and the other's is not. */
	text = trace();
	end = g_strdup_printf("^[0-9]+ p 1 cuda 0 2097152\n([0-9]+ a .* pool=1 idle\n){3}"
			      "[0-9]+ p 2 cuda 1 2097152\n([0-9]+ a .* pool=2 idle\n){3}"
			      "[0-9]+ e 1\n[0-9]+ f %#llx any pool=2\n$", (unsigned long long)va[1][1]);
	if (!g_regex_match_simple(end, strchr(text, '\n') + 1, 0, 0))
		g_error("%s", text);
	g_assert_cmpint(remove(path), ==, 0);
	g_free(end);
	g_free(text);
	g_free(path);
}

static drv_result per_thread_copy(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	return cuMemcpyAsync_ptsz(to, from, size, NULL);
}

static drv_result async_copy(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	return cuMemcpyDtoDAsync_v2(to, from, size, NULL);
}

static drv_result resolved_copy(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	__typeof__(&cuMemcpyDtoDAsync_v2_ptsz) copy;

	g_assert_cmpint(cuGetProcAddress_v2("cuMemcpyDtoDAsync", (void **)&copy, 12000, 2, NULL), ==, 0);
	return copy(to, from, size, NULL);
}

static drv_result other_copy(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	return cuMemcpyAsync(to, from, size, NULL);
}

static void moved(void)
{
	static drv_result (*const copies[])(drv_deviceptr to, drv_deviceptr from, size_t size) = {
		cuMemcpy, cuMemcpy_ptds, cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds,
		per_thread_copy, async_copy, resolved_copy, other_copy,
	};
	GString *want = g_string_new("# vpmm-trace 2 source=vpmm-preload\np 1 cuda 0 2097152\n");
	drv_deviceptr from, to;

	/* A program moves a block to a larger one, by each call that copies. */
	start();
	for (size_t i = 0; i < G_N_ELEMENTS(copies); i++) {
		const bool plain = i % 2;

		g_assert_cmpint(plain ? cuMemAlloc_v2(&from, SIZE) : cuMemAllocAsync(&from, SIZE, NULL), ==, 0);
		g_assert_cmpint(cuMemAllocAsync(&to, SIZE + 512, NULL), ==, 0);
		g_assert_cmpint(copies[i](to, from, SIZE - i), ==, 0);
		g_assert_cmpint(plain ? cuMemFree_v2(from) : cuMemFreeAsync(from, NULL), ==, 0);
		g_assert_cmpint(cuMemFreeAsync(to, NULL), ==, 0);
		g_string_append_printf(want, "a %#llx %d 0 pool=1%s\na %#llx %d 0 pool=1\n"
				       "f %#llx %s pool=1 moved=%zu\nf %#llx 0 pool=1\n", (unsigned long long)from,
				       SIZE, plain ? " idle" : "", (unsigned long long)to, SIZE + 512,
				       (unsigned long long)from, plain ? "any" : "0", SIZE - i,
				       (unsigned long long)to);
	}
	assert_trace(g_string_free(want, FALSE));
}

/* What a program does between the copy of a block to a larger one and its free. */
static void launch(drv_deviceptr from, drv_deviceptr to)
{
	(void)from, (void)to;
	cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void launch_resolved(drv_deviceptr from, drv_deviceptr to)
{
	__typeof__(&cuLaunchKernel) call;

	(void)from, (void)to;
	g_assert_cmpint(cuGetProcAddress_v2("cuLaunchKernel", (void **)&call, 12000, 0, NULL), ==, 0);
	call(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void clear(drv_deviceptr from, drv_deviceptr to)
{
	(void)from;
	g_assert_cmpint(cuMemsetD8Async(to + SIZE, 0, 1, NULL), ==, 0);
}

static void read_back(drv_deviceptr from, drv_deviceptr to)
{
	char byte;

	(void)to;
	g_assert_cmpint(cuMemcpyDtoH_v2(&byte, from, 1), ==, 0);
}

static void copy_part(drv_deviceptr from, drv_deviceptr to)
{
	g_assert_cmpint(cuMemcpy(to, from, 1), ==, 0);
}

static void wait_only(drv_deviceptr from, drv_deviceptr to)
{
	(void)from, (void)to;
	g_assert_cmpint(cuCtxSynchronize(), ==, 0);
}

static void moved_and_used(void)
{
	static const struct {
		void (*between)(drv_deviceptr from, drv_deviceptr to);
		bool used;
	} cases[] = {
		{ launch, true }, { launch_resolved, true }, { clear, true }, { read_back, true }, { copy_part, true },
		{ wait_only, false },
	};
	char *text, **lines;
	drv_deviceptr from, to;
	size_t at = 0;

	/* A program submits other work before it frees the block. */
	start();
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_assert_cmpint(cuMemAlloc_v2(&from, SIZE), ==, 0);
		g_assert_cmpint(cuMemAlloc_v2(&to, SIZE + 1), ==, 0);
		g_assert_cmpint(cuMemcpy(to, from, SIZE), ==, 0);
		cases[i].between(from, to);
		g_assert_cmpint(cuMemFree_v2(from), ==, 0);
	}

	/* The free says so. */
	text = trace();
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		if (!strstr(*line, " f "))
			continue;
		g_assert_cmpuint(at, <, G_N_ELEMENTS(cases));
		g_assert_nonnull(strstr(*line, " moved=3000000"));
		g_assert_cmpint(g_str_has_suffix(*line, " used"), ==, cases[at].used);
		at++;
	}
	g_assert_cmpuint(at, ==, G_N_ELEMENTS(cases));
	g_assert_cmpint(remove(path), ==, 0);
	g_strfreev(lines);
	g_free(text);
	g_free(path);
}

static void not_moved(void)
{
	drv_deviceptr older, from, smaller, to;
	drv_stream stream;
	drv_graph graph;
	char *text;

	/* A program copies blocks in ways that no larger block could take the place of. */
	start();
	g_assert_cmpint(cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING), ==, 0);
	for (int way = 0; way < 7; way++) {
		g_assert_cmpint(cuMemAlloc_v2(&older, 2 * SIZE), ==, 0);
		g_assert_cmpint(cuMemAlloc_v2(&from, SIZE), ==, 0);
		g_assert_cmpint(cuMemAlloc_v2(&smaller, SIZE), ==, 0);
		g_assert_cmpint(cuMemAlloc_v2(&to, SIZE + 4096), ==, 0);
		switch (way) {
		case 0:		/* to a block from before */
			g_assert_cmpint(cuMemcpy(older, from, SIZE), ==, 0);
			break;
		case 1:		/* to one that is not larger */
			g_assert_cmpint(cuMemcpy(smaller, from, SIZE), ==, 0);
			break;
		case 2:		/* a part */
			g_assert_cmpint(cuMemcpy(to, from, SIZE - 512), ==, 0);
			break;
		case 3:		/* not from the start */
			g_assert_cmpint(cuMemcpy(to, from + 1, SIZE - 1), ==, 0);
			break;
		case 4:		/* not to the start */
			g_assert_cmpint(cuMemcpy(to + 1, from, SIZE), ==, 0);
			break;
		case 5:		/* under capture */
			g_assert_cmpint(cuStreamBeginCapture_v2(stream, DRV_STREAM_CAPTURE_MODE_RELAXED), ==, 0);
			cuMemcpyDtoDAsync_v2(to, from, SIZE, stream);
			cuStreamEndCapture(stream, &graph);
			g_assert_cmpint(cuGraphDestroy(graph), ==, 0);
			break;
		default:	/* to one that is freed first, and whose address is allocated again */
			g_assert_cmpint(cuMemcpy(to, from, SIZE), ==, 0);
			g_assert_cmpint(cuMemFree_v2(to), ==, 0);
			g_assert_cmpint(cuMemAlloc_v2(&to, SIZE + 4096), ==, 0);
			break;
		}
		g_assert_cmpint(cuMemFree_v2(from), ==, 0);
	}

	/* No free says that its block was moved. */
	text = trace();
	g_assert_nonnull(strstr(text, " f "));
	g_assert_null(strstr(text, "moved"));
	g_assert_cmpint(remove(path), ==, 0);
	g_free(text);
	g_free(path);
}

/* A program that was linked where the driver has it. */
drv_result cuGraphLaunch_ptsz(drv_graph_exec exec, drv_stream stream) __attribute__((weak));

static void arguments(void)
{
	char heard[256] = "";
	void *extra[] = { heard };

	/* A program launches a kernel. */
	use_primary(0);
	cuLaunchKernel(NULL, 1, 2, 3, 4, 5, 6, 7, (drv_stream)8, NULL, extra);

	/* The driver gets all that it has passed. */
	g_assert_cmpstr(heard, ==, "1 2 3 4 5 6 7 0x8");

	/* A call that the driver does not have is an error. */
	g_assert_nonnull(cuGraphLaunch_ptsz);
	g_assert_cmpint(cuGraphLaunch_ptsz(NULL, NULL), ==, DRV_ERROR_STUB_LIBRARY);
}

static gpointer churn(gpointer unused)
{
	drv_context context;
	drv_deviceptr va;

	(void)unused;
	g_assert_cmpint(cuDevicePrimaryCtxRetain(&context, 0), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(context), ==, 0);
	for (int i = 0; i < 100; i++) {
		g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
		g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	}
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);
	return NULL;
}

static void threads(void)
{
	GHashTable *live = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	GThread *thread[3];
	char *text, **lines;
	unsigned int allocs = 0;

	/* Threads allocate and free at once. */
	start();
	for (size_t i = 0; i < G_N_ELEMENTS(thread); i++)
		thread[i] = g_thread_new("churn", churn, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(thread); i++)
		g_thread_join(thread[i]);

	/* Each block is freed before its address is allocated again. */
	text = trace();
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		char **word = g_strsplit(*line, " ", -1);

		if (g_strv_length(word) > 2 && !strcmp(word[1], "a")) {
			allocs++;
			g_assert_true(g_hash_table_add(live, g_strdup(word[2])));
		} else if (g_strv_length(word) > 2 && !strcmp(word[1], "f")) {
			g_assert_true(g_hash_table_remove(live, word[2]));
		}
		g_strfreev(word);
	}
	g_assert_cmpuint(allocs, ==, 300);
	g_assert_cmpuint(g_hash_table_size(live), ==, 0);
	g_assert_cmpint(remove(path), ==, 0);
	g_hash_table_unref(live);
	g_strfreev(lines);
	g_free(text);
	g_free(path);
}

static void release(void)
{
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);
}

/* The parent has the report that this process leaves. */
static void reported(void)
{
	drv_deviceptr va;

	/* A program allocates, resets the device, allocates more, exits, and only then releases the context. */
	atexit(release);
	use_primary(0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);
	use_primary(0);
	for (int i = 0; i < 3; i++)
		g_assert_cmpint(cuMemAllocAsync(&va, SIZE, NULL), ==, 0);
}

static void report(void)
{
	const char *program = "/proc/self/exe", *name = g_getenv("VPMM_PRELOAD_REPORT");
	char *text, *want;
	int status;
	pid_t pid;

	/* Another process does that, with a report of its own. */
	pid = fork();
	if (!pid) {
		preload_again();
		g_setenv("VPMM_TEST_SCENE", "/monitor/reported", TRUE);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);

	/* There is a line for each pool that it had. */
	path = g_strdup_printf("%.*s%ld.report", (int)(strlen(name) - strlen("%p.report")), name, (long)pid);
	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	want = g_strdup_printf("^\\{\"pid\": %ld, \"device\": 0, \"mallocs\": 1, \"frees\": 0, .*"
			       "\"peak_requested\": %d, .*\\}\n"
			       "\\{\"pid\": %ld, \"device\": 0, \"mallocs\": 3, .*\\}\n$", (long)pid, SIZE, (long)pid);
	if (!g_regex_match_simple(want, text, 0, 0))
		g_error("%s", text);
	g_assert_cmpint(remove(path), ==, 0);
	g_free(want);
	g_free(text);
	g_free(path);
}

static void no_file(void)
{
	drv_deviceptr va;

	/* The trace cannot be written. */
	use_primary(0);

	/* The program runs all the same. */
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
}

static void alloc_one(drv_deviceptr va)
{
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
}

static void unknown_percent(void)
{
	char *said;

	/* The name of the trace has a % that stands for nothing known. */
	use_primary(0);
	said = said_by(alloc_one, 0);

	/* That is said. */
	g_assert_cmpstr(said, ==, "libvpmm-preload: VPMM_TRACE=/tmp/%q: what \"%q\" stands for is not known: "
				  "expected %p or %%\n");
	g_free(said);
}

int main(int argc, char **argv)
{
	char *name = g_strdup_printf("VPMM_TRACE=%s/vpmm-test-%%p.trace", g_get_tmp_dir());
	char *own = g_strdup_printf("VPMM_PRELOAD_TRACE=%s/vpmm-test-%%p.trace", g_get_tmp_dir());
	char *file = g_strdup_printf("VPMM_PRELOAD_REPORT=%s/vpmm-test-%%p.report", g_get_tmp_dir());
	const struct preload_test tests[] = {
		{ "/monitor/each-kind", each_kind, { "VPMM_PRELOAD_MONITOR=1", name } },
		{ "/monitor/closed", closed, { "VPMM_PRELOAD_MONITOR=1", name } },
		{ "/monitor/threads", threads, { "VPMM_PRELOAD_MONITOR=1", name } },
		{ "/monitor/not-served", not_served, { "VPMM_PRELOAD_MONITOR=1", name, "VPMM_PRELOAD_MIN=1M" } },
		{ "/monitor/async-driver", half_left_to_driver,
		  { "VPMM_PRELOAD_MONITOR=1", name, "VPMM_PRELOAD_ASYNC=driver" } },
		{ "/monitor/ipc-driver", half_left_to_driver,
		  { "VPMM_PRELOAD_MONITOR=1", name, "VPMM_PRELOAD_IPC=driver" } },
		{ "/monitor/of-its-own", of_its_own, { "VPMM_PRELOAD_MONITOR=1", own, "VPMM_TRACE=/nowhere/x" } },
		{ "/monitor/off", switched_off, { "VPMM_PRELOAD_MONITOR=1", name, "VPMM_PRELOAD=0" } },
		{ "/monitor/devices", devices, { "VPMM_PRELOAD_MONITOR=1", name, "VPMM_HOST_DEVICES=2" } },
		{ "/monitor/moved", moved, { "VPMM_PRELOAD_MONITOR=1", name } },
		{ "/monitor/moved-and-used", moved_and_used, { "VPMM_PRELOAD_MONITOR=1", name } },
		{ "/monitor/not-moved", not_moved, { "VPMM_PRELOAD_MONITOR=1", name } },
		{ "/monitor/arguments", arguments, { "VPMM_PRELOAD_MONITOR=1", name } },
		{ "/monitor/arguments-served", arguments },
		{ "/monitor/report", report, { file } },
		{ "/monitor/reported", reported },
		{ "/monitor/no-name", no_file, { "VPMM_PRELOAD_MONITOR=1" } },
		{ "/monitor/no-directory", no_file, { "VPMM_PRELOAD_MONITOR=1", "VPMM_TRACE=/nowhere/x" } },
		{ "/monitor/unknown-percent", unknown_percent, { "VPMM_PRELOAD_MONITOR=1", "VPMM_TRACE=/tmp/%q" } },
		{ "/monitor/compressed", no_file, { "VPMM_PRELOAD_MONITOR=1", "VPMM_TRACE=/tmp/x.gz" } },
	};
	int status = preload_main(argc, argv, tests, G_N_ELEMENTS(tests));

	g_free(file);
	g_free(own);
	g_free(name);
	return status;
}
