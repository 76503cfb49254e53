# SPDX-License-Identifier: LGPL-2.1-or-later
import ctypes
import os
import sys
import types

import hosts
import torch

from . import _C


def is_initialized():
    return _C.initialized and not _C._cuda_isInBadFork()


def current_device():
    if not _C.initialized:
        init()
    return 0


def device_count():
    return 2


def memory_snapshot():
    return _C._cuda_memorySnapshot((0, 0, True))["segments"]


def get_device_properties(_device):
    return types.SimpleNamespace(total_memory=64 << 20)


class CUDAPluggableAllocator:
    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self._allocator = _C.Allocator(*(ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                                         for name in (alloc, free)))

    def allocator(self):
        return self._allocator


def change_current_allocator(allocator):
    if _C.initialized:
        raise RuntimeError("Can't swap an already initialized allocator")
    _C.current = allocator.allocator()


def _set_allocator_settings(settings):
    if "nonsense" in settings:
        raise RuntimeError(f"Unrecognized key 'nonsense' in {settings}")
    if "backend:" in settings and _C.current is not None:
        raise RuntimeError("Allocator backend parsed at runtime != allocator backend parsed at load time")
    _C.has_settings = True


def init():
    if not _C.has_settings:
        _set_allocator_settings(os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""))
    _C.initialized = True
    _C.initialized_in = os.getpid()
    _C.current.init(1)


def memory_stats_as_nested_dict(device=None):
    return _C._cuda_memoryStats(0 if device is None else device) if _C.initialized else {}


def memory_stats(device=None):
    flat = {}

    def add(prefix, value):
        if not isinstance(value, dict):
            flat[prefix] = value
            return
        for key, inner in value.items():
            add(f"{prefix}.{key}" if prefix else key, inner)

    add("", memory_stats_as_nested_dict(device))
    return flat


def memory_allocated(device=None):
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device=None):
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device=None):
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device=None):
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device=None):
    _C._cuda_resetPeakMemoryStats(0 if device is None else device)


def reset_accumulated_memory_stats(device=None):
    _C._cuda_resetAccumulatedMemoryStats(0 if device is None else device)


def set_per_process_memory_fraction(fraction, device=0):
    _C.current.fraction(fraction, device)


def get_per_process_memory_fraction(device=0):
    return _C._cuda_getMemoryFraction(device)


def empty_cache():
    if _C.initialized:
        _C.current.reset()


class Tensor:
    """Memory of the default stream, freed as it goes."""

    def __init__(self, size):
        if not _C.initialized:
            init()
        self.size = size
        self.address = _C.current.alloc(size, 0, None)

    def __del__(self):
        if self.address:
            _C.current.free(self.address, self.size, 0, None)


class CUDAGraph:
    """It tells the allocator of what has worked."""

    ids = 0

    def __init__(self, stream):
        self.stream, self.ended, self.id = stream, False, None

    def capture_begin(self, pool=None, capture_error_mode="global"):
        CUDAGraph.ids += 1
        self.id = pool or _C.PoolId(CUDAGraph.ids, 0)
        _C.current.begin(0, self.id, None)
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError("Unknown capture error mode")
        hosts.begin_capture(self.stream)

    def capture_end(self):
        graph = hosts.end_capture(self.stream)
        _C.current.end(0, self.id)
        self.ended = True
        hosts.destroy_graph(graph)

    def reset(self):
        if self.ended:
            _C.current.release(0, self.id)
            self.ended = False

    def __del__(self):
        self.reset()


# The names of torch.cuda.memory are those of torch.cuda as well.
memory = types.ModuleType("torch.cuda.memory")
for _name, _value in list(globals().items()):
    if not _name.startswith("_"):
        setattr(memory, _name, _value)
memory._set_allocator_settings = _set_allocator_settings
sys.modules["torch.cuda.memory"] = memory
assert torch
