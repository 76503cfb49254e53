// SPDX-License-Identifier: LGPL-2.1-or-later
/* Mirrors of a pool's own regions: told before addresses lose their memory. Registration caches stay right by that. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls/pool.h"
#include "host/export-fixture.h"
#include "support/fault.h"
#include "support/kinds.h"
#include "vpmm-shared.h"

/*
 * A registration card, as NCCL and drivers of network cards keep one: address to memory. What it has registered it
 * sees through a mapping of its own, as a card does, so it goes on seeing the memory that was at the address then.
 */
struct card {
	pthread_mutex_t lock;
	GHashTable *entries;		/* address to the mapping of its own, of the kernel's pages */
	size_t page;
	bool deaf;			/* it is told of nothing */
	bool beside;			/* threads use it, and whose memory is whose cannot be said in update */
	uint64_t stamp;
	unsigned int hits;
	unsigned int stale;
	unsigned int dropped;
};

static void card_begin(struct card *card, bool deaf, bool beside)
{
	*card = (struct card){ .lock = PTHREAD_MUTEX_INITIALIZER, .page = (size_t)sysconf(_SC_PAGESIZE),
				 .deaf = deaf, .beside = beside };
	card->entries = g_hash_table_new(NULL, NULL);
}

static void card_end(struct card *card)
{
	GHashTableIter iter;
	gpointer also;

	g_hash_table_iter_init(&iter, card->entries);
	while (g_hash_table_iter_next(&iter, NULL, &also))
		munmap(also, card->page);
	g_hash_table_destroy(card->entries);
}

/* A second mapping of the same memory. */
static char *map_again(const struct card *card, char *at)
{
	char *also = mremap(at, 0, card->page, MREMAP_MAYMOVE);

	return also == MAP_FAILED ? NULL : also;
}

static volatile uint64_t *word_at(const struct card *card, char *page, const char *ptr)
{
	return (volatile uint64_t *)(page + ((uintptr_t)ptr & (card->page - 1)));
}

/* Nobody else has written these values to any memory. */
static bool is_same_memory(struct card *card, volatile uint64_t *word, volatile uint64_t *also)
{
	*word = ++card->stamp;
	if (*also != card->stamp)
		return false;
	/* A deaf one would write to what is another's by now. */
	if (card->deaf)
		return true;
	*also = ++card->stamp;
	return *word == card->stamp;
}

/* Uses a word of a live block through the card, and registers it if it is not yet. */
static void card_use(struct card *card, char *ptr)
{
	char *page = ptr - ((uintptr_t)ptr & (card->page - 1)), *also;

	pthread_mutex_lock(&card->lock);
	also = g_hash_table_lookup(card->entries, page);
	if (also && !is_same_memory(card, word_at(card, page, ptr), word_at(card, also, ptr))) {
		card->stale++;
		g_assert_true(card->deaf);
		munmap(also, card->page);
		also = NULL;
	} else if (also) {
		card->hits++;
	}
	if (!also) {
		also = map_again(card, page);
		g_assert_nonnull(also);
		g_hash_table_insert(card->entries, page, also);
	}
	pthread_mutex_unlock(&card->lock);
}

static gboolean is_lost(gpointer key, gpointer value, gpointer data)
{
	char *page = key, *also = value;
	void *const *lost = ((void **)data) + 1;
	struct card *card = *(void **)data;

	if (page < (char *)lost[0] || page >= (char *)lost[1])
		return FALSE;
	/* It is told before: what is there can be read, and is what was registered. */
	if (*(volatile uint64_t *)page != *(volatile uint64_t *)also)
		g_assert_true(card->beside);
	munmap(also, card->page);
	card->dropped++;
	return TRUE;
}

static void card_update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct card *card = data;
	void *lost[] = { card, start, end };

	g_assert_nonnull(mirror);
	g_assert_cmpint(action, ==, VPMM_MIRROR_UNMAP);
	g_assert_true((char *)start < (char *)end);
	pthread_mutex_lock(&card->lock);
	g_hash_table_foreach_remove(card->entries, is_lost, lost);
	pthread_mutex_unlock(&card->lock);
}

static const struct vpmm_mirror_ops card_ops = { sizeof(card_ops), card_update };

