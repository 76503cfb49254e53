// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The benchmark of addresses that the CPU and the device share, beside what a program does without them: a block on the
 * device, memory on the host, pinned or ordinary, and a copy each time.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "fail.h"
#include "util/clock.h"
#include "vpmm-shared.h"

/* Since Linux 5.11. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/* The smallest page of a range on any card so far. */
#define LEAST_PAGE (2 * BENCH_MIB)

/* The page size of the CPU. */
#define CPU_PAGE ((size_t)sysconf(_SC_PAGESIZE))

/* How many single pages are touched in a round. */
#define TOUCHES 16

enum shared_case {
	FIRST_TOUCH,
	AGAIN,
	READ_HOST,
	READ_DEVICE,
	FETCH,
	TO_DEVICE,
	TO_HOST,
	ONE_PAGE,
	CASES
};

static const struct {
	const char *what;
	const char *metric;
} cases[CASES] = {
	[FIRST_TOUCH] = { "first touch", "touch" },
	[AGAIN] = { "touch, memory kept", "touch" },
	[READ_HOST] = { "read on the host", "read" },
	[READ_DEVICE] = { "read on the device", "read" },
	[FETCH] = { "fetch by touches", "touch" },
	[TO_DEVICE] = { "to the device", "move" },
	[TO_HOST] = { "to the host", "move" },
	[ONE_PAGE] = { "one page", "touch" },
};

/* The lines, and the size of what all move. */
struct shared_rows {
	struct bench *b;
	size_t bytes;
	size_t page;			/* of a range with small pages */
	struct bench_row rows[CASES];
	struct bench_row all;
};

/* A range of a pool of its own. */
struct range {
	struct shared_rows *s;
	struct vpmm_pool *pool;
	char *at;
	size_t size;
};

/* What a program has without a range. */
struct by_hand {
	struct shared_rows *s;
	enum contender who;
	struct allocator *a;
	void *device;
	char *host;
};

static struct CUstream_st *stream_of(const struct shared_rows *s)
{
	return s->b->dev->streams[0];
}

static void add_rate(struct shared_rows *s, enum shared_case c, enum contender who, uint64_t start)
{
	uint64_t ns = MAX(clock_ns() - start, 1);

	bench_row_add(&s->rows[c], who, (double)s->bytes / ((double)ns / 1e9));
}

/* As a program that fills memory does first of all. */
static void touch(char *at, size_t size)
{
	const size_t page = CPU_PAGE;

	for (size_t i = 0; i < size; i += page)
		*(volatile uint64_t *)(at + i) = 1;
}

/* Returns the sum of the words that are @step bytes apart. */
static uint64_t read_words(const char *at, size_t size, size_t step)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < size; i += step)
		sum += *(const uint64_t *)(at + i);
	/* A compiler leaves out what nobody needs. */
	__asm__ volatile("" : : "r"(sum));
	return sum;
}

/* Figures of a range that lost something are none. */
static int check_sum(const struct range *r, size_t step)
{
	uint64_t sum = read_words(r->at, r->size, step);

	if (sum == r->size / CPU_PAGE)
		return 0;
	return fail_set(-EIO, "the sum of what was written is %" PRIu64 ", not %zu", (uint64_t)sum,
			r->size / CPU_PAGE);
}

static int lib_error(int err)
{
	return err < 0 ? fail_set(err, "%s", vpmm_last_error()) : 0;
}

static int range_alloc(struct range *r, size_t size, unsigned int flags)
{
	void *at;
	int err = lib_error(vpmm_shared_alloc(r->pool, &at, size, flags));

	if (err)
		return err;
	r->at = at;
	r->size = size;
	return 0;
}

static int range_free(struct range *r)
{
	char *at = r->at;

	r->at = NULL;
	return lib_error(vpmm_shared_free(r->pool, at, stream_of(r->s)));
}

