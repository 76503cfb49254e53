/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The log of a pool: collected while its lock is held, delivered when it is not. */
#ifndef LOG_H
#define LOG_H

#include <glib.h>
#include <stdbool.h>

#include "vpmm.h"

struct log {
	enum vpmm_log_level level;
	vpmm_log_fn fn;
	void *data;
	GQueue waiting;		/* of struct log_message */
};

/**
 * log_init() - set up a log
 * @log: the log
 * @level: the most detailed level to keep
 * @fn: where to deliver it; NULL: standard error
 * @data: passed to @fn
 */
void log_init(struct log *log, enum vpmm_log_level level, vpmm_log_fn fn, void *data);

/**
 * log_wants() - whether messages of a level are kept
 * @log: the log
 * @level: the level
 *
 * For messages that are expensive to format.
 */
static inline bool log_wants(const struct log *log, enum vpmm_log_level level)
{
	return G_UNLIKELY(level <= log->level);
}

/**
 * log_add() - add a message
 * @log: the log; the lock of its pool is held
 * @level: its level
 * @format: a line, or several with newlines between them, each of which is a message
 */
void log_add(struct log *log, enum vpmm_log_level level, const char *format, ...) G_GNUC_PRINTF(3, 4);

/**
 * log_report() - add a warning about an output that the user has asked for
 * @log: the log; the lock of its pool is held
 * @format: a line
 *
 * Without a callback it goes to standard error at any level: with the default level nobody would learn of it.
 */
void log_report(struct log *log, const char *format, ...) G_GNUC_PRINTF(2, 3);

/**
 * log_take() - take the messages that wait for delivery
 * @log: the log; the lock of its pool is held
 *
 * Return: the messages, for log_deliver(); NULL for none.
 */
GList *log_take(struct log *log);

/**
 * log_deliver() - deliver messages
 * @log: the log; the lock of its pool is not held
 * @messages: what log_take() gave
 *
 * On a thread that is inside a log callback, of any pool, they are delivered once that has returned. Messages that
 * arise during such a late delivery are dropped.
 */
void log_deliver(const struct log *log, GList *messages);

/**
 * log_finish() - deliver the waiting messages, or drop them, before the log is destroyed
 * @log: the log; the lock of its pool is not held
 *
 * Inside a log callback they are dropped: after that callback, @data may no longer be valid.
 */
void log_finish(struct log *log);

#endif /* LOG_H */
