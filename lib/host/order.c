// SPDX-License-Identifier: LGPL-2.1-or-later
/* Looks for work that is pending on memory which changes hands. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>

#include "host/forks.h"
#include "host/opened.h"
#include "host/order.h"
#include "host/space-inside.h"
#include "host/streams.h"
#include "util/error.h"

REQUIRES(host_streams_lock)
static struct CUstream_st *find_stream_by_id(uint64_t id)
{
	struct CUstream_st *stream = host_streams;

	while (stream && stream->id != id)
		stream = stream->older;
	return stream;
}

/* The part of a range that lies in one mapping, from the start on. NULL: nothing is mapped there. */
static const struct mapping *first_part(struct host_space *space, uint64_t va, size_t size, struct span *part)
{
	const struct mapping *mapping = host_space_last_before(space->mappings, va + 1);

	if (!mapping || mapping->span.va + mapping->span.size <= va)
		return NULL;
	part->va = va - mapping->span.va;
	part->size = MIN(size, mapping->span.size - part->va);
	return mapping;
}

/* Whether a part of some memory is mapped in a range, too. */
static bool has_part(struct host_space *space, const struct memory *memory, const struct span *part, uint64_t va,
		     size_t size)
{
	const struct mapping *mapping;
	struct span other;

	for (; size && (mapping = first_part(space, va, size, &other)); va += other.size, size -= other.size) {
		if (mapping->memory == memory && part->va < other.va + other.size && other.va < part->va + part->size)
			return true;
	}
	return false;
}

/* Whether two ranges have memory in common, at whatever addresses. Nothing behind what is not mapped is looked at. */
static bool overlaps(struct host_space *space, uint64_t a, size_t a_size, uint64_t b, size_t b_size)
{
	const struct mapping *mapping;
	struct span part;
	bool found = false;

	lock_acquire(&space->lock);
	for (; a_size && !found && (mapping = first_part(space, a, a_size, &part)); a += part.size, a_size -= part.size)
		found = has_part(space, mapping->memory, &part, b, b_size);
	lock_release(&space->lock);
	return found;
}

/* At these addresses, or at others of the same memory; what the stream-ordered allocator has is at one address only. */
static bool shares_bytes(struct host_backend *host, uint64_t a, size_t a_size, uint64_t b, size_t b_size)
{
	if (!a || !b)
		return false;
	return (a < b + b_size && b < a + a_size) || overlaps(host->space, a, a_size, b, b_size);
}

/*
 * A write comes after all pending work on the memory, and a read after pending writes. The stream that is given memory
 * may write it. A copy may read memory that nobody has written since it was freed: what it reads means nothing.
 */
static bool conflicts(struct host_backend *host, const struct host_access *access, const struct host_pending *pending)
{
	return shares_bytes(host, access->to, access->size, pending->to, pending->size) ||
	       shares_bytes(host, access->to, access->size, pending->from, pending->size) ||
	       (!pending->released && shares_bytes(host, access->from, access->size, pending->to, pending->size));
}

static const char *what_is(const struct host_pending *pending)
{
	return pending->released ? "use" : pending->from ? "copy" : "clear";
}

/* Only the first is kept: what follows may come of it. */
static void keep_first(struct host_backend *host, char *text)
{
	char *none = NULL;

	host_misordered++;
	if (!atomic_compare_exchange_strong(&host->misordered, &none, text))
		g_free(text);
}

static void report(struct host_backend *host, const struct host_access *access, const struct host_pending *pending,
		   uint64_t id)
{
	keep_first(host, g_strdup_printf("%s: the %zu bytes at %#" PRIx64 " on stream %" PRIu64
					 ", which does not come after a %s of %zu bytes at %#" PRIx64
					 " that is pending on stream %" PRIu64, access->what,
					 access->size, access->to, id, what_is(pending), pending->size,
					 pending->to, pending->stream));
}

void host_order_check(struct host_backend *host, const struct host_access *access, uint64_t id)
{
	GArray *found;

	if (!host_queue_works_count)
		return;
	host_acquire(&host_streams_lock);
	found = host_queue_unordered(find_stream_by_id(id));
	lock_release(&host_streams_lock);
	for (guint i = 0; found && i < found->len; i++) {
		const struct host_pending *pending = &g_array_index(found, struct host_pending, i);

		if (conflicts(host, access, pending))
			report(host, access, pending, id);
	}
	g_clear_pointer(&found, g_array_unref);
}

void host_order_check_handle(struct host_backend *host, const struct host_access *access, struct CUstream_st *handle)
{
	struct CUstream_st *stream;
	uint64_t id;

	host_acquire(&host_streams_lock);
	stream = host_stream_resolve(host_device_ordinal(host->dev), handle);
	id = stream ? stream->id : 0;
	lock_release(&host_streams_lock);
	if (stream)
		host_order_check(host, access, id);
}

int host_order_check_unmap(struct host_backend *host, uint64_t va, size_t size)
{
	GArray *found;
	int ret = 0;

	host_acquire(&host_streams_lock);
	found = host_queue_unordered(NULL);
	lock_release(&host_streams_lock);
	for (guint i = 0; found && i < found->len && !ret; i++) {
		const struct host_pending *work = &g_array_index(found, struct host_pending, i);

		/* The program's later work need not use that block. The guard event of an unmap is checked apart. */
		if (!work->released && ((work->to < va + size && va < work->to + work->size) ||
					(work->from && work->from < va + size && va < work->from + work->size)))
			ret = error_set(-EBUSY, "unmap: the %zu bytes at %#" PRIx64 " have a %s of the library pending,"
					" on stream %" PRIu64, size, va, what_is(work), work->stream);
	}
	g_clear_pointer(&found, g_array_unref);
	if (ret)
		keep_first(host, g_strdup(error_get()));
	return ret;
}
