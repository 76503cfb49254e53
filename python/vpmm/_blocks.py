# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Blocks of the default pools for the modules of the frameworks. Each block keeps its stream. No framework expects a free
to fail, so a free that fails is repeated later.
"""

import collections
import contextlib
import ctypes
import errno
import gc
import operator
import os
import sys
import threading
from ctypes import byref, c_int, c_void_p
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Set, Tuple

from ._library import SIZE_MAX, OutOfMemoryError, check, lib
from ._pool import STREAM_ANY, Calls

# The handle that stands for a stream of whichever thread makes the call.
_PER_THREAD = 2

# Frees that could not be done: during a capture that was invalidated, or for want of memory for an event.
_kept: Deque[Tuple[int, int, Any]] = collections.deque()

_threads = threading.local()


def _this_thread() -> object:
    """The number of a thread is another one's when it has ended, an object that is referred to is not."""
    try:
        return _threads.token
    except AttributeError:
        _threads.token = token = object()
        return token


class Stream:
    """A stream to free on, with the object that keeps it from being destroyed."""

    __slots__ = ("handle", "keep", "thread")

    def __init__(self, handle: int, keep: Any = None) -> None:
        self.handle = handle
        self.keep = keep
        self.thread = _this_thread() if handle == _PER_THREAD else None

    def now(self) -> int:
        """The handle to free on: another thread's own stream has none, and one that is destroyed has none any more."""
        if self.thread is not None and self.thread is not _this_thread():
            return STREAM_ANY
        return STREAM_ANY if getattr(self.keep, "vpmm_destroyed", False) else self.handle


def release(address: int, handle: int, keep: Any = None) -> None:
    """Frees a block, as soon as that can be done; keep is held until then."""
    result = lib.vpmm_free(None, address, handle)
    if result == -errno.EINVAL and handle != STREAM_ANY:
        # A stream that is not the framework's own may be gone by now.
        result = lib.vpmm_free(None, address, STREAM_ANY)
    if result in (-errno.EBUSY, -errno.ENOMEM):
        _kept.append((address, STREAM_ANY if handle == _PER_THREAD else handle, keep))
        return
    check(result)


def retry() -> None:
    """Frees what is kept, as far as that can be done now."""
    for _ in range(len(_kept)):
        try:
            address, handle, keep = _kept.popleft()
        except IndexError:
            # Another thread has it.
            return
        with contextlib.suppress(OSError):
            release(address, handle, keep)


def allocate(size: Any, handle: int, flags: int = 0) -> int:
    """The address of a block; 0 for a size of 0. If memory runs out, garbage is collected first."""
    number = operator.index(size)
    if number < 0:
        raise ValueError(f"{number} bytes")
    # As much too large as what no size_t holds.
    number = min(number, SIZE_MAX)
    if _kept:
        retry()
    try:
        return _allocate(number, handle, flags)
    except OutOfMemoryError:
        # Outside of this clause, so that what the exception refers to can be garbage too.
        pass
    gc.collect()
    retry()
    return _allocate(number, handle, flags)


def _allocate(size: int, handle: int, flags: int) -> int:
    address = c_void_p()
    check(lib.vpmm_malloc_flags(None, byref(address), size, handle, flags))
    return address.value or 0


class Block:
    """Memory that is freed with the last reference to it, on the stream that it was allocated on."""

    __slots__ = ("__weakref__", "address", "size", "stream")

    def __init__(self, size: int, stream: Stream) -> None:
        self.address = 0
        self.size = size
        self.stream = stream
        self.address = allocate(size, stream.handle)

    def free(self) -> None:
        address, self.address = self.address, 0
        if address:
            release(address, self.stream.now(), self.stream.keep)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Both would free it.
        raise TypeError("a block cannot be copied or pickled")

    def __del__(self, suppress: Any = contextlib.suppress(Exception)) -> None:
        # Where this fails, the context is gone, and the memory with it; VPMM_LOG has told.
        with suppress:
            self.free()


