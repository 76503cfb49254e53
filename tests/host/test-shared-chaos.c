// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Random programs with shared ranges, beside a model of what each page holds, while calls of the driver fail: up to
 * three in a row, in any call of the program and in any touch of the CPU. No byte is lost, a call that fails has
 * changed nothing that the program can tell, and can be made again.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/ranges.h"
#include "support/setting.h"
#include "util/assume.h"

#define RANGES 2
#define PAGES ((size_t)4)
#define LIMIT 7
#define USERS 3

/* What the program knows of a range. */
struct known {
	unsigned char *at;
	unsigned char values[PAGES];
	unsigned int pins[PAGES];
	bool touched[PAGES];		/* it may have memory */
	enum vpmm_advice advice[PAGES];
	bool used[USERS];
};

struct chaos {
	struct fixture f;
	struct known ranges[RANGES];
	unsigned char *block;
	size_t block_size;
	unsigned int seed;
	bool armed;
	bool fair;			/* an error of the call under way may be none of a fault */
	uint64_t failed;
	uint64_t calls;
	struct vpmm_mirror *mirror;
};

static unsigned int pick(struct chaos *c, unsigned int count)
{
	return (unsigned int)rand_r(&c->seed) % count;
}

static void arm(struct chaos *c)
{
	static const int errors[] = { -EIO, -ENOMEM };

	c->armed = !pick(c, 2);
	if (c->armed)
		backend_fault_arm(c->f.pool->core.backend, BACKEND_OP_COUNT, pick(c, 24), 1 + pick(c, 3),
				  errors[pick(c, 2)]);
}

static void disarm(struct chaos *c)
{
	backend_fault_arm(c->f.pool->core.backend, BACKEND_OP_COUNT, 0, 0, 0);
	c->armed = false;
}

/* Makes a call of the program, under faults maybe, and again without. */
#define MAKE(c, call) \
	({ \
		int ret_; \
		arm(c); \
		ret_ = (call); \
		(c)->calls++; \
		if (ret_ < 0 && (c)->armed) { \
			(c)->failed++; \
			disarm(c); \
			ret_ = (call); \
		} \
		if (ret_ < 0 && !((c)->fair && ret_ == -ENOMEM)) \
			g_error("%s:%d: %s: %d, %s", __FILE__, __LINE__, #call, ret_, vpmm_last_error()); \
		disarm(c); \
		ret_; \
	})

static void complete_all(struct chaos *c)
{
	for (int i = 0; i < STREAMS; i++)
		fixture_complete(c->f.streams[i]);
}

/* Where the model looks. */
static const size_t offsets[] = { 0, PAGE / 2 + 77, PAGE - 1 };

static unsigned char *page_of(struct known *k, size_t page)
{
	return k->at + page * PAGE;
}

static void expect_page(struct chaos *c, struct known *k, size_t page)
{
	const volatile unsigned char *at = page_of(k, page);

	complete_all(c);
	for (size_t i = 0; i < G_N_ELEMENTS(offsets); i++)
		g_assert_cmpuint(at[offsets[i]], ==, k->values[page]);
	k->touched[page] = true;
}

static void read_page(struct chaos *c, struct known *k, size_t page)
{
	arm(c);
	expect_page(c, k, page);
	disarm(c);
}

static void write_page(struct chaos *c, struct known *k, size_t page)
{
	volatile unsigned char *at = page_of(k, page);

	complete_all(c);
	arm(c);
	k->values[page] = (unsigned char)pick(c, 256);
	for (size_t i = 0; i < G_N_ELEMENTS(offsets); i++)
		at[offsets[i]] = k->values[page];
	k->touched[page] = true;
	disarm(c);
}

static void kernel(void *data)
{
	unsigned char *seen = data;

	for (size_t i = 0; i < G_N_ELEMENTS(offsets); i++)
		seen[offsets[i]]++;
}

static void launch(struct chaos *c, struct known *k, size_t page)
{
	unsigned int user = pick(c, USERS);
	struct vpmm_page where = ranges_page(&c->f, page_of(k, page));

	if (where.flags & (VPMM_PAGE_EMPTY | VPMM_PAGE_READ_MOSTLY))
		return;
	MAKE(c, vpmm_use(c->f.pool, k->at, c->f.streams[user]));
	assert_ok(vpmm_host_stream_launch(c->f.streams[user], kernel, vpmm_host_view(page_of(k, page))));
	k->values[page]++;
	if (pick(c, 2))
		fixture_complete(c->f.streams[user]);
}

/* Takes part in a migration: leaves pages, copies them itself, or has them copied. */
static void take_part(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	struct chaos *c = data;

	(void)stream;
	for (size_t i = 0; i < count; i++) {
		switch (pick(c, 3)) {
		case 0:
			moves[i].flags |= VPMM_MOVE_SKIP;
			break;
		case 1:
			if (moves[i].from)
				memcpy(moves[i].to, moves[i].from, moves[i].size);
			else
				memset(moves[i].to, 0, moves[i].size);
			moves[i].flags |= VPMM_MOVE_COPIED;
			break;
		default:
			break;
		}
	}
}

static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct vpmm_page page;

	(void)mirror;
	(void)data;
	(void)end;
	if (action == VPMM_MIRROR_MOVE) {
		g_assert_cmpint(vpmm_locate(NULL, start, 1, &page), ==, 1);
		g_assert_true(page.flags & VPMM_PAGE_MOVING);
	}
}

