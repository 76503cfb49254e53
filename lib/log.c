// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdarg.h>
#include <stdio.h>

#include "error.h"
#include "log.h"

struct log_message {
	enum vpmm_log_level level;
	char *text;
};

void log_init(struct log *log, enum vpmm_log_level level, vpmm_log_fn fn, void *data)
{
	log->level = level;
	log->fn = fn;
	log->data = data;
	g_queue_init(&log->waiting);
}

void log_add(struct log *log, enum vpmm_log_level level, const char *format, ...)
{
	struct log_message *message;
	va_list args;

	if (!log_wants(log, level))
		return;
	message = g_new(struct log_message, 1);
	message->level = level;
	va_start(args, format);
	message->text = g_strdup_vprintf(format, args);
	va_end(args);
	g_queue_push_tail(&log->waiting, message);
}

GList *log_take(struct log *log)
{
	GList *messages = log->waiting.head;

	g_queue_init(&log->waiting);
	return messages;
}

static void deliver_one(const struct log *log, const struct log_message *message)
{
	static const char *const names[] = { "none", "error", "warning", "info", "debug" };

	if (log->fn)
		log->fn(log->data, message->level, message->text);
	else
		fprintf(stderr, "vpmm: %s: %s\n", names[message->level], message->text);
}

void log_deliver(const struct log *log, GList *messages)
{
	struct error_kept kept;

	/* The callback may call the library; the sentence of the call that is under way stays. */
	error_keep(&kept);
	for (GList *link = messages; link; link = link->next) {
		struct log_message *message = link->data;

		deliver_one(log, message);
		g_free(message->text);
		g_free(message);
	}
	g_list_free(messages);
	error_restore(&kept);
}
