// SPDX-License-Identifier: LGPL-2.1-or-later
/* The users of allocations. */
#include <errno.h>

#include "core/wait-set.h"
#include "pending/graph.h"
#include "pending/pending.h"
#include "pending/tie.h"
#include "pending/users.h"
#include "util/address.h"
#include "util/error.h"

static void user_clear(gpointer data)
{
	event_unref(((struct user *)data)->event);
}

static void use_free(gpointer data)
{
	struct use *use = data;

	g_array_free(use->users, TRUE);
	g_array_free(use->graphs, TRUE);
	g_ptr_array_free(use->ties, TRUE);
	g_free(use);
}

GHashTable *use_table_new(void)
{
	return address_table_new(use_free);
}

int ids_find(const GArray *ids, uint64_t id)
{
	for (guint i = 0; i < ids->len; i++) {
		if (g_array_index(ids, uint64_t, i) == id)
			return (int)i;
	}
	return -1;
}

struct use *use_find(const struct pending *pending, uint64_t addr)
{
	lock_assert_held(&pending->core->lock);
	return g_hash_table_lookup(pending->uses, &addr);
}

static struct use *use_get(struct pending *pending, uint64_t addr)
{
	struct use *use = use_find(pending, addr);

	if (use)
		return use;
	use = address_table_add(pending->uses, addr, sizeof(*use));
	use->ties = ties_new();
	use->users = g_array_new(FALSE, FALSE, sizeof(struct user));
	use->graphs = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	g_array_set_clear_func(use->users, user_clear);
	return use;
}

static struct user *user_find(struct use *use, uint64_t id)
{
	for (guint i = 0; i < use->users->len; i++) {
		struct user *user = &g_array_index(use->users, struct user, i);

		if (user->id == id)
			return user;
	}
	return NULL;
}

static void user_retire(struct user *user, struct event *event)
{
	event_unref(user->event);
	user->event = event_ref(event);
}

static struct user *add_stream(struct pending *pending, uint64_t addr, uint64_t id, struct CUstream_st *handle)
{
	struct user added = { .id = id, .handle = handle, .named = true };
	struct use *use = use_get(pending, addr);
	struct user *user = user_find(use, id);

	if (!user) {
		g_array_append_val(use->users, added);
		return &g_array_index(use->users, struct user, use->users->len - 1);
	}
	/* A retired stream may be named again. */
	added.work = user->work && !user->event;
	event_unref(user->event);
	*user = added;
	return user;
}

void use_add_stream(struct pending *pending, uint64_t addr, uint64_t id, struct CUstream_st *handle)
{
	lock_assert_held(&pending->core->lock);
	add_stream(pending, addr, id, handle);
}

void use_add_work(struct pending *pending, uint64_t addr, uint64_t id, struct CUstream_st *handle)
{
	add_stream(pending, addr, id, handle)->work = true;
}

bool use_has_work(const struct use *use)
{
	for (guint i = 0; i < use->users->len; i++) {
		if (g_array_index(use->users, struct user, i).work)
			return true;
	}
	return false;
}

void use_add_graph(struct pending *pending, uint64_t addr, uint64_t graph)
{
	struct use *use = use_get(pending, addr);

	lock_assert_held(&pending->core->lock);
	if (ids_find(use->graphs, graph) >= 0)
		return;
	g_array_append_val(use->graphs, graph);
	tie_add(use->ties, &graph_get(pending, graph)->uses, use);
}

void use_set_home(struct pending *pending, uint64_t addr, struct CUstream_st *handle, uint64_t capture)
{
	struct use *use = use_get(pending, addr);

	lock_assert_held(&pending->core->lock);
	use->home = handle;
	use->thread = pthread_self();
	if (handle)
		use->maker = capture;
}

/* Whether some of the named streams were not retired; @order receives the last points of those that were. */
static bool collect_named(const struct use *use, struct order *order)
{
	bool there = false;

	for (guint i = 0; i < use->users->len; i++) {
		const struct user *user = &g_array_index(use->users, struct user, i);

		if (user->named)
			order_add_event(order, user->event);
		there = there || (user->named && !user->event);
	}
	return there;
}

