// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The door of those who look the driver's calls up: dlsym().
 *
 * What dlsym() finds for RTLD_NEXT depends on who calls it, and that it learns from its return address. So ours decides
 * which function is to answer, and jumps there with the arguments and the return address as they came. Called instead,
 * the real one would take us for the caller, and an interposer behind us would be handed its own function.
 *
 * All of this may run before the runtime of a sanitizer is ready, hence NOT_SANITIZED.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "preload/doors.h"
#include "preload/driver.h"
#include "preload/real.h"
#include "preload/settings.h"

dlsym_fn *dlsym_route(void *handle, const char *name, const void *caller) __attribute__((visibility("hidden"), used));

static NOT_SANITIZED bool is_driver_name(const char *name)
{
	return name && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

/* libvpmm itself has no hooks of ours, whoever has loaded it. */
static bool is_libvpmm(const void *caller)
{
	const char *file;
	Dl_info info;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return false;
	file = strrchr(info.dli_fname, '/');
	file = file ? file + 1 : info.dli_fname;
	return !strncmp(file, "libvpmm.so", strlen("libvpmm.so"));
}

/* What the program would find without us. */
static void *look_behind(void *handle, const char *name)
{
	(void)handle;
	return real_dlsym(RTLD_NEXT, name);
}

/* A program that looks for a call to know whether there is one is not to find ours, which would only fail. */
static bool has_nothing_behind(const char *name)
{
	return !driver_is_loaded() || driver_lacks(name);
}

static void *look_and_hook(void *handle, const char *name)
{
	void *found = real_dlsym_next()(handle, name);

	if (door_is_hook(found) && has_nothing_behind(name))
		return look_behind(handle, name);
	return door_hook(found);
}

NOT_SANITIZED dlsym_fn *dlsym_route(void *handle, const char *name, const void *caller)
{
	if (!is_driver_name(name) || handle == RTLD_NEXT)
		return real_dlsym_next();
	/* Our own exports answer this, unless there is nothing behind them. */
	if (handle == RTLD_DEFAULT)
		return has_nothing_behind(name) ? look_behind : real_dlsym_address();
	if (!settings()->on)
		return real_dlsym_next();
	if (is_libvpmm(caller))
		return driver_find;
	/* What stands behind us would be handed its own function, by way of ours. */
	return driver_is_loaded() && driver_is_behind(caller) ? real_dlsym_next() : look_and_hook;
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	movq 24(%rsp), %rdx\n"
	"	call dlsym_route\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, %function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	hint 34\n"
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_def_cfa_offset 32\n"
	"	.cfi_offset 29, -32\n"
	"	.cfi_offset 30, -24\n"
	"	stp x0, x1, [sp, #16]\n"
	"	mov x2, x30\n"
	"	bl dlsym_route\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_restore 29\n"
	"	.cfi_restore 30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n");
#else
/* Where the compiler makes no jump of it, RTLD_NEXT finds our own functions once more. */
void *dlsym(void *handle, const char *name)
{
	return dlsym_route(handle, name, __builtin_return_address(0))(handle, name);
}
#endif
