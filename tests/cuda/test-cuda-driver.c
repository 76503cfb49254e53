// SPDX-License-Identifier: LGPL-2.1-or-later
/* The cuda backend with drivers that are not as they should be. */
#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda-fixture.h"

#define THREADS 8

/* A process has one driver for good, so each of these runs in one of its own. */
static void run_alone(const char *path, const char *which)
{
	char *driver = which ? driver_path(which) : NULL;

	if (which && !driver)
		return;
	g_free(driver);
	g_test_trap_subprocess(path, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
	g_test_trap_assert_passed();
}

static void test_driver_old_alone(void)
{
	struct backend *be = NULL;
	int ordinal = 77;

	if (!driver_open("fake-old"))
		return;
	assert_error(backend_cuda.open(0, &be), ENOTSUP, "no cuCtxGetId: it is of version 11.8, and 12.0 is needed");
	assert_error(backend_cuda.current_device(&ordinal), ENOTSUP, "cuCtxGetId");
	g_assert_null(be);
	g_assert_cmpint(ordinal, ==, 77);
}

static void test_driver_old(void)
{
	run_alone("/cuda/driver/old/subprocess", "fake-old");
}

static void test_driver_bare_alone(void)
{
	struct backend_event *event;
	struct backend *be;
	uint64_t handle;

	if (!driver_open("fake-bare"))
		return;
	be = open_entered(0);
	assert_no_small(be);
	assert_ok(be->ops->event_create(be, &event));
	assert_error(be->ops->event_record_all(be, event), ENOTSUP, "CUDA 12.5");
	be->ops->event_destroy(be, event);
	assert_error(be->ops->configure(be, BACKEND_HANDLES_FD, false), ENOTSUP, "share memory between processes");
	assert_error(be->ops->create(be, 1, &handle), EINVAL, "cuMemCreate of 1 bytes: CUDA error (1)");
	assert_ok(be->ops->create(be, PAGE, &handle));
	assert_ok(be->ops->release(be, handle));
	leave_close(be);
}

static void test_driver_bare(void)
{
	run_alone("/cuda/driver/bare/subprocess", "fake-bare");
}

/* The same with a directory in which the dynamic linker looks for libraries first. */
static void run_alone_in(const char *path, const char *dir)
{
	char *before = g_strdup(g_getenv("LD_LIBRARY_PATH"));

	g_setenv("LD_LIBRARY_PATH", dir, TRUE);
	run_alone(path, NULL);
	if (before)
		g_setenv("LD_LIBRARY_PATH", before, TRUE);
	else
		g_unsetenv("LD_LIBRARY_PATH");
	g_free(before);
}

static void test_driver_found_alone(void)
{
	struct backend *be = open_entered(0);
	struct backend_info info;

	assert_ok(be->ops->info(be, &info));
	g_assert_cmpstr(info.device_name, ==, "Fake device 0");
	leave_close(be);
}

/* Nobody has opened the driver before. */
static void test_driver_found(void)
{
	char *path = driver_path("fake");
	char *dir;

	if (!path)
		return;
	dir = g_path_get_dirname(path);
	run_alone_in("/cuda/driver/found/subprocess", dir);
	g_free(dir);
	g_free(path);
}

static void test_driver_none_alone(void)
{
	struct backend *be = NULL;
	int ordinal = 77;

	assert_error(backend_cuda.open(0, &be), ENODEV, "no CUDA driver: ");
	assert_error(backend_cuda.current_device(&ordinal), ENODEV, "libcuda.so.1");
	assert_error(backend_open("cuda", NULL, &be), ENODEV, "\nwithout a GPU, VPMM_BACKEND=host ");
	assert_error(backend_open("cuda", &(int){ 3 }, &be), ENODEV, "\nwithout a GPU, VPMM_BACKEND=host ");
	assert_error(backend_open("cuda", NULL, &be), ENODEV, "with options, backend \"host\" in struct vpmm_opts");
	g_assert_null(be);
	g_assert_cmpint(ordinal, ==, 77);
}

/* Where there is no driver, "auto" is the host backend, and that is no error. */
static void test_driver_none_auto_alone(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "auto", .va_size = (size_t)1 << 30 };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_pool *pool;

	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_ok(vpmm_pool_info(pool, &info));
	g_assert_cmpstr(info.backend, ==, "host");
	g_assert_cmpstr(vpmm_last_error(), ==, "");
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* A file that is no library stands in the way of a driver that the machine may have. */
static void test_driver_none(void)
{
	char *dir = g_dir_make_tmp("vpmm-XXXXXX", NULL);
	char *path = g_build_filename(dir, "libcuda.so.1", NULL);

	g_assert_true(g_file_set_contents(path, "no library\n", -1, NULL));
	run_alone_in("/cuda/driver/none/subprocess", dir);
	run_alone_in("/cuda/driver/none-auto/subprocess", dir);
	g_remove(path);
	g_rmdir(dir);
	g_free(path);
	g_free(dir);
}

/* A driver that cannot be initialised now may be later. */
static void test_driver_init_alone(void)
{
	static const struct {
		drv_result result;
		int err;
		const char *word;
	} cases[] = {
		{ DRV_ERROR_NO_DEVICE, ENODEV, "cuInit: CUDA_ERROR_NO_DEVICE (100)" },
		{ DRV_ERROR_STUB_LIBRARY, ENODEV, "CUDA_ERROR_STUB_LIBRARY (34)" },
		{ DRV_ERROR_SYSTEM_DRIVER_MISMATCH, ENODEV, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)" },
		{ DRV_ERROR_OUT_OF_MEMORY, ENOMEM, "CUDA_ERROR_OUT_OF_MEMORY (2), out of memory" },
		{ DRV_ERROR_NOT_INITIALIZED, EBUSY, "forked" },
		{ DRV_ERROR_UNKNOWN, EIO, "CUDA_ERROR_UNKNOWN (999)" },
	};
	struct backend *be = NULL;
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(cases); i++) {
		fake.fail("cuInit", 0, 1, cases[i].result);
		assert_error(backend_cuda.open(0, &be), cases[i].err, cases[i].word);
		g_assert_null(be);
	}
	assert_ok(backend_cuda.open(0, &be));
	be->ops->close(be);
}

