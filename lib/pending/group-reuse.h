/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A block that a capture has freed can serve it again. In a group that the program has named, the block also serves
 * captures that joined after it, in any size: blocks are split, and adjacent pieces are merged. Each piece stays with
 * all graphs that have had it until those are retired. All of it is under core.lock.
 */
#ifndef GROUP_REUSE_H
#define GROUP_REUSE_H

#include <stddef.h>

struct CUstream_st;
struct graph;
struct hold;
struct pending;
struct region;
struct region_map;
struct stream;

/**
 * group_reuse_find() - find what a capture, or its group, has freed
 * @pending: what the pool has pending, its backend entered
 * @graph: the graph of the capture, in a group or one of its own
 * @map: the map of which the memory is to be
 * @size: bytes
 * @align: what its address is to be a multiple of, a power of two
 * @handle: the stream under capture
 *
 * Nothing is found that work outside of the graphs still uses, as a graph cannot wait for that.
 *
 * Return: the smallest that has the size, for group_reuse_take(); NULL: there is none.
 */
struct hold *group_reuse_find(struct pending *pending, const struct graph *graph, const struct region_map *map,
			      size_t size, size_t align, struct CUstream_st *handle);

/**
 * group_reuse_take() - allocate what was freed
 * @pending: what the pool has pending
 * @hold: from group_reuse_find(); gone afterwards
 * @size: bytes; the rest stays freed
 * @stream: the stream that stands for the capture
 *
 * Return: the region, after cache_take(). The graphs that had it use it.
 */
struct region *group_reuse_take(struct pending *pending, struct hold *hold, size_t size, struct stream *stream);

#endif /* GROUP_REUSE_H */
