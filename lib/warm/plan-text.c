// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "util/error.h"
#include "warm/plan-text.h"

#define HEADER PLAN_TEXT_BEGIN "1"

/* The most numbers of a line. */
#define NUMBERS 5

static uint64_t sum_of(const char *text, size_t length)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < length; i++)
		sum = (sum ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return sum;
}

static void write_extents(GString *text, const GArray *extents)
{
	for (guint i = 0, end; i < extents->len; i = end) {
		uint64_t size = g_array_index(extents, uint64_t, i);

		end = i + 1;
		while (end < extents->len && g_array_index(extents, uint64_t, end) == size)
			end++;
		g_string_append_printf(text, "extents %" PRIu64 " %u\n", size, end - i);
	}
}

static void write_places(GString *text, const GArray *places)
{
	for (guint i = 0; i < places->len; i++) {
		const struct warm_place *place = &g_array_index(places, struct warm_place, i);

		g_string_append_printf(text, "%s 0x%" PRIx64 " %" PRIu64 "\n", place->home ? "free" : "zombie",
				       place->addr, place->extent);
	}
}

GString *plan_text_write(const struct warm *warm, const char *device)
{
	GString *text = g_string_new(HEADER "\n");

	g_string_append_printf(text, "device %s\npool %" PRIu64 " %" PRIu64 " %d %" PRIu64 "\n", device,
			       warm->page_size, warm->piece, warm->paged, warm->held);
	g_string_append_printf(text, "overlap %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n", warm->overlap.waits,
			       warm->overlap.bytes, warm->overlap.block, warm->overlap.row, warm->overlap.streams);
	for (guint i = 0; i < warm->chunks->len; i++) {
		const struct warm_chunk *chunk = &g_array_index(warm->chunks, struct warm_chunk, i);

		g_string_append_printf(text, "%s 0x%" PRIx64 " %" PRIu64 "\n", chunk->slabs ? "slabs" : "chunk",
				       chunk->addr, chunk->size);
	}
	write_extents(text, warm->extents);
	write_places(text, warm->places);
	for (guint i = 0; i < warm->decisions->len; i++) {
		const struct decision *decision = &g_array_index(warm->decisions, struct decision, i);

		g_string_append_printf(text, "block 0x%" PRIx64 " 0x%" PRIx64 "\n", decision->key, decision->addr);
	}
	g_string_append_printf(text, "end 0x%016" PRIx64 "\n", sum_of(text->str, text->len));
	return text;
}

/**
 * struct reader - what a file has told so far
 * @warm: that
 * @device: that it is to be of
 * @most: bytes that the extents may have
 * @least: bytes that each has
 * @bytes: that they have
 * @named: the device was named
 * @sized: the pool was described
 * @large: its extents have more than @most, or would with @least each
 */
struct reader {
	struct warm *warm;
	const char *device;
	uint64_t most;
	uint64_t least;
	uint64_t bytes;
	bool named;
	bool sized;
	bool large;
};

static int read_device(struct reader *reader, const char *name)
{
	reader->named = true;
	if (!strcmp(name, reader->device))
		return 0;
	return error_set(-EINVAL, "it is of another device, %.100s; this one is %s", name, reader->device);
}

static bool read_pool(struct reader *reader, const uint64_t *number)
{
	struct warm *warm = reader->warm;

	warm->page_size = number[0];
	warm->piece = number[1];
	warm->paged = number[2];
	warm->held = number[3];
	reader->sized = number[0] && number[1];
	return reader->sized;
}

static bool read_overlap(struct reader *reader, const uint64_t *number)
{
	reader->warm->overlap = (struct allowance_seen){
		.waits = (guint)MIN(number[0], G_MAXUINT16),
		.bytes = number[1],
		.block = number[2],
		.row = number[3],
		.streams = (guint)MIN(number[4], ALLOWANCE_STREAMS),
	};
	return number[1] <= reader->most && number[2] <= reader->most && number[3] <= reader->most;
}

static bool read_chunk(struct reader *reader, const uint64_t *number)
{
	const struct warm_chunk chunk = { .addr = number[0], .size = number[1] };

	g_array_append_val(reader->warm->chunks, chunk);
	return true;
}

static bool read_slabs(struct reader *reader, const uint64_t *number)
{
	const struct warm_chunk chunk = { .addr = number[0], .size = number[1], .slabs = true };

	g_array_append_val(reader->warm->chunks, chunk);
	return true;
}

