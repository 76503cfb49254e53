// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Bytes as a program of operations on blocks of tags that are paused and resumed, with faults. The first byte says what
 * the pool is to be, then each operation has three: what, and two that say on which and how much. Work of the blocks'
 * streams writes a pattern to them and looks for it.
 */
#include <errno.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "fuzz.h"
#include "host/tag-fixture.h"
#include "support/fault.h"

#define MOST_BLOCKS 40
#define MOST_OPERATIONS 1000
#define TAGS 3
#define PAUSABLE 2

/* Bytes between the words that are looked at. */
#define STRIDE ((size_t)16 << 10)

struct fuzzed {
	char *ptr;
	size_t size;
	uint64_t key;
	unsigned int tag;
	vpmm_tag bits;
	struct CUstream_st *stream;
	bool lost;			/* its contents were dropped */
};

/**
 * struct program - what is under way
 * @f: the pool
 * @tags: pausable ones, then one that is not
 * @paused: which are
 * @blocks: of struct fuzzed
 * @keys: how many patterns there were
 * @armed: the next call may fail
 * @limited: any call may lack memory
 * @tag_limited: allocations under any tag may
 */
struct program {
	struct fixture f;
	vpmm_tag tags[TAGS];
	bool paused[TAGS];
	GArray *blocks;
	uint64_t keys;
	bool armed;
	bool limited;
	bool tag_limited;
};

/* What a piece of work does to a block. */
struct work {
	char *ptr;
	size_t size;
	uint64_t key;
};

static void write_all(void *data)
{
	const struct work *work = data;

	for (size_t at = 0; at + 8 <= work->size; at += STRIDE)
		*(uint64_t *)(void *)(work->ptr + at) = work->key + at;
	g_free(data);
}

static void read_all(void *data)
{
	const struct work *work = data;

	for (size_t at = 0; at + 8 <= work->size; at += STRIDE)
		g_assert_cmphex(*(uint64_t *)(void *)(work->ptr + at), ==, work->key + at);
	g_free(data);
}

static void launch(const struct fuzzed *block, vpmm_host_fn fn)
{
	struct work *work = g_new(struct work, 1);

	*work = (struct work){ .ptr = block->ptr, .size = block->size, .key = block->key };
	assert_ok(vpmm_host_stream_launch(block->stream, fn, work));
}

static void fill(struct program *p, struct fuzzed *block)
{
	block->key = ++p->keys << 32;
	block->lost = false;
	launch(block, write_all);
}

/* Whether work may use it. What stays in memory may be used as well while its tag is paused. */
static bool is_usable(const struct program *p, const struct fuzzed *block)
{
	return !p->paused[block->tag] || block->bits == VPMM_TAG_STAY;
}

static void verify(const struct program *p, const struct fuzzed *block)
{
	if (is_usable(p, block) && !block->lost)
		launch(block, read_all);
}

static struct fuzzed *block_at(const struct program *p, uint8_t byte)
{
	return p->blocks->len ? &g_array_index(p->blocks, struct fuzzed, byte % p->blocks->len) : NULL;
}

static void disarm(struct program *p)
{
	for (int op = 0; p->armed && op <= BACKEND_OP_COUNT; op++)
		backend_fault_arm(p->f.pool->core.backend, (enum backend_op)op, 0, 0, 0);
	p->armed = false;
}

/* Judges what a call returned that may have met a fault, and lacks memory if @lacks. Return: whether it failed. */
static bool may_fail(struct program *p, int err, bool lacks)
{
	bool injected = p->armed && (err == -EIO || err == -ENOMEM);

	if (err && !injected && (err != -ENOMEM || !lacks))
		g_error("%d: %s", err, vpmm_last_error());
	disarm(p);
	return err != 0;
}

static void arm(struct program *p, uint8_t a, uint8_t b)
{
	static const unsigned int counts[] = { 1, 1, 2, UINT_MAX };

	backend_fault_arm(p->f.pool->core.backend, (enum backend_op)(a % (BACKEND_OP_COUNT + 1)), b & 15,
			  counts[b >> 4 & 3], b & 0x40 ? -ENOMEM : -EIO);
	p->armed = true;
}

static size_t size_of(uint8_t a)
{
	return a & 0x80 ? (size_t)(a & 0x7f) * 512 + 8 : (1 + (size_t)(a & 15)) * PAGE / (a & 0x40 ? 2 : 1);
}

