// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/format.h"
#include "trace/output.h"
#include "trace/recorder.h"
#include "trace/ring.h"
#include "util/cancel.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/held.h"
#include "util/lock.h"
#include "util/tag.h"
#include "util/text.h"

/* Text is written when there is so much of it. */
#define TEXT_SIZE (256 * 1024)

/* How long a record can wait until it is written: a crash may cost the records of a second. */
#define FLUSH_MS 500

/* How long to wait for a thread that has taken a number and not yet filled its slot. */
#define LATE_MS 1

unsigned int recorder_stalled_ms = 10000;

/* Records after which the writer is woken, and after which it makes room. */
#define WAKE_EACH (RING_SIZE / 16)
#define ROOM_EACH 4096

#define NS_PER_MS UINT64_C(1000000)

/**
 * struct recorder - a file, and the thread that writes it
 * @next: the recorder that was made before
 * @name: of the file
 * @users: pools that are recorded
 * @pools: the number of the last one
 * @running: there is a thread
 * @written: something was
 * @out: the file
 * @thread: the thread
 *
 * All but @name and @next under recorders_lock. Of the thread alone:
 *
 * @format: what earlier lines have said
 * @text: lines to be written
 * @length: bytes of them
 * @begun: a record was not of a pool that begins or ends, before which a file stays as it is
 *
 * Of all threads:
 *
 * @ring: the records
 * @ended: nothing is recorded any more
 * @told: somebody knows why
 * @waiting: threads that wait for @moved because the ring is full
 *
 * Under @lock:
 *
 * @wake: the writer has something to do
 * @moved: records were taken from the ring, or written
 * @kicked: the writer is not to sleep
 * @closing: it is to end
 * @finished: it does nothing any more
 * @asked: records that somebody waits for
 * @done: records that are written
 * @why: @ended
 */
struct recorder {
	struct recorder *next;
	char *name;
	unsigned int users;
	uint32_t pools;
	_Atomic bool running;
	bool written;
	struct output out;
	pthread_t thread;

	struct format format;
	char *text;
	size_t length;
	bool begun;

	struct ring ring;
	_Atomic bool ended;
	_Atomic bool told;
	_Atomic unsigned int waiting;

	struct lock lock;
	pthread_cond_t wake;
	pthread_cond_t moved;
	bool kicked;
	bool closing;
	bool finished;
	uint64_t asked;
	uint64_t done;
	char why[256];
};

/* All that ever were: a later pool may continue a file. */
static struct recorder *_Atomic recorders;
static struct lock recorders_lock = LOCK_INIT(LOCK_RECORDERS);

/* The process that has a writer; a child of it has none, by whatever call it was made. */
static pid_t process;

/* The process is about to end. */
static _Atomic bool ending;

/* Whether the time was up. */
static bool wait_ms(struct recorder *r, pthread_cond_t *condition, uint64_t ms) REQUIRES(r->lock);
static bool wait_ms(struct recorder *r, pthread_cond_t *condition, uint64_t ms)
{
	return lock_wait_until(&r->lock, condition, clock_ns() + ms * NS_PER_MS) == ETIMEDOUT;
}

/* The file cannot be written, so that nothing more is recorded; the program goes on. */
static void end_trace(struct recorder *r, const char *why) REQUIRES(r->lock);
static void end_trace(struct recorder *r, const char *why)
{
	if (!atomic_load(&r->ended))
		g_strlcpy(r->why, why, sizeof(r->why));
	atomic_store(&r->ended, true);
	pthread_cond_broadcast(&r->moved);
}

/* The writer. */

static void write_records(struct recorder *r)
{
	int err;

	if (!atomic_load(&r->ended) && r->length) {
		err = output_write(&r->out, r->text, r->length);
		if (err) {
			lock_acquire(&r->lock);
			end_trace(r, g_strerror(-err));
			lock_release(&r->lock);
		}
		r->written = true;
	}
	r->length = 0;
}

