// SPDX-License-Identifier: LGPL-2.1-or-later
/* Contexts under the cuda backend: which one it takes, what it leaves current, and what it lets go of. */
#include <errno.h>
#include <glib.h>
#include <unistd.h>

#include "cuda/cuda-fixture.h"

static void test_primary_context(void)
{
	struct backend *be;

	assert_ok(backend_cuda.open(1, &be));
	g_assert_cmpint(fake.retained(1), ==, 1);
	g_assert_cmpuint(fake.depth(), ==, 0);

	be->ops->close(be);
}

static void test_current_context(void)
{
	drv_context context, current;
	struct backend *be;
	uint64_t retains;

	retains = fake.calls("cuDevicePrimaryCtxRetain");
	assert_ok(fake.context_create(&context, 1));
	assert_ok(cu.cuCtxPushCurrent(context));

	be = open_entered(1);
	g_assert_cmpuint(fake.calls("cuDevicePrimaryCtxRetain"), ==, retains);
	assert_ok(cu.cuCtxGetCurrent(&current));
	g_assert_true(current == context);
	g_assert_cmpuint(fake.depth(), ==, 1);

	leave_close(be);
	assert_ok(cu.cuCtxPopCurrent(&current));
	fake.context_destroy(context);
}

/* A current context that is not the primary one is taken also where the primary one is active. */
static void test_current_beside_primary(void)
{
	drv_context primary, context, current;
	struct backend *be;

	assert_ok(cu.cuDevicePrimaryCtxRetain(&primary, 1));
	assert_ok(fake.context_create(&context, 1));
	assert_ok(cu.cuCtxPushCurrent(context));

	be = open_entered(1);
	g_assert_cmpint(fake.retained(1), ==, 1);
	assert_ok(cu.cuCtxGetCurrent(&current));
	g_assert_true(current == context);

	leave_close(be);
	leave_primary(1);
	fake.context_destroy(context);
}

/* Where the driver cannot tell, a primary context is not made on suspicion. */
static void test_primary_state_unknown(void)
{
	drv_context context, current;
	struct backend *be;
	uint64_t retains;

	retains = fake.calls("cuDevicePrimaryCtxRetain");
	assert_ok(fake.context_create(&context, 1));
	assert_ok(cu.cuCtxPushCurrent(context));
	fake.fail("cuDevicePrimaryCtxGetState", 0, 1, DRV_ERROR_UNKNOWN);

	assert_ok(backend_cuda.open(1, &be));

	g_assert_cmpuint(fake.calls("cuDevicePrimaryCtxRetain"), ==, retains);
	be->ops->close(be);
	assert_ok(cu.cuCtxPopCurrent(&current));
	fake.context_destroy(context);
}

/* The program may let go of a primary context that was current at the open. */
static void test_current_primary_is_kept(void)
{
	struct backend *be;
	uint64_t handle;

	enter_primary(1);
	assert_ok(backend_cuda.open(1, &be));
	g_assert_cmpint(fake.retained(1), ==, 2);

	leave_primary(1);
	assert_ok(be->ops->enter(be));
	assert_ok(be->ops->create(be, PAGE, &handle));
	assert_ok(be->ops->release(be, handle));

	leave_close(be);
}

static void test_context_of_another_device(void)
{
	drv_context other, current;
	struct backend *be;
	int ordinal = -1;

	other = enter_primary(2);

	assert_ok(backend_cuda.current_device(&ordinal));
	g_assert_cmpint(ordinal, ==, 2);
	be = open_entered(0);
	g_assert_cmpint(fake.retained(0), ==, 1);
	g_assert_cmpuint(fake.depth(), ==, 2);
	assert_ok(backend_cuda.current_device(&ordinal));
	g_assert_cmpint(ordinal, ==, 0);

	leave_close(be);
	assert_ok(cu.cuCtxGetCurrent(&current));
	g_assert_true(current == other);
	leave_primary(2);
}

static void test_no_context(void)
{
	int ordinal = 77;

	if (!use_fake())
		return;
	assert_ok(backend_cuda.current_device(&ordinal));
	g_assert_cmpint(ordinal, ==, 0);
}

/* Entering what is current already pushes nothing, and what was current comes back in the reverse order. */
static void test_nesting(void)
{
	const unsigned int depths[] = { 1, 1, 2, 3, 3, 4 };
	struct backend *a, *b, *order[6];
	size_t i;

	assert_ok(backend_cuda.open(0, &a));
	assert_ok(backend_cuda.open(1, &b));
	order[0] = order[1] = order[3] = order[4] = a;
	order[2] = order[5] = b;

	for (i = 0; i < G_N_ELEMENTS(order); i++) {
		assert_ok(order[i]->ops->enter(order[i]));
		g_assert_cmpuint(fake.depth(), ==, depths[i]);
	}
	while (i--) {
		g_assert_cmpuint(fake.depth(), ==, depths[i]);
		order[i]->ops->leave(order[i]);
	}

	g_assert_cmpuint(fake.depth(), ==, 0);
	a->ops->close(a);
	b->ops->close(b);
}

