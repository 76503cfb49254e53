// SPDX-License-Identifier: LGPL-2.1-or-later
/* Gives the device memory of another process back for a while, and has it come back (VPMM_PAUSABLE=1). */
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "fail.h"
#include "units.h"
#include "util/control.h"
#include "vpmm.h"

#define PROGRAM "vpmm-pause"

static struct {
	gboolean resume;
	gboolean prepare;
	gboolean status;
	gboolean drop;
	char *wait;
} options;

/* For a program to come to rest. */
#define WAIT_MS 10000

static const GOptionEntry entries[] = {
	{ "resume", 'r', 0, G_OPTION_ARG_NONE, &options.resume, "Give the memory back to the process", NULL },
	{ "prepare", 'p', 0, G_OPTION_ARG_NONE, &options.prepare,
	  "Make the host memory that a pause will need, and pause nothing", NULL },
	{ "status", 's', 0, G_OPTION_ARG_NONE, &options.status, "Print what is paused, and change nothing", NULL },
	{ "drop", 'd', 0, G_OPTION_ARG_NONE, &options.drop, "Save no contents", NULL },
	{ "wait", 'w', 0, G_OPTION_ARG_FILENAME, &options.wait,
	  "How long the program may take to come to rest: 500ms, 20s (default: 10s)", "T" },
	G_OPTION_ENTRY_NULL
};

static const struct cli cli = {
	.summary = "PID [TAG] - give the device memory of a process back for a while",
	.description = "The process has to run under vpmm-run --pausable, or with VPMM_PAUSABLE=1. Without TAG all\n"
		       "pausable tags are meant. Exit status: 0; 1 if it failed, which changes nothing; 2 if an\n"
		       "option or argument was refused.\n",
	.entries = entries,
};

static int check_options(struct control_request *request)
{
	uint64_t us;

	if (options.resume + options.prepare + options.status > 1)
		return fail_set(-EINVAL, "--resume, --prepare and --status: expected one of them");
	if ((options.drop || options.wait) && (options.resume || options.prepare || options.status))
		return fail_set(-EINVAL, "--%s: only for a pause", options.drop ? "drop" : "wait");
	request->wait_ms = WAIT_MS;
	if (options.wait && units_parse_time("--wait", options.wait, &us))
		return -EINVAL;
	if (options.wait)
		request->wait_ms = us / 1000;
	request->flags = options.drop ? VPMM_PAUSE_DROP : 0;
	request->op = options.resume ? CONTROL_RESUME : options.prepare ? CONTROL_PREPARE : options.status ? CONTROL_STATUS :
	      CONTROL_PAUSE;
	return 0;
}

static int parse_pid(const char *text, pid_t *pid)
{
	guint64 value;

	if (!g_ascii_string_to_unsigned(text, 10, 1, G_MAXINT, &value, NULL))
		return fail_set(-EINVAL, "\"%s\" is no process id", text);
	*pid = (pid_t)value;
	return 0;
}

static int set_tag(const char *tag, struct control_request *request)
{
	if (!tag)
		return 0;
	if (!*tag || strlen(tag) >= sizeof(request->tag))
		return fail_set(-EINVAL, "the name of a tag has 1 to %zu bytes", sizeof(request->tag) - 1);
	strcpy(request->tag, tag);
	return 0;
}

static int explain_no_connection(pid_t pid, int err)
{
	if (kill(pid, 0) && errno == ESRCH)
		return fail_set(-ESRCH, "there is no process %ld", (long)pid);
	if (err != ECONNREFUSED)
		return fail_set(-err, "process %ld: %s", (long)pid, g_strerror(err));
	return fail_set(-ECONNREFUSED, "process %ld cannot be paused: it has no pool (yet), or does not run under "
			"vpmm-run --pausable or with VPMM_PAUSABLE=1", (long)pid);
}

/* Anybody may have taken the name. */
static int check_peer(int fd, pid_t pid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return fail_set(-errno, "process %ld: the owner of its socket is not known: %s", (long)pid,
				g_strerror(errno));
	if (peer.pid != pid)
		return fail_set(-EPERM, "process %ld of user %u has the socket of process %ld", (long)peer.pid,
				peer.uid, (long)pid);
	return 0;
}

