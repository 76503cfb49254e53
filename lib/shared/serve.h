/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Serves touches: what touch.h calls. */
#ifndef SERVE_H
#define SERVE_H

#include <glib.h>
#include <stdbool.h>

void serve_touches(GArray *touched);
bool serve_idle(void);

#endif /* SERVE_H */
