// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that processes share by name, as PyTorch does: this program again is the other process. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torch/torch-fixture.h"
#include "vpmm/torch_class.h"

#define BLOCKS 5

static const struct torch_class *table;

/* The other process: what it reads comes from @out. */
struct other {
	pid_t pid;
	int in;
	int out;
};

static struct other spawn(const char *what)
{
	/* The link is read, as valgrind answers that with the name of this program, but would be executed itself. */
	char *program = g_file_read_link("/proc/self/exe", NULL);
	int to[2], from[2];
	pid_t pid;

	g_assert_cmpint(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), ==, 0);
	pid = fork();
	if (!pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execl(program, program, what, NULL);
		_exit(127);
	}
	g_assert_cmpint(pid, >, 0);
	close(to[0]);
	close(from[1]);
	g_free(program);
	return (struct other){ .pid = pid, .in = to[1], .out = from[0] };
}

static void tell(const struct other *other, const char *line)
{
	g_assert_cmpint(write(other->in, line, strlen(line)), ==, (ssize_t)strlen(line));
}

static void hear_line(const struct other *other, char *line, size_t room)
{
	size_t got = 0;

	do
		g_assert_cmpint(read(other->out, line + got, 1), ==, 1);
	while (line[got++] != '\n' && got < room);
	line[got - 1] = '\0';
}

static void other_end(const struct other *other)
{
	int status;

	close(other->in);
	close(other->out);
	g_assert_cmpint(waitpid(other->pid, &status, 0), ==, other->pid);
	g_assert_cmpint(status, ==, 0);
}

static char *new_block(size_t size, struct torch_pool *pool)
{
	struct torch_piece block;

	assert_ok(table->alloc(&block, 0, size, 0, NULL, pool));
	return memset((void *)(uintptr_t)block.addr, 'a', size);
}

static void drop(void *ptr)
{
	struct torch_piece block = { 0 };

	assert_ok(table->release(ptr, &block));
}

/* Takes what it reads the names of, adds one to the first byte of each, and says with which errors. */
static int other_takes(void)
{
	char name[TORCH_NAME];
	size_t offset, lead, size;
	void *ptr;
	int err;

	while (scanf("%191s %zu", name, &offset) == 2) {
		err = table->take_shared(name, 0, &ptr, &lead, &size);
		if (!err) {
			((char *)ptr)[offset - lead]++;
			table->drop_shared(ptr);
		}
		printf("%d\n", err);
		fflush(stdout);
	}
	return 0;
}

/* Names one block, and ends when it is told to. */
static int other_gives(void)
{
	char *block = new_block(3 * MIB, NULL), name[TORCH_NAME];
	size_t offset;

	if (table->share(block, name, &offset))
		return 1;
	printf("%s\n", name);
	fflush(stdout);
	return getchar() != 'e';
}

static int ask_to_take(const struct other *other, const char *name, size_t offset)
{
	char line[2 * TORCH_NAME];

	snprintf(line, sizeof(line), "%.*s %zu\n", TORCH_NAME, name, offset);
	tell(other, line);
	hear_line(other, line, sizeof(line));
	return atoi(line);
}

/* Blocks of all kinds, and of pools, whose names stand for the segment. */
static void test_blocks(void)
{
	static const size_t sizes[BLOCKS] = { 1, 1000, MIB, 3 * MIB + 5, 9 * MIB };
	const struct torch_id id = { 0, 3 };
	char *blocks[2 * BLOCKS], name[TORCH_NAME], again[TORCH_NAME];
	struct other other = spawn("take");
	struct torch_pool *pool = table->begin(0, id, 1);
	size_t offset = 7, with_offset = 0;

	for (size_t i = 0; i < 2 * BLOCKS; i++)
		blocks[i] = new_block(sizes[i % BLOCKS], i < BLOCKS ? NULL : pool);
	for (size_t i = 0; i < 2 * BLOCKS; i++) {
		assert_ok(table->share(blocks[i], name, &offset));
		assert_ok(table->share(blocks[i], again, &offset));
		g_assert_cmpstr(name, ==, again);
		with_offset += offset > 0;
		g_assert_cmpint(ask_to_take(&other, name, offset), ==, 0);
		g_assert_cmpint(blocks[i][0], ==, 'b');
		g_assert_cmpint(ask_to_take(&other, name, offset), ==, 0);
		g_assert_cmpint(blocks[i][0], ==, 'c');
	}
	g_assert_cmpuint(with_offset, >, 0);
	for (size_t i = 0; i < 2 * BLOCKS; i++)
		drop(blocks[i]);
	table->end(0, id, 1);
	assert_ok(table->drop(0, id));
	table->trim(0, id);
	other_end(&other);
}

