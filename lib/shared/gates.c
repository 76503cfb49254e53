// SPDX-License-Identifier: LGPL-2.1-or-later
/* The streams that use a range. */
#include <errno.h>

#include "shared/gates.h"
#include "util/error.h"

/* CU_STREAM_PER_THREAD: another stream in each thread, so no other thread can wait for it. */
#define PER_THREAD ((struct CUstream_st *)0x2)

bool gates_have(const struct range *range, const struct CUstream_st *stream)
{
	lock_assert_held(&shared_lock);
	return g_ptr_array_find(range->users, stream, NULL);
}

int gates_add(struct range *range, struct CUstream_st *stream)
{
	lock_assert_held(&range->shared->mover);
	lock_assert_held(&shared_lock);
	if (stream == PER_THREAD)
		return error_set(-ENOTSUP, "a shared range cannot be used on the default stream of each thread, as no "
				 "other thread can wait for that: use a created one");
	if (gates_have(range, stream))
		return 0;
	/* A touch could not report it. */
	if (range->users->len >= BACKEND_GATE_STREAMS)
		return error_set(-ENOTSUP, "%u streams use the shared range, and no more can: vpmm_stream_retire() "
				 "those that are destroyed", range->users->len);
	g_ptr_array_add(range->users, stream);
	return 0;
}

int gates_check(const struct shared *shared, struct CUstream_st *stream)
{
	struct backend *be = shared->core->backend;
	struct error_kept kept;
	uint64_t id;
	int err;

	error_keep(&kept);
	err = be->ops->stream_capture(be, stream, &id);
	if (err != -EBUSY)
		return err;
	/* It is a stream, beside a capture or under one that was invalidated. */
	error_restore(&kept);
	return 0;
}

/* Whether it uses a range; with @forget, it does not from now on. */
static bool find_user(struct shared *shared, struct CUstream_st *stream, bool forget)
{
	bool used = false;

	lock_acquire(&shared_lock);
	for (guint i = 0; i < shared->ranges->len; i++) {
		GPtrArray *users = ((struct range *)shared->ranges->pdata[i])->users;

		used |= forget ? g_ptr_array_remove(users, stream) : g_ptr_array_find(users, stream, NULL);
	}
	lock_release(&shared_lock);
	return used;
}

static int wait_for_user(struct backend *be, struct CUstream_st *stream)
{
	struct backend_event *event;
	struct error_kept kept;
	int err;

	error_keep(&kept);
	err = be->ops->event_create(be, &event);
	if (!err) {
		err = be->ops->event_record(be, event, stream);
		if (!err)
			err = be->ops->event_sync(be, event);
		be->ops->event_destroy(be, event);
	}
	if (err)
		err = be->ops->sync(be);
	if (!err)
		error_restore(&kept);
	return err;
}

/* Nobody is at a gate of it while the mover is held. */
int gates_retire(struct shared *shared, struct CUstream_st *stream)
{
	int err = 0;

	lock_acquire(&shared->mover);
	if (find_user(shared, stream, false))
		err = wait_for_user(shared->core->backend, stream);
	if (!err)
		find_user(shared, stream, true);
	lock_release(&shared->mover);
	return err;
}

static GPtrArray *copy_users(struct range *range)
{
	GPtrArray *users;

	lock_acquire(&shared_lock);
	users = g_ptr_array_copy(range->users, NULL, NULL);
	lock_release(&shared_lock);
	return users;
}

static void remove_user(struct range *range, const struct CUstream_st *stream)
{
	lock_acquire(&shared_lock);
	g_ptr_array_remove(range->users, (void *)stream);
	lock_release(&shared_lock);
}

/*
 * Under capture a stream has nothing submitted that would run, but it may have from before. Leaves those that a gate
 * can stop. Tells whether the whole device has to be waited for.
 */
static int sort_out_users(struct range *range, GPtrArray *users, bool *captured)
{
	struct backend *be = range->shared->core->backend;
	struct error_kept kept;
	uint64_t id;
	int err;

	*captured = false;
	error_keep(&kept);
	for (guint i = users->len; i > 0; i--) {
		id = 0;
		err = be->ops->stream_capture(be, users->pdata[i - 1], &id);
		if (err && err != -EBUSY && err != -EINVAL)
			return err;
		/* The host backend knows that it was destroyed. */
		if (err == -EINVAL)
			remove_user(range, users->pdata[i - 1]);
		if (err == -EBUSY || id)
			*captured = true;
		if (err || id)
			g_ptr_array_remove_index_fast(users, i - 1);
	}
	error_restore(&kept);
	return 0;
}

int gates_close(struct range *range, struct backend_gate **gate)
{
	struct backend *be = range->shared->core->backend;
	GPtrArray *users = copy_users(range);
	bool captured;
	int err;

	*gate = NULL;
	err = sort_out_users(range, users, &captured);
	if (!err && captured)
		err = be->ops->sync(be);
	if (!err && users->len)
		err = be->ops->gate(be, (struct CUstream_st *const *)users->pdata, users->len, gate);
	g_ptr_array_free(users, TRUE);
	return err;
}

void gates_open(struct range *range, struct backend_gate *gate)
{
	if (gate)
		range_ops(range)->gate_open(range_backend(range), gate);
}
