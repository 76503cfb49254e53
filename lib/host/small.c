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

/* A piece of a segment: allocated, pending in a lane, or free for everyone. Two free neighbours are never alike. */
struct block {
	struct segment *segment;
	uint64_t va;
	uint64_t size;
	struct block *prev;		/* by address, in its segment */
	struct block *next;
	bool live;
	struct lane *lane;		/* NULL: free for everyone, unless live */
	struct backend_event *event;	/* in a lane: when it becomes free for everyone */
	struct block *older;		/* in its lane */
	struct block *newer;
};

/* What was freed on one stream at points that are not complete, as far as is known. */
struct lane {
	uint64_t id;			/* the stream's; the key */
	GTree *by_size;
	struct block *oldest;
	struct block *newest;
};

struct segment {
	struct segment *next;
	uint64_t va;
	uint64_t size;
	struct block *first;
};

struct host_small {
	struct lock lock;
	struct host_device *dev;
	struct segment *segments;
	uint64_t held;
	uint64_t peak;
	GHashTable *live;		/* block by address */
	GHashTable *lanes;		/* lane by stream id */
	GTree *by_size;			/* blocks free for everyone */
};

static gint compare_block_size(gconstpointer left, gconstpointer right, gpointer data)
{
	const struct block *a = left, *b = right;

	(void)data;
	if (a->size != b->size)
		return a->size > b->size ? 1 : -1;
	return (a->va > b->va) - (a->va < b->va);
}

static void lane_free(void *data)
{
	struct lane *lane = data;

	g_tree_unref(lane->by_size);
	g_free(lane);
}

static struct lane *lane_get(struct host_small *small, uint64_t id)
{
	struct lane *lane = address_table_get(small->lanes, id, sizeof(*lane));

	if (lane->by_size)
		return lane;
	lane->by_size = g_tree_new_full(compare_block_size, NULL, NULL, NULL);
	return lane;
}

static GTree *tree_of(struct host_small *small, const struct block *block)
{
	return block->lane ? block->lane->by_size : small->by_size;
}

static void lane_append(struct lane *lane, struct block *block, struct backend_event *event)
{
	block->lane = lane;
	block->event = event;
	block->older = lane->newest;
	block->newer = NULL;
	if (lane->newest)
		lane->newest->newer = block;
	else
		lane->oldest = block;
	lane->newest = block;
}

static void lane_remove(struct block *block)
{
	struct lane *lane = block->lane;

	if (block->older)
		block->older->newer = block->newer;
	else
		lane->oldest = block->newer;
	if (block->newer)
		block->newer->older = block->older;
	else
		lane->newest = block->older;
	host_event_unref(block->event);
	block->event = NULL;
	block->lane = NULL;
}

/* Removes a free block from the indices. */
static void block_detach(struct host_small *small, struct block *block)
{
	g_tree_remove(tree_of(small, block), block);
	if (block->lane)
		lane_remove(block);
}

static bool alike(const struct block *a, const struct block *b)
{
	return a && b && !a->live && !b->live && a->lane == b->lane;
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
 * Makes a block free, for everyone or in a lane; takes over the reference to the event. What was freed earlier in the
 * lane is ready no later, so neighbours in one lane become one block with this event.
 */
static void block_attach(struct host_small *small, struct block *block, struct lane *lane, struct backend_event *event)
{
	block->live = false;
	block->lane = lane;
	if (alike(block, block->next)) {
		block_detach(small, block->next);
		block_absorb_next(block);
	}
	if (alike(block->prev, block)) {
		block = block->prev;
		block_detach(small, block);
		block_absorb_next(block);
	}
	if (lane)
		lane_append(lane, block, event);
	g_tree_insert(tree_of(small, block), block, block);
}

/* Takes the beginning of a free block. The rest keeps its place in its lane. */
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
	g_tree_remove(tree_of(small, block), block);
	block->va += size;
	block->size -= size;
	g_tree_insert(tree_of(small, block), block, block);
	return front;
}

static struct block *smallest_fit(GTree *by_size, uint64_t size)
{
	const struct block least = { .size = size };
	GTreeNode *node = g_tree_lower_bound(by_size, &least);

	return node ? g_tree_node_value(node) : NULL;
}

static bool event_complete(struct backend_event *event)
{
	int complete;

	return !host_event_query(event, &complete) && complete;
}

/* Frees the complete blocks of a lane for all streams. A lane is in order, so one look at each is enough. */
static void reap_lane(struct host_small *small)
{
	GHashTableIter iter;
	struct block *block;
	gpointer value;

	lock_assert_held(&small->lock);
	g_hash_table_iter_init(&iter, small->lanes);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		struct lane *lane = value;

		while ((block = lane->oldest) && event_complete(block->event)) {
			block_detach(small, block);
			block_attach(small, block, NULL, NULL);
		}
		if (!lane->oldest)
			g_hash_table_iter_remove(&iter);
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
	segment->next = small->segments;
	small->segments = segment;
	small->held += size;
	small->peak = MAX(small->peak, small->held);
	*block = g_new0(struct block, 1);
	(*block)->segment = segment;
	(*block)->va = segment->va;
	(*block)->size = size;
	segment->first = *block;
	block_attach(small, *block, NULL, NULL);
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
	return !segment->first->live && !segment->first->lane && !segment->first->next;
}

