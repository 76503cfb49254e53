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
 * One entry for each release that made a structure larger. An entry never changes once it is released: programs that
 * were built with that header pass this size.
 */
#define OPTS_0_1 SIZE_TO(vpmm_opts, plan)
#define INFO_0_1 SIZE_TO(vpmm_info, plan)
#define STATS_0_1 SIZE_TO(vpmm_stats, unsettled)
#define FORECAST_0_1 SIZE_TO(vpmm_forecast, largest)
#define ALLOCATION_0_1 SIZE_TO(vpmm_allocation, bytes)
#define SHARED_STATS_0_1 SIZE_TO(vpmm_shared_stats, read_copies)
#define MIGRATE_OPS_0_1 SIZE_TO(vpmm_migrate_ops, finalize_and_map)
#define TAG_STATS_0_1 SIZE_TO(vpmm_tag_stats, kept)
#define MIRROR_OPS_0_1 SIZE_TO(vpmm_mirror_ops, update)

static const size_t opts_sizes[] = { OPTS_0_1 };
static const size_t info_sizes[] = { INFO_0_1 };
static const size_t stats_sizes[] = { STATS_0_1 };
static const size_t forecast_sizes[] = { FORECAST_0_1 };
static const size_t allocation_sizes[] = { ALLOCATION_0_1 };
static const size_t shared_stats_sizes[] = { SHARED_STATS_0_1 };
static const size_t migrate_ops_sizes[] = { MIGRATE_OPS_0_1 };
static const size_t tag_stats_sizes[] = { TAG_STATS_0_1 };
static const size_t mirror_ops_sizes[] = { MIRROR_OPS_0_1 };

/* A member was added without its version. */
_Static_assert(sizeof(struct vpmm_opts) == OPTS_0_1, "struct vpmm_opts has grown: add its size");
_Static_assert(sizeof(struct vpmm_info) == INFO_0_1, "struct vpmm_info has grown: add its size");
_Static_assert(sizeof(struct vpmm_stats) == STATS_0_1, "struct vpmm_stats has grown: add its size");
_Static_assert(sizeof(struct vpmm_forecast) == FORECAST_0_1, "struct vpmm_forecast has grown: add its size");
_Static_assert(sizeof(struct vpmm_allocation) == ALLOCATION_0_1, "struct vpmm_allocation has grown: add its size");
_Static_assert(sizeof(struct vpmm_shared_stats) == SHARED_STATS_0_1,
	       "struct vpmm_shared_stats has grown: add its size");
_Static_assert(sizeof(struct vpmm_migrate_ops) == MIGRATE_OPS_0_1, "struct vpmm_migrate_ops has grown: add its size");
_Static_assert(sizeof(struct vpmm_tag_stats) == TAG_STATS_0_1, "struct vpmm_tag_stats has grown: add its size");
_Static_assert(sizeof(struct vpmm_mirror_ops) == MIRROR_OPS_0_1, "struct vpmm_mirror_ops has grown: add its size");

#define SIZED(name, sizes) { name, sizes, sizeof(sizes) / sizeof((sizes)[0]) }

const struct sized sized_opts = SIZED("vpmm_opts", opts_sizes);
const struct sized sized_info = SIZED("vpmm_info", info_sizes);
const struct sized sized_stats = SIZED("vpmm_stats", stats_sizes);
const struct sized sized_forecast = SIZED("vpmm_forecast", forecast_sizes);
const struct sized sized_allocation = SIZED("vpmm_allocation", allocation_sizes);
const struct sized sized_shared_stats = SIZED("vpmm_shared_stats", shared_stats_sizes);
const struct sized sized_migrate_ops = SIZED("vpmm_migrate_ops", migrate_ops_sizes);
const struct sized sized_tag_stats = SIZED("vpmm_tag_stats", tag_stats_sizes);
const struct sized sized_mirror_ops = SIZED("vpmm_mirror_ops", mirror_ops_sizes);

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
