// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * CUDA's legacy IPC under the preload object, over the suite's own driver: this program again is the other process.
 * Each test is a process of its own, which is its own other as well, with an argument.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/hooks.h"
#include "preload/preload-fixture.h"

#define SIZE ((size_t)3 << 20)
#define LAZY 1

/* The other process: what it says comes from @out. */
struct other {
	pid_t pid;
	FILE *in;
	FILE *out;
};

/* Under the object, too, and without tags, whose blocks could not be shared. */
static void spawn(struct other *other, const char *what)
{
	char *program = g_file_read_link("/proc/self/exe", NULL);
	const char *argv[] = { program, NULL };
	char **environment;
	GError *error = NULL;
	int in, out;

	preload_again();
	g_setenv("VPMM_TEST_SCENE", what, TRUE);
	environment = g_environ_unsetenv(g_get_environ(), "VPMM_TAG");
	g_unsetenv("LD_PRELOAD");
	g_spawn_async_with_pipes(NULL, (char **)(void *)argv, environment, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL,
				 &other->pid, &in, &out, NULL, &error);
	g_assert_no_error(error);
	g_strfreev(environment);
	g_free(program);
	other->in = fdopen(in, "w");
	other->out = fdopen(out, "r");
	setlinebuf(other->in);
}

static void other_end(const struct other *other)
{
	int status;

	fclose(other->in);
	fclose(other->out);
	g_assert_cmpint(waitpid(other->pid, &status, 0), ==, other->pid);
	g_assert_cmpint(status, ==, 0);
}

static void write_handle(FILE *to, const struct drv_ipc_handle *handle)
{
	for (size_t i = 0; i < sizeof(handle->bytes); i++)
		fprintf(to, "%02x", (unsigned char)handle->bytes[i]);
	fputc('\n', to);
	fflush(to);
}

static bool read_handle(FILE *from, struct drv_ipc_handle *handle)
{
	char line[256];
	unsigned int byte;

	if (!fgets(line, sizeof(line), from))
		return false;
	for (size_t i = 0; i < sizeof(handle->bytes); i++) {
		if (sscanf(line + 2 * i, "%2x", &byte) != 1)
			return false;
		handle->bytes[i] = (char)byte;
	}
	return true;
}

static void fill(drv_deviceptr va, size_t size, unsigned char value)
{
	g_assert_cmpint(cuMemsetD8Async(va, value, size, NULL), ==, 0);
	g_assert_cmpint(cuStreamSynchronize(NULL), ==, 0);
}

static unsigned char byte_at(drv_deviceptr va)
{
	unsigned char found = 0;

	g_assert_cmpint(cuMemcpyDtoH_v2(&found, va, 1), ==, 0);
	return found;
}

static struct drv_ipc_handle handle_of(drv_deviceptr va)
{
	struct drv_ipc_handle handle = { 0 };

	g_assert_cmpint(cuIpcGetMemHandle(&handle, va), ==, 0);
	return handle;
}

