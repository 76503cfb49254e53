// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much address space the pools of a process may reserve. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/descriptor.h"
#include "util/error.h"
#include "util/room.h"

/* The pools' part of what they share with the heap, in twentieths. */
#define PART_SMALL 8
#define PART_LARGE 15

/* The address space of a process on x86-64. */
#define SPACE ((uint64_t)128 << 40)
/* Its part for what is reserved in advance, and the largest and the smallest share of that. */
#define PART_OF_SPACE(space) ((space) / 4 * 3)
#define SHARE 8
#define SHARE_LEAST 4096
/* So many times a share is there in one piece before it is taken. */
#define SHARE_SPARE 4

/* In bytes. */
struct room {
	uint64_t limit;
	uint64_t used;
	uint64_t reserved;	/* of it, by all pools */
	uint64_t shared;	/* what the pools have, plus what is unused */
};

static _Atomic uint64_t reserved;

/* All pools together reserve no more in advance, but for the smallest shares. */
static _Atomic uint64_t in_advance = PART_OF_SPACE(SPACE);

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

static bool is_there(uint64_t size)
{
	void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return range != MAP_FAILED && !munmap(range, size);
}

uint64_t room_share(uint64_t most)
{
	uint64_t have = reserved, all, share;

	for (;;) {
		all = in_advance;
		share = all > have ? (all - have) / SHARE : 0;
		share = share < most ? share : most;
		if (share <= all / SHARE_LEAST)
			return all / SHARE_LEAST < most ? all / SHARE_LEAST : most;
		if (is_there(share * SHARE_SPARE))
			return share;
		room_refused(share * SHARE_SPARE);
	}
}

/* A race can lose the smaller of two, which the next refusal tells again. */
void room_refused(uint64_t size)
{
	uint64_t all = PART_OF_SPACE(reserved + size);

	if (all < in_advance)
		in_advance = all;
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
