// SPDX-License-Identifier: LGPL-2.1-or-later
/* The text of names that PyTorch carries, and what they mean for its blocks. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "torch/books.h"
#include "vpmm/torch_class.h"
#include "torch/device.h"
#include "torch/kept.h"
#include "torch/pools.h"
#include "torch/share.h"
#include "torch/torch.h"
#include "util/lender.h"
#include "vpmm.h"

#define HEX ":%" PRIx64
#define HEX_SCAN ":%" SCNx64

/* Up to the '/' is what the memory is called, and behind it the block. */
#define NAME_FORMAT "vpmm1:%" PRId32 ":%016" PRIx64 "%016" PRIx64 HEX HEX HEX "/%" PRIx64 HEX
#define NAME_SCAN "vpmm1:%" SCNd32 ":%16" SCNx64 "%16" SCNx64 HEX_SCAN HEX_SCAN HEX_SCAN "/%" SCNx64 HEX_SCAN "%n"

static bool find_named(const struct lender_name *name, void **base)
{
	return pools_find_shared((const void *)(uintptr_t)name->addr, name->serial, base);
}

/* Why the thread's last call failed; empty: the error of the library has the text. */
static _Thread_local char reason[128];

/* NULL: the error is one of a socket. */
static const char *words_of(int err)
{
	switch (err) {
	case -EINVAL:
		return "libvpmm knows no such block";
	case -ESRCH:
		return "the process that has it has ended, or does not answer";
	case -ENOENT:
		return "the process that had it has freed it";
	case -EPERM:
		return "the process that has it is another user's";
	case -EBUSY:
		return "this process was forked after PyTorch had begun to use the GPU";
	case -ENXIO:
		return "the device's primary context cannot be made current";
	default:
		return NULL;
	}
}

/* For an error that is none of the library's. */
static int explain_own(int err)
{
	const char *words = words_of(err);

	if (words)
		snprintf(reason, sizeof(reason), "%s", words);
	else if (err)
		snprintf(reason, sizeof(reason), "no socket between the processes: %s", strerror(-err));
	return err;
}

static int explain_library(int err)
{
	if (err)
		reason[0] = '\0';
	return err;
}

static int lend_key_of(struct vpmm_pool *pool, const void *ptr, uint64_t *key, size_t *offset)
{
	return explain_library(vpmm_lend_key(pool, ptr, key, offset));
}

static const struct lender_ops ops = { .find = find_named, .lend_key = lend_key_of, .lend = vpmm_lend };

int share_give(void *ptr, char *text, size_t *offset)
{
	struct lender_name name = { .addr = (uintptr_t)ptr };
	int err;

	if (lender_in_child())
		return explain_own(-EBUSY);
	if (!books_share(ptr, &name.serial))
		return explain_own(-EINVAL);
	/* Unless lend_key_of() fails. */
	explain_own(-EINVAL);
	err = lender_give(&ops, &name, offset);
	if (err)
		return reason[0] ? explain_own(err) : err;
	snprintf(text, TORCH_NAME, NAME_FORMAT, name.pid, name.token[0], name.token[1], name.key[0], name.key[1],
		 name.key[2], name.addr, name.serial);
	return 0;
}

static int read_name(const char *text, struct lender_name *name)
{
	int end = 0;
	int found = sscanf(text, NAME_SCAN, &name->pid, &name->token[0], &name->token[1], &name->key[0], &name->key[1],
			   &name->key[2], &name->addr, &name->serial, &end);

	return found != 8 || text[end] ? -EINVAL : 0;
}

int vpmm_torch_take(const char *text, int device, void **ptr, size_t *lead, size_t *size)
{
	struct lender_name name = { 0 };
	struct lender_answer answer;
	bool entered;
	int fd, err;

	if (lender_in_child())
		return explain_own(-EBUSY);
	err = read_name(text, &name);
	if (!err)
		err = lender_ask(&name, &answer, &fd);
	if (err)
		return explain_own(err);
	err = explain_own(device_enter(device, &entered) ? 0 : -ENXIO);
	if (!err) {
		err = explain_library(vpmm_receive(NULL, ptr, size, fd));
		device_leave(entered);
	}
	if (!err)
		*lead = answer.lead;
	close(fd);
	return err;
}

void vpmm_torch_drop(void *ptr)
{
	if (!lender_in_child())
		kept_free(ptr, VPMM_STREAM_ANY);
}

const char *vpmm_torch_explain(int err)
{
	(void)err;
	return reason[0] ? reason : vpmm_last_error();
}
