// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks of the model that two pools have, or one pool twice. Nobody writes to them any more. */
#include <errno.h>
#include <poll.h>

#include "calls/pool.h"
#include "model/model-inside.h"
#include "model/model-work.h"

/* What a call left in the socket that failed before it read is there for the next one. */
static bool is_there(const struct model *to)
{
	struct pollfd fd = { .fd = to->sockets[1], .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

static int pass(struct model *m, const struct model_allocation *a, struct model *to, void **ptr)
{
	unsigned int told = to->told;
	size_t size = 0;
	int err = 0, number;

	if (!is_there(to))
		err = vpmm_send(m->f.pool, a->ptr, to->sockets[0]);
	if (err) {
		g_assert_cmpint(errno, ==, -err);
		return err;
	}
	err = vpmm_receive(to->f.pool, ptr, &size, to->sockets[1]);
	number = errno;
	if (err) {
		g_assert_null(*ptr);
		g_assert_cmpint(number, ==, -err);
	}
	g_assert_cmpuint(size, ==, err ? 0 : a->size);
	if (to->f.pool->core.settings.exhausted)
		g_assert_cmpuint(to->told - told, ==, err == -ENOMEM);
	return err;
}

/* Returns whether there was room for it. What a message was about that was read in vain is sent again. */
static bool try_pass(struct model *m, const struct model_allocation *a, struct model *to, void **ptr)
{
	bool armed = to->armed;
	int err;

	err = pass(m, a, to, ptr);
	if (err && !model_is_expected(to, err))
		g_error("%zu bytes: %d, %s", a->size, err, vpmm_last_error());
	model_disarm(to);
	if (err && armed) {
		model_adopt(to);
		model_check(to);
		err = pass(m, a, to, ptr);
	}
	/* It takes no memory of the device. */
	if (err && (err != -ENOMEM || !to->few_mappings))
		g_error("%zu bytes: %d, %s", a->size, err, vpmm_last_error());
	return !err;
}

static void receive(struct model *to, const struct model_allocation *a, char *ptr, struct CUstream_st *stream)
{
	struct model_allocation *got = model_new_allocation(ptr, a->size, stream);

	got->apart = a->apart;
	got->imported = true;
	model_settle(to, got);
	model_add(to, got);
	got->pattern = a->pattern;
	to->mallocs++;
	if (stream != a->stream)
		assert_ok(vpmm_host_stream_wait(stream, a->stream));
	model_work_launch(to, got, stream, model_work_verify, NULL);
}

void model_share(struct model *m, guint index, struct model *to, struct CUstream_st *stream)
{
	struct model_allocation *a = m->live->pdata[index];
	void *ptr = NULL;

	g_assert_true(a->apart && !a->imported);
	if (to != m)
		model_disarm(m);
	if (model_is_captured(m, a->stream) || model_is_captured(to, stream)) {
		model_disarm(to);
		return;
	}
	to->holds = true;
	/* Whoever is asked for mappings meanwhile must not free it. */
	g_ptr_array_steal_index_fast(m->live, index);
	if (try_pass(m, a, to, &ptr))
		receive(to, a, ptr, stream);
	g_ptr_array_add(m->live, a);
	to->mapped = model_taken(to);
	to->given_back = to->f.pool->core.extents.given_back;
}
