// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Bytes as a program of operations on a pool, with faults, and the model beside it. The first byte says what the pool
 * is to be, then each operation has three: what, and two that say on which, how much, how often.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "model.h"
#include "pool.h"
#include "settings.h"

#define MOST_OPERATIONS 600
#define MOST_LIVE 60
#define MOST_PAGES 12

struct program {
	struct model m;
	struct vpmm_opts opts;
	FILE *dump;
};

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
		opts->small = opts->pages ? VPMM_SMALL_DRIVER : VPMM_SMALL_POOL;
		break;
	default:
		opts->page_size = SIZE_MAX;
		opts->pages = 0;
	}
}

static void configure(struct program *p, uint8_t bits)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .log = ignore };

	if (bits & 1)
		opts.reuse = VPMM_REUSE_BLOCK;
	if (bits & 2)
		opts.va_size = 8 * PAGE;
	if (bits & 4)
		opts.page_size = 2 * PAGE;
	if ((bits & 0x18) == 0x08)
		p->m.capacity = 24 * PAGE;
	if ((bits & 0x18) == 0x10)
		p->m.few_mappings = true;
	if ((bits & 0x18) == 0x18)
		opts.pages = 5;
	if (bits & 0x20)
		opts.log_level = VPMM_LOG_DEBUG;
	configure_extents(&opts, bits >> 6);
	p->opts = opts;
	g_setenv("VPMM_HOST_CAPACITY", p->m.capacity ? "48M" : "80G", TRUE);
	g_setenv("VPMM_HOST_MAPPINGS", p->m.few_mappings ? "40" : "524090", TRUE);
}

static struct CUstream_st *stream_of(struct program *p, uint8_t byte)
{
	return p->m.f.streams[byte % STREAMS];
}

static guint live_of(struct program *p, uint8_t byte)
{
	return byte % p->m.live->len;
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
	{ BACKEND_OP_small_held, -EIO }, { BACKEND_OP_release, -EIO },
};

static void arm(struct program *p, uint8_t a, uint8_t b)
{
	const struct fault *fault = &faults[a % G_N_ELEMENTS(faults)];

	model_arm(&p->m, fault->op, b & 15, 1 + (b >> 4) % 4, fault->err);
}

/*
 * One more pool, which may fail to come about. What is given back then has no second chance, so that may not fail.
 */
static void create(struct program *p, uint8_t a, uint8_t b)
{
	const struct fault *fault = &faults[a % G_N_ELEMENTS(faults)];
	struct settings settings;
	struct vpmm_pool *pool;
	struct backend *host, *be;
	int err;

	assert_ok(settings_from_opts(&settings, &p->opts));
	settings.pages = settings.page_size == SIZE_MAX ? 0 : b / 16;
	assert_ok(backend_open("host", NULL, &host));
	assert_ok(backend_fault_wrap(host, &be));
	assert_ok(be->ops->enter(be));
	if (fault->op != BACKEND_OP_release && fault->op != BACKEND_OP_unreserve)
		backend_fault_arm(be, fault->op, b & 15, 1, fault->err);
	/* The device's limits are those of both pools. */
	err = pool_new(&pool, be, &settings);
	backend_fault_arm(be, fault->op, 0, 0, 0);
	if (err)
		g_assert_true(err == fault->err || (err == -ENOMEM && (p->m.capacity || p->m.few_mappings)));
	else
		pool_delete(pool);
	be->ops->leave(be);
	be->ops->close(be);
}

static void look(struct program *p, uint8_t a)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct vpmm_info info = { .size = sizeof(info) };

	switch (a % 4) {
	case 0:
		rewind(p->dump);
		model_may_fail(&p->m, vpmm_pool_dump(p->m.f.pool, p->dump));
		break;
	case 1:
		model_may_fail(&p->m, vpmm_pool_stats(p->m.f.pool, &stats));
		break;
	case 2:
		if (!model_may_fail(&p->m, vpmm_pool_info(p->m.f.pool, &info)))
			g_assert_cmpuint(info.page_size, ==, p->m.page_size);
		break;
	default:
		model_may_fail(&p->m, vpmm_pool_check(p->m.f.pool));
	}
}

