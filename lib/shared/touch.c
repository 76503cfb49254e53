// SPDX-License-Identifier: LGPL-2.1-or-later
/* userfaultfd, covers, and the threads that read and serve touches. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "settings/settings.h"
#include "shared/handler.h"
#include "shared/touch.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/env.h"
#include "util/error.h"
#include "util/held.h"
#include "util/lock.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define MESSAGES 64

/* The ranges, and the threads. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;
static unsigned int ranges;
static pthread_t reader, server;
static bool stopping;
static bool protecting;			/* the kernel tells of writes alone */
static int uffd = -1, news[2] = { -1, -1 }, stop[2] = { -1, -1 };
static touch_fn serve;
static touch_idle_fn idle;

/* What there is to serve. */
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued;		/* of the clock that nobody sets */
static GArray *touched;
static bool nudged;

/* Of a cover that is not yet where it goes. */
static pthread_mutex_t covering = PTHREAD_MUTEX_INITIALIZER;

static void push_touches(const uint64_t *addrs, guint count)
{
	pthread_mutex_lock(&queue);
	g_array_append_vals(touched, addrs, count);
	pthread_cond_signal(&queued);
	pthread_mutex_unlock(&queue);
}

static guint read_faults(uint64_t *addrs)
{
	struct uffd_msg messages[MESSAGES];
	ssize_t got = read(uffd, messages, sizeof(messages));
	guint count = 0;

	/* A remap is told so that the thread which makes it can go on. */
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(*messages); i++) {
		uint64_t flags = messages[i].arg.pagefault.flags;
		bool write = flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP);

		if (messages[i].event == UFFD_EVENT_PAGEFAULT)
			addrs[count++] = (messages[i].arg.pagefault.address & ~TOUCH_WRITE) | (write ? TOUCH_WRITE : 0);
	}
	return count;
}

static guint read_news(uint64_t *addrs)
{
	ssize_t got = read(news[0], addrs, MESSAGES * sizeof(*addrs));

	return got > 0 ? (guint)((size_t)got / sizeof(*addrs)) : 0;
}

static void *read_touches(void *data)
{
	struct pollfd files[] = { { uffd >= 0 ? uffd : news[0], POLLIN, 0 }, { stop[0], POLLIN, 0 } };
	uint64_t addrs[MESSAGES];
	guint count;

	(void)data;
	while (poll(files, G_N_ELEMENTS(files), -1) < 0 || !files[1].revents) {
		count = uffd >= 0 ? read_faults(addrs) : read_news(addrs);
		if (count)
			push_touches(addrs, count);
	}
	return NULL;
}

/* Nobody tells the library when there is room again for what could not be served. */
#define AGAIN_NS 2000000

static void wait_for_work(bool later)
{
	struct timespec until;

	if (!later) {
		pthread_cond_wait(&queued, &queue);
		return;
	}
	until = clock_timespec(clock_ns() + AGAIN_NS);
	pthread_cond_timedwait(&queued, &queue, &until);
}

static void *serve_all(void *data)
{
	GArray *mine = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	bool more = false, done = false;

	(void)data;
	while (!done) {
		pthread_mutex_lock(&queue);
		/* What could not be served is not tried again at once, whatever else there is to do. */
		if (!touched->len && !stopping && (mine->len || (!nudged && !more)))
			wait_for_work(mine->len);
		done = stopping;
		more = more || nudged;
		nudged = false;
		g_array_append_vals(mine, touched->data, touched->len);
		g_array_set_size(touched, 0);
		pthread_mutex_unlock(&queue);
		if (mine->len)
			serve(mine);
		else if (more && !done)
			more = idle();
	}
	g_array_free(mine, TRUE);
	return NULL;
}

void touch_nudge(void)
{
	pthread_mutex_lock(&queue);
	nudged = true;
	pthread_cond_signal(&queued);
	pthread_mutex_unlock(&queue);
}

int touch_watch(uint64_t at, size_t size)
{
	int err;

	pthread_mutex_lock(&life);
	err = uffd < 0 ? handler_watch(at, size) : 0;
	pthread_mutex_unlock(&life);
	return err;
}

void touch_unwatch(uint64_t at)
{
	pthread_mutex_lock(&life);
	handler_unwatch(at);
	pthread_mutex_unlock(&life);
}

static int open_with(int flags, uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = descriptor_raise((int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags));

	if (fd < 0)
		return -1;
	if (!ioctl(fd, UFFDIO_API, &api))
		return fd;
	close(fd);
	return -1;
}

static int open_uffd(int flags)
{
	int fd = open_with(flags, UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP);

	protecting = fd >= 0;
	return fd >= 0 ? fd : open_with(flags, UFFD_FEATURE_EVENT_REMAP);
}

