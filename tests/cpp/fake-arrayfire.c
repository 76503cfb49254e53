// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * As much of ArrayFire as a memory manager sees: it is called for each array, and told when ArrayFire and the program
 * have done with one. At the end it also does what the example does not, and says what was wrong.
 */
#define AF_DEFINE_CUDA_TYPES
#include <arrayfire.h>
#include <af/cuda.h>
#include <af/memory.h>

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vpmm-host.h>
#include <vpmm.h>

#define AF_CALL_FIELD(name, arguments) af_memory_manager_##name##_fn name;
static struct manager {
	AF_MEMORY_MANAGER_CALLS(AF_CALL_FIELD)
} *current;

#define AF_DEFINE_SETTER(name, arguments) \
	af_err af_memory_manager_set_##name##_fn(af_memory_manager manager, af_memory_manager_##name##_fn fn) \
	{ \
		((struct manager *)manager)->name = fn; \
		return AF_SUCCESS; \
	}
AF_MEMORY_MANAGER_CALLS(AF_DEFINE_SETTER)

static cudaStream_t stream;
static unsigned int native_frees;

static void check(int good, const char *what)
{
	if (!good) {
		printf("not so: %s\n", what);
		exit(1);
	}
}

af_err af_create_memory_manager(af_memory_manager *out)
{
	*out = calloc(1, sizeof(struct manager));
	return AF_SUCCESS;
}

af_err af_release_memory_manager(af_memory_manager manager)
{
	free(manager);
	return AF_SUCCESS;
}

#define AF_CHECK_SET(name, arguments) check(current->name != NULL, #name " is set");
af_err af_set_memory_manager(af_memory_manager manager)
{
	current = manager;
	AF_MEMORY_MANAGER_CALLS(AF_CHECK_SET)
	check(!vpmm_host_stream_create(&stream), "a stream");
	return current->initialize(manager);
}

af_err af_memory_manager_get_active_device_id(af_memory_manager manager, int *id)
{
	(void)manager;
	*id = 0;
	return AF_SUCCESS;
}

af_err afcu_get_stream(cudaStream_t *out, int id)
{
	(void)id;
	*out = stream;
	return AF_SUCCESS;
}

af_err af_memory_manager_native_free(af_memory_manager manager, void *ptr)
{
	(void)manager;
	free(ptr);
	native_frees++;
	return AF_SUCCESS;
}

af_err af_randu(af_array *out, const unsigned ndims, const dim_t *const dims, const af_dtype type)
{
	dim_t copy[4];

	(void)type;
	memcpy(copy, dims, ndims * sizeof(*dims));
	return current->alloc(current, out, 0, ndims, copy, 4);
}

af_err af_release_array(af_array array)
{
	return current->unlock(current, array, 0);
}

af_err af_get_device_ptr(void **ptr, const af_array array)
{
	*ptr = array;
	return current->user_lock(current, array);
}

af_err af_free_device_v2(void *ptr)
{
	return current->user_unlock(current, ptr);
}

af_err af_print_mem_info(const char *message, const int device)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", message);
	return current->print_info(current, copy, device == -1 ? 0 : device);
}

static int is_locked(void *ptr)
{
	int locked;

	check(!current->is_user_locked(current, &locked, ptr), "is_user_locked");
	return locked;
}

static size_t size_of(void *ptr)
{
	size_t size;

	check(!current->allocated(current, &size, ptr), "allocated");
	return size;
}

/* What ArrayFire does with a memory manager besides. */
static void try_the_rest(void)
{
	dim_t dims[] = { 300, 10 }, huge[] = { LLONG_MAX, LLONG_MAX }, much[] = { 1 << 20, 1 << 20 };
	struct CUstream_st *other;
	unsigned int pending;
	void *ptr, *next;
	float pressure;
	int exceeds;

	/* The program's from the start: ArrayFire's unlock is none of its business. */
	check(!current->alloc(current, &ptr, 1, 2, dims, 4), "alloc");
	check(size_of(ptr) == 12000 && is_locked(ptr), "a block of the program");
	check(!current->unlock(current, ptr, 1) && !size_of(ptr) && !is_locked(ptr), "its unlock frees it");

	/* Locked twice and unlocked once, it is ArrayFire's again. */
	check(!current->alloc(current, &ptr, 0, 2, dims, 4), "alloc");
	check(!is_locked(ptr), "a block of ArrayFire");
	check(!current->user_lock(current, ptr) && !current->user_lock(current, ptr) && is_locked(ptr), "user_lock");
	check(!current->user_unlock(current, ptr) && !is_locked(ptr) && size_of(ptr) == 12000, "user_unlock");
	check(!current->user_unlock(current, ptr) && size_of(ptr) == 12000, "user_unlock of one that is not locked");
	check(!current->unlock(current, ptr, 0) && !size_of(ptr), "unlock");

	/* Frees are in the order of ArrayFire's stream. */
	dims[0] = 1 << 20;
	check(!vpmm_host_stream_create(&other), "a stream");
	check(!current->alloc(current, &ptr, 0, 2, dims, 4), "alloc");
	check(!vpmm_host_stream_submit(stream), "submit");
	check(!current->unlock(current, ptr, 0), "unlock");
	check(!vpmm_malloc(NULL, &next, 40 << 20, other) && !vpmm_host_stream_submit(other), "another stream");
	vpmm_host_stream_complete(other, UINT_MAX);
	check(!vpmm_host_stream_pending(other, &pending) && pending == 1, "who gets the memory waits");
	check(!vpmm_host_stream_complete(stream, UINT_MAX) && !vpmm_host_stream_complete(other, UINT_MAX), "complete");
	check(!vpmm_free(NULL, next, other), "free");

	/* Errors, and what is not of the pool. */
	check(current->alloc(current, &ptr, 0, 2, much, 4) == AF_ERR_NO_MEM && !ptr, "too much");
	check(current->alloc(current, &ptr, 0, 2, huge, 4) == AF_ERR_NO_MEM && !ptr, "more than there can be");
	check(!current->unlock(current, malloc(1), 0) && native_frees == 1, "memory that the program brought");
	check(!current->unlock(current, NULL, 0), "no memory");

	check(!current->get_memory_pressure(current, &pressure) && pressure >= 0 && pressure <= 1, "pressure");
	dims[0] = 300;
	check(!current->alloc(current, &ptr, 0, 2, dims, 4), "alloc");
	check(!current->jit_tree_exceeds_memory_pressure(current, &exceeds, 5000) && !exceeds, "a small expression");
	check(!current->jit_tree_exceeds_memory_pressure(current, &exceeds, 7000) && exceeds, "a large one");
	check(!current->unlock(current, ptr, 0), "unlock");
	check(!current->signal_memory_cleanup(current), "cleanup");
}

af_err af_unset_memory_manager(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	try_the_rest();
	check(!vpmm_pool_stats(NULL, &stats) && stats.requested == 0, "nothing is left");
	return current->shutdown(current);
}
