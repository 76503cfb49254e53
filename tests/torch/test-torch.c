// SPDX-License-Identifier: LGPL-2.1-or-later
/* libvpmm-torch.so without PyTorch: what its calls do with memory of the host backend. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torch/torch-fixture.h"

static struct CUstream_st *new_stream(void)
{
	struct CUstream_st *stream;

	assert_ok(vpmm_host_stream_create(&stream));
	return stream;
}

static void complete(struct CUstream_st *stream)
{
	assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
}

static void retire_stream(struct CUstream_st *stream)
{
	complete(stream);
	assert_ok(vpmm_stream_retire(NULL, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_unused(void)
{
	struct vpmm_torch_counts counts = { .size = 8 };
	struct vpmm_stats stats;

	/* Nothing has been allocated on the second device: it has no pool, and none comes of the question. */
	stats = torch_stats(1);
	g_assert_cmpuint(stats.reserved + stats.mapped + stats.chunks, ==, 0);
	g_assert_cmpint(torch.vpmm_torch_trim(1, NULL), ==, 0);
	g_assert_cmpint(torch.vpmm_torch_reset_peaks(1), ==, 0);

	/* Wrong arguments are refused. */
	g_assert_cmpint(torch.vpmm_torch_counts(0, &counts), ==, -EINVAL);
	g_assert_cmpint(torch.vpmm_torch_stats(-1, &stats), ==, -EINVAL);
	g_assert_cmpint(torch.vpmm_torch_trim(64, NULL), ==, -EINVAL);
	g_assert_cmpint(torch.vpmm_torch_reset_peaks(-1), ==, -EINVAL);
}

static void test_alloc(void)
{
	struct CUstream_st *stream = new_stream();
	struct vpmm_torch_counts before = torch_counts(0), after;
	size_t size = 0;
	void *ptr;
	char *a;

	/* Nothing wanted, nothing given, and no error. */
	ptr = &size;
	g_assert_null(torch_try(&ptr, 0, 0, stream));
	g_assert_null(ptr);
	torch.vpmm_torch_free(NULL, 0, 0, stream);

	/* A block can be written, is found from inside, and is counted. */
	a = torch_new(3 * MIB + 5, 0, stream);
	memset(a, 1, 3 * MIB + 5);
	g_assert_cmpuint((uintptr_t)a % 512, ==, 0);
	g_assert_true(torch.vpmm_torch_base(a + MIB, &size) == a);
	g_assert_cmpuint(size, ==, 3 * MIB + 5);
	g_assert_true(torch.vpmm_torch_base(&size, NULL) == &size);
	g_assert_cmpuint(torch_stats(0).requested, ==, 3 * MIB + 5);
	torch.vpmm_torch_free(a, 3 * MIB + 5, 0, stream);
	g_assert_cmpuint(torch_stats(0).live, ==, 0);
	after = torch_counts(0);
	g_assert_cmpuint(after.allocs, ==, before.allocs + 1);
	g_assert_cmpuint(after.frees, ==, before.frees + 1);
	g_assert_cmpuint(after.alloc_bytes, ==, before.alloc_bytes + 3 * MIB + 5);
	g_assert_cmpuint(after.free_bytes, ==, before.free_bytes + 3 * MIB + 5);
	g_assert_cmpuint(after.peak_blocks, ==, 1);

	/* What is kept goes back when the cache is emptied. */
	g_assert_cmpuint(torch_stats(0).mapped, >, 0);
	complete(stream);
	torch.vpmm_torch_reset();
	g_assert_cmpuint(torch_stats(0).mapped, ==, 0);
	retire_stream(stream);
}

