// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Families of programs whose streams overlap. The first three are those that were measured on an H100 with PyTorch, and
 * take about as long here: a copy of 55 GB/s, and kernels that are bound by 2.5 TB/s or by so many operations a second.
 */
#include <glib.h>

#include "overlap.h"

/* Nanoseconds a byte of copies between host and device, and of kernels that only move data. */
#define COPY_NS 0.0182
#define MOVE_NS 0.0004

#define MB 1e6

/* The size of a model's hidden state in prefetch and double: 4096 numbers of 4 or 2 bytes. */
#define ROW_4 (4096 * 4.0)
#define ROW_2 (4096 * 2.0)

/* Nanoseconds a row of a product by a matrix of 4096 by 4096. */
#define PRODUCT_NS 40.0

/* Blocks of one program; the last streams are of those that have several of a kind. */
enum { COMPUTE, IN, OUT, OTHERS };

struct batch {
	double rows;
	uint32_t block;
	uint32_t ready;
};

/* Does one thing after another on a stream that has to get there first. */
static void wait_for(struct overlap *p, uint32_t stream, uint32_t other)
{
	overlap_wait(p, stream, overlap_mark(p, other));
}

static uint32_t draw_count(struct overlap *p, uint32_t from, uint32_t to)
{
	return (uint32_t)overlap_draw(p, from, to + 1);
}

/* A kernel that writes a new block. */
static uint32_t kernel(struct overlap *p, uint32_t stream, double bytes, double ns)
{
	uint32_t block = overlap_malloc(p, bytes, stream);

	overlap_work(p, stream, VPMM_HOST_COMPUTE, ns);
	return block;
}

static uint32_t copy_in(struct overlap *p, double bytes)
{
	uint32_t block = overlap_malloc(p, bytes, IN);

	overlap_work(p, IN, VPMM_HOST_COPY_IN, bytes * COPY_NS);
	return block;
}

static struct batch fetch(struct overlap *p)
{
	struct batch batch = { .rows = draw_count(p, 4096, 16384) };

	batch.block = copy_in(p, batch.rows * ROW_4);
	batch.ready = overlap_mark(p, IN);
	return batch;
}

static void compute(struct overlap *p, const struct batch *batch, unsigned int products)
{
	double rows = batch->rows;
	uint32_t state, product, next;

	overlap_wait(p, COMPUTE, batch->ready);
	overlap_use(p, batch->block, COMPUTE);
	state = kernel(p, COMPUTE, rows * ROW_2, rows * (ROW_4 + ROW_2) * MOVE_NS);
	for (unsigned int i = 0; i < products; i++) {
		product = kernel(p, COMPUTE, rows * ROW_2, rows * PRODUCT_NS);
		next = kernel(p, COMPUTE, rows * ROW_2, rows * 2 * ROW_2 * MOVE_NS);
		overlap_drop(p, product);
		overlap_drop(p, state);
		state = next;
	}
	next = kernel(p, COMPUTE, rows * ROW_4, rows * (ROW_4 + ROW_2) * MOVE_NS);
	product = kernel(p, COMPUTE, 4, rows * ROW_4 * MOVE_NS);
	overlap_drop(p, next);
	overlap_drop(p, state);
	overlap_drop(p, product);
	overlap_drop(p, batch->block);
}

/* A batch is freed before the next is asked for. */
static void write_prefetch(struct overlap *p, unsigned int products)
{
	uint32_t n = draw_count(p, 150, 250);

	overlap_malloc(p, 4096 * ROW_2, COMPUTE);
	while (n--) {
		struct batch batch = fetch(p);

		compute(p, &batch, products);
	}
}

/* The next batch is asked for before this one is freed. */
static void write_double(struct overlap *p, unsigned int products)
{
	uint32_t n = draw_count(p, 150, 250);
	struct batch next;

	overlap_malloc(p, 4096 * ROW_2, COMPUTE);
	next = fetch(p);
	while (n--) {
		struct batch batch = next;

		next = fetch(p);
		compute(p, &batch, products);
	}
}

