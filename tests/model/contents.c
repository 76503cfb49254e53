// SPDX-License-Identifier: LGPL-2.1-or-later
/* Runs of the program: pools with random options, workers, what these do in each step, and the end. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "model/contents-options.h"
#include "model/contents-repeat.h"
#include "model/contents-work.h"
#include "model/contents.h"

#define MOST_LIVE 48
#define MOST_PEERS (CONTENTS_DEVICES - 1)
#define MOST_KEYS ((size_t)1 << 22)

/* Whose allocation it is that asks for memory back. */
static _Thread_local struct worker *self;

bool contents_one_in(struct worker *w, int n)
{
	return !g_rand_int_range(w->rand, 0, n);
}

const struct contents_faults *contents_faults;
void (*contents_freeing)(void *ptr, struct CUstream_st *stream);

void contents_arm(struct worker *w, unsigned int pool)
{
	w->armed = contents_faults && !w->run->calm && contents_one_in(w, 4);
	if (w->armed)
		contents_faults->arm(w->run->pools[pool], w->run->ranges, w->rand);
}

void contents_disarm(struct worker *w, unsigned int pool)
{
	if (w->armed)
		contents_faults->disarm(w->run->pools[pool]);
}

struct vpmm_pool *contents_pool(struct worker *w, unsigned int pool)
{
	return contents_one_in(w, 8) && !contents_faults ? NULL : w->run->pools[pool];
}

/* It may free as any other part of the program, but not in the middle of what is not allocated yet. */
static int give(void *data, struct vpmm_pool *pool, size_t size)
{
	struct stream *s = stream_any(self);
	struct block *b = block_any(self);

	if (contents_one_in(self, 4))
		contents_ok(self->run, vpmm_pool_trim(pool, 0, NULL));
	return b && s && block_release(self, b, s);
}

static void hear(void *data, struct vpmm_pool *pool, size_t size, const char *message)
{
	g_assert_cmpstr(message, !=, "");
}

static bool one_in(GRand *rand, int n)
{
	return !g_rand_int_range(rand, 0, n);
}

static void open_pools(struct run *run, GRand *rand)
{
	run->n_pools = one_in(rand, 4) ? 2 : 1;
	for (unsigned int i = 0; i < run->n_pools; i++) {
		run->opts[i].pressure = one_in(rand, 2) && !contents_faults ? give : NULL;
		run->opts[i].exhausted = one_in(rand, 2) ? hear : NULL;
		options_choose(run, i, rand);
		contents_ok(run, (contents_faults ? contents_faults->create : vpmm_pool_create)(&run->pools[i], &run->opts[i]));
	}
}

void contents_connect(struct worker *w)
{
	if (w->sockets[0] >= 0) {
		close(w->sockets[0]);
		close(w->sockets[1]);
	}
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->sockets), ==, 0);
}

/* The legacy default stream is in the way of captures, and the per-thread one is opened on its thread. */
static void open_worker(struct run *run, unsigned int index, GRand *rand)
{
	const guint32 seeds[] = { run->seed, index };
	struct worker *w = &run->workers[index];
	int streams = g_rand_int_range(rand, 2, run->n_workers > 1 ? 4 : 7);
	struct CUstream_st *handle;

	*w = (struct worker){ .run = run, .index = index };
	w->rand = g_rand_new_with_seed_array(seeds, G_N_ELEMENTS(seeds));
	w->odd = g_rand_new_with_seed(run->seed);
	w->live = g_ptr_array_new();
	w->streams = g_ptr_array_new();
	w->ranges = g_ptr_array_new_with_free_func(range_free_struct);
	w->sockets[0] = w->sockets[1] = -1;
	contents_connect(w);
	w->graphs = g_ptr_array_new_with_free_func(graph_free);
	w->blocks = g_ptr_array_new_with_free_func(block_free_struct);
	w->shadows = g_ptr_array_new_with_free_func(work_shadow_free);
	w->kept = g_ptr_array_new_with_free_func(g_free);
	for (int i = 0; i < streams; i++) {
		contents_ok(run, vpmm_host_stream_create(&handle));
		stream_new(w, handle);
	}
	if (!run->captures && !index)
		stream_new(w, NULL);
}

/* Other devices come and go. Without them, nobody but the pool's own device could use a block. */
static void change_peers(struct worker *w, unsigned int pool)
{
	static const int devices[MOST_PEERS] = { 1, 2 };
	size_t count = (size_t)g_rand_int_range(w->rand, 0, MOST_PEERS + 1);
	int err;

	err = contents_call(w, pool, vpmm_pool_set_peers(w->run->pools[pool], devices, count));
	/* Not while another thread pauses or resumes. */
	if (err && !w->armed && (err != -EBUSY || !w->run->tags || w->run->n_workers == 1))
		contents_fail(w->run, "step %u: vpmm_pool_set_peers: %d, %s", w->step, err, vpmm_last_error());
}

