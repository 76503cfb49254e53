// SPDX-License-Identifier: LGPL-2.1-or-later
/* Functions and source lines of native frames, by addr2line(1). */
#include <inttypes.h>
#include <string.h>

#include "stacks.h"

/* Addresses of a run of addr2line. */
#define BATCH 500

static void free_frames(void *frames)
{
	g_ptr_array_unref(frames);
}

/* The frames of each object that is there. */
static GHashTable *sort_by_object(const GPtrArray *stacks)
{
	GHashTable *objects = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_frames);

	for (guint i = 0; i < stacks->len; i++) {
		const struct stack *stack = stacks->pdata[i];

		for (guint j = 0; j < stack->frames->len; j++) {
			struct stack_frame *frame = &g_array_index(stack->frames, struct stack_frame, j);
			GPtrArray *frames = frame->object ? g_hash_table_lookup(objects, frame->object) : NULL;

			if (!frame->object || !g_file_test(frame->object, G_FILE_TEST_IS_REGULAR))
				continue;
			if (!frames) {
				frames = g_ptr_array_new();
				g_hash_table_insert(objects, frame->object, frames);
			}
			g_ptr_array_add(frames, frame);
		}
	}
	return objects;
}

/* "function" and "file:line", either of which may be question marks. */
static void take_answer(struct stack_frame *frame, const char *function, const char *place)
{
	const char *colon = strrchr(place, ':');
	guint64 line = colon ? g_ascii_strtoull(colon + 1, NULL, 10) : 0;

	if (strcmp(function, "??") != 0) {
		g_free(frame->function);
		frame->function = g_strdup(function);
	}
	if (line) {
		frame->file = g_strndup(place, (gsize)(colon - place));
		frame->line = line;
	}
}

static void ask(const char *object, struct stack_frame *const *frames, guint count)
{
	g_autoptr(GPtrArray) argv = g_ptr_array_new_with_free_func(g_free);
	g_autofree char *answer = NULL;
	char **lines;
	int status;

	g_ptr_array_add(argv, g_strdup("addr2line"));
	g_ptr_array_add(argv, g_strdup("-Cfe"));
	g_ptr_array_add(argv, g_strdup(object));
	for (guint i = 0; i < count; i++)
		g_ptr_array_add(argv, g_strdup_printf("0x%" PRIx64, frames[i]->offset));
	g_ptr_array_add(argv, NULL);
	if (g_spawn_sync(NULL, (char **)argv->pdata, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
			 &answer, NULL, &status, NULL)) {
		lines = g_strsplit(answer, "\n", -1);
		for (guint i = 0; g_strv_length(lines) > 2 * count && i < count; i++)
			take_answer(frames[i], lines[2 * i], lines[2 * i + 1]);
		g_strfreev(lines);
	}
}

void stacks_resolve(GPtrArray *stacks)
{
	GHashTable *objects = sort_by_object(stacks);
	gpointer object, value;
	GHashTableIter iter;

	g_hash_table_iter_init(&iter, objects);
	while (g_hash_table_iter_next(&iter, &object, &value)) {
		GPtrArray *frames = value;

		for (guint at = 0; at < frames->len; at += BATCH)
			ask(object, (struct stack_frame *const *)frames->pdata + at, MIN(BATCH, frames->len - at));
	}
	g_hash_table_destroy(objects);
}
