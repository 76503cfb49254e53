// SPDX-License-Identifier: LGPL-2.1-or-later
/* Graphs with allocations inside, captured, launched and let go beside the work of other streams. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu-bench.h"

#define LAUNCHES 1000
#define SLOTS 16

/* What a byte of memset() makes of a word. */
#define BYTES(value) (0x0101010101010101u * (uint64_t)(value))

/* A graph that makes one pattern out of another: the output's seed is the input's with a word in it. */
struct chain {
	struct bench *b;
	size_t size;
	void *in;
	void *out;
	uint64_t word;
	uint64_t id;
	drv_graph graph;
	drv_graph_exec exec;
};

static const struct kind {
	const char *name;
	size_t size;
} kinds[] = {
	{ "small", 24000 },
	{ "page", PAGE },
	{ "large", 20 * PAGE - 4096 },
};

static void *get(struct bench *b, size_t size, drv_stream stream)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc(b->f.pool, &ptr, size, stream));
	g_assert_nonnull(ptr);
	return ptr;
}

static void follow(drv_stream stream, drv_stream other, drv_event event)
{
	gpu_ok(cu.cuEventRecord(event, other));
	gpu_ok(cu.cuStreamWaitEvent(stream, event, 0));
}

static drv_event event_new(void)
{
	drv_event event;

	gpu_ok(cu.cuEventCreate(&event, DRV_EVENT_DISABLE_TIMING));
	return event;
}

/* One step of the chain: a kernel that reads the step before and memory that was just set, which both go after that. */
static void *step(struct chain *chain, void *from, unsigned char value, drv_stream stream)
{
	struct vpmm_pool *pool = chain->b->f.pool;
	void *to = get(chain->b, chain->size, stream);
	void *set = get(chain->b, chain->size, stream);
	uint64_t word = value * 0xd1342543de82ef95u;

	gpu_ok(cu.cuMemsetD8Async((drv_deviceptr)set, value, chain->size, stream));
	gpu_mix(to, from, set, chain->size, word, stream);
	chain->word ^= word ^ BYTES(value);
	assert_ok(vpmm_free(pool, set, stream));
	if (from != chain->in)
		assert_ok(vpmm_free(pool, from, stream));
	return to;
}

static void *copy(struct chain *chain, void *from, drv_stream stream)
{
	void *to = get(chain->b, chain->size, stream);

	gpu_ok(cu.cuMemcpyDtoDAsync((drv_deviceptr)to, (drv_deviceptr)from, chain->size, stream));
	assert_ok(vpmm_free(chain->b->f.pool, from, stream));
	return to;
}

/* What another stream of the capture does meanwhile: memory in which all words are one. */
static void *branch(struct chain *chain, drv_stream stream)
{
	struct vpmm_pool *pool = chain->b->f.pool;
	void *a = get(chain->b, chain->size, stream);
	void *other = get(chain->b, chain->size, stream);
	void *same = get(chain->b, chain->size, stream);

	gpu_fill(a, chain->size, 17, stream);
	gpu_fill(other, chain->size, 4242, stream);
	gpu_mix(same, a, other, chain->size, 0, stream);
	chain->word ^= 17 ^ 4242;
	assert_ok(vpmm_free(pool, a, stream));
	assert_ok(vpmm_free(pool, other, stream));
	return same;
}

static void *join(struct chain *chain, void *from, void *other, drv_stream stream)
{
	void *to = get(chain->b, chain->size, stream);

	gpu_mix(to, from, other, chain->size, 0, stream);
	assert_ok(vpmm_free(chain->b->f.pool, from, stream));
	assert_ok(vpmm_free(chain->b->f.pool, other, stream));
	return to;
}

