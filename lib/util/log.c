// SPDX-License-Identifier: LGPL-2.1-or-later
/* Collects the messages of a pool, and delivers them in order. */
#include <stdarg.h>
#include <stdio.h>

#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

struct log_message {
	const struct log *log;
	vpmm_log_fn fn;
	void *data;
	enum vpmm_log_level level;
	char *text;
};

/*
 * A log callback may call the library. Messages of those calls must not call it again without end: they wait until the
 * callback has returned, and messages that arise from their delivery are dropped. So no callback is entered twice on a
 * thread, and each message causes a bounded number of others.
 */
enum stage {
	STAGE_IDLE,
	STAGE_DELIVERING,	/* new messages are deferred */
	STAGE_DEFERRED		/* deferred ones are being delivered, new ones are dropped */
};

static _Thread_local enum stage stage;
static _Thread_local GQueue deferred;

void log_init(struct log *log, enum vpmm_log_level level, vpmm_log_fn fn, void *data)
{
	log->level = level;
	log->fn = fn;
	log->data = data;
	g_queue_init(&log->waiting);
}

static void add_message(struct log *log, enum vpmm_log_level level, const char *format, va_list args)
	G_GNUC_PRINTF(3, 0);
static void add_message(struct log *log, enum vpmm_log_level level, const char *format, va_list args)
{
	char *text = g_strdup_vprintf(format, args), **lines;

	/* A callback gets a line at a time. */
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		struct log_message *message = g_new(struct log_message, 1);

		*message = (struct log_message){ log, log->fn, log->data, level, *line };
		g_queue_push_tail(&log->waiting, message);
	}
	g_free(lines);
	g_free(text);
}

void log_add(struct log *log, enum vpmm_log_level level, const char *format, ...)
{
	va_list args;

	if (!log_wants(log, level))
		return;
	va_start(args, format);
	add_message(log, level, format, args);
	va_end(args);
}

void log_report(struct log *log, const char *format, ...)
{
	va_list args;

	if (log->fn && !log_wants(log, VPMM_LOG_WARNING))
		return;
	va_start(args, format);
	add_message(log, VPMM_LOG_WARNING, format, args);
	va_end(args);
}

GList *log_take(struct log *log)
{
	GList *messages = log->waiting.head;

	g_queue_init(&log->waiting);
	return messages;
}

static void message_free(void *data)
{
	struct log_message *message = data;

	g_free(message->text);
	g_free(message);
}

static void deliver_one(struct log_message *message)
{
	static const char *const names[] = { "none", "error", "warning", "info", "debug" };

	if (message->fn)
		message->fn(message->data, message->level, message->text);
	else
		text_warn("vpmm: %s: %s\n", names[message->level], message->text);
	message_free(message);
}

static void deliver_all(GList *messages)
{
	for (GList *link = messages; link; link = link->next)
		deliver_one(link->data);
	g_list_free(messages);
}

static void call_back(GList *messages)
{
	struct log_message *message;

	stage = STAGE_DELIVERING;
	deliver_all(messages);
	stage = STAGE_DEFERRED;
	while ((message = g_queue_pop_head(&deferred)))
		deliver_one(message);
	stage = STAGE_IDLE;
}

void log_deliver(const struct log *log, GList *messages)
{
	struct error_kept kept;

	/* The callback may call the library; keep the error of the call under way. */
	error_keep(&kept);
	if (!log->fn) {
		deliver_all(messages);
	} else if (stage == STAGE_IDLE) {
		call_back(messages);
	} else if (stage == STAGE_DELIVERING) {
		for (GList *link = messages; link; link = link->next)
			g_queue_push_tail(&deferred, link->data);
		g_list_free(messages);
	} else {
		g_list_free_full(messages, message_free);
	}
	error_restore(&kept);
}

void log_finish(struct log *log)
{
	GList *messages = log_take(log), *link, *next;

	if (!log->fn || stage == STAGE_IDLE)
		log_deliver(log, messages);
	else
		g_list_free_full(messages, message_free);
	for (link = deferred.head; link; link = next) {
		struct log_message *message = link->data;

		next = link->next;
		if (message->log != log)
			continue;
		message_free(message);
		g_queue_delete_link(&deferred, link);
	}
}
