// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>

#include "host/tag-fixture.h"

static bool is_done(const struct tag_worker *it, unsigned int turn)
{
	return it->stop ? g_atomic_int_get(it->stop) : turn == it->turns;
}

void *tag_work(void *data)
{
	const struct tag_worker *it = data;
	struct CUstream_st *stream;
	void *ptrs[8] = { NULL };
	int err;

	assert_ok(vpmm_host_stream_create(&stream));
	vpmm_tag_set(it->tag);
	for (unsigned int i = 0; !is_done(it, i); i++) {
		void **ptr = &ptrs[i * 5 % 8];

		if (*ptr)
			assert_ok(vpmm_free(it->pool, *ptr, stream));
		*ptr = NULL;
		err = vpmm_malloc(it->pool, ptr, 1 + i % 5 * PAGE / 2, stream);
		g_assert_true(!err || (err == -EBUSY && it->tag && it->stop));
		if (err)
			g_usleep(50);
	}
	for (int i = 0; i < 8; i++)
		assert_ok(vpmm_free(it->pool, ptrs[i], stream));
	assert_ok(vpmm_stream_retire(it->pool, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
	return NULL;
}
