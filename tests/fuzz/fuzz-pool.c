// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Bytes as a program of operations on pools, with faults, and the model beside each. The first two bytes say what the
 * device, the pools and the streams are to be, then each operation has three: what, and two that say on which, how
 * much, how often.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "calls/note.h"
#include "calls/pool.h"
#include "settings/settings.h"
#include "fuzz.h"
#include "program.h"
#include "support/fault.h"

#define HEADER 2
#define MOST_OPERATIONS 4000
#define MOST_PAGES 12

/* Everything is held against the model after each of the first operations, and from then on after some. */
#define CLOSELY 80
#define SELDOM 16

/*
 * What the first byte of an operation says: the row of the table, the pool, and whether another thread makes the call.
 */
#define WHAT_ROW 0x1f
#define WHAT_POOL 0x60
#define WHAT_ELSEWHERE 0x80

static void ignore(void *data, int level, const char *message)
{
	(void)data;
	g_assert_cmpint(level, >, VPMM_LOG_NONE);
	g_assert_cmpstr(message, !=, "");
	g_assert_null(strchr(message, '\n'));
}

/* Whole pages, extents of any size, extents of few sizes with the driver for what is small, or the driver for all. */
static void configure_extents(struct vpmm_opts *opts, unsigned int which)
{
	size_t page_size = opts->page_size ? opts->page_size : PAGE;

	switch (which) {
	case 0:
		opts->extent_max = page_size;
		opts->small = VPMM_SMALL_DRIVER;
		break;
	case 1:
		break;
	case 2:
		opts->extent_max = 2 * page_size;
		opts->frag_ratio = opts->pages ? 0 : 40;
		opts->overhead = opts->pages ? 25 : 0;
		opts->small = opts->pages ? VPMM_SMALL_DRIVER : VPMM_SMALL_POOL;
		break;
	default:
		opts->page_size = SIZE_MAX;
		opts->pages = 0;
	}
}

static void configure_pool(struct vpmm_opts *opts, uint8_t bits)
{
	*opts = (struct vpmm_opts){ FIXTURE_PACKED, .log = ignore, .export_as = VPMM_EXPORT_FD };
	if (bits & 1)
		opts->reuse = VPMM_REUSE_BLOCK;
	if (bits & 2)
		opts->va_size = 8 * PAGE;
	if (bits & 4)
		opts->page_size = 2 * PAGE;
	if ((bits & 0x18) == 0x18)
		opts->pages = 5;
	if (bits & 0x20)
		opts->log_level = VPMM_LOG_DEBUG;
	configure_extents(opts, bits >> 6);
}

/* Pools differ in all but what the device is. */
static void configure(struct program *p, uint8_t pool, uint8_t rest)
{
	static const unsigned int streams[] = { 4, 1, 9, MOST_STREAMS };

	p->pools = MAX(1, rest & 3);
	p->n_streams = streams[rest >> 2 & 3];
	p->defaults = p->n_streams > 2 && rest & 0x10;
	p->caching = rest >> 5 & 3;
	for (unsigned int i = 0; i < p->pools; i++) {
		configure_pool(&p->opts[i], pool ^ (uint8_t)(i * 0x43));
		if ((pool & 0x18) == 0x08)
			p->m[i].capacity = (rest & 0x80 ? 96 : 24) * PAGE;
		p->m[i].few_mappings = (pool & 0x18) == 0x10;
		p->m[i].beside = p->pools > 1;
		p->m[i].capture = &p->capture;
	}
	g_setenv("VPMM_HOST_CAPACITY", p->m[0].capacity ? rest & 0x80 ? "192M" : "48M" : "80G", TRUE);
	g_setenv("VPMM_HOST_DEVICES", G_STRINGIFY(MODEL_DEVICES), TRUE);
	g_setenv("VPMM_HOST_MAPPINGS", p->m[0].few_mappings ? rest & 0x80 ? "160" : "40" : "524090", TRUE);
}

