// SPDX-License-Identifier: LGPL-2.1-or-later
#include "trace-tags.h"

#include <errno.h>
#include <string.h>

#include "fail.h"

/* The number of a tag, which is added if it is new. */
static uint8_t find_or_add(GArray *tags, const char *name, bool pausable)
{
	for (guint i = 0; i < tags->len; i++) {
		if (strcmp(g_array_index(tags, struct trace_tag, i).name, name) == 0)
			return (uint8_t)(i + 1);
	}
	if (tags->len == TRACE_TAGS)
		return 0;
	g_array_set_size(tags, tags->len + 1);
	g_array_index(tags, struct trace_tag, tags->len - 1) = (struct trace_tag){ g_strdup(name), pausable };
	return (uint8_t)tags->len;
}

/* Whether a record is of a pausable tag: those that pause and resume are. */
static bool is_pausable(const struct trace_record *record)
{
	return record->op != 'a' || record->flags & TRACE_PAUSABLE;
}

int trace_tags_number(const struct trace_place *place, GArray *tags, const struct trace_record *record,
		      uint8_t *number)
{
	*number = 0;
	if (!*record->tag)
		return record->op != 'a' || record->flags & (TRACE_PAUSABLE | TRACE_DROP | TRACE_STAY) ?
		       trace_damaged(place, "the tag is missing") : 0;
	*number = find_or_add(tags, record->tag, is_pausable(record));
	if (!*number)
		return trace_damaged(place, "there are more than %d tags", TRACE_TAGS);
	if (g_array_index(tags, struct trace_tag, *number - 1).pausable != is_pausable(record))
		return trace_damaged(place, "the tag \"%s\" is %s", record->tag, is_pausable(record) ?
				     "pausable, and was not" : "not pausable, and was");
	return 0;
}

void trace_tags_clear(struct trace *trace)
{
	for (uint32_t i = 0; i < trace->n_tags; i++)
		g_free(trace->tags[i].name);
	g_free(trace->tags);
	trace->tags = NULL;
	trace->n_tags = 0;
}

static const char *const rules[] = { "kept", "stream", "size", NULL };

int trace_tags_check(const char *rule)
{
	return g_strv_contains(rules, rule) ? 0 :
	       fail_set(-EINVAL, "--tags: \"%s\": expected kept, stream or size", rule);
}

/* For each operation that allocates, whether nothing frees it. */
static bool *find_kept(const struct trace *trace)
{
	bool *kept = g_new0(bool, trace->n_ops);
	size_t *born = g_new0(size_t, trace->slots);

	for (size_t i = 0; i < trace->n_ops; i++) {
		const struct trace_op *op = &trace->ops[i];

		if (op->kind == TRACE_ALLOC) {
			kept[i] = true;
			born[op->slot] = i;
		} else if (op->kind == TRACE_FREE) {
			kept[born[op->slot]] = false;
		}
	}
	g_free(born);
	return kept;
}

static char *name_tag(const struct trace_op *op, const char *rule, bool kept)
{
	unsigned int power = 0;

	if (*rule == 'k')
		return g_strdup(kept ? "kept" : "freed");
	if (strcmp(rule, "stream") == 0)
		return g_strdup_printf("stream %" G_GUINT32_FORMAT, op->stream);
	while (op->bytes >> (4 * power) > 16)
		power++;
	return g_strdup_printf("up to %" G_GUINT64_FORMAT, G_GUINT64_CONSTANT(16) << (4 * power));
}

/* More tags than there can be share the last. The tags that were paused are gone, so their pauses go as well. */
void trace_tags_give(struct trace *trace, const char *rule)
{
	GArray *tags = g_array_new(FALSE, FALSE, sizeof(struct trace_tag));
	bool *kept = find_kept(trace);
	size_t n_ops = 0;

	for (size_t i = 0; i < trace->n_ops; i++) {
		struct trace_op op = trace->ops[i];

		if (op.kind == TRACE_PAUSE || op.kind == TRACE_RESUME)
			continue;
		op.tag = 0;
		if (op.kind == TRACE_ALLOC) {
			char *name = name_tag(&op, rule, kept[i]);

			op.tag = find_or_add(tags, name, true) ?: TRACE_TAGS;
			op.flags &= (uint8_t)~(TRACE_DROP | TRACE_STAY);
			g_free(name);
		}
		trace->ops[n_ops++] = op;
	}
	g_free(kept);
	trace_tags_clear(trace);
	trace->n_ops = n_ops;
	trace->n_tags = tags->len;
	trace->tags = (struct trace_tag *)(void *)g_array_free(tags, FALSE);
}
