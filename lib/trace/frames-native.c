// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Walks native calls. The unwinder takes half a microsecond for each call, so what it finds is kept, as a tree of steps
 * from the innermost call outwards. A step is a return address and its place on the stack, counted from the frame of
 * frames_native(). The place of the next one follows from the code in which the addresses so far lie, so a walk that
 * reads the same addresses at the same places has the same calls. A function with arrays of variable size has several
 * places for the next one, and all are tried. Only what is not in the tree is left to the unwinder.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <unwind.h>

#include "trace/frames.h"
#include "util/lock.h"

/* Calls of our own between the program and the walk, at most. */
#define OURS 16
#define STEPS (FRAMES_MOST + OURS)

/* Steps that are kept. A walk with others is left to the unwinder each time. */
#define STEPS_MOST (1u << 18)
#define BUCKET_BITS 14

/* Places of the next return address that a step may have. */
#define PLACES 4

/**
 * struct step - a call on the stack, and those inside of it
 * @inner: the one inside of it
 * @pc: where it goes on
 * @place: of that address on the stack
 * @places: of the addresses outside of it; 0: no more
 * @calls: the stack, if the walk ends here
 * @next: in the same bucket
 */
struct step {
	const struct step *inner;
	uintptr_t pc;
	uintptr_t place;
	_Atomic uintptr_t places[PLACES];
	const struct call *_Atomic calls;
	struct step *next;
};

/**
 * struct walk - what the unwinder finds
 * @base: where places are counted from
 * @low: the stack pointer of the call inside of the current one
 * @count: of steps
 * @placed: the place of each is known
 */
struct walk {
	uintptr_t base;
	uintptr_t low;
	unsigned int count;
	bool placed;
	struct {
		uintptr_t pc;
		uintptr_t place;
	} steps[STEPS];
};

/* Found without a lock, as in frames-table.c. */
static struct step root;
static struct step *_Atomic buckets[1 << BUCKET_BITS];
static struct lock steps_lock = LOCK_INIT(LOCK_FRAMES);
static unsigned int steps_count GUARDED_BY(steps_lock);

/* Where our own code is, which no stack shows. Of a program that we are linked into nothing is left out. */
static uintptr_t own_low, own_high;

/* The stack of this thread; @stack_high is 1 if that cannot be known. */
static _Thread_local uintptr_t stack_low, stack_high;

static void find_own(void)
{
	uintptr_t low, high;

	if (frames_object((uintptr_t)find_own, &low, &high) == 0) {
		own_low = low;
		own_high = high;
	}
}

static void find_own_stack(void)
{
	pthread_attr_t attr;
	void *low = NULL;
	size_t size = 0;

	stack_high = 1;
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (pthread_attr_getstack(&attr, &low, &size) == 0) {
		stack_low = (uintptr_t)low;
		stack_high = (uintptr_t)low + size;
	}
	pthread_attr_destroy(&attr);
}

/* A word of this thread's stack, whatever it is. */
__attribute__((no_sanitize("address", "thread"), noinline))
static uintptr_t read_stack(uintptr_t addr)
{
	return *(const volatile uintptr_t *)addr;
}

static struct step *_Atomic *bucket_of_step(const struct step *inner, uintptr_t place, uintptr_t pc)
{
	uint64_t hash = ((uintptr_t)inner ^ pc ^ place << 40) * UINT64_C(0x9e3779b97f4a7c15);

	return &buckets[hash >> (64 - BUCKET_BITS)];
}

static struct step *find_step(const struct step *inner, uintptr_t place, uintptr_t pc)
{
	struct step *step = atomic_load_explicit(bucket_of_step(inner, place, pc), memory_order_acquire);

	while (step && !(step->inner == inner && step->pc == pc && step->place == place))
		step = step->next;
	return step;
}

/* The step outside of another that the stack has now; NULL: none that is known. */
static const struct step *step_outwards(const struct step *step, uintptr_t base)
{
	const struct step *outer = NULL;

	for (unsigned int i = 0; i < PLACES && !outer; i++) {
		uintptr_t place = atomic_load_explicit(&step->places[i], memory_order_acquire);

		if (!place)
			break;
		if (base + place < stack_high)
			outer = find_step(step, place, read_stack(base + place));
	}
	return outer;
}

/* The stack, if it is a known one. */
static const struct call *retrace(uintptr_t base)
{
	const struct call *calls = NULL;

	for (const struct step *step = &root; step && !calls; step = step_outwards(step, base))
		calls = atomic_load_explicit(&step->calls, memory_order_acquire);
	return calls;
}

