// SPDX-License-Identifier: LGPL-2.1-or-later
/* Allocates, resizes and frees blocks that have a tag or a sample, and keeps the counts of both. */
#include <inttypes.h>

#include "api/label.h"
#include "calls/arena.h"
#include "calls/query.h"
#include "calls/request.h"
#include "core/shareable.h"
#include "trace/sampler.h"
#include "util/cancel.h"
#include "util/error.h"

/* Bytes that @pool is going to count for a request. Where the driver serves every request, some kinds fail. */
static size_t round_for(const struct vpmm_pool *pool, size_t size, enum tagged_kind kind)
{
	const struct core *core = &pool->core;
	size_t bytes;

	if (kind == TAGGED_SHAREABLE)
		return shareable_bytes(core, size);
	if (kind == TAGGED_GROWABLE && core->settings.page_size != SIZE_MAX)
		return core_page_up(core, size);
	bytes = kind == TAGGED_POOLED ? request_round(pool, size) : core_round(core, size);
	return bytes ? bytes : size;
}

/* Counts a block as the pool does: one in a capture, or one that shrank, may be larger than it was taken to be. */
static void correct_size(struct tagged *block)
{
	block->size = lookup_bytes(block->pool, block->addr, &block->by_driver);
}

static int enter_and_make(struct tags *tags, vpmm_tag tag, struct vpmm_pool **arena)
{
	struct backend *be = tags->pool->core.backend;
	int err, cancel;

	*arena = arena_of(tags, tag);
	if (*arena)
		return 0;
	cancel = cancel_hold();
	err = be->ops->enter(be);
	if (!err) {
		err = arena_make(tags, tag, arena);
		be->ops->leave(be);
	}
	cancel_release(cancel);
	return err;
}

/* Which pool serves a request under a tag. */
static int choose(struct tags *tags, vpmm_tag word, enum tagged_kind kind, struct vpmm_pool **pool)
{
	int err;

	*pool = tags->pool;
	if (kind == TAGGED_SHAREABLE || word & VPMM_TAG_STAY || !tag_pausable(tag_of(word)))
		return 0;
	err = enter_and_make(tags, tag_of(word), pool);
	return err ? err : arena_judge(*pool);
}

static int call_and_sample(struct vpmm_pool *pool, uint64_t *addr, size_t size, labels_fn fn, void *data)
{
	int err;

	err = fn(data, pool, addr);
	if (!err && pool->core.sampler && size)
		sampler_note(pool->core.sampler, *addr, size);
	return err;
}

static int allocate_and_enter(struct tags *tags, struct tagged *block, uint64_t *addr, labels_fn fn, void *data)
{
	size_t claimed = block->size;
	int err;

	err = call_and_sample(block->pool, addr, block->requested, fn, data);
	if (err) {
		tags_replace(tags, block->word, NULL, NULL, claimed);
		return err;
	}
	block->addr = *addr;
	/* Most blocks have the size that a cache could have served. */
	if (block->kind != TAGGED_PLAIN || !core_round(&block->pool->core, block->requested))
		correct_size(block);
	tags_replace(tags, block->word, NULL, block, claimed);
	return 0;
}

static int allocate_tagged(struct vpmm_pool *pool, uint64_t *addr, size_t size, enum tagged_kind kind,
			   const char *call, labels_fn fn, void *data)
{
	struct tagged block = { .requested = size, .word = tag_current(), .kind = kind };
	struct tags *tags;
	int err;

	/* Both fail, with a text of their own. */
	if (api_is_forked() || size > SIZE_MAX / 4)
		return fn(data, pool, addr);
	err = tags_make(pool, &tags);
	if (!err)
		err = choose(tags, block.word, kind, &block.pool);
	if (!err) {
		block.size = round_for(block.pool, size, kind);
		err = tags_admit(tags, block.word, block.size);
	}
	if (err)
		return api_fail(pool, error_add(err, "%s: %zu bytes", call, size));
	return allocate_and_enter(tags, &block, addr, fn, data);
}

static bool take_of(struct vpmm_pool *pool, const void *ptr, struct tagged *block)
{
	struct tags *tags = pool_tags(arena_root(pool));

	return tags && tags_take(tags, (uintptr_t)ptr, block);
}

/* The tag of a block that may be in any pool, if @pool is NULL. */
static bool take_tag(struct vpmm_pool *pool, const void *ptr, struct tagged *block)
{
	bool given = pool;
	struct vpmm_pool *owner = NULL;

	if (!given && api_find_default(&pool))
		return false;
	if (pool && take_of(pool, ptr, block))
		return true;
	if (given || api_owner((uintptr_t)ptr, &owner))
		return false;
	return owner && owner != pool && take_of(owner, ptr, block);
}

int labels_allocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, enum tagged_kind kind, const char *call,
		    labels_fn fn, void *data)
{
	return api_tagged() && tag_current() && size ? allocate_tagged(pool, addr, size, kind, call, fn, data) :
	       call_and_sample(pool, addr, size, fn, data);
}

/* @pool: NULL: the call was given none. */
static struct sample *take_sample(const struct vpmm_pool *pool, const void *ptr)
{
	return pool && !pool->core.sampler ? NULL : sampler_take(pool ? pool->core.sampler : NULL, (uintptr_t)ptr);
}

struct vpmm_pool *labels_take(struct vpmm_pool *pool, const void *ptr, struct labels *labels)
{
	bool forked = api_is_forked();

	labels->tagged = !forked && api_tagged() && take_tag(pool, ptr, &labels->tag);
	if (labels->tagged)
		pool = labels->tag.pool;
	labels->sample = forked ? NULL : take_sample(pool, ptr);
	return pool;
}

static void end_tag(const struct tagged *block, bool there)
{
	struct tags *tags = pool_tags(arena_root(block->pool));

	tags_replace(tags, block->word, block, there ? block : NULL, 0);
}

void labels_end(const struct labels *labels, bool there)
{
	sampler_end(labels->sample, there);
	if (labels->tagged)
		end_tag(&labels->tag, there);
}

static int resize_tagged(const struct tagged *block, uint64_t *addr, size_t size, labels_fn fn, void *data)
{
	struct tags *tags = pool_tags(arena_root(block->pool));
	size_t bytes = size > SIZE_MAX / 4 ? block->size : round_for(block->pool, size, block->kind);
	size_t more = bytes > block->size ? bytes - block->size : 0;
	struct tagged resized = *block;
	int err;

	err = more ? tags_admit(tags, block->word, more) : 0;
	if (err) {
		tags_replace(tags, block->word, block, block, 0);
		return api_fail(tags->pool, error_add(err, "vpmm_realloc: %#" PRIx64 " to %zu bytes", *addr, size));
	}
	err = call_and_sample(block->pool, addr, size, fn, data);
	if (!err) {
		resized.addr = *addr;
		resized.requested = size;
		correct_size(&resized);
	}
	tags_replace(tags, block->word, block, &resized, more);
	return err;
}

/* A resized block gets a new sample: its stack is that of the resize. The tag stays. */
int labels_reallocate(struct vpmm_pool *pool, uint64_t *addr, size_t size, labels_fn fn, void *data)
{
	struct labels labels;
	int err;

	pool = labels_take(pool, (void *)(uintptr_t)*addr, &labels);
	err = labels.tagged ? resize_tagged(&labels.tag, addr, size, fn, data) :
	      call_and_sample(pool, addr, size, fn, data);
	sampler_end(labels.sample, err);
	return err;
}