static void test_unknown(void)
{
	struct vpmm_torch_counts before = torch_counts(0);
	int here = 0;

	/* Memory of another allocator, and of none any more. */
	torch.vpmm_torch_free(&here, sizeof(here), 0, NULL);
	torch.vpmm_torch_record_stream(&here, NULL);
	g_assert_cmpuint(torch_counts(0).unknown, ==, before.unknown + 2);
	g_assert_cmpuint(torch_counts(0).failed, ==, before.failed);
	g_assert_cmpuint(torch_counts(0).kept, ==, 0);

	/* It was not allocated here, so there is not one block less. */
	g_assert_cmpuint(torch_counts(0).frees, ==, before.frees);
	g_assert_cmpuint(torch_counts(0).free_bytes, ==, before.free_bytes);
}

static void test_stream_gone(void)
{
	struct vpmm_torch_counts before = torch_counts(0);
	struct CUstream_st *stream = new_stream();
	char *a[40];

	/* A stream that is not PyTorch's is destroyed before its memory is freed: that comes back all the same. */
	for (size_t i = 0; i < G_N_ELEMENTS(a); i++)
		a[i] = torch_new(MIB, 0, stream);
	complete(stream);
	assert_ok(vpmm_host_stream_destroy(stream));
	for (size_t i = 0; i < G_N_ELEMENTS(a); i++)
		torch.vpmm_torch_free(a[i], MIB, 0, stream);
	g_assert_cmpuint(torch_stats(0).requested, ==, 0);
	g_assert_cmpuint(torch_counts(0).unknown + torch_counts(0).failed, ==, before.unknown + before.failed);
	g_assert_cmpuint(torch_counts(0).frees, ==, before.frees + G_N_ELEMENTS(a));
	torch.vpmm_torch_free(torch_new(50 * MIB, 0, NULL), 50 * MIB, 0, NULL);
}

static void test_kept(void)
{
	static const int later[] = { EBUSY, ENOMEM };
	struct vpmm_torch_counts before = torch_counts(0);
	char *a, *b, *c;

	/* Frees that cannot be done yet. */
	for (size_t i = 0; i < G_N_ELEMENTS(later); i++) {
		a = torch_new(4 * MIB, 0, NULL);
		b = torch_new(2 * MIB, 0, NULL);
		torch_free_fails = later[i];
		torch.vpmm_torch_free(a, 4 * MIB, 0, NULL);
		torch.vpmm_torch_free(b, 2 * MIB, 0, NULL);
		g_assert_cmpuint(torch_counts(0).kept, ==, 2);

		/* An allocation tries them again, in vain and then not. */
		c = torch_new(MIB, 0, NULL);
		g_assert_cmpuint(torch_counts(0).kept, ==, 2);
		g_assert_cmpuint(torch_stats(0).requested, ==, 7 * MIB);
		torch_free_fails = 0;
		a = torch_new(2 * MIB, 0, NULL);
		g_assert_cmpuint(torch_counts(0).kept, ==, 0);
		g_assert_cmpuint(torch_stats(0).requested, ==, 3 * MIB);
		torch.vpmm_torch_free(a, 2 * MIB, 0, NULL);
		torch.vpmm_torch_free(c, MIB, 0, NULL);
	}

	/* One that can never be done is counted. */
	a = torch_new(MIB, 0, NULL);
	torch_free_fails = EIO;
	torch.vpmm_torch_free(a, MIB, 0, NULL);
	torch_free_fails = 0;
	g_assert_cmpuint(torch_counts(0).failed, ==, before.failed + 1);
	g_assert_cmpuint(torch_counts(0).kept, ==, 0);
	torch.vpmm_torch_free(a, MIB, 0, NULL);
	g_assert_cmpuint(torch_counts(0).unknown, ==, before.unknown);
}

/* What the child sees is its exit status. */
static int free_in_child(char *a, char *b)
{
	struct vpmm_torch_counts before = torch_counts(0), after;
	void *ptr = NULL;
	const char *text;

	torch.vpmm_torch_free(a, MIB, 0, NULL);
	torch.vpmm_torch_free(b, MIB, 0, NULL);
	torch.vpmm_torch_reset();
	text = torch_try(&ptr, MIB, 0, NULL);
	after = torch_counts(0);
	return after.failed == before.failed + 2 && !after.kept && text && strstr(text, "forked") ? 0 : 1;
}

