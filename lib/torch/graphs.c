// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "torch/device.h"
#include "torch/graphs.h"
#include "torch/kept.h"
#include "util/captures.h"

struct capture {
	struct capture *next;
	uint64_t id;
	int device;		/* whose pool has memory of it; a capture can be in those of several */
	struct CUstream_st *stream;	/* that was captured when it came up; NULL: see keeper_of() */
	bool open;		/* PyTorch has not said that it has ended */
};

struct pool {
	struct pool *next;	/* the pool that was begun last is first */
	struct torch_pool_id id;
	int device;
	uint64_t group;
	unsigned int uses;	/* begins without a release */
	unsigned int open;	/* begins without an end */
	pthread_t thread;	/* of the last begin */
	struct capture *captures;
	time_t over_since;	/* seconds; when another thread has found its captures over; 0: none has */
};

/* How long it can take PyTorch, once it has ended a capture, to say so. */
#define GRACE_S 10

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;
static struct capture *due;	/* to be retired */
static atomic_bool is_due;

/* The place of the pointer to it. */
static struct pool **find_pool_place(int device, struct torch_pool_id id)
{
	struct pool **place = &pools;

	while (*place && ((*place)->device != device || (*place)->id.a != id.a || (*place)->id.b != id.b))
		place = &(*place)->next;
	return place;
}

static struct pool *take_pool(int device, struct torch_pool_id id)
{
	static uint64_t groups;
	struct pool **place = find_pool_place(device, id), *pool = *place;

	if (pool) {
		*place = pool->next;
		return pool;
	}
	pool = calloc(1, sizeof(*pool));
	if (pool) {
		pool->id = id;
		pool->device = device;
		pool->group = ++groups;
	}
	return pool;
}

void vpmm_torch_begin(int device, struct torch_pool_id id, void *filter)
{
	struct pool *pool;

	(void)filter;
	/* What is held off meanwhile may need the lock. */
	captures_begin();
	pthread_mutex_lock(&lock);
	pool = take_pool(device, id);
	if (pool) {
		pool->next = pools;
		pools = pool;
		pool->uses++;
		pool->open++;
		pool->thread = pthread_self();
	}
	pthread_mutex_unlock(&lock);
	if (!pool)
		captures_end(1);
}

/* Takes back one begin without an end. */
static void end_one(struct pool *pool)
{
	struct capture *capture;

	if (pool->open) {
		pool->open--;
		captures_end(1);
	}
	for (capture = pool->open ? NULL : pool->captures; capture; capture = capture->next)
		capture->open = false;
}

void vpmm_torch_end(int device, struct torch_pool_id id)
{
	struct pool *pool;

	pthread_mutex_lock(&lock);
	pool = *find_pool_place(device, id);
	if (pool)
		end_one(pool);
	pthread_mutex_unlock(&lock);
	kept_retry();
	graphs_retry();
}

static struct capture *find_capture(struct capture *list, int device, uint64_t id)
{
	while (list && (list->id != id || list->device != device))
		list = list->next;
	return list;
}

/*
 * Nobody tells for which pool a capture is. One that is known stays where it is; so does its other memory. Otherwise it
 * is that of this thread, or, on a thread of autograd's, the one that was begun last.
 */
static struct pool *pool_of(int device, uint64_t id)
{
	struct pool *pool, *best = NULL;

	for (pool = pools; pool; pool = pool->next) {
		if (find_capture(pool->captures, pool->device, id) || find_capture(pool->captures, device, id))
			return pool;
		if (!pool->open || (best && (pthread_equal(best->thread, pthread_self()) ||
					     !pthread_equal(pool->thread, pthread_self()))))
			continue;
		best = pool;
	}
	return best;
}

static bool add_to_pool(struct pool *pool, int device, uint64_t id, struct CUstream_st *stream)
{
	struct capture *capture = malloc(sizeof(*capture));

	if (!capture)
		return false;
	capture->id = id;
	capture->device = device;
	capture->stream = stream;
	capture->open = stream && pool->open;
	capture->next = pool->captures;
	pool->captures = capture;
	return true;
}

