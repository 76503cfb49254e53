// SPDX-License-Identifier: LGPL-2.1-or-later
#include "export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"

/* Writing and reading a line of a dump takes 0.7 us; when there were so many, the pool is only dumped in the end. */
#define DUMPED_LINES 10000000

struct export_format {
	const char *name;
	void (*write)(const struct export *export);
	bool maps;			/* needs to know where there is memory at any time */
};

static const struct export_format formats[] = {
	{ "memory_viz", export_viz, true },
	{ "snapshot", export_viz, true },
	{ "perfetto", export_perfetto, false },
};

static int find_format(struct export *export, const char *name)
{
	for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
		if (strcmp(formats[i].name, name) == 0) {
			export->format = &formats[i];
			return 0;
		}
	}
	return fail_set(-EINVAL, "--export: \"%s\": expected memory_viz, perfetto, pprof or stacks", name);
}

static void free_pool(void *data)
{
	struct export_pool *pool = data;

	g_free(pool->name);
	g_array_free(pool->events, TRUE);
	g_array_free(pool->blocks, TRUE);
	g_free(pool);
}

int export_open(struct export *export, const char *format, const char *file)
{
	int err;

	*export = (struct export){
		.file = file,
		.pools = g_ptr_array_new_with_free_func(free_pool),
		.mapped = g_array_new(FALSE, FALSE, sizeof(struct export_range)),
		.requested = g_hash_table_new(NULL, NULL),
	};
	err = find_format(export, format);
	if (err)
		return err;
	if (!file && isatty(STDOUT_FILENO))
		return fail_set(-EINVAL, "--export: standard output is a terminal; name a file by --output");
	export->out = stdout;
	if (!file)
		return 0;
	err = output_begin(&export->output, file);
	export->out = export->output.file;
	return err ? fail_set(err, "--output: %s: %s", file, g_strerror(-err)) : 0;
}

static struct export_pool *current(struct export *export)
{
	return export->pools->pdata[export->pools->len - 1];
}

static void add_event(struct export *export, const struct trace_op *op, struct export_event event)
{
	event.us = op->us;
	event.stream = op->stream;
	g_array_append_val(current(export)->events, event);
}

/* Adds to ranges in order of their addresses. */
static void extend(GArray *ranges, uint64_t addr, uint64_t size)
{
	struct export_range range = { addr, size }, *last = NULL;

	if (ranges->len)
		last = &g_array_index(ranges, struct export_range, ranges->len - 1);
	if (last && last->addr + last->size == addr)
		last->size += size;
	else
		g_array_append_val(ranges, range);
}

static int compare_blocks(const void *a, const void *b)
{
	const struct export_block *left = a, *right = b;

	return (left->addr > right->addr) - (left->addr < right->addr);
}

/* "  0xADDRESS BYTES KIND stream ID[,ID] STATE". Only what has its memory here is of interest. */
static bool read_block(const char *line, struct export_block *block)
{
	char *rest;

	*block = (struct export_block){ .addr = g_ascii_strtoull(line + strlen("  "), &rest, 16) };
	block->size = g_ascii_strtoull(rest, &rest, 10);
	block->allocated = g_str_has_prefix(rest, " malloc");
	if (!block->size || !(block->allocated || g_str_has_prefix(rest, " free")))
		return false;
	rest = strstr(rest, " stream ");
	block->stream = rest ? g_ascii_strtoull(rest + strlen(" stream "), NULL, 10) : 0;
	return true;
}

/* The blocks of a dump, in order of their addresses. */
static void read_dump(struct export *export, const char *dump, GArray *blocks)
{
	struct export_block block, *before = NULL;

	for (const char *line = dump; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		export->lines++;
		if (!g_str_has_prefix(line, "  0x") || !read_block(line, &block))
			continue;
		block.requested = GPOINTER_TO_SIZE(g_hash_table_lookup(export->requested,
								       GSIZE_TO_POINTER((gsize)block.addr)));
		g_array_append_val(blocks, block);
	}
	g_array_sort(blocks, compare_blocks);
	for (guint i = 0; i < blocks->len; i++) {
		struct export_block *at = &g_array_index(blocks, struct export_block, i);

		at->segment = !before || before->addr + before->size != at->addr;
		before = at;
	}
}

