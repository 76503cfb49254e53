// SPDX-License-Identifier: LGPL-2.1-or-later
/* Reads what another process has sent of a block. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "calls/parcel.h"
#include "util/error.h"

/* The handles of one block, as they come. */
struct handles {
	GArray *parts;			/* of struct backend_export */
	GArray *sizes;			/* of uint64_t */
	uint64_t bytes;
};

static void add_part(struct handles *handles, const struct message *message, int fd)
{
	struct backend_export part = { .type = message->type, .fd = fd };

	if (message->type == BACKEND_HANDLES_FABRIC)
		memcpy(part.fabric, message->fabric, sizeof(part.fabric));
	g_array_append_val(handles->parts, part);
	g_array_append_val(handles->sizes, message->bytes);
	handles->bytes += message->bytes;
}

static int receive_part(int socket, const struct message *of, struct handles *handles)
{
	struct message message;
	int fd;
	int err = message_receive_part(socket, &message, &fd);

	if (err)
		return error_add(err, "handle %u of %" PRIu32, handles->parts->len + 1, of->handles);
	add_part(handles, &message, fd);
	if (message.type != of->type || message.granularity != of->granularity || message.bytes > of->bytes ||
	    handles->bytes > of->bytes)
		return error_set(-EPROTO, "the handles of a block are not of the %" PRIu64 " bytes that it is said to "
				 "be in", of->bytes);
	return 0;
}

static int receive_parts(int socket, const struct message *of, struct handles *handles)
{
	int err = 0;

	while (!err && handles->parts->len < of->handles)
		err = receive_part(socket, of, handles);
	if (!err && handles->bytes != of->bytes)
		err = error_set(-EPROTO, "%" PRIu64 " bytes came of the %" PRIu64 " bytes that a block is said to be in",
				handles->bytes, of->bytes);
	return err;
}

void parcel_clear(struct parcel *parcel)
{
	for (unsigned int i = 0; i < parcel->from.count; i++) {
		if (parcel->from.parts[i].fd >= 0)
			close(parcel->from.parts[i].fd);
	}
	g_free((void *)parcel->from.parts);
	g_free((void *)parcel->from.sizes);
}

int parcel_receive(int socket, struct parcel *parcel)
{
	struct handles handles;
	struct message message;
	int fd;
	int err = message_receive(socket, &message, &fd);

	if (err)
		return err;
	handles = (struct handles){ .parts = g_array_new(FALSE, FALSE, sizeof(struct backend_export)),
				    .sizes = g_array_new(FALSE, FALSE, sizeof(uint64_t)) };
	if (message.version == MESSAGE_LENT)
		err = receive_parts(socket, &message, &handles);
	else
		add_part(&handles, &message, fd);
	*parcel = (struct parcel){
		.message = message,
		.from.count = handles.parts->len,
		.from.offset = message.version == MESSAGE_LENT ? message.offset : 0,
	};
	parcel->from.parts = (struct backend_export *)(void *)g_array_free(handles.parts, FALSE);
	parcel->from.sizes = (uint64_t *)(void *)g_array_free(handles.sizes, FALSE);
	if (err)
		parcel_clear(parcel);
	return err;
}
