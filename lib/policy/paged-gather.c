// SPDX-License-Identifier: LGPL-2.1-or-later
/* Gathers free pages into one block. */
#include "core/account.h"
#include "core/alias.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/layout.h"
#include "policy/paged-gather.h"
#include "policy/policy.h"
#include "util/error.h"

/* Part of a free region, from its start. */
struct piece {
	struct region *region;
	size_t take;
};

/**
 * struct harvest - a gathering under way
 * @core: the pool's core
 * @size: bytes of the request
 * @stream: the stream that it is for
 * @handle: a handle of it
 * @pieces: of struct piece: what is remapped
 * @extents: of struct extent: what is mapped into the hole, first remapped ones, then new ones
 * @moved: bytes that are remapped
 * @created: bytes that are created
 * @hole: the unmapped region that they go to
 * @base: the free region in front of the hole, which stays in place; or NULL
 * @event: the point in the stream that is ordered after all earlier uses of the block
 */
struct harvest {
	struct core *core;
	size_t size;
	struct stream *stream;
	struct CUstream_st *handle;
	GArray *pieces;
	GPtrArray *extents;
	size_t moved;
	size_t created;
	struct region *hole;
	struct region *base;
	struct event *event;
};

static size_t harvest_take(struct harvest *harvest, struct region *region, size_t wanted)
{
	struct piece piece = { .region = region, .take = MIN(wanted, region->size) };

	g_array_append_val(harvest->pieces, piece);
	return wanted - piece.take;
}

/* Takes free memory of one stream, or of none: it needs no wait. */
static size_t harvest_take_set(struct harvest *harvest, const struct free_set *set, size_t wanted)
{
	for (GList *link = set ? set->by_age.head : NULL; link && wanted; link = link->next)
		wanted = harvest_take(harvest, link->data, wanted);
	return wanted;
}

/* The stream's own memory first, then unused, then other streams'; each oldest first. */
static void harvest_plan(struct harvest *harvest)
{
	struct region_map *regions = &harvest->core->regions;
	bool block = harvest->core->settings.reuse == VPMM_REUSE_BLOCK;
	size_t wanted = harvest->size - harvest->created;

	if (!block) {
		wanted = harvest_take_set(harvest, harvest->stream->free[regions->set], wanted);
		wanted = harvest_take_set(harvest, &regions->unused, wanted);
	}
	for (GList *link = regions->by_age.head; link && wanted; link = link->next) {
		struct region *region = link->data;

		if (block || (region->stream && region->stream != harvest->stream))
			wanted = harvest_take(harvest, region, wanted);
	}
}

/* Finds the hole. A free region that ends where the hole starts stays in place, as the start of the block. */
static int harvest_place(struct harvest *harvest)
{
	int err;

	err = chunk_find(harvest->core, &harvest->core->regions, harvest->size, &harvest->hole);
	if (err)
		return err;
	for (guint i = 0; i < harvest->pieces->len; i++) {
		struct piece *piece = &g_array_index(harvest->pieces, struct piece, i);

		if (piece->region == harvest->hole->prev) {
			harvest->base = piece->region;
			g_array_remove_index(harvest->pieces, i);
			break;
		}
	}
	return 0;
}

static int harvest_memory(struct harvest *harvest)
{
	struct extent_map *extents = &harvest->core->extents;
	int err;

	err = extent_judge(extents, harvest->created, extents->page_size);
	if (err)
		return err;
	for (guint i = 0; i < harvest->pieces->len; i++) {
		struct piece *piece = &g_array_index(harvest->pieces, struct piece, i);

		extent_collect(extents, piece->region->addr, piece->take, harvest->extents);
		harvest->moved += piece->take;
	}
	return extent_create(extents, harvest->created, extents->page_size, false, harvest->extents);
}

/* Adds a region's event, if it is the latest of another stream; it covers the earlier ones. */
static void harvest_await(GHashTable *latest, const struct harvest *harvest, struct region *region)
{
	struct event *known;

	if (!event_pending(region->event) || region->stream == harvest->stream)
		return;
	known = g_hash_table_lookup(latest, region->stream);
	if (!known || known->seq < region->event->seq)
		g_hash_table_insert(latest, region->stream, region->event);
}

/* Stream to event: what the stream has to wait for. */
static GHashTable *harvest_awaited(const struct harvest *harvest)
{
	GHashTable *latest = g_hash_table_new(NULL, NULL);

	for (guint i = 0; i < harvest->pieces->len; i++)
		harvest_await(latest, harvest, g_array_index(harvest->pieces, struct piece, i).region);
	if (harvest->base)
		harvest_await(latest, harvest, harvest->base);
	return latest;
}

