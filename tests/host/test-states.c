// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The states of a block as a program can tell them apart, and what each event makes of each: one table, and one loop
 * that tries every cell of it in a pool of its own. lib/README has the states as the library keeps them.
 *
 * Stream 0 is the one that the block is allocated for, stream 1 uses it too, stream 2 frees it in place of stream 0,
 * and stream 3 never has anything to do with it. All work is pending until everything completes.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum state {
	LIVE,		/* allocated; stream 0 works on it */
	USED,		/* the same, and vpmm_use() has named stream 1, which works on it too */
	GRAPH,		/* allocated in a capture of stream 0 that goes on */
	CACHED,		/* freed on stream 0, which alone can have it: no event tells the others when it is done */
	FREED,		/* freed on stream 2; the others can have it behind an event that is pending */
	JOINED,		/* freed after vpmm_use(); any stream can have it behind the events of both streams */
	HELD,		/* the same of what the driver's allocator has: nobody can have it before both are done */
	KEPT,		/* freed in the capture: only that can have it before the graph is retired */
	FREE,		/* freed, and everybody is done: any stream can have it */
	GONE,		/* given back to the device */
	STATES,

	/* What else a cell can say. */
	SAME = STATES,	/* the state stays */
	NO,		/* it stays, and the call fails with EINVAL: there is no such allocation */
	ANY,		/* that is for the policy to choose */

	/* Where the driver's allocator serves the block: freed to that, which alone knows who can have it. */
	RETURNED,
};

enum event {
	FREES_0,	/* vpmm_free() on stream 0 */
	FREES_2,	/* vpmm_free() on stream 2, which waits for stream 0; a capture ends first */
	USES_1,		/* vpmm_use() by stream 1, which works on it */
	TRIMS,		/* vpmm_pool_trim() to nothing */
	RETIRES_0,	/* vpmm_stream_retire() of stream 0; a capture ends first */
	RETIRES_1,	/* vpmm_stream_retire() of stream 1 */
	COMPLETES,	/* all work completes, and stream 3 calls the pool */
	ENDS,		/* the capture ends, and its graph is destroyed */
	GRAPH_GOES,	/* the same, and vpmm_graph_retire() */
	MALLOCS_0,	/* vpmm_malloc() of as much for stream 0 */
	MALLOCS_3,	/* vpmm_malloc() of as much for stream 3 */
	EVENTS,
};

static const enum state next[STATES][EVENTS] = {
	/*                                               retires          comp-           graph  mallocs
	             frees 0  frees 2  uses 1  trims  0      1      letes   ends    goes   0      3 */
	[LIVE]   = { CACHED,  FREED,   USED,   SAME,  SAME,  SAME,  SAME,   SAME,   SAME,  SAME,  SAME },
	[USED]   = { JOINED,  JOINED,  SAME,   SAME,  SAME,  SAME,  SAME,   SAME,   SAME,  SAME,  SAME },
	[GRAPH]  = { KEPT,    KEPT,    SAME,   SAME,  SAME,  SAME,  SAME,   SAME,   LIVE,  SAME,  SAME },
	[CACHED] = { NO,      NO,      NO,     SAME,  FREED, SAME,  SAME,   SAME,   SAME,  LIVE,  SAME },
	[FREED]  = { NO,      NO,      NO,     SAME,  SAME,  SAME,  FREE,   SAME,   SAME,  ANY,   ANY },
	[JOINED] = { NO,      NO,      NO,     SAME,  SAME,  SAME,  FREE,   SAME,   SAME,  ANY,   ANY },
	[HELD]   = { NO,      NO,      NO,     SAME,  SAME,  SAME,  FREE,   SAME,   SAME,  SAME,  SAME },
	[KEPT]   = { NO,      NO,      NO,     SAME,  SAME,  SAME,  SAME,   SAME,   FREE,  GRAPH, SAME },
	[FREE]   = { NO,      NO,      NO,     GONE,  SAME,  SAME,  SAME,   SAME,   SAME,  LIVE,  LIVE },
	[GONE]   = { NO,      NO,      NO,     SAME,  SAME,  SAME,  SAME,   SAME,   SAME,  ANY,   ANY },
};

static const char *const state_names[] = {
	[LIVE] = "live", [USED] = "used", [GRAPH] = "graph", [CACHED] = "cached", [FREED] = "freed",
	[JOINED] = "joined", [HELD] = "held", [KEPT] = "kept", [FREE] = "free", [GONE] = "gone",
	[RETURNED] = "returned",
};

static const char *const event_names[] = {
	[FREES_0] = "frees-0", [FREES_2] = "frees-2", [USES_1] = "uses-1", [TRIMS] = "trims", [RETIRES_0] = "retires-0",
	[RETIRES_1] = "retires-1", [COMPLETES] = "completes", [ENDS] = "ends", [GRAPH_GOES] = "graph-goes",
	[MALLOCS_0] = "mallocs-0", [MALLOCS_3] = "mallocs-3",
};

