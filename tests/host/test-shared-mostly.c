// SPDX-License-Identifier: LGPL-2.1-or-later
/* Pages that are read mostly: on the device, while the CPU reads a duplicate. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls/pool.h"
#include "shared/shared.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/ranges.h"
#include "util/assume.h"

/* A test that takes so long hangs. */
#define HANGS_SECONDS 120

#define THERE (VPMM_PAGE_READ_MOSTLY | VPMM_PAGE_DUPLICATE)

/* On other machines the handler cannot tell a read from a write, and all touches have pages come back. */
#if defined(__x86_64__) || defined(__aarch64__)
#define SIGNAL_TELLS true
#else
#define SIGNAL_TELLS false
#endif

static char *view(char *at)
{
	return vpmm_host_view(at);
}

static bool open_range(struct fixture *f, const struct ranges_way *way, struct vpmm_opts opts, char **at, size_t size)
{
	if (way == &ranges_ways[RANGES_SIGNAL] && !SIGNAL_TELLS) {
		g_test_skip("the signal does not tell a read from a write");
		return false;
	}
	return ranges_open(f, way, opts, at, size);
}

/* Whether what is moved is there a while before the call returns. */
static _Atomic bool slowly;

/* In place of the C library's: how a copy gets to where the CPU reads it. */
void *mremap(void *from, size_t had, size_t size, int flags, ...)
{
	void *to = NULL, *there;
	va_list list;

	va_start(list, flags);
	if (flags & MREMAP_FIXED)
		to = va_arg(list, void *);
	va_end(list);
	there = (void *)syscall(SYS_mremap, from, had, size, flags, to);
	if (slowly && there != MAP_FAILED)
		g_usleep(20000);
	return there;
}

/* Pages with a value each, on the device, with duplicates. */
static void fill(struct fixture *f, char *at, int count)
{
	for (int i = 0; i < count; i++)
		at[i * PAGE] = at[i * PAGE + PAGE - 1] = (char)(i + 1);
	ranges_settle(f);
	assert_ok(vpmm_advise(f->pool, at, (size_t)count * PAGE, VPMM_ADVISE_READ_MOSTLY));
	g_assert_cmpint(ranges_migrate(f, at, (size_t)count * PAGE, VPMM_DEVICE), ==, count);
	for (int i = 0; i < count; i++) {
		g_assert_cmpint(ranges_page(f, at + i * PAGE).location, ==, VPMM_DEVICE);
		g_assert_cmpuint(ranges_page(f, at + i * PAGE).flags, ==, THERE);
	}
	g_assert_cmpuint(ranges_stats(f).duplicates, ==, (size_t)count * PAGE);
	assert_ok(vpmm_pool_check(f->pool));
}

/* The CPU's read leaves the page on the device, and its write has it come back, without a copy of the device's. */
static void test_read(gconstpointer data)
{
	struct vpmm_shared_stats stats;
	struct fixture f;
	char *at;

	if (!open_range(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	fill(&f, at, 4);
	stats = ranges_stats(&f);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4; i++) {
			g_assert_cmpint(ranges_look(at + i * PAGE), ==, i + 1);
			g_assert_cmpint(ranges_look(at + i * PAGE + PAGE - 1), ==, i + 1);
			g_assert_cmpint(ranges_look(at + i * PAGE + 1), ==, 0);
			g_assert_cmpint(ranges_look(view(at + i * PAGE)), ==, i + 1);
			g_assert_cmpuint(ranges_page(&f, at + i * PAGE).flags, ==, THERE);
		}
		/* Once read they are no longer noticed. */
		g_assert_cmpuint(ranges_stats(&f).faults - stats.faults, ==, 4);
	}
	g_assert_cmpuint(ranges_stats(&f).read_copies, ==, 4);
	g_assert_cmpuint(ranges_stats(&f).pages_to_host, ==, stats.pages_to_host);
	g_assert_cmpuint(ranges_stats(&f).device, ==, stats.device);
	g_assert_cmpuint(ranges_stats(&f).host, ==, stats.host);

	/* Of the first the CPU has a copy, and of the second none. */
	assert_ok(vpmm_advise(f.pool, at + PAGE, 1, VPMM_ADVISE_NONE));
	assert_ok(vpmm_advise(f.pool, at + PAGE, 1, VPMM_ADVISE_READ_MOSTLY));
	g_assert_cmpint(ranges_migrate(&f, at + PAGE, 1, VPMM_HOST), ==, 1);
	g_assert_cmpint(ranges_migrate(&f, at + PAGE, 1, VPMM_DEVICE), ==, 1);
	stats = ranges_stats(&f);
	for (int i = 0; i < 2; i++) {
		at[i * PAGE + 1] = 77;
		g_assert_cmpuint(ranges_page(&f, at + i * PAGE).flags, ==, VPMM_PAGE_READ_MOSTLY);
		g_assert_cmpint(ranges_page(&f, at + i * PAGE).location, ==, VPMM_HOST);
		g_assert_cmpint(ranges_look(view(at + i * PAGE)), ==, i + 1);
		g_assert_cmpint(ranges_look(view(at + i * PAGE) + 1), ==, 77);
		/* The device has the same memory again. */
		view(at + i * PAGE)[2] = 78;
		g_assert_cmpint(ranges_look(at + i * PAGE + 2), ==, 78);
	}
	g_assert_cmpuint(ranges_stats(&f).to_host, ==, stats.to_host);
	g_assert_cmpuint(ranges_stats(&f).pages_to_host, ==, stats.pages_to_host + 2);
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, 2 * PAGE);
	g_assert_cmpuint(ranges_page(&f, at + 2 * PAGE).flags, ==, THERE);
	/* And it goes there again, with what was written. */
	g_assert_cmpint(ranges_migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, THERE);
	g_assert_cmpint(ranges_look(at + 1) + ranges_look(view(at) + 1), ==, 2 * 77);
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, 0);
	fixture_close(&f);
}

