/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the command lines of all tools have in common. */
#ifndef CLI_H
#define CLI_H

#include <glib.h>
#include <stdbool.h>

enum { CLI_ERRORS = 1, CLI_REFUSED = 2 };

/**
 * struct cli - a tool's command line
 * @summary: what the tool does, for --help
 * @description: what --help says below the options
 * @entries: the options, without --help and --version
 * @command: whether a command follows, whose own options are left alone
 */
struct cli {
	const char *summary;
	const char *description;
	const GOptionEntry *entries;
	bool command;
};

/**
 * cli_parse() - parse the command line, and answer --help and --version; refuse to go on without standard output
 * @cli: the command line of the tool; its name is that of g_set_prgname()
 * @argc: as main() has it; only what no option takes is left
 * @argv: as main() has it
 * @status: receives the exit status, where there is nothing left to do
 *
 * Return: whether the tool has to go on.
 */
bool cli_parse(const struct cli *cli, int *argc, char ***argv, int *status);

/**
 * cli_refuse() - say on standard error why the tool does not go on
 * @format: a sentence without full stop
 *
 * Return: the exit status, CLI_REFUSED.
 */
int cli_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * cli_finish_output() - find out whether everything written to standard output has arrived
 * @what: was written, such as "the report"
 *
 * Return: 0, or the exit status after cli_refuse().
 */
int cli_finish_output(const char *what);

#endif /* CLI_H */
