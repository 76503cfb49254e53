// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks of the program: allocated, used on streams in an order that the program keeps, and freed. */
#include <errno.h>

#include "model/contents-block.h"
#include "model/contents-repeat.h"
#include "model/contents-work.h"

#define MOST_CLEARED (PAGE + PAGE / 2)
#define MOST_PAGES 6
#define SMALL ((gint32)128 << 10)

static size_t page_size_of(const struct vpmm_opts *opts)
{
	return opts->page_size ? opts->page_size : PAGE;
}

/* Whole pages, anything below a few, what spans serve, and a few sizes that recur. */
size_t block_any_size(struct worker *w, const struct vpmm_opts *opts, bool cleared)
{
	size_t size;

	switch (contents_is_plain(w) ? 0 : g_rand_int_range(w->rand, 0, 6)) {
	case 0:
		size = (size_t)g_rand_int_range(w->rand, 1, 4 * (gint32)PAGE);
		break;
	case 1:
		size = (size_t)g_rand_int_range(w->rand, 1, SMALL);
		break;
	case 2:
		size = (size_t)g_rand_int_range(w->rand, 1, 9) * 512;
		break;
	case 3:
		size = (size_t)1 << g_rand_int_range(w->rand, 12, 22);
		break;
	case 4:
		size = (size_t)g_rand_int_range(w->rand, 1, 4) * PAGE;
		break;
	default:
		size = (size_t)g_rand_int_range(w->rand, 1, MOST_PAGES) * PAGE;
	}
	if (cleared || opts->scrub)
		size = MIN(size, MOST_CLEARED);
	/* A byte more than whole words could be anybody's part of a word. */
	return opts->scrub == VPMM_SCRUB_STREAM ? (size + 7) & ~(size_t)7 : size;
}

bool block_may_fail(const struct worker *w, int err, const struct stream *s, const struct vpmm_opts *opts)
{
	return (err == -ENOMEM && w->run->limited) || (err == -ENOTSUP && s->captured && opts->page_size == SIZE_MAX);
}

static int malloc_aligned(struct worker *w, struct vpmm_pool *pool, void **ptr, size_t size, struct stream *s)
{
	size_t alignment = (size_t)1 << g_rand_int_range(w->rand, 0, 22);
	int err = vpmm_malloc_aligned(pool, ptr, size, alignment, s->handle);

	if (!err && (uintptr_t)*ptr % alignment)
		contents_fail(w->run, "worker %u, step %u: %zu bytes at %p, which is no multiple of %zu", w->index, w->step,
			      size, *ptr, alignment);
	return err;
}

/* It is not cleared where that could only be captured. */
static bool flags_refused(int err, const struct stream *s, const struct vpmm_opts *opts, unsigned int flags)
{
	return err == -EBUSY && s->captured && flags & (VPMM_IDLE | VPMM_SHAREABLE) && (opts->scrub || flags & VPMM_ZERO);
}

static int call_malloc(struct worker *w, unsigned int pool, void **ptr, size_t size, size_t max, struct stream *s,
		       unsigned int flags)
{
	const struct vpmm_opts *opts = &w->run->opts[pool];
	struct vpmm_pool *of = w->run->pools[pool];

	if (max)
		return vpmm_malloc_growable(of, ptr, size, max, s->handle);
	/* What the driver would serve, and is taken for the driver's, would become a page. */
	if (!flags && !contents_is_plain(w) && opts->page_size != SIZE_MAX && contents_one_in(w, 8) &&
	    (opts->small != VPMM_SMALL_DRIVER || size >= page_size_of(opts)))
		return malloc_aligned(w, of, ptr, size, s);
	return flags || contents_one_in(w, 8) ? vpmm_malloc_flags(of, ptr, size, s->handle, flags) :
	       vpmm_malloc(of, ptr, size, s->handle);
}

