// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Families of programs that a generator writes: the shapes that allocators meet, with sizes and order drawn at random.
 */
#include <glib.h>
#include <math.h>

#include "program.h"

#define KB ((size_t)1000)
#define MB (1000 * KB)

/* Allocations of one program, so that each takes some ten thousand operations. */
#define COUNT 5000

/* What is live, to draw from. */
struct set {
	GRand *rand;
	GArray *allocs;
	GArray *sizes;
	uint64_t bytes;
};

static void set_begin(struct set *set, uint32_t seed)
{
	set->rand = g_rand_new_with_seed(seed);
	set->allocs = g_array_new(FALSE, FALSE, sizeof(uint32_t));
	set->sizes = g_array_new(FALSE, FALSE, sizeof(size_t));
	set->bytes = 0;
}

static void set_end(struct set *set)
{
	g_array_free(set->allocs, TRUE);
	g_array_free(set->sizes, TRUE);
	g_rand_free(set->rand);
}

static size_t draw(struct set *set, size_t from, size_t to)
{
	return (size_t)g_rand_double_range(set->rand, (double)from, (double)to);
}

/* As many between 1 and 2 MB as between 100 and 200 MB. */
static size_t draw_log(struct set *set, size_t from, size_t to)
{
	return (size_t)exp(g_rand_double_range(set->rand, log((double)from), log((double)to)));
}

static guint pick(struct set *set)
{
	return (guint)g_rand_int_range(set->rand, 0, (gint32)set->allocs->len);
}

static void set_malloc(struct set *set, struct program *p, size_t bytes, uint32_t stream)
{
	uint32_t alloc = program_malloc(p, bytes, stream);

	g_array_append_val(set->allocs, alloc);
	g_array_append_val(set->sizes, bytes);
	set->bytes += bytes;
}

static void set_free(struct set *set, struct program *p, guint i, uint32_t stream)
{
	program_free(p, g_array_index(set->allocs, uint32_t, i), stream);
	set->bytes -= g_array_index(set->sizes, size_t, i);
	g_array_remove_index(set->allocs, i);
	g_array_remove_index(set->sizes, i);
}

static void set_free_all(struct set *set, struct program *p)
{
	while (set->allocs->len)
		set_free(set, p, set->allocs->len - 1, 0);
}

static uint32_t any_stream(struct set *set, uint32_t streams)
{
	return streams > 1 ? (uint32_t)g_rand_int_range(set->rand, 0, (gint32)streams) : 0;
}

/* Queue: the oldest goes when a new one comes. Each stream frees what it allocated, in turn. */
static void write_fifo(struct program *p, uint32_t seed, uint32_t streams)
{
	struct set set;

	set_begin(&set, seed);
	for (uint32_t i = 0; i < COUNT; i++) {
		size_t bytes = draw(&set, MB, 64 * MB);

		while (set.bytes + bytes > 4000 * MB)
			set_free(&set, p, 0, (i - set.allocs->len) % streams);
		set_malloc(&set, p, bytes, i % streams);
	}
	set_end(&set);
}

static void write_fifo_1(struct program *p, uint32_t seed)
{
	write_fifo(p, seed, 1);
}

static void write_fifo_4(struct program *p, uint32_t seed)
{
	write_fifo(p, seed, 4);
}

/* Stack: calls within calls. */
static void write_lifo(struct program *p, uint32_t seed)
{
	struct set set;

	set_begin(&set, seed);
	for (int i = 0; i < COUNT; i++) {
		guint depth = (guint)g_rand_int_range(set.rand, 0, 60);

		while (set.allocs->len > depth)
			set_free(&set, p, set.allocs->len - 1, 0);
		set_malloc(&set, p, draw_log(&set, 64 * KB, 128 * MB), 0);
	}
	set_end(&set);
}

