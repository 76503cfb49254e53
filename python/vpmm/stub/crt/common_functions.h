/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See host_defines.h beside it. */
#ifndef VPMM_STUB_COMMON_FUNCTIONS_H
#define VPMM_STUB_COMMON_FUNCTIONS_H

#endif /* VPMM_STUB_COMMON_FUNCTIONS_H */
