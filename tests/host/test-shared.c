// SPDX-License-Identifier: LGPL-2.1-or-later
/* Ranges that the CPU and the device share: what each sees, where pages are, and what they cost. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "calls/pool.h"
#include "shared/shared.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/ranges.h"

/* A kernel that adds to a number, seen where the device sees it. */
static void add_one(void *data)
{
	++*(unsigned int *)data;
}

static void kernel_adds(struct CUstream_st *stream, unsigned int *number)
{
	assert_ok(vpmm_host_stream_launch(stream, add_one, vpmm_host_view(number)));
}

static void test_empty(gconstpointer data)
{
	struct vpmm_page pages[4];
	struct vpmm_shared_stats stats;
	struct fixture f;
	char *at;

	if (!ranges_open(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	stats = ranges_stats(&f);
	g_assert_cmpuint(stats.ranges, ==, 1);
	g_assert_cmpuint(stats.host, ==, 0);
	g_assert_cmpuint(stats.device, ==, PAGE);
	g_assert_cmpint(vpmm_locate(f.pool, at, 4 * PAGE, pages), ==, 4);
	for (int i = 0; i < 4; i++) {
		g_assert_true(pages[i].addr == at + i * PAGE);
		g_assert_cmpuint(pages[i].flags, ==, VPMM_PAGE_EMPTY);
	}
	/* The device reads zeros, and the CPU too, which takes memory for that page. */
	g_assert_cmpint(*(char *)vpmm_host_view(at + PAGE), ==, 0);
	g_assert_cmpint(at[3 * PAGE - 1], ==, 0);
	g_assert_cmpuint(ranges_stats(&f).host, ==, PAGE);
	g_assert_cmpuint(ranges_page(&f, at + 2 * PAGE).flags, ==, 0);
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, VPMM_PAGE_EMPTY);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* One pointer: a list is built by the CPU, walked and changed by a kernel, read again by the CPU. */
struct node {
	struct node *next;
	int value;
};

static void walk(void *data)
{
	struct node *node = data;

	while (node) {
		node->value *= 2;
		node = node->next ? vpmm_host_view(node->next) : NULL;
	}
}

static void test_list(gconstpointer data)
{
	struct node *nodes, *node;
	struct fixture f;
	char *at;
	int sum = 0;

	if (!ranges_open(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	nodes = (struct node *)at;
	for (int i = 0; i < 4; i++) {
		node = (struct node *)(at + i * PAGE + 64 * i);
		node->value = i + 1;
		node->next = i < 3 ? (struct node *)(at + (i + 1) * PAGE + 64 * (i + 1)) : NULL;
	}
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 4);
	g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_DEVICE);
	assert_ok(vpmm_host_stream_launch(f.streams[0], walk, vpmm_host_view(nodes)));
	/* The touch waits for the kernel, as the stream uses the range. */
	for (node = nodes; node; node = node->next)
		sum += node->value;
	g_assert_cmpint(sum, ==, 20);
	g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_HOST);
	g_assert_cmpuint(ranges_stats(&f).to_device, ==, 4 * PAGE);
	g_assert_cmpuint(ranges_stats(&f).to_host, ==, 4 * PAGE);
	/* On the host too the kernel and the CPU have the same memory. */
	assert_ok(vpmm_host_stream_launch(f.streams[0], walk, vpmm_host_view(nodes)));
	fixture_complete(f.streams[0]);
	g_assert_cmpint(nodes->value, ==, 4);
	assert_ok(vpmm_shared_free(NULL, at, f.streams[0]));
	fixture_close(&f);
}

/* The kernel, copying for the program, finds pages as the program does. */
static void test_system_calls(gconstpointer data)
{
	const struct ranges_way *way = data;
	struct fixture f;
	char *at, byte;
	int pipes[2];
	ssize_t got;

	if (!ranges_open(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	if (!way->calls) {
		vpmm_shared_free(f.pool, at, NULL);
		fixture_close(&f);
		return;
	}
	g_assert_cmpint(pipe(pipes), ==, 0);
	g_assert_cmpint(write(pipes[1], "x", 1), ==, 1);
	got = read(pipes[0], at, 1);
	g_assert_cmpint(got, ==, 1);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	got = write(pipes[1], at, 1);
	g_assert_cmpint(got, ==, 1);
	g_assert_cmpint(read(pipes[0], &byte, 1), ==, 1);
	g_assert_cmpint(byte, ==, 'x');
	close(pipes[0]);
	close(pipes[1]);
	ranges_close(&f, at);
}

/* A page that submitted work may use does not go before that has completed. */
static void test_waits_for_users(void)
{
	struct fixture f;
	unsigned int *number, n;

	number = ranges_open_packed(&f, PAGE);
	*number = 1;
	assert_ok(vpmm_use(f.pool, number, f.streams[1]));
	kernel_adds(f.streams[1], number);
	kernel_adds(f.streams[2], number);
	g_assert_cmpint(vpmm_migrate(f.pool, number, 1, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &n));
	g_assert_cmpuint(n, ==, 0);
	/* Nobody has said that this one uses it. */
	assert_ok(vpmm_host_stream_pending(f.streams[2], &n));
	g_assert_cmpuint(n, ==, 1);
	g_assert_cmpuint(*number, ==, 2);

	/* One that is retired was waited for, and is not asked any more. */
	kernel_adds(f.streams[1], number);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	g_assert_cmpuint(*number, ==, 3);
	kernel_adds(f.streams[1], number);
	g_assert_cmpint(vpmm_migrate(f.pool, number, 1, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &n));
	g_assert_cmpuint(n, ==, 1);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	g_assert_cmpuint(*number, ==, 5);
	assert_ok(vpmm_shared_free(f.pool, number, f.streams[0]));
	fixture_close(&f);
}

/* A stream that cannot be waited for is not retired: its work goes on with the range. */
static void test_retire_fails(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_event_create, BACKEND_OP_event_record, BACKEND_OP_event_sync };
	struct fixture f;
	struct backend *be;
	unsigned int *number, n;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	number = ranges_alloc(&f, sizeof(*number));
	*number = 1;
	g_assert_cmpint(vpmm_migrate(f.pool, number, 1, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	assert_ok(vpmm_use(f.pool, number, f.streams[1]));
	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		kernel_adds(f.streams[1], number);
		backend_fault_arm(be, ops[i], 0, UINT_MAX, -EIO);
		backend_fault_arm(be, BACKEND_OP_sync, 0, 1, -EIO);
		g_assert_cmpint(vpmm_stream_retire(f.pool, f.streams[1]), ==, -EIO);
		backend_fault_arm(be, ops[i], 0, 0, 0);
		backend_fault_arm(be, BACKEND_OP_sync, 0, 0, 0);
	}
	/* All enters behind the first fail: the thread that renews pages of ranges may enter the backend meanwhile. */
	backend_fault_arm(be, BACKEND_OP_enter, 1, UINT_MAX, -EIO);
	g_assert_cmpint(vpmm_stream_retire(f.pool, f.streams[1]), ==, -EIO);
	backend_fault_arm(be, BACKEND_OP_enter, 0, 0, 0);
	g_assert_cmpint(vpmm_migrate(f.pool, number, 1, VPMM_HOST, f.streams[0], NULL, NULL), ==, 1);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &n));
	g_assert_cmpuint(n, ==, 0);
	g_assert_cmpuint(*number, ==, 1 + G_N_ELEMENTS(ops));
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	ranges_close(&f, number);
}

/* A call of another thread, while a page moves. */
struct meanwhile {
	void (*call)(struct meanwhile *it);
	struct fixture *f;
	char *at;
	struct CUstream_st *stream;
	bool migrates;
	int moved;
	pthread_t thread;
	_Atomic bool returned;
};

static void *call_meanwhile(void *data)
{
	struct meanwhile *it = data;

	it->call(it);
	it->returned = true;
	return NULL;
}

static void start_meanwhile(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	struct meanwhile *it = data;
	int err;

	(void)moves;
	(void)count;
	(void)stream;
	err = pthread_create(&it->thread, NULL, call_meanwhile, it);
	g_assert_cmpint(err, ==, 0);
	/* Time enough for a call that does not wait; one that waits is only right the more surely. */
	g_usleep(100000);
	g_assert_false(it->returned);
}

static void name_stream(struct meanwhile *it)
{
	/* A page that is empty has nowhere to go. */
	if (it->migrates)
		g_assert_cmpint(vpmm_migrate(it->f->pool, it->at + PAGE, 1, VPMM_DEVICE, it->stream, NULL, NULL), ==, 0);
	else
		assert_ok(vpmm_use(it->f->pool, it->at, it->stream));
}

static void fault_pages(struct meanwhile *it)
{
	it->moved = vpmm_fault(it->f->pool, it->at, 2 * PAGE, VPMM_DEVICE, 0);
}

/* A stream that is named while the gate is closed would run past it, so naming it waits until the pages have moved. */
static void test_named_meanwhile(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), start_meanwhile, NULL };
	struct fixture f;
	unsigned int *number;

	number = ranges_open_packed(&f, 2 * PAGE);
	for (int i = 0; i < 2; i++) {
		struct meanwhile namer = { name_stream, &f, (char *)number, f.streams[1 + i], i };

		*number = 1;
		g_assert_cmpint(vpmm_migrate(f.pool, number, 1, VPMM_DEVICE, f.streams[0], &ops, &namer), ==, 1);
		pthread_join(namer.thread, NULL);
		g_assert_true(namer.returned);
		/* From then on its work is waited for. */
		kernel_adds(namer.stream, number);
		g_assert_cmpuint(*number, ==, 2);
	}
	assert_ok(vpmm_shared_free(f.pool, number, f.streams[0]));
	fixture_close(&f);
}

