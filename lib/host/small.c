// SPDX-License-Identifier: LGPL-2.1-or-later
/* Segments and blocks of the stream-ordered allocator. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "host/device.h"
#include "host/small.h"
#include "host/streams.h"
#include "util/address.h"
#include "util/error.h"
#include "util/lock.h"
#include "util/room.h"

#define BLOCK_UNIT ((size_t)512)
#define SEGMENT_SIZE ((size_t)32 << 20)

/* A piece of a segment. Two free neighbours are never alike. */
struct block {
	struct segment *segment;
	uint64_t va;
	uint64_t size;
	struct block *prev;		/* by address, in its segment */
	struct block *next;
	bool live;
	struct backend_event *event;	/* of a free one: when other streams may have it; NULL: at once */
	uint64_t id;			/* of the stream that need not wait for that */
	GList link;			/* in pending, if it has an event */
};

struct segment {
	uint64_t va;
	uint64_t size;
	struct block *first;
};

struct host_small {
	struct lock lock;
	struct host_device *dev;
	GPtrArray *segments;
	uint64_t held;
	uint64_t peak;
	GQueue pending;			/* free blocks with an event */
	GHashTable *live;		/* block by address */
	GTree *by_size;			/* free blocks */
};

static gint compare_block_size(gconstpointer left, gconstpointer right)
{
	const struct block *a = left, *b = right;

	if (a->size != b->size)
		return a->size > b->size ? 1 : -1;
	return (a->va > b->va) - (a->va < b->va);
}

/* Removes a free block from the index. */
static void block_detach(struct host_small *small, struct block *block)
{
	g_tree_remove(small->by_size, block);
	if (!block->event)
		return;
	g_queue_unlink(&small->pending, &block->link);
	host_event_unref(block->event);
	block->event = NULL;
}

static bool alike(const struct block *a, const struct block *b)
{
	return !a->live && !b->live && !a->event == !b->event && (!a->event || a->id == b->id);
}

/* Merges the next block, which is in no index, into this one. */
static void block_absorb_next(struct block *block)
{
	struct block *next = block->next;

	block->size += next->size;
	block->next = next->next;
	if (block->next)
		block->next->prev = block;
	g_free(next);
}

/*
 * Makes a block free, for everyone or behind an event of a stream; takes over the reference to the event. What was
 * freed earlier on the stream is ready no later, so neighbours of one stream become one block with this event.
 */
static void block_attach(struct host_small *small, struct block *block, uint64_t id, struct backend_event *event)
{
	struct block *before = block->prev;

	block->live = false;
	block->id = id;
	block->event = event;
	if (block->next && alike(block, block->next)) {
		block_detach(small, block->next);
		block_absorb_next(block);
	}
	if (before && alike(before, block)) {
		block_detach(small, before);
		block_absorb_next(before);
		before->event = event;
		block = before;
	}
	block->link.data = block;
	if (event)
		g_queue_push_tail_link(&small->pending, &block->link);
	g_tree_insert(small->by_size, block, block);
}

/* Takes the beginning of a free block. The rest stays as it is. */
static struct block *block_carve(struct host_small *small, struct block *block, uint64_t size)
{
	struct block *front;

	if (block->size == size) {
		block_detach(small, block);
		block->live = true;
		return block;
	}
	front = g_new0(struct block, 1);
	front->segment = block->segment;
	front->va = block->va;
	front->size = size;
	front->live = true;
	front->prev = block->prev;
	front->next = block;
	if (front->prev)
		front->prev->next = front;
	else
		front->segment->first = front;
	block->prev = front;
	g_tree_remove(small->by_size, block);
	block->va += size;
	block->size -= size;
	g_tree_insert(small->by_size, block, block);
	return front;
}

/* The smallest block that is large enough; with @wait of those too that the stream has to wait for. */
static struct block *smallest_fit(struct host_small *small, uint64_t size, uint64_t id, bool wait)
{
	const struct block least = { .size = size };
	GTreeNode *node = g_tree_lower_bound(small->by_size, &least);

	for (; node; node = g_tree_node_next(node)) {
		struct block *block = g_tree_node_value(node);

		if (wait || !block->event || block->id == id)
			return block;
	}
	return NULL;
}

static bool event_complete(struct backend_event *event)
{
	int complete;

	return !host_event_query(event, &complete) && complete;
}

/* Frees the complete blocks for all streams. */
static void reap_small(struct host_small *small)
{
	GList *next;

	lock_assert_held(&small->lock);
	for (GList *link = small->pending.head; link; link = next) {
		struct block *block = link->data;

		next = link->next;
		if (event_complete(block->event)) {
			block_detach(small, block);
			block_attach(small, block, 0, NULL);
		}
	}
}

