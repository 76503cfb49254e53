// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/preload-fixture.h"

drv_context use_primary(int device)
{
	drv_context context;

	g_assert_cmpint(cuInit(0), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRetain(&context, device), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(context), ==, 0);
	return context;
}

uint64_t driver_calls(const char *name)
{
	return fake_cuda_calls(name);
}

void *driver_handle(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		g_error("%s", dlerror());
	return library;
}

char *said_by(void (*act)(drv_deviceptr va), drv_deviceptr va)
{
	char *name, *text;
	int fd;

	fd = g_file_open_tmp(NULL, &name, NULL);
	g_assert_cmpint(fd, >=, 0);
	g_assert_nonnull(freopen(name, "w", stderr));
	act(va);
	fflush(stderr);
	g_assert_true(g_file_get_contents(name, &text, NULL, NULL));
	g_assert_cmpint(remove(name), ==, 0);
	g_free(name);
	return text;
}

bool is_of(const void *address, const char *object)
{
	Dl_info info;

	return address && dladdr(address, &info) && strstr(info.dli_fname, object);
}

/* As it was when the process of a test began. */
static char *inherited;

void preload_again(void)
{
	g_setenv("LD_PRELOAD", inherited, TRUE);
}

/* What a test starts, such as the symbolizer of a sanitizer, is not meant, and may not work under it. */
static void end_inheritance(void)
{
	inherited = g_strdup(g_getenv("LD_PRELOAD"));
	g_unsetenv("LD_PRELOAD");
}

static void set_preload(const struct preload_test *test)
{
	char *list = g_strdup_printf("%s%s%s %s", test->before ? test->before : "", test->before ? " " : "",
				     PRELOAD_OBJECT, test->behind ? test->behind : "");

	g_setenv("LD_PRELOAD", g_strstrip(list), TRUE);
	g_free(list);
}

/* The process of a test is this program once more, started afresh. */
static void run_test(gconstpointer data)
{
	const struct preload_test *test = data;
	char *argv[] = { g_file_read_link("/proc/self/exe", NULL), NULL };
	const char *user = g_getenv("ASAN_OPTIONS");
	char *out = NULL, *err = NULL, *options;
	GError *error = NULL;
	int status;
	size_t i;

	set_preload(test);
	/* AddressSanitizer wants to be the first object, and cannot be if others are preloaded. */
	options = g_strdup_printf("verify_asan_link_order=0:%s", user ? user : "");
	g_setenv("ASAN_OPTIONS", options, TRUE);
	g_free(options);
	g_setenv("VPMM_TEST_SCENE", test->name, TRUE);
	for (i = 0; i < G_N_ELEMENTS(test->environment) && test->environment[i]; i++) {
		char **pair = g_strsplit(test->environment[i], "=", 2);

		g_setenv(pair[0], pair[1], TRUE);
		g_strfreev(pair);
	}
	g_spawn_sync(NULL, argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &out, &err, &status, &error);
	g_assert_no_error(error);
	g_unsetenv("LD_PRELOAD");
	g_unsetenv("VPMM_TEST_SCENE");
	for (i = 0; i < G_N_ELEMENTS(test->environment) && test->environment[i]; i++) {
		char **pair = g_strsplit(test->environment[i], "=", 2);

		g_unsetenv(pair[0]);
		g_strfreev(pair);
	}
	if (status)
		g_error("status %#x: %s%s", (unsigned int)status, out, err);
	g_free(argv[0]);
	g_free(out);
	g_free(err);
}

int preload_main(int argc, char **argv, const struct preload_test *tests, size_t count)
{
	const char *scene = g_getenv("VPMM_TEST_SCENE");
	size_t i;

	for (i = 0; scene && i < count; i++) {
		if (!strcmp(scene, tests[i].name)) {
			end_inheritance();
			tests[i].run();
			g_free(inherited);
			return 0;
		}
	}
	g_test_init(&argc, &argv, NULL);
	if (!g_file_test(PRELOAD_OBJECT, G_FILE_TEST_EXISTS)) {
		g_print("1..0 # SKIP built without a shared object\n");
		return 0;
	}
	for (i = 0; i < count; i++)
		g_test_add_data_func(tests[i].name, &tests[i], run_test);
	return g_test_run();
}

drv_deviceptr alloc_bytes(size_t size)
{
	drv_deviceptr va;

	g_assert_cmpint(cuMemAlloc_v2(&va, size), ==, 0);
	return va;
}

drv_deviceptr alloc_async(size_t size, drv_stream stream)
{
	drv_deviceptr va;

	g_assert_cmpint(cuMemAllocAsync(&va, size, stream), ==, 0);
	return va;
}

drv_stream new_stream(void)
{
	drv_stream stream;

	g_assert_cmpint(cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING), ==, 0);
	return stream;
}

void begin_capture(drv_stream stream, drv_capture_mode mode)
{
	g_assert_cmpint(cuStreamBeginCapture_v2(stream, mode), ==, 0);
}

void end_capture(drv_stream stream)
{
	drv_graph graph;

	g_assert_cmpint(cuStreamEndCapture(stream, &graph), ==, 0);
	g_assert_cmpint(cuGraphDestroy(graph), ==, 0);
}