/* What is on its way to the host when pages are faulted is not taken for there: it comes along. */
static void test_faulted_meanwhile(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), start_meanwhile, NULL };
	struct fixture f;
	struct meanwhile faulter = { fault_pages, &f };
	char *at;

	at = ranges_open_packed(&f, 2 * PAGE);
	faulter.at = at;
	at[0] = at[PAGE] = 1;
	g_assert_cmpint(ranges_migrate(&f, at, 2 * PAGE, VPMM_DEVICE), ==, 2);
	g_assert_cmpint(vpmm_migrate(f.pool, at + PAGE, 1, VPMM_HOST, NULL, &ops, &faulter), ==, 1);
	pthread_join(faulter.thread, NULL);
	g_assert_cmpint(faulter.moved, ==, 1);
	for (int i = 0; i < 2; i++)
		g_assert_cmpint(ranges_page(&f, at + i * PAGE).location, ==, VPMM_DEVICE);
	ranges_close(&f, at);
}

static void test_skips(void)
{
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 8 * PAGE);
	at[0] = at[PAGE] = at[2 * PAGE] = at[6 * PAGE] = 1;
	assert_ok(vpmm_advise(f.pool, at + PAGE, 1, VPMM_ADVISE_PREFER_HOST));
	g_assert_cmpuint(ranges_page(&f, at + PAGE).flags, ==, VPMM_PAGE_PREFER_HOST);
	/* Of eight pages four are empty, one stays by advice. */
	g_assert_cmpint(vpmm_migrate(f.pool, at, 8 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 3);
	g_assert_cmpuint(ranges_stats(&f).skipped, ==, 5);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 8 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 0);
	/* To have a kernel write to them, empty pages get memory. */
	g_assert_cmpint(vpmm_fault(f.pool, at, 8 * PAGE, VPMM_DEVICE, 0), ==, 4);
	((char *)vpmm_host_view(at + 4 * PAGE))[5] = 7;
	g_assert_cmpint(at[4 * PAGE + 5], ==, 7);
	g_assert_cmpint(at[4 * PAGE + 6], ==, 0);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 8 * PAGE, VPMM_HOST, f.streams[0], NULL, NULL), ==, 6);
	g_assert_cmpint(at[0] + at[PAGE] + at[2 * PAGE] + at[6 * PAGE], ==, 4);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* A kernel may write to all that was asked for, where an advice keeps it, too. */
