/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Driver calls on memory and mappings, counted and timed for the statistics. */
#ifndef TIMED_H
#define TIMED_H

#include "backend/backend.h"
#include "core/extent.h"
#include "util/clock.h"

/* Performs the operation @op of struct backend_ops, for a GPU a function of cuda/, and adds it to @counter. */
#define TIMED(map, counter, op, ...) \
	({ \
		uint64_t start_ = clock_ns(); \
		int err_ = (map)->backend->ops->op((map)->backend, __VA_ARGS__); \
		(map)->calls.ns += clock_ns() - start_; \
		(map)->calls.counter++; \
		err_; \
	})

#endif /* TIMED_H */