static int harvest_wait_on_device(struct harvest *harvest, bool *waited)
{
	GHashTable *latest = harvest_awaited(harvest);
	GHashTableIter iter;
	gpointer event;
	int err = 0;

	*waited = g_hash_table_size(latest) > 0;

	g_hash_table_iter_init(&iter, latest);
	while (!err && g_hash_table_iter_next(&iter, NULL, &event)) {
		err = event_wait(event, harvest->handle);
		if (!err)
			harvest->core->counts.waits++;
	}
	g_hash_table_destroy(latest);
	return err;
}

static int harvest_sync_one(struct harvest *harvest, struct region *region)
{
	int err;

	if (!event_pending(region->event))
		return 0;
	err = event_sync(region->event);
	if (!err)
		harvest->core->counts.waits++;
	return err;
}

static int harvest_wait_on_host(struct harvest *harvest)
{
	int err = 0;

	for (guint i = 0; i < harvest->pieces->len && !err; i++)
		err = harvest_sync_one(harvest, g_array_index(harvest->pieces, struct piece, i).region);
	if (harvest->base && !err)
		err = harvest_sync_one(harvest, harvest->base);
	return err;
}

/* The stream's own latest event in the block. */
static struct event *harvest_own_event(struct harvest *harvest)
{
	struct event *latest = NULL;

	for (guint i = 0; i <= harvest->pieces->len; i++) {
		struct region *region = i < harvest->pieces->len ?
			g_array_index(harvest->pieces, struct piece, i).region : harvest->base;

		if (region && region->stream == harvest->stream && region->event &&
		    (!latest || latest->seq < region->event->seq))
			latest = region->event;
	}
	return latest;
}

/* Orders the stream after the earlier uses; *@waited says whether it waits on the device. */
static int harvest_wait(struct harvest *harvest, bool *waited)
{
	*waited = false;
	if (harvest->core->settings.reuse == VPMM_REUSE_BLOCK || harvest->stream->captured)
		return harvest_wait_on_host(harvest);
	return harvest_wait_on_device(harvest, waited);
}

/* The event of the block: the stream's own latest free, or, if it waits for others, a new record. */
static int harvest_find_event(struct harvest *harvest, bool waited)
{
	if (waited)
		return stream_record(harvest->stream, harvest->handle, &harvest->event);
	harvest->event = event_ref(harvest_own_event(harvest));
	return 0;
}

static void harvest_say(struct harvest *harvest, const struct chunk *chunk, const char *what, size_t bytes)
{
	struct core *core = harvest->core;
	char *layout;

	if (!bytes || !log_wants(&core->log, VPMM_LOG_DEBUG))
		return;
	layout = layout_line(core, chunk);
	log_add(&core->log, VPMM_LOG_DEBUG, "%s %zu bytes for stream %" G_GUINT64_FORMAT ": %s", what, bytes,
		harvest->stream->id, layout);
	g_free(layout);
}

/* Updates the region maps for what was mapped. Nothing here can fail. */
static struct region *harvest_commit(struct harvest *harvest)
{
	struct region_map *regions = &harvest->core->regions;
	struct region *hole = harvest->hole, *rest = hole, *block = NULL;
	struct chunk *chunk = hole->chunk;

	extent_settle(&harvest->core->extents, hole->addr, harvest->extents);
	for (guint i = 0; i < harvest->pieces->len; i++) {
		struct piece *piece = &g_array_index(harvest->pieces, struct piece, i);

		region_cut(regions, piece->region, piece->take);
		region_set_zombie(regions, piece->region);
	}
	if (harvest->base)
		block = region_set_free(regions, harvest->base, harvest->stream, harvest->event);
	if (harvest->moved) {
		rest = region_cut(regions, hole, harvest->moved);
		block = region_set_free(regions, hole, harvest->stream, harvest->event);
		harvest_say(harvest, chunk, "moved", harvest->moved);
	}
	if (harvest->created) {
		region_cut(regions, rest, harvest->created);
		rest = region_set_free(regions, rest, NULL, NULL);
		rest->fresh = true;
		harvest_say(harvest, chunk, "created", harvest->created);
		block = region_set_free(regions, rest, harvest->stream, harvest->event);
	}
	harvest_say(harvest, chunk, "gathered", block->size);
	return block;
}

