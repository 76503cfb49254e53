// SPDX-License-Identifier: LGPL-2.1-or-later
/* The reader of traces: what it takes, and what it says to what it does not. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <zlib.h>

#include "fail.h"
#include "progress.h"
#include "trace.h"
#include "unit/trace-fixture.h"
#include "units.h"

static char *compress_text(struct fixture *f, const char *text, size_t *length)
{
	gzFile gz = gzopen(f->path, "wb");
	char *bytes;

	g_assert_cmpint(gzwrite(gz, text, (unsigned int)strlen(text)), ==, (int)strlen(text));
	g_assert_cmpint(gzclose(gz), ==, Z_OK);
	g_assert_true(g_file_get_contents(f->path, &bytes, length, NULL));
	return bytes;
}

static char *long_text(void)
{
	GString *text = g_string_new("# long\n");

	for (unsigned int i = 0; i < 20000; i++)
		g_string_append_printf(text, "%u a %u %d 0\n", i, i, g_random_int_range(1, 1 << 30));
	return g_string_free(text, FALSE);
}

static void test_fields(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, "# comment\n7 a 1 512 5\n9 f 1 512 3\n");

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpstr(f->trace->name, ==, f->path);
	g_assert_cmpuint(f->trace->n_ops, ==, 2);
	g_assert_cmpuint(f->trace->allocs, ==, 1);
	g_assert_cmpuint(f->trace->streams, ==, 2);
	g_assert_true(f->trace->ops[0].kind == TRACE_ALLOC);
	g_assert_cmpuint(f->trace->ops[0].us, ==, 7);
	g_assert_cmpuint(f->trace->ops[0].bytes, ==, 512);
	g_assert_cmpuint(f->trace->ops[0].stream, ==, 0);
	g_assert_cmpuint(f->trace->ops[0].line, ==, 2);
	g_assert_false(f->trace->ops[1].kind == TRACE_ALLOC);
	g_assert_cmpuint(f->trace->ops[1].us, ==, 9);
	g_assert_cmpuint(f->trace->ops[1].stream, ==, 1);
	g_assert_cmpuint(f->trace->ops[1].line, ==, 3);
}

static void test_blanks(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, "1\ta  1 512\t 0 \n");

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpuint(f->trace->n_ops, ==, 1);
}

static void test_largest_numbers(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, "9223372036854775807 a 18446744073709551615 9223372036854775807 4294967295\n");

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpuint(f->trace->ops[0].us, ==, INT64_MAX);
	g_assert_cmpuint(f->trace->ops[0].bytes, ==, PTRDIFF_MAX);
}

static void test_slots_are_used_again(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, "1 a 1 8 0\n2 a 2 8 0\n3 f 1 8 0\n4 a 3 8 0\n5 f 2 8 0\n6 f 3 8 0\n7 a 1 8 0\n");

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpuint(f->trace->slots, ==, 2);
	g_assert_cmpuint(f->trace->allocs, ==, 4);
	g_assert_cmpuint(f->trace->ops[0].slot, !=, f->trace->ops[1].slot);
	g_assert_cmpuint(f->trace->ops[2].slot, ==, f->trace->ops[0].slot);
	g_assert_cmpuint(f->trace->ops[3].slot, ==, f->trace->ops[0].slot);
}

static void test_compressed(struct fixture *f, gconstpointer data)
{
	char *text = long_text(), *bytes;
	size_t length;

	(void)data;
	bytes = compress_text(f, text, &length);
	read_bytes(f, bytes, length);

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpuint(f->trace->n_ops, ==, 20000);
	g_assert_cmpuint(f->trace->ops[19999].line, ==, 20001);
	g_free(bytes);
	g_free(text);
}

static void test_standard_input(struct fixture *f, gconstpointer data)
{
	int kept = dup(STDIN_FILENO), fd;

	(void)data;
	g_assert_true(g_file_set_contents(f->path, "1 a 1 8 0\nnonsense\n", -1, NULL));
	fd = open(f->path, O_RDONLY);
	g_assert_cmpint(dup2(fd, STDIN_FILENO), ==, STDIN_FILENO);
	f->err = trace_load("-", NULL, NULL, &f->trace);
	dup2(kept, STDIN_FILENO);
	close(fd);
	close(kept);

	g_assert_cmpint(f->err, ==, -EBADMSG);
	g_assert_cmpstr(fail_text(), ==, "standard input:2: the time is \"nonsense\", which is no number");
}

static bool hear(void *data, uint64_t done, uint64_t total)
{
	uint64_t *heard = data;

	g_assert_cmpuint(done, >=, heard[0]);
	g_assert_cmpuint(done, <=, total);
	heard[0] = done;
	heard[1] = total;
	return true;
}

static bool stop_behind_half(void *data, uint64_t done, uint64_t total)
{
	(void)data;
	return done < total / 2;
}

static void test_progress(struct fixture *f, gconstpointer data)
{
	uint64_t heard[2] = { 0, 0 };
	char *text = long_text();

	(void)data;
	g_assert_true(g_file_set_contents(f->path, text, -1, NULL));
	g_assert_cmpint(trace_load(f->path, hear, heard, &f->trace), ==, 0);

	g_assert_cmpuint(heard[0], ==, strlen(text));
	g_assert_cmpuint(heard[1], ==, strlen(text));
	g_free(text);
}

static void test_interrupted(struct fixture *f, gconstpointer data)
{
	char *text = long_text(), *expected = g_strdup_printf("%s: interrupted while it was read", f->path);

	(void)data;
	g_assert_true(g_file_set_contents(f->path, text, -1, NULL));
	f->err = trace_load(f->path, stop_behind_half, NULL, &f->trace);

	g_assert_cmpint(f->err, ==, -EINTR);
	g_assert_null(f->trace);
	g_assert_cmpstr(fail_text(), ==, expected);
	g_free(expected);
	g_free(text);
}

static void test_absent(struct fixture *f, gconstpointer data)
{
	(void)data;
	g_assert_cmpint(trace_load("/nonexistent/x.trace", NULL, NULL, &f->trace), ==, -ENOENT);
	g_assert_cmpstr(fail_text(), ==, "/nonexistent/x.trace: No such file or directory");
	g_assert_cmpint(trace_load("/", NULL, NULL, &f->trace), ==, -EISDIR);
	g_assert_cmpstr(fail_text(), ==, "/: Is a directory");
}

/* Text, and the complaint with the number of its line. */
static const char *const damages[][2] = {
	{ "", "1: the trace ends before its first allocation" },
	{ "# nothing\n", "2: the trace ends before its first allocation" },
	{ "\n", "1: the time is missing (microseconds op id bytes stream)" },
	{ "1 a 1 8 0\n\n", "2: the time is missing (microseconds op id bytes stream)" },
	{ "1\n", "1: the op is missing (microseconds op id bytes stream)" },
	{ "1 a\n", "1: the id is missing (microseconds op id bytes stream)" },
	{ "1 a 1\n", "1: the size is missing (microseconds op id bytes stream)" },
	{ "1 a 1 8\n", "1: the stream is missing (microseconds op id bytes stream)" },
	{ "1 a 1 8 0 9\n", "1: \"9\" after the last field (microseconds op id bytes stream)" },
	{ "1 a 1 8 0 # no\n", "1: \"#\" after the last field (microseconds op id bytes stream)" },
	{ "1 m 1 8 0\n", "1: the op is \"m\", neither a (allocate) nor f (free)" },
	{ "1 aa 1 8 0\n", "1: the op is \"aa\", neither a (allocate) nor f (free)" },
	{ "-1 a 1 8 0\n", "1: the time is \"-1\", which is no number" },
	{ "1 a x 8 0\n", "1: the id is \"x\", which is no number" },
	{ "1 a 1 0x8 0\n", "1: the size is \"0x8\", which is no number" },
	{ "1 a 1 8K 0\n", "1: the size is \"8K\", which is no number" },
	{ "1 a 1 8 0\r\n", "1: the stream is \"0\\r\", which is no number" },
	{ "9223372036854775808 a 1 8 0\n",
	  "1: the time is 9223372036854775808, more than the 9223372036854775807 there can be" },
	{ "1 a 18446744073709551616 8 0\n",
	  "1: the id is 18446744073709551616, more than the 18446744073709551615 there can be" },
	{ "1 a 1 99999999999999999999999 0\n",
	  "1: the size is 99999999999999999999999, more than the 9223372036854775807 there can be" },
	{ "1 a 1 8 4294967296\n", "1: the stream is 4294967296, more than the 4294967295 there can be" },
	{ "5 a 1 8 0\n4 a 2 8 0\n", "2: the time goes back from 5 to 4" },
	{ "1 a 1 8 0\n#\n2 a 1 8 0\n", "3: allocates 1, which line 1 did and nobody has freed" },
	{ "1 a 1 8 0\n2 f 2 8 0\n", "2: frees 2, which is not allocated" },
	{ "1 a 1 8 0\n2 f 1 8 0\n3 f 1 8 0\n", "3: frees 1, which is not allocated" },
	{ "1 a 1 8 0\n2 f 1 9 0\n", "2: frees 9 bytes of 1, for which line 1 allocated 8" },
	{ "1 a 1 8 0\n2 a 2 8 0", "2: the last line has no newline: the trace is cut short" },
};