static void allocate(struct program *p, uint8_t a, uint8_t b)
{
	static const vpmm_tag bits[] = { 0, 0, VPMM_TAG_DROP, VPMM_TAG_STAY };
	struct fuzzed block = { .size = size_of(a), .tag = b % TAGS, .bits = bits[b >> 2 & 3],
			       .stream = p->f.streams[b >> 4 & 3] };
	void *ptr = NULL;
	int err;

	if (p->blocks->len == MOST_BLOCKS)
		return;
	vpmm_tag_set(p->tags[block.tag] | block.bits);
	if (b & 0x80)
		err = vpmm_malloc_growable(p->f.pool, &ptr, block.size, 32 * PAGE, block.stream);
	else
		err = vpmm_malloc(p->f.pool, &ptr, block.size, block.stream);
	vpmm_tag_set(0);
	if (!is_usable(p, &block)) {
		g_assert_true(err == -EBUSY || (err && p->armed));
		disarm(p);
	} else if (!may_fail(p, err, p->limited || p->tag_limited)) {
		block.ptr = ptr;
		fill(p, &block);
		g_array_append_val(p->blocks, block);
	}
}

/* Also while it is paused. */
static void give_back(struct program *p, uint8_t a, uint8_t b)
{
	struct fuzzed *block = block_at(p, a);
	struct CUstream_st *stream = b & 0x80 ? VPMM_STREAM_ANY : block ? block->stream : NULL;

	if (!block)
		return;
	verify(p, block);
	if (may_fail(p, vpmm_free(p->f.pool, block->ptr, stream), false))
		assert_ok(vpmm_free(p->f.pool, block->ptr, stream));
	g_array_remove_index_fast(p->blocks, (guint)(a % p->blocks->len));
}

static void resize(struct program *p, uint8_t a, uint8_t b)
{
	struct fuzzed *block = block_at(p, a);
	void *ptr = block ? block->ptr : NULL;
	bool usable = block && is_usable(p, block);
	size_t size = size_of(b);
	int err;

	if (!block)
		return;
	verify(p, block);
	err = vpmm_realloc(p->f.pool, &ptr, size, block->stream);
	/* A paused block may be one that the driver's allocator serves. */
	if (err == -EINVAL || (!usable && err == -EBUSY)) {
		g_assert_true(ptr == block->ptr);
		disarm(p);
	} else if (!may_fail(p, err, p->limited || p->tag_limited)) {
		block->ptr = ptr;
		block->size = size;
		block->lost = true;
		if (usable)
			fill(p, block);
	}
}

static void use(struct program *p, uint8_t a, uint8_t b)
{
	struct fuzzed *block = block_at(p, a);
	int err;

	if (!block)
		return;
	err = vpmm_use(p->f.pool, block->ptr, p->f.streams[b % STREAMS]);
	if (is_usable(p, block) || err != -EBUSY)
		may_fail(p, err, false);
	disarm(p);
}

static bool is_meant(unsigned int tag, uint8_t which)
{
	return tag < PAUSABLE && (which % (PAUSABLE + 1) == PAUSABLE || which % (PAUSABLE + 1) == tag);
}

static vpmm_tag tag_meant(const struct program *p, uint8_t which)
{
	return which % (PAUSABLE + 1) == PAUSABLE ? VPMM_TAG_ALL : p->tags[which % (PAUSABLE + 1)];
}

static void set_paused(struct program *p, uint8_t which, bool paused, bool drop)
{
	for (guint i = 0; i < p->blocks->len; i++) {
		struct fuzzed *block = &g_array_index(p->blocks, struct fuzzed, i);

		if (paused && is_meant(block->tag, which) && !p->paused[block->tag])
			block->lost |= block->bits != VPMM_TAG_STAY && (drop || block->bits == VPMM_TAG_DROP);
	}
	for (unsigned int tag = 0; tag < PAUSABLE; tag++)
		p->paused[tag] = is_meant(tag, which) ? paused : p->paused[tag];
}

/* Everything that may be used has what it had. */
static void verify_all(struct program *p)
{
	for (guint i = 0; i < p->blocks->len; i++)
		verify(p, &g_array_index(p->blocks, struct fuzzed, i));
}

static void refill_lost(struct program *p)
{
	for (guint i = 0; i < p->blocks->len; i++) {
		struct fuzzed *block = &g_array_index(p->blocks, struct fuzzed, i);

		if (block->lost && is_usable(p, block))
			fill(p, block);
	}
}

static void resume(struct program *p, uint8_t which, struct CUstream_st *stream)
{
	vpmm_tag tag = tag_meant(p, which);
	bool failed = may_fail(p, vpmm_resume(p->f.pool, tag, stream), p->limited);

	if (failed)
		assert_ok(vpmm_pool_check(p->f.pool));
	if (failed && may_fail(p, vpmm_resume(p->f.pool, tag, stream), p->limited))
		return;
	set_paused(p, which, false, false);
	refill_lost(p);
	verify_all(p);
}

/* A failure leaves all as it was, unless the driver keeps the pool from undoing what it did as well. */
static void pause_tag(struct program *p, uint8_t which, bool drop)
{
	int err;

	verify_all(p);
	err = vpmm_pause(p->f.pool, tag_meant(p, which), drop ? VPMM_PAUSE_DROP : 0);
	if (!may_fail(p, err, false)) {
		set_paused(p, which, true, drop);
		return;
	}
	assert_ok(vpmm_pool_check(p->f.pool));
	set_paused(p, which, true, drop);
	resume(p, which, VPMM_STREAM_ANY);
}