/* A thread that waits has counted itself before it looked at the tail, and holds the lock until it sleeps. */
static void wake_writers(struct recorder *r)
{
	atomic_store(&r->ring.tail, r->ring.taken);
	if (!atomic_load(&r->waiting))
		return;
	lock_acquire(&r->lock);
	pthread_cond_broadcast(&r->moved);
	lock_release(&r->lock);
}

static void drain(struct recorder *r)
{
	const struct record *record;

	while (!atomic_load(&r->ended) && (record = ring_next(&r->ring))) {
		if (r->length + FORMAT_MOST > TEXT_SIZE)
			write_records(r);
		if (record->op != RECORD_POOL && record->op != RECORD_END)
			r->begun = true;
		r->length += format_record(&r->format, record, r->text + r->length);
		r->ring.taken++;
		if (r->ring.taken % ROOM_EACH == 0)
			wake_writers(r);
	}
	/* A program that only looks at a device leaves a trace of earlier as it is. */
	if (r->begun)
		write_records(r);
	wake_writers(r);
}

static void sleep_a_while(struct recorder *r) REQUIRES(r->lock);
static void sleep_a_while(struct recorder *r)
{
	if (r->asked > r->done && !r->closing && !atomic_load(&r->ended))
		wait_ms(r, &r->wake, LATE_MS);
	else if (!r->kicked && !r->closing)
		wait_ms(r, &r->wake, FLUSH_MS);
	r->kicked = false;
}

static void *write_out(void *data)
{
	struct recorder *r = data;
	bool closing = false;

	pthread_setname_np(pthread_self(), "vpmm-trace");
	lock_acquire(&r->lock);
	while (!closing) {
		sleep_a_while(r);
		closing = r->closing;
		lock_release(&r->lock);
		drain(r);
		lock_acquire(&r->lock);
		r->done = r->ring.taken;
		pthread_cond_broadcast(&r->moved);
	}
	r->finished = true;
	pthread_cond_broadcast(&r->moved);
	lock_release(&r->lock);
	return NULL;
}

/* The callers. */

static void kick(struct recorder *r) REQUIRES(r->lock);
static void kick(struct recorder *r)
{
	r->kicked = true;
	pthread_cond_signal(&r->wake);
}

/* Waits until the writer has come on; one that does not is given up. */
static void wait_moved(struct recorder *r) REQUIRES(r->lock);
static void wait_moved(struct recorder *r)
{
	uint64_t before = atomic_load(&r->ring.tail);

	if (wait_ms(r, &r->moved, recorder_stalled_ms) && before == atomic_load(&r->ring.tail))
		end_trace(r, "the file does not take what is written to it");
}

static bool wait_for_room(struct recorder *r, uint64_t number) __attribute__((cold));
static bool wait_for_room(struct recorder *r, uint64_t number)
{
	int cancel = cancel_hold();

	lock_acquire(&r->lock);
	atomic_fetch_add(&r->waiting, 1);
	while (!ring_has_room(&r->ring, number) && !atomic_load(&r->ended)) {
		kick(r);
		wait_moved(r);
	}
	atomic_fetch_sub(&r->waiting, 1);
	lock_release(&r->lock);
	cancel_release(cancel);
	return !atomic_load(&r->ended);
}

static void wake_writer(struct recorder *r)
{
	lock_acquire(&r->lock);
	kick(r);
	lock_release(&r->lock);
}

/* The record to be filled in; NULL: nothing is recorded any more. */
static inline struct record *reserve_record(struct recorder *r, uint64_t *number)
{
	if (G_UNLIKELY(atomic_load_explicit(&r->ended, memory_order_relaxed)))
		return NULL;
	*number = ring_reserve(&r->ring);
	if (G_UNLIKELY(!ring_has_room(&r->ring, *number)) && !wait_for_room(r, *number))
		return NULL;
	return ring_record(&r->ring, *number);
}

static void flush_records(struct recorder *r);

static inline void publish(struct recorder *r, uint64_t number)
{
	ring_publish(&r->ring, number);
	if (G_UNLIKELY(number % WAKE_EACH == WAKE_EACH - 1))
		wake_writer(r);
	if (G_UNLIKELY(atomic_load_explicit(&ending, memory_order_relaxed)))
		flush_records(r);
}

