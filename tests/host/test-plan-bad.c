// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_PLAN: whatever a file says, the program goes on. */
#include "host/plan-fixture.h"
#include "support/setting.h"

static void test_bad(void)
{
	char *text = written(1), *changed, *whole;
	size_t length = strlen(text);
	static const struct {
		const char *from;
		const char *to;
	} changes[] = {
		{ "vpmm-plan 1", "vpmm-plan 2" }, { "device host", "device cuda" }, { "pool 2097152", "pool 4194304" },
		{ "pool 2097152 512 0", "pool 2097152 512 1" }, { "\nchunk ", "\nchink " }, { "\nchunk ", "\nslabs " },
		{ "\nfree 0x", "\nzombie 0x" }, { "\nextents ", "\nextents 1" }, { "\noverlap", "\noverlap 1" },
		{ "\nblock 0x", "\nblock 0xfffffffffffffffff" }, { "\nfree 0x", "\nfree 0x1" },
		{ "\nextents 2", "\nextents 18446744073709551615 2\nextents 2" }, { "\nchunk", "\n\nchunk" },
		{ "pool 2097152 512 0", "pool 1 512 0 0\nextents 1 80000000000\npool 2097152 512 0" },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(changes); i++) {
		char **parts = g_strsplit(text, changes[i].from, 2);

		g_assert_nonnull(parts[1]);
		changed = g_strjoin(changes[i].to, parts[0], parts[1], NULL);
		whole = summed(changed);
		put(changed, -1);
		g_assert_true(serves_without());
		put(whole, -1);
		if (!serves_without())
			g_error("\"%s\" in place of \"%s\" is used", changes[i].to, changes[i].from);
		g_strfreev(parts);
		g_free(changed);
		g_free(whole);
	}
	for (size_t i = 0; i < 12; i++) {
		put(text, (gssize)(length * i / 12));
		g_assert_true(serves_without());
	}
	put("\0\0\0\0", 4);
	g_assert_true(serves_without());
	put(text, -1);
	g_assert_false(serves_without());
	g_free(text);
}

/* Numbers of any line become others, and the sum is right: whatever comes of it, the pool is sound. */
static void test_hostile(void)
{
	static const char *const numbers[] = { "0", "1", "18446744073709551615", "0x7fffffffffff", "2097152", "4096",
					       "0x100000000000", "9223372036854775808", "512", "3" };
	char *text = written(1), **lines = g_strsplit(text, "\n", -1);
	guint count = g_strv_length(lines), steps = setting("VPMM_TEST_STEPS", 150);
	uint32_t seed = setting("VPMM_TEST_SEED", 1);

	for (guint step = 0; step < steps; step++) {
		guint which = 2 + next_random(&seed) % (next_random(&seed) % 2 ? 10 : count - 4);
		char **words = g_strsplit(lines[which], " ", -1), *line = lines[which], *changed, *whole;
		guint word = 1 + next_random(&seed) % MAX(g_strv_length(words) - 1, 1);
		const char *other = numbers[next_random(&seed) % G_N_ELEMENTS(numbers)];

		if (words[0] && words[word]) {
			g_free(words[word]);
			words[word] = g_strdup(other);
		}
		lines[which] = g_strjoinv(" ", words);
		changed = g_strjoinv("\n", lines);
		whole = summed(changed);
		put(whole, -1);
		serves_without();
		g_free(lines[which]);
		lines[which] = line;
		g_strfreev(words);
		g_free(changed);
		g_free(whole);
	}
	g_strfreev(lines);
	g_free(text);
}

/* Ranges of addresses may touch, as some drivers have those that they reserve one after the other. */
static void test_chunks(void)
{
	char *text = written(1), *at = strstr(text, "\nchunk 0x"), *rest, *changed, *whole;
	guint64 addr, size;

	addr = g_ascii_strtoull(at + strlen("\nchunk "), &rest, 0);
	size = g_ascii_strtoull(rest, &rest, 0) / 2;
	changed = g_strdup_printf("%.*s\nchunk 0x%" PRIx64 " %" PRIu64 "\nchunk 0x%" PRIx64 " %" PRIu64 "%s",
				  (int)(at - text), text, addr, size, addr + size, size, rest);
	whole = summed(changed);
	put(whole, -1);
	g_assert_false(serves_without());
	g_free(whole);
	g_free(changed);
	g_free(text);
}

/* Each is checked against each: so many that it would take minutes are refused at once. */
static void test_many_chunks(void)
{
	char *text = written(1), *at = strstr(text, "\nchunk 0x"), *whole;
	GString *changed = g_string_new_len(text, at + 1 - text);

	for (guint64 i = 0; i < 500000; i++)
		g_string_append_printf(changed, "chunk 0x%" PRIx64 " 2097152\n", (i + 1) << 22);
	g_string_append(changed, at + 1);
	whole = summed(changed->str);
	put(whole, -1);
	g_assert_true(serves_without());
	g_free(whole);
	g_string_free(changed, TRUE);
	g_free(text);
}

int main(int argc, char **argv)
{
	int result;

	g_test_init(&argc, &argv, NULL);
	plan_begin();
	g_test_add_func("/plan/bad", test_bad);
	g_test_add_func("/plan/hostile", test_hostile);
	g_test_add_func("/plan/chunks", test_chunks);
	g_test_add_func("/plan/many-chunks", test_many_chunks);
	result = g_test_run();
	plan_end();
	return result;
}
