/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The life of a pool's core. */
#ifndef CORE_LIFE_H
#define CORE_LIFE_H

struct backend;
struct backend_info;
struct core;
struct settings;

/**
 * core_init() - set up a core with nothing in it
 * @core: the core, all 0 but for @policy and @packed
 * @backend: the open device
 * @info: what it says of itself
 * @settings: as the device has them
 */
void core_init(struct core *core, struct backend *backend, const struct backend_info *info,
	       const struct settings *settings);

/**
 * core_unmap() - unmap all there is, when the pool goes
 * @core: the core, its backend entered; all streams are past what they did, or nobody can wait for them
 */
void core_unmap(struct core *core);

/**
 * core_clear() - give back all but the backend
 * @core: the core; nothing is mapped
 */
void core_clear(struct core *core);

#endif /* CORE_LIFE_H */