/* Whoever asks for it gets the host's memory without a copy, and no duplicate is left. */
static void test_back(gconstpointer data)
{
	struct vpmm_shared_stats stats;
	struct fixture f;
	char *at;

	if (!open_range(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	fill(&f, at, 4);
	stats = ranges_stats(&f);
	g_assert_cmpint(ranges_look(at) + ranges_look(at + 2 * PAGE), ==, 4);
	g_assert_cmpint(vpmm_fault(f.pool, at, 4 * PAGE, VPMM_DEVICE, 0), ==, 0);
	g_assert_cmpint(ranges_migrate(&f, at, 2 * PAGE, VPMM_HOST), ==, 2);
	g_assert_cmpint(vpmm_fault(f.pool, at, 4 * PAGE, VPMM_HOST, 0), ==, 2);
	g_assert_cmpuint(ranges_stats(&f).to_host, ==, stats.to_host);
	g_assert_cmpuint(ranges_stats(&f).host, ==, stats.host);
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, 0);
	stats = ranges_stats(&f);
	for (int i = 0; i < 4; i++) {
		g_assert_cmpint(at[i * PAGE], ==, i + 1);
		at[i * PAGE] = 9;
		g_assert_cmpint(ranges_look(view(at + i * PAGE)), ==, 9);
	}
	g_assert_cmpuint(ranges_stats(&f).faults, ==, stats.faults);
	assert_ok(vpmm_pool_check(f.pool));
	ranges_close(&f, at);
}

/* Without the advice the device may write, so the CPU must not find what was before. */
static void test_taken_back(gconstpointer data)
{
	static const enum vpmm_advice others[] = {
		VPMM_ADVISE_NONE, VPMM_ADVISE_PREFER_HOST, VPMM_ADVISE_PREFER_DEVICE
	};
	struct fixture f;
	char *at;

	if (!open_range(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	fill(&f, at, 4);
	for (int i = 0; i < 3; i++) {
		g_assert_cmpint(ranges_look(at + i * PAGE), ==, i + 1);
		/* A touch that is told once more would bring the page to the host behind the advice. */
		ranges_settle(&f);
		assert_ok(vpmm_advise(f.pool, at + i * PAGE, 1, others[i]));
		g_assert_cmpint(ranges_page(&f, at + i * PAGE).location, ==, VPMM_DEVICE);
		g_assert_cmpuint(ranges_page(&f, at + i * PAGE).flags & THERE, ==, 0);
		g_assert_cmpuint(ranges_stats(&f).duplicates, ==, (size_t)(3 - i) * PAGE);
		assert_ok(vpmm_pool_check(f.pool));
		*view(at + i * PAGE) = 50;
		g_assert_cmpint(ranges_look(at + i * PAGE), ==, 50);
		g_assert_cmpint(ranges_page(&f, at + i * PAGE).location, ==, VPMM_HOST);
	}
	/* One that was on the device before the advice has no duplicate before it goes there again. */
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_DEVICE), ==, 1);
	assert_ok(vpmm_advise(f.pool, at, 1, VPMM_ADVISE_READ_MOSTLY));
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, VPMM_PAGE_READ_MOSTLY);
	g_assert_cmpint(ranges_look(at), ==, 50);
	g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_HOST);
	ranges_close(&f, at);
}

