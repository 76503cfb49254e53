/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The file of VPMM_PLAN as text: one fact a line, and a sum of all at the end. Only this library reads it. */
#ifndef PLAN_TEXT_H
#define PLAN_TEXT_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

#include "warm/warm.h"

/* The first bytes of each plan, of any version. */
#define PLAN_TEXT_BEGIN "vpmm-plan "

/* A longer file is none of ours: MEMO_MOST decisions take 10 MB. */
#define PLAN_TEXT_MOST ((size_t)64 << 20)

/**
 * plan_text_write() - write what a pool has learned
 * @warm: that
 * @device: the backend and the name of the device
 *
 * Return: the text, for g_string_free().
 */
GString *plan_text_write(const struct warm *warm, const char *device);

/**
 * plan_text_read() - read it
 * @text: with a null byte at the end, and perhaps others before; it is changed
 * @length: bytes of it
 * @device: the backend and the name of the device that it is to be of
 * @most: bytes that the extents may have, as it takes memory to list them
 * @least: bytes that each of them has at least, for the same reason
 * @warm: receives what it has, for warm_free(); only its form is checked
 *
 * Return: 0 or -EINVAL.
 */
int plan_text_read(char *text, size_t length, const char *device, uint64_t most, uint64_t least,
		   struct warm **warm);

#endif /* PLAN_TEXT_H */