/* Batches of one kind after those of another: what each needs more than what is live differs. */
static void write_phases(struct overlap *p, unsigned int products)
{
	static const unsigned int phases[] = { 2, 6, 2, 12 };

	(void)products;
	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
		if (i % 2)
			write_prefetch(p, phases[i]);
		else
			write_double(p, phases[i]);
	}
}

/* One stream fills buffers, three compute in turn, and one reduces; some results stay. */
static void write_pipeline(struct overlap *p, unsigned int products)
{
	GArray *kept = g_array_new(FALSE, FALSE, sizeof(uint32_t));
	uint32_t n = draw_count(p, 150, 250);

	(void)products;
	for (uint32_t i = 0; i < n; i++) {
		static const double widths[] = { 1024, 4096, 8192 };
		double rows = draw_count(p, 512, 6144), width = widths[draw_count(p, 0, 2)];
		uint32_t s = OTHERS + i % 3, input, weights, product, result, sum;

		input = copy_in(p, rows * ROW_4);
		wait_for(p, s, IN);
		overlap_use(p, input, s);
		weights = kernel(p, s, width * ROW_4, width * ROW_4 * MOVE_NS);
		product = kernel(p, s, rows * width * 4, rows * width * 0.164);
		result = kernel(p, s, rows * width * 4, rows * width * 12 * MOVE_NS);
		wait_for(p, OUT, s);
		overlap_use(p, result, OUT);
		sum = kernel(p, OUT, 64 * width * 4, rows * width * 4 * MOVE_NS);
		g_array_append_val(kept, sum);
		overlap_drop(p, input);
		overlap_drop(p, weights);
		overlap_drop(p, product);
		overlap_drop(p, result);
		if (kept->len > 40) {
			guint k = draw_count(p, 0, kept->len - 1);

			overlap_drop(p, g_array_index(kept, uint32_t, k));
			g_array_remove_index_fast(kept, k);
		}
	}
	g_array_free(kept, TRUE);
}

/* What the layers of a model have in common, and one layer. */
struct model {
	uint32_t layers;
	double *weights;		/* bytes of each layer */
	double activation;		/* bytes of each layer's result */
	double forward;			/* nanoseconds for a byte of weights; backward takes twice that */
	uint32_t *kept;
};

/* Some layers are larger than others, as those with experts are. */
static void model_begin(struct overlap *p, struct model *m)
{
	double size = overlap_draw(p, 30 * MB, 120 * MB);

	m->layers = draw_count(p, 8, 32);
	m->weights = g_new(double, m->layers);
	m->kept = g_new(uint32_t, m->layers);
	m->activation = overlap_draw(p, 5 * MB, 60 * MB);
	m->forward = COPY_NS * overlap_draw(p, 0.5, 2);
	for (uint32_t l = 0; l < m->layers; l++)
		m->weights[l] = size * (draw_count(p, 0, 3) ? 1 : 2);
}

static void model_end(struct model *m)
{
	g_free(m->weights);
	g_free(m->kept);
}

static uint32_t send_out(struct overlap *p, uint32_t block, double ns)
{
	wait_for(p, OUT, COMPUTE);
	overlap_use(p, block, OUT);
	overlap_work(p, OUT, VPMM_HOST_COPY_OUT, ns);
	return overlap_mark(p, OUT);
}

static void layer(struct overlap *p, struct model *m, uint32_t l, bool backward)
{
	double bytes = m->weights[l];
	uint32_t gradient;

	if (!backward) {
		m->kept[l] = kernel(p, COMPUTE, m->activation, bytes * m->forward);
		return;
	}
	gradient = kernel(p, COMPUTE, bytes, 2 * bytes * m->forward);
	send_out(p, gradient, bytes * COPY_NS);
	overlap_drop(p, gradient);
	overlap_drop(p, m->kept[l]);
}

