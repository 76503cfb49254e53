// SPDX-License-Identifier: LGPL-2.1-or-later
/* The handler of SIGSEGV. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "shared/handler.h"
#include "shared/touch.h"
#include "util/error.h"

#ifdef __aarch64__
#include <asm/sigcontext.h>
#endif

#define WATCHED 1024

/* The addresses of ranges. The handler reads them without a lock. */
static struct {
	_Atomic uint64_t at;
	_Atomic uint64_t size;
} watched[WATCHED];
static _Atomic uint32_t wakes;
static _Atomic uint64_t left;		/* by handler_leave(): the address, with TOUCH_WRITE; 0: none */
static _Atomic int news = -1;
static struct sigaction before;
static bool handling;

static bool is_watched(uint64_t addr)
{
	for (unsigned int i = 0; i < WATCHED; i++) {
		uint64_t at = atomic_load(&watched[i].at);

		if (at && addr - at < atomic_load(&watched[i].size))
			return true;
	}
	return false;
}

int handler_watch(uint64_t at, size_t size)
{
	for (unsigned int i = 0; i < WATCHED; i++) {
		if (watched[i].at)
			continue;
		atomic_store(&watched[i].size, size);
		atomic_store(&watched[i].at, at);
		return 0;
	}
	return error_set(-ENOMEM, "without userfaultfd a process can have %d shared ranges, and has them", WATCHED);
}

void handler_unwatch(uint64_t at)
{
	for (unsigned int i = 0; i < WATCHED; i++) {
		if (watched[i].at == at)
			atomic_store(&watched[i].at, 0);
	}
}

/*
 * Somebody else's fault is the business of who had the signal before, or ends the program as it would have. A fault
 * happens again when the handler returns; a signal that was sent does not, and only such a one can be ignored.
 */
static void pass_on(int number, siginfo_t *info, void *context)
{
	bool sent = info->si_code <= 0;

	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(number, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(number);
	} else if (before.sa_handler == SIG_DFL || !sent) {
		signal(number, SIG_DFL);
		if (sent)
			raise(number);
	}
}

/* The processor's description of a fault. A fault without one counts as a write, for which any page comes back. */
#ifdef __x86_64__
#define IS_WRITE(syndrome) ((syndrome) & 2)
#define IS_FETCH(syndrome) ((syndrome) & 16)
#else
#define WRITE_BIT (1 << 6)
#define IS_WRITE(syndrome) ((syndrome) & WRITE_BIT)
#define IS_FETCH(syndrome) (((syndrome) >> 26 & 0x3f) == 0x20)
#endif

static uint64_t find_syndrome(const void *context)
{
#ifdef __x86_64__
	return (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
#elif defined(__aarch64__)
	/* Records follow one another. */
	const void *record = ((const ucontext_t *)context)->uc_mcontext.__reserved;
	const struct _aarch64_ctx *head;

	for (head = record; head->magic && head->size; head = record) {
		if (head->magic == ESR_MAGIC)
			return ((const struct esr_context *)record)->esr;
		record = (const char *)record + head->size;
	}
	return WRITE_BIT;
#else
	(void)context;
	return WRITE_BIT;
#endif
}

static bool take_left(uint64_t addr)
{
	return atomic_compare_exchange_strong(&left, &addr, 0);
}

/* Queues the address, sleeps until anything has moved, and has the touch tried again. */
static bool serve_fault(uint64_t addr)
{
	const struct timespec while_moving = { .tv_nsec = 1000000 };
	uint32_t seen = atomic_load(&wakes);
	int saved = errno;

	/* It may be there since an earlier touch of the address, which says nothing of this one. */
	take_left(addr);
	if (write(news, &addr, sizeof(addr)) == (ssize_t)sizeof(addr))
		syscall(SYS_futex, &wakes, FUTEX_WAIT_PRIVATE, seen, &while_moving, NULL, 0);
	errno = saved;
	return !take_left(addr);
}

/* A range has no code, so that a jump there is the program's own fault, wherever the page is. */
static void handle(int number, siginfo_t *info, void *context)
{
	uint64_t addr = (uintptr_t)info->si_addr, syndrome;

	if (info->si_code == SEGV_ACCERR && is_watched(addr)) {
		syndrome = find_syndrome(context);
		addr = (addr & ~TOUCH_WRITE) | (IS_WRITE(syndrome) ? TOUCH_WRITE : 0);
		if (!IS_FETCH(syndrome) && serve_fault(addr))
			return;
	}
	pass_on(number, info, context);
}

int handler_begin(int to)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

	news = to;
	sigemptyset(&action.sa_mask);
	/* The handler may run before the call that installs it has returned. */
	if (!handling && (sigaction(SIGSEGV, NULL, &before) || sigaction(SIGSEGV, &action, NULL)))
		return error_set(-ENOTSUP, "the CPU's touch of a shared range cannot be noticed: the kernel allows no "
				 "userfaultfd, and no handler: %s", g_strerror(errno));
	handling = true;
	return 0;
}

void handler_end(void)
{
	struct sigaction now;

	if (handling && !sigaction(SIGSEGV, NULL, &now) && now.sa_sigaction == handle) {
		sigaction(SIGSEGV, &before, NULL);
		handling = false;
	}
}

void handler_wake(void)
{
	atomic_fetch_add(&wakes, 1);
	syscall(SYS_futex, &wakes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* The kernel accesses a word as the CPU would: a wait reads it, and a wake with an operation writes it unchanged. */
static bool is_stopped(uint64_t addr)
{
	const struct timespec at_once = { .tv_nsec = 0 };
	const void *word = (const void *)(uintptr_t)(addr & ~UINT64_C(3));
	long ret;

	if (addr & TOUCH_WRITE)
		ret = syscall(SYS_futex, &wakes, FUTEX_WAKE_OP_PRIVATE, 0, NULL, word,
			      FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_NE, 0));
	else
		ret = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &at_once, NULL, 0);
	return ret < 0 && errno == EFAULT;
}

void handler_leave(uint64_t addr)
{
	if (is_stopped(addr))
		atomic_store(&left, addr);
}