static int segment_new(struct host_small *small, uint64_t size, struct block **block)
{
	struct segment *segment;
	void *memory;
	int ret;

	ret = room_check(size, size <= SEGMENT_SIZE);
	if (!ret)
		ret = host_device_take(small->dev, size);
	if (ret)
		return ret;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		host_device_give(small->dev, size);
		return error_set(-ENOMEM, "mmap of %" PRIu64 " bytes for the memory of host device %d: %s",
				 size, host_device_ordinal(small->dev), g_strerror(errno));
	}
	/* No huge pages: a program that touches little of it should take little of the machine's memory. */
	madvise(memory, size, MADV_NOHUGEPAGE);
	room_add(size);
	segment = g_new0(struct segment, 1);
	segment->va = (uintptr_t)memory;
	segment->size = size;
	g_ptr_array_add(small->segments, segment);
	small->held += size;
	small->peak = MAX(small->peak, small->held);
	*block = g_new0(struct block, 1);
	(*block)->segment = segment;
	(*block)->va = segment->va;
	(*block)->size = size;
	segment->first = *block;
	block_attach(small, *block, 0, NULL);
	return 0;
}

static void segment_free(struct host_small *small, struct segment *segment)
{
	struct block *block, *next;

	for (block = segment->first; block; block = next) {
		next = block->next;
		if (!block->live)
			block_detach(small, block);
		g_free(block);
	}
	munmap((void *)(uintptr_t)segment->va, segment->size);
	room_sub(segment->size);
	small->held -= segment->size;
	host_device_give(small->dev, segment->size);
	g_free(segment);
}

static bool segment_unused(const struct segment *segment)
{
	return !segment->first->live && !segment->first->event && !segment->first->next;
}

/* Releases unused segments, as long as so many bytes are left. */
static void release_unused(struct host_small *small, uint64_t keep)
{
	lock_assert_held(&small->lock);
	for (guint i = small->segments->len; i-- > 0;) {
		struct segment *segment = small->segments->pdata[i];

		if (segment_unused(segment) && small->held - segment->size >= keep)
			segment_free(small, g_ptr_array_remove_index(small->segments, i));
	}
}

static int grow_small(struct host_small *small, uint64_t size, struct block **block)
{
	uint64_t least = (size + HOST_GRANULARITY - 1) / HOST_GRANULARITY * HOST_GRANULARITY;
	int ret = -ENOMEM;

	if (least < SEGMENT_SIZE)
		ret = segment_new(small, SEGMENT_SIZE, block);
	if (ret)
		ret = segment_new(small, least, block);
	if (ret) {
		release_unused(small, 0);
		ret = segment_new(small, least, block);
	}
	return ret;
}

/* The last resort, a full search: a run of free blocks that together are large enough. */
static struct block *pending_run(struct host_small *small, uint64_t size, struct block **end)
{
	struct block *first, *block;
	uint64_t sum;

	for (guint i = 0; i < small->segments->len; i++) {
		const struct segment *segment = small->segments->pdata[i];

		for (block = segment->first, first = block, sum = 0; block; block = block->next) {
			if (block->live) {
				first = block->next;
				sum = 0;
				continue;
			}
			sum += block->size;
			if (sum >= size) {
				*end = block->next;
				return first;
			}
		}
	}
	return NULL;
}

/* Makes @stream wait for all blocks of a run, and merges them into one that it may have. */
static int run_join(struct host_small *small, struct block *first, struct block *end, struct CUstream_st *stream,
		    uint64_t id)
{
	struct backend_event *event = host_event_create();
	int device = host_device_ordinal(small->dev);
	struct block *block;
	int ret = 0;

	for (block = first; block != end && !ret; block = block->next)
		if (block->event)
			ret = host_stream_wait(device, stream, block->event);
	if (!ret)
		ret = host_event_record(device, event, stream);
	if (ret) {
		host_event_unref(event);
		return ret;
	}
	block_detach(small, first);
	while (first->next != end) {
		block_detach(small, first->next);
		block_absorb_next(first);
	}
	first->live = true;
	block_attach(small, first, id, event);
	return 0;
}

/* Finds a free block that @stream may use now, with a wait for other streams if necessary. */
static int find_free_block(struct host_small *small, uint64_t size, struct CUstream_st *stream, uint64_t id,
			   struct block **block)
{
	struct block *end;
	int ret;

