// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The device of the host backend. Work runs on the thread that completes it.
 *
 * A trace can need more memory than the machine has, which goes well as long as most of it is never touched. So the
 * pattern is whole in allocations up to WHOLE, and in larger ones stands at both ends and at every STEP between.
 */
#include "device.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "fail.h"
#include "ledger.h"
#include "pattern.h"
#include "vpmm-host.h"

#define WHOLE (64 * 1024)
#define STEP (2 * 1024 * 1024)
#define END_BYTES 64
#define STEP_BYTES 16

/* What cuMemAlloc rounds to. */
#define GRANULE ((size_t)2 << 20)


/* One piece that --lag holds back; @number is its place among the pieces of its stream, from 1. */
struct piece {
	uint64_t due_us;
	uint64_t number;
	uint32_t stream;
};

struct device_host {
	struct device base;
	uint64_t *submitted;		/* how many pieces each stream was ever given */
	GArray *pieces;			/* of struct piece, in the order of their submission */
	guint first_piece;		/* those before it are complete */
	uint64_t now_us;
	bool started;			/* the clock goes on from @start_ns, where the trace's is at @start_us */
	uint64_t start_ns;
	uint64_t start_us;
	uint32_t *marks;
};

/* What is given to a piece of work, which frees it. */
struct host_work {
	struct device_host *dev;
	struct device_work work;
};

/* What cuMemAlloc and cuMemFree are. */
struct host_malloc {
	struct ledger ledger;
	struct device_host *dev;
	uint64_t capacity;
};

static struct device_host *host_of(struct device *dev)
{
	return (struct device_host *)dev;
}

/* The ranges start at a multiple of a word, and only the last one of an allocation ends elsewhere. */
static void fill_range(unsigned char *memory, size_t from, size_t to, uint32_t key)
{
	size_t last = to & ~(size_t)3;
	uint32_t word;

	for (size_t at = from; at < last; at += sizeof(word)) {
		word = pattern_word(at / sizeof(word), key);
		memcpy(memory + at, &word, sizeof(word));
	}
	if (last == to)
		return;
	word = pattern_word(last / sizeof(word), key);
	memcpy(memory + last, &word, to - last);
}

static bool check_range(const unsigned char *memory, size_t from, size_t to, uint32_t key)
{
	size_t last = to & ~(size_t)3;
	uint32_t word, found, wrong = 0;

	for (size_t at = from; at < last; at += sizeof(word)) {
		memcpy(&found, memory + at, sizeof(found));
		wrong |= found ^ pattern_word(at / sizeof(word), key);
	}
	if (last == to)
		return !wrong;
	word = pattern_word(last / sizeof(word), key);
	return !wrong && memcmp(memory + last, &word, to - last) == 0;
}

static void fill(void *data)
{
	struct host_work *hw = data;
	struct device_work *w = &hw->work;

	if (w->size <= WHOLE) {
		fill_range(w->ptr, 0, w->size, w->key);
	} else {
		fill_range(w->ptr, 0, END_BYTES, w->key);
		for (size_t at = STEP; at < w->size; at += STEP)
			fill_range(w->ptr, at, MIN(at + STEP_BYTES, w->size), w->key);
		fill_range(w->ptr, (w->size - END_BYTES) & ~(size_t)3, w->size, w->key);
	}
	g_free(hw);
}

static void check(void *data)
{
	struct host_work *hw = data;
	struct device_work *w = &hw->work;
	bool intact;

	if (w->size <= WHOLE) {
		intact = check_range(w->ptr, 0, w->size, w->key);
	} else {
		intact = check_range(w->ptr, 0, END_BYTES, w->key);
		for (size_t at = STEP; at < w->size; at += STEP)
			intact &= check_range(w->ptr, at, MIN(at + STEP_BYTES, w->size), w->key);
		intact &= check_range(w->ptr, (w->size - END_BYTES) & ~(size_t)3, w->size, w->key);
	}
	if (!intact)
		hw->dev->marks[w->mark] = 1;
	g_free(hw);
}

static int lib_fail(int err, const char *what)
{
	return fail_set(err, "%s: %s", what, vpmm_last_error());
}

/* A wait on the host, such as VPMM_REUSE=block makes, may have completed the piece already. */
static int complete_piece(struct device_host *dev, const struct piece *piece)
{
	struct CUstream_st *stream = dev->base.streams[piece->stream];
	unsigned int pending;
	int err;

	err = vpmm_host_stream_pending(stream, &pending);
	if (err)
		return lib_fail(err, "looking at a stream");
	if (dev->submitted[piece->stream] - pending >= piece->number)
		return 0;
	err = vpmm_host_stream_complete(stream, 1);
	return err ? lib_fail(err, "completing a piece of work") : 0;
}

/* Completes the pieces that are due, in the order of their submission over all streams. */
static int complete_due(struct device_host *dev, uint64_t us)
{
	int err = 0;

	while (!err && dev->first_piece < dev->pieces->len) {
		const struct piece *piece = &g_array_index(dev->pieces, struct piece, dev->first_piece);

		if (piece->due_us > us)
			break;
		err = complete_piece(dev, piece);
		if (!err)
			dev->first_piece++;
	}
	if (dev->first_piece == dev->pieces->len || dev->first_piece > 65536) {
		g_array_remove_range(dev->pieces, 0, dev->first_piece);
		dev->first_piece = 0;
	}
	return err;
}

