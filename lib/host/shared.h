/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The operations of the host backend, of which shared.c has those for addresses that the CPU and the device share. */
#ifndef HOST_SHARED_H
#define HOST_SHARED_H

#include "backend/backend.h"

/* Memory of the host is as any. */
#define host_op_host_access host_op_access

#define OP(type, name, parameters) type host_op_##name parameters;
BACKEND_OPS(OP)
#undef OP

int host_shared_protect(struct backend *be, uint64_t va, size_t size);

#endif /* HOST_SHARED_H */
