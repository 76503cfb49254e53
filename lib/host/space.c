// SPDX-License-Identifier: LGPL-2.1-or-later
/* Reservations, handles and mappings: address space of the process, and parts of the memfd of a device. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/backend.h"
#include "host/device.h"
#include "host/file.h"
#include "host/space-inside.h"
#include "host/space.h"
#include "host/streams.h"
#include "util/error.h"
#include "util/lock.h"


static _Atomic uint64_t last_handle;
static _Atomic uint64_t reservation_count;
static _Atomic uint64_t memory_count;
static _Atomic uint64_t mapping_count;

static gint compare_span(gconstpointer left, gconstpointer right, gpointer data)
{
	const struct span *a = left, *b = right;

	(void)data;
	return (a->va > b->va) - (a->va < b->va);
}

/* The first that starts at an address or behind it. */
static GTreeNode *first_from(GTree *tree, uint64_t va)
{
	const struct span key = { .va = va };

	return g_tree_lower_bound(tree, &key);
}

void *host_space_last_before(GTree *tree, uint64_t va)
{
	GTreeNode *node = first_from(tree, va);

	node = node ? g_tree_node_previous(node) : g_tree_node_last(tree);
	return node ? g_tree_node_value(node) : NULL;
}

static int check_range(const char *call, uint64_t va, size_t size)
{
	if (!size || size % HOST_GRANULARITY || va % HOST_GRANULARITY || va + size < va)
		return error_set(-EINVAL, "%s: %zu bytes at 0x%" PRIx64 " are not multiples of the granularity of %zu"
				 " bytes",
				 call, size, va, HOST_GRANULARITY);
	return 0;
}

/* Whether a range lies in one reservation. */
static int check_reserved(struct host_space *space, const char *call, uint64_t va, size_t size)
{
	struct reservation *in;
	int ret = check_range(call, va, size);

	lock_assert_held(&space->lock);
	if (ret)
		return ret;
	in = host_space_last_before(space->reservations, va + 1);
	if (!in || va + size > in->span.va + in->span.size)
		return error_set(-EINVAL, "%s: %zu bytes at 0x%" PRIx64 " do not lie in one reservation", call, size,
				 va);
	return 0;
}

static int kernel_refused(const char *call, size_t size, uint64_t va)
{
	if (errno == ENOMEM)
		return error_set(-ENOMEM, "mappings: the kernel refused %s of %zu bytes at 0x%" PRIx64 ": a process can"
				 " have no more than the sysctl vm.max_map_count says", call, size, va);
	return error_set(-ENOMEM, "mappings: the kernel refused %s of %zu bytes at 0x%" PRIx64 ": %s", call, size, va,
			 g_strerror(errno));
}

static void *at(uint64_t va)
{
	return (void *)(uintptr_t)va;
}

static void enter_reservation(struct host_space *space, uint64_t va, size_t size)
{
	struct reservation *reservation = g_new0(struct reservation, 1);

	reservation->span.va = va;
	reservation->span.size = size;
	lock_acquire(&space->lock);
	g_tree_insert(space->reservations, &reservation->span, reservation);
	lock_release(&space->lock);
	reservation_count++;
}

int host_space_find(size_t size, size_t align, uint64_t *va)
{
	uint64_t base, start;
	size_t total, below, above;
	void *range;

	if (__builtin_add_overflow(size, align, &total))
		return error_set(-ENOMEM, "address space: %zu bytes aligned to %zu are more than there is", size,
				 align);
	range = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range == MAP_FAILED)
		return error_set(-ENOMEM, "address space: mmap of %zu bytes for a reservation of %zu: %s", total, size,
				 g_strerror(errno));
	base = (uintptr_t)range;
	start = (base + align - 1) & ~((uint64_t)align - 1);
	below = start - base;
	above = total - size - below;
	if (above && munmap(at(start + size), above)) {
		munmap(range, total);
		return kernel_refused("munmap", above, start + size);
	}
	/* The part above is gone already, and another thread may have mapped it. */
	if (below && munmap(range, below)) {
		munmap(range, below + size);
		return kernel_refused("munmap", below, base);
	}
	*va = start;
	return 0;
}