/* Names say which blocks are in one memory, which one of them stands for. */
static void test_memory(void)
{
	char *blocks[20], names[20][TORCH_NAME];
	struct other other = spawn("take");
	size_t offsets[20], same = 0;

	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++) {
		blocks[i] = new_block(i % 5 ? 700 : 3 * MIB, NULL);
		assert_ok(table->share(blocks[i], names[i], &offsets[i]));
		for (size_t j = 0; j < i; j++) {
			if (strncmp(names[i], names[j], (size_t)(strchr(names[i], '/') - names[i]) + 1))
				continue;
			same++;
			blocks[i][0] = 'a';
			g_assert_cmpint(ask_to_take(&other, names[j], offsets[i]), ==, 0);
			g_assert_cmpint(blocks[i][0], ==, 'b');
		}
	}
	g_assert_cmpuint(same, >, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
		drop(blocks[i]);
	other_end(&other);
}

/* A name is of one block, and not of the next at its address; others are refused. */
static void test_names(void)
{
	char *block = new_block(3 * MIB, NULL), *next, name[TORCH_NAME], other_name[TORCH_NAME];
	struct other other = spawn("take");
	size_t offset;

	assert_ok(table->share(block, name, &offset));
	drop(block);
	g_assert_cmpint(ask_to_take(&other, name, 0), ==, -ENOENT);
	next = new_block(3 * MIB, NULL);
	g_assert_true(next == block);
	g_assert_cmpint(ask_to_take(&other, name, 0), ==, -ENOENT);
	assert_ok(table->share(next, other_name, &offset));
	g_assert_cmpstr(name, !=, other_name);
	g_assert_cmpint(ask_to_take(&other, other_name, 0), ==, 0);
	g_assert_cmpint(ask_to_take(&other, "vpmm1:", 0), ==, -EINVAL);
	g_assert_cmpint(ask_to_take(&other, "x", 0), ==, -EINVAL);
	g_assert_true(strchr(name, '/') && strchr(other_name, '/'));
	strcat(other_name, "x");
	g_assert_cmpint(ask_to_take(&other, other_name, 0), ==, -EINVAL);
	g_assert_cmpint(table->share(&other, name, &offset), ==, -EINVAL);
	drop(next);
	other_end(&other);
}

/* Who has it may end once it was taken, and not before. */
static void test_giver_ends(void)
{
	struct other other = spawn("give");
	char name[TORCH_NAME];
	void *ptr = NULL;
	size_t lead, size;

	hear_line(&other, name, sizeof(name));
	assert_ok(table->take_shared(name, 0, &ptr, &lead, &size));
	g_assert_cmpuint(size, ==, 3 * MIB);
	tell(&other, "e");
	other_end(&other);
	g_assert_cmpint(((char *)ptr)[0] + ((char *)ptr)[3 * MIB - 1], ==, 2 * 'a');
	table->drop_shared(ptr);
	ptr = &ptr;
	g_assert_cmpint(table->take_shared(name, 0, &ptr, &lead, &size), ==, -ESRCH);
	g_assert_true(ptr == &ptr);
}

/* What was taken is gone once it is dropped. */
static void test_many(void)
{
	struct vpmm_stats before, after;
	struct other other = spawn("give");
	char name[TORCH_NAME];
	size_t lead, size;
	void *ptr;

	hear_line(&other, name, sizeof(name));
	before = torch_stats(0);
	for (int i = 0; i < 100; i++) {
		assert_ok(table->take_shared(name, 0, &ptr, &lead, &size));
		table->drop_shared(ptr);
	}
	drop(new_block(MIB, NULL));
	after = torch_stats(0);
	g_assert_cmpuint(after.imported, <=, before.imported + 4 * MIB);
	tell(&other, "e");
	other_end(&other);
}

static void test_fork(void)
{
	char *block = new_block(100, NULL), name[TORCH_NAME];
	size_t offset, size;
	void *ptr;
	int status;
	pid_t pid;

	assert_ok(table->share(block, name, &offset));
	pid = fork();
	if (!pid)
		_exit(table->share(block, name, &offset) != -EBUSY ||
		      table->take_shared(name, 0, &ptr, &offset, &size) != -EBUSY);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	drop(block);
}

