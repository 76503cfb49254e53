/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes one JSON object on a line of its own, whatever the locale. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool first;			/* of the object that is open */
};

/**
 * json_begin() - begin the object
 */
void json_begin(struct json *json, FILE *out);

/**
 * json_end() - end it, with its newline
 */
void json_end(struct json *json);

/**
 * json_open() - begin an object inside
 */
void json_open(struct json *json, const char *key);

/**
 * json_close() - end it
 */
void json_close(struct json *json);

/**
 * json_string() - a member; what is no UTF-8 in @value is replaced
 */
void json_string(struct json *json, const char *key, const char *value);

/**
 * json_count() - a member
 */
void json_count(struct json *json, const char *key, uint64_t value);

/**
 * json_decimal() - a member
 * @places: after the decimal point, at most 9
 */
void json_decimal(struct json *json, const char *key, double value, unsigned int places);

/**
 * json_bool() - a member
 */
void json_bool(struct json *json, const char *key, bool value);

#endif /* JSON_H */