/* Calls that are none of the caller's right. */
static void misuse(struct program *p, uint8_t a, uint8_t b)
{
	struct model_allocation *live = p->m.live->len ? p->m.live->pdata[live_of(p, b)] : NULL;
	struct CUstream_st *stream = stream_of(p, b);
	void *ptr = &p;

	model_disarm(&p->m);
	switch (a % 7) {
	case 0:
		if (live)
			assert_error(vpmm_free(p->m.f.pool, live->ptr + 1 + b, stream), EINVAL, "no allocation");
		break;
	case 1:
		assert_error(vpmm_free(p->m.f.pool, &p, stream), EINVAL, "no allocation");
		break;
	case 2:
		assert_ok(vpmm_free(p->m.f.pool, NULL, stream));
		break;
	case 3:
		assert_error(vpmm_malloc(p->m.f.pool, &ptr, SIZE_MAX - 1 - b, stream), ENOMEM, "bytes");
		g_assert_true(ptr == &p);
		break;
	case 4:
		assert_error(vpmm_malloc(p->m.f.pool, &ptr, PAGE, (struct CUstream_st *)(void *)&p), EINVAL, "stream");
		g_assert_true(ptr == &p);
		break;
	case 5:
		assert_error(vpmm_malloc(p->m.f.pool, &ptr, (size_t)100 << 30, stream), ENOMEM, "bytes");
		g_assert_true(ptr == &p);
		break;
	default:
		assert_error(vpmm_malloc(p->m.f.pool, NULL, PAGE, stream), EINVAL, "ptr");
	}
}

/* What is still allocated goes with the pool. */
static void start_anew(struct program *p)
{
	model_close(&p->m);
	model_open(&p->m, p->opts, true);
}

static void allocate(struct program *p, uint8_t a, uint8_t b)
{
	size_t size = (1 + (size_t)a % MOST_PAGES) * PAGE;

	if (p->m.live->len == MOST_LIVE)
		return;
	if (a >= 0xc0)
		size -= 4096;
	else if (a >= 0x90)
		size = size * b / 256 + 1;
	model_malloc(&p->m, size, stream_of(p, b));
}

static void on_allocation(struct program *p, unsigned int what, uint8_t a, uint8_t b)
{
	guint index;

	if (!p->m.live->len)
		return;
	index = live_of(p, a);
	if (what & 1)
		model_move(&p->m, index, stream_of(p, b));
	if (what & 2)
		model_free(&p->m, index);
	else
		model_verify(&p->m, index);
}

static void operate(struct program *p, uint8_t what, uint8_t a, uint8_t b)
{
	switch (what % 16) {
	case 0: case 1: case 2: case 3:
		allocate(p, a, b);
		break;
	case 4:
		if (p->m.live->len < MOST_LIVE)
			model_malloc(&p->m, 8 + (size_t)a * 257, stream_of(p, b));
		break;
	case 5: case 6:
		on_allocation(p, 2, a, b);
		break;
	case 7:
		on_allocation(p, 3, a, b);
		break;
	case 8:
		on_allocation(p, b >> 7, a, b);
		break;
	case 9:
		model_complete(&p->m, stream_of(p, b), 1 + a % 8);
		break;
	case 10:
		assert_ok(vpmm_host_stream_submit(stream_of(p, b)));
		break;
	case 11: case 12:
		arm(p, a, b);
		break;
	case 13:
		look(p, a);
		break;
	case 14:
		misuse(p, a, b);
		break;
	default:
		if (a < 0x20)
			start_anew(p);
		else if (a < 0x40)
			model_complete_all(&p->m);
		else if (a < 0x80)
			create(p, a, b);
		else
			model_renew_stream(&p->m, b % STREAMS);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *dump;
	struct program p = { .m = { .live = NULL } };

	if (!size)
		return 0;
	if (!dump)
		dump = tmpfile();
	g_assert_nonnull(dump);
	p.dump = dump;
	configure(&p, data[0]);
	model_open(&p.m, p.opts, true);
	for (size_t i = 1; i + 3 <= size && i < 3 * MOST_OPERATIONS; i += 3) {
		operate(&p, data[i], data[i + 1], data[i + 2]);
		if (!p.m.armed)
			model_check(&p.m);
	}
	model_close(&p.m);
	return 0;
}
