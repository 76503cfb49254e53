// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A walkthrough of the paged policy: +10 > +1 > -10 > +4 > +11 pages on one stream, starting with 11 + X initial pages.
 * How the last two steps are served depends on X. Every layout is read back from a dump, in the format of
 * vpmm_pool_dump(3).
 */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

/* The layouts after each of the five calls, and the steps inside the last, from the log. */
struct walk {
	size_t x;
	const char *after[5];
	const char *inside[4];
};

static const struct walk walks[] = {
	/* A: enough in one piece, twice. */
	{ 11, { "[+10][-12]", "[10][+1][-11]", "[-10][1][-11]", "[+4][-6][1][-11]", "[4][-6][1][+11]" }, { NULL } },
	{ 14, { "[+10][-15]", "[10][+1][-14]", "[-10][1][-14]", "[+4][-6][1][-14]", "[4][-6][1][+11][-3]" }, { NULL } },
	/* B: enough, but in two pieces. */
	{ 5, { "[+10][-6]", "[10][+1][-5]", "[-10][1][-5]", "[-10][1][+4][-1]", "[*10][1][4][+11]" },
	  { "[~10][1][4][-11]", "[~10][1][4][-11]", NULL } },
	{ 7, { "[+10][-8]", "[10][+1][-7]", "[-10][1][-7]", "[-10][1][+4][-3]", "[*10][1][4][+11][-2]" },
	  { "[~10][1][4][-13]", "[~10][1][4][-13]", NULL } },
	{ 10, { "[+10][-11]", "[10][+1][-10]", "[-10][1][-10]", "[-10][1][+4][-6]", "[*10][1][4][+11][-5]" },
	  { "[~10][1][4][-16]", "[~10][1][4][-16]", NULL } },
	/* C: all of it in use but for the first piece, which is a page short. */
	{ 4, { "[+10][-5]", "[10][+1][-4]", "[-10][1][-4]", "[-10][1][+4]", "[*10][1][4][+11]" },
	  { "[~10][1][4][-10]", "[~10][1][4][-10][#1]", "[~10][1][4][-11]", NULL } },
	/* D: two pieces, and both together are short. */
	{ 0, { "[+10][-1]", "[10][+1]", "[-10][1]", "[+4][-6][1]", "[4][*6][1][+11]" },
	  { "[4][~6][1][-6]", "[4][~6][1][-6][#5]", "[4][~6][1][-11]", NULL } },
	{ 2, { "[+10][-3]", "[10][+1][-2]", "[-10][1][-2]", "[+4][-6][1][-2]", "[4][*6][1][+11]" },
	  { "[4][~6][1][-8]", "[4][~6][1][-8][#3]", "[4][~6][1][-11]", NULL } },
	{ 3, { "[+10][-4]", "[10][+1][-3]", "[-10][1][-3]", "[+4][-6][1][-3]", "[4][*6][1][+11]" },
	  { "[4][~6][1][-9]", "[4][~6][1][-9][#2]", "[4][~6][1][-11]", NULL } },
};

/* The layouts that the log has, without the hole at the end, one a line. */
static char *layouts_of(const GString *log)
{
	GString *layouts = g_string_new(NULL);
	char **lines = g_strsplit(log->str, "\n", -1);

	for (int i = 0; lines[i]; i++) {
		char *layout = strchr(lines[i], '[');

		if (!layout)
			continue;
		if (strrchr(layout, '[')[1] == '*')
			*strrchr(layout, '[') = '\0';
		g_string_append_printf(layouts, "%s\n", layout);
	}
	g_strfreev(lines);
	return g_string_free(layouts, FALSE);
}

static void assert_inside(const struct walk *walk, const GString *log)
{
	GString *expected = g_string_new(NULL);
	char *layouts = layouts_of(log);

	for (int i = 0; walk->inside[i]; i++)
		g_string_append_printf(expected, "%s\n", walk->inside[i]);
	g_assert_cmpstr(layouts, ==, expected->str);
	g_string_free(expected, TRUE);
	g_free(layouts);
}

