// SPDX-License-Identifier: LGPL-2.1-or-later
/* The sizes that public structures have had, and the conversions between them. */
#include <errno.h>
#include <string.h>

#include "util/error.h"
#include "util/sized.h"
#include "vpmm-shared.h"
#include "vpmm.h"

/* sizeof a structure when @last was its last member. */
#define SIZE_TO(type, last) \
	((offsetof(struct type, last) + sizeof(((struct type *)NULL)->last) + _Alignof(struct type) - 1) / \
	 _Alignof(struct type) * _Alignof(struct type))

/*
 * A structure, its last member, and its size in each release that made it larger. A size never changes once it is
 * released: programs that were built with that header pass it.
 */
#define SIZED(name, last, ...) \
	_Static_assert(sizeof(struct vpmm_##name) == SIZE_TO(vpmm_##name, last), \
		       "struct vpmm_" #name " has grown: add its size"); \
	static const size_t name##_sizes[] = { __VA_ARGS__ }; \
	const struct sized sized_##name = { "vpmm_" #name, name##_sizes, sizeof(name##_sizes) / sizeof(name##_sizes[0]) }

SIZED(opts, plan, SIZE_TO(vpmm_opts, plan));
SIZED(info, plan, SIZE_TO(vpmm_info, plan));
SIZED(stats, unsettled, SIZE_TO(vpmm_stats, unsettled));
SIZED(forecast, largest, SIZE_TO(vpmm_forecast, largest));
SIZED(allocation, bytes, SIZE_TO(vpmm_allocation, bytes));
SIZED(shared_stats, read_copies, SIZE_TO(vpmm_shared_stats, read_copies));
SIZED(migrate_ops, finalize_and_map, SIZE_TO(vpmm_migrate_ops, finalize_and_map));
SIZED(tag_stats, kept, SIZE_TO(vpmm_tag_stats, kept));
SIZED(mirror_ops, update, SIZE_TO(vpmm_mirror_ops, update));

static size_t size_here(const struct sized *sized)
{
	return sized->sizes[sized->count - 1];
}

static size_t size_of(const void *theirs)
{
	return *(const size_t *)theirs;
}

int sized_check(const struct sized *sized, const char *what, const void *theirs)
{
	size_t size;

	if (!theirs)
		return error_set(-EINVAL, "%s is NULL", what);
	size = size_of(theirs);
	if (size > size_here(sized) && size <= SIZED_MOST)
		return 0;
	for (size_t i = 0; i < sized->count; i++) {
		if (size == sized->sizes[i])
			return 0;
	}
	return error_set(-EINVAL, "%s.size is %zu: expected sizeof(struct %s), %zu", what, size, sized->name,
			 size_here(sized));
}

int sized_import(const struct sized *sized, void *known, const void *theirs)
{
	size_t here = size_here(sized), size = size_of(theirs);
	const unsigned char *bytes = theirs;

	for (size_t i = here; i < size; i++) {
		if (bytes[i])
			return error_set(-E2BIG, "%s.size is %zu, and what follows the %zu bytes that this library "
					 "knows is not zero", sized->name, size, here);
	}
	memset(known, 0, here);
	memcpy(known, theirs, size < here ? size : here);
	memcpy(known, &here, sizeof(here));
	return 0;
}

/*
 * A compiler that inlines this into a caller with a structure of today's size would warn that the clear goes past its
 * end.
 */
__attribute__((noinline))
void sized_export(const struct sized *sized, void *theirs, const void *known)
{
	size_t here = size_here(sized), size = size_of(theirs), common = size < here ? size : here;

	memcpy((char *)theirs + sizeof(size), (const char *)known + sizeof(size), common - sizeof(size));
	if (size > here)
		memset((char *)theirs + here, 0, size - here);
}
