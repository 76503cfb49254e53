/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Budgets in a folder of the test, and what is in their files. */
#ifndef BUDGET_FIXTURE_H
#define BUDGET_FIXTURE_H

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "budget/file.h"
#include "support/fixture.h"
#include "support/folder.h"

/* Of the host backend's first device. */
static const unsigned char budget_uuid[BUDGET_UUID] = "host device 0";

/* In pages. */
#define BUDGET_PAGES 40

#define BUDGET_TEXT "test:80M"

/* A pool on the host backend with a part of that budget, or of another. */
#define BUDGET_NAMED(text, ...) ((struct vpmm_opts){ FIXTURE_PACKED, .budget = (text), ##__VA_ARGS__ })
#define BUDGET_OPTS(...) BUDGET_NAMED(BUDGET_TEXT, ##__VA_ARGS__)

static inline int budget_malloc(struct fixture *f, void **ptr, size_t pages)
{
	return vpmm_malloc(f->pool, ptr, pages * PAGE, f->streams[0]);
}

static inline void budget_close_both(struct fixture *a, struct fixture *b)
{
	fixture_close_beside(a);
	fixture_close(b);
}

/* A pool that a thread has allocate and free most of the budget. */
struct budget_asker {
	struct fixture *f;
	gint has_had;
};

static inline void *budget_ask_much(void *data)
{
	struct budget_asker *it = data;
	void *ptr;

	assert_ok(budget_malloc(it->f, &ptr, 30));
	assert_ok(vpmm_free(it->f->pool, ptr, it->f->streams[0]));
	g_atomic_int_set(&it->has_had, 1);
	return NULL;
}

/* Pools of this process and its children find their budgets there. */
static inline void budget_folder(void)
{
	char *folder = g_dir_make_tmp("vpmm-budget-XXXXXX", NULL);

	g_assert_nonnull(folder);
	g_setenv("XDG_RUNTIME_DIR", folder, TRUE);
	g_free(folder);
}

/* Once no pool is left, no file of a budget is mapped: in the folder by its own name, as the path may have links. */
static inline void budget_remove_folder(void)
{
	char *folder = g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "vpmm", NULL), *maps = NULL;
	char *name = g_path_get_basename(g_getenv("XDG_RUNTIME_DIR"));

	g_assert_true(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
	g_assert_null(strstr(maps, name));
	g_free(maps);
	g_free(name);
	folder_remove(folder);
	g_rmdir(g_getenv("XDG_RUNTIME_DIR"));
	g_free(folder);
}

/* The file of a budget; it has to exist. */
static inline struct budget_file *budget_map(const char *name)
{
	char *path = budget_path(name, budget_uuid);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *file = mmap(NULL, sizeof(struct budget_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	g_assert_true(fd >= 0 && file != MAP_FAILED);
	close(fd);
	g_free(path);
	return file;
}

static inline void budget_unmap(struct budget_file *file)
{
	munmap(file, sizeof(*file));
}

/* What all pools have taken, those included whose processes have ended unseen. */
static inline uint64_t budget_sum(const struct budget_file *file)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < BUDGET_SLOTS; i++)
		sum += atomic_load(&file->slots[i].taken);
	return sum;
}

#endif /* BUDGET_FIXTURE_H */
