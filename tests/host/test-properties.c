// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What the policy promises to every program, tried on generated ones through the public calls alone: what a query says
 * is the largest request is served, and so is every smaller one; and a program that repeats itself settles.
 *
 * A program is a list of steps on slots: a step on an empty slot allocates, a step on a full one frees. Any list is a
 * valid program, so one that breaks a promise is shortened for as long as what is left still breaks it.
 *
 * VPMM_TEST_SEEDS is how many programs each case tries, VPMM_TEST_SEED the first of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "support/fixture.h"
#include "support/setting.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SLOTS 1024

struct step {
	uint32_t slot;
	size_t size;		/* of the block, where the slot is empty */
};

/* A run of a program in a pool of its own, on one stream on which nothing is pending. */
struct run {
	struct vpmm_pool *pool;
	struct CUstream_st *stream;
	void *held[SLOTS];
};

/* Between two sizes, as many between 1 and 2 KiB as between 1 and 2 MiB, to the byte. */
static size_t random_size(GRand *rand, size_t least, size_t most)
{
	uint64_t octaves = g_bit_storage(most / least), bytes;

	do {
		bytes = least << g_rand_int_range(rand, 0, octaves);
		bytes += (uint64_t)(g_rand_double(rand) * (double)bytes);
	} while (bytes > most);
	return bytes;
}

static GArray *program_new(void)
{
	return g_array_new(FALSE, FALSE, sizeof(struct step));
}

static void program_add(GArray *program, uint32_t slot, size_t size)
{
	struct step step = { slot, size };

	g_array_append_val(program, step);
}

static void run_open(struct run *run, const struct vpmm_opts *opts)
{
	*run = (struct run){ 0 };
	assert_ok(vpmm_pool_create(&run->pool, opts));
	assert_ok(vpmm_host_stream_create(&run->stream));
}

static void run_close(struct run *run)
{
	assert_ok(vpmm_pool_check(run->pool));
	vpmm_pool_destroy(run->pool);
	assert_ok(vpmm_host_stream_destroy(run->stream));
	fixture_assert_nothing_left();
}

/* What the device has no room for is left out. */
static void run_program(struct run *run, const GArray *program)
{
	for (guint i = 0; i < program->len; i++) {
		const struct step *step = &g_array_index(program, struct step, i);
		void **held = &run->held[step->slot];
		int err = 0;

		if (*held) {
			assert_ok(vpmm_free(run->pool, *held, run->stream));
			*held = NULL;
		} else {
			err = vpmm_malloc(run->pool, held, step->size, run->stream);
		}
		g_assert_true(!err || err == -ENOMEM);
	}
}

/* What can be had: of a device that is nearly full, by one stream, with nothing pending */

/* A large device takes longer to fill, so fewer programs do. */
static const struct kind {
	const char *name;
	size_t device;
	unsigned int programs;
	struct vpmm_opts opts;
} kinds[] = {
	{ "small-device", 64 * MIB, 100, { FIXTURE_PACKED } },
	{ "large-device", 1024 * MIB, 20, { FIXTURE_PACKED } },
	{ "small-by-driver", 64 * MIB, 100, { FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER } },
	{ "pages", 64 * MIB, 20, { FIXTURE_OPTS } },
};

/* Blocks are freed at random until the next one fits. Sizes, and how full the device gets, are the program's own. */
static GArray *fill_device(size_t device, uint32_t seed)
{
	GRand *rand = g_rand_new_with_seed(seed);
	size_t most = random_size(rand, device / 64, device / 4), least = random_size(rand, 512, most / 4), sum = 0;
	size_t full = device / 100 * (size_t)g_rand_int_range(rand, 70, 101);
	uint32_t allocations = (uint32_t)g_rand_int_range(rand, 10, 500);
	size_t sizes[SLOTS] = { 0 };
	GArray *program = program_new();

	for (uint32_t next = 0; next < allocations; next++) {
		size_t size = random_size(rand, least, most);

		while (sum + size > full) {
			uint32_t slot = (uint32_t)g_rand_int_range(rand, 0, (gint32)next);

			if (!sizes[slot])
				continue;
			program_add(program, slot, 0);
			sum -= sizes[slot];
			sizes[slot] = 0;
		}
		program_add(program, next, size);
		sizes[next] = size;
		sum += size;
	}
	g_rand_free(rand);
	return program;
}

