/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the model share. */
#ifndef MODEL_INSIDE_H
#define MODEL_INSIDE_H

#include "model/model.h"

/**
 * model_rounded() - what an allocation takes of the pool's own memory
 * @m: the model
 * @size: bytes
 *
 * Return: bytes; 0: the driver serves it.
 */
uint64_t model_rounded(const struct model *m, size_t size);

/**
 * model_is_limited() - whether a pool may lack anything
 * @m: the model
 *
 * Return: whether it may.
 */
bool model_is_limited(const struct model *m);

/**
 * model_is_beside_capture() - whether a request is served as beside a capture, as its stream has no id
 * @m: the model
 *
 * Return: whether it may be.
 */
bool model_is_beside_capture(const struct model *m);

/**
 * model_is_expected() - whether a call may fail as it did, for a fault or for lack of something
 * @m: the model, still armed
 * @err: the error
 *
 * Return: whether it may.
 */
bool model_is_expected(const struct model *m, int err);

/**
 * model_lacks() - whether there is too little of something for an allocation
 * @m: the model
 * @size: bytes
 *
 * Return: whether there is.
 */
bool model_lacks(struct model *m, size_t size);

/**
 * model_apart() - what an allocation apart from the pool's own memory takes
 * @m: the model
 * @size: bytes
 *
 * Return: bytes.
 */
uint64_t model_apart(const struct model *m, size_t size);

/**
 * model_lacks_apart() - model_lacks() for memory apart, for which the pool has given back all that is whole
 * @m: the model
 * @size: bytes
 *
 * Return: whether there is too little.
 */
bool model_lacks_apart(struct model *m, size_t size);

/**
 * model_taken() - the device memory that a pool has taken, without what the driver's allocator holds,
 * or has not taken back of an allocation that failed
 * @m: the model
 *
 * Return: bytes.
 */
uint64_t model_taken(const struct model *m);

/**
 * model_new_allocation() - make an allocation that is not live yet
 * @ptr: where it is
 * @size: bytes
 * @stream: whose work uses it
 *
 * Return: the allocation.
 */
struct model_allocation *model_new_allocation(char *ptr, size_t size, struct CUstream_st *stream);

/**
 * model_clear() - give back what the model itself has, once its pool is gone
 * @m: the model
 */
void model_clear(struct model *m);

/**
 * model_adopt() - take over what a call that failed has counted
 * @m: the model
 */
void model_adopt(struct model *m);

/**
 * model_settle() - judge where the pool has put an allocation, and what it takes
 * @m: the model
 * @a: the allocation, not among those that are live; its @bytes may become more under capture
 */
void model_settle(struct model *m, struct model_allocation *a);

/**
 * model_add() - let an allocation be live
 * @m: the model
 * @a: the allocation; all but @ptr, @size and @stream are set
 */
void model_add(struct model *m, struct model_allocation *a);

/**
 * model_remove() - let an allocation be live no more, and keep what it was
 * @m: the model
 * @a: the allocation
 */
void model_remove(struct model *m, const struct model_allocation *a);

/**
 * model_judge_growth() - judge the memory that was created for an allocation
 * @m: the model
 * @a: the allocation, live
 */
void model_judge_growth(struct model *m, const struct model_allocation *a);

/**
 * model_note_allowance() - know what the pool may hold over its peak for the next request
 * @m: the model
 */
void model_note_allowance(struct model *m);

/**
 * model_add_graph() - add a graph to those that use an allocation
 * @graphs: of uint64_t: the ids of their captures
 * @id: that of its capture; may be among them
 */
void model_add_graph(GArray *graphs, uint64_t id);

/**
 * model_launch() - submit work to the stream of an allocation
 * @m: the model
 * @a: the allocation
 * @fn: the work, called with what it is to look at
 */
void model_launch(struct model *m, const struct model_allocation *a, vpmm_host_fn fn);

/**
 * model_hold() - have the users of an allocation look at it once more
 * @m: the model
 * @a: the allocation
 *
 * Return: what is held from its free on.
 */
struct model_held *model_hold(struct model *m, const struct model_allocation *a);

#endif /* MODEL_INSIDE_H */