static bool read_extents(struct reader *reader, const uint64_t *number)
{
	uint64_t bytes;

	/* The lists take memory for each: no size makes it more than the device has pages. */
	reader->large = __builtin_mul_overflow(MAX(number[0], reader->least), number[1], &bytes) ||
			bytes > reader->most - reader->bytes;
	if (reader->large)
		return false;
	reader->bytes += bytes;
	for (uint64_t i = 0; i < number[1]; i++)
		g_array_append_val(reader->warm->extents, number[0]);
	return true;
}

static bool read_free(struct reader *reader, const uint64_t *number)
{
	const struct warm_place place = { .addr = number[0], .extent = number[1], .home = true };

	g_array_append_val(reader->warm->places, place);
	return true;
}

static bool read_zombie(struct reader *reader, const uint64_t *number)
{
	const struct warm_place place = { .addr = number[0], .extent = number[1] };

	g_array_append_val(reader->warm->places, place);
	return true;
}

static bool read_block(struct reader *reader, const uint64_t *number)
{
	const struct decision decision = { .key = number[0], .addr = number[1] };

	g_array_append_val(reader->warm->decisions, decision);
	return true;
}

static const struct {
	const char *word;
	guint numbers;
	bool (*read)(struct reader *reader, const uint64_t *number);
} kinds[] = {
	{ "pool", 4, read_pool },
	{ "overlap", 5, read_overlap },
	{ "chunk", 2, read_chunk },
	{ "slabs", 2, read_slabs },
	{ "extents", 2, read_extents },
	{ "free", 2, read_free },
	{ "zombie", 2, read_zombie },
	{ "block", 2, read_block },
};

/* Exactly so many numbers, with one space before each. */
static bool read_numbers(const char *text, uint64_t *number, guint count)
{
	for (guint i = 0; i < count; i++) {
		char *end;

		if (text[0] != ' ' || !g_ascii_isdigit(text[1]))
			return false;
		errno = 0;
		number[i] = g_ascii_strtoull(text + 1, &end, 0);
		if (errno)
			return false;
		text = end;
	}
	return !*text;
}

/* Return: 0, or -EINVAL, with a text if it is not the form that is wrong. */
static int read_fact(struct reader *reader, const char *line, bool *formed)
{
	uint64_t number[NUMBERS];

	*formed = true;
	if (g_str_has_prefix(line, "device "))
		return read_device(reader, line + strlen("device "));
	for (guint i = 0; i < G_N_ELEMENTS(kinds); i++) {
		size_t length = strlen(kinds[i].word);

		if (!strncmp(line, kinds[i].word, length) && line[length] == ' ') {
			*formed = read_numbers(line + length, number, kinds[i].numbers) && kinds[i].read(reader, number);
			return *formed ? 0 : -EINVAL;
		}
	}
	*formed = false;
	return -EINVAL;
}

static int read_facts(struct reader *reader, char *text)
{
	bool formed;
	int err = 0;

	for (guint number = 2; *text && !err; number++) {
		size_t length = strcspn(text, "\n");

		text[length] = '\0';
		err = read_fact(reader, text, &formed);
		if (reader->large)
			return error_set(-EINVAL, "its memory is more than the device memory, %" PRIu64 " bytes", reader->most);
		if (!formed)
			return error_set(-EINVAL, "line %u is not one of a plan: %.60s", number, text);
		text += length + 1;
	}
	if (!err && (!reader->named || !reader->sized))
		return error_set(-EINVAL, "it lacks the line of the device or that of the pool");
	return err;
}

/* The sum of all lines but the last, which it is cut off with. */
static int check_sum(char *text, size_t length)
{
	char expected[32], *last;

	if (!length || strlen(text) != length || text[length - 1] != '\n')
		return error_set(-EINVAL, "it is truncated, or no text");
	text[length - 1] = '\0';
	last = strrchr(text, '\n');
	if (!last)
		return error_set(-EINVAL, "it is truncated");
	last++;
	g_snprintf(expected, sizeof(expected), "end 0x%016" PRIx64, sum_of(text, (size_t)(last - text)));
	if (strcmp(last, expected))
		return error_set(-EINVAL, "it is truncated or was changed: its last line is not the sum of the others");
	*last = '\0';
	return 0;
}

int plan_text_read(char *text, size_t length, const char *device, uint64_t most, uint64_t least,
		   struct warm **warm)
{
	struct reader reader = { .device = device, .most = most, .least = least };
	int err;

	if (length < strlen(HEADER "\n") || strncmp(text, HEADER "\n", strlen(HEADER "\n")))
		return error_set(-EINVAL, "it does not begin with \"%s\"", HEADER);
	err = check_sum(text, length);
	if (err)
		return err;
	reader.warm = warm_new();
	err = read_facts(&reader, text + strlen(HEADER "\n"));
	if (err)
		warm_free(reader.warm);
	else
		*warm = reader.warm;
	return err;
}