class _Driver:
    """What it takes to make a device current, of the driver that the framework has loaded."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
        self.get_device: Callable[..., int] = library.cuCtxGetDevice
        self.device_get: Callable[..., int] = library.cuDeviceGet
        self.retain: Callable[..., int] = library.cuDevicePrimaryCtxRetain
        self.push: Callable[..., int] = library.cuCtxPushCurrent_v2
        self.pop: Callable[..., int] = library.cuCtxPopCurrent_v2
        # Retained for good, as the CUDA runtime does.
        self.primaries: Dict[int, c_void_p] = {}
        # It may have been loaded, and no more. Where this fails, so does what comes next.
        library.cuInit(0)

    def current(self) -> Optional[int]:
        found = c_int()
        return None if self.get_device(byref(found)) else found.value

    def primary(self, device: int) -> c_void_p:
        context = self.primaries.get(device)
        if context is None:
            number, context = c_int(), c_void_p()
            result = self.device_get(byref(number), device) or self.retain(byref(context), number)
            if result:
                raise RuntimeError(f"device {device} cannot be made current: error {result} of the driver")
            self.primaries[device] = context
        return context


_driver: Optional[_Driver] = None


def _find_driver() -> Optional[_Driver]:
    """None on the host backend."""
    global _driver
    if _driver is None and os.environ.get("VPMM_BACKEND") != "host":
        try:
            _driver = _Driver()
        except OSError:
            return None
    return _driver


@contextlib.contextmanager
def on_device(device: int) -> Iterator[None]:
    """With a device as the current one, whose default pool is then the default pool."""
    driver = _find_driver()
    if driver is None:
        before = Calls(None).info().device
        check(lib.vpmm_host_set_device(device))
        try:
            yield
        finally:
            lib.vpmm_host_set_device(before)
        return
    if driver.current() == device:
        yield
        return
    if driver.push(driver.primary(device)):
        raise RuntimeError(f"the primary context of device {device} cannot be made current")
    try:
        yield
    finally:
        driver.pop(byref(c_void_p()))


# Devices whose memory frameworks have used.
_met: List[int] = []
_meeting = threading.Lock()


def _let_in(device: int, peer: int) -> None:
    """Lets kernels and copies of a device at another's memory, if it can."""
    with contextlib.suppress(OSError, RuntimeError), on_device(device):
        pool = Calls(None)
        peers = pool.info().peers
        if peer not in peers:
            pool.set_peers([peer, *peers])


def meet(device: int) -> None:
    """
    Notes that a device is in use, and gives it and the others peer access to each other's pools. Frameworks call
    cudaDeviceEnablePeerAccess() for that, which has no effect on memory of a pool.
    """
    if device in _met:
        return
    with _meeting:
        if device in _met:
            return
        for other in _met:
            _let_in(device, other)
            _let_in(other, device)
        _met.append(device)


def part(device: int) -> None:
    """Notes that a device may be reset, after which its pool is another one."""
    with contextlib.suppress(ValueError):
        _met.remove(device)


# Streams, by device and handle, on which blocks were allocated.
_served: Set[Tuple[int, int]] = set()


def serve(device: int, handle: int) -> None:
    """Notes that a pool knows a stream, which is to be retired then, and that the device is in use."""
    _served.add((device, handle))
    meet(device)


def _retire(device: int, handle: int) -> None:
    if (device, handle) not in _served or sys.is_finalizing():
        return
    _served.discard((device, handle))
    with on_device(device):
        Calls(None).retire_stream(handle)


def retire_first(kind: Any, of: Callable[[Any], Tuple[int, int]]) -> None:
    """
    Has streams of a class retired before their finaliser destroys them, after which it would be too late. Without
    that, little is lost: vpmm_stream_retire(3) has the bounds.
    """
    before: Any = getattr(kind, "__del__", None)
    if before is None or hasattr(before, "retires"):
        return

    # At the interpreter's end names of this module may be gone, and the stream is there to be destroyed.
    def finish(stream: Any, suppress: Any = contextlib.suppress(Exception)) -> None:
        with suppress:
            # For a block in the same garbage, which may be freed later.
            stream.vpmm_destroyed = True
            _retire(*of(stream))
        before(stream)

    finish.retires = True  # type: ignore[attr-defined]
    with contextlib.suppress(AttributeError, TypeError):
        kind.__del__ = finish
