// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Addresses that the CPU and a real GPU share: a list, a hammer, more than the device, and how fast it all is beside
 * what a program would do by hand.
 *
 * VPMM_TEST_SECONDS is how long the hammer goes on, VPMM_TEST_GIB how large the ranges are whose speed is measured.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/gpu-fixture.h"
#include "vpmm-shared.h"

#define GIB ((size_t)1 << 30)
#define LINE ((size_t)256)
#define HAMMER_PAGES 64
#define HAMMER_THREADS 16
#define GRID 64
#define BLOCK 256
#define ADDS 16

static const char kernels[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	/* Doubles the values of a list. */
	".visible .entry walk(.param .u64 p0)\n{\n"
	"	.reg .b64 %at, %value;\n"
	"	.reg .pred %end;\n"
	"	ld.param.u64 %at, [p0];\n"
	"next:\n"
	"	setp.eq.u64 %end, %at, 0;\n"
	"	@%end bra done;\n"
	"	ld.global.u64 %value, [%at+8];\n"
	"	add.u64 %value, %value, %value;\n"
	"	st.global.u64 [%at+8], %value;\n"
	"	ld.global.u64 %at, [%at];\n"
	"	bra next;\n"
	"done:\n"
	"	ret;\n"
	"}\n"
	/* Adds one to the second half of lines at random. */
	".visible .entry adds(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)\n{\n"
	"	.reg .b64 %base, %lines, %x, %y, %gid;\n"
	"	.reg .b32 %a, %b, %c, %n;\n"
	"	.reg .pred %end;\n"
	"	ld.param.u64 %base, [p0];\n"
	"	ld.param.u64 %lines, [p1];\n"
	"	ld.param.u64 %x, [p2];\n"
	"	ld.param.u32 %n, [p3];\n"
	"	mov.u32 %a, %ctaid.x;\n"
	"	mov.u32 %b, %ntid.x;\n"
	"	mov.u32 %c, %tid.x;\n"
	"	cvt.u64.u32 %gid, %c;\n"
	"	mad.wide.u32 %gid, %a, %b, %gid;\n"
	"	mad.lo.u64 %x, %gid, 0x9E3779B97F4A7C15U, %x;\n"
	"next:\n"
	"	setp.eq.u32 %end, %n, 0;\n"
	"	@%end bra done;\n"
	"	mad.lo.u64 %x, %x, 6364136223846793005, 1442695040888963407;\n"
	"	shr.u64 %y, %x, 33;\n"
	"	rem.u64 %y, %y, %lines;\n"
	"	mad.lo.u64 %y, %y, 256, %base;\n"
	"	red.global.add.u64 [%y+128], 1;\n"
	"	sub.u32 %n, %n, 1;\n"
	"	bra next;\n"
	"done:\n"
	"	ret;\n"
	"}\n"
	/* Adds one to each word. */
	".visible .entry inc(.param .u64 p0, .param .u64 p1)\n{\n"
	"	.reg .b64 %at, %n, %i, %step, %word, %value;\n"
	"	.reg .b32 %a, %b, %c;\n"
	"	.reg .pred %end;\n"
	"	ld.param.u64 %at, [p0];\n"
	"	ld.param.u64 %n, [p1];\n"
	"	mov.u32 %a, %ctaid.x;\n"
	"	mov.u32 %b, %ntid.x;\n"
	"	mov.u32 %c, %tid.x;\n"
	"	cvt.u64.u32 %i, %c;\n"
	"	mad.wide.u32 %i, %a, %b, %i;\n"
	"	mov.u32 %a, %nctaid.x;\n"
	"	mul.wide.u32 %step, %a, %b;\n"
	"next:\n"
	"	setp.ge.u64 %end, %i, %n;\n"
	"	@%end bra done;\n"
	"	shl.b64 %word, %i, 3;\n"
	"	add.u64 %word, %word, %at;\n"
	"	ld.global.u64 %value, [%word];\n"
	"	add.u64 %value, %value, 1;\n"
	"	st.global.u64 [%word], %value;\n"
	"	add.u64 %i, %i, %step;\n"
	"	bra next;\n"
	"done:\n"
	"	ret;\n"
	"}\n";

static drv_module module;
static drv_function walk, adds, inc;

static bool ready(void)
{
	if (!gpu_ready())
		return false;
	if (module)
		return true;
	gpu_ok(cu.cuModuleLoadData(&module, kernels));
	gpu_ok(cu.cuModuleGetFunction(&walk, module, "walk"));
	gpu_ok(cu.cuModuleGetFunction(&adds, module, "adds"));
	gpu_ok(cu.cuModuleGetFunction(&inc, module, "inc"));
	return true;
}

static void launch_walk(void *list, drv_stream stream)
{
	drv_deviceptr at = (drv_deviceptr)list;
	void *params[] = { &at };

	gpu_ok(cu.cuLaunchKernel(walk, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void launch_adds(void *base, uint64_t lines, uint64_t seed, drv_stream stream)
{
	drv_deviceptr at = (drv_deviceptr)base;
	uint32_t n = ADDS;
	void *params[] = { &at, &lines, &seed, &n };

	gpu_ok(cu.cuLaunchKernel(adds, GRID, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
}

static void launch_inc(void *base, size_t size, drv_stream stream)
{
	drv_deviceptr at = (drv_deviceptr)base;
	uint64_t n = size / sizeof(uint64_t);
	void *params[] = { &at, &n };

	gpu_ok(cu.cuLaunchKernel(inc, 1024, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
}

static struct vpmm_pool *pool_new(size_t limit)
{
	const struct vpmm_opts opts = { .size = sizeof(opts), .backend = "cuda", .limit = limit };
	struct vpmm_pool *pool;

	assert_ok(vpmm_pool_create(&pool, &opts));
	return pool;
}

static void *shared_new(struct vpmm_pool *pool, size_t size, unsigned int flags)
{
	void *at = NULL;

	assert_ok(vpmm_shared_alloc(pool, &at, size, flags));
	return at;
}

static struct vpmm_shared_stats stats_of(struct vpmm_pool *pool)
{
	struct vpmm_shared_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_shared_stats(pool, &stats));
	return stats;
}

static size_t setting(const char *name, size_t fallback)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : fallback;
}

static double now(void)
{
	return (double)g_get_monotonic_time() * 1e-6;
}

/* The example of vpmm-shared(7). */
struct node {
	struct node *next;
	uint64_t value;
};

static void test_list(void)
{
	struct vpmm_pool *pool;
	struct node *nodes[8];
	drv_stream stream;
	uint64_t sum = 0;
	char *at, seen;
	int pipes[2];

	if (!ready())
		return;
	pool = pool_new(0);
	stream = gpu_stream();
	at = shared_new(pool, 8 * PAGE, VPMM_SHARED_FINE);
	for (int i = 7; i >= 0; i--) {
		nodes[i] = (struct node *)(at + (size_t)i * PAGE + 64 * (size_t)i);
		*nodes[i] = (struct node){ i < 7 ? nodes[i + 1] : NULL, (uint64_t)i + 1 };
	}
	assert_ok(vpmm_use(pool, at, stream));
	/* On the host, on the device, and half of it here and there. */
	launch_walk(at, stream);
	gpu_sync(stream);
	g_assert_cmpuint(nodes[7]->value, ==, 16);
	g_assert_cmpint(vpmm_migrate(pool, at, 8 * PAGE, VPMM_DEVICE, stream, NULL, NULL), ==, 8);
	launch_walk(at, stream);
	for (int i = 0; i < 8; i += 2)
		sum += nodes[i]->value;
	g_assert_cmpuint(sum, ==, 4 * (1 + 3 + 5 + 7));
	launch_walk(at, stream);
	/* Pages that are on the host can be read at once: nothing but this waits for the kernel. */
	gpu_sync(stream);
	for (struct node *node = nodes[0]; node; node = node->next)
		sum += node->value;
	g_assert_cmpuint(sum, ==, 4 * 16 + 8 * 36);

	/* A system call given an address on the device. */
	g_assert_cmpint(vpmm_migrate(pool, at, PAGE, VPMM_DEVICE, stream, NULL, NULL), ==, 1);
	g_assert_cmpint(pipe(pipes), ==, 0);
	if (write(pipes[1], at + offsetof(struct node, value), 1) == 1) {
		g_assert_cmpint(read(pipes[0], &seen, 1), ==, 1);
		g_assert_cmpint(seen, ==, 8);
	} else {
		g_test_message("system calls cannot be given such addresses here");
	}
	close(pipes[0]);
	close(pipes[1]);
	assert_ok(vpmm_shared_free(pool, at, stream));
	vpmm_pool_destroy(pool);
	gpu_ok(cu.cuStreamDestroy(stream));
}

/* Empty pages are zeros to a kernel; those that were given memory can be written, and are clear. */
static void test_empty(void)
{
	struct vpmm_pool *pool;
	drv_stream stream;
	uint64_t *at;

	if (!ready())
		return;
	pool = pool_new(0);
	stream = gpu_stream();
	for (int round = 0; round < 2; round++) {
		at = shared_new(pool, 4 * PAGE, VPMM_SHARED_FINE);
		assert_ok(vpmm_use(pool, at, stream));
		/* A pattern mixed with a page that nobody has touched stays as it is. */
		g_assert_cmpint(vpmm_fault(pool, at, 2 * PAGE, VPMM_DEVICE, 0), ==, 2);
		gpu_fill(at, PAGE, 5, stream);
		gpu_mix(at, at, at + 2 * PAGE / 8, PAGE, 0, stream);
		gpu_check(at, PAGE, 5, stream);
		launch_inc(at + PAGE / 8, PAGE, stream);
		for (size_t i = 0; i < PAGE / 8; i++)
			g_assert_cmpuint(at[PAGE / 8 + i], ==, 1);
		g_assert_cmpuint(gpu_wrong(), ==, 0);
		g_assert_cmpuint(at[3 * PAGE / 8], ==, 0);
		memset(at, 0x5a, 4 * PAGE);
		assert_ok(vpmm_shared_free(pool, at, stream));
	}
	vpmm_pool_destroy(pool);
	gpu_ok(cu.cuStreamDestroy(stream));
}

static struct vpmm_page page_of(struct vpmm_pool *pool, const void *at)
{
	struct vpmm_page page;

	g_assert_cmpint(vpmm_locate(pool, at, 1, &page), ==, 1);
	return page;
}

/* Pages that are read mostly: both read, until the CPU writes; and until the advice is taken back no kernel does. */
static void test_mostly(void)
{
	struct vpmm_shared_stats stats;
	struct vpmm_pool *pool;
	drv_stream stream;
	uint64_t *at, *copy;

	if (!ready())
		return;
	pool = pool_new(0);
	stream = gpu_stream();
	copy = g_malloc(4 * PAGE);
	at = shared_new(pool, 4 * PAGE, VPMM_SHARED_FINE);
	assert_ok(vpmm_use(pool, at, stream));
	g_assert_cmpint(vpmm_fault(pool, at, 4 * PAGE, VPMM_HOST, 0), ==, 4);
	gpu_fill(at, 4 * PAGE, 5, stream);
	gpu_sync(stream);
	memcpy(copy, at, 4 * PAGE);
	assert_ok(vpmm_advise(pool, at, 4 * PAGE, VPMM_ADVISE_READ_MOSTLY));
	for (int round = 0; round < 2; round++) {
		g_assert_cmpint(vpmm_migrate(pool, at, 4 * PAGE, VPMM_DEVICE, stream, NULL, NULL), ==, round ? 1 : 4);
		stats = stats_of(pool);
		g_assert_cmpuint(stats.duplicates, ==, 4 * PAGE);
		g_assert_cmpint(memcmp(at, copy, 4 * PAGE), ==, 0);
		g_assert_cmpuint(page_of(pool, at).flags, ==, VPMM_PAGE_READ_MOSTLY | VPMM_PAGE_DUPLICATE);
		g_assert_cmpuint(stats_of(pool).pages_to_host, ==, stats.pages_to_host);
		g_assert_cmpuint(stats_of(pool).read_copies, ==, stats.read_copies + (round ? 1 : 4));
		gpu_check(at, 4 * PAGE, 5, stream);
		g_assert_cmpuint(gpu_wrong(), ==, 0);
		/* The device finds on the host what the CPU has written. */
		at[0]++;
		g_assert_cmpint(page_of(pool, at).location, ==, VPMM_HOST);
		g_assert_cmpuint(stats_of(pool).to_host, ==, stats.to_host);
		gpu_check(at, 4 * PAGE, 5, stream);
		g_assert_cmpuint(gpu_wrong(), ==, 1);
		at[0]--;
	}
	assert_ok(vpmm_advise(pool, at, 4 * PAGE, VPMM_ADVISE_NONE));
	g_assert_cmpuint(stats_of(pool).duplicates, ==, 0);
	launch_inc(at + PAGE / 8, PAGE, stream);
	g_assert_cmpuint(at[PAGE / 8], ==, copy[PAGE / 8] + 1);
	/* What is pinned is on the host, and the device reaches it there. */
	assert_ok(vpmm_pin(pool, at, 4 * PAGE));
	g_assert_cmpint(vpmm_migrate(pool, at, 4 * PAGE, VPMM_DEVICE, stream, NULL, NULL), ==, 0);
	launch_inc(at + PAGE / 8 * 3, PAGE, stream);
	gpu_sync(stream);
	g_assert_cmpuint(at[PAGE / 8 * 3], ==, copy[PAGE / 8 * 3] + 1);
	assert_ok(vpmm_unpin(pool, at, 4 * PAGE));
	assert_ok(vpmm_pool_check(pool));
	assert_ok(vpmm_shared_free(pool, at, stream));
	g_free(copy);
	vpmm_pool_destroy(pool);
	gpu_ok(cu.cuStreamDestroy(stream));
}

struct hammer {
	struct vpmm_pool *pool;
	char *at;
	drv_context context;
	drv_stream streams[3];
	_Atomic bool stop;
	_Atomic uint64_t by_cpu;
	_Atomic uint64_t by_gpu;
	_Atomic uint64_t moves;
};

#define LINES (HAMMER_PAGES * PAGE / LINE)

/* By lines of their own, as the bus has no atomic operations that both sides take part in. */
static void *add(void *data)
{
	struct hammer *h = data;
	static _Atomic unsigned int seeds;
	unsigned int seed = ++seeds;
	uint64_t added = 0;

	while (!h->stop) {
		size_t line = ((size_t)rand_r(&seed) << 15 ^ (size_t)rand_r(&seed)) % LINES;

		atomic_fetch_add((_Atomic uint64_t *)(h->at + line * LINE), 1);
		added++;
	}
	h->by_cpu += added;
	return NULL;
}

static void *submit(void *data)
{
	struct hammer *h = data;
	uint64_t launches = 0;

	gpu_ok(cu.cuCtxSetCurrent(h->context));
	while (!h->stop) {
		launch_adds(h->at, LINES, launches * 0xd1342543de82ef95u, h->streams[1 + launches % 2]);
		if (++launches % 16 == 0)
			gpu_sync(h->streams[1 + launches / 16 % 2]);
	}
	h->by_gpu += launches * GRID * BLOCK * ADDS;
	return NULL;
}

static void *move(void *data)
{
	struct hammer *h = data;
	unsigned int seed = 7;

	gpu_ok(cu.cuCtxSetCurrent(h->context));
	while (!h->stop) {
		size_t page = (size_t)rand_r(&seed) % HAMMER_PAGES;
		size_t count = 1 + (size_t)rand_r(&seed) % MIN(HAMMER_PAGES - page, 16);
		int moved = vpmm_migrate(h->pool, h->at + page * PAGE, count * PAGE,
					 rand_r(&seed) % 4 ? VPMM_DEVICE : VPMM_HOST, h->streams[0], NULL, NULL);

		if (moved < 0)
			g_error("%s", vpmm_last_error());
		h->moves += (uint64_t)moved;
	}
	return NULL;
}

static void test_hammer(void)
{
	pthread_t threads[HAMMER_THREADS], submitter, mover;
	size_t seconds = setting("VPMM_TEST_SECONDS", 20);
	struct vpmm_shared_stats stats;
	struct hammer h = { 0 };
	uint64_t found = 0;

	if (!ready())
		return;
	h.pool = pool_new(0);
	gpu_ok(cu.cuCtxGetCurrent(&h.context));
	for (size_t i = 0; i < G_N_ELEMENTS(h.streams); i++)
		h.streams[i] = gpu_stream();
	h.at = shared_new(h.pool, HAMMER_PAGES * PAGE, VPMM_SHARED_FINE);
	memset(h.at, 0, HAMMER_PAGES * PAGE);
	assert_ok(vpmm_use(h.pool, h.at, h.streams[1]));
	assert_ok(vpmm_use(h.pool, h.at, h.streams[2]));
	pthread_create(&submitter, NULL, submit, &h);
	pthread_create(&mover, NULL, move, &h);
	for (int i = 0; i < HAMMER_THREADS; i++)
		pthread_create(&threads[i], NULL, add, &h);
	g_usleep(seconds * G_USEC_PER_SEC);
	h.stop = true;
	for (int i = 0; i < HAMMER_THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(mover, NULL);
	pthread_join(submitter, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(h.streams); i++)
		gpu_sync(h.streams[i]);
	for (size_t i = 0; i < HAMMER_PAGES * PAGE / 8; i++)
		found += ((uint64_t *)h.at)[i];
	stats = stats_of(h.pool);
	g_test_message("%zu s: %" PRIu64 " additions by %d threads, %" PRIu64 " by kernels, %"
		       PRIu64 " found; pages to the device %" PRIu64 ", to the host %"
		       PRIu64 ", touches %" PRIu64 ", tried again %" PRIu64, seconds,
		       (uint64_t)h.by_cpu, HAMMER_THREADS, (uint64_t)h.by_gpu, found, stats.pages_to_device,
		       stats.pages_to_host, stats.faults, stats.retries);
	g_assert_cmpuint(found, ==, h.by_cpu + h.by_gpu);
	assert_ok(vpmm_shared_free(h.pool, h.at, h.streams[0]));
	vpmm_pool_destroy(h.pool);
	for (size_t i = 0; i < G_N_ELEMENTS(h.streams); i++)
		gpu_ok(cu.cuStreamDestroy(h.streams[i]));
}

static uint64_t sum(const uint64_t *words, size_t size)
{
	uint64_t total = 0;

	for (size_t i = 0; i < size / 8; i++)
		total += words[i];
	return total;
}

static void report(const char *what, size_t bytes, double seconds)
{
	g_test_message("%-44s %8.2f GB/s  %9.1f ms", what, (double)bytes / seconds * 1e-9, seconds * 1e3);
}

/* Between parts, what is left for later is done. */
static void settle(void)
{
	g_usleep(G_USEC_PER_SEC);
}

/* One thread reads no faster than it does by itself; several show what the moves allow. */
#define READERS 8

struct reader {
	pthread_t thread;
	const uint64_t *words;
	size_t size;
	uint64_t total;
};

static void *read_part(void *data)
{
	struct reader *reader = data;

	reader->total = sum(reader->words, reader->size);
	return NULL;
}

static uint64_t sum_by_all(const char *at, size_t size)
{
	struct reader readers[READERS];
	uint64_t total = 0;
	int err;

	for (size_t i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .words = (const uint64_t *)(at + i * (size / READERS)),
					      .size = size / READERS };
		err = pthread_create(&readers[i].thread, NULL, read_part, &readers[i]);
		g_assert_cmpint(err, ==, 0);
	}
	for (size_t i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		total += readers[i].total;
	}
	return total;
}

static void time_by_hand(size_t size, drv_stream stream)
{
	drv_deviceptr device;
	void *pinned;
	double begin;

	begin = now();
	gpu_ok(cu.cuMemAllocHost(&pinned, size));
	memset(pinned, 1, size);
	report("by hand: pinned memory, and its first touch", size, now() - begin);
	gpu_ok(cu.cuMemAlloc(&device, size));
	for (int round = 0; round < 2; round++) {
		begin = now();
		gpu_ok(cu.cuMemcpyHtoDAsync(device, pinned, size, stream));
		gpu_sync(stream);
	}
	report("by hand: copy to the device", size, now() - begin);
	begin = now();
	gpu_ok(cu.cuMemcpyDtoHAsync(pinned, device, size, stream));
	gpu_sync(stream);
	report("by hand: copy to the host", size, now() - begin);
	begin = now();
	g_assert_cmpuint(sum(pinned, size), ==, size / 8 * 0x0101010101010101);
	report("by hand: the CPU reads pinned memory", size, now() - begin);
	begin = now();
	g_assert_cmpuint(sum_by_all(pinned, size), ==, size / 8 * 0x0101010101010101);
	report("by hand: 8 threads read pinned memory", size, now() - begin);
	begin = now();
	launch_inc(pinned, size, stream);
	gpu_sync(stream);
	report("by hand: a kernel over pinned memory, both ways", 2 * size, now() - begin);
	gpu_ok(cu.cuMemFree(device));
	gpu_ok(cu.cuMemFreeHost(pinned));
}

static void time_readers(struct vpmm_pool *pool, char *at, size_t size, drv_stream stream, uint64_t want)
{
	double begin;

	g_assert_cmpint(vpmm_migrate(pool, at, size, VPMM_DEVICE, stream, NULL, NULL), >, 0);
	settle();
	begin = now();
	g_assert_cmpuint(sum_by_all(at, size), ==, want);
	report("shared: 8 threads read what is on the device", size, now() - begin);
	begin = now();
	g_assert_cmpuint(sum_by_all(at, size), ==, want);
	report("shared: 8 threads read what is on the host", size, now() - begin);
}

static void time_shared(size_t size, drv_stream stream)
{
	struct vpmm_pool *pool = pool_new(0);
	struct vpmm_shared_stats before, after;
	char *at = shared_new(pool, size, 0);
	uint64_t want;
	double begin;

	begin = now();
	memset(at, 1, size);
	report("shared: first touch by the CPU", size, now() - begin);
	assert_ok(vpmm_use(pool, at, stream));
	launch_inc(at, size, stream);
	gpu_sync(stream);
	begin = now();
	launch_inc(at, size, stream);
	gpu_sync(stream);
	report("shared: a kernel over the host, both ways", 2 * size, now() - begin);
	for (int round = 0; round < 2; round++) {
		settle();
		begin = now();
		g_assert_cmpint(vpmm_migrate(pool, at, size, VPMM_DEVICE, stream, NULL, NULL), >, 0);
		report(round ? "shared: to the device again" : "shared: to the device, first memory", size,
		       now() - begin);
		settle();
		if (round)
			break;
		launch_inc(at, size, stream);
		gpu_sync(stream);
		begin = now();
		launch_inc(at, size, stream);
		gpu_sync(stream);
		report("shared: a kernel over the device, both ways", 2 * size, now() - begin);
		begin = now();
		g_assert_cmpint(vpmm_migrate(pool, at, size, VPMM_HOST, stream, NULL, NULL), >, 0);
		report("shared: to the host", size, now() - begin);
	}
	want = size / 8 * (0x0101010101010101 + 4);
	before = stats_of(pool);
	begin = now();
	g_assert_cmpuint(sum((uint64_t *)at, size), ==, want);
	report("shared: the CPU reads what is on the device", size, now() - begin);
	after = stats_of(pool);
	g_test_message("of that %" PRIu64 " touches, %" PRIu64 " pages read ahead, %.1f ms serving",
		       after.faults - before.faults, after.read_ahead - before.read_ahead,
		       (double)(after.fault_ns - before.fault_ns) * 1e-6);
	begin = now();
	g_assert_cmpuint(sum((uint64_t *)at, size), ==, want);
	report("shared: the CPU reads what is on the host", size, now() - begin);
	time_readers(pool, at, size, stream, want);
	assert_ok(vpmm_shared_free(pool, at, stream));
	vpmm_pool_destroy(pool);
}

static void test_speed(void)
{
	size_t size = setting("VPMM_TEST_GIB", 4) * GIB;
	drv_stream stream;

	if (!ready())
		return;
	stream = gpu_stream();
	time_by_hand(size, stream);
	time_shared(size, stream);
	gpu_ok(cu.cuStreamDestroy(stream));
}

/* What one touch takes, of pages of the smallest size, in no order. */
static void test_touch(void)
{
	struct vpmm_pool *pool;
	size_t count = 64;
	drv_stream stream;
	double begin;
	char *at;

	if (!ready())
		return;
	pool = pool_new(0);
	stream = gpu_stream();
	at = shared_new(pool, count * PAGE, VPMM_SHARED_FINE);
	begin = now();
	for (size_t i = 0; i < count; i++)
		at[i * 37 % count * PAGE] = 1;
	g_test_message("first touch: %.0f us a page of 2 MiB", (now() - begin) * 1e6 / (double)count);
	g_assert_cmpint(vpmm_migrate(pool, at, count * PAGE, VPMM_DEVICE, stream, NULL, NULL), ==, count);
	settle();
	begin = now();
	for (size_t i = 0; i < count; i++)
		g_assert_cmpint(at[i * 37 % count * PAGE], ==, 1);
	g_test_message("touch of a page on the device: %.0f us a page of 2 MiB", (now() - begin) * 1e6 / (double)count);
	assert_ok(vpmm_shared_free(pool, at, stream));
	vpmm_pool_destroy(pool);
	gpu_ok(cu.cuStreamDestroy(stream));
}

/* One and a half times the memory that the pool may have, in ranges that take turns on the device. */
static void test_more_than_device(void)
{
	enum { RANGES = 12, ROUNDS = 3 };
	struct vpmm_pool *pool;
	drv_stream stream;
	void *at[RANGES], *block;
	double begin;

	if (!ready())
		return;
	pool = pool_new(RANGES * GIB / 2 * 2 / 3 + 64 * PAGE);
	stream = gpu_stream();
	for (int i = 0; i < RANGES; i++) {
		at[i] = shared_new(pool, GIB / 2, 0);
		memset(at[i], 0, GIB / 2);
	}
	begin = now();
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < RANGES; i++) {
			g_assert_cmpint(vpmm_migrate(pool, at[i], GIB / 2, VPMM_DEVICE, stream, NULL, NULL), >=, 0);
			launch_inc(at[i], GIB / 2, stream);
		}
	}
	gpu_sync(stream);
	report("1.5 times the limit: kernels over all of it", (size_t)ROUNDS * RANGES * GIB / 2, now() - begin);
	g_test_message("%" PRIu64 " pages evicted, %" PRIu64 " skipped", stats_of(pool).evicted,
		       stats_of(pool).skipped);
	g_assert_cmpuint(stats_of(pool).evicted, >, 0);
	assert_ok(vpmm_malloc(pool, &block, 2 * GIB, stream));
	gpu_fill(block, 2 * GIB, 11, stream);
	for (int i = 0; i < RANGES; i++)
		g_assert_cmpuint(sum(at[i], GIB / 2), ==, ROUNDS * (GIB / 2 / 8));
	gpu_check(block, 2 * GIB, 11, stream);
	g_assert_cmpuint(gpu_wrong(), ==, 0);
	assert_ok(vpmm_free(pool, block, stream));
	for (int i = 0; i < RANGES; i++)
		assert_ok(vpmm_shared_free(pool, at[i], stream));
	vpmm_pool_destroy(pool);
	gpu_ok(cu.cuStreamDestroy(stream));
}

/*
 * A stream has room for so many launches, and a thread that finds none waits in the driver. If it held a lock there
 * that a move needs, nobody would get on; an alarm ends the program then.
 */
static void *submit_deep(void *data)
{
	struct hammer *h = data;

	gpu_ok(cu.cuCtxSetCurrent(h->context));
	for (int i = 0; i < 40000; i++)
		launch_adds(h->at, LINES, (uint64_t)i, h->streams[1]);
	h->by_gpu = UINT64_C(40000) * GRID * BLOCK * ADDS;
	h->stop = true;
	return NULL;
}

static void test_deep_queue(void)
{
	struct hammer h = { 0 };
	pthread_t submitter;
	uint64_t found = 0;
	int moves = 0;

	if (!ready())
		return;
	h.pool = pool_new(0);
	gpu_ok(cu.cuCtxGetCurrent(&h.context));
	h.streams[0] = gpu_stream();
	h.streams[1] = gpu_stream();
	h.at = shared_new(h.pool, HAMMER_PAGES * PAGE, VPMM_SHARED_FINE);
	memset(h.at, 0, HAMMER_PAGES * PAGE);
	assert_ok(vpmm_use(h.pool, h.at, h.streams[1]));
	/* There the kernels are short, so that only the moves have the stream fill up. */
	g_assert_cmpint(vpmm_fault(h.pool, h.at, HAMMER_PAGES * PAGE, VPMM_DEVICE, 0), ==, HAMMER_PAGES);
	alarm(120);
	pthread_create(&submitter, NULL, submit_deep, &h);
	while (!h.stop) {
		int moved = vpmm_migrate(h.pool, h.at, 4 * PAGE, moves++ % 2 ? VPMM_DEVICE : VPMM_HOST, h.streams[0],
					 NULL, NULL);

		g_assert_cmpint(moved, ==, 4);
	}
	pthread_join(submitter, NULL);
	gpu_sync(h.streams[1]);
	alarm(0);
	for (size_t i = 0; i < HAMMER_PAGES * PAGE / 8; i++)
		found += ((uint64_t *)h.at)[i];
	g_test_message("%d moves while a stream was full", moves);
	g_assert_cmpuint(found, ==, h.by_gpu);
	assert_ok(vpmm_shared_free(h.pool, h.at, h.streams[1]));
	vpmm_pool_destroy(h.pool);
	gpu_ok(cu.cuStreamDestroy(h.streams[0]));
	gpu_ok(cu.cuStreamDestroy(h.streams[1]));
}

/*
 * The legacy default stream and a blocking one wait for each other. Both use the range while its pages move, beside one
 * that waits for neither: no move waits for ever, and no addition is lost.
 */
static void *submit_legacy(void *data)
{
	struct hammer *h = data;
	uint64_t launches = 0;

	gpu_ok(cu.cuCtxSetCurrent(h->context));
	while (!h->stop) {
		launch_adds(h->at, LINES, launches, h->streams[launches % 3]);
		if (++launches % 16 == 0)
			gpu_sync(h->streams[launches / 16 % 3]);
	}
	h->by_gpu = launches * GRID * BLOCK * ADDS;
	return NULL;
}

static void test_legacy(void)
{
	struct hammer h = { 0 };
	pthread_t submitter;
	uint64_t found = 0;

	if (!ready())
		return;
	h.pool = pool_new(0);
	gpu_ok(cu.cuCtxGetCurrent(&h.context));
	/* The first is the default stream. */
	gpu_ok(cu.cuStreamCreate(&h.streams[1], 0));
	h.streams[2] = gpu_stream();
	h.at = shared_new(h.pool, HAMMER_PAGES * PAGE, VPMM_SHARED_FINE);
	memset(h.at, 0, HAMMER_PAGES * PAGE);
	for (size_t i = 0; i < G_N_ELEMENTS(h.streams); i++)
		assert_ok(vpmm_use(h.pool, h.at, h.streams[i]));
	alarm(120);
	pthread_create(&submitter, NULL, submit_legacy, &h);
	for (int i = 0; i < 200; i++) {
		size_t page = (size_t)i * 7 % HAMMER_PAGES;
		int moved = vpmm_migrate(h.pool, h.at + page * PAGE, PAGE, VPMM_DEVICE, NULL, NULL, NULL);

		g_assert_cmpint(moved, >=, 0);
		atomic_fetch_add((_Atomic uint64_t *)(h.at + page * PAGE), 1);
	}
	h.stop = true;
	pthread_join(submitter, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(h.streams); i++)
		gpu_sync(h.streams[i]);
	for (size_t i = 0; i < HAMMER_PAGES * PAGE / 8; i++)
		found += ((uint64_t *)h.at)[i];
	g_assert_cmpuint(found, ==, 200 + h.by_gpu);
	/* And with no one submitting, the end waits for both. */
	launch_adds(h.at, LINES, 1, h.streams[1]);
	assert_ok(vpmm_shared_free(h.pool, h.at, NULL));
	alarm(0);
	vpmm_pool_destroy(h.pool);
	gpu_ok(cu.cuStreamDestroy(h.streams[1]));
	gpu_ok(cu.cuStreamDestroy(h.streams[2]));
}

int main(int argc, char **argv)
{
	int status;

	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/gpu-shared/list", test_list);
	g_test_add_func("/gpu-shared/empty", test_empty);
	g_test_add_func("/gpu-shared/mostly", test_mostly);
	g_test_add_func("/gpu-shared/touch", test_touch);
	g_test_add_func("/gpu-shared/hammer", test_hammer);
	g_test_add_func("/gpu-shared/legacy", test_legacy);
	g_test_add_func("/gpu-shared/more-than-device", test_more_than_device);
	g_test_add_func("/gpu-shared/speed", test_speed);
	g_test_add_func("/gpu-shared/deep-queue", test_deep_queue);
	status = g_test_run();
	if (module)
		cu.cuModuleUnload(module);
	gpu_close();
	return status;
}