/* The descriptor that is listened at. */
static int listening_descriptor(void)
{
	static const char begin[] = "vpmm-lender-";

	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_un found = { 0 };
		socklen_t length = sizeof(found);

		if (!getsockname(fd, (struct sockaddr *)&found, &length) &&
		    !strncmp(found.sun_path + 1, begin, strlen(begin)))
			return fd;
	}
	return -1;
}

/* A program closes all descriptors that it does not know, and the number becomes one of its own. Names stay good. */
static void test_closed(void)
{
	char *block = new_block(100, NULL), name[TORCH_NAME];
	struct other other = spawn("take");
	int fds[2], fd, status;
	size_t offset;
	pid_t pid;

	assert_ok(table->share(block, name, &offset));
	fd = listening_descriptor();
	g_assert_cmpint(fd, >=, 0);
	g_assert_cmpint(pipe2(fds, O_CLOEXEC), ==, 0);
	g_assert_cmpint(dup3(fds[0], fd, O_CLOEXEC), ==, fd);

	/* One caller may be waited for already; for the next there is another socket, in a moment. */
	for (int i = 0, tries = 0; i < 2; i++) {
		int err;

		while ((err = ask_to_take(&other, name, offset)) == -ESRCH && tries++ < 1000)
			g_usleep(10000);
		g_assert_cmpint(err, ==, 0);
	}
	g_assert_cmpint(block[0], ==, 'c');

	/* Nor does a child of a fork close what is the program's. */
	pid = fork();
	if (!pid)
		_exit(fcntl(fd, F_GETFD) < 0);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	close(fd);
	close(fds[0]);
	close(fds[1]);
	drop(block);
	other_end(&other);
}

/* In a process whose pool has memory that cannot be exported. */
static int other_is_refused(void)
{
	char *block = new_block(100, NULL), name[TORCH_NAME];
	size_t offset;

	return table->share(block, name, &offset) != -ENOTSUP ||
	       !strstr(table->explain_sharing(-ENOTSUP), "VPMM_EXPORT");
}

static void test_option_needed(void)
{
	struct other other;

	g_setenv("VPMM_EXPORT", "none", TRUE);
	other = spawn("refused");
	g_setenv("VPMM_EXPORT", "auto", TRUE);
	other_end(&other);
}

/* Each error has its own text, whatever failed before it in the library. */
static void test_texts(void)
{
	struct other other = spawn("give");
	struct rlimit limit, none_left;
	char name[TORCH_NAME];
	size_t lead, size;
	void *ptr;

	hear_line(&other, name, sizeof(name));
	assert_ok(table->take_shared(name, 0, &ptr, &lead, &size));
	table->drop_shared(ptr);
	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	none_left = (struct rlimit){ 0, limit.rlim_max };
	g_assert_cmpint(vpmm_free(NULL, &ptr, NULL), ==, -EINVAL);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &none_left), ==, 0);
	g_assert_cmpint(table->take_shared(name, 0, &ptr, &lead, &size), ==, -EMFILE);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	g_assert_nonnull(strstr(table->explain_sharing(-EMFILE), "Too many open files"));
	tell(&other, "e");
	other_end(&other);
	g_assert_cmpint(table->take_shared(name, 0, &ptr, &lead, &size), ==, -ESRCH);
	g_assert_nonnull(strstr(table->explain_sharing(-ESRCH), "has ended"));
}

static int do_other(const char *what)
{
	if (!strcmp(what, "take"))
		return other_takes();
	return strcmp(what, "give") ? other_is_refused() : other_gives();
}

int main(int argc, char **argv)
{
	static const struct torch_hooks hooks = { NULL, NULL, NULL, NULL };
	bool is_other = argc == 2 && argv[1][0] != '-';

	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_HOST_CAPACITY", "64M", TRUE);
	g_setenv("VPMM_EXPORT", "auto", FALSE);
	if (!is_other)
		g_test_init(&argc, &argv, NULL);
	torch_open();
	table = torch.vpmm_torch_class();
	table->init(1, 1, &hooks);
	if (is_other)
		return do_other(argv[1]);
	g_test_add_func("/torch-share/blocks", test_blocks);
	g_test_add_func("/torch-share/memory", test_memory);
	g_test_add_func("/torch-share/names", test_names);
	g_test_add_func("/torch-share/giver-ends", test_giver_ends);
	g_test_add_func("/torch-share/many", test_many);
	g_test_add_func("/torch-share/fork", test_fork);
	g_test_add_func("/torch-share/closed", test_closed);
	g_test_add_func("/torch-share/texts", test_texts);
	g_test_add_func("/torch-share/option-needed", test_option_needed);
	return g_test_run();
}
