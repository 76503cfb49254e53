// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * One lock for all pools. It is not held while memory is created, which may ask the program for memory and so come back
 * here. Order of locks: this one, then that of the books.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "torch/books.h"
#include "torch/kept.h"
#include "torch/pool.h"
#include "torch/pools.h"
#include "util/captures.h"
#include "vpmm.h"

/* A part that is freed, but in use. */
struct waiting {
	struct waiting *next;
	struct torch_pool *pool;
	struct part *part;
	size_t count;
	void *events[];		/* as many as the part has users; none recorded: all are NULL */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct torch_pool *pools;
static struct waiting *waiting;
static struct torch_hooks hooks;
static void (*note_reserved)(int device, uint64_t more);

void pools_set_hooks(const struct torch_hooks *given, void (*note)(int device, uint64_t more))
{
	hooks = *given;
	note_reserved = note;
}

void pools_enter_child(void)
{
	pthread_mutex_init(&lock, NULL);
	books_enter_child();
}

static bool is_same(struct torch_id one, struct torch_id other)
{
	return one.a == other.a && one.b == other.b;
}

static bool is_any(struct torch_id id)
{
	return !id.a && !id.b;
}

static struct torch_pool *pool_find(int device, struct torch_id id)
{
	struct torch_pool *pool = pools;

	while (pool && (pool->device != device || !is_same(pool->id, id)))
		pool = pool->next;
	return pool;
}

static struct torch_pool *pool_join(int device, struct torch_id id, const struct torch_source *source)
{
	struct torch_pool *pool = pool_find(device, id);

	if (!pool) {
		pool = calloc(1, sizeof(*pool));
		if (!pool)
			return NULL;
		pool->device = device;
		pool->id = id;
		if (source)
			pool->source = *source;
		pool->next = pools;
		pools = pool;
	} else if (source && source->forget) {
		source->forget(source->data);
	}
	pool->uses++;
	return pool;
}

struct torch_pool *pools_begin(int device, struct torch_id id, int captures)
{
	struct torch_pool *pool;

