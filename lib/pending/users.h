/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who uses an allocation besides the stream that frees it: other streams, which have to be past the free before the
 * memory is anybody's, and graphs, which have to be gone. Few allocations have any, so they are kept apart from the
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
 * @handle: a handle that meant it when the pool was told
 * @event: the last point in it, once it was retired, with a reference; NULL: it was not
 */
struct user {
	uint64_t id;
	struct CUstream_st *handle;
	struct event *event;
};

/**
 * struct use - all users of an allocation
 * @addr: the allocation
 * @users: of struct user
 * @graphs: of uint64_t, the ids of captures
 * @home: the handle of the stream under capture that it was allocated for; NULL: there is none, or others use it too
 * @thread: which thread that was in
 * @link: links it into what its graph uses, or several do
 */
struct use {
	uint64_t addr;
	GArray *users;
	GArray *graphs;
	struct CUstream_st *home;
	pthread_t thread;
	GList link;
};

/**
 * use_table_new() - a table of allocations that have users
 *
 * Return: the table, of struct use by address.
 */
GHashTable *use_table_new(void);

/**
 * use_find() - the users of an allocation
 * @pending: what the pool has pending
 * @addr: the allocation
 *
 * Return: the users, or NULL: there are none.
 */
struct use *use_find(const struct pending *pending, uint64_t addr);

/**
 * use_add_stream() - a stream uses an allocation
 * @pending: what the pool has pending
 * @addr: the allocation
 * @id: the driver's id of the stream
 * @handle: a handle of it
 */
void use_add_stream(struct pending *pending, uint64_t addr, uint64_t id, struct CUstream_st *handle);

/**
 * use_add_graph() - a graph uses an allocation
 * @pending: what the pool has pending
 * @addr: the allocation
 * @graph: the id of its capture
 */
void use_add_graph(struct pending *pending, uint64_t addr, uint64_t graph);

/**
 * use_set_home() - a stream under capture has allocated it
 * @pending: what the pool has pending
 * @addr: the allocation, which the graph uses
 * @handle: the stream
 */
void use_set_home(struct pending *pending, uint64_t addr, struct CUstream_st *handle);

/**
 * use_is_home() - whether a stream under capture is the only one that uses an allocation, which it has allocated
 * @use: the users; NULL: there are none
 * @handle: the stream
 */
bool use_is_home(const struct use *use, struct CUstream_st *handle);

/**
 * use_remove() - an allocation has no users any more
 * @pending: what the pool has pending
 * @addr: the allocation
 */
void use_remove(struct pending *pending, uint64_t addr);

/**
 * use_retire_stream() - a stream is about to go: mark its last point for all that it uses
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
 * use_retire_graph() - a graph is gone: in its place, a stream uses what it did, up to a point
 * @pending: what the pool has pending
 * @graph: the id of its capture
 * @stream: a stream behind its last launch
 * @event: the point in it; NULL where the graph uses nothing
 */
void use_retire_graph(struct pending *pending, uint64_t graph, const struct stream *stream, struct event *event);

/**
 * use_check() - hold the uses against the graphs
 * @pending: what the pool has pending
 *
 * Return: 0, or -EUCLEAN.
 */
int use_check(struct pending *pending);

/**
 * ids_find() - where an id is in an array
 * @ids: of uint64_t
 * @id: the id
 *
 * Return: its index; -1: it is not there.
 */
int ids_find(const GArray *ids, uint64_t id);

#endif /* USERS_H */