static bool is_refused(const char *name)
{
	const char *only = env_get("VPMM_SHARED_TOUCH");

	return only && strcmp(only, name);
}

/* Not -ENOMEM, as nobody who is asked for memory could give descriptors. */
static int fail_descriptor(const char *what)
{
	return error_set(errno == EMFILE || errno == ENFILE ? -EMFILE : -ENOTSUP,
			 "the CPU's touch of a shared range cannot be noticed: the kernel allows no %s: %s", what,
			 g_strerror(errno));
}

/* Its numbers are above those of the standard descriptors, to which the program may write. */
static int open_pipe(int *ends)
{
	if (pipe2(ends, O_CLOEXEC))
		return fail_descriptor("pipe");
	ends[0] = descriptor_raise(ends[0]);
	ends[1] = descriptor_raise(ends[1]);
	return ends[0] < 0 || ends[1] < 0 ? fail_descriptor("pipe") : 0;
}

/* A process without a descriptor to spare does not learn what the kernel allows. */
static int try_uffd(const char *name, int flags)
{
	if (uffd >= 0 || is_refused(name))
		return 0;
	uffd = open_uffd(flags);
	return uffd < 0 && (errno == EMFILE || errno == ENFILE) ? fail_descriptor("userfaultfd") : 0;
}

/* With system calls, without them, or by the signal. */
static int choose_way(void)
{
	int err = settings_check_touch();

	if (!err)
		err = try_uffd("userfaultfd", 0);
	if (!err)
		err = try_uffd("user", UFFD_USER_MODE_ONLY);
	if (err || uffd >= 0)
		return err;
	if (is_refused("signal"))
		return error_set(-ENOTSUP, "the CPU's touch of a shared range cannot be noticed: VPMM_SHARED_TOUCH is "
				 "%s, and the kernel does not allow it here", env_get("VPMM_SHARED_TOUCH"));
	err = open_pipe(news);
	if (err)
		return err;
	fcntl(news[0], F_SETFL, O_NONBLOCK);
	return handler_begin(news[1]);
}

static void close_files(void)
{
	int *files[] = { &uffd, &news[0], &news[1], &stop[0], &stop[1] };

	for (unsigned int i = 0; i < G_N_ELEMENTS(files); i++) {
		if (*files[i] >= 0)
			close(*files[i]);
		*files[i] = -1;
	}
}

static void leave_way(void)
{
	handler_end();
	close_files();
}

static int begin_thread(pthread_t *thread, void *(*run)(void *data))
{
	int err = held_thread(thread, run, NULL);

	return err ? error_set(-ENOMEM, "pthread_create for shared ranges: %s", g_strerror(err)) : 0;
}

static void end_reader(void)
{
	while (write(stop[1], "", 1) < 0 && errno == EINTR)
		;
	pthread_join(reader, NULL);
}

static void init_queued(void)
{
	lock_init_condition(&queued);
}

static int begin_touches(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err;

	pthread_once(&once, init_queued);
	err = choose_way();
	if (!err)
		err = open_pipe(stop);
	if (err)
		goto err_close;
	pthread_mutex_lock(&queue);
	touched = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	stopping = nudged = false;
	pthread_mutex_unlock(&queue);
	err = begin_thread(&reader, read_touches);
	if (err)
		goto err_free;
	err = begin_thread(&server, serve_all);
	if (!err)
		return 0;
	end_reader();
err_free:
	g_array_free(touched, TRUE);
err_close:
	leave_way();
	return err;
}

int touch_begin(touch_fn serves, touch_idle_fn idles)
{
	int err = 0;

	pthread_mutex_lock(&life);
	if (!ranges) {
		serve = serves;
		idle = idles;
		err = begin_touches();
	}
	ranges += !err;
	pthread_mutex_unlock(&life);
	return err;
}

void touch_end(void)
{
	pthread_mutex_lock(&life);
	if (!--ranges) {
		pthread_mutex_lock(&queue);
		stopping = true;
		pthread_cond_signal(&queued);
		pthread_mutex_unlock(&queue);
		pthread_join(server, NULL);
		end_reader();
		g_array_free(touched, TRUE);
		leave_way();
	}
	pthread_mutex_unlock(&life);
}

static int fail_cover(const char *call, size_t size)
{
	return error_set(-ENOMEM, "%s of %zu bytes for a shared range: %s%s", call, size, g_strerror(errno),
			 errno == ENOMEM ? " (the sysctl vm.max_map_count bounds the mappings of a process)" : "");
}

