// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A range is freed, or its pool ends, while other threads are in calls on it: one of them has it, and the others are
 * told that it is gone. None may touch memory that is gone, which sanitizers and valgrind see.
 */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls/pool.h"
#include "shared/shared.h"
#include "shared/touch.h"
#include "support/fixture.h"
#include "support/ranges.h"
#include "util/assume.h"

#define PAGES ((size_t)2)

typedef int (*call_fn)(struct vpmm_pool *pool, void *at, struct CUstream_st *stream);

static int free_it(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	return vpmm_shared_free(pool, at, stream);
}

static int free_for_any(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	(void)stream;
	return vpmm_shared_free(pool, at, VPMM_STREAM_ANY);
}

static int migrate(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	return vpmm_migrate(pool, at, PAGES * PAGE, VPMM_DEVICE, stream, NULL, NULL);
}

static int fault(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	(void)stream;
	return vpmm_fault(pool, at, PAGES * PAGE, VPMM_DEVICE, 0);
}

static int pin(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	(void)stream;
	return vpmm_pin(pool, at, PAGES * PAGE);
}

static int advise(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	(void)stream;
	return vpmm_advise(pool, at, PAGES * PAGE, VPMM_ADVISE_READ_MOSTLY);
}

static int use(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	return vpmm_use(pool, at, stream);
}

/* A call that another thread makes from within an update, and that gets no further than the update lets it. */
struct second {
	struct vpmm_pool *pool;
	void *at;
	struct CUstream_st *stream;
	enum vpmm_mirror_action when;
	call_fn call;
	pthread_t thread;
	_Atomic bool begun;
	_Atomic bool done;
	bool early;
	_Atomic pid_t tid;
	int err;
	int number;
	char why[200];
};

static void *call_second(void *data)
{
	struct second *s = data;

	s->tid = (pid_t)syscall(SYS_gettid);
	s->err = s->call(s->pool, s->at, s->stream);
	s->number = errno;
	g_strlcpy(s->why, s->err < 0 ? vpmm_last_error() : "", sizeof(s->why));
	s->done = true;
	return NULL;
}

/* It waits for something that another thread has. */
static bool is_asleep(pid_t tid)
{
	char *name = g_strdup_printf("/proc/self/task/%d/stat", tid), *text = NULL;
	bool asleep;

	asleep = tid && g_file_get_contents(name, &text, NULL, NULL) && strrchr(text, ')')[2] == 'S';
	g_free(text);
	g_free(name);
	return asleep;
}

static void begin_second(struct second *s)
{
	int err;

	s->begun = true;
	err = pthread_create(&s->thread, NULL, call_second, s);
	g_assert_cmpint(err, ==, 0);
}

static void end_second(struct second *s)
{
	g_assert_true(s->begun);
	pthread_join(s->thread, NULL);
}

/* What starts the second call at the first update of its kind, and returns when that waits or is through. */
static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct second *s = data;

	(void)mirror;
	(void)start;
	(void)end;
	if (s->begun || action != s->when)
		return;
	begin_second(s);
	while (!s->done && !is_asleep(s->tid))
		g_usleep(100);
}

static const struct vpmm_mirror_ops watching = { sizeof(watching), update };

static const struct meanwhile {
	const char *name;
	call_fn call;
} meanwhile[] = {
	{ "free", free_it },
	{ "free-any", free_for_any },
	{ "migrate", migrate },
	{ "fault", fault },
	{ "pin", pin },
	{ "advise", advise },
	{ "use", use },
};

/* The range is freed, and the other call has found it already, or has not. */
static void test_while_freed(gconstpointer data)
{
	const struct meanwhile *row = data;
	struct second s = { .when = VPMM_MIRROR_UNMAP, .call = row->call };
	struct vpmm_mirror *mirror;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	s.pool = f.pool;
	s.stream = f.streams[1];
	s.at = ranges_alloc(&f, PAGES * PAGE);
	memset(s.at, 1, PAGES * PAGE);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &watching, &s));
	assert_ok(vpmm_shared_free(f.pool, s.at, f.streams[0]));
	end_second(&s);
	g_assert_cmpint(s.err, ==, -EINVAL);
	g_assert_cmpint(s.number, ==, EINVAL);
	g_assert_nonnull(strstr(s.why, "range"));
	vpmm_mirror_unregister(mirror);
	fixture_close(&f);
}

/* A free goes first, with the range under the call of another thread, which has given up the lock for memory. */
static int free_under(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	return vpmm_shared_free(pool, at, stream);
}

static void until_gone(struct second *s)
{
	while (!s->done && vpmm_locate(s->pool, s->at, PAGES * PAGE, NULL) > 0)
		g_usleep(100);
	/* A free that did not wait for the call is through soon. */
	for (int i = 0; i < 100 && !s->done; i++)
		g_usleep(100);
}

