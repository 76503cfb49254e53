// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_pool_dump(): the statistics and every region, in the format of vpmm_pool_dump(3). */
#include <inttypes.h>

#include "calls/arena.h"
#include "calls/check.h"
#include "calls/pool.h"
#include "calls/stats.h"
#include "core/account.h"
#include "core/allocation.h"
#include "core/cache-flush.h"
#include "core/cache.h"
#include "core/chunk.h"
#include "core/shareable.h"
#include "core/small.h"
#include "trace/sampler.h"

static void dump_stats(const struct vpmm_stats *stats, GString *out)
{
	const struct {
		const char *name;
		uint64_t value;
	} metrics[] = {
		{ "reserved", stats->reserved },
		{ "mapped", stats->mapped },
		{ "live", stats->live },
		{ "free", stats->free },
		{ "holes", stats->holes },
		{ "zombies", stats->zombies },
		{ "small_live", stats->small_live },
		{ "small_mapped", stats->small_mapped },
		{ "chunks", stats->chunks },
		{ "regions", stats->regions },
		{ "extents", stats->extents },
		{ "streams", stats->streams },
		{ "stuck", stats->stuck },
		{ "spans", stats->spans },
		{ "mappings", stats->mappings },
		{ "waits", stats->waits },
		{ "waits_sampled", stats->waits_sampled },
		{ "wait_ns", stats->wait_ns },
		{ "requested", stats->requested },
		{ "shareable", stats->shareable },
		{ "imported", stats->imported },
		{ "shared", stats->shared },
		{ "overlap", stats->overlap },
		{ "stranded", stats->stranded },
		{ "unsettled", stats->unsettled },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(metrics); i++)
		g_string_append_printf(out, "%s: %" PRIu64 "\n", metrics[i].name, metrics[i].value);
}

static void dump_id(const struct stream *stream, const char *before, GString *out)
{
	if (stream_is_any(stream))
		g_string_append_printf(out, "%sany", before);
	else if (stream_is_idle(stream))
		g_string_append_printf(out, "%sidle", before);
	else
		g_string_append_printf(out, "%s%" PRIu64, before, stream->id);
}

/* The streams that others have to wait for; where there are several, those that are pending. */
static void dump_stream(const struct region *region, GString *out)
{
	const struct event *event = region->event;
	const char *between = " ";

	g_string_append(out, " stream");
	if (!event || !event->count)
		dump_id(region->stream, " ", out);
	for (guint i = 0; event && i < event->count; i++) {
		if (event->left && event->parts[i].event->passed)
			continue;
		dump_id(event->parts[i].event->stream, between, out);
		between = ",";
	}
}

static void dump_region(const struct region *region, GString *out)
{
	static const char *const kinds[] = {
		[REGION_UNMAPPED] = "unmapped",
		[REGION_MALLOC] = "malloc",
		[REGION_FREE] = "free",
		[REGION_ZOMBIE] = "zombie",
		[REGION_LOOSE] = "loose",
	};

	bool cached = cache_holds(region);

	g_string_append_printf(out, "  0x%" PRIx64 " %zu %s", region->addr, region->size,
			       kinds[cached ? REGION_FREE : region->kind]);
	if (region->stream) {
		dump_stream(region, out);
		g_string_append(out, cached || event_pending(region->event) ? " pending" : " passed");
	} else if (region_is_free(region)) {
		g_string_append(out, " unused");
	}
	if (region->reserved)
		g_string_append(out, " reserved");
	g_string_append_c(out, '\n');
}

static void dump_chunk(const struct vpmm_pool *pool, const struct chunk *chunk, GString *out)
{
	char *layout = layout_line(&pool->core, chunk);

	g_string_append_printf(out, "chunk 0x%" PRIx64 ": %s\n", chunk->addr, layout);
	g_free(layout);
	for (const struct region *region = chunk->first; region; region = region->next)
		dump_region(region, out);
}

/* Blocks outside of the chunks that have memory of their own. */
static void dump_shareable(const struct vpmm_pool *pool, GString *out)
{
	GList *all = g_hash_table_get_values(pool->core.small);

	for (const GList *link = all; link; link = link->next) {
		const struct small *small = link->data;
		const struct shareable *it = small->shareable;

		if (it)
			g_string_append_printf(out, "%s 0x%" PRIx64 " %" PRIu64 "%s\n",
					       it->imported ? "imported" : "shareable", it->addr, it->bytes,
					       small->held ? " pending" : "");
	}
	g_list_free(all);
}

/* The latest call, if a cache @served it: of several caches, that of one. Returns its region, if it was a malloc. */
static struct region *cache_last(struct core *core, bool *served)
{
	uint64_t central = atomic_load_explicit(&core->central, memory_order_relaxed);
	struct region *last = NULL;

	lock_assert_held(&core->lock);
	*served = false;
	for_each_stream(stream, &core->streams) {
		struct cache *cache = stream->cache;

		brief_acquire(&cache->lock);
		if (cache->central == central) {
			*served = true;
			last = cache->last ? cache->last->region : NULL;
		}
		brief_release(&cache->lock);
		if (last)
			break;
	}
	return last;
}

/* Flushes the caches, and keeps the mark of the latest malloc. */
static void dump_prepare(struct vpmm_pool *pool)
{
	uint64_t newest = pool->core.regions.newest;
	struct region *last = NULL;
	uint64_t addr;
	bool served;

	last = cache_last(&pool->core, &served);
	for (guint i = 0; i < pool->core.regions.chunks->len && !served && !last; i++) {
		struct chunk *chunk = pool->core.regions.chunks->pdata[i];

		for (struct region *region = chunk->first; region && !last; region = region->next)
			last = region->kind == REGION_MALLOC && region->id == newest ? region : NULL;
	}
	addr = last ? last->addr : 0;
	/* Its stream may free it before the flush, which may then merge the region into another. */
	cache_flush_all(&pool->core);
	last = addr ? live_find(&pool->core, addr) : NULL;
	if (last || served) {
		pool->core.regions.newest++;
		pool->core.spans.newest++;
	}
	if (last)
		last->id = last->chunk->map->newest;
}

int dump_pool(struct vpmm_pool *pool, GString **text)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	GString *out;
	int err;

	lock_assert_held(&pool->core.lock);
	if (pool->core.settings.cache)
		dump_prepare(pool);
	err = stats_get(pool, &stats);
	if (err)
		return err;
	region_decide(&pool->core.regions);
	region_decide(&pool->core.spans);
	out = g_string_new(NULL);
	if (pool->arena)
		g_string_append_printf(out, "tag: %s%s\n", tag_name(pool->arena->tag),
				       pool->core.extents.hollow ? ", paused" : "");
	else
		g_string_append_printf(out, "backend: %s\npage_size: %zu\n", pool->core.backend->ops->name,
				       pool->core.settings.page_size);
	dump_stats(&stats, out);
	for (guint i = 0; i < pool->core.regions.chunks->len; i++)
		dump_chunk(pool, pool->core.regions.chunks->pdata[i], out);
	for (guint i = 0; i < pool->core.spans.chunks->len; i++)
		dump_chunk(pool, pool->core.spans.chunks->pdata[i], out);
	dump_shareable(pool, out);
	if (!pool->arena)
		tags_write(pool_tags(pool), out);
	if (pool->core.sampler)
		sampler_write(pool->core.sampler, out);
	*text = out;
	return 0;
}
