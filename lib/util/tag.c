// SPDX-License-Identifier: LGPL-2.1-or-later
/* Names of tags, and which one a thread allocates under. */
#include <errno.h>
#include <glib.h>
#include <stdatomic.h>
#include <string.h>

#include "util/tag.h"
#include "util/env.h"
#include "util/error.h"
#include "util/lock.h"

/* An entry never changes once @count says that it is there. */
struct tag {
	char name[TAG_NAME_MOST + 1];
	unsigned int flags;
};

static struct lock tag_lock = LOCK_INIT(LOCK_TAG_NAMES);
static struct tag tags[TAGS_MOST + 1];
static _Atomic vpmm_tag count;

/* Of VPMM_TAG; 0: none. */
static _Atomic vpmm_tag fallback;

static _Thread_local struct {
	vpmm_tag word;
	bool set;
} current;

/* Its bytes, or 0 if it is none. */
static size_t judge_name(const char *name)
{
	size_t length = 0;

	while (name[length]) {
		if ((unsigned char)name[length] < ' ' || name[length] == 0x7f || ++length > TAG_NAME_MOST)
			return 0;
	}
	return length;
}

static int find_or_add(const char *name, unsigned int flags, vpmm_tag *tag)
{
	vpmm_tag last = atomic_load(&count);

	for (vpmm_tag i = 1; i <= last; i++) {
		if (strcmp(tags[i].name, name))
			continue;
		if (tags[i].flags != flags)
			return error_set(-EINVAL, "tag \"%s\" was opened %s VPMM_TAG_PAUSABLE", name,
					 tags[i].flags ? "with" : "without");
		*tag = i;
		return 0;
	}
	if (last == TAGS_MOST)
		return error_set(-ENOSPC, "there are %u tags already, and cannot be more", TAGS_MOST);
	g_strlcpy(tags[last + 1].name, name, sizeof(tags[0].name));
	tags[last + 1].flags = flags;
	atomic_store(&count, last + 1);
	*tag = last + 1;
	return 0;
}

int tag_open(const char *name, unsigned int flags, vpmm_tag *tag)
{
	int err;

	if (!name || !judge_name(name))
		return error_set(-EINVAL, "the name of a tag is %s: expected 1 to %d bytes without control characters",
				 !name ? "NULL" : *name ? "too long or has control characters" : "empty", TAG_NAME_MOST);
	if (flags & ~VPMM_TAG_PAUSABLE)
		return error_set(-EINVAL, "flags are %#x: expected 0 or VPMM_TAG_PAUSABLE", flags);
	lock_acquire(&tag_lock);
	err = find_or_add(name, flags, tag);
	lock_release(&tag_lock);
	return err;
}

/* An entry that is half written is not counted yet. */
void tag_forked(void)
{
	lock_init(&tag_lock, LOCK_TAG_NAMES);
}

vpmm_tag tag_count(void)
{
	return atomic_load(&count);
}

int tag_check(vpmm_tag tag)
{
	if (tag && tag <= tag_count())
		return 0;
	return error_set(-EINVAL, "tag %u: vpmm_tag_open() has given no such tag", tag);
}

const char *tag_name(vpmm_tag tag)
{
	return tags[tag].name;
}

bool tag_pausable(vpmm_tag tag)
{
	return tags[tag].flags & VPMM_TAG_PAUSABLE;
}

vpmm_tag tag_current(void)
{
	return current.set ? current.word : atomic_load_explicit(&fallback, memory_order_relaxed);
}

vpmm_tag tag_exchange(vpmm_tag word)
{
	vpmm_tag previous = tag_current();

	current.word = tag_of(word) ? word : 0;
	current.set = true;
	return previous;
}

static int parse_default(const char *text)
{
	const char *comma = strchr(text, ',');
	char *name = g_strndup(text, comma ? (gsize)(comma - text) : strlen(text));
	vpmm_tag tag;
	int err;

	if (comma && strcmp(comma, ",drop"))
		err = error_set(-EINVAL, "\"%s\" follows the name: expected nothing, or \",drop\"", comma);
	else
		err = tag_open(name, VPMM_TAG_PAUSABLE, &tag);
	if (!err)
		atomic_store(&fallback, tag | (comma ? VPMM_TAG_DROP : 0));
	g_free(name);
	return err ? error_add(err, "VPMM_TAG") : 0;
}

int tag_set_default(void)
{
	const char *text = env_get("VPMM_TAG");

	return text && !atomic_load(&fallback) ? parse_default(text) : 0;
}

bool tag_has_default(void)
{
	return atomic_load(&fallback);
}