/* The tag that the calling thread allocates under. */
static inline void set_tag(struct record *record)
{
	vpmm_tag word = tag_current();

	record->tag = (uint8_t)tag_of(word);
	record->flags |= (word & VPMM_TAG_DROP ? RECORD_DROP : 0) | (word & VPMM_TAG_STAY ? RECORD_STAY : 0);
}

void recorder_add(struct recorder *r, const struct record *record)
{
	struct record *slot;
	uint64_t number;

	slot = reserve_record(r, &number);
	if (!slot)
		return;
	*slot = *record;
	if (slot->op == RECORD_MALLOC && !(slot->flags & RECORD_UNTAGGED))
		set_tag(slot);
	slot->time = clock_ns();
	publish(r, number);
}

/*
 * Without a structure of the caller's: the processor stalls where that is copied in larger parts than it was written
 * in.
 */
void recorder_add_cached(struct recorder *r, uint32_t pool, enum record_op op, uint64_t addr, uint64_t bytes,
			 uint64_t stream)
{
	struct record *slot;
	uint64_t number;

	slot = reserve_record(r, &number);
	if (!slot)
		return;
	slot->addr = addr;
	slot->bytes = bytes;
	slot->stream = stream;
	slot->capture = 0;
	slot->max = 0;
	slot->time = clock_ns();
	slot->pool = pool;
	slot->op = (uint8_t)op;
	slot->flags = 0;
	slot->tag = 0;
	if (op == RECORD_MALLOC)
		set_tag(slot);
	publish(r, number);
}

/*
 * Waits until what was recorded so far is written. A thread whose signal handler ends the process may have taken a
 * number that it will never fill: do not wait for ever.
 */
static void flush_records(struct recorder *r)
{
	uint64_t head = atomic_load(&r->ring.head), patience = clock_ns() + recorder_stalled_ms * NS_PER_MS, done;
	int cancel = cancel_hold();

	lock_acquire(&r->lock);
	r->asked = MAX(r->asked, head);
	while (r->done < head && !atomic_load(&r->ended) && atomic_load(&r->running) && clock_ns() < patience) {
		done = r->done;
		kick(r);
		wait_moved(r);
		if (r->done != done)
			patience = clock_ns() + recorder_stalled_ms * NS_PER_MS;
	}
	lock_release(&r->lock);
	cancel_release(cancel);
}

const char *recorder_name(const struct recorder *r)
{
	return r->name;
}

bool recorder_has_news(const struct recorder *r)
{
	return G_UNLIKELY(atomic_load_explicit(&r->ended, memory_order_relaxed)) && !atomic_load(&r->told);
}

const char *recorder_news(struct recorder *r)
{
	if (!recorder_has_news(r) || atomic_exchange(&r->told, true))
		return NULL;
	return recorder_ended(r);
}

const char *recorder_ended(struct recorder *r)
{
	const char *why;

	if (!atomic_load(&r->ended))
		return NULL;
	lock_acquire(&r->lock);
	why = r->why;
	lock_release(&r->lock);
	return why;
}

/* The life of a recorder. */

/* A signal that a write raises on the thread ends no process. */
static int start_thread(struct recorder *r)
{
	int err;

	r->kicked = r->closing = r->finished = false;
	atomic_store(&r->running, true);
	process = getpid();
	err = held_thread(&r->thread, write_out, r);
	if (!err)
		return 0;
	atomic_store(&r->running, false);
	return error_set(-ENOMEM, "no thread to write it: %s", g_strerror(err));
}

/* What this process has written is continued, unless somebody else has changed it. */
static void begin_file(struct recorder *r, const struct output *out)
{
	bool same = r->written && r->out.dev == out->dev && r->out.ino == out->ino && r->out.end == out->end;

	r->out = *out;
	r->length = 0;
	r->asked = r->done = 0;
	if (same) {
		output_continue(&r->out);
		return;
	}
	g_clear_pointer(&r->format.streams, g_hash_table_destroy);
	r->format = (struct format){ .start = clock_ns(), .streams = g_hash_table_new(NULL, NULL) };
	r->length = format_head(r->text);
	r->begun = r->written = false;
	r->pools = 0;
	atomic_store(&r->ended, false);
	atomic_store(&r->told, false);
}

