// SPDX-License-Identifier: LGPL-2.1-or-later
/* Of ArrayFire 3.8, what man/examples/frameworks/arrayfire.c uses; tests/cpp/fake-arrayfire.c is behind it. */
#ifndef STUBS_ARRAYFIRE_H
#define STUBS_ARRAYFIRE_H

#include <stddef.h>

typedef enum { AF_SUCCESS = 0, AF_ERR_NO_MEM = 101, AF_ERR_RUNTIME = 103 } af_err;
typedef enum { f32 } af_dtype;
typedef long long dim_t;
typedef void *af_array;

af_err af_randu(af_array *out, const unsigned ndims, const dim_t *const dims, const af_dtype type);
af_err af_release_array(af_array array);
af_err af_get_device_ptr(void **ptr, const af_array array);
af_err af_free_device_v2(void *ptr);
af_err af_print_mem_info(const char *message, const int device);

#endif
