// SPDX-License-Identifier: LGPL-2.1-or-later
/* Other devices that access the memory of the model's pool. */
#include <string.h>

#include "calls/pool.h"
#include "model/model.h"

static void check_access(const struct model *m)
{
	uint64_t devices = m->peers | UINT64_C(1) << m->f.pool->core.device;

	for (guint i = 0; i < m->live->len; i++) {
		const struct model_allocation *a = m->live->pdata[i];

		for (int device = 0; device < MODEL_DEVICES; device++)
			g_assert_cmpint(!vpmm_host_check_access(device, a->ptr, a->size), ==, devices >> device & 1);
	}
}

void model_set_peers(struct model *m, uint64_t peers)
{
	int list[MODEL_DEVICES], err;
	size_t count = 0;

	for (int device = 0; device < MODEL_DEVICES; device++) {
		if (peers >> device & 1)
			list[count++] = device;
	}
	check_access(m);
	err = vpmm_pool_set_peers(m->f.pool, list, count);
	if (model_may_fail(m, err)) {
		model_check(m);
		if (!strstr(vpmm_last_error(), "undoing failed"))
			check_access(m);
		assert_ok(vpmm_pool_set_peers(m->f.pool, list, count));
	}
	m->peers = peers;
	check_access(m);
}