void program_open_pool(struct program *p, struct model *m)
{
	const struct vpmm_opts *opts = &p->opts[m - p->m];

	model_open(m, *opts, true);
	assert_ok(note_begin(m->f.pool, opts->trace));
	if (p->caching == 1 || p->caching == 2)
		m->f.pool->core.settings.cache = p->caching == 1 && m->f.pool->core.settings.scrub != VPMM_SCRUB_ALWAYS;
}

void program_create_streams(struct program *p)
{
	for (unsigned int i = 0; i < p->n_streams; i++) {
		if (p->defaults && i == p->n_streams - 1)
			p->streams[i] = VPMM_HOST_STREAM_PER_THREAD;
		else if (p->defaults && i == p->n_streams - 2)
			p->streams[i] = NULL;
		else
			assert_ok(vpmm_host_stream_create(&p->streams[i]));
	}
}

static void open_all(struct program *p)
{
	p->capture.works = g_ptr_array_new_with_free_func(g_free);
	p->capture.groups = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
	program_create_streams(p);
	for (unsigned int i = 0; i < p->pools; i++)
		program_open_pool(p, &p->m[i]);
}

void program_complete(struct program *p)
{
	bool busy = true;

	while (busy) {
		busy = false;
		for (unsigned int i = 0; i < p->n_streams; i++)
			busy |= vpmm_host_stream_complete(p->streams[i], UINT_MAX) == -EBUSY;
	}
}

static void close_all(struct program *p)
{
	program_complete(p);
	program_drop_graphs(p, NULL);
	for (unsigned int i = 0; i < p->pools; i++)
		model_close(&p->m[i]);
	g_ptr_array_free(p->capture.works, TRUE);
	g_hash_table_destroy(p->capture.groups);
	for (unsigned int i = 0; i < p->n_streams - (p->defaults ? 2 : 0); i++)
		assert_ok(vpmm_host_stream_destroy(p->streams[i]));
	fixture_assert_nothing_left();
}

static guint live_of(struct model *m, uint8_t byte)
{
	return byte % m->live->len;
}

struct fault {
	enum backend_op op;
	int err;
};

static const struct fault faults[] = {
	{ BACKEND_OP_enter, -EIO }, { BACKEND_OP_info, -EIO }, { BACKEND_OP_reserve, -ENOMEM },
	{ BACKEND_OP_reserve, -EIO }, { BACKEND_OP_unreserve, -EIO }, { BACKEND_OP_create, -ENOMEM },
	{ BACKEND_OP_create, -EIO }, { BACKEND_OP_map, -ENOMEM }, { BACKEND_OP_map, -EIO },
	{ BACKEND_OP_access, -ENOMEM }, { BACKEND_OP_access, -EIO }, { BACKEND_OP_unmap, -EIO },
	{ BACKEND_OP_stream_id, -EBUSY }, { BACKEND_OP_stream_id, -EINVAL }, { BACKEND_OP_stream_wait, -EIO },
	{ BACKEND_OP_event_create, -ENOMEM }, { BACKEND_OP_event_create, -EIO },
	{ BACKEND_OP_event_record, -EIO }, { BACKEND_OP_event_query, -EIO }, { BACKEND_OP_event_sync, -EIO },
	{ BACKEND_OP_small_alloc, -ENOMEM }, { BACKEND_OP_small_alloc, -EIO }, { BACKEND_OP_small_free, -EIO },
	{ BACKEND_OP_small_held, -EIO }, { BACKEND_OP_release, -EIO }, { BACKEND_OP_sync, -EIO },
};

/* A few calls of it, or all from then on, until the next call of the pool is over. */
static void arm(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	const struct fault *fault = &faults[a % G_N_ELEMENTS(faults)];
	unsigned int times = b >> 4;

	model_arm(m, fault->op, b & 15, times == 15 ? UINT_MAX : 1 + times % 4, fault->err);
}

/* What fails half way fails to be undone as well. */
static void arm_undo(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	arm(p, m, a, b);
	model_arm(m, BACKEND_OP_unmap, b % 4, UINT_MAX, -EIO);
	if (b & 0x80)
		model_arm(m, BACKEND_OP_release, 0, UINT_MAX, -EIO);
}

