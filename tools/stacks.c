// SPDX-License-Identifier: LGPL-2.1-or-later
#include "stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "input.h"
#include "units.h"

static void clear_frame(void *data)
{
	struct stack_frame *frame = data;

	g_free(frame->function);
	g_free(frame->object);
	g_free(frame->file);
}

static void free_stack(void *data)
{
	struct stack *stack = data;

	g_array_unref(stack->frames);
	g_free(stack);
}

static struct stack *parse_stack(const char *line)
{
	struct stack *stack, found = { 0 };

	if (sscanf(line, "stack live %" SCNu64 " blocks %" SCNu64 " peak %" SCNu64, &found.live, &found.blocks,
		   &found.peak) != 3)
		return NULL;
	stack = g_new(struct stack, 1);
	*stack = found;
	stack->frames = g_array_new(FALSE, FALSE, sizeof(struct stack_frame));
	g_array_set_clear_func(stack->frames, clear_frame);
	return stack;
}

/* "OBJECT+0xOFFSET", or of Python "FILE:LINE". */
static void parse_place(const char *place, struct stack_frame *frame)
{
	const char *plus = g_strrstr(place, "+0x"), *colon = strrchr(place, ':');
	char *end = NULL;

	if (plus)
		frame->offset = g_ascii_strtoull(plus + 1, &end, 16);
	if (plus && !*end) {
		frame->object = g_strndup(place, (gsize)(plus - place));
	} else if (colon) {
		frame->file = g_strndup(place, (gsize)(colon - place));
		frame->line = g_ascii_strtoull(colon + 1, NULL, 10);
	}
}

/* "    #I FUNCTION (PLACE)". Only the place may have a blank. */
static bool parse_frame(const char *line, struct stack_frame *frame)
{
	g_autofree char *place = NULL;
	const char *function, *open;

	*frame = (struct stack_frame){ NULL };
	if (!g_str_has_prefix(line, "    #"))
		return false;
	function = strchr(line + strlen("    #"), ' ');
	open = function ? strstr(function, " (") : NULL;
	if (!open || !g_str_has_suffix(line, ")"))
		return false;
	function++;
	if (open > function && !g_str_has_prefix(function, "?? "))
		frame->function = g_strndup(function, (gsize)(open - function));
	place = g_strndup(open + strlen(" ("), strlen(open) - strlen(" ()"));
	parse_place(place, frame);
	return true;
}

GPtrArray *stacks_new(void)
{
	return g_ptr_array_new_with_free_func(free_stack);
}

void stacks_add_line(GPtrArray *stacks, const char *line)
{
	struct stack *stack = parse_stack(line);
	struct stack_frame frame;

	if (stack) {
		g_ptr_array_add(stacks, stack);
	} else if (stacks->len && parse_frame(line, &frame)) {
		stack = stacks->pdata[stacks->len - 1];
		g_array_append_val(stack->frames, frame);
	}
}

static gint compare_live(gconstpointer a, gconstpointer b)
{
	const struct stack *x = *(const struct stack *const *)a, *y = *(const struct stack *const *)b;

	if (x->live != y->live)
		return x->live > y->live ? -1 : 1;
	return (x->peak < y->peak) - (x->peak > y->peak);
}

void stacks_sort(GPtrArray *stacks)
{
	g_ptr_array_sort(stacks, compare_live);
}

static int read_text(const char *name, GString *text)
{
	struct input *input;
	char buffer[4096];
	size_t got = 0;
	int err;

	err = input_open(name, &input);
	if (err)
		return err;
	do {
		err = input_read(input, buffer, sizeof(buffer), &got);
		if (!err)
			g_string_append_len(text, buffer, (gssize)got);
	} while (!err && got);
	input_close(input);
	return err;
}

int stacks_load(const char *name, GPtrArray **stacks)
{
	const char *called = strcmp(name, "-") ? name : "standard input";
	g_autoptr(GString) text = g_string_new(NULL);
	g_auto(GStrv) lines = NULL;
	int err;

	err = read_text(name, text);
	if (err)
		return fail_set(err, "%s: %s", called, fail_text());
	*stacks = stacks_new();
	lines = g_strsplit(text->str, "\n", -1);
	for (char **line = lines; *line; line++)
		stacks_add_line(*stacks, *line);
	stacks_sort(*stacks);
	if ((*stacks)->len)
		return 0;
	g_ptr_array_unref(*stacks);
	return fail_set(-EBADMSG, "%s: there are no stacks: expected a dump of a pool with VPMM_STACKS, see "
			"vpmm-owners(7)", called);
}

static void print_frame(const struct stack_frame *frame, FILE *out)
{
	const char *function = frame->function ? frame->function : "??";

	if (frame->file)
		fprintf(out, "    %s (%s:%" PRIu64 ")\n", function, frame->file, frame->line);
	else if (frame->object)
		fprintf(out, "    %s (%s+0x%" PRIx64 ")\n", function, frame->object, frame->offset);
	else
		fprintf(out, "    %s\n", function);
}

void stacks_print(const GPtrArray *stacks, guint most, FILE *out)
{
	for (guint i = 0; i < MIN(most, stacks->len); i++) {
		const struct stack *stack = stacks->pdata[i];
		char live[UNITS_TEXT], peak[UNITS_TEXT];

		units_format_bytes(live, stack->live);
		units_format_bytes(peak, stack->peak);
		fprintf(out, "%s in %" PRIu64 " block%s, at most %s:\n", live, stack->blocks,
			stack->blocks == 1 ? "" : "s", peak);
		for (guint j = 0; j < stack->frames->len; j++)
			print_frame(&g_array_index(stack->frames, struct stack_frame, j), out);
	}
}