/* The kernel reads and writes for the program as the program does. */
static void test_system_calls(gconstpointer data)
{
	const struct ranges_way *way = data;
	struct fixture f;
	int pipes[2];
	char *at, byte;
	ssize_t got;

	if (!way->calls || !open_range(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	fill(&f, at, 4);
	g_assert_cmpint(pipe(pipes), ==, 0);
	got = write(pipes[1], at + PAGE, 1);
	g_assert_cmpint(got, ==, 1);
	g_assert_cmpuint(ranges_page(&f, at + PAGE).flags, ==, THERE);
	g_assert_cmpint(read(pipes[0], &byte, 1), ==, 1);
	g_assert_cmpint(byte, ==, 2);
	g_assert_cmpint(write(pipes[1], "xy", 2), ==, 2);
	/* One with a copy, one without. */
	got = read(pipes[0], at + PAGE, 1);
	g_assert_cmpint(got, ==, 1);
	got = read(pipes[0], at + 2 * PAGE, 1);
	g_assert_cmpint(got, ==, 1);
	for (int i = 1; i < 3; i++) {
		g_assert_cmpint(ranges_page(&f, at + i * PAGE).location, ==, VPMM_HOST);
		g_assert_cmpint(*view(at + i * PAGE), ==, "xy"[i - 1]);
	}
	close(pipes[0]);
	close(pipes[1]);
	ranges_close(&f, at);
}

/* A child of the process has nothing of it. */
static void test_fork(gconstpointer data)
{
	struct fixture f;
	int status;
	pid_t pid;
	char *at;

	if (!open_range(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, PAGE))
		return;
	fill(&f, at, 1);
	g_assert_cmpint(ranges_look(at), ==, 1);
	pid = fork();
	g_assert_cmpint(pid, >=, 0);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		_exit(ranges_look(at));
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	/* A sanitizer ends the process its own way. */
	g_assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 1 && !SANITIZED);
	g_assert_cmpint(ranges_look(at), ==, 1);
	ranges_close(&f, at);
}

/* When memory runs out, the device's copy is dropped: nothing is copied, and no more host memory is needed. */
static void test_evicted(void)
{
	struct vpmm_shared_stats stats;
	struct fixture f;
	void *block;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 5 * PAGE });
	at = ranges_alloc(&f, 4 * PAGE);
	fill(&f, at, 4);
	stats = ranges_stats(&f);
	g_assert_cmpint(ranges_look(at), ==, 1);
	/* The device's copies count. */
	assert_ok(vpmm_malloc(f.pool, &block, 2 * PAGE, f.streams[0]));
	memset(block, 7, 2 * PAGE);
	g_assert_cmpuint(ranges_stats(&f).evicted, ==, 2);
	g_assert_cmpuint(ranges_stats(&f).to_host, ==, stats.to_host);
	g_assert_cmpuint(ranges_stats(&f).host, ==, stats.host);
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, 2 * PAGE);
	for (int i = 0; i < 4; i++) {
		g_assert_cmpint(ranges_look(view(at + i * PAGE)), ==, i + 1);
		g_assert_cmpint(ranges_look(at + i * PAGE), ==, i + 1);
	}
	assert_ok(vpmm_free(f.pool, block, f.streams[0]));
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* Host memory that is there twice is given to a page that has none. */
static void test_given(void)
{
	struct backend *be;
	struct fixture f;
	char *at, *other;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	at = ranges_alloc(&f, 4 * PAGE);
	other = ranges_alloc(&f, 4 * PAGE);
	fill(&f, at, 4);
	g_assert_cmpint(ranges_look(at), ==, 1);
	backend_fault_arm(be, BACKEND_OP_host_create, 0, UINT_MAX, -ENOMEM);
	/* The first touch needs memory for itself, and the calls for all at once. */
	other[0] = 5;
	g_assert_cmpint(vpmm_fault(f.pool, other, 3 * PAGE, VPMM_HOST, 0), ==, 2);
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, PAGE);
	assert_ok(vpmm_pool_check(f.pool));
	for (int i = 0; i < 4; i++)
		g_assert_cmpint(*view(at + i * PAGE), ==, i + 1);
	backend_fault_arm(be, BACKEND_OP_host_create, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		g_assert_cmpint(ranges_look(at + i * PAGE), ==, i + 1);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	assert_ok(vpmm_shared_free(f.pool, other, f.streams[0]));
	fixture_close(&f);
}