/*
 * One more pool, which may fail to come about. What is given back then has no second chance, so that may not fail.
 */
static void create(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	const struct fault *fault = &faults[a % G_N_ELEMENTS(faults)];
	struct settings settings;
	struct vpmm_pool *pool;
	struct backend *host, *be;
	int err;

	assert_ok(settings_from_opts(&settings, &p->opts[m - p->m]));
	settings.pages = settings.page_size == SIZE_MAX ? 0 : b / 16;
	assert_ok(backend_open("host", NULL, &host));
	assert_ok(backend_fault_wrap(host, &be));
	assert_ok(be->ops->enter(be));
	if (fault->op != BACKEND_OP_release && fault->op != BACKEND_OP_unreserve)
		backend_fault_arm(be, fault->op, b & 15, 1, fault->err);
	/* The device's limits are those of all pools. */
	err = pool_new(&pool, be, &settings);
	backend_fault_arm(be, fault->op, 0, 0, 0);
	if (err)
		g_assert_true(err == fault->err || (err == -ENOMEM && (m->capacity || m->few_mappings)));
	else
		pool_delete(pool, POOL_END_WAIT);
	be->ops->leave(be);
	be->ops->close(be);
}

static void look_closely(struct model *m, uint8_t a, uint8_t b)
{
	if (a % 3 == 1 && m->live->len)
		model_lookup(m, live_of(m, b));
	else if (a % 3 == 2)
		model_reset_peaks(m);
	else if (b & 0x80)
		model_set_peers(m, (uint64_t)b << 1 & ((1 << MODEL_DEVICES) - 1));
	else
		model_may_fail(m, vpmm_pool_check(m->f.pool));
}

static void look(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct vpmm_info info = { .size = sizeof(info) };

	switch (a % 6) {
	case 0:
		rewind(p->dump);
		model_may_fail(m, vpmm_pool_dump(m->f.pool, p->dump));
		break;
	case 1:
		model_may_fail(m, vpmm_pool_stats(m->f.pool, &stats));
		break;
	case 2:
		if (!model_may_fail(m, vpmm_pool_info(m->f.pool, &info)))
			g_assert_cmpuint(info.page_size, ==, m->page_size);
		break;
	case 3:
		model_trim(m, (size_t)a / 6 * PAGE);
		break;
	case 4:
		model_query(m, (size_t)a * 100000, program_stream(p, a));
		break;
	default:
		look_closely(m, a / 6, b);
	}
}

static void misuse_realloc(struct model *m, const struct model_allocation *live, uint8_t a, struct CUstream_st *stream)
{
	void *ptr = live->ptr + 1 + a, *given = ptr;

	switch (a % 4) {
	case 0:
		assert_error(vpmm_malloc(m->f.pool, NULL, PAGE, stream), EINVAL, "ptr");
		break;
	case 1:
		assert_error(vpmm_realloc(m->f.pool, NULL, PAGE, stream), EINVAL, "ptr");
		break;
	case 2:
		assert_error(vpmm_realloc(m->f.pool, &ptr, PAGE, stream), EINVAL, "no allocation");
		break;
	default:
		assert_error(vpmm_realloc(m->f.pool, &ptr, 0, stream), EINVAL, "no allocation");
	}
	g_assert_true(ptr == given);
}

