/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the model's streams do with an allocation. */
#ifndef MODEL_WORK_H
#define MODEL_WORK_H

#include "model/model.h"

/* What the model's table of who had a pattern has it by; any word of it will do that was not inverted. */
static inline gpointer model_work_key(uint64_t pattern)
{
	return GUINT_TO_POINTER((guint)(pattern >> 32));
}

/*
 * Write its pattern; find it there; find it as far as the block goes, which was larger when it was written; find zeros;
 * find nothing but what the stream itself has written, and zeros.
 */
void model_work_fill(void *data);
void model_work_verify(void *data);
void model_work_verify_part(void *data);
void model_work_verify_zero(void *data);
void model_work_verify_own(void *data);

/**
 * model_work_launch() - submit one of these
 * @m: the model
 * @a: the allocation
 * @stream: the stream; where it is captured, the work is done with each launch of the graph
 * @fn: which
 * @held: what the stream is past when it is done; NULL: nothing
 */
void model_work_launch(struct model *m, const struct model_allocation *a, struct CUstream_st *stream, vpmm_host_fn fn,
		       struct model_held *held);

#endif /* MODEL_WORK_H */