	if (captures)
		captures_begin();
	pthread_mutex_lock(&lock);
	pool = pool_join(device, id, NULL);
	if (pool)
		pool->begun++;
	pthread_mutex_unlock(&lock);
	if (!pool && captures)
		captures_end(1);
	return pool;
}

void pools_end(int device, struct torch_id id, int captures)
{
	struct torch_pool *pool;

	pool = pools_lock(device, id);
	if (pool && pool->begun)
		pool->begun--;
	pools_unlock();
	if (captures)
		captures_end(1);
}

int pools_join(int device, struct torch_id id, const struct torch_source *source)
{
	struct torch_pool *pool;

	pthread_mutex_lock(&lock);
	pool = pool_join(device, id, source);
	pthread_mutex_unlock(&lock);
	return pool ? 0 : -ENOMEM;
}

/* Ends a call on a pool that may not exist. */
static int part_with(const struct torch_pool *pool, int result)
{
	pthread_mutex_unlock(&lock);
	return pool ? result : -ENOENT;
}

int pools_drop(int device, struct torch_id id)
{
	struct torch_pool *pool = pools_lock(device, id);

	if (pool && pool->uses)
		pool->uses--;
	return part_with(pool, 0);
}

int pools_uses(int device, struct torch_id id)
{
	struct torch_pool *pool = pools_lock(device, id);

	return part_with(pool, pool ? pool->uses : 0);
}

int pools_set_lends(int device, struct torch_id id, int lends)
{
	struct torch_pool *pool = pools_lock(device, id);

	if (pool)
		pool->lends = lends;
	return part_with(pool, 0);
}

int pools_set_whole(int device, struct torch_id id)
{
	struct torch_pool *pool = pools_lock(device, id);

	if (pool)
		pool->arena.whole = true;
	return part_with(pool, 0);
}

struct torch_piece pool_piece(const struct torch_pool *pool, const struct part *part)
{
	return (struct torch_piece){
		.addr = part->addr, .size = part->size, .requested = part->requested, .id = pool->id,
		.stream = part->segment->stream, .device = pool->device, .large = part->segment->large,
		.allocated = part->allocated, .active = part->active,
	};
}

struct torch_piece pool_segment(const struct torch_pool *pool, const struct segment *segment)
{
	return (struct torch_piece){
		.addr = segment->addr, .size = segment->size, .stream = segment->stream, .id = pool->id,
		.device = pool->device, .segment = 1, .large = segment->large,
	};
}

static void segment_tell(struct torch_pool *pool, const struct segment *segment, int by)
{
	struct torch_piece piece = pool_segment(pool, segment);

	books_segment(pool->device, segment->size, segment->large, !pool->source.take, by);
	stat_count(pool->reserved, segment->large, stat_signed(by, segment->size));
	if (hooks.segment)
		hooks.segment(&piece, by > 0);
}

/* For any stream at once. Whole pages go back as a whole: a page that segments share would stay with the others. */
static int take_pages(void **ptr, uint64_t bytes, struct CUstream_st *stream)
{
	struct vpmm_info info = { .size = sizeof(info) };
	uint64_t align;
	int err;

	err = vpmm_pool_info(NULL, &info);
	if (err)
		return err;
	/* The largest power of two in both. */
	align = info.page_size | bytes;
	align &= -align;
	if (info.page_size == SIZE_MAX)
		return vpmm_malloc_flags(NULL, ptr, bytes, stream, VPMM_IDLE);
	return vpmm_malloc_aligned(NULL, ptr, bytes, align, VPMM_STREAM_ANY);
}

/* The driver, the program's allocator or the library: without the lock. */
static int segment_create(struct torch_pool *pool, uint64_t bytes, struct CUstream_st *stream, uint64_t *addr)
{
	void *ptr = NULL;
	int err = 0;

	if (pool->source.take)
		ptr = pool->source.take(pool->source.data, pool->device, bytes, stream);
	else
		err = take_pages(&ptr, bytes, stream);
	*addr = (uintptr_t)ptr;
	return err || ptr ? err : -ENOMEM;
}

static void segment_destroy(const struct torch_pool *pool, uint64_t addr)
{
	void *ptr = (void *)(uintptr_t)addr;

	if (pool->source.give)
		pool->source.give(pool->source.data, pool->device, ptr);
	else
		kept_free(ptr, VPMM_STREAM_ANY);
}

static bool has_passed(struct waiting *it)
{
	size_t i;

	for (i = 0; i < it->count; i++) {
		if (!it->events[i])
			it->events[i] = hooks.record(it->pool->device, it->part->users[i]);
		if (!it->events[i] || !hooks.passed(it->pool->device, it->events[i]))
			return false;
	}
	return true;
}

void pool_free_part(struct torch_pool *pool, struct part *part)
{
	uint64_t size = part->size, below = arena_split(part->before), above = arena_split(part->after), all;
	struct part *merged = below ? part->before : part;
	bool large = part->segment->large;

	arena_free(part);
	books_passed(pool->device, size, large);
	all = arena_split(merged);
	books_split(pool->device, large, !!all - !!below - !!above, (int64_t)(all - below - above));
}

/*
 * Ends waiting parts whose streams have passed. In a capture, a record makes a node, and a query invalidates it. A
 * child has no streams.
 */
static void poll_waiting(void)
{
	struct waiting **at = &waiting, *it;
	size_t i;

	if (!waiting || kept_in_child())
		return;
	while (*at && !captures_any()) {
		it = *at;
		if (!has_passed(it)) {
			at = &it->next;
			continue;
		}
		*at = it->next;
		for (i = 0; i < it->count; i++)
			hooks.forget(it->pool->device, it->events[i]);
		it->pool->waiting--;
		pool_free_part(it->pool, it->part);
		free(it);
	}
}

struct torch_pool *pools_lock(int device, struct torch_id id)
{
	pthread_mutex_lock(&lock);
	poll_waiting();
	return pool_find(device, id);
}

static struct torch_pool *pool_on(struct torch_pool *pool, int device)
{
	while (pool && pool->device != device)
		pool = pool->next;
	return pool;
}

struct torch_pool *pools_lock_first(int device)
{
	pthread_mutex_lock(&lock);
	poll_waiting();
	return pool_on(pools, device);
}

struct torch_pool *pool_after(const struct torch_pool *pool)
{
	return pool_on(pool->next, pool->device);
}

void pools_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* Takes memory of a free part for the program. */
static int pool_take(struct torch_pool *pool, struct part *part, struct torch_piece *block, uint64_t size,
		uint64_t requested, struct CUstream_st *stream)
{
	uint64_t split = arena_split(part), rest;
	struct entry entry;

	if (!arena_take(part, size, requested))
		return -ENOMEM;
	entry = (struct entry){
		.ptr = (void *)(uintptr_t)part->addr, .requested = requested, .size = part->size, .stream = stream,
		.part = part, .device = pool->device,
	};
	if (!books_add(&entry)) {
		arena_free(part);
		return -ENOMEM;
	}
	rest = arena_split(part->after);
	books_split(pool->device, part->segment->large, !!rest - !!split, (int64_t)(rest - split));
	*block = pool_piece(pool, part);
	return 0;
}

static vpmm_tag thread_tag(void)
{
	vpmm_tag tag = vpmm_tag_set(0);

	vpmm_tag_set(tag);
	return tag;
}

/* The tag that memory which the thread allocates from a pool has; that of other allocators has none. */
static vpmm_tag tag_in(const struct torch_pool *pool)
{
	return pool->source.take ? 0 : thread_tag();
}

static bool is_paused(vpmm_tag tag)
{
	struct vpmm_tag_stats stats = { .size = sizeof(stats) };

	return tag && !vpmm_tag_stats(NULL, tag & VPMM_TAG_ALL, &stats) && stats.paused;
}

static int pool_grow(struct torch_pool *pool, uint64_t size, struct CUstream_st *stream, vpmm_tag tag,
		     struct part **part)
{
	uint64_t bytes = arena_segment_size(size), addr = 0;
	struct segment *segment;
	int err;

