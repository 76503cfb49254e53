// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "vpmm.h"

int cli_refuse(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", g_get_prgname());
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return CLI_REFUSED;
}

/* Why a flush failed first: the stream notes only that one did. */
static int output_error;

int cli_flush_output(const char *what)
{
	if (fflush(stdout) && !output_error)
		output_error = errno;
	if (!output_error && !ferror(stdout))
		return 0;
	return fail_set(-EIO, "writing %s failed%s%s", what, output_error ? ": " : "",
			output_error ? g_strerror(output_error) : "");
}

int cli_finish_output(const char *what)
{
	return cli_flush_output(what) ? cli_refuse("%s", fail_text()) : 0;
}

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

/*
 * A file of a library or of the driver must not get the number of a standard descriptor, so a closed one is occupied,
 * by a path: it can be neither read nor written.
 */
static int check_standard_descriptors(void)
{
	bool silent = is_closed(STDOUT_FILENO);

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (is_closed(fd) && open("/", O_PATH) != fd) {
			fail_set(-EBADF, "descriptor %d is closed", fd);
			return cli_refuse("%s", fail_text());
		}
	}
	return silent ? cli_refuse("standard output is closed") : 0;
}

static int print_help(GOptionContext *context)
{
	g_autofree char *text = g_option_context_get_help(context, TRUE, NULL);

	fputs(text, stdout);
	return cli_finish_output("the help");
}

static int print_version(void)
{
	printf("%s %s\n", g_get_prgname(), vpmm_version());
	return cli_finish_output("the version");
}

static const GOptionEntry *find_entry(const GOptionEntry *entry, const char *name, size_t length)
{
	while (entry->long_name && (strlen(entry->long_name) != length || memcmp(entry->long_name, name, length) != 0))
		entry++;
	return entry->long_name ? entry : NULL;
}

/* GLib drops the value of an option that takes none, and who gave it meant something. */
static int check_values(const struct cli *cli, const GOptionEntry *common, int argc, char **argv)
{
	const GOptionEntry *entry;
	const char *name;
	size_t length;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (cli->command && argv[i][0] != '-')
			break;
		if (!g_str_has_prefix(argv[i], "--"))
			continue;
		name = argv[i] + 2;
		length = strcspn(name, "=");
		entry = find_entry(cli->entries, name, length);
		if (!entry)
			entry = find_entry(common, name, length);
		if (!entry)
			continue;
		if (entry->arg != G_OPTION_ARG_NONE)
			i += !name[length];
		else if (name[length])
			return fail_set(-EINVAL, "--%s takes no value", entry->long_name);
	}
	return 0;
}

/* GLib leaves the "--" of what it does not parse itself. All that follows the first word of a command is its own. */
static void drop_separator(const struct cli *cli, int *argc, char **argv)
{
	int at = 1;

	while (!cli->command && at < *argc && strcmp(argv[at], "--") != 0)
		at++;
	if (at == *argc || strcmp(argv[at], "--") != 0)
		return;
	memmove(argv + at, argv + at + 1, (size_t)(*argc - at) * sizeof(*argv));
	(*argc)--;
}

bool cli_parse(const struct cli *cli, int *argc, char ***argv, int *status)
{
	gboolean help = FALSE, version = FALSE;
	const GOptionEntry common[] = {
		{ "help", 'h', 0, G_OPTION_ARG_NONE, &help, "Print this text", NULL },
		{ "version", 'V', 0, G_OPTION_ARG_NONE, &version, "Print the version", NULL },
		G_OPTION_ENTRY_NULL
	};
	GOptionContext *context;
	GError *error = NULL;
	bool parsed;

	*status = check_standard_descriptors();
	if (!*status && check_values(cli, common, *argc, *argv))
		*status = cli_refuse("%s", fail_text());
	if (*status)
		return false;
	/* Without the signal the write that exceeds a limit of file sizes fails, and the tool can say so. */
	signal(SIGXFSZ, SIG_IGN);
	context = g_option_context_new(cli->summary);
	/* GLib's own --help exits with 0 even if nothing could be written. */
	g_option_context_set_help_enabled(context, FALSE);
	g_option_context_add_main_entries(context, cli->entries, NULL);
	g_option_context_add_main_entries(context, common, NULL);
	g_option_context_set_description(context, cli->description);
	g_option_context_set_strict_posix(context, cli->command);
	parsed = g_option_context_parse(context, argc, argv, &error);
	drop_separator(cli, argc, *argv);
	if (!parsed)
		*status = cli_refuse("%s", error->message);
	else if (help)
		*status = print_help(context);
	else if (version)
		*status = print_version();
	g_clear_error(&error);
	g_option_context_free(context);
	return parsed && !help && !version;
}

volatile sig_atomic_t interrupt_signal;

static void note(int signal)
{
	interrupt_signal = signal;
}

static void catch(int signal, int flags)
{
	struct sigaction action = { .sa_handler = note, .sa_flags = (int)SA_RESETHAND | flags }, before;

	if (sigaction(signal, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		sigaction(signal, &action, NULL);
}

void interrupt_catch(bool in_calls)
{
	const int flags = in_calls ? 0 : SA_RESTART;

	if (interrupt_signal)
		return;
	catch(SIGINT, flags);
	catch(SIGTERM, flags);
	catch(SIGHUP, flags);
}

void interrupt_end(void)
{
	if (!interrupt_signal)
		return;
	signal(interrupt_signal, SIG_DFL);
	raise(interrupt_signal);
}