static void *allocate(struct worker *w, unsigned int pool, size_t size, size_t max, struct stream *s,
		      unsigned int flags)
{
	const struct vpmm_opts *opts = &w->run->opts[pool];
	void *ptr = NULL;
	int err;

	err = contents_call(w, pool, call_malloc(w, pool, &ptr, size, max, s, flags));
	if (err && !w->armed && !block_may_fail(w, err, s, opts) && !flags_refused(err, s, opts, flags))
		contents_fail(w->run, "worker %u, step %u: %zu bytes: %d, %s", w->index, w->step, size, err,
			      vpmm_last_error());
	if (err)
		return NULL;
	if ((uintptr_t)ptr % (opts->small == VPMM_SMALL_DRIVER || opts->page_size == SIZE_MAX ? 256 : 512))
		contents_fail(w->run, "worker %u, step %u: %zu bytes at %p", w->index, w->step, size, ptr);
	__atomic_fetch_add(&w->run->mallocs[pool], 1, __ATOMIC_RELAXED);
	return ptr;
}

static bool is_idle(unsigned int flags)
{
	return flags & (VPMM_IDLE | VPMM_SHAREABLE);
}

static bool is_cleared(const struct vpmm_opts *opts, unsigned int flags)
{
	return flags & VPMM_ZERO || opts->scrub == VPMM_SCRUB_ALWAYS;
}

/* The CPU can use it at once, so it is not only streams that may. */
static void see_idle(struct worker *w, struct block *b, struct stream *s, bool cleared)
{
	if (cleared)
		work_now(w, b, s, ZEROED);
	else if (w->run->opts[b->pool].scrub)
		work_now(w, b, s, OWN);
	else if (!contents_one_in(w, 3))
		work_now(w, b, s, WRITE);
	b->written = b->shadow->key != UINT32_MAX;
}

/* What was cleared is zero, with nothing done about it; what was not is looked at before anything is done. */
static void see_fresh(struct worker *w, struct block *b, struct stream *s, bool cleared)
{
	bool own = w->run->opts[b->pool].scrub == VPMM_SCRUB_STREAM;

	if (s->captured) {
		work_capture(w, b, s, cleared ? ZEROED : WRITE);
		return;
	}
	b->written = cleared;
	b->key = b->shadow->key = 0;
	/* One that nobody touches at all is a case of its own. */
	if (!own && contents_one_in(w, 3))
		return;
	if (cleared)
		block_record(b, s)->last = work_submit(w, b, s, ZEROED);
	else if (own)
		block_record(b, s)->last = work_submit(w, b, s, OWN);
	if (!contents_one_in(w, 4))
		block_access(w, b, s, true);
}

struct block *block_add(struct worker *w, unsigned int pool, void *ptr, size_t size, size_t max, struct stream *s)
{
	const struct vpmm_opts *opts = &w->run->opts[pool];
	struct block *b = g_new0(struct block, 1);

	b->pool = pool;
	b->max = max;
	b->shadow = work_shadow(w, ptr, size);
	b->first = s->captured ? NULL : s;
	b->born = s->captured ? 0 : stream_next(s);
	b->records = g_array_new(FALSE, TRUE, sizeof(struct record));
	b->graphs = g_ptr_array_new();
	b->of_driver = opts->page_size == SIZE_MAX ||
		       (!max && opts->small == VPMM_SMALL_DRIVER && !s->captured && size < page_size_of(opts));
	g_ptr_array_add(w->blocks, b);
	g_ptr_array_add(w->live, b);
	w->bytes += size;
	return b;
}

/* What a block can grow to; 0: it cannot. */
static size_t any_max(struct worker *w, const struct vpmm_opts *opts, size_t size, const struct stream *s)
{
	if (s->captured || opts->page_size == SIZE_MAX || contents_is_plain(w) || !contents_one_in(w, 8))
		return 0;
	return size * (size_t)g_rand_int_range(w->rand, 1, 9);
}

