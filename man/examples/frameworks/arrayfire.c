// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * ArrayFire 3.8 or later on the default pool of each device, by a memory manager of its own.
 *
 *	cc arrayfire.c $(pkg-config --cflags --libs vpmm) -lafcuda && ./a.out
 *
 * All work of ArrayFire on a device is on one stream, so blocks are allocated and freed in the order of that. A block
 * is ArrayFire's, the program's (after af_get_device_ptr() or af_lock_array()), or both; it is freed once it is
 * neither's. Blocks that are ArrayFire's alone, which are nearly all, need no record.
 */
#define AF_DEFINE_CUDA_TYPES
#include <arrayfire.h>
#include <af/cuda.h>
#include <af/memory.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <vpmm.h>

/* A block that the program has locked. */
struct locked {
	struct locked *next;
	void *ptr;
	int arrayfire_has_it;
};

static struct locked *first_locked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The link that leads to the record of a block, or to the end. With the lock held. */
static struct locked **find_locked(const void *ptr)
{
	struct locked **link = &first_locked;

	while (*link && (*link)->ptr != ptr)
		link = &(*link)->next;
	return link;
}

static af_err result_of(int error)
{
	if (!error)
		return AF_SUCCESS;
	fprintf(stderr, "%s\n", vpmm_last_error());
	return error == -ENOMEM ? AF_ERR_NO_MEM : AF_ERR_RUNTIME;
}

static af_err get_stream(af_memory_manager manager, cudaStream_t *stream)
{
	int device;
	af_err error = af_memory_manager_get_active_device_id(manager, &device);

	return error != AF_SUCCESS ? error : afcu_get_stream(stream, device);
}

static af_err user_lock(af_memory_manager manager, void *ptr)
{
	struct locked **link, *block = malloc(sizeof(*block));

	(void)manager;
	if (!block)
		return AF_ERR_NO_MEM;
	pthread_mutex_lock(&lock);
	link = find_locked(ptr);
	if (*link) {
		free(block);
	} else {
		*block = (struct locked){ .ptr = ptr, .arrayfire_has_it = 1 };
		*link = block;
	}
	pthread_mutex_unlock(&lock);
	return AF_SUCCESS;
}

/* ArrayFire, or the program if user is not 0, has done with a block. */
static af_err unlock(af_memory_manager manager, void *ptr, int user)
{
	struct vpmm_allocation found = { .size = sizeof(found) };
	struct locked **link, *block;
	cudaStream_t stream;
	int last = 1;
	af_err error;

	if (!ptr)
		return AF_SUCCESS;
	pthread_mutex_lock(&lock);
	link = find_locked(ptr);
	block = *link;
	if (block && !user) {
		block->arrayfire_has_it = 0;
		last = 0;
	} else if (block) {
		last = !block->arrayfire_has_it;
		*link = block->next;
		free(block);
	} else {
		last = !user;
	}
	pthread_mutex_unlock(&lock);
	if (!last)
		return AF_SUCCESS;

	/* A block that the program has brought along was allocated by cudaMalloc(). */
	if (vpmm_lookup(ptr, &found))
		return af_memory_manager_native_free(manager, ptr);
	error = get_stream(manager, &stream);
	return error != AF_SUCCESS ? error : result_of(vpmm_free(NULL, ptr, stream));
}

static af_err user_unlock(af_memory_manager manager, void *ptr)
{
	return unlock(manager, ptr, 1);
}

static af_err is_user_locked(af_memory_manager manager, int *out, void *ptr)
{
	(void)manager;
	pthread_mutex_lock(&lock);
	*out = *find_locked(ptr) != NULL;
	pthread_mutex_unlock(&lock);
	return AF_SUCCESS;
}

static af_err allocate(af_memory_manager manager, void **ptr, int user, const unsigned count, dim_t *dims,
		       const unsigned element_size)
{
	size_t bytes = element_size;
	cudaStream_t stream;
	af_err error;

	for (unsigned i = 0; i < count; i++) {
		if (dims[i] && bytes > SIZE_MAX / (size_t)dims[i])
			return AF_ERR_NO_MEM;
		bytes *= (size_t)dims[i];
	}
	*ptr = NULL;
	error = get_stream(manager, &stream);
	if (error == AF_SUCCESS)
		error = result_of(vpmm_malloc(NULL, ptr, bytes, stream));
	if (error != AF_SUCCESS || !user || !*ptr)
		return error;

	/* The program's from the start, and not ArrayFire's. */
	error = user_lock(manager, *ptr);
	if (error == AF_SUCCESS)
		error = unlock(manager, *ptr, 0);
	else
		vpmm_free(NULL, *ptr, stream);
	return error;
}

