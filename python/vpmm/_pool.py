# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pools, the default ones included."""

import ctypes
import errno
import os
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Iterable, List, Optional, Union

from ._library import (INT_MAX, SIZE_MAX, Allocation, CAllocation, CInfo, COpts, CStats, Error, ExhaustedFn, Info,
                       LogFn, PressureFn, Stats, answer, block_size, check, lib, stream_handle, whole, written_by)

# For Pool.free(), in place of a stream: after all work of the context so far.
STREAM_ANY = c_void_p(-1).value or 0

_ZERO, _IDLE, _SHAREABLE = 1, 2, 4

# Words for the numbers of enumerations, as the environment has them.
_WORDS = {
    "reuse": ("async", "block"),
    "log_level": ("none", "error", "warning", "info", "debug"),
    "small": ("pool", "driver"),
    "scrub": ("none", "stream", "always"),
    "export_as": ("none", "fd", "fabric"),
    "rdma": ("off", "on"),
}
_SIZES = ("page_size", "va_size", "extent_max", "limit", "keep")
_NUMBERS = ("pages", "frag_ratio", "limit_percent", "overhead", "overlap")
_SPECIAL = {("keep", "none"): 1, ("overlap", "auto"): -1, ("overlap", "none"): -2}
_SUFFIXES = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}

Size = Union[int, str]


def _size(name: str, value: Any) -> int:
    """Bytes, or text such as 2M."""
    if isinstance(value, str):
        digits = value.rstrip("kKmMgGtT")
        suffix = value[len(digits):].lower()
        if not digits.isdecimal() or suffix not in _SUFFIXES:
            raise ValueError(f"{name}={value!r} is not a size such as 4096 or '2M'")
        value = int(digits) << _SUFFIXES[suffix]
    return whole(name, value, SIZE_MAX)


def _ordinals(name: str, devices: Iterable[Any]) -> List[int]:
    return [whole(name, device, INT_MAX) for device in devices]


def _address(value: Any) -> int:
    return whole("address", value, SIZE_MAX)


def _peers(value: Any) -> int:
    if value == "all":
        return (1 << 64) - 1
    if isinstance(value, str):
        raise ValueError(f"peers={value!r} is neither 'all' nor a list of devices")
    mask = 0
    for device in _ordinals("peers", value):
        if device >= 64:
            raise ValueError(f"peers: there is no device {device}")
        mask |= 1 << device
    return mask


def _setting(name: str, value: Any) -> Any:
    """The value of a field of struct vpmm_opts."""
    if isinstance(value, str) and (name, value) in _SPECIAL:
        return _SPECIAL[name, value]
    if name == "overlap" and whole(name, value, INT_MAX) == 0:
        return _SPECIAL["overlap", "none"]
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise ValueError(f"{name}={value!r} is none of {', '.join(_WORDS[name])}")
        return _WORDS[name].index(value)
    if name in _SIZES:
        return _size(name, value)
    if name in _NUMBERS:
        return whole(name, value, SIZE_MAX if name == "pages" else INT_MAX)
    if name == "peers":
        return _peers(value)
    if name in ("backend", "trace"):
        return os.fsencode(value)
    raise TypeError(f"a pool has no option {name}")