/* The blocks that the pool has now; none if it cannot be dumped. */
static GArray *look(struct export *export)
{
	GArray *blocks = g_array_new(FALSE, FALSE, sizeof(struct export_block));
	char *dump = NULL;
	size_t size;
	FILE *out;

	out = open_memstream(&dump, &size);
	if (!out)
		export->err = -errno;
	else if (export->allocator->ops->dump(export->allocator, out))
		export->err = -EIO;
	if (out && fclose(out))
		export->err = -errno;
	if (!export->err)
		read_dump(export, dump, blocks);
	free(dump);
	return blocks;
}

/* The first of the ranges from *@at on that ends behind an address; NULL: none does. */
static const struct export_range *find_behind(const GArray *ranges, guint *at, uint64_t addr)
{
	for (; *at < ranges->len; ++*at) {
		const struct export_range *range = &g_array_index(ranges, struct export_range, *at);

		if (range->addr + range->size > addr)
			return range;
	}
	return NULL;
}

/* Tells what of a range is not in @other, of which *@at is the first that may matter. */
static void tell_rest(struct export *export, const struct trace_op *op, const struct export_range *range,
		      const GArray *other, guint *at, enum export_kind kind)
{
	uint64_t addr = range->addr, until = range->addr + range->size, cut;

	while (addr < until) {
		const struct export_range *is = find_behind(other, at, addr);

		cut = is ? CLAMP(is->addr, addr, until) : until;
		if (cut > addr)
			add_event(export, op, (struct export_event){ .kind = (uint8_t)kind, .addr = addr,
								     .bytes = cut - addr });
		addr = is ? CLAMP(is->addr + is->size, cut, until) : until;
	}
}

/* Tells what of @from is not in @other; both are in order. */
static void tell_difference(struct export *export, const struct trace_op *op, const GArray *from, const GArray *other,
			    enum export_kind kind)
{
	guint at = 0;

	for (guint i = 0; i < from->len; i++)
		tell_rest(export, op, &g_array_index(from, struct export_range, i), other, &at, kind);
}

/* Looks where there is memory, and tells what has changed. */
static void follow_maps(struct export *export, const struct trace_op *op)
{
	GArray *blocks = look(export), *now = g_array_new(FALSE, FALSE, sizeof(struct export_range));

	for (guint i = 0; i < blocks->len; i++) {
		const struct export_block *block = &g_array_index(blocks, struct export_block, i);

		extend(now, block->addr, block->size);
	}
	tell_difference(export, op, export->mapped, now, EXPORT_UNMAP);
	tell_difference(export, op, now, export->mapped, EXPORT_MAP);
	g_array_free(export->mapped, TRUE);
	g_array_free(blocks, TRUE);
	export->mapped = now;
}

static bool has_memory(const struct export *export, uint64_t addr)
{
	guint low = 0, high = export->mapped->len;

	while (low < high) {
		guint middle = low + (high - low) / 2;
		const struct export_range *range = &g_array_index(export->mapped, struct export_range, middle);

		if (addr < range->addr)
			high = middle;
		else if (addr - range->addr < range->size)
			return true;
		else
			low = middle + 1;
	}
	return false;
}

static uint64_t driver_calls(const struct vpmm_stats *s)
{
	return s->creates + s->maps + s->accesses + s->unmaps + s->releases;
}

static uint64_t taken(const struct vpmm_stats *s)
{
	return s->mapped + s->small_mapped + s->shareable + s->shared;
}

