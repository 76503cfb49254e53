/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls of a struct conformance_device for graphs of the host backend. */
#ifndef HOST_CALLS_H
#define HOST_CALLS_H

#include "vpmm-host.h"

static inline void host_capture_spoil_any(struct CUstream_st *stream)
{
	(void)stream;
	vpmm_host_stream_submit(NULL);
}

static inline int host_capture_end_graph(struct CUstream_st *stream, void **graph)
{
	struct vpmm_host_graph *got = NULL;
	int err = vpmm_host_capture_end(stream, &got);

	*graph = got;
	return err;
}

static inline int host_graph_launch_any(void *graph, struct CUstream_st *stream)
{
	return vpmm_host_graph_launch(graph, stream);
}

static inline int host_graph_destroy_any(void *graph)
{
	return vpmm_host_graph_destroy(graph);
}

#endif /* HOST_CALLS_H */
