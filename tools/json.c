// SPDX-License-Identifier: LGPL-2.1-or-later
#include "json.h"

#include <glib.h>
#include <inttypes.h>

/* In quotes; what is no UTF-8 is replaced. */
static void put_text(struct json *json, const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);

	fputc('"', json->out);
	for (const unsigned char *c = (const unsigned char *)valid; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(json->out, "\\%c", *c);
		else if (*c < 0x20)
			fprintf(json->out, "\\u%04x", *c);
		else
			fputc(*c, json->out);
	}
	fputc('"', json->out);
}

static void put_key(struct json *json, const char *key)
{
	if (!json->first)
		fputs(", ", json->out);
	put_text(json, key);
	fputs(": ", json->out);
	json->first = false;
}

void json_begin(struct json *json, FILE *out)
{
	json->out = out;
	json->first = true;
	fputc('{', out);
}

void json_end(struct json *json)
{
	fputs("}\n", json->out);
}

void json_open(struct json *json, const char *key)
{
	put_key(json, key);
	fputc('{', json->out);
	json->first = true;
}

void json_close(struct json *json)
{
	fputc('}', json->out);
	json->first = false;
}

void json_string(struct json *json, const char *key, const char *value)
{
	put_key(json, key);
	put_text(json, value);
}

void json_count(struct json *json, const char *key, uint64_t value)
{
	put_key(json, key);
	fprintf(json->out, "%" PRIu64, (uint64_t)value);
}

void json_decimal(struct json *json, const char *key, double value, unsigned int places)
{
	char format[] = "%.0f", text[G_ASCII_DTOSTR_BUF_SIZE];

	format[2] = (char)('0' + places);
	put_key(json, key);
	fputs(g_ascii_formatd(text, sizeof(text), format, value), json->out);
}

void json_bool(struct json *json, const char *key, bool value)
{
	put_key(json, key);
	fputs(value ? "true" : "false", json->out);
}