int host_space_reserve(struct host_space *space, size_t size, size_t align, uint64_t *va)
{
	int ret;

	if (!size || size % HOST_GRANULARITY || !align || align & (align - 1))
		return error_set(-EINVAL, "reserve: %zu bytes must be a multiple of the granularity of %zu bytes, and"
				 " the alignment of %zu a power of two", size, HOST_GRANULARITY, align);
	ret = host_space_find(size, MAX(align, HOST_GRANULARITY), va);
	if (!ret)
		enter_reservation(space, *va, size);
	return ret;
}

/* Without MAP_FIXED, which would replace what is there. */
int host_space_reserve_at(struct host_space *space, uint64_t va, size_t size)
{
	void *range;

	if (!size || size % HOST_GRANULARITY || va % HOST_GRANULARITY)
		return error_set(-EINVAL, "reserve_at: %zu bytes at 0x%" PRIx64 " must be multiples of the granularity of"
				 " %zu bytes", size, va, HOST_GRANULARITY);
	range = mmap(at(va), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range == MAP_FAILED)
		return error_set(-ENOMEM, "address space: mmap of %zu bytes at 0x%" PRIx64 ": %s", size, va,
				 g_strerror(errno));
	if (range != at(va)) {
		munmap(range, size);
		return error_set(-EADDRINUSE, "address space: the process has something in the %zu bytes at 0x%" PRIx64,
				 size, va);
	}
	enter_reservation(space, va, size);
	return 0;
}

int host_space_unreserve(struct host_space *space, uint64_t va, size_t size)
{
	const struct span key = { .va = va };
	struct reservation *reservation;
	GTreeNode *node;
	int ret = 0;

	lock_acquire(&space->lock);
	reservation = g_tree_lookup(space->reservations, &key);
	if (!reservation || reservation->span.size != size) {
		ret = error_set(-EINVAL, "unreserve: %zu bytes at 0x%" PRIx64 " are not what was reserved", size, va);
		goto unlock;
	}
	node = first_from(space->mappings, va);
	if (node && ((struct mapping *)g_tree_node_value(node))->span.va < va + size) {
		ret = error_set(-EINVAL, "unreserve: something is mapped in the %zu bytes at 0x%" PRIx64, size, va);
		goto unlock;
	}
	if (munmap(at(va), size) && !(errno == ENOMEM && ballast_drop(&space->ballast) && !munmap(at(va), size))) {
		ret = kernel_refused("munmap", size, va);
		goto unlock;
	}
	g_tree_remove(space->reservations, &key);
	reservation_count--;
unlock:
	lock_release(&space->lock);
	return ret;
}

static int check_size(const char *call, size_t size)
{
	if (!size || size % HOST_GRANULARITY)
		return error_set(-EINVAL, "%s: %zu bytes are not a multiple of the granularity of %zu bytes", call,
				 size, HOST_GRANULARITY);
	return 0;
}

static uint64_t memory_enter(struct host_space *space, const struct memory *like)
{
	struct memory *memory = g_memdup2(like, sizeof(*like));
	uint64_t handle = ++last_handle;

	memory->handle = handle;
	lock_acquire(&space->lock);
	g_hash_table_insert(space->handles, &memory->handle, memory);
	lock_release(&space->lock);
	memory_count++;
	return handle;
}

int host_space_create(struct host_space *space, size_t size, uint64_t *handle)
{
	struct memory memory = { .fd = -1, .size = size };
	int ret = check_size("create", size);

	if (!ret)
		ret = host_device_alloc(space->dev, size, &memory.offset);
	if (!ret)
		*handle = memory_enter(space, &memory);
	return ret;
}

int host_space_create_export(struct host_space *space, size_t size, uint64_t *handle)
{
	struct memory memory = { .size = size };
	int ret = check_size("create_export", size);

	if (!ret)
		ret = host_file_create(space->dev, size, &memory.fd);
	if (!ret)
		*handle = memory_enter(space, &memory);
	return ret;
}

