// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the allocator class calls, behind a table. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "torch/alloc.h"
#include "torch/arena.h"
#include "torch/books.h"
#include "torch/device.h"
#include "torch/kept.h"
#include "torch/ordinary.h"
#include "torch/pools.h"
#include "torch/reserved.h"
#include "torch/share.h"
#include "torch/torch.h"
#include "util/captures.h"
#include "util/lender.h"
#include "vpmm/torch_class.h"

/* A free that would make the block a graph's. */
struct late {
	struct late *next;
	void *ptr;
	struct CUstream_st *stream;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct late *late;
static atomic_bool in_child, has_late, is_used;
static double first_fraction = 1;

static void enter_child(void)
{
	in_child = true;
	pools_enter_child();
	lender_enter_child();
}

static void begin_use(int device_count, double fraction, const struct torch_hooks *hooks)
{
	first_fraction = fraction;
	if (!is_used)
		pthread_atfork(NULL, NULL, enter_child);
	pools_set_hooks(hooks, reserved_note);
	device_set_count(device_count);
	kept_begin();
	is_used = true;
}

/* Does the frees that waited for captures to end. */
static void late_free(void)
{
	struct late *it, *next;

	if (!has_late || in_child || captures_any())
		return;
	pthread_mutex_lock(&lock);
	it = late;
	late = NULL;
	has_late = false;
	pthread_mutex_unlock(&lock);
	for (; it; it = next) {
		next = it->next;
		kept_free(it->ptr, it->stream);
		free(it);
	}
}

/* Without memory on the host the graph gets the block, and the program does not get it back before it retires that. */
static void late_add(void *ptr, struct CUstream_st *stream)
{
	struct late *it = malloc(sizeof(*it));

	if (!it) {
		kept_free(ptr, stream);
		return;
	}
	it->ptr = ptr;
	it->stream = stream;
	pthread_mutex_lock(&lock);
	it->next = late;
	late = it;
	has_late = true;
	pthread_mutex_unlock(&lock);
}

static bool stream_is_captured(int ordinal, struct CUstream_st *stream)
{
	uint64_t id = 0;
	bool entered;
	int err;

	if (!captures_any() || !device_enter(ordinal, &entered))
		return false;
	err = vpmm_capture_id(NULL, stream, &id);
	device_leave(entered);
	return err == -EBUSY || id;
}

/* PyTorch has allocated from a device, which is current. Until then it has no pool that could be limited. */
static void use_device(int ordinal)
{
	struct device *device = device_of(ordinal);

	if (device->joined)
		return;
	if (!device->used && first_fraction < 1 && !device->limit_before)
		alloc_set_limit(device, first_fraction);
	device_use(ordinal);
}

/* Makes a block of the program's of what the library has given. */
static int enter_block(void *ptr, struct torch_piece *block, int ordinal, size_t size, size_t least,
		       struct CUstream_st *stream)
{
	struct entry entry = {
		.ptr = ptr, .requested = size, .size = arena_round(size > least ? size : least), .stream = stream,
		.device = ordinal,
	};

	if (!books_add(&entry)) {
		kept_free(ptr, stream);
		return -ENOMEM;
	}
	use_device(ordinal);
	*block = (struct torch_piece){
		.addr = (uintptr_t)ptr, .size = entry.size, .requested = size, .stream = stream, .device = ordinal,
		.grows = 1, .large = arena_is_large(entry.size), .allocated = 1, .active = 1,
	};
	return 0;
}

/* The device is current. */
static int alloc_once(struct torch_piece *block, int ordinal, size_t size, size_t least, struct CUstream_st *stream,
		      struct torch_pool *pool)
{
	void *ptr = NULL;
	int err;

	/* A child has no memory of a pool either. */
	if (pool && !in_child) {
		use_device(ordinal);
		return pools_alloc(pool, block, size, least, stream);
	}
	err = vpmm_malloc(NULL, &ptr, size > least ? size : least, stream);
	return err ? err : enter_block(ptr, block, ordinal, size, least, stream);
}

static int class_alloc(struct torch_piece *block, int ordinal, size_t size, size_t least, struct CUstream_st *stream,
		       struct torch_pool *pool)
{
	bool entered;
	int err;

