// SPDX-License-Identifier: LGPL-2.1-or-later
/* How long captured graphs can run, and who is told when they cannot any more. */
#include <glib.h>

#include "host/life.h"

struct watch {
	void (*gone)(void *data);
	void *data;
};

struct host_life {
	unsigned int refs;
	bool destroyed;
	GPtrArray *parts;		/* of struct host_life, with a reference each */
	GArray *watches;		/* of struct watch */
};

struct host_life *host_life_new(void)
{
	struct host_life *life = g_new0(struct host_life, 1);

	lock_assert_held(&host_streams_lock);
	life->refs = 1;
	life->parts = g_ptr_array_new();
	life->watches = g_array_new(FALSE, FALSE, sizeof(struct watch));
	return life;
}

struct host_life *host_life_ref(struct host_life *life)
{
	lock_assert_held(&host_streams_lock);
	life->refs++;
	return life;
}

void host_life_unref(struct host_life *life)
{
	lock_assert_held(&host_streams_lock);
	if (--life->refs)
		return;
	for (guint i = 0; i < life->watches->len; i++) {
		const struct watch *watch = &g_array_index(life->watches, struct watch, i);

		watch->gone(watch->data);
	}
	for (guint i = 0; i < life->parts->len; i++)
		host_life_unref(life->parts->pdata[i]);
	g_array_free(life->watches, TRUE);
	g_ptr_array_free(life->parts, TRUE);
	g_free(life);
}

void host_life_destroy(struct host_life *life)
{
	lock_assert_held(&host_streams_lock);
	life->destroyed = true;
	host_life_unref(life);
}

bool host_life_is_destroyed(const struct host_life *life)
{
	lock_assert_held(&host_streams_lock);
	return life->destroyed;
}

void host_life_contain(struct host_life *life, struct host_life *part)
{
	lock_assert_held(&host_streams_lock);
	g_ptr_array_add(life->parts, host_life_ref(part));
}

void host_life_watch(struct host_life *life, void (*gone)(void *data), void *data)
{
	const struct watch watch = { .gone = gone, .data = data };

	lock_assert_held(&host_streams_lock);
	g_array_append_val(life->watches, watch);
}