static void harvest_count(struct harvest *harvest)
{
	struct counts *counts = &harvest->core->counts;

	if (harvest->moved || harvest->base)
		counts->defrags++;
	counts->remapped += harvest->moved;
	if (harvest->created) {
		counts->grows++;
		counts->grown += harvest->created;
		log_add(&harvest->core->log, VPMM_LOG_INFO, "created %zu bytes for stream %" G_GUINT64_FORMAT,
			harvest->created, harvest->stream->id);
		account_note_taken(harvest->core);
	}
}

static int harvest_gather(struct harvest *harvest, struct region **region)
{
	struct region_map *regions = &harvest->core->regions;
	struct extent_map *extents = &harvest->core->extents;
	guint chunks = regions->chunks->len;
	struct error_kept kept;
	size_t left = 0;
	bool waited;
	guint moving;
	int err;

	err = harvest_place(harvest);
	if (err)
		return err;
	err = harvest_memory(harvest);
	if (err)
		goto err_drop;
	moving = harvest->extents->len - harvest->created / extents->page_size;
	err = harvest_wait(harvest, &waited);
	if (err)
		goto err_release;
	err = harvest_find_event(harvest, waited);
	if (err)
		goto err_release;
	err = extent_map_at(extents, harvest->hole->addr, harvest->extents, &left);
	if (err)
		goto err_zombie;
	*region = harvest_commit(harvest);
	harvest_count(harvest);
	/* Unmap zombies now if that takes no wait. The malloc has succeeded either way. */
	error_keep(&kept);
	zombie_reap(harvest->core);
	error_restore(&kept);
	return 0;

err_zombie:
	/* A range that is still mapped must not be taken for a hole; a later call unmaps it. */
	if (left) {
		region_cut(regions, harvest->hole, left);
		region_set_zombie(regions, harvest->hole);
	}
err_release:
	extent_release(extents, harvest->extents, moving);
err_drop:
	if (regions->chunks->len > chunks && !left)
		chunk_drop(harvest->core, harvest->hole->chunk);
	return err;
}

/* One region suffices, but another stream's event is pending: wait for that. The rest of the region stays as it is. */
static int harvest_wait_for_one(struct harvest *harvest, struct region **region)
{
	struct counts *counts = &harvest->core->counts;
	bool waited;
	int err;

	err = harvest_wait(harvest, &waited);
	if (err)
		return err;
	counts->reuses++;
	counts->steals++;
	*region = g_array_index(harvest->pieces, struct piece, 0).region;
	return 0;
}

/* Plans what goes into the block, and how much is created. */
static void harvest_begin(struct harvest *harvest)
{
	uint64_t available = harvest->core->regions.bytes[REGION_FREE];

	harvest->created = available < harvest->size ? harvest->size - available : 0;
	harvest->pieces = g_array_new(FALSE, FALSE, sizeof(struct piece));
	harvest_plan(harvest);
}

void defrag_forecast(struct core *core, size_t size, struct stream *stream, struct defrag_cost *cost)
{
	struct harvest harvest = { .core = core, .size = size, .stream = stream };
	const struct region *hole = region_find_unmapped(&core->regions, size);
	GHashTable *awaited;

	harvest_begin(&harvest);
	awaited = harvest_awaited(&harvest);
	*cost = (struct defrag_cost){ .create = harvest.created, .pieces = harvest.pieces->len };
	cost->waits = g_hash_table_size(awaited);
	for (guint i = 0; i < harvest.pieces->len; i++) {
		const struct piece *piece = &g_array_index(harvest.pieces, struct piece, i);

		/* The base is not remapped. */
		if (!hole || piece->region != hole->prev)
			cost->moved += piece->take;
	}
	g_hash_table_destroy(awaited);
	g_array_free(harvest.pieces, TRUE);
}

int defrag_gather(struct core *core, const struct request *request, struct region **region)
{
	struct harvest harvest = {
		.core = core,
		.size = request->size,
		.stream = request->stream,
		.handle = request->handle,
	};
	int err;

	harvest_begin(&harvest);
	harvest.extents = g_ptr_array_new();
	if (harvest.pieces->len == 1 && !harvest.created)
		err = harvest_wait_for_one(&harvest, region);
	else
		err = harvest_gather(&harvest, region);

	event_unref(harvest.event);
	g_ptr_array_free(harvest.extents, TRUE);
	g_array_free(harvest.pieces, TRUE);
	return err;
}
