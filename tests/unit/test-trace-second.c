// SPDX-License-Identifier: LGPL-2.1-or-later
/* The reader of traces: the second version, which the library writes. */
#include <glib.h>

#include "trace.h"
#include "unit/trace-fixture.h"

#define SECOND "# vpmm-trace 2\n0 p 1 host 0 2097152\n"

/* The operations as their letters and sizes. */
static void assert_ops(const struct trace *trace, const char *expected)
{
	static const char letters[] = "famutrcgsw";
	GString *found = g_string_new(NULL);

	for (size_t i = 0; i < trace->n_ops; i++)
		g_string_append_printf(found, "%s%c%zu", i ? " " : "", letters[trace->ops[i].kind], trace->ops[i].bytes);
	g_assert_cmpstr(found->str, ==, expected);
	g_string_free(found, TRUE);
}

static void test_second_version(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, SECOND "7 a 0x7f00 100 5 zero idle capture=9\n8 u 0x7f00 6\n9 f 0x7f00 3 capture=9\n9 x 7777 1\n10 r 5\n"
		  "11 g 9 3\n12 t 7\n13 e 1\n");

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpstr(f->trace->name, ==, f->path);
	g_assert_cmpuint(f->trace->n_ops, ==, 6);
	g_assert_cmpuint(f->trace->allocs, ==, 1);
	g_assert_cmpuint(f->trace->streams, ==, 3);
	g_assert_cmpuint(f->trace->captures, ==, 1);
	g_assert_cmpuint(f->trace->pool, ==, 1);
	g_assert_null(f->trace->next);
	assert_ops(f->trace, "a100 u100 f100 r0 g0 t7");
	g_assert_cmpuint(f->trace->ops[0].flags, ==, TRACE_ZERO | TRACE_IDLE);
	g_assert_cmpuint(f->trace->ops[0].capture, ==, 1);
	g_assert_cmpuint(f->trace->ops[0].line, ==, 3);
	g_assert_cmpuint(f->trace->ops[2].flags, ==, TRACE_LAST);
	g_assert_cmpuint(f->trace->ops[2].us, ==, 9);
	g_assert_cmpuint(f->trace->ops[2].line, ==, 5);
	g_assert_cmpuint(f->trace->ops[4].capture, ==, 1);
}

/* A change of size keeps the slot, and may change the id. */
static void test_resize(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, SECOND "1 a 1 8 5 max=99\n2 m 1 1 20 6\n3 m 1 0x2 30 5 copied\n4 a 1 40 5\n5 f 2 any\n");

	g_assert_cmpint(f->err, ==, 0);
	assert_ops(f->trace, "a8 m20 m30 a40 f30");
	g_assert_cmpuint(f->trace->ops[0].max, ==, 99);
	g_assert_cmpuint(f->trace->ops[1].slot, ==, f->trace->ops[0].slot);
	g_assert_cmpuint(f->trace->ops[1].flags, ==, 0);
	g_assert_cmpuint(f->trace->ops[2].slot, ==, f->trace->ops[0].slot);
	g_assert_cmpuint(f->trace->ops[2].flags, ==, TRACE_COPIED);
	g_assert_cmpuint(f->trace->ops[4].slot, ==, f->trace->ops[0].slot);
	g_assert_cmpuint(f->trace->ops[4].stream, ==, f->trace->ops[2].stream);
}

/* An id that is retired may come again, for another capture. */
static void test_captures(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, SECOND "1 a 1 8 0 capture=7\n2 a 2 8 0 capture=8\n3 a 3 8 0 capture=7\n4 g 7 1\n5 g 7 1\n"
		  "6 a 4 8 0 capture=7\n");

	g_assert_cmpint(f->err, ==, 0);
	assert_ops(f->trace, "a8 a8 a8 g0 a8");
	g_assert_cmpuint(f->trace->captures, ==, 3);
	g_assert_cmpuint(f->trace->ops[0].flags, ==, 0);
	g_assert_cmpuint(f->trace->ops[1].capture, ==, 2);
	g_assert_cmpuint(f->trace->ops[1].flags, ==, TRACE_LAST);
	g_assert_cmpuint(f->trace->ops[2].capture, ==, 1);
	g_assert_cmpuint(f->trace->ops[2].flags, ==, TRACE_LAST);
	g_assert_cmpuint(f->trace->ops[3].capture, ==, 1);
	g_assert_cmpuint(f->trace->ops[4].capture, ==, 3);
}

