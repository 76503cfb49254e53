// SPDX-License-Identifier: LGPL-2.1-or-later
/* A chunk in one line of text, for the log and for dumps. */
#include <inttypes.h>

#include "core/cache.h"
#include "core/core.h"
#include "core/layout.h"

static const char *region_sign(const struct region *region)
{
	switch (region->kind) {
	case REGION_MALLOC:
		if (cache_holds(region))
			return "-";
		return region->id == region->chunk->map->newest ? "+" : "";
	case REGION_FREE:
		return region->fresh ? "#" : "-";
	case REGION_ZOMBIE:
		return "~";
	default:
		return "*";
	}
}

char *layout_line(const struct core *core, const struct chunk *chunk)
{
	GString *line = g_string_new(NULL);

	lock_assert_held(&core->lock);
	for (const struct region *region = chunk->first; region; region = region->next)
		g_string_append_printf(line, "[%s%.10g]", region_sign(region),
				       (double)region->size / (double)core->settings.page_size);
	return g_string_free(line, FALSE);
}

void layout_say(struct core *core, const struct chunk *chunk, const char *what, size_t bytes,
		const struct stream *stream)
{
	char *layout;

	if (!bytes || !log_wants(&core->log, VPMM_LOG_DEBUG))
		return;
	region_merge_loose(chunk->map);
	layout = layout_line(core, chunk);
	log_add(&core->log, VPMM_LOG_DEBUG, "%s %zu bytes for stream %" PRIu64 ": %s", what, bytes,
		stream->id, layout);
	g_free(layout);
}
