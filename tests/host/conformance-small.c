// SPDX-License-Identifier: LGPL-2.1-or-later
#include "host/conformance-bench.h"

static void check_small(struct bench *b)
{
	static const size_t sizes[] = { 1, 255, 512, 513, 4096, 65536, MIB, MIB + 1, 40 * MIB };
	uint64_t va[G_N_ELEMENTS(sizes)], bytes = UNTOUCHED, peak = UNTOUCHED, sum = 0;
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
		va[i] = small_alloc(b, sizes[i], NULL);
		assert_ok(b->device->write(va[i], &i, 1));
		assert_ok(b->device->write(va[i] + sizes[i] - 1, &i, 1));
		sum += sizes[i];
	}
	assert_ok(b->ops->small_held(b->be, &bytes, &peak));
	g_assert_cmpuint(bytes, >=, sum);
	g_assert_cmpuint(peak, >=, bytes);
	for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
		unsigned char first = 0xff, last = 0xff;

		assert_ok(b->device->read(va[i], &first, 1));
		assert_ok(b->device->read(va[i] + sizes[i] - 1, &last, 1));
		g_assert_cmpuint(first, ==, i);
		g_assert_cmpuint(last, ==, i);
		small_free(b, va[i], NULL);
	}
}

static void check_small_keeps(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	uint64_t before, after, peak;
	struct backend_event *event;
	int i;

	small_free(b, small_alloc(b, MIB, stream), stream);
	assert_ok(b->ops->small_held(b->be, &before, &peak));
	for (i = 0; i < 1000; i++)
		small_free(b, small_alloc(b, MIB, stream), stream);
	event = record(b, stream);
	assert_completes(b, event);

	assert_ok(b->ops->small_held(b->be, &after, &peak));
	g_assert_cmpuint(before, >=, MIB);
	g_assert_cmpuint(after, ==, before);
	g_assert_cmpuint(peak, ==, after);
	b->ops->event_destroy(b->be, event);
	stream_end(b, stream);
}

static uint64_t small_held(struct bench *b)
{
	uint64_t bytes = UNTOUCHED, peak;

	assert_ok(b->ops->small_held(b->be, &bytes, &peak));
	return bytes;
}

/* What is free goes back to the device, down to what is to be kept, and what is allocated stays as it is. */
static void check_small_trim(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	uint64_t first = small_alloc(b, 100, stream), large = small_alloc(b, 300 * MIB, stream), held = small_held(b);
	uint64_t free;
	bool pending;

	small_free(b, large, stream);
	assert_ok(b->ops->sync(b->be));
	put(b, first, 42);
	free = memory_free(b);

	assert_ok(b->ops->small_trim(b->be, held, &pending));
	g_assert_cmpuint(small_held(b), ==, held);
	assert_ok(b->ops->small_trim(b->be, MIB, &pending));
	g_assert_cmpuint(small_held(b), <, 300 * MIB);
	g_assert_cmpuint(small_held(b), >=, MIB);
	g_assert_cmpuint(memory_free(b), >=, free + (held - small_held(b)));
	g_assert_cmpuint(get(b, first), ==, 42);
	g_assert_false(pending);

	small_free(b, first, stream);
	assert_ok(b->ops->sync(b->be));
	assert_ok(b->ops->small_trim(b->be, 0, &pending));
	g_assert_cmpuint(small_held(b), ==, 0);
	small_free(b, small_alloc(b, 100, stream), stream);
	stream_end(b, stream);
}

/* Trimming does not wait for what is freed in the order of pending work, and leaves it until that is done. */
static void check_small_trim_pending(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	uint64_t va = small_alloc(b, MIB, stream);
	bool pending;

	assert_ok(b->device->hold(stream));
	small_free(b, va, stream);
	assert_ok(b->ops->small_trim(b->be, 0, &pending));
	g_assert_true(pending);
	g_assert_cmpuint(small_held(b), >=, MIB);

	assert_ok(b->device->finish(stream));
	assert_ok(b->ops->sync(b->be));
	assert_ok(b->ops->small_trim(b->be, 0, &pending));
	g_assert_false(pending);
	g_assert_cmpuint(small_held(b), ==, 0);
	stream_end(b, stream);
}

static void check_small_too_much(struct bench *b)
{
	uint64_t va = UNTOUCHED;

	assert_refused(b->ops->small_alloc(b->be, memory_total(b) + 1, NULL, &va), -ENOMEM);
	g_assert_cmpuint(va, ==, UNTOUCHED);
	small_free(b, small_alloc(b, 1, NULL), NULL);
}

static void check_small_bad(struct bench *b)
{
	uint64_t va = small_alloc(b, 1000, NULL), value = UNTOUCHED;

	assert_refused(b->ops->small_alloc(b->be, 0, NULL, &value), -EINVAL);
	assert_refused(b->ops->small_alloc(b->be, SIZE_MAX, NULL, &value), -ENOMEM);
	assert_refused(b->ops->small_free(b->be, va + 512, NULL), -EINVAL);
	assert_refused(b->ops->small_free(b->be, 0, NULL), -EINVAL);
	small_free(b, va, NULL);
	assert_refused(b->ops->small_free(b->be, va, NULL), -EINVAL);
	g_assert_cmpuint(value, ==, UNTOUCHED);
}

static void check_small_stream_order(struct bench *b)
{
	struct CUstream_st *own = stream_new(b), *other = stream_new(b);
	uint64_t va = small_alloc(b, MIB, own), again, elsewhere;

	assert_ok(b->device->hold(own));
	small_free(b, va, own);
	elsewhere = small_alloc(b, MIB, other);
	again = small_alloc(b, MIB, own);
	g_assert_cmpuint(elsewhere, !=, va);
	g_assert_cmpuint(again, ==, va);

	small_free(b, again, own);
	small_free(b, elsewhere, other);
	stream_end(b, own);
	stream_end(b, other);
}

static void check_small_other_stream(struct bench *b)
{
	struct CUstream_st *own = stream_new(b), *other = stream_new(b);
	uint64_t va = small_alloc(b, 10 * MIB, own), before, after, peak;

	assert_ok(b->device->hold(own));
	small_free(b, va, own);
	assert_ok(b->ops->small_held(b->be, &before, &peak));
	assert_ok(b->device->finish(own));

	g_assert_cmpuint(small_alloc(b, 10 * MIB, other), ==, va);
	assert_ok(b->ops->small_held(b->be, &after, &peak));
	g_assert_cmpuint(after, ==, before);
	small_free(b, va, other);
	stream_end(b, own);
	stream_end(b, other);
}

static void check_small_freed_elsewhere(struct bench *b)
{
	struct CUstream_st *own = stream_new(b), *other = stream_new(b);
	uint64_t va = small_alloc(b, MIB, own), taken;

	assert_ok(b->device->hold(other));
	small_free(b, va, other);
	taken = small_alloc(b, MIB, own);
	g_assert_cmpuint(taken, !=, va);

	small_free(b, taken, own);
	stream_end(b, own);
	stream_end(b, other);
}

const struct check checks_of_small[] = {
	{ "small", false, check_small },
	{ "small-keeps", false, check_small_keeps },
	{ "small-trim", false, check_small_trim },
	{ "small-trim-pending", false, check_small_trim_pending },
	{ "small-too-much", false, check_small_too_much },
	{ "small-bad", true, check_small_bad },
	{ "small-stream-order", true, check_small_stream_order },
	{ "small-other-stream", true, check_small_other_stream },
	{ "small-freed-elsewhere", true, check_small_freed_elsewhere },
	{ .name = NULL }
};