/* Its streams are for any thread. */
static int host_attach(struct device *base)
{
	(void)base;
	return 0;
}

/* The host backend's clock comes to where the trace's is, unless it is further, as something has waited. */
static int pass_time(struct device_host *dev, uint64_t us)
{
	uint64_t ns, now = vpmm_host_time();
	int err;

	if (!dev->started) {
		dev->started = true;
		dev->start_ns = now;
		dev->start_us = us;
	}
	ns = dev->start_ns + (us - dev->start_us) * 1000;
	err = ns > now ? vpmm_host_time_pass(ns - now) : 0;
	return err ? lib_fail(err, "letting time pass") : 0;
}

static int finish_time(struct device_host *dev)
{
	int err = vpmm_host_time_finish();

	dev->started = false;
	return err ? lib_fail(err, "letting work come to its end") : 0;
}

static int host_advance(struct device *base, uint64_t us)
{
	struct device_host *dev = host_of(base);

	if (base->opts.ns_per_byte > 0)
		return pass_time(dev, us);
	dev->now_us = us;
	return complete_due(dev, us);
}

static int host_wait(struct device *base, uint32_t stream, uint32_t other)
{
	int err = vpmm_host_stream_wait(base->streams[stream], base->streams[other]);

	return err ? lib_fail(err, "making a stream wait") : 0;
}

static int map_memory(void **ptr, size_t size)
{
	int err;

	*ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*ptr != MAP_FAILED)
		return 0;
	err = -errno;
	return fail_set(err, "mmap of %zu bytes: %s", size, g_strerror(-err));
}

/* No memory is better than ordinary memory here. */
static int host_host_alloc(struct device *base, void **ptr, size_t size)
{
	(void)base;
	return map_memory(ptr, size);
}

static int host_host_free(struct device *base, void *ptr, size_t size)
{
	(void)base;
	munmap(ptr, size);
	return 0;
}

static int host_copy(struct device *base, void *to, const void *from, size_t size)
{
	(void)base;
	memcpy(to, from, size);
	return 0;
}

static int host_capture_begin(struct device *base, uint32_t stream)
{
	int err = vpmm_host_capture_begin(base->streams[stream]);

	return err ? lib_fail(err, "beginning a capture") : 0;
}

static int host_capture_end(struct device *base, uint32_t stream, void **graph)
{
	struct vpmm_host_graph *made;
	int err = vpmm_host_capture_end(base->streams[stream], &made);

	if (err)
		return lib_fail(err, "ending a capture");
	*graph = made;
	return 0;
}

static int host_graph_destroy(struct device *base, void *graph)
{
	int err = vpmm_host_graph_destroy(graph);

	(void)base;
	return err ? lib_fail(err, "destroying a graph") : 0;
}

static int submit(struct device_host *dev, uint32_t stream, vpmm_host_fn fn, const struct device_work *work)
{
	struct CUstream_st *handle = dev->base.streams[stream];
	struct host_work *hw;
	struct piece piece;
	int err;

	if (dev->base.opts.verify) {
		hw = g_new(struct host_work, 1);
		*hw = (struct host_work){ .dev = dev, .work = *work };
		err = vpmm_host_stream_launch(handle, fn, hw);
		if (err)
			g_free(hw);
	} else {
		err = vpmm_host_stream_submit(handle);
	}
	if (err)
		return lib_fail(err, "submitting work");
	piece = (struct piece){
		.due_us = dev->now_us + (dev->base.opts.lag ? dev->base.opts.lag_us : 0),
		.number = ++dev->submitted[stream],
		.stream = stream,
	};
	g_array_append_val(dev->pieces, piece);
	return dev->base.opts.lag ? 0 : complete_due(dev, dev->now_us);
}

/* Whoever frees it comes after all that the stream has. */
static int submit_for(struct device_host *dev, uint32_t stream, const struct device_work *work)
{
	double ns = (double)work->size * dev->base.opts.ns_per_byte;
	int err = vpmm_host_stream_submit_for(dev->base.streams[stream], VPMM_HOST_COMPUTE, (uint64_t)ns);

	return err ? lib_fail(err, "submitting work") : 0;
}

static int host_born(struct device *base, uint32_t stream, const struct device_work *work)
{
	if (base->opts.ns_per_byte > 0)
		return submit_for(host_of(base), stream, work);
	return submit(host_of(base), stream, fill, work);
}

static int host_dying(struct device *base, uint32_t stream, const struct device_work *work)
{
	return base->opts.ns_per_byte > 0 ? 0 : submit(host_of(base), stream, check, work);
}

/* It does nothing of its own accord. */
static void host_settle(struct device *base)
{
	(void)base;
}

static int host_synchronize(struct device *base)
{
	return base->opts.ns_per_byte > 0 ? finish_time(host_of(base)) : complete_due(host_of(base), UINT64_MAX);
}

