// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/stats.h"
#include "calls/tags.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/error.h"
#include "util/held.h"
#include "util/lock.h"
#include "util/tag.h"
#include "util/top-page.h"

/* How often the page is written. */
#define PERIOD_NS UINT64_C(250000000)

static struct lock top_lock = LOCK_INIT(LOCK_TOP);

/*
 * All under top_lock. Once there are a page and a thread they stay: it sleeps while there is no pool. A forked child
 * of a process that has no pool any more has neither.
 */
static struct {
	struct vpmm_pool *pools[TOP_POOLS];
	uint64_t numbers[TOP_POOLS];
	uint64_t last;
	unsigned int count;
	struct top_page *page;
	struct top_pool next[TOP_POOLS];
	int fd;
	pid_t pid;
	pthread_cond_t wake;
} top;

static void add_stats(struct vpmm_pool *pool, struct vpmm_stats *total)
{
	struct vpmm_stats part = { .size = sizeof(part) };

	lock_acquire(&pool->core.lock);
	stats_count(pool, &part, pool->core.small_live);
	lock_release(&pool->core.lock);
	stats_add_arena(total, &part);
}

static void publish_tags(struct tags *tags, struct top_pool *out)
{
	struct tag_counts counts;
	struct top_tag *at;

	out->tag_count = 0;
	for (vpmm_tag tag = 1; tags && tag <= tag_count() && out->tag_count < TOP_TAGS; tag++) {
		tags_read(tags, tag, &counts);
		if (!counts.peak_live)
			continue;
		at = &out->tags[out->tag_count++];
		g_strlcpy(at->name, tag_name(tag), sizeof(at->name));
		at->live = counts.live;
		at->requested = counts.requested;
		at->blocks = counts.blocks;
		at->peak_live = counts.peak_live;
	}
}

/* Arenas are a part of their pool, and last as long. */
static void publish_pool(struct vpmm_pool *pool, uint64_t number, struct top_pool *out)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct tags *tags = pool_tags(pool);

	add_stats(pool, &stats);
	for_each_arena(arena, tags)
		add_stats(arena, &stats);
	stats_sample_peaks(tags, &stats);
	lock_acquire(&pool->core.lock);
	out->limit = pool->core.extents.limit;
	lock_release(&pool->core.lock);
	out->number = number;
	out->device = pool->core.device;
	g_strlcpy(out->backend, pool->core.ops->name, sizeof(out->backend));
	out->taken = stats.mapped + stats.small_mapped + stats.shareable + stats.shared;
	out->live = stats.live;
	out->requested = stats.requested;
	out->stranded = stats.stuck;
	out->peak_taken = stats.peak_taken;
	out->peak_requested = stats.peak_requested;
	out->mallocs = stats.mallocs;
	out->frees = stats.frees;
	out->waits = stats.waits;
	out->waits_sampled = stats.waits_sampled;
	out->wait_ns = stats.wait_ns;
	out->driver_ns = stats.driver_ns;
	publish_tags(tags, out);
}

/*
 * Others see the odd number before anything that is written after this. The load sees to that: an exchange alone is a
 * load and a store, and on AArch64 later stores can become visible between the two.
 */
static void begin_writing(struct top_page *page)
{
	atomic_fetch_add(&page->sequence, 1);
	(void)atomic_load(&page->sequence);
}

REQUIRES(top_lock)
static void publish_all(void)
{
	struct top_page *page = top.page;

	/* Pools are read first: a call may hold a pool's lock for long, and readers wait while the page is written. */
	for (unsigned int i = 0; i < top.count; i++)
		publish_pool(top.pools[i], top.numbers[i], &top.next[i]);
	begin_writing(page);
	memcpy(page->pools, top.next, top.count * sizeof(*top.next));
	page->count = top.count;
	page->updated_ns = clock_ns();
	atomic_fetch_add(&page->sequence, 1);
}

REQUIRES(top_lock)
static void await_next(void)
{
	if (top.count)
		lock_wait_until(&top_lock, &top.wake, clock_ns() + PERIOD_NS);
	else
		lock_wait(&top_lock, &top.wake);
}

static void *run(void *data)
{
	pthread_setname_np(pthread_self(), "vpmm-top");
	lock_acquire(&top_lock);
	for (;;) {
		publish_all();
		await_next();
	}
	return data;
}

REQUIRES(top_lock)
static int make_page(void)
{
	struct top_page *page = MAP_FAILED;

	top.fd = descriptor_raise(memfd_create(TOP_NAME, MFD_CLOEXEC));
	if (top.fd >= 0 && descriptor_may_have(top.fd, sizeof(*page)) && !ftruncate(top.fd, sizeof(*page)))
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, top.fd, 0);
	if (page == MAP_FAILED) {
		error_set(-ENOMEM, "top (VPMM_TOP): no memory that others can see: %s", g_strerror(errno));
		if (top.fd >= 0)
			close(top.fd);
		return -ENOMEM;
	}
	page->pid = (uint32_t)top.pid;
	page->magic = TOP_MAGIC;
	top.page = page;
	return 0;
}

REQUIRES(top_lock)
static void drop_page(void)
{
	if (!top.page)
		return;
	munmap(top.page, sizeof(*top.page));
	close(top.fd);
	top.page = NULL;
}

REQUIRES(top_lock)
static int start_publisher(void)
{
	pthread_t thread;
	int err;

	lock_init_condition(&top.wake);
	err = held_thread(&thread, run, NULL);
	if (err)
		return error_set(-ENOMEM, "top (VPMM_TOP): no thread to publish the pool: %s", g_strerror(err));
	pthread_detach(thread);
	return 0;
}

REQUIRES(top_lock)
static int begin_writer(void)
{
	int err;

	if (top.page && top.pid == getpid())
		return 0;
	drop_page();
	top.pid = getpid();
	top.count = 0;
	err = make_page();
	if (!err)
		err = start_publisher();
	if (err)
		drop_page();
	return err;
}

int top_join(struct vpmm_pool *pool)
{
	int err;

	lock_acquire(&top_lock);
	err = begin_writer();
	if (!err && top.count < TOP_POOLS) {
		top.numbers[top.count] = ++top.last;
		top.pools[top.count++] = pool;
		pthread_cond_signal(&top.wake);
	}
	lock_release(&top_lock);
	return err;
}

void top_leave(struct vpmm_pool *pool)
{
	unsigned int i = 0;

	if (!pool->core.settings.top)
		return;
	lock_acquire(&top_lock);
	while (i < top.count && top.pools[i] != pool)
		i++;
	if (i < top.count) {
		top.count--;
		memmove(&top.pools[i], &top.pools[i + 1], (top.count - i) * sizeof(top.pools[0]));
		memmove(&top.numbers[i], &top.numbers[i + 1], (top.count - i) * sizeof(top.numbers[0]));
		pthread_cond_signal(&top.wake);
	}
	lock_release(&top_lock);
}

void top_forked(void)
{
	lock_init(&top_lock, LOCK_TOP);
}
