// SPDX-License-Identifier: LGPL-2.1-or-later
/* Threads and kernels add to a shared range at random while its pages move both ways: every addition is found. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/fixture.h"
#include "util/assume.h"
#include "vpmm-shared.h"

#define PAGES 8
#define THREADS 4
#define WORDS (PAGE / sizeof(_Atomic uint64_t))
#define USERS 2

struct hammer {
	struct fixture f;
	_Atomic uint64_t *at;
	_Atomic bool stop;
	_Atomic uint64_t added;
	_Atomic uint64_t moved;
	uint64_t moves;			/* after which it is over */
};

/* Work of the device: it sees the range where the device does. */
struct kernel {
	struct hammer *hammer;
	unsigned int seed;
};

static _Atomic uint64_t *word(struct hammer *h, unsigned int *seed)
{
	size_t page = (size_t)rand_r(seed) % PAGES;

	return h->at + page * WORDS + (size_t)rand_r(seed) % WORDS;
}

static void kernel(void *data)
{
	struct kernel *k = data;

	for (int i = 0; i < 16; i++) {
		_Atomic uint64_t *seen = vpmm_host_view((void *)word(k->hammer, &k->seed));

		atomic_fetch_add(seen, 1);
		k->hammer->added++;
	}
	g_free(k);
}

static void *add(void *data)
{
	struct hammer *h = data;
	static _Atomic unsigned int seeds;
	unsigned int seed = ++seeds;

	while (!h->stop) {
		atomic_fetch_add(word(h, &seed), 1);
		h->added++;
	}
	return NULL;
}

/* Submits kernels and completes them, as a device would, on a thread of its own. */
static void *run(void *data)
{
	struct hammer *h = data;
	unsigned int seed = 77;

	while (!h->stop) {
		struct CUstream_st *stream = h->f.streams[1 + (unsigned int)rand_r(&seed) % USERS];
		struct kernel *k = g_new(struct kernel, 1);

		*k = (struct kernel){ h, (unsigned int)rand_r(&seed) };
		assert_ok(vpmm_host_stream_launch(stream, kernel, k));
		if (rand_r(&seed) % 4)
			assert_ok(vpmm_host_stream_complete(stream, 1));
	}
	return NULL;
}

static void *move(void *data)
{
	struct hammer *h = data;
	unsigned int seed = 5;

	while (h->moved < h->moves) {
		size_t page = (size_t)rand_r(&seed) % PAGES, count = 1 + (size_t)rand_r(&seed) % (PAGES - page);
		int moved = vpmm_migrate(h->f.pool, (char *)h->at + page * PAGE, count * PAGE,
					 rand_r(&seed) % 4 ? VPMM_DEVICE : VPMM_HOST, h->f.streams[0], NULL, NULL);

		g_assert_cmpint(moved, >=, 0);
		h->moved += (uint64_t)moved;
		assert_ok(vpmm_pool_check(h->f.pool));
	}
	h->stop = true;
	return NULL;
}

static void test_hammer(gconstpointer data)
{
	struct hammer h = { .moves = SANITIZED ? 150 : 1000 };
	pthread_t threads[THREADS], runner, mover;
	uint64_t found = 0;
	void *at;
	int err;

	g_setenv("VPMM_SHARED_TOUCH", data, TRUE);
	fixture_open(&h.f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = (PAGES - 1) * PAGE });
	if (vpmm_shared_alloc(h.f.pool, &at, PAGES * PAGE, VPMM_SHARED_FINE)) {
		g_test_skip("the kernel does not allow it");
		fixture_close(&h.f);
		return;
	}
	h.at = at;
	for (int i = 0; i < PAGES; i++)
		h.at[(size_t)i * WORDS] = 0;
	for (int i = 1; i <= USERS; i++)
		assert_ok(vpmm_use(h.f.pool, at, h.f.streams[i]));
	g_assert_cmpint(pthread_create(&runner, NULL, run, &h), ==, 0);
	err = pthread_create(&mover, NULL, move, &h);
	g_assert_cmpint(err, ==, 0);
	for (int i = 0; i < THREADS; i++)
		g_assert_cmpint(pthread_create(&threads[i], NULL, add, &h), ==, 0);
	pthread_join(mover, NULL);
	pthread_join(runner, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 1; i <= USERS; i++)
		fixture_complete(h.f.streams[i]);
	for (size_t i = 0; i < PAGES * WORDS; i++)
		found += h.at[i];
	g_test_message("%" PRIu64 " additions, %" PRIu64 " moves", (uint64_t)h.added,
		       (uint64_t)h.moved);
	g_assert_cmpuint(found, ==, h.added);
	g_assert_cmpuint(h.moved, >, 0);
	assert_ok(vpmm_shared_free(h.f.pool, at, h.f.streams[0]));
	g_unsetenv("VPMM_SHARED_TOUCH");
	fixture_close(&h.f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/shared-hammer/userfaultfd", "userfaultfd", test_hammer);
	g_test_add_data_func("/shared-hammer/user", "user", test_hammer);
	/*
	 * ThreadSanitizer holds a lock while an atomic access of the program is carried out, and takes it in the
	 * handler.
	 */
	if (!SANITIZED_THREADS)
		g_test_add_data_func("/shared-hammer/signal", "signal", test_hammer);
	return g_test_run();
}
