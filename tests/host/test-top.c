// SPDX-License-Identifier: LGPL-2.1-or-later
/* The page that a process publishes for vpmm-top, as another process reads it. test-top.sh tests vpmm-top. */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "calls/pool.h"
#include "support/fixture.h"
#include "util/top-page.h"

/* The library publishes four times a second. */
#define LOOKS 60
#define LOOK_US 10000

/* Found among the open files of the process. */
static int find_page(void)
{
	char path[32], link[64];
	ssize_t length;

	for (int fd = 0; fd < 1024; fd++) {
		g_snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, link, sizeof(link) - 1);
		link[MAX(length, 0)] = '\0';
		if (strstr(link, ":" TOP_NAME))
			return fd;
	}
	g_error("no page is open");
}

static uint64_t read_number(int fd, size_t at)
{
	uint64_t number = 0;

	g_assert_cmpint(pread(fd, &number, sizeof(number), (off_t)at), ==, sizeof(number));
	return number;
}

/* The page can be read while a call has the lock of a pool, as long as that takes, and goes on after that. */
static void test_lock_is_held(void)
{
	uint64_t updated;
	struct fixture f;
	int fd;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .top = VPMM_TOP_ON });
	fd = find_page();
	lock_acquire(&f.pool->core.lock);
	for (int i = 0; i < LOOKS; i++) {
		g_usleep(LOOK_US);
		g_assert_cmpuint(read_number(fd, offsetof(struct top_page, sequence)) % 2, ==, 0);
	}
	updated = read_number(fd, offsetof(struct top_page, updated_ns));
	lock_release(&f.pool->core.lock);
	while (read_number(fd, offsetof(struct top_page, updated_ns)) == updated)
		g_usleep(LOOK_US);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/top/lock-is-held", test_lock_is_held);
	return g_test_run();
}
