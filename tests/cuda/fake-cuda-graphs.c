// SPDX-License-Identifier: LGPL-2.1-or-later
/* Graphs of the suite's own libcuda.so.1, and the user objects that live as long as they do. */
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "cuda/fake-cuda-inside.h"
#include "host/graphs.h"

/* A graph, which its instances share; or, until its capture has ended, what stands for it. */
struct CUgraph_st {
	unsigned int refs;
	struct vpmm_host_graph *graph;	/* NULL: it is being captured */
	int device;
	drv_stream stream;		/* that is being captured */
};

struct CUgraphExec_st {
	struct CUgraph_st *graph;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static GHashTable *captures;		/* id of a capture to struct CUgraph_st; under the lock, as are all references */

static void __attribute__((constructor)) prepare(void)
{
	captures = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
}

static void __attribute__((destructor)) tear_down(void)
{
	GHashTableIter iter;
	gpointer graph;

	g_hash_table_iter_init(&iter, captures);
	while (g_hash_table_iter_next(&iter, NULL, &graph))
		g_free(graph);
	g_hash_table_unref(captures);
}

drv_graph graph_of_capture(struct CUctx_st *context, drv_stream stream, uint64_t id)
{
	struct CUgraph_st *graph;

	pthread_mutex_lock(&lock);
	graph = g_hash_table_lookup(captures, &id);
	if (!graph) {
		graph = g_new0(struct CUgraph_st, 1);
		graph->device = context->device;
		graph->stream = stream;
		g_hash_table_insert(captures, g_memdup2(&id, sizeof(id)), graph);
	}
	pthread_mutex_unlock(&lock);
	return graph;
}

drv_graph graph_captured(uint64_t id, struct vpmm_host_graph *got)
{
	struct CUgraph_st *graph;

	pthread_mutex_lock(&lock);
	graph = g_hash_table_lookup(captures, &id);
	g_hash_table_remove(captures, &id);
	if (!got) {
		g_free(graph);
		graph = NULL;
	} else {
		graph = graph ?: g_new0(struct CUgraph_st, 1);
		graph->graph = got;
		graph->refs = 1;
	}
	pthread_mutex_unlock(&lock);
	return graph;
}

static void graph_unref(struct CUgraph_st *graph)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = !--graph->refs;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	host_graph_destroy(graph->graph);
	g_free(graph);
}

drv_result cuGraphInstantiateWithFlags(drv_graph_exec *exec, drv_graph graph, drv_u64 flags)
{
	BEGIN_IN(cuGraphInstantiateWithFlags, context);
	(void)context;
	if (flags)
		return DRV_ERROR_NOT_SUPPORTED;
	*exec = g_new0(struct CUgraphExec_st, 1);
	(*exec)->graph = graph;
	pthread_mutex_lock(&lock);
	graph->refs++;
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

drv_result cuGraphLaunch(drv_graph_exec exec, drv_stream stream)
{
	BEGIN_IN(cuGraphLaunch, context);
	stream_check("cuGraphLaunch", stream);
	return capture_result(result_of(host_graph_launch(exec->graph->graph, context->device, stream)));
}

drv_result cuGraphExecDestroy(drv_graph_exec exec)
{
	BEGIN_IN(cuGraphExecDestroy, context);
	(void)context;
	if (!exec)
		return DRV_ERROR_INVALID_VALUE;
	graph_unref(exec->graph);
	g_free(exec);
	return DRV_SUCCESS;
}

drv_result cuGraphDestroy(drv_graph graph)
{
	BEGIN_IN(cuGraphDestroy, context);
	(void)context;
	if (!graph)
		return DRV_ERROR_INVALID_VALUE;
	graph_unref(graph);
	return DRV_SUCCESS;
}

#ifndef FAKE_CUDA_BARE
struct CUuserObject_st {
	void (*destroy)(void *data);
	void *data;
};

static void object_end(void *data)
{
	struct CUuserObject_st *object = data;

	object->destroy(object->data);
	g_free(object);
}

drv_result cuUserObjectCreate(drv_user_object *object, void *data, void (*destroy)(void *data), unsigned int count,
			      unsigned int flags)
{
	BEGIN(cuUserObjectCreate);
	if (count != 1 || flags != DRV_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return DRV_ERROR_INVALID_VALUE;
	*object = g_new0(struct CUuserObject_st, 1);
	**object = (struct CUuserObject_st){ .destroy = destroy, .data = data };
	return DRV_SUCCESS;
}

drv_result cuUserObjectRelease(drv_user_object object, unsigned int count)
{
	BEGIN(cuUserObjectRelease);
	if (count != 1)
		return DRV_ERROR_INVALID_VALUE;
	object_end(object);
	return DRV_SUCCESS;
}

/* The library hands its reference over, and only while the graph is being captured. */
drv_result cuGraphRetainUserObject(drv_graph graph, drv_user_object object, unsigned int count, unsigned int flags)
{
	BEGIN(cuGraphRetainUserObject);
	if (graph->graph || count != 1 || flags != DRV_GRAPH_USER_OBJECT_MOVE)
		return DRV_ERROR_INVALID_VALUE;
	return result_of(host_graph_watch(graph->device, graph->stream, object_end, object));
}
#endif
