// SPDX-License-Identifier: LGPL-2.1-or-later
/* Structures that start with their size: which sizes each call takes, and what it makes of other versions. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "support/fixture.h"
#include "util/sized.h"
#include "vpmm-shared.h"

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
	struct vpmm_allocation allocation;
	struct vpmm_shared_stats shared_stats;
	struct vpmm_tag_stats tag_stats;
	struct vpmm_migrate_ops migrate_ops;
	struct vpmm_mirror_ops mirror_ops;
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

static int call_lookup(struct vpmm_pool *pool, union room *room)
{
	void *ptr;
	int err;

	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	err = vpmm_lookup(ptr, &room->allocation);
	assert_ok(vpmm_free(pool, ptr, NULL));
	return err;
}

static int call_tag_stats(struct vpmm_pool *pool, union room *room)
{
	vpmm_tag tag;

	assert_ok(vpmm_tag_open("sized", 0, &tag));
	return vpmm_tag_stats(pool, tag, &room->tag_stats);
}

static int call_shared_stats(struct vpmm_pool *pool, union room *room)
{
	return vpmm_shared_stats(pool, &room->shared_stats);
}

static int call_migrate(struct vpmm_pool *pool, union room *room)
{
	size_t size = room->size;
	void *addr;
	int err;

	room->migrate_ops = (struct vpmm_migrate_ops){ .size = size };
	assert_ok(vpmm_shared_alloc(pool, &addr, PAGE, 0));
	err = vpmm_migrate(pool, addr, PAGE, VPMM_DEVICE, NULL, &room->migrate_ops, NULL);
	assert_ok(vpmm_shared_free(pool, addr, NULL));
	return err;
}

static void update_nothing(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start,
			   void *end)
{
	(void)mirror;
	(void)data;
	(void)action;
	(void)start;
	(void)end;
}

static int call_mirror(struct vpmm_pool *pool, union room *room)
{
	struct vpmm_mirror *mirror;
	int err;

	room->mirror_ops.update = update_nothing;
	err = vpmm_mirror_register(pool, &mirror, &room->mirror_ops, NULL);
	if (!err)
		vpmm_mirror_unregister(mirror);
	room->mirror_ops.update = NULL;
	return err;
}

/* Each call that takes such a structure, of @type; @returns: it fills it in. */
#define CALL(type, word, call, returns) { #type, word, sizeof(struct type), call, returns }
static const struct {
	const char *type;
	const char *word;
	size_t size;
	int (*call)(struct vpmm_pool *pool, union room *room);
	bool returns;
} calls[] = {
	CALL(vpmm_opts, "vpmm_opts.size", call_create, false),
	CALL(vpmm_opts, "opts.size", call_from_env, true),
	CALL(vpmm_stats, "stats.size", call_stats, true),
	CALL(vpmm_info, "info.size", call_info, true),
	CALL(vpmm_forecast, "forecast.size", call_query, true),
	CALL(vpmm_allocation, "allocation.size", call_lookup, true),
	CALL(vpmm_tag_stats, "stats.size", call_tag_stats, true),
	CALL(vpmm_shared_stats, "stats.size", call_shared_stats, true),
	CALL(vpmm_migrate_ops, "ops.size", call_migrate, false),
	CALL(vpmm_mirror_ops, "ops.size", call_mirror, false),
};
#undef CALL

static bool has_call(const char *type)
{
	size_t i = 0;

	while (i < G_N_ELEMENTS(calls) && strcmp(calls[i].type, type))
		i++;
	return i < G_N_ELEMENTS(calls);
}

static unsigned int check_header(const char *name)
{
	GRegex *regex = g_regex_new("^struct (vpmm_\\w+) \\{\\n\\tsize_t size;$", G_REGEX_MULTILINE,
				    (GRegexMatchFlags)0, NULL);
	char *path = g_build_filename(g_getenv("top_srcdir"), "include", name, NULL), *text = NULL;
	unsigned int found = 0;
	GMatchInfo *match;

	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	for (g_regex_match(regex, text, (GRegexMatchFlags)0, &match); g_match_info_matches(match);
	     g_match_info_next(match, NULL)) {
		char *type = g_match_info_fetch(match, 1);

		if (!has_call(type))
			g_error("struct %s: add a call that takes it to this test", type);
		found++;
		g_free(type);
	}
	g_match_info_free(match);
	g_regex_unref(regex);
	g_free(path);
	g_free(text);
	return found;
}

/* Each such structure of the headers has a call here. */
static void test_all(void)
{
	if (!g_getenv("top_srcdir")) {
		g_test_skip("top_srcdir does not say where the headers are");
		return;
	}
	g_assert_cmpuint(check_header("vpmm.h"), >, 0);
	g_assert_cmpuint(check_header("vpmm-shared.h"), >, 0);
}

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
	union room room;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		const size_t ends[] = { calls[i].size + 1, SIZED_MOST };

		for (size_t j = 0; j < G_N_ELEMENTS(ends) && !calls[i].returns; j++) {
			memset(&room, 0, sizeof(room));
			room.size = ends[j];
			room.bytes[ends[j] - 1] = 1;
			assert_error(calls[i].call(f.pool, &room), E2BIG, "not zero");
		}
	}
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/sized/earlier-version", test_earlier_version);
	g_test_add_func("/sized/between-versions", test_between_versions);
	g_test_add_func("/sized/all", test_all);
	g_test_add_func("/sized/too-small", test_too_small);
	g_test_add_func("/sized/too-large", test_too_large);
	g_test_add_func("/sized/later-version", test_later_version);
	g_test_add_func("/sized/later-wish", test_later_wish);
	return g_test_run();
}