/* All pages were touched, so all move; figures of less would be too good. */
static int range_move(const struct range *r, enum vpmm_location to)
{
	int count = vpmm_locate(r->pool, r->at, r->size, NULL), moved;

	if (count < 0)
		return lib_error(count);
	moved = vpmm_migrate(r->pool, r->at, r->size, to, stream_of(r->s), NULL, NULL);
	if (moved < 0)
		return lib_error(moved);
	if (moved == count)
		return 0;
	return fail_set(-ENOMEM, "%d of %d pages have moved to the %s", moved, count,
			to == VPMM_DEVICE ? "device" : "host");
}

static int measure_move(const struct range *r, enum shared_case c, enum vpmm_location to)
{
	uint64_t start = clock_ns();
	int err = range_move(r, to);

	if (!err)
		add_rate(r->s, c, BENCH_VPMM, start);
	return err;
}

static int measure_read(const struct range *r, enum shared_case c, size_t step)
{
	uint64_t start = clock_ns();
	int err = check_sum(r, step);

	if (!err)
		add_rate(r->s, c, BENCH_VPMM, start);
	return err;
}

static int measure_touch(struct range *r, enum shared_case c)
{
	int err = range_alloc(r, r->s->bytes, 0);
	uint64_t start = clock_ns();

	if (err)
		return err;
	touch(r->at, r->size);
	add_rate(r->s, c, BENCH_VPMM, start);
	return 0;
}

/* Memory on both sides is there before moves are measured, as it is in a program that moves pages more than once. */
static int measure_range(struct range *r)
{
	int err;

	err = measure_touch(r, FIRST_TOUCH);
	if (!err)
		err = measure_read(r, READ_HOST, sizeof(uint64_t));
	if (!err)
		err = range_move(r, VPMM_DEVICE) ?: range_move(r, VPMM_HOST);
	if (!err)
		err = measure_move(r, TO_DEVICE, VPMM_DEVICE) ?: measure_move(r, TO_HOST, VPMM_HOST);
	if (!err)
		err = range_move(r, VPMM_DEVICE) ?: measure_read(r, READ_DEVICE, sizeof(uint64_t));
	if (!err)
		err = range_move(r, VPMM_DEVICE) ?: measure_read(r, FETCH, CPU_PAGE);
	if (!err)
		err = range_free(r) ?: measure_touch(r, AGAIN) ?: range_free(r);
	return err;
}

/* Every second page, in an order that no read-ahead guesses. */
static void measure_pages(struct range *r)
{
	uint64_t ns = 0;

	for (unsigned int i = 0; i < TOUCHES; i++) {
		const char *at = r->at + i * 7 % TOUCHES * 2 * r->s->page;
		uint64_t start = clock_ns();

		read_words(at, sizeof(uint64_t), sizeof(uint64_t));
		ns += clock_ns() - start;
	}
	bench_row_add(&r->s->rows[ONE_PAGE], BENCH_VPMM, (double)ns / 1e9 / TOUCHES);
}

/* What is touched first is not measured: memory for it may have to be created. */
static int measure_one_page(struct range *r)
{
	int err = range_alloc(r, 2 * TOUCHES * r->s->page, VPMM_SHARED_FINE);

	if (err)
		return err;
	touch(r->at, r->size);
	err = range_move(r, VPMM_DEVICE);
	if (!err)
		measure_pages(r);
	return err ?: range_free(r);
}

static int range_round(struct shared_rows *s)
{
	struct range r = { .s = s };
	struct vpmm_opts opts = s->b->choice->opts;
	int err;

	err = lib_error(vpmm_pool_create(&r.pool, &opts));
	if (err)
		return err;
	err = measure_range(&r) ?: measure_one_page(&r);
	/* It frees what a failure has left. */
	vpmm_pool_destroy(r.pool);
	return err;
}