	if (!device_enter(ordinal, &entered))
		return -ENXIO;
	kept_retry();
	late_free();
	err = alloc_once(block, ordinal, size, least, stream, pool);
	device_leave(entered);
	return err;
}

static int class_alloc_pressed(struct torch_piece *block, int ordinal, size_t size, size_t least,
			       struct CUstream_st *stream, struct torch_pool *pool)
{
	const struct torch_id all = { 0 };
	bool entered, given = true;
	int err = -ENOMEM;

	if (!device_enter(ordinal, &entered))
		return -ENXIO;
	if (!pool)
		err = pools_borrow(ordinal, block, size, least, stream);
	if (!err)
		goto out;
	books_retry(ordinal);
	/* The library has waited for its own memory by now. */
	if (!captures_any())
		device_wait(ordinal);
	pools_trim(ordinal, all);
	kept_retry();
	late_free();
	err = alloc_once(block, ordinal, size, least, stream, pool);
	while (err == -ENOMEM && alloc_ask(ordinal, size > least ? size : least, &given))
		err = alloc_once(block, ordinal, size, least, stream, pool);
out:
	device_leave(entered);
	return err;
}

static int class_release(void *ptr, struct torch_piece *block)
{
	struct entry entry;

	if (in_child)
		return 0;
	if (!books_take(ptr, false, &entry) || (entry.part && !pools_free(ptr, block))) {
		kept_note_unknown();
		return -EINVAL;
	}
	if (entry.part)
		return 0;
	*block = (struct torch_piece){
		.addr = (uintptr_t)ptr, .size = entry.size, .requested = entry.requested, .stream = entry.stream,
		.device = entry.device, .grows = 1, .large = arena_is_large(entry.size),
	};
	if (stream_is_captured(entry.device, entry.stream) || (entry.captured && captures_any()))
		late_add(ptr, entry.captured ? VPMM_STREAM_ANY : entry.stream);
	else
		kept_free(ptr, entry.captured ? VPMM_STREAM_ANY : entry.stream);
	return 0;
}

static void class_use(void *ptr, struct CUstream_st *stream)
{
	struct entry entry;

	if (in_child || !books_find(ptr, &entry) || entry.stream == stream)
		return;
	if (entry.part)
		pools_use(entry.part, stream);
	else if (stream_is_captured(entry.device, stream))
		books_mark_captured(ptr);
	else
		kept_use(ptr, stream);
}

static int class_find(const void *ptr, struct torch_piece *block)
{
	struct entry entry;

	if (in_child || !books_find(ptr, &entry))
		return -EINVAL;
	*block = (struct torch_piece){
		.addr = (uintptr_t)ptr, .size = entry.size, .requested = entry.requested, .stream = entry.stream,
		.device = entry.device, .grows = !entry.part, .large = arena_is_large(entry.size),
		.allocated = 1, .active = 1,
	};
	if (entry.part)
		pools_piece(entry.part, block);
	return 0;
}

static int class_base(void *ptr, void **from, size_t *size)
{
	struct vpmm_allocation block = { .size = sizeof(block) };
	struct entry entry;
	int err;

	if (books_find(ptr, &entry) && entry.part) {
		pools_base(entry.part, from, size);
		return 0;
	}
	err = vpmm_lookup(ptr, &block);
	if (!err) {
		*from = block.base;
		*size = block.bytes;
	}
	return err;
}

static size_t class_cached(int ordinal)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	return vpmm_torch_stats(ordinal, &stats) ? 0 : stats.free;
}

/* Whole extents are free that work is pending on: what else is free is of no use to the device. */
static bool has_pending(int ordinal)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	return !vpmm_torch_stats(ordinal, &stats) && stats.free > stats.stuck;
}

static int class_trim(int ordinal, struct torch_id id)
{
	if (in_child)
		return 0;
	kept_retry();
	late_free();
	if (!id.a && !id.b)
		vpmm_torch_trim(ordinal, NULL);
	else
		pools_trim(ordinal, id);
	return !captures_any() && (pools_are_waiting(ordinal, id) || (!id.a && !id.b && has_pending(ordinal)));
}

static int set_fraction(int ordinal, double fraction)
{
	bool entered;
	int err;

	if (!device_of(ordinal))
		return -EINVAL;
	if (!device_enter(ordinal, &entered))
		return -ENXIO;
	err = alloc_set_limit(device_of(ordinal), fraction);
	device_leave(entered);
	return err;
}

