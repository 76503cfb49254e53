/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the allocator class and this object have in common is with the class, which is installed as a source. */
#ifndef TORCH_CLASS_H
#define TORCH_CLASS_H

#include "vpmm/torch_class.h"

#endif /* TORCH_CLASS_H */
