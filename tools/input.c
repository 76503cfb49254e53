// SPDX-License-Identifier: LGPL-2.1-or-later
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "fail.h"

#define STORED (256 * 1024)

/* Of inflateInit2(): the largest window, and a header of gzip. */
#define GZIP_WINDOW (15 + 16)

static const unsigned char gzip_magic[] = { 0x1f, 0x8b };

struct input {
	int fd;
	bool ended;			/* the file has no more than is in stored */
	bool known;			/* whether it is compressed */
	bool compressed;
	bool inside;			/* a member of the compressed file has begun, and has not ended */
	int damage;			/* of zlib, to be told once all before it was read */
	uint64_t taken;			/* from the file */
	uint64_t size;
	z_stream z;			/* its input is what of stored was not used */
	unsigned char stored[STORED];
};

/* Adds to what is stored, which is less than the magic number. */
static int fill(struct input *in)
{
	size_t held = in->z.avail_in;
	ssize_t n;

	memmove(in->stored, in->z.next_in, held);
	in->z.next_in = in->stored;
	n = read(in->fd, in->stored + held, STORED - held);
	if (n < 0) {
		int err = -errno;

		return fail_set(err, "%s", g_strerror(-err));
	}
	in->ended = n == 0;
	in->taken += (uint64_t)n;
	in->z.avail_in += (unsigned int)n;
	return 0;
}

static int find_out(struct input *in)
{
	int err;

	while (!in->ended && in->z.avail_in < sizeof(gzip_magic)) {
		err = fill(in);
		if (err)
			return err;
	}
	in->known = true;
	in->compressed = in->z.avail_in >= sizeof(gzip_magic) &&
			 memcmp(in->z.next_in, gzip_magic, sizeof(gzip_magic)) == 0;
	in->inside = in->compressed;
	return 0;
}

static int damaged(const struct input *in)
{
	if (in->damage == Z_MEM_ERROR)
		return fail_set(-ENOMEM, "no memory to decompress it");
	return fail_set(-EBADMSG, "the compressed data are damaged (%s)", in->z.msg ? in->z.msg : zError(in->damage));
}

/* Whether there is another member, or the end: gzip joins files by writing one behind the other. */
static int next_member(struct input *in)
{
	if (*in->z.next_in != gzip_magic[0])
		return fail_set(-EBADMSG, "garbage follows the compressed data");
	inflateReset(&in->z);
	in->inside = true;
	return 0;
}

static int decompress(struct input *in, char *buffer, size_t size, size_t *got)
{
	int err, code;

	in->z.next_out = (unsigned char *)buffer;
	in->z.avail_out = (unsigned int)MIN(size, STORED);
	size = in->z.avail_out;
	while (in->z.avail_out == size) {
		if (in->damage)
			return damaged(in);
		if (!in->z.avail_in && !in->ended) {
			err = fill(in);
			if (err)
				return err;
			continue;
		}
		if (!in->z.avail_in && in->inside)
			return fail_set(-EBADMSG, "the compressed data end too early");
		if (!in->z.avail_in)
			break;
		err = in->inside ? 0 : next_member(in);
		if (err)
			return err;
		code = inflate(&in->z, Z_NO_FLUSH);
		if (code == Z_STREAM_END)
			in->inside = false;
		else if (code != Z_OK && code != Z_BUF_ERROR)
			in->damage = code;
	}
	*got = size - in->z.avail_out;
	return 0;
}

static int copy(struct input *in, char *buffer, size_t size, size_t *got)
{
	int err;

	err = in->z.avail_in || in->ended ? 0 : fill(in);
	if (err)
		return err;
	*got = MIN(size, in->z.avail_in);
	memcpy(buffer, in->z.next_in, *got);
	in->z.next_in += *got;
	in->z.avail_in -= (unsigned int)*got;
	return 0;
}

int input_read(struct input *in, char *buffer, size_t size, size_t *got)
{
	int err;

	err = in->known ? 0 : find_out(in);
	if (err)
		return err;
	return in->compressed ? decompress(in, buffer, size, got) : copy(in, buffer, size, got);
}

int input_open(const char *name, struct input **input)
{
	struct input *in = g_new0(struct input, 1);
	struct stat st;
	int err;

	in->z.next_in = in->stored;
	if (inflateInit2(&in->z, GZIP_WINDOW) != Z_OK) {
		g_free(in);
		return fail_set(-ENOMEM, "no memory to read it");
	}
	if (strcmp(name, "-") == 0)
		in->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	else
		in->fd = open(name, O_RDONLY | O_CLOEXEC);
	if (in->fd < 0) {
		err = -errno;
		inflateEnd(&in->z);
		g_free(in);
		return fail_set(err, "%s", g_strerror(-err));
	}
	if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode))
		in->size = (uint64_t)st.st_size;
	*input = in;
	return 0;
}

uint64_t input_done(const struct input *in)
{
	return in->taken - in->z.avail_in;
}

uint64_t input_size(const struct input *in)
{
	return in->size;
}

void input_close(struct input *in)
{
	if (!in)
		return;
	close(in->fd);
	inflateEnd(&in->z);
	g_free(in);
}