int host_space_import(struct host_space *space, const struct backend_export *export, size_t size, uint64_t *handle)
{
	struct memory memory = { .size = size, .imported = true };
	int ret = check_size("import", size);

	if (!ret)
		ret = host_file_check(export->fd, size);
	if (!ret)
		ret = host_file_dup(export->fd, &memory.fd);
	if (!ret)
		*handle = memory_enter(space, &memory);
	return ret;
}

/* What was imported is memory of another process's device. */
static void memory_free_if_unused(struct host_space *space, struct memory *memory)
{
	if (memory->mappings || !memory->released)
		return;
	if (memory->imported)
		close(memory->fd);
	else if (memory->fd >= 0)
		host_file_free(space->dev, memory->size, memory->fd);
	else
		host_device_free(space->dev, memory->offset, memory->size);
	g_free(memory);
	memory_count--;
}

static struct memory *memory_of(struct host_space *space, const char *call, uint64_t handle)
{
	struct memory *memory = g_hash_table_lookup(space->handles, &handle);

	lock_assert_held(&space->lock);
	if (!memory)
		error_set(-EINVAL, "%s: %" PRIu64 " is not a handle", call, handle);
	return memory;
}

int host_space_export(struct host_space *space, uint64_t handle, struct backend_export *export)
{
	struct backend_export made = { .type = BACKEND_HANDLES_FD };
	struct memory *memory;
	int ret = -EINVAL;

	lock_acquire(&space->lock);
	memory = memory_of(space, "export", handle);
	if (memory && (memory->fd < 0 || memory->imported))
		error_set(-EINVAL, "export: %" PRIu64 " was not created by create_export", handle);
	else if (memory)
		ret = host_file_dup(memory->fd, &made.fd);
	lock_release(&space->lock);
	if (!ret)
		*export = made;
	return ret;
}

int host_space_release(struct host_space *space, uint64_t handle)
{
	struct memory *memory;
	int ret = -EINVAL;

	lock_acquire(&space->lock);
	memory = memory_of(space, "release", handle);
	if (memory) {
		g_hash_table_remove(space->handles, &memory->handle);
		memory->released = true;
		memory_free_if_unused(space, memory);
		ret = 0;
	}
	lock_release(&space->lock);
	return ret;
}

/* Whether a whole handle can be mapped to a range. */
static int check_map(struct host_space *space, uint64_t va, size_t size, uint64_t handle)
{
	struct mapping *before;
	struct memory *memory;
	int ret;

	memory = memory_of(space, "map", handle);
	if (!memory)
		return -EINVAL;
	if (memory->size != size)
		return error_set(-EINVAL, "map: %zu bytes of a handle of %" PRIu64 " bytes, of which all must be"
				 " mapped",
				 size, memory->size);
	ret = check_reserved(space, "map", va, size);
	if (ret)
		return ret;
	before = host_space_last_before(space->mappings, va + size);
	if (before && before->span.va + before->span.size > va)
		return error_set(-EINVAL, "map: there is a mapping at 0x%" PRIx64 " in the %zu bytes at 0x%" PRIx64,
				 before->span.va, size, va);
	return 0;
}

int host_space_map(struct host_space *space, uint64_t va, size_t size, uint64_t handle)
{
	struct mapping *mapping;
	struct memory *memory;
	int ret;

	lock_acquire(&space->lock);
	ret = check_map(space, va, size, handle);
	if (ret)
		goto unlock;
	memory = g_hash_table_lookup(space->handles, &handle);
	if (!ballast_load(&space->ballast) ||
	    mmap(at(va), size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		 memory->fd < 0 ? host_device_fd(space->dev) : memory->fd, (off_t)memory->offset) == MAP_FAILED) {
		ret = kernel_refused("mmap", size, va);
		goto unlock;
	}
	mapping = g_new0(struct mapping, 1);
	mapping->span.va = va;
	mapping->span.size = size;
	mapping->memory = memory;
	memory->mappings++;
	g_tree_insert(space->mappings, &mapping->span, mapping);
	host_device_count_mappings(space->dev, 1);
	mapping_count++;
unlock:
	lock_release(&space->lock);
	return ret;
}

