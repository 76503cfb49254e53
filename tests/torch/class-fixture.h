/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The allocator class as PyTorch has it, and what its tests have in common. */
#ifndef CLASS_FIXTURE_H
#define CLASS_FIXTURE_H

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>

#include "torch/torch-fixture.h"
#include "vpmm/torch_class.h"

extern const struct torch_class *table;
static const struct torch_id none = { 0 };

/* The class's part: events that have passed once @class_passed says so, and segments that came and went. */
extern bool class_passed, class_captures;
extern unsigned int class_events, class_come, class_gone;

/* Posted when a query of an event begins, which then takes a while; NULL: nothing is. */
extern sem_t *class_querying;

/* Whether realloc() fails, if it is this program's. */
extern bool class_no_memory;
bool class_has_realloc(void);

/* Begins the program: a device of 64 MiB, half of which PyTorch may have. */
void class_open(int *argc, char ***argv);

struct torch_stats stats_now(void);
char *new_block(size_t size, struct CUstream_st *stream, struct torch_pool *pool);
void drop(void *ptr);

/* Ends a pool, with all that it has. */
void end_pool(struct torch_id id);

/* The segments of a list tile: parts fill each in order of address. Returns how many there are. */
size_t check_list(const struct torch_piece *pieces, size_t count);
void check_list_now(struct torch_id id);
size_t count_segments(struct torch_id id);

void class_restore_tests(void);
void class_statistics_tests(void);

#endif /* CLASS_FIXTURE_H */
