/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The device that a trace is replayed on, as the program of the trace would use it: its streams, the work on them that
 * --verify and --lag ask for, and the driver's own allocators, which vpmm-bench measures too.
 *
 * All that can fail returns 0, or a negative errno value explained by fail_set().
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator.h"

struct device;

/**
 * struct device_opts - how a device is to be used
 * @streams: how many streams
 * @marks: how many allocations can be told apart when their pattern is found damaged
 * @verify: whether the work is to write and to find patterns
 * @lag: whether work completes @lag_us after it was submitted; otherwise at once, or when the device is done
 * @lag_us: microseconds of the trace's clock
 * @ns_per_byte: nanoseconds of the host backend's clock that the work takes for which an allocation is made; 0: none.
 *	Not with @verify or @lag
 * @limit: bytes of memory that the device is to have; 0: what it has
 * @uncounted: whether the driver's allocators keep no books, so that only the driver's time is
 *	measured and several threads may use one at once; their statistics are what the driver itself tells
 */
struct device_opts {
	uint32_t streams;
	size_t marks;
	bool verify;
	bool lag;
	uint64_t lag_us;
	double ns_per_byte;
	uint64_t limit;
	bool uncounted;
};

/**
 * struct device_work - the memory that a piece of work writes or looks at
 * @ptr: address
 * @size: bytes
 * @key: of the pattern
 * @mark: which allocation it is
 */
struct device_work {
	void *ptr;
	size_t size;
	uint32_t key;
	size_t mark;
};

/**
 * struct device_ops - what a device does
 * @open: open it and create its streams
 * @attach: let another thread than the one that opened it use it; the calling one
 * @close: destroy the streams, whose work is complete, and close it
 * @advance: the trace's clock has come to @us
 * @wait: make what is submitted to @stream from now on wait for what was submitted to @other so far
 * @born: submit the work that an allocation is made for: it writes the pattern, or nothing without verify
 * @dying: submit the last work on an allocation: it finds the pattern intact, or notes the mark as damaged
 * @copy: copy @size bytes from @from to @to, in the order of the first stream; NULL: it has no memory to copy
 * @host_alloc: allocate host memory that copies are fastest with; it may read as anything
 * @host_free: free it
 * @to_device: copy @size bytes from the host to @to, until that is done
 * @to_host: copy @size bytes from the device to @to, until that is done
 * @capture_begin: begin to capture @stream; a stream that is made to wait for it comes under the capture, too
 * @capture_end: end that, once the stream waits for those; @graph receives the graph, for @graph_destroy
 * @graph_destroy: destroy a graph
 * @synchronize: wait until all work is complete
 * @settle: let it finish what it does of its own accord with memory that was given back to it
 * @damaged: one word for each mark, not 0 if it was noted; forgets them. The work is complete.
 * @async: an allocator, which is the driver's stream-ordered one, with memory of its own that it keeps
 * @malloc: an allocator, which is the driver's plain one, in whole granules
 */
struct device_ops {
	int (*open)(const struct device_opts *opts, struct device **dev);
	int (*attach)(struct device *dev);
	void (*close)(struct device *dev);
	int (*advance)(struct device *dev, uint64_t us);
	int (*wait)(struct device *dev, uint32_t stream, uint32_t other);
	int (*born)(struct device *dev, uint32_t stream, const struct device_work *work);
	int (*dying)(struct device *dev, uint32_t stream, const struct device_work *work);
	int (*copy)(struct device *dev, void *to, const void *from, size_t size);
	int (*host_alloc)(struct device *dev, void **ptr, size_t size);
	int (*host_free)(struct device *dev, void *ptr, size_t size);
	int (*to_device)(struct device *dev, void *to, const void *from, size_t size);
	int (*to_host)(struct device *dev, void *to, const void *from, size_t size);
	int (*capture_begin)(struct device *dev, uint32_t stream);
	int (*capture_end)(struct device *dev, uint32_t stream, void **graph);
	int (*graph_destroy)(struct device *dev, void *graph);
	int (*synchronize)(struct device *dev);
	void (*settle)(struct device *dev);
	int (*damaged)(struct device *dev, uint32_t *marks);
	int (*async)(struct device *dev, struct allocator **allocator);
	int (*malloc)(struct device *dev, struct allocator **allocator);
};

/* Each device's own structure has this as its first member. */
struct device {
	const struct device_ops *ops;
	struct device_opts opts;
	struct CUstream_st **streams;
};

extern const struct device_ops device_cuda;
extern const struct device_ops device_host;

#endif /* DEVICE_H */