static int watch_cover(void *cover, size_t size)
{
	struct uffdio_register range = { { (uintptr_t)cover, size }, UFFDIO_REGISTER_MODE_MISSING, 0 };

	return uffd < 0 ? 0 : mprotect(cover, size, PROT_READ | PROT_WRITE) || ioctl(uffd, UFFDIO_REGISTER, &range);
}

/* Writes alone are told, and the handler is told of them as of others. */
static int watch_copy(void *cover, size_t size, uint64_t from)
{
	struct uffdio_register range = { { (uintptr_t)cover, size },
					 UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP, 0 };
	struct uffdio_writeprotect protect = { { (uintptr_t)cover, size }, UFFDIO_WRITEPROTECT_MODE_WP };

	if (mprotect(cover, size, PROT_READ | PROT_WRITE))
		return -1;
	memcpy(cover, (void *)(uintptr_t)from, size);
	if (uffd < 0)
		return mprotect(cover, size, PROT_READ);
	return ioctl(uffd, UFFDIO_REGISTER, &range) || ioctl(uffd, UFFDIO_WRITEPROTECT, &protect);
}

/*
 * A cover is made elsewhere and moved here, so that there is no moment at which a touch, or one that the kernel
 * makes for a system call, finds something else. After mlockall() the kernel would put pages of zeros there at once,
 * and no touch of them would be told: so it is without access until it is no longer locked. A child would find zeros,
 * or its handler wait for ever, so there is no moment without MADV_DONTFORK either.
 *
 * @from: what it has; 0: nothing yet.
 */
static int move_cover(uint64_t at, size_t size, uint64_t from)
{
	void *cover, *moved;
	int err;

	pthread_mutex_lock(&covering);
	cover = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (cover == MAP_FAILED) {
		err = fail_cover("mmap", size);
		goto out_unlock;
	}
	err = madvise(cover, size, MADV_DONTFORK) || munlock(cover, size) ||
	      (from ? watch_copy(cover, size, from) : watch_cover(cover, size));
	if (err) {
		err = fail_cover("userfaultfd", size);
	} else {
		moved = mremap(cover, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)at);
		err = moved == MAP_FAILED ? fail_cover("mremap", size) : 0;
	}
	if (err)
		munmap(cover, size);
out_unlock:
	pthread_mutex_unlock(&covering);
	return err;
}

int touch_cover(uint64_t at, size_t size)
{
	return move_cover(at, size, 0);
}

int touch_copy(uint64_t at, size_t size, uint64_t from)
{
	if (uffd >= 0 && !protecting)
		return error_set(-ENOTSUP, "the kernel's userfaultfd cannot tell of writes alone");
	return move_cover(at, size, from);
}

bool touch_has_copy(uint64_t at, size_t size)
{
	size_t count = size / (size_t)getpagesize();
	unsigned char *there = g_malloc(count);
	bool has = !mincore((void *)(uintptr_t)at, size, there);

	for (size_t i = 0; i < count && has; i++)
		has = there[i] & 1;
	g_free(there);
	return has;
}

bool touch_free_copy(uint64_t at, size_t size)
{
	struct uffdio_writeprotect protect = { { at, size }, 0 };
	int err;

	err = uffd >= 0 ? ioctl(uffd, UFFDIO_WRITEPROTECT, &protect) :
	      mprotect((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE);
	if (!err)
		touch_wake(at, size);
	return !err;
}

/* A file without a byte has nothing to give. */
bool touch_give_up(uint64_t at, size_t size, bool zeros)
{
	int empty = zeros ? -1 : descriptor_raise(memfd_create("vpmm-lost", MFD_CLOEXEC));
	void *last = MAP_FAILED;

	if (zeros || empty >= 0)
		last = mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_NORESERVE |
			    (zeros ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), empty, 0);
	if (empty >= 0)
		close(empty);
	if (last == MAP_FAILED)
		return false;
	madvise(last, size, MADV_DONTFORK);
	touch_wake(at, size);
	return true;
}

void touch_wake(uint64_t at, size_t size)
{
	struct uffdio_range range = { at, size };

	if (uffd >= 0) {
		ioctl(uffd, UFFDIO_WAKE, &range);
		return;
	}
	handler_wake();
}

/* A cover is ours even where the program has moved it with mremap(), but not before it is in a range. */
void touch_leave(uint64_t at, size_t size, uint64_t addr, bool copy)
{
	struct uffdio_range range = { at, size };

	if (uffd < 0) {
		handler_leave(addr);
	} else if (!copy) {
		pthread_mutex_lock(&covering);
		ioctl(uffd, UFFDIO_UNREGISTER, &range);
		pthread_mutex_unlock(&covering);
	}
	touch_wake(at, size);
}
