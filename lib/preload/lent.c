// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Two tables under one lock. A free looks at them, so most programs, which share nothing, find out by one load that
 * there is nothing to look for.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "preload/lent.h"

/* A program gives tens of blocks, or some hundreds, and opens fewer. */
#define BUCKETS 256

struct given {
	struct given *next;
	const void *base;
	int device;
	uint64_t number;
};

struct open_handle {
	struct open_handle *next;
	struct lent_opened is;
	long opens;			/* 0: it is being freed */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct given *given[BUCKETS];
static struct open_handle *opened;
static atomic_size_t entries;

/* In a forked child another thread may have had the lock when it was forked, and nothing of this works there. */
bool lent_any(void)
{
	return atomic_load_explicit(&entries, memory_order_relaxed) && !lender_in_child();
}

static size_t bucket_of(uint64_t address)
{
	return (address >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 56;
}

/* Where a block is noted, or NULL is; called with the lock held. */
static struct given **given_at(const void *base)
{
	struct given **at = &given[bucket_of((uintptr_t)base)];

	while (*at && (*at)->base != base)
		at = &(*at)->next;
	return at;
}

static struct given *unlink_given(struct given **at)
{
	struct given *it = *at;

	if (it)
		*at = it->next;
	return it;
}

static void drop_given(struct given *it)
{
	free(it);
	entries--;
}

uint64_t lent_give(const void *base, int device)
{
	static uint64_t last;
	struct given **at;
	uint64_t number;

	pthread_mutex_lock(&lock);
	at = given_at(base);
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (*at) {
			**at = (struct given){ .base = base, .device = device, .number = ++last };
			entries++;
		}
	}
	number = *at ? (*at)->number : 0;
	pthread_mutex_unlock(&lock);
	return number;
}

uint64_t lent_number(const void *base)
{
	const struct given *it;
	uint64_t number;

	if (!lent_any())
		return 0;
	pthread_mutex_lock(&lock);
	it = *given_at(base);
	number = it ? it->number : 0;
	pthread_mutex_unlock(&lock);
	return number;
}

/* Where one that @fits is noted, or NULL is; called with the lock held. */
static struct open_handle **opened_at(bool (*fits)(const struct lent_opened *it, const void *data), const void *data)
{
	struct open_handle **at = &opened;

	while (*at && !fits(&(*at)->is, data))
		at = &(*at)->next;
	return at;
}

static bool has_handle(const struct lent_opened *it, const void *data)
{
	const struct lent_opened *wanted = data;

	return it->device == wanted->device && !memcmp(&it->handle, &wanted->handle, sizeof(it->handle));
}

static bool has_base(const struct lent_opened *it, const void *base)
{
	return it->base == base;
}

static bool has_address(const struct lent_opened *it, const void *va)
{
	return it->va == *(const drv_deviceptr *)va;
}

static void drop_opened(struct open_handle **at)
{
	struct open_handle *it = *at;

	*at = it->next;
	free(it);
	entries--;
}

bool lent_open_again(const struct lender_name *handle, int device, drv_deviceptr *va)
{
	const struct lent_opened wanted = { .handle = *handle, .device = device };
	struct open_handle *it;

	pthread_mutex_lock(&lock);
	it = *opened_at(has_handle, &wanted);
	if (it) {
		it->opens++;
		*va = it->is.va;
	}
	pthread_mutex_unlock(&lock);
	return it;
}

bool lent_open(const struct lent_opened *is)
{
	struct open_handle *it = malloc(sizeof(*it));

	if (!it)
		return false;
	pthread_mutex_lock(&lock);
	*it = (struct open_handle){ .next = opened, .is = *is, .opens = 1 };
	opened = it;
	entries++;
	pthread_mutex_unlock(&lock);
	return true;
}

bool lent_free(const void *base, struct given **note)
{
	const struct open_handle *it;
	bool may;

	*note = NULL;
	if (!lent_any())
		return true;
	pthread_mutex_lock(&lock);
	it = *opened_at(has_base, base);
	may = !it || !it->opens;
	if (may)
		*note = unlink_given(given_at(base));
	pthread_mutex_unlock(&lock);
	return may;
}

void lent_freed(struct given *note, bool freed)
{
	struct given **at;

	if (!note)
		return;
	pthread_mutex_lock(&lock);
	at = given_at(note->base);
	if (freed || *at) {
		drop_given(note);
	} else {
		note->next = NULL;
		*at = note;
	}
	pthread_mutex_unlock(&lock);
}

long lent_close(drv_deviceptr va, struct lent_opened *is)
{
	struct open_handle *it;
	long left = -1;

	if (!lent_any())
		return -1;
	pthread_mutex_lock(&lock);
	it = *opened_at(has_address, &va);
	if (it && it->opens) {
		left = --it->opens;
		*is = it->is;
	}
	pthread_mutex_unlock(&lock);
	return left;
}

void lent_closed(drv_deviceptr va, bool freed)
{
	struct open_handle **at;

	pthread_mutex_lock(&lock);
	at = opened_at(has_address, &va);
	if (*at && freed)
		drop_opened(at);
	else if (*at)
		(*at)->opens++;
	pthread_mutex_unlock(&lock);
}

void lent_forget(int device)
{
	struct open_handle **open = &opened;
	struct given **give;
	size_t i;

	if (!lent_any())
		return;
	pthread_mutex_lock(&lock);
	for (i = 0; i < BUCKETS; i++) {
		give = &given[i];
		while (*give) {
			if ((*give)->device == device)
				drop_given(unlink_given(give));
			else
				give = &(*give)->next;
		}
	}
	while (*open) {
		if ((*open)->is.device == device)
			drop_opened(open);
		else
			open = &(*open)->next;
	}
	pthread_mutex_unlock(&lock);
}