/* Each kind of pool, and each way of it to serve a request. */
static const struct kind {
	const char *name;
	struct vpmm_opts opts;
	size_t size;
	bool caches;		/* streams keep what they free to themselves */
	bool driver;		/* the driver's allocator serves the request */
} kinds[] = {
	{ "packed", { FIXTURE_PACKED }, 2 * PAGE, .caches = true },
	{ "slab", { FIXTURE_PACKED }, 100 * 1024, .caches = true },
	{ "paged", { FIXTURE_OPTS }, 2 * PAGE },
	{ "driver", { FIXTURE_OPTS }, 100 * 1024, .driver = true },
};

struct block {
	struct fixture f;
	const struct kind *kind;
	void *ptr;
	bool capturing;
	uint64_t graph;
};

static void work(struct block *b, int stream)
{
	assert_ok(vpmm_host_stream_submit(b->f.streams[stream]));
}

static void end_capture(struct block *b)
{
	struct vpmm_host_graph *graph;

	if (!b->capturing)
		return;
	assert_ok(vpmm_host_capture_end(b->f.streams[0], &graph));
	fixture_keep_graph(graph);
	b->capturing = false;
}

/*
 * Completes the work of all streams but one, if that is one. The pool looks at what is done when somebody asks for
 * something; a question changes nothing else.
 */
static void complete_but(struct block *b, int but)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };

	for (int i = b->capturing ? 1 : 0; i < STREAMS; i++) {
		if (i != but)
			fixture_complete(b->f.streams[i]);
	}
	assert_ok(vpmm_pool_query(b->f.pool, 1, b->f.streams[3], &forecast));
}

static void complete(struct block *b)
{
	complete_but(b, STREAMS);
}

static int happen(struct block *b, enum event event)
{
	struct CUstream_st **s = b->f.streams;
	struct vpmm_pool *pool = b->f.pool;
	void *other;

	if (event == FREES_2 || event == RETIRES_0 || event == ENDS || event == GRAPH_GOES)
		end_capture(b);
	switch (event) {
	case FREES_0:
		return vpmm_free(pool, b->ptr, s[0]);
	case FREES_2:
		assert_ok(vpmm_host_stream_wait(s[2], s[0]));
		return vpmm_free(pool, b->ptr, s[2]);
	case USES_1:
		work(b, 1);
		return vpmm_use(pool, b->ptr, s[1]);
	case TRIMS:
		return vpmm_pool_trim(pool, 0, NULL);
	case RETIRES_0:
		return vpmm_stream_retire(pool, s[0]);
	case RETIRES_1:
		return vpmm_stream_retire(pool, s[1]);
	case COMPLETES:
		complete(b);
		return 0;
	case GRAPH_GOES:
		return b->graph ? vpmm_graph_retire(pool, b->graph, s[3]) : 0;
	case MALLOCS_0:
		return vpmm_malloc(pool, &other, b->kind->size, s[0]);
	case MALLOCS_3:
		return vpmm_malloc(pool, &other, b->kind->size, s[3]);
	default:
		return 0;
	}
}

/* What has to happen to a block that was just allocated, in a capture where the state is one of a graph's. */
static void make(struct block *b, enum state state)
{
	static const enum event ways[STATES][4] = {
		[LIVE] = { EVENTS },
		[USED] = { USES_1, EVENTS },
		[GRAPH] = { EVENTS },
		[CACHED] = { FREES_0, EVENTS },
		[FREED] = { FREES_2, EVENTS },
		[JOINED] = { USES_1, FREES_0, EVENTS },
		[HELD] = { USES_1, FREES_0, EVENTS },
		[KEPT] = { FREES_0, EVENTS },
		[FREE] = { FREES_2, COMPLETES, EVENTS },
		[GONE] = { FREES_2, COMPLETES, TRIMS, EVENTS },
	};

	if (state == GRAPH || state == KEPT) {
		assert_ok(vpmm_host_capture_begin(b->f.streams[0]));
		assert_ok(vpmm_capture_id(b->f.pool, b->f.streams[0], &b->graph));
		b->capturing = true;
	}
	b->ptr = fixture_malloc_bytes(&b->f, b->kind->size, b->f.streams[0]);
	if (!b->capturing)
		work(b, 0);
	for (const enum event *way = ways[state]; *way != EVENTS; way++)
		assert_ok(happen(b, *way));
}

/*
 * What a dump calls the memory where the block is or was: "malloc", "free" and so on; "", where it has none. Returns
 * whether somebody has to be waited for.
 */
static bool look_up(struct block *b, char kind[16])
{
	uintptr_t at = (uintptr_t)b->ptr;
	char *text = fixture_dump(&b->f);
	bool pending = false;

	kind[0] = '\0';
	for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		unsigned long long addr;
		char found[16];
		size_t bytes;

		if (sscanf(line, "  0x%llx %zu %15s", &addr, &bytes, found) == 3 && at >= addr && at < addr + bytes) {
			memcpy(kind, found, sizeof(found));
			pending = strstr(line, "pending");
		}
	}
	free(text);
	return pending;
}

