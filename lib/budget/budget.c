// SPDX-License-Identifier: LGPL-2.1-or-later
/* Joins a budget, and takes parts of it. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "budget/inside.h"
#include "budget/parse.h"
#include "util/at-most.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/pids.h"
#include "util/text.h"

/* Budgets with a locked slot, whose descriptors a forked child closes; NULL: none. */
#define KEPT 1024
static struct budget *_Atomic kept[KEPT];

static off_t byte_of(const struct budget *budget, const struct budget_slot *slot)
{
	return BUDGET_BYTE_SLOT + (slot - budget->file->slots);
}

/* Of a slot whose lock this process has, or that nobody else can get. */
static void empty_slot(struct budget_slot *slot)
{
	atomic_store(&slot->want, 0);
	atomic_store(&slot->taken, 0);
	atomic_store(&slot->floor, 0);
	atomic_store(&slot->idle, 0);
	atomic_store(&slot->ask, 0);
	atomic_store(&slot->pid, 0);
}

static bool is_slot_empty(const struct budget_slot *slot)
{
	return !atomic_load(&slot->taken) && !atomic_load(&slot->want) && !atomic_load(&slot->floor) &&
	       !atomic_load(&slot->pid);
}

uint64_t budget_others(const struct budget *budget, bool wants)
{
	uint64_t size = budget_size(budget), sum = 0;

	for_each_other(slot, budget) {
		/*
		 * The order matters: bytes that the pool takes between the two reads count twice. Otherwise they would
		 * not count.
		 */
		uint64_t want = wants ? load_at_most(&slot->want, size) : 0;
		uint64_t taken = load_at_most(&slot->taken, size), floor = load_at_most(&slot->floor, size);

		sum += MAX(taken + want, floor);
	}
	return sum;
}

const char *budget_name(const struct budget *budget)
{
	return budget->name;
}

const char *budget_text(const struct budget *budget)
{
	return budget->text;
}

uint64_t budget_size(const struct budget *budget)
{
	/* So that sums do not overflow. */
	return load_at_most(&budget->file->size, UINT64_MAX / 4 / BUDGET_SLOTS);
}

/* Bytes of the other parts of the slot. */
static uint64_t beside(const struct budget *budget, const struct budget_part *part)
{
	return atomic_load(&budget->taken) - part->taken;
}

uint64_t budget_taken(struct budget *budget, const struct budget_part *part)
{
	uint64_t taken;

	lock_acquire(&budget->lock);
	taken = atomic_load(&budget->slot->taken) - beside(budget, part);
	lock_release(&budget->lock);
	return taken;
}

uint64_t budget_room(const struct budget *budget, const struct budget_part *part, uint64_t total)
{
	uint64_t size = budget_size(budget), taken = budget_others(budget, true) + beside(budget, part) + total;

	return size > taken ? size - taken : 0;
}

uint64_t budget_idle(const struct budget *budget)
{
	uint64_t size = budget_size(budget), sum = 0;

	for_each_other(slot, budget) {
		uint64_t taken = atomic_load(&slot->taken), floor = atomic_load(&slot->floor);

		sum += taken > floor ? load_at_most(&slot->idle, MIN(taken - floor, size)) : 0;
	}
	return sum;
}

/*
 * First says what it wants, then looks what the others have: of two that do this at once, one at least sees both. It is
 * another that has the bytes only where the sum without wants is too large.
 */
static bool try_to_take(struct budget *budget, uint64_t total, bool *contended)
{
	struct budget_slot *slot = budget->slot;
	uint64_t size = budget_size(budget);
	bool fits;

	if (total > size)
		return *contended = false;
	atomic_store(&slot->want, total - atomic_load(&budget->taken));
	fits = budget_others(budget, true) <= size - total;
	if (fits)
		atomic_store(&slot->taken, total);
	atomic_store(&slot->want, 0);
	*contended = !fits && budget_others(budget, false) <= size - total;
	return fits;
}

void budget_tell(struct budget *budget, struct budget_part *part, uint64_t total, uint64_t idle)
{
	struct budget_slot *slot = budget->slot;
	uint64_t before = part->taken;

	if (budget->locks.fd < 0)
		return;
	lock_acquire(&budget->lock);
	budget->idle += idle - part->idle;
	if (before != total)
		atomic_store(&slot->taken, atomic_fetch_add(&budget->taken, total - before) + total - before);
	*part = (struct budget_part){ .taken = total, .idle = idle };
	atomic_store_explicit(&slot->idle, budget->idle, memory_order_relaxed);
	atomic_store_explicit(&slot->last, clock_ns(), memory_order_relaxed);
	lock_release(&budget->lock);
	if (before > total)
		futex_bump(&budget->file->released);
}

/*
 * The time when a process began: a number that was given to another process since has another. 0: /proc does not tell.
 */