static void test_fault_kept(void)
{
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 3 * PAGE);
	at[2 * PAGE] = 3;
	assert_ok(vpmm_advise(f.pool, at, 2 * PAGE, VPMM_ADVISE_PREFER_HOST));
	g_assert_cmpint(vpmm_fault(f.pool, at + PAGE, 2 * PAGE, VPMM_DEVICE, 0), ==, 2);
	g_assert_cmpuint(ranges_stats(&f).skipped, ==, 0);
	g_assert_cmpint(ranges_page(&f, at + PAGE).location, ==, VPMM_HOST);
	g_assert_cmpuint(ranges_page(&f, at + PAGE).flags, ==, VPMM_PAGE_PREFER_HOST);
	g_assert_cmpint(ranges_page(&f, at + 2 * PAGE).location, ==, VPMM_DEVICE);
	((char *)vpmm_host_view(at + PAGE))[1] = 2;
	g_assert_cmpint(at[PAGE] + at[PAGE + 1] + at[2 * PAGE], ==, 5);
	/* Outside of what was asked for. */
	g_assert_cmpuint(ranges_page(&f, at).flags, ==, VPMM_PAGE_PREFER_HOST | VPMM_PAGE_EMPTY);
	ranges_close(&f, at);
}

/* Touches that run in one direction have the pages ahead come along, fewer when they jump. */
static void test_read_ahead(void)
{
	uint64_t straight, jumping;
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 32 * PAGE);
	memset(at, 1, 32 * PAGE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 32 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 32);
	straight = ranges_stats(&f).faults;
	for (int i = 0; i < 32; i++)
		g_assert_cmpint(at[i * PAGE], ==, 1);
	straight = ranges_stats(&f).faults - straight;
	g_assert_cmpuint(straight, <=, 12);
	g_assert_cmpuint(ranges_stats(&f).read_ahead, >=, 20);

	g_assert_cmpint(vpmm_migrate(f.pool, at, 32 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 32);
	jumping = ranges_stats(&f).read_ahead;
	for (int i = 31; i >= 0; i--)
		g_assert_cmpint(at[i * PAGE], ==, 1);
	jumping = ranges_stats(&f).read_ahead - jumping;
	g_assert_cmpuint(jumping, <=, 16);
	ranges_close(&f, at);
}

