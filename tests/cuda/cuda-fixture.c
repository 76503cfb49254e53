// SPDX-License-Identifier: LGPL-2.1-or-later
#include <dlfcn.h>
#include <errno.h>
#include <glib.h>
#include <string.h>

#include "cuda/cuda-fixture.h"
#include "host/backend.h"

struct drv_program cu;
struct fake_cuda fake;

char *driver_path(const char *which)
{
	static const char *const places[] = { ".libs/libcuda.so.1", "libcuda.so.1" };
	const char *root = g_getenv("FAKE_CUDA_DIR");
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(places); i++) {
		char *path = g_build_filename(root ? root : FAKE_CUDA_DIR, which, places[i], NULL);

		if (g_file_test(path, G_FILE_TEST_EXISTS))
			return path;
		g_free(path);
	}
	g_test_skip("the suite's own libcuda.so.1 is not built");
	return NULL;
}

void *driver_open(const char *which)
{
	char *path = driver_path(which);
	void *library;

	if (!path)
		return NULL;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		g_error("%s", dlerror());
	g_free(path);
	return library;
}

bool use_fake(void)
{
	static void *library;

	if (library)
		return true;
	library = driver_open("fake");
	if (!library)
		return false;
	g_assert_null(drv_load_program(library, &cu));
#define X(type, name, args) *(void **)&fake.name = dlsym(library, "fake_cuda_" #name); g_assert_nonnull(fake.name);
	FAKE_CUDA_CALLS(X)
#undef X
	return true;
}

void assert_nothing_left(void)
{
	struct host_left left, none = { 0 };
	int i;

	fake.left(&left);
	g_assert_cmpmem(&left, sizeof(left), &none, sizeof(none));
	for (i = 0; i < DEVICES; i++)
		g_assert_cmpint(fake.retained(i), ==, 0);
	g_assert_cmpuint(fake.depth(), ==, 0);
}

struct cuda_test {
	void (*run)(void);
};

static void run_test(gconstpointer test)
{
	if (!use_fake())
		return;
	((const struct cuda_test *)test)->run();
	assert_nothing_left();
}

void cuda_add(const char *path, void (*test)(void))
{
	/* What GLib has for a test that does not run it does not free. */
	static struct cuda_test tests[256];
	static size_t count;

	g_assert_cmpuint(count, <, G_N_ELEMENTS(tests));
	tests[count].run = test;
	g_test_add_data_func(path, &tests[count++], run_test);
}

drv_context enter_primary(int device)
{
	drv_context context;

	assert_ok(cu.cuInit(0));
	assert_ok(cu.cuDevicePrimaryCtxRetain(&context, device));
	assert_ok(cu.cuCtxPushCurrent(context));
	return context;
}

void leave_primary(int device)
{
	drv_context context;

	assert_ok(cu.cuCtxPopCurrent(&context));
	assert_ok(cu.cuDevicePrimaryCtxRelease(device));
}

struct backend *open_entered(int device)
{
	struct backend *be;

	assert_ok(backend_cuda.open(device, &be));
	assert_ok(be->ops->enter(be));
	return be;
}

void leave_close(struct backend *be)
{
	be->ops->leave(be);
	be->ops->close(be);
}

void assert_no_small(struct backend *be)
{
	uint64_t va = 77, bytes = 77, peak = 77;

	assert_error(be->ops->small_alloc(be, 100, NULL, &va), ENOTSUP, "device 0 has no memory pools");
	assert_error(be->ops->small_free(be, PAGE, NULL), EINVAL, "no memory pools");
	assert_ok(be->ops->small_held(be, &bytes, &peak));
	g_assert_cmpuint(va, ==, 77);
	g_assert_cmpuint(bytes, ==, 0);
	g_assert_cmpuint(peak, ==, 0);
}
