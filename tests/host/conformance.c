// SPDX-License-Identifier: LGPL-2.1-or-later
#include "host/conformance-bench.h"

static void check_info(struct bench *b)
{
	struct backend_info info;

	assert_ok(b->ops->info(b->be, &info));

	g_assert_true(!strcmp(info.name, "host") || !strcmp(info.name, "cuda"));
	g_assert_cmpint(info.device, >=, 0);
	g_assert_cmpstr(info.device_name, !=, "");
	g_assert_cmpuint(info.granularity, >=, 4096);
	g_assert_cmpuint(info.granularity & (info.granularity - 1), ==, 0);
	g_assert_cmpuint(info.memory_total, >=, info.granularity);
	g_assert_cmpuint(info.memory_free, <=, info.memory_total);
	if (b->device->mappings && info.mapping_limit)
		g_assert_cmpuint(info.mapping_limit, >=, b->device->mappings);
}

static void check_enter_nests(struct bench *b)
{
	assert_ok(b->ops->enter(b->be));
	assert_ok(b->ops->enter(b->be));
	b->ops->leave(b->be);
	b->ops->leave(b->be);

	release(b, create(b, 1));
}

static void check_current_device(struct bench *b)
{
	struct backend_info info;
	int device = -1;
	int ret = b->ops->current_device(&device);

	if (ret == -ENOTSUP) {
		g_test_skip("a wrapper has no current device");
		return;
	}
	assert_ok(ret);
	assert_ok(b->ops->info(b->be, &info));
	g_assert_cmpint(device, ==, info.device);
}

static void check_enter_needed(struct bench *b)
{
	uint64_t value = UNTOUCHED;

	b->ops->leave(b->be);
	assert_refused(b->ops->create(b->be, b->page, &value), -EINVAL);
	assert_refused(b->ops->stream_id(b->be, NULL, &value), -EINVAL);
	g_assert_cmpuint(value, ==, UNTOUCHED);
	assert_ok(b->ops->enter(b->be));
}

static gpointer cycle(gpointer data)
{
	struct bench *b = data;
	int i;

	assert_ok(b->ops->enter(b->be));
	for (i = 0; i < 20; i++) {
		uint64_t va = reserve(b, 2), handle = create(b, 2), small = small_alloc(b, 3000, STREAM_PER_THREAD);
		struct backend_event *event;

		map_access(b, va, 2, handle);
		put(b, va, va);
		put(b, small, small);
		event = record(b, STREAM_PER_THREAD);
		assert_ok(b->ops->event_sync(b->be, event));
		g_assert_cmpuint(get(b, va), ==, va);
		g_assert_cmpuint(get(b, small), ==, small);
		small_free(b, small, STREAM_PER_THREAD);
		assert_ok(b->ops->unmap(b->be, va, 2 * b->page, event));
		b->ops->event_destroy(b->be, event);
		release(b, handle);
		unreserve(b, va, 2);
	}
	b->ops->leave(b->be);
	return NULL;
}

static void check_threads(struct bench *b)
{
	GThread *threads[4];
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("cycle", cycle, b);
	for (i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
}

static void check_open_twice(struct bench *b)
{
	struct bench second = *b;
	uint64_t handle;

	assert_ok(b->device->open(&second.be));
	assert_ok(second.ops->enter(second.be));
	handle = create(&second, 1);
	release(&second, handle);
	second.ops->leave(second.be);
	second.ops->close(second.be);

	release(b, create(b, 1));
}

static const struct check checks[] = {
	{ "info", false, check_info },
	{ "enter-nests", false, check_enter_nests },
	{ "current-device", false, check_current_device },
	{ "enter-needed", true, check_enter_needed },
	{ "threads", false, check_threads },
	{ "open-twice", false, check_open_twice },
	{ .name = NULL }
};

struct run {
	const struct check *check;
	const struct conformance_device *device;
	const char *reason;
};

static void run(gconstpointer data)
{
	const struct run *run = data;
	struct bench b = { .device = run->device };
	struct backend_info info;

	if (!run->device) {
		g_test_skip(run->reason);
		return;
	}
	if (run->check->strict && !run->device->strict) {
		g_test_skip("the driver does not say what happens then");
		return;
	}
	assert_ok(b.device->open(&b.be));
	b.ops = b.be->ops;
	assert_ok(b.ops->enter(b.be));
	assert_ok(b.ops->info(b.be, &info));
	b.page = info.granularity;

	run->check->run(&b);

	b.ops->leave(b.be);
	b.ops->close(b.be);
	if (b.device->left)
		g_assert_false(b.device->left());
}

static void add(const char *prefix, const struct conformance_device *device, const char *reason)
{
	static const struct check *const tables[] = {
		checks, checks_of_memory, checks_of_streams, checks_of_small, checks_of_clearing, checks_of_captures,
		checks_of_exports, checks_of_peers,
	};
	const struct check *check;
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(tables); i++) {
		for (check = tables[i]; check->name; check++) {
			char *path = g_strdup_printf("%s/%s", prefix, check->name);
			struct run *one = g_new(struct run, 1);

			one->check = check;
			one->device = device;
			one->reason = reason;
			g_test_add_data_func_full(path, one, run, g_free);
			g_free(path);
		}
	}
}

void conformance_add(const char *prefix, const struct conformance_device *device)
{
	add(prefix, device, NULL);
}

void conformance_add_skipped(const char *prefix, const char *reason)
{
	add(prefix, NULL, reason);
}
