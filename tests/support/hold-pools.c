// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Holds pools until its standard input ends, for tests/scripts/test-top.sh: a pool for each number of MiB. COMMAND is
 * the name of the process.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vpmm.h"

/* Half a MiB more under each tag that TAG has a line of, in an arena. */
static int hold_tagged(struct vpmm_pool *pool)
{
	char *names = getenv("TAG");
	vpmm_tag tag;
	void *ptr;

	for (char *name = names ? strtok(names, "\n") : NULL; name; name = strtok(NULL, "\n")) {
		if (vpmm_tag_open(name, VPMM_TAG_PAUSABLE, &tag))
			return -1;
		vpmm_tag_set(tag);
		if (vpmm_malloc(pool, &ptr, 1 << 19, NULL))
			return -1;
	}
	return 0;
}

/* Of each file that it has open, the one that it publishes in as well. */
static void open_twice(void)
{
	for (int fd = 3; fd < 16; fd++)
		fcntl(fd, F_DUPFD, 0);
}

static int hold(const char *mib)
{
	struct vpmm_pool *pool;
	void *ptr;

	if (vpmm_pool_create(&pool, NULL) || vpmm_malloc(pool, &ptr, strtoul(mib, NULL, 10) << 20, NULL) ||
	    hold_tagged(pool)) {
		fprintf(stderr, "%s\n", vpmm_last_error());
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *command = getenv("COMMAND");
	pid_t child;

	if (command)
		prctl(PR_SET_NAME, command);
	for (int i = 1; i < argc; i++) {
		if (hold(argv[i]))
			return 1;
	}
	open_twice();
	/* It has all that is open, and no pool. */
	child = fork();
	if (child) {
		printf("%ld\n", (long)getpid());
		fflush(stdout);
	}
	while (getchar() != EOF)
		;
	/* Not by exit(), where LeakSanitizer may wait for ever for a lock that a thread of the parent had in fork(). */
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	return 0;
}
