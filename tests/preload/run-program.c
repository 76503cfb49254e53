// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A CUDA program for tests/scripts/test-run.sh, on the suite's own driver. Its arguments are what it does, in order:
 *
 *	device=N	goes on with another device; it begins with device 0
 *	plain=NxM	N blocks of M MiB of cuMemAlloc()
 *	async=NxM	the same of cuMemAllocAsync()
 *	own=NxM		N blocks of M MiB of libvpmm, which it uses itself, on the host backend
 *	move=NxM	copies the last block to a new one of M MiB more, and frees it, N times
 *	use=NxM		the same, with work between the copy and the free
 *	fill=N		fills each block with bytes N and on; same=N fails unless they are there
 *	sync		waits for the work of the default stream
 *	capture		begins to capture a stream
 *	odd		frees every second block
 *	free		frees all blocks
 *	reset		resets the device
 *	replay=KIND	does what the trace on standard input says, which is of version 1; KIND is plain or async
 *	second		sleeps for more than a second
 *	line		reads a line from standard input
 *	say=TEXT	prints it
 *	env=NAME	prints a variable
 *	parent		prints the process id of its parent
 *	signal		prints the name of the next signal
 *	exec		executes itself with the arguments that follow
 *	kill=N		ends by a signal
 *	exit=N		exits with a status
 */
#include <dlfcn.h>
#include <glib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/fake-cuda-inside.h"

#define MIB ((size_t)1 << 20)
#define STREAMS 16

struct block {
	drv_deviceptr va;
	bool plain;
	size_t size;
};

static struct block blocks[1024];
static size_t count;
static int device;

static void check(drv_result result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: error %d\n", what, (int)result);
	exit(1);
}

