// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cli.h"

#include <errno.h>
#include <stdio.h>

#include "fail.h"
#include "vpmm.h"

int cli_refuse(const char *why)
{
	fprintf(stderr, "%s: %s\n", g_get_prgname(), why);
	return CLI_REFUSED;
}

int cli_finish_output(const char *what)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	/* A line that was flushed before has left its error in the stream, but not in errno. */
	fail_set(-EIO, "writing %s failed%s%s", what, errno ? ": " : "", errno ? g_strerror(errno) : "");
	return cli_refuse(fail_text());
}

static int print_help(GOptionContext *context)
{
	char *text = g_option_context_get_help(context, TRUE, NULL);

	fputs(text, stdout);
	g_free(text);
	return cli_finish_output("the help");
}

static int print_version(void)
{
	printf("%s %s\n", g_get_prgname(), vpmm_version());
	return cli_finish_output("the version");
}

bool cli_parse(const struct cli *cli, int *argc, char ***argv, int *status)
{
	gboolean help = FALSE, version = FALSE;
	const GOptionEntry common[] = {
		{ "help", 'h', 0, G_OPTION_ARG_NONE, &help, "Print this text", NULL },
		{ "version", 'V', 0, G_OPTION_ARG_NONE, &version, "Print the version", NULL },
		G_OPTION_ENTRY_NULL
	};
	GOptionContext *context = g_option_context_new(cli->summary);
	GError *error = NULL;
	bool parsed;

	/* GLib's own --help exits with 0 even if nothing could be written. */
	g_option_context_set_help_enabled(context, FALSE);
	g_option_context_add_main_entries(context, cli->entries, NULL);
	g_option_context_add_main_entries(context, common, NULL);
	g_option_context_set_description(context, cli->description);
	parsed = g_option_context_parse(context, argc, argv, &error);
	if (!parsed)
		*status = cli_refuse(error->message);
	else if (help)
		*status = print_help(context);
	else if (version)
		*status = print_version();
	g_clear_error(&error);
	g_option_context_free(context);
	return parsed && !help && !version;
}
