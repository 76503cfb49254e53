// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Bytes as values of the environment, as structures of any size, and as what a device says about itself. The first
 * byte says which. Every structure is as large as it says and no larger, so that AddressSanitizer sees a read beyond.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend/backend.h"
#include "settings/settings.h"
#include "fuzz.h"
#include "support/fixture.h"
#include "util/env.h"

struct input {
	const uint8_t *at;
	size_t left;
};

static void take(struct input *in, void *out, size_t size)
{
	size_t taken = MIN(size, in->left);

	memset(out, 0, size);
	if (!taken)
		return;
	memcpy(out, in->at, taken);
	in->at += taken;
	in->left -= taken;
}

static uint64_t take_number(struct input *in)
{
	uint64_t number;

	take(in, &number, sizeof(number));
	return number;
}

/* As far as the next newline. */
static char *take_text(struct input *in)
{
	const uint8_t *newline = in->left ? memchr(in->at, '\n', in->left) : NULL;
	size_t length = newline ? (size_t)(newline - in->at) : in->left;
	char *text = g_strndup(in->left ? (const char *)in->at : "", length);
	char *exact = g_memdup2(text, strlen(text) + 1);

	g_free(text);
	in->at += length;
	in->left -= length;
	if (newline) {
		in->at++;
		in->left--;
	}
	return exact;
}

/* Failed calls say so in each way there is. */
static void assert_failed(int err)
{
	int number = errno;

	g_assert_true(err == -EINVAL || err == -E2BIG);
	g_assert_cmpint(number, ==, -err);
	g_assert_cmpstr(vpmm_last_error(), !=, "");
}

/* What a size means, in arithmetic that does not overflow. */
static bool plain_size(const char *text, unsigned __int128 *value)
{
	static const char suffixes[] = "KkMmGgTt";
	const char *suffix;

	if (!g_ascii_isdigit(*text))
		return false;
	for (*value = 0; g_ascii_isdigit(*text); text++) {
		if (*value <= UINT64_MAX)
			*value = *value * 10 + (unsigned int)(*text - '0');
	}
	if (!*text)
		return true;
	suffix = strchr(suffixes, *text);
	if (!suffix || text[1])
		return false;
	*value <<= 10 * ((suffix - suffixes) / 2 + 1);
	return true;
}

static void try_size(struct input *in)
{
	char *text = take_text(in);
	unsigned __int128 expected = 0;
	uint64_t value = 7;
	bool plain = plain_size(text, &expected);
	int err;

	err = env_parse_number("name", text, "a number of bytes", &value);
	if (err) {
		assert_failed(err);
		g_assert_true(g_str_has_prefix(vpmm_last_error(), "name="));
		g_assert_cmpuint(value, ==, 7);
		g_assert_true(!plain || expected > UINT64_MAX);
	} else {
		g_assert_true(plain);
		g_assert_true(value == expected);
	}
	g_free(text);
}

/* Whatever a device says of itself. */
static void fit(struct settings *settings, struct input *in)
{
	struct backend_info info = { .name = "host", .granularity = take_number(in) };
	size_t page_size;
	int err;

	err = settings_fit(settings, &info);
	if (err) {
		assert_failed(err);
		return;
	}
	page_size = settings->page_size;
	g_assert_cmpuint(page_size, >, 0);
	if (page_size == SIZE_MAX) {
		g_assert_cmpuint(settings->pages, ==, 0);
		return;
	}
	g_assert_cmpuint(page_size % info.granularity, ==, 0);
	g_assert_cmpuint(page_size, <=, SIZE_MAX / 4);
	g_assert_cmpuint(settings->va_size, >, 0);
	g_assert_cmpuint(settings->va_size % page_size, ==, 0);
	g_assert_cmpuint(settings->va_size, <=, SIZE_MAX / 4);
	g_assert_true((unsigned __int128)settings->pages * page_size <= SIZE_MAX / 4);
	g_assert_cmpuint(settings->extent_max, >, 0);
	g_assert_cmpuint(settings->extent_max % page_size, ==, 0);
	g_assert_cmpuint(settings->extent_max, <=, SIZE_MAX / 4);
	g_assert_true(settings->paged == (settings->extent_max == page_size && settings->small == VPMM_SMALL_DRIVER));
}