static bool same(const struct drv_ipc_handle *a, const struct drv_ipc_handle *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* For each handle that comes: opens it, says what is there, adds one to that, closes it, and says the two results. */
static void other_takes(void)
{
	struct drv_ipc_handle handle = { 0 };

	use_primary(0);
	while (read_handle(stdin, &handle)) {
		int byte = -1, closed = -1;
		drv_deviceptr va;
		int result = cuIpcOpenMemHandle_v2(&va, handle, LAZY);

		if (!result) {
			byte = byte_at(va);
			fill(va, 1, (unsigned char)(byte + 1));
			closed = cuIpcCloseMemHandle(va);
		}
		printf("%d %d %d\n", result, closed, byte);
		fflush(stdout);
	}
}

struct took {
	int opened;
	int closed;
	int byte;
};

static struct took ask_to_take(const struct other *other, const struct drv_ipc_handle *handle)
{
	struct took took;

	write_handle(other->in, handle);
	g_assert_cmpint(fscanf(other->out, "%d %d %d", &took.opened, &took.closed, &took.byte), ==, 3);
	return took;
}

/* Gives two blocks; frees the first at the first line that comes, and ends without a free at the second. */
static void other_gives(void)
{
	struct drv_ipc_handle handle = { 0 };
	drv_deviceptr blocks[2];
	char line[8];

	use_primary(0);
	for (int i = 0; i < 2; i++) {
		blocks[i] = alloc_bytes(SIZE);
		fill(blocks[i], SIZE, (unsigned char)('a' + i));
		handle = handle_of(blocks[i]);
		write_handle(stdout, &handle);
	}
	if (!fgets(line, sizeof(line), stdin))
		return;
	g_assert_cmpint(cuMemFree_v2(blocks[0]), ==, 0);
	puts("freed");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return;
	_exit(0);
}

static void contents(void)
{
	struct other other;

	spawn(&other, "other-takes");
	/* A program gives blocks of several sizes, of which small ones begin in the middle of memory of the pool. */
	use_primary(0);
	for (size_t size = 1000; size < 20 * SIZE; size *= 5) {
		drv_deviceptr va = alloc_bytes(size), beside = alloc_bytes(size);
		struct drv_ipc_handle handle = handle_of(va);
		struct took took;

		fill(va, size, 'a');
		fill(beside, size, 'x');
		took = ask_to_take(&other, &handle);

		/* The other sees what is there, and what it writes is seen. */
		g_assert_cmpint(took.opened, ==, 0);
		g_assert_cmpint(took.closed, ==, 0);
		g_assert_cmpint(took.byte, ==, 'a');
		g_assert_cmpint(byte_at(va), ==, 'b');
		g_assert_cmpint(byte_at(beside), ==, 'x');
	}
	other_end(&other);
}

static void ranges(void)
{
	struct other other;

	spawn(&other, "other-takes");
	/* A program gives addresses inside of blocks, as MPI does, and then asks what the handles stand for. */
	use_primary(0);
	for (size_t size = 1000; size < 20 * SIZE; size *= 5) {
		drv_deviceptr va = alloc_bytes(size);

		for (size_t at = 0; at < size; at += size / 5 + 1) {
			struct drv_ipc_handle handle = handle_of(va + at);
			drv_deviceptr base;
			size_t bytes;

			/* It is in the block, and so the address is as far behind it in the other process. */
			g_assert_cmpint(cuMemGetAddressRange_v2(&base, &bytes, va + at), ==, 0);
			g_assert_cmphex(base, >=, va);
			g_assert_cmphex(base, <=, va + at);
			g_assert_cmphex(base + bytes, >, va + at);
			fill(base, 1, 'c');
			g_assert_cmpint(ask_to_take(&other, &handle).byte, ==, 'c');
			g_assert_cmpint(byte_at(base), ==, 'd');
		}
	}
	other_end(&other);
}

static void names(void)
{
	struct drv_ipc_handle handle, again;
	struct other other;
	drv_deviceptr va, next;

	spawn(&other, "other-takes");
	/* A block has one handle, which is refused once it was freed, also if another block is there. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	handle = handle_of(va);
	again = handle_of(va);
	g_assert_true(same(&handle, &again));
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(ask_to_take(&other, &handle).opened, ==, DRV_ERROR_INVALID_HANDLE);
	next = alloc_bytes(SIZE);
	g_assert_cmphex(next, ==, va);
	g_assert_cmpint(ask_to_take(&other, &handle).opened, ==, DRV_ERROR_INVALID_HANDLE);
	again = handle_of(next);
	g_assert_false(same(&handle, &again));
	g_assert_cmpint(ask_to_take(&other, &again).opened, ==, 0);

	/* So are those of before a reset. */
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);
	use_primary(0);
	next = alloc_bytes(SIZE);
	g_assert_cmpint(ask_to_take(&other, &again).opened, ==, DRV_ERROR_INVALID_HANDLE);
	g_assert_cmpint(cuMemFreeAsync(next, NULL), ==, 0);
	other_end(&other);
}