struct taken {
	size_t count;
	size_t done;
	bool skip;
	bool copy;
};

static void alloc_and_copy(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	struct taken *taken = data;

	(void)stream;
	taken->count += count;
	for (size_t i = 0; i < count; i++) {
		if (taken->skip && i == 0) {
			moves[i].flags |= VPMM_MOVE_SKIP;
		} else if (taken->copy) {
			/* A copy engine of one's own: this one adds one to the first byte. */
			memcpy(moves[i].to, moves[i].from, moves[i].size);
			++*(char *)moves[i].to;
			moves[i].flags |= VPMM_MOVE_COPIED;
		}
	}
}

static void finalize_and_map(void *data, const struct vpmm_move *moves, size_t count)
{
	struct taken *taken = data;

	for (size_t i = 0; i < count; i++)
		taken->done += !!(moves[i].flags & VPMM_MOVE_DONE);
}

static void test_take_part(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), alloc_and_copy, finalize_and_map };
	struct taken taken = { .skip = true };
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 4 * PAGE);
	memset(at, 1, 4 * PAGE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_DEVICE, NULL, &ops, &taken), ==, 3);
	g_assert_cmpuint(taken.count, ==, 4);
	g_assert_cmpuint(taken.done, ==, 3);
	g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_HOST);
	taken = (struct taken){ .copy = true };
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_HOST, NULL, &ops, &taken), ==, 3);
	g_assert_cmpint(at[0] + at[PAGE] + at[2 * PAGE] + at[3 * PAGE], ==, 7);
	g_assert_cmpint(at[PAGE + 1], ==, 1);

	/* What takes part may be told of in the pages that move themselves. */
	taken = (struct taken){ 0 };
	memcpy(at, &ops, sizeof(ops));
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, NULL, (void *)at, &taken), ==, 1);
	g_assert_cmpuint(taken.done, ==, 1);
	ranges_close(&f, at);
}

/* More streams than a gate can hold back are refused when they are named; once one is gone, another can be. */
static void test_many_users(void)
{
	struct CUstream_st *stream;
	struct fixture f;
	GPtrArray *users;
	char *at;

	at = ranges_open_packed(&f, PAGE);
	users = ranges_first(&f)->users;
	assert_ok(vpmm_use(f.pool, at, f.streams[0]));
	stream = f.streams[1];
	/* Handles that nobody uses, in place of thousands of streams. */
	while (users->len < BACKEND_GATE_STREAMS)
		g_ptr_array_add(users, &((char *)f.pool)[users->len]);
	assert_ok(vpmm_use(f.pool, at, f.streams[0]));
	assert_error(vpmm_use(f.pool, at, stream), ENOTSUP, "vpmm_stream_retire");
	assert_error(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, stream, NULL, NULL), ENOTSUP, "streams use");
	g_ptr_array_set_size(users, BACKEND_GATE_STREAMS - 1);
	assert_ok(vpmm_use(f.pool, at, stream));
	g_ptr_array_set_size(users, 1);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* A pool goes with its ranges; a reset leaves what the host has. */