static void test_null_byte(struct fixture *f, gconstpointer data)
{
	static const char bytes[] = "1 a 1 8 0\n2 a 2 8 \0\n";

	(void)data;
	read_bytes(f, bytes, sizeof(bytes) - 1);

	expect_damage(f, "2: there is a byte of 0");
}

static void test_endless_line(struct fixture *f, gconstpointer data)
{
	char *text = g_strnfill(1 << 20, '1');

	(void)data;
	read_text(f, text);

	expect_damage(f, "1: the line is longer than 262144 bytes");
	g_free(text);
}

static void test_compressed_cut_short(struct fixture *f, gconstpointer data)
{
	char *text = long_text(), *bytes;
	size_t length;

	(void)data;
	bytes = compress_text(f, text, &length);
	read_bytes(f, bytes, length / 2);

	g_assert_cmpint(f->err, ==, -EBADMSG);
	g_assert_true(g_str_has_suffix(fail_text(), ": the compressed data end too early"));
	g_free(bytes);
	g_free(text);
}

static void test_compressed_without_its_end(struct fixture *f, gconstpointer data)
{
	char *bytes;
	size_t length;

	(void)data;
	bytes = compress_text(f, "1 a 1 8 0\n", &length);
	read_bytes(f, bytes, length - 1);

	expect_damage(f, "2: the compressed data end too early");
	g_free(bytes);
}

