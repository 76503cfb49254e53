// SPDX-License-Identifier: LGPL-2.1-or-later
/* What pausable tags have of a budget, which is part of what their pool has. */
#include <errno.h>

#include "host/budget-fixture.h"

static void *malloc_tagged(struct fixture *f, vpmm_tag tag, size_t pages)
{
	vpmm_tag before = vpmm_tag_set(tag);
	void *ptr = fixture_malloc(f, pages, f->streams[0]);

	vpmm_tag_set(before);
	return ptr;
}

/* What a tag has is a pool of its own inside, and gives to other pools as any. */
static void test_give(void)
{
	struct fixture a, b;
	vpmm_tag tag;
	void *ptr;

	fixture_open(&a, BUDGET_OPTS());
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 20000));
	assert_ok(vpmm_tag_open("budget", VPMM_TAG_PAUSABLE, &tag));
	ptr = malloc_tagged(&a, tag, 30);
	fixture_free(&a, ptr, a.streams[0]);
	ptr = fixture_malloc(&b, 30, b.streams[0]);
	fixture_free(&b, ptr, b.streams[0]);
	/* A tag that is paused has given back all. */
	ptr = malloc_tagged(&a, tag, 30);
	assert_ok(vpmm_pause(a.pool, tag, VPMM_PAUSE_DROP));
	fixture_free(&b, fixture_malloc(&b, 40, b.streams[0]), b.streams[0]);
	assert_ok(vpmm_resume(a.pool, tag, a.streams[0]));
	fixture_free(&a, ptr, a.streams[0]);
	assert_ok(vpmm_pool_check(a.pool));
	budget_close_both(&a, &b);
}

/* Without a thread, a call on the pool gives what a tag has. This one has nothing to do with tags. */
static void test_no_thread(void)
{
	struct fixture a, b;
	struct budget_asker asker = { .f = &b };
	GThread *thread;
	uint64_t capture;
	vpmm_tag tag;

	fixture_open(&a, BUDGET_OPTS(.budget_thread = VPMM_BUDGET_THREAD_OFF));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 20000));
	assert_ok(vpmm_tag_open("budget", VPMM_TAG_PAUSABLE, &tag));
	fixture_free(&a, malloc_tagged(&a, tag, 30), a.streams[0]);
	thread = g_thread_new("b", budget_ask_much, &asker);
	while (!g_atomic_int_get(&asker.has_had))
		assert_ok(vpmm_capture_id(a.pool, a.streams[0], &capture));
	g_thread_join(thread);
	budget_close_both(&a, &b);
}

/* The floor is of what tags have and of the rest of the pool together. */
static void test_floor(void)
{
	struct fixture a, b;
	void *ptr, *tagged;
	vpmm_tag tag;

	fixture_open(&a, BUDGET_OPTS(.budget_floor = 30 * PAGE));
	fixture_open(&b, BUDGET_OPTS(.budget_wait = 20000));
	assert_ok(vpmm_tag_open("budget", VPMM_TAG_PAUSABLE, &tag));
	assert_error(budget_malloc(&b, &ptr, 11), ENOMEM, "budget: ");
	fixture_free(&a, malloc_tagged(&a, tag, 35), a.streams[0]);
	/* Of those, 30 pages are a's own, free or not. */
	ptr = fixture_malloc(&b, 10, b.streams[0]);
	g_assert_cmpuint(fixture_stats(&a).mapped, ==, 30 * PAGE);
	g_assert_cmpuint(fixture_stats(&b).budget_left, ==, 0);
	tagged = malloc_tagged(&a, tag, 15);
	fixture_free(&a, fixture_malloc(&a, 15, a.streams[0]), a.streams[0]);
	fixture_free(&a, tagged, a.streams[0]);
	assert_ok(vpmm_pool_trim(a.pool, 0, NULL));
	assert_error(budget_malloc(&b, &tagged, 1), ENOMEM, "budget: ");
	fixture_free(&b, ptr, b.streams[0]);
	budget_close_both(&a, &b);
}

/* Tags take no more parts of a budget than the pool. */
static void test_slots(void)
{
	struct budget_file *file;
	struct fixture f;
	void *ptrs[2];
	vpmm_tag tags[2];

	assert_ok(vpmm_tag_open("budget", VPMM_TAG_PAUSABLE, &tags[0]));
	assert_ok(vpmm_tag_open("other", VPMM_TAG_PAUSABLE, &tags[1]));
	fixture_open(&f, BUDGET_OPTS());
	file = budget_map("test");
	for (size_t i = 0; i < G_N_ELEMENTS(tags); i++)
		ptrs[i] = malloc_tagged(&f, tags[i], 3);
	g_assert_cmpuint(budget_sum(file), ==, 6 * PAGE);
	g_assert_cmpuint(atomic_load(&file->slots[0].taken), ==, 6 * PAGE);
	assert_ok(vpmm_pause(f.pool, VPMM_TAG_ALL, 0));
	g_assert_cmpuint(budget_sum(file), ==, 0);
	assert_ok(vpmm_resume(f.pool, VPMM_TAG_ALL, f.streams[0]));
	for (size_t i = 0; i < G_N_ELEMENTS(tags); i++)
		fixture_free(&f, ptrs[i], f.streams[0]);
	for (unsigned int i = 1; i < BUDGET_SLOTS; i++)
		g_assert_cmpuint(atomic_load(&file->slots[i].pid), ==, 0);
	fixture_close(&f);
	g_assert_cmpuint(budget_sum(file), ==, 0);
	budget_unmap(file);
}

/* The text of the error has what the pool and its tags hold together. */
static void test_text(void)
{
	void *ptr, *tagged, *more;
	struct fixture f;
	vpmm_tag tag;

	fixture_open(&f, BUDGET_OPTS());
	assert_ok(vpmm_tag_open("budget", VPMM_TAG_PAUSABLE, &tag));
	ptr = fixture_malloc(&f, 10, f.streams[0]);
	tagged = malloc_tagged(&f, tag, 15);

	assert_error(budget_malloc(&f, &more, 20), ENOMEM, "the pool holds 50 MiB and 30 MiB are left");
	vpmm_tag_set(tag);
	assert_error(budget_malloc(&f, &more, 20), ENOMEM, "the pool holds 50 MiB and 30 MiB are left");
	vpmm_tag_set(0);

	fixture_free(&f, ptr, f.streams[0]);
	fixture_free(&f, tagged, f.streams[0]);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	int result;

	g_test_init(&argc, &argv, NULL);
	budget_folder();
	g_test_add_func("/budget-tags/give", test_give);
	g_test_add_func("/budget-tags/text", test_text);
	g_test_add_func("/budget-tags/no-thread", test_no_thread);
	g_test_add_func("/budget-tags/floor", test_floor);
	g_test_add_func("/budget-tags/slots", test_slots);
	result = g_test_run();
	budget_remove_folder();
	return result;
}
