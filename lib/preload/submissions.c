// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Passes calls on, whatever their arguments are, and counts them. Each argument of such a call is an integer, a pointer
 * or a structure of one register, and takes a word, in a register or on the stack. None has more than twelve; what is
 * beyond the arguments of one with fewer is whatever the caller had there, and nobody looks at it.
 */
#include "preload/driver.h"
#include "preload/gate.h"
#include "preload/monitor.h"
#include "preload/settings.h"
#include "preload/submissions.h"

typedef uintptr_t word;
typedef drv_result submit_fn(word, word, word, word, word, word, word, word, word, word, word, word);

/* The call itself; or, without it, what answers in its place. */
static submit_fn *submit_to(enum preload_call call);

#define X(name) \
	drv_result name(word, word, word, word, word, word, word, word, word, word, word, word); \
	drv_result name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l) \
	{ \
		return GATED(submit_to(CALL_##name)(a, b, c, d, e, f, g, h, i, j, k, l)); \
	}
PRELOAD_SUBMISSIONS(X)
#undef X

static drv_result lacks(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l)
{
	(void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k, (void)l;
	return DRV_ERROR_STUB_LIBRARY;
}

static submit_fn *submit_to(enum preload_call call)
{
	submit_fn *submit = (submit_fn *)driver_call(call);

	if (settings()->monitor)
		monitor_submitted();
	return submit ? submit : lacks;
}

void *submission_hook(size_t number)
{
	static void *const hooks[] = {
#define X(name) (void *)(name),
		PRELOAD_SUBMISSIONS(X)
#undef X
	};

	return number < sizeof(hooks) / sizeof(*hooks) ? hooks[number] : NULL;
}