static void failed_free(void)
{
	struct drv_ipc_handle handle, again;
	struct other other;
	drv_deviceptr va;

	spawn(&other, "other-takes");
	/* A free of a block that has a handle fails. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	handle = handle_of(va);
	fill(va, SIZE, 'a');
	fake_cuda_fail("cuCtxRecordEvent", 1, 1, DRV_ERROR_UNKNOWN);
	g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_UNKNOWN);

	/* The block is still there, and so is its handle, until a free that does not. */
	again = handle_of(va);
	g_assert_true(same(&handle, &again));
	g_assert_cmpint(ask_to_take(&other, &handle).byte, ==, 'a');
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(ask_to_take(&other, &handle).opened, ==, DRV_ERROR_INVALID_HANDLE);
	other_end(&other);
}

static void opens(void)
{
	struct other other;
	struct drv_ipc_handle handles[2];
	drv_deviceptr va, again, beside;
	drv_stream stream;

	spawn(&other, "other-gives");
	/* A program opens the same handle twice, by either variant, and another one. */
	use_primary(0);
	for (int i = 0; i < 2; i++)
		g_assert_true(read_handle(other.out, &handles[i]));
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handles[0], LAZY), ==, 0);
	g_assert_cmpint(cuIpcOpenMemHandle(&again, handles[0], LAZY), ==, 0);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&beside, handles[1], LAZY), ==, 0);
	g_assert_cmphex(again, ==, va);
	g_assert_cmphex(beside, !=, va);
	g_assert_cmpint(byte_at(beside + SIZE - 1), ==, 'b');

	/* The memory is there until the second close, and a free is none. */
	g_assert_cmpint(cuIpcCloseMemHandle(va), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(byte_at(va), ==, 'a');

	/* That waits for what uses it. */
	stream = new_stream();
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	g_assert_cmpint(cuIpcCloseMemHandle(va), ==, 0);
	g_assert_cmpint(cuStreamQuery(stream), ==, 0);
	g_assert_cmpuint(driver_calls("cuIpcCloseMemHandle") + driver_calls("cuIpcOpenMemHandle"), ==, 0);

	/* After that the driver is asked, as of any other address and handle. */
	g_assert_cmpint(cuIpcCloseMemHandle(va), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuIpcOpenMemHandle(&again, (struct drv_ipc_handle){ "x" }, LAZY), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpuint(driver_calls("cuIpcCloseMemHandle"), ==, 1);
	g_assert_cmpuint(driver_calls("cuIpcOpenMemHandle"), ==, 1);

	/* Bad arguments. */
	g_assert_cmpint(cuIpcOpenMemHandle_v2(NULL, handles[0], LAZY), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handles[0], 8), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuCtxSetCurrent(NULL), ==, 0);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handles[0], LAZY), ==, DRV_ERROR_INVALID_CONTEXT);
	other_end(&other);
}

static void sender_ends(void)
{
	struct other other;
	struct drv_ipc_handle handles[2];
	drv_deviceptr va, kept;
	char line[16];

	spawn(&other, "other-gives");
	/* The other process frees a block, and ends with another, which this one has open. */
	use_primary(0);
	for (int i = 0; i < 2; i++)
		g_assert_true(read_handle(other.out, &handles[i]));
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&kept, handles[1], LAZY), ==, 0);
	fputs("free\n", other.in);
	g_assert_nonnull(fgets(line, sizeof(line), other.out));
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handles[0], LAZY), ==, DRV_ERROR_INVALID_HANDLE);
	fputs("end\n", other.in);
	other_end(&other);

	/* What is open stays so, also for another open, and nothing else can be opened. */
	g_assert_cmpint(byte_at(kept), ==, 'b');
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handles[1], LAZY), ==, 0);
	g_assert_cmphex(va, ==, kept);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handles[0], LAZY), ==, DRV_ERROR_INVALID_HANDLE);
	g_assert_cmpint(cuIpcCloseMemHandle(kept), ==, 0);
	g_assert_cmpint(cuIpcCloseMemHandle(kept), ==, 0);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handles[1], LAZY), ==, DRV_ERROR_INVALID_HANDLE);
}