static void test_compressed_with_wrong_sum(struct fixture *f, gconstpointer data)
{
	char *bytes;
	size_t length;

	(void)data;
	bytes = compress_text(f, "1 a 1 8 0\n", &length);
	bytes[length - 8] ^= 1;
	read_bytes(f, bytes, length);

	expect_damage(f, "2: the compressed data are damaged (incorrect data check)");
	g_free(bytes);
}

static void test_compressed_and_cut_anywhere(struct fixture *f, gconstpointer data)
{
	char *bytes;
	size_t length;

	(void)data;
	bytes = compress_text(f, "1 a 1 8 0\n2 f 1 8 0\n", &length);
	for (size_t i = 0; i < length; i++) {
		read_bytes(f, bytes, i);
		g_assert_cmpint(f->err, ==, -EBADMSG);
		g_assert_true(g_str_has_prefix(fail_text(), f->path));
	}
	g_free(bytes);
}

/* Compressed data of a whole trace, and @tail behind them. */
static void read_with_tail(struct fixture *f, const char *tail, size_t tail_length)
{
	char *bytes;
	size_t length;

	bytes = compress_text(f, "1 a 1 8 0\n", &length);
	bytes = g_realloc(bytes, length + tail_length);
	memcpy(bytes + length, tail, tail_length);
	read_bytes(f, bytes, length + tail_length);
	g_free(bytes);
}

static void test_garbage_after_compressed(struct fixture *f, gconstpointer data)
{
	static const char zeros[512];

	(void)data;
	read_with_tail(f, "2 f 1 8 0\n", 10);
	expect_damage(f, "2: garbage follows the compressed data");
	read_with_tail(f, zeros, sizeof(zeros));
	expect_damage(f, "2: garbage follows the compressed data");
	read_with_tail(f, "\x1f", 1);
	expect_damage(f, "2: the compressed data end too early");
	read_with_tail(f, "\x1f\x8c", 2);
	expect_damage(f, "2: the compressed data are damaged (incorrect header check)");
}

