# SPDX-License-Identifier: LGPL-2.1-or-later
"""What PyTorch has in C++: its own statistics fail under another allocator."""

import ctypes
import os

initialized = False
initialized_in = None
current = None
has_settings = False
benchmark = False
used = {}


def _refuse(name):
    def fail(*_arguments):
        raise RuntimeError(f"CUDAPluggableAllocator does not yet support {name}")
    return fail


_cuda_memoryStats = _refuse("getDeviceStats")
_cuda_resetPeakMemoryStats = _refuse("resetPeakStats")
_cuda_resetAccumulatedMemoryStats = _refuse("resetAccumulatedStats")
_cuda_getMemoryFraction = _refuse("getMemoryFraction")
_cuda_memorySnapshot = _refuse("snapshot")
_cuda_record_memory_history = _refuse("recordHistory")
_accelerator_getDeviceStats = _refuse("getDeviceStats")


def _cuda_isInBadFork():
    return initialized and initialized_in not in (None, os.getpid())


def _get_cudnn_benchmark():
    return benchmark


def _set_cudnn_benchmark(value):
    global benchmark
    benchmark = value


class PoolId(ctypes.Structure):
    _fields_ = [("a", ctypes.c_ulonglong), ("b", ctypes.c_ulonglong)]


_VOID = None
_PTR = ctypes.c_void_p


class Allocator:
    """The C++ object: it takes addresses of functions."""

    def __init__(self, alloc, free):
        self.alloc = ctypes.CFUNCTYPE(_PTR, ctypes.c_ssize_t, ctypes.c_int, _PTR)(alloc)
        self.free = ctypes.CFUNCTYPE(_VOID, _PTR, ctypes.c_size_t, ctypes.c_int, _PTR)(free)

    def set_init_fn(self, address):
        self.init = ctypes.CFUNCTYPE(_VOID, ctypes.c_int)(address)

    def set_reset_fn(self, address):
        self.reset = ctypes.CFUNCTYPE(_VOID)(address)

    def set_memory_fraction_fn(self, address):
        self.fraction = ctypes.CFUNCTYPE(_VOID, ctypes.c_double, ctypes.c_int)(address)

    def set_base_alloc_fn(self, address):
        self.base = ctypes.CFUNCTYPE(_PTR, _PTR, ctypes.POINTER(ctypes.c_size_t))(address)

    def set_record_stream_fn(self, address):
        self.record = ctypes.CFUNCTYPE(_VOID, _PTR, _PTR)(address)

    def set_begin_allocate_to_pool(self, address):
        self.begin = ctypes.CFUNCTYPE(_VOID, ctypes.c_int, PoolId, _PTR)(address)

    def set_end_allocate_to_pool_fn(self, address):
        self.end = ctypes.CFUNCTYPE(_VOID, ctypes.c_int, PoolId)(address)

    def set_release_pool(self, address):
        self.release = ctypes.CFUNCTYPE(_VOID, ctypes.c_int, PoolId)(address)