/* A capture may join a group first of all, and when it has ended. */
static void test_groups(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, SECOND "1 c 7 99\n2 a 1 8 0 capture=7\n3 c 7 98\n4 g 7 1\n5 c 8 99\n");

	g_assert_cmpint(f->err, ==, 0);
	assert_ops(f->trace, "c0 a8 c0 g0 c0");
	g_assert_cmpuint(f->trace->captures, ==, 2);
	g_assert_cmpuint(f->trace->ops[0].max, ==, 99);
	g_assert_cmpuint(f->trace->ops[0].capture, ==, 1);
	g_assert_cmpuint(f->trace->ops[1].flags, ==, TRACE_LAST);
	g_assert_cmpuint(f->trace->ops[2].capture, ==, 1);
	g_assert_cmpuint(f->trace->ops[4].capture, ==, 2);
}

/* What became of a block before its free. */
static void test_moved(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, SECOND "1 a 1 8 5\n2 a 2 8 5\n3 a 3 8 5\n4 f 1 5 moved=7\n5 f 2 any used moved=8 pool=1\n6 f 3 5\n");

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpuint(f->trace->ops[3].max, ==, 7);
	g_assert_cmpuint(f->trace->ops[3].flags, ==, 0);
	g_assert_cmpuint(f->trace->ops[4].max, ==, 8);
	g_assert_cmpuint(f->trace->ops[4].flags, ==, TRACE_USED | TRACE_ON_ANY);
	g_assert_cmpuint(f->trace->ops[5].max, ==, 0);
}

static void test_tags(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, SECOND "1 s tag=kv\n2 w tag=kv\n3 a 1 8 5 tag=a%20b%25 stay\n4 a 2 9 5 drop pausable tag=kv\n"
		  "5 a 3 10 5\n6 s tag=kv drop\n7 a 4 11 5 tag=a%20b%25\n");

	g_assert_cmpint(f->err, ==, 0);
	assert_ops(f->trace, "s0 w0 a8 a9 a10 s0 a11");
	g_assert_cmpuint(f->trace->n_tags, ==, 2);
	g_assert_cmpstr(f->trace->tags[0].name, ==, "kv");
	g_assert_true(f->trace->tags[0].pausable);
	g_assert_cmpstr(f->trace->tags[1].name, ==, "a b%");
	g_assert_false(f->trace->tags[1].pausable);
	g_assert_cmpuint(f->trace->ops[1].tag, ==, 1);
	g_assert_cmpuint(f->trace->ops[2].tag, ==, 2);
	g_assert_cmpuint(f->trace->ops[2].flags, ==, TRACE_STAY);
	g_assert_cmpuint(f->trace->ops[3].tag, ==, 1);
	g_assert_cmpuint(f->trace->ops[3].flags, ==, TRACE_DROP);
	g_assert_cmpuint(f->trace->ops[4].tag, ==, 0);
	g_assert_cmpuint(f->trace->ops[5].flags, ==, TRACE_DROP);
	g_assert_cmpuint(f->trace->ops[6].tag, ==, 2);
	g_assert_cmpuint(f->trace->streams, ==, 1);
}

static void test_free_on_any_stream(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, SECOND "1 a 1 8 5\n2 a 2 8 6\n3 f 2 any\n4 f 1 6\n");

	g_assert_cmpuint(f->trace->streams, ==, 2);
	g_assert_cmpuint(f->trace->ops[2].stream, ==, f->trace->ops[1].stream);
	g_assert_cmpuint(f->trace->ops[2].slot, ==, f->trace->ops[1].slot);
}

static void test_version_with_words(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, "# vpmm-trace 1 source=x workload=y\n1 a 1 8 0\n");
	g_assert_cmpint(f->err, ==, 0);
	trace_free(f->trace);
	f->trace = NULL;
	read_text(f, "# vpmm-trace 2 source=x\n0 p 1 host 0 4096\n1 a 1 8 0\n");

	g_assert_cmpint(f->err, ==, 0);
}

/* The same id in two pools at once, and one pool of which nothing was asked. */
static void test_several_pools(struct fixture *f, gconstpointer data)
{
	char *first = g_strdup_printf("%s#1", f->path), *third = g_strdup_printf("%s#3", f->path);

	(void)data;
	read_text(f, SECOND "1 p 2 host 1 4096\n2 e 2\n3 p 3 cuda 2 4096\n4 a 0x10 8 0\n5 a 0x10 9 1 pool=3\n"
		  "6 e 1\n7 f 0x10 2 pool=3\n");

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpstr(f->trace->name, ==, first);
	g_assert_cmpuint(f->trace->n_ops, ==, 1);
	g_assert_cmpuint(f->trace->ops[0].bytes, ==, 8);
	g_assert_cmpstr(f->trace->next->name, ==, third);
	g_assert_cmpuint(f->trace->next->n_ops, ==, 2);
	g_assert_cmpuint(f->trace->next->streams, ==, 2);
	g_assert_cmpuint(f->trace->next->ops[1].bytes, ==, 9);
	g_assert_null(f->trace->next->next);
	g_free(first);
	g_free(third);
}

