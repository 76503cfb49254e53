// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A snapshot as torch.cuda.memory._snapshot() returns it: segments with their blocks, and each device's history. It is
 * in protocol 2 of Python's pickle, with the opcodes that PyTorch's viewer knows.
 */
#include <string.h>

#include "export.h"

/* Those of Python's pickletools that are needed. */
enum {
	OP_PROTO = 0x80, OP_STOP = '.', OP_EMPTY_DICT = '}', OP_SETITEM = 's', OP_EMPTY_LIST = ']', OP_APPEND = 'a',
	OP_TUPLE2 = 0x86, OP_BINUNICODE = 'X', OP_BINPUT = 'q', OP_BINGET = 'h', OP_BININT1 = 'K',
	OP_BININT = 'J', OP_LONG1 = 0x8a, OP_NEWTRUE = 0x88
};

/* A file under way, and the number by which Python remembers each text of it. */
struct pickle {
	FILE *out;
	GHashTable *known;
};

static void put(const struct pickle *p, int byte)
{
	putc(byte, p->out);
}

/* The lowest byte first. */
static void put_bytes(const struct pickle *p, uint64_t number, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		put(p, (int)(number >> 8 * i & 0xff));
}

/* One of ours, of which there are fewer than 255. If it comes again, it is the number by which Python remembers it. */
static void put_text(struct pickle *p, const char *text)
{
	guint number = GPOINTER_TO_UINT(g_hash_table_lookup(p->known, text));

	if (!number) {
		put(p, OP_BINUNICODE);
		put_bytes(p, strlen(text), 4);
		fputs(text, p->out);
		put(p, OP_BINPUT);
		number = g_hash_table_size(p->known) + 1;
		g_hash_table_insert(p->known, (gpointer)text, GUINT_TO_POINTER(number));
	} else {
		put(p, OP_BINGET);
	}
	put_bytes(p, number, 1);
}

static void put_number(const struct pickle *p, uint64_t number)
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

static void put_number_item(struct pickle *p, const char *key, uint64_t value)
{
	put_text(p, key);
	put_number(p, value);
	put(p, OP_SETITEM);
}

static void put_text_item(struct pickle *p, const char *key, const char *value)
{
	put_text(p, key);
	put_text(p, value);
	put(p, OP_SETITEM);
}

static void put_no_frames(struct pickle *p)
{
	put_text(p, "frames");
	put(p, OP_EMPTY_LIST);
	put(p, OP_SETITEM);
}

static void put_block(struct pickle *p, const struct export_block *block)
{
	put(p, OP_EMPTY_DICT);
	put_number_item(p, "address", block->addr);
	put_number_item(p, "size", block->size);
	put_number_item(p, "requested_size", block->allocated ? block->requested : 0);
	put_text_item(p, "state", block->allocated ? "active_allocated" : "inactive");
	put_no_frames(p);
	put(p, OP_APPEND);
}

/* Return: the number of blocks. */
static guint put_segment(struct pickle *p, const struct export_pool *pool, guint first)
{
	const struct export_block *blocks = (const void *)pool->blocks->data;
	uint64_t total = 0, allocated = 0, requested = 0;
	guint end = first;

	do {
		total += blocks[end].size;
		allocated += blocks[end].allocated ? blocks[end].size : 0;
		requested += blocks[end].allocated ? blocks[end].requested : 0;
		end++;
	} while (end < pool->blocks->len && !blocks[end].segment);
	put(p, OP_EMPTY_DICT);
	put_number_item(p, "device", pool->device);
	put_number_item(p, "address", blocks[first].addr);
	put_number_item(p, "total_size", total);
	put_number_item(p, "allocated_size", allocated);
	put_number_item(p, "active_size", allocated);
	put_number_item(p, "requested_size", requested);
	put_number_item(p, "stream", 0);
	put_text_item(p, "segment_type", "large");
	put_text(p, "segment_pool_id");
	put_number(p, 0);
	put_number(p, 0);
	put(p, OP_TUPLE2);
	put(p, OP_SETITEM);
	put_text(p, "is_expandable");
	put(p, OP_NEWTRUE);
	put(p, OP_SETITEM);
	put_no_frames(p);
	put_text(p, "blocks");
	put(p, OP_EMPTY_LIST);
	for (guint i = first; i < end; i++)
		put_block(p, &blocks[i]);
	put(p, OP_SETITEM);
	put(p, OP_APPEND);
	return end - first;
}

static void put_event(struct pickle *p, const struct export_event *event, const char *action)
{
	put(p, OP_EMPTY_DICT);
	put_text_item(p, "action", action);
	put_number_item(p, "addr", event->addr);
	put_number_item(p, "size", event->bytes);
	put_number_item(p, "stream", event->stream);
	put_number_item(p, "time_us", event->us);
	put_no_frames(p);
	put(p, OP_APPEND);
}

/* A free is complete at once: what a later user has to wait for is the pool's business. */
static void put_history(struct pickle *p, const struct export_pool *pool)
{
	for (guint i = 0; i < pool->events->len; i++) {
		const struct export_event *event = &g_array_index(pool->events, struct export_event, i);

		if (event->kind == EXPORT_ALLOC) {
			put_event(p, event, "alloc");
		} else if (event->kind == EXPORT_FREE) {
			put_event(p, event, "free_requested");
			put_event(p, event, "free_completed");
		} else if (event->kind == EXPORT_MAP || event->kind == EXPORT_UNMAP) {
			put_event(p, event, event->kind == EXPORT_MAP ? "segment_map" : "segment_unmap");
		}
	}
}

static unsigned int count_devices(const struct export *export)
{
	unsigned int devices = 0;

	for (guint i = 0; i < export->pools->len; i++)
		devices = MAX(devices, ((const struct export_pool *)export->pools->pdata[i])->device + 1);
	return devices;
}

static void put_traces(struct pickle *p, const struct export *export)
{
	unsigned int devices = count_devices(export);

	put_text(p, "device_traces");
	put(p, OP_EMPTY_LIST);
	for (unsigned int device = 0; device < devices; device++) {
		put(p, OP_EMPTY_LIST);
		for (guint i = 0; i < export->pools->len; i++) {
			const struct export_pool *pool = export->pools->pdata[i];

			if (pool->device == device)
				put_history(p, pool);
		}
		put(p, OP_APPEND);
	}
	put(p, OP_SETITEM);
}

void export_viz(const struct export *export)
{
	struct pickle p = { export->out, g_hash_table_new(g_str_hash, g_str_equal) };

	put(&p, OP_PROTO);
	put(&p, 2);
	put(&p, OP_EMPTY_DICT);
	put_text(&p, "segments");
	put(&p, OP_EMPTY_LIST);
	for (guint i = 0; i < export->pools->len; i++) {
		const struct export_pool *pool = export->pools->pdata[i];

		for (guint at = 0; at < pool->blocks->len;)
			at += put_segment(&p, pool, at);
	}
	put(&p, OP_SETITEM);
	put_traces(&p, export);
	put_text(&p, "allocator_settings");
	put(&p, OP_EMPTY_DICT);
	put_text(&p, "expandable_segments");
	put(&p, OP_NEWTRUE);
	put(&p, OP_SETITEM);
	put(&p, OP_SETITEM);
	put_text(&p, "external_annotations");
	put(&p, OP_EMPTY_LIST);
	put(&p, OP_SETITEM);
	put(&p, OP_STOP);
	g_hash_table_destroy(p.known);
}
