/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pauses and resumes tags, for the exported calls and for vpmm-pause. */
#ifndef PAUSE_TAGS_H
#define PAUSE_TAGS_H

#include "api/api.h"

enum pause_what {
	PAUSE_PAUSE,
	PAUSE_RESUME,
	PAUSE_PREPARE
};

/**
 * struct pause_request - what is to be done with the arenas of tags
 * @what: pause, resume, or make host memory
 * @tag: the tag, pausable, or VPMM_TAG_ALL
 * @flags: of vpmm_pause()
 * @stream: of vpmm_resume(), or VPMM_STREAM_ANY
 */
struct pause_request {
	enum pause_what what;
	vpmm_tag tag;
	unsigned int flags;
	struct CUstream_st *stream;
};

/**
 * pause_tags() - do it
 * @pool: the pool
 * @request: what
 *
 * Context: no lock held.
 * Return: 0, or an error, and nothing has changed.
 */
int pause_tags(struct vpmm_pool *pool, const struct pause_request *request) G_GNUC_INTERNAL;

#endif /* PAUSE_TAGS_H */