static void find(struct worker *w)
{
	struct vpmm_allocation found = { .size = sizeof(found) };
	const struct block *b = block_any(w);
	size_t at;

	if (!b || contents_faults)
		return;
	at = (size_t)g_rand_int(w->rand) % b->shadow->size;
	contents_ok(w->run, vpmm_lookup(b->shadow->ptr + at, &found));
	if (found.pool != w->run->pools[b->pool] || found.base != b->shadow->ptr || found.bytes != b->shadow->size)
		contents_fail(w->run, "step %u: %zu bytes into %zu bytes at %p, %zu bytes are found at %p", w->step, at,
			      b->shadow->size, (void *)b->shadow->ptr, (size_t)found.bytes, found.base);
}

static void change(struct worker *w)
{
	unsigned int number = (unsigned int)g_rand_int_range(w->rand, 0, (gint32)w->run->n_pools);
	size_t limit = (size_t)g_rand_int_range(w->rand, 0, 60) * PAGE;
	struct vpmm_pool *pool = w->run->pools[number];

	switch (g_rand_int_range(w->rand, 0, 5)) {
	case 0:
		change_peers(w, number);
		break;
	case 1:
		contents_ok(w->run, vpmm_pool_reset_peaks(pool));
		break;
	case 2:
		if (w->run->limited)
			contents_try(w, number, vpmm_pool_set_limit(pool, limit));
		break;
	case 3:
		if (w->run->opts[number].plan)
			contents_try(w, number, vpmm_pool_save_plan(pool));
		break;
	default:
		find(w);
	}
}

static void look(struct worker *w)
{
	static _Thread_local FILE *out;
	unsigned int number = (unsigned int)g_rand_int_range(w->rand, 0, (gint32)w->run->n_pools);
	struct vpmm_pool *pool = w->run->pools[number];
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct vpmm_info info = { .size = sizeof(info) };
	struct stream *s = stream_any(w);
	size_t size = (size_t)g_rand_int_range(w->rand, 0, 60) * PAGE;

	switch (g_rand_int_range(w->rand, 0, 5)) {
	case 0:
		contents_try(w, number, vpmm_pool_trim(pool, size, NULL));
		break;
	case 1:
		if (s)
			contents_try(w, number, vpmm_pool_query(pool, size, s->handle, &forecast));
		break;
	case 2:
		contents_ok(w->run, vpmm_pool_stats(pool, &stats));
		break;
	case 3:
		contents_ok(w->run, vpmm_pool_info(pool, &info));
		break;
	default:
		if (!out)
			out = fopen("/dev/null", "w");
		contents_ok(w->run, vpmm_pool_dump(pool, out));
	}
}

/* What is nobody's, what is freed already, and what is within a block, is refused, and nothing changes. */
static void misuse(struct worker *w)
{
	struct block *b = block_any(w);
	struct stream *s = stream_any(w);

	if (!b || !s)
		return;
	assert_error(vpmm_free(w->run->pools[b->pool], b->shadow->ptr + 1, s->handle), EINVAL, "no allocation");
	if (w->run->n_pools > 1)
		assert_error(vpmm_free(w->run->pools[!b->pool], b->shadow->ptr, s->handle), EINVAL, "no allocation");
}

static void post(struct worker *w)
{
	struct block *b = block_any(w);

	/* Others do not know when graphs of this one overwrite it. */
	if (!b || b->graphs->len || b->group || b->word)
		return;
	g_ptr_array_remove_fast(w->live, b);
	w->bytes -= b->shadow->size;
	pthread_mutex_lock(&w->run->lock);
	g_ptr_array_add(w->run->mail, b);
	pthread_mutex_unlock(&w->run->lock);
}

static void fetch(struct worker *w)
{
	struct block *b;

	pthread_mutex_lock(&w->run->lock);
	b = w->run->mail->len ? g_ptr_array_remove_index(w->run->mail, 0) : NULL;
	pthread_mutex_unlock(&w->run->lock);
	if (!b)
		return;
	g_ptr_array_add(w->live, b);
	w->bytes += b->shadow->size;
}

static unsigned int any_flags(struct worker *w)
{
	unsigned int flags = contents_one_in(w, 6) ? VPMM_ZERO : 0;

	if (!contents_repeats(w) && contents_one_in(w, 8))
		flags |= VPMM_IDLE;
	if (!contents_repeats(w) && contents_one_in(w, 16))
		flags |= VPMM_SHAREABLE;
	return flags;
}