static void change_pause(struct program *p, uint8_t a, uint8_t b)
{
	switch (a % 4) {
	case 0:
	case 1:
		pause_tag(p, b, a & 0x40);
		break;
	case 2:
		resume(p, b, a & 0x40 ? VPMM_STREAM_ANY : p->f.streams[a >> 4 & 3]);
		break;
	default:
		may_fail(p, vpmm_pause_prepare(p->f.pool, tag_meant(p, b)), false);
	}
}

static void bound(struct program *p, uint8_t a, uint8_t b)
{
	if (a & 1) {
		p->limited |= b != 0;
		may_fail(p, vpmm_pool_set_limit(p->f.pool, b * PAGE), false);
	} else {
		p->tag_limited |= b != 0;
		may_fail(p, vpmm_tag_limit(p->f.pool, p->tags[a / 2 % TAGS], b * PAGE / 2), false);
	}
}

static void look(struct program *p, uint8_t a, uint8_t b)
{
	uint64_t blocks[TAGS] = { 0 }, requested[TAGS] = { 0 };

	disarm(p);
	for (guint i = 0; i < p->blocks->len; i++) {
		const struct fuzzed *block = &g_array_index(p->blocks, struct fuzzed, i);

		blocks[block->tag]++;
		requested[block->tag] += block->size;
	}
	for (unsigned int tag = 0; tag < TAGS; tag++) {
		struct vpmm_tag_stats stats = tag_stats(p->f.pool, p->tags[tag]);

		g_assert_cmpuint(stats.blocks, ==, blocks[tag]);
		g_assert_cmpuint(stats.requested, ==, requested[tag]);
		g_assert_cmpuint(stats.live, >=, requested[tag]);
		g_assert_true(p->paused[tag] || !stats.paused);
	}
	if (a & 1)
		assert_ok(vpmm_pool_reset_peaks(p->f.pool));
	if (a & 2)
		assert_ok(vpmm_pool_trim(p->f.pool, b * PAGE, NULL));
	assert_ok(vpmm_pool_check(p->f.pool));
}

static void complete(struct program *p, uint8_t a, uint8_t b)
{
	int err = vpmm_host_stream_complete(p->f.streams[b % STREAMS], 1 + a % 8);

	g_assert_true(!err || err == -EBUSY);
}

static void operate(struct program *p, const uint8_t *bytes)
{
	static void (*const operations[])(struct program *p, uint8_t a, uint8_t b) = {
		allocate, allocate, allocate, give_back, give_back, resize, use, arm,
		arm, change_pause, change_pause, change_pause, bound, look, complete, complete,
	};

	operations[bytes[0] % G_N_ELEMENTS(operations)](p, bytes[1], bytes[2]);
}

static void open_pool(struct program *p, uint8_t bits)
{
	static const struct vpmm_opts kinds[] = {
		{ FIXTURE_PACKED }, { FIXTURE_OPTS }, { FIXTURE_PACKED, .extent_max = PAGE },
		{ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER },
	};
	struct vpmm_opts opts = kinds[bits & 3];

	opts.scrub = bits & 4 ? VPMM_SCRUB_ALWAYS : VPMM_SCRUB_NONE;
	opts.keep = bits & 8 ? PAGE : 0;
	opts.limit = bits & 16 ? 48 * PAGE : 0;
	p->limited = opts.limit;
	g_setenv("VPMM_HOST_CAPACITY", bits & 32 ? "96M" : "80G", TRUE);
	p->limited |= bits & 32;
	if (bits & 64)
		g_setenv("VPMM_PAUSE_HOST", "8M", TRUE);
	else
		g_unsetenv("VPMM_PAUSE_HOST");
	fixture_open_faulty(&p->f, opts);
	p->tags[0] = tag_get("one", VPMM_TAG_PAUSABLE);
	p->tags[1] = tag_get("other", VPMM_TAG_PAUSABLE);
	p->tags[2] = tag_get("label", 0);
	p->blocks = g_array_new(FALSE, FALSE, sizeof(struct fuzzed));
}

/* With what is live, and paused. */
static void close_pool(struct program *p)
{
	bool busy = true;

	look(p, 0, 0);
	verify_all(p);
	while (busy) {
		busy = false;
		for (int i = 0; i < STREAMS; i++)
			busy |= vpmm_host_stream_complete(p->f.streams[i], UINT_MAX) == -EBUSY;
	}
	fixture_close(&p->f);
	g_array_free(p->blocks, TRUE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct program p = { 0 };

	if (!size)
		return 0;
	open_pool(&p, data[0]);
	for (size_t at = 1, done = 0; at + 3 <= size && done < MOST_OPERATIONS; at += 3, done++)
		operate(&p, data + at);
	close_pool(&p);
	return 0;
}