/* Vectors that grow by half: the new one is there before the old one goes. */
static void write_vectors(struct program *p, uint32_t seed)
{
	struct set set;

	set_begin(&set, seed);
	for (int i = 0; i < 24; i++)
		set_malloc(&set, p, draw_log(&set, 64 * KB, 4 * MB), 0);
	for (int i = 0; i < COUNT / 2; i++) {
		guint v = pick(&set);
		size_t bytes = g_array_index(set.sizes, size_t, v) / 2 * 3;

		set_malloc(&set, p, bytes > 512 * MB ? draw_log(&set, 64 * KB, 4 * MB) : bytes, 0);
		set_free(&set, p, v, 0);
	}
	set_end(&set);
}

/* Sizes over many orders of magnitude, lifetimes at random, around a level that is held. */
static void write_log(struct program *p, uint32_t seed, size_t to, uint64_t level, uint32_t streams)
{
	GArray *homes = g_array_new(FALSE, FALSE, sizeof(uint32_t));
	struct set set;

	set_begin(&set, seed);
	for (int i = 0; i < COUNT; i++) {
		size_t bytes = draw_log(&set, 512, to);
		uint32_t stream = any_stream(&set, streams);

		while (set.allocs->len && set.bytes + bytes > level) {
			guint victim = pick(&set);

			set_free(&set, p, victim, g_array_index(homes, uint32_t, victim));
			g_array_remove_index(homes, victim);
		}
		set_malloc(&set, p, bytes, stream);
		g_array_append_val(homes, stream);
	}
	g_array_free(homes, TRUE);
	set_end(&set);
}

static void write_log_1(struct program *p, uint32_t seed)
{
	write_log(p, seed, 256 * MB, 4000 * MB, 1);
}

static void write_log_4(struct program *p, uint32_t seed)
{
	write_log(p, seed, 64 * MB, 2000 * MB, 4);
}

/* A fixed number of blocks, each replaced by one of another size. */
static void write_replaced(struct program *p, uint32_t seed)
{
	struct set set;

	set_begin(&set, seed);
	for (int i = 0; i < COUNT; i++) {
		if (set.allocs->len == 256)
			set_free(&set, p, pick(&set), 0);
		set_malloc(&set, p, draw(&set, 2 * MB, 32 * MB), 0);
	}
	set_end(&set);
}

static void write_mixed(struct program *p, uint32_t seed, size_t from, size_t to, guint many)
{
	struct set small, large;

	set_begin(&small, seed);
	set_begin(&large, seed + 1000);
	for (int i = 0; i < COUNT; i++) {
		if (i % 20 == 0) {
			if (large.allocs->len == 8)
				set_free(&large, p, pick(&large), 0);
			set_malloc(&large, p, draw(&large, 100 * MB, 800 * MB), 0);
		}
		if (small.allocs->len == many)
			set_free(&small, p, pick(&small), 0);
		set_malloc(&small, p, draw_log(&small, from, to), 0);
	}
	set_end(&small);
	set_end(&large);
}

static void write_small_large(struct program *p, uint32_t seed)
{
	write_mixed(p, seed, 512, 64 * KB, 2000);
}

static void write_middle_large(struct program *p, uint32_t seed)
{
	write_mixed(p, seed, 130 * KB, 600 * KB, 1000);
}

/* A little above what pages and extents are multiples of. */
static void write_odd(struct program *p, uint32_t seed)
{
	static const size_t above[] = { 2, 4, 32, 64 };
	struct set set;

	set_begin(&set, seed);
	for (int i = 0; i < COUNT; i++) {
		size_t bytes = (above[g_rand_int_range(set.rand, 0, 4)] << 20) + 512;

		while (set.bytes + bytes > 3000 * MB)
			set_free(&set, p, pick(&set), 0);
		set_malloc(&set, p, bytes, 0);
	}
	set_end(&set);
}

/* Each phase has larger blocks than the one before, of which a twentieth stays. */
static void write_phases(struct program *p, uint32_t seed)
{
	struct set set;

	set_begin(&set, seed);
	for (size_t size = MB; size <= 256 * MB; size *= 2) {
		for (int i = 0; i < COUNT / 10; i++) {
			size_t bytes = draw(&set, size, 2 * size);

			while (set.allocs->len && set.bytes + bytes > 4000 * MB)
				set_free(&set, p, pick(&set), 0);
			set_malloc(&set, p, bytes, 0);
		}
		for (guint n = set.allocs->len / 20; set.allocs->len > n;)
			set_free(&set, p, pick(&set), 0);
	}
	set_end(&set);
}