static bool is_held(struct block *b)
{
	return fixture_stats(&b->f).held > 0;
}

/* Of what is free: whether it cannot be given back yet. */
static bool is_awaited(struct block *b)
{
	char kind[16];

	assert_ok(happen(b, TRIMS));
	look_up(b, kind);
	return !strcmp(kind, "free");
}

/* Of what is allocated: frees it, and finds out what that waits for. */
static enum state state_of_live(struct block *b)
{
	char kind[16];

	end_capture(b);
	work(b, 1);
	assert_ok(happen(b, FREES_0));
	if (is_held(b)) {
		complete(b);
		return is_held(b) ? GRAPH : USED;
	}
	if (b->kind->driver)
		return LIVE;
	assert_ok(happen(b, RETIRES_0));
	complete_but(b, 1);
	assert_ok(happen(b, TRIMS));
	return look_up(b, kind) ? USED : LIVE;
}

static enum state state_of_allocated(struct block *b)
{
	if (!is_held(b))
		return state_of_live(b);
	complete(b);
	return is_held(b) ? KEPT : HELD;
}

/* Of what is free: whether it can be given back, at once or when others are done. */
static enum state state_of_free(struct block *b)
{
	if (!is_awaited(b))
		return FREE;
	complete_but(b, 1);
	if (!is_awaited(b))
		return FREED;
	complete(b);
	return is_awaited(b) ? CACHED : JOINED;
}

/* Finds out, whatever becomes of the block by that. */
static enum state state_of(struct block *b)
{
	char kind[16];

	if (b->kind->driver)
		return fixture_stats(&b->f).small_live ? state_of_allocated(b) : RETURNED;
	look_up(b, kind);
	if (!strcmp(kind, "malloc"))
		return state_of_allocated(b);
	return strcmp(kind, "free") ? GONE : state_of_free(b);
}

/* Where streams have no caches, each free has an event; and memory of the driver's allocator is free there. */
static enum state state_in(const struct kind *kind, enum state state)
{
	if (kind->driver && state == JOINED)
		return HELD;
	if (kind->driver && (state == CACHED || state == FREED || state == FREE || state == GONE))
		return RETURNED;
	return state == CACHED && !kind->caches ? FREED : state;
}

/*
 * Under capture it is the pool that serves what the driver's allocator serves elsewhere. That allocator knows no
 * events, so what it has is held for users.
 */
static bool is_there(const struct kind *kind, enum state state)
{
	if (state == JOINED || state == HELD)
		return kind->driver == (state == HELD);
	return !kind->driver || (state != GRAPH && state != KEPT);
}

static enum state expected(const struct kind *kind, enum state from, enum event event)
{
	enum state row = state_in(kind, from);

	if (row != RETURNED)
		return next[row][event];
	/* What the driver's allocator does with what it has is its own matter. */
	return event == MALLOCS_0 || event == MALLOCS_3 ? ANY : next[from][event];
}

static void try_event(const struct kind *kind, enum state from, enum event event)
{
	enum state to = expected(kind, from, event), wanted, found;
	struct block b = { .kind = kind };

	fixture_open(&b.f, kind->opts);
	make(&b, from);
	g_assert_cmpint(happen(&b, event), ==, to == NO ? -EINVAL : 0);
	assert_ok(vpmm_pool_check(b.f.pool));
	if (to != ANY) {
		wanted = state_in(kind, to == NO || to == SAME ? from : to);
		found = state_of(&b);
		if (found != wanted)
			g_error("%s, %s: %s, expected %s", state_names[from], event_names[event], state_names[found],
				state_names[wanted]);
	}
	end_capture(&b);
	fixture_close(&b.f);
}

static void test_next(gconstpointer kind)
{
	for (enum state from = LIVE; from < STATES; from++) {
		for (enum event event = FREES_0; event < EVENTS && is_there(kind, from); event++)
			try_event(kind, from, event);
	}
}

/* The pool takes everything along that it has, in whatever state that is. */
static void test_destroyed(gconstpointer data)
{
	const struct kind *kind = data;

	for (enum state from = LIVE; from < STATES; from++) {
		struct block b = { .kind = kind };

		fixture_open(&b.f, kind->opts);
		make(&b, from);
		end_capture(&b);
		fixture_close(&b.f);
	}
}

/* Each state is found to be the one that was made, so no cell of the table holds because two of them look alike. */
static void test_made(gconstpointer data)
{
	const struct kind *kind = data;

	for (enum state state = LIVE; state < STATES; state++) {
		struct block b = { .kind = kind };

		if (!is_there(kind, state))
			continue;
		fixture_open(&b.f, kind->opts);
		make(&b, state);
		g_assert_cmpstr(state_names[state_of(&b)], ==, state_names[state_in(kind, state)]);
		end_capture(&b);
		fixture_close(&b.f);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/states/made", kinds, test_made);
	fixture_add_rows("/states/next", kinds, test_next);
	fixture_add_rows("/states/destroyed", kinds, test_destroyed);
	return g_test_run();
}
