// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A program that is linked with the library and does nothing with it: loading it has opened no file, started no thread
 * and loaded no driver. Says what is wrong, and exits with 1.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmm.h"

/* Entries of a directory, but for itself and its parent. Of /proc/self/fd, the file that looking takes is one. */
static int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int count = 0;

	if (!dir) {
		perror(path);
		exit(1);
	}
	for (struct dirent *entry; (entry = readdir(dir)); )
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static int has_loaded(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps))
		found = found || strstr(line, name);
	if (maps)
		fclose(maps);
	return found;
}

/* Called with the number of files that the program was started with. */
int main(int argc, char **argv)
{
	const char *(*volatile version)(void) = vpmm_version;
	int files = count_entries("/proc/self/fd") - 1;
	int threads = count_entries("/proc/self/task");
	int wanted = argc > 1 ? atoi(argv[1]) : -1;
	int loaded = has_loaded("/libvpmm.so"), driver = has_loaded("/libcuda.so");

	if (version && loaded && !driver && threads == 1 && files == wanted)
		return 0;
	printf("libvpmm.so is %sloaded, libcuda.so is %sloaded, %d threads, %d files, expected %d\n",
	       loaded ? "" : "not ", driver ? "" : "not ", threads, files, wanted);
	return 1;
}