static void test_ends(void)
{
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 4 * PAGE);
	at[0] = at[PAGE] = 1;
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	kernel_adds(f.streams[0], (unsigned int *)at);
	fixture_close(&f);
}

/* The checker finds a page whose memory is elsewhere than its state says. */
static void test_check(void)
{
	struct fixture f;
	struct page *page;
	char *at;

	at = ranges_open_packed(&f, PAGE);
	at[0] = 1;
	assert_ok(vpmm_pool_check(f.pool));
	page = &ranges_first(&f)->pages[0];
	page->state = PAGE_DEVICE;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "host memory");
	page->state = PAGE_HOST;
	f.pool->shared->stats.host_unused++;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "unused host memory");
	f.pool->shared->stats.host_unused--;
	ranges_close(&f, at);
}

/* The checker finds a duplicate that may be out of date, one that nobody counts, and a copy of nothing. */
static void test_check_duplicate(void)
{
	struct fixture f;
	struct page *page;
	char *at;

	at = ranges_open_packed(&f, PAGE);
	at[0] = 1;
	assert_ok(vpmm_advise(f.pool, at, 1, VPMM_ADVISE_READ_MOSTLY));
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_DEVICE), ==, 1);
	page = &ranges_first(&f)->pages[0];
	page->advice = VPMM_ADVISE_NONE;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "without the advice");
	page->advice = VPMM_ADVISE_READ_MOSTLY;
	f.pool->shared->stats.duplicates++;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "duplicates");
	f.pool->shared->stats.duplicates--;
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_HOST), ==, 1);
	page->readable = true;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "no duplicate");
	page->readable = false;
	ranges_close(&f, at);
}

static void test_arguments(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	struct vpmm_shared_stats stats = { .size = 1 };
	const struct vpmm_opts opts = { FIXTURE_PACKED };
	struct vpmm_pool *other;
	struct fixture f;
	struct CUstream_st *gone;
	void *at = NULL;
	int local;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_shared_alloc(f.pool, NULL, PAGE, 0), EINVAL, "addr");
	assert_error(vpmm_shared_alloc(f.pool, &at, 0, 0), EINVAL, "size");
	assert_error(vpmm_shared_alloc(f.pool, &at, PAGE, 8), EINVAL, "flags");
	assert_error(vpmm_shared_alloc(f.pool, &at, SIZE_MAX / 2, 0), ENOMEM, "bytes");
	g_assert_null(at);
	assert_error(vpmm_migrate(f.pool, &local, 1, VPMM_DEVICE, NULL, NULL, NULL), EINVAL, "shared range");
	assert_error(vpmm_migrate(NULL, &local, 1, VPMM_DEVICE, NULL, NULL, NULL), EINVAL, "shared range");
	assert_error(vpmm_locate(NULL, &local, 1, NULL), EINVAL, "shared range");
	at = ranges_alloc(&f, PAGE);
	assert_error(vpmm_migrate(f.pool, at, PAGE + 1, VPMM_DEVICE, NULL, NULL, NULL), EINVAL, "shared range");
	assert_error(vpmm_migrate(f.pool, at, 0, VPMM_DEVICE, NULL, NULL, NULL), EINVAL, "shared range");
	assert_error(vpmm_migrate(f.pool, at, 1, (enum vpmm_location)7, NULL, NULL, NULL), EINVAL, "location");
	assert_error(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, VPMM_STREAM_ANY, NULL, NULL), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, VPMM_HOST_STREAM_PER_THREAD, NULL, NULL), ENOTSUP,
		     "default stream");
	assert_ok(vpmm_host_stream_create(&gone));
	assert_ok(vpmm_host_stream_destroy(gone));
	assert_error(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, gone, NULL, NULL), EINVAL, "not a stream");
	assert_error(vpmm_use(f.pool, at, gone), EINVAL, "not a stream");
	assert_ok(vpmm_pool_create(&other, &opts));
	assert_error(vpmm_use(other, at, f.streams[0]), EINVAL, "");
	assert_ok(vpmm_use(NULL, at, f.streams[0]));
	vpmm_pool_destroy(other);
	assert_error(vpmm_shared_free(f.pool, at, gone), EINVAL, "not a stream");
	assert_error(vpmm_fault(f.pool, at, 1, VPMM_DEVICE, 1), EINVAL, "flags");
	assert_error(vpmm_advise(f.pool, at, 1, (enum vpmm_advice)9), EINVAL, "advice");
	assert_error(vpmm_shared_stats(f.pool, &stats), EINVAL, "size");
	assert_error(vpmm_shared_free(f.pool, (char *)at + 1, NULL), EINVAL, "starts");
	assert_error(vpmm_free(f.pool, at, NULL), EINVAL, "");
	g_assert_null(vpmm_host_view(&local));
	assert_ok(vpmm_lookup((char *)at + 5, &allocation));
	g_assert_true(allocation.base == at && allocation.pool == f.pool && allocation.bytes == PAGE);
	assert_ok(vpmm_shared_free(f.pool, NULL, NULL));
	assert_ok(vpmm_shared_free(f.pool, at, VPMM_STREAM_ANY));
	assert_error(vpmm_shared_free(f.pool, at, NULL), EINVAL, "starts");
	fixture_close(&f);
}

