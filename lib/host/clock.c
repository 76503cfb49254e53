// SPDX-License-Identifier: LGPL-2.1-or-later
/* The virtual clock: which timed work runs when. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>

#include "host/clock.h"
#include "host/device.h"
#include "util/error.h"

/* Of the streams as well, which call the clock. */
struct lock host_streams_lock = LOCK_INIT(LOCK_HOST_STREAMS);

struct engine {
	GTree *ready;			/* pieces of work that wait for a slot, by struct item's at and number */
	uint64_t pending;		/* pieces in queues, ready and running ones included */
	unsigned int slots;
	unsigned int busy;
	bool changed;			/* in the list of engines that may have a slot for a ready piece */
	struct engine *next_changed;
};

static struct engine engines[HOST_DEVICES_MAX][HOST_ENGINES] GUARDED_BY(host_streams_lock);
static struct engine *changed_engines GUARDED_BY(host_streams_lock);
/* What the engines perform, the next completion first. */
static GTree *running GUARDED_BY(host_streams_lock);
static uint64_t now GUARDED_BY(host_streams_lock);
static uint64_t last_number GUARDED_BY(host_streams_lock);
/* The sum of all durations in queues: the clock never has to move further than this to complete all of them. */
static uint64_t pending_ns GUARDED_BY(host_streams_lock);

static gint compare_items(gconstpointer left, gconstpointer right)
{
	const struct item *a = left, *b = right;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

static struct item *first_item(GTree *tree)
{
	GTreeNode *node = g_tree_node_first(tree);

	return node ? g_tree_node_value(node) : NULL;
}

REQUIRES(host_streams_lock)
static struct engine *engine_of(int device, enum vpmm_host_engine engine)
{
	struct engine *found = &engines[device][engine];

	if (!found->ready) {
		found->ready = g_tree_new(compare_items);
		found->slots = 1;
	}
	if (!running)
		running = g_tree_new(compare_items);
	return found;
}

REQUIRES(host_streams_lock)
static void engine_changed(struct engine *engine)
{
	if (engine->changed)
		return;
	engine->changed = true;
	engine->next_changed = changed_engines;
	changed_engines = engine;
}

uint64_t host_clock_now(void)
{
	lock_assert_held(&host_streams_lock);
	return now;
}

int host_clock_room(uint64_t ns)
{
	lock_assert_held(&host_streams_lock);
	if (ns <= UINT64_MAX - now - pending_ns)
		return 0;
	return error_set(-EINVAL, "%" PRIu64 " ns are more than the clock can count: it is at %"
			 PRIu64 " ns, and pending work takes up to %" PRIu64 " ns", ns, now,
			 pending_ns);
}

void host_clock_kernels(int device, unsigned int n)
{
	struct engine *engine = engine_of(device, VPMM_HOST_COMPUTE);

	lock_assert_held(&host_streams_lock);
	if (!engine->pending)
		engine->slots = n;
}

void host_clock_add(struct CUstream_st *stream, struct item *item)
{
	lock_assert_held(&host_streams_lock);
	item->stream = stream;
	item->number = ++last_number;
	pending_ns += item->task.ns;
	engine_of(stream->device, item->task.engine)->pending++;
}

void host_clock_ready(struct CUstream_st *stream)
{
	struct item *item = stream->head;
	struct engine *engine = engine_of(stream->device, item->task.engine);

	lock_assert_held(&host_streams_lock);
	item->at = now;
	g_tree_insert(engine->ready, item, item);
	engine_changed(engine);
}

REQUIRES(host_streams_lock)
static void start_ready(void)
{
	struct engine *engine;
	struct item *item;

	while ((engine = changed_engines)) {
		changed_engines = engine->next_changed;
		engine->changed = false;
		while (engine->busy < engine->slots && (item = first_item(engine->ready))) {
			g_tree_remove(engine->ready, item);
			item->at = now + item->task.ns;
			g_tree_insert(running, item, item);
			engine->busy++;
		}
	}
}

bool host_clock_move(uint64_t limit)
{
	struct item *item;

	lock_assert_held(&host_streams_lock);
	if (!running)
		return false;
	start_ready();
	item = first_item(running);
	if (!item || item->at > limit)
		return false;
	now = item->at;
	return true;
}

struct CUstream_st *host_clock_take(void)
{
	struct item *item = first_item(running);
	struct engine *engine;

	lock_assert_held(&host_streams_lock);
	if (!item || item->at != now)
		return NULL;
	g_tree_remove(running, item);
	engine = engine_of(item->stream->device, item->task.engine);
	engine->busy--;
	engine->pending--;
	engine_changed(engine);
	pending_ns -= item->task.ns;
	return item->stream;
}

void host_clock_reach(uint64_t time)
{
	lock_assert_held(&host_streams_lock);
	now = MAX(now, time);
}
