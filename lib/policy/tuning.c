// SPDX-License-Identifier: LGPL-2.1-or-later
/* The numbers of the policy as variables, for the programs that measure it. */
#include "policy/tuning.h"
#ifdef POLICY_TUNABLE
#include <stddef.h>

#define TUNING(name, value, off) int64_t tuning_##name = (value);
#include "policy/tuning.h"

const struct tuning_number tuning_numbers[] = {
#define TUNING(name, value, off) { #name, &tuning_##name, (off) },
#include "policy/tuning.h"
	{ NULL, NULL, 0 }
};
#endif
