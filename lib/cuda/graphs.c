// SPDX-License-Identifier: LGPL-2.1-or-later
/* Tells when a graph of a CUDA device is gone. */
#include <errno.h>
#include <glib.h>

#include "cuda/device.h"
#include "util/error.h"

/* What a user object of the driver stands for. */
struct watch {
	void (*gone)(void *data);	/* NULL: no graph has got it */
	void *data;
};

/*
 * The driver calls this once no graph has the object any more, and the launches of those that had it are complete:
 * within the call that destroys the last one, or on a thread of its own. See tests/gpu/test-gpu-graphs.c.
 */
static void watch_end(void *data)
{
	struct watch *watch = data;

	if (watch->gone)
		watch->gone(watch->data);
	g_free(watch);
}

static int find_graph(struct CUstream_st *stream, drv_graph *graph)
{
	drv_capture_status status;
	uint64_t id;
	int err;

	*graph = NULL;
	err = cuda_check(drv.cuStreamGetCaptureInfo(stream, &status, &id, graph, NULL, NULL),
			 "cuStreamGetCaptureInfo of stream %p", (void *)stream);
	if (err)
		return err;
	if (status != DRV_STREAM_CAPTURE_STATUS_ACTIVE || !*graph)
		return error_set(-EBUSY, "stream %p is not under a valid capture", (void *)stream);
	return 0;
}

/* A clone, an instance and a graph that gets it as a child have the object as well; the driver sees to that. */
static int attach(drv_graph graph, struct watch *watch)
{
	drv_user_object object;
	drv_result result;

	result = drv.cuUserObjectCreate(&object, watch, watch_end, 1, DRV_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	if (result) {
		g_free(watch);
		return cuda_check(result, "cuUserObjectCreate");
	}
	result = drv.cuGraphRetainUserObject(graph, object, 1, DRV_GRAPH_USER_OBJECT_MOVE);
	if (!result)
		return 0;
	watch->gone = NULL;
	drv.cuUserObjectRelease(object, 1);
	return cuda_check(result, "cuGraphRetainUserObject");
}

int cuda_graph_watch(struct backend *be, struct CUstream_st *stream, void (*gone)(void *data), void *data)
{
	struct watch *watch;
	drv_graph graph;
	int err;

	(void)be;
	if (!drv.cuUserObjectCreate || !drv.cuUserObjectRelease || !drv.cuGraphRetainUserObject)
		return error_set(-ENOTSUP, "the driver has no user objects, which tell when a graph is gone");
	err = find_graph(stream, &graph);
	if (err)
		return err;
	watch = g_new(struct watch, 1);
	*watch = (struct watch){ .gone = gone, .data = data };
	return attach(graph, watch);
}
