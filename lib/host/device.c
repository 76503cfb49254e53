// SPDX-License-Identifier: LGPL-2.1-or-later
/* Host devices: how many, which one is a thread's, and the memfd that is the memory of each. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/device.h"
#include "host/ranges.h"
#include "util/descriptor.h"
#include "util/env.h"
#include "util/error.h"
#include "util/lock.h"
#include "util/text.h"

#define DEFAULT_CAPACITY ((uint64_t)80 << 30)
#define MOST_MAPPINGS 524090	/* as many as CUDA's driver */

struct host_device {
	int ordinal;
	unsigned int opens;
	uint64_t capacity;
	uint64_t used;
	uint64_t mapping_limit;
	uint64_t mappings;
	int fd;			/* one file for all memory, so that neighbours in it are one mapping to the kernel */
	uint64_t file_size;
	struct host_ranges *ranges;	/* of the file that are free */
};

static struct lock host_devices_lock = LOCK_INIT(LOCK_HOST_DEVICES);
static struct host_device *devices[HOST_DEVICES_MAX] GUARDED_BY(host_devices_lock);
static _Thread_local int current;

int host_device_count(int *count)
{
	uint64_t value;
	int ret = env_number("VPMM_HOST_DEVICES", "a number of devices", 1, &value);

	if (ret)
		return ret;
	if (!value || value > HOST_DEVICES_MAX)
		return error_set(-EINVAL, "VPMM_HOST_DEVICES is %" PRIu64 ", but must be from 1 to %d", value,
				 HOST_DEVICES_MAX);
	*count = (int)value;
	return 0;
}

int host_device_kernels(unsigned int *count)
{
	uint64_t value;
	int ret = env_number("VPMM_HOST_KERNELS", "a number of kernels", 1, &value);

	if (ret)
		return ret;
	if (!value || value > INT_MAX)
		return error_set(-EINVAL, "VPMM_HOST_KERNELS is %" PRIu64 ", but must be from 1 to %d", value,
				 INT_MAX);
	*count = (unsigned int)value;
	return 0;
}

int host_device_current(void)
{
	return current;
}

void host_device_set_current(int ordinal)
{
	current = ordinal;
}

/*
 * Each mapping may be one of the kernel's, which bounds them for the whole process: a sixteenth is left for the rest.
 */
static uint64_t default_mappings(void)
{
	uint64_t limit = MOST_MAPPINGS;
	char *text;

	if (!g_file_get_contents("/proc/sys/vm/max_map_count", &text, NULL, NULL))
		return limit;
	limit = g_ascii_strtoull(text, NULL, 10);
	g_free(text);
	return CLAMP(limit - limit / 16, 1, MOST_MAPPINGS);
}

static int read_limits(uint64_t *capacity, uint64_t *mapping_limit)
{
	int ret = env_number("VPMM_HOST_CAPACITY", "a number of bytes", DEFAULT_CAPACITY, capacity);

	if (ret)
		return ret;
	if (*capacity < HOST_GRANULARITY || *capacity > INT64_MAX)
		return error_set(-EINVAL, "VPMM_HOST_CAPACITY is %" PRIu64 " bytes, but must be from %zu to %"
				 PRId64, *capacity, HOST_GRANULARITY, INT64_MAX);
	ret = env_number("VPMM_HOST_MAPPINGS", "a number of mappings", default_mappings(), mapping_limit);
	if (ret)
		return ret;
	if (!*mapping_limit)
		return error_set(-EINVAL, "VPMM_HOST_MAPPINGS is 0, but must be at least 1");
	return 0;
}

static int device_new(int ordinal, struct host_device **dev)
{
	uint64_t capacity, mapping_limit;
	unsigned int kernels;
	int fd, ret;

	ret = read_limits(&capacity, &mapping_limit);
	/* A bad value is to be noticed here, not by the first work. */
	if (!ret)
		ret = host_device_kernels(&kernels);
	if (ret)
		return ret;
	fd = descriptor_raise(memfd_create("vpmm-host", MFD_CLOEXEC));
	if (fd < 0)
		return error_set(-ENOMEM, "memfd_create for the memory of host device %d: %s", ordinal,
				 g_strerror(errno));
	*dev = g_new0(struct host_device, 1);
	(*dev)->ordinal = ordinal;
	(*dev)->capacity = capacity;
	(*dev)->mapping_limit = mapping_limit;
	(*dev)->fd = fd;
	(*dev)->ranges = host_ranges_new();
	return 0;
}