static void test_fork(void)
{
	char *a = torch_new(MIB, 0, NULL), *b = torch_new(MIB, 0, NULL);
	int status;
	pid_t child;

	/* A worker of a DataLoader lets tensors go that it has inherited: nothing happens to them. */
	child = fork();
	if (!child)
		_exit(free_in_child(a, b));
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
	torch.vpmm_torch_free(a, MIB, 0, NULL);
	torch.vpmm_torch_free(b, MIB, 0, NULL);
	g_assert_cmpuint(torch_stats(0).requested, ==, 0);
}

static void test_record_stream(void)
{
	struct CUstream_st *home = new_stream(), *user = new_stream();
	unsigned int pending;
	char *a;

	/* The second stream is at work on a block of the first, which frees it and wants as much again. */
	a = torch_new(48 * MIB, 0, home);
	torch.vpmm_torch_record_stream(a, user);
	assert_ok(vpmm_host_stream_submit(user));
	torch.vpmm_torch_free(a, 48 * MIB, 0, home);
	a = torch_new(48 * MIB, 0, home);

	/* There is no other memory, so the first stream waits for the second. */
	assert_ok(vpmm_host_stream_submit(home));
	vpmm_host_stream_complete(home, 1);
	assert_ok(vpmm_host_stream_pending(home, &pending));
	g_assert_cmpuint(pending, ==, 1);
	complete(user);
	complete(home);
	torch.vpmm_torch_free(a, 48 * MIB, 0, home);
	retire_stream(home);
	retire_stream(user);
}

/* A small block that two streams used serves again at its place, before memory that nobody has had. */
static void test_record_small(void)
{
	struct CUstream_st *home = new_stream(), *user = new_stream();
	char *a, *b, *c;

	a = torch_new(16, 0, home);
	torch.vpmm_torch_record_stream(a, user);
	assert_ok(vpmm_host_stream_submit(user));
	torch.vpmm_torch_free(a, 16, 0, home);
	b = torch_new(16, 0, home);
	g_assert_true(b != a);
	complete(user);
	complete(home);
	c = torch_new(16, 0, home);
	g_assert_true(c == a);
	torch.vpmm_torch_free(b, 16, 0, home);
	torch.vpmm_torch_free(c, 16, 0, home);
	retire_stream(home);
	retire_stream(user);
}

static void test_exhausted(void)
{
	struct vpmm_torch_counts before = torch_counts(0);
	struct CUstream_st *stream = new_stream();
	const char *text;
	void *ptr = NULL;
	char *a;

	/* More than is left. */
	a = torch_new(40 * MIB, 0, stream);
	text = torch_try(&ptr, 30 * MIB, 0, stream);

	/* The words that programs look for, what was wanted, and what the library has to say. */
	g_assert_nonnull(text);
	g_assert_true(g_str_has_prefix(text, "CUDA out of memory. Tried to allocate 30.00 MiB on GPU 0. "));
	g_assert_nonnull(strstr(text, "40 MiB live"));
	g_assert_nonnull(strstr(text, "\ntry this: "));
	g_assert_null(ptr);
	g_assert_cmpuint(torch_counts(0).ooms, ==, before.ooms + 1);
	g_assert_cmpuint(torch_counts(0).retries, ==, before.retries + 1);

	/* Half of it, and all once the first block is free. */
	ptr = torch_new(15 * MIB, 0, stream);
	torch.vpmm_torch_free(a, 40 * MIB, 0, stream);
	a = torch_new(30 * MIB, 0, stream);
	torch.vpmm_torch_free(a, 30 * MIB, 0, stream);
	torch.vpmm_torch_free(ptr, 15 * MIB, 0, stream);
	retire_stream(stream);
}

static void *spare;
static unsigned int asked;

