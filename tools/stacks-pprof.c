// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The format of pprof: a Profile of its profile.proto, compressed by gzip. Each object is a mapping with a range of
 * addresses of its own, so that pprof can look up by itself what we could not.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "fail.h"
#include "stacks.h"

/* Of deflateInit2(): the largest window, and a header of gzip. */
#define GZIP_WINDOW (15 + 16)

/* How much address space a mapping has; larger than any object. */
#define MAPPING_SHIFT 40

/* Numbers of fields. */
enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION, PROFILE_FUNCTION, PROFILE_STRING,
       PROFILE_DEFAULT_TYPE = 14 };
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_LIMIT, MAPPING_FILE = 5, MAPPING_FUNCTIONS = 7, MAPPING_FILES,
       MAPPING_LINES };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };

enum { WIRE_NUMBER = 0, WIRE_BYTES = 2 };

/* A number for each text that it has had, from 1; strings from 0, as the first is empty. */
struct profile {
	GByteArray *out;
	GHashTable *strings;
	GHashTable *mappings;
	GHashTable *functions;
	GHashTable *locations;
};

static void put_varint(GByteArray *out, uint64_t number)
{
	guint8 byte;

	do {
		byte = (guint8)((number & 0x7f) | (number > 0x7f ? 0x80 : 0));
		g_byte_array_append(out, &byte, 1);
		number >>= 7;
	} while (number);
}

static void put_number(GByteArray *out, unsigned int field, uint64_t number)
{
	put_varint(out, field << 3 | WIRE_NUMBER);
	put_varint(out, number);
}

static void put_bytes(GByteArray *out, unsigned int field, const void *bytes, size_t length)
{
	put_varint(out, field << 3 | WIRE_BYTES);
	put_varint(out, length);
	g_byte_array_append(out, bytes, (guint)length);
}

static void put_message(GByteArray *out, unsigned int field, GByteArray *message)
{
	put_bytes(out, field, message->data, message->len);
	g_byte_array_unref(message);
}

/* The number of a text in a table; *@is_new tells whether it has just got it. */
static uint64_t number_in(GHashTable *table, const char *text, gboolean *is_new)
{
	guint number = GPOINTER_TO_UINT(g_hash_table_lookup(table, text));

	*is_new = !number;
	if (!number) {
		number = g_hash_table_size(table) + 1;
		g_hash_table_insert(table, g_strdup(text), GUINT_TO_POINTER(number));
	}
	return number;
}

static uint64_t string_number(struct profile *p, const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);
	gboolean is_new;
	uint64_t number = number_in(p->strings, valid, &is_new);

	if (is_new)
		put_bytes(p->out, PROFILE_STRING, valid, strlen(valid));
	return number - 1;
}

static void put_type(struct profile *p, const char *type, const char *unit)
{
	GByteArray *message = g_byte_array_new();

	put_number(message, TYPE_TYPE, string_number(p, type));
	put_number(message, TYPE_UNIT, string_number(p, unit));
	put_message(p->out, PROFILE_SAMPLE_TYPE, message);
}

static uint64_t mapping_number(struct profile *p, const struct stack_frame *frame)
{
	GByteArray *message;
	gboolean is_new;
	uint64_t number;

	number = number_in(p->mappings, frame->object, &is_new);
	if (!is_new)
		return number;
	message = g_byte_array_new();
	put_number(message, MAPPING_ID, number);
	put_number(message, MAPPING_START, number << MAPPING_SHIFT);
	put_number(message, MAPPING_LIMIT, (number + 1) << MAPPING_SHIFT);
	put_number(message, MAPPING_FILE, string_number(p, frame->object));
	if (frame->file) {
		put_number(message, MAPPING_FUNCTIONS, 1);
		put_number(message, MAPPING_FILES, 1);
		put_number(message, MAPPING_LINES, 1);
	}
	put_message(p->out, PROFILE_MAPPING, message);
	return number;
}

