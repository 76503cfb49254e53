/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams have work pending on memory: the library's clears and copies, and the program's own work on a block that it
 * frees, which a test makes known by host_stream_release(). Whoever gets the memory next has to come after all of that.
 * No invariant of a pool says so, and a program sees it only as contents that change by themselves,
 * so the host backend looks: when the library gives memory to a stream, clears it, copies it, unmaps it, or returns it
 * to the stream-ordered allocator. What it finds is kept for vpmm_pool_check().
 */
#ifndef HOST_ORDER_H
#define HOST_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct host_backend;

/**
 * struct host_access - the memory that a call is about
 * @what: the call, for the report
 * @to: where it writes, or what is given away
 * @from: where it reads
 * @size: bytes of @to; and of @from, unless that is 0
 */
struct host_access {
	const char *what;
	uint64_t to;
	uint64_t from;
	size_t size;
};

/**
 * host_order_check() - find out whether a stream's next work comes after what is pending on memory
 * @host: the backend
 * @access: the memory
 * @id: of the stream; one under capture, or no stream's id: nothing comes before its work
 *
 * Keeps the first memory for which it does not.
 */
void host_order_check(struct host_backend *host, const struct host_access *access, uint64_t id);

/**
 * host_order_check_handle() - the same for a stream by its handle
 * @host: the backend
 * @access: the memory
 * @stream: the handle
 */
void host_order_check_handle(struct host_backend *host, const struct host_access *access, struct CUstream_st *stream);

/**
 * host_order_check_unmap() - find out whether anything is pending at addresses that are to be unmapped
 * @host: the backend
 * @va: where they start
 * @size: bytes
 *
 * Return: 0, or -EBUSY, which is kept, too.
 */
int host_order_check_unmap(struct host_backend *host, uint64_t va, size_t size);

#endif /* HOST_ORDER_H */
