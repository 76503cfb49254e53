/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes plain data as a pickle of Python, of protocol 2. What was written is told by the file's error indicator.
 *
 * A dictionary is pickle_dict(), then for each member its key by pickle_text(), its value and pickle_item(). A list is
 * pickle_list(), then each element and pickle_element().
 */
#ifndef PICKLE_H
#define PICKLE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/**
 * struct pickle - a pickle that is being written
 * @out: where to
 * @known: the texts that it has already, with their numbers
 */
struct pickle {
	FILE *out;
	GHashTable *known;
};

/**
 * pickle_begin() - begin a pickle; one value follows
 */
void pickle_begin(struct pickle *pickle, FILE *out);

/**
 * pickle_end() - end it
 */
void pickle_end(struct pickle *pickle);

/**
 * pickle_dict() - an empty dictionary
 */
void pickle_dict(struct pickle *pickle);

/**
 * pickle_item() - put the key and the value that were written last into the dictionary before them
 */
void pickle_item(struct pickle *pickle);

/**
 * pickle_list() - an empty list
 */
void pickle_list(struct pickle *pickle);

/**
 * pickle_element() - put the value that was written last into the list before it
 */
void pickle_element(struct pickle *pickle);

/**
 * pickle_pair() - make a tuple of the two values that were written last
 */
void pickle_pair(struct pickle *pickle);

/**
 * pickle_text() - a text; what is no UTF-8 is replaced
 */
void pickle_text(struct pickle *pickle, const char *text);

/**
 * pickle_number() - a number
 */
void pickle_number(struct pickle *pickle, uint64_t number);

/**
 * pickle_bool() - True or False
 */
void pickle_bool(struct pickle *pickle, bool value);

#endif /* PICKLE_H */
