/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pool on the host backend and a few streams, for tests of the pool. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <glib.h>
#include <stdbool.h>

#include "support/assert.h"
#include "vpmm-host.h"
#include "vpmm.h"

#define PAGE ((size_t)2 << 20)
#define STREAMS 4

struct fixture {
	struct vpmm_pool *pool;
	struct CUstream_st *streams[STREAMS];
	GString *log;		/* what the pool said, a line each, at the level of opts.log_level */
};

/* Options for a pool on the host backend with a modest address space, so that sanitizers and valgrind can have it. */
#define FIXTURE_PACKED .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = (size_t)1 << 30

/* The same as the specification has it: all in whole pages of this size, and the driver for what is less. */
#define FIXTURE_PAGES(bytes) FIXTURE_PACKED, .page_size = (bytes), .extent_max = (bytes), .small = VPMM_SMALL_DRIVER

/* With pages of the usual size; and with address space for so many of them at a time. */
#define FIXTURE_PAGED .extent_max = PAGE, .small = VPMM_SMALL_DRIVER
#define FIXTURE_OPTS FIXTURE_PACKED, FIXTURE_PAGED
#define FIXTURE_CHUNKS(pages) .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = (pages) * PAGE, \
	FIXTURE_PAGED

void fixture_open(struct fixture *f, struct vpmm_opts opts);

/* The same on the fault backend around the host backend; nothing is logged. */
void fixture_open_faulty(struct fixture *f, struct vpmm_opts opts);

/* Lets streams keep nothing of what they free to themselves, in a pool that nothing was allocated from yet. */
void fixture_uncache(struct fixture *f);

/* Destroys the pool and the streams, and fails the test if anything is left in the host backend. */
void fixture_close(struct fixture *f);

/* Destroys them beside other pools, which still have what they have. */
void fixture_close_beside(struct fixture *f);

/* Destroys a graph once the fixture is closed: until then it could be launched, and so has its memory. */
void fixture_keep_graph(struct vpmm_host_graph *graph);

/* Fails the test if anything is left in the host backend. */
void fixture_assert_nothing_left(void);

/* Allocates pages, which must succeed, and checks the pool. */
void *fixture_malloc(struct fixture *f, size_t pages, struct CUstream_st *stream);

/* The same for bytes. */
char *fixture_malloc_bytes(struct fixture *f, size_t size, struct CUstream_st *stream);

/* Allocates for the first stream what the second uses too, with work pending that writes to it. */
char *fixture_malloc_used(struct fixture *f, size_t size);

/*
 * Tells the host backend of a free by a stream that is to follow. All that is pending on the stream may use the block,
 * so that whoever has its memory next comes after it: vpmm_pool_check() fails otherwise.
 */
void fixture_freeing(void *ptr, struct CUstream_st *stream);

/* Frees, which must succeed, and checks the pool. */
void fixture_free(struct fixture *f, void *ptr, struct CUstream_st *stream);

/* The same, with work of the stream pending that may use the block. */
void fixture_free_at_work(struct fixture *f, void *ptr, struct CUstream_st *stream);

/* What fixture_leave_secret() writes into each byte. */
#define FIXTURE_SECRET 0x5a

/* Allocates, writes to it and frees it, all on one stream, which is past it then. */
void fixture_leave_secret(struct fixture *f, size_t size, struct CUstream_st *stream);

/* Whether all bytes have a value; whether all are zero. */
bool fixture_is_filled(const char *ptr, size_t size, char value);
bool fixture_is_clear(const char *ptr, size_t size);

/* Streams 0 and 1 free blocks of 2, 2 and 1 pages that lie apart, with work of both pending. */
void fixture_free_apart(struct fixture *f);

/* Completes all work of a stream. */
void fixture_complete(struct CUstream_st *stream);

/* Fails the test unless a stream's next work, which is submitted, waits for another stream's. */
void fixture_assert_waits(struct CUstream_st *stream);

/* Submits work, which has to wait for another stream's. */
void fixture_submit_waits(struct CUstream_st *stream);

/* The statistics. */
struct vpmm_stats fixture_stats(struct fixture *f);

/* What a dump writes; freed with free(). */
char *fixture_dump(struct fixture *f);

/* The layout of the first chunk as a dump has it, without the hole at the end. */
char *fixture_layout(struct fixture *f);

#define assert_layout(f, expected) \
	do { \
		char *layout_ = fixture_layout(f); \
		g_assert_cmpstr(layout_, ==, expected); \
		g_free(layout_); \
	} while (0)

/* The call fails as expected, sets errno, and the sentence has a word that names the matter. */
#define assert_error(call, expected, word) \
	do { \
		int err_ = (call); \
		int errno_ = errno; \
		g_assert_cmpint(err_, ==, -(expected)); \
		g_assert_cmpint(errno_, ==, expected); \
		if (!strstr(vpmm_last_error(), word)) \
			g_error("%s:%d: \"%s\" does not say \"%s\"", __FILE__, __LINE__, vpmm_last_error(), word); \
	} while (0)

/*
 * Adds a test for each row of a table: @path, a slash, and the row's name, which is its first member. The row is what
 * the test is called with.
 */
#define fixture_add_rows(path, rows, test) \
	fixture_add_each(path, rows, sizeof(*(rows)), G_N_ELEMENTS(rows), test)
void fixture_add_each(const char *path, const void *rows, size_t size, size_t count, GTestDataFunc test);

/* Submits work that lasts, behind at most so many other pieces: a host is not ahead of its device without end. */
void fixture_work(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns, unsigned int ahead);

/**
 * fixture_can_map_twice() - whether shared memory can be mapped once more, as the host backend does for a shared range
 *
 * If not, as under valgrind, the test is skipped.
 */
bool fixture_can_map_twice(void);

#endif /* FIXTURE_H */