static int host_alloc(struct by_hand *h)
{
	struct device *dev = h->s->b->dev;
	void *ptr = NULL;
	int err;

	if (h->who == BENCH_ASYNC) {
		err = dev->ops->host_alloc(dev, &ptr, h->s->bytes);
		if (!err)
			h->host = ptr;
		return err;
	}
	ptr = mmap(NULL, h->s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ptr == MAP_FAILED) {
		err = -errno;
		return fail_set(err, "mmap of %zu bytes: %s", h->s->bytes, g_strerror(-err));
	}
	h->host = ptr;
	return 0;
}

static void host_free(struct by_hand *h)
{
	struct device *dev = h->s->b->dev;

	if (h->host && h->who == BENCH_ASYNC)
		dev->ops->host_free(dev, h->host, h->s->bytes);
	else if (h->host)
		munmap(h->host, h->s->bytes);
}

static int copy_out(const struct by_hand *h, size_t at, size_t size)
{
	struct device *dev = h->s->b->dev;

	return dev->ops->to_host(dev, h->host + at, (const char *)h->device + at, size);
}

/* Pinned memory is there when it is allocated, so that counts. */
static int hand_touch(struct by_hand *h)
{
	uint64_t start = clock_ns();
	int err = host_alloc(h);

	if (err)
		return err;
	touch(h->host, h->s->bytes);
	add_rate(h->s, FIRST_TOUCH, h->who, start);
	return 0;
}

static void hand_read(struct by_hand *h)
{
	uint64_t start = clock_ns();

	read_words(h->host, h->s->bytes, sizeof(uint64_t));
	add_rate(h->s, READ_HOST, h->who, start);
}

static int hand_move(struct by_hand *h)
{
	struct device *dev = h->s->b->dev;
	uint64_t start = clock_ns();
	int err = dev->ops->to_device(dev, h->device, h->host, h->s->bytes);

	if (err)
		return err;
	add_rate(h->s, TO_DEVICE, h->who, start);
	start = clock_ns();
	err = copy_out(h, 0, h->s->bytes);
	if (!err)
		add_rate(h->s, TO_HOST, h->who, start);
	return err;
}

static int hand_fetch(struct by_hand *h, enum shared_case c, size_t step)
{
	uint64_t start = clock_ns();
	int err = copy_out(h, 0, h->s->bytes);

	if (err)
		return err;
	read_words(h->host, h->s->bytes, step);
	add_rate(h->s, c, h->who, start);
	return 0;
}

static int hand_pages(struct by_hand *h)
{
	uint64_t start = clock_ns();
	int err = 0;

	for (unsigned int i = 0; i < TOUCHES && !err; i++) {
		size_t at = i * 7 % TOUCHES * h->s->page;

		err = copy_out(h, at, h->s->page);
		read_words(h->host + at, sizeof(uint64_t), sizeof(uint64_t));
	}
	if (!err)
		bench_row_add(&h->s->rows[ONE_PAGE], h->who, (double)(clock_ns() - start) / 1e9 / TOUCHES);
	return err;
}

static int measure_by_hand(struct by_hand *h)
{
	struct device *dev = h->s->b->dev;
	int err;

	err = hand_touch(h);
	if (err)
		return err;
	hand_read(h);
	/* The device's memory is there before moves are measured. */
	err = dev->ops->to_device(dev, h->device, h->host, h->s->bytes);
	if (!err)
		err = hand_move(h);
	if (!err)
		err = hand_fetch(h, READ_DEVICE, sizeof(uint64_t)) ?: hand_fetch(h, FETCH, CPU_PAGE);
	return err ?: hand_pages(h);
}

static int hand_round(struct shared_rows *s, enum contender who)
{
	struct by_hand h = { .s = s, .who = who };
	int err;

	err = s->b->dev->ops->malloc(s->b->dev, &h.a);
	if (err)
		return err;
	err = h.a->ops->alloc(h.a, &h.device, s->bytes, stream_of(s));
	if (err)
		goto destroy;
	err = measure_by_hand(&h);
	host_free(&h);
	h.a->ops->free(h.a, h.device, stream_of(s));
destroy:
	h.a->ops->destroy(h.a);
	return err;
}

