/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <c10/cuda/CUDAStream.h>
