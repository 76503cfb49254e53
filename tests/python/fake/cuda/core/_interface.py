# SPDX-License-Identifier: LGPL-2.1-or-later
import os
import warnings

import hosts

VERSION = os.environ.get("FAKE_CUDA_CORE", "1.2")


class _Handle:
    """A stream of the driver, destroyed with the last reference to it."""

    def __init__(self, value):
        self.value = value

    def __del__(self):
        if self.value > 2:
            hosts.destroy(self.value)


class Stream:
    """A buffer of 1.2 has the handle of its stream, whose object can be closed meanwhile."""

    def __init__(self, handle):
        self._handle = handle if isinstance(handle, _Handle) else _Handle(handle)

    @property
    def is_closed(self):
        return self._handle is None

    def __cuda_stream__(self):
        if self.is_closed and VERSION == "1.2":
            raise RuntimeError("Stream has been closed")
        return (0, 0 if self.is_closed else self._handle.value)

    def close(self):
        self._handle = None


LEGACY_DEFAULT_STREAM = Stream(1)


class GraphBuilder:
    def __init__(self, stream):
        self._stream = stream

    @property
    def stream(self):
        if self._stream is None:
            raise RuntimeError("GraphBuilder has been closed")
        return self._stream

    def close(self):
        self._stream = None


def _accept(stream):
    if isinstance(stream, GraphBuilder):
        return stream.stream
    if isinstance(stream, Stream):
        if stream.is_closed and VERSION == "1.2":
            raise RuntimeError("Stream has been closed")
        return stream
    raise TypeError(f"Stream or GraphBuilder expected, got {type(stream).__name__}")


class MemoryResource:
    @property
    def is_managed(self):
        return False


class _Closing:
    def close(self, stream=None):
        if self.handle and self.memory_resource is not None:
            address, self.handle = self.handle, 0
            self._deallocate(address, stream)
            self.memory_resource = None

    def __del__(self):
        try:
            self.close()
        except Exception as error:
            warnings.warn(str(error))

    def fill(self, value, *, stream):
        _accept(stream)
        hosts.fill(self.handle, value, self.size)

    def copy_to(self, dst=None, *, stream):
        if dst is None:
            dst = self.memory_resource.allocate(self.size, stream=_accept(stream))
        hosts.copy(dst.handle, self.handle, self.size)
        return dst


if VERSION == "0.1":
    class Buffer(_Closing):
        def __init__(self, ptr, size, mr=None):
            self.handle, self.size, self.memory_resource = ptr, size, mr

        def _deallocate(self, address, stream):
            self.memory_resource.deallocate(address, self.size, stream or LEGACY_DEFAULT_STREAM)
else:
    class Buffer(_Closing):
        def __init__(self, *_arguments, **_words):
            raise RuntimeError("Buffer objects cannot be instantiated directly. Please use MemoryResource APIs.")

        @classmethod
        def _init(cls, ptr, size, mr, stream):
            if int(size) == 13:
                raise RuntimeError("no buffer")
            self = cls.__new__(cls)
            self.handle, self.size, self.memory_resource = int(ptr), int(size), mr
            self._stream = Stream(stream._handle)
            return self

        def _deallocate(self, address, stream):
            self.memory_resource.deallocate(address, self.size, stream=_accept(stream or self._stream))

        if VERSION == "1.0":
            @staticmethod
            def from_handle(ptr, size, mr=None, owner=None):
                return Buffer._init(ptr, size, mr, LEGACY_DEFAULT_STREAM)
        else:
            @staticmethod
            def from_handle(ptr, size, mr=None, owner=None, *, stream=None):
                return Buffer._init(ptr, size, mr, LEGACY_DEFAULT_STREAM if stream is None else _accept(stream))


class Device:
    """One object for a device."""

    _all = {}

    def __new__(cls, device_id=None):
        ordinal = hosts.current if device_id is None else device_id
        if ordinal not in cls._all:
            cls._all[ordinal] = super().__new__(cls)
            cls._all[ordinal].device_id = ordinal
        return cls._all[ordinal]

    default_stream = LEGACY_DEFAULT_STREAM

    def set_current(self):
        hosts.set_device(self.device_id)

    @property
    def memory_resource(self):
        return self._memory_resource

    @memory_resource.setter
    def memory_resource(self, mr):
        if not isinstance(mr, MemoryResource):
            raise TypeError(mr)
        self._memory_resource = mr

    def allocate(self, size, *, stream):
        return self.memory_resource.allocate(size, stream=stream)

    def create_stream(self):
        before = hosts.set_device(self.device_id)
        try:
            return Stream(hosts.create())
        finally:
            hosts.set_device(before)