struct block *block_new_of_size(struct worker *w, unsigned int pool, size_t size, struct stream *s,
				unsigned int flags)
{
	const struct vpmm_opts *opts = &w->run->opts[pool];
	size_t max = flags ? 0 : any_max(w, opts, size, s);
	vpmm_tag word = tag_any(w, pool, s, flags);
	struct block *b;
	void *ptr;

	if (w->bytes + size > CONTENTS_MOST_BYTES / w->run->n_workers)
		return NULL;
	if (word)
		vpmm_tag_set(word);
	ptr = allocate(w, pool, size, max, s, flags);
	if (word)
		vpmm_tag_set(0);
	if (!ptr)
		return NULL;
	b = block_add(w, pool, ptr, size, max, s);
	b->word = word;
	work_note(w, b, s, max ? "allocate growable" : is_idle(flags) ? "allocate idle" :
		  flags ? "allocate cleared" : "allocate");
	if (is_idle(flags)) {
		b->apart = flags & VPMM_SHAREABLE;
		b->of_driver = false;
		b->born = 0;
		see_idle(w, b, s, is_cleared(opts, flags));
	} else {
		see_fresh(w, b, s, is_cleared(opts, flags));
	}
	return b;
}

unsigned int block_any_pool(struct worker *w)
{
	return (unsigned int)g_rand_int_range(w->rand, 0, (gint32)w->run->n_pools);
}

/* What the driver serves is ordered on a stream; and only a pool that exports has what others can map. */
struct block *block_new(struct worker *w, struct stream *s, unsigned int flags)
{
	unsigned int pool = block_any_pool(w);
	const struct vpmm_opts *opts = &w->run->opts[pool];

	if (opts->page_size == SIZE_MAX)
		flags &= VPMM_ZERO;
	if (!opts->export_as)
		flags &= ~VPMM_SHAREABLE;
	return block_new_of_size(w, pool, block_any_size(w, opts, flags), s, flags);
}

void block_free_struct(gpointer data)
{
	struct block *b = data;

	g_array_free(b->records, TRUE);
	g_ptr_array_free(b->graphs, TRUE);
	g_free(b);
}

struct block *block_any(struct worker *w)
{
	return w->live->len ? w->live->pdata[g_rand_int_range(w->rand, 0, (gint32)w->live->len)] : NULL;
}

struct record *block_record(struct block *b, struct stream *s)
{
	struct record record = { .stream = s };

	for (guint i = 0; i < b->records->len; i++) {
		if (g_array_index(b->records, struct record, i).stream == s)
			return &g_array_index(b->records, struct record, i);
	}
	g_array_append_val(b->records, record);
	return &g_array_index(b->records, struct record, b->records->len - 1);
}

static bool behind_graphs(struct block *b, struct stream *s)
{
	for (guint i = 0; i < b->graphs->len; i++) {
		const struct graph *g = b->graphs->pdata[i];

		if (g->last && !stream_behind(s, g->last, g->last_at))
			return false;
	}
	return true;
}

bool block_behind_uses(struct block *b, struct stream *s, bool write)
{
	if (b->first && b->first != s && !stream_behind(s, b->first, b->born))
		return false;
	for (guint i = 0; i < b->records->len; i++) {
		const struct record *r = &g_array_index(b->records, struct record, i);

		if (!stream_behind(s, r->stream, write ? r->last : r->wrote))
			return false;
	}
	return behind_graphs(b, s);
}

/* Whoever is behind a write is behind all that this was behind. */
void block_note(struct block *b, struct stream *s, uint64_t position, bool write)
{
	struct record *record = block_record(b, s);

	for (guint i = 0; write && i < b->records->len; i++) {
		struct record *r = &g_array_index(b->records, struct record, i);

		r->last = r->wrote = 0;
	}
	record->last = position;
	if (write)
		record->wrote = position;
	if (record->named && record->epoch == s->epoch)
		record->covered = position;
}