static void update_pool(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct second *s = data;

	(void)mirror;
	(void)action;
	(void)end;
	if (s->begun || start == s->at)
		return;
	begin_second(s);
	until_gone(s);
}

static void test_freed_under(gconstpointer data)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), update_pool };
	const struct meanwhile *row = data;
	struct second s = { .call = free_under };
	struct vpmm_mirror *mirror;
	struct fixture f;
	void *block;

	/* The page's memory has to come from what the pool has free. */
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, FIXTURE_PAGED, .limit = (PAGES + 1) * PAGE });
	fixture_uncache(&f);
	s.pool = f.pool;
	s.stream = f.streams[1];
	s.at = ranges_alloc(&f, PAGES * PAGE);
	memset(s.at, 1, PAGES * PAGE);
	block = fixture_malloc(&f, PAGES, f.streams[0]);
	fixture_free(&f, block, f.streams[0]);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &s));
	assert_error(row->call(f.pool, s.at, f.streams[0]), EINVAL, "freed meanwhile");
	end_second(&s);
	g_assert_cmpint(s.err, ==, 0);
	vpmm_mirror_unregister(mirror);
	fixture_close(&f);
}

static const struct meanwhile under[] = {
	{ "migrate", migrate },
	{ "fault", fault },
};

/* The call that begins when memory is covered next. */
static struct second *_Atomic at_cover;

/* In place of the C library's: the last call before a range is covered, or the first after it. */
int madvise(void *at, size_t size, int advice)
{
	struct second *s = at_cover;

	if (s && advice == MADV_DONTFORK) {
		at_cover = NULL;
		begin_second(s);
		while (!s->done && !is_asleep(s->tid))
			g_usleep(100);
		s->early = s->done;
	}
	return (int)syscall(SYS_madvise, at, size, advice);
}

/* Frees the range that was made last, as one who frees an earlier one at its addresses twice. */
static int free_last(struct vpmm_pool *pool, void *at, struct CUstream_st *stream)
{
	const struct range *range = g_ptr_array_index(pool->shared->ranges, pool->shared->ranges->len - 1);

	(void)at;
	return vpmm_shared_free(pool, (void *)(uintptr_t)range->at, stream);
}

/* A range that vpmm_shared_alloc() has not covered yet does not go before it has. */
static void test_uncovered(void)
{
	struct second s = { .call = free_last };
	struct fixture f;
	void *first, *last;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	s.pool = f.pool;
	s.stream = f.streams[0];
	first = ranges_alloc(&f, PAGES * PAGE);
	at_cover = &s;
	last = ranges_alloc(&f, PAGES * PAGE);
	end_second(&s);
	assert_ok(s.err);
	g_assert_false(s.early);
	assert_error(vpmm_shared_free(f.pool, last, f.streams[0]), EINVAL, "range");
	assert_ok(vpmm_shared_free(f.pool, first, f.streams[0]));
	fixture_close(&f);
}

/* The size of the kernel's pages in the test, 0: the real one; and the range that was woken last. */
static _Atomic int kernel_page;
static struct uffdio_range woken;

/* In place of the C library's. */
int getpagesize(void)
{
	return kernel_page ? kernel_page : (int)sysconf(_SC_PAGESIZE);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list more;
	void *data;

	va_start(more, request);
	data = va_arg(more, void *);
	va_end(more);
	if (!kernel_page || request != UFFDIO_WAKE)
		return (int)syscall(SYS_ioctl, fd, request, data);
	woken = *(struct uffdio_range *)data;
	return 0;
}

