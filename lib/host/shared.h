/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The operations of the host backend for addresses that the CPU and the device have in common. */
#ifndef HOST_SHARED_H
#define HOST_SHARED_H

#include "backend/backend.h"

int host_shared_create(struct backend *be, size_t size, uint64_t *handle);
int host_shared_protect(struct backend *be, uint64_t va, size_t size);
int host_shared_room(struct backend *be, uint64_t va, size_t size, uint64_t *at);
void host_shared_room_end(struct backend *be, uint64_t va, size_t size, uint64_t at);
int host_shared_show(struct backend *be, uint64_t at, uint64_t from, size_t size);
int host_shared_stream(struct backend *be, struct CUstream_st **stream);
void host_shared_stream_end(struct backend *be, struct CUstream_st *stream);
int host_shared_gate(struct backend *be, struct CUstream_st *const *streams, size_t count, struct backend_gate **gate);
void host_shared_gate_open(struct backend *be, struct backend_gate *gate);

#endif /* HOST_SHARED_H */
