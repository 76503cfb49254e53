# SPDX-License-Identifier: LGPL-2.1-or-later
"""As much of Warp as vpmm.warp and its example touch, by the same names: what calls what is as in Warp 1.16."""

import contextlib
import os

import hosts

__version__ = "1.16.0+fake"
uint8 = "uint8"


class Stream:
    destroyed = []

    def __init__(self, device=None, **kwargs):
        self.device = get_device(device)
        self.owner = "cuda_stream" not in kwargs
        with self.device.context_guard:
            self.cuda_stream = hosts.create() if self.owner else kwargs["cuda_stream"]

    def __del__(self):
        if self.cuda_stream and self.owner:
            self.destroyed.append(self.cuda_stream)
            hosts.destroy(self.cuda_stream)

    def __cuda_stream__(self):
        return (0, int(self.cuda_stream) if self.cuda_stream else 0)


class Device:
    def __init__(self, ordinal):
        self.ordinal = ordinal
        self.is_cuda = True
        self._custom_allocator = None
        self.stream = None

    def __str__(self):
        return f"cuda:{self.ordinal}"

    @property
    @contextlib.contextmanager
    def context_guard(self):
        before = hosts.set_device(self.ordinal)
        try:
            yield
        finally:
            hosts.set_device(before)

    def get_allocator(self):
        return self._custom_allocator or _Own()


class _Own:
    def allocate(self, size_in_bytes):
        raise AssertionError(f"{size_in_bytes} bytes from Warp's own allocator")

    def deallocate(self, ptr, size_in_bytes):
        raise AssertionError(f"{size_in_bytes} bytes to Warp's own allocator")


_devices = [Device(i) for i in range(int(os.environ.get("VPMM_HOST_DEVICES", "1")))]


def get_device(ident=None):
    if isinstance(ident, Device):
        return ident
    return _devices[int(ident.split(":")[1]) if ident else 0]


for _device in _devices:
    # The default stream has no handle.
    _device.stream = Stream(_device, cuda_stream=None)


def get_cuda_device(ordinal=None):
    return _devices[hosts.current if ordinal is None else ordinal]


def set_device_allocator(device, allocator):
    if allocator is not None and not (callable(allocator.allocate) and callable(allocator.deallocate)):
        raise TypeError(allocator)
    get_device(device)._custom_allocator = allocator


def set_cuda_allocator(allocator):
    for device in _devices:
        set_device_allocator(device, allocator)


@contextlib.contextmanager
def ScopedStream(stream):
    before, stream.device.stream = stream.device.stream, stream
    try:
        yield stream
    finally:
        stream.device.stream = before


class array:
    """Bytes."""

    def __init__(self, size, device=None):
        self.device, self.capacity, self.ptr = get_device(device), size, None
        allocator = self.device.get_allocator()
        self.deleter = allocator.deallocate
        if size:
            with self.device.context_guard:
                self.ptr = allocator.allocate(size)

    def fill_(self, value):
        hosts.fill(self.ptr, value, self.capacity)

    def numpy(self):
        return hosts.read(self.ptr, self.capacity)

    def __del__(self):
        if self.ptr is not None:
            with self.device.context_guard:
                self.deleter(self.ptr, self.capacity)


def empty(shape, dtype=uint8, device=None):
    assert dtype == uint8
    return array(shape, device)


def zeros(shape, dtype=uint8, device=None):
    made = empty(shape, dtype, device)
    made.fill_(0)
    return made