/* Weights stream in, one layer ahead, forward and backward, and gradients stream out. */
static void write_layers(struct overlap *p, unsigned int products)
{
	struct model m;
	uint32_t steps, n, next, ready;

	(void)products;
	model_begin(p, &m);
	steps = draw_count(p, 6, 12);
	n = 2 * m.layers * steps;
	next = copy_in(p, m.weights[0]);
	ready = overlap_mark(p, IN);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = i % (2 * m.layers), after = (i + 1) % (2 * m.layers), block = next;

		overlap_wait(p, COMPUTE, ready);
		next = copy_in(p, m.weights[MIN(after, 2 * m.layers - 1 - after)]);
		ready = overlap_mark(p, IN);
		overlap_use(p, block, COMPUTE);
		layer(p, &m, MIN(at, 2 * m.layers - 1 - at), at >= m.layers);
		overlap_drop(p, block);
	}
	model_end(&m);
}

/* Each layer's result goes to the host once the next layer has read it, and comes back for the backward pass. */
static void write_activations(struct overlap *p, unsigned int products)
{
	double bytes = overlap_draw(p, 20 * MB, 150 * MB), ns = bytes * COPY_NS * overlap_draw(p, 0.5, 2);
	uint32_t layers = draw_count(p, 8, 32), steps = draw_count(p, 6, 12), *out = g_new(uint32_t, layers);

	(void)products;
	for (uint32_t step = 0; step < steps; step++) {
		uint32_t before = overlap_malloc(p, bytes, COMPUTE);

		for (uint32_t l = 0; l < layers; l++) {
			uint32_t result = kernel(p, COMPUTE, bytes, ns * overlap_draw(p, 0.9, 1.1));

			out[l] = send_out(p, before, bytes * COPY_NS);
			overlap_drop(p, before);
			before = result;
		}
		for (uint32_t l = layers; l-- > 0;) {
			uint32_t block, result;

			overlap_wait(p, IN, out[l]);
			block = copy_in(p, bytes);
			wait_for(p, COMPUTE, IN);
			overlap_use(p, block, COMPUTE);
			result = kernel(p, COMPUTE, bytes, 2 * ns * overlap_draw(p, 0.9, 1.1));
			overlap_drop(p, block);
			overlap_drop(p, before);
			before = result;
		}
		overlap_drop(p, before);
	}
	g_free(out);
}

/* Requests take streams in turn. Each keeps its state until its stream has its next turn. */
static void write_ring(struct overlap *p, unsigned int products)
{
	uint32_t n = draw_count(p, 200, 400), ring = draw_count(p, 2, 4), state[4] = { 0 };
	double ns = overlap_draw(p, 0.5, 2) * COPY_NS;

	(void)products;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t s = OTHERS + i % ring, kernels = draw_count(p, 2, 8), prompt, result, scratch;
		double bytes = overlap_draw(p, 2 * MB, 80 * MB);

		if (i >= ring)
			overlap_drop(p, state[i % ring]);
		prompt = copy_in(p, bytes);
		wait_for(p, s, IN);
		overlap_use(p, prompt, s);
		state[i % ring] = overlap_malloc(p, bytes * overlap_draw(p, 0.5, 3), s);
		for (uint32_t k = 0; k < kernels; k++) {
			scratch = kernel(p, s, bytes * overlap_draw(p, 0.2, 1), bytes * ns / kernels);
			overlap_drop(p, scratch);
		}
		result = kernel(p, s, bytes / 2, bytes * MOVE_NS);
		wait_for(p, OUT, s);
		overlap_use(p, result, OUT);
		overlap_work(p, OUT, VPMM_HOST_COPY_OUT, bytes / 2 * COPY_NS);
		overlap_drop(p, prompt);
		overlap_drop(p, result);
	}
}

