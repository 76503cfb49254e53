// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Addresses that the CPU and the device share. Each page is a block of its own: work of streams looks at it and writes
 * it as it does others, and so does the CPU, once that work is complete, while the page is moved at random.
 */
#include <errno.h>

#include "model/contents-work.h"
#include "model/contents.h"
#include "vpmm-shared.h"

#define MOST_RANGES 2
#define MOST_PAGES 5

/**
 * struct range - addresses of vpmm_shared_alloc()
 * @pool: index of the pool
 * @at: where they start
 * @page: bytes of a page
 * @pages: of struct block, which others know of
 * @users: of struct record: the streams that were named
 * @pinned: index of the page that is pinned; G_MAXUINT: none
 */
struct range {
	unsigned int pool;
	char *at;
	size_t page;
	GPtrArray *pages;
	GArray *users;
	guint pinned;
};

void range_free_struct(gpointer data)
{
	struct range *r = data;

	g_ptr_array_free(r->pages, TRUE);
	g_array_free(r->users, TRUE);
	g_free(r);
}

static void done(struct worker *w, int ret, const char *what)
{
	if (ret < 0 && (ret != -ENOMEM || !w->run->limited))
		contents_fail(w->run, "worker %u, step %u: %s: %d, %s", w->index, w->step, what, ret, vpmm_last_error());
}

static void locate(struct worker *w, const struct range *r, guint i, guint n, struct vpmm_page *pages)
{
	int count = vpmm_locate(contents_pool(w, r->pool), r->at + i * r->page, n * r->page, pages);

	if (count != (int)n)
		contents_fail(w->run, "step %u: %d pages in place of %u: %s", w->step, count, n, vpmm_last_error());
}

/* Nobody has touched it, so it is zero, for the device and the CPU. */
static struct block *new_page(struct worker *w, struct range *r, guint i)
{
	struct block *b = g_new0(struct block, 1);
	char *at = r->at + i * r->page;

	b->pool = r->pool;
	b->shadow = work_shadow(w, vpmm_host_view(at), r->page);
	b->shadow->touched = at;
	b->shadow->key = 0;
	b->written = true;
	b->records = g_array_new(FALSE, TRUE, sizeof(struct record));
	b->graphs = g_ptr_array_new();
	g_ptr_array_add(w->blocks, b);
	return b;
}

static void allocate(struct worker *w)
{
	unsigned int pool = (unsigned int)g_rand_int_range(w->rand, 0, (gint32)w->run->n_pools);
	guint count = (guint)g_rand_int_range(w->rand, 1, MOST_PAGES + 1);
	struct vpmm_page page;
	struct range *r;
	void *at;
	int err;

	if (w->run->opts[pool].page_size == SIZE_MAX)
		return;
	err = vpmm_shared_alloc(w->run->pools[pool], &at, count * PAGE, contents_one_in(w, 2) ? VPMM_SHARED_FINE : 0);
	/* Valgrind cannot map memory twice. */
	if (err != -ENOTSUP)
		done(w, err, "vpmm_shared_alloc");
	if (err)
		return;
	r = g_new0(struct range, 1);
	*r = (struct range){ .pool = pool, .at = at, .page = PAGE, .pinned = G_MAXUINT };
	r->pages = g_ptr_array_new();
	r->users = g_array_new(FALSE, TRUE, sizeof(struct record));
	g_ptr_array_add(w->ranges, r);
	locate(w, r, 0, 1, &page);
	r->page = page.size;
	for (guint i = 0; i * page.size < count * PAGE; i++)
		g_ptr_array_add(r->pages, new_page(w, r, i));
}

/* The default stream of each thread cannot. */
static struct stream *user(struct worker *w)
{
	struct stream *s = stream_any(w);

	return s && s->per_thread ? NULL : s;
}

/* The pool knows of the stream, until that is retired. */
static bool is_named(const struct range *r, const struct stream *s)
{
	for (guint i = 0; i < r->users->len; i++) {
		const struct record *u = &g_array_index(r->users, struct record, i);

		if (u->stream == s && u->epoch == s->epoch)
			return true;
	}
	return false;
}

static void note(struct range *r, struct stream *s)
{
	struct record record = { .stream = s, .named = true, .epoch = s->epoch };

	if (is_named(r, s))
		return;
	g_atomic_int_inc(&s->named);
	g_array_append_val(r->users, record);
}

static void name(struct worker *w, struct range *r, struct stream *s)
{
	if (is_named(r, s) && !contents_one_in(w, 8))
		return;
	done(w, vpmm_use(contents_pool(w, r->pool), r->at, s->handle), "vpmm_use");
	note(r, s);
}

/* A page without memory, or one that is on both sides, must not be written there. */
static void work(struct worker *w, struct range *r, guint i)
{
	struct stream *s = user(w);
	struct vpmm_page page;
	bool write;

	if (!s)
		return;
	locate(w, r, i, 1, &page);
	write = !(page.flags & (VPMM_PAGE_EMPTY | VPMM_PAGE_READ_MOSTLY)) && contents_one_in(w, 2);
	name(w, r, s);
	block_access(w, r->pages->pdata[i], s, write);
}