/* Every second block goes, and what comes then fits into none of the gaps. */
static void write_checkerboard(struct program *p, uint32_t seed)
{
	struct set set;

	set_begin(&set, seed);
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < 250; i++)
			set_malloc(&set, p, draw(&set, 3 * MB, 25 * MB), 0);
		for (guint i = 0; i < 125; i++)
			set_free(&set, p, i, 0);
		for (int i = 0; i < 20; i++)
			set_malloc(&set, p, 70 * MB, 0);
		set_free_all(&set, p);
	}
	set_end(&set);
}

/* What is small stays between large ones that go. */
static void write_keepers(struct program *p, uint32_t seed)
{
	struct set kept, gone;

	set_begin(&kept, seed);
	set_begin(&gone, seed + 1000);
	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < 40; i++) {
			set_malloc(&gone, p, draw(&gone, 8 * MB, 120 * MB), 0);
			set_malloc(&kept, p, draw_log(&kept, 64 * KB, 2 * MB), 0);
		}
		set_free_all(&gone, p);
		while (kept.allocs->len > 400)
			set_free(&kept, p, 0, 0);
	}
	set_end(&kept);
	set_end(&gone);
}

/* Requests whose blocks grow by a twelfth a step, and end at random: a key/value cache by concatenation. */
static void write_growing(struct program *p, uint32_t seed)
{
	struct set set;

	set_begin(&set, seed);
	for (int i = 0; i < 48; i++)
		set_malloc(&set, p, draw(&set, MB, 64 * MB), 0);
	for (int step = 0; step < 100; step++) {
		for (int i = 0; i < 48; i++) {
			size_t bytes = g_array_index(set.sizes, size_t, 0);
			bool ends = bytes > 64 * MB || g_rand_int_range(set.rand, 0, 60) == 0;

			set_malloc(&set, p, ends ? draw_log(&set, MB, 16 * MB) : bytes + bytes / 100 * 8, 0);
			set_free(&set, p, 0, 0);
		}
	}
	set_end(&set);
}

static void write_fill_empty(struct program *p, uint32_t seed)
{
	struct set set;

	set_begin(&set, seed);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < COUNT / 10; i++)
			set_malloc(&set, p, draw_log(&set, 256 * KB, 32 * MB), 0);
		while (set.allocs->len)
			set_free(&set, p, pick(&set), 0);
	}
	set_end(&set);
}

/* A pipeline: one stream fills buffers, others work on them and free them. */
static void write_handed_on(struct program *p, uint32_t seed)
{
	struct set set;

	set_begin(&set, seed);
	for (int i = 0; i < COUNT; i++) {
		size_t bytes = draw_log(&set, MB, 96 * MB);

		while (set.allocs->len > 12)
			set_free(&set, p, 0, 1 + any_stream(&set, 3));
		set_malloc(&set, p, bytes, any_stream(&set, 2));
	}
	set_end(&set);
}

#define LAYERS 60
#define BATCHES 6
#define EPOCHS 16

/*
 * A training program: bytes of each layer's weights, of its outputs for one sample, and of its workspaces for each batch,
 * forward and backward; the batches of an epoch; and the gradients there are.
 */
struct training {
	size_t weights[LAYERS];
	size_t outputs[LAYERS];
	size_t works[2][BATCHES][LAYERS];
	size_t samples[BATCHES];
	int batches[2 * BATCHES];
	uint32_t grads[LAYERS];
	bool stepped;
};