static void malloc_step(struct worker *w)
{
	struct stream *s = stream_any(w);
	bool plain = contents_is_plain(w);

	if (s && !plain && contents_one_in(w, 60))
		block_burst(w, s);
	else if (s && !plain && contents_one_in(w, 12))
		block_unused(w, s);
	else if (s && !plain && contents_one_in(w, 24))
		block_hand_on(w, s);
	else if (s && !plain && contents_one_in(w, 16))
		block_less(w, s);
	else if (s && w->live->len < MOST_LIVE)
		block_new(w, s, any_flags(w));
}

/* Mostly the stream that it was allocated for, if that is the worker's own still. */
static struct stream *stream_for(struct worker *w, const struct block *b)
{
	struct stream *s = b->first;

	if (s && s->owner == w && !s->gone && !s->captured && contents_one_in(w, 2))
		return s;
	return stream_any(w);
}

static void free_step(struct worker *w)
{
	struct block *b = block_any(w);
	struct stream *s = b ? stream_for(w, b) : NULL;

	if (!s)
		return;
	if (contents_one_in(w, 2))
		block_access(w, b, s, false);
	if (contents_one_in(w, 3) && !contents_is_plain(w))
		block_resize(w, b, s);
	else if (b->apart && contents_one_in(w, 2))
		block_share(w, b, s);
	else
		block_release(w, b, s);
}

static void access_step(struct worker *w)
{
	struct block *b = block_any(w);
	struct stream *s = b ? stream_for(w, b) : NULL;

	if (!s)
		return;
	if (contents_one_in(w, 3) && !contents_is_plain(w))
		block_name(w, b, s);
	block_access(w, b, s, contents_one_in(w, 3));
	if (contents_one_in(w, 6) && !contents_is_plain(w))
		block_name(w, b, s);
}

static void step(struct worker *w)
{
	int what = g_rand_int_range(w->rand, 0, contents_is_plain(w) ? 50 : 100);

	if (what < 28)
		malloc_step(w);
	else if (what < 50)
		free_step(w);
	else if (what < 74)
		access_step(w);
	else if (what < 84 && w->run->captures && !contents_repeats(w))
		graph_step(w);
	else if (what < 86 && !contents_repeats(w))
		stream_renew(w);
	else if (what < 88)
		contents_one_in(w, 2) ? look(w) : change(w);
	else if (what < 89)
		misuse(w);
	else if (what < 93 && w->run->n_workers > 1)
		post(w);
	else if (w->run->n_workers > 1)
		fetch(w);
	if (w->run->ranges && !contents_repeats(w) && contents_one_in(w, 8))
		range_step(w);
	if (w->run->tags && !contents_is_plain(w) && contents_one_in(w, 24))
		tag_step(w);
	if (contents_one_in(w, (int)w->run->lazy))
		stream_complete_any(w);
}

static void check(struct run *run)
{
	for (unsigned int i = 0; i < run->n_pools; i++)
		contents_ok(run, vpmm_pool_check(run->pools[i]));
}

/* Its per-thread default stream goes with the thread. */
static void *work(void *data)
{
	struct worker *w = data;
	struct stream *own = NULL;

	self = w;
	if (!w->run->repeats && contents_one_in(w, 2))
		own = stream_new(w, VPMM_HOST_STREAM_PER_THREAD);
	for (; w->step < w->run->steps; w->step++) {
		if (w->run->repeats && w->step == w->run->repeats)
			repeat_end(w);
		if (contents_repeats(w))
			repeat_step(w, step);
		else
			step(w);
		if (!contents_is_plain(w) && contents_one_in(w, (int)w->run->checks))
			check(w->run);
	}
	graph_end(w);
	tag_end(w);
	if (own) {
		/* When that has run, all is known to be done that others can no longer wait for. */
		work_submit(w, NULL, own, TICK);
		stream_retire(own);
		g_ptr_array_remove(w->streams, own);
	}
	return NULL;
}

static void start(struct worker *w)
{
	int err = pthread_create(&w->thread, NULL, work, w);

	g_assert_cmpint(err, ==, 0);
}

static void work_all(struct run *run)
{
	if (run->n_workers == 1) {
		work(&run->workers[0]);
		return;
	}
	for (unsigned int i = 0; i < run->n_workers; i++)
		start(&run->workers[i]);
	for (unsigned int i = 0; i < run->n_workers; i++)
		pthread_join(run->workers[i].thread, NULL);
}

