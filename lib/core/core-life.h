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
 * @core: the core, all 0; policy_init() sets @policy and @packed afterwards
 * @backend: the open device
 * @info: what the backend says of the device
 * @settings: completed for the device
 */
void core_init(struct core *core, struct backend *backend, const struct backend_info *info,
	       const struct settings *settings);

/**
 * core_unmap() - unmap everything, when the pool is destroyed
 * @core: the core, its backend entered; no work is pending on its memory, or none that can be waited for
 */
void core_unmap(struct core *core);

/**
 * core_clear() - free everything but the backend and the lock
 * @core: the core; nothing is mapped
 */
void core_clear(struct core *core);

#endif /* CORE_LIFE_H */