/* Gradients are reduced on a stream of their own, behind the backward pass of the layers before. */
static void write_reduce(struct overlap *p, unsigned int products)
{
	struct model m;
	uint32_t steps, *shards;
	double reduce;

	(void)products;
	model_begin(p, &m);
	steps = draw_count(p, 8, 16);
	shards = g_new(uint32_t, m.layers);
	reduce = m.forward * overlap_draw(p, 1, 2.5);
	for (uint32_t step = 0; step < steps; step++) {
		for (uint32_t l = 0; l < m.layers; l++)
			m.kept[l] = kernel(p, COMPUTE, m.activation, m.weights[l] * m.forward);
		for (uint32_t l = m.layers; l-- > 0;) {
			uint32_t gradient = kernel(p, COMPUTE, m.weights[l], 2 * m.weights[l] * m.forward);

			shards[l] = overlap_malloc(p, m.weights[l] / 8, OUT);
			send_out(p, gradient, m.weights[l] * reduce);
			overlap_drop(p, gradient);
			overlap_drop(p, m.kept[l]);
		}
		wait_for(p, COMPUTE, OUT);
		for (uint32_t l = 0; l < m.layers; l++) {
			overlap_use(p, shards[l], COMPUTE);
			overlap_work(p, COMPUTE, VPMM_HOST_COMPUTE, m.weights[l] * MOVE_NS);
			overlap_drop(p, shards[l]);
		}
	}
	g_free(shards);
	model_end(&m);
}

/*
 * Programs that are like none of those above: all of it is drawn. The host of some is only a few pieces of work ahead,
 * as it looks at results; some have a part of their memory for good.
 */
struct drawn {
	uint32_t batches;
	uint32_t stages;		/* streams that a batch passes through, or that have batches of their own */
	uint32_t blocks;		/* of a batch */
	uint32_t scratch;		/* blocks that a stage needs for a while */
	bool varies;			/* sizes differ from batch to batch */
	double sizes[4];
	double ns[5];			/* of each stage */
};

static void draw(struct overlap *p, struct drawn *d, uint32_t stages_most)
{
	double most = draw_count(p, 0, 1) ? 16 * MB : 80 * MB;

	d->batches = draw_count(p, 150, 250);
	d->stages = draw_count(p, 2, stages_most);
	d->blocks = draw_count(p, 1, 4);
	d->scratch = draw_count(p, 0, 1) ? draw_count(p, 1, 4) : 0;
	d->varies = !draw_count(p, 0, 2);
	for (size_t i = 0; i < G_N_ELEMENTS(d->sizes); i++)
		d->sizes[i] = overlap_draw(p, 1 * MB, most);
	for (size_t i = 0; i < G_N_ELEMENTS(d->ns); i++)
		d->ns[i] = overlap_draw(p, 1e6, 20e6);
	p->ahead = 2u << draw_count(p, 0, 5);
	if (draw_count(p, 0, 1))
		overlap_malloc(p, overlap_draw(p, 1 * MB, 600 * MB), 0);
}

static double drawn_size(struct overlap *p, const struct drawn *d, uint32_t i)
{
	return d->sizes[i % G_N_ELEMENTS(d->sizes)] * (d->varies ? overlap_draw(p, 0.75, 1.25) : 1);
}

static enum vpmm_host_engine drawn_engine(const struct drawn *d, uint32_t stage)
{
	if (!stage)
		return VPMM_HOST_COPY_IN;
	return stage > 1 && stage == d->stages - 1 ? VPMM_HOST_COPY_OUT : VPMM_HOST_COMPUTE;
}

/* What a stage does with a batch: in parts, with scratch memory for each. */
static void drawn_stage(struct overlap *p, const struct drawn *d, uint32_t stage)
{
	double ns = d->ns[stage] / (d->scratch + 1);
	uint32_t block;

	for (uint32_t i = 0; i < d->scratch && stage; i++) {
		block = overlap_malloc(p, drawn_size(p, d, i) / 2, stage);
		overlap_work(p, stage, drawn_engine(d, stage), ns);
		overlap_drop(p, block);
	}
	overlap_work(p, stage, drawn_engine(d, stage), stage ? ns : d->ns[0]);
}