/* Calls that are none of the caller's right. */
static void misuse(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	struct model_allocation *live = m->live->len ? m->live->pdata[live_of(m, b)] : NULL;
	struct model *other = &p->m[(m - p->m + 1) % p->pools];
	struct CUstream_st *stream;
	void *ptr = &p, *freed;

	model_disarm(m);
	if (!program_stream_outside(p, b, &stream))
		return;
	switch (a % 9) {
	case 0:
		if (live)
			assert_error(vpmm_free(m->f.pool, live->ptr + 1 + b, stream), EINVAL, "no allocation");
		break;
	case 1:
		assert_error(vpmm_free(m->f.pool, &p, stream), EINVAL, "no allocation");
		break;
	case 2:
		assert_ok(vpmm_free(m->f.pool, NULL, stream));
		break;
	case 3:
		assert_error(vpmm_malloc(m->f.pool, &ptr, SIZE_MAX - 1 - b, stream), ENOMEM, "wanted: ");
		g_assert_true(ptr == &p);
		break;
	case 4:
		assert_error(vpmm_malloc(m->f.pool, &ptr, PAGE, (struct CUstream_st *)(void *)&p), EINVAL, "stream");
		g_assert_true(ptr == &p);
		break;
	case 5:
		assert_error(vpmm_malloc(m->f.pool, &ptr, (size_t)100 << 30, stream), ENOMEM, "wanted: ");
		g_assert_true(ptr == &p);
		break;
	case 6:
		if (!live)
			break;
		model_disarm(other);
		assert_error(vpmm_free(other->f.pool, live->ptr + (p->pools == 1), stream), EINVAL, "no allocation");
		break;
	case 7:
		if (!live)
			break;
		freed = live->ptr;
		model_free(m, live_of(m, b));
		assert_error(vpmm_free(m->f.pool, freed, stream), EINVAL, "no allocation");
		break;
	default:
		if (live)
			misuse_realloc(m, live, a / 9, stream);
	}
}

/* What is still allocated goes with the pool. */
static void start_anew(struct program *p, struct model *m, uint8_t b)
{
	if (b >= 0xc0) {
		program_reset(p, b);
		return;
	}
	program_complete(p);
	program_drop_graphs(p, m);
	if (b & 0x40)
		model_abandon(m);
	else
		model_close(m);
	program_open_pool(p, m);
}

static void allocate(struct model *m, size_t size, struct CUstream_st *stream)
{
	if (m->live->len < MOST_LIVE)
		model_malloc(m, program_size(m, size), stream);
}

static void allocate_pages(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	size_t size = (1 + (size_t)a % MOST_PAGES) * PAGE;

	if (a >= 0xc0)
		size -= 4096;
	else if (a >= 0x90)
		size = size * b / 256 + 1;
	allocate(m, size, program_stream(p, b));
}

static void allocate_small(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	allocate(m, 8 + (size_t)a * 257, program_stream(p, b));
}

/* From one byte to 240 MiB, each power of two as likely. */
static void allocate_any(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	size_t size = (size_t)(8 + (a >> 5)) << (a % 28) >> 3, less = b >> 4;

	allocate(m, size > less ? size - less : 1, program_stream(p, b));
}

/* Never the same size twice, however often it is repeated. */
static void allocate_another(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	allocate(m, ((size_t)a << 14) + p->done * CORE_PIECE, program_stream(p, b));
}

static void verify(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	if (!m->live->len)
		return;
	if (b >> 7)
		model_move(m, live_of(m, a), program_stream(p, b));
	model_verify(m, live_of(m, a));
}

static void give_back(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	if (m->live->len && b >= 0xc0 && !p->capture.stream)
		model_free_any(m, live_of(m, a), program_stream(p, b));
	else if (m->live->len)
		model_free(m, live_of(m, a));
}

static void give_back_on(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	if (!m->live->len)
		return;
	model_move(m, live_of(m, a), program_stream(p, b));
	model_free(m, live_of(m, a));
}

/* Of several neighbours in the list, so that what was allocated together goes together. */
static void give_back_many(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	for (int i = 0; i <= b % 32 && m->live->len; i++)
		model_free(m, live_of(m, a));
}

static void complete(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	model_complete(m, program_stream(p, b), 1 + a % 8);
}

/* A submission needs a stream and no more, so that the second byte is free to ask for other things instead. */
static void submit(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	if (a & 0x80)
		fuzz_growable(p, m, a, b);
	else if (a & 0x40)
		fuzz_share(p, m, a, b);
	else
		assert_ok(vpmm_host_stream_submit(program_stream(p, b)));
}

