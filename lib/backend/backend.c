// SPDX-License-Identifier: LGPL-2.1-or-later
/* Chooses a backend: by name, or CUDA if there is a GPU. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend/backend.h"
#include "util/error.h"

static int open_device(const struct backend_ops *ops, const int *device, struct backend **be)
{
	int ordinal;
	int err;

	if (device)
		return ops->open(*device, be);
	err = ops->current_device(&ordinal);
	return err ? err : ops->open(ordinal, be);
}

/* Whether there is no GPU at all, rather than no device of this ordinal. */
static bool lacks_gpu(const int *device)
{
	struct error_kept kept;
	bool lacks;
	int ordinal;

	if (!device || !*device)
		return true;
	error_keep(&kept);
	lacks = backend_cuda.current_device(&ordinal) == -ENODEV;
	error_restore(&kept);
	return lacks;
}

int backend_open(const char *name, const int *device, struct backend **be)
{
	struct error_kept kept;
	int err;

	if (!strcmp(name, backend_host.name))
		return open_device(&backend_host, device, be);
	error_keep(&kept);
	err = open_device(&backend_cuda, device, be);
	if ((err == -ENODEV || err == -ENOTSUP) && !strcmp(name, "auto")) {
		error_restore(&kept);
		return open_device(&backend_host, device, be);
	}
	if (err == -ENODEV && lacks_gpu(device))
		error_hint(err, "without a GPU, VPMM_BACKEND=host serves from ordinary memory; with options, backend "
			   "\"host\" in struct vpmm_opts, or vpmm_opts_from_env()");
	return err;
}
