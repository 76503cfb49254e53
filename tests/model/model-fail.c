// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a call of the model may fail for: a fault that was armed, or a lack of memory. */
#include <errno.h>

#include "calls/pool.h"
#include "core/shareable.h"
#include "model/model-inside.h"
#include "support/fault.h"

/* What the driver's allocator takes at least, when it takes more. */
#define SMALL_SEGMENT ((uint64_t)32 << 20)

void model_arm(struct model *m, enum backend_op op, unsigned int skip, unsigned int count, int err)
{
	backend_fault_arm(m->f.pool->core.backend, op, skip, count, err);
	m->armed = true;
	m->errors |= UINT64_C(1) << -err;
}

/* Whether the backend may fail so. Not all errors are below 64. */
static bool is_injected(const struct model *m, int number)
{
	return number < 64 && m->errors >> number & 1;
}

void model_disarm(struct model *m)
{
	for (int op = 0; m->armed && op < BACKEND_OP_COUNT; op++)
		backend_fault_arm(m->f.pool->core.backend, (enum backend_op)op, 0, 0, 0);
	m->armed = false;
	m->errors = 0;
}

bool model_may_fail(struct model *m, int err)
{
	int number = errno;

	if (err) {
		g_assert_true(is_injected(m, -err));
		g_assert_cmpint(number, ==, -err);
		g_assert_cmpstr(vpmm_last_error(), !=, "");
	}
	model_disarm(m);
	return err != 0;
}

uint64_t model_taken(const struct model *m)
{
	const struct core *core = &m->f.pool->core;
	uint64_t bytes = core->extents.bytes + core->shareable;

	for (guint i = 0; i < core->strays->len; i++) {
		const struct shareable *stray = core->strays->pdata[i];

		bytes -= stray->counted && !stray->imported ? stray->bytes : 0;
	}
	return bytes;
}

uint64_t model_rounded(const struct model *m, size_t size)
{
	const struct settings *settings = &m->f.pool->core.settings;
	uint64_t piece = settings->paged ? m->page_size : CORE_PIECE;

	if (m->page_size == SIZE_MAX || (size < m->page_size && settings->small == VPMM_SMALL_DRIVER))
		return 0;
	return (size + piece - 1) / piece * piece;
}

/* Whether a request is more than is left of something that so much is taken of, be it served in the best way. */
static bool exceeds(struct model *m, size_t size, uint64_t taken, uint64_t most)
{
	if (!model_rounded(m, size))
		return taken + size > most;
	/* Memory comes in pages, and only what is in whole extents can be put together with others. */
	size = (size + m->page_size - 1) / m->page_size * m->page_size;
	if (!m->f.pool->core.settings.paged)
		return taken + size - m->f.pool->core.extents.whole_bytes > most;
	return taken + size - fixture_stats(&m->f).free > most;
}

bool model_lacks(struct model *m, size_t size)
{
	struct vpmm_stats stats = fixture_stats(&m->f);
	struct vpmm_info info = { .size = sizeof(info) };

	if (m->few_mappings)
		return true;
	if (exceeds(m, size, m->f.pool->core.extents.held + stats.small_live + stats.shareable,
		    m->f.pool->core.settings.limit))
		return true;
	if (!m->capacity)
		return false;
	/* By whatever pool. */
	assert_ok(vpmm_pool_info(m->f.pool, &info));
	return exceeds(m, model_rounded(m, size) ? size : MAX(SMALL_SEGMENT, size), info.memory_total - info.memory_free,
		       m->capacity);
}

uint64_t model_apart(const struct model *m, size_t size)
{
	size_t granularity = m->f.pool->core.granularity;

	return (size + granularity - 1) / granularity * granularity;
}

bool model_lacks_apart(struct model *m, size_t size)
{
	const struct core *core = &m->f.pool->core;
	struct vpmm_stats stats = fixture_stats(&m->f);
	struct vpmm_info info = { .size = sizeof(info) };
	uint64_t bytes = model_apart(m, size);
	uint64_t whole = core->settings.paged ? stats.free : core->extents.whole_bytes;

	if (m->few_mappings ||
	    core->extents.held + stats.small_live + stats.shareable + bytes - whole > core->settings.limit)
		return true;
	if (!m->capacity)
		return false;
	assert_ok(vpmm_pool_info(m->f.pool, &info));
	return info.memory_total - info.memory_free + bytes - whole > m->capacity;
}

bool model_is_limited(const struct model *m)
{
	return m->capacity || m->few_mappings || m->f.pool->core.settings.limit != UINT64_MAX;
}

/* A stream without an id is as one beside a capture: it gets what is idle, which no driver's allocator has. */
bool model_is_beside_capture(const struct model *m)
{
	return m->armed && is_injected(m, EBUSY);
}

bool model_is_expected(const struct model *m, int err)
{
	return is_injected(m, -err) || (err == -ENOMEM && model_is_limited(m)) ||
	       (err == -ENOTSUP && m->page_size == SIZE_MAX && model_is_beside_capture(m));
}