/* Each block is looked at once more, and all but a few are freed, on streams that are behind what had them last. */
static void look_at_all(struct worker *w)
{
	while (contents_one_in(w, 2) && w->graphs->len)
		graph_retire(w, 0);
	range_look(w);
	for (guint i = w->live->len; i > 0; i--) {
		struct block *b = w->live->pdata[i - 1];
		struct stream *s = stream_any(w);

		block_access(w, b, s, false);
		if (!contents_one_in(w, 8) && !block_release(w, b, s))
			contents_fail(w->run, "block %u cannot be freed", b->shadow->number);
	}
}

static void check_counts(struct run *run)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	for (unsigned int i = 0; i < run->n_pools; i++) {
		contents_ok(run, vpmm_pool_stats(run->pools[i], &stats));
		if (stats.mallocs - stats.frees != run->mallocs[i] - run->frees[i])
			contents_fail(run, "pool %u: %" PRIu64 " allocations less %" PRIu64
				      " frees, not %" PRIu64 " less %" PRIu64, i, stats.mallocs,
				      stats.frees, run->mallocs[i], run->frees[i]);
	}
}

static void finish(struct run *run)
{
	struct worker *first = &run->workers[0];

	run->calm = true;
	self = first;
	stream_complete_all(first);
	while (run->mail->len)
		fetch(first);
	for (unsigned int i = 0; i < run->n_workers; i++)
		look_at_all(&run->workers[i]);
	check(run);
	stream_complete_all(first);
	check(run);
	check_counts(run);
	for (unsigned int i = 0; i < run->n_pools; i++)
		vpmm_pool_destroy(run->pools[i]);
}

static void close_worker(struct worker *w)
{
	for (guint i = 0; i < w->streams->len; i++) {
		struct stream *s = w->streams->pdata[i];

		if (!s->legacy)
			contents_ok(w->run, vpmm_host_stream_destroy(s->handle));
	}
	close(w->sockets[0]);
	close(w->sockets[1]);
	g_ptr_array_free(w->ranges, TRUE);
	g_ptr_array_free(w->live, TRUE);
	g_ptr_array_free(w->streams, TRUE);
	g_ptr_array_free(w->graphs, TRUE);
	g_ptr_array_free(w->blocks, TRUE);
	g_ptr_array_free(w->shadows, TRUE);
	g_ptr_array_free(w->kept, TRUE);
	g_rand_free(w->rand);
	g_rand_free(w->odd);
}

static void close_run(struct run *run, struct contents_counts *counts)
{
	for (unsigned int i = 0; i < run->n_workers; i++)
		close_worker(&run->workers[i]);
	counts->seeds++;
	counts->steps += (uint64_t)run->steps * run->n_workers;
	counts->works += run->works;
	counts->words += run->words;
	g_ptr_array_free(run->streams, TRUE);
	g_ptr_array_free(run->mail, TRUE);
	options_clear(run);
	g_string_free(run->text, TRUE);
	pthread_mutex_destroy(&run->lock);
	pthread_rwlock_destroy(&run->begins);
	g_free(run->writers);
	g_free(run->owners);
	g_free(run);
}

void contents_run(guint32 seed, unsigned int steps, unsigned int workers, struct contents_counts *counts)
{
	static const unsigned int lazy[] = { 1, 2, 4, 16, 64 };
	static const unsigned int checks[] = { 1, 8, 64 };
	struct run *run = g_new0(struct run, 1);
	GRand *rand = g_rand_new_with_seed(seed);

	run->seed = seed;
	run->steps = steps;
	run->n_workers = MAX(workers, 1);
	run->text = g_string_new(NULL);
	run->captures = !one_in(rand, 4);
	run->ranges = one_in(rand, 3);
	run->lazy = lazy[g_rand_int_range(rand, 0, G_N_ELEMENTS(lazy))];
	run->checks = checks[g_rand_int_range(rand, workers == 1 ? 0 : 2, G_N_ELEMENTS(checks))];
	if (workers == CONTENTS_ONE_STREAM)
		repeat_choose(run, rand);
	run->streams = g_ptr_array_new_with_free_func(stream_free);
	run->mail = g_ptr_array_new();
	run->writers = g_new0(struct shadow *, MOST_KEYS);
	run->owners = g_new0(gint, MOST_KEYS);
	pthread_mutex_init(&run->lock, NULL);
	pthread_rwlock_init(&run->begins, NULL);
	options_choose_device(run, rand);
	open_pools(run, rand);
	for (unsigned int i = 0; i < run->n_workers; i++)
		open_worker(run, i, rand);
	run->tags = one_in(rand, 2);
	g_rand_free(rand);
	work_all(run);
	finish(run);
	close_run(run, counts);
}
