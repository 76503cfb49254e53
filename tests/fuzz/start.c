// SPDX-License-Identifier: LGPL-2.1-or-later
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

static void say(const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
	(void)domain;
	(void)data;
	fprintf(stderr, "%s\n", message);
	if (level & (G_LOG_FLAG_FATAL | G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL))
		abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	g_log_set_default_handler(say, NULL);
	return 0;
}
