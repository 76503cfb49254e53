// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls/plan-file.h"
#include "calls/pool.h"
#include "core/cache.h"
#include "util/descriptor.h"
#include "util/error.h"
#include "warm/plan-text.h"

/*
 * Far from where Linux puts libraries, heaps and what asks for no address, so that it is free in every process. Each
 * pool of a process has a part, whatever its file is called, the slabs behind the rest.
 */
#define BEGIN ((uint64_t)24 << 40)
#define PART ((uint64_t)20 << 40)
#define SLABS ((uint64_t)10 << 40)
#define PARTS 3

/* As many links in a row as Linux follows. */
#define LINKS_MOST 40

/* So long the exit of a process waits for a thread that is in a call. */
#define EXIT_MS 1000

/**
 * struct plan_file - the file of a pool
 * @pool: the pool
 * @asked: its name, as it was asked for
 * @number: from 1: of pools of the process that have asked for it
 * @part: from 0: of the addresses
 * @name: of the file, for the life of the process
 * @device: the backend and the name of the device
 */
struct plan_file {
	struct vpmm_pool *pool;
	const char *asked;
	unsigned int number;
	unsigned int part;
	const char *name;
	char *device;
};

static struct lock plans_lock = LOCK_INIT(LOCK_PLANS);

/* Of struct plan_file. */
static GSList *plans GUARDED_BY(&plans_lock);

static pid_t process;

/* Whether a lock is held now, at the exit of the process. */
static bool acquire_at_exit(struct lock *lock) NO_LOCK_ANALYSIS;
static bool acquire_at_exit(struct lock *lock)
{
	for (int ms = 0; ms < EXIT_MS; ms++) {
		if (lock_try(lock))
			return true;
		g_usleep(1000);
	}
	return false;
}

static uint64_t served(struct vpmm_pool *pool)
{
	struct cache_sums cached;

	cache_sum(&pool->core, &cached);
	return pool->core.counts.mallocs + cached.mallocs;
}

GString *plan_file_text(struct vpmm_pool *pool)
{
	struct warm *warm = warm_take(&pool->core);
	GString *text = plan_text_write(warm, pool->plan->device);

	warm_free(warm);
	return text;
}

static int write_text(int fd, const GString *text)
{
	size_t done = 0;

	if (!descriptor_may_have(fd, text->len))
		return -errno;
	while (done < text->len) {
		ssize_t n = write(fd, text->str + done, text->len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/*
 * Beside the file, so that it can be renamed, by a name of its own, as that of the file may be as long as there can be;
 * whoever could read the file before can read it, or who the umask allows to.
 */
static int write_beside(const char *name, const GString *text, mode_t before)
{
	char *folder = g_path_get_dirname(name);
	char *beside = g_strdup_printf("%s/.vpmm-plan.%ld.XXXXXX", folder, (long)getpid());
	int fd, err;

	fd = descriptor_raise(g_mkstemp_full(beside, O_WRONLY | O_CLOEXEC, 0666));
	err = fd < 0 || (before && fchmod(fd, before)) ? -errno : write_text(fd, text);
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	if (!err && rename(beside, name))
		err = -errno;
	if (err)
		unlink(beside);
	g_free(beside);
	g_free(folder);
	return err;
}

/* Whether a plan may take the place of what the name has: only of a plan, or of an empty file, with its permissions. */
static int check_old(const char *name, mode_t *permissions)
{
	char begin[sizeof(PLAN_TEXT_BEGIN) - 1];
	int fd = descriptor_raise(open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)), err = 0;
	struct stat st;
	ssize_t n;

	*permissions = 0;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st)) {
		err = -errno;
	} else if (!S_ISREG(st.st_mode)) {
		err = -EINVAL;
	} else {
		*permissions = st.st_mode & 0777;
		n = read(fd, begin, sizeof(begin));
		if (n < 0)
			err = -errno;
		else if (memcmp(begin, PLAN_TEXT_BEGIN, (size_t)n))
			err = -EINVAL;
	}
	close(fd);
	return err;
}

