// SPDX-License-Identifier: LGPL-2.1-or-later
/* The users of allocations. */
#include "core/wait-set.h"
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
	g_ptr_array_free(use->graphs, TRUE);
	g_free(use);
}

bool branch_is(const struct branch *branch, const struct CUstream_st *handle)
{
	return handle && branch->handle == handle &&
	       (handle != STREAM_PER_THREAD || pthread_equal(branch->thread, pthread_self()));
}

GHashTable *use_table_new(void)
{
	return address_table_new(use_free);
}

struct use *use_find(const struct pending *pending, uint64_t addr)
{
	lock_assert_held(&pending->core->lock);
	return g_hash_table_lookup(pending->uses, &addr);
}

static struct use *use_get(struct pending *pending, uint64_t addr)
{
	struct use *use = address_table_get(pending->uses, addr, sizeof(*use));

	lock_assert_held(&pending->core->lock);
	if (use->graphs)
		return use;
	use->graphs = ties_new();
	use->users = g_array_new(FALSE, FALSE, sizeof(struct user));
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

static void add_graph(struct use *use, struct blocker *graph)
{
	tie_add(use->graphs, graph, &graph->uses, use);
}

void use_add_graph(struct pending *pending, uint64_t addr, uint64_t graph)
{
	lock_assert_held(&pending->core->lock);
	add_graph(use_get(pending, addr), &graph_get(pending, graph)->blocker);
}

void use_add_graphs(struct pending *pending, uint64_t addr, const GPtrArray *graphs)
{
	lock_assert_held(&pending->core->lock);
	for (guint i = 0; i < graphs->len; i++)
		add_graph(use_get(pending, addr), tie_at(graphs, i));
}

void use_set_branch(struct pending *pending, uint64_t addr, struct CUstream_st *handle, uint64_t capture)
{
	struct use *use = use_get(pending, addr);

	lock_assert_held(&pending->core->lock);
	use->branch = (struct branch){ .handle = handle, .thread = pthread_self() };
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

bool use_is_branch(const struct use *use, struct CUstream_st *handle, uint64_t capture)
{
	return use && use->maker == capture && branch_is(&use->branch, handle) && !use_is_named(use);
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

	return graph && graph->blocker.uses.length;
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
	GPtrArray *uses = tie_members(known ? &known->blocker.uses : NULL);

	lock_assert_held(&pending->core->lock);
	for (guint i = 0; i < uses->len; i++) {
		struct use *use = uses->pdata[i];

		tie_remove(use->graphs, &known->blocker);
		if (!stream)
			continue;
		add_retired(use, stream, event);
		use->outside = false;
	}
	g_ptr_array_free(uses, TRUE);
}
