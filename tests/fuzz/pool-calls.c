// SPDX-License-Identifier: LGPL-2.1-or-later
/* Operations of fuzz-pool beside malloc and free: users, streams that go, options, and what may fail of them. */
#include <errno.h>
#include <string.h>

#include "calls/pool.h"
#include "program.h"

#define MOST_CLEARED (3 * PAGE)

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
	if (m->live->len < MOST_LIVE)
		model_malloc_flags(m, size_of(a), program_stream(p, b), VPMM_ZERO);
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

/* What the pool says is what it does, if nothing else is done before; but it does not foresee the end of what is held. */
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
	opts->limit = a & 0x04 ? (16 + (size_t)b) * PAGE : 0;
	opts->limit_percent = a & 0x08 ? m->capacity ? 75 : 1 : 0;
	opts->keep = a & 0x10 ? 1 + (b & 0x80 ? (size_t)(b & 0x3f) * PAGE : 0) : 0;
	opts->pressure = a & 0x40 ? give : NULL;
	opts->exhausted = a & 0x80 ? hear : NULL;
	opts->pressure_data = m;
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