/* A program of random calls. */

#define BLOCKS 24
#define STEPS 4000
#define THREADS 3

struct buffer {
	char *ptr;
	size_t size;
	size_t max;
	bool shareable;
};

struct program {
	struct fixture *f;
	struct card *card;
	GRand *rand;
	size_t least;			/* what is less is not of the pool's own regions */
	struct CUstream_st *stream;
	bool holds;			/* work of the stream is held up now and then */
	struct buffer blocks[BLOCKS];
	pthread_t thread;
};

static guint below(struct program *p, guint limit)
{
	return (guint)g_rand_int_range(p->rand, 0, (gint32)limit);
}

static size_t some_size(struct program *p)
{
	size_t size = below(p, 3) ? below(p, 7) * PAGE + below(p, 2) * below(p, PAGE) : below(p, 5000);

	return MAX(size & ~(size_t)7, p->least);
}

static void use(struct program *p, const struct buffer *block)
{
	card_use(p->card, block->ptr);
	card_use(p->card, block->ptr + block->size - sizeof(uint64_t));
}

/* Memory may run out. */
static bool got(int err)
{
	if (err != -ENOMEM)
		assert_ok(err);
	return !err;
}

static void take(struct program *p, struct buffer *block)
{
	size_t size = some_size(p), max = 0;
	bool shareable = false;
	void *ptr;
	int err;

	switch (below(p, 8)) {
	case 0:
		max = size + 6 * PAGE;
		err = vpmm_malloc_growable(p->f->pool, &ptr, size, max, p->stream);
		break;
	case 1:
		shareable = true;
		err = vpmm_malloc_flags(p->f->pool, &ptr, size, p->stream, VPMM_SHAREABLE);
		break;
	default:
		err = vpmm_malloc(p->f->pool, &ptr, size, p->stream);
	}
	if (got(err))
		*block = (struct buffer){ ptr, size, max, shareable };
}

static void give(struct program *p, struct buffer *block)
{
	assert_ok(vpmm_free(p->f->pool, block->ptr, p->stream));
	block->ptr = NULL;
}

static void change(struct program *p, struct buffer *block)
{
	size_t size = some_size(p);
	void *ptr = block->ptr;

	if (block->shareable)
		return;
	if (block->max)
		size = MIN(size, block->max);
	if (!got(vpmm_realloc(p->f->pool, &ptr, size, p->stream)))
		return;
	block->ptr = ptr;
	block->size = size;
}

static void disturb(struct program *p)
{
	switch (below(p, 6)) {
	case 0:
		assert_ok(vpmm_pool_trim(p->f->pool, below(p, 20) * PAGE, NULL));
		break;
	case 1:
		if (p->holds)
			assert_ok(vpmm_host_stream_submit(p->stream));
		break;
	case 2:
		assert_ok(vpmm_stream_retire(p->f->pool, p->stream));
		break;
	default:
		vpmm_host_stream_complete(p->stream, UINT_MAX);
	}
}

static void *run(void *data)
{
	struct program *p = data;

	for (int i = 0; i < STEPS; i++) {
		struct buffer *block = &p->blocks[below(p, BLOCKS)];

		if (!block->ptr)
			take(p, block);
		else if (below(p, 2))
			change(p, block);
		else
			give(p, block);
		for (int k = 0; k < BLOCKS; k++) {
			if (p->blocks[k].ptr)
				use(p, &p->blocks[k]);
		}
		if (!below(p, 12))
			disturb(p);
		if (!(i % 200))
			assert_ok(vpmm_pool_check(p->f->pool));
	}
	return NULL;
}

#define SCARCE .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = 24 * PAGE, .limit = 40 * PAGE, \
	.export_as = VPMM_EXPORT_FD

static const struct kind programs[] = {
	{ "packed", { SCARCE }, 8 },
	{ "scrub", { SCARCE, .scrub = VPMM_SCRUB_STREAM }, 8 },
	{ "paged", { SCARCE, FIXTURE_PAGED }, PAGE },
};

static void program_begin(struct program *p, struct fixture *f, struct card *card, const struct kind *kind, int number)
{
	*p = (struct program){ .f = f, .card = card, .least = kind->size, .stream = f->streams[number] };
	p->rand = g_rand_new_with_seed((guint32)number + 1);
}

