// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A fuzz target as a plain program: each argument is a file of bytes for it. With -N before them, these are changed N
 * times each, and in the same way whenever it is run. Without any, AFL++ says what the bytes are.
 */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

#ifdef __AFL_FUZZ_TESTCASE_LEN
__AFL_FUZZ_INIT();

static void fuzz(void)
{
	const unsigned char *bytes = __AFL_FUZZ_TESTCASE_BUF;

	while (__AFL_LOOP(10000)) {
		size_t size = (size_t)__AFL_FUZZ_TESTCASE_LEN;
		uint8_t *data = g_memdup2(bytes, size);

		LLVMFuzzerTestOneInput(data, size);
		g_free(data);
	}
}
#else
static void fuzz(void)
{
}
#endif

/* Bytes that are other ones, that are gone, or that are there twice. */
static void mutate(GByteArray *bytes, GRand *rand)
{
	guint at, many;

	for (int i = g_rand_int_range(rand, 1, 5); i > 0 && bytes->len; i--) {
		at = (guint)g_rand_int_range(rand, 0, (gint32)bytes->len);
		many = (guint)g_rand_int_range(rand, 1, (gint32)MIN(bytes->len - at, 16) + 1);
		switch (g_rand_int_range(rand, 0, 4)) {
		case 0:
			g_byte_array_remove_range(bytes, at, many);
			break;
		case 1:
			/* What is appended may move what it is taken from. */
			for (guint j = 0; j < many; j++) {
				guint8 byte = bytes->data[at + j];

				g_byte_array_append(bytes, &byte, 1);
			}
			break;
		default:
			bytes->data[at] = (guint8)g_rand_int_range(rand, 0, 256);
		}
	}
}

static void run_mutated(const uint8_t *data, size_t size, int times)
{
	GRand *rand = g_rand_new_with_seed((guint32)size);

	for (int i = 0; i < times; i++) {
		GByteArray *bytes = g_byte_array_new();
		uint8_t *exact;

		g_byte_array_append(bytes, data, (guint)size);
		mutate(bytes, rand);
		exact = g_memdup2(bytes->data, bytes->len);
		LLVMFuzzerTestOneInput(exact, bytes->len);
		g_free(exact);
		g_byte_array_unref(bytes);
	}
	g_rand_free(rand);
}

static int replay(const char *name, int times)
{
	GError *error = NULL;
	uint8_t *data;
	char *bytes;
	gsize size;

	if (!g_file_get_contents(name, &bytes, &size, &error)) {
		fprintf(stderr, "%s\n", error->message);
		g_error_free(error);
		return 1;
	}
	/* Apart from the byte that GLib adds: not one more may be read. */
	data = g_memdup2(bytes, size);
	g_free(bytes);
	if (times)
		run_mutated(data, size, times);
	else
		LLVMFuzzerTestOneInput(data, size);
	g_free(data);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0, times = 0;

	LLVMFuzzerInitialize(&argc, &argv);
	if (argc < 2)
		fuzz();
	for (int i = 1; i < argc; i++) {
		if (i == 1 && argv[i][0] == '-')
			times = atoi(argv[i] + 1);
		else
			failed |= replay(argv[i], times);
	}
	return failed;
}