/* The workspace of a layer depends on the size of the batch, as libraries choose another algorithm for each. */
static void training_begin(struct training *t, struct set *set, struct program *p)
{
	*t = (struct training){ 0 };
	for (int i = 0; i < LAYERS; i++) {
		t->weights[i] = draw_log(set, 4 * KB, 16 * MB);
		t->outputs[i] = draw_log(set, 256 * KB, 4 * MB);
		program_malloc(p, t->weights[i], 0);
	}
	for (int batch = 0; batch < BATCHES; batch++) {
		t->samples[batch] = draw(set, 2, 9);
		for (int i = 0; i < LAYERS; i++) {
			t->works[0][batch][i] = t->samples[batch] * t->outputs[i] * draw(set, 1, 64) / 32;
			t->works[1][batch][i] = t->samples[batch] * t->outputs[i] * draw(set, 1, 64) / 32;
		}
	}
}

/* Gradients live until the next backward pass allocates them anew. */
static void training_step(struct training *t, struct program *p, int batch)
{
	size_t samples = t->samples[batch];
	uint32_t layers[LAYERS], delta = 0, last, work;

	for (int i = 0; i < LAYERS; i++) {
		work = program_malloc(p, t->works[0][batch][i], 0);
		layers[i] = program_malloc(p, samples * t->outputs[i], 0);
		program_free(p, work, 0);
	}
	for (int i = 0; t->stepped && i < LAYERS; i++)
		program_free(p, t->grads[i], 0);
	for (int i = LAYERS - 1; i >= 0; i--) {
		last = delta;
		delta = program_malloc(p, samples * t->outputs[i], 0);
		if (i < LAYERS - 1)
			program_free(p, last, 0);
		work = program_malloc(p, t->works[1][batch][i], 0);
		t->grads[i] = program_malloc(p, t->weights[i], 0);
		program_free(p, work, 0);
		program_free(p, layers[i], 0);
	}
	program_free(p, delta, 0);
	t->stepped = true;
}

/* Each batch comes twice in an epoch, in random order. */
static void training_epoch(struct training *t, struct set *set, struct program *p)
{
	for (int i = 0; i < 2 * BATCHES; i++)
		t->batches[i] = i / 2;
	for (int i = 2 * BATCHES - 1; i > 0; i--) {
		size_t other = draw(set, 0, (size_t)i + 1);
		int swapped = t->batches[i];

		t->batches[i] = t->batches[other];
		t->batches[other] = swapped;
	}
	for (int i = 0; i < 2 * BATCHES; i++)
		training_step(t, p, t->batches[i]);
}

/* Training for @epochs epochs. Each has all batches, in an order of its own. */
static void write_epochs(struct program *p, uint32_t seed, int epochs)
{
	struct training t;
	struct set set;

	set_begin(&set, seed);
	training_begin(&t, &set, p);
	for (int i = 0; i < epochs; i++)
		training_epoch(&t, &set, p);
	set_end(&set);
}

static void write_training(struct program *p, uint32_t seed)
{
	write_epochs(p, seed, 1);
}

static void write_shuffled(struct program *p, uint32_t seed)
{
	write_epochs(p, seed, EPOCHS);
}

const struct family families[] = {
	{ "first in first out", write_fifo_1 },
	{ "first in first out, 4 streams", write_fifo_4 },
	{ "last in first out", write_lifo },
	{ "vectors that grow by half", write_vectors },
	{ "log-uniform to 256 MB", write_log_1 },
	{ "log-uniform to 64 MB, 4 streams", write_log_4 },
	{ "256 blocks replaced at random", write_replaced },
	{ "many small, few large", write_small_large },
	{ "many of 130 to 600 KB, few large", write_middle_large },
	{ "512 B above 2, 4, 32, 64 MiB", write_odd },
	{ "phases of larger blocks", write_phases },
	{ "checkerboard, then large", write_checkerboard },
	{ "small keepers between large", write_keepers },
	{ "blocks that grow by 8 %", write_growing },
	{ "fill and empty at random", write_fill_empty },
	{ "streams that hand on", write_handed_on },
	{ "training in batches of six sizes", write_training },
	{ "training with shuffled batches", write_shuffled },
};
const size_t n_families = G_N_ELEMENTS(families);
