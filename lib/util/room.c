// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much address space the pools of a process may reserve. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/descriptor.h"
#include "util/error.h"
#include "util/room.h"

/* The pools' part of what they share with the heap, in twentieths. */
#define PART_SMALL 8
#define PART_LARGE 15

/* In bytes. */
struct room {
	uint64_t limit;
	uint64_t used;
	uint64_t reserved;	/* of it, by all pools */
	uint64_t shared;	/* what the pools have, plus what is unused */
};

static _Atomic uint64_t reserved;

/* The address space that the kernel counts towards RLIMIT_AS. */
static bool read_used(uint64_t *used)
{
	int fd = descriptor_raise(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
	char text[64], *end;
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	*used = strtoull(text, &end, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
	return end != text;
}

static bool room_read(struct room *room)
{
	struct rlimit limit;
	uint64_t rest;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return false;
	room->limit = limit.rlim_cur;
	room->reserved = reserved;
	/* Without /proc, guess half of the limit: not far off in either direction. */
	if (!read_used(&room->used))
		room->used = room->limit / 2 > room->reserved ? room->limit / 2 : room->reserved;
	rest = room->used > room->reserved ? room->used - room->reserved : 0;
	room->shared = room->limit > rest ? room->limit - rest : 0;
	return true;
}

/* The rest of this part. */
static uint64_t room_left(const struct room *room, unsigned int part)
{
	uint64_t most = room->shared / 20 * part;

	return most > room->reserved ? most - room->reserved : 0;
}

uint64_t room_ahead(void)
{
	struct room room;

	return room_read(&room) ? room_left(&room, PART_SMALL) / 2 : UINT64_MAX;
}

int room_check(uint64_t size, bool small)
{
	struct room room;

	if (!room_read(&room) || size <= room_left(&room, small ? PART_SMALL : PART_LARGE))
		return 0;
	return error_set(-ENOMEM,
			 "address space: %" PRIu64 " bytes of the %" PRIu64 " that RLIMIT_AS allows are in use,"
			 " and %" PRIu64 " more would leave too little to the rest of the process", room.used,
			 room.limit, size);
}

void room_add(uint64_t size)
{
	reserved += size;
}

void room_sub(uint64_t size)
{
	reserved -= size;
}
