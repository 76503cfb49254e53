// SPDX-License-Identifier: LGPL-2.1-or-later
/* Lets other devices access what a pool has mapped. */
#include <errno.h>

#include "core/core.h"
#include "core/extent.h"
#include "core/peer.h"
#include "core/shareable.h"
#include "core/small.h"
#include "util/error.h"

/* A mapping. */
struct range {
	uint64_t addr;
	uint64_t size;
};

/* Devices, as bits by ordinal. */
struct change {
	uint64_t gain;
	uint64_t lose;
};

/* Whether a device is a peer: all, of those that can, or those that the settings name. */
static int check_peer(struct core *core, int device, bool *can)
{
	struct backend *be = core->backend;
	int err;

	*can = false;
	if (device == core->device || !(core->settings.peers >> device & 1))
		return 0;
	err = be->ops->peer_check(be, device);
	if (err == -ENOTSUP && core->settings.peers == VPMM_PEERS_ALL)
		return 0;
	*can = !err;
	return err;
}

int peer_begin(struct core *core)
{
	bool can, all = core->settings.peers == VPMM_PEERS_ALL;
	struct error_kept kept;
	uint64_t peers = 0;
	int err = 0;

	lock_assert_held(&core->lock);
	if (!core->settings.peers)
		return 0;
	error_keep(&kept);
	for (int device = 0; device < BACKEND_PEERS_MOST && !err; device++) {
		err = check_peer(core, device, &can);
		peers |= (uint64_t)can << device;
	}
	/* Behind the last device. */
	if (all && err == -ENODEV)
		err = 0;
	if (!err && peers)
		err = core->backend->ops->peers(core->backend, peers);
	if (err)
		return error_add(err, "peers (VPMM_PEERS)");
	error_restore(&kept);
	core->settings.peers = peers;
	return 0;
}

static void add_range(GArray *ranges, uint64_t addr, uint64_t size)
{
	struct range range = { .addr = addr, .size = size };

	g_array_append_val(ranges, range);
}

/* All mappings of the pool. Joining neighbours would gain nothing: the driver's time is for each mapping in a range. */
static GArray *collect_ranges(struct core *core)
{
	GArray *ranges = g_array_new(FALSE, FALSE, sizeof(struct range));
	GHashTableIter iter;
	gpointer small;

	/* Of a hollow pool nothing is mapped; hollow_fill() gives access to those that are peers then. */
	for (GList *link = core->extents.hollow ? NULL : core->extents.all.head; link; link = link->next) {
		const struct extent *extent = link->data;

		for (const struct place *place = extent->places; place; place = place->next)
			add_range(ranges, place->addr, extent->size);
	}
	g_hash_table_iter_init(&iter, core->small);
	while (g_hash_table_iter_next(&iter, NULL, &small)) {
		const struct shareable *shareable = ((struct small *)small)->shareable;

		if (shareable && shareable->mapped)
			add_range(ranges, shareable->addr, shareable->bytes);
	}
	return ranges;
}

/* Who gains access to each mapping and who loses it, where one set of peers takes the place of another. */
static struct change change_between(const struct core *core, uint64_t from, uint64_t to)
{
	return (struct change){
		.gain = to & (~from | core->peers_unsure),
		.lose = ~to & (from | core->peers_unsure),
	};
}

/* The backend has the new peers already. */
static int change_range(struct core *core, const GArray *ranges, guint i, const struct change *change)
{
	const struct range *range = &g_array_index(ranges, struct range, i);
	int err = 0;

	if (change->gain)
		err = TIMED(&core->extents, accesses, access, range->addr, range->size);
	if (!err && change->lose)
		err = TIMED(&core->extents, accesses, deny, range->addr, range->size, change->lose);
	return err;
}

/* Makes each call once more if it fails, as nobody else will. Returns whether all is as before. */
static bool undo_peers(struct core *core, const GArray *ranges, guint count, uint64_t peers)
{
	const struct change back = change_between(core, peers, core->settings.peers);
	struct backend *be = core->backend;
	bool undone = !be->ops->peers(be, core->settings.peers) || !be->ops->peers(be, core->settings.peers);

	for (guint i = 0; i < count; i++)
		undone &= !change_range(core, ranges, i, &back) || !change_range(core, ranges, i, &back);
	return undone;
}

static void undo_or_say(struct core *core, const GArray *ranges, guint count, uint64_t peers, int err)
{
	struct error_kept kept;
	bool undone;

	error_keep(&kept);
	undone = undo_peers(core, ranges, count, peers);
	error_restore(&kept);
	if (undone)
		return;
	core->peers_unsure |= peers ^ core->settings.peers;
	error_add(err, "some of the memory may have other peers than before, as undoing failed too");
}

int peer_change(struct core *core, uint64_t peers)
{
	const struct change change = change_between(core, core->settings.peers, peers);
	struct backend *be = core->backend;
	GArray *ranges;
	guint tried;
	int err;

	lock_assert_held(&core->lock);
	err = be->ops->peers(be, peers);
	if (err)
		return err;
	ranges = collect_ranges(core);
	for (tried = 0; tried < ranges->len && !err; tried++)
		err = change_range(core, ranges, tried, &change);
	if (err) {
		undo_or_say(core, ranges, tried, peers, err);
	} else {
		core->settings.peers = peers;
		core->peers_unsure = 0;
	}
	g_array_free(ranges, TRUE);
	return err;
}

static int check_device(struct core *core, int device)
{
	struct backend *be = core->backend;
	int err;

	if (device < 0)
		return error_set(-EINVAL, "device %d: expected an ordinal from 0", device);
	if (device == core->device)
		return error_set(-EINVAL, "device %d is the pool's own", device);
	err = be->ops->peer_check(be, device);
	if (!err && device >= BACKEND_PEERS_MOST)
		err = error_set(-ENOTSUP, "device %d: only the first %d devices can be peers", device,
				BACKEND_PEERS_MOST);
	return err;
}

int peer_set(struct core *core, const int *devices, size_t count)
{
	uint64_t peers = 0;
	int err;

	lock_assert_held(&core->lock);
	if (count && !devices)
		return error_set(-EINVAL, "devices is NULL, and count is %zu", count);
	for (size_t i = 0; i < count; i++) {
		err = check_device(core, devices[i]);
		if (err)
			return err;
		if (peers >> devices[i] & 1)
			return error_set(-EINVAL, "device %d is there twice", devices[i]);
		peers |= UINT64_C(1) << devices[i];
	}
	return peer_change(core, peers);
}
