// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that pause and resume tags. */
#include <errno.h>

#include "api/api.h"
#include "util/error.h"
#include "util/tag.h"

static int judge_tag(vpmm_tag tag)
{
	int err;

	if (tag == VPMM_TAG_ALL)
		return 0;
	err = tag_check(tag);
	if (!err && !tag_pausable(tag))
		err = error_set(-EINVAL, "tag \"%s\" was opened without VPMM_TAG_PAUSABLE", tag_name(tag));
	return err;
}

static int do_call(const char *call, struct vpmm_pool *pool, const struct pause_request *request)
{
	int err;

	err = judge_tag(request->tag);
	if (!err)
		err = api_refuse_fork();
	if (!err)
		err = api_resolve(&pool, call);
	if (err)
		return error_add(err, "%s", call);
	err = pause_tags(pool, request);
	return err ? api_fail(pool, error_add(err, "%s", call)) : 0;
}

int vpmm_pause(struct vpmm_pool *pool, vpmm_tag tag, unsigned int flags)
{
	const struct pause_request request = { PAUSE_PAUSE, tag_of(tag), flags, VPMM_STREAM_ANY };

	if (flags & ~VPMM_PAUSE_DROP)
		return error_set(-EINVAL, "vpmm_pause: flags are %#x: expected 0 or VPMM_PAUSE_DROP", flags);
	return do_call("vpmm_pause", pool, &request);
}

int vpmm_resume(struct vpmm_pool *pool, vpmm_tag tag, struct CUstream_st *stream)
{
	return do_call("vpmm_resume", pool, &(struct pause_request){ PAUSE_RESUME, tag_of(tag), 0, stream });
}

int vpmm_pause_prepare(struct vpmm_pool *pool, vpmm_tag tag)
{
	return do_call("vpmm_pause_prepare", pool,
		       &(struct pause_request){ PAUSE_PREPARE, tag_of(tag), 0, VPMM_STREAM_ANY });
}

int vpmm_pause_guard(vpmm_guard_fn guard, void *data)
{
	int err = api_refuse_fork();

	if (err)
		return error_add(err, "vpmm_pause_guard");
	control_set_guard(guard, data);
	return 0;
}
