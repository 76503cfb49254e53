// SPDX-License-Identifier: LGPL-2.1-or-later
/* Actions on blocks that other processes can map. The pool is at both ends of the socket. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sweep/sweep-scenes.h"

#define SIZE (3 * PAGE)

static int sockets[2] = { -1, -1 };

/* What an action has left in the socket before goes with it. */
static void connect_anew(void)
{
	for (int i = 0; i < 2; i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
	}
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
}

static int act_shareable(struct sweep *s)
{
	return sweep_idle(s, SIZE, 0, VPMM_SHAREABLE);
}

static int act_shareable_zero(struct sweep *s)
{
	return sweep_idle(s, SIZE, 0, VPMM_SHAREABLE | VPMM_ZERO);
}

/* More than the limit leaves beside what is free. */
static int act_shareable_large(struct sweep *s)
{
	return sweep_idle(s, 7 * PAGE, 0, VPMM_SHAREABLE);
}

static void stage_shareable(struct sweep *s)
{
	assert_ok(act_shareable(s));
	s->ptr = sweep_last(s);
	connect_anew();
}

static void stage_busy(struct sweep *s)
{
	stage_shareable(s);
	assert_ok(vpmm_use(s->pool, s->ptr, s->streams[1]));
	sweep_busy(s, 1);
}

/* One was freed, and its stream is past that, but nobody has looked. */
static void stage_freed(struct sweep *s)
{
	stage_shareable(s);
	sweep_busy(s, 0);
	sweep_drop(s, s->ptr, 0);
	if (s->held & 1u)
		sweep_finish(s, 0);
}

static void stage_full(struct sweep *s)
{
	sweep_drop(s, sweep_have(s, 7 * PAGE, 1), 1);
}

static void stage_graph(struct sweep *s)
{
	stage_shareable(s);
	sweep_capture(s, 2);
}

static int act_free_captured(struct sweep *s)
{
	return sweep_free(s, s->ptr, 2);
}

static int act_send(struct sweep *s)
{
	return vpmm_send(s->pool, s->ptr, sockets[0]);
}

/* A message whose block could not be mapped is gone, so there is another. */
static void stage_sent(struct sweep *s)
{
	stage_shareable(s);
	for (int i = 0; i < 2; i++)
		assert_ok(act_send(s));
}

static int act_receive(struct sweep *s)
{
	struct sweep_block block = g_array_index(s->blocks, struct sweep_block, 0);
	size_t size;
	int err;

	err = vpmm_receive(s->pool, &block.ptr, &size, sockets[1]);
	if (err)
		return err;
	g_assert_cmpuint(size, ==, block.requested);
	g_array_append_val(s->blocks, block);
	return 0;
}

/* Any block, which consists of several extents. */
static int act_lend(struct sweep *s)
{
	return vpmm_lend(s->pool, s->ptr, sockets[0]);
}

static void stage_to_lend(struct sweep *s)
{
	sweep_have(s, PAGE / 2, 1);
	s->ptr = sweep_have(s, SIZE, 0);
	connect_anew();
}

static void stage_lent(struct sweep *s)
{
	stage_to_lend(s);
	g_array_append_val(s->blocks, g_array_index(s->blocks, struct sweep_block, 0));
	g_array_remove_index(s->blocks, 0);
	for (int i = 0; i < 2; i++)
		assert_ok(act_lend(s));
}

static void stage_lent_received(struct sweep *s)
{
	stage_lent(s);
	assert_ok(act_receive(s));
	s->ptr = sweep_last(s);
	sweep_busy(s, 0);
}

static void stage_received(struct sweep *s)
{
	stage_sent(s);
	assert_ok(act_receive(s));
	s->ptr = sweep_last(s);
	sweep_busy(s, 0);
}

#define EXPORT .opts = { .export_as = VPMM_EXPORT_FD }
#define SCRUB .opts = { .export_as = VPMM_EXPORT_FD, .scrub = VPMM_SCRUB_STREAM }

const struct sweep_scene sweep_export_scenes[] = {
	{ "shareable", ALL, OP(create_export), NULL, act_shareable, EXPORT },
	{ "shareable-zero", ALL, OP(clear), NULL, act_shareable_zero, EXPORT, .keeps = true, .waits = true },
	{ "shareable-scrub", ALL, OP(clear), NULL, act_shareable, SCRUB, .keeps = true, .waits = true },
	{ "shareable-full", ALL, OP(release), stage_full, act_shareable_large, .gives = true, .waits = true,
	  .opts = { .export_as = VPMM_EXPORT_FD, .limit = 8 * PAGE } },
	{ "shareable-free", ALL, OP(unmap), stage_shareable, act_free, EXPORT },
	{ "shareable-free-busy", ALL, OP(event_record), stage_busy, act_free, EXPORT },
	{ "shareable-free-any", ALL, OP(event_record_all), stage_shareable, act_free_any, EXPORT, .waits = true },
	{ "shareable-free-captured", ALL, OP(stream_capture), stage_graph, act_free_captured, EXPORT },
	{ "shareable-trim", ALL, OP(unmap), stage_freed, act_trim, EXPORT },
	{ "send", ALL, OP(export), stage_shareable, act_send, EXPORT },
	{ "receive", ALL, OP(import), stage_sent, act_receive, EXPORT },
	{ "receive-free", ALL, OP(event_record), stage_received, act_free, EXPORT },
	{ "lend", ALL, OP(export), stage_to_lend, act_lend, EXPORT, .instead = -ETIMEDOUT },
	{ "lend-receive", ALL, OP(import), stage_lent, act_receive, EXPORT },
	{ "lend-free", ALL, OP(event_record), stage_lent_received, act_free, EXPORT },
};
const size_t sweep_export_scene_count = G_N_ELEMENTS(sweep_export_scenes);
