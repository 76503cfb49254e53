# SPDX-License-Identifier: LGPL-2.1-or-later
import collections
import contextlib
import importlib
import os
import types
import weakref

import hosts

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"

# Older versions have addresses of ctypes, newer ones of cuda.bindings.
USE_NV_BINDING = os.environ.get("FAKE_NUMBA") != "old"


class CUdeviceptr:
    def __init__(self, value):
        self._value = value

    def __int__(self):
        return self._value


if USE_NV_BINDING:
    binding = types.SimpleNamespace(CUdeviceptr=CUdeviceptr,
                                    CUresult=types.SimpleNamespace(CUDA_ERROR_OUT_OF_MEMORY=2))

MemoryInfo = collections.namedtuple("MemoryInfo", "free,total")


class CudaDriverError(Exception):
    pass


class CudaAPIError(CudaDriverError):
    def __init__(self, code, msg):
        self.code, self.msg = code, msg
        super().__init__(code, msg)

    def __str__(self):
        return f"[{self.code}] {self.msg}"


class _PendingDeallocs:
    def __init__(self):
        self.memory_capacity = 0
        self.disabled = 0
        self.cleared = 0

    @contextlib.contextmanager
    def disable(self):
        self.disabled += 1
        try:
            yield
        finally:
            self.disabled -= 1

    def clear(self):
        self.cleared += 1


class HostOnlyCUDAMemoryManager:
    def __init__(self, *_args, **kwargs):
        if "context" not in kwargs:
            raise RuntimeError("Memory manager requires a context")
        self.context = kwargs.pop("context")
        self.allocations = {}
        self.deallocations = _PendingDeallocs()

    def reset(self):
        self.allocations.clear()
        self.deallocations.clear()

    @contextlib.contextmanager
    def defer_cleanup(self):
        with self.deallocations.disable():
            yield


class MemoryPointer:
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        assert USE_NV_BINDING == isinstance(pointer, CUdeviceptr)
        self.context, self.device_pointer, self.size = context, pointer, size
        self._owner = owner
        self.is_managed = finalizer is not None
        if finalizer is not None:
            self._finalizer = weakref.finalize(self, finalizer)

    @property
    def device_pointer_value(self):
        pointer = self.device_pointer
        return (int(pointer) if USE_NV_BINDING else pointer.value) or None

    def view(self, start, stop):
        pointer = type(self.device_pointer)((self.device_pointer_value or 0) + start)
        return MemoryPointer(self.context, pointer, stop - start, owner=self._owner or self)

    def free(self):
        if self.is_managed:
            if not self._finalizer.alive:
                raise RuntimeError("Freeing dead memory")
            self._finalizer()


_memory_manager = None


class NumbaCUDAMemoryManager(HostOnlyCUDAMemoryManager):
    interface_version = 1

    def initialize(self):
        pass

    def memalloc(self, size):
        raise AssertionError(f"{size} bytes from Numba's own manager")


def _ensure_memory_manager():
    global _memory_manager
    if _memory_manager:
        return
    name = os.environ.get("NUMBA_CUDA_MEMORY_MANAGER", "default")
    if name == "default":
        _memory_manager = NumbaCUDAMemoryManager
        return
    set_memory_manager(importlib.import_module(name)._numba_memory_manager)


def set_memory_manager(mm_plugin):
    global _memory_manager
    if mm_plugin(context=None).interface_version != 1:
        raise RuntimeError("EMM Plugin interface has another version - version 1 required")
    _memory_manager = mm_plugin


class Context:
    def __init__(self, device):
        self.device = device
        _ensure_memory_manager()
        self.memory_manager = _memory_manager(context=self)
        self.memory_manager.initialize()

    def memalloc(self, size):
        return self.memory_manager.memalloc(size)

    def get_memory_info(self):
        return self.memory_manager.get_memory_info()

    def reset(self):
        self.memory_manager.reset()


class Device:
    def __init__(self, number):
        self.id = number
        self.primary_context = None

    def get_primary_context(self):
        if self.primary_context is None:
            self.primary_context = Context(weakref.proxy(self))
        return self.primary_context

    def __enter__(self):
        self._before = hosts.set_device(self.id)

    def __exit__(self, *_exception):
        hosts.set_device(self._before)
