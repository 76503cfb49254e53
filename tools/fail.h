/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The last failure of a tool: a sentence to go with an errno value. Each thread has its own. */
#ifndef FAIL_H
#define FAIL_H

/**
 * fail_set() - say what went wrong
 * @err: a negative errno value
 * @format: the sentence, without newline or full stop
 *
 * Return: @err.
 */
int fail_set(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A macro besides, so that compilers and static analysis see what comes back: not 0, where @err is not. */
#define fail_set(err, ...) \
	({ \
		int fail_set_ = (err); \
		(fail_set)(fail_set_, __VA_ARGS__); \
		fail_set_; \
	})

/**
 * fail_text() - the sentence of the last fail_set()
 */
const char *fail_text(void);

#endif /* FAIL_H */