REQUIRES(recorders_lock)
static int start_writer(struct recorder *r)
{
	struct output out;
	int err;

	err = output_open(&out, r->name, &r->ended);
	if (err)
		return err;
	err = ring_init(&r->ring);
	if (err)
		goto err_close;
	r->text = g_malloc(TEXT_SIZE);
	begin_file(r, &out);
	err = start_thread(r);
	if (err)
		goto err_ring;
	return 0;

err_ring:
	g_free(r->text);
	ring_clear(&r->ring);
err_close:
	output_close(&out);
	return err;
}

REQUIRES(recorders_lock)
static void stop(struct recorder *r)
{
	lock_acquire(&r->lock);
	r->closing = true;
	pthread_cond_signal(&r->wake);
	/* Each wait gives a file up that takes nothing, so that the thread comes to its end. */
	while (!r->finished)
		wait_moved(r);
	lock_release(&r->lock);
	pthread_join(r->thread, NULL);
	atomic_store(&r->running, false);
	output_close(&r->out);
	g_free(r->text);
	ring_clear(&r->ring);
}

/* By another name, too: a file has one recorder. */
static bool is_file(const struct recorder *r, const char *name)
{
	struct stat st;

	if (!strcmp(r->name, name))
		return true;
	return !stat(name, &st) && r->users && r->out.dev == st.st_dev && r->out.ino == st.st_ino;
}

static struct recorder *find_recorder(const char *name)
{
	struct recorder *r = atomic_load(&recorders);

	while (r && !is_file(r, name))
		r = r->next;
	return r;
}

REQUIRES(recorders_lock)
static struct recorder *make_recorder(char *name)
{
	struct recorder *r = g_aligned_alloc0(1, sizeof(*r), _Alignof(struct recorder));

	r->name = name;
	lock_init(&r->lock, LOCK_RECORDER);
	lock_init_condition(&r->wake);
	lock_init_condition(&r->moved);
	r->next = atomic_load(&recorders);
	atomic_store(&recorders, r);
	return r;
}

int recorder_join(const char *name, const struct record *begin, struct recorder **recorder, uint32_t *pool)
{
	size_t room = name_expand(name, NULL, 0) + 1;
	char *expanded = g_malloc(room);
	struct record record = *begin;
	struct recorder *r;
	int err = 0;

	name_expand(name, expanded, room);
	lock_acquire(&recorders_lock);
	r = find_recorder(expanded);
	if (r)
		g_free(expanded);
	else
		r = make_recorder(expanded);
	if (!r->users)
		err = start_writer(r);
	if (err) {
		error_add(err, "trace (VPMM_TRACE) is %s", r->name);
		goto out;
	}
	r->users++;
	*recorder = r;
	*pool = record.pool = ++r->pools;
	recorder_add(r, &record);
out:
	lock_release(&recorders_lock);
	return err;
}

void recorder_leave(struct recorder *r, uint32_t pool)
{
	recorder_add(r, &(struct record){ .op = RECORD_END, .pool = pool });
	lock_acquire(&recorders_lock);
	if (--r->users)
		flush_records(r);
	else
		stop(r);
	lock_release(&recorders_lock);
}

/* No pool can say it any more. */
static void report_lost(struct recorder *r)
{
	const char *why = recorder_news(r);

	if (why)
		text_warn("vpmm: the trace %s (VPMM_TRACE) ends early: %s\n", r->name, why);
}

/*
 * After everything that the program registered by atexit(), and the destructors of what uses the library; whatever is
 * still to come is written as it comes. The lock may be held by a thread that goes on until the process is gone.
 */
__attribute__((destructor)) static void write_at_exit(void)
{
	if (getpid() != process)
		return;
	atomic_store(&ending, true);
	for (struct recorder *r = atomic_load(&recorders); r; r = r->next) {
		if (!atomic_load(&r->running))
			continue;
		flush_records(r);
		report_lost(r);
	}
}
