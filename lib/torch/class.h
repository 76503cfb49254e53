/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The allocator class, to the rest of the object. */
#ifndef TORCH_CLASS_H
#define TORCH_CLASS_H

#include <stdbool.h>

/* Whether PyTorch's memory comes through the class, and so not through the plug-in's hooks. */
bool class_is_used(void);

#endif /* TORCH_CLASS_H */