/* Follows links, also to a file that is still to come, so that they stay. Free the path with g_free(). */
static char *follow_links(const char *name)
{
	char *path = g_strdup(name), *target;

	for (unsigned int i = 0; i < LINKS_MOST && (target = g_file_read_link(path, NULL)); i++) {
		char *folder = g_path_get_dirname(path);

		g_free(path);
		path = g_path_is_absolute(target) ? g_strdup(target) : g_build_filename(folder, target, NULL);
		g_free(folder);
		g_free(target);
	}
	return path;
}

/* As check_old(), and whether a file can be created beside it. */
static int check_plan_place(const char *name)
{
	char *path = follow_links(name), *folder = g_path_get_dirname(path);
	mode_t permissions;
	int err;

	err = check_old(name, &permissions);
	if (!err && access(folder, W_OK | X_OK))
		err = -errno;
	g_free(folder);
	g_free(path);
	return err;
}

static int cannot_write(int err, const char *name)
{
	return error_set(err, "plan: %s (VPMM_PLAN) cannot be written: %s", name,
			 err == -EINVAL ? "something else than a plan is there, and stays" : g_strerror(-err));
}

int plan_file_write(const char *name, GString *text)
{
	char *path = follow_links(name);
	mode_t permissions;
	int err;

	err = check_old(name, &permissions);
	if (!err)
		err = write_beside(path, text, permissions);
	g_free(path);
	g_string_free(text, TRUE);
	return err ? cannot_write(err, name) : 0;
}

/* Without a word: the process ends, and there may be nobody to tell. */
static void save_at_exit(void) NO_LOCK_ANALYSIS;
static void save_at_exit(void)
{
	if (getpid() != process || !acquire_at_exit(&plans_lock))
		return;
	for (GSList *link = plans; link; link = link->next) {
		const struct plan_file *plan = link->data;
		GString *text = NULL;

		if (!acquire_at_exit(&plan->pool->core.lock))
			continue;
		if (served(plan->pool))
			text = plan_file_text(plan->pool);
		lock_release(&plan->pool->core.lock);
		if (text) {
			plan_file_write(plan->name, text);
		}
	}
	lock_release(&plans_lock);
}

static void watch_exit(void)
{
	process = getpid();
	atexit(save_at_exit);
}

/* The lowest number that no other pool has for the same name. */
static unsigned int free_number(const char *asked) REQUIRES(&plans_lock);
static unsigned int free_number(const char *asked)
{
	unsigned int number = 1;
	GSList *link = plans;

	while (link) {
		const struct plan_file *plan = link->data;
		bool taken = plan->asked == asked && plan->number == number;

		number += taken;
		link = taken ? plans : link->next;
	}
	return number;
}

/* The lowest that no other pool has. */
static unsigned int free_part(void) REQUIRES(&plans_lock);
static unsigned int free_part(void)
{
	unsigned int part = 0;
	GSList *link = plans;

	while (link) {
		bool taken = ((const struct plan_file *)link->data)->part == part;

		part += taken;
		link = taken ? plans : link->next;
	}
	return part;
}

static const char *numbered(const char *asked, unsigned int number)
{
	char *name = g_strdup_printf("%s.%u", asked, number);
	const char *kept = number > 1 ? g_intern_string(name) : asked;

	g_free(name);
	return kept;
}

void plan_file_begin(struct vpmm_pool *pool, const struct backend_info *info)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;
	struct plan_file *plan = g_new0(struct plan_file, 1);

	pthread_once(&watched, watch_exit);
	plan->pool = pool;
	plan->asked = pool->core.settings.plan;
	plan->device = g_strdup_printf("%s %s", info->name, info->device_name);
	g_strdelimit(plan->device, "\r\n", ' ');
	lock_acquire(&plans_lock);
	plan->number = free_number(plan->asked);
	plan->part = free_part();
	plans = g_slist_prepend(plans, plan);
	lock_release(&plans_lock);
	plan->name = numbered(plan->asked, plan->number);
	pool->core.settings.plan = plan->name;
	pool->plan = plan;
	if (plan->part < PARTS) {
		pool->core.regions.begin = BEGIN + plan->part * PART;
		pool->core.spans.begin = pool->core.regions.begin + SLABS;
	}
}

