// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which host backends a thread has entered. */
#include <errno.h>

#include "host/opened.h"
#include "host/streams.h"
#include "util/error.h"

_Thread_local struct host_entered host_entered;
_Atomic uint64_t host_touched;
_Atomic uint64_t host_misordered;
struct lock host_opens_lock = LOCK_INIT(LOCK_HOST_OPENS);

int host_check_entered(struct backend *be, const char *call)
{
	if (host_entered.depth && host_entered.be[host_entered.depth - 1] == host_backend(be))
		return 0;
	return error_set(-EINVAL, "%s: the thread has not entered this backend of host device %d", call,
			 host_device_ordinal(host_backend(be)->dev));
}

int host_check_there(struct backend *be, const char *call)
{
	int ret = host_check_entered(be, call);

	if (ret || !host_backend(be)->gone)
		return ret;
	host_touched++;
	return error_set(-ESTALE, "%s: host device %d was reset", call, host_device_ordinal(host_backend(be)->dev));
}
