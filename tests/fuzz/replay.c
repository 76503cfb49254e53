// SPDX-License-Identifier: LGPL-2.1-or-later
/* A fuzz target as a plain program: each argument is a file of bytes for it. AFL++ goes on in one process instead. */
#include <glib.h>
#include <stdio.h>
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

static int replay(const char *name)
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
	LLVMFuzzerTestOneInput(data, size);
	g_free(data);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	LLVMFuzzerInitialize(&argc, &argv);
	if (argc < 2)
		fuzz();
	for (int i = 1; i < argc; i++)
		failed |= replay(argv[i]);
	return failed;
}