bool block_access(struct worker *w, struct block *b, struct stream *s, bool write)
{
	if (b->unborn || (!write && !b->written) || tag_is_paused(w, b) || !block_behind_uses(b, s, write))
		return false;
	block_note(b, s, work_submit(w, b, s, write ? WRITE : VERIFY), write);
	b->written = true;
	return true;
}

bool block_name(struct worker *w, struct block *b, struct stream *s)
{
	struct vpmm_pool *pool = contents_pool(w, b->pool);
	struct record *record;

	if (tag_is_paused(w, b))
		return false;
	record = block_record(b, s);
	if (!contents_try(w, b->pool, vpmm_use(pool, b->shadow->ptr, s->handle)))
		return false;
	if (!record->named)
		g_atomic_int_inc(&s->named);
	record->named = true;
	record->epoch = s->epoch;
	record->covered = record->last;
	work_note(w, b, s, "name");
	b->shared = true;
	return true;
}

/* One that is the worker's own can be named, too, in place of a wait. */
static bool cover(struct worker *w, struct block *b, guint i, struct stream *s)
{
	struct record *r = &g_array_index(b->records, struct record, i);

	if (r->covered >= r->last)
		return true;
	if (r->stream->owner == w && !r->stream->captured && !r->stream->gone && !tag_is_paused(w, b) &&
	    !contents_is_plain(w) && contents_one_in(w, 3))
		return block_name(w, b, r->stream);
	return stream_behind(s, r->stream, r->last);
}

bool block_may_release(struct worker *w, struct block *b, struct stream *s)
{
	if (b->of_driver && b->first != s && !stream_behind(s, b->first, b->born))
		return false;
	for (guint i = 0; i < b->records->len; i++) {
		if (!cover(w, b, i, s))
			return false;
	}
	return true;
}

void block_release_records(GArray *records)
{
	for (guint i = 0; i < records->len; i++) {
		const struct record *r = &g_array_index(records, struct record, i);

		if (r->named)
			g_atomic_int_add(&r->stream->named, -1);
	}
}

void block_released(struct worker *w, struct block *b)
{
	block_release_records(b->records);
	__atomic_fetch_add(&w->run->frees[b->pool], 1, __ATOMIC_RELAXED);
	g_ptr_array_remove_fast(w->live, b);
	w->bytes -= b->shadow->size;
}

void block_make_own(struct shadow *shadow, const struct stream *s)
{
	for (; shadow; shadow = shadow->before)
		g_atomic_int_compare_and_exchange(&shadow->own, 0, (gint)s->index + 1);
}

/* Work cannot use memory that a pause has taken. */
static void announce_free(struct worker *w, struct block *b, struct CUstream_st *handle)
{
	if (contents_freeing && !tag_is_paused(w, b))
		contents_freeing(b->shadow->ptr, handle);
}

/* Behind all that any stream was given to do. Captures that the pool does not know of would not survive that. */
static bool release_any(struct worker *w, struct block *b, struct stream *s)
{
	struct vpmm_pool *pool = contents_pool(w, b->pool);

	work_note(w, b, s, "free on any");
	announce_free(w, b, VPMM_STREAM_ANY);
	if (!contents_try(w, b->pool, contents_end(w, vpmm_free(pool, b->shadow->ptr, VPMM_STREAM_ANY))))
		return false;
	block_released(w, b);
	return true;
}

bool block_release(struct worker *w, struct block *b, struct stream *s)
{
	struct vpmm_pool *pool = contents_pool(w, b->pool);

	if (!w->run->captures && !contents_repeats(w) && contents_one_in(w, 16))
		return release_any(w, b, s);
	if (!block_may_release(w, b, s))
		return false;
	if (b->first == s && !b->shared && !b->of_driver)
		block_make_own(b->shadow, s);
	work_note(w, b, s, "free");
	announce_free(w, b, s->handle);
	if (!contents_try(w, b->pool, contents_end(w, vpmm_free(pool, b->shadow->ptr, s->handle))))
		return false;
	block_released(w, b);
	return true;
}