static void reset(void)
{
	struct other other;
	struct drv_ipc_handle handle = { 0 };
	drv_deviceptr va, again;

	spawn(&other, "other-gives");
	/* A program resets its device with a handle open. */
	use_primary(0);
	g_assert_true(read_handle(other.out, &handle));
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handle, LAZY), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);

	/* It is closed by that, and can be opened anew. */
	use_primary(0);
	g_assert_cmpint(cuIpcCloseMemHandle(va), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&again, handle, LAZY), ==, 0);
	g_assert_cmpint(byte_at(again), ==, 'a');
	g_assert_cmpint(cuIpcCloseMemHandle(again), ==, 0);
	other_end(&other);
}

static gpointer open_often(gpointer handle)
{
	drv_deviceptr va;

	use_primary(0);
	for (int i = 0; i < 50; i++) {
		g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, *(const struct drv_ipc_handle *)handle, LAZY), ==, 0);
		g_assert_cmpint(byte_at(va), >=, 'a');
		g_assert_cmpint(cuIpcCloseMemHandle(va), ==, 0);
	}
	return NULL;
}

static void open_in_threads(void)
{
	struct other giver, taker;
	struct drv_ipc_handle handles[2] = { 0 }, own_handle = { 0 };
	GThread *workers[4];
	drv_deviceptr va;

	spawn(&giver, "other-gives");
	spawn(&taker, "other-takes");
	/* Threads open and close two handles, while another process opens one of this. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	fill(va, SIZE, 0);
	own_handle = handle_of(va);
	for (int i = 0; i < 2; i++)
		g_assert_true(read_handle(giver.out, &handles[i]));
	for (size_t i = 0; i < G_N_ELEMENTS(workers); i++)
		workers[i] = g_thread_new("open", open_often, &handles[i % 2]);
	for (int i = 0; i < 50; i++)
		g_assert_cmpint(ask_to_take(&taker, &own_handle).byte, ==, i);
	for (size_t i = 0; i < G_N_ELEMENTS(workers); i++)
		g_thread_join(workers[i]);

	/* Nothing is open afterwards, and it works once more. */
	g_assert_cmpint(byte_at(va), ==, 50);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handles[0], LAZY), ==, 0);
	g_assert_cmpint(cuIpcCloseMemHandle(va), ==, 0);
	g_assert_cmpint(cuIpcCloseMemHandle(va), ==, DRV_ERROR_INVALID_VALUE);
	other_end(&giver);
	other_end(&taker);
}

static void devices(void)
{
	struct drv_ipc_handle handle;
	drv_deviceptr va, again;
	struct other other;

	spawn(&other, "other-gives");

	/* A program on device 1 opens memory of device 0, whose primary context it does not have. */
	use_primary(1);
	g_assert_true(read_handle(other.out, &handle));
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handle, LAZY), ==, 0);
	g_assert_cmpint(byte_at(va), ==, 'a');

	/* On device 0 the handle is another one. */
	use_primary(0);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&again, handle, LAZY), ==, 0);
	g_assert_cmphex(again, !=, va);
	g_assert_cmpint(cuIpcCloseMemHandle(va), ==, 0);
	g_assert_cmpint(byte_at(again), ==, 'a');
	g_assert_cmpint(cuIpcCloseMemHandle(again), ==, 0);

	/* A device that cannot access the memory of another is refused it. */
	use_primary(1);
	fake_cuda_fail("cuMemSetAccess", 0, 1, DRV_ERROR_PEER_ACCESS_UNSUPPORTED);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handle, LAZY), ==, DRV_ERROR_MAP_FAILED);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&va, handle, LAZY), ==, 0);
	g_assert_cmpint(cuIpcCloseMemHandle(va), ==, 0);
	other_end(&other);
}

