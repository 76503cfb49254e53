// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/output.h"
#include "util/descriptor.h"
#include "util/error.h"

/* Of deflateInit2(): the largest window, and a header of gzip. */
#define GZIP_WINDOW (15 + 16)
#define GZIP_MEMORY 8

#define READER_EACH_MS 10

/* How often a write that waits looks whether it is to give up. */
#define WRITE_EACH_MS 100

unsigned int output_reader_ms = 2000;

/*
 * A lock of the process, which a forked child does not have and which goes with the process. File systems without locks
 * have to do without.
 */
static int lock_file(const struct output *out)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (!out->regular || !fcntl(out->fd, F_SETLK, &whole) || (errno != EACCES && errno != EAGAIN))
		return 0;
	return error_set(-EINVAL, "another process writes it; with %%p in the name each process has its own");
}

static bool is_pipe(const char *name)
{
	struct stat st;

	return !stat(name, &st) && S_ISFIFO(st.st_mode);
}

/* Without O_NONBLOCK this waits for a pipe's reader for ever, and a write for one that has stopped. */
static int open_at_once(const char *name)
{
	return descriptor_raise(open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
}

static int open_file(struct output *out, const char *name)
{
	int left = (int)output_reader_ms;
	struct stat st;

	out->fd = open_at_once(name);
	while (out->fd < 0 && errno == ENXIO && is_pipe(name)) {
		if (left <= 0)
			return error_set(-EINVAL, "it is a pipe that no process reads");
		g_usleep(READER_EACH_MS * 1000);
		left -= READER_EACH_MS;
		out->fd = open_at_once(name);
	}
	if (out->fd < 0 || fstat(out->fd, &st))
		return error_set(-EINVAL, "%s", g_strerror(errno));
	out->regular = S_ISREG(st.st_mode);
	out->end = out->regular ? (uint64_t)st.st_size : 0;
	out->dev = st.st_dev;
	out->ino = st.st_ino;
	return lock_file(out);
}

int output_open(struct output *out, const char *name, const _Atomic bool *given_up)
{
	int err;

	*out = (struct output){ .given_up = given_up, .fresh = true, .compress = g_str_has_suffix(name, ".gz") };
	err = open_file(out, name);
	if (err)
		goto err_close;
	if (!out->compress)
		return 0;
	out->z = g_new0(z_stream, 1);
	if (deflateInit2(out->z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
		err = error_set(-ENOMEM, "no memory to compress it");
		goto err_free;
	}
	return 0;

err_free:
	g_free(out->z);
err_close:
	if (out->fd >= 0)
		close(out->fd);
	return err;
}

void output_continue(struct output *out)
{
	if (!out->regular || lseek(out->fd, 0, SEEK_END) >= 0)
		out->fresh = false;
}

/* Waits until a pipe or a terminal takes more. */
static int wait_to_write(const struct output *out)
{
	struct pollfd ready = { .fd = out->fd, .events = POLLOUT };

	while (!poll(&ready, 1, WRITE_EACH_MS)) {
		if (atomic_load(out->given_up))
			return -ECANCELED;
	}
	return 0;
}

static int write_all(const struct output *out, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		ssize_t n = write(out->fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			int err = wait_to_write(out);

			if (err)
				return err;
			continue;
		}
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		at += n;
		length -= (size_t)n;
	}
	return 0;
}

/* A member of a gzip file, so that what is in the file is whole after each write. */
static int pack(struct output *out, const char *text, size_t length, size_t *packed)
{
	size_t most;

	deflateReset(out->z);
	most = deflateBound(out->z, length);
	if (most > out->room) {
		g_free(out->packed);
		out->packed = g_malloc(most);
		out->room = most;
	}
	out->z->next_in = (Bytef *)(uintptr_t)text;
	out->z->avail_in = (uInt)length;
	out->z->next_out = out->packed;
	out->z->avail_out = (uInt)most;
	if (deflate(out->z, Z_FINISH) != Z_STREAM_END)
		return -ENOMEM;
	*packed = most - out->z->avail_out;
	return 0;
}

static int begin_output(struct output *out)
{
	if (!out->fresh)
		return 0;
	out->fresh = false;
	out->end = 0;
	return out->regular && ftruncate(out->fd, 0) ? -errno : 0;
}

int output_write(struct output *out, const char *text, size_t length)
{
	const void *bytes = text;
	int err;

	err = begin_output(out);
	if (!err && out->compress) {
		err = pack(out, text, length, &length);
		bytes = out->packed;
	}
	if (err)
		return err;
	err = write_all(out, bytes, length);
	if (!err)
		out->end += length;
	else if (out->regular && ftruncate(out->fd, (off_t)out->end))
		return err;
	return err;
}

void output_close(struct output *out)
{
	close(out->fd);
	if (out->compress)
		deflateEnd(out->z);
	g_free(out->z);
	g_free(out->packed);
}
