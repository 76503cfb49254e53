/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Links in a circle, with one more that stands for the list. So none is the first or the last, and to insert or remove
 * one takes no branch: links.h takes twice as many instructions. For lists that each malloc and free changes for each
 * region and extent. The links are the caller's own, with @data set once and for all.
 */
#ifndef CIRCLE_H
#define CIRCLE_H

#include <glib.h>
#include <stdbool.h>

/**
 * circle_init() - set up a circle without links
 * @circle: the one that stands for the list
 */
static inline void circle_init(GList *circle)
{
	circle->next = circle->prev = circle;
}

/**
 * circle_next() - the link that was appended behind one
 * @circle: the circle
 * @link: the link, in the circle
 *
 * Return: the link; NULL: there is none.
 */
static inline GList *circle_next(const GList *circle, const GList *link)
{
	return link->next == circle ? NULL : link->next;
}

/**
 * circle_first() - the link that was appended before all others
 * @circle: the circle
 *
 * Return: the link; NULL: there is none.
 */
static inline GList *circle_first(const GList *circle)
{
	return circle_next(circle, circle);
}

/**
 * circle_append() - insert a link at the end
 * @circle: the circle
 * @link: the link, in no circle
 */
static inline void circle_append(GList *circle, GList *link)
{
	GList *last = circle->prev;

	/* In this order the compiler does not build a vector of two pointers, which takes more than two stores. */
	link->prev = last;
	last->next = link;
	link->next = circle;
	circle->prev = link;
}

/**
 * circle_remove() - take a link out of its circle
 * @link: the link
 */
static inline void circle_remove(GList *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->next = NULL;
}

/* Whether a link is in a circle. It is in none as long as it is all 0. */
static inline bool circle_has(const GList *link)
{
	return link->next;
}

/* For checks: both walk over all links. */
static inline guint circle_length(const GList *circle)
{
	guint length = 0;

	for (const GList *link = circle_first(circle); link; link = circle_next(circle, link))
		length++;
	return length;
}

static inline bool circle_contains(const GList *circle, const GList *wanted)
{
	const GList *link = circle_first(circle);

	while (link && link != wanted)
		link = circle_next(circle, link);
	return link;
}

#endif /* CIRCLE_H */
