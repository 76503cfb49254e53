// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Walks native calls. The unwinder takes half a microsecond for each call, so what it finds is kept, as a tree of steps
 * from the innermost call outwards. The code at a return address settles where the next one lies: always at the same
 * distance; or, if the frame has no fixed size, where its frame pointer says, which a call inside has saved. So a walk
 * that finds the same return addresses in these places has the same calls. Only what is not in the tree is left to the
 * unwinder.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unwind.h>

#include "trace/frames.h"
#include "util/lock.h"

/* Calls of our own between the program and the walk, at most. */
#define OURS 16
#define STEPS (FRAMES_MOST + OURS)

/* Steps that are kept. A walk with others is left to the unwinder each time. */
#define STEPS_MOST (1u << 18)
#define BUCKET_BITS 14

/* The frame pointer, as the unwinder numbers registers. */
#if defined(__x86_64__)
#define FRAME_POINTER 6
#elif defined(__aarch64__)
#define FRAME_POINTER 29
/* It points at the one that the caller had, with the return address above it. */
#define FRAME_RECORDS 1
#else
#define FRAME_POINTER (-1)
#endif
#ifndef FRAME_RECORDS
#define FRAME_RECORDS 0
#endif

/* How many words below a return address the frame pointer may be saved, and below that the start of the frame. */
#define WORDS_MOST 6

#define WORD sizeof(uintptr_t)

/**
 * struct outward - where the next return address is
 * @known: a walk went on from here
 * @varies: that cannot be told
 * @pointed: the frame pointer tells, and is saved @saved words below the return address of the step that is @back steps
 *	inside; with 0 where the frame pointer of the call inside of that points
 * @saved: see above
 * @back: see above
 * @start: so many words below the frame pointer is the start of the frame; 0: the return address is next to it
 * @distance: in bytes, unless @pointed
 */
struct outward {
	uint64_t known : 1;
	uint64_t varies : 1;
	uint64_t pointed : 1;
	uint64_t saved : 4;
	uint64_t back : 7;
	uint64_t start : 4;
	uint64_t distance : 46;
};

/**
 * struct step - a call on the stack, and those inside of it
 * @inner: the one inside of it
 * @pc: where it goes on
 * @outward: a struct outward
 * @calls: the stack, if the walk ends here
 * @next: in the same bucket
 */
struct step {
	const struct step *inner;
	uintptr_t pc;
	_Atomic uint64_t outward;
	const struct call *_Atomic calls;
	struct step *next;
};

/**
 * struct walk - what the unwinder finds
 * @base: the frame of frames_native()
 * @low: the stack pointer of the call inside of the current one
 * @count: of steps
 * @placed: the places of all return addresses are known
 * @steps: return addresses, where they are, and the frame pointers of the calls that they lead to
 */
struct walk {
	uintptr_t base;
	uintptr_t low;
	unsigned int count;
	bool placed;
	struct {
		uintptr_t pc;
		uintptr_t place;
		uintptr_t pointer;
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

/* A return address on the stack. On AArch64 its upper bits may have a signature, which this instruction removes. */
static uintptr_t read_return(uintptr_t addr)
{
#if defined(__aarch64__)
	register uintptr_t pc __asm__("x30") = read_stack(addr);

	__asm__("hint #7 // xpaclri" : "+r" (pc));
	return pc;
#else
	return read_stack(addr);
#endif
}

static struct step *_Atomic *bucket_of_step(const struct step *inner, uintptr_t pc)
{
	uint64_t hash = ((uintptr_t)inner ^ pc << 4) * UINT64_C(0x9e3779b97f4a7c15);

	return &buckets[hash >> (64 - BUCKET_BITS)];
}

static struct step *find_step(const struct step *inner, uintptr_t pc)
{
	struct step *step = atomic_load_explicit(bucket_of_step(inner, pc), memory_order_acquire);

	while (step && !(step->inner == inner && step->pc == pc))
		step = step->next;
	return step;
}

static uint64_t pack_outward(struct outward outward)
{
	uint64_t packed;

	_Static_assert(sizeof(outward) == sizeof(packed), "a struct outward is one word");
	memcpy(&packed, &outward, sizeof(packed));
	return packed;
}

static struct outward unpack_outward(uint64_t packed)
{
	struct outward outward;

