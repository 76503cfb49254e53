// SPDX-License-Identifier: LGPL-2.1-or-later
#include <inttypes.h>

#include "calls/recent-requests.h"
#include "util/clock.h"

void requests_note(struct vpmm_pool *pool, size_t size, const struct CUstream_st *stream, uint64_t addr)
{
	if (!pool->core.settings.oom_dump)
		return;
	pool->requests[pool->requested++ % POOL_REQUESTS] = (struct pool_request){
		.ns = clock_ns(),
		.size = size,
		.stream = (uintptr_t)stream,
		.addr = addr,
	};
}

void requests_write(const struct vpmm_pool *pool, GString *out)
{
	uint64_t first = pool->requested > POOL_REQUESTS ? pool->requested - POOL_REQUESTS : 0, now = clock_ns();

	g_string_append_printf(out, "requests: %" PRIu64 ", of those that no cache served\n", pool->requested - first);
	for (uint64_t i = first; i < pool->requested; i++) {
		const struct pool_request *request = &pool->requests[i % POOL_REQUESTS];

		g_string_append_printf(out, "request %" PRIu64 " us ago, %zu bytes, stream 0x%" PRIx64,
				       (now - request->ns) / 1000, request->size, request->stream);
		if (request->addr)
			g_string_append_printf(out, ": 0x%" PRIx64 "\n", request->addr);
		else
			g_string_append(out, ": failed\n");
	}
}
