// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_TRACE: tags of blocks, and that they are paused and resumed. */
#include <errno.h>

#include "host/record-fixture.h"
#include "host/tag-fixture.h"

static void take(struct fixture *f, vpmm_tag word, size_t size, unsigned int flags)
{
	void *ptr;

	vpmm_tag_set(word);
	assert_ok(vpmm_malloc_flags(f->pool, &ptr, size, f->streams[0], flags));
	vpmm_tag_set(0);
}

/* Allocations that a cache serves, and others, under each kind of tag. */
static void test_lines(void)
{
	vpmm_tag label = tag_get("a label, 100% of it", 0), cache = tag_get("kv_cache", VPMM_TAG_PAUSABLE);
	char *name = new_name("");
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name), .export_as = VPMM_EXPORT_FD });
	take(&f, label, 1000, 0);
	take(&f, label | VPMM_TAG_STAY, 2000, VPMM_ZERO);
	ptr = tag_malloc(f.pool, cache, 3000, 1, f.streams[0]);
	assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	take(&f, cache | VPMM_TAG_DROP, 3000, VPMM_ZERO);
	take(&f, cache, 4000, VPMM_SHAREABLE);
	take(&f, 0, 5000, 0);
	vpmm_tag_set(cache);
	assert_ok(vpmm_malloc_growable(f.pool, &ptr, PAGE, 2 * PAGE, f.streams[0]));
	vpmm_tag_set(label);
	assert_ok(vpmm_realloc(f.pool, &ptr, 2 * PAGE, f.streams[0]));
	vpmm_tag_set(0);
	assert_ok(vpmm_pause(f.pool, cache, 0));
	assert_ok(vpmm_pause(f.pool, cache, 0));
	assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	assert_ok(vpmm_resume(f.pool, cache, f.streams[0]));
	assert_ok(vpmm_resume(f.pool, cache, VPMM_STREAM_ANY));
	assert_ok(vpmm_pause(f.pool, VPMM_TAG_ALL, VPMM_PAUSE_DROP));
	fixture_close(&f);

	assert_lines(name, "\\d+ a 0x[0-9a-f]+ 1000 0 tag=a%20label,%20100%25%20of%20it\n"
		     "\\d+ a 0x[0-9a-f]+ 2000 0 zero tag=a%20label,%20100%25%20of%20it stay\n"
		     "\\d+ a (0x[0-9a-f]+) 3000 0 tag=kv_cache pausable\n"
		     "\\d+ f \\1 0\n"
		     "\\d+ a \\1 3000 0 zero tag=kv_cache pausable drop\n"
		     "\\d+ a 0x[0-9a-f]+ 4000 0 idle tag=kv_cache pausable stay\n"
		     "\\d+ a 0x[0-9a-f]+ 5000 0\n"
		     "\\d+ a (0x[0-9a-f]+) 2097152 0 tag=kv_cache pausable max=4194304\n"
		     "\\d+ m \\2 \\2 4194304 0\n"
		     "\\d+ s tag=kv_cache\n"
		     "\\d+ f \\2 0\n"
		     "\\d+ w tag=kv_cache\n"
		     "\\d+ s tag=kv_cache drop\n"
		     "\\d+ e 1\n$");
	remove_name(name);
}

/* Calls that are for the blocks of each pausable tag, too, are one line each. */
static void test_once(void)
{
	char *name = new_name("");
	struct vpmm_host_graph *graph;
	struct fixture f;
	uint64_t id = 0;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name) });
	take(&f, tag_get("kv_cache", VPMM_TAG_PAUSABLE), PAGE, 0);
	assert_ok(vpmm_host_capture_begin(f.streams[1]));
	assert_ok(vpmm_capture_id(f.pool, f.streams[1], &id));
	assert_ok(vpmm_capture_group(f.pool, id, 77));
	assert_ok(vpmm_host_capture_end(f.streams[1], &graph));
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	fixture_close(&f);

	assert_lines(name, "\\d+ a 0x[0-9a-f]+ 2097152 0 tag=kv_cache pausable\n"
		     "\\d+ c \\d+ 77\n"
		     "\\d+ g \\d+ 1\n"
		     "\\d+ r 1\n"
		     "\\d+ t 0\n"
		     "\\d+ e 1\n$");
	remove_name(name);
}

/* A resume that fails is none. */
static void test_failed(void)
{
	vpmm_tag tag = tag_get("kv_cache", VPMM_TAG_PAUSABLE);
	char *name = new_name("");
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ RECORDED(name), .limit = 4 * PAGE });
	take(&f, tag, 3 * PAGE, 0);
	assert_ok(vpmm_pause(f.pool, tag, VPMM_PAUSE_DROP));
	take(&f, 0, 3 * PAGE, 0);
	assert_error(vpmm_resume(f.pool, tag, VPMM_STREAM_ANY), ENOMEM, "kv_cache");
	fixture_close(&f);

	assert_lines(name, "\\d+ s tag=kv_cache drop\n"
		     "\\d+ a 0x[0-9a-f]+ 6291456 0\n"
		     "\\d+ e 1\n$");
	remove_name(name);
}

/* Dumps tell what is live under each tag, those that are not pausable too. */
static void test_dump(void)
{
	vpmm_tag label = tag_get("label", 0), cache = tag_get("kv_cache", VPMM_TAG_PAUSABLE);
	struct fixture f;
	char *text;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	text = fixture_dump(&f);
	g_assert_null(strstr(text, "tag"));
	free(text);
	take(&f, label, 1000, 0);
	take(&f, cache, PAGE, 0);
	text = fixture_dump(&f);
	g_assert_nonnull(strstr(text, "\ntag label live 1024 requested 1000 blocks 1 peak 1024\n"));
	g_assert_nonnull(strstr(text, "\ntag kv_cache live 2097152 requested 2097152 blocks 1 peak 2097152\n"));
	g_assert_nonnull(strstr(text, "\ntag: kv_cache\n"));
	free(text);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/record-tags/lines", test_lines);
	g_test_add_func("/record-tags/once", test_once);
	g_test_add_func("/record-tags/failed", test_failed);
	g_test_add_func("/record-tags/dump", test_dump);
	return g_test_run();
}
