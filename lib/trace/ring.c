// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "trace/ring.h"
#include "util/error.h"

_Static_assert(sizeof(struct ring_slot) == LINE_SIZE, "a record is one cache line");

#define BYTES (RING_SIZE * sizeof(struct ring_slot))

int ring_init(struct ring *ring)
{
	void *slots = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (slots == MAP_FAILED)
		return error_set(-ENOMEM, "%zu bytes of address space for records: %s", (size_t)BYTES, strerror(errno));
	ring->slots = slots;
	atomic_init(&ring->head, 0);
	atomic_init(&ring->tail, 0);
	ring->taken = 0;
	return 0;
}

void ring_clear(struct ring *ring)
{
	munmap(ring->slots, BYTES);
	ring->slots = NULL;
}
