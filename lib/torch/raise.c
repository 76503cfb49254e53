// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Throws from C, by a function that throws. The file is compiled with -fexceptions, and so is every other that can be
 * on the stack then: what they hold, they give up before.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "torch/raise.h"
#include "vpmm.h"

/* The exception has a copy of the text. */
#define TEXT 2048

/*
 * c10::Error::Error(c10::SourceLocation, std::string), and the type that is torch.OutOfMemoryError. Its destructor,
 * which need not have a name of its own, is the first of its virtual functions, behind two words.
 */
#define ERROR_NEW "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define ERROR_TYPE "_ZTIN3c1016OutOfMemoryErrorE"
#define ERROR_TABLE "_ZTVN3c1016OutOfMemoryErrorE"
#define TABLE_HEAD 2
/* More than it has members. */
#define ERROR_ROOM 1024
/* c10::detail::torchCheckFail(char const *, char const *, unsigned int, char const *) */
#define CHECK_FAIL "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
/* c10::cuda::c10_cuda_check_implementation(int, char const *, char const *, unsigned int, bool) */
#define CUDA_CHECK "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb"
#define CUDA_ERROR_MEMORY 2
/* std::__throw_bad_alloc() */
#define BAD_ALLOC "_ZSt17__throw_bad_allocv"

/* Python loads PyTorch's objects out of reach of a search in all of them, so each is asked for by its name. */
static void *find_symbol(const char *object, const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name), *library;

	if (found)
		return found;
	library = dlopen(object, RTLD_LAZY | RTLD_NOLOAD);
	if (library)
		found = dlsym(library, name);
	/* The program is not to be told of a lookup of ours. */
	dlerror();
	return found;
}

/* c10::SourceLocation, which PyTorch shows where TORCH_SHOW_CPP_STACKTRACES=1. */
struct location {
	const char *function;
	const char *file;
	uint32_t line;
};

/* std::string of libstdc++, since its version of 2015. */
struct string {
	char *text;
	size_t length;
	union {
		char local[16];
		size_t room;
	};
};

/*
 * Throws c10::OutOfMemoryError, which nothing in PyTorch throws on demand: made as a c10::Error, as that has no members
 * of its own, with the virtual functions of its type. Each part is named with its types, so a PyTorch where they are
 * others has no such part.
 */
static void throw_exhausted(const char *text, struct location where)
{
	void (*construct)(void *error, struct location where, struct string *text);
	void (*throw)(void *error, void *type, void (*end)(void *error));
	void *(*allocate)(size_t size);
	void *(*new)(size_t size);
	void (*delete)(void *memory);
	void **table;
	size_t length = strlen(text);
	struct string message;
	void *type, *error;

	*(void **)&construct = find_symbol("libc10.so", ERROR_NEW);
	type = find_symbol("libc10_cuda.so", ERROR_TYPE);
	table = find_symbol("libc10_cuda.so", ERROR_TABLE);
	*(void **)&allocate = find_symbol("libstdc++.so.6", "__cxa_allocate_exception");
	*(void **)&throw = find_symbol("libstdc++.so.6", "__cxa_throw");
	*(void **)&new = find_symbol("libstdc++.so.6", "_Znwm");
	*(void **)&delete = find_symbol("libstdc++.so.6", "_ZdlPv");
	if (!construct || !type || !table || !allocate || !throw || !new || !delete)
		return;
	/* The exception takes the text over, and leaves an empty one behind, or a copy that is given back. */
	message.text = new(length + 1);
	memcpy(message.text, text, length + 1);
	message.length = length;
	message.room = length;
	error = allocate(ERROR_ROOM);
	construct(error, where, &message);
	if (message.text != message.local)
		delete(message.text);
	table += TABLE_HEAD;
	*(void ***)error = table;
	throw(error, type, *(void (**)(void *))table);
}

static void throw_text(const char *text, const char *function, uint32_t line, bool exhausted)
{
	struct location where = { .function = function, .file = "lib/torch/raise.c", .line = line };
	void (*check_fail)(const char *function, const char *file, uint32_t line, const char *message);
	void (*cuda_check)(int error, const char *file, const char *function, uint32_t line, bool sync);
	void (*bad_alloc)(void);

	if (exhausted)
		throw_exhausted(text, where);
	*(void **)&check_fail = find_symbol("libc10.so", CHECK_FAIL);
	if (check_fail)
		check_fail(where.function, where.file, where.line, text);
	*(void **)&cuda_check = exhausted ? find_symbol("libc10_cuda.so", CUDA_CHECK) : NULL;
	if (cuda_check)
		cuda_check(CUDA_ERROR_MEMORY, where.file, where.function, where.line, false);
	*(void **)&bad_alloc = find_symbol("libstdc++.so.6", BAD_ALLOC);
	if (bad_alloc)
		bad_alloc();
}

/* As PyTorch's own message has it. */
static const char *write_amount(char *text, size_t room, size_t bytes)
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

void raise_exhausted(size_t size, int device, size_t limit)
{
	char text[TEXT], wanted[32], most[32], allowed[128] = "";

	if (limit)
		snprintf(allowed, sizeof(allowed), ", of which set_per_process_memory_fraction() allows %s",
			 write_amount(most, sizeof(most), limit));
	snprintf(text, sizeof(text), "CUDA out of memory. Tried to allocate %s on GPU %d%s. %s",
		 write_amount(wanted, sizeof(wanted), size), device, allowed, vpmm_last_error());
	throw_text(text, "vpmm_torch_alloc", __LINE__, true);
}

void raise_failed(size_t size, int device, const char *reason)
{
	char text[TEXT];

	snprintf(text, sizeof(text), "libvpmm-torch: %zu bytes on GPU %d: %s", size, device, reason);
	throw_text(text, "vpmm_torch_alloc", __LINE__, false);
}

void raise_fraction(int device, const char *reason)
{
	char text[TEXT];

	snprintf(text, sizeof(text), "libvpmm-torch: memory fraction of GPU %d: %s", device, reason);
	throw_text(text, "vpmm_torch_memory_fraction", __LINE__, false);
}
