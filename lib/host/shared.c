// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams that are stopped, host memory, and the CPU's view of addresses that it has in common with a device. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/forks.h"
#include "host/opened.h"
#include "host/shared.h"
#include "host/space.h"
#include "host/streams.h"
#include "util/descriptor.h"
#include "util/error.h"

/* There is nothing to remember: all streams are held back, so that no work can see a change half done. */
struct backend_gate {
	char unused;
};

static int wait_for_host_stream(int device, struct CUstream_st *stream)
{
	struct backend_event *event = host_event_create();
	int ret;

	ret = host_event_record(device, event, stream);
	if (!ret)
		ret = host_event_sync(event);
	host_event_unref(event);
	return ret;
}

void host_op_gate_open(struct backend *be, struct backend_gate *gate)
{
	(void)be;
	host_acquire(&host_streams_lock);
	host_queue_unhold();
	lock_release(&host_streams_lock);
	g_free(gate);
}

static int make_shared_file(size_t size, int *fd)
{
	*fd = descriptor_raise(memfd_create("vpmm-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (*fd < 0)
		return error_set(errno == EMFILE ? -EMFILE : -ENOMEM, "memfd_create for host memory: %s",
				 g_strerror(errno));
	if (descriptor_may_have(*fd, size) && !ftruncate(*fd, (off_t)size) &&
	    !fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return 0;
	error_set(-ENOMEM, "host memory of %zu bytes: %s", size, g_strerror(errno));
	close(*fd);
	return -ENOMEM;
}

static void *at_address(uint64_t va)
{
	return (void *)(uintptr_t)va;
}

int host_op_host_create(struct backend *be, size_t size, uint64_t *handle)
{
	struct backend_export made = { .type = BACKEND_HANDLES_FD };
	int ret = host_check_there(be, "host_create");

	if (!ret && (!size || size % HOST_GRANULARITY))
		ret = error_set(-EINVAL, "host_create: %zu bytes are not a multiple of the granularity of %zu bytes",
				size, HOST_GRANULARITY);
	if (!ret)
		ret = make_shared_file(size, &made.fd);
	if (ret)
		return ret;
	/* To the space it is as another process's memory: none of the device. */
	ret = host_space_import(host_backend(be)->space, &made, size, handle);
	close(made.fd);
	return ret;
}

int host_shared_protect(struct backend *be, uint64_t va, size_t size)
{
	(void)be;
	return mprotect(at_address(va), size, PROT_READ) ?
	       error_set(-ENOMEM, "mappings: the kernel refused mprotect of %zu bytes at %#" PRIx64 ": %s",
			 size, va, g_strerror(errno)) : 0;
}

int host_op_room(struct backend *be, uint64_t va, size_t size, uint64_t *at)
{
	int ret = host_check_there(be, "room");

	(void)va;
	return ret ? ret : host_space_find(size, HOST_GRANULARITY, at);
}

void host_op_room_end(struct backend *be, uint64_t va, size_t size, uint64_t at)
{
	(void)be;
	(void)va;
	munmap(at_address(at), size);
}

/* With an old size of 0 the kernel maps shared memory once more. */
int host_op_show(struct backend *be, uint64_t at, uint64_t from, size_t size)
{
	int ret = host_check_there(be, "show");

	if (ret)
		return ret;
	if (mremap(at_address(from), 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, at_address(at)) == MAP_FAILED)
		return error_set(-ENOMEM, "mappings: the kernel refused mremap of %zu bytes to %#" PRIx64
				 ": %s", size, at, g_strerror(errno));
	madvise(at_address(at), size, MADV_DONTFORK);
	return 0;
}

int host_op_stream_create(struct backend *be, struct CUstream_st **stream)
{
	int ret = host_check_there(be, "stream_create");

	if (!ret)
		*stream = host_stream_create(host_device_ordinal(host_backend(be)->dev));
	return ret;
}

void host_op_stream_destroy(struct backend *be, struct CUstream_st *stream)
{
	/* A reset has destroyed it. */
	if (!host_backend(be)->gone)
		host_stream_destroy(stream);
}

int host_op_gate(struct backend *be, struct CUstream_st *const *streams, size_t count, struct backend_gate **gate)
{
	int ret = host_check_there(be, "gate");

	for (size_t i = 0; i < count && !ret; i++)
		ret = wait_for_host_stream(host_device_ordinal(host_backend(be)->dev), streams[i]);
	if (ret)
		return ret;
	/* Work that another thread has submitted since may be running, but none that it submits from now on begins. */
	host_acquire(&host_streams_lock);
	host_queue_hold();
	lock_release(&host_streams_lock);
	*gate = g_new0(struct backend_gate, 1);
	return 0;
}