/* Whether mappings cover a range and end where it does; tells whether one is without access. */
static int check_access(struct host_space *space, const char *call, uint64_t va, size_t size, bool *news)
{
	GTreeNode *node = first_from(space->mappings, va);
	uint64_t end = va + size, covered = va;
	struct mapping *mapping;
	int ret = check_reserved(space, call, va, size);

	lock_assert_held(&space->lock);
	if (ret)
		return ret;
	*news = false;
	for (; node && covered < end; node = g_tree_node_next(node)) {
		mapping = g_tree_node_value(node);
		if (mapping->span.va != covered)
			break;
		covered += mapping->span.size;
		*news = *news || !mapping->devices;
	}
	if (covered < end)
		return error_set(-EINVAL, "%s: no mapping starts at 0x%" PRIx64 " in the %zu bytes at 0x%" PRIx64,
				 call, covered, size, va);
	if (covered > end)
		return error_set(-EINVAL, "%s: %zu bytes at 0x%" PRIx64 " end inside a mapping", call, size, va);
	return 0;
}

int host_space_access(struct host_space *space, uint64_t va, size_t size, uint64_t devices)
{
	struct mapping *mapping;
	GTreeNode *node;
	bool news, refused;
	int ret;

	lock_acquire(&space->lock);
	ret = check_access(space, "access", va, size, &news);
	if (!ret && news)
		ret = host_device_may_access(space->dev);
	if (ret)
		goto unlock;
	refused = news && mprotect(at(va), size, PROT_READ | PROT_WRITE);
	if (refused)
		ret = kernel_refused("mprotect", size, va);
	for (node = first_from(space->mappings, va); node; node = g_tree_node_next(node)) {
		mapping = g_tree_node_value(node);
		if (mapping->span.va >= va + size)
			break;
		/* The kernel may have stopped half way. */
		if (refused && !mapping->devices)
			mprotect(at(mapping->span.va), mapping->span.size, PROT_NONE);
		else if (!refused)
			mapping->devices |= devices;
	}
unlock:
	lock_release(&space->lock);
	return ret;
}

int host_space_deny(struct host_space *space, uint64_t va, size_t size, uint64_t devices)
{
	struct mapping *mapping;
	GTreeNode *node;
	bool news;
	int ret;

	lock_acquire(&space->lock);
	ret = check_access(space, "deny", va, size, &news);
	if (!ret && news)
		ret = error_set(-EINVAL, "deny: part of the %zu bytes at 0x%" PRIx64 " was never accessible", size, va);
	for (node = first_from(space->mappings, va); node && !ret; node = g_tree_node_next(node)) {
		mapping = g_tree_node_value(node);
		if (mapping->span.va >= va + size)
			break;
		mapping->devices &= ~devices;
	}
	lock_release(&space->lock);
	return ret;
}

int host_space_reachable(struct host_space *space, int device, const char *call, uint64_t va, size_t size)
{
	uint64_t end = va + size, covered = va;
	struct mapping *mapping;
	int ret = 0;

	lock_acquire(&space->lock);
	while (covered < end) {
		mapping = host_space_last_before(space->mappings, covered + 1);
		if (!mapping || mapping->span.va + mapping->span.size <= covered ||
		    !(mapping->devices >> device & 1))
			break;
		covered = mapping->span.va + mapping->span.size;
	}
	if (covered < end || end < va)
		ret = error_set(-EINVAL, "%s: nothing that can be accessed is mapped at 0x%" PRIx64 " in the %zu bytes"
				" at 0x%" PRIx64, call, covered, size, va);
	lock_release(&space->lock);
	return ret;
}