static void test_driver_init(void)
{
	run_alone("/cuda/driver/init/subprocess", "fake");
}

/* With "auto", a device that cannot is not taken for the host's of the same number where others are GPUs. */
static void test_default_pools_alone(void)
{
	void *ptr = NULL;

	if (!use_fake())
		return;
	g_setenv("VPMM_BACKEND", "auto", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
	assert_ok(vpmm_free(NULL, ptr, NULL));
	ptr = NULL;
	fake.attribute(DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
	fake.attribute(DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0);
	enter_primary(1);

	assert_error(vpmm_malloc(NULL, &ptr, PAGE, NULL), ENODEV, "the default pools are of the cuda backend");
	fake.fail("cuCtxGetCurrent", 0, 1, DRV_ERROR_ILLEGAL_ADDRESS);
	assert_error(vpmm_malloc(NULL, &ptr, PAGE, NULL), EIO, "cuCtxGetCurrent");
	fake.fail("cuCtxGetCurrent", 1, 1, DRV_ERROR_ILLEGAL_ADDRESS);
	assert_error(vpmm_malloc(NULL, &ptr, PAGE, NULL), EIO, "cuCtxGetCurrent");

	g_assert_null(ptr);
	fixture_assert_nothing_left();
	leave_primary(1);
	assert_ok(vpmm_pool_check(NULL));
}

static void test_default_pools(void)
{
	run_alone("/cuda/driver/default-pools/subprocess", "fake");
}

static void count_calls(uint64_t counts[3])
{
	counts[0] = fake.calls("cuCtxGetId");
	counts[1] = fake.calls("cuCtxGetDevice");
	counts[2] = fake.calls("cuStreamGetId");
}

/* A malloc and a free that a cache of a default pool serves. Return: the address. */
static void *default_pair(struct CUstream_st *stream)
{
	void *ptr;

	assert_ok(vpmm_malloc(NULL, &ptr, 4 * PAGE, stream));
	assert_ok(vpmm_free(NULL, ptr, stream));
	return ptr;
}

/* The context tells which default pool is meant, and on the legacy default stream nothing else has to be asked. */
static void test_default_pool_calls_alone(void)
{
	uint64_t before[3], after[3];
	drv_context contexts[2];
	void *ptrs[2];

	if (!use_fake())
		return;
	g_setenv("VPMM_BACKEND", "cuda", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	assert_ok(cu.cuInit(0));
	for (int i = 0; i < 2; i++) {
		assert_ok(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
		assert_ok(cu.cuCtxPushCurrent(contexts[i]));
		ptrs[i] = default_pair(NULL);
	}
	g_assert_true(ptrs[0] != ptrs[1]);
	for (int i = 1; i >= 0; i--) {
		count_calls(before);
		g_assert_true(default_pair(NULL) == ptrs[i]);
		count_calls(after);
		g_assert_cmpuint(after[0] - before[0], ==, 2);
		g_assert_cmpuint(after[1] - before[1], ==, 0);
		g_assert_cmpuint(after[2] - before[2], ==, 0);
		assert_ok(vpmm_pool_check(NULL));
		assert_ok(cu.cuCtxPopCurrent(&contexts[i]));
		assert_ok(cu.cuDevicePrimaryCtxRelease(i));
	}
	/* Without a context it is the pool of device 0, whose context has to be made current. */
	g_assert_true(default_pair(NULL) == ptrs[0]);
}

static void test_default_pool_calls(void)
{
	run_alone("/cuda/driver/default-pool-calls/subprocess", "fake");
}

static void *open_and_close(void *data)
{
	struct backend *be;

	(void)data;
	assert_ok(backend_cuda.open(0, &be));
	be->ops->close(be);
	return NULL;
}

static void test_driver_once_alone(void)
{
	GThread *threads[THREADS];
	int i;

	g_assert_cmpuint(fake.calls("cuInit"), ==, 0);
	for (i = 0; i < THREADS; i++)
		threads[i] = g_thread_new("open", open_and_close, NULL);
	for (i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);

	g_assert_cmpuint(fake.calls("cuInit"), ==, 1);
}

static void test_driver_once(void)
{
	run_alone("/cuda/driver/once/subprocess", "fake");
}

static void test_fork(void)
{
	struct backend *be, *other = NULL;
	int status, ordinal;
	pid_t child;

	be = open_entered(0);
	child = fork();
	g_assert_cmpint(child, >=, 0);
	if (!child) {
		assert_error(backend_cuda.open(0, &other), EBUSY, "forked after the driver was initialised");
		assert_error(backend_cuda.current_device(&ordinal), EBUSY, "forked");
		assert_error(be->ops->enter(be), EBUSY, "forked");
		_exit(42);
	}
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);

	g_assert_true(WIFEXITED(status));
	g_assert_cmpint(WEXITSTATUS(status), ==, 42);
	leave_close(be);
}

void cuda_driver_tests(void)
{
	g_test_add_func("/cuda/driver/old", test_driver_old);
	g_test_add_func("/cuda/driver/old/subprocess", test_driver_old_alone);
	g_test_add_func("/cuda/driver/bare", test_driver_bare);
	g_test_add_func("/cuda/driver/bare/subprocess", test_driver_bare_alone);
	g_test_add_func("/cuda/driver/found", test_driver_found);
	g_test_add_func("/cuda/driver/found/subprocess", test_driver_found_alone);
	g_test_add_func("/cuda/driver/none", test_driver_none);
	g_test_add_func("/cuda/driver/none/subprocess", test_driver_none_alone);
	g_test_add_func("/cuda/driver/none-auto/subprocess", test_driver_none_auto_alone);
	g_test_add_func("/cuda/driver/default-pools", test_default_pools);
	g_test_add_func("/cuda/driver/default-pool-calls", test_default_pool_calls);
	g_test_add_func("/cuda/driver/default-pool-calls/subprocess", test_default_pool_calls_alone);
	g_test_add_func("/cuda/driver/default-pools/subprocess", test_default_pools_alone);
	g_test_add_func("/cuda/driver/init", test_driver_init);
	cuda_add("/cuda/driver/init/subprocess", test_driver_init_alone);
	g_test_add_func("/cuda/driver/once", test_driver_once);
	cuda_add("/cuda/driver/once/subprocess", test_driver_once_alone);
	cuda_add("/cuda/driver/fork", test_fork);
}