/* The place of a return address: next to the outer frame on x86-64, anywhere in the inner frame elsewhere. */
static uintptr_t find_place(const struct walk *walk, uintptr_t high, uintptr_t pc)
{
	uintptr_t addr = high - sizeof(pc);

	while (addr > walk->base && addr >= walk->low && addr < high && read_stack(addr) != pc)
		addr -= sizeof(pc);
	return addr > walk->base && addr >= walk->low && addr < high ? addr - walk->base : 0;
}

static _Unwind_Reason_Code take_step(struct _Unwind_Context *context, void *data)
{
	uintptr_t pc = _Unwind_GetIP(context), high = _Unwind_GetCFA(context);
	struct walk *walk = data;

	if (!pc || walk->count == STEPS)
		return _URC_END_OF_STACK;
	/* Calls inside of frames_native(). */
	if (high <= walk->base)
		return _URC_NO_REASON;
	walk->steps[walk->count].pc = pc;
	walk->steps[walk->count].place = find_place(walk, high, pc);
	walk->placed = walk->placed && walk->steps[walk->count].place;
	walk->low = high;
	walk->count++;
	return frames_in_python(pc) ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static const struct call *make_calls(const struct walk *walk)
{
	const struct call *calls = &frames_none;
	unsigned int i = 0;

	while (i < walk->count && walk->steps[i].pc >= own_low && walk->steps[i].pc < own_high)
		i++;
	/* Frames of Python come in the place of those of the interpreter. */
	for (; i < walk->count && !frames_in_python(walk->steps[i].pc); i++)
		calls = frames_add(calls, (struct frame){ .pc = walk->steps[i].pc });
	return calls;
}

/* Whether the step has a place for the next, which it gets if there is room. */
static bool add_place_outside(struct step *step, uintptr_t place) REQUIRES(steps_lock);
static bool add_place_outside(struct step *step, uintptr_t place)
{
	unsigned int i = 0;

	while (i < PLACES && atomic_load_explicit(&step->places[i], memory_order_relaxed) &&
	       atomic_load_explicit(&step->places[i], memory_order_relaxed) != place)
		i++;
	if (i < PLACES)
		atomic_store_explicit(&step->places[i], place, memory_order_release);
	return i < PLACES;
}

static struct step *add_step(struct step *inner, uintptr_t place, uintptr_t pc) REQUIRES(steps_lock);
static struct step *add_step(struct step *inner, uintptr_t place, uintptr_t pc)
{
	struct step *_Atomic *bucket = bucket_of_step(inner, place, pc);
	struct step *step = find_step(inner, place, pc);

	if (step)
		return step;
	if (steps_count >= STEPS_MOST || !add_place_outside(inner, place))
		return NULL;
	steps_count++;
	step = g_new0(struct step, 1);
	step->inner = inner;
	step->pc = pc;
	step->place = place;
	step->next = atomic_load_explicit(bucket, memory_order_relaxed);
	atomic_store_explicit(bucket, step, memory_order_release);
	return step;
}

static void keep_steps(const struct walk *walk, const struct call *calls)
{
	struct step *step = &root;

	lock_acquire(&steps_lock);
	for (unsigned int i = 0; i < walk->count && step; i++)
		step = add_step(step, walk->steps[i].place, walk->steps[i].pc);
	if (step)
		atomic_store_explicit(&step->calls, calls, memory_order_release);
	lock_release(&steps_lock);
}

__attribute__((noinline))
static const struct call *unwind(uintptr_t base, bool keep)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct walk walk = { .base = base, .low = base, .placed = true };
	const struct call *calls;

	pthread_once(&once, find_own);
	frames_find_python();
	_Unwind_Backtrace(take_step, &walk);
	calls = make_calls(&walk);
	if (keep && walk.placed && walk.count)
		keep_steps(&walk, calls);
	return calls;
}

/* On a stack that is not the thread's, of a signal or a coroutine, where it ends is not known. */
__attribute__((noinline))
const struct call *frames_native(void)
{
	uintptr_t base = (uintptr_t)__builtin_frame_address(0);
	const struct call *calls;
	bool inside;

	if (G_UNLIKELY(!stack_high))
		find_own_stack();
	inside = base >= stack_low && base < stack_high;
	calls = inside ? retrace(base) : NULL;
	return G_LIKELY(calls) ? calls : unwind(base, inside);
}