static void test_walk(gconstpointer data)
{
	const struct walk *walk = data;
	struct fixture f;
	struct CUstream_st *s;
	void *ten, *one, *four, *eleven;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .pages = 11 + walk->x, .log_level = VPMM_LOG_DEBUG });
	s = f.streams[0];

	ten = fixture_malloc(&f, 10, s);
	assert_layout(&f, walk->after[0]);
	one = fixture_malloc(&f, 1, s);
	assert_layout(&f, walk->after[1]);
	fixture_free(&f, ten, s);
	assert_layout(&f, walk->after[2]);
	four = fixture_malloc(&f, 4, s);
	assert_layout(&f, walk->after[3]);
	g_string_truncate(f.log, 0);
	eleven = fixture_malloc(&f, 11, s);
	assert_layout(&f, walk->after[4]);
	assert_inside(walk, f.log);

	fixture_free(&f, one, s);
	fixture_free(&f, four, s);
	fixture_free(&f, eleven, s);
	fixture_close(&f);
}

/* While the stream is still at work on what it freed, its old addresses are zombies; when it is past them, holes. */
static void test_zombie(void)
{
	struct fixture f;
	struct CUstream_st *s;
	void *ten, *one, *four, *eleven, *more;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .pages = 15 });
	s = f.streams[0];
	ten = fixture_malloc(&f, 10, s);
	one = fixture_malloc(&f, 1, s);
	fixture_free_at_work(&f, ten, s);
	four = fixture_malloc(&f, 4, s);
	eleven = fixture_malloc(&f, 11, s);
	assert_layout(&f, "[~10][1][4][+11]");

	fixture_complete(s);
	assert_layout(&f, "[~10][1][4][+11]");
	more = fixture_malloc(&f, 1, s);
	assert_layout(&f, "[+1][*9][1][4][11]");

	fixture_free(&f, one, s);
	fixture_free(&f, four, s);
	fixture_free(&f, eleven, s);
	fixture_free(&f, more, s);
	fixture_close(&f);
}

/* Whether the program could take a locale in which the decimal point is a comma. */
static bool take_comma_locale(const char *folder)
{
	static const char source[] = "comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \",\"\n"
				     "thousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";
	char *from = g_build_filename(folder, "source", NULL), *to = g_build_filename(folder, "comma", NULL);
	char *argv[] = { (char *)"localedef", (char *)"-c", (char *)"-i", from, to, NULL };
	bool taken;

	g_assert_true(g_file_set_contents(from, source, -1, NULL));
	g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL,
		     NULL, NULL, NULL, NULL, NULL, NULL);
	g_setenv("LOCPATH", folder, TRUE);
	taken = setlocale(LC_NUMERIC, "comma");
	g_unsetenv("LOCPATH");
	g_free(from);
	g_free(to);
	return taken;
}

/* A dump has one format, also in a program that has chosen such a locale. */
static void test_locale(void)
{
	char *folder = g_dir_make_tmp("vpmm-walkthrough-XXXXXX", NULL), *remove;
	struct fixture f;
	void *block;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_malloc(f.pool, &block, 3 * PAGE / 2, f.streams[0]));
	assert_layout(&f, "[+1.5][-0.5]");
	if (take_comma_locale(folder)) {
		assert_layout(&f, "[+1.5][-0.5]");
		setlocale(LC_NUMERIC, "C");
	} else {
		g_test_skip("localedef can make no locale: it needs the package locales");
	}
	assert_ok(vpmm_free(f.pool, block, f.streams[0]));
	fixture_close(&f);
	remove = g_strdup_printf("rm -r '%s'", folder);
	g_assert_cmpint(system(remove), ==, 0);
	g_free(remove);
	g_free(folder);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(walks); i++) {
		char *path = g_strdup_printf("/walkthrough/x-%zu", walks[i].x);

		g_test_add_data_func(path, &walks[i], test_walk);
		g_free(path);
	}
	g_test_add_func("/walkthrough/zombie", test_zombie);
	g_test_add_func("/walkthrough/locale", test_locale);
	return g_test_run();
}