/* Its end tells of all that is left. */
static void finish(struct fixture *f, struct card *card, struct vpmm_mirror *mirror)
{
	g_test_message("%u hits, %u stale, %u dropped", card->hits, card->stale, card->dropped);
	g_assert_cmpuint(fixture_stats(f).remapped, >, 0);
	fixture_close(f);
	vpmm_mirror_unregister(mirror);
	g_assert_cmpuint(card->hits, >, STEPS);
	g_assert_cmpuint(card->deaf ? card->stale : card->dropped, >, 0);
	if (!card->deaf)
		g_assert_cmpuint(g_hash_table_size(card->entries), ==, 0);
	card_end(card);
}

/* With a cache that is deaf the same program finds memory of others: it can tell. */
static void run_one(const struct kind *kind, bool deaf)
{
	struct vpmm_mirror *mirror = NULL;
	struct program program;
	struct card card;
	struct fixture f;

	card_begin(&card, deaf, false);
	if (!fixture_can_map_twice()) {
		card_end(&card);
		return;
	}
	fixture_open(&f, kind->opts);
	if (!deaf)
		assert_ok(vpmm_mirror_register(f.pool, &mirror, &card_ops, &card));
	program_begin(&program, &f, &card, kind, 0);
	program.holds = true;
	run(&program);
	g_rand_free(program.rand);
	finish(&f, &card, mirror);
}

static void test_cache(gconstpointer data)
{
	run_one(data, false);
}

static void test_deaf(gconstpointer data)
{
	run_one(data, true);
}

static void test_threads(gconstpointer data)
{
	struct program program[THREADS];
	struct vpmm_mirror *mirror;
	struct card card;
	struct fixture f;
	int err;

	card_begin(&card, false, true);
	if (!fixture_can_map_twice()) {
		card_end(&card);
		return;
	}
	fixture_open(&f, ((const struct kind *)data)->opts);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &card_ops, &card));
	for (int i = 0; i < THREADS; i++) {
		program_begin(&program[i], &f, &card, data, i);
		err = pthread_create(&program[i].thread, NULL, run, &program[i]);
		g_assert_cmpint(err, ==, 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(program[i].thread, NULL);
		g_rand_free(program[i].rand);
	}
	finish(&f, &card, mirror);
}

/* One block, and who hears of it. */
struct listener {
	char *ptr;
	unsigned int updates;
	bool nosy;			/* it calls what it may call, and leaves errno as it likes */
};

static void listen_update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start,
			  void *end)
{
	struct listener *listener = data;
	struct vpmm_page page;

	(void)mirror;
	if (listener->nosy) {
		g_assert_cmpint(vpmm_locate(NULL, start, 1, &page), ==, -EINVAL);
		errno = EXDEV;
	}
	if (listener->ptr < (char *)start || listener->ptr >= (char *)end)
		return;
	g_assert_cmpint(action, ==, VPMM_MIRROR_UNMAP);
	/* It is there still. */
	g_assert_cmpint(*listener->ptr, ==, 7);
	listener->updates++;
}

static const struct vpmm_mirror_ops listener_ops = { sizeof(listener_ops), listen_update };

static void listen_to(struct listener *listener, void *ptr)
{
	*listener = (struct listener){ .ptr = ptr };
	*listener->ptr = 7;
}

/* A pool with a block, and a mirror that listens to that. */
static struct vpmm_mirror *listen_to_block(struct fixture *f, const struct kind *kind, struct listener *listener)
{
	struct vpmm_mirror *mirror;

	fixture_open(f, kind->opts);
	fixture_uncache(f);
	listen_to(listener, fixture_malloc_bytes(f, kind->size, f->streams[0]));
	assert_ok(vpmm_mirror_register(f->pool, &mirror, &listener_ops, listener));
	return mirror;
}

/* Nothing is told of a free that leaves the memory where it is. */
static void test_trim(gconstpointer data)
{
	struct listener listener;
	struct fixture f;
	struct vpmm_mirror *mirror = listen_to_block(&f, data, &listener);

	fixture_free(&f, listener.ptr, f.streams[0]);
	g_assert_cmpuint(listener.updates, ==, 0);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(listener.updates, ==, 1);
	fixture_close(&f);
	g_assert_cmpuint(listener.updates, ==, 1);
	vpmm_mirror_unregister(mirror);
}