static void migrate(struct chaos *c, struct known *k, size_t first, size_t count)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), take_part, NULL };
	enum vpmm_location to = pick(c, 3) ? VPMM_DEVICE : VPMM_HOST;
	struct CUstream_st *stream = c->f.streams[pick(c, USERS)];

	MAKE(c, vpmm_migrate(c->f.pool, page_of(k, first), count * PAGE, to, stream, pick(c, 2) ? &ops : NULL, c));
}

static void fault(struct chaos *c, struct known *k, size_t first, size_t count)
{
	c->fair = true;
	MAKE(c, vpmm_fault(c->f.pool, page_of(k, first), count * PAGE, pick(c, 3) ? VPMM_DEVICE : VPMM_HOST, 0));
	c->fair = false;
}

/* Work that writes must be over before pages are read mostly. */
static void advise(struct chaos *c, struct known *k, size_t first, size_t count)
{
	static const enum vpmm_advice kinds[] = { VPMM_ADVISE_NONE, VPMM_ADVISE_PREFER_HOST, VPMM_ADVISE_PREFER_DEVICE,
						  VPMM_ADVISE_READ_MOSTLY, VPMM_ADVISE_READ_MOSTLY };

	complete_all(c);
	MAKE(c, vpmm_advise(c->f.pool, page_of(k, first), count * PAGE, kinds[pick(c, G_N_ELEMENTS(kinds))]));
}

static void pin(struct chaos *c, struct known *k, size_t page)
{
	if (k->pins[page] && pick(c, 2)) {
		assert_ok(vpmm_unpin(c->f.pool, page_of(k, page), PAGE));
		k->pins[page]--;
		return;
	}
	MAKE(c, vpmm_pin(c->f.pool, page_of(k, page), PAGE));
	k->pins[page]++;
	g_assert_cmpint(ranges_page(&c->f, page_of(k, page)).location, ==, VPMM_HOST);
}

static void allocate_range(struct chaos *c, struct known *k)
{
	void *at = NULL;

	c->fair = true;
	if (!MAKE(c, vpmm_shared_alloc(c->f.pool, &at, PAGES * PAGE, VPMM_SHARED_FINE)))
		*k = (struct known){ .at = at };
	c->fair = false;
}