static void use_device(int number)
{
	drv_context context;

	device = number;
	check(cuInit(0), "cuInit");
	check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static drv_deviceptr take(bool plain, size_t size, drv_stream stream)
{
	drv_deviceptr va;

	if (plain)
		check(cuMemAlloc_v2(&va, size), "cuMemAlloc");
	else
		check(cuMemAllocAsync(&va, size, stream), "cuMemAllocAsync");
	return va;
}

static void give(bool plain, drv_deviceptr va, drv_stream stream)
{
	if (plain)
		check(cuMemFree_v2(va), "cuMemFree");
	else
		check(cuMemFreeAsync(va, stream), "cuMemFreeAsync");
}

static void take_blocks(bool plain, const char *what)
{
	unsigned int n = 0, mib = 0;

	if (sscanf(what, "%ux%u", &n, &mib) != 2 || count + n > G_N_ELEMENTS(blocks))
		exit(1);
	for (; n; n--, count++)
		blocks[count] = (struct block){ take(plain, mib * MIB, NULL), plain, mib * MIB };
}

/* As a program that is linked with it. */
static void take_own(const char *what)
{
	int (*vpmm_malloc)(void *pool, void **ptr, size_t size, drv_stream stream);
	void *library = dlopen("lib/.libs/libvpmm.so.0", RTLD_NOW), *block;
	unsigned int n = 0, mib = 0;

	if (sscanf(what, "%ux%u", &n, &mib) != 2 || !library)
		exit(1);
	*(void **)&vpmm_malloc = dlsym(library, "vpmm_malloc");
	g_setenv("VPMM_BACKEND", "host", TRUE);
	for (; n; n--) {
		if (vpmm_malloc(NULL, &block, mib * MIB, NULL))
			exit(1);
	}
}

/* What a vector does that grows; its element is @use. */
static void move_block(const char *what, bool use)
{
	unsigned int n = 0, mib = 0;
	struct block *last;

	if (sscanf(what, "%ux%u", &n, &mib) != 2 || !count)
		exit(1);
	last = &blocks[count - 1];
	for (; n; n--) {
		struct block larger = { take(last->plain, last->size + mib * MIB, NULL), last->plain,
					last->size + mib * MIB };

		check(cuMemcpyDtoDAsync_v2(larger.va, last->va, last->size, NULL), "cuMemcpyDtoDAsync");
		if (use)
			check(cuMemsetD8Async(larger.va + last->size, 0, MIB, NULL), "cuMemsetD8Async");
		give(last->plain, last->va, NULL);
		*last = larger;
	}
}

static void fill_blocks(unsigned char first)
{
	for (size_t i = 0; i < count; i++)
		check(cuMemsetD8Async(blocks[i].va, (unsigned char)(first + i), blocks[i].size, NULL), "cuMemsetD8Async");
}

static void compare_blocks(unsigned char first)
{
	unsigned char *found, want;

	for (size_t i = 0; i < count; i++) {
		found = malloc(blocks[i].size);
		want = (unsigned char)(first + i);
		check(cuMemcpyDtoH_v2(found, blocks[i].va, blocks[i].size), "cuMemcpyDtoH");
		if (*found != want || memcmp(found, found + 1, blocks[i].size - 1) != 0)
			exit(1);
		free(found);
	}
}

static void capture(void)
{
	drv_stream stream;

	check(cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(cuStreamBeginCapture_v2(stream, DRV_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
}

static void free_blocks(size_t every)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (i % every)
			blocks[kept++] = blocks[i];
		else
			give(blocks[i].plain, blocks[i].va, NULL);
	}
	count = kept;
}

static void replay(bool plain)
{
	GHashTable *live = g_hash_table_new(NULL, NULL);
	drv_stream streams[STREAMS] = { NULL };
	unsigned long long id, size;
	char line[256], op;
	unsigned int at;

	while (fgets(line, sizeof(line), stdin)) {
		gpointer key;

		if (sscanf(line, "%*u %c %llu %llu %u", &op, &id, &size, &at) != 4 || at >= STREAMS)
			continue;
		if (!streams[at])
			check(cuStreamCreate(&streams[at], DRV_STREAM_NON_BLOCKING), "cuStreamCreate");
		key = GSIZE_TO_POINTER((gsize)id);
		if (op == 'a')
			g_hash_table_insert(live, key, GSIZE_TO_POINTER((gsize)take(plain, (size_t)size, streams[at])));
		else
			give(plain, (drv_deviceptr)GPOINTER_TO_SIZE(g_hash_table_lookup(live, key)), streams[at]);
	}
	g_hash_table_destroy(live);
}

/* It needs a context anew. */
static void reset(void)
{
	check(cuDevicePrimaryCtxReset_v2(device), "cuDevicePrimaryCtxReset");
	use_device(device);
	count = 0;
}

static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

static void read_line(void)
{
	int c;

	do
		c = getchar();
	while (c != EOF && c != '\n');
}

/* main() has blocked them. */
static void wait_for_signal(const sigset_t *signals)
{
	int signal;

	say("waiting");
	if (sigwait(signals, &signal))
		exit(1);
	say(g_strsignal(signal));
}

static void end_by(int signal)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	raise(signal);
}

static const char *value(const char *action, const char *name)
{
	size_t length = strlen(name);

	return strncmp(action, name, length) == 0 ? action + length : NULL;
}

static void act(const char *action, const sigset_t *signals)
{
	const char *what;

	if ((what = value(action, "device=")))
		use_device(atoi(what));
	else if ((what = value(action, "plain=")))
		take_blocks(true, what);
	else if ((what = value(action, "async=")))
		take_blocks(false, what);
	else if ((what = value(action, "own=")))
		take_own(what);
	else if ((what = value(action, "move=")))
		move_block(what, false);
	else if ((what = value(action, "use=")))
		move_block(what, true);
	else if ((what = value(action, "fill=")))
		fill_blocks((unsigned char)atoi(what));
	else if ((what = value(action, "same=")))
		compare_blocks((unsigned char)atoi(what));
	else if (value(action, "sync"))
		check(cuStreamSynchronize(NULL), "cuStreamSynchronize");
	else if (value(action, "capture"))
		capture();
	else if ((what = value(action, "replay=")))
		replay(strcmp(what, "plain") == 0);
	else if ((what = value(action, "say=")))
		say(what);
	else if ((what = value(action, "env=")))
		say(getenv(what) ? getenv(what) : "(none)");
	else if ((what = value(action, "kill=")))
		end_by(atoi(what));
	else if ((what = value(action, "exit=")))
		exit(atoi(what));
	else if (value(action, "odd"))
		free_blocks(2);
	else if (value(action, "free"))
		free_blocks(1);
	else if (value(action, "parent"))
		printf("parent %ld\n", (long)getppid());
	else if (value(action, "signal"))
		wait_for_signal(signals);
	else if (value(action, "second"))
		g_usleep(11 * G_USEC_PER_SEC / 10);
	else if (value(action, "line"))
		read_line();
	else if (value(action, "reset"))
		reset();
	else
		exit(1);
}

int main(int argc, char **argv)
{
	sigset_t signals;

	sigemptyset(&signals);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "signal") != 0)
			continue;
		sigaddset(&signals, SIGHUP);
		sigaddset(&signals, SIGINT);
		sigaddset(&signals, SIGQUIT);
		sigaddset(&signals, SIGTERM);
		sigaddset(&signals, SIGUSR1);
		sigaddset(&signals, SIGUSR2);
		sigprocmask(SIG_BLOCK, &signals, NULL);
	}
	use_device(0);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "exec") == 0) {
			execv("/proc/self/exe", argv + i);
			return 1;
		}
		act(argv[i], &signals);
	}
	return 0;
}
