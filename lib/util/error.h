/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calling thread's last error: a text for an errno value. Depends on nothing else in the library. */
#ifndef ERROR_H
#define ERROR_H

/**
 * error_set() - set the text of an error
 * @err: a negative errno value
 * @format: the text, without newline or full stop
 *
 * Return: @err, with errno set to match.
 */
int error_set(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * error_add() - put the context in front of the text of an error
 * @err: a negative errno value, with the text that a callee has set
 * @format: what was being done; ": " and the sentence so far follow
 *
 * Return: @err, with errno set to match.
 */
int error_add(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * error_hint() - add a second line: what the caller can do about it
 * @err: a negative errno value, with its text set
 * @format: the line, without newline or full stop
 *
 * Return: @err, with errno set to match.
 */
int error_hint(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Macros too, so that compilers and static analysis know the result: not 0 if @err is not. */
#define error_set(err, ...) \
	({ \
		int error_set_ = (err); \
		(error_set)(error_set_, __VA_ARGS__); \
		error_set_; \
	})
#define error_add(err, ...) \
	({ \
		int error_add_ = (err); \
		(error_add)(error_add_, __VA_ARGS__); \
		error_add_; \
	})

#define error_hint(err, ...) \
	({ \
		int error_hint_ = (err); \
		(error_hint)(error_hint_, __VA_ARGS__); \
		error_hint_; \
	})

#define ERROR_SENTENCE_MAX 1024

/* A saved text. */
struct error_kept {
	char sentence[ERROR_SENTENCE_MAX];
};

/**
 * error_keep() - save the text, before something is done whose failure does not matter
 * @kept: receives it; error_restore() restores it
 *
 * Clean-up makes driver calls too, whose errors must not replace the reason for the clean-up.
 */
void error_keep(struct error_kept *kept);
void error_restore(const struct error_kept *kept);

/**
 * error_get() - the text of the calling thread's last error
 *
 * Return: the text of its last error_set(), with the error_add()s since; "" before the first.
 */
const char *error_get(void);

#endif /* ERROR_H */