class Calls:
    """What can be done with a pool, that of a Pool or the default one of the current device."""

    def __init__(self, handle: Optional[int]) -> None:
        self._handle = handle

    def _pool(self) -> Optional[int]:
        return self._handle

    def malloc(self, size: int, stream: Any = None, *, zero: bool = False, idle: bool = False,
               shareable: bool = False) -> int:
        """The address of memory for work on a stream; 0 for a size of 0."""
        address = c_void_p()
        flags = (_ZERO if zero else 0) | (_IDLE if idle else 0) | (_SHAREABLE if shareable else 0)
        check(lib.vpmm_malloc_flags(self._pool(), byref(address), block_size(size), stream_handle(stream),
                                    flags))
        return address.value or 0

    def realloc(self, address: int, size: int, stream: Any = None) -> int:
        """Changes the size of a block, and returns where it is afterwards."""
        block = c_void_p(_address(address))
        check(lib.vpmm_realloc(self._pool(), byref(block), block_size(size), stream_handle(stream)))
        return block.value or 0

    def free(self, address: int, stream: Any = None) -> None:
        """Frees a block in the order of a stream."""
        check(lib.vpmm_free(self._pool(), _address(address), stream_handle(stream)))

    def use(self, address: int, stream: Any) -> None:
        """Names another stream that uses a block, which its free then waits for."""
        check(lib.vpmm_use(self._pool(), _address(address), stream_handle(stream)))

    def retire_stream(self, stream: Any) -> None:
        """Tells that a stream is about to be destroyed."""
        check(lib.vpmm_stream_retire(self._pool(), stream_handle(stream)))

    def capture_id(self, stream: Any) -> int:
        """The id of the capture that a stream is under; 0: it is under none."""
        found = c_uint64()
        check(lib.vpmm_capture_id(self._pool(), stream_handle(stream), byref(found)))
        return found.value

    def group_capture(self, capture: int, group: int) -> None:
        """Has captures share memory."""
        check(lib.vpmm_capture_group(self._pool(), whole("capture", capture, SIZE_MAX),
                                     whole("group", group, SIZE_MAX)))

    def retire_graph(self, capture: int, stream: Any = None) -> None:
        """Tells that the graph of a capture will not be launched any more."""
        check(lib.vpmm_graph_retire(self._pool(), whole("capture", capture, SIZE_MAX), stream_handle(stream)))

    def trim(self, keep: Size = 0) -> int:
        """Gives free memory back, but for so many bytes in all, and returns how much that was."""
        released = c_size_t()
        check(lib.vpmm_pool_trim(self._pool(), _size("keep", keep), byref(released)))
        return released.value

    def stats(self) -> Stats:
        """What the pool holds and has done."""
        found = CStats(size=ctypes.sizeof(CStats))
        check(lib.vpmm_pool_stats(self._pool(), byref(found)))
        return Stats(*(getattr(found, name) for name in Stats._fields))

    def reset_peaks(self) -> None:
        """Lets the peaks of the statistics begin anew."""
        check(lib.vpmm_pool_reset_peaks(self._pool()))

    def info(self) -> Info:
        """The device, and the settings in force."""
        found = CInfo(size=ctypes.sizeof(CInfo))
        check(lib.vpmm_pool_info(self._pool(), byref(found)))
        values = (getattr(found, name) for name in Info._fields)
        return Info(*(os.fsdecode(value) if isinstance(value, bytes) else value for value in values))

    def set_peers(self, devices: Iterable[int]) -> None:
        """Chooses the other devices whose kernels can access the memory."""
        ordinals = _ordinals("device", devices)
        check(lib.vpmm_pool_set_peers(self._pool(), (c_int * len(ordinals))(*ordinals), len(ordinals)))

    def dump(self) -> str:
        """The layout, as vpmm_pool_dump(3) has it."""
        pool = self._pool()
        return written_by(lambda out: lib.vpmm_pool_dump(pool, out))

    def check(self) -> None:
        """Checks every invariant; for tests."""
        check(lib.vpmm_pool_check(self._pool()))


class Pool(Calls):
    """
    A pool on one device. The options are those of vpmm_pool_create(3), by the same names; what is not given is as the
    environment has it. Sizes are numbers of bytes or text such as "2M", peers is "all" or devices, and where the
    environment takes a word, so does the option.

    log is called with a level and a line, pressure with a size before an allocation fails, and is to return whether
    it has given something back; exhausted with the size and a text when it does. What they raise is printed, and goes
    no further; from pressure it means no.
    """

    def __init__(self, *, device: Optional[int] = None, log: Optional[Callable[[int, str], None]] = None,
                 pressure: Optional[Callable[[int], bool]] = None,
                 exhausted: Optional[Callable[[int, str], None]] = None, **options: Any) -> None:
        super().__init__(None)
        for name, function in (("log", log), ("pressure", pressure), ("exhausted", exhausted)):
            if function is not None and not callable(function):
                raise TypeError(f"{name}={function!r} is not a function")
        opts = COpts(size=ctypes.sizeof(COpts))
        check(lib.vpmm_opts_from_env(byref(opts)))
        for name, value in options.items():
            setattr(opts, name, _setting(name, value))
        if device is not None:
            opts.device = ctypes.pointer(c_int(whole("device", device, INT_MAX)))
        # The library keeps their addresses, and this object what is behind them.
        self._callbacks = (
            LogFn(lambda _data, level, message: log and log(level, message.decode(errors="replace"))),
            PressureFn(lambda _data, _pool, size: answer(lambda: pressure and pressure(size))),
            ExhaustedFn(lambda _data, _pool, size, message: exhausted and
                        exhausted(size, message.decode(errors="replace"))),
        )
        if log:
            opts.log = self._callbacks[0]
        if pressure:
            opts.pressure = self._callbacks[1]
        if exhausted:
            opts.exhausted = self._callbacks[2]
        made = c_void_p()
        check(lib.vpmm_pool_create(byref(made), byref(opts)))
        self._handle = made.value

    def _pool(self) -> int:
        if not self._handle:
            raise Error(errno.EBADF, "the pool is closed")
        return self._handle

    def close(self) -> None:
        """Destroys the pool, and frees what is allocated from it."""
        handle, self._handle = self._handle, None
        if handle:
            lib.vpmm_pool_destroy(handle)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Both would destroy it.
        raise TypeError("a pool cannot be copied or pickled")

    def __del__(self) -> None:
        # Where creating it has failed, there is none.
        if getattr(self, "_handle", None):
            self.close()


def lookup(address: int) -> Allocation:
    """The allocation of any pool of the process that an address is in."""
    found = CAllocation(size=ctypes.sizeof(CAllocation))
    check(lib.vpmm_lookup(_address(address), byref(found)))
    return Allocation(found.device, found.base or 0, found.bytes)