static void free_range(struct chaos *c, struct known *k)
{
	bool pinned = false;

	for (size_t i = 0; i < PAGES; i++)
		pinned |= k->pins[i];
	if (pinned) {
		assert_error(vpmm_shared_free(c->f.pool, k->at, c->f.streams[0]), EBUSY, "pinned");
		return;
	}
	MAKE(c, vpmm_shared_free(c->f.pool, k->at, pick(c, 2) ? c->f.streams[0] : VPMM_STREAM_ANY));
	k->at = NULL;
}

/* Memory of the pool itself, which pushes pages out. */
static void change_block(struct chaos *c)
{
	void *block = c->block;

	if (c->block) {
		g_assert_true(fixture_is_filled((char *)c->block, c->block_size, 0x42));
		MAKE(c, vpmm_free(c->f.pool, block, c->f.streams[0]));
		c->block = NULL;
		return;
	}
	c->block_size = (1 + pick(c, 4)) * PAGE;
	c->fair = true;
	if (!MAKE(c, vpmm_malloc(c->f.pool, &block, c->block_size, c->f.streams[0]))) {
		c->block = block;
		memset(c->block, 0x42, c->block_size);
	}
	c->fair = false;
}

static void step(struct chaos *c)
{
	struct known *k = &c->ranges[pick(c, RANGES)];
	size_t first = pick(c, PAGES), count = 1 + pick(c, (unsigned int)(PAGES - first));

	if (!k->at) {
		allocate_range(c, k);
		return;
	}
	switch (pick(c, 16)) {
	case 0:
	case 1:
		write_page(c, k, first);
		break;
	case 2:
	case 3:
		read_page(c, k, first);
		break;
	case 4:
	case 5:
		launch(c, k, first);
		break;
	case 6:
	case 7:
	case 8:
		migrate(c, k, first, count);
		break;
	case 9:
	case 10:
		fault(c, k, first, count);
		break;
	case 11:
		advise(c, k, first, count);
		break;
	case 12:
		pin(c, k, first);
		break;
	case 13:
		change_block(c);
		break;
	case 14:
		MAKE(c, pick(c, 2) ? vpmm_pool_trim(c->f.pool, 0, NULL) :
		     vpmm_stream_retire(c->f.pool, c->f.streams[pick(c, USERS)]));
		break;
	default:
		if (!pick(c, 4))
			free_range(c, k);
		break;
	}
}

static void end_range(struct chaos *c, struct known *k)
{
	for (size_t i = 0; i < PAGES && k->at; i++) {
		expect_page(c, k, i);
		for (; k->pins[i]; k->pins[i]--)
			assert_ok(vpmm_unpin(c->f.pool, page_of(k, i), PAGE));
	}
	if (k->at)
		assert_ok(vpmm_shared_free(c->f.pool, k->at, c->f.streams[0]));
}

static void run(unsigned int seed)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), update };
	struct chaos c = { .seed = seed };

	fixture_open_faulty(&c.f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = LIMIT * PAGE });
	assert_ok(vpmm_mirror_register(c.f.pool, &c.mirror, &ops, &c));
	for (int i = 0; i < (SANITIZED ? 100 : 200); i++) {
		step(&c);
		assert_ok(vpmm_pool_check(c.f.pool));
	}
	complete_all(&c);
	for (int i = 0; i < RANGES; i++)
		end_range(&c, &c.ranges[i]);
	if (c.block)
		assert_ok(vpmm_free(c.f.pool, c.block, c.f.streams[0]));
	assert_ok(vpmm_pool_trim(c.f.pool, 0, NULL));
	vpmm_mirror_unregister(c.mirror);
	g_test_message("seed %u: %" PRIu64 " of %" PRIu64 " calls failed; left %" PRIu64,
		       seed, c.failed, c.calls, fixture_stats(&c.f).shared);
	fixture_close(&c.f);
}

static void test_chaos(void)
{
	setting_run_seeds(4, run);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/shared-chaos/faults", test_chaos);
	return g_test_run();
}
