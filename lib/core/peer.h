/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Other devices that access a pool's memory. The backend keeps which, and every mapping is made accessible to them when
 * it is made; what is mapped already is walked here.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

struct core;

/**
 * peer_begin() - let the devices of a new pool's settings access its memory
 * @core: the core, of which nothing is mapped yet
 *
 * The pool's own device is left out of the settings, and where they are VPMM_PEERS_ALL, all that cannot be peers.
 *
 * Return: 0, -ENODEV if there is no such device, -ENOTSUP if one cannot, or another error of the backend.
 */
int peer_begin(struct core *core);

/**
 * peer_change() - let other devices than before access the pool's memory
 * @core: the core
 * @peers: the devices, as bits by ordinal, all of which can
 *
 * Zombies are included: their addresses may serve again as they are mapped.
 *
 * Return: 0, or an error of the backend's peers or access; then all is as before, unless the text says otherwise.
 */
int peer_change(struct core *core, uint64_t peers);

/**
 * peer_set() - the same, by their ordinals
 * @core: the core
 * @devices: the ordinals, from the program
 * @count: how many
 *
 * Return: as vpmm_pool_set_peers().
 */
int peer_set(struct core *core, const int *devices, size_t count);

#endif /* PEER_H */
