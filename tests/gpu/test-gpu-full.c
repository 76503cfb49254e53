// SPDX-License-Identifier: LGPL-2.1-or-later
/* A GPU whose memory is all taken: by fragments, and by another process. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/gpu-bench.h"

#define FRAGMENT (32 * MIB)

/* Allocates and fills blocks of a size until there is no memory for another. */
static void take_all(struct vpmm_pool *pool, GArray *slots, size_t size, drv_stream stream)
{
	struct slot slot = { .size = size, .stream = stream };
	int err;

	for (;;) {
		err = vpmm_malloc(pool, &slot.ptr, size, stream);
		if (err)
			break;
		slot.seed = slots->len * 0xd1342543de82ef95u + size;
		gpu_fill(slot.ptr, size, slot.seed, stream);
		g_array_append_val(slots, slot);
	}
	if (err != -ENOMEM)
		g_error("vpmm_malloc() of %zu bytes: %d, %s", size, err, vpmm_last_error());
}

static void give_all(struct vpmm_pool *pool, GArray *slots)
{
	guint i;

	for (i = 0; i < slots->len; i++) {
		struct slot *slot = &g_array_index(slots, struct slot, i);

		if (slot->ptr)
			give(pool, slot);
	}
}

/* Every other fragment is freed: what they were comes as one block, and no byte of the others is touched for that. */
static void test_fragments(void)
{
	struct vpmm_stats before, after;
	struct slot block;
	GArray *slots;
	struct bench b;
	guint i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	slots = g_array_new(FALSE, FALSE, sizeof(struct slot));
	take_all(b.f.pool, slots, FRAGMENT, b.s[0]);
	g_test_message("%s", vpmm_last_error());
	g_assert_cmpuint(slots->len, >=, 16);
	for (i = 0; i < slots->len; i += 2)
		give(b.f.pool, &g_array_index(slots, struct slot, i));
	before = stats_of(b.f.pool);
	g_test_message("%u fragments of %zu MiB; %" PRIu64 " MiB free, %" PRIu64 " of it stuck",
		       slots->len, FRAGMENT / MIB, before.free / MIB, before.stuck / MIB);
	g_assert_cmpuint(before.free, >=, (slots->len + 1) / 2 * FRAGMENT);
	g_assert_cmpuint(before.stuck, ==, 0);

	block = take(b.f.pool, before.free, b.s[1]);

	after = stats_of(b.f.pool);
	g_assert_cmpuint(after.mapped, ==, before.mapped);
	g_assert_cmpuint(after.free, ==, 0);
	g_assert_cmpuint(after.remapped, >, before.remapped);
	assert_ok(vpmm_pool_check(b.f.pool));
	give(b.f.pool, &block);
	give_all(b.f.pool, slots);
	g_array_free(slots, TRUE);
	close_bench(&b);
}

/* The process that takes memory: tells of it in one line, and keeps it until nobody writes to it any more. */
int gpu_take_half(void)
{
	const drv_allocation_prop prop = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	size_t wanted, taken = 0;
	drv_handle handle;
	char byte;

	if (gpu_missing())
		return EXIT_FAILURE;
	wanted = gpu_memory_free() / 2;
	for (; taken + 64 * PAGE <= wanted; taken += 64 * PAGE)
		gpu_ok(cu.cuMemCreate(&handle, 64 * PAGE, &prop, 0));
	if (write(STDOUT_FILENO, &taken, sizeof(taken)) != sizeof(taken))
		return EXIT_FAILURE;
	return read(STDIN_FILENO, &byte, 1) ? EXIT_FAILURE : EXIT_SUCCESS;
}

struct other {
	pid_t pid;
	int end;			/* it goes when this is closed */
	size_t taken;
};

/* Another process begins, and has taken half of what nobody had. */
static void other_begin(struct other *other)
{
	char *const argv[] = { (char *)"test-gpu", (char *)"--take-half", NULL };
	posix_spawn_file_actions_t actions;
	int in[2], out[2];

	g_assert_cmpint(pipe2(in, O_CLOEXEC), ==, 0);
	g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
	g_assert_cmpint(posix_spawn_file_actions_init(&actions), ==, 0);
	g_assert_cmpint(posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO), ==, 0);
	g_assert_cmpint(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), ==, 0);
	g_assert_cmpint(posix_spawn(&other->pid, "/proc/self/exe", &actions, NULL, argv, environ), ==, 0);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	g_assert_cmpint(read(out[0], &other->taken, sizeof(other->taken)), ==, sizeof(other->taken));
	close(out[0]);
	other->end = in[1];
}

static void other_end(struct other *other)
{
	int status = -1;

	close(other->end);
	g_assert_cmpint(waitpid(other->pid, &status, 0), ==, other->pid);
	g_assert_cmpint(status, ==, 0);
}

/* The driver has no page more. */
static void assert_nothing_left(void)
{
	const drv_allocation_prop prop = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	drv_handle handle;

	g_assert_cmpint(cu.cuMemCreate(&handle, PAGE, &prop, 0), ==, DRV_ERROR_OUT_OF_MEMORY);
}

/* While another process has half of the memory, the rest is used to the last page; when it has gone, there is more. */
static void test_others(void)
{
	static const size_t sizes[] = { GIB, FRAGMENT, PAGE };
	struct other other;
	GArray *slots;
	void *ptr = NULL;
	struct bench b;
	size_t wanted, i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	wanted = gpu_memory_free() / 4 * 3 / PAGE * PAGE;
	other_begin(&other);
	g_test_message("another process has taken %zu MiB, %zu are free", other.taken / MIB, gpu_memory_free() / MIB);
	assert_error(vpmm_malloc(b.f.pool, &ptr, wanted, b.s[0]), ENOMEM, "others");
	g_test_message("%s", vpmm_last_error());
	g_assert_null(ptr);

	slots = g_array_new(FALSE, FALSE, sizeof(struct slot));
	for (i = 0; i < G_N_ELEMENTS(sizes); i++)
		take_all(b.f.pool, slots, sizes[i], b.s[i]);
	g_test_message("%s", vpmm_last_error());
	g_assert_nonnull(strstr(vpmm_last_error(), "others"));
	assert_nothing_left();
	assert_ok(vpmm_pool_check(b.f.pool));
	give_all(b.f.pool, slots);
	assert_error(vpmm_malloc(b.f.pool, &ptr, wanted, b.s[0]), ENOMEM, "others");

	other_end(&other);
	g_array_set_size(slots, 1);
	g_array_index(slots, struct slot, 0) = take(b.f.pool, wanted, b.s[3]);
	give_all(b.f.pool, slots);
	g_array_free(slots, TRUE);
	close_bench(&b);
}

void gpu_full_tests(void)
{
	g_test_add_func("/gpu/exhaustion/fragments", test_fragments);
	g_test_add_func("/gpu/exhaustion/others", test_others);
}
