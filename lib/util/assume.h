/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Invariants that the hot path relies on. In a release build the compiler takes them for granted, as a library must
 * not abort. Builds that look for faults, with sanitizers (the fuzzers) or without optimisation, test them and abort.
 * SANITIZED: a sanitizer tracks memory or threads; each compiler has a macro of its own for that.
 */
#ifndef ASSUME_H
#define ASSUME_H

#include <glib.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if defined(__SANITIZE_THREAD__)
#define SANITIZED_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREADS 1
#endif
#endif
#ifndef SANITIZED_THREADS
#define SANITIZED_THREADS 0
#endif

#ifndef ASSUME_TESTED
#ifdef __OPTIMIZE__
#define ASSUME_TESTED SANITIZED
#else
#define ASSUME_TESTED 1
#endif
#endif

/* Not g_assert(), which G_DISABLE_ASSERT takes away. */
#define assume(invariant) \
	do { \
		if (G_LIKELY(invariant)) \
			break; \
		if (ASSUME_TESTED) \
			g_assertion_message_expr(G_LOG_DOMAIN, __FILE__, __LINE__, G_STRFUNC, #invariant); \
		__builtin_unreachable(); \
	} while (0)

#endif /* ASSUME_H */
