/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lists of segments and blocks. */
#ifndef TORCH_PIECES_H
#define TORCH_PIECES_H

#include <stdbool.h>

#include "torch/class.h"

/* A growing list; it has failed once there was no memory. */
struct pieces {
	struct torch_piece *all;
	size_t count;
	size_t room;
	bool failed;
};

void pieces_add(struct pieces *pieces, const struct torch_piece *piece);

#endif /* TORCH_PIECES_H */
