/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Invariants that the hot path relies on. In a release build the compiler takes them for granted, as a library must
 * not abort. Builds that look for faults, with sanitizers (the fuzzers) or without optimisation, test them and abort.
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
