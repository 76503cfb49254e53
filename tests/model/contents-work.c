// SPDX-License-Identifier: LGPL-2.1-or-later
/* What streams do with blocks, and what they find. */
#include <inttypes.h>

#include "model/contents-work.h"

/* Each word is looked at in so many bytes at either end of a block; one in so many bytes elsewhere in a small block. */
#define DENSE ((size_t)64)
#define STRIDE ((size_t)512)
#define FINE ((size_t)64 << 10)

#define ANY UINT32_MAX
#define MOST_KEYS ((uint32_t)1 << 22)

struct work {
	struct run *run;
	struct shadow *shadow;
	enum kind kind;
	struct stream *stream;	/* where it is done; NULL: wherever its graph is launched */
	uint64_t position;
	uint32_t key;		/* written, or expected; ANY: as it comes */
	bool cpu;		/* it is the CPU that does it */
	gint own;
	unsigned int worker;
	unsigned int step;
};

struct shadow *work_shadow(struct worker *w, void *ptr, size_t size)
{
	static const size_t strides[] = { STRIDE, 16384, 16384, 65536, 65536, 65536 };
	struct shadow *s = g_new0(struct shadow, 1);

	s->ptr = s->touched = ptr;
	s->size = size;
	/* Multiples of these are where blocks begin, so that whoever intrudes is seen. */
	s->stride = size <= FINE ? STRIDE : strides[g_rand_int_range(w->rand, 0, G_N_ELEMENTS(strides))];
	s->key = ANY;
	s->number = w->blocks->len;
	s->trail = g_string_new(NULL);
	g_ptr_array_add(w->shadows, s);
	return s;
}

void work_shadow_free(gpointer data)
{
	struct shadow *s = data;

	g_string_free(s->trail, TRUE);
	g_free(s);
}

void work_note(struct worker *w, struct block *b, const struct stream *s, const char *what)
{
	g_string_append_printf(b->shadow->trail, "\n  worker %u step %u stream %u%s: %s", w->index, w->step, s->index,
			       s->per_thread ? " (per thread)" : s->legacy ? " (legacy)" : "", what);
}

static uint64_t pattern(uint32_t key, size_t at)
{
	return key ? (uint64_t)key << 32 | (uint32_t)(at / 8 * 0x9e3779b1u + key) : 0;
}

static size_t next_spot(const struct shadow *s, size_t at)
{
	size_t whole = s->size & ~(size_t)7, up;

	at += 8;
	if (at < DENSE || at + DENSE >= whole)
		return at;
	up = (((uintptr_t)s->ptr + at + s->stride - 1) & ~(s->stride - 1)) - (uintptr_t)s->ptr;
	return MIN(up, whole - DENSE);
}

static void *spot(const struct work *work, size_t at)
{
	return (work->cpu ? work->shadow->touched : work->shadow->ptr) + at;
}

static char byte_at(const struct work *work, size_t at)
{
	return *(char *)spot(work, at);
}

static uint32_t take_key(struct run *run, struct shadow *shadow)
{
	uint32_t key = __atomic_add_fetch(&run->keys, 1, __ATOMIC_RELAXED);

	if (key >= MOST_KEYS)
		contents_fail(run, "more than %u patterns", key);
	__atomic_store_n(&run->writers[key], shadow, __ATOMIC_RELEASE);
	return key;
}

static struct shadow *writer_of(const struct run *run, uint64_t word)
{
	uint32_t key = (uint32_t)(word >> 32);

	return key < MOST_KEYS ? __atomic_load_n(&run->writers[key], __ATOMIC_ACQUIRE) : NULL;
}

static void wrong(const struct work *work, size_t at, uint64_t found, uint64_t expected)
{
	const struct shadow *s = work->shadow, *by = writer_of(work->run, found);

	contents_fail(work->run, "what worker %u submitted in step %u on stream %d found %#" PRIx64
		      " in place of %#" PRIx64 ", %zu bytes into %zu bytes at %p:%s\n"
		      "It is of %zu bytes at %p:%s\n", work->worker, work->step,
		      work->stream ? (int)work->stream->index : -1, found, expected, at, s->size, (void *)s->ptr,
		      s->trail->str, by ? by->size : 0, by ? (void *)by->ptr : NULL, by ? by->trail->str : "");
}

static void write_block(struct work *work)
{
	struct shadow *s = work->shadow;
	uint32_t key = work->key == ANY ? take_key(work->run, s) : work->key;

	for (size_t at = 0; at + 8 <= s->size; at = next_spot(s, at))
		*(uint64_t *)spot(work, at) = pattern(key, at);
	for (size_t at = s->size & ~(size_t)7; at < s->size; at++)
		*(char *)spot(work, at) = (char)key;
	s->key = key;
}

/* Whatever others have left between the words that are looked at, and at the ends of other blocks, is gone then. */
static void fill_block(struct work *work)
{
	struct shadow *s = work->shadow;

	for (size_t at = 0; at + 8 <= s->size; at += 8)
		*(uint64_t *)spot(work, at) = pattern(work->key, at);
	s->key = work->key;
}

/* What the shadow says is what the order of the streams has made of it; the work may know better what that must be. */
static void verify_block(struct work *work, uint32_t key)
{
	const struct shadow *s = work->shadow;
	uint64_t words = 0;

	if (key != ANY && s->key != key)
		contents_fail(work->run, "worker %u, step %u: streams ran out of order: block %u has key %u, not %u",
			      work->worker, work->step, s->number, s->key, key);
	for (size_t at = 0; at + 8 <= s->size; at = next_spot(s, at), words++) {
		uint64_t found = *(uint64_t *)spot(work, at);

		if (found != pattern(s->key, at))
			wrong(work, at, found, pattern(s->key, at));
	}
	for (size_t at = s->size & ~(size_t)7; at < s->size; at++) {
		if (byte_at(work, at) != (char)s->key)
			wrong(work, at, (unsigned char)byte_at(work, at), (unsigned char)s->key);
	}
	__atomic_fetch_add(&work->run->words, words, __ATOMIC_RELAXED);
}