int host_device_open(int ordinal, struct host_device **dev)
{
	int count, ret;

	ret = host_device_count(&count);
	if (ret)
		return ret;
	if (ordinal < 0 || ordinal >= count)
		return error_set(-ENODEV, "there is no host device %d: VPMM_HOST_DEVICES is %d", ordinal, count);
	lock_acquire(&host_devices_lock);
	if (!devices[ordinal])
		ret = device_new(ordinal, &devices[ordinal]);
	if (!ret) {
		devices[ordinal]->opens++;
		*dev = devices[ordinal];
	}
	lock_release(&host_devices_lock);
	return ret;
}

void host_device_close(struct host_device *dev)
{
	lock_acquire(&host_devices_lock);
	if (!--dev->opens) {
		devices[dev->ordinal] = NULL;
		close(dev->fd);
		host_ranges_destroy(dev->ranges);
		g_free(dev);
	}
	lock_release(&host_devices_lock);
}

int host_device_ordinal(const struct host_device *dev)
{
	return dev->ordinal;
}

void host_device_usage(struct host_device *dev, uint64_t *capacity, uint64_t *used, uint64_t *mapping_limit)
{
	lock_acquire(&host_devices_lock);
	*capacity = dev->capacity;
	*used = dev->used;
	*mapping_limit = dev->mapping_limit;
	lock_release(&host_devices_lock);
}

static int take_memory(struct host_device *dev, uint64_t size)
{
	lock_assert_held(&host_devices_lock);
	if (size > dev->capacity - dev->used)
		return error_set(-ENOMEM, "device memory: %s requested, %s of %s of host device %d in use",
				 amount(size).text, amount(dev->used).text, amount(dev->capacity).text, dev->ordinal);
	dev->used += size;
	return 0;
}

int host_device_take(struct host_device *dev, uint64_t size)
{
	int ret;

	lock_acquire(&host_devices_lock);
	ret = take_memory(dev, size);
	lock_release(&host_devices_lock);
	return ret;
}

void host_device_give(struct host_device *dev, uint64_t size)
{
	lock_acquire(&host_devices_lock);
	dev->used -= size;
	lock_release(&host_devices_lock);
}

static int check_device_file(const struct host_device *dev, uint64_t size)
{
	if (descriptor_may_have(dev->fd, dev->file_size + size))
		return 0;
	return error_set(-ENOMEM,
			 "file size: the memory of host device %d is a file of %" PRIu64 " bytes, and"
			 " %" PRIu64 " more would exceed the file size limit, RLIMIT_FSIZE, of %"
			 PRIu64, dev->ordinal, dev->file_size, size, descriptor_most());
}

static int file_grow(struct host_device *dev, uint64_t size)
{
	int ret = check_device_file(dev, size);

	if (ret)
		return ret;
	if (ftruncate(dev->fd, (off_t)(dev->file_size + size)))
		return error_set(-ENOMEM, "ftruncate for %" PRIu64 " bytes of memory of host device %d: %s",
				 size, dev->ordinal, g_strerror(errno));
	dev->file_size += size;
	return 0;
}

int host_device_alloc(struct host_device *dev, uint64_t size, uint64_t *offset)
{
	uint64_t end;
	int ret;

	lock_acquire(&host_devices_lock);
	ret = take_memory(dev, size);
	if (ret || host_ranges_take(dev->ranges, size, offset))
		goto unlock;
	end = dev->file_size;
	ret = file_grow(dev, size);
	if (ret)
		dev->used -= size;
	else
		*offset = end;
unlock:
	lock_release(&host_devices_lock);
	return ret;
}

void host_device_free(struct host_device *dev, uint64_t offset, uint64_t size)
{
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	/* Best effort: what the kernel does not take back is used again with the range. */
	while (fallocate(dev->fd, mode, (off_t)offset, (off_t)size) && errno == EINTR)
		;
	lock_acquire(&host_devices_lock);
	host_ranges_give(dev->ranges, offset, size);
	dev->used -= size;
	lock_release(&host_devices_lock);
}

int host_device_fd(const struct host_device *dev)
{
	return dev->fd;
}

void host_device_count_mappings(struct host_device *dev, int64_t change)
{
	lock_acquire(&host_devices_lock);
	dev->mappings += (uint64_t)change;
	lock_release(&host_devices_lock);
}

int host_device_may_access(struct host_device *dev)
{
	int ret = 0;

	lock_acquire(&host_devices_lock);
	if (dev->mappings > dev->mapping_limit)
		ret = error_set(-ENOMEM, "mappings: %" PRIu64 " exist, but only %" PRIu64
				" can be accessed, of host device %d", dev->mappings, dev->mapping_limit, dev->ordinal);
	lock_release(&host_devices_lock);
	return ret;
}
