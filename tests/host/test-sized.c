// SPDX-License-Identifier: LGPL-2.1-or-later
/* Structures that start with their size: which sizes each call takes, and what it makes of other versions. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "support/fixture.h"
#include "util/sized.h"

/* A structure of two versions, as this library would know it after a second release. */
struct sample {
	size_t size;
	uint64_t first;
	const char *second;
};

static const size_t sample_sizes[] = { offsetof(struct sample, second), sizeof(struct sample) };
static const struct sized sample = { "sample", sample_sizes, G_N_ELEMENTS(sample_sizes) };

/* A structure of any size in front of memory that nobody may write to. */
union room {
	size_t size;
	struct vpmm_opts opts;
	struct vpmm_stats stats;
	struct vpmm_info info;
	struct vpmm_forecast forecast;
	unsigned char bytes[2 * SIZED_MOST];
};

static void test_earlier_version(void)
{
	struct sample theirs = { offsetof(struct sample, second), 7, "beyond" };
	struct sample known = { 1, 1, "stale" };

	assert_ok(sized_check(&sample, "sample", &theirs));
	assert_ok(sized_import(&sample, &known, &theirs));
	g_assert_cmpuint(known.size, ==, sizeof(known));
	g_assert_cmpuint(known.first, ==, 7);
	g_assert_null(known.second);

	known = (struct sample){ sizeof(known), 9, "here" };
	sized_export(&sample, &theirs, &known);
	g_assert_cmpuint(theirs.size, ==, offsetof(struct sample, second));
	g_assert_cmpuint(theirs.first, ==, 9);
	g_assert_cmpstr(theirs.second, ==, "beyond");
}

static void test_between_versions(void)
{
	struct sample theirs = { 0 };

	for (theirs.size = 0; theirs.size < sizeof(theirs); theirs.size++) {
		if (theirs.size != offsetof(struct sample, second))
			assert_error(sized_check(&sample, "theirs", &theirs), EINVAL, "theirs.size");
	}
	assert_ok(sized_check(&sample, "theirs", &theirs));
}

static int call_create(struct vpmm_pool *pool, union room *room)
{
	size_t size = room->size;
	struct vpmm_pool *made;
	int err;

	(void)pool;
	room->opts = (struct vpmm_opts){ FIXTURE_OPTS };
	room->size = size;
	err = vpmm_pool_create(&made, &room->opts);
	if (!err)
		vpmm_pool_destroy(made);
	return err;
}

static int call_from_env(struct vpmm_pool *pool, union room *room)
{
	(void)pool;
	return vpmm_opts_from_env(&room->opts);
}

static int call_stats(struct vpmm_pool *pool, union room *room)
{
	return vpmm_pool_stats(pool, &room->stats);
}

static int call_info(struct vpmm_pool *pool, union room *room)
{
	return vpmm_pool_info(pool, &room->info);
}

static int call_query(struct vpmm_pool *pool, union room *room)
{
	return vpmm_pool_query(pool, PAGE, NULL, &room->forecast);
}

/* Each call that takes such a structure; @returns: it fills it in. */
static const struct {
	const char *word;
	size_t size;
	int (*call)(struct vpmm_pool *pool, union room *room);
	bool returns;
} calls[] = {
	{ "vpmm_opts.size", sizeof(struct vpmm_opts), call_create, false },
	{ "opts.size", sizeof(struct vpmm_opts), call_from_env, true },
	{ "stats.size", sizeof(struct vpmm_stats), call_stats, true },
	{ "info.size", sizeof(struct vpmm_info), call_info, true },
	{ "forecast.size", sizeof(struct vpmm_forecast), call_query, true },
};

/* All that is short ends inside a member, or in front of one that every version has. */
static void test_too_small(void)
{
	union room room;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		for (size_t size = 0; size < calls[i].size; size++) {
			memset(&room, 0x5a, sizeof(room));
			room.size = size;
			assert_error(calls[i].call(f.pool, &room), EINVAL, calls[i].word);
			g_assert_cmpuint(room.size, ==, size);
			g_assert_cmpuint(room.bytes[calls[i].size - 1], ==, calls[i].returns ? 0x5a : 0);
		}
	}
	fixture_close(&f);
}

/* No version is that large; reading or clearing as far as it says would go through other memory. */
static void test_too_large(void)
{
	static const size_t sizes[] = { SIZED_MOST + 1, (size_t)1 << 20, (size_t)1 << 40, SIZE_MAX };
	union room room;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		for (size_t j = 0; j < G_N_ELEMENTS(sizes); j++) {
			memset(&room, 0, sizeof(room));
			room.size = sizes[j];
			assert_error(calls[i].call(f.pool, &room), EINVAL, calls[i].word);
		}
	}
	fixture_close(&f);
}

/* A program that was built with a later header: what this library does not know is zero, on the way in and back. */
static void test_later_version(void)
{
	static const size_t more[] = { 0, 1, 8, 100 };
	union room room;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		for (size_t j = 0; j < G_N_ELEMENTS(more); j++) {
			size_t end = calls[i].size + more[j];

			memset(&room, calls[i].returns ? 0x5a : 0, sizeof(room));
			room.size = end;
			room.bytes[end] = 0x5a;
			assert_ok(calls[i].call(f.pool, &room));
			for (size_t at = calls[i].size; at < end; at++)
				g_assert_cmpuint(room.bytes[at], ==, 0);
			g_assert_cmpuint(room.bytes[end], ==, 0x5a);
			g_assert_cmpuint(room.size, ==, end);
		}
	}
	fixture_close(&f);
}

/* The last byte that may be looked at is one too. */
static void test_later_wish(void)
{
	static const size_t ends[] = { sizeof(struct vpmm_opts) + 1, SIZED_MOST };
	union room room;

	for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
		memset(&room, 0, sizeof(room));
		room.size = ends[i];
		room.bytes[ends[i] - 1] = 1;
		assert_error(call_create(NULL, &room), E2BIG, "vpmm_opts.size");
	}
	fixture_assert_nothing_left();
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/sized/earlier-version", test_earlier_version);
	g_test_add_func("/sized/between-versions", test_between_versions);
	g_test_add_func("/sized/too-small", test_too_small);
	g_test_add_func("/sized/too-large", test_too_large);
	g_test_add_func("/sized/later-version", test_later_version);
	g_test_add_func("/sized/later-wish", test_later_wish);
	return g_test_run();
}