static void wait_for(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	if (program_stream(p, a) != program_stream(p, b) && !model_is_captured(m, program_stream(p, a)) &&
	    !model_is_captured(m, program_stream(p, b)))
		assert_ok(vpmm_host_stream_wait(program_stream(p, a), program_stream(p, b)));
}

static void seldom(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	if (a < 0x20)
		start_anew(p, m, b);
	else if (a < 0x40)
		program_complete(p);
	else if (a >= 0x80)
		program_renew_stream(p, b % p->n_streams);
	else if (!p->capture.stream)
		create(p, m, a, b);
}

static void repeat(struct program *p, struct model *m, uint8_t a, uint8_t b);

/* By the row that an operation names; what none has does nothing. */
static void (*const operations[WHAT_ROW + 1])(struct program *p, struct model *m, uint8_t a, uint8_t b) = {
	[0] = allocate_pages,
	[1] = allocate_pages,
	[2] = fuzz_aligned,
	[3] = allocate_any,
	[4] = allocate_small,
	[5] = give_back,
	[6] = fuzz_bound,
	[7] = give_back_on,
	[8] = verify,
	[9] = complete,
	[10] = submit,
	[11] = arm,
	[12] = fuzz_realloc,
	[13] = look,
	[14] = misuse,
	[15] = seldom,
	[16] = repeat,
	[17] = give_back_many,
	[18] = wait_for,
	[19] = allocate_another,
	[20] = arm_undo,
	[21] = fuzz_use,
	[22] = fuzz_retire_stream,
	[23] = fuzz_zeroed,
	[24] = fuzz_trim,
	[25] = fuzz_query,
	[26] = fuzz_capture,
	[27] = fuzz_captured,
	[28] = fuzz_launch,
	[29] = fuzz_retire_graph,
	[30] = fuzz_options,
	[31] = fuzz_arm,
};

struct step {
	struct program *p;
	struct model *m;
	const uint8_t *bytes;
};

static void *perform(void *data)
{
	struct step *step = data;

	operations[step->bytes[0] & WHAT_ROW](step->p, step->m, step->bytes[1], step->bytes[2]);
	return NULL;
}

/* The per-thread stream of a thread that has ended is nobody's to complete, so threads and it do not go together. */
static void perform_elsewhere(struct step *step)
{
	pthread_t thread;

	g_assert_cmpint(pthread_create(&thread, NULL, perform, step), ==, 0);
	pthread_join(thread, NULL);
}

static void operate(struct program *p, size_t at)
{
	const uint8_t *bytes = p->data + at;
	struct step step = { .p = p, .m = &p->m[(bytes[0] & WHAT_POOL) / (WHAT_ROW + 1) % p->pools], .bytes = bytes };

	if (!operations[bytes[0] & WHAT_ROW] || p->done == MOST_OPERATIONS)
		return;
	p->done++;
	if (bytes[0] & WHAT_ELSEWHERE && !p->defaults && !p->repeating)
		perform_elsewhere(&step);
	else
		perform(&step);
	for (unsigned int i = 0; i < p->pools; i++) {
		p->m[i].seldom |= p->done >= CLOSELY;
		if (!p->m[i].armed && (p->done < CLOSELY || p->done % SELDOM == 0))
			model_check(&p->m[i]);
	}
}

/* What a program does in a loop, it does more often than anybody would write down. */
static void repeat(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	size_t end = p->at, start = end - MIN(end - HEADER, 3 * (1 + (size_t)a % 16));

	if (p->repeating)
		return;
	p->repeating = true;
	for (int i = 0; i <= b; i++) {
		for (size_t at = start; at < end; at += 3)
			operate(p, at);
	}
	p->repeating = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *dump;
	struct program p = { .data = data };

	if (size < HEADER)
		return 0;
	if (!dump)
		dump = tmpfile();
	g_assert_nonnull(dump);
	p.dump = dump;
	configure(&p, data[0], data[1]);
	open_all(&p);
	for (p.at = HEADER; p.at + 3 <= size; p.at += 3)
		operate(&p, p.at);
	close_all(&p);
	return 0;
}