/* Return: the bytes, with a null byte behind them, for g_free(); NULL: no file, or an error with its text. */
static char *read_file(const char *name, size_t *length, bool *there)
{
	int fd = descriptor_raise(open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
	char *text = NULL;
	struct stat st;
	ssize_t n = 0;

	*there = fd >= 0 || errno != ENOENT;
	if (fd < 0 || fstat(fd, &st)) {
		error_set(-EINVAL, "%s", g_strerror(errno));
	} else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > PLAN_TEXT_MOST) {
		error_set(-EINVAL, "it is no file, or one of more than %zu bytes", PLAN_TEXT_MOST);
	} else {
		text = g_malloc((size_t)st.st_size + 1);
		n = read(fd, text, (size_t)st.st_size);
	}
	if (n < 0) {
		error_set(-EINVAL, "%s", g_strerror(errno));
		g_clear_pointer(&text, g_free);
	}
	if (fd >= 0)
		close(fd);
	*length = n > 0 ? (size_t)n : 0;
	if (text)
		text[*length] = '\0';
	return text;
}

struct warm *plan_file_read(struct vpmm_pool *pool, const struct backend_info *info)
{
	struct core *core = &pool->core;
	struct warm *warm = NULL;
	struct error_kept kept;
	size_t length;
	bool there;
	char *text;
	int err;

	lock_assert_held(&core->lock);
	error_keep(&kept);
	/* The exit of the process is too late for that: it writes the plan without a word. */
	err = check_plan_place(pool->plan->name);
	if (err) {
		cannot_write(err, pool->plan->name);
		log_report(&core->log, "%s", error_get());
	}
	text = read_file(pool->plan->name, &length, &there);
	err = text ? plan_text_read(text, length, pool->plan->device, info->memory_total, core->settings.page_size, &warm) :
		     -EINVAL;
	if (!err)
		err = warm_check(core, warm);
	if (err && there)
		log_add(&core->log, VPMM_LOG_WARNING, "plan: %s (VPMM_PLAN) is not used: %s", pool->plan->name,
			error_get());
	else if (err)
		log_add(&core->log, VPMM_LOG_INFO, "plan: there is no %s yet; the pool writes it when it ends",
			pool->plan->name);
	if (err && warm)
		g_clear_pointer(&warm, warm_free);
	error_restore(&kept);
	g_free(text);
	return warm;
}

void plan_file_settle(struct vpmm_pool *pool)
{
	const GPtrArray *chunks = pool->core.regions.chunks;
	uint64_t begin = chunks->len ? ((const struct chunk *)chunks->pdata[0])->addr : 0;

	if (!pool->plan || begin < BEGIN || begin - BEGIN >= PARTS * PART)
		return;
	lock_acquire(&plans_lock);
	pool->plan->part = (unsigned int)((begin - BEGIN) / PART);
	lock_release(&plans_lock);
}

/* A pool that could not be created, or was not used, has learned nothing. */
static int save_if_used(struct vpmm_pool *pool)
{
	GString *text;

	lock_acquire(&pool->core.lock);
	text = served(pool) ? plan_file_text(pool) : NULL;
	lock_release(&pool->core.lock);
	return text ? plan_file_write(pool->plan->name, text) : 0;
}

void plan_file_end(struct vpmm_pool *pool)
{
	struct plan_file *plan = pool->plan;
	struct error_kept kept;

	if (!plan)
		return;
	error_keep(&kept);
	if (save_if_used(pool)) {
		lock_acquire(&pool->core.lock);
		log_report(&pool->core.log, "%s", error_get());
		lock_release(&pool->core.lock);
	}
	error_restore(&kept);
	lock_acquire(&plans_lock);
	plans = g_slist_remove(plans, plan);
	lock_release(&plans_lock);
	pool->plan = NULL;
	g_free(plan->device);
	g_free(plan);
}
