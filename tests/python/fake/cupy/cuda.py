# SPDX-License-Identifier: LGPL-2.1-or-later
import contextlib
import threading
import types

import hosts


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        self._size, self._total, self._limit = size, total, limit
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes).")

    def __reduce__(self):
        return (type(self), (self._size, self._total, self._limit))


memory = types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
runtime = types.SimpleNamespace(is_hip=False, getDevice=lambda: hosts.current, streamPerThread=2)

_current_allocator = None
_thread_local = threading.local()


def set_allocator(allocator=None):
    global _current_allocator
    if getattr(_thread_local, "allocator", None) is not None:
        raise ValueError("Can't change the global allocator inside `using_allocator` context manager")
    _current_allocator = allocator


def get_allocator():
    return getattr(_thread_local, "allocator", None) or _current_allocator


@contextlib.contextmanager
def using_allocator(allocator):
    before = getattr(_thread_local, "allocator", None)
    _thread_local.allocator = allocator
    try:
        yield
    finally:
        _thread_local.allocator = before


def alloc(size):
    pointer = get_allocator()(size)
    assert isinstance(pointer, MemoryPointer)
    return pointer


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        if device_id < 0:
            raise RuntimeError("UnownedMemory requires explicit device ID for a null pointer.")
        self.ptr, self.size, self._owner, self.device_id = int(ptr), int(size), owner, device_id


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id


class Device:
    def __init__(self, device):
        self.id = device

    def __enter__(self):
        self._before = hosts.set_device(self.id)
        return self

    def __exit__(self, *_exception):
        hosts.set_device(self._before)


class Graph:
    """Without a dictionary and weak references, as an extension type."""

    __slots__ = ("graph", "launches")

    def __init__(self, graph):
        self.graph, self.launches = graph, 0

    def launch(self, stream=None):
        assert stream is None or stream.ptr
        self.launches += 1

    def __del__(self):
        hosts.destroy_graph(self.graph)


class _BaseStream:
    def __init__(self, ptr, device_id):
        self.ptr, self.device_id = ptr, device_id

    def __enter__(self):
        stack = _stack()
        stack.append(self)
        return self

    def __exit__(self, *_exception):
        _stack().pop()

    def __cuda_stream__(self):
        return (0, self.ptr)

    def begin_capture(self, mode=None):
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        hosts.begin_capture(self.ptr)

    def end_capture(self):
        return Graph(hosts.end_capture(self.ptr))


class Stream(_BaseStream):
    null = None
    ptds = None
    destroyed = []

    def __init__(self, null=False, non_blocking=False, ptds=False):
        if null or ptds:
            super().__init__(runtime.streamPerThread if ptds else 0, -1)
        else:
            super().__init__(hosts.create(), hosts.current)

    def __del__(self):
        if self.ptr > 2:
            self.destroyed.append(self.ptr)
            hosts.destroy(self.ptr)


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)
stream = types.SimpleNamespace(_BaseStream=_BaseStream, Stream=Stream)


def _stack():
    if not hasattr(_thread_local, "streams"):
        _thread_local.streams = [Stream.null]
    return _thread_local.streams


def get_current_stream(device_id=-1):
    return _stack()[-1]
