/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which devices can access the memory of which. */
#ifndef PRELOAD_PEERS_H
#define PRELOAD_PEERS_H

/**
 * peers_forget() - a device's context is gone, and all access with it
 * @device: the device
 *
 * Context: any thread.
 */
void peers_forget(int device);

#endif /* PRELOAD_PEERS_H */
