// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "torch/torch-fixture.h"

struct torch_calls torch;

static jmp_buf thrown_to;
static char *thrown;

/* c10::detail::torchCheckFail(), which throws. The object finds it by this name. */
void _ZN3c106detail14torchCheckFailEPKcS2_jS2_(const char *function, const char *file, uint32_t line, const char *text)
	__attribute__((noreturn));
void _ZN3c106detail14torchCheckFailEPKcS2_jS2_(const char *function, const char *file, uint32_t line, const char *text)
{
	g_assert_true(g_str_equal(function, "vpmm_torch_alloc") || g_str_equal(function, "vpmm_torch_memory_fraction"));
	g_assert_cmpstr(file, ==, "lib/torch/raise.c");
	g_assert_cmpuint(line, >, 0);
	g_free(thrown);
	thrown = g_strdup(text);
	longjmp(thrown_to, 1);
}

int torch_free_fails;

/* The object's calls come here, as a program stands before its libraries. The host backend has no such failure. */
int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	static __typeof__(&vpmm_free) real;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "vpmm_free");
	return torch_free_fails ? -torch_free_fails : real(pool, ptr, stream);
}

unsigned int torch_looks;

#define COUNTED(name, params, args) \
	int name params \
	{ \
		static __typeof__(&name) real; \
		\
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		torch_looks++; \
		return real args; \
	}

COUNTED(vpmm_pool_stats, (struct vpmm_pool *pool, struct vpmm_stats *stats), (pool, stats))
COUNTED(vpmm_pool_trim, (struct vpmm_pool *pool, size_t keep, size_t *released), (pool, keep, released))

void torch_open(void)
{
	void *object = dlopen("lib/.libs/libvpmm-torch.so", RTLD_NOW | RTLD_LOCAL);

	if (!object && !g_file_test("lib/.libs/libvpmm-torch.so", G_FILE_TEST_EXISTS)) {
		puts("1..0 # SKIP built without a shared object");
		exit(0);
	}
	if (!object)
		g_error("%s", dlerror());
#define X(name) \
	*(void **)&torch.name = dlsym(object, #name); \
	g_assert_nonnull(torch.name);
	TORCH_CALLS(X)
#undef X
}

const char *torch_try(void **ptr, ssize_t size, int device, struct CUstream_st *stream)
{
	if (setjmp(thrown_to))
		return thrown;
	*ptr = torch.vpmm_torch_alloc(size, device, stream);
	return NULL;
}

const char *torch_try_fraction(double fraction, int device)
{
	if (setjmp(thrown_to))
		return thrown;
	torch.vpmm_torch_memory_fraction(fraction, device);
	return NULL;
}

char *torch_new(size_t size, int device, struct CUstream_st *stream)
{
	const char *text;
	void *ptr = NULL;

	text = torch_try(&ptr, (ssize_t)size, device, stream);
	g_assert_null(text);
	g_assert_nonnull(ptr);
	return ptr;
}

struct vpmm_torch_counts torch_counts(int device)
{
	struct vpmm_torch_counts counts = { .size = sizeof(counts) };

	g_assert_cmpint(torch.vpmm_torch_counts(device, &counts), ==, 0);
	return counts;
}

struct vpmm_stats torch_stats(int device)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(torch.vpmm_torch_stats(device, &stats));
	return stats;
}
