// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A program that moves, protects or discards addresses of a shared range by itself. Each access ends: with memory, or
 * with a signal that the program's own handler gets. The rest of the range goes on.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/ranges.h"

static _Thread_local sigjmp_buf back;
static const volatile void *_Atomic mended;

/* As a program that looks for writes: a page that it has protected itself it makes accessible, and goes on. */
static void on_fault(int number)
{
	const volatile void *at = mended;

	if (!at)
		siglongjmp(back, number);
	g_assert_cmpint(mprotect((void *)(uintptr_t)at, (size_t)getpagesize(), PROT_READ | PROT_WRITE), ==, 0);
}

static __attribute__((no_sanitize("thread"))) void look(char *at)
{
	*(volatile char *)at;
}

static __attribute__((no_sanitize("thread"))) void put(char *at)
{
	*(volatile char *)at = 7;
}

static void jump(char *at)
{
	((void (*)(void))(uintptr_t)at)();
}

/* Whether the access ends with a signal. One that does not end is ended by the alarm of main(). */
static bool faults(void (*act)(char *at), char *at)
{
	if (sigsetjmp(back, 1))
		return true;
	act(at);
	return false;
}

static char *protect(char *at, int access)
{
	g_assert_cmpint(mprotect(at, (size_t)getpagesize(), access), ==, 0);
	return at;
}

static char *hide(char *at)
{
	return protect(at, PROT_NONE);
}

static char *let_read(char *at)
{
	return protect(at, PROT_READ);
}

static char *leave(char *at)
{
	return at;
}

static char *move_to(char *at, char *to)
{
	size_t size = (size_t)getpagesize();

	g_assert_true(mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	return to;
}

static char *move_away(char *at)
{
	static char elsewhere[1 << 18];
	uintptr_t size = (uintptr_t)getpagesize();

	return move_to(at, (char *)(((uintptr_t)elsewhere + size) / size * size));
}

static char *move_beside(char *at)
{
	return move_to(at, at + PAGE);
}

enum place { AT_HOST, AT_DEVICE, AS_COPY };

static const struct row {
	const char *name;
	enum place place;
	char *(*change)(char *at);
	void (*act)(char *at);
	bool faults;			/* in each way; otherwise it may */
} rows[] = {
	{ "moved", AT_DEVICE, move_away, look },
	{ "moved-written", AT_DEVICE, move_away, put },
	{ "moved-beside", AT_DEVICE, move_beside, look },
	{ "moved-copy", AS_COPY, move_away, put },
	{ "hidden", AT_HOST, hide, look, true },
	{ "hidden-written", AT_HOST, hide, put, true },
	{ "read-only", AT_HOST, let_read, put, true },
	{ "hidden-device", AT_DEVICE, hide, look },
	{ "hidden-copy", AS_COPY, hide, look, true },
	{ "jump", AT_HOST, leave, jump, true },
	{ "jump-device", AT_DEVICE, leave, jump, true },
};

static char *open_at(struct fixture *f, const struct ranges_way *way, enum place place)
{
	char *at;

	if (!ranges_open(f, way, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 3 * PAGE))
		return NULL;
	at[0] = 1;
	at[PAGE] = 2;
	at[2 * PAGE] = 3;
	if (place == AS_COPY)
		assert_ok(vpmm_advise(f->pool, at, PAGE, VPMM_ADVISE_READ_MOSTLY));
	if (place != AT_HOST)
		g_assert_cmpint(ranges_migrate(f, at, PAGE, VPMM_DEVICE), ==, 1);
	if (place == AS_COPY)
		g_assert_cmpint(ranges_look(at), ==, 1);
	return at;
}

static void check_row(const struct ranges_way *way, const struct row *row)
{
	struct fixture f;
	bool faulted;
	char *at;

	at = open_at(&f, way, row->place);
	if (!at)
		return;
	faulted = faults(row->act, row->change(at));
	g_assert_true(faulted || !row->faults);
	/* Its neighbour is as before. */
	g_assert_cmpint(ranges_migrate(&f, at + 2 * PAGE, PAGE, VPMM_DEVICE), ==, 1);
	g_assert_cmpint(ranges_look(at + 2 * PAGE), ==, 3);
	ranges_close(&f, at);
}

static void test_own(gconstpointer data)
{
	for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
		g_test_message("%s", rows[i].name);
		check_row(data, &rows[i]);
	}
}

/* Its handler has lifted the protection, and the access goes on; the page moves as before. */
static void test_mended(gconstpointer data)
{
	struct fixture f;
	char *at;

	at = open_at(&f, data, AT_HOST);
	if (!at)
		return;
	mended = let_read(at);
	put(at);
	mended = NULL;
	g_assert_cmpint(ranges_migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
	g_assert_false(faults(look, at));
	g_assert_cmpint(ranges_look(at), ==, 7);
	ranges_close(&f, at);
}

static void *fault_at(void *at)
{
	for (int i = 0; i < 20; i++) {
		g_assert_true(faults(put, at));
		g_assert_true(faults(look, at));
	}
	return NULL;
}

/* The touches of several threads are served as one; each of them gets its signal. */
static void test_threads(gconstpointer data)
{
	pthread_t threads[4];
	struct fixture f;
	char *at;

	at = open_at(&f, data, AT_HOST);
	if (!at)
		return;
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++) {
		int err = pthread_create(&threads[i], NULL, fault_at, hide(at + i * (size_t)getpagesize()));

		g_assert_cmpint(err, ==, 0);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		pthread_join(threads[i], NULL);
	ranges_close(&f, at);
}

/* After a reset the CPU has what it could read, as any other memory: what it discards of that reads as zeros. */
static void test_discarded(gconstpointer data)
{
	struct fixture f;
	char *at;

	at = open_at(&f, data, AS_COPY);
	if (!at)
		return;
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	assert_ok(vpmm_host_reset());
	put(at);
	g_assert_cmpint(madvise(at, (size_t)getpagesize(), MADV_DONTNEED), ==, 0);
	g_assert_cmpint(ranges_look(at), ==, 0);
	vpmm_pool_destroy(f.pool);
	g_string_free(f.log, TRUE);
	fixture_assert_nothing_left();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	g_test_init(&argc, &argv, NULL);
	alarm(120);
	g_assert_cmpint(sigaction(SIGSEGV, &action, NULL), ==, 0);
	fixture_add_rows("/shared-own/own", ranges_ways, test_own);
	fixture_add_rows("/shared-own/mended", ranges_ways, test_mended);
	fixture_add_rows("/shared-own/threads", ranges_ways, test_threads);
	fixture_add_rows("/shared-own/discarded", ranges_ways, test_discarded);
	return g_test_run();
}