static struct vpmm_forecast forecast_of(const struct run *run, size_t size)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };

	assert_ok(vpmm_pool_query(run->pool, size, run->stream, &forecast));
	return forecast;
}

/* Any part of the largest, or a little less than it. What the driver's allocator can serve, nobody else knows. */
static size_t smaller_size(const struct kind *kind, GRand *rand, size_t largest)
{
	double part = g_rand_double(rand);
	size_t size = (size_t)((double)largest * (g_rand_boolean(rand) ? part : 1 - part / 10));

	return kind->opts.small == VPMM_SMALL_DRIVER ? MIN(MAX(size, PAGE), largest) : MAX(size, 1);
}

/* A size for which a promise is broken, and the largest that the pool said it could serve. */
struct broken {
	size_t size;
	size_t largest;
};

static bool is_refused(const struct kind *kind, const GArray *program, GRand *rand, struct broken *broken)
{
	void *ptr = NULL;
	struct run run;
	int err = 0;

	run_open(&run, &kind->opts);
	run_program(&run, program);
	broken->largest = forecast_of(&run, 1).largest;
	broken->size = rand ? smaller_size(kind, rand, broken->largest) : broken->largest;
	if (broken->largest)
		err = vpmm_malloc(run.pool, &ptr, broken->size, run.stream);
	g_assert_true(!err || err == -ENOMEM);
	run_close(&run);
	return err;
}

static bool largest_is_refused(const struct kind *kind, const GArray *program, uint32_t seed, struct broken *broken)
{
	(void)seed;
	return is_refused(kind, program, NULL, broken);
}

/* As a request changes the pool, each size is tried in a run of its own. */
static bool smaller_is_refused(const struct kind *kind, const GArray *program, uint32_t seed, struct broken *broken)
{
	GRand *rand = g_rand_new_with_seed(seed);
	bool refused = false;

	for (int i = 0; i < 8 && !refused; i++)
		refused = is_refused(kind, program, rand, broken);
	g_rand_free(rand);
	return refused;
}

static bool smaller_is_none(const struct kind *kind, const GArray *program, uint32_t seed, struct broken *broken)
{
	GRand *rand = g_rand_new_with_seed(seed);
	bool none = false;
	struct run run;

	run_open(&run, &kind->opts);
	run_program(&run, program);
	broken->largest = forecast_of(&run, 1).largest;
	for (int i = 0; i < 100 && broken->largest && !none; i++) {
		broken->size = smaller_size(kind, rand, broken->largest);
		none = forecast_of(&run, broken->size).way == VPMM_WAY_NONE;
	}
	run_close(&run);
	g_rand_free(rand);
	return none;
}

static const struct promise {
	const char *name;
	bool (*is_broken)(const struct kind *kind, const GArray *program, uint32_t seed, struct broken *broken);
} promises[] = {
	{ "largest-is-served", largest_is_refused },
	{ "smaller-is-served", smaller_is_refused },
	{ "smaller-is-forecast", smaller_is_none },
};

struct had_case {
	const struct kind *kind;
	const struct promise *promise;
};

/* Leaves out what the promise is broken without: halves of the program, quarters, and so on down to single steps. */
static void shorten(const struct had_case *c, GArray *program, uint32_t seed)
{
	struct broken broken;

	for (guint count = program->len / 2; count; count /= 2) {
		for (guint at = 0; at + count <= program->len; ) {
			GArray *fewer = program_new();

			g_array_append_vals(fewer, program->data, at);
			g_array_append_vals(fewer, (struct step *)(void *)program->data + at + count,
					    program->len - at - count);
			if (c->promise->is_broken(c->kind, fewer, seed, &broken))
				g_array_remove_range(program, at, count);
			else
				at += count;
			g_array_unref(fewer);
		}
	}
}

