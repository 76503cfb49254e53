// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams of the program, and what is behind what. */
#include <errno.h>

#include "model/contents-repeat.h"
#include "model/contents-work.h"
#include "model/contents.h"

#define MOST_PENDING 300

struct stream *stream_new(struct worker *w, struct CUstream_st *handle)
{
	struct stream *s = g_new0(struct stream, 1);

	s->handle = handle;
	s->owner = w;
	s->legacy = !handle;
	s->per_thread = handle == VPMM_HOST_STREAM_PER_THREAD;
	s->seen = g_array_new(FALSE, TRUE, sizeof(uint64_t));
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_lock(&w->run->lock);
	s->index = w->run->streams->len;
	g_ptr_array_add(w->run->streams, s);
	pthread_mutex_unlock(&w->run->lock);
	g_ptr_array_add(w->streams, s);
	return s;
}

void stream_free(gpointer data)
{
	struct stream *s = data;

	g_array_free(s->seen, TRUE);
	pthread_mutex_destroy(&s->lock);
	g_free(s);
}

struct stream *stream_any(struct worker *w)
{
	guint start = (guint)g_rand_int_range(w->rand, 0, (gint32)w->streams->len);

	if (contents_repeats(w))
		return w->streams->pdata[0];
	for (guint i = 0; i < w->streams->len; i++) {
		struct stream *s = w->streams->pdata[(start + i) % w->streams->len];

		if (!s->captured)
			return s;
	}
	return NULL;
}

uint64_t stream_next(struct stream *s)
{
	uint64_t position = s->at + 1;

	__atomic_store_n(&s->at, position, __ATOMIC_RELEASE);
	return position;
}

static uint64_t *seen(struct stream *s, const struct stream *other)
{
	if (s->seen->len <= other->index)
		g_array_set_size(s->seen, other->index + 1);
	return &g_array_index(s->seen, uint64_t, other->index);
}

/* What the other is behind, this one is as well. */
static void follow(struct stream *s, struct stream *other, uint64_t position)
{
	for (guint i = 0; s->owner == other->owner && i < other->seen->len; i++) {
		uint64_t at = g_array_index(other->seen, uint64_t, i);

		if (s->seen->len <= i)
			g_array_set_size(s->seen, i + 1);
		if (g_array_index(s->seen, uint64_t, i) < at)
			g_array_index(s->seen, uint64_t, i) = at;
	}
	*seen(s, other) = position;
}

bool stream_behind(struct stream *s, struct stream *other, uint64_t position)
{
	bool behind = true;
	uint64_t at;

	g_assert_false(s->captured);
	if (s == other || *seen(s, other) >= position || __atomic_load_n(&other->ran, __ATOMIC_ACQUIRE) >= position)
		return true;
	pthread_mutex_lock(&other->lock);
	if (other->gone)
		goto unlock;
	behind = !other->captured && !(other->per_thread && other->owner != s->owner);
	if (!behind)
		goto unlock;
	at = __atomic_load_n(&other->at, __ATOMIC_ACQUIRE);
	contents_ok(s->owner->run, vpmm_host_stream_wait(s->handle, other->handle));
	follow(s, other, at);
unlock:
	pthread_mutex_unlock(&other->lock);
	return behind;
}

bool stream_complete(struct worker *w, struct stream *s, unsigned int n)
{
	int err = 0;

	pthread_mutex_lock(&s->lock);
	if (!s->gone && (!s->per_thread || s->owner == w))
		err = vpmm_host_stream_complete(s->handle, n);
	pthread_mutex_unlock(&s->lock);
	if (err && err != -EBUSY)
		contents_fail(w->run, "vpmm_host_stream_complete: %d, %s", err, vpmm_last_error());
	return err;
}

bool stream_has_run(struct worker *w, struct stream *s, uint64_t position)
{
	if (__atomic_load_n(&s->ran, __ATOMIC_ACQUIRE) < position)
		stream_complete(w, s, UINT_MAX);
	return __atomic_load_n(&s->ran, __ATOMIC_ACQUIRE) >= position;
}

bool block_settle(struct worker *w, struct block *b)
{
	bool settled = true;

	for (guint i = 0; i < b->records->len; i++) {
		const struct record *r = &g_array_index(b->records, struct record, i);

		settled = stream_has_run(w, r->stream, r->last) && settled;
	}
	return settled;
}

static struct stream *one_of_all(struct run *run, guint index)
{
	struct stream *s;

	pthread_mutex_lock(&run->lock);
	s = index < run->streams->len ? run->streams->pdata[index] : NULL;
	pthread_mutex_unlock(&run->lock);
	return s;
}

/* Mostly one of the worker's own, as any other may be gone. */
void stream_complete_any(struct worker *w)
{
	unsigned int n = (unsigned int)g_rand_int_range(w->rand, 1, 9);
	struct stream *s = w->streams->pdata[g_rand_int_range(w->rand, 0, (gint32)w->streams->len)];

	if (contents_one_in(w, 4)) {
		struct stream *other = one_of_all(w->run, (guint)g_rand_int_range(w->rand, 0, 16));

		s = other ? other : s;
	}
	if (s->owner == w && s->at > __atomic_load_n(&s->ran, __ATOMIC_ACQUIRE) + MOST_PENDING)
		n = UINT_MAX;
	stream_complete(w, s, n);
}

static uint64_t ran_so_far(struct run *run)
{
	uint64_t sum = 0;
	struct stream *s;

	for (guint i = 0; (s = one_of_all(run, i)); i++)
		sum += __atomic_load_n(&s->ran, __ATOMIC_ACQUIRE);
	return sum;
}

/* A round in which nothing runs may still let markers through; after a few of them there is a circle. */
void stream_complete_all(struct worker *w)
{
	unsigned int idle = 0;
	uint64_t ran, before = 0;
	struct stream *s;
	bool busy = true;

	while (busy) {
		busy = false;
		for (guint i = 0; (s = one_of_all(w->run, i)); i++)
			busy |= stream_complete(w, s, UINT_MAX);
		ran = ran_so_far(w->run);
		idle = ran == before ? idle + 1 : 0;
		before = ran;
		if (busy && idle > 8 && w->run->n_workers == 1)
			contents_fail(w->run, "step %u: streams wait for each other", w->step);
	}
}

void stream_retire(struct stream *s)
{
	struct run *run = s->owner->run;

	for (unsigned int i = 0; i < run->n_pools; i++)
		contents_make(s->owner, i, vpmm_stream_retire(run->pools[i], s->handle));
	s->epoch++;
}

/* One that is named has to be retired; of others, the pools may have to find out by themselves. */
void stream_renew(struct worker *w)
{
	struct stream *s = stream_any(w);
	struct CUstream_st *handle;
	int err;

	if (!s)
		return;
	if (s->legacy || s->per_thread || contents_one_in(w, 3)) {
		stream_retire(s);
		return;
	}
	/* A clear is no work, and may be pending when a stream is destroyed, unless there is work behind it. */
	work_submit(w, NULL, s, TICK);
	pthread_mutex_lock(&s->lock);
	if (g_atomic_int_get(&s->named) || contents_one_in(w, 2))
		stream_retire(s);
	err = vpmm_host_stream_destroy(s->handle);
	s->gone = !err;
	pthread_mutex_unlock(&s->lock);
	if (err && err != -EBUSY)
		contents_fail(w->run, "vpmm_host_stream_destroy: %d, %s", err, vpmm_last_error());
	if (err)
		return;
	g_ptr_array_remove(w->streams, s);
	contents_ok(w->run, vpmm_host_stream_create(&handle));
	stream_new(w, handle);
}