	lock_assert_held(&small->lock);
	*block = smallest_fit(small, size, id, false);
	ret = *block ? 0 : grow_small(small, size, block);
	if (!ret)
		return 0;
	*block = smallest_fit(small, size, id, true);
	if (*block)
		return host_stream_wait(host_device_ordinal(small->dev), stream, (*block)->event);
	*block = pending_run(small, size, &end);
	if (!*block)
		return ret;
	ret = run_join(small, *block, end, stream, id);
	if (!ret)
		*block = smallest_fit(small, size, id, false);
	return ret;
}

struct host_small *host_small_new(struct host_device *dev)
{
	struct host_small *small = g_new0(struct host_small, 1);

	lock_init(&small->lock, LOCK_HOST_SMALL);
	small->dev = dev;
	small->live = address_table_new(NULL);
	small->segments = g_ptr_array_new();
	small->by_size = g_tree_new(compare_block_size);
	return small;
}

uint64_t host_small_destroy(struct host_small *small)
{
	uint64_t live = g_hash_table_size(small->live);

	g_hash_table_destroy(small->live);
	for (guint i = 0; i < small->segments->len; i++)
		segment_free(small, small->segments->pdata[i]);
	g_ptr_array_free(small->segments, TRUE);
	g_tree_unref(small->by_size);
	lock_destroy(&small->lock);
	g_free(small);
	return live;
}

int host_small_alloc(struct host_small *small, size_t size, struct CUstream_st *stream, uint64_t *va)
{
	struct block *block;
	uint64_t id;
	int ret;

	if (!size)
		return error_set(-EINVAL, "the stream-ordered allocator gives no allocation of 0 bytes");
	ret = host_stream_id(host_device_ordinal(small->dev), stream, &id);
	if (ret)
		return ret;
	if (size > INT64_MAX)
		return error_set(-ENOMEM, "device memory: %zu bytes requested, of host device %d", size,
				 host_device_ordinal(small->dev));
	lock_acquire(&small->lock);
	reap_small(small);
	size = (size + BLOCK_UNIT - 1) / BLOCK_UNIT * BLOCK_UNIT;
	ret = find_free_block(small, size, stream, id, &block);
	if (!ret) {
		block = block_carve(small, block, size);
		g_hash_table_insert(small->live, &block->va, block);
		*va = block->va;
	} else {
		ret = error_add(ret, "%zu bytes of the stream-ordered allocator, which holds %" PRIu64
				" for %u others", size, small->held, g_hash_table_size(small->live));
	}
	lock_release(&small->lock);
	return ret;
}

int host_small_free(struct host_small *small, uint64_t va, struct CUstream_st *stream)
{
	int device = host_device_ordinal(small->dev);
	struct backend_event *event = NULL;
	struct block *block;
	uint64_t id;
	int ret;

	ret = host_stream_id(device, stream, &id);
	if (ret)
		return ret;
	lock_acquire(&small->lock);
	block = g_hash_table_lookup(small->live, &va);
	if (!block) {
		ret = error_set(-EINVAL, "0x%" PRIx64 " is not allocated from the stream-ordered allocator",
				va);
		goto unlock;
	}
	event = host_event_create();
	ret = host_event_record(device, event, stream);
	if (ret)
		goto unref_event;
	reap_small(small);
	g_hash_table_remove(small->live, &va);
	if (!event_complete(event)) {
		block_attach(small, block, id, event);
		goto unlock;
	}
	block_attach(small, block, 0, NULL);
unref_event:
	host_event_unref(event);
unlock:
	lock_release(&small->lock);
	return ret;
}

/* The block that an address is in. */
static const struct block *block_around(struct host_small *small, uint64_t va)
{
	const struct block *block = g_hash_table_lookup(small->live, &va);

	lock_assert_held(&small->lock);
	for (guint i = 0; i < small->segments->len && !block; i++) {
		const struct segment *segment = small->segments->pdata[i];

		if (va - segment->va < segment->size)
			block = segment->first;
	}
	while (block && va - block->va >= block->size)
		block = block->next;
	return block;
}

bool host_small_has(struct host_small *small, uint64_t va, size_t size)
{
	const struct block *block;
	bool has;

	lock_acquire(&small->lock);
	block = block_around(small, va);
	has = block && block->live && size <= block->size - (va - block->va);
	lock_release(&small->lock);
	return has;
}

void host_small_held(struct host_small *small, uint64_t *bytes, uint64_t *peak)
{
	lock_acquire(&small->lock);
	*bytes = small->held;
	*peak = small->peak;
	lock_release(&small->lock);
}

bool host_small_trim(struct host_small *small, uint64_t keep)
{
	bool pending;

	lock_acquire(&small->lock);
	reap_small(small);
	release_unused(small, keep);
	pending = small->pending.length;
	lock_release(&small->lock);
	return pending;
}