static af_err allocated(af_memory_manager manager, size_t *size, void *ptr)
{
	struct vpmm_allocation found = { .size = sizeof(found) };

	(void)manager;
	*size = vpmm_lookup(ptr, &found) ? 0 : found.bytes;
	return AF_SUCCESS;
}

static af_err cleanup(af_memory_manager manager)
{
	(void)manager;
	return result_of(vpmm_pool_trim(NULL, 0, NULL));
}

static af_err print_info(af_memory_manager manager, char *message, int device)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	(void)manager;
	if (vpmm_pool_stats(NULL, &stats))
		return result_of(-errno);
	printf("%s\ndevice %d: %zu MiB allocated, %zu MiB held\n", message, device, (size_t)(stats.requested >> 20),
	       (size_t)((stats.mapped + stats.small_mapped) >> 20));
	return AF_SUCCESS;
}

/* Nothing is held back for want of use, so there is nothing to gain by evaluating early on that account. */
static af_err get_memory_pressure(af_memory_manager manager, float *pressure)
{
	(void)manager;
	*pressure = 0;
	return AF_SUCCESS;
}

/* ArrayFire's own rule: an expression is evaluated once its inputs are half of what is allocated. */
static af_err jit_tree_exceeds(af_memory_manager manager, int *out, size_t bytes)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	(void)manager;
	*out = !vpmm_pool_stats(NULL, &stats) && bytes > stats.requested / 2;
	return AF_SUCCESS;
}

static af_err nothing(af_memory_manager manager)
{
	(void)manager;
	return AF_SUCCESS;
}

static void expect(const char *what, af_err error)
{
	if (error != AF_SUCCESS) {
		fprintf(stderr, "%s: error %d\n", what, (int)error);
		exit(1);
	}
}

static af_memory_manager install(void)
{
	af_memory_manager manager;

	expect("af_create_memory_manager", af_create_memory_manager(&manager));
	af_memory_manager_set_initialize_fn(manager, nothing);
	af_memory_manager_set_shutdown_fn(manager, nothing);
	af_memory_manager_set_alloc_fn(manager, allocate);
	af_memory_manager_set_allocated_fn(manager, allocated);
	af_memory_manager_set_unlock_fn(manager, unlock);
	af_memory_manager_set_signal_memory_cleanup_fn(manager, cleanup);
	af_memory_manager_set_print_info_fn(manager, print_info);
	af_memory_manager_set_user_lock_fn(manager, user_lock);
	af_memory_manager_set_user_unlock_fn(manager, user_unlock);
	af_memory_manager_set_is_user_locked_fn(manager, is_user_locked);
	af_memory_manager_set_get_memory_pressure_fn(manager, get_memory_pressure);
	af_memory_manager_set_jit_tree_exceeds_memory_pressure_fn(manager, jit_tree_exceeds);
	expect("af_set_memory_manager", af_set_memory_manager(manager));
	return manager;
}

int main(void)
{
	af_memory_manager manager = install();
	dim_t dims[] = { 1024, 1024 };
	af_array array, other;
	void *ptr;

	expect("af_randu", af_randu(&array, 2, dims, f32));
	expect("af_randu", af_randu(&other, 2, dims, f32));
	af_print_mem_info("two arrays of 4 MiB", -1);

	/* The program keeps the memory of one beyond its array. */
	expect("af_get_device_ptr", af_get_device_ptr(&ptr, array));
	expect("af_release_array", af_release_array(array));
	expect("af_release_array", af_release_array(other));
	af_print_mem_info("one that the program has locked", -1);
	expect("af_free_device_v2", af_free_device_v2(ptr));
	af_print_mem_info("none", -1);

	expect("af_unset_memory_manager", af_unset_memory_manager());
	expect("af_release_memory_manager", af_release_memory_manager(manager));
	return 0;
}