static uint64_t function_number(struct profile *p, const struct stack_frame *frame)
{
	g_autofree char *key = g_strdup_printf("%s\n%s", frame->function, frame->file ? frame->file : "");
	GByteArray *message;
	gboolean is_new;
	uint64_t number;

	number = number_in(p->functions, key, &is_new);
	if (!is_new)
		return number;
	message = g_byte_array_new();
	put_number(message, FUNCTION_ID, number);
	put_number(message, FUNCTION_NAME, string_number(p, frame->function));
	put_number(message, FUNCTION_SYSTEM_NAME, string_number(p, frame->function));
	put_number(message, FUNCTION_FILE, string_number(p, frame->file ? frame->file : ""));
	put_message(p->out, PROFILE_FUNCTION, message);
	return number;
}

static void put_line(struct profile *p, GByteArray *location, const struct stack_frame *frame)
{
	GByteArray *message = g_byte_array_new();

	put_number(message, LINE_FUNCTION, function_number(p, frame));
	put_number(message, LINE_LINE, frame->line);
	put_message(location, LOCATION_LINE, message);
}

static uint64_t location_number(struct profile *p, const struct stack_frame *frame)
{
	g_autofree char *key = g_strdup_printf("%s\n%s\n%" PRIu64 "\n%" PRIu64, frame->object ? frame->object :
				    frame->file ? frame->file : "", frame->function ? frame->function : "",
				    (uint64_t)frame->offset, (uint64_t)frame->line);
	uint64_t number, mapping;
	GByteArray *message;
	gboolean is_new;

	number = number_in(p->locations, key, &is_new);
	if (!is_new)
		return number;
	message = g_byte_array_new();
	put_number(message, LOCATION_ID, number);
	if (frame->object) {
		mapping = mapping_number(p, frame);
		put_number(message, LOCATION_MAPPING, mapping);
		put_number(message, LOCATION_ADDRESS, (mapping << MAPPING_SHIFT) + frame->offset);
	}
	if (frame->function)
		put_line(p, message, frame);
	put_message(p->out, PROFILE_LOCATION, message);
	return number;
}

static void put_stack(struct profile *p, const struct stack *stack)
{
	GByteArray *message = g_byte_array_new(), *locations = g_byte_array_new(), *values = g_byte_array_new();

	for (guint i = 0; i < stack->frames->len; i++)
		put_varint(locations, location_number(p, &g_array_index(stack->frames, struct stack_frame, i)));
	put_varint(values, stack->blocks);
	put_varint(values, stack->live);
	put_varint(values, stack->peak);
	put_message(message, SAMPLE_LOCATION, locations);
	put_message(message, SAMPLE_VALUE, values);
	put_message(p->out, PROFILE_SAMPLE, message);
}

static int write_compressed(const GByteArray *bytes, FILE *out)
{
	unsigned char buffer[4096] = { 0 };
	z_stream z = { .next_in = bytes->data, .avail_in = bytes->len };
	int code;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return fail_set(-ENOMEM, "no memory to compress it");
	do {
		z.next_out = buffer;
		z.avail_out = sizeof(buffer);
		code = deflate(&z, Z_FINISH);
		fwrite(buffer, 1, sizeof(buffer) - z.avail_out, out);
	} while (code == Z_OK);
	deflateEnd(&z);
	return 0;
}

static GHashTable *make_table(void)
{
	return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
}

int stacks_write_pprof(const GPtrArray *stacks, FILE *out)
{
	struct profile p = { g_byte_array_new(), make_table(), make_table(), make_table(), make_table() };
	int err;

	string_number(&p, "");
	put_type(&p, "inuse_objects", "count");
	put_type(&p, "inuse_space", "bytes");
	put_type(&p, "peak_space", "bytes");
	put_number(p.out, PROFILE_DEFAULT_TYPE, string_number(&p, "inuse_space"));
	for (guint i = 0; i < stacks->len; i++)
		put_stack(&p, stacks->pdata[i]);
	err = write_compressed(p.out, out);
	g_hash_table_destroy(p.locations);
	g_hash_table_destroy(p.functions);
	g_hash_table_destroy(p.mappings);
	g_hash_table_destroy(p.strings);
	g_byte_array_unref(p.out);
	return err;
}
