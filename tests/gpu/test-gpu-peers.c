// SPDX-License-Identifier: LGPL-2.1-or-later
/* Kernels of another device on memory of a pool. Where there is only one device, the tests are skipped. */
#include <errno.h>

#include "gpu/gpu-bench.h"

#define PEER 1

struct peers_row {
	const char *name;
	struct vpmm_opts opts;
	size_t size;
};

static const struct peers_row rows[] = {
	{ "packed", { .size = 0 }, 5 * PAGE },
	{ "slab", { .size = 0 }, 1024 },
	{ "paged", { .extent_max = PAGE, .small = VPMM_SMALL_DRIVER }, 5 * PAGE },
	{ "driver", { .extent_max = PAGE, .small = VPMM_SMALL_DRIVER }, 1024 },
};

/* The other device: its context, the kernels there, and a word that it counts in. */
struct peer {
	drv_context context;
	drv_module module;
	drv_function fill;
	drv_function check;
	drv_deviceptr wrong;
};

static const char *peer_missing(void)
{
	int count, can;

	gpu_ok(cu.cuDeviceGetCount(&count));
	if (count <= PEER)
		return "there is no other device";
	gpu_ok(cu.cuDeviceCanAccessPeer(&can, PEER, 0));
	return can ? NULL : "the other device cannot access memory of the first";
}

static bool open_peer(struct peer *p)
{
	const char *missing = gpu_ready() ? peer_missing() : NULL;
	drv_context before;

	if (missing)
		g_test_skip(missing);
	if (missing || gpu_missing())
		return false;
	gpu_ok(cu.cuDevicePrimaryCtxRetain(&p->context, PEER));
	gpu_ok(cu.cuCtxPushCurrent(p->context));
	gpu_ok(cu.cuModuleLoadData(&p->module, gpu_kernels));
	gpu_ok(cu.cuModuleGetFunction(&p->fill, p->module, "fill"));
	gpu_ok(cu.cuModuleGetFunction(&p->check, p->module, "check"));
	gpu_ok(cu.cuMemAlloc(&p->wrong, sizeof(uint64_t)));
	gpu_ok(cu.cuCtxPopCurrent(&before));
	return true;
}

static void close_peer(struct peer *p)
{
	drv_context before;

	gpu_ok(cu.cuCtxPushCurrent(p->context));
	gpu_ok(cu.cuMemFree(p->wrong));
	gpu_ok(cu.cuModuleUnload(p->module));
	gpu_ok(cu.cuCtxPopCurrent(&before));
	gpu_ok(cu.cuDevicePrimaryCtxRelease(PEER));
}

