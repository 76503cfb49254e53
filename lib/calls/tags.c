// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that were allocated under a tag, and counts of them. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "calls/pool.h"
#include "calls/tags.h"
#include "util/address.h"
#include "util/error.h"
#include "util/text.h"

static int new_tags(struct vpmm_pool *pool, struct tags **made)
{
	struct tags *tags = g_new0(struct tags, 1);
	int err;

	err = store_init(&tags->store, pool->core.backend, pool->core.granularity);
	if (err) {
		g_free(tags);
		return err;
	}
	tags->pool = pool;
	lock_init(&tags->lock, LOCK_TAGS);
	tags->blocks = address_table_new(g_free);
	*made = tags;
	return 0;
}

int tags_make(struct vpmm_pool *pool, struct tags **tags)
{
	int err = 0;

	*tags = pool_tags(pool);
	if (*tags)
		return 0;
	lock_acquire(&pool->core.lock);
	*tags = pool_tags(pool);
	if (!*tags)
		err = new_tags(pool, tags);
	if (!err)
		g_atomic_pointer_set(&pool->made_tags, *tags);
	lock_release(&pool->core.lock);
	return err;
}

void tags_delete(struct tags *tags)
{
	store_clear(&tags->store);
	g_hash_table_destroy(tags->blocks);
	lock_destroy(&tags->lock);
	g_free(tags);
}

static int admit(struct tag_counts *counts, vpmm_tag tag, size_t size)
{
	uint64_t used = counts->live + counts->claimed;

	if (counts->limit && (size > counts->limit || used > counts->limit - size))
		return error_set(-ENOMEM, "limit: %s needed, but tag \"%s\" has %s of the %s that it may",
				 amount(size).text, tag_name(tag), amount(used).text, amount(counts->limit).text);
	counts->claimed += size;
	return 0;
}

int tags_admit(struct tags *tags, vpmm_tag word, size_t size)
{
	int err;

	lock_acquire(&tags->lock);
	err = admit(&tags->counts[tag_of(word)], tag_of(word), size);
	lock_release(&tags->lock);
	return err;
}

/* Whether pausing the tag leaves it. */
static bool stays_mapped(const struct tags *tags, const struct tagged *block)
{
	return block->pool == tags->pool || block->by_driver;
}

static void count(struct tag_counts *counts, const struct tagged *block, bool kept)
{
	counts->live += block->size;
	counts->requested += block->requested;
	counts->blocks++;
	counts->kept += kept ? block->size : 0;
	counts->peak_live = MAX(counts->peak_live, counts->live);
}

static void uncount(struct tag_counts *counts, const struct tagged *block, bool kept)
{
	counts->live -= block->size;
	counts->requested -= block->requested;
	counts->blocks--;
	counts->kept -= kept ? block->size : 0;
}

/* A program that frees a block in two calls at once may have a new one at the address before the first call ends. */
static void drop_stale_block(struct tags *tags, uint64_t addr)
{
	const struct tagged *stale = g_hash_table_lookup(tags->blocks, &addr);

	if (!stale)
		return;
	uncount(&tags->counts[tag_of(stale->word)], stale, stays_mapped(tags, stale));
	/* An insertion would keep the key, which goes with the block. */
	g_hash_table_remove(tags->blocks, &addr);
}

void tags_replace(struct tags *tags, vpmm_tag word, const struct tagged *old, const struct tagged *block,
		  size_t claimed)
{
	struct tag_counts *counts = &tags->counts[tag_of(word)];
	struct tagged *copy = block ? g_new(struct tagged, 1) : NULL;

	lock_acquire(&tags->lock);
	counts->claimed -= claimed;
	if (old)
		uncount(counts, old, stays_mapped(tags, old));
	if (copy) {
		*copy = *block;
		drop_stale_block(tags, copy->addr);
		count(counts, copy, stays_mapped(tags, copy));
		g_hash_table_insert(tags->blocks, &copy->addr, copy);
	}
	lock_release(&tags->lock);
}

bool tags_take(struct tags *tags, uint64_t addr, struct tagged *block)
{
	struct tagged *found;

	lock_acquire(&tags->lock);
	found = g_hash_table_lookup(tags->blocks, &addr);
	if (found) {
		*block = *found;
		g_hash_table_remove(tags->blocks, &addr);
	}
	lock_release(&tags->lock);
	return found;
}

bool tags_find(struct tags *tags, uint64_t addr, struct tagged *block)
{
	const struct tagged *found;

	lock_acquire(&tags->lock);
	found = g_hash_table_lookup(tags->blocks, &addr);
	if (found)
		*block = *found;
	lock_release(&tags->lock);
	return found;
}

uint64_t tags_find_around(struct tags *tags, uint64_t addr)
{
	const struct tagged *block;
	uint64_t found = 0;
	GHashTableIter i;

	lock_acquire(&tags->lock);
	g_hash_table_iter_init(&i, tags->blocks);
	while (!found && g_hash_table_iter_next(&i, NULL, (gpointer *)&block))
		found = addr - block->addr < block->requested ? block->addr : 0;
	lock_release(&tags->lock);
	return found;
}

bool tags_drops(const struct tags *tags, uint64_t addr)
{
	const struct tagged *found;

	lock_assert_held(&tags->lock);
	found = g_hash_table_lookup(tags->blocks, &addr);
	return found && found->word & VPMM_TAG_DROP;
}

void tags_read(struct tags *tags, vpmm_tag tag, struct tag_counts *counts)
{
	lock_acquire(&tags->lock);
	*counts = tags->counts[tag];
	lock_release(&tags->lock);
}

void tags_write(struct tags *tags, GString *text)
{
	struct tag_counts counts;

	for (vpmm_tag tag = 1; tags && tag <= tag_count(); tag++) {
		tags_read(tags, tag, &counts);
		if (counts.peak_live)
			g_string_append_printf(text, "tag %s live %" PRIu64 " requested %" PRIu64 " blocks %" PRIu64
					       " peak %" PRIu64 "\n", tag_name(tag), counts.live, counts.requested,
					       counts.blocks, counts.peak_live);
	}
}

void tags_set_limit(struct tags *tags, vpmm_tag tag, uint64_t limit)
{
	lock_acquire(&tags->lock);
	tags->counts[tag].limit = limit;
	lock_release(&tags->lock);
}

void tags_reset_peaks(struct tags *tags)
{
	lock_acquire(&tags->lock);
	for (vpmm_tag i = 0; i <= TAGS_MOST; i++)
		tags->counts[i].peak_live = tags->counts[i].live;
	memset(&tags->peak, 0, sizeof(tags->peak));
	lock_release(&tags->lock);
}