/* Whether it is part of a pattern that the stream of the work may see. */
static bool is_own(const struct work *work, uint64_t found)
{
	const struct shadow *by = writer_of(work->run, found);

	if (!by)
		return false;
	return g_atomic_int_get(&by->own) == work->own ||
	       g_atomic_int_get(&work->run->owners[found >> 32]) == work->own;
}

/* @from: what is before was given to the stream by the program. */
static void verify_own(struct work *work, size_t from, bool cleared)
{
	const struct shadow *s = work->shadow;
	uint64_t words = 0;

	for (size_t at = 0; at + 8 <= s->size; at = next_spot(s, at)) {
		uint64_t found = *(uint64_t *)spot(work, at);

		if (at < from)
			continue;
		words++;
		if (found && (cleared || !is_own(work, found)))
			wrong(work, at, found, 0);
	}
	__atomic_fetch_add(&work->run->words, words, __ATOMIC_RELAXED);
}

/* The words that were written are those that the block before it looks at. */
static void verify_kept(struct work *work)
{
	const struct shadow *s = work->shadow;
	uint32_t key = work->key == ANY ? s->before->key : work->key;
	size_t size = MIN(s->size, s->before->size);
	uint64_t words = 0;

	for (size_t at = 0; at + 8 <= size; at = next_spot(s->before, at), words++) {
		uint64_t found = *(uint64_t *)spot(work, at);

		if (found != pattern(key, at))
			wrong(work, at, found, pattern(key, at));
	}
	__atomic_fetch_add(&work->run->words, words, __ATOMIC_RELAXED);
}

/* What one sees through another mapping, others see there from now on. */
static void verify_mapped(struct work *work)
{
	work->shadow->key = work->shadow->before->key;
	verify_block(work, work->key);
}

static void perform(struct work *work)
{
	switch (work->kind) {
	case WRITE:
		write_block(work);
		break;
	case FILL:
		fill_block(work);
		break;
	case VERIFY:
		verify_block(work, work->key);
		break;
	case ZEROED:
		work->shadow->key = 0;
		verify_block(work, 0);
		break;
	case OWN:
		verify_own(work, 0, false);
		break;
	case GAINED:
	case CLEARED:
		verify_own(work, work->shadow->before->size, work->kind == CLEARED);
		break;
	case KEPT:
		verify_kept(work);
		break;
	case MAPPED:
		verify_mapped(work);
		break;
	case TICK:
		break;
	}
	if (work->kind != TICK)
		__atomic_fetch_add(&work->run->works, 1, __ATOMIC_RELAXED);
}

static void run_work(void *data)
{
	struct work *work = data;

	perform(work);
	if (!work->stream)
		return;
	__atomic_store_n(&work->stream->ran, work->position, __ATOMIC_RELEASE);
	g_free(work);
}

static const char *const names[] = {
	[WRITE] = "write",
	[FILL] = "fill",
	[VERIFY] = "verify",
	[ZEROED] = "verify zeros",
	[OWN] = "verify own",
	[GAINED] = "verify gained",
	[CLEARED] = "verify cleared",
	[KEPT] = "verify kept",
	[MAPPED] = "verify mapped",
	[TICK] = "tick",
};

static struct work *work_new(struct worker *w, struct shadow *shadow, enum kind kind)
{
	struct work *work = g_new0(struct work, 1);

	*work = (struct work){ .run = w->run, .shadow = shadow, .kind = kind, .key = ANY,
			       .worker = w->index, .step = w->step };
	return work;
}

/* What the block holds from now on, and what is expected there. */
static void choose_key(struct worker *w, struct block *b, struct work *work)
{
	if (work->kind == WRITE || work->kind == FILL)
		work->key = b->key = take_key(w->run, b->shadow);
	else if (work->kind == ZEROED)
		b->key = 0;
	else if (work->kind != OWN && !b->graphed)
		work->key = b->key;
}

uint64_t work_submit(struct worker *w, struct block *b, struct stream *s, enum kind kind)
{
	struct work *work = work_new(w, b ? b->shadow : NULL, kind);
	uint64_t position = s->at + 1;

	work->stream = s;
	work->position = position;
	work->own = (gint)s->index + 1;
	if (b) {
		work_note(w, b, s, names[kind]);
		choose_key(w, b, work);
		if (kind == FILL)
			g_atomic_int_set(&w->run->owners[work->key], work->own);
	}
	contents_ok(w->run, vpmm_host_stream_launch(s->handle, run_work, work));
	return stream_next(s);
}

void work_now(struct worker *w, struct block *b, const struct stream *s, enum kind kind)
{
	struct work *work = work_new(w, b->shadow, kind);

	g_string_append_printf(b->shadow->trail, "\n  worker %u step %u CPU: %s", w->index, w->step, names[kind]);
	choose_key(w, b, work);
	work->cpu = true;
	work->own = s ? (gint)s->index + 1 : 0;
	perform(work);
	g_free(work);
}

void work_capture(struct worker *w, struct block *b, struct stream *s, enum kind kind)
{
	struct work *work = work_new(w, b->shadow, kind);

	g_ptr_array_add(w->kept, work);
	work_note(w, b, s, names[kind]);
	b->graphed = true;
	contents_ok(w->run, vpmm_host_stream_launch(s->handle, run_work, work));
}