/* A bad value is an error that names the variable; none at all is the default. */
static void test_environment(void)
{
	static const char *const variables[] = { "VPMM_HOST_KEEP", "VPMM_SHARED_TOUCH" };
	struct fixture f;
	void *at = NULL;

	for (size_t i = 0; i < G_N_ELEMENTS(variables); i++) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		g_setenv(variables[i], "some", TRUE);
		assert_error(vpmm_shared_alloc(f.pool, &at, PAGE, 0), EINVAL, variables[i]);
		g_assert_null(at);
		g_setenv(variables[i], "", TRUE);
		at = ranges_alloc(&f, PAGE);
		g_unsetenv(variables[i]);
		assert_ok(vpmm_shared_free(f.pool, at, NULL));
		at = NULL;
		fixture_close(&f);
	}
}

/* Large ranges have large pages, unless asked otherwise. */
static void test_page_sizes(void)
{
	static const struct {
		size_t size;
		size_t page;
	} rows[] = { { PAGE, PAGE }, { 255 * PAGE, PAGE }, { 256 * PAGE, 2 * PAGE }, { 4096 * PAGE, 16 * PAGE } };
	struct fixture f;
	void *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
		assert_ok(vpmm_shared_alloc(f.pool, &at, rows[i].size, 0));
		g_assert_cmpuint(ranges_page(&f, at).size, ==, rows[i].page);
		assert_ok(vpmm_shared_free(f.pool, at, NULL));
	}
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/shared/empty", ranges_ways, test_empty);
	fixture_add_rows("/shared/list", ranges_ways, test_list);
	fixture_add_rows("/shared/system-calls", ranges_ways, test_system_calls);
	g_test_add_func("/shared/waits-for-users", test_waits_for_users);
	g_test_add_func("/shared/retire-fails", test_retire_fails);
	g_test_add_func("/shared/named-meanwhile", test_named_meanwhile);
	g_test_add_func("/shared/faulted-meanwhile", test_faulted_meanwhile);
	g_test_add_func("/shared/skips", test_skips);
	g_test_add_func("/shared/fault-kept", test_fault_kept);
	g_test_add_func("/shared/read-ahead", test_read_ahead);
	g_test_add_func("/shared/take-part", test_take_part);
	g_test_add_func("/shared/many-users", test_many_users);
	g_test_add_func("/shared/ends", test_ends);
	g_test_add_func("/shared/page-sizes", test_page_sizes);
	g_test_add_func("/shared/check", test_check);
	g_test_add_func("/shared/check-duplicate", test_check_duplicate);
	g_test_add_func("/shared/arguments", test_arguments);
	g_test_add_func("/shared/environment", test_environment);
	return g_test_run();
}
