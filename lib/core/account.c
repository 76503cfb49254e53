// SPDX-License-Identifier: LGPL-2.1-or-later
/* Statistics of allocated and held memory: what is live, and peaks. */
#include <stdatomic.h>

#include "budget/budget.h"
#include "core/account.h"
#include "core/cache.h"
#include "core/core.h"
#include "util/error.h"

void account_init(struct account *account)
{
	brief_init(&account->lock, LOCK_ACCOUNT);
	account->caches = g_ptr_array_new();
	account->donors = g_ptr_array_new();
}

void account_clear(struct account *account)
{
	g_ptr_array_free(account->caches, TRUE);
	g_ptr_array_free(account->donors, TRUE);
}

void account_add(struct account *account, struct cache *cache)
{
	brief_acquire(&account->lock);
	g_ptr_array_add(account->caches, cache);
	g_ptr_array_add(account->donors, cache);
	brief_release(&account->lock);
}

/* Always in the same order, and by one thread at a time, as the account's lock is held. */
NO_LOCK_ANALYSIS
static void lock_caches(struct account *account)
{
	for (guint i = 0; i < account->caches->len; i++)
		brief_acquire(&((struct cache *)account->caches->pdata[i])->lock);
}

NO_LOCK_ANALYSIS
static void unlock_caches(struct account *account)
{
	for (guint i = 0; i < account->caches->len; i++)
		brief_release(&((struct cache *)account->caches->pdata[i])->lock);
}

NO_LOCK_ANALYSIS
void account_lock_all(struct account *account)
{
	brief_acquire(&account->lock);
	lock_caches(account);
}

NO_LOCK_ANALYSIS
void account_unlock_all(struct account *account)
{
	unlock_caches(account);
	brief_release(&account->lock);
}

/* What is missing, and half of the rest, so that whoever needs it need not come back for each call. */
static uint64_t share(uint64_t there, uint64_t missing)
{
	return there > missing ? missing + (there - missing) / 2 : there;
}

static bool is_covered(const struct account *account, const struct footprint *need)
{
	return account->spare.rounded >= need->rounded && account->spare.requested >= need->requested;
}

/* Moves headroom of a cache, whose lock is held, to the spare. Return: whether it had any that is needed. */
static bool take_headroom(struct account *account, struct cache *cache, const struct footprint *need)
{
	struct footprint *spare = &account->spare;
	struct footprint part = { 0 };

	brief_assert_held(&cache->lock);
	if (spare->rounded < need->rounded)
		part.rounded = share(cache_headroom(cache), need->rounded - spare->rounded);
	if (spare->requested < need->requested)
		part.requested = share(cache->room, need->requested - spare->requested);
	cache->floor += (int64_t)part.rounded;
	cache->room -= part.requested;
	spare->rounded += part.rounded;
	spare->requested += part.requested;
	return part.rounded || part.requested;
}

static void give(struct account *account, struct cache *cache, const struct footprint *part)
{
	brief_assert_held(&cache->lock);
	account->spare.rounded -= part->rounded;
	account->spare.requested -= part->requested;
	cache->floor -= (int64_t)part->rounded;
	cache->room += part->requested;
}

/* Sees to it that the spare headroom is enough. Return: false if that is not to be had with one lock at a time. */
static bool gather(struct account *account, const struct footprint *need)
{
	gpointer *donors = account->donors->pdata;

	for (guint i = 0; i < account->donors->len && !is_covered(account, need); i++) {
		struct cache *cache = donors[i];
		bool any;

		brief_acquire(&cache->lock);
		any = take_headroom(account, cache, need);
		brief_release(&cache->lock);
		if (!any)
			continue;
		donors[i] = donors[0];
		donors[0] = cache;
	}
	return is_covered(account, need);
}

/* With the locks of all caches held: what is missing now, is missing at one moment. */
static void cover_need(struct account *account, const struct footprint *need)
{
	struct footprint *spare = &account->spare, *peak = &account->peak;

	for (guint i = 0; i < account->caches->len && !is_covered(account, need); i++)
		take_headroom(account, account->caches->pdata[i], need);
	if (spare->rounded < need->rounded) {
		peak->rounded += need->rounded - spare->rounded;
		spare->rounded = need->rounded;
	}
	if (spare->requested < need->requested) {
		peak->requested += need->requested - spare->requested;
		spare->requested = need->requested;
	}
}

void account_enter(struct account *account, uint64_t rounded, uint64_t requested)
{
	const struct footprint need = { .rounded = rounded, .requested = requested };

	brief_acquire(&account->lock);
	if (!is_covered(account, &need) && !gather(account, &need)) {
		lock_caches(account);
		cover_need(account, &need);
		unlock_caches(account);
	}
	account->spare.rounded -= rounded;
	account->spare.requested -= requested;
	brief_release(&account->lock);
}

void account_leave(struct account *account, uint64_t rounded, uint64_t requested)
{
	brief_acquire(&account->lock);
	account->spare.rounded += rounded;
	account->spare.requested += requested;
	brief_release(&account->lock);
}

