// SPDX-License-Identifier: LGPL-2.1-or-later
/* A walk of the calls of a thread gives what the unwinder does, and does not ask it for a stack that it has seen. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

#include "support/fixture.h"
#include "trace/frames.h"

#define DEEP 40

static atomic_uint unwinds;

static _Unwind_Reason_Code (*real)(_Unwind_Trace_Fn fn, void *data);

/* In front of the unwinder's own, and so called by the walk. */
_Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn fn, void *data)
{
	atomic_fetch_add(&unwinds, 1);
	return real(fn, data);
}

/* Room on the stack that depends on the data, and old contents of it. */
static __attribute__((noinline)) void use_room(volatile char *room, size_t size)
{
	for (size_t i = 0; i < size; i++)
		room[i] = (char)i;
}

/*
 * What both call stands in front of the caller, and may be a sanitizer's backtrace(). From the caller on all are the
 * same.
 */
static __attribute__((noinline)) void compare(void)
{
	void *caller = __builtin_return_address(0), *pcs[2 * FRAMES_MOST];
	int n = backtrace(pcs, G_N_ELEMENTS(pcs)), first = 0;
	struct frame frames[FRAMES_MOST];
	unsigned int count = frames_list(frames_native(), frames);

	while (first < n && pcs[first] != caller)
		first++;
	g_assert_cmpint(first, <, n);
	g_assert_cmpuint(count, ==, MIN(n - first + 1, FRAMES_MOST));
	for (unsigned int i = 1; i < count; i++) {
		g_assert_true(frames[i].pc == (uintptr_t)pcs[first + (int)i - 1]);
		g_assert_null(frames[i].text);
	}
}

static void go(unsigned int path, unsigned int depth);

/* A frame with a start that depends on where the stack is. */
static __attribute__((noinline)) void go_aligned(unsigned int path, unsigned int depth)
{
	_Alignas(64) volatile char room[64];

	use_room(room, sizeof(room));
	go(path, depth);
	use_room(room, 1);
}

/* A chain of calls that the bits of @path choose. */
static __attribute__((noinline)) void go(unsigned int path, unsigned int depth)
{
	size_t size = 16 + (path & 3) * 40;
	volatile char *room = g_alloca(size);

	use_room(room, size);
	if (!depth)
		compare();
	else if (path & 4)
		go(path >> 1, depth - 1);
	else if (path & 8)
		go_aligned(path >> 1, depth - 1);
	else
		go(path >> 1 ^ 0x155, depth - 1);
	use_room(room, 1);
}

static void test_same_as_unwinder(void)
{
	for (unsigned int i = 0; i < 3000; i++)
		go((unsigned int)g_test_rand_int(), i % 8);
	for (unsigned int depth = 0; depth < DEEP + FRAMES_MOST; depth += 3)
		go(0, depth);
}

/* Frames of any size and start are no reason to ask the unwinder each time. */
static void test_seen_in_any_frame(void)
{
	unsigned int before = 0;

	for (unsigned int i = 0; i < 2000; i++) {
		if (i == 1000)
			before = atomic_load(&unwinds);
		go(i % 1000 * 2654435761u >> 16, i % 6);
	}
#if defined(__x86_64__) || defined(__aarch64__)
	g_assert_cmpuint(atomic_load(&unwinds) - before, <, 100);
#endif
	g_assert_cmpuint(before, >, 0);
}

static void *walk_in_thread(void *data)
{
	for (unsigned int i = 0; i < 500; i++)
		go(i * 2654435761u >> 20, i % 5);
	return data;
}

static void test_threads(void)
{
	GThread *threads[4];

	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("walk", walk_in_thread, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
}

static void test_seen(void)
{
	volatile unsigned int times = 10;	/* so that it stays a loop, which calls from one place */
	const struct call *seen[10];
	unsigned int unwound[10];

	for (unsigned int i = 0; i < times; i++) {
		seen[i] = frames_native();
		unwound[i] = atomic_load(&unwinds);
	}
	g_assert_cmpuint(unwound[0], >, 0);
	for (unsigned int i = 1; i < 10; i++) {
		g_assert_true(seen[i] == seen[0]);
#if defined(__x86_64__) || defined(__aarch64__)
		g_assert_cmpuint(unwound[i], ==, unwound[0]);
#endif
	}
}

/* On a stack that is not the thread's nothing beyond its end is read. */
static ucontext_t outside, inside;

static void run_inside(void)
{
	for (unsigned int i = 0; i < 20; i++)
		go(i, i % 4);
}

static void test_coroutine(void)
{
	size_t size = 256 << 10;
	char *stack = g_malloc(size);

	g_assert_cmpint(getcontext(&inside), ==, 0);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = size;
	inside.uc_link = &outside;
	makecontext(&inside, run_inside, 0);
	g_assert_cmpint(swapcontext(&outside, &inside), ==, 0);
	g_free(stack);
}

static void test_shared_parts(void)
{
	const struct frame a = { .pc = 1 }, b = { .pc = 2 }, c = { .text = "c (file:1)" };
	const struct call *ab = frames_add(frames_add(&frames_none, a), b), *full = ab;
	struct frame frames[FRAMES_MOST];

	g_assert_true(frames_add(frames_add(&frames_none, a), b) == ab);
	g_assert_true(frames_add(frames_add(&frames_none, b), a) != ab);
	g_assert_cmpuint(frames_list(frames_add(ab, c), frames), ==, 3);
	g_assert_true(frames[0].pc == 1 && frames[1].pc == 2 && frames[2].text == c.text);
	g_assert_cmpuint(frames_list(&frames_none, frames), ==, 0);
	for (unsigned int i = 0; i < 2 * FRAMES_MOST; i++)
		full = frames_add(full, a);
	g_assert_cmpuint(frames_list(full, frames), ==, FRAMES_MOST);
}

int main(int argc, char **argv)
{
	*(void **)&real = dlsym(RTLD_NEXT, "_Unwind_Backtrace");
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/frames/shared-parts", test_shared_parts);
	g_test_add_func("/frames/seen", test_seen);
	g_test_add_func("/frames/same-as-unwinder", test_same_as_unwinder);
	g_test_add_func("/frames/seen-in-any-frame", test_seen_in_any_frame);
	g_test_add_func("/frames/threads", test_threads);
	g_test_add_func("/frames/coroutine", test_coroutine);
	return g_test_run();
}