static void assert_settings(const struct settings *settings)
{
	g_assert_true(!strcmp(settings->backend, "cuda") || !strcmp(settings->backend, "host") ||
		      !strcmp(settings->backend, "auto"));
	g_assert_true(settings->reuse == VPMM_REUSE_ASYNC || settings->reuse == VPMM_REUSE_BLOCK);
	g_assert_true(settings->small == VPMM_SMALL_POOL || settings->small == VPMM_SMALL_DRIVER);
	g_assert_cmpuint(settings->frag_ratio, <=, 100);
	g_assert_cmpuint(settings->overhead, >=, 1);
	g_assert_cmpuint(settings->overhead, <=, 25);
	g_assert_cmpint(settings->overlap, >=, VPMM_OVERLAP_NONE);
	g_assert_cmpint(settings->overlap, <=, 1000);
	g_assert_cmpint(settings->scrub, >=, VPMM_SCRUB_NONE);
	g_assert_cmpint(settings->scrub, <=, VPMM_SCRUB_ALWAYS);
	g_assert_cmpint(settings->export_as, <=, VPMM_EXPORT_AUTO);
	g_assert_cmpint(settings->rdma, <=, VPMM_RDMA_ON);
	g_assert_cmpint(settings->limit_percent, >=, 0);
	g_assert_cmpint(settings->limit_percent, <=, 100);
	g_assert_cmpuint(settings->limit, >, 0);
	g_assert_cmpuint(settings->keep, >, 0);
	g_assert_cmpint(settings->log_level, >=, VPMM_LOG_NONE);
	g_assert_cmpint(settings->log_level, <=, VPMM_LOG_DEBUG);
	g_assert_true(!settings->device || *settings->device >= 0);
}

static void try_env(struct input *in)
{
	static const char *const variables[] = {
		"VPMM_PAGE_SIZE", "VPMM_VA_SIZE", "VPMM_PAGES", "VPMM_REUSE", "VPMM_LOG", "VPMM_BACKEND",
		"VPMM_EXTENT_MAX", "VPMM_SMALL", "VPMM_FRAG_RATIO", "VPMM_LIMIT", "VPMM_KEEP", "VPMM_SCRUB",
		"VPMM_OVERHEAD",
		"VPMM_OVERLAP",
	};
	size_t size = sizeof(struct vpmm_opts) + take_number(in) % sizeof(struct vpmm_opts);
	struct vpmm_opts *opts = g_malloc(size);
	struct settings settings;
	int err, again;

	for (size_t i = 0; i < G_N_ELEMENTS(variables); i++) {
		char *text = take_text(in);

		g_setenv(variables[i], text, TRUE);
		g_free(text);
	}
	memset(opts, 0x55, size);
	opts->size = size;
	err = vpmm_opts_from_env(opts);
	if (err)
		assert_failed(err);
	g_assert_cmpuint(opts->size, ==, size);
	for (size_t i = err ? sizeof(size_t) : sizeof(*opts); i < size; i++)
		g_assert_cmpint(((char *)opts)[i], ==, err ? 0x55 : 0);
	again = settings_from_opts(&settings, NULL);
	g_assert_cmpint(again, ==, err);
	if (!err) {
		assert_settings(&settings);
		/* What the environment says is good as options. */
		assert_ok(settings_from_opts(&settings, opts));
		fit(&settings, in);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(variables); i++)
		g_unsetenv(variables[i]);
	g_free(opts);
}

/* Puts what a pointer is made of where its bytes would be, if the structure has as much. */
static void place_bytes(void *structure, size_t size, size_t offset, const void *bytes)
{
	if (offset + sizeof(void *) <= size)
		memcpy((char *)structure + offset, bytes, sizeof(void *));
	else if (offset < size)
		memset((char *)structure + offset, 0, size - offset);
}

static void place(void *structure, size_t size, size_t offset, const void *pointer)
{
	place_bytes(structure, size, offset, &pointer);
}

static int give_nothing(void *data, struct vpmm_pool *pool, size_t size)
{
	return 0;
}

static void hear_nothing(void *data, struct vpmm_pool *pool, size_t size, const char *message)
{
}

static void assert_functions(const struct settings *settings, uint8_t choice)
{
	g_assert_true(settings->pressure == (choice & 4 ? give_nothing : NULL));
	g_assert_true(settings->exhausted == (choice & 8 ? hear_nothing : NULL));
}