static void change(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	(void)data;
	(void)stream;
	for (size_t i = 0; i < count; i++) {
		memcpy(moves[i].to, moves[i].from, moves[i].size);
		++*(char *)moves[i].to;
		moves[i].flags |= VPMM_MOVE_COPIED;
	}
}

/* What the program copies itself may be something else there, so the host keeps nothing. */
static void test_take_part(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), change, NULL };
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, PAGE);
	at[0] = 1;
	assert_ok(vpmm_advise(f.pool, at, 1, VPMM_ADVISE_READ_MOSTLY));
	g_assert_cmpint(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, NULL, &ops, NULL), ==, 1);
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, VPMM_PAGE_READ_MOSTLY);
	g_assert_cmpint(ranges_look(at), ==, 2);
	/* On the way back it has the memory that was kept. */
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_DEVICE), ==, 1);
	g_assert_cmpint(ranges_look(at), ==, 2);
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, THERE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 1, VPMM_HOST, NULL, &ops, NULL), ==, 1);
	g_assert_cmpint(ranges_look(at), ==, 3);
	ranges_close(&f, at);
}

static void decline(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	(void)data;
	(void)stream;
	for (size_t i = 0; i < count; i++) {
		memset(moves[i].to, 99, moves[i].size);
		moves[i].flags |= i ? 0 : VPMM_MOVE_SKIP;
	}
}

/* Who was given the host's memory to copy to may have begun, so what is left there is no duplicate. */
static void test_declined(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), decline, NULL };
	struct backend *be;
	struct fixture f;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	at = ranges_alloc(&f, 3 * PAGE);
	fill(&f, at, 3);
	g_assert_cmpint(ranges_look(at) + ranges_look(at + PAGE), ==, 3);
	backend_fault_arm(be, BACKEND_OP_access, 0, 1, -EIO);
	g_assert_cmpint(vpmm_migrate(f.pool, at + PAGE, 2 * PAGE, VPMM_HOST, NULL, &ops, NULL), ==, -EIO);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpint(vpmm_migrate(f.pool, at, 2 * PAGE, VPMM_HOST, NULL, &ops, NULL), ==, 1);
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, VPMM_PAGE_READ_MOSTLY);
	g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_DEVICE);
	g_assert_cmpint(ranges_page(&f, at + PAGE).location, ==, VPMM_HOST);
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	for (int i = 0; i < 3; i++)
		g_assert_cmpint(ranges_look(at + i * PAGE), ==, i + 1);
	ranges_close(&f, at);
}

static void count_update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	(void)mirror;
	(void)start;
	(void)end;
	*(_Atomic unsigned int *)data += action == VPMM_MIRROR_MOVE;
}

/* What the device has does not change by a read, and does by a write: mirrors are told first. */
static void test_mirror(void)
{
	_Atomic unsigned int told = 0;
	const struct vpmm_mirror_ops ops = { sizeof(ops), count_update };
	struct vpmm_mirror *mirror;
	struct vpmm_page before;
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 2 * PAGE);
	fill(&f, at, 2);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &told));
	before = ranges_page(&f, at);
	g_assert_cmpint(ranges_look(at), ==, 1);
	g_assert_cmpuint(told, ==, 0);
	g_assert_cmpuint(ranges_page(&f, at).sequence, ==, before.sequence);
	at[0] = 2;
	g_assert_cmpuint(told, ==, 1);
	g_assert_cmpuint(ranges_page(&f, at).sequence, !=, before.sequence);
	assert_ok(vpmm_advise(f.pool, at + PAGE, 1, VPMM_ADVISE_NONE));
	g_assert_cmpuint(told, ==, 1);
	vpmm_mirror_unregister(mirror);
	ranges_close(&f, at);
}