/* What is live when the pool ends is told of then, once. */
static void test_end(gconstpointer data)
{
	struct listener listener;
	struct fixture f;
	struct vpmm_mirror *mirror = listen_to_block(&f, data, &listener);

	fixture_close(&f);
	g_assert_cmpuint(listener.updates, ==, 1);
	vpmm_mirror_unregister(mirror);
}

/* What a growable block loses is mapped elsewhere, and its addresses lose it when that is over. */
static void test_growable(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_mirror *mirror;
	struct listener listener;
	struct fixture f;
	void *ptr;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_malloc_growable(f.pool, &ptr, 4 * PAGE, 8 * PAGE, f.streams[0]));
	listen_to(&listener, (char *)ptr + 3 * PAGE);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &listener_ops, &listener));
	assert_ok(vpmm_realloc(f.pool, &ptr, PAGE, f.streams[0]));
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(listener.updates, ==, 1);
	vpmm_mirror_unregister(mirror);
	fixture_close(&f);
}

/* A shareable block, and the same one in another pool: each pool's mirrors are told of its own addresses. */
static void test_shareable(void)
{
	struct vpmm_mirror *mirrors[2];
	struct listener listeners[2];
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	listen_to(&listeners[0], shareable_malloc(&e.from, SIZE));
	assert_ok(vpmm_send(e.from.pool, listeners[0].ptr, e.sockets[0]));
	listen_to(&listeners[1], receive_block(&e, NULL));
	assert_ok(vpmm_mirror_register(e.from.pool, &mirrors[0], &listener_ops, &listeners[0]));
	assert_ok(vpmm_mirror_register(e.to.pool, &mirrors[1], &listener_ops, &listeners[1]));
	fixture_free(&e.from, listeners[0].ptr, e.from.streams[0]);
	assert_ok(vpmm_pool_trim(e.from.pool, 0, NULL));
	g_assert_cmpuint(listeners[0].updates, ==, 1);
	g_assert_cmpuint(listeners[1].updates, ==, 0);
	fixture_free(&e.to, listeners[1].ptr, e.to.streams[0]);
	assert_ok(vpmm_pool_trim(e.to.pool, 0, NULL));
	g_assert_cmpuint(listeners[0].updates, ==, 1);
	g_assert_cmpuint(listeners[1].updates, ==, 1);
	for (int i = 0; i < 2; i++)
		vpmm_mirror_unregister(mirrors[i]);
	ends_close(&e);
}

/* An unmap that fails was told of in vain: the memory is where it was, and the next is told of again. */
static void test_fails(gconstpointer data)
{
	const struct kind *kind = data;
	size_t size = MIN(kind->size, PAGE);
	struct vpmm_mirror *mirror;
	struct listener listener;
	struct fixture f;

	fixture_open_faulty(&f, kind->opts);
	fixture_uncache(&f);
	listen_to(&listener, fixture_malloc_bytes(&f, size, f.streams[0]));
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &listener_ops, &listener));
	listener.nosy = true;
	fixture_free(&f, listener.ptr, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_unmap, 0, 1, -EIO);
	assert_error(vpmm_pool_trim(f.pool, 0, NULL), EIO, "vpmm_pool_trim");
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_COUNT, 0, 0, 0);
	g_assert_cmpuint(listener.updates, ==, 1);
	g_assert_cmpint(*listener.ptr, ==, 7);
	g_assert_true(fixture_malloc_bytes(&f, size, f.streams[0]) == listener.ptr);
	fixture_free(&f, listener.ptr, f.streams[0]);
	/* What update leaves as the last error is nobody's. */
	assert_error(vpmm_free(f.pool, &listener, f.streams[0]), EINVAL, "vpmm_free");
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_nonnull(strstr(vpmm_last_error(), "vpmm_free"));
	g_assert_cmpuint(listener.updates, ==, 2);
	vpmm_mirror_unregister(mirror);
	fixture_close(&f);
}