/* As the preload object writes them: handles of streams, and ids that are addresses. */
static void test_handles(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, "# vpmm-trace 2\n0 p 1 cuda 3 4096\n1 a 0x7f0000000000 8 0x564bd5845390 pool=1\n"
		  "2 a 0x7f0000001000 8 0xfffffffffffffffe pool=1\n3 f 0x7f0000000000 0x564bd5845390 pool=1\n");

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpuint(f->trace->device, ==, 3);
	g_assert_cmpuint(f->trace->streams, ==, 2);
	g_assert_cmpuint(f->trace->ops[0].id, ==, 0x7f0000000000);
	g_assert_cmpuint(f->trace->ops[2].stream, ==, f->trace->ops[0].stream);
}

/* Of a trace that is still being written. */
static void test_so_far(struct fixture *f, gconstpointer data)
{
	static const char *const nothing[] = { "", "# vpmm-tr", SECOND, SECOND "1 a 1 8 0" };

	(void)data;
	g_assert_true(g_file_set_contents(f->path, SECOND "1 a 1 8 0\n2 a 2 8", -1, NULL));
	g_assert_cmpint(trace_load_so_far(f->path, NULL, NULL, &f->trace), ==, 0);
	g_assert_cmpuint(f->trace->n_ops, ==, 1);
	trace_free(f->trace);
	for (size_t i = 0; i < G_N_ELEMENTS(nothing); i++) {
		g_assert_true(g_file_set_contents(f->path, nothing[i], -1, NULL));
		g_assert_cmpint(trace_load_so_far(f->path, NULL, NULL, &f->trace), ==, 0);
		g_assert_null(f->trace);
	}

	/* What is whole has to be right all the same. */
	g_assert_true(g_file_set_contents(f->path, SECOND "1 a 1 8\n2 a", -1, NULL));
	f->err = trace_load_so_far(f->path, NULL, NULL, &f->trace);
	expect_damage(f, "3: the stream is missing (microseconds a id bytes stream)");
}