/* Who has read a copy finds it counted, also where the touch is tried again before it was served. */
static void test_counted(gconstpointer data)
{
	struct vpmm_shared_stats stats;
	struct fixture f;
	char *at;

	if (!open_range(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, PAGE))
		return;
	fill(&f, at, 1);
	stats = ranges_stats(&f);
	slowly = true;
	g_assert_cmpint(ranges_look(at), ==, 1);
	g_assert_cmpuint(ranges_stats(&f).read_copies, ==, stats.read_copies + 1);
	g_assert_cmpuint(ranges_stats(&f).faults, ==, stats.faults + 1);
	slowly = false;
	ranges_close(&f, at);
}

/* A copy that the program discards in part is made again, as the page is on the device all the same. */
static void test_discarded(gconstpointer data)
{
	struct fixture f;
	char *at;

	if (!open_range(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, PAGE))
		return;
	fill(&f, at, 1);
	alarm(HANGS_SECONDS);
	g_assert_cmpint(ranges_look(at), ==, 1);
	g_assert_cmpint(madvise(at, (size_t)getpagesize(), MADV_DONTNEED), ==, 0);
	g_assert_cmpint(ranges_look(at + PAGE - 1), ==, 1);
	g_assert_cmpint(ranges_look(at), ==, 1);
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, THERE);
	alarm(0);
	ranges_close(&f, at);
}

/* A touch that the kernel tells of late or twice was a read, or the page is there by then. */
static void test_late(void)
{
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 2 * PAGE);
	fill(&f, at, 2);
	g_assert_cmpint(ranges_look(at), ==, 1);
	ranges_touch(at, at + PAGE);
	ranges_touch(at, at + PAGE);
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, THERE);
	g_assert_cmpuint(ranges_page(&f, at + PAGE).flags, ==, THERE);
	g_assert_cmpuint(ranges_stats(&f).read_copies, ==, 2);
	ranges_close(&f, at);
}

/* After a reset the CPU keeps what it could read, and can write to it. */
static void test_reset(gconstpointer data)
{
	struct fixture f;
	char *at;

	if (!open_range(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 2 * PAGE))
		return;
	fill(&f, at, 2);
	g_assert_cmpint(ranges_look(at + PAGE - 1), ==, 1);
	assert_ok(vpmm_host_reset());
	at[0] = 7;
	g_assert_cmpint(at[0] + ranges_look(at + PAGE - 1), ==, 8);
	/* It is the CPU's, so no advice takes it away. */
	assert_ok(vpmm_advise(f.pool, at, 1, VPMM_ADVISE_NONE));
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, PAGE);
	g_assert_cmpint(ranges_look(at) + ranges_look(at + PAGE - 1), ==, 8);
	at[1] = 3;
	g_assert_cmpint(ranges_look(at + 1), ==, 3);
	/* Of the other one the device had what there was. */
	g_assert_cmpint(ranges_look(at + PAGE), ==, 0);
	vpmm_pool_destroy(f.pool);
	g_string_free(f.log, TRUE);
}

/* The same of a device that has failed: touches that are told late take nothing from the CPU. */
static void test_failed(void)
{
	struct fixture f;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = ranges_alloc(&f, PAGE);
	fill(&f, at, 1);
	g_assert_cmpint(ranges_look(at), ==, 1);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, UINT_MAX, -EIO);
	at[0] = 7;
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 0, 0);
	ranges_touch(at, at);
	ranges_touch(at + 1, at);
	assert_ok(vpmm_advise(f.pool, at, 1, VPMM_ADVISE_NONE));
	g_assert_cmpint(ranges_look(at) + ranges_look(at + PAGE - 1), ==, 8);
	assert_ok(vpmm_pool_check(f.pool));
	ranges_close(&f, at);
}

/*
 * One thread writes the same number to both ends of a page in turn, others read: nobody finds an older one than before,
 * whatever moves meanwhile.
 */
struct readers {
	struct fixture f;
	_Atomic uint64_t *at;
	_Atomic bool stop;
};

#define READ_PAGES 4
#define WORDS (PAGE / sizeof(_Atomic uint64_t))

static void *read_all(void *data)
{
	struct readers *readers = data;
	uint64_t seen[READ_PAGES] = { 0 };
	unsigned int seed = 3;

	while (!readers->stop) {
		size_t page = (size_t)rand_r(&seed) % READ_PAGES;
		uint64_t now = readers->at[page * WORDS + WORDS - 1], first = readers->at[page * WORDS];

		g_assert_cmpuint(now, >=, seen[page]);
		g_assert_cmpuint(first, >=, now);
		seen[page] = now;
	}
	return NULL;
}