static void test_compressed_in_two_parts(struct fixture *f, gconstpointer data)
{
	char *part;
	size_t length;

	(void)data;
	part = compress_text(f, "2 f 1 8 0\n", &length);
	read_with_tail(f, part, length);

	g_assert_cmpint(f->err, ==, 0);
	g_assert_cmpuint(f->trace->n_ops, ==, 2);
	g_free(part);
}

static void test_bytes(void)
{
	static const char *const bad[] = { "", "x", "-1", " 1", "1 ", "1KB", "K", "0x10", "1.5G" };
	static const char *const large[] = { "16777216T", "18446744073709551616" };
	uint64_t bytes = 1;

	g_assert_cmpint(units_parse_bytes("--limit", "0", &bytes), ==, 0);
	g_assert_cmpuint(bytes, ==, 0);
	g_assert_cmpint(units_parse_bytes("--limit", "3k", &bytes), ==, 0);
	g_assert_cmpuint(bytes, ==, 3072);
	g_assert_cmpint(units_parse_bytes("--limit", "16777215T", &bytes), ==, 0);
	g_assert_cmpuint(bytes, ==, UINT64_C(16777215) << 40);
	for (unsigned int i = 0; i < G_N_ELEMENTS(bad); i++) {
		bytes = 77;
		g_assert_cmpint(units_parse_bytes("--limit", bad[i], &bytes), ==, -EINVAL);
		g_assert_cmpuint(bytes, ==, 77);
		g_assert_true(g_str_has_prefix(fail_text(), "--limit: \""));
	}
	for (unsigned int i = 0; i < G_N_ELEMENTS(large); i++) {
		g_assert_cmpint(units_parse_bytes("--limit", large[i], &bytes), ==, -EINVAL);
		g_assert_cmpuint(bytes, ==, 77);
		g_assert_true(g_str_has_suffix(fail_text(), " is larger than 64 bits can hold"));
	}
}

static void test_times(void)
{
	static const char *const bad[] = { "", "5", "ms", "-1ms", "1 ms", "1min", "1mss", "1..5ms", "1e3s", "infs" };
	uint64_t us;

	g_assert_cmpint(units_parse_time("--lag", "50us", &us), ==, 0);
	g_assert_cmpuint(us, ==, 50);
	g_assert_cmpint(units_parse_time("--lag", "1.5ms", &us), ==, 0);
	g_assert_cmpuint(us, ==, 1500);
	g_assert_cmpint(units_parse_time("--lag", "2s", &us), ==, 0);
	g_assert_cmpuint(us, ==, 2000000);
	for (unsigned int i = 0; i < G_N_ELEMENTS(bad); i++) {
		us = 77;
		g_assert_cmpint(units_parse_time("--lag", bad[i], &us), ==, -EINVAL);
		g_assert_cmpuint(us, ==, 77);
		g_assert_true(g_str_has_prefix(fail_text(), "--lag: \""));
	}
	g_assert_cmpint(units_parse_time("--lag", "2000000000s", &us), ==, -EINVAL);
}

static void test_formats(void)
{
	char text[UNITS_TEXT];

	units_format_bytes(text, 1023);
	g_assert_cmpstr(text, ==, "1023 B");
	units_format_bytes(text, 2 << 20);
	g_assert_cmpstr(text, ==, "2.00 MiB");
	units_format_bytes(text, UINT64_MAX);
	g_assert_cmpstr(text, ==, "16.0 EiB");
	units_format_count(text, 999);
	g_assert_cmpstr(text, ==, "999");
	units_format_count(text, 1234567);
	g_assert_cmpstr(text, ==, "1,234,567");
	units_format_seconds(text, 0.0000004);
	g_assert_cmpstr(text, ==, "0.40 us");
	units_format_seconds(text, 0.0123);
	g_assert_cmpstr(text, ==, "12.3 ms");
	units_format_seconds(text, 120);
	g_assert_cmpstr(text, ==, "120 s");
}

static void expect_bar(uint64_t done, uint64_t total, uint64_t elapsed_s, const char *expected)
{
	struct progress p = { .what = "x", .begin_us = 5 };
	char line[PROGRESS_LINE];

	progress_format(&p, done, total, 5 + (int64_t)elapsed_s * G_USEC_PER_SEC, line);

	g_assert_true(g_str_has_suffix(line, expected));
	g_assert_cmpuint(strlen(line), <, 80);
}

