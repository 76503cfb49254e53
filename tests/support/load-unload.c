// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A program that knows of no library: it opens libvpmm.so by its path, uses a pool, and closes it, again and again;
 * then it forks. Says what is wrong, and exits with 1.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vpmm-host.h"
#include "vpmm.h"

#define TIMES 100

/* After so many, everything is there that is made once. */
#define FIRST 10

#define PAGE ((size_t)2 << 20)

#define CALLS(X) \
	X(vpmm_pool_create) X(vpmm_pool_destroy) X(vpmm_pool_check) X(vpmm_malloc) X(vpmm_free) X(vpmm_last_error) \
	X(vpmm_host_stream_submit)

static void *library;
static struct {
#define X(name) __typeof__(name) *name;
	CALLS(X)
#undef X
} lib;

static void fail(const char *what, const char *why)
{
	printf("%s: %s\n", what, why);
	exit(1);
}

static void ok(int err, const char *what)
{
	if (err)
		fail(what, lib.vpmm_last_error());
}

static void library_open(const char *path)
{
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail("dlopen", dlerror());
#define X(name) \
	*(void **)&lib.name = dlsym(library, #name); \
	if (!lib.name) \
		fail("dlsym", #name);
	CALLS(X)
#undef X
}

static const struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = (size_t)1 << 30 };

/* With memory of a stream that goes with the thread. */
static void *use_pool(void *data)
{
	struct vpmm_pool *pool;
	void *a, *b, *small;

	(void)data;
	ok(lib.vpmm_pool_create(&pool, &opts), "vpmm_pool_create");
	ok(lib.vpmm_malloc(pool, &a, 3 * PAGE, NULL), "vpmm_malloc");
	ok(lib.vpmm_malloc(pool, &b, PAGE + 1, VPMM_HOST_STREAM_PER_THREAD), "vpmm_malloc");
	ok(lib.vpmm_malloc(pool, &small, 100, NULL), "vpmm_malloc");
	memset(a, 1, 3 * PAGE);
	ok(lib.vpmm_host_stream_submit(VPMM_HOST_STREAM_PER_THREAD), "vpmm_host_stream_submit");
	ok(lib.vpmm_free(pool, b, VPMM_HOST_STREAM_PER_THREAD), "vpmm_free");
	ok(lib.vpmm_free(pool, a, NULL), "vpmm_free");
	ok(lib.vpmm_malloc(pool, &b, 4 * PAGE, NULL), "vpmm_malloc");
	ok(lib.vpmm_pool_check(pool), "vpmm_pool_check");
	lib.vpmm_pool_destroy(pool);
	return NULL;
}

static void *sit(void *data)
{
	use_pool(NULL);
	pthread_barrier_wait(data);
	pthread_barrier_wait(data);
	return NULL;
}

/* A thread that has used the library ends after it was closed. */
static void end_thread_late(const char *path)
{
	pthread_barrier_t barrier;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	library_open(path);
	if (pthread_create(&thread, NULL, sit, &barrier))
		fail("pthread_create", strerror(errno));
	pthread_barrier_wait(&barrier);
	dlclose(library);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
}

/* The library counts forks, whether it is open or not. */
static void fork_closed(const char *path)
{
	struct vpmm_pool *pool = NULL;
	pid_t child = fork();
	int status;

	if (child < 0)
		fail("fork", strerror(errno));
	if (!child) {
		library_open(path);
		_exit(lib.vpmm_pool_create(&pool, &opts) == -EBUSY && !pool ? 0 : 1);
	}
	if (waitpid(child, &status, 0) != child || status)
		fail("fork", "the child does not find that it is one");
	library_open(path);
	use_pool(NULL);
	dlclose(library);
}

static int count_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int lines = 0, c;

	if (!maps)
		fail("/proc/self/maps", strerror(errno));
	while ((c = getc(maps)) != EOF)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

int main(int argc, char **argv)
{
	size_t bytes = 0, now;
	int maps = 0;

	if (argc != 2)
		fail(argv[0], "takes the path of the library");
	for (int i = 0; i < TIMES; i++) {
		if (i == FIRST) {
			bytes = mallinfo2().uordblks;
			maps = count_maps();
		}
		library_open(argv[1]);
		use_pool(NULL);
		if (dlclose(library))
			fail("dlclose", dlerror());
	}
	now = mallinfo2().uordblks;
	if (now > bytes || count_maps() > maps) {
		printf("%zu bytes and %d mappings after %d times, %zu and %d after %d\n", bytes, maps, FIRST, now,
		       count_maps(), TIMES);
		return 1;
	}
	end_thread_late(argv[1]);
	fork_closed(argv[1]);
	return 0;
}