/*
 * The id of a capture that never was, in the group of a pool. The library gives the memory of a group back once all
 * graphs of it are gone. PyTorch may still have some that allocate nothing, and read what the others have left.
 */
static uint64_t keeper_of(uint64_t group)
{
	return UINT64_MAX - group;
}

static bool is_keeper(const struct capture *capture)
{
	return capture->id > UINT64_MAX / 2;
}

/* Returns the group that the capture is to join; 0: it is in one already, or has none. */
static uint64_t add_to_group(int device, uint64_t id, struct CUstream_st *stream)
{
	struct pool *pool = pool_of(device, id);
	uint64_t keeper;

	if (!pool || find_capture(pool->captures, device, id))
		return 0;
	keeper = keeper_of(pool->group);
	if (!find_capture(pool->captures, device, keeper) && !add_to_pool(pool, device, keeper, NULL))
		return 0;
	return add_to_pool(pool, device, id, stream) ? pool->group : 0;
}

void graphs_note(int device, struct CUstream_st *stream)
{
	uint64_t id, group;

	/* That the legacy stream cannot be asked beside a capture means that it is in none. */
	if (vpmm_capture_id(NULL, stream, &id) || !id)
		return;
	pthread_mutex_lock(&lock);
	group = add_to_group(device, id, stream);
	pthread_mutex_unlock(&lock);
	if (!group)
		return;
	vpmm_capture_group(NULL, keeper_of(group), group);
	vpmm_capture_group(NULL, id, group);
}

static void append_captures(struct capture **list, struct capture *captures)
{
	while (*list)
		list = &(*list)->next;
	*list = captures;
}

/* Takes back so many begins. With the last, the pool at this place goes, and its graphs are to be retired. */
static bool release_uses(struct pool **place, unsigned int uses)
{
	struct pool *pool = *place;

	pool->uses -= uses;
	if (pool->uses)
		return false;
	*place = pool->next;
	captures_end(pool->open);
	append_captures(&due, pool->captures);
	is_due = due;
	free(pool);
	return true;
}

void vpmm_torch_release(int device, struct torch_pool_id id)
{
	struct pool **place;

	/* The graphs that a forked child has inherited end with it, and nobody else has them. */
	if (kept_in_child())
		return;
	pthread_mutex_lock(&lock);
	place = find_pool_place(device, id);
	if (*place)
		release_uses(place, 1);
	pthread_mutex_unlock(&lock);
	graphs_retry();
}

/* Whether the captures of an open pool are over: PyTorch does not tell where one has failed, and never releases it. */
static bool has_failed(const struct pool *pool)
{
	const struct capture *capture;
	bool any = false, entered, over;
	uint64_t id;

	for (capture = pool->captures; capture; capture = capture->next) {
		if (!capture->open)
			continue;
		if (!device_enter(capture->device, &entered))
			return false;
		over = !vpmm_capture_id(NULL, capture->stream, &id) && id != capture->id;
		device_leave(entered);
		if (!over)
			return false;
		any = true;
	}
	return any;
}

/*
 * Whether that is for sure. PyTorch ends a capture first and says so then. In between it looks like one that has
 * failed, but not to the thread that does both.
 */
static bool has_failed_for_sure(struct pool *pool)
{
	struct timespec now;

	if (!has_failed(pool)) {
		pool->over_since = 0;
		return false;
	}
	if (pthread_equal(pool->thread, pthread_self()))
		return true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!pool->over_since)
		pool->over_since = now.tv_sec;
	return now.tv_sec - pool->over_since >= GRACE_S;
}

/* The pool that this thread has begun last, of those without an end. */
static struct pool **begun_here(void)
{
	struct pool **place = &pools;

	while (*place && (!(*place)->open || !pthread_equal((*place)->thread, pthread_self())))
		place = &(*place)->next;
	return place;
}

