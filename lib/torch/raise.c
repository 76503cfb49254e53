// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Throws from C, by a function that throws. The file is compiled with -fexceptions, and so is every other that can be on
 * the stack then: what they hold, they give up before.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "torch/raise.h"
#include "vpmm.h"

/* The exception has a copy of the text. */
#define TEXT 2048

/* c10::detail::torchCheckFail(char const *, char const *, unsigned int, char const *) */
#define CHECK_FAIL "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
/* c10::cuda::c10_cuda_check_implementation(int, char const *, char const *, unsigned int, bool) */
#define CUDA_CHECK "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb"
#define CUDA_ERROR_MEMORY 2
/* std::__throw_bad_alloc() */
#define BAD_ALLOC "_ZSt17__throw_bad_allocv"

/* Python loads PyTorch's objects out of reach of a search in all of them, so each is asked for by its name. */
static void *find(const char *object, const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name), *library;

	if (found)
		return found;
	library = dlopen(object, RTLD_LAZY | RTLD_NOLOAD);
	return library ? dlsym(library, name) : NULL;
}

/* @line: of this file, which PyTorch shows where TORCH_SHOW_CPP_STACKTRACES=1 */
static void throw_text(const char *text, unsigned int line, bool exhausted)
{
	void (*check_fail)(const char *function, const char *file, uint32_t line, const char *message);
	void (*cuda_check)(int error, const char *file, const char *function, uint32_t line, bool sync);
	void (*bad_alloc)(void);

	*(void **)&check_fail = find("libc10.so", CHECK_FAIL);
	if (check_fail)
		check_fail("vpmm_torch_alloc", "lib/torch/raise.c", line, text);
	*(void **)&cuda_check = exhausted ? find("libc10_cuda.so", CUDA_CHECK) : NULL;
	if (cuda_check)
		cuda_check(CUDA_ERROR_MEMORY, "lib/torch/raise.c", "vpmm_torch_alloc", line, false);
	*(void **)&bad_alloc = find("libstdc++.so.6", BAD_ALLOC);
	if (bad_alloc)
		bad_alloc();
}

/* As PyTorch's own message has it. */
static const char *amount(char *text, size_t room, size_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit < sizeof(units) / sizeof(*units) - 1) {
		value /= 1024;
		unit++;
	}
	snprintf(text, room, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
	return text;
}

void raise_exhausted(size_t size, int device)
{
	char text[TEXT], wanted[32];

	snprintf(text, sizeof(text), "CUDA out of memory. Tried to allocate %s on GPU %d. %s",
		 amount(wanted, sizeof(wanted), size), device, vpmm_last_error());
	throw_text(text, __LINE__, true);
}

void raise_limited(size_t size, int device, size_t live, size_t limit)
{
	char text[TEXT], wanted[32], is_live[32], is_limit[32];

	snprintf(text, sizeof(text),
		 "CUDA out of memory. Tried to allocate %s on GPU %d, of which set_per_process_memory_fraction() "
		 "allows %s, and %s are allocated.\ntry this: free some of that, or ask for less",
		 amount(wanted, sizeof(wanted), size), device, amount(is_limit, sizeof(is_limit), limit),
		 amount(is_live, sizeof(is_live), live));
	throw_text(text, __LINE__, true);
}

void raise_failed(size_t size, int device)
{
	char text[TEXT];

	snprintf(text, sizeof(text), "libvpmm-torch: %zu bytes on GPU %d: %s", size, device, vpmm_last_error());
	throw_text(text, __LINE__, false);
}
