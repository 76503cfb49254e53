/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pools at both ends of a socket, in one process or two. */
#ifndef EXPORT_FIXTURE_H
#define EXPORT_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/fixture.h"

#define SIZE (3 * PAGE - 100)

/* A pool that sends, one that receives, and a socket between them. */
struct ends {
	struct fixture from;
	struct fixture to;
	int sockets[2];
	guint descriptors;
};

/* How many descriptors the process has open. */
static inline guint count_descriptors(void)
{
	GDir *dir = g_dir_open("/proc/self/fd", 0, NULL);
	guint count = 0;

	g_assert_nonnull(dir);
	while (g_dir_read_name(dir))
		count++;
	g_dir_close(dir);
	return count;
}

static inline void ends_open(struct ends *e, struct vpmm_opts opts, int type)
{
	e->descriptors = count_descriptors();
	opts.export_as = VPMM_EXPORT_FD;
	fixture_open(&e->from, opts);
	fixture_open(&e->to, opts);
	g_assert_cmpint(socketpair(AF_UNIX, type, 0, e->sockets), ==, 0);
}

/* Nothing is left of what went through the socket, or of the pools. */
static inline void ends_close(struct ends *e)
{
	if (e->sockets[0] >= 0)
		close(e->sockets[0]);
	if (e->sockets[1] >= 0)
		close(e->sockets[1]);
	fixture_close_beside(&e->from);
	fixture_close(&e->to);
	g_assert_cmpuint(count_descriptors(), ==, e->descriptors);
}

static inline char *shareable_malloc(struct fixture *f, size_t size)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc_flags(f->pool, &ptr, size, f->streams[0], VPMM_SHAREABLE));
	assert_ok(vpmm_pool_check(f->pool));
	return ptr;
}

static inline char *receive_block(struct ends *e, size_t *size)
{
	void *ptr = NULL;

	assert_ok(vpmm_receive(e->to.pool, &ptr, size, e->sockets[1]));
	assert_ok(vpmm_pool_check(e->to.pool));
	return ptr;
}

/* Sends a block of SIZE from one pool to the other. Both have it then. */
static inline void pass_block(struct ends *e, char **here, char **there)
{
	*here = shareable_malloc(&e->from, SIZE);
	assert_ok(vpmm_send(e->from.pool, *here, e->sockets[0]));
	*there = receive_block(e, NULL);
}

static inline void set_timeout(int socket, int option, int us)
{
	const struct timeval limit = { .tv_usec = us };

	g_assert_cmpint(setsockopt(socket, SOL_SOCKET, option, &limit, sizeof(limit)), ==, 0);
}

#endif /* EXPORT_FIXTURE_H */