/* Each is told until it ends, and none is told after that. */
static void test_unregister(void)
{
	struct vpmm_mirror *mirrors[2];
	struct listener listeners[2];
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_uncache(&f);
	for (int left = 2; left >= 0; left--) {
		ptr = fixture_malloc(&f, 1, f.streams[0]);
		for (int i = 0; i < 2; i++)
			listen_to(&listeners[i], ptr);
		for (int i = 0; i < 2 && left == 2; i++)
			assert_ok(vpmm_mirror_register(f.pool, &mirrors[i], &listener_ops, &listeners[i]));
		fixture_free(&f, ptr, f.streams[0]);
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		g_assert_cmpuint(listeners[0].updates, ==, (left == 2));
		g_assert_cmpuint(listeners[1].updates, ==, (left >= 1));
		/* Nothing is asked where nobody listens. */
		g_assert_true(!f.pool->core.extents.losing == !left);
		if (left)
			vpmm_mirror_unregister(mirrors[2 - left]);
	}
	fixture_close(&f);
}

/* It ends while the pool does. */
struct leaver {
	struct vpmm_mirror *mirror;
	pthread_t thread;
	bool going;
};

static void *leave(void *data)
{
	vpmm_mirror_unregister(data);
	return NULL;
}

static void leave_meanwhile(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start,
			    void *end)
{
	struct leaver *leaver = data;
	int err;

	(void)action;
	(void)start;
	(void)end;
	if (leaver->going)
		return;
	err = pthread_create(&leaver->thread, NULL, leave, mirror);
	g_assert_cmpint(err, ==, 0);
	leaver->going = true;
	/* Time enough for it to come to where it waits. */
	g_usleep(100000);
}

/* The first that it is told of is a range or, where there is none, a region. */
static void test_leave_meanwhile(gconstpointer data)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), leave_meanwhile };
	struct leaver leaver = { 0 };
	struct fixture f;
	void *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	if (data && vpmm_shared_alloc(f.pool, &at, PAGE, VPMM_SHARED_FINE) == -ENOTSUP) {
		g_test_skip("the kernel does not allow ranges");
		fixture_close(&f);
		return;
	}
	fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_mirror_register(f.pool, &leaver.mirror, &ops, &leaver));
	fixture_close(&f);
	g_assert_true(leaver.going);
	pthread_join(leaver.thread, NULL);
}

/* A migration that needs memory has the pool give some back, which is told of as well. */
static void test_for_a_range(void)
{
	struct vpmm_mirror *mirror;
	struct listener listener;
	struct fixture f;
	void *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
	if (vpmm_shared_alloc(f.pool, &at, 2 * PAGE, VPMM_SHARED_FINE) == -ENOTSUP) {
		g_test_skip("the kernel does not allow ranges");
		fixture_close(&f);
		return;
	}
	listen_to(&listener, fixture_malloc(&f, 3, f.streams[0]));
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &listener_ops, &listener));
	fixture_free(&f, listener.ptr, f.streams[0]);
	g_assert_cmpint(vpmm_fault(f.pool, at, 2 * PAGE, VPMM_DEVICE, 0), ==, 2);
	g_assert_cmpuint(listener.updates, ==, 1);
	vpmm_mirror_unregister(mirror);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

static const struct kind regions[] = { KIND_PACKED, KIND_SLAB, KIND_PAGED };
static const struct kind large[] = { KIND_PACKED, KIND_PAGED };

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/mirror/trim", regions, test_trim);
	fixture_add_rows("/mirror/end", regions, test_end);
	fixture_add_rows("/mirror/growable", large, test_growable);
	g_test_add_func("/mirror/shareable", test_shareable);
	fixture_add_rows("/mirror/fails", regions, test_fails);
	g_test_add_func("/mirror/unregister", test_unregister);
	g_test_add_data_func("/mirror/leave-region", NULL, test_leave_meanwhile);
	g_test_add_data_func("/mirror/leave-range", GINT_TO_POINTER(true), test_leave_meanwhile);
	g_test_add_func("/mirror/for-a-range", test_for_a_range);
	fixture_add_rows("/mirror/cache", programs, test_cache);
	fixture_add_rows("/mirror/deaf", programs, test_deaf);
	fixture_add_rows("/mirror/threads", programs, test_threads);
	return g_test_run();
}
