// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A second process that maps the pages of a range where they are: a mirror has it unmap them before they move, and it
 * asks for them anew when it needs them, as a device asks with page tables of its own. It never finds what is out of
 * date, and what it writes is never lost.
 *
 * What it maps is what the host backend's device has, whose memory is in files of this process.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/ranges.h"
#include "util/assume.h"

#define PAGES 6
#define THREADS 2

/* What both processes know of each other, besides the pages. */
struct common {
	_Atomic uint64_t least[PAGES];	/* what the first word of each page has at least */
	_Atomic uint64_t added;		/* how often both have added to one of them */
	_Atomic uint64_t used;		/* how often the second has used one */
	_Atomic uint64_t stale;		/* how often it has found less than there had to be */
	_Atomic int mapped;		/* how many it has mapped */
	_Atomic bool writes;
	_Atomic bool stop;
};

/* To the second process: pages are at @offset of the file that comes with it; or, without a file, are nowhere. */
struct command {
	size_t first;
	size_t count;
	off_t offset;
};

struct first {
	struct fixture f;
	struct common *common;
	pid_t second;
	int commands;
	int requests;
	char *at;
	char *view;
	pthread_mutex_t lock;		/* from what locate has told until the second process has mapped it */
	_Atomic bool stop;
	unsigned int updates;
};

/* The second process. It uses nothing of the library. */

static _Atomic uint64_t *maps[PAGES];

static int take_file(struct msghdr *message)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (control && control->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(control), sizeof(fd));
	return fd;
}

static void unmap_all(struct common *common, const struct command *command)
{
	for (size_t i = command->first; i < command->first + command->count; i++) {
		if (maps[i]) {
			munmap((void *)maps[i], PAGE);
			common->mapped--;
		}
		maps[i] = NULL;
	}
}

/* Whether there was one. */
static bool obey(struct common *common, int commands, bool *asked)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct command command;
	struct iovec data = { &command, sizeof(command) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(commands, &message, MSG_DONTWAIT);
	void *map;
	int fd;

	/* The first process is gone. */
	if (!got)
		_exit(0);
	if (got != (ssize_t)sizeof(command))
		return false;
	fd = take_file(&message);
	unmap_all(common, &command);
	if (fd < 0) {
		/* From here on nothing of them is used: the move can go on. */
		if (write(commands, "", 1) != 1)
			_exit(2);
		return true;
	}
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, command.offset);
	if (map == MAP_FAILED)
		_exit(3);
	close(fd);
	maps[command.first] = map;
	asked[command.first] = false;
	common->mapped++;
	return true;
}

static void use(struct common *common, size_t page)
{
	uint64_t least = common->least[page], found = *maps[page];

	common->stale += found < least;
	if (common->writes) {
		atomic_fetch_add(maps[page], 1);
		common->added++;
	}
	common->used++;
}

static void run_second(struct common *common, int commands, int requests)
{
	struct pollfd file = { commands, POLLIN, 0 };
	bool asked[PAGES] = { false };
	unsigned int seed = 6;

	for (;;) {
		size_t page = (size_t)rand_r(&seed) % PAGES;

		while (obey(common, commands, asked))
			;
		if (maps[page] && !common->stop) {
			use(common, page);
			continue;
		}
		if (!common->stop && !asked[page]) {
			asked[page] = true;
			if (write(requests, &page, sizeof(page)) != (ssize_t)sizeof(page))
				_exit(4);
		}
		poll(&file, 1, 1);
	}
}