bool use_is_named(const struct use *use)
{
	struct error_kept kept;
	struct order order;
	bool named;

	if (!use)
		return false;
	error_keep(&kept);
	order_init(&order, NULL);
	named = collect_named(use, &order);
	if (order_poll(&order))
		error_restore(&kept);
	named = named || !order_is_ready(&order);
	order_clear(&order);
	return named;
}

bool use_is_home(const struct use *use, struct CUstream_st *handle, uint64_t capture)
{
	if (!use || !use->home || use->home != handle || use->maker != capture || use_is_named(use))
		return false;
	/* The per-thread handle means a different stream in each thread. */
	return handle != STREAM_PER_THREAD || pthread_equal(use->thread, pthread_self());
}

void use_remove(struct pending *pending, uint64_t addr)
{
	lock_assert_held(&pending->core->lock);
	g_hash_table_remove(pending->uses, &addr);
}

int use_retire_stream(struct pending *pending, struct stream *stream, struct CUstream_st *handle)
{
	struct event *event;
	GHashTableIter iter;
	struct user *user;
	gpointer use;
	int err;

	lock_assert_held(&pending->core->lock);
	if (!g_hash_table_size(pending->uses))
		return 0;
	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	g_hash_table_iter_init(&iter, pending->uses);
	while (g_hash_table_iter_next(&iter, NULL, &use)) {
		user = user_find(use, stream->id);
		if (user)
			user_retire(user, event);
	}
	event_unref(event);
	return 0;
}

bool use_has_graph(const struct pending *pending, uint64_t id)
{
	const struct graph *graph = graph_find(pending, id);

	return graph && graph->uses.length;
}

/*
 * Adds a user that ends at the event. A stream that is a user already, and not retired, will be recorded later, when
 * the memory is freed.
 */
static void add_retired(struct use *use, const struct stream *stream, struct event *event)
{
	struct user added = { .id = stream->id };
	struct user *user = user_find(use, stream->id);

	if (!user) {
		added.event = event_ref(event);
		g_array_append_val(use->users, added);
	} else if (user->event) {
		user_retire(user, event);
	}
}

void use_retire_graph(struct pending *pending, uint64_t graph, const struct stream *stream, struct event *event)
{
	const struct graph *known = graph_find(pending, graph);
	GPtrArray *uses = tie_members(known ? &known->uses : NULL);
	guint found;

	lock_assert_held(&pending->core->lock);
	for (guint i = 0; i < uses->len; i++) {
		struct use *use = uses->pdata[i];

		/* The ties are in the order of the graphs. */
		found = (guint)ids_find(use->graphs, graph);
		g_array_remove_index(use->graphs, found);
		g_ptr_array_remove_index(use->ties, found);
		if (!stream)
			continue;
		add_retired(use, stream, event);
		use->outside = false;
	}
	g_ptr_array_free(uses, TRUE);
}

/* The number of uses in a graph's list; -1: one of them is not of that graph. */
static int count_uses(const struct graph *graph)
{
	for (const GList *link = graph->uses.head; link; link = link->next) {
		if (ids_find(((struct use *)link->data)->graphs, graph->id) < 0)
			return -1;
	}
	return (int)graph->uses.length;
}

int use_check(struct pending *pending)
{
	int linked = 0, used = 0, more;
	GHashTableIter iter;
	gpointer value;

	lock_assert_held(&pending->core->lock);
	g_hash_table_iter_init(&iter, pending->graphs);
	while (linked >= 0 && g_hash_table_iter_next(&iter, NULL, &value)) {
		more = count_uses(value);
		linked = more < 0 ? more : linked + more;
	}
	g_hash_table_iter_init(&iter, pending->uses);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		used += (int)((struct use *)value)->graphs->len;
	if (linked == used)
		return 0;
	return error_set(-EUCLEAN, "graphs use %d allocations, and find %d (-1: some of other graphs)", used, linked);
}