static void test_nesting_too_deep(void)
{
	struct backend *be;
	int i;

	assert_ok(backend_cuda.open(0, &be));
	for (i = 0; i < 64; i++)
		assert_ok(be->ops->enter(be));

	assert_error(be->ops->enter(be), EBUSY, "64");

	while (i--)
		be->ops->leave(be);
	be->ops->close(be);
}

static void test_enter_fails(void)
{
	struct backend *be;

	assert_ok(backend_cuda.open(0, &be));

	fake.fail("cuCtxGetCurrent", 0, 1, DRV_ERROR_DEINITIALIZED);
	assert_error(be->ops->enter(be), EIO, "cuCtxGetCurrent: CUDA_ERROR_DEINITIALIZED (4)");
	fake.fail("cuCtxPushCurrent", 0, 1, DRV_ERROR_ECC_UNCORRECTABLE);
	assert_error(be->ops->enter(be), EIO, "device 0: CUDA_ERROR_ECC_UNCORRECTABLE (214)");
	fake.fail("cuCtxPushCurrent", 0, 1, DRV_ERROR_INVALID_CONTEXT);
	assert_error(be->ops->enter(be), ESTALE, "device 0");
	/* The first tells that the context is still there, the second what was pushed. */
	fake.fail("cuCtxGetId", 1, 1, DRV_ERROR_ECC_UNCORRECTABLE);
	assert_error(be->ops->enter(be), EIO, "cuCtxGetId: CUDA_ERROR_ECC_UNCORRECTABLE (214)");
	g_assert_cmpuint(fake.depth(), ==, 0);
	assert_ok(be->ops->enter(be));
	g_assert_cmpuint(fake.depth(), ==, 1);
	assert_ok(be->ops->enter(be));
	/* After a kernel's error only the handle tells that it is current already. */
	fake.fail("cuCtxGetId", 0, 1, DRV_ERROR_ECC_UNCORRECTABLE);
	assert_ok(be->ops->enter(be));
	g_assert_cmpuint(fake.depth(), ==, 1);
	be->ops->leave(be);
	fake.fail("cuCtxGetCurrent", 0, 2, DRV_ERROR_DEINITIALIZED);
	assert_error(be->ops->enter(be), EIO, "cuCtxGetCurrent: CUDA_ERROR_DEINITIALIZED (4)");
	be->ops->leave(be);

	leave_close(be);
}

/* At exit the driver may be gone before the pool. */
static void test_close_after_shutdown(void)
{
	struct backend *be;

	assert_ok(backend_cuda.open(0, &be));
	fake.fail("cuCtxGetCurrent", 0, 1, DRV_ERROR_DEINITIALIZED);
	fake.fail("cuDevicePrimaryCtxRelease", 0, 1, DRV_ERROR_DEINITIALIZED);

	be->ops->close(be);

	g_assert_cmpint(fake.retained(0), ==, 1);
	assert_ok(cu.cuDevicePrimaryCtxRelease(0));
	fake.drop_pools();
}

/* Checkers of programs report each call of the driver that fails. */
static gpointer enter_without_context(gpointer be)
{
	uint64_t before;

	before = fake.calls("cuCtxGetId");
	assert_ok(((struct backend *)be)->ops->enter(be));
	/* That the context is still there, and what was pushed. */
	g_assert_cmpuint(fake.calls("cuCtxGetId") - before, ==, 2);
	((struct backend *)be)->ops->leave(be);
	return NULL;
}

static void test_no_failed_call(void)
{
	struct backend *be;

	assert_ok(backend_cuda.open(0, &be));

	/* A thread without a context enters twice. */
	for (int i = 0; i < 2; i++)
		g_thread_join(g_thread_new("enter", enter_without_context, be));

	be->ops->close(be);
}

void cuda_context_tests(void)
{
	cuda_add("/cuda/context/primary", test_primary_context);
	cuda_add("/cuda/context/current", test_current_context);
	cuda_add("/cuda/context/current-beside-primary", test_current_beside_primary);
	cuda_add("/cuda/context/primary-state-unknown", test_primary_state_unknown);
	cuda_add("/cuda/context/current-primary-is-kept", test_current_primary_is_kept);
	cuda_add("/cuda/context/of-another-device", test_context_of_another_device);
	g_test_add_func("/cuda/context/none", test_no_context);
	cuda_add("/cuda/context/nesting", test_nesting);
	cuda_add("/cuda/context/nesting-too-deep", test_nesting_too_deep);
	cuda_add("/cuda/context/enter-fails", test_enter_fails);
	cuda_add("/cuda/context/no-failed-call", test_no_failed_call);
	cuda_add("/cuda/context/close-after-shutdown", test_close_after_shutdown);
}
