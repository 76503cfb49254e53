// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The doors of those who look the driver's calls up: dlsym(), and the driver's own resolver, by which the CUDA runtime
 * finds everything else. What the driver has answered says which call is meant, whatever name, version and flags it was
 * asked for by.
 *
 * What dlsym() finds for RTLD_NEXT depends on who calls it, and that it learns from its return address. So ours decides
 * which function is to answer, and jumps there with the arguments and the return address as they came. Called instead,
 * the real one would take us for the caller, and an interposer behind us would be handed its own function. All of that
 * may run before the runtime of a sanitizer is ready, hence NOT_SANITIZED.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "preload/driver.h"
#include "preload/real.h"
#include "preload/settings.h"

static void *const hooks[COPIES_END] = {
#define X(name, args) [CALL_##name] = (void *)(name),
	PRELOAD_HOOKS(X)
	PRELOAD_COPIES(X)
#undef X
};

/* What is only watched, or passes the gate, is left alone where there is neither, so that it costs nothing. */
static size_t hooks_in_use(void)
{
	return settings()->monitor || settings()->pausable ? WATCHED : HOOKS;
}

static void *hook_of(enum preload_call call)
{
	return call < COPIES_END ? hooks[call] : submission_hook(call - COPIES_END);
}

/* The hook, if @address is a call of libcuda.so.1 that has one; else @address. */
static void *door_hook(void *address)
{
	enum preload_call call;

	if (!address || !driver_is_loaded())
		return address;
	for (call = 0; call < hooks_in_use(); call++)
		if (driver_is(call, address))
			return hook_of(call);
	return address;
}

static bool door_is_hook(const void *address)
{
	enum preload_call call;

	for (call = 0; call < WATCHED; call++)
		if (address == hook_of(call))
			return true;
	return false;
}

static drv_result hooked(drv_result result, void **call)
{
	if (!result && call && settings()->on)
		*call = door_hook(*call);
	return result;
}

drv_result cuGetProcAddress(const char *name, void **call, int version, drv_u64 flags)
{
	return hooked(FORWARD(cuGetProcAddress, name, call, version, flags), call);
}

drv_result cuGetProcAddress_v2(const char *name, void **call, int version, drv_u64 flags, drv_enum *status)
{
	return hooked(FORWARD(cuGetProcAddress_v2, name, call, version, flags, status), call);
}

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
