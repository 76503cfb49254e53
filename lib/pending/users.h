/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The users of an allocation besides the stream that frees it: streams whose work up to the free must complete before
 * the memory is reused, and graphs, which must be retired. Few allocations have any, so they are kept apart from the
 * regions.
 */
#ifndef USERS_H
#define USERS_H

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;
struct event;
struct stream;
struct pending;

/**
 * struct user - a stream that uses an allocation
 * @id: the driver's id of it
 * @handle: a handle that meant the stream when vpmm_use() was called
 * @work: work of the library's own is pending on it with no event behind it, after a failure
 * @event: its last point, if it was retired, with a reference; NULL: it was not retired
 * @named: by vpmm_use(); false: it only stands for the last launch of a graph that was retired
 */
struct user {
	uint64_t id;
	struct CUstream_st *handle;
	bool work;
	struct event *event;
	bool named;
};

/**
 * struct branch - the stream under capture that alone has had an allocation
 * @handle: of it; NULL: there is none, or others have used it too
 * @thread: the thread of the handle, which means another stream in each if it is STREAM_PER_THREAD
 */
struct branch {
	struct CUstream_st *handle;
	pthread_t thread;
};

/**
 * struct use - all users of an allocation
 * @addr: address of the allocation
 * @users: of struct user
 * @graphs: its ties to graphs, see tie.h
 * @branch: the stream under capture that allocated it
 * @maker: the id of the capture that it was allocated under; 0: none
 * @outside: as of the struct hold that its memory was in before
 */
struct use {
	uint64_t addr;
	GArray *users;
	GPtrArray *graphs;
	struct branch branch;
	uint64_t maker;
	bool outside;
};

/**
 * branch_is() - whether a branch is that of a stream
 * @branch: the branch
 * @handle: the stream, as this thread knows it
 */
bool branch_is(const struct branch *branch, const struct CUstream_st *handle);

/**
 * use_table_new() - make the table of users
 *
 * Return: the table: struct use by address.
 */
GHashTable *use_table_new(void);

/**
 * use_find() - the users of an allocation
 * @pending: what the pool has pending
 * @addr: address of the allocation
 *
 * Return: the users; NULL: none.
 */
struct use *use_find(const struct pending *pending, uint64_t addr);

/**
 * use_add_stream() - add a stream to the users of an allocation
 * @pending: what the pool has pending
 * @addr: address of the allocation
 * @id: the driver's id of the stream
 * @handle: a handle of it
 */
void use_add_stream(struct pending *pending, uint64_t addr, uint64_t id, struct CUstream_st *handle);

/**
 * use_add_work() - the same for a stream on which work of the library's own is pending, with no event behind it
 * @pending: what the pool has pending
 * @addr: address of the allocation
 * @id: the driver's id of the stream
 * @handle: a handle of it
 */
void use_add_work(struct pending *pending, uint64_t addr, uint64_t id, struct CUstream_st *handle);

/**
 * use_add_graph() - add a graph to the users of an allocation
 * @pending: what the pool has pending
 * @addr: address of the allocation
 * @graph: the id of its capture
 */
void use_add_graph(struct pending *pending, uint64_t addr, uint64_t graph);

/**
 * use_add_graphs() - add several, those that have had the memory before
 * @pending: what the pool has pending
 * @addr: address of the allocation
 * @graphs: ties to them
 */
void use_add_graphs(struct pending *pending, uint64_t addr, const GPtrArray *graphs);

/**
 * use_set_branch() - note the stream under capture that made an allocation
 * @pending: what the pool has pending
 * @addr: address of the allocation, which the graph uses
 * @handle: the stream; NULL: others use it too
 * @capture: the id of the capture, unless @handle is NULL
 */
void use_set_branch(struct pending *pending, uint64_t addr, struct CUstream_st *handle, uint64_t capture);

/**
 * use_is_branch() - whether a stream made an allocation under a capture, and no other has been named since
 * @use: the users; NULL: none
 * @handle: the stream
 * @capture: the id of the capture
 */
bool use_is_branch(const struct use *use, struct CUstream_st *handle, uint64_t capture);

/**
 * use_is_named() - whether streams that vpmm_use() named still use an allocation
 * @use: the users; NULL: none
 *
 * The last launch of a retired graph is none: who captures what comes after it has promised that order.
 */
bool use_is_named(const struct use *use);

/**
 * use_remove() - forget the users of an allocation
 * @pending: what the pool has pending
 * @addr: address of the allocation
 */
void use_remove(struct pending *pending, uint64_t addr);

/**
 * use_retire_stream() - a stream is about to be destroyed: record its last point as a user
 * @pending: what the pool has pending
 * @stream: the stream
 * @handle: a handle of it
 *
 * Return: 0, or what the backend's event_create and event_record return; nothing has changed then.
 */
int use_retire_stream(struct pending *pending, struct stream *stream, struct CUstream_st *handle);

/**
 * use_has_graph() - whether a graph uses an allocation
 * @pending: what the pool has pending
 * @graph: the id of its capture
 */
bool use_has_graph(const struct pending *pending, uint64_t graph);

/**
 * use_retire_graph() - a graph was destroyed: replace it as a user by a stream, up to an event
 * @pending: what the pool has pending
 * @graph: the id of its capture
 * @stream: a stream that is ordered after the graph's last launch; NULL: that is complete
 * @event: the event; NULL: the graph uses nothing, or @stream is NULL
 */
void use_retire_graph(struct pending *pending, uint64_t graph, const struct stream *stream, struct event *event);

#endif /* USERS_H */