static int connect_to(pid_t pid, int *fd)
{
	struct sockaddr_un address;
	socklen_t size = control_address(&address, pid);
	int err;

	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return fail_set(-errno, "no socket: %s", g_strerror(errno));
	if (connect(*fd, (const struct sockaddr *)&address, size))
		err = explain_no_connection(pid, errno);
	else
		err = check_peer(*fd, pid);
	if (err)
		close(*fd);
	return err;
}

/* It takes as long as the process does; where that ends, so does the connection. */
static int receive_packet(int fd, pid_t pid, struct control_answer *answer)
{
	ssize_t size;

	do
		size = recv(fd, answer, sizeof(*answer), MSG_TRUNC);
	while (size < 0 && errno == EINTR);
	if (size == 0 || (size < 0 && errno == ECONNRESET))
		return fail_set(-ECONNRESET, "process %ld has ended meanwhile", (long)pid);
	if (size != (ssize_t)sizeof(*answer) || answer->magic != CONTROL_MAGIC || answer->count > CONTROL_ROWS)
		return fail_set(-EPROTO, "process %ld has sent an answer of an unknown version", (long)pid);
	answer->text[sizeof(answer->text) - 1] = '\0';
	units_printable(answer->text);
	return answer->err ? fail_set(answer->err, "process %ld: %s", (long)pid, answer->text) : 0;
}

static int receive_rows(int fd, pid_t pid, GArray *rows)
{
	struct control_answer answer;
	int err;

	do {
		err = receive_packet(fd, pid, &answer);
		if (err)
			return err;
		g_array_append_vals(rows, answer.rows, answer.count);
	} while (answer.more);
	return 0;
}

static int ask(pid_t pid, const struct control_request *request, GArray *rows)
{
	int fd, err;

	err = connect_to(pid, &fd);
	if (err)
		return err;
	/* Where that fails, so does the answer. */
	send(fd, request, sizeof(*request), MSG_NOSIGNAL);
	err = receive_rows(fd, pid, rows);
	close(fd);
	return err;
}

static void print_rows(const GArray *rows)
{
	char live[UNITS_TEXT], mapped[UNITS_TEXT], saved[UNITS_TEXT];

	printf("%-24s %3s %-7s %8s %8s %8s\n", "TAG", "DEV", "STATE", "LIVE", "MAPPED", "SAVED");
	for (guint i = 0; i < rows->len; i++) {
		struct control_row *row = &g_array_index(rows, struct control_row, i);

		row->tag[sizeof(row->tag) - 1] = '\0';
		units_printable(row->tag);
		units_format_bytes(live, row->live);
		units_format_bytes(mapped, row->mapped);
		units_format_bytes(saved, row->saved);
		units_print_padded(stdout, row->tag, 24);
		printf(" %3d %-7s %8s %8s %8s\n", row->device, row->awake ? "running" : "paused", live,
		       mapped, saved);
	}
}

static int run(pid_t pid, const struct control_request *request)
{
	GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct control_row));
	int err = ask(pid, request, rows);

	if (err)
		fprintf(stderr, "%s: %s\n", PROGRAM, fail_text());
	else if (request->op == CONTROL_STATUS)
		print_rows(rows);
	g_array_free(rows, TRUE);
	return err ? CLI_ERRORS : cli_finish_output("the table");
}

int main(int argc, char **argv)
{
	struct control_request request = { .magic = CONTROL_MAGIC };
	int status = 0;
	pid_t pid;

	g_set_prgname(PROGRAM);
	if (!cli_parse(&cli, &argc, &argv, &status))
		return status;
	if (argc < 2)
		return cli_refuse("no process given; see " PROGRAM " --help");
	if (argc > 3) {
		fail_set(-EINVAL, "unexpected argument \"%s\"", argv[3]);
		return cli_refuse("%s", fail_text());
	}
	if (check_options(&request) || parse_pid(argv[1], &pid) || set_tag(argv[2], &request))
		return cli_refuse("%s", fail_text());
	return run(pid, &request);
}
