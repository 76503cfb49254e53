// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Bytes as what the file of a plan says. The first says what the pool is to be, and whether the sum at the end is made
 * right, as nobody guesses it; two say which call fails. Whatever it is, the pool is sound afterwards and serves, and
 * what it writes then is a plan for the next.
 */
#include <errno.h>
#include <string.h>

#include "warm/plan-text.h"
#include "calls/pool.h"
#include "core/chunk.h"
#include "fuzz.h"
#include "warm/warm.h"
#include "support/fault.h"
#include "support/fixture.h"

#define DEVICE "d"
#define BYTES 3
#define ROUNDS 24
#define BLOCKS 8

/* Chunks that pools of the target get besides. */
#define MORE_CHUNKS 64

enum { BIT_SUMMED = 4, BIT_KEEP = 8, BIT_LIMIT = 16, BIT_SMALL_DEVICE = 32, BIT_BEGUN = 64, BIT_FAULT = 128 };

/* With what each plan begins and ends, so that bytes need not find it. */
static GString *text_of(uint8_t bits, const uint8_t *data, size_t size)
{
	GString *text = g_string_new(bits & BIT_BEGUN ? "vpmm-plan 1\ndevice " DEVICE "\n" : NULL);
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	g_string_append_len(text, (const char *)data, (gssize)size);
	for (size_t i = 0; i < text->len; i++)
		sum = (sum ^ (unsigned char)text->str[i]) * UINT64_C(0x100000001b3);
	if (bits & BIT_SUMMED)
		g_string_append_printf(text, "end 0x%016" G_GINT64_MODIFIER "x\n", sum);
	return text;
}

static int read_plan(struct fixture *f, GString *text, struct warm **warm)
{
	const struct core *core = &f->pool->core;
	struct backend_info info;
	int err;

	assert_ok(core->backend->ops->enter(core->backend));
	assert_ok(core->backend->ops->info(core->backend, &info));
	core->backend->ops->leave(core->backend);
	err = plan_text_read(text->str, text->len, DEVICE, info.memory_total, core->settings.page_size, warm);
	if (!err) {
		err = warm_check(core, *warm);
		if (err)
			g_clear_pointer(warm, warm_free);
	}
	g_assert_true(!err || (err == -EINVAL && *vpmm_last_error()));
	g_string_free(text, TRUE);
	return err;
}

/* As a pool is that has a plan. */
static void empty(struct core *core)
{
	while (core->regions.chunks->len)
		chunk_drop(core, core->regions.chunks->pdata[core->regions.chunks->len - 1]);
}

static void begin(struct fixture *f, const struct warm *warm, uint8_t op, uint8_t how)
{
	struct core *core = &f->pool->core;
	int err;

	lock_acquire(&core->lock);
	assert_ok(core->backend->ops->enter(core->backend));
	empty(core);
	if (op != BACKEND_OP_COUNT)
		backend_fault_arm(core->backend, (enum backend_op)op, how & 0x3f, 1 + (how >> 7), -ENOMEM);
	err = initial_create(core, warm);
	if (op != BACKEND_OP_COUNT)
		backend_fault_arm(core->backend, (enum backend_op)op, 0, 0, 0);
	g_assert_cmpuint(core->extents.held, ==, core->extents.bytes);
	g_assert_true(!err || op != BACKEND_OP_COUNT);
	if (op == BACKEND_OP_COUNT && core_mapped(core))
		g_assert_cmpuint(core_mapped(core), ==, warm_bytes(warm));
	core->backend->ops->leave(core->backend);
	lock_release(&core->lock);
	assert_ok(vpmm_pool_check(f->pool));
}

static void serve(struct fixture *f, uint32_t seed, bool may_lack)
{
	void *blocks[BLOCKS] = { NULL };
	int err;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		void **block = &blocks[i * 5 % BLOCKS];

		if (*block)
			assert_ok(vpmm_free(f->pool, *block, f->streams[0]));
		*block = NULL;
		seed = seed * 1664525 + 1013904223;
		err = vpmm_malloc(f->pool, block, seed >> 30 ? (1 + (seed >> 8) % 9) * PAGE / 2 : 700, f->streams[0]);
		g_assert_true(!err || (may_lack && err == -ENOMEM));
	}
	for (int i = 0; i < BLOCKS; i++)
		assert_ok(vpmm_free(f->pool, blocks[i], f->streams[0]));
	assert_ok(vpmm_pool_check(f->pool));
}

/* What it has learned is of use to one that is like it, unless that would keep less. */
static void write_again(struct fixture *f)
{
	struct core *core = &f->pool->core;
	struct warm *taken, *read = NULL;
	bool small;
	GString *text;

	lock_acquire(&core->lock);
	taken = warm_take(core);
	small = taken->chunks->len < MORE_CHUNKS && warm_bytes(taken) <= core->settings.keep;
	text = plan_text_write(taken, DEVICE);
	warm_free(taken);
	if (read_plan(f, text, &read))
		g_assert_false(small);
	else
		warm_free(read);
	lock_release(&core->lock);
}

static void open_pool(struct fixture *f, uint8_t bits)
{
	static const struct vpmm_opts kinds[] = {
		{ FIXTURE_PACKED }, { FIXTURE_OPTS }, { FIXTURE_PACKED, .extent_max = PAGE },
		{ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER },
	};
	struct vpmm_opts opts = kinds[bits & 3];

	opts.keep = bits & BIT_KEEP ? 8 * PAGE : 0;
	opts.limit = bits & BIT_LIMIT ? 24 * PAGE : 0;
	g_setenv("VPMM_HOST_CAPACITY", bits & BIT_SMALL_DEVICE ? "48M" : "80G", TRUE);
	fixture_open_faulty(f, opts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warm *warm = NULL;
	struct fixture f;
	uint8_t op;

	if (size < BYTES)
		return 0;
	open_pool(&f, data[0]);
	op = data[0] & BIT_FAULT ? data[1] % BACKEND_OP_COUNT : BACKEND_OP_COUNT;
	if (!read_plan(&f, text_of(data[0], data + BYTES, size - BYTES), &warm)) {
		begin(&f, warm, op, data[2]);
		warm_free(warm);
		serve(&f, data[2], data[0] & (BIT_LIMIT | BIT_SMALL_DEVICE));
		write_again(&f);
	}
	fixture_close(&f);
	return 0;
}