static const char *const second_damages[][2] = {
	{ "# vpmm-trace 3\n1 a 1 8 0\n", "1: the trace is of version \"3\", and this program reads 1 and 2" },
	{ "# vpmm-trace 22\n1 a 1 8 0\n", "1: the trace is of version \"22\", and this program reads 1 and 2" },
	{ "# vpmm-trace 2\n", "2: the trace ends before its first allocation" },
	{ SECOND "1 e 1\n", "4: the trace ends before its first allocation" },
	{ SECOND "1 q 1\n", "3: the op is \"q\", which is no record of version 2" },
	{ SECOND "1\n", "3: the op is missing (microseconds op ...)" },
	{ SECOND "1 a 1 8\n", "3: the stream is missing (microseconds a id bytes stream)" },
	{ SECOND "1 f 1 8 0\n", "3: \"0\" after the last field (microseconds f id stream)" },
	{ SECOND "1 a 1 8 0 later\n", "3: \"later\" after the last field (microseconds a id bytes stream)" },
	{ SECOND "1 a 1 8 0 pool=\n", "3: the pool is \"\", which is no number" },
	{ SECOND "1 a 0x 8 0\n", "3: the id is \"0x\", which is no number" },
	{ SECOND "1 a 0xg 8 0\n", "3: the id is \"0xg\", which is no number" },
	{ SECOND "1 a 0x10000000000000000 8 0\n",
	  "3: the id is 0x10000000000000000, more than the 18446744073709551615 there can be" },
	{ SECOND "1 a 1 8 0 pool=2\n", "3: pool 2 has not begun" },
	{ SECOND "1 a 1 8 0 pool=0\n", "3: pool 0 has not begun" },
	{ SECOND "1 p 3 host 0 4096\n", "3: pool 3 begins, where the next is 2" },
	{ SECOND "1 p 2\n", "3: the backend is missing (microseconds p pool backend device bytes)" },
	{ SECOND "1 e 1\n2 a 1 8 0\n", "4: pool 1 was destroyed before" },
	{ SECOND "1 u 1 any\n", "3: the stream is \"any\", which is no number" },
	{ SECOND "1 f 1 anybody\n", "3: the stream is \"anybody\", which is no number" },
	{ SECOND "1 c 1\n", "3: the group is missing (microseconds c capture group)" },
	{ SECOND "1 m 1 1 8 0\n", "3: resizes 1, which is not allocated" },
	{ SECOND "1 a 1 8 0\n2 a 2 8 0\n3 m 1 2 9 0\n", "5: moves 1 to 2, which line 4 allocated and nobody has freed" },
	{ SECOND "1 a 1 8 0\n2 m 1 1 0 0\n", "4: resizes 1 to 0 bytes, which would free it" },
	{ SECOND "1 a 1 8 0\n2 m 1 1 9\n", "4: the stream is missing (microseconds m id new-id bytes stream)" },
	{ SECOND "1 a 1 8 0\n2 m 1 x 9 0\n", "4: the new id is \"x\", which is no number" },
	{ SECOND "1 a 1 8 0\n2 m 1 2 9 0\n3 f 1 0\n", "5: frees 1, which is not allocated" },
	{ SECOND "1 a 1 8 0 max=7\n", "3: the maximum is 7, less than the size" },
	{ SECOND "1 a 1 8 0 max=x\n", "3: the maximum is \"x\", which is no number" },
	{ SECOND "1 a 1 8 0 tag=\n", "3: the tag is \"\", which is no name of one" },
	{ SECOND "1 a 1 8 0 tag=a%21\n", "3: the tag is \"a%21\", which is no name of one" },
	{ SECOND "1 a 1 8 0 tag=a%2\n", "3: the tag is \"a%2\", which is no name of one" },
	{ SECOND "1 a 1 8 0 tag=a\001\n", "3: the tag is \"a\\001\", which is no name of one" },
	{ SECOND "1 a 1 8 0 drop\n", "3: the tag is missing" },
	{ SECOND "1 s\n", "3: the tag is missing" },
	{ SECOND "1 w tag=a drop\n", "3: \"drop\" after the last field (microseconds w)" },
	{ SECOND "1 f 1 0 tag=a\n", "3: \"tag=a\" after the last field (microseconds f id stream)" },
	{ SECOND "1 a 1 8 0 tag=a\n2 s tag=a\n", "4: the tag \"a\" is pausable, and was not" },
	{ SECOND "1 s tag=a\n2 a 1 8 0 tag=a\n", "4: the tag \"a\" is not pausable, and was" },
	{ "# vpmm-trace 2\n0 p 1 cuda 1023 4096\n0 p 2 cuda 1024 4096\n",
	  "3: the device is 1024, more than the 1023 there can be" },
	{ SECOND "1 a 1 8 0 copied\n", "3: \"copied\" after the last field (microseconds a id bytes stream)" },
	{ SECOND "1 a 1 8 0 moved=8\n", "3: \"moved=8\" after the last field (microseconds a id bytes stream)" },
	{ SECOND "1 a 1 8 0\n2 f 1 0 moved=9\n", "4: moved 9 bytes of 8" },
	{ SECOND "1 a 1 8 0\n2 f 1 0 moved=\n", "4: the size is \"\", which is no number" },
	{ SECOND "1 a 1 8 0\n2 f 1 0 zero\n", "4: \"zero\" after the last field (microseconds f id stream)" },
	{ SECOND "1 a 1 8 0\n2 m 1 1 9 0 max=9\n",
	  "4: \"max=9\" after the last field (microseconds m id new-id bytes stream)" },
	{ SECOND "1 e 1 pool=1\n", "3: \"pool=1\" after the last field (microseconds e pool)" },
	{ SECOND "1 r 0\n2 t 0\n", "5: the trace ends before its first allocation" },
	{ SECOND "1 u 1 0\n", "3: uses 1, which is not allocated" },
	{ SECOND "1 f 1 0\n", "3: frees 1, which is not allocated" },
	{ SECOND "1 a 1 8 0\n0 f 1 0\n", "4: the time goes back from 1 to 0" },
	/* What is no record of the first version. */
	{ "1 u 1 0\n", "1: the op is \"u\", neither a (allocate) nor f (free)" },
	{ "1 a 1 8 0 zero\n", "1: \"zero\" after the last field (microseconds op id bytes stream)" },
	{ "1 a 0x1 8 0\n", "1: the id is \"0x1\", which is no number" },
	/* Only the first line says which version it is. */
	{ "#\n# vpmm-trace 2\n1 p 1 host 0 4096\n", "3: the op is \"p\", neither a (allocate) nor f (free)" },
};

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	add("/trace/second-version", NULL, test_second_version);
	add("/trace/second-version/moved", NULL, test_moved);
	add("/trace/second-version/tags", NULL, test_tags);
	add("/trace/second-version/free-on-any-stream", NULL, test_free_on_any_stream);
	add("/trace/second-version/resize", NULL, test_resize);
	add("/trace/second-version/captures", NULL, test_captures);
	add("/trace/second-version/groups", NULL, test_groups);
	add("/trace/version-with-words", NULL, test_version_with_words);
	add("/trace/several-pools", NULL, test_several_pools);
	add("/trace/handles", NULL, test_handles);
	add("/trace/so-far", NULL, test_so_far);
	add_damages("/trace/second-version/damage", second_damages, G_N_ELEMENTS(second_damages));
	return g_test_run();
}