static bool shared_once(struct shared_rows *s, enum contender who)
{
	int err;

	s->b->dev->ops->settle(s->b->dev);
	err = who == BENCH_VPMM ? range_round(s) : hand_round(s, who);
	if (err)
		bench_fail(s->b, &s->all, who, fail_text());
	return !err;
}

static void shared_rounds(struct shared_rows *s)
{
	bool in[BENCH_CONTENDERS] = { true, true, true };
	struct bench *b = s->b;

	BENCH_ROUNDS(b, "shared", in, shared_once(s, who));
	for (unsigned int c = 0; c < CASES; c++)
		bench_print(b, &s->rows[c]);
}

/* Learns how large a small page is. Returns what vpmm_shared_alloc() does, explained by fail_set(). */
static int probe(struct shared_rows *s)
{
	struct range r = { .s = s };
	struct vpmm_opts opts = s->b->choice->opts;
	struct vpmm_page page = { .size = 0 };
	int err;

	err = lib_error(vpmm_pool_create(&r.pool, &opts));
	if (err)
		return err;
	err = range_alloc(&r, 1, VPMM_SHARED_FINE);
	if (!err)
		err = lib_error(vpmm_locate(r.pool, r.at, 1, &page));
	if (!err)
		s->page = page.size;
	vpmm_pool_destroy(r.pool);
	return err;
}

static void begin_rows(struct shared_rows *s)
{
	for (unsigned int c = 0; c < CASES; c++) {
		bench_row_begin(&s->rows[c], "shared", cases[c].metric, c == ONE_PAGE ? BENCH_TIME : BENCH_RATE,
				c == ONE_PAGE ? s->page : s->bytes, "%s", cases[c].what);
		s->rows[c].by_hand = true;
	}
}

/* Whether the kernel allows userfaultfd: with a privilege, or for the program's own touches. */
static bool has_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* The library does not say in which way it notices touches, and the figures depend on it. */
static void tell_way(const struct shared_rows *s)
{
	if (g_strcmp0(g_getenv("VPMM_SHARED_TOUCH"), "signal") == 0)
		bench_note(s->b, &s->all, "touches are noticed by SIGSEGV, as VPMM_SHARED_TOUCH says");
	else if (!has_userfaultfd())
		bench_note(s->b, &s->all, "touches are noticed by SIGSEGV, as the kernel allows no userfaultfd");
}

/* A kernel or a driver that cannot is no error. */
static void shared_all(struct shared_rows *s)
{
	int err = probe(s);

	if (err == -ENOTSUP)
		return bench_skip(s->b, &s->all, "%s", fail_text());
	if (err)
		return bench_fail(s->b, &s->all, BENCH_VPMM, fail_text());
	s->bytes = MAX(s->bytes, TOUCHES * s->page);
	begin_rows(s);
	/* Pages of two sizes are kept at the end. */
	if (!bench_fits(s->b, &s->all, s->bytes + 2 * TOUCHES * s->page))
		return;
	tell_way(s);
	shared_rounds(s);
}

void bench_shared(struct bench *b)
{
	struct shared_rows *s = g_new0(struct shared_rows, 1);
	char text[32], *head;

	s->b = b;
	s->bytes = MAX(MIN(b->shared, b->limit / 2) / LEAST_PAGE, TOUCHES) * LEAST_PAGE;
	bench_row_begin(&s->all, "shared", "a range", BENCH_RATE, s->bytes, "all");
	s->all.by_hand = true;
	bench_size_text(text, s->bytes);
	head = g_strdup_printf("shared: a range of %s that the CPU and the device share, beside a device block and a "
			       "copy by hand, from and to pinned or plain memory; 10^9 bytes a second, and the time "
			       "of a touch", text);
	bench_print_head(b, head);
	shared_all(s);
	bench_print_head(b, NULL);
	g_free(head);
	g_free(s);
}
