// SPDX-License-Identifier: LGPL-2.1-or-later
#include "trace/sampler.h"

#include <inttypes.h>
#include <math.h>

#include "trace/frames.h"
#include "util/clock.h"
#include "util/lock.h"
#include "util/text.h"

/* Beyond so many different stacks of a pool, what comes is put down to a stack without frames. */
#define STACKS_MOST 65536

/* Frames of a stack that sampler_name() has: the innermost. */
#define FRAMES_NAMED 4

/* Counts of a stack are in thousandths of a block. */
#define BLOCK 1000

/**
 * struct stack - who allocated
 * @sampler: of whose pool
 * @live: bytes, as estimated
 * @blocks: in thousandths
 * @peak: the most that @live was
 * @calls: the calls
 */
struct stack {
	struct sampler *sampler;
	uint64_t live;
	uint64_t blocks;
	uint64_t peak;
	const struct call *calls;
};

/**
 * struct sample - a block that was sampled
 * @addr: where it is
 * @bytes: that it stands for
 * @blocks: the same, in thousandths
 */
struct sample {
	uint64_t addr;
	struct stack *stack;
	uint64_t bytes;
	uint64_t blocks;
};

struct sampler {
	size_t interval;
	GHashTable *stacks;		/* struct call -> struct stack, owned; under samples_lock */
	unsigned int taken;		/* samples that sampler_find() has returned; under samples_lock */
	bool ended;			/* goes with the last of those; under samples_lock */
};

_Atomic unsigned int sampler_live;

/* All samples of all pools by address, as no two pools have the same. NULL: none; the table goes with the last pool. */
static struct lock samples_lock = LOCK_INIT(LOCK_SAMPLES);
static GHashTable *samples GUARDED_BY(samples_lock);

/* How many samples have an address with this hash, so that nearly all frees need no lock. */
#define FILTER_BITS 14
static _Atomic uint32_t filter[1 << FILTER_BITS];

/* How many intervals away the next byte is, and what it is drawn by; 0: not drawn yet. */
static _Thread_local double until;
static _Thread_local uint64_t seed;

static _Atomic uint32_t *filter_of(uint64_t addr)
{
	return &filter[(addr >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FILTER_BITS)];
}

/* An exponential variate of mean 1. */
static double draw(void)
{
	uint64_t x;

	if (!seed)
		seed = clock_ns() ^ (uintptr_t)&seed << 16;
	seed += UINT64_C(0x9e3779b97f4a7c15);
	x = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return -log(((double)(x >> 11) + 0.5) / 9007199254740992.0);
}

static bool is_due(const struct sampler *sampler, size_t size)
{
	double intervals = (double)size / (double)sampler->interval;

	if (sampler->interval == 1)
		return true;
	if (!seed)
		until = draw();
	until -= intervals;
	if (G_LIKELY(until > 0))
		return false;
	until = draw();
	return true;
}

/* What the sampler has for a stack. */
REQUIRES(samples_lock)
static struct stack *stack_of(struct sampler *sampler, const struct call *calls)
{
	struct stack *stack = g_hash_table_lookup(sampler->stacks, calls);

	if (G_LIKELY(stack))
		return stack;
	if (g_hash_table_size(sampler->stacks) >= STACKS_MOST && calls != &frames_none)
		return stack_of(sampler, &frames_none);
	stack = g_new0(struct stack, 1);
	stack->sampler = sampler;
	stack->calls = calls;
	g_hash_table_insert(sampler->stacks, (gpointer)calls, stack);
	return stack;
}

REQUIRES(samples_lock)
static void count_out(const struct sample *sample)
{
	atomic_fetch_sub(filter_of(sample->addr), 1);
	atomic_fetch_sub(&sampler_live, 1);
	sample->stack->live -= sample->bytes;
	sample->stack->blocks -= sample->blocks;
}

