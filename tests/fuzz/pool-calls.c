// SPDX-License-Identifier: LGPL-2.1-or-later
/* Operations of fuzz-pool beside malloc and free: users, streams that go, options, and what may fail of them. */
#include <errno.h>
#include <string.h>

#include "calls/pool.h"
#include "policy/tuning.h"
#include "program.h"
#include "support/fault.h"

#define MOST_CLEARED (3 * PAGE)
#define MOST_COPIED (2 * PAGE)

void fuzz_use(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	if (m->live->len)
		model_use(m, a % m->live->len, program_stream(p, b));
}

static bool is_user(const struct model *m, struct CUstream_st *stream)
{
	for (guint i = 0; i < m->live->len; i++) {
		if (g_ptr_array_find(((struct model_allocation *)m->live->pdata[i])->users, stream, NULL))
			return true;
	}
	return false;
}

/* All work of the old one is done, so whoever uses its allocations now comes after it. */
void program_renew_stream(struct program *p, unsigned int index)
{
	struct CUstream_st *old = p->streams[index];
	int err;

	if ((p->defaults && index >= p->n_streams - 2) || model_is_captured(p->m, old))
		return;
	for (unsigned int i = 0; i < p->pools; i++) {
		if (is_user(&p->m[i], old))
			model_retire_stream(&p->m[i], old);
	}
	err = vpmm_host_stream_destroy(old);
	g_assert_true(err == 0 || err == -EBUSY);
	if (err)
		return;
	assert_ok(vpmm_host_stream_create(&p->streams[index]));
	for (unsigned int i = 0; i < p->pools; i++)
		model_replace_stream(&p->m[i], old, p->streams[index]);
	for (unsigned int i = 0; i < p->n_graphs; i++) {
		if (p->graphs[i].last == old)
			p->graphs[i].last = p->streams[index];
	}
}

/* One that is not destroyed then is met again. */
void fuzz_retire_stream(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	model_retire_stream(m, program_stream(p, b));
	if (!(a & 1))
		return;
	for (unsigned int i = 0; i < p->pools; i++)
		model_retire_stream(&p->m[i], program_stream(p, b));
	program_renew_stream(p, b % p->n_streams);
}

size_t program_size(const struct model *m, size_t size)
{
	return m->f.pool->core.settings.scrub ? MIN(size, MOST_CLEARED) : size;
}

static size_t size_of(uint8_t a)
{
	return a & 0x80 ? (size_t)(a & 0x7f) * 700 + 8 : (size_t)(a & 0x7f) * (PAGE / 32) + 8;
}

void fuzz_zeroed(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	static const unsigned int flags[] = { VPMM_ZERO, VPMM_ZERO, VPMM_IDLE, VPMM_IDLE | VPMM_ZERO };
	bool idle = b & 0x80 && !p->capture.stream && m->page_size != SIZE_MAX;

	if (m->live->len < MOST_LIVE)
		model_malloc_flags(m, size_of(a), program_stream(p, b), flags[idle ? b >> 5 & 3 : 0]);
}

/* From what every block has to what no page has. */
void fuzz_aligned(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	static const size_t sizes[] = {
		8, 4096, 100000, PAGE / 2 + 512, PAGE - 512, PAGE, PAGE + 512, PAGE + 4096,
		2 * PAGE, 3 * PAGE, 3 * PAGE + 8, 7 * PAGE, 12 * PAGE, 13 * PAGE - 1, 20 * PAGE, 60 * PAGE,
	};
	bool idle = b & 0x80 && !p->capture.stream;

	if (m->live->len < MOST_LIVE)
		model_malloc_aligned(m, program_size(m, sizes[a >> 4]), (size_t)128 << (a & 15), program_stream(p, b),
				     idle ? VPMM_IDLE : 0);
}

/* What a pool asks of the driver seldom. */
static void arm_seldom(struct model *m, unsigned int which, uint8_t b)
{
	static const enum backend_op ops[] = { BACKEND_OP_graph_watch, BACKEND_OP_copy, BACKEND_OP_event_record_all,
					       BACKEND_OP_small_trim };

	model_arm(m, ops[which % G_N_ELEMENTS(ops)], b & 7, b & 0x80 ? UINT_MAX : 1, -EIO);
}

/* A limit of so many pages, or of some more or less than the pool holds; and what bounds the memory of graphs. */
void fuzz_bound(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	uint64_t held = m->f.pool->core.extents.held, pages = (uint64_t)(a & 0x1f) * PAGE;

	switch (a >> 5) {
	case 0:
		model_set_limit(m, b * PAGE);
		break;
	case 1:
		model_set_limit(m, held + pages + b);
		break;
	case 2:
		model_set_limit(m, held > pages ? held - pages : held / 2 + 1);
		break;
	case 3:
		arm_seldom(m, a & 0x1f, b);
		break;
	default:
		fuzz_lose_graph(p, m, a, b);
	}
}

/* Up to 16 pages at first, and up to 60 at last. */
void fuzz_growable(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	static const size_t times[] = { 1, 2, 4, 60 };
	size_t size = program_size(m, (a & 15) * PAGE + (a & 0x10 ? 8 : PAGE / 2));

	if (m->live->len < MOST_LIVE)
		model_malloc_growable(m, size, MIN(times[a >> 5 & 3] * size, 60 * PAGE), program_stream(p, b));
}

