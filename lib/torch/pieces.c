// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdlib.h>

#include "torch/pieces.h"

void pieces_add(struct pieces *pieces, const struct torch_piece *piece)
{
	size_t room = pieces->room ? 2 * pieces->room : 64;
	struct torch_piece *all;

	if (pieces->count == pieces->room && !pieces->failed) {
		all = realloc(pieces->all, room * sizeof(*all));
		pieces->failed = !all;
		if (all) {
			pieces->all = all;
			pieces->room = room;
		}
	}
	if (!pieces->failed)
		pieces->all[pieces->count++] = *piece;
}