static size_t threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	size_t count = 0;

	while (tasks && readdir(tasks))
		count++;
	if (tasks)
		closedir(tasks);
	return count;
}

static void own(void)
{
	struct drv_ipc_handle handle = { 0 };
	drv_deviceptr va, opened;
	size_t before;

	/* A program that shares nothing has no thread for that. One opens its own handle, which is refused. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	before = threads();
	handle = handle_of(va);
	g_assert_cmpuint(threads(), >, before);
	g_assert_cmpint(cuIpcOpenMemHandle_v2(&opened, handle, LAZY), ==, DRV_ERROR_INVALID_CONTEXT);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
}

static void forked(void)
{
	struct drv_ipc_handle handle = { 0 };
	drv_deviceptr va, opened;
	int status;
	pid_t pid;

	/* A program forks after it has given a block: the child can neither give nor open, and does not hang. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	handle = handle_of(va);
	pid = fork();
	if (!pid)
		_exit(!cuIpcGetMemHandle(&handle, va) || !cuIpcOpenMemHandle_v2(&opened, handle, LAZY) ||
		      !cuIpcCloseMemHandle(va) || !cuMemFree_v2(va));
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
}

static void share_twice(drv_deviceptr va)
{
	struct drv_ipc_handle handle = { 0 };

	g_assert_cmpint(cuIpcGetMemHandle(&handle, va), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuIpcGetMemHandle(&handle, va), ==, DRV_ERROR_INVALID_VALUE);
}

static void refused(void)
{
	char *said;

	/* A program shares a block of a pool that cannot export it, or of a pausable tag, twice. */
	use_primary(0);
	said = said_by(share_twice, alloc_bytes(SIZE));

	/* The driver refuses, and one line says what to set. */
	g_assert_cmpstr(said, ==, "libvpmm-preload: cuIpcGetMemHandle: this memory of libvpmm cannot be shared; "
				  "set VPMM_EXPORT=auto, or VPMM_PRELOAD_IPC=driver\n");
	g_free(said);

	/* Nothing is said of memory that is not the library's. */
	said = said_by(share_twice, 77);
	g_assert_cmpstr(said, ==, "");
	g_free(said);
}

int main(int argc, char **argv)
{
	static const struct preload_test tests[] = {
		{ "/ipc/contents", contents },
		{ "/ipc/contents-by-block", contents, { "VPMM_PRELOAD_RANGE=block" } },
		{ "/ipc/ranges", ranges },
		{ "/ipc/ranges-by-block", ranges, { "VPMM_PRELOAD_RANGE=block" } },
		{ "/ipc/names", names },
		{ "/ipc/failed-free", failed_free },
		{ "/ipc/opens", opens },
		{ "/ipc/sender-ends", sender_ends },
		{ "/ipc/reset", reset },
		{ "/ipc/threads", open_in_threads },
		{ "/ipc/opens-pausable", opens, { "VPMM_PAUSABLE=1", "VPMM_TAG=program" } },
		{ "/ipc/devices", devices, { "VPMM_HOST_DEVICES=2" } },
		{ "/ipc/own", own },
		{ "/ipc/fork", forked },
		{ "/ipc/not-exported", refused, { "VPMM_EXPORT=none" } },
		{ "/ipc/pausable", refused, { "VPMM_PAUSABLE=1", "VPMM_TAG=program" } },
	};
	const char *scene = g_getenv("VPMM_TEST_SCENE");

	/* As vpmm-run does. */
	g_setenv("VPMM_EXPORT", "auto", FALSE);
	if (scene && !strcmp(scene, "other-takes"))
		other_takes();
	else if (scene && !strcmp(scene, "other-gives"))
		other_gives();
	else
		return preload_main(argc, argv, tests, G_N_ELEMENTS(tests));
	/* Threads that lend are under way for good: the suite's own driver is not to be taken down under them. */
	fflush(stdout);
	_exit(0);
}