/* @group: 0: in none */
static void chain_capture_in(struct chain *chain, struct bench *b, size_t size, uint64_t group)
{
	drv_event forked = event_new(), joined = event_new();
	void *at, *other;

	*chain = (struct chain){ .b = b, .size = size };
	chain->in = get(b, size, b->s[0]);
	gpu_ok(cu.cuStreamBeginCapture(b->s[0], DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_ok(vpmm_capture_id(b->f.pool, b->s[0], &chain->id));
	g_assert_cmpuint(chain->id, !=, 0);
	if (group)
		assert_ok(vpmm_capture_group(b->f.pool, chain->id, group));
	at = step(chain, chain->in, 1, b->s[0]);
	follow(b->s[1], b->s[0], forked);
	other = branch(chain, b->s[1]);
	at = step(chain, at, 2, b->s[0]);
	at = copy(chain, at, b->s[0]);
	follow(b->s[0], b->s[1], joined);
	at = join(chain, at, other, b->s[0]);
	chain->out = step(chain, at, 3, b->s[0]);
	gpu_ok(cu.cuStreamEndCapture(b->s[0], &chain->graph));
	g_assert_nonnull(chain->graph);
	gpu_ok(cu.cuGraphInstantiateWithFlags(&chain->exec, chain->graph, 0));
	gpu_ok(cu.cuEventDestroy(forked));
	gpu_ok(cu.cuEventDestroy(joined));
}

static void chain_capture(struct chain *chain, struct bench *b, size_t size)
{
	chain_capture_in(chain, b, size, 0);
}

/* Has an input of a seed of its own made, and the output of that checked. */
static void chain_launch(struct chain *chain, uint64_t seed, drv_stream stream)
{
	gpu_fill(chain->in, chain->size, seed, stream);
	gpu_ok(cu.cuGraphLaunch(chain->exec, stream));
	gpu_check(chain->out, chain->size, seed ^ chain->word, stream);
}

static void chain_destroy(struct chain *chain)
{
	gpu_ok(cu.cuGraphExecDestroy(chain->exec));
	gpu_ok(cu.cuGraphDestroy(chain->graph));
}

/* Somebody else, who allocates, fills, checks and frees all the time. */
struct traffic {
	struct bench *b;
	drv_context context;
	drv_stream stream;
	size_t size;
	guint32 seed;
	bool look;			/* asks the pool about itself, too */
	atomic_bool stop;
	atomic_uint rounds;
	GThread *thread;
};

static void look_at(struct vpmm_pool *pool)
{
	stats_of(pool);
	assert_ok(vpmm_pool_check(pool));
}

static void *run_traffic(void *data)
{
	struct traffic *traffic = data;
	GRand *rand = g_rand_new_with_seed(traffic->seed);
	struct vpmm_pool *pool = traffic->b->f.pool;
	struct slot slots[SLOTS] = { 0 };
	size_t i;

	gpu_ok(cu.cuCtxSetCurrent(traffic->context));
	while (!atomic_load(&traffic->stop)) {
		struct slot *slot = &slots[g_rand_int_range(rand, 0, SLOTS)];

		if (slot->ptr)
			give(pool, slot);
		else
			*slot = take(pool, traffic->size * (size_t)g_rand_int_range(rand, 1, 9) / 4, traffic->stream);
		if (atomic_fetch_add(&traffic->rounds, 1) % 64 == 0 && traffic->look)
			look_at(pool);
	}
	for (i = 0; i < SLOTS; i++)
		if (slots[i].ptr)
			give(pool, &slots[i]);
	g_rand_free(rand);
	return NULL;
}

static void traffic_start(struct traffic *traffic, struct bench *b, int stream, size_t size, bool look)
{
	*traffic = (struct traffic){ .b = b, .stream = b->s[stream], .size = size, .seed = (guint32)stream, .look = look };
	gpu_ok(cu.cuCtxGetCurrent(&traffic->context));
	traffic->thread = g_thread_new("traffic", run_traffic, traffic);
}

/* It has gone on for so many rounds more. */
static void traffic_await(struct traffic *traffic, unsigned int rounds)
{
	unsigned int before = atomic_load(&traffic->rounds);

	while (atomic_load(&traffic->rounds) - before < rounds)
		g_usleep(100);
}

static void traffic_stop(struct traffic *traffic)
{
	atomic_store(&traffic->stop, true);
	g_thread_join(traffic->thread);
}

/* The pool sees that streams are past what they were waited for when it is asked for something. */
static void assert_nothing_held(struct bench *b)
{
	size_t i;

	gpu_ok(cu.cuCtxSynchronize());
	for (i = 1; i <= 32 && stats_of(b->f.pool).held; i++)
		assert_ok(vpmm_free(b->f.pool, get(b, i * PAGE, b->s[3]), b->s[3]));
	g_assert_cmpuint(stats_of(b->f.pool).held, ==, 0);
}

static size_t pages(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE;
}

/* Two graphs of a group, launched in turn beside others, take what one takes, and what the second reads and leaves. */
static void test_group(gconstpointer data)
{
	const struct kind *kind = data;
	struct chain chains[2];
	struct traffic traffic;
	uint64_t mapped;
	drv_event turn;
	struct bench b;
	int i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	turn = event_new();
	chain_capture_in(&chains[0], &b, kind->size, 1);
	mapped = stats_of(b.f.pool).mapped;
	chain_capture_in(&chains[1], &b, kind->size, 1);
	g_assert_cmpuint(stats_of(b.f.pool).mapped, <=, mapped + 2 * pages(kind->size));
	traffic_start(&traffic, &b, 2, kind->size, true);
	for (i = 0; i < LAUNCHES; i++) {
		follow(b.s[i % 2], b.s[(i + 1) % 2], turn);
		chain_launch(&chains[i % 2], (uint64_t)i * 0x2545f4914f6cdd1du, b.s[i % 2]);
	}
	traffic_stop(&traffic);
	gpu_ok(cu.cuCtxSynchronize());
	for (i = 0; i < 2; i++) {
		g_assert_cmpuint(stats_of(b.f.pool).held, >=, kind->size);
		assert_ok(vpmm_free(b.f.pool, chains[i].in, b.s[0]));
		assert_ok(vpmm_free(b.f.pool, chains[i].out, b.s[0]));
		assert_ok(vpmm_graph_retire(b.f.pool, chains[i].id, b.s[0]));
		chain_destroy(&chains[i]);
	}
	gpu_ok(cu.cuEventDestroy(turn));
	assert_nothing_held(&b);
	close_bench(&b);
}

/* Launched on one stream and another in turn, beside others and between allocations on the same streams. */
static void test_replay(gconstpointer data)
{
	const struct kind *kind = data;
	GRand *rand = g_rand_new_with_seed(7);
	struct traffic traffic[2];
	struct chain chain;
	drv_event turn;
	struct bench b;
	int i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		goto free_rand;
	turn = event_new();
	for (i = 0; i < 2; i++)
		traffic_start(&traffic[i], &b, 2 + i, kind->size, false);
	chain_capture(&chain, &b, kind->size);
	for (i = 0; i < LAUNCHES; i++) {
		drv_stream stream = b.s[i % 2];
		struct slot slot;

		follow(stream, b.s[(i + 1) % 2], turn);
		slot = take(b.f.pool, kind->size * (size_t)g_rand_int_range(rand, 1, 9) / 4, stream);
		chain_launch(&chain, (uint64_t)i * 0x2545f4914f6cdd1du, stream);
		give(b.f.pool, &slot);
		if (i % 100 == 99)
			assert_ok(vpmm_pool_check(b.f.pool));
	}
	g_assert_cmpuint(stats_of(b.f.pool).held, >=, kind->size);
	for (i = 0; i < 2; i++) {
		g_assert_cmpuint(atomic_load(&traffic[i].rounds), >, 0);
		traffic_stop(&traffic[i]);
	}
	g_assert_cmpuint(gpu_wrong(), ==, 0);
	g_test_message("%d launches beside %u allocations and frees", LAUNCHES,
		       atomic_load(&traffic[0].rounds) + atomic_load(&traffic[1].rounds));

	gpu_ok(cu.cuEventDestroy(turn));
	chain_destroy(&chain);
	assert_ok(vpmm_graph_retire(b.f.pool, chain.id, b.s[1]));
	assert_ok(vpmm_free(b.f.pool, chain.out, b.s[1]));
	assert_ok(vpmm_free(b.f.pool, chain.in, b.s[1]));
	assert_nothing_held(&b);
	close_bench(&b);
free_rand:
	g_rand_free(rand);
}

/* While its last launch waits, another stream is given all that the graph had, and comes after it. */
static void test_retired_while_running(gconstpointer data)
{
	const struct kind *kind = data;
	struct slot slots[64];
	struct vpmm_stats before;
	struct chain chain;
	struct bench b;
	size_t i, n;

	if (!open_bench(&b, (struct vpmm_opts){ .overlap = VPMM_OVERLAP_NONE }))
		return;
	chain_capture(&chain, &b, kind->size);
	assert_ok(gpu_hold(b.s[0]));
	chain_launch(&chain, 99, b.s[0]);
	before = stats_of(b.f.pool);
	n = before.held / kind->size;
	g_assert_cmpuint(n, >=, 3);
	g_assert_cmpuint(n, <=, G_N_ELEMENTS(slots));

	assert_ok(vpmm_graph_retire(b.f.pool, chain.id, b.s[0]));
	g_assert_cmpuint(stats_of(b.f.pool).held, ==, 0);
	chain_destroy(&chain);
	for (i = 0; i < n; i++)
		slots[i] = take(b.f.pool, kind->size, b.s[2]);

	g_assert_true(gpu_busy(b.s[0]));
	g_assert_cmpuint(stats_of(b.f.pool).mapped, ==, before.mapped);
	g_assert_true(gpu_busy(b.s[2]));
	assert_ok(gpu_finish(b.s[0]));
	for (i = 0; i < n; i++)
		give(b.f.pool, &slots[i]);
	gpu_check(chain.out, chain.size, 99 ^ chain.word, b.s[0]);
	assert_ok(vpmm_free(b.f.pool, chain.out, b.s[0]));
	assert_ok(vpmm_free(b.f.pool, chain.in, b.s[0]));
	close_bench(&b);
}

/* What was there before and is freed in the capture stays with the graph, and so does what is freed after it. */
static void test_from_before(gconstpointer data)
{
	const struct kind *kind = data;
	struct slot freed, slots[SLOTS];
	struct bench b;
	drv_graph_exec exec;
	drv_graph graph;
	void *result;
	uint64_t id;
	size_t i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	freed = take(b.f.pool, kind->size, b.s[0]);
	gpu_ok(cu.cuStreamBeginCapture(b.s[0], DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_ok(vpmm_capture_id(b.f.pool, b.s[0], &id));
	gpu_check(freed.ptr, freed.size, freed.seed, b.s[0]);
	assert_ok(vpmm_free(b.f.pool, freed.ptr, b.s[0]));
	result = get(&b, kind->size, b.s[0]);
	gpu_fill(result, kind->size, 5, b.s[0]);
	gpu_ok(cu.cuStreamEndCapture(b.s[0], &graph));
	assert_ok(vpmm_free(b.f.pool, result, b.s[1]));
	gpu_ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (i = 0; i < SLOTS; i++) {
		slots[i] = take(b.f.pool, kind->size, b.s[i % STREAMS]);
		g_assert_true(slots[i].ptr != freed.ptr && slots[i].ptr != result);
	}
	gpu_ok(cu.cuGraphLaunch(exec, b.s[0]));
	for (i = 0; i < SLOTS; i++)
		give(b.f.pool, &slots[i]);
	gpu_ok(cu.cuGraphExecDestroy(exec));
	gpu_ok(cu.cuGraphDestroy(graph));
	assert_ok(vpmm_graph_retire(b.f.pool, id, b.s[0]));
	assert_nothing_held(&b);
	close_bench(&b);
}

/* Everything that the thread which captures can ask of the pool, on the captured stream and on another. */
static void ask_everything(struct bench *b, uint64_t id, void *before)
{
	struct vpmm_stats stats = stats_of(b->f.pool);
	uint64_t again = 0, none = 1;
	struct slot outside;
	void *large, *ptr;
	char *text;
	int i;

	large = get(b, stats.mapped + 64 * PAGE, b->s[0]);
	g_assert_cmpuint(stats_of(b->f.pool).grows, >, stats.grows);
	gpu_fill(large, 64 * PAGE, 1, b->s[0]);
	assert_ok(vpmm_use(b->f.pool, large, b->s[1]));
	assert_ok(vpmm_use(b->f.pool, before, b->s[0]));
	for (i = 1; i < 32; i++) {
		ptr = get(b, i % 2 ? 1000 * (size_t)i : (size_t)i * PAGE, b->s[0]);
		gpu_ok(cu.cuMemsetD8Async((drv_deviceptr)ptr, (unsigned char)i, 1000, b->s[0]));
		assert_ok(vpmm_free(b->f.pool, ptr, b->s[0]));
		outside = take(b->f.pool, i % 2 ? (size_t)i * PAGE : 1000 * (size_t)i, b->s[1]);
		give(b->f.pool, &outside);
		look_at(b->f.pool);
	}
	assert_ok(vpmm_capture_id(b->f.pool, b->s[0], &again));
	g_assert_cmpuint(again, ==, id);
	assert_ok(vpmm_capture_id(b->f.pool, b->s[1], &none));
	g_assert_cmpuint(none, ==, 0);
	text = fixture_dump(&b->f);
	g_assert_cmpstr(text, !=, "");
	free(text);
	assert_error(vpmm_stream_retire(b->f.pool, b->s[0]), EBUSY, "vpmm_stream_retire");
	assert_ok(vpmm_stream_retire(b->f.pool, b->s[1]));
	assert_ok(vpmm_free(b->f.pool, large, b->s[0]));
	assert_ok(vpmm_free(b->f.pool, before, b->s[0]));
}

static const struct mode {
	const char *name;
	drv_capture_mode mode;
} modes[] = {
	{ "global", DRV_STREAM_CAPTURE_MODE_GLOBAL },
	{ "thread-local", DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL },
	{ "relaxed", DRV_STREAM_CAPTURE_MODE_RELAXED },
};

/* No call of the pool harms a capture, on this thread or another, whatever the driver forbids meanwhile. */
static void test_goes_on(gconstpointer data)
{
	const struct mode *mode = data;
	struct traffic traffic;
	drv_graph_exec exec;
	drv_graph graph;
	struct bench b;
	void *before;
	uint64_t id;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	before = get(&b, 3 * PAGE, b.s[0]);
	traffic_start(&traffic, &b, 2, PAGE, true);
	traffic_await(&traffic, 100);
	gpu_ok(cu.cuStreamBeginCapture(b.s[0], mode->mode));
	assert_ok(vpmm_capture_id(b.f.pool, b.s[0], &id));

	ask_everything(&b, id, before);
	traffic_await(&traffic, 1000);
	ask_everything(&b, id, get(&b, 3 * PAGE, b.s[1]));

	gpu_ok(cu.cuStreamEndCapture(b.s[0], &graph));
	g_assert_nonnull(graph);
	gpu_ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	gpu_ok(cu.cuGraphLaunch(exec, b.s[3]));
	traffic_await(&traffic, 100);
	traffic_stop(&traffic);
	gpu_ok(cu.cuGraphExecDestroy(exec));
	gpu_ok(cu.cuGraphDestroy(graph));
	assert_ok(vpmm_graph_retire(b.f.pool, id, b.s[3]));
	assert_nothing_held(&b);
	close_bench(&b);
}

/* A capture that is thrown away leaves nothing behind, nor does a pool that goes before its graph is retired. */
static void test_thrown_away(void)
{
	drv_graph graph;
	struct bench b;
	uint64_t id;
	int i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	for (i = 0; i < 2; i++) {
		gpu_ok(cu.cuStreamBeginCapture(b.s[0], DRV_STREAM_CAPTURE_MODE_GLOBAL));
		assert_ok(vpmm_capture_id(b.f.pool, b.s[0], &id));
		assert_ok(vpmm_free(b.f.pool, get(&b, 3 * PAGE, b.s[0]), b.s[0]));
		assert_ok(vpmm_free(b.f.pool, get(&b, 3000, b.s[0]), b.s[0]));
		gpu_ok(cu.cuStreamEndCapture(b.s[0], &graph));
		g_assert_cmpuint(stats_of(b.f.pool).held, >=, 3 * PAGE);
		if (!i)
			assert_ok(vpmm_graph_retire(b.f.pool, id, b.s[0]));
		if (graph)
			gpu_ok(cu.cuGraphDestroy(graph));
		if (!i)
			assert_nothing_held(&b);
	}
	close_bench(&b);
}

static void add(const char *name, size_t i, void (*test)(gconstpointer data))
{
	char *path = g_strdup_printf("/gpu/capture/%s/%s", name, kinds[i].name);

	g_test_add_data_func(path, &kinds[i], test);
	g_free(path);
}

void gpu_capture_tests(void)
{
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(kinds); i++) {
		add("replay", i, test_replay);
		add("from-before", i, test_from_before);
		/* What a graph has is no small memory where the driver serves that. */
		if (kinds[i].size >= PAGE)
			add("retired-while-running", i, test_retired_while_running);
		if (kinds[i].size >= PAGE)
			add("group", i, test_group);
	}
	for (i = 0; i < G_N_ELEMENTS(modes); i++) {
		char *path = g_strdup_printf("/gpu/capture/goes-on/%s", modes[i].name);

		g_test_add_data_func(path, &modes[i], test_goes_on);
		g_free(path);
	}
	g_test_add_func("/gpu/capture/thrown-away", test_thrown_away);
}