static int give_spare(int device, size_t size)
{
	void *ptr = NULL;

	asked++;
	g_assert_cmpint(device, ==, 0);
	/* It does not ask while it asks. */
	if (asked == 1)
		g_assert_null(torch.vpmm_torch_base(NULL, NULL));
	if (!spare)
		return 0;
	g_assert_cmpuint(size, ==, 40 * MIB);
	assert_ok(vpmm_free(NULL, spare, NULL));
	spare = ptr;
	return 1;
}

static void test_pressure(void)
{
	struct CUstream_st *stream = new_stream();
	void *ptr = NULL;
	char *a;

	/* The program has memory that it can do without. */
	torch.vpmm_torch_set_pressure(give_spare);
	asked = 0;
	assert_ok(vpmm_malloc(NULL, &spare, 40 * MIB, NULL));
	a = torch_new(40 * MIB, 0, stream);
	g_assert_cmpuint(asked, ==, 1);

	/* Now it has none, and is asked in vain; the text is that of the allocation. */
	g_assert_nonnull(strstr(torch_try(&ptr, 41 * MIB, 0, stream), "41 MiB wanted"));
	g_assert_cmpuint(asked, ==, 2);
	torch.vpmm_torch_set_pressure(NULL);
	torch.vpmm_torch_free(a, 40 * MIB, 0, stream);
	retire_stream(stream);
}

static void test_fraction(void)
{
	struct CUstream_st *stream = new_stream();
	unsigned int looks;
	void *ptr = NULL;
	char *a, *b;

	/* Half of the device. */
	assert_ok(torch.vpmm_torch_trim(0, NULL));
	g_assert_null(torch_try_fraction(0.5, 0));
	g_assert_cmpuint(torch_counts(0).limit, ==, CAPACITY / 2);
	looks = torch_looks;
	a = torch_new(20 * MIB, 0, stream);
	g_assert_true(g_str_has_prefix(torch_try(&ptr, 13 * MIB, 0, stream), "CUDA out of memory. "));
	g_assert_nonnull(strstr(torch_try(&ptr, 13 * MIB, 0, stream), "() allows 32.00 MiB. vpmm_malloc: "));
	b = torch_new(12 * MIB, 0, stream);

	/* An allocation neither takes statistics nor trims. */
	for (int i = 0; i < 10; i++) {
		torch.vpmm_torch_free(a, 20 * MIB, 0, stream);
		a = torch_new(20 * MIB, 0, stream);
	}
	g_assert_cmpuint(torch_looks, ==, looks);
	g_assert_cmpuint(torch_stats(0).mapped, <=, CAPACITY / 2);

	/* Nothing at all; and the whole device again. */
	torch.vpmm_torch_free(a, 20 * MIB, 0, stream);
	torch.vpmm_torch_free(b, 12 * MIB, 0, stream);
	assert_ok(torch.vpmm_torch_trim(0, NULL));
	assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
	g_assert_null(torch_try_fraction(0, 0));
	g_assert_nonnull(torch_try(&ptr, MIB, 0, stream));
	g_assert_null(torch_try_fraction(1, 0));
	g_assert_cmpuint(torch_counts(0).limit, ==, 0);
	a = torch_new(40 * MIB, 0, stream);
	torch.vpmm_torch_free(a, 40 * MIB, 0, stream);
	retire_stream(stream);
}