/* Whether a range has only whole mappings. */
static int check_unmap(struct host_space *space, uint64_t va, size_t size)
{
	struct mapping *mapping;
	int ret = check_reserved(space, "unmap", va, size);

	if (ret)
		return ret;
	mapping = host_space_last_before(space->mappings, va);
	if (!mapping || mapping->span.va + mapping->span.size <= va)
		mapping = host_space_last_before(space->mappings, va + size);
	if (mapping && mapping->span.va < va && mapping->span.va + mapping->span.size > va)
		return error_set(-EINVAL, "unmap: %zu bytes at 0x%" PRIx64 " start inside a mapping", size, va);
	if (mapping && mapping->span.va + mapping->span.size > va + size)
		return error_set(-EINVAL, "unmap: %zu bytes at 0x%" PRIx64 " end inside a mapping", size, va);
	return 0;
}

static int check_guard(struct backend_event *guard, uint64_t va, size_t size)
{
	int complete = 1;
	int ret = guard ? host_event_query(guard, &complete) : 0;

	if (ret)
		return ret;
	if (!complete)
		return error_set(-EBUSY, "unmap: the event that guards %zu bytes at 0x%" PRIx64 " is pending", size,
				 va);
	return 0;
}

/* Removes the mappings of a range that the kernel has unmapped. */
static void forget_mappings(struct host_space *space, uint64_t va, size_t size)
{
	struct mapping *mapping;
	struct memory *memory;
	GTreeNode *node;

	while ((node = first_from(space->mappings, va))) {
		mapping = g_tree_node_value(node);
		if (mapping->span.va >= va + size)
			break;
		memory = mapping->memory;
		g_tree_remove(space->mappings, &mapping->span);
		host_device_count_mappings(space->dev, -1);
		mapping_count--;
		memory->mappings--;
		memory_free_if_unused(space, memory);
	}
}

/* Makes addresses of a reservation inaccessible again. */
static bool forbid(uint64_t va, size_t size)
{
	return mmap(at(va), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) !=
	       MAP_FAILED;
}

int host_space_unmap(struct host_space *space, uint64_t va, size_t size, struct backend_event *guard)
{
	int ret;

	ret = check_guard(guard, va, size);
	if (ret)
		return ret;
	lock_acquire(&space->lock);
	ret = check_unmap(space, va, size);
	if (ret)
		goto unlock;
	if (!forbid(va, size) && !(errno == ENOMEM && ballast_drop(&space->ballast) && forbid(va, size))) {
		ret = kernel_refused("mmap", size, va);
		goto unlock;
	}
	forget_mappings(space, va, size);
unlock:
	lock_release(&space->lock);
	return ret;
}

struct host_space *host_space_new(struct host_device *dev)
{
	struct host_space *space = g_new0(struct host_space, 1);

	lock_init(&space->lock, LOCK_HOST_SPACE);
	space->dev = dev;
	space->reservations = g_tree_new_full(compare_span, NULL, NULL, g_free);
	space->mappings = g_tree_new_full(compare_span, NULL, NULL, g_free);
	space->handles = g_hash_table_new(g_int64_hash, g_int64_equal);
	return space;
}

uint64_t host_space_destroy(struct host_space *space)
{
	uint64_t left = (uint64_t)g_tree_nnodes(space->reservations) + (uint64_t)g_tree_nnodes(space->mappings) +
			g_hash_table_size(space->handles);
	GHashTableIter iter;
	GTreeNode *node;
	gpointer value;

	g_hash_table_iter_init(&iter, space->handles);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		((struct memory *)value)->released = true;
		memory_free_if_unused(space, value);
	}
	for (node = g_tree_node_first(space->reservations); node; node = g_tree_node_next(node)) {
		const struct span *span = g_tree_node_key(node);

		munmap(at(span->va), span->size);
		forget_mappings(space, span->va, span->size);
		reservation_count--;
	}
	ballast_drop(&space->ballast);
	g_hash_table_destroy(space->handles);
	g_tree_unref(space->mappings);
	g_tree_unref(space->reservations);
	lock_destroy(&space->lock);
	g_free(space);
	return left;
}

void host_space_count(uint64_t *reservations, uint64_t *handles, uint64_t *mappings)
{
	*reservations = reservation_count;
	*handles = memory_count;
	*mappings = mapping_count;
}