bool account_fund(struct account *account, struct cache *cache, uint64_t rounded, uint64_t requested)
{
	const struct footprint need = { .rounded = rounded, .requested = requested };
	struct footprint part;
	bool enough;

	brief_acquire(&account->lock);
	enough = gather(account, &need);
	if (enough) {
		part.rounded = share(account->spare.rounded, rounded);
		part.requested = share(account->spare.requested, requested);
		brief_acquire(&cache->lock);
		give(account, cache, &part);
		brief_release(&cache->lock);
	}
	brief_release(&account->lock);
	return enough;
}

void account_cover(struct account *account, struct cache *cache, uint64_t rounded, uint64_t requested)
{
	const struct footprint need = { .rounded = rounded, .requested = requested };

	brief_assert_held(&account->lock);
	cover_need(account, &need);
	give(account, cache, &need);
}

static struct footprint headroom(const struct account *account)
{
	struct footprint sum = account->spare;

	for (guint i = 0; i < account->caches->len; i++) {
		const struct cache *cache = account->caches->pdata[i];

		brief_assert_held(&cache->lock);
		sum.rounded += cache_headroom(cache);
		sum.requested += cache->room;
	}
	return sum;
}

void account_live(const struct account *account, struct footprint *live)
{
	struct footprint left = headroom(account);

	brief_assert_held(&account->lock);
	live->rounded = account->peak.rounded - left.rounded;
	live->requested = account->peak.requested - left.requested;
}

void account_read(struct account *account, struct footprint *live, struct footprint *peak)
{
	account_lock_all(account);
	brief_assert_held(&account->lock);
	account_live(account, live);
	*peak = account->peak;
	account_unlock_all(account);
}

void account_reset(struct account *account)
{
	account_lock_all(account);
	brief_assert_held(&account->lock);
	account->before = MAX(account->before, account->peak.rounded);
	account_live(account, &account->peak);
	account->spare = (struct footprint){ 0 };
	for (guint i = 0; i < account->caches->len; i++) {
		struct cache *cache = account->caches->pdata[i];

		cache->floor = (int64_t)cache->bytes;
		cache->room = 0;
	}
	account_unlock_all(account);
}

uint64_t account_most(struct account *account)
{
	uint64_t most;

	brief_acquire(&account->lock);
	most = MAX(account->before, account->peak.rounded);
	brief_release(&account->lock);
	return most;
}

static void add_cache(struct cache_sums *sums, struct cache *cache)
{
	brief_acquire(&cache->lock);
	sums->mallocs += cache->mallocs;
	sums->frees += cache_frees(cache);
	sums->bytes += cache->bytes + cache->stranded_bytes;
	brief_release(&cache->lock);
}

void cache_sum(struct core *core, struct cache_sums *sums)
{
	*sums = (struct cache_sums){ .mallocs = core->streams.mallocs, .frees = core->streams.frees };
	for_each_stream(stream, &core->streams)
		add_cache(sums, stream->cache);
}

uint64_t cache_bytes(struct core *core)
{
	struct cache_sums sums;

	cache_sum(core, &sums);
	return sums.bytes;
}

uint64_t cache_withheld(struct cache *cache)
{
	uint64_t bytes;

	brief_acquire(&cache->lock);
	bytes = cache->bytes + cache->stranded_bytes;
	brief_release(&cache->lock);
	return bytes;
}

/* Of a pool and its arenas together. */
static void note_most(struct extent_map *map, uint64_t small)
{
	uint64_t now = atomic_load(map->taken) + small, most = atomic_load(map->most);

	while (now > most && !atomic_compare_exchange_weak(map->most, &most, now))
		;
}

void account_note_taken(struct core *core)
{
	uint64_t mapped = core_resident(core);
	uint64_t small = 0, peak = 0;
	struct error_kept kept;

	lock_assert_held(&core->lock);
	/* A peak is worth no error: what cannot be queried does not count. */
	error_keep(&kept);
	if (core->backend->ops->small_held(core->backend, &small, &peak))
		small = peak = 0;
	error_restore(&kept);
	/* The driver's own peak goes back further than the latest reset. */
	core->peak_small = MAX(core->peak_small, peak > core->small_past ? peak : small);
	core->peak_mapped = MAX(core->peak_mapped, mapped);
	core->peak_taken = MAX(core->peak_taken, mapped + core->shareable + core->shared + small);
	note_most(&core->extents, small);
}

/* Free bytes that other pools could have at once. */
static uint64_t bytes_idle(const struct core *core)
{
	/* A tag that is paused, or about to be paused or resumed, must keep its mappings. */
	if (core->resting)
		return 0;
	if (core->regions.keeps)
		return core->extents.whole_bytes;
	return core_mapped(core) - MIN(core_mapped(core), core_live(core));
}

void account_tell(struct core *core)
{
	struct extent_map *extents = &core->extents;

	lock_assert_held(&core->lock);
	if (extents->budget)
		budget_tell(extents->budget, &extents->part, extent_taken(extents), bytes_idle(core));
}