static void test_hammer(gconstpointer data)
{
	struct readers readers = { .stop = false };
	struct vpmm_shared_stats stats;
	pthread_t threads[3];
	unsigned int seed = 1;
	void *block = NULL;
	uint64_t now;
	char *at;
	int err;

	if (!open_range(&readers.f, data, (struct vpmm_opts){ FIXTURE_PACKED, .limit = READ_PAGES * PAGE }, &at,
			READ_PAGES * PAGE))
		return;
	readers.at = (_Atomic uint64_t *)at;
	for (size_t i = 0; i < READ_PAGES; i++)
		readers.at[i * WORDS] = 0;
	assert_ok(vpmm_advise(readers.f.pool, at, READ_PAGES * PAGE, VPMM_ADVISE_READ_MOSTLY));
	for (int i = 0; i < 3; i++) {
		err = pthread_create(&threads[i], NULL, read_all, &readers);
		g_assert_cmpint(err, ==, 0);
	}
	for (int i = 0; i < (SANITIZED ? 200 : 1000); i++) {
		size_t page = (size_t)rand_r(&seed) % READ_PAGES;

		switch (rand_r(&seed) % 8) {
		case 0:
			readers.at[page * WORDS]++;
			now = ++readers.at[page * WORDS + WORDS - 1];
			/* What the device has is not what it was. */
			g_assert_cmpuint(((uint64_t *)vpmm_host_view(at + page * PAGE))[WORDS - 1], ==, now);
			break;
		case 1:
			err = ranges_migrate(&readers.f, at + page * PAGE, 1, VPMM_HOST);
			g_assert_cmpint(err, >=, 0);
			break;
		case 2:
			assert_ok(vpmm_advise(readers.f.pool, at + page * PAGE, 1, rand_r(&seed) % 4 ?
					      VPMM_ADVISE_READ_MOSTLY : VPMM_ADVISE_NONE));
			break;
		case 3:
			if (block)
				assert_ok(vpmm_free(readers.f.pool, block, readers.f.streams[0]));
			block = NULL;
			if (rand_r(&seed) % 2)
				assert_ok(vpmm_malloc(readers.f.pool, &block, PAGE, readers.f.streams[0]));
			break;
		default:
			err = ranges_migrate(&readers.f, at + page * PAGE, 1, VPMM_DEVICE);
			g_assert_cmpint(err, >=, 0);
		}
		assert_ok(vpmm_pool_check(readers.f.pool));
	}
	readers.stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	stats = ranges_stats(&readers.f);
	g_test_message("%" PRIu64 " copies read, %" PRIu64 " faults", stats.read_copies,
		       stats.faults);
	g_assert_cmpuint(stats.read_copies, >, 0);
	if (block)
		assert_ok(vpmm_free(readers.f.pool, block, readers.f.streams[0]));
	assert_ok(vpmm_shared_free(readers.f.pool, at, NULL));
	fixture_close(&readers.f);
}

static void add(const char *name, const struct ranges_way *way, GTestDataFunc func)
{
	char *path = g_strdup_printf("/shared-mostly/%s/%s", name, way->name);

	g_test_add_data_func(path, way, func);
	g_free(path);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (int i = 0; i < RANGES_WAYS; i++) {
		add("read", &ranges_ways[i], test_read);
		add("counted", &ranges_ways[i], test_counted);
		add("back", &ranges_ways[i], test_back);
		add("taken-back", &ranges_ways[i], test_taken_back);
		add("system-calls", &ranges_ways[i], test_system_calls);
		add("fork", &ranges_ways[i], test_fork);
		add("reset", &ranges_ways[i], test_reset);
		/* Discarded memory reads as zero there, and no signal comes. */
		if (i != RANGES_SIGNAL)
			add("discarded", &ranges_ways[i], test_discarded);
		/* ThreadSanitizer holds a lock while an atomic access is carried out, and takes it in the handler. */
		if (i != RANGES_SIGNAL || !SANITIZED_THREADS)
			add("hammer", &ranges_ways[i], test_hammer);
	}
	g_test_add_func("/shared-mostly/evicted", test_evicted);
	g_test_add_func("/shared-mostly/given", test_given);
	g_test_add_func("/shared-mostly/take-part", test_take_part);
	g_test_add_func("/shared-mostly/declined", test_declined);
	g_test_add_func("/shared-mostly/mirror", test_mirror);
	g_test_add_func("/shared-mostly/late", test_late);
	g_test_add_func("/shared-mostly/failed", test_failed);
	return g_test_run();
}
