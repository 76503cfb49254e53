// SPDX-License-Identifier: LGPL-2.1-or-later
/* Byte counts as text. */
#include <inttypes.h>
#include <stdio.h>

#include "util/amount.h"

#define MIB (UINT64_C(1) << 20)

struct amount amount(uint64_t bytes)
{
	struct amount amount;

	if (bytes && bytes < MIB)
		snprintf(amount.text, sizeof(amount.text), "%" PRIu64 " bytes", bytes);
	else if (bytes % MIB)
		snprintf(amount.text, sizeof(amount.text), "%.1f MiB", (double)bytes / (double)MIB);
	else
		snprintf(amount.text, sizeof(amount.text), "%" PRIu64 " MiB", bytes / MIB);
	return amount;
}