static void tell(const struct had_case *c, GArray *program, uint32_t seed)
{
	bool full[SLOTS] = { false };
	struct broken broken;

	shorten(c, program, seed);
	c->promise->is_broken(c->kind, program, seed, &broken);
	g_test_message("seed %u: %zu bytes, where the largest is %zu, on a device of %zu MiB after:", seed, broken.size,
		       broken.largest, c->kind->device / MIB);
	for (guint i = 0; i < program->len; i++) {
		const struct step *step = &g_array_index(program, struct step, i);

		full[step->slot] = !full[step->slot];
		if (full[step->slot])
			g_test_message("	malloc %u, %zu bytes", step->slot, step->size);
		else
			g_test_message("	free %u", step->slot);
	}
}

static void test_had(gconstpointer data)
{
	const struct had_case *c = data;
	uint64_t programs = setting("VPMM_TEST_SEEDS", c->kind->programs), first = setting("VPMM_TEST_SEED", 1);
	uint64_t broken = 0;
	char *capacity = g_strdup_printf("%zu", c->kind->device);

	g_setenv("VPMM_HOST_CAPACITY", capacity, TRUE);
	g_free(capacity);
	for (uint64_t seed = first; seed < first + programs; seed++) {
		GArray *program = fill_device(c->kind->device, (uint32_t)seed);
		struct broken how;

		if (c->promise->is_broken(c->kind, program, (uint32_t)seed, &how) && !broken++)
			tell(c, program, (uint32_t)seed);
		g_array_unref(program);
	}
	g_unsetenv("VPMM_HOST_CAPACITY");
	if (broken) {
		g_test_message("after %" PRIu64 " of %" PRIu64 " programs", broken, programs);
		g_test_fail();
	}
}

/* Programs that repeat themselves */

/* From this pass on, none makes a driver call. */
#define SETTLED_PASS 3
#define PASSES 6

/*
 * The same for training. Without core.routine each of twenty programs makes calls in its 10th pass; with its short past
 * alone some make calls in their 4th, and with its long one alone, those whose passes are short.
 */
#define TRAINING_SETTLED 4
#define TRAINING_PASSES 10

/*
 * How many programs are tried, how many blocks a pass has at a time, how often it replaces one, and how many others
 * stay for ever. Passes with small blocks are short, so many are tried.
 */
static const struct load {
	const char *name;
	unsigned int programs;
	uint32_t blocks;
	uint32_t replaced;
	uint32_t kept;
	size_t least, most;
} loads[] = {
	{ "blocks-of-256K-to-256M", 2, 600, 10000, 0, 256 * KIB, 256 * MIB },
	{ "blocks-of-64K-to-64M", 2, 130, 10000, 0, 64 * KIB, 64 * MIB },
	{ "blocks-of-512-to-8M", 100, 300, 2000, 0, 512, 8 * MIB },
	{ "blocks-of-2M-to-32M", 2, 200, 5000, 0, 2 * MIB, 32 * MIB },
	{ "beside-others-of-256K-to-256M", 2, 400, 10000, 200, 256 * KIB, 256 * MIB },
	{ "beside-others-of-64K-to-64M", 2, 90, 10000, 40, 64 * KIB, 64 * MIB },
	{ "beside-others-of-512-to-8M", 100, 200, 2000, 100, 512, 8 * MIB },
	{ "beside-others-of-2M-to-32M", 2, 130, 5000, 70, 2 * MIB, 32 * MIB },
};

static GArray *kept_blocks(const struct load *load, GRand *rand)
{
	GArray *program = program_new();

	for (uint32_t i = 0; i < load->kept; i++)
		program_add(program, load->blocks + i, random_size(rand, load->least, load->most));
	return program;
}