static unsigned int count_here(void)
{
	const struct pool *pool;
	unsigned int n = 0;

	for (pool = pools; pool; pool = pool->next)
		if (pthread_equal(pool->thread, pthread_self()))
			n += pool->open;
	return n;
}

unsigned int vpmm_torch_begun(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = count_here();
	pthread_mutex_unlock(&lock);
	return n;
}

static bool has_open_capture(const struct pool *pool)
{
	const struct capture *capture = pool->captures;

	while (capture && !capture->open)
		capture = capture->next;
	return capture;
}

void vpmm_torch_capture_failed(unsigned int begun)
{
	struct pool **place;

	if (kept_in_child())
		return;
	pthread_mutex_lock(&lock);
	while (count_here() > begun) {
		place = begun_here();
		/* It may go on: PyTorch refuses to end a capture on a stream other than its own. */
		if (!*place || (has_open_capture(*place) && !has_failed(*place)))
			break;
		end_one(*place);
		release_uses(place, 1);
	}
	pthread_mutex_unlock(&lock);
	kept_retry();
	graphs_retry();
}

static void close_failed(void)
{
	struct pool **place, *pool;
	struct capture *capture;
	unsigned int open;

	pthread_mutex_lock(&lock);
	place = &pools;
	while (*place) {
		pool = *place;
		if (!has_failed_for_sure(pool)) {
			place = &pool->next;
			continue;
		}
		for (capture = pool->captures; capture; capture = capture->next)
			capture->open = false;
		open = pool->open;
		captures_end(open);
		pool->open = 0;
		if (!release_uses(place, open))
			place = &pool->next;
	}
	pthread_mutex_unlock(&lock);
}

/*
 * Those of one device, which is current. What a retire records on the legacy default stream invalidates a capture of a
 * blocking stream. Returns those that cannot be retired yet.
 */
static struct capture *retire_captures(struct capture *captures, int device)
{
	struct capture *left = NULL, *next;
	int err;

	/* PyTorch does not tell where a graph was launched. */
	if (!device_wait(device) || !captures_hold_off())
		return captures;
	for (; captures; captures = next) {
		next = captures->next;
		err = captures->device == device ? vpmm_graph_retire(NULL, captures->id, NULL) : -EBUSY;
		/* After any other error it is there still. */
		if (err && err != -EINVAL) {
			captures->next = left;
			left = captures;
			continue;
		}
		free(captures);
	}
	captures_let();
	return left;
}

bool graphs_retry(void)
{
	struct capture *captures;
	bool entered;
	int i;

	if (kept_in_child())
		return false;
	if (captures_any())
		close_failed();
	if (!is_due || captures_any())
		return false;
	pthread_mutex_lock(&lock);
	captures = due;
	due = NULL;
	is_due = false;
	pthread_mutex_unlock(&lock);
	for (i = 0; i < DEVICES && captures; i++) {
		struct capture *capture = captures;

		while (capture && capture->device != i)
			capture = capture->next;
		if (!capture)
			continue;
		if (!device_enter(i, &entered))
			continue;
		captures = retire_captures(captures, i);
		device_leave(entered);
	}
	if (!captures)
		return true;
	pthread_mutex_lock(&lock);
	append_captures(&due, captures);
	is_due = true;
	pthread_mutex_unlock(&lock);
	return true;
}

static uint64_t length(const struct capture *captures)
{
	uint64_t n = 0;

	for (; captures; captures = captures->next)
		n += !is_keeper(captures);
	return n;
}

void graphs_count(uint64_t *pools_count, uint64_t *captures)
{
	const struct pool *pool;

	pthread_mutex_lock(&lock);
	*pools_count = 0;
	*captures = length(due);
	for (pool = pools; pool; pool = pool->next) {
		++*pools_count;
		*captures += length(pool->captures);
	}
	pthread_mutex_unlock(&lock);
}