static void test_time_left(void)
{
	expect_bar(1, 2, 10, "  50%  0:10 left");
	expect_bar(1, 4, 30, "  25%  1:30 left");
	expect_bar(1, 61, 60, "   1%  1:00:00 left");
	expect_bar(10, 10, 60, " 100%  0:00 left");
	/* From nothing nobody can tell, and from next to nothing it is a number of any size. */
	expect_bar(0, 10, 60, "   0%");
	expect_bar(1, UINT64_MAX, 60, "   0%  more than 99 hours left");
	expect_bar(20, 10, 60, " 100%  0:00 left");
	expect_bar(7, 0, 60, " 7");
}

/* A cell has its width whatever is in it, and is cut between characters only. */
static void expect_cell(const char *text, const char *expected)
{
	g_autofree char *cell = NULL;
	size_t size;
	FILE *out = open_memstream(&cell, &size);

	units_print_cell(out, text, 5);
	fclose(out);
	g_assert_cmpstr(cell, ==, expected);
}

static void test_cells(void)
{
	expect_cell("abc", "abc  ");
	expect_cell("abcdefg", "abcde");
	expect_cell("\303\244\303\266\303\274", "\303\244\303\266\303\274  ");
	expect_cell("a\314\210bcdef", "a\314\210bcde");
	expect_cell("\345\220\215\345\211\215\345\220\215", "\345\220\215\345\211\215 ");
	expect_cell("ab\345\220", "ab\345\220 ");
}

/* Where the bar is longer than a line, each of them would stay on the terminal. */
static void test_narrow_terminal(void)
{
	const struct winsize narrow = { .ws_row = 5, .ws_col = 20 };
	int terminal = posix_openpt(O_RDWR | O_NOCTTY), other, before = dup(STDERR_FILENO);
	struct progress p;
	char line[256];
	ssize_t n;

	g_assert_true(!grantpt(terminal) && !unlockpt(terminal));
	other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	g_assert_cmpint(ioctl(other, TIOCSWINSZ, &narrow), ==, 0);
	g_assert_cmpint(dup2(other, STDERR_FILENO), ==, STDERR_FILENO);
	progress_begin(&p, "reading");
	p.next_us = 0;
	progress_show(&p, 1, 2);
	g_assert_cmpint(dup2(before, STDERR_FILENO), ==, STDERR_FILENO);

	n = read(terminal, line, sizeof(line) - 1);
	line[MAX(n, 0)] = '\0';
	g_assert_cmpstr(line, ==, "\rreading          [#\033[K");
	close(before);
	close(other);
	close(terminal);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/progress/time-left", test_time_left);
	add("/trace/fields", NULL, test_fields);
	add("/trace/blanks", NULL, test_blanks);
	add("/trace/largest-numbers", NULL, test_largest_numbers);
	add("/trace/slots-are-used-again", NULL, test_slots_are_used_again);
	add("/trace/compressed", NULL, test_compressed);
	add("/trace/standard-input", NULL, test_standard_input);
	add("/trace/progress", NULL, test_progress);
	add("/trace/interrupted", NULL, test_interrupted);
	add("/trace/absent", NULL, test_absent);
	add_damages("/trace/damage", damages, G_N_ELEMENTS(damages));
	add("/trace/damage/null-byte", NULL, test_null_byte);
	add("/trace/damage/endless-line", NULL, test_endless_line);
	add("/trace/damage/compressed-cut-short", NULL, test_compressed_cut_short);
	add("/trace/damage/compressed-without-its-end", NULL, test_compressed_without_its_end);
	add("/trace/damage/compressed-with-wrong-sum", NULL, test_compressed_with_wrong_sum);
	add("/trace/damage/compressed-and-cut-anywhere", NULL, test_compressed_and_cut_anywhere);
	add("/trace/damage/garbage-after-compressed", NULL, test_garbage_after_compressed);
	add("/trace/compressed-in-two-parts", NULL, test_compressed_in_two_parts);
	g_test_add_func("/units/bytes", test_bytes);
	g_test_add_func("/units/times", test_times);
	g_test_add_func("/units/formats", test_formats);
	g_test_add_func("/units/cells", test_cells);
	g_test_add_func("/progress/narrow-terminal", test_narrow_terminal);
	return g_test_run();
}