/* Runs a kernel of the other device to its end. Returns how many words it found wrong. */
static uint64_t run_there(struct peer *p, drv_function kernel, void *ptr, size_t size, uint64_t seed)
{
	drv_deviceptr at = (drv_deviceptr)ptr;
	uint64_t words = size / sizeof(uint64_t), wrong = 0;
	void *params[] = { &at, &seed, &words, &p->wrong };
	drv_context before;

	gpu_ok(cu.cuCtxPushCurrent(p->context));
	gpu_ok(cu.cuMemcpyHtoD(p->wrong, &wrong, sizeof(wrong)));
	gpu_ok(cu.cuLaunchKernel(kernel, 64, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuMemcpyDtoH(&wrong, p->wrong, sizeof(wrong)));
	gpu_ok(cu.cuCtxPopCurrent(&before));
	return wrong;
}

/* Each device has what the other has written. */
static void pass_to_and_fro(struct peer *p, void *ptr, size_t size, drv_stream stream)
{
	run_there(p, p->fill, ptr, size, 11);
	gpu_check(ptr, size, 11, stream);
	gpu_fill(ptr, size, 12, stream);
	gpu_sync(stream);
	g_assert_cmpuint(run_there(p, p->check, ptr, size, 12), ==, 0);
	g_assert_cmpuint(gpu_wrong(), ==, 0);
}

static void set_peers(struct vpmm_pool *pool, size_t count)
{
	static const int peers[] = { PEER };

	assert_ok(vpmm_pool_set_peers(pool, peers, count));
	assert_ok(vpmm_pool_check(pool));
}

/* A block that was there before the peer, and one that came later. */
static void test_to_and_fro(gconstpointer data)
{
	const struct peers_row *row = data;
	void *before, *after;
	struct peer p;
	struct bench b;

	if (!open_peer(&p))
		return;
	g_assert_true(open_bench(&b, row->opts));
	assert_ok(vpmm_malloc(b.f.pool, &before, row->size, b.s[0]));
	gpu_sync(b.s[0]);
	set_peers(b.f.pool, 1);
	assert_ok(vpmm_malloc(b.f.pool, &after, 3 * row->size, b.s[0]));
	gpu_sync(b.s[0]);

	pass_to_and_fro(&p, before, row->size, b.s[0]);
	pass_to_and_fro(&p, after, 3 * row->size, b.s[0]);

	assert_ok(vpmm_free(b.f.pool, before, b.s[0]));
	assert_ok(vpmm_free(b.f.pool, after, b.s[0]));
	close_bench(&b);
	close_peer(&p);
}

/* Blocks whose memory moves, and shareable ones. */
static void test_kinds(void)
{
	void *growable, *moved, *shareable;
	struct peer p;
	struct bench b;

	if (!open_peer(&p))
		return;
	g_assert_true(open_bench(&b, (struct vpmm_opts){ .export_as = VPMM_EXPORT_FD, .peers = 1u << PEER }));
	assert_ok(vpmm_malloc_growable(b.f.pool, &growable, PAGE, 64 * PAGE, b.s[0]));
	assert_ok(vpmm_malloc(b.f.pool, &moved, 40 * PAGE, b.s[0]));
	assert_ok(vpmm_malloc_flags(b.f.pool, &shareable, 3 * PAGE, b.s[0], VPMM_SHAREABLE));
	assert_ok(vpmm_realloc(b.f.pool, &growable, 48 * PAGE, b.s[0]));
	assert_ok(vpmm_realloc(b.f.pool, &moved, 80 * PAGE, b.s[0]));
	gpu_sync(b.s[0]);

	pass_to_and_fro(&p, growable, 48 * PAGE, b.s[0]);
	pass_to_and_fro(&p, moved, 80 * PAGE, b.s[0]);
	pass_to_and_fro(&p, shareable, 3 * PAGE, b.s[0]);

	assert_ok(vpmm_free(b.f.pool, growable, b.s[0]));
	assert_ok(vpmm_free(b.f.pool, moved, b.s[0]));
	assert_ok(vpmm_free(b.f.pool, shareable, b.s[0]));
	close_bench(&b);
	close_peer(&p);
}

static uint64_t access_of(const void *ptr, int device)
{
	const drv_location location = { DRV_MEM_LOCATION_TYPE_DEVICE, device };
	drv_u64 flags = UINT64_MAX;

	gpu_ok(cu.cuMemGetAccess(&flags, &location, (drv_deviceptr)ptr));
	return flags;
}

/* A kernel would end its context, so the driver is asked. What comes later is not accessible either. */
static void test_leave(void)
{
	void *before, *after;
	struct peer p;
	struct bench b;

	if (!open_peer(&p))
		return;
	g_assert_true(open_bench(&b, (struct vpmm_opts){ .peers = VPMM_PEERS_ALL }));
	assert_ok(vpmm_malloc(b.f.pool, &before, 2 * PAGE, b.s[0]));
	g_assert_cmpuint(access_of(before, PEER), ==, DRV_MEM_ACCESS_FLAGS_PROT_READWRITE);

	set_peers(b.f.pool, 0);
	assert_ok(vpmm_malloc(b.f.pool, &after, 9 * PAGE, b.s[0]));

	g_assert_cmpuint(access_of(before, PEER), ==, DRV_MEM_ACCESS_FLAGS_PROT_NONE);
	g_assert_cmpuint(access_of(after, PEER), ==, DRV_MEM_ACCESS_FLAGS_PROT_NONE);
	g_assert_cmpuint(access_of(before, 0), ==, DRV_MEM_ACCESS_FLAGS_PROT_READWRITE);
	g_assert_cmpuint(access_of(after, 0), ==, DRV_MEM_ACCESS_FLAGS_PROT_READWRITE);
	set_peers(b.f.pool, 1);
	pass_to_and_fro(&p, before, 2 * PAGE, b.s[0]);
	pass_to_and_fro(&p, after, 9 * PAGE, b.s[0]);
	assert_ok(vpmm_free(b.f.pool, before, b.s[0]));
	assert_ok(vpmm_free(b.f.pool, after, b.s[0]));
	close_bench(&b);
	close_peer(&p);
}

/* With one device too. */
static void test_bad(void)
{
	static const int own = 0, none = 1000;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ .peers = VPMM_PEERS_ALL }))
		return;
	assert_error(vpmm_pool_set_peers(b.f.pool, &own, 1), EINVAL, "device 0 is the pool's own");
	assert_error(vpmm_pool_set_peers(b.f.pool, &none, 1), ENODEV, "there is no CUDA device 1000");
	close_bench(&b);
}

void gpu_peers_tests(void)
{
	fixture_add_rows("/gpu/peers/to-and-fro", rows, test_to_and_fro);
	g_test_add_func("/gpu/peers/kinds", test_kinds);
	g_test_add_func("/gpu/peers/leave", test_leave);
	g_test_add_func("/gpu/peers/bad", test_bad);
}