/* A thread that touches a range which has gone meanwhile wakes up, whatever the size of the kernel's pages is. */
static void test_touch_of_none(void)
{
	static _Alignas(1 << 16) char nowhere[1 << 16];
	uint64_t addr = (uintptr_t)nowhere + 0x5000;
	GArray *touched = g_array_new(FALSE, FALSE, sizeof(addr));
	struct fixture f;
	void *at;

	g_setenv("VPMM_SHARED_TOUCH", "user", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	if (vpmm_shared_alloc(f.pool, &at, PAGE, 0)) {
		g_test_skip("the kernel does not allow userfaultfd");
	} else {
		g_array_append_val(touched, addr);
		kernel_page = 1 << 16;
		serve_touches(touched);
		kernel_page = 0;
		g_assert_cmpuint(touched->len, ==, 0);
		g_assert_cmpuint(woken.start % sizeof(nowhere), ==, 0);
		g_assert_cmpuint(woken.len, ==, sizeof(nowhere));
		g_assert_cmpuint(addr - woken.start, <, woken.len);
		assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	}
	fixture_close(&f);
	g_unsetenv("VPMM_SHARED_TOUCH");
	g_array_free(touched, TRUE);
}

/* A default pool ends after a reset, as one thread finds out, while another is in a call that needs no device. */
static void test_pool_ends(void)
{
	struct second s = { .when = VPMM_MIRROR_UNMAP, .call = advise };
	struct vpmm_mirror *mirror;
	void *block;

	g_setenv("VPMM_BACKEND", "host", TRUE);
	assert_ok(vpmm_shared_alloc(NULL, &s.at, PAGES * PAGE, VPMM_SHARED_FINE));
	memset(s.at, 1, PAGES * PAGE);
	assert_ok(vpmm_mirror_register(NULL, &mirror, &watching, &s));
	assert_ok(vpmm_host_reset());
	assert_ok(vpmm_malloc(NULL, &block, PAGE, NULL));
	end_second(&s);
	g_assert_cmpint(s.err, ==, -EINVAL);
	vpmm_mirror_unregister(mirror);
	assert_ok(vpmm_free(NULL, block, NULL));
	assert_ok(vpmm_pool_abandon(NULL));
	g_unsetenv("VPMM_BACKEND");
}

/* All calls at once, on ranges that any thread frees and makes anew. */
#define SLOTS 2
#define THREADS 4

struct crowd {
	struct fixture f;
	void *_Atomic at[SLOTS];
	_Atomic unsigned int made;
	_Atomic unsigned int freed;
};

/*
 * A range may be at the address of an earlier one, and who still has that can pin it or free it. False: it is pinned.
 */
static bool free_range(struct crowd *c, void *at)
{
	int err = vpmm_shared_free(c->f.pool, at, c->f.streams[0]);

	g_assert_true(!err || err == -EINVAL || err == -EBUSY);
	c->freed += !err;
	return err != -EBUSY;
}

static void allocate(struct crowd *c, void *_Atomic *slot)
{
	void *none = NULL, *made;

	assert_ok(vpmm_shared_alloc(c->f.pool, &made, PAGES * PAGE, VPMM_SHARED_FINE));
	c->made++;
	/* Whoever else was here first. */
	if (!atomic_compare_exchange_strong(slot, &none, made))
		free_range(c, made);
}

static void free_slot(struct crowd *c, void *_Atomic *slot, void *at)
{
	if (free_range(c, at))
		atomic_compare_exchange_strong(slot, &at, NULL);
}

static void pin_slot(struct crowd *c, void *at)
{
	if (!vpmm_pin(c->f.pool, at, PAGE))
		assert_ok(vpmm_unpin(c->f.pool, at, PAGE));
}

static void act(struct crowd *c, unsigned int *seed)
{
	static const call_fn calls[] = { migrate, fault, advise, use };
	struct vpmm_page pages[PAGES];
	void *_Atomic *slot = &c->at[(unsigned int)rand_r(seed) % SLOTS];
	unsigned int which = (unsigned int)rand_r(seed) % 8;
	void *at = *slot;
	int err = 0;

	if (!at)
		allocate(c, slot);
	else if (which < G_N_ELEMENTS(calls))
		err = calls[which](c->f.pool, at, c->f.streams[which % STREAMS]);
	else if (which == 4)
		free_slot(c, slot, at);
	else if (which == 5)
		pin_slot(c, at);
	else if (which == 6)
		err = vpmm_locate(NULL, at, PAGES * PAGE, pages);
	else
		err = vpmm_fault(NULL, at, PAGE, VPMM_HOST, 0);
	if (err < 0 && err != -EINVAL)
		g_error("call %u: %d, %s", which, err, vpmm_last_error());
}

static void *crowd_run(void *data)
{
	static _Atomic unsigned int seeds;
	unsigned int seed = ++seeds;

	for (int i = 0; i < (SANITIZED ? 60 : 200); i++)
		act(data, &seed);
	return NULL;
}

static void test_crowd(void)
{
	pthread_t threads[THREADS];
	struct crowd c = { .freed = 0 };
	int err;

	fixture_open(&c.f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < THREADS; i++) {
		err = pthread_create(&threads[i], NULL, crowd_run, &c);
		g_assert_cmpint(err, ==, 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	g_test_message("%u freed", c.freed);
	assert_ok(vpmm_pool_check(c.f.pool));
	/* A slot may have lost its range: to a thread that came late, and found another at the same address. */
	g_assert_cmpuint(ranges_stats(&c.f).ranges, ==, c.made - c.freed);
	fixture_close(&c.f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/shared-race/while-freed", meanwhile, test_while_freed);
	fixture_add_rows("/shared-race/freed-under", under, test_freed_under);
	g_test_add_func("/shared-race/uncovered", test_uncovered);
	g_test_add_func("/shared-race/touch-of-none", test_touch_of_none);
	g_test_add_func("/shared-race/crowd/all", test_crowd);
	/* The backend of a default pool that has ended stays open, so this is the last. */
	g_test_add_func("/shared-race/ends/pool", test_pool_ends);
	return g_test_run();
}