/* The blocks of a batch pass through all stages. */
static void write_stages(struct overlap *p, unsigned int products)
{
	uint32_t blocks[4];
	struct drawn d;

	(void)products;
	draw(p, &d, 5);
	while (d.batches--) {
		for (uint32_t i = 0; i < d.blocks; i++)
			blocks[i] = overlap_malloc(p, drawn_size(p, &d, i), 0);
		drawn_stage(p, &d, 0);
		for (uint32_t stage = 1; stage < d.stages; stage++) {
			wait_for(p, stage, stage - 1);
			for (uint32_t i = 0; i < d.blocks; i++)
				overlap_use(p, blocks[i], stage);
			drawn_stage(p, &d, stage);
		}
		for (uint32_t i = 0; i < d.blocks; i++)
			overlap_drop(p, blocks[i]);
	}
}

/* Each stage makes a block of its own out of that of the stage before it. */
static void write_hand_over(struct overlap *p, unsigned int products)
{
	uint32_t block, before;
	struct drawn d;

	(void)products;
	draw(p, &d, 5);
	while (d.batches--) {
		before = overlap_malloc(p, drawn_size(p, &d, 0), 0);
		drawn_stage(p, &d, 0);
		for (uint32_t stage = 1; stage < d.stages; stage++) {
			block = overlap_malloc(p, drawn_size(p, &d, stage), stage);
			wait_for(p, stage, stage - 1);
			overlap_use(p, before, stage);
			drawn_stage(p, &d, stage);
			overlap_drop(p, before);
			before = block;
		}
		overlap_drop(p, before);
	}
}

/* Streams that have nothing to do with each other. */
static void write_apart(struct overlap *p, unsigned int products)
{
	uint32_t blocks[4];
	struct drawn d;

	(void)products;
	draw(p, &d, 5);
	while (d.batches--) {
		for (uint32_t stage = 0; stage < d.stages; stage++) {
			for (uint32_t i = 0; i < d.blocks; i++)
				blocks[i] = overlap_malloc(p, drawn_size(p, &d, i), stage);
			overlap_work(p, stage, (enum vpmm_host_engine)(stage % 3), d.ns[stage]);
			for (uint32_t i = 0; i < d.blocks; i++)
				overlap_drop(p, blocks[i]);
		}
	}
}

/* The parts of a batch are copied and computed one after another, and freed together. */
static void write_parts(struct overlap *p, unsigned int products)
{
	uint32_t blocks[4];
	struct drawn d;

	(void)products;
	draw(p, &d, 2);
	while (d.batches--) {
		for (uint32_t i = 0; i < d.blocks; i++) {
			blocks[i] = overlap_malloc(p, drawn_size(p, &d, i), 0);
			overlap_work(p, 0, VPMM_HOST_COPY_IN, d.ns[0] / d.blocks);
			wait_for(p, 1, 0);
			overlap_use(p, blocks[i], 1);
			overlap_work(p, 1, VPMM_HOST_COMPUTE, d.ns[1] / d.blocks);
		}
		for (uint32_t i = 0; i < d.blocks; i++)
			overlap_drop(p, blocks[i]);
	}
}

const struct overlap_family overlap_families[] = {
	{ "prefetch, 2 products", OTHERS, write_prefetch, 2 },
	{ "prefetch, 6 products", OTHERS, write_prefetch, 6 },
	{ "prefetch, 12 products", OTHERS, write_prefetch, 12 },
	{ "double buffers, 2 products", OTHERS, write_double, 2 },
	{ "double buffers, 6 products", OTHERS, write_double, 6 },
	{ "double buffers, 12 products", OTHERS, write_double, 12 },
	{ "one after the other", OTHERS, write_phases, 0 },
	{ "pipeline of five streams", OTHERS + 3, write_pipeline, 0 },
	{ "weights that stream in", OTHERS, write_layers, 0 },
	{ "activations to the host", OTHERS, write_activations, 0 },
	{ "ring of requests", OTHERS + 4, write_ring, 0 },
	{ "reduce behind backward", OTHERS, write_reduce, 0 },
	{ "drawn: through all stages", 5, write_stages, 0 },
	{ "drawn: from stage to stage", 5, write_hand_over, 0 },
	{ "drawn: apart", 5, write_apart, 0 },
	{ "drawn: in parts", 5, write_parts, 0 },
};

const size_t n_overlap_families = sizeof(overlap_families) / sizeof(overlap_families[0]);
