// SPDX-License-Identifier: LGPL-2.1-or-later
/* Keeps host memory for the contents of device memory. */
#include <errno.h>

#include "backend/backend.h"
#include "core/store.h"
#include "util/env.h"
#include "util/error.h"
#include "util/text.h"

int store_init(struct store *store, struct backend *backend, uint64_t unit)
{
	uint64_t keep;
	int err;

	err = env_keep("VPMM_PAUSE_HOST", &keep);
	if (err)
		return err;
	*store = (struct store){ .backend = backend, .unit = unit, .keep = keep };
	lock_init(&store->lock, LOCK_STORE);
	store->unused = g_ptr_array_new();
	store->strays = g_ptr_array_new();
	return 0;
}

/* Whether all of a piece, which may be incomplete, has gone back. Each step is tried once more. */
static bool dissolve(struct store *store, struct store_piece *piece)
{
	struct backend *be = store->backend;
	const struct backend_ops *ops = be->ops;
	struct error_kept kept;

	error_keep(&kept);
	if (piece->mapped && (!ops->unmap(be, piece->at, piece->size, NULL) ||
			      !ops->unmap(be, piece->at, piece->size, NULL)))
		piece->mapped = false;
	if (piece->handle && !piece->mapped && (!ops->release(be, piece->handle) || !ops->release(be, piece->handle)))
		piece->handle = 0;
	if (piece->at && !piece->mapped && (!ops->unreserve(be, piece->at, piece->size) ||
					    !ops->unreserve(be, piece->at, piece->size)))
		piece->at = 0;
	error_restore(&kept);
	return !piece->handle && !piece->at;
}

static void give_piece_back(struct store *store, struct store_piece *piece)
{
	bool had = piece->handle, gone = dissolve(store, piece);

	lock_acquire(&store->lock);
	if (had && !piece->handle)
		store->bytes -= piece->size;
	if (!gone)
		g_ptr_array_add(store->strays, piece);
	lock_release(&store->lock);
	if (gone)
		g_free(piece);
}

static int map_piece(struct store *store, struct store_piece *piece)
{
	struct backend *be = store->backend;
	int err;

	err = be->ops->reserve(be, piece->size, store->unit & -store->unit, &piece->at);
	if (!err)
		err = be->ops->map(be, piece->at, piece->size, piece->handle);
	if (err)
		return err;
	piece->mapped = true;
	return be->ops->host_access(be, piece->at, piece->size);
}

static int make_store_piece(struct store *store, uint64_t size, struct store_piece **made)
{
	struct backend *be = store->backend;
	struct store_piece *piece = g_new0(struct store_piece, 1);
	int err;

	piece->size = size;
	err = be->ops->host_create(be, size, &piece->handle);
	if (err) {
		g_free(piece);
		return error_add(err, "host memory: %s", amount(size).text);
	}
	lock_acquire(&store->lock);
	store->bytes += size;
	lock_release(&store->lock);
	err = map_piece(store, piece);
	if (err) {
		give_piece_back(store, piece);
		return error_add(err, "host memory: %s", amount(size).text);
	}
	*made = piece;
	return 0;
}

static struct store_piece *pop_piece(struct store *store)
{
	struct store_piece *piece = NULL;

	lock_acquire(&store->lock);
	if (store->unused->len) {
		piece = g_ptr_array_steal_index_fast(store->unused, store->unused->len - 1);
		store->unused_bytes -= piece->size;
	}
	lock_release(&store->lock);
	return piece;
}

static void push_piece(struct store *store, struct store_piece *piece)
{
	lock_acquire(&store->lock);
	g_ptr_array_add(store->unused, piece);
	store->unused_bytes += piece->size;
	lock_release(&store->lock);
}

static uint64_t unused(struct store *store)
{
	uint64_t bytes;

	lock_acquire(&store->lock);
	bytes = store->unused_bytes;
	lock_release(&store->lock);
	return bytes;
}

static void retry_strays(struct store *store)
{
	GPtrArray *strays;

	lock_acquire(&store->lock);
	strays = store->strays;
	store->strays = g_ptr_array_new();
	lock_release(&store->lock);
	for (guint i = 0; i < strays->len; i++)
		give_piece_back(store, strays->pdata[i]);
	g_ptr_array_free(strays, TRUE);
}

void store_trim(struct store *store, uint64_t keep)
{
	retry_strays(store);
	while (unused(store) > keep) {
		struct store_piece *piece = pop_piece(store);

		if (piece)
			give_piece_back(store, piece);
	}
}

void store_clear(struct store *store)
{
	store_trim(store, 0);
	retry_strays(store);
	for (guint i = 0; i < store->strays->len; i++)
		g_free(store->strays->pdata[i]);
	g_ptr_array_free(store->strays, TRUE);
	g_ptr_array_free(store->unused, TRUE);
	lock_destroy(&store->lock);
}

static uint64_t round_to_unit(const struct store *store, uint64_t bytes)
{
	return (bytes + store->unit - 1) / store->unit * store->unit;
}

/* As large as is needed, or as a piece may be. */
static uint64_t next_size(const struct store *store, uint64_t bytes)
{
	return MIN(round_to_unit(store, bytes), round_to_unit(store, STORE_PIECE));
}

int store_take(struct store *store, uint64_t bytes, GPtrArray *pieces)
{
	guint before = pieces->len;
	struct store_piece *piece;
	uint64_t taken = 0;
	int err;

	retry_strays(store);
	while (taken < bytes) {
		piece = pop_piece(store);
		if (!piece) {
			err = make_store_piece(store, next_size(store, bytes - taken), &piece);
			if (err)
				goto err_push;
		}
		g_ptr_array_add(pieces, piece);
		taken += piece->size;
	}
	return 0;

err_push:
	/* Pieces that were made stay in the store. */
	while (pieces->len > before)
		push_piece(store, g_ptr_array_steal_index(pieces, pieces->len - 1));
	return err;
}

void store_put_back(struct store *store, GPtrArray *pieces)
{
	while (pieces->len)
		push_piece(store, g_ptr_array_steal_index(pieces, pieces->len - 1));
}

void store_give(struct store *store, GPtrArray *pieces)
{
	store_put_back(store, pieces);
	if (unused(store) > store->keep)
		store_trim(store, store->keep);
}
