// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <inttypes.h>

#include "dump.h"
#include "error.h"
#include "pool.h"
#include "stats.h"

static const char *region_sign(const struct vpmm_pool *pool, const struct region *region)
{
	switch (region->kind) {
	case REGION_MALLOC:
		return region->id == pool->regions.newest ? "+" : "";
	case REGION_FREE:
		return region->fresh ? "#" : "-";
	case REGION_ZOMBIE:
		return "~";
	default:
		return "*";
	}
}

char *dump_layout(const struct vpmm_pool *pool, const struct chunk *chunk)
{
	GString *line = g_string_new(NULL);

	for (const struct region *region = chunk->first; region; region = region->next)
		g_string_append_printf(line, "[%s%zu]", region_sign(pool, region),
				       region->size / pool->settings.page_size);
	return g_string_free(line, FALSE);
}

static void dump_stats(const struct vpmm_stats *stats, FILE *out)
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
	};

	for (size_t i = 0; i < G_N_ELEMENTS(metrics); i++)
		fprintf(out, "%s: %" PRIu64 "\n", metrics[i].name, metrics[i].value);
}

static void dump_region(const struct region *region, FILE *out)
{
	static const char *const kinds[] = {
		[REGION_UNMAPPED] = "unmapped",
		[REGION_MALLOC] = "malloc",
		[REGION_FREE] = "free",
		[REGION_ZOMBIE] = "zombie",
	};

	fprintf(out, "  0x%" PRIx64 " %zu %s", region->addr, region->size, kinds[region->kind]);
	if (region->stream)
		fprintf(out, " stream %" PRIu64 " %s", region->stream->id,
			event_pending(region->event) ? "pending" : "passed");
	else if (region->kind == REGION_FREE)
		fprintf(out, " unused");
	fputc('\n', out);
}

static void dump_chunk(const struct vpmm_pool *pool, const struct chunk *chunk, FILE *out)
{
	char *layout = dump_layout(pool, chunk);

	fprintf(out, "chunk 0x%" PRIx64 ": %s\n", chunk->addr, layout);
	g_free(layout);
	for (const struct region *region = chunk->first; region; region = region->next)
		dump_region(region, out);
}

int dump_pool(struct vpmm_pool *pool, FILE *out)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	int err;

	err = stats_get(pool, &stats);
	if (err)
		return err;
	errno = 0;
	fprintf(out, "backend: %s\npage_size: %zu\n", pool->backend->ops->name, pool->settings.page_size);
	dump_stats(&stats, out);
	for (guint i = 0; i < pool->regions.chunks->len; i++)
		dump_chunk(pool, pool->regions.chunks->pdata[i], out);
	if (fflush(out) || ferror(out))
		return error_set(-EIO, "writing failed: %s", errno ? g_strerror(errno) : "the stream has an error");
	return 0;
}
