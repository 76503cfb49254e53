/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls of vpmm-host.h that tests of streams make all the time, where they must succeed. */
#ifndef TEST_HOST_STREAMS_H
#define TEST_HOST_STREAMS_H

#include "support/assert.h"
#include "vpmm-host.h"

static inline struct CUstream_st *stream_new(void)
{
	struct CUstream_st *stream;

	assert_ok(vpmm_host_stream_create(&stream));
	return stream;
}

static inline unsigned int pending(struct CUstream_st *stream)
{
	unsigned int n = UINT_MAX;

	assert_ok(vpmm_host_stream_pending(stream, &n));
	return n;
}

static inline void complete(struct CUstream_st *stream, unsigned int n)
{
	assert_ok(vpmm_host_stream_complete(stream, n));
}

static inline void submit(struct CUstream_st *stream)
{
	assert_ok(vpmm_host_stream_submit(stream));
}

static inline void stream_wait(struct CUstream_st *stream, struct CUstream_st *other)
{
	assert_ok(vpmm_host_stream_wait(stream, other));
}

static inline void destroy(struct CUstream_st *stream)
{
	assert_ok(vpmm_host_stream_destroy(stream));
}

#endif /* TEST_HOST_STREAMS_H */
