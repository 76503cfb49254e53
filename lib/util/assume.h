/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Invariants that the hottest code relies on. The compiler drops the other branch in a library that is built to be used,
 * which never aborts. Builds for finding faults, that is, with sanitizers or without optimisation, test the invariant
 * and abort; the fuzzers are built with sanitizers.
 */
#ifndef ASSUME_H
#define ASSUME_H

#include <glib.h>

#include "util/sanitized.h"

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
