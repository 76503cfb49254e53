/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the headers of CUDA's runtime need of its compiler's, for a C++ compiler. PyTorch's packages bring the former and
 * not the latter. It comes last in the search, so a toolkit's own is found first.
 */
#ifndef VPMM_STUB_HOST_DEFINES_H
#define VPMM_STUB_HOST_DEFINES_H

/* Not __noinline__, which C++ headers have as the name of an attribute. */
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __no_return__ __attribute__((noreturn))
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define __specialization_static
#define __annotate__(text)
#define __location__(text)
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __cluster_dims__(...)
#define __launch_bounds__(...)
#define __block_size__(...)
#define __maxnreg__(...)
#define __nv_pure__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__

#endif /* VPMM_STUB_HOST_DEFINES_H */