static uint64_t birth_of(uint32_t pid)
{
	char name[32], text[512], *at;
	uint64_t when = 0;
	size_t length;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%u/stat", pid);
	file = fopen(name, "re");
	if (!file)
		return 0;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	/* The name of the program can have spaces and parentheses. */
	at = strrchr(text, ')');
	if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
			 &when) != 1)
		when = 0;
	return when;
}

/* A child of a raw clone() has the parent's descriptors, and no handler closes them. */
static bool is_orphan(const struct budget_slot *slot)
{
	uint32_t pid = atomic_load(&slot->pid);
	uint64_t began = atomic_load(&slot->born);

	if (!pid || pid > G_MAXINT32 || !atomic_load(&slot->space) || atomic_load(&slot->space) != pids_namespace())
		return false;
	if (kill((pid_t)pid, 0) && errno == ESRCH)
		return true;
	return began && birth_of(pid) && birth_of(pid) != began;
}

static bool is_locked(const struct budget *budget, const struct budget_slot *slot)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte_of(budget, slot), .l_len = 1 };

	return fcntl(budget->locks.fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

static bool is_dead(const struct budget *budget, const struct budget_slot *slot)
{
	return !is_slot_empty(slot) && (!is_locked(budget, slot) || is_orphan(slot));
}

/*
 * The lock of joining is held, as a pool that joins could take the slot between the check and the end. Threads of a
 * pool have that lock in common, so one at a time is here. The slot's own lock is not held: a pool that joins counts
 * each slot that it cannot lock as a living pool's.
 */
static bool bury(struct budget *budget, struct budget_slot *slot)
{
	bool dead;

	if (!is_dead(budget, slot) || budget_lock_byte(budget->locks.fd, BUDGET_BYTE_JOIN, F_WRLCK))
		return false;
	dead = is_dead(budget, slot);
	if (dead)
		empty_slot(slot);
	budget_lock_byte(budget->locks.fd, BUDGET_BYTE_JOIN, F_UNLCK);
	return dead;
}

static bool bury_all(struct budget *budget)
{
	bool any = false;

	lock_assert_held(&budget->lock);
	/* If the program has closed the descriptor, another file can have its number. That file has no locks. */
	if (!descriptor_is_own(&budget->locks))
		return false;
	for_each_other(slot, budget)
		any |= bury(budget, slot);
	if (any) {
		atomic_store(&budget->file->died, clock_ns());
		futex_bump(&budget->file->released);
	}
	return any;
}

bool budget_bury(struct budget *budget)
{
	bool any;

	lock_acquire(&budget->lock);
	any = bury_all(budget);
	lock_release(&budget->lock);
	return any;
}

uint64_t budget_since_death(const struct budget *budget)
{
	uint64_t died = atomic_load(&budget->file->died), now = clock_ns();

	return died && died <= now ? now - died : UINT64_MAX;
}

/* Tries while others are about to take, which lasts nanoseconds. */
#define TRIES 100

static bool take_for_all(struct budget *budget, uint64_t total)
{
	bool contended;

	for (int tries = 0; tries < TRIES; tries++) {
		if (try_to_take(budget, total, &contended))
			return true;
		/* A process that has ended may have been about to take some. */
		if (!tries && bury_all(budget))
			continue;
		if (!contended)
			return false;
		g_usleep((gulong)g_random_int_range(1, 50));
	}
	return false;
}

bool budget_take(struct budget *budget, struct budget_part *part, uint64_t total)
{
	bool taken;

	if (total <= part->taken || budget->locks.fd < 0)
		return true;
	lock_acquire(&budget->lock);
	taken = take_for_all(budget, beside(budget, part) + total);
	if (taken) {
		atomic_fetch_add(&budget->taken, total - part->taken);
		part->taken = total;
	}
	lock_release(&budget->lock);
	return taken;
}

/* What there is when a pool joins, with the lock that excludes others. */
struct found {
	unsigned int living;
	uint64_t floors;
	struct budget_slot *free;
};

/* Empties the slots of the dead, and leaves the first of them locked. */
static void look_at_slots(struct budget *budget, struct found *found)
{
	*found = (struct found){ 0 };
	for (unsigned int i = 0; i < BUDGET_SLOTS; i++) {
		struct budget_slot *slot = &budget->file->slots[i];

		if (budget_lock_byte(budget->locks.fd, byte_of(budget, slot), F_WRLCK)) {
			found->living++;
			found->floors += load_at_most(&slot->floor, budget_size(budget));
			continue;
		}
		empty_slot(slot);
		if (!found->free)
			found->free = slot;
		else
			budget_lock_byte(budget->locks.fd, byte_of(budget, slot), F_UNLCK);
		if (found->free && i >= budget_used(budget))
			break;
	}
}

static int agree_on_terms(struct budget *budget, const struct budget_terms *terms, uint64_t size,
			  const struct found *found)
{
	uint64_t there = budget_size(budget);

	if (!found->free)
		return error_set(-EBUSY, "%s: has %d pools already", budget->name, BUDGET_SLOTS);
	if (!found->living) {
		there = size ? size : terms->memory;
		atomic_store(&budget->file->size, there);
		there = budget_size(budget);
	} else if (size && size != there) {
		return error_set(-EINVAL, "%s: size is %" PRIu64 ", but other pools have it with %"
				 PRIu64 " bytes", budget->name, size, there);
	}
	if (found->floors > there || terms->floor > there - found->floors)
		return error_set(-EINVAL, "%s: VPMM_BUDGET_FLOOR is %" PRIu64 ", but of the %"
				 PRIu64 " bytes other pools are sure of %" PRIu64, budget->name,
				 terms->floor, there, found->floors);
	return 0;
}

static void occupy_slot(struct budget *budget, const struct budget_terms *terms, struct budget_slot *slot)
{
	const char *program = program_invocation_short_name;

	budget->slot = slot;
	budget->own = (unsigned int)(slot - budget->file->slots);
	atomic_store(&slot->weight, terms->weight ? terms->weight : 1);
	atomic_store(&slot->answered, 0);
	atomic_store(&slot->space, pids_namespace());
	atomic_store(&slot->born, birth_of((uint32_t)getpid()));
	for (size_t i = 0, end = strlen(program); i < sizeof(slot->program); i++)
		atomic_store(&slot->program[i], i < end && i + 1 < sizeof(slot->program) ? program[i] : '\0');
	atomic_store(&slot->last, clock_ns());
	atomic_store(&slot->pid, (uint32_t)getpid());
	atomic_store(&slot->floor, terms->floor);
	if (budget->own >= budget_used(budget))
		atomic_store(&budget->file->used, budget->own + 1);
}

static int note_budget(struct budget *budget)
{
	for (size_t i = 0; i < KEPT; i++) {
		struct budget *none = NULL;

		if (atomic_compare_exchange_strong(&kept[i], &none, budget)) {
			budget->kept = &kept[i];
			return 0;
		}
	}
	return error_set(-EBUSY, "%s: the process has %d pools with a budget already", budget->name, KEPT);
}

static int join_file(struct budget *budget, const struct budget_terms *terms, uint64_t size)
{
	struct found found;
	int err;

	err = note_budget(budget);
	if (err)
		return err;
	err = budget_lock_join(budget->locks.fd, budget->name);
	if (err)
		goto err_kept;
	look_at_slots(budget, &found);
	err = agree_on_terms(budget, terms, size, &found);
	if (!err)
		occupy_slot(budget, terms, found.free);
	budget_lock_byte(budget->locks.fd, BUDGET_BYTE_JOIN, F_UNLCK);
	if (err)
		goto err_kept;
	return 0;

err_kept:
	atomic_store(budget->kept, NULL);
	return err;
}

int budget_join(const struct budget_terms *terms, struct budget **budget)
{
	struct budget *made;
	const char *why;
	size_t length;
	uint64_t size;
	char *path;
	int err;

	why = budget_parse(terms->name, &length, &size);
	if (why)
		return error_set(-EINVAL, "VPMM_BUDGET=%.200s: %s", terms->name, why);
	made = g_new0(struct budget, 1);
	lock_init(&made->lock, LOCK_BUDGET);
	made->name = g_strndup(terms->name, length);
	path = budget_path(made->name, terms->uuid);
	err = budget_open(path, !strchr(made->name, '/'), &made->locks, &made->file);
	g_free(path);
	if (err)
		goto err_free;
	err = join_file(made, terms, size);
	if (err)
		goto err_close;
	path = g_strdup_printf("%s:%" PRIu64, made->name, budget_size(made));
	made->text = g_intern_string(path);
	g_free(path);
	*budget = made;
	return 0;

err_close:
	budget_close(&made->locks, made->file);
err_free:
	lock_destroy(&made->lock);
	g_free(made->name);
	g_free(made);
	return error_add(err, "VPMM_BUDGET");
}

void budget_leave(struct budget *budget)
{
	empty_slot(budget->slot);
	/* First, so that a child of a fork does not close what has the number next. */
	atomic_store(budget->kept, NULL);
	/* Otherwise the mapping would keep it. */
	if (descriptor_is_own(&budget->locks))
		budget_lock_byte(budget->locks.fd, byte_of(budget, budget->slot), F_UNLCK);
	descriptor_close(&budget->locks);
	futex_bump(&budget->file->released);
}

void budget_free(struct budget *budget)
{
	if (!budget)
		return;
	budget_close(&budget->locks, budget->file);
	lock_destroy(&budget->lock);
	g_free(budget->name);
	g_free(budget);
}

void budget_forked(void)
{
	for (size_t i = 0; i < KEPT; i++) {
		struct budget *budget = atomic_exchange(&kept[i], NULL);

		if (budget)
			descriptor_close(&budget->locks);
	}
}