static void test_devices(void)
{
	struct vpmm_torch_counts before = torch_counts(1), after;
	struct CUstream_st *stream;
	char *a, *b;

	/* Each has its pool, and both have been used: kernels of either access the memory of the other. */
	a = torch_new(MIB, 0, NULL);
	b = torch_new(2 * MIB, 1, NULL);
	g_assert_cmpuint(torch_stats(0).requested, ==, MIB);
	g_assert_cmpuint(torch_stats(1).requested, ==, 2 * MIB);
	assert_ok(vpmm_host_check_access(1, a, MIB));
	assert_ok(vpmm_host_check_access(0, b, 2 * MIB));

	/* A stream of the second works with its memory, whichever device is current at the free. */
	assert_ok(vpmm_host_set_device(1));
	stream = new_stream();
	torch.vpmm_torch_record_stream(b, stream);
	assert_ok(vpmm_host_set_device(0));
	torch.vpmm_torch_free(b, 2 * MIB, 1, NULL);
	torch.vpmm_torch_free(a, MIB, 0, NULL);
	after = torch_counts(1);
	g_assert_cmpuint(after.unknown + after.failed, ==, before.unknown + before.failed);
	g_assert_cmpuint(torch_stats(1).requested, ==, 0);
	assert_ok(vpmm_host_set_device(1));
	retire_stream(stream);
	assert_ok(vpmm_host_set_device(0));
}

static void test_failed(void)
{
	const char *text;
	void *ptr = NULL;

	/* A stream that is none: no want of memory, and no address either. */
	text = torch_try(&ptr, MIB, 0, (struct CUstream_st *)0x1234);
	g_assert_nonnull(text);
	g_assert_true(g_str_has_prefix(text, "libvpmm-torch: 1048576 bytes on GPU 0: vpmm_malloc: "));
	g_assert_null(ptr);
}

static void test_dump(void)
{
	char *text = NULL;
	size_t size;
	FILE *out;
	char *a;

	a = torch_new(2 * MIB, 0, NULL);
	out = open_memstream(&text, &size);
	g_assert_cmpint(torch.vpmm_torch_dump(0, out), ==, 0);
	fclose(out);
	g_assert_nonnull(strstr(text, "[+"));
	free(text);
	torch.vpmm_torch_free(a, 2 * MIB, 0, NULL);
	g_assert_cmpint(torch.vpmm_torch_dump(0, NULL), ==, -EINVAL);
}

/* Threads of test_peak_of_threads(): each has one block at most. */
#define THREADS 4

static void *have_one(void *data)
{
	for (int i = 0; i < 20000; i++)
		torch.vpmm_torch_free(torch_new(MIB, 0, data), MIB, 0, data);
	return NULL;
}

static void test_peak_of_threads(void)
{
	struct CUstream_st *streams[THREADS];
	GThread *threads[THREADS];
	uint64_t before;

	g_assert_cmpint(torch.vpmm_torch_reset_peaks(0), ==, 0);
	before = torch_counts(0).peak_blocks;
	for (int i = 0; i < THREADS; i++) {
		streams[i] = new_stream();
		threads[i] = g_thread_new("one", have_one, streams[i]);
	}
	for (int i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	g_assert_cmpuint(torch_counts(0).peak_blocks, >, before);
	g_assert_cmpuint(torch_counts(0).peak_blocks, <=, before + THREADS);
	for (int i = 0; i < THREADS; i++)
		retire_stream(streams[i]);
}

int main(int argc, char **argv)
{
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_HOST_CAPACITY", "64M", TRUE);
	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	g_test_init(&argc, &argv, NULL);
	torch_open();
	torch.vpmm_torch_init(DEVICE_COUNT);
	g_test_add_func("/torch/unused", test_unused);
	g_test_add_func("/torch/alloc", test_alloc);
	g_test_add_func("/torch/peak-of-threads", test_peak_of_threads);
	g_test_add_func("/torch/unknown", test_unknown);
	g_test_add_func("/torch/stream-gone", test_stream_gone);
	g_test_add_func("/torch/kept", test_kept);
	g_test_add_func("/torch/fork", test_fork);
	g_test_add_func("/torch/record-stream", test_record_stream);
	g_test_add_func("/torch/record-small", test_record_small);
	g_test_add_func("/torch/exhausted", test_exhausted);
	g_test_add_func("/torch/pressure", test_pressure);
	g_test_add_func("/torch/fraction", test_fraction);
	g_test_add_func("/torch/failed", test_failed);
	g_test_add_func("/torch/dump", test_dump);
	g_test_add_func("/torch/devices", test_devices);
	return g_test_run();
}
