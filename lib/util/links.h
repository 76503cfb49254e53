/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What GLib does with the links of a GQueue, inline. The slow path moves some links in each call, and the calls into
 * another library, with the jumps there and the checks, were a twentieth of its instructions. The links are the
 * caller's own: nothing is allocated. For all else a queue is GLib's.
 */
#ifndef LINKS_H
#define LINKS_H

#include <glib.h>

/**
 * links_insert() - insert a link into a queue
 * @queue: the queue
 * @after: the link that it comes behind; NULL: it becomes the head
 * @link: the link, in no queue
 */
static inline void links_insert(GQueue *queue, GList *after, GList *link)
{
	link->prev = after;
	link->next = after ? after->next : queue->head;
	if (link->next)
		link->next->prev = link;
	else
		queue->tail = link;
	if (after)
		after->next = link;
	else
		queue->head = link;
	queue->length++;
}

/**
 * links_append() - insert a link at the end of a queue
 * @queue: the queue
 * @link: the link, in no queue
 */
static inline void links_append(GQueue *queue, GList *link)
{
	links_insert(queue, queue->tail, link);
}

/**
 * links_remove() - take a link out of its queue
 * @queue: the queue
 * @link: the link; it points nowhere afterwards
 */
static inline void links_remove(GQueue *queue, GList *link)
{
	if (link->prev)
		link->prev->next = link->next;
	else
		queue->head = link->next;
	if (link->next)
		link->next->prev = link->prev;
	else
		queue->tail = link->prev;
	link->prev = link->next = NULL;
	queue->length--;
}

#endif /* LINKS_H */
