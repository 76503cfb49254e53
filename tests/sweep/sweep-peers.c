// SPDX-License-Identifier: LGPL-2.1-or-later
/* Actions on the devices that access a pool's memory. */
#include "sweep/sweep-scenes.h"

static int set(struct sweep *s, int first, int second)
{
	const int devices[] = { first, second };

	return vpmm_pool_set_peers(s->pool, devices, 2);
}

static int act_create(struct sweep *s)
{
	return sweep_create(s);
}

static int act_add(struct sweep *s)
{
	return set(s, 1, 2);
}

static int act_replace(struct sweep *s)
{
	const int device = 2;

	return vpmm_pool_set_peers(s->pool, &device, 1);
}

static int act_remove(struct sweep *s)
{
	return vpmm_pool_set_peers(s->pool, NULL, 0);
}

/* Blocks of each kind, with what was freed between them, and work on it. */
static void stage_blocks(struct sweep *s)
{
	sweep_have(s, 2 * PAGE, 0);
	sweep_have(s, 512, 0);
	s->ptr = sweep_have(s, PAGE, 1);
	sweep_have(s, 3 * PAGE, 1);
	assert_ok(sweep_growable(s, PAGE, 4 * PAGE, 2));
	assert_ok(sweep_idle(s, PAGE, 0, VPMM_SHAREABLE));
	sweep_busy(s, 1);
	sweep_drop(s, s->ptr, 1);
}

/* The freed page serves elsewhere, and its old address is a zombie. */
static void stage_zombie(struct sweep *s)
{
	stage_blocks(s);
	sweep_have(s, 2 * PAGE, 0);
}

static void stage_one(struct sweep *s)
{
	const int device = 1;

	stage_blocks(s);
	assert_ok(vpmm_pool_set_peers(s->pool, &device, 1));
}

static void stage_both(struct sweep *s)
{
	stage_blocks(s);
	assert_ok(act_add(s));
}

#define EXPORT .opts = { .export_as = VPMM_EXPORT_FD }, .devices = 3

const struct sweep_scene sweep_peer_scenes[] = {
	{ "peers-create", ALL, OP(peers), NULL, act_create, .makes = true, .devices = 3,
	  .opts = { .peers = VPMM_PEERS_ALL, .pages = 2 } },
	{ "peers-create-list", ALL, OP(peer_check), NULL, act_create, .makes = true, .devices = 3,
	  .opts = { .peers = 6, .pages = 2 } },
	{ "peers-add", ALL, OP(access), stage_blocks, act_add, EXPORT },
	{ "peers-add-zombie", ALL, OP(access), stage_zombie, act_add, EXPORT },
	{ "peers-add-another", ALL, OP(access), stage_one, act_add, EXPORT },
	{ "peers-replace", ALL, OP(deny), stage_one, act_replace, EXPORT },
	{ "peers-remove", ALL, OP(deny), stage_both, act_remove, EXPORT },
};
const size_t sweep_peer_scene_count = G_N_ELEMENTS(sweep_peer_scenes);
