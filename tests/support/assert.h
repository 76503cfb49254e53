/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What tests of every kind say of a call that returns a negative errno value. */
#ifndef ASSERT_H
#define ASSERT_H

#include <glib.h>

#include "vpmm.h"

/* The call succeeds. */
#define assert_ok(call) \
	do { \
		int err_ = (call); \
		if (err_) \
			g_error("%s:%d: %s: %d, %s", __FILE__, __LINE__, #call, err_, vpmm_last_error()); \
	} while (0)

#endif /* ASSERT_H */