static int host_damaged(struct device *base, uint32_t *marks)
{
	struct device_host *dev = host_of(base);

	memcpy(marks, dev->marks, base->opts.marks * sizeof(*marks));
	memset(dev->marks, 0, base->opts.marks * sizeof(*marks));
	return 0;
}

static void host_close(struct device *base)
{
	struct device_host *dev = host_of(base);

	for (uint32_t i = base->opts.streams; i-- > 0;) {
		if (base->streams[i])
			vpmm_host_stream_destroy(base->streams[i]);
	}
	g_array_free(dev->pieces, TRUE);
	g_free(dev->submitted);
	g_free(dev->marks);
	g_free(base->streams);
	g_free(dev);
}

static int host_open(const struct device_opts *opts, struct device **device)
{
	struct device_host *dev;
	int err;

	dev = g_new0(struct device_host, 1);
	dev->base.ops = &device_host;
	dev->base.opts = *opts;
	dev->base.streams = g_new0(struct CUstream_st *, opts->streams);
	dev->submitted = g_new0(uint64_t, opts->streams);
	dev->pieces = g_array_new(FALSE, FALSE, sizeof(struct piece));
	dev->marks = g_new0(uint32_t, opts->marks);
	for (uint32_t i = 0; i < opts->streams; i++) {
		err = vpmm_host_stream_create(&dev->base.streams[i]);
		if (err) {
			lib_fail(err, "creating a stream");
			host_close(&dev->base);
			return err;
		}
	}
	*device = &dev->base;
	return 0;
}

/* A pool that leaves every request to the driver is, on the host backend, the model of the driver's allocator. */
static int host_async(struct device *base, struct allocator **allocator)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .page_size = SIZE_MAX };

	(void)base;
	return allocator_vpmm_create(&opts, allocator);
}

static int host_malloc_alloc(struct allocator *base, void **ptr, size_t size, struct CUstream_st *stream)
{
	struct host_malloc *a = (struct host_malloc *)base;
	size_t taken = (size + GRANULE - 1) & ~(GRANULE - 1);
	void *memory;
	int err;

	(void)stream;
	if (!size) {
		*ptr = NULL;
		return 0;
	}
	if (taken > a->capacity - a->ledger.taken)
		return fail_set(-ENOMEM, "%zu bytes are more than the %" PRIu64 " left of the device's %"
				PRIu64, taken, (uint64_t)(a->capacity - a->ledger.taken),
				(uint64_t)a->capacity);
	err = map_memory(&memory, taken);
	if (err)
		return err;
	ledger_malloc(&a->ledger, memory, taken);
	*ptr = memory;
	return 0;
}

/* As cuMemFree does, it waits for all streams. */
static int host_malloc_free(struct allocator *base, void *ptr, struct CUstream_st *stream)
{
	struct host_malloc *a = (struct host_malloc *)base;
	size_t taken;
	int err;

	(void)stream;
	if (!ptr)
		return 0;
	taken = ledger_taken(&a->ledger, ptr);
	if (!taken)
		return fail_set(-EINVAL, "%p is not allocated", ptr);
	err = host_synchronize(&a->dev->base);
	if (err)
		return err;
	ledger_free(&a->ledger, ptr);
	munmap(ptr, taken);
	return 0;
}

static const struct allocator_ops host_malloc_ops = {
	.alloc = host_malloc_alloc,
	.free = host_malloc_free,
	.stats = ledger_stats,
	.error = fail_text,
	.destroy = ledger_destroy,
};

/* The device's capacity is the library's to say. */
static int host_capacity(uint64_t *capacity)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .page_size = SIZE_MAX };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_pool *pool;
	int err;

	err = vpmm_pool_create(&pool, &opts);
	if (err)
		return fail_set(err, "%s", vpmm_last_error());
	err = vpmm_pool_info(pool, &info);
	if (err)
		fail_set(err, "%s", vpmm_last_error());
	else
		*capacity = info.memory_total;
	vpmm_pool_destroy(pool);
	return err;
}

static int host_malloc(struct device *base, struct allocator **allocator)
{
	struct host_malloc *a;
	uint64_t capacity;
	int err;

	err = host_capacity(&capacity);
	if (err)
		return err;
	a = g_new0(struct host_malloc, 1);
	ledger_init(&a->ledger, &host_malloc_ops);
	a->dev = host_of(base);
	a->capacity = capacity;
	*allocator = &a->ledger.base;
	return 0;
}

const struct device_ops device_host = {
	.open = host_open,
	.attach = host_attach,
	.close = host_close,
	.advance = host_advance,
	.wait = host_wait,
	.born = host_born,
	.dying = host_dying,
	.host_alloc = host_host_alloc,
	.host_free = host_host_free,
	.to_device = host_copy,
	.to_host = host_copy,
	.capture_begin = host_capture_begin,
	.capture_end = host_capture_end,
	.graph_destroy = host_graph_destroy,
	.synchronize = host_synchronize,
	.settle = host_settle,
	.damaged = host_damaged,
	.async = host_async,
	.malloc = host_malloc,
};