/* A program that frees a block on two threads at once may have a new one, with a sample, at the address already. */
REQUIRES(samples_lock)
static void drop_stale(uint64_t addr)
{
	struct sample *stale = samples ? g_hash_table_lookup(samples, GSIZE_TO_POINTER((gsize)addr)) : NULL;

	if (stale)
		count_out(stale);
	g_free(stale);
}

REQUIRES(samples_lock)
static void count_in(struct sample *sample)
{
	struct stack *stack = sample->stack;

	drop_stale(sample->addr);
	stack->live += sample->bytes;
	stack->blocks += sample->blocks;
	stack->peak = MAX(stack->peak, stack->live);
	atomic_fetch_add(filter_of(sample->addr), 1);
	atomic_fetch_add(&sampler_live, 1);
	if (!samples)
		samples = g_hash_table_new(NULL, NULL);
	g_hash_table_insert(samples, GSIZE_TO_POINTER((gsize)sample->addr), sample);
}

static void add_sample(struct sampler *sampler, uint64_t addr, size_t size) __attribute__((cold, noinline));
static void add_sample(struct sampler *sampler, uint64_t addr, size_t size)
{
	struct sample *sample = g_new(struct sample, 1);
	const struct call *calls = frames_python(frames_native());
	double share = sampler->interval == 1 ? 1 : -expm1(-(double)size / (double)sampler->interval);

	*sample = (struct sample){
		.addr = addr,
		.bytes = (uint64_t)((double)size / share + 0.5),
		.blocks = (uint64_t)(BLOCK / share + 0.5),
	};
	lock_acquire(&samples_lock);
	sample->stack = stack_of(sampler, calls);
	count_in(sample);
	lock_release(&samples_lock);
}

void sampler_note(struct sampler *sampler, uint64_t addr, size_t size)
{
	if (G_UNLIKELY(is_due(sampler, size)))
		add_sample(sampler, addr, size);
}

struct sample *sampler_find(const struct sampler *sampler, uint64_t addr)
{
	struct sample *sample;

	if (G_LIKELY(!atomic_load_explicit(filter_of(addr), memory_order_relaxed)))
		return NULL;
	lock_acquire(&samples_lock);
	/* The filter may have been read before another pool ended, and its table with it. */
	sample = samples ? g_hash_table_lookup(samples, GSIZE_TO_POINTER((gsize)addr)) : NULL;
	/* The owner of the block may free it while the call of another pool fails. */
	if (sample && sampler && sample->stack->sampler != sampler)
		sample = NULL;
	if (sample) {
		g_hash_table_remove(samples, GSIZE_TO_POINTER((gsize)addr));
		count_out(sample);
		sample->stack->sampler->taken++;
	}
	lock_release(&samples_lock);
	return sample;
}

static void delete_sampler(struct sampler *sampler)
{
	g_hash_table_destroy(sampler->stacks);
	g_free(sampler);
}

/* The pool may have ended meanwhile, and another may have the address. */
void sampler_end(struct sample *sample, bool there)
{
	struct sampler *sampler;
	bool ended;

	if (!sample)
		return;
	lock_acquire(&samples_lock);
	sampler = sample->stack->sampler;
	ended = sampler->ended;
	sampler->taken--;
	if (there && !ended)
		count_in(sample);
	else
		g_free(sample);
	if (ended && !sampler->taken)
		delete_sampler(sampler);
	lock_release(&samples_lock);
}

struct sampler *sampler_new(size_t interval)
{
	struct sampler *sampler = g_new0(struct sampler, 1);

	sampler->interval = interval;
	sampler->stacks = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	return sampler;
}

static gboolean is_of(gpointer key, gpointer value, gpointer data)
{
	struct sample *sample = value;

	(void)key;
	lock_assert_held(&samples_lock);
	if (sample->stack->sampler != data)
		return FALSE;
	count_out(sample);
	g_free(sample);
	return TRUE;
}

