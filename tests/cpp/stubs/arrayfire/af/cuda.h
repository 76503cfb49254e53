// SPDX-License-Identifier: LGPL-2.1-or-later
#ifndef STUBS_AF_CUDA_H
#define STUBS_AF_CUDA_H

#ifdef AF_DEFINE_CUDA_TYPES
typedef struct CUstream_st *cudaStream_t;
#endif

af_err afcu_get_stream(cudaStream_t *stream, int id);

#endif