static void start_second(struct first *first)
{
	int commands[2], requests[2], err;
	pid_t parent = getpid();

	first->common = mmap(NULL, sizeof(*first->common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	g_assert_true(first->common != MAP_FAILED);
	err = socketpair(AF_UNIX, SOCK_SEQPACKET, 0, commands) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, requests);
	g_assert_cmpint(err, ==, 0);
	first->second = fork();
	g_assert_cmpint(first->second, >=, 0);
	if (!first->second) {
		close(commands[0]);
		close(requests[0]);
		run_second(first->common, commands[1], requests[1]);
	}
	g_assert_cmpint(getpid(), ==, parent);
	close(commands[1]);
	close(requests[1]);
	first->commands = commands[0];
	first->requests = requests[0];
}

static void end_second(struct first *first)
{
	int status;

	close(first->commands);
	close(first->requests);
	g_assert_cmpint(waitpid(first->second, &status, 0), ==, first->second);
	g_assert_true(WIFEXITED(status));
	g_assert_cmpint(WEXITSTATUS(status), ==, 0);
	munmap(first->common, sizeof(*first->common));
}

/* The first process. */

static void send_command(struct first *first, const struct command *command, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec data = { (void *)command, sizeof(*command) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	struct cmsghdr *header;
	ssize_t sent;

	if (fd >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	}
	sent = sendmsg(first->commands, &message, MSG_NOSIGNAL);
	g_assert_cmpint(sent, ==, sizeof(*command));
}

/* The second process unmaps the pages before they move, and says so. */
static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct first *first = data;
	char *from = MAX((char *)start, first->at), *to = MIN((char *)end, first->at + PAGES * PAGE), said;
	struct command command;
	ssize_t got;

	(void)mirror;
	(void)action;
	/* Regions of the pool are told of, too. */
	if (from >= to)
		return;
	command = (struct command){ (size_t)(from - first->at) / PAGE, (size_t)(to - from) / PAGE, 0 };
	pthread_mutex_lock(&first->lock);
	send_command(first, &command, -1);
	got = read(first->commands, &said, 1);
	g_assert_cmpint(got, ==, 1);
	first->updates++;
	pthread_mutex_unlock(&first->lock);
}

/* Which file is mapped at an address, and where in it. */
static bool find_mapping(uint64_t addr, dev_t *device, ino_t *inode, off_t *offset)
{
	unsigned long start, end, from, number;
	unsigned int major_, minor_;
	char line[512];
	bool found = false;
	FILE *all;

	all = fopen("/proc/self/maps", "re");
	while (all && !found && fgets(line, sizeof(line), all)) {
		if (sscanf(line, "%lx-%lx %*s %lx %x:%x %lu", &start, &end, &from, &major_, &minor_, &number) != 6 ||
		    addr < start || addr >= end)
			continue;
		*device = makedev(major_, minor_);
		*inode = number;
		*offset = (off_t)(from + (addr - start));
		found = true;
	}
	if (all)
		fclose(all);
	return found;
}

/* By names, as other threads close their files meanwhile, and TSan takes a call with such a number for a race. */
static int find_file(dev_t device, ino_t inode)
{
	const struct dirent *entry;
	struct stat status;
	int fd = -1;
	DIR *all;

	all = opendir("/proc/self/fd");
	while (all && fd < 0 && (entry = readdir(all))) {
		if (entry->d_name[0] != '.' && !fstatat(dirfd(all), entry->d_name, &status, 0) &&
		    S_ISREG(status.st_mode) && status.st_dev == device && status.st_ino == inode)
			fd = atoi(entry->d_name);
	}
	if (all)
		closedir(all);
	return fd;
}

static void give(struct first *first, size_t page)
{
	struct command command = { page, 1, 0 };
	dev_t device = 0;
	ino_t inode = 0;
	int fd;

	g_assert_true(find_mapping((uintptr_t)first->view + page * PAGE, &device, &inode, &command.offset));
	fd = find_file(device, inode);
	g_assert_cmpint(fd, >=, 0);
	send_command(first, &command, fd);
}

/* As vpmm_mirror_register(3) has it: what was learnt is looked at again under the lock of update. */
static bool answer(struct first *first, size_t page)
{
	const struct vpmm_page before = ranges_page(&first->f, first->at + page * PAGE);
	struct vpmm_page again;
	bool valid;

	pthread_mutex_lock(&first->lock);
	again = ranges_page(&first->f, first->at + page * PAGE);
	valid = again.sequence == before.sequence && !(again.flags & VPMM_PAGE_MOVING);
	if (valid)
		give(first, page);
	pthread_mutex_unlock(&first->lock);
	return valid;
}

static void *answer_all(void *data)
{
	struct first *first = data;
	struct pollfd file = { first->requests, POLLIN, 0 };
	size_t page;

	while (!first->stop) {
		if (poll(&file, 1, 1) <= 0)
			continue;
		g_assert_cmpint(read(first->requests, &page, sizeof(page)), ==, sizeof(page));
		while (!answer(first, page) && !first->stop)
			g_usleep(100);
	}
	return NULL;
}

static void note_least(struct common *common, size_t page, uint64_t value)
{
	uint64_t before = common->least[page];

	while (before < value && !atomic_compare_exchange_weak(&common->least[page], &before, value))
		;
}

/* The CPU of the first process. */
static void *add(void *data)
{
	struct first *first = data;
	static _Atomic unsigned int seeds;
	unsigned int seed = ++seeds;

	while (!first->stop) {
		size_t page = (size_t)rand_r(&seed) % PAGES;
		uint64_t before = atomic_fetch_add((_Atomic uint64_t *)(first->at + page * PAGE), 1);

		first->common->added++;
		note_least(first->common, page, before + 1);
		g_usleep((gulong)rand_r(&seed) % 500);
	}
	return NULL;
}

/* The device of the first process. */
static void kernel(void *data)
{
	atomic_fetch_add((_Atomic uint64_t *)data, 1);
}

static void move(struct first *first, int rounds)
{
	unsigned int seed = 8;
	int moved;

	for (int i = 0; i < rounds; i++) {
		size_t page = (size_t)rand_r(&seed) % PAGES, count = 1 + (size_t)rand_r(&seed) % (PAGES - page);

		if (first->common->writes) {
			assert_ok(vpmm_host_stream_launch(first->f.streams[1], kernel, first->view + page * PAGE));
			first->common->added++;
		}
		moved = ranges_migrate(&first->f, first->at + page * PAGE, count * PAGE,
				       rand_r(&seed) % 4 ? VPMM_DEVICE : VPMM_HOST);
		g_assert_cmpint(moved, >=, 0);
		assert_ok(vpmm_pool_check(first->f.pool));
		g_usleep((gulong)rand_r(&seed) % 2000);
	}
}

struct kind {
	enum vpmm_advice advice;
	bool writes;			/* the device and the second process write, too */
};

static void test_second(gconstpointer data)
{
	const struct kind *kind = data;
	struct first first = { .lock = PTHREAD_MUTEX_INITIALIZER };
	const struct vpmm_mirror_ops ops = { sizeof(ops), update };
	pthread_t threads[THREADS], answers;
	struct vpmm_mirror *mirror;
	uint64_t found = 0;
	int err;

	/* Before there is anything of the library that the second process could have. */
	start_second(&first);
	first.common->writes = kind->writes;
	fixture_open(&first.f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = PAGES * PAGE });
	first.at = ranges_alloc(&first.f, PAGES * PAGE);
	first.view = vpmm_host_view(first.at);
	for (int i = 0; i < PAGES; i++)
		first.at[i * PAGE] = 0;
	assert_ok(vpmm_advise(first.f.pool, first.at, PAGES * PAGE, kind->advice));
	assert_ok(vpmm_use(first.f.pool, first.at, first.f.streams[1]));
	assert_ok(vpmm_mirror_register(first.f.pool, &mirror, &ops, &first));
	err = pthread_create(&answers, NULL, answer_all, &first);
	g_assert_cmpint(err, ==, 0);
	for (int i = 0; i < THREADS; i++) {
		err = pthread_create(&threads[i], NULL, add, &first);
		g_assert_cmpint(err, ==, 0);
	}
	move(&first, SANITIZED ? 100 : 400);
	fixture_complete(first.f.streams[1]);
	first.stop = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(answers, NULL);
	first.common->stop = true;
	/* That moves pages, so the second process unmaps those. */
	assert_ok(vpmm_pin(first.f.pool, first.at, PAGES * PAGE));
	assert_ok(vpmm_unpin(first.f.pool, first.at, PAGES * PAGE));
	g_assert_cmpint(ranges_migrate(&first.f, first.at, PAGES * PAGE, VPMM_DEVICE), >, 0);
	g_assert_cmpint(ranges_migrate(&first.f, first.at, PAGES * PAGE, VPMM_HOST), >, 0);
	for (size_t i = 0; i < PAGES; i++)
		found += *(_Atomic uint64_t *)(first.at + i * PAGE);
	g_test_message("used %" PRIu64 " times, %u updates", (uint64_t)first.common->used, first.updates);
	g_assert_cmpuint(found, ==, first.common->added);
	g_assert_cmpuint(first.common->stale, ==, 0);
	g_assert_cmpuint(first.common->used, >, 0);
	g_assert_cmpuint(first.updates, >, 10);
	assert_ok(vpmm_shared_free(first.f.pool, first.at, first.f.streams[1]));
	g_assert_cmpint(first.common->mapped, ==, 0);
	vpmm_mirror_unregister(mirror);
	end_second(&first);
	fixture_close(&first.f);
}

int main(int argc, char **argv)
{
	static const struct kind writes = { VPMM_ADVISE_NONE, true }, reads = { VPMM_ADVISE_READ_MOSTLY, false };

	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/shared-second/writes", &writes, test_second);
	g_test_add_data_func("/shared-second/reads", &reads, test_second);
	return g_test_run();
}
