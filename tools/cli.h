/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the command lines of all tools have in common; and SIGINT, SIGTERM and SIGHUP, where a tool has more to say. */
#ifndef CLI_H
#define CLI_H

#include <glib.h>
#include <signal.h>
#include <stdbool.h>

enum { CLI_ERRORS = 1, CLI_REFUSED = 2 };

/**
 * struct cli - a tool's command line
 * @summary: what the tool does, for --help
 * @description: what --help says below the options
 * @entries: the options, without --help and --version. Values are of G_OPTION_ARG_FILENAME, which takes any bytes;
 *	G_OPTION_ARG_STRING refuses what is no text in the locale, and G_OPTION_ARG_INT takes 010 for 8
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
 * @argc: as main() has it; only what no option takes is left, without the "--" before it
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
 * cli_flush_output() - have what was written to standard output arrive now
 * @what: was written, such as "the report"
 *
 * A tool that goes on for long stops when this fails: nobody can read the rest.
 *
 * Return: 0, or -EIO explained by fail_set().
 */
int cli_flush_output(const char *what);

/**
 * cli_finish_output() - find out whether everything written to standard output has arrived
 * @what: was written, such as "the report"
 *
 * Return: 0, or the exit status after cli_refuse().
 */
int cli_finish_output(const char *what);

/* The signal that came; 0: none. */
extern volatile sig_atomic_t interrupt_signal;

/**
 * interrupt_catch() - let the first SIGINT, SIGTERM or SIGHUP set interrupt_signal
 * @in_calls: whether it ends system calls that wait, with EINTR
 *
 * The second of a kind ends the process at once. What the process was started to ignore stays ignored.
 */
void interrupt_catch(bool in_calls);

/**
 * interrupt_end() - end the process by the signal that came, if one did
 *
 * Whoever started the process sees what ended it, as if the signal had not been caught.
 */
void interrupt_end(void);

#endif /* CLI_H */