/* Fills all slots, replaces one at random so often, and frees all. */
static GArray *one_pass(const struct load *load, GRand *rand)
{
	GArray *program = program_new();

	for (uint32_t i = 0; i < load->blocks; i++)
		program_add(program, i, random_size(rand, load->least, load->most));
	for (uint32_t i = 0; i < load->replaced; i++) {
		uint32_t slot = (uint32_t)g_rand_int_range(rand, 0, (gint32)load->blocks);

		program_add(program, slot, 0);
		program_add(program, slot, random_size(rand, load->least, load->most));
	}
	for (uint32_t i = 0; i < load->blocks; i++)
		program_add(program, i, 0);
	return program;
}

static uint64_t driver_calls(const struct run *run)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_stats(run->pool, &stats));
	return stats.creates + stats.maps + stats.unmaps + stats.releases;
}

/* Runs a pass @passes times. Return: whether none from @settled_pass on makes a driver call. */
static bool settles(const GArray *kept, const GArray *pass, uint32_t seed, int passes, int settled_pass)
{
	const struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = (size_t)256 << 30 };
	GString *calls = g_string_new(NULL);
	bool settled = true;
	struct run run;

	run_open(&run, &opts);
	run_program(&run, kept);
	for (int i = 1; i <= passes; i++) {
		uint64_t before = driver_calls(&run), made;

		run_program(&run, pass);
		made = driver_calls(&run) - before;
		settled = settled && (i < settled_pass || !made);
		g_string_append_printf(calls, " %" PRIu64, made);
	}
	if (!settled)
		g_test_message("seed %u: driver calls of each pass:%s", seed, calls->str);
	run_close(&run);
	g_string_free(calls, TRUE);
	return settled;
}

static void test_settles(gconstpointer data)
{
	const struct load *load = data;
	uint64_t seeds = setting("VPMM_TEST_SEEDS", load->programs), first = setting("VPMM_TEST_SEED", 1);

	for (uint64_t seed = first; seed < first + seeds; seed++) {
		GRand *rand = g_rand_new_with_seed((uint32_t)seed);
		GArray *pass = one_pass(load, rand), *kept = kept_blocks(load, rand);

		if (!settles(kept, pass, (uint32_t)seed, PASSES, SETTLED_PASS))
			g_test_fail();
		g_array_unref(kept);
		g_array_unref(pass);
		g_rand_free(rand);
	}
}

#define LAYERS 40
#define BATCHES 6
#define SAMPLES_MOST 8

/* Bytes of each layer; outputs and workspace for one sample, and the workspace by how many samples there are. */
struct model {
	size_t weights[LAYERS];
	size_t outputs[LAYERS];
	size_t works[2][SAMPLES_MOST + 1][LAYERS];
};

/* The slots of training: those of the layers' gradients and outputs, and of what each layer needs for itself. */
enum { GRADIENTS, OUTPUTS = LAYERS, DELTAS = 2 * LAYERS, WORK = DELTAS + 2 };

static void draw_model(GRand *rand, struct model *model)
{
	for (int i = 0; i < LAYERS; i++) {
		model->weights[i] = random_size(rand, 4 * KIB, 16 * MIB);
		model->outputs[i] = random_size(rand, 256 * KIB, 4 * MIB);
		for (int samples = 0; samples <= SAMPLES_MOST; samples++) {
			for (int j = 0; j < 2; j++)
				model->works[j][samples][i] = random_size(rand, 64 * KIB, 8 * MIB);
		}
	}
}

static const struct training {
	const char *name;
	uint32_t layers;
	int batches;		/* sizes of batches, each of them twice in a pass */
	unsigned int later;	/* one program in so many may settle later; 0: none may */
} trainings[] = {
	{ "training-of-40-layers-in-six-sizes", LAYERS, BATCHES, 0 },
	{ "training-of-40-layers", LAYERS, 1, 10 },
	{ "training-of-16-layers", 16, 1, 10 },
	{ "training-of-8-layers", 8, 1, 10 },
	{ "training-of-4-layers", 4, 1, 10 },
};

