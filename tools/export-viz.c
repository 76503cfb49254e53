// SPDX-License-Identifier: LGPL-2.1-or-later
/* A snapshot as torch.cuda.memory._snapshot() returns it: segments with their blocks, and each device's history. */
#include "export.h"
#include "pickle.h"

static void put_number(struct pickle *p, const char *key, uint64_t value)
{
	pickle_text(p, key);
	pickle_number(p, value);
	pickle_item(p);
}

static void put_text(struct pickle *p, const char *key, const char *value)
{
	pickle_text(p, key);
	pickle_text(p, value);
	pickle_item(p);
}

static void put_no_frames(struct pickle *p)
{
	pickle_text(p, "frames");
	pickle_list(p);
	pickle_item(p);
}

static void put_block(struct pickle *p, const struct export_block *block)
{
	pickle_dict(p);
	put_number(p, "address", block->addr);
	put_number(p, "size", block->size);
	put_number(p, "requested_size", block->allocated ? block->requested : 0);
	put_text(p, "state", block->allocated ? "active_allocated" : "inactive");
	put_no_frames(p);
	pickle_element(p);
}

/* Return: the number of blocks. */
static guint put_segment(struct pickle *p, const struct export_pool *pool, guint first)
{
	const struct export_block *blocks = (const void *)pool->blocks->data;
	uint64_t total = 0, allocated = 0, requested = 0;
	guint end = first;

	do {
		total += blocks[end].size;
		allocated += blocks[end].allocated ? blocks[end].size : 0;
		requested += blocks[end].allocated ? blocks[end].requested : 0;
		end++;
	} while (end < pool->blocks->len && !blocks[end].segment);
	pickle_dict(p);
	put_number(p, "device", pool->device);
	put_number(p, "address", blocks[first].addr);
	put_number(p, "total_size", total);
	put_number(p, "allocated_size", allocated);
	put_number(p, "active_size", allocated);
	put_number(p, "requested_size", requested);
	put_number(p, "stream", 0);
	put_text(p, "segment_type", "large");
	pickle_text(p, "segment_pool_id");
	pickle_number(p, 0);
	pickle_number(p, 0);
	pickle_pair(p);
	pickle_item(p);
	pickle_text(p, "is_expandable");
	pickle_bool(p, true);
	pickle_item(p);
	put_no_frames(p);
	pickle_text(p, "blocks");
	pickle_list(p);
	for (guint i = first; i < end; i++)
		put_block(p, &blocks[i]);
	pickle_item(p);
	pickle_element(p);
	return end - first;
}

static void put_event(struct pickle *p, const struct export_event *event, const char *action)
{
	pickle_dict(p);
	put_text(p, "action", action);
	put_number(p, "addr", event->addr);
	put_number(p, "size", event->bytes);
	put_number(p, "stream", event->stream);
	put_number(p, "time_us", event->us);
	put_no_frames(p);
	pickle_element(p);
}

/* A free is complete at once: what a later user has to wait for is the pool's business. */
static void put_history(struct pickle *p, const struct export_pool *pool)
{
	for (guint i = 0; i < pool->events->len; i++) {
		const struct export_event *event = &g_array_index(pool->events, struct export_event, i);

		if (event->kind == EXPORT_ALLOC) {
			put_event(p, event, "alloc");
		} else if (event->kind == EXPORT_FREE) {
			put_event(p, event, "free_requested");
			put_event(p, event, "free_completed");
		} else if (event->kind == EXPORT_MAP || event->kind == EXPORT_UNMAP) {
			put_event(p, event, event->kind == EXPORT_MAP ? "segment_map" : "segment_unmap");
		}
	}
}

static unsigned int count_devices(const struct export *export)
{
	unsigned int devices = 0;

	for (guint i = 0; i < export->pools->len; i++)
		devices = MAX(devices, ((const struct export_pool *)export->pools->pdata[i])->device + 1);
	return devices;
}

static void put_traces(struct pickle *p, const struct export *export)
{
	unsigned int devices = count_devices(export);

	pickle_text(p, "device_traces");
	pickle_list(p);
	for (unsigned int device = 0; device < devices; device++) {
		pickle_list(p);
		for (guint i = 0; i < export->pools->len; i++) {
			const struct export_pool *pool = export->pools->pdata[i];

			if (pool->device == device)
				put_history(p, pool);
		}
		pickle_element(p);
	}
	pickle_item(p);
}

void export_viz(const struct export *export)
{
	struct pickle p;

	pickle_begin(&p, export->out);
	pickle_dict(&p);
	pickle_text(&p, "segments");
	pickle_list(&p);
	for (guint i = 0; i < export->pools->len; i++) {
		const struct export_pool *pool = export->pools->pdata[i];

		for (guint at = 0; at < pool->blocks->len;)
			at += put_segment(&p, pool, at);
	}
	pickle_item(&p);
	put_traces(&p, export);
	pickle_text(&p, "allocator_settings");
	pickle_dict(&p);
	pickle_text(&p, "expandable_segments");
	pickle_bool(&p, true);
	pickle_item(&p);
	pickle_item(&p);
	pickle_text(&p, "external_annotations");
	pickle_list(&p);
	pickle_item(&p);
	pickle_end(&p);
}
