// SPDX-License-Identifier: LGPL-2.1-or-later
/* Peers through the cuda backend: which calls the driver gets, and what it says. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cuda/cuda-fixture.h"

struct peers_row {
	const char *name;
	struct vpmm_opts opts;
	size_t size;
};

#define PACKED .size = sizeof(struct vpmm_opts), .backend = "cuda", .va_size = (size_t)1 << 30
#define PAGED PACKED, .extent_max = PAGE, .small = VPMM_SMALL_DRIVER

static const struct peers_row rows[] = {
	{ "packed", { PACKED }, 3 * PAGE },
	{ "slab", { PACKED }, 1000 },
	{ "paged", { PAGED }, 3 * PAGE },
	{ "driver", { PAGED }, 1000 },
};

/* Device 0 of a test has the pool. */
static struct vpmm_pool *open_pool(const struct vpmm_opts *opts)
{
	static const int device;
	struct vpmm_opts with = *opts;
	struct vpmm_pool *pool = NULL;

	with.device = &device;
	assert_ok(vpmm_pool_create(&pool, &with));
	return pool;
}

static void *have(struct vpmm_pool *pool, size_t size)
{
	void *ptr;

	assert_ok(vpmm_malloc(pool, &ptr, size, NULL));
	return ptr;
}

static void assert_reached(const void *ptr, size_t size, unsigned int devices)
{
	for (int device = 0; device < DEVICES; device++)
		g_assert_cmpint(fake.check_access(device, (uintptr_t)ptr, size), ==,
				devices >> device & 1 ? 0 : -EACCES);
}

/* The driver leaves a device what it has unless it is told otherwise, so one that goes has to be named. */
static void test_come_and_go(gconstpointer data)
{
	const struct peers_row *row = data;
	const int both[] = { 2, 1 }, one = 1;
	struct vpmm_pool *pool;
	void *before, *after;

	if (!use_fake())
		return;
	pool = open_pool(&row->opts);
	before = have(pool, row->size);
	assert_reached(before, row->size, 0x1);
	assert_ok(vpmm_pool_set_peers(pool, both, 2));
	after = have(pool, 5 * row->size);
	assert_reached(before, row->size, 0x7);
	assert_reached(after, 5 * row->size, 0x7);

	assert_ok(vpmm_pool_set_peers(pool, &one, 1));
	assert_reached(before, row->size, 0x3);
	assert_reached(after, 5 * row->size, 0x3);
	assert_ok(vpmm_pool_set_peers(pool, NULL, 0));
	assert_reached(before, row->size, 0x1);
	assert_reached(after, 5 * row->size, 0x1);

	assert_ok(vpmm_free(pool, before, NULL));
	assert_ok(vpmm_free(pool, after, NULL));
	vpmm_pool_destroy(pool);
	assert_nothing_left();
}

static void test_apart(void)
{
	const struct vpmm_opts all = { PACKED, .peers = VPMM_PEERS_ALL };
	struct vpmm_opts list = { PACKED, .peers = 0x6 };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_pool *pool;
	const int device = 2;

	fake.part(0x4);
	pool = open_pool(&all);
	assert_ok(vpmm_pool_info(pool, &info));
	g_assert_cmpuint(info.peers, ==, 0x2);

	assert_error(vpmm_pool_set_peers(pool, &device, 1), ENOTSUP, "device 2 cannot access memory of device 0");
	vpmm_pool_destroy(pool);
	assert_error(vpmm_pool_create(&pool, &list), ENOTSUP, "peers (VPMM_PEERS): CUDA device 2 cannot access");
	fake.part(0);
}

/* A device that was a peer and is out of reach now: the pool does without it. */
static void test_gone(void)
{
	const struct vpmm_opts opts = { PACKED };
	struct vpmm_pool *pool;
	const int device = 2;
	void *ptr;

	pool = open_pool(&opts);
	assert_ok(vpmm_pool_set_peers(pool, &device, 1));
	assert_ok(vpmm_pool_set_peers(pool, NULL, 0));
	fake.part(0x4);

	ptr = have(pool, 3 * PAGE);
	assert_reached(ptr, 3 * PAGE, 0x1);

	assert_ok(vpmm_free(pool, ptr, NULL));
	vpmm_pool_destroy(pool);
	fake.part(0);
}

/* Each of the driver's calls fails; the devices that could access the memory still can. */
static void test_failure(gconstpointer data)
{
	static const char *const calls[] = {
		"cuDeviceGetCount", "cuDeviceCanAccessPeer", "cuMemPoolSetAccess", "cuMemSetAccess",
	};
	const struct peers_row *row = data;
	const int first = 1, second = 2;
	struct vpmm_pool *pool;
	void *large, *ptr;

	if (!use_fake())
		return;
	pool = open_pool(&row->opts);
	large = have(pool, PAGE);
	ptr = have(pool, row->size);
	assert_ok(vpmm_pool_set_peers(pool, &first, 1));
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		fake.fail(calls[i], 0, 1, DRV_ERROR_OUT_OF_MEMORY);
		assert_error(vpmm_pool_set_peers(pool, &second, 1), ENOMEM, calls[i]);
		assert_reached(large, PAGE, 0x3);
		assert_reached(ptr, row->size, 0x3);
	}
	assert_ok(vpmm_free(pool, large, NULL));
	assert_ok(vpmm_free(pool, ptr, NULL));
	vpmm_pool_destroy(pool);
	assert_nothing_left();
}

/* The pool of device 1 gets memory of device 0, and only that device can access it there, if the driver lets it. */
static void test_receive(void)
{
	const int second = 1;
	struct vpmm_opts opts = { PACKED, .export_as = VPMM_EXPORT_FD };
	struct vpmm_pool *from = open_pool(&opts), *to = NULL;
	void *sent = have(from, 3 * PAGE), *got = NULL;
	int sockets[2];
	size_t size;

	opts.device = &second;
	assert_ok(vpmm_pool_create(&to, &opts));
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), ==, 0);
	assert_ok(vpmm_lend(from, sent, sockets[0]));
	fake.fail("cuMemSetAccess", 0, 1, DRV_ERROR_PEER_ACCESS_UNSUPPORTED);
	assert_error(vpmm_receive(to, &got, &size, sockets[1]), EXDEV, "another device");
	assert_ok(vpmm_lend(from, sent, sockets[0]));
	assert_ok(vpmm_receive(to, &got, &size, sockets[1]));
	g_assert_cmpuint(size, ==, 3 * PAGE);
	assert_reached(got, size, 0x2);
	assert_reached(sent, size, 0x1);

	close(sockets[0]);
	close(sockets[1]);
	assert_ok(vpmm_free(to, got, NULL));
	assert_ok(vpmm_free(from, sent, NULL));
	vpmm_pool_destroy(to);
	vpmm_pool_destroy(from);
}

void cuda_peers_tests(void)
{
	fixture_add_rows("/cuda/peers/come-and-go", rows, test_come_and_go);
	fixture_add_rows("/cuda/peers/failure", rows, test_failure);
	cuda_add("/cuda/peers/apart", test_apart);
	cuda_add("/cuda/peers/gone", test_gone);
	cuda_add("/cuda/peers/receive", test_receive);
}