	pool->busy++;
	pthread_mutex_unlock(&lock);
	err = segment_create(pool, bytes, stream, &addr);
	if (!err && pool->source.take)
		note_reserved(pool->device, bytes);
	pthread_mutex_lock(&lock);
	pool->busy--;
	if (err)
		return err;
	segment = arena_add(&pool->arena, addr, bytes, arena_is_large(size), stream, tag);
	if (!segment) {
		pthread_mutex_unlock(&lock);
		segment_destroy(pool, addr);
		pthread_mutex_lock(&lock);
		return -ENOMEM;
	}
	segment_tell(pool, segment, 1);
	*part = segment->first;
	return 0;
}

/* Bytes that a request takes of a pool; 0: there can never be so many, as where a negative size was converted. */
static uint64_t bytes_for(size_t size, size_t least)
{
	size_t bytes = size > least ? size : least;

	return bytes > PTRDIFF_MAX ? 0 : arena_round(bytes);
}

int pools_alloc(struct torch_pool *pool, struct torch_piece *block, size_t size, size_t least,
		struct CUstream_st *stream)
{
	uint64_t bytes = bytes_for(size, least);
	vpmm_tag tag = tag_in(pool);
	bool paused = is_paused(tag);
	struct part *part;
	int err = 0;

	if (!bytes)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	poll_waiting();
	/* The library refuses more memory under a tag that is paused, and has the text. */
	part = paused ? NULL : arena_find(&pool->arena, bytes, stream, tag);
	if (!part)
		err = pool_grow(pool, bytes, stream, tag, &part);
	if (!err)
		err = pool_take(pool, part, block, bytes, size, stream);
	pthread_mutex_unlock(&lock);
	return err;
}

int pools_borrow(int device, struct torch_piece *block, size_t size, size_t least, struct CUstream_st *stream)
{
	uint64_t bytes = bytes_for(size, least);
	bool paused = is_paused(thread_tag());
	struct torch_pool *pool;
	struct part *part;
	int err = -ENOMEM;

	if (!bytes)
		return err;
	for (pool = pools_lock_first(device); pool && err; pool = pool_after(pool)) {
		if (!pool->lends || (paused && tag_in(pool)))
			continue;
		part = arena_find(&pool->arena, bytes, stream, tag_in(pool));
		if (part)
			err = pool_take(pool, part, block, bytes, size, stream);
	}
	pthread_mutex_unlock(&lock);
	return err;
}

static struct torch_pool *part_pool(const struct part *part)
{
	return (struct torch_pool *)((char *)part->segment->arena - offsetof(struct torch_pool, arena));
}

/* If there was or is no memory on the host for its users, the part serves nobody any more. */
static void part_wait(struct torch_pool *pool, struct part *part)
{
	struct waiting *it = NULL;

	if (part->user_count != USERS_UNKNOWN)
		it = calloc(1, sizeof(*it) + part->user_count * sizeof(void *));
	arena_release(part);
	if (!it)
		return;
	it->pool = pool;
	it->part = part;
	it->count = part->user_count;
	it->next = waiting;
	waiting = it;
	pool->waiting++;
}

bool pools_free(void *ptr, struct torch_piece *block)
{
	struct torch_pool *pool;
	struct entry entry;
	bool found;

	pthread_mutex_lock(&lock);
	found = books_take(ptr, true, &entry) && entry.part;
	if (found) {
		pool = part_pool(entry.part);
		*block = pool_piece(pool, entry.part);
		if (entry.part->user_count)
			part_wait(pool, entry.part);
		else
			pool_free_part(pool, entry.part);
	}
	poll_waiting();
	pthread_mutex_unlock(&lock);
	return found;
}

void pools_use(struct part *part, struct CUstream_st *stream)
{
	pthread_mutex_lock(&lock);
	arena_use(part, stream);
	pthread_mutex_unlock(&lock);
}

void pools_piece(const struct part *part, struct torch_piece *block)
{
	pthread_mutex_lock(&lock);
	*block = pool_piece(part_pool(part), part);
	pthread_mutex_unlock(&lock);
}

void pools_base(const struct part *part, void **base, size_t *size)
{
	pthread_mutex_lock(&lock);
	*base = (void *)(uintptr_t)part->segment->addr;
	*size = part->segment->size;
	pthread_mutex_unlock(&lock);
}

bool pools_find_shared(const void *ptr, uint64_t number, void **base)
{
	struct entry entry;
	bool found;

	pthread_mutex_lock(&lock);
	found = books_find(ptr, &entry) && number && entry.shared == number;
	if (found)
		*base = entry.part ? (void *)(uintptr_t)entry.part->segment->addr : entry.ptr;
	pthread_mutex_unlock(&lock);
	return found;
}

/* Takes an idle segment out of a pool: its address, or 0. */
static uint64_t take_idle(struct torch_pool *pool)
{
	struct segment *segment = pool->arena.segments;
	uint64_t addr;

	while (segment && !arena_is_idle(segment))
		segment = segment->next;
	if (!segment)
		return 0;
	addr = segment->addr;
	segment_tell(pool, segment, -1);
	arena_remove(&pool->arena, segment);
	return addr;
}

/* The next pool without a use, of a device; or that of the id. */
static struct torch_pool *next_unused(struct torch_pool *pool, int device, struct torch_id id)
{
	while (pool && (pool->device != device || pool->uses || (!is_any(id) && !is_same(pool->id, id))))
		pool = pool->next;
	return pool;
}

static void forget_if_empty(struct torch_pool *pool)
{
	struct torch_pool **at = &pools;

	if (pool->uses || pool->begun || pool->busy || pool->waiting || pool->arena.segments)
		return;
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	if (pool->source.forget)
		pool->source.forget(pool->source.data);
	free(pool);
}

bool pools_trim(int device, struct torch_id id)
{
	struct torch_pool *pool, *next;
	bool given = false;
	uint64_t addr;

	pthread_mutex_lock(&lock);
	poll_waiting();
	for (pool = next_unused(pools, device, id); pool && !captures_any(); pool = next_unused(next, device, id)) {
		/* So that it stays while the lock is not held. */
		pool->busy++;
		if (pool->source.give) {
			pthread_mutex_unlock(&lock);
			note_reserved(device, 0);
			pthread_mutex_lock(&lock);
		}
		while ((addr = take_idle(pool))) {
			given = true;
			pthread_mutex_unlock(&lock);
			segment_destroy(pool, addr);
			pthread_mutex_lock(&lock);
		}
		pool->busy--;
		next = pool->next;
		forget_if_empty(pool);
	}
	pthread_mutex_unlock(&lock);
	return given;
}

uint64_t pools_count(void)
{
	const struct torch_pool *pool;
	uint64_t count = 0;

	pthread_mutex_lock(&lock);
	for (pool = pools; pool; pool = pool->next)
		count++;
	pthread_mutex_unlock(&lock);
	return count;
}
