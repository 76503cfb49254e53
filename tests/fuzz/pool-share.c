// SPDX-License-Identifier: LGPL-2.1-or-later
/* Operations of fuzz-pool on blocks that processes share, here all in one, and on pools that end before their time. */
#include <errno.h>
#include <unistd.h>

#include "calls/message.h"
#include "calls/pool.h"
#include "model/model-inside.h"
#include "program.h"
#include "support/fault.h"

static void arm(struct model *m, uint8_t a)
{
	static const struct {
		enum backend_op op;
		int err;
	} faults[] = {
		{ BACKEND_OP_export, -EIO }, { BACKEND_OP_import, -EIO }, { BACKEND_OP_import, -ENOMEM },
		{ BACKEND_OP_create_export, -ENOMEM }, { BACKEND_OP_create_export, -EIO },
		{ BACKEND_OP_reserve, -ENOMEM }, { BACKEND_OP_map, -ENOMEM }, { BACKEND_OP_map, -EIO },
		{ BACKEND_OP_access, -ENOMEM }, { BACKEND_OP_access, -EIO }, { BACKEND_OP_info, -EIO },
	};

	model_arm(m, faults[a % G_N_ELEMENTS(faults)].op, 0, 1U + (a >> 4 & 3),
		  faults[a % G_N_ELEMENTS(faults)].err);
	if (a & 0x40)
		model_arm(m, BACKEND_OP_unmap, 0, UINT_MAX, -EIO);
	if (a & 0x80)
		model_arm(m, BACKEND_OP_unreserve, 0, UINT_MAX, -EIO);
}

/* One that can be sent, from some index on; UINT_MAX: there is none. */
static guint find_shareable(const struct model *m, guint from)
{
	for (guint i = 0; i < m->live->len; i++) {
		guint index = (from + i) % m->live->len;
		const struct model_allocation *a = m->live->pdata[index];

		if (a->apart && !a->imported)
			return index;
	}
	return UINT_MAX;
}

static void allocate(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	size_t size = program_size(m, (a & 7) * PAGE + b * (size_t)4099 + 1);

	if (m->live->len < MOST_LIVE)
		model_malloc_flags(m, size, program_stream(p, b), VPMM_SHAREABLE | (b & 0x80 ? VPMM_ZERO : 0));
}

static void share(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	struct model *to = &p->m[(a & 3) % p->pools];
	guint index = find_shareable(m, b);

	if (index != UINT_MAX && to->live->len < MOST_LIVE)
		model_share(m, index, to, program_stream(p, b));
}

/* Any block, for a moment; not so large that its messages do not fit into the socket. */
static void lend(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	struct model *to = &p->m[(a & 3) % p->pools];
	const struct model_allocation *here;
	void *ptr = NULL;
	size_t size = 0;
	int err;

	if (!m->live->len || p->capture.stream)
		return;
	model_disarm(m);
	model_disarm(to);
	here = m->live->pdata[b % m->live->len];
	if (here->size > 32 * PAGE)
		return;
	err = vpmm_lend(m->f.pool, here->ptr, to->sockets[0]);
	g_assert_true(!err || err == -ENOTSUP);
	if (err)
		return;
	err = vpmm_receive(to->f.pool, &ptr, &size, to->sockets[1]);
	g_assert_true(!err || (err == -ENOMEM && to->few_mappings));
	if (!err) {
		g_assert_cmpuint(size, ==, here->size);
		assert_ok(vpmm_free(to->f.pool, ptr, VPMM_STREAM_ANY));
	}
	to->holds = true;
	model_adopt(to);
}

/*
 * Another process may send anything: here, what was sent with some bytes changed. What is received is right, or none.
 */
static void forge(struct model *m, uint8_t a, uint8_t b)
{
	guint index = find_shareable(m, b);
	const struct model_allocation *here;
	struct message message;
	void *ptr = NULL;
	size_t size = 0;
	int fd, err;

	model_disarm(m);
	if (index == UINT_MAX)
		return;
	here = m->live->pdata[index];
	assert_ok(vpmm_send(m->f.pool, here->ptr, m->sockets[0]));
	assert_ok(message_receive(m->sockets[1], &message, &fd));
	((uint8_t *)&message)[b % sizeof(message)] ^= (uint8_t)(1U << (a & 7));
	assert_ok(message_send(m->sockets[0], &message, fd));
	close(fd);

	err = vpmm_receive(m->f.pool, &ptr, &size, m->sockets[1]);

	g_assert_true(!err || err == -EPROTO || err == -EXDEV || (err == -ENOMEM && m->few_mappings));
	if (!err) {
		g_assert_cmpuint(size, ==, message.size);
		g_assert_cmpuint(size, <=, message.bytes);
		assert_ok(vpmm_free(m->f.pool, ptr, VPMM_STREAM_ANY));
	} else {
		g_assert_null(ptr);
	}
	m->holds = true;
	model_adopt(m);
}

void fuzz_share(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	switch (a >> 3 & 7) {
	case 0:
	case 1:
		allocate(p, m, a, b);
		break;
	case 2:
		lend(p, m, a, b);
		break;
	case 3:
		arm(m, b);
		allocate(p, m, a, (uint8_t)(b ^ 0x80));
		break;
	case 4:
	case 5:
		share(p, m, a, b);
		break;
	case 6:
		arm(&p->m[(a & 3) % p->pools], b);
		share(p, m, a, b);
		break;
	default:
		if (!p->capture.stream)
			forge(m, a, b);
	}
}

/* Streams go with the context, and the memory of pools stays until they end. */
void program_reset(struct program *p, uint8_t b)
{
	program_complete(p);
	program_drop_graphs(p, NULL);
	assert_ok(vpmm_host_reset());
	for (unsigned int i = 0; i < p->pools; i++)
		model_end(&p->m[i], b >> i & 1);
	fixture_assert_nothing_left();
	program_create_streams(p);
	for (unsigned int i = 0; i < p->pools; i++)
		program_open_pool(p, &p->m[i]);
}