/* A step of training. Gradients live until the backward pass, so a pass leaves those of its last step. */
static void training_step(GArray *pass, const struct model *model, uint32_t layers, size_t samples)
{
	for (uint32_t i = 0; i < layers; i++) {
		program_add(pass, WORK, samples * model->works[0][samples][i]);
		program_add(pass, OUTPUTS + i, samples * model->outputs[i]);
		program_add(pass, WORK, 0);
	}
	for (uint32_t i = 0; i < layers; i++)
		program_add(pass, GRADIENTS + i, 0);
	for (uint32_t i = layers; i-- > 0; ) {
		program_add(pass, DELTAS + i % 2, samples * model->outputs[i]);
		if (i < layers - 1)
			program_add(pass, DELTAS + (i + 1) % 2, 0);
		program_add(pass, WORK, samples * model->works[1][samples][i]);
		program_add(pass, GRADIENTS + i, model->weights[i]);
		program_add(pass, WORK, 0);
		program_add(pass, OUTPUTS + i, 0);
	}
	program_add(pass, DELTAS, 0);
}

/* Each number of samples twice, in random order. */
static void draw_batches(GRand *rand, size_t *samples, int batches)
{
	for (int i = 0; i < batches; i++)
		samples[2 * i] = samples[2 * i + 1] = (size_t)g_rand_int_range(rand, 2, SAMPLES_MOST + 1);
	for (int i = 2 * batches - 1; i > 0; i--) {
		int other = g_rand_int_range(rand, 0, i + 1);
		size_t swapped = samples[i];

		samples[i] = samples[other];
		samples[other] = swapped;
	}
}

/* A pass leaves gradients, so it ends in the state that it began in only if these get the same addresses again. */
static void test_training_settles(gconstpointer data)
{
	uint64_t seeds = setting("VPMM_TEST_SEEDS", 20), first = setting("VPMM_TEST_SEED", 1);
	const struct training *training = data;
	uint64_t later = 0;

	for (uint64_t seed = first; seed < first + seeds; seed++) {
		GRand *rand = g_rand_new_with_seed((uint32_t)seed);
		GArray *kept = program_new(), *pass = program_new();
		size_t samples[2 * BATCHES] = { 0 };
		struct model model;

		draw_model(rand, &model);
		for (uint32_t i = 0; i < training->layers; i++)
			program_add(kept, GRADIENTS + i, model.weights[i]);
		draw_batches(rand, samples, training->batches);
		for (int i = 0; i < 2 * training->batches; i++)
			training_step(pass, &model, training->layers, samples[i]);
		later += !settles(kept, pass, (uint32_t)seed, TRAINING_PASSES, TRAINING_SETTLED);
		g_array_unref(kept);
		g_array_unref(pass);
		g_rand_free(rand);
	}
	g_assert_cmpuint(later, <=, training->later ? (seeds + training->later - 1) / training->later : 0);
}

static void add_had(const struct promise *promise, const struct kind *kind)
{
	struct had_case c = { kind, promise };
	char *path = g_strdup_printf("/properties/%s/%s", promise->name, kind->name);

	g_test_add_data_func_full(path, g_memdup2(&c, sizeof(c)), test_had, g_free);
	g_free(path);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_set_nonfatal_assertions();
	for (size_t i = 0; i < G_N_ELEMENTS(promises); i++) {
		for (size_t j = 0; j < G_N_ELEMENTS(kinds); j++)
			add_had(&promises[i], &kinds[j]);
	}
	fixture_add_rows("/properties/settles", loads, test_settles);
	fixture_add_rows("/properties/settles", trainings, test_training_settles);
	return g_test_run();
}
