// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Random programs that send blocks from one pool to another and change who else accesses them, while up to three calls
 * of the driver fail in a row. What was sent has the same bytes at both ends, exactly the peers of a pool can access
 * its blocks, a call that fails can be made again, and nothing is left, descriptors included.
 */

#include "calls/pool.h"
#include "host/export-fixture.h"
#include "support/fault.h"
#include "support/setting.h"
#include "util/assume.h"

#define BLOCKS 4
#define OTHERS 2			/* devices beside the pools' own */

struct chaos {
	struct ends e;
	char *blocks[BLOCKS];		/* of the pool that sends */
	char *received[BLOCKS];		/* the same memory, at the other end */
	char values[BLOCKS];
	unsigned int peers[2];		/* of each pool, as bits */
	unsigned int seed;
	bool armed;
	unsigned int failed;
};

static unsigned int pick(struct chaos *c, unsigned int count)
{
	return (unsigned int)rand_r(&c->seed) % count;
}

static struct fixture *end_of(struct chaos *c, unsigned int end)
{
	return end ? &c->e.to : &c->e.from;
}

static void set_faults(struct chaos *c, unsigned int skip, unsigned int count)
{
	static const int errors[] = { -EIO, -ENOMEM };

	for (unsigned int end = 0; end < 2; end++)
		backend_fault_arm(end_of(c, end)->pool->core.backend, BACKEND_OP_COUNT, skip, count,
				  errors[pick(c, 2)]);
	c->armed = count;
}

/* Makes a call of the program, under faults maybe, and again without. */
#define MAKE(c, call) \
	({ \
		int ret_; \
		set_faults(c, pick(c, 12), pick(c, 2) ? 1 + pick(c, 3) : 0); \
		ret_ = (call); \
		if (ret_ && (c)->armed) { \
			set_faults(c, 0, 0); \
			(c)->failed++; \
			ret_ = (call); \
		} \
		set_faults(c, 0, 0); \
		if (ret_) \
			g_error("%s:%d: %s: %d, %s", __FILE__, __LINE__, #call, ret_, vpmm_last_error()); \
	})

/* Bytes apart from each other stand for all. */
#define APART ((size_t)64 << 10)

static void fill(struct chaos *c, unsigned int i)
{
	char *at = c->received[i] && pick(c, 2) ? c->received[i] : c->blocks[i];

	c->values[i]++;
	for (size_t offset = 0; offset < SIZE; offset += APART)
		at[offset] = c->values[i];
}

static void allocate(struct chaos *c, unsigned int i)
{
	struct fixture *f = &c->e.from;
	void *ptr;

	MAKE(c, vpmm_malloc_flags(f->pool, &ptr, SIZE, f->streams[pick(c, 2)],
				  VPMM_SHAREABLE | (pick(c, 2) ? VPMM_ZERO : 0)));
	c->blocks[i] = ptr;
	fill(c, i);
}

/* What has failed may have taken the message with it. */
static int pass_on(struct chaos *c, unsigned int i)
{
	int sockets[2], err;
	size_t size = 0;
	void *ptr;

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
	err = vpmm_send(c->e.from.pool, c->blocks[i], sockets[0]);
	if (!err)
		err = vpmm_receive(c->e.to.pool, &ptr, &size, sockets[1]);
	close(sockets[0]);
	close(sockets[1]);
	if (err)
		return err;
	g_assert_cmpuint(size, ==, SIZE);
	c->received[i] = ptr;
	return 0;
}

static void free_end(struct chaos *c, unsigned int end, unsigned int i)
{
	char **at = end ? &c->received[i] : &c->blocks[i];
	struct fixture *f = end_of(c, end);

	MAKE(c, vpmm_free(f->pool, *at, pick(c, 3) ? f->streams[pick(c, 2)] : VPMM_STREAM_ANY));
	*at = NULL;
}

static void change_peers(struct chaos *c, unsigned int end)
{
	unsigned int wanted = pick(c, 1 << OTHERS);
	int devices[OTHERS];
	size_t count = 0;

	for (unsigned int i = 0; i < OTHERS; i++) {
		if (wanted >> i & 1)
			devices[count++] = (int)i + 1;
	}
	MAKE(c, vpmm_pool_set_peers(end_of(c, end)->pool, devices, count));
	c->peers[end] = wanted;
}

static void check_block(struct chaos *c, unsigned int end, const char *at, char value)
{
	for (size_t offset = 0; offset < SIZE; offset += APART)
		g_assert_cmpint(at[offset], ==, value);
	for (unsigned int i = 0; i < OTHERS; i++)
		g_assert_cmpint(!vpmm_host_check_access((int)i + 1, at, SIZE), ==, c->peers[end] >> i & 1);
}

static void check(struct chaos *c)
{
	for (unsigned int i = 0; i < BLOCKS; i++) {
		if (c->blocks[i])
			check_block(c, 0, c->blocks[i], c->values[i]);
		if (c->received[i])
			check_block(c, 1, c->received[i], c->values[i]);
	}
	assert_ok(vpmm_pool_check(c->e.from.pool));
	assert_ok(vpmm_pool_check(c->e.to.pool));
}

static void step(struct chaos *c)
{
	unsigned int i = pick(c, BLOCKS);

	switch (pick(c, 8)) {
	case 0:
	case 1:
		if (!c->blocks[i] && !c->received[i])
			allocate(c, i);
		break;
	case 2:
	case 3:
		if (c->blocks[i] && !c->received[i])
			MAKE(c, pass_on(c, i));
		break;
	case 4:
		change_peers(c, pick(c, 2));
		break;
	case 5:
		if (c->blocks[i])
			fill(c, i);
		break;
	case 6:
		MAKE(c, vpmm_pool_trim(end_of(c, pick(c, 2))->pool, 0, NULL));
		break;
	default:
		if (pick(c, 2) && c->blocks[i])
			free_end(c, 0, i);
		else if (c->received[i])
			free_end(c, 1, i);
		break;
	}
}

static void run(unsigned int seed)
{
	struct chaos c = { .seed = seed };
	struct vpmm_opts opts = { FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD };

	c.e.descriptors = count_descriptors();
	c.e.sockets[0] = c.e.sockets[1] = -1;
	fixture_open_faulty(&c.e.from, opts);
	fixture_open_faulty(&c.e.to, opts);
	for (int i = 0; i < (SANITIZED ? 60 : 150); i++) {
		step(&c);
		check(&c);
	}
	for (unsigned int i = 0; i < BLOCKS; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			if (end ? c.received[i] : c.blocks[i])
				free_end(&c, end, i);
		}
	}
	g_test_message("seed %u: %u calls failed", seed, c.failed);
	g_assert_cmpuint(c.failed, >, 0);
	ends_close(&c.e);
}

static void test_chaos(void)
{
	setting_run_seeds(4, run);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_setenv("VPMM_HOST_DEVICES", "3", TRUE);
	g_test_add_func("/export-chaos/faults", test_chaos);
	return g_test_run();
}