void sampler_free(struct sampler *sampler)
{
	if (!sampler)
		return;
	lock_acquire(&samples_lock);
	if (samples)
		g_hash_table_foreach_remove(samples, is_of, sampler);
	if (samples && !g_hash_table_size(samples)) {
		g_hash_table_destroy(samples);
		samples = NULL;
	}
	sampler->ended = true;
	if (!sampler->taken)
		delete_sampler(sampler);
	lock_release(&samples_lock);
}

/* Those that hold most first; of those that hold nothing, those that held most. */
static gint compare_stacks(gconstpointer a, gconstpointer b)
{
	const struct stack *x = *(const struct stack *const *)a, *y = *(const struct stack *const *)b;

	if (x->live != y->live)
		return x->live > y->live ? -1 : 1;
	return (x->peak < y->peak) - (x->peak > y->peak);
}

REQUIRES(samples_lock)
static void add_stacks(const struct sampler *sampler, GPtrArray *stacks)
{
	GHashTableIter iter;
	gpointer stack;

	g_hash_table_iter_init(&iter, sampler->stacks);
	while (g_hash_table_iter_next(&iter, NULL, &stack))
		g_ptr_array_add(stacks, stack);
}

static uint64_t count_blocks(const struct stack *stack)
{
	return (stack->blocks + BLOCK / 2) / BLOCK;
}

static void write_stack(const struct stack *stack, GString *out)
{
	struct frame frames[FRAMES_MOST];
	unsigned int count = frames_list(stack->calls, frames);

	g_string_append_printf(out, "stack live %" PRIu64 " blocks %" PRIu64 " peak %" PRIu64 "\n", stack->live,
			       count_blocks(stack), stack->peak);
	for (unsigned int i = 0; i < count; i++) {
		g_string_append_printf(out, "    #%u ", i);
		frames_describe(&frames[i], out);
		g_string_append_c(out, '\n');
	}
}

void sampler_write(struct sampler *sampler, GString *out)
{
	GPtrArray *sorted = g_ptr_array_new();

	lock_acquire(&samples_lock);
	add_stacks(sampler, sorted);
	g_ptr_array_sort(sorted, compare_stacks);
	g_string_append_printf(out, "stacks: %u, of one allocation in %zu bytes\n", sorted->len, sampler->interval);
	for (guint i = 0; i < sorted->len; i++)
		write_stack(sorted->pdata[i], out);
	lock_release(&samples_lock);
	g_ptr_array_free(sorted, TRUE);
}

/* Of a program in Python its own frames say more than those between it and the library. */
static unsigned int first_named(const struct frame *frames, unsigned int count)
{
	unsigned int i = 0;

	while (i < count && !frames[i].text)
		i++;
	return i < count ? i : 0;
}

static void name_stack(const struct stack *stack, GString *out)
{
	struct frame frames[FRAMES_MOST];
	unsigned int count = frames_list(stack->calls, frames), first = first_named(frames, count);

	g_string_append_printf(out, "\nheld: %s in %" PRIu64 " blocks by ", amount(stack->live).text,
			       count_blocks(stack));
	for (unsigned int i = first; i < MIN(count, first + FRAMES_NAMED); i++) {
		g_string_append(out, i > first ? " < " : "");
		frames_name(&frames[i], out);
	}
}

void sampler_name(const GPtrArray *samplers, unsigned int most, GString *out)
{
	GPtrArray *sorted = g_ptr_array_new();

	lock_acquire(&samples_lock);
	for (guint i = 0; i < samplers->len; i++)
		add_stacks(samplers->pdata[i], sorted);
	g_ptr_array_sort(sorted, compare_stacks);
	for (guint i = 0; i < MIN(sorted->len, most) && ((const struct stack *)sorted->pdata[i])->live; i++)
		name_stack(sorted->pdata[i], out);
	lock_release(&samples_lock);
	g_ptr_array_free(sorted, TRUE);
}