	memcpy(&outward, &packed, sizeof(outward));
	return outward;
}

/**
 * struct trail - the steps of a walk so far, with the frame of frames_native() as the first
 * @last: the number of the last
 * @places: of their return addresses
 * @pointers: their frame pointers, where they have one; 0: not known
 */
struct trail {
	unsigned int last;
	uintptr_t places[STEPS + 1];
	uintptr_t pointers[STEPS + 1];
};

static bool is_in_stack(const struct trail *trail, uintptr_t addr)
{
	return addr >= trail->places[0] && addr < stack_high && addr % WORD == 0;
}

/* Finds the frame pointer of the last step; 0: it is nowhere on the stack. */
static uintptr_t find_pointer(const struct trail *trail, struct outward outward)
{
	unsigned int inside = trail->last - outward.back;
	uintptr_t addr = outward.saved ? trail->places[inside] - outward.saved * WORD : trail->pointers[inside - 1];
	uintptr_t pointer = is_in_stack(trail, addr) ? read_stack(addr) : 0;

	return is_in_stack(trail, pointer) ? pointer : 0;
}

/* Where the next return address is; 0: not known. */
static uintptr_t find_next(struct trail *trail, struct outward outward)
{
	uintptr_t pointer;

	if (!outward.known || outward.varies)
		return 0;
	if (!outward.pointed)
		return trail->places[trail->last] + outward.distance;
	pointer = find_pointer(trail, outward);
	trail->pointers[trail->last] = pointer;
	if (!outward.start || !pointer)
		return pointer ? pointer + WORD : 0;
	pointer -= outward.start * WORD;
	return is_in_stack(trail, pointer) ? read_stack(pointer) - WORD : 0;
}

/* The stack, if it is a known one. The steps of a tree are no more than a walk has. */
static const struct call *retrace(uintptr_t base)
{
	const struct call *calls = NULL;
	const struct step *step = &root;
	struct trail trail;

	trail.last = 0;
	trail.places[0] = trail.pointers[0] = base;
	while (step && !calls) {
		uint64_t outward = atomic_load_explicit(&step->outward, memory_order_acquire);
		uintptr_t place = find_next(&trail, unpack_outward(outward));

		if (place <= trail.places[trail.last] || !is_in_stack(&trail, place))
			return NULL;
		trail.places[++trail.last] = place;
		trail.pointers[trail.last] = 0;
		step = find_step(step, read_return(place));
		calls = step ? atomic_load_explicit(&step->calls, memory_order_acquire) : NULL;
	}
	return calls;
}

/* Where a return address usually is: next to the outer frame on x86-64, in the record of the inner one on AArch64. */
static uintptr_t usual_place(const struct walk *walk, uintptr_t high)
{
	if (!FRAME_RECORDS)
		return high - WORD;
	return (walk->count ? walk->steps[walk->count - 1].pointer : walk->base) + WORD;
}

/*
 * The place of a return address. Where it is not the usual one, as in code without a frame pointer, it is the only such
 * word of the inner frame: among several, some are left from calls that have ended.
 */
static uintptr_t find_place(const struct walk *walk, uintptr_t high, uintptr_t pc)
{
	uintptr_t place = usual_place(walk, high), low = MAX(walk->low, walk->base + WORD), found = 0;

	if (place >= low && place < high && place % WORD == 0 && read_return(place) == pc)
		return place;
	for (place = high - WORD; place >= low && place < high; place -= WORD) {
		if (read_return(place) != pc)
			continue;
		if (found)
			return 0;
		found = place;
	}
	return found;
}

static _Unwind_Reason_Code take_step(struct _Unwind_Context *context, void *data)
{
	uintptr_t pc = _Unwind_GetIP(context), high = _Unwind_GetCFA(context), place;
	struct walk *walk = data;

	if (!pc || walk->count == STEPS)
		return _URC_END_OF_STACK;
	/* Calls inside of frames_native(). */
	if (high <= walk->base)
		return _URC_NO_REASON;
	place = find_place(walk, high, pc);
	walk->steps[walk->count].pc = pc;
	walk->steps[walk->count].place = place;
	walk->steps[walk->count].pointer = FRAME_POINTER < 0 ? 0 : _Unwind_GetGR(context, FRAME_POINTER);
	walk->placed = walk->placed && place;
	walk->low = high;
	walk->count++;
	return frames_in_python(pc) ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/*
 * How the frame pointer of step @i leads to the place of the next: 0: it points below it; so many words below where it
 * points is the start of the frame, which had to be aligned; -1: it does not.
 */
static int frame_start(const struct walk *walk, unsigned int i)
{
	uintptr_t pointer = walk->steps[i].pointer, place = walk->steps[i + 1].place;

	if (FRAME_POINTER < 0 || pointer <= walk->base || pointer >= stack_high || pointer % WORD)
		return -1;
	if (place == pointer + WORD)
		return 0;
	for (int start = 1; start <= WORDS_MOST; start++) {
		if (pointer - (unsigned int)start * WORD > walk->base &&
		    read_stack(pointer - (unsigned int)start * WORD) == place + WORD)
			return start;
	}
	return -1;
}

/* Whether the frame pointer of step @i is saved where that of the call inside of step @at points. */
static bool is_chained(const struct walk *walk, unsigned int i, unsigned int at)
{
	uintptr_t pointer = at ? walk->steps[at - 1].pointer : walk->base;

	return (!at || frame_start(walk, at - 1) >= 0) && read_stack(pointer) == walk->steps[i].pointer;
}

/* Which call inside of step @i has saved its frame pointer: the outermost that did. */
static struct outward find_saved(const struct walk *walk, unsigned int i, int start)
{
	struct outward outward = { .known = true, .pointed = true, .start = (unsigned int)start };

	for (unsigned int back = 0; back <= i; back++) {
		outward.back = back;
		outward.saved = 0;
		if (is_chained(walk, i, i - back))
			return outward;
		for (unsigned int words = 1; words <= WORDS_MOST; words++) {
			uintptr_t addr = walk->steps[i - back].place - words * WORD;

			outward.saved = words;
			if (addr > walk->base && read_stack(addr) == walk->steps[i].pointer)
				return outward;
		}
	}
	return (struct outward){ .known = true, .varies = true };
}

/* Where the return address of step @i is, from the one inside of it. */
static struct outward find_outward(const struct walk *walk, unsigned int i)
{
	uintptr_t inner = i ? walk->steps[i - 1].place : walk->base;
	int start = i ? frame_start(walk, i - 1) : -1;

	if (start >= 0)
		return find_saved(walk, i - 1, start);
	return (struct outward){ .known = true, .distance = walk->steps[i].place - inner };
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

/* What another walk has found in another place is left to the unwinder from now on. */
REQUIRES(steps_lock)
static bool set_outward(struct step *step, struct outward outward)
{
	uint64_t known = atomic_load_explicit(&step->outward, memory_order_relaxed);

	if (known && known != pack_outward(outward))
		outward = (struct outward){ .known = true, .varies = true };
	atomic_store_explicit(&step->outward, pack_outward(outward), memory_order_release);
	return !outward.varies;
}

REQUIRES(steps_lock)
static struct step *add_step(struct step *inner, struct outward outward, uintptr_t pc)
{
	struct step *_Atomic *bucket = bucket_of_step(inner, pc);
	struct step *step = find_step(inner, pc);

	if (!set_outward(inner, outward))
		return NULL;
	if (step || steps_count >= STEPS_MOST)
		return step;
	steps_count++;
	step = g_new0(struct step, 1);
	step->inner = inner;
	step->pc = pc;
	step->next = atomic_load_explicit(bucket, memory_order_relaxed);
	atomic_store_explicit(bucket, step, memory_order_release);
	return step;
}

static void keep_steps(const struct walk *walk, const struct call *calls)
{
	struct step *step = &root;

	lock_acquire(&steps_lock);
	for (unsigned int i = 0; i < walk->count && step; i++)
		step = add_step(step, find_outward(walk, i), walk->steps[i].pc);
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
	if (G_UNLIKELY(!calls))
		calls = unwind(base, inside);
	/* No jump instead of that call: the frame, with the frame pointer that it has saved, stays meanwhile. */
	__asm__ volatile("" : "+r" (calls));
	return calls;
}
