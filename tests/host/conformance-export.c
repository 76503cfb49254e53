// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory that goes from one open backend to another, as it goes from process to process. */
#include <fcntl.h>
#include <unistd.h>

#include "host/conformance-bench.h"

/* Whether it has file descriptors for memory; skips the check otherwise. */
static bool can_export(struct bench *b)
{
	int ret = b->ops->configure(b->be, BACKEND_HANDLES_FD, false);

	if (ret == -ENOTSUP)
		g_test_skip("the device does not export memory as file descriptors");
	else
		assert_ok(ret);
	return !ret;
}

static uint64_t create_export(struct bench *b, size_t pages)
{
	uint64_t handle = UNTOUCHED;

	assert_ok(b->ops->create_export(b->be, pages * b->page, &handle));
	return handle;
}

static struct backend_export export(struct bench *b, uint64_t handle)
{
	struct backend_export made = { .fd = -1 };

	assert_ok(b->ops->export(b->be, handle, &made));
	g_assert_cmpint(made.type, ==, BACKEND_HANDLES_FD);
	g_assert_cmpint(made.fd, >, STDERR_FILENO);
	return made;
}

static void open_second(struct bench *b, struct bench *second)
{
	*second = *b;
	assert_ok(b->device->open(&second->be));
	assert_ok(second->ops->enter(second->be));
}

static void close_second(struct bench *second)
{
	second->ops->leave(second->be);
	second->ops->close(second->be);
}

static void check_export(struct bench *b)
{
	uint64_t handle, va, there, copy = UNTOUCHED;
	struct backend_export made;
	struct bench second;

	if (!can_export(b))
		return;
	handle = create_export(b, 3);
	va = reserve(b, 3);
	map_access(b, va, 3, handle);
	put(b, va + 2 * b->page, 111);
	made = export(b, handle);
	open_second(b, &second);
	assert_ok(second.ops->import(second.be, &made, 3 * b->page, &copy));
	close(made.fd);
	there = reserve(&second, 3);
	map_access(&second, there, 3, copy);

	g_assert_cmpuint(get(&second, there + 2 * b->page), ==, 111);
	put(&second, there, 112);
	g_assert_cmpuint(get(b, va), ==, 112);
	assert_ok(b->ops->enter(b->be));
	unmap(b, va, 3);
	release(b, handle);
	unreserve(b, va, 3);
	b->ops->leave(b->be);
	g_assert_cmpuint(get(&second, there + 2 * b->page), ==, 111);
	unmap(&second, there, 3);
	release(&second, copy);
	unreserve(&second, there, 3);
	close_second(&second);
}

static void check_export_counts(struct bench *b)
{
	uint64_t before, handle, copy = UNTOUCHED;
	struct backend_export made;

	if (!can_export(b))
		return;
	before = memory_free(b);
	handle = create_export(b, 3);
	made = export(b, handle);
	assert_ok(b->ops->import(b->be, &made, 3 * b->page, &copy));

	g_assert_cmpuint(memory_free(b), ==, before - 3 * b->page);
	close(made.fd);
	release(b, copy);
	release(b, handle);
	g_assert_cmpuint(memory_free(b), ==, before);
}

static void check_export_private(struct bench *b)
{
	struct backend_export made;
	uint64_t handle;

	if (!can_export(b))
		return;
	handle = create_export(b, 1);
	made = export(b, handle);

	g_assert_cmpint(fcntl(made.fd, F_GETFD), ==, FD_CLOEXEC);
	close(made.fd);
	release(b, handle);
}

static void check_create_export_bad(struct bench *b)
{
	uint64_t handle = UNTOUCHED, before = memory_free(b);

	assert_refused(b->ops->create_export(b->be, b->page, &handle), -EINVAL);
	if (!can_export(b))
		return;
	assert_refused(b->ops->create_export(b->be, 0, &handle), -EINVAL);
	assert_refused(b->ops->create_export(b->be, b->page / 2, &handle), -EINVAL);
	assert_refused(b->ops->create_export(b->be, memory_total(b) / b->page * b->page + b->page, &handle), -ENOMEM);
	g_assert_cmpuint(handle, ==, UNTOUCHED);
	g_assert_cmpuint(memory_free(b), ==, before);
}

static void check_export_bad(struct bench *b)
{
	struct backend_export made = { .fd = 77 };
	uint64_t handle;

	if (!can_export(b))
		return;
	handle = create(b, 1);
	assert_refused(b->ops->export(b->be, UNTOUCHED, &made), -EINVAL);
	assert_refused(b->ops->export(b->be, handle, &made), -EINVAL);
	g_assert_cmpint(made.fd, ==, 77);
	release(b, handle);
}

/* Whether memory of a descriptor can be neither imported as so many pages nor mapped as such. */
static bool is_refused(struct bench *b, const struct backend_export *made, size_t pages)
{
	uint64_t handle = UNTOUCHED, va = reserve(b, pages);
	int ret = b->ops->import(b->be, made, pages * b->page, &handle);

	if (b->device->strict)
		g_assert_cmpint(ret, ==, -EINVAL);
	if (!ret) {
		ret = b->ops->map(b->be, va, pages * b->page, handle);
		release(b, handle);
	} else {
		g_assert_cmpuint(handle, ==, UNTOUCHED);
	}
	unreserve(b, va, pages);
	return ret;
}

static void check_import_bad(struct bench *b)
{
	struct backend_export made, other = { .type = BACKEND_HANDLES_FD };
	uint64_t handle;

	if (!can_export(b))
		return;
	handle = create_export(b, 2);
	made = export(b, handle);
	g_assert_true(is_refused(b, &made, 1));
	g_assert_true(is_refused(b, &made, 3));
	close(made.fd);
	g_assert_true(is_refused(b, &made, 2));
	other.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	g_assert_true(is_refused(b, &other, 2));
	close(other.fd);
	release(b, handle);
}

const struct check checks_of_exports[] = {
	{ "export", false, check_export },
	{ "export-counts", true, check_export_counts },
	{ "export-private", false, check_export_private },
	{ "create-export-bad", true, check_create_export_bad },
	{ "export-bad", true, check_export_bad },
	{ "import-bad", false, check_import_bad },
	{ .name = NULL }
};
