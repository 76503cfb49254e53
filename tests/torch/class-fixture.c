// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdlib.h>

#include "torch/class-fixture.h"

const struct torch_class *table;
bool class_passed = true, class_captures;
unsigned int class_events, class_come, class_gone;
sem_t *class_querying;

bool class_no_memory;

/* That of a sanitizer, which may be a part of the program. */
void *__interceptor_realloc(void *ptr, size_t size) __attribute__((weak));

/* In place of the C library's, also for libvpmm-torch.so. */
void *realloc(void *ptr, size_t size)
{
	static void *(*real)(void *ptr, size_t size);

	if (!real && __interceptor_realloc)
		real = __interceptor_realloc;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "realloc");
	return class_no_memory ? NULL : real(ptr, size);
}

bool class_has_realloc(void)
{
	void *ptr;

	class_no_memory = true;
	ptr = g_try_realloc(NULL, 1);
	class_no_memory = false;
	g_free(ptr);
	return !ptr;
}

static void *record(int device, struct CUstream_st *stream)
{
	(void)device;
	(void)stream;
	class_events++;
	return &class_events;
}

static int has_passed(int device, void *event)
{
	(void)device;
	g_assert_true(event == &class_events);
	/* The query would invalidate the capture. */
	g_assert_false(class_captures);
	if (class_querying) {
		sem_post(class_querying);
		g_usleep(200000);
	}
	return class_passed;
}

static void forget(int device, void *event)
{
	(void)device;
	(void)event;
	class_events--;
}

static void hear(const struct torch_piece *segment, int came)
{
	g_assert_true(segment->segment && segment->size);
	*(came ? &class_come : &class_gone) += 1;
}

struct torch_stats stats_now(void)
{
	struct torch_stats stats;

	assert_ok(table->stats(0, &stats));
	return stats;
}

char *new_block(size_t size, struct CUstream_st *stream, struct torch_pool *pool)
{
	struct torch_piece block;

	assert_ok(table->alloc(&block, 0, size, 0, stream, pool));
	g_assert_cmpuint(block.requested, ==, size);
	g_assert_cmpuint(block.size, >=, size);
	g_assert_true(block.stream == stream && block.allocated && block.active && !block.device);
	return (char *)(uintptr_t)block.addr;
}

void drop(void *ptr)
{
	struct torch_piece block = { 0 };

	assert_ok(table->release(ptr, &block));
	g_assert_cmpuint(block.addr, ==, (uintptr_t)ptr);
}

void end_pool(struct torch_id id)
{
	table->end(0, id, 1);
	assert_ok(table->drop(0, id));
	table->trim(0, id);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
}

size_t check_list(const struct torch_piece *pieces, size_t count)
{
	uint64_t at = 0, end = 0;
	size_t segments = 0;

	for (size_t i = 0; i < count; i++) {
		if (pieces[i].segment) {
			g_assert_cmpuint(at, ==, end);
			at = pieces[i].addr;
			end = at + pieces[i].size;
			segments++;
			continue;
		}
		g_assert_cmpuint(pieces[i].addr, ==, at);
		at += pieces[i].size;
	}
	g_assert_cmpuint(at, ==, end);
	return segments;
}

void check_list_now(struct torch_id id)
{
	struct torch_piece *pieces;
	size_t count;

	assert_ok(table->list(0, id, &pieces, &count));
	check_list(pieces, count);
	g_free(pieces);
}

size_t count_segments(struct torch_id id)
{
	struct torch_piece *pieces;
	size_t count, segments;

	assert_ok(table->list(0, id, &pieces, &count));
	segments = check_list(pieces, count);
	g_free(pieces);
	return segments;
}

void class_open(int *argc, char ***argv)
{
	static const struct torch_hooks hooks = { record, has_passed, forget, hear };

	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_HOST_CAPACITY", "64M", TRUE);
	g_test_init(argc, argv, NULL);
	torch_open();
	table = torch.vpmm_torch_class();
	g_assert_cmpuint(table->version, ==, TORCH_CLASS_VERSION);
	g_assert_cmpuint(table->size, ==, sizeof(*table));
	table->init(1, 0.5, &hooks);
}