static void see(void *data, uint64_t operation, uint64_t live)
{
	struct export *export = data;
	const struct trace_op *op = &export->trace->ops[operation];
	struct vpmm_stats now = { .size = sizeof(now) };
	uint64_t calls;

	if (export->err || export->allocator->ops->stats(export->allocator, &now))
		return;
	calls = driver_calls(&now) - driver_calls(&export->stats);
	if (calls)
		add_event(export, op, (struct export_event){ .kind = EXPORT_DRIVER, .taken = calls,
							     .addr = now.driver_ns - export->stats.driver_ns });
	add_event(export, op, (struct export_event){ .kind = EXPORT_LEVEL, .bytes = live, .taken = taken(&now),
						     .stranded = now.stuck, .waits = now.waits });
	export->stats = now;
	if (operation == export->trace->n_ops - 1) {
		if (export->format->maps)
			follow_maps(export, op);
		g_array_free(current(export)->blocks, TRUE);
		current(export)->blocks = look(export);
	}
}

static void note_gone(struct export *export, const struct trace_op *op, const void *ptr)
{
	gpointer key = GSIZE_TO_POINTER((gsize)ptr);

	add_event(export, op, (struct export_event){ .kind = EXPORT_FREE, .addr = (uintptr_t)ptr,
						     .bytes = GPOINTER_TO_SIZE(g_hash_table_lookup(export->requested,
												   key)) });
	g_hash_table_remove(export->requested, key);
}

static void note_come(struct export *export, const struct trace_op *op, const void *ptr)
{
	struct vpmm_stats now = { .size = sizeof(now) };
	bool mapped = has_memory(export, (uintptr_t)ptr) && has_memory(export, (uintptr_t)ptr + op->bytes - 1);

	g_hash_table_insert(export->requested, GSIZE_TO_POINTER((gsize)ptr), GSIZE_TO_POINTER(op->bytes));
	if (export->format->maps && export->lines < DUMPED_LINES &&
	    !export->allocator->ops->stats(export->allocator, &now) &&
	    (!mapped || driver_calls(&now) != driver_calls(&export->stats)))
		follow_maps(export, op);
	add_event(export, op, (struct export_event){ .kind = EXPORT_ALLOC, .addr = (uintptr_t)ptr,
						     .bytes = op->bytes });
}

static void moved(void *data, const struct trace_op *op, const void *before, const void *after)
{
	struct export *export = data;

	if (export->err)
		return;
	if (before)
		note_gone(export, op, before);
	if (after)
		note_come(export, op, after);
}

struct replay_watch export_watch(struct export *export, const struct trace *trace, struct allocator *allocator)
{
	struct export_pool *pool = g_new0(struct export_pool, 1);

	pool->name = g_strdup(trace->name);
	pool->device = trace->device;
	pool->streams = trace->streams;
	pool->events = g_array_new(FALSE, FALSE, sizeof(struct export_event));
	pool->blocks = g_array_new(FALSE, FALSE, sizeof(struct export_block));
	g_ptr_array_add(export->pools, pool);
	export->trace = trace;
	export->allocator = allocator;
	export->stats = (struct vpmm_stats){ 0 };
	g_array_set_size(export->mapped, 0);
	g_hash_table_remove_all(export->requested);
	return (struct replay_watch){ .see = see, .moved = moved, .data = export };
}

int export_write(struct export *export)
{
	int err = 0;

	if (export->err)
		return fail_set(export->err, "--export: the pool cannot be looked at: %s", g_strerror(-export->err));
	errno = 0;
	export->format->write(export);
	if (export->file)
		err = output_finish(&export->output);
	else if (fflush(export->out) || ferror(export->out))
		err = errno ? -errno : -EIO;
	if (!err)
		return 0;
	return fail_set(err, "--export: writing %s failed: %s", export->file ? export->file : "standard output",
			g_strerror(-err));
}

void export_close(struct export *export)
{
	output_drop(&export->output);
	g_ptr_array_free(export->pools, TRUE);
	g_array_free(export->mapped, TRUE);
	g_hash_table_destroy(export->requested);
}
