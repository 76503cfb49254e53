// SPDX-License-Identifier: LGPL-2.1-or-later
/* Actions that mirrors of the pool are told of. */
#include "support/fault.h"
#include "sweep/sweep-scenes.h"
#include "vpmm-shared.h"

/* The mirror of the situation, and what it was told. */
static struct {
	struct vpmm_mirror *mirror;
	unsigned int updates;
} told;

static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	(void)mirror;
	(void)data;
	g_assert_cmpint(action, ==, VPMM_MIRROR_UNMAP);
	g_assert_true((char *)start < (char *)end);
	told.updates++;
}

static const struct vpmm_mirror_ops ops = { sizeof(ops), update };

/* The mirror is not the pool's alone, so it ends here. */
static int end(int err)
{
	if (err)
		return err;
	vpmm_mirror_unregister(told.mirror);
	told.mirror = NULL;
	return 0;
}

static int act_register(struct sweep *s)
{
	return end(vpmm_mirror_register(s->pool, &told.mirror, &ops, NULL));
}

/* It is told before each unmap, those that fail included. */
static int watched(struct sweep *s, int (*act)(struct sweep *s))
{
	uint64_t before = backend_fault_calls(s->be, BACKEND_OP_unmap);
	int err;

	told.updates = 0;
	err = act(s);
	g_assert_cmpuint(told.updates, ==, backend_fault_calls(s->be, BACKEND_OP_unmap) - before);
	return end(err);
}

static int act_trim_watched(struct sweep *s)
{
	return watched(s, act_trim);
}

static int act_shareable(struct sweep *s)
{
	return sweep_idle(s, PAGE, 0, VPMM_SHAREABLE);
}

static int act_shareable_watched(struct sweep *s)
{
	return watched(s, act_shareable);
}

static int act_free_watched(struct sweep *s)
{
	return watched(s, act_free);
}

static void watch(struct sweep *s)
{
	assert_ok(vpmm_mirror_register(s->pool, &told.mirror, &ops, NULL));
}

/* The memory of a block that was remapped is at its old addresses too. */
static void stage_old_places(struct sweep *s)
{
	void *ptrs[2];

	for (int i = 0; i < 2; i++) {
		ptrs[i] = sweep_have(s, PAGE, 1);
		sweep_have(s, PAGE, 2);
	}
	for (int i = 0; i < 2; i++)
		sweep_drop(s, ptrs[i], 1);
	sweep_drop(s, sweep_have(s, 2 * PAGE, 0), 0);
}

/* The pool may hold no more, and has some free. */
static void stage_full(struct sweep *s)
{
	void *ptr = sweep_have(s, 3 * PAGE, 0);

	sweep_have(s, PAGE, 0);
	sweep_drop(s, ptr, 0);
	watch(s);
}

static void stage_old_places_watched(struct sweep *s)
{
	stage_old_places(s);
	watch(s);
}

static void stage_shareable(struct sweep *s)
{
	assert_ok(sweep_idle(s, PAGE, 0, VPMM_SHAREABLE));
	s->ptr = sweep_last(s);
	watch(s);
}

#define EXPORT .opts = { .export_as = VPMM_EXPORT_FD }

const struct sweep_scene sweep_mirror_scenes[] = {
	{ "mirror", ALL, OP(enter), stage_old_places, act_register },
	{ "mirror-trim", UNCACHED, OP(unmap), stage_old_places_watched, act_trim_watched, .gives = true },
	{ "mirror-limit", ALL, OP(unmap), stage_full, act_shareable_watched,
	  .opts = { .export_as = VPMM_EXPORT_FD, .limit = 4 * PAGE }, .gives = true },
	{ "mirror-free-shareable", ALL, OP(unmap), stage_shareable, act_free_watched, EXPORT },
};
const size_t sweep_mirror_scene_count = G_N_ELEMENTS(sweep_mirror_scenes);