static void try_opts(struct input *in)
{
	vpmm_pressure_fn pressure = give_nothing;
	vpmm_exhausted_fn exhausted = hear_nothing;
	size_t size = take_number(in) % (4 * sizeof(struct vpmm_opts));
	uint8_t choice = (uint8_t)take_number(in);
	int *device = g_new(int, 1);
	char *backend = take_text(in);
	struct vpmm_opts *opts = g_malloc(MAX(size, sizeof(size_t)));
	struct settings settings;
	bool tail = false;
	int err;

	*device = (int)take_number(in);
	take(in, opts, MAX(size, sizeof(size_t)));
	opts->size = size;
	place(opts, size, offsetof(struct vpmm_opts, backend), choice & 1 ? backend : NULL);
	place(opts, size, offsetof(struct vpmm_opts, device), choice & 2 ? device : NULL);
	place(opts, size, offsetof(struct vpmm_opts, trace), NULL);
	place(opts, size, offsetof(struct vpmm_opts, oom_dump), NULL);
	place(opts, size, offsetof(struct vpmm_opts, budget), NULL);
	place(opts, size, offsetof(struct vpmm_opts, plan), NULL);
	/* Bytes are no pointer: a new member that is one has to be placed as well. */
	G_STATIC_ASSERT(sizeof(*opts) == offsetof(struct vpmm_opts, plan) + sizeof(opts->plan));
	if (!(choice & 4))
		pressure = NULL;
	if (!(choice & 8))
		exhausted = NULL;
	place_bytes(opts, size, offsetof(struct vpmm_opts, pressure), &pressure);
	place_bytes(opts, size, offsetof(struct vpmm_opts, exhausted), &exhausted);
	for (size_t i = sizeof(*opts); i < size; i++)
		tail |= ((char *)opts)[i] != 0;
	err = settings_from_opts(&settings, opts);
	if (err) {
		assert_failed(err);
	} else {
		assert_settings(&settings);
		assert_functions(&settings, choice);
	}
	g_assert_true((err == -E2BIG) == tail);
	g_assert_true(err || size >= sizeof(*opts));
	if (!err)
		fit(&settings, in);
	g_free(opts);
	g_free(backend);
	g_free(device);
}

static void try_fit(struct input *in)
{
	struct settings settings = { .backend = "host" };

	settings.page_size = take_number(in);
	settings.va_size = take_number(in);
	settings.pages = take_number(in);
	settings.extent_max = take_number(in);
	settings.small = take_number(in) & 1;
	fit(&settings, in);
}

/* Structures that the library fills in: with zeros after what it knows, or not at all where they are too small. */
static void try_room(struct input *in)
{
	static struct vpmm_pool *pool;
	size_t size = take_number(in) % 1024;
	size_t room = MAX(size, sizeof(size_t));
	uint64_t which = take_number(in) % 3;
	size_t known[] = { sizeof(struct vpmm_stats), sizeof(struct vpmm_info), sizeof(struct vpmm_forecast) };
	char *structure = g_malloc(room);
	int err;

	if (!pool)
		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_OPTS }));
	memset(structure, 0x55, room);
	memcpy(structure, &size, sizeof(size));
	if (which == 2)
		err = vpmm_pool_query(pool, take_number(in), NULL, (struct vpmm_forecast *)(void *)structure);
	else
		err = which ? vpmm_pool_info(pool, (struct vpmm_info *)(void *)structure) :
			      vpmm_pool_stats(pool, (struct vpmm_stats *)(void *)structure);
	g_assert_true((err == -EINVAL) == (size < known[which]));
	g_assert_true(err == 0 || err == -EINVAL);
	g_assert_cmpmem(structure, sizeof(size), &size, sizeof(size));
	for (size_t i = known[which]; i < size; i++)
		g_assert_cmpint(structure[i], ==, 0);
	g_free(structure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t which;

	take(&in, &which, 1);
	switch (which % 5) {
	case 0:
		try_size(&in);
		break;
	case 1:
		try_env(&in);
		break;
	case 2:
		try_opts(&in);
		break;
	case 3:
		try_fit(&in);
		break;
	default:
		try_room(&in);
	}
	return 0;
}
