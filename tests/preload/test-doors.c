// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * By whatever door a program comes to the driver's calls, it gets ours where there is one, else the driver's; and what
 * ours ask the driver then.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/preload-fixture.h"
#include "vpmm.h"

#define OURS "libvpmm-preload"
#define DRIVER "libcuda"
#define SIZE 3000000

/* What the test's driver does not have, nobody can look up in it. */
static bool driver_lacks(const char *name)
{
	return strstr(name, "ToGraph");
}

static void each_hook(void (*check)(const char *name, void *arg), void *arg)
{
	static const char *const names[] = {
#define X(name, args) #name,
		PRELOAD_HOOKS(X)
#undef X
	};
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(names); i++)
		if (!driver_lacks(names[i]))
			check(names[i], arg);
}

static void assert_ours(const char *name, void *handle)
{
	if (!is_of(dlsym(handle, name), OURS))
		g_error("%s is not ours", name);
}

static void assert_drivers(const char *name, void *handle)
{
	if (!is_of(dlsym(handle, name), DRIVER))
		g_error("%s is not the driver's", name);
}

static void linked(void)
{
	drv_deviceptr va;

	/* A program that is linked with the driver allocates and frees. */
	use_primary(0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* It was served by us. */
	g_assert_true(is_of((void *)cuMemAlloc_v2, OURS));
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemFree"), ==, 0);
}

static void handle(void)
{
	/* A program opens the driver and looks names up. */
	void *library = driver_handle();

	/* It gets ours, and for other names the driver's. */
	each_hook(assert_ours, library);
	assert_drivers("cuInit", library);
	assert_drivers("cuLaunchKernel", library);
	g_assert_null(dlsym(library, "cuNoSuchCall"));
}

static void by_default(void)
{
	/* A lookup in all that the program has finds ours. */
	each_hook(assert_ours, RTLD_DEFAULT);
	each_hook(assert_ours, dlopen(NULL, RTLD_NOW));
	assert_drivers("cuInit", RTLD_DEFAULT);

	/* What the driver lacks is not found: ours would have nothing to pass it to. */
	g_assert_null(dlsym(RTLD_DEFAULT, "cuStreamBeginCaptureToGraph"));
	g_assert_nonnull(dlerror());
	g_assert_null(dlsym(dlopen(NULL, RTLD_NOW), "cuStreamBeginCaptureToGraph"));
	g_assert_nonnull(dlerror());
}

static void next(void)
{
	/* A lookup behind the program, which is in front of everything, finds ours, and other names where they are. */
	each_hook(assert_ours, RTLD_NEXT);
	g_assert_true(dlsym(RTLD_NEXT, "g_malloc") == (void *)g_malloc);
}

static void *proc_address(const char *name, int version, drv_u64 flags, bool second)
{
	void *call = NULL;
	drv_enum status;

	if (second)
		g_assert_cmpint(cuGetProcAddress_v2(name, &call, version, flags, &status), ==, 0);
	else
		g_assert_cmpint(cuGetProcAddress(name, &call, version, flags), ==, 0);
	return call;
}

static void watched(void)
{
	static const char *const names[] = {
		"cuMemcpyAsync", "cuMemcpyDtoDAsync_v2", "cuLaunchKernel", "cuMemsetD8Async", "cuGraphLaunch",
	};
	void *library = driver_handle();

	/* With VPMM_PRELOAD_MONITOR=1 a program looks up what copies and launches: that is ours as well. */
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
		assert_ours(names[i], library);
	g_assert_true(is_of(proc_address("cuLaunchKernel", 12000, 0, true), OURS));
	g_assert_true(proc_address("cuMemcpyAsync", 12000, 2, true) == dlsym(library, "cuMemcpyAsync_ptsz"));
	assert_drivers("cuInit", library);
}

static void resolver(void)
{
	static const char *const names[] = {
		"cuMemAlloc", "cuMemAllocPitch", "cuMemFree", "cuMemGetInfo", "cuMemAllocAsync", "cuMemFreeAsync",
		"cuMemAllocFromPoolAsync", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxRelease", "cuStreamDestroy",
		"cuStreamBeginCapture", "cuStreamEndCapture", "cuGetProcAddress",
	};
	void *call;

	/* Both resolvers of the driver, for both kinds of default stream, answer with ours. */
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
		for (int way = 0; way < 4; way++)
			if (!is_of(proc_address(names[i], 12000, way & 1 ? 2 : 0, way & 2), OURS))
				g_error("%s is not ours in way %d", names[i], way);

	/* Which variant it is, is up to the driver. */
	g_assert_true(proc_address("cuMemAllocAsync", 12000, 2, true) == dlsym(RTLD_DEFAULT, "cuMemAllocAsync_ptsz"));
	g_assert_true(proc_address("cuMemAllocAsync", 12000, 1, true) == dlsym(RTLD_DEFAULT, "cuMemAllocAsync"));
	g_assert_true(proc_address("cuGetProcAddress", 11030, 0, false) == (void *)cuGetProcAddress);
	g_assert_true(proc_address("cuGetProcAddress", 12000, 0, false) == (void *)cuGetProcAddress_v2);

	/* What we have nothing for is the driver's, and an error stays one, with or without a place for the reason. */
	g_assert_true(is_of(proc_address("cuCtxGetCurrent", 12000, 0, true), DRIVER));
	g_assert_cmpint(cuGetProcAddress_v2("cuNoSuchCall", &call, 12000, 0, NULL), ==, DRV_ERROR_NOT_FOUND);
}

static void switched_off(void)
{
	void *library = driver_handle();
	drv_deviceptr va;

	/* With VPMM_PRELOAD=0 lookups find the driver's. */
	each_hook(assert_drivers, library);
	g_assert_true(is_of(proc_address("cuMemAlloc", 12000, 0, true), DRIVER));

	/* A program that is linked with it reaches it as well. */
	use_primary(0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
	g_assert_cmpuint(driver_calls("cuMemFree"), ==, 1);
}

/* tests/preload/second.c has it, which passes calls on to what it finds behind itself. */
static unsigned int second_calls(void)
{
	unsigned int (*calls)(void);

	*(void **)&calls = dlsym(RTLD_DEFAULT, "second_calls");
	g_assert_nonnull(calls);
	return calls();
}

static void second_before(void)
{
	drv_deviceptr va;

	/* A program is linked with the driver, and another object stands in front of us. */
	use_primary(0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* That object has seen each call, and passed it on to us. */
	g_assert_cmpuint(second_calls(), ==, 2);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
}

/* What that object finds by a lookup of its own. */
static void *found_by_second(const char *lookup, const char *name)
{
	void *(*look)(const char *name);

	*(void **)&look = dlsym(RTLD_DEFAULT, lookup);
	g_assert_nonnull(look);
	return look(name);
}

static void second_behind(void)
{
	drv_deviceptr va;

	/*
	 * With another object behind us, what it looks up behind itself, or in the driver, is the driver's: with ours
	 * in its place, the two would call each other.
	 */
	g_assert_true(is_of(found_by_second("second_next", "cuMemAlloc_v2"), DRIVER));
	g_assert_true(is_of(found_by_second("second_look", "cuMemAlloc_v2"), DRIVER));
	g_assert_true(is_of(found_by_second("second_look", "cuMemGetInfo_v2"), DRIVER));

	/* We serve the program. */
	use_primary(0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
	g_assert_cmpuint(second_calls(), ==, 0);

	/* What we do not serve comes to that object, as it would without us. */
	g_assert_cmpint(cuMemAlloc_v2(&va, 0), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuMemFree_v2(SIZE), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpuint(second_calls(), ==, 2);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
}

/* tests/preload/quota.c has these. */
#define QUOTA ((size_t)64 << 20)
static size_t quota_used(void)
{
	size_t (*used)(void);

	*(void **)&used = dlsym(RTLD_DEFAULT, "quota_used");
	g_assert_nonnull(used);
	return used();
}

/* Allocates by these calls until there is no more. */
static size_t fill(drv_result (*alloc)(drv_deviceptr *va, size_t size))
{
	size_t bytes = 0;
	drv_deviceptr va;

	while (!alloc(&va, QUOTA / 16)) {
		bytes += QUOTA / 16;
		g_assert_cmpuint(bytes, <=, QUOTA);
	}
	return bytes;
}

static void quota_behind(void)
{
	size_t free, total, had;
	drv_deviceptr va;

	/*
	 * A library of quotas stands behind us, as that of /etc/ld.so.preload does. The program allocates what it may.
	 */
	use_primary(0);
	g_assert_cmpint(cuMemAlloc_v2(&va, QUOTA / 16), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
	g_assert_cmpint(cuMemGetInfo_v2(&free, &total), ==, 0);
	g_assert_cmpuint(total, ==, QUOTA);
	g_assert_cmpuint(free, ==, QUOTA - QUOTA / 16);
	had = fill(cuMemAlloc_v2);
	g_assert_cmpuint(had, >=, QUOTA / 2);
	g_assert_cmpuint(had, <, QUOTA);
	g_assert_cmpuint(quota_used(), <=, QUOTA);

	/* It is told what is left of its quota. */
	g_assert_cmpint(cuMemGetInfo_v2(&free, &total), ==, 0);
	g_assert_cmpuint(free, <, QUOTA / 16);
	g_assert_cmpuint(total, ==, QUOTA);
}

static void quota_behind_handle(void)
{
	void *library = driver_handle();
	__typeof__(&cuMemAlloc_v2) alloc = (__typeof__(&cuMemAlloc_v2))dlsym(library, "cuMemAlloc_v2");

	/* The same for a program that looks the calls up: each is ours. */
	each_hook(assert_ours, library);
	each_hook(assert_ours, RTLD_DEFAULT);
	use_primary(0);
	g_assert_cmpuint(fill(alloc), >=, QUOTA / 2);
	g_assert_cmpuint(quota_used(), <=, QUOTA);

	/* By the driver's resolver, which that library leaves alone, we are found as well. */
	g_assert_true(proc_address("cuMemAlloc", 12000, 0, true) == (void *)alloc);
	g_assert_true(is_of(proc_address("cuMemFree", 12000, 0, true), OURS));
}

/* Runs in a process of its own, which exits as a program does. */
static void served_nothing(void)
{
	drv_deviceptr va;

	use_primary(0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
}

/* So does a child of it. */
static void forks(void)
{
	int status;
	pid_t pid;

	served_nothing();
	pid = fork();
	if (!pid)
		exit(0);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
}

/* The report of a process of one of these kinds, which is for g_free(). */
static char *reported(const char *scene)
{
	const char *program = "/proc/self/exe";
	char *path, *text;
	int status, fd;
	pid_t pid;

	fd = g_file_open_tmp(NULL, &path, NULL);
	g_assert_cmpint(fd, >=, 0);
	close(fd);
	pid = fork();
	if (!pid) {
		preload_again();
		g_setenv("VPMM_PRELOAD_REPORT", path, TRUE);
		g_setenv("VPMM_TEST_SCENE", scene, TRUE);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	g_assert_cmpint(remove(path), ==, 0);
	g_free(path);
	return text;
}

static void quota_before(void)
{
	char *text = reported("/doors/served-nothing");

	/* A library of quotas stands in front of us, and passes its calls by. The report says so, once. */
	g_assert_true(g_regex_match_simple("^\\{\"pid\": \\d+, \"mallocs\": 0, \"in_front\": \"" QUOTA_OBJECT
					   "\"\\}\n$", text, 0, 0));
	g_free(text);
}

static void too_small(void)
{
	char *text = reported("/doors/forks");

	/* All that a program allocates is left to the driver. Its child has no context to report on. */
	g_assert_true(g_regex_match_simple("^\\{\"pid\": \\d+, \"mallocs\": 0\\}\n$", text, 0, 0));
	g_free(text);
}

static void errors_of_lookups(void)
{
	/* A lookup that succeeds leaves no error behind, and one that fails does. */
	dlerror();
	g_assert_nonnull(dlsym(driver_handle(), "cuMemAlloc_v2"));
	g_assert_null(dlerror());
	g_assert_null(dlsym(driver_handle(), "cuNoSuchCall"));
	g_assert_nonnull(dlerror());

	/* Nor does a call that is served; the first opens the library, which looks up what the driver may lack. */
	use_primary(0);
	g_assert_null(dlerror());
	linked();
	g_assert_null(dlerror());
}

static gpointer first_call(gpointer start)
{
	drv_context context;
	drv_deviceptr va;

	while (!g_atomic_int_get((int *)start))
		;
	g_assert_cmpint(cuInit(0), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRetain(&context, 0), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(context), ==, 0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);
	return NULL;
}

static void threads(void)
{
	GThread *thread[4];
	int start = 0;

	/* Several threads make the first call of the process at once. */
	use_primary(0);
	for (size_t i = 0; i < G_N_ELEMENTS(thread); i++)
		thread[i] = g_thread_new("first", first_call, &start);
	g_atomic_int_set(&start, 1);
	for (size_t i = 0; i < G_N_ELEMENTS(thread); i++)
		g_thread_join(thread[i]);

	/* All were served. */
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
}

static gpointer call_at_once(gpointer unused)
{
	int start = 1;

	(void)unused;
	return first_call(&start);
}

/* Runs in a constructor. The other thread gets as far as it can without the dynamic linker's lock. */
static GThread *beside;
static void constructed(void)
{
	drv_deviceptr va;

	beside = g_thread_new("beside", call_at_once, NULL);
	g_usleep(200000);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
}

static void in_constructor(void)
{
	char *address = g_strdup_printf("%" G_GINTPTR_MODIFIER "x", (guintptr)constructed);

	/* A constructor of an object that is being opened, and another thread, make the first call at once. */
	use_primary(0);
	g_setenv("VPMM_TEST_CONSTRUCTOR", address, TRUE);
	alarm(20);
	g_assert_nonnull(dlopen(SECOND_OBJECT, RTLD_NOW | RTLD_LOCAL));
	g_thread_join(beside);
	alarm(0);

	/* Neither waits for the other, and both were served. */
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
	g_free(address);
}

static void forked(void)
{
	drv_deviceptr va, other;
	int status;
	pid_t pid;

	/* A process forks after it has allocated. */
	use_primary(0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	pid = fork();
	if (!pid) {
		/* In the child the driver itself answers, that it does not work there. */
		_exit(cuMemAlloc_v2(&other, SIZE) != DRV_ERROR_NOT_INITIALIZED ||
		      cuMemFree_v2(va) != DRV_ERROR_NOT_INITIALIZED ||
		      cuMemAllocAsync(&other, SIZE, NULL) != DRV_ERROR_NOT_INITIALIZED);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);

	/* The parent goes on. */
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
}

/* All calls that the driver's side has answered so far. */
static uint64_t all_calls(void)
{
	uint64_t sum = driver_calls("cuDeviceGetDefaultMemPool") + driver_calls("cuDeviceGetMemPool") +
		       driver_calls("cuStreamGetCtx");

#define X(name, version, args) sum += driver_calls(#name);
	DRV_CALLS_REQUIRED(X)
	DRV_CALLS_OPTIONAL(X)
	DRV_CALLS_PROGRAMS(X)
	DRV_CALLS_NEW(X)
#undef X
	return sum;
}

/* The library, as the object has opened it. */
static void *library_call(const char *name)
{
	void *library = dlopen("libvpmm.so.0", RTLD_NOW | RTLD_NOLOAD), *found;

	g_assert_nonnull(library);
	found = dlsym(library, name);
	g_assert_nonnull(found);
	dlclose(library);
	return found;
}

static void pair_of_library(drv_stream stream)
{
	__typeof__(&vpmm_malloc) malloc_fn = (__typeof__(&vpmm_malloc))library_call("vpmm_malloc");
	__typeof__(&vpmm_free) free_fn = (__typeof__(&vpmm_free))library_call("vpmm_free");
	void *ptr;

	g_assert_cmpint(malloc_fn(NULL, &ptr, SIZE, stream), ==, 0);
	g_assert_cmpint(free_fn(NULL, ptr, stream), ==, 0);
}

static void pair_of_default(drv_stream stream)
{
	drv_deviceptr va;

	g_assert_cmpint(cuMemAllocAsync(&va, SIZE, stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
}

static void pair_of_named(drv_stream stream)
{
	drv_mem_pool preset;
	drv_deviceptr va;

	g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset, 0), ==, 0);
	g_assert_cmpint(cuMemAllocFromPoolAsync(&va, SIZE, preset, stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
}

/* Driver calls of one pair, behind others of its kind. */
static uint64_t calls_of(void (*pair)(drv_stream stream), drv_stream stream)
{
	uint64_t before = 0;

	for (int i = 0; i < 4; i++) {
		before = all_calls();
		pair(stream);
	}
	return all_calls() - before;
}

static void calls(void)
{
	drv_stream stream;
	uint64_t own;

	/* A program allocates and frees on a stream, over and over. */
	use_primary(0);
	g_assert_cmpint(cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING), ==, 0);
	pair_of_default(stream);
	own = calls_of(pair_of_library, stream);

	/*
	 * Beside what the library calls, the driver tells the context, that of the stream, whether it is under capture
	 * and the device's pool, and at the free of the stream again. Where a pool is named, the program has asked for
	 * it.
	 */
	g_assert_cmpuint(calls_of(pair_of_default, stream), <=, own + 6);
	g_assert_cmpuint(calls_of(pair_of_named, stream), <=, own + 6);

	/* A default stream is of the context that the malloc has asked for. */
	pair_of_default(NULL);
	own = calls_of(pair_of_library, NULL);
	g_assert_cmpuint(calls_of(pair_of_default, NULL), <=, own + 5);
}

static void calls_of_pools(void)
{
	drv_mem_pool preset[3];
	uint64_t asked, used;
	drv_deviceptr va;

	/* A program on three devices asks for attributes of their default pools. */
	for (int device = 0; device < 3; device++) {
		use_primary(device);
		g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset[device], device), ==, 0);
		g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	}
	asked = driver_calls("cuDeviceGetDefaultMemPool");
	for (int i = 0; i < 30; i++)
		g_assert_cmpint(cuMemPoolGetAttribute(preset[i % 3], DRV_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), ==, 0);

	/* The driver tells each pool once. */
	g_assert_cmpuint(driver_calls("cuDeviceGetDefaultMemPool") - asked, <=, 3);
}

int main(int argc, char **argv)
{
	static const struct preload_test tests[] = {
		{ "/doors/linked", linked },
		{ "/doors/handle", handle },
		{ "/doors/watched", watched, { "VPMM_PRELOAD_MONITOR=1" } },
		{ "/doors/default", by_default },
		{ "/doors/next", next },
		{ "/doors/resolver", resolver },
		{ "/doors/off", switched_off, { "VPMM_PRELOAD=0" } },
		{ "/doors/off-by-word", switched_off, { "VPMM_PRELOAD=off" } },
		{ "/doors/on", by_default, { "VPMM_PRELOAD=on", "VPMM_PRELOAD_MIN=none", "VPMM_PRELOAD_MAX=none" } },
		{ "/doors/second-before", second_before, { NULL }, SECOND_OBJECT },
		{ "/doors/second-behind", second_behind, { NULL }, NULL, SECOND_OBJECT },
		{ "/doors/quota-behind", quota_behind, { NULL }, NULL, QUOTA_OBJECT },
		{ "/doors/quota-behind-handle", quota_behind_handle, { NULL }, NULL, QUOTA_OBJECT },
		{ "/doors/quota-before", quota_before, { NULL }, QUOTA_OBJECT },
		{ "/doors/too-small", too_small, { "VPMM_PRELOAD_MIN=1G" } },
		{ "/doors/served-nothing", served_nothing },
		{ "/doors/forks", forks },
		{ "/doors/dlerror", errors_of_lookups },
		{ "/doors/threads", threads },
		{ "/doors/constructor", in_constructor },
		{ "/doors/fork", forked },
		{ "/doors/calls", calls },
		{ "/doors/calls-of-pools", calls_of_pools, { "VPMM_HOST_DEVICES=3" } },
	};

	return preload_main(argc, argv, tests, G_N_ELEMENTS(tests));
}
