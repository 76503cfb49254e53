/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calling thread's last error: a sentence to go with an errno value. Needs nothing else of the library. */
#ifndef ERROR_H
#define ERROR_H

/**
 * error_set() - say what went wrong
 * @err: a negative errno value
 * @format: the sentence, without newline or full stop
 *
 * Return: @err, with errno set to match.
 */
int error_set(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * error_add() - put in front of the sentence what was being done
 * @err: a negative errno value, which a callee explained by error_set()
 * @format: what was being done; ": " and the sentence so far follow
 *
 * Return: @err, with errno set to match.
 */
int error_add(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * error_hint() - say on a second line what the caller can do about it
 * @err: a negative errno value, explained already
 * @format: the line, without newline or full stop
 *
 * Return: @err, with errno set to match.
 */
int error_hint(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Macros besides, so that compilers and static analysis see what comes back: not 0, where @err is not. */
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

/* A sentence that is put aside. */
struct error_kept {
	char sentence[ERROR_SENTENCE_MAX];
};

/**
 * error_keep() - put the sentence aside, before something is done whose failure is nobody's business
 * @kept: receives it; error_restore() brings it back
 *
 * Clean-up calls the driver too, and must not replace the reason for which it was called.
 */
void error_keep(struct error_kept *kept);
void error_restore(const struct error_kept *kept);

/**
 * error_get() - the calling thread's sentence
 *
 * Return: the sentence of its last error_set() and the error_add()s since; "" before the first.
 */
const char *error_get(void);

#endif /* ERROR_H */
