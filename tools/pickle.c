// SPDX-License-Identifier: LGPL-2.1-or-later
#include "pickle.h"

#include <string.h>

/* Those of Python's pickletools that are needed. */
enum {
	OP_PROTO = 0x80, OP_STOP = '.', OP_EMPTY_DICT = '}', OP_SETITEM = 's', OP_EMPTY_LIST = ']', OP_APPEND = 'a',
	OP_TUPLE2 = 0x86, OP_BINUNICODE = 'X', OP_LONG_BINPUT = 'r', OP_LONG_BINGET = 'j', OP_BINGET = 'h',
	OP_BININT1 = 'K', OP_BININT = 'J', OP_LONG1 = 0x8a, OP_NEWTRUE = 0x88, OP_NEWFALSE = 0x89
};

static void put(struct pickle *p, int byte)
{
	putc(byte, p->out);
}

/* The lowest byte first. */
static void put_bytes(struct pickle *p, uint64_t number, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		put(p, (int)(number >> 8 * i & 0xff));
}

void pickle_begin(struct pickle *p, FILE *out)
{
	p->out = out;
	p->known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	put(p, OP_PROTO);
	put(p, 2);
}

void pickle_end(struct pickle *p)
{
	put(p, OP_STOP);
	g_hash_table_destroy(p->known);
}

void pickle_dict(struct pickle *p)
{
	put(p, OP_EMPTY_DICT);
}

void pickle_item(struct pickle *p)
{
	put(p, OP_SETITEM);
}

void pickle_list(struct pickle *p)
{
	put(p, OP_EMPTY_LIST);
}

void pickle_element(struct pickle *p)
{
	put(p, OP_APPEND);
}

void pickle_pair(struct pickle *p)
{
	put(p, OP_TUPLE2);
}

/* A text that comes again is a number of what Python remembers. */
void pickle_text(struct pickle *p, const char *text)
{
	guint number = GPOINTER_TO_UINT(g_hash_table_lookup(p->known, text));
	char *valid;

	if (number) {
		put(p, number <= 0xff ? OP_BINGET : OP_LONG_BINGET);
		put_bytes(p, number, number <= 0xff ? 1 : 4);
		return;
	}
	valid = g_utf8_make_valid(text, -1);
	put(p, OP_BINUNICODE);
	put_bytes(p, strlen(valid), 4);
	fputs(valid, p->out);
	g_free(valid);
	number = g_hash_table_size(p->known) + 1;
	put(p, OP_LONG_BINPUT);
	put_bytes(p, number, 4);
	g_hash_table_insert(p->known, g_strdup(text), GUINT_TO_POINTER(number));
}

void pickle_number(struct pickle *p, uint64_t number)
{
	unsigned int bytes = 0;

	if (number <= 0xff) {
		put(p, OP_BININT1);
		put_bytes(p, number, 1);
	} else if (number <= G_MAXINT32) {
		put(p, OP_BININT);
		put_bytes(p, number, 4);
	} else {
		/* Its highest bit is a sign. */
		while (bytes < 8 && number >> 8 * bytes)
			bytes++;
		bytes += number >> (8 * bytes - 1) & 1;
		put(p, OP_LONG1);
		put(p, (int)bytes);
		put_bytes(p, number, MIN(bytes, 8));
		if (bytes > 8)
			put(p, 0);
	}
}

void pickle_bool(struct pickle *p, bool value)
{
	put(p, value ? OP_NEWTRUE : OP_NEWFALSE);
}