static double get_fraction(int ordinal)
{
	const struct device *device = device_of(ordinal);
	struct vpmm_info info = { .size = sizeof(info) };
	bool entered;
	int err;

	if (!device)
		return 1;
	/* The configuration's, until there is an allocation or another fraction. */
	if (!device->limit_before)
		return device->used ? 1 : first_fraction;
	if (!device->limit || !device_enter(ordinal, &entered))
		return 1;
	err = vpmm_pool_info(NULL, &info);
	device_leave(entered);
	return err || !info.memory_total ? 1 : (double)device->limit / (double)info.memory_total;
}

/* Lets @peer access the memory of a device. */
static int set_peer(int ordinal, int peer)
{
	bool entered;
	int err;

	if (!device_of(ordinal) || !device_of(peer))
		return -EINVAL;
	if (!device_enter(ordinal, &entered))
		return -ENXIO;
	err = device_let_in(peer);
	device_leave(entered);
	return err;
}

static int class_stats(int ordinal, struct torch_stats *stats)
{
	if (!device_of(ordinal))
		return -EINVAL;
	late_free();
	return reserved_stats(ordinal, stats);
}

static void reset_accumulated(int ordinal)
{
	if (!device_of(ordinal))
		return;
	books_reset_accumulated(ordinal);
	reserved_reset_sums(ordinal);
	pools_reset(ordinal, stat_reset_sums);
}

static void reset_peaks(int ordinal)
{
	if (!device_of(ordinal))
		return;
	books_reset_peaks(ordinal);
	pools_reset(ordinal, stat_reset_peak);
	vpmm_torch_reset_peaks(ordinal);
	reserved_reset_peak(ordinal);
}

static void class_end(int ordinal, struct torch_id id, int captures)
{
	pools_end(ordinal, id, captures);
	late_free();
	kept_retry();
}

static int class_restore(int ordinal, struct torch_id id, const struct torch_piece *pieces, size_t count,
			 struct torch_piece **freed, size_t *freed_count, struct torch_piece **allocated,
			 size_t *allocated_count)
{
	bool entered;
	int err = pools_restore(ordinal, id, pieces, count, false, freed, freed_count, allocated, allocated_count);

	if (err != -EBUSY || captures_any() || !device_enter(ordinal, &entered))
		return err;
	if (device_wait(ordinal))
		err = pools_restore(ordinal, id, pieces, count, true, freed, freed_count, allocated, allocated_count);
	device_leave(entered);
	return err;
}

static int class_list(int ordinal, struct torch_id id, struct torch_piece **pieces, size_t *count)
{
	struct pieces found = { 0 };
	int err;

	if (!device_of(ordinal))
		return -EINVAL;
	err = pools_list(ordinal, id, &found);
	if (!err && !id.a && !id.b)
		err = ordinary_list(&found, ordinal);
	*pieces = found.all;
	*count = found.count;
	return err;
}

const struct torch_class *vpmm_torch_class(void)
{
	static const struct torch_class class = {
		.version = TORCH_CLASS_VERSION,
		.size = sizeof(class),
		.init = begin_use,
		.alloc = class_alloc,
		.alloc_pressed = class_alloc_pressed,
		.release = class_release,
		.use = class_use,
		.count_oom = books_oom,
		.find = class_find,
		.base = class_base,
		.cached = class_cached,
		.trim = class_trim,
		.set_fraction = set_fraction,
		.fraction = get_fraction,
		.set_peer = set_peer,
		.stats = class_stats,
		.pool_stats = pools_stats,
		.reset_accumulated = reset_accumulated,
		.reset_peaks = reset_peaks,
		.begin = pools_begin,
		.end = class_end,
		.join = pools_join,
		.drop = pools_drop,
		.uses = pools_uses,
		.set_lends = pools_set_lends,
		.set_whole = pools_set_whole,
		.list = class_list,
		.restore = class_restore,
		.share = share_give,
		.take_shared = vpmm_torch_take,
		.drop_shared = vpmm_torch_drop,
		.explain_sharing = vpmm_torch_explain,
		.last_error = vpmm_last_error,
	};

	return &class;
}