static void touch(struct worker *w, struct range *r, guint i)
{
	struct block *b = r->pages->pdata[i];

	if (block_settle(w, b))
		work_now(w, b, NULL, contents_one_in(w, 2) ? WRITE : VERIFY);
}

static void count_moves(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	*(size_t *)data += count;
}

static void migrate(struct worker *w, struct range *r, guint i, guint n)
{
	static const struct vpmm_migrate_ops ops = { .size = sizeof(ops), .alloc_and_copy = count_moves };
	enum vpmm_location to = contents_one_in(w, 3) ? VPMM_HOST : VPMM_DEVICE;
	struct stream *s = user(w);
	size_t asked = 0;
	int ret;

	if (!s)
		return;
	ret = vpmm_migrate(contents_pool(w, r->pool), r->at + i * r->page, n * r->page, to, s->handle,
			   contents_one_in(w, 2) ? &ops : NULL, &asked);
	done(w, ret, "vpmm_migrate");
	note(r, s);
}

static void fault(struct worker *w, const struct range *r, guint i, guint n)
{
	enum vpmm_location to = contents_one_in(w, 3) ? VPMM_HOST : VPMM_DEVICE;

	done(w, vpmm_fault(contents_pool(w, r->pool), r->at + i * r->page, n * r->page, to, 0), "vpmm_fault");
}

static void advise(struct worker *w, const struct range *r, guint i, guint n)
{
	enum vpmm_advice advice = g_rand_int_range(w->rand, VPMM_ADVISE_NONE, VPMM_ADVISE_READ_MOSTLY + 1);

	done(w, vpmm_advise(contents_pool(w, r->pool), r->at + i * r->page, n * r->page, advice), "vpmm_advise");
}

static void pin(struct worker *w, struct range *r, guint i)
{
	int err;

	if (r->pinned != G_MAXUINT) {
		contents_ok(w->run, vpmm_unpin(contents_pool(w, r->pool), r->at + r->pinned * r->page, 1));
		r->pinned = G_MAXUINT;
		return;
	}
	err = vpmm_pin(contents_pool(w, r->pool), r->at + i * r->page, 1);
	done(w, err, "vpmm_pin");
	r->pinned = err ? G_MAXUINT : i;
}

static void look(struct worker *w, const struct range *r)
{
	struct vpmm_shared_stats stats = { .size = sizeof(stats) };
	struct vpmm_page pages[MOST_PAGES];

	contents_ok(w->run, vpmm_shared_stats(w->run->pools[r->pool], &stats));
	locate(w, r, 0, r->pages->len, pages);
	for (guint i = 0; i < r->pages->len; i++) {
		if (!(pages[i].flags & VPMM_PAGE_PINNED) != (i != r->pinned))
			contents_fail(w->run, "step %u: page %u of %p is pinned, or not", w->step, i, (void *)r->at);
	}
}

/* All that uses it is known, and waited for. */
static void release(struct worker *w, guint index)
{
	struct range *r = w->ranges->pdata[index];
	struct stream *s = user(w);

	if (!s)
		return;
	if (r->pinned != G_MAXUINT)
		pin(w, r, 0);
	contents_ok(w->run, vpmm_shared_free(contents_pool(w, r->pool), r->at, s->handle));
	block_release_records(r->users);
	g_ptr_array_remove_index_fast(w->ranges, index);
}

static void step(struct worker *w, struct range *r)
{
	guint i = (guint)g_rand_int_range(w->rand, 0, (gint32)r->pages->len);
	guint n = (guint)g_rand_int_range(w->rand, 1, (gint32)(r->pages->len - i) + 1);

	switch (g_rand_int_range(w->rand, 0, 16)) {
	case 0: case 1: case 2:
		migrate(w, r, i, n);
		break;
	case 3: case 4:
		fault(w, r, i, n);
		break;
	case 5: case 6: case 7: case 8:
		touch(w, r, i);
		break;
	case 9:
		advise(w, r, i, n);
		break;
	case 10:
		pin(w, r, i);
		break;
	case 11:
		look(w, r);
		break;
	default:
		work(w, r, i);
	}
}

void range_step(struct worker *w)
{
	guint i = (guint)g_rand_int_range(w->rand, 0, MOST_RANGES);

	if (i >= w->ranges->len)
		allocate(w);
	else if (contents_one_in(w, 24))
		release(w, i);
	else
		step(w, w->ranges->pdata[i]);
}

/* What is left goes with the pool. */
void range_look(struct worker *w)
{
	for (guint i = w->ranges->len; i > 0; i--) {
		struct range *r = w->ranges->pdata[i - 1];

		for (guint page = 0; page < r->pages->len; page++)
			work_now(w, r->pages->pdata[page], NULL, VERIFY);
		if (!contents_one_in(w, 4))
			release(w, i - 1);
	}
}