/* Releases unused segments, if that makes room for @size bytes. */
static bool trim(struct host_small *small, uint64_t size)
{
	uint64_t capacity, used, mapping_limit, unused = 0;
	struct segment *segment, **link;

	lock_assert_held(&small->lock);
	host_device_usage(small->dev, &capacity, &used, &mapping_limit);
	for (segment = small->segments; segment; segment = segment->next)
		unused += segment_unused(segment) ? segment->size : 0;
	if (size > capacity - used + unused)
		return false;
	for (link = &small->segments; (segment = *link) && size > capacity - used;) {
		if (!segment_unused(segment)) {
			link = &segment->next;
			continue;
		}
		*link = segment->next;
		used -= segment->size;
		segment_free(small, segment);
	}
	return true;
}

static int grow_lane(struct host_small *small, uint64_t size, struct block **block)
{
	uint64_t least = (size + HOST_GRANULARITY - 1) / HOST_GRANULARITY * HOST_GRANULARITY;
	int ret = -ENOMEM;

	lock_assert_held(&small->lock);
	if (least < SEGMENT_SIZE)
		ret = segment_new(small, SEGMENT_SIZE, block);
	if (ret)
		ret = segment_new(small, least, block);
	if (ret && trim(small, least))
		ret = segment_new(small, least, block);
	return ret;
}

/* The smallest block of sufficient size among those that need a wait for another stream. */
static struct block *pending_fit(struct host_small *small, uint64_t size)
{
	struct block *best = NULL, *fit;
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, small->lanes);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		fit = smallest_fit(((struct lane *)value)->by_size, size);
		if (fit && (!best || fit->size < best->size))
			best = fit;
	}
	return best;
}

/* The last resort, a full search: a run of free blocks that together are large enough. */
static struct block *pending_run(struct host_small *small, uint64_t size, struct block **end)
{
	struct segment *segment;
	struct block *first, *block;
	uint64_t sum;

	for (segment = small->segments; segment; segment = segment->next) {
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

/* Makes @stream wait for all blocks of a run, and merges them in its lane. */
static int run_join(struct host_small *small, struct block *first, struct block *end, struct CUstream_st *stream,
		    uint64_t id)
{
	struct backend_event *event = host_event_create();
	int device = host_device_ordinal(small->dev);
	struct block *block;
	int ret = 0;

	for (block = first; block != end && !ret; block = block->next)
		if (block->lane)
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
	block_attach(small, first, lane_get(small, id), event);
	return 0;
}

/* Finds a free block that @stream may use now, with a wait for other streams if necessary. */
static int find_free_block(struct host_small *small, uint64_t size, struct CUstream_st *stream, uint64_t id,
			   struct block **block)
{
	struct lane *lane = g_hash_table_lookup(small->lanes, &id);
	struct block *own = lane ? smallest_fit(lane->by_size, size) : NULL;
	struct block *end;
	int ret;

	lock_assert_held(&small->lock);
	*block = smallest_fit(small->by_size, size);
	if (own && (!*block || own->size <= (*block)->size))
		*block = own;
	if (*block)
		return 0;
	ret = grow_lane(small, size, block);
	if (!ret)
		return 0;
	*block = pending_fit(small, size);
	if (*block)
		return host_stream_wait(host_device_ordinal(small->dev), stream, (*block)->event);
	*block = pending_run(small, size, &end);
	if (!*block)
		return ret;
	ret = run_join(small, *block, end, stream, id);
	if (!ret)
		*block = smallest_fit(lane_get(small, id)->by_size, size);
	return ret;
}

struct host_small *host_small_new(struct host_device *dev)
{
	struct host_small *small = g_new0(struct host_small, 1);

	lock_init(&small->lock, LOCK_HOST_SMALL);
	small->dev = dev;
	small->live = address_table_new(NULL);
	small->lanes = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, lane_free);
	small->by_size = g_tree_new_full(compare_block_size, NULL, NULL, NULL);
	return small;
}

uint64_t host_small_destroy(struct host_small *small)
{
	uint64_t live = g_hash_table_size(small->live);
	struct segment *segment;

	g_hash_table_destroy(small->live);
	while ((segment = small->segments)) {
		small->segments = segment->next;
		segment_free(small, segment);
	}
	g_hash_table_destroy(small->lanes);
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
		return error_set(-ENOMEM, "device memory: %zu bytes asked for, of host device %d", size,
				 host_device_ordinal(small->dev));
	lock_acquire(&small->lock);
	reap_lane(small);
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
	reap_lane(small);
	g_hash_table_remove(small->live, &va);
	if (!event_complete(event)) {
		block_attach(small, block, lane_get(small, id), event);
		goto unlock;
	}
	block_attach(small, block, NULL, NULL);
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
	const struct segment *segment = small->segments;

	lock_assert_held(&small->lock);
	if (block)
		return block;
	while (segment && va - segment->va >= segment->size)
		segment = segment->next;
	block = segment ? segment->first : NULL;
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
	struct segment *segment, **link;
	bool pending;

	lock_acquire(&small->lock);
	reap_lane(small);
	for (link = &small->segments; (segment = *link);) {
		if (!segment_unused(segment) || small->held - segment->size < keep) {
			link = &segment->next;
			continue;
		}
		*link = segment->next;
		segment_free(small, segment);
	}
	pending = g_hash_table_size(small->lanes);
	lock_release(&small->lock);
	return pending;
}
