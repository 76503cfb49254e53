/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Folders of a test's own. */
#ifndef FOLDER_H
#define FOLDER_H

#include <glib.h>
#include <glib/gstdio.h>

/* Removes a folder with all files in it; one that is not there is no error. */
static inline void folder_remove(const char *folder)
{
	GDir *dir = g_dir_open(folder, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		char *path = g_build_filename(folder, name, NULL);

		g_remove(path);
		g_free(path);
	}
	g_clear_pointer(&dir, g_dir_close);
	g_rmdir(folder);
}

#endif /* FOLDER_H */