/* By a little or by a lot, to what others are served by, and to what there may be none of. */
static size_t resized(size_t size, uint8_t way)
{
	switch (way % 16) {
	case 0: return 8;
	case 1: return size / 2 + 1;
	case 2: return size > 8 ? size - 1 : size;
	case 3: return size;
	case 4: return size + 1;
	case 5: return size + 512;
	case 6: return size + size / 2;
	case 7: return 2 * size;
	case 8: return PAGE;
	case 9: return PAGE / 2;
	case 10: return 3 * PAGE;
	case 11: return size + PAGE;
	case 12: return 12 * PAGE;
	case 13: return 4096;
	case 14: return size > PAGE ? size - PAGE : size / 4 + 1;
	default: return 60 * PAGE;
	}
}

/*
 * Blocks of so many MiB are mapped at another address rather than copied, where their extents have so many each. Only
 * the library that run.sh builds can be told: others copy.
 */
static void set_remap(int least, int extent)
{
#ifdef POLICY_TUNABLE
	tuning_remap_least = least;
	tuning_remap_extent = extent;
#else
	(void)least;
	(void)extent;
#endif
}

/* Mostly on the stream that has it. What is copied takes memory of the host's, to the last byte. */
void fuzz_realloc(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	const struct model_allocation *block;
	size_t size;

	if (!m->live->len)
		return;
	block = m->live->pdata[a % m->live->len];
	size = program_size(m, resized(block->size, b >> 4));
	if (!block->max && MIN(size, block->size) > MOST_COPIED)
		size = MOST_COPIED;
	/* Half of a pattern that was cleared is no pattern. */
	if (block->max && m->f.pool->core.settings.scrub)
		size = (size + 7) / 8 * 8;
	set_remap((b & 15) == 15 ? 2 : 64, (b & 15) == 15 ? 2 : 8);
	model_realloc(m, a % m->live->len, size, b & 8 ? block->stream : program_stream(p, b & 7));
	set_remap(64, 8);
}

void fuzz_trim(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	model_trim(m, (size_t)a * b / 8 * PAGE);
}

/* How much the driver's allocator takes for a request, the pool cannot foresee. */
static bool can_foresee(const struct model *m, size_t size)
{
	const struct settings *settings = &m->f.pool->core.settings;

	return !m->few_mappings && !settings->pressure &&
	       (settings->small == VPMM_SMALL_POOL || size >= settings->page_size);
}

/*
 * What the pool says is what it does, if nothing else is done before; but it does not foresee the end of what is held.
 */
void fuzz_query(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	struct CUstream_st *stream = program_stream(p, b);
	size_t size = program_size(m, b & 0x80 ? (size_t)a * PAGE : size_of(a));
	int way = model_query(m, size, stream);

	if (!size || b & 0x40 || m->live->len == MOST_LIVE || model_is_captured(m, stream) ||
	    !can_foresee(m, size) || (way == VPMM_WAY_NONE && m->holds))
		return;
	/* Where it would fail as things are, it may help to wait. */
	g_assert_true(model_malloc_flags(m, size, stream, 0) || way == VPMM_WAY_NONE);
}

/* A program that has something to give gives one thing at a time, or says that it has nothing. */
static int give(void *data, struct vpmm_pool *pool, size_t size)
{
	struct model *m = data;
	void *ptr = NULL;

	g_assert_true(pool == m->f.pool);
	if (m->armed)
		return 0;
	/* What fails here asks nobody. */
	assert_error(vpmm_malloc(pool, &ptr, SIZE_MAX / 2, m->f.streams[0]), ENOMEM, "wanted: ");
	for (guint i = 0; i < m->live->len; i++) {
		const struct model_allocation *a = m->live->pdata[i];

		if (model_is_captured(m, a->stream))
			continue;
		model_free(m, i);
		return 1;
	}
	return 0;
}

static void hear(void *data, struct vpmm_pool *pool, size_t size, const char *message)
{
	struct model *m = data;

	g_assert_true(pool == m->f.pool);
	g_assert_cmpstr(message, !=, "");
	m->told++;
}

/* What is still allocated goes with the pool; the next is another one. */
void fuzz_options(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	struct vpmm_opts *opts = &p->opts[m - p->m];

	opts->scrub = a % 4 % 3;
	opts->trace = opts->oom_dump = opts->plan = a % 4 == 3 ? "/dev/null" : NULL;
	opts->limit = a & 0x04 ? (16 + (size_t)b) * PAGE : 0;
	opts->limit_percent = a & 0x08 ? m->capacity ? 75 : 1 : 0;
	opts->keep = a & 0x10 ? 1 + (b & 0x80 ? (size_t)(b & 0x3f) * PAGE : 0) : 0;
	opts->pressure = a & 0x40 ? give : NULL;
	opts->exhausted = a & 0x80 ? hear : NULL;
	opts->pressure_data = m;
	opts->overlap = a & 0x20 ? b * 1000 / UINT8_MAX : VPMM_OVERLAP_NONE;
	if (opts->overlap == 1000)
		opts->overlap = VPMM_OVERLAP_AUTO;
	program_complete(p);
	program_drop_graphs(p, m);
	model_close(m);
	program_open_pool(p, m);
}

/* As arm() of fuzz-pool does it, with what the calls here ask of the driver besides. */
void fuzz_arm(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	static const struct {
		enum backend_op op;
		int err;
	} faults[] = {
		{ BACKEND_OP_clear, -EIO }, { BACKEND_OP_stream_capture, -EIO }, { BACKEND_OP_stream_capture, -EBUSY },
		{ BACKEND_OP_event_create, -ENOMEM }, { BACKEND_OP_event_record, -EIO },
		{ BACKEND_OP_stream_wait, -EIO }, { BACKEND_OP_small_free, -EIO }, { BACKEND_OP_sync, -EBUSY },
	};

	model_arm(m, faults[a % G_N_ELEMENTS(faults)].op, b & 7, b & 0x80 ? UINT_MAX : 1U + (b >> 3 & 3),
		  faults[a % G_N_ELEMENTS(faults)].err);
}
