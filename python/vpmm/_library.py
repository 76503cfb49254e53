# SPDX-License-Identifier: LGPL-2.1-or-later
"""libvpmm.so.0 by ctypes: its structures, its calls, and its errors as exceptions."""

import ctypes
import errno
import math
import operator
import os
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Callable, Dict, List, NamedTuple, Optional

SONAME = "libvpmm.so.0"

# The largest size_t, uint64_t and address; and the largest int.
SIZE_MAX = (1 << 64) - 1
INT_MAX = (1 << 31) - 1


class Error(OSError):
    """A call of the library that failed; errno has the number, and the text is that of vpmm_last_error(3)."""

    def __str__(self) -> str:
        return self.strerror or ""


class OutOfMemoryError(Error, MemoryError):
    """There is no device memory for a request, or the limit of the pool is reached."""


class Stats(NamedTuple):
    """What a pool holds and what it has done; vpmm_pool_stats(3) explains each."""

    reserved: int
    mapped: int
    live: int
    free: int
    holes: int
    zombies: int
    small_live: int
    small_mapped: int
    peak_live: int
    peak_mapped: int
    mallocs: int
    frees: int
    reuses: int
    steals: int
    defrags: int
    grows: int
    waits: int
    creates: int
    maps: int
    accesses: int
    unmaps: int
    releases: int
    grown: int
    remapped: int
    chunks: int
    regions: int
    extents: int
    streams: int
    driver_ns: int
    peak_small: int
    peak_taken: int
    stuck: int
    spans: int
    mappings: int
    held: int
    given_back: int
    scrubbed: int
    waits_sampled: int
    wait_ns: int
    requested: int
    peak_requested: int
    shareable: int
    imported: int


class Info(NamedTuple):
    """The device of a pool and the settings in force; vpmm_pool_info(3) explains each."""

    backend: str
    device: int
    device_name: str
    driver_version: int
    granularity: int
    memory_total: int
    memory_free: int
    mapping_limit: int
    page_size: int
    va_size: int
    pages: int
    reuse: int
    log_level: int
    extent_max: int
    small: int
    frag_ratio: int
    scrub: int
    overhead: int
    limit: int
    keep: int
    trace: Optional[str]
    overlap: int
    export_as: int
    rdma: int
    peers: int


class Allocation(NamedTuple):
    """The allocation that an address is in."""

    device: int
    base: int
    bytes: int


class CStats(ctypes.Structure):
    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in Stats._fields]


class CInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("backend", c_char * 16),
        ("device", c_int),
        ("device_name", c_char * 128),
        ("driver_version", c_int),
        ("granularity", c_uint64),
        ("memory_total", c_uint64),
        ("memory_free", c_uint64),
        ("mapping_limit", c_uint64),
        ("page_size", c_uint64),
        ("va_size", c_uint64),
        ("pages", c_uint64),
        ("reuse", c_int),
        ("log_level", c_int),
        ("extent_max", c_uint64),
        ("small", c_int),
        ("frag_ratio", c_int),
        ("scrub", c_int),
        ("overhead", c_int),
        ("limit", c_uint64),
        ("keep", c_uint64),
        ("trace", c_char_p),
        ("overlap", c_int),
        ("export_as", c_int),
        ("rdma", c_int),
        ("peers", c_uint64),
    ]


LogFn = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
PressureFn = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
ExhaustedFn = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_char_p)


def answer(question: Callable[[], Any]) -> int:
    """
    For a callback that returns whether something is so. An exception is printed and means no: what ctypes would return
    then is left over from something else, and who takes it for yes may ask for ever.
    """
    try:
        return int(bool(question()))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 0


class COpts(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("backend", c_char_p),
        ("device", POINTER(c_int)),
        ("page_size", c_size_t),
        ("va_size", c_size_t),
        ("pages", c_size_t),
        ("reuse", c_int),
        ("log_level", c_int),
        ("log", LogFn),
        ("log_data", c_void_p),
        ("extent_max", c_size_t),
        ("small", c_int),
        ("frag_ratio", c_int),
        ("limit_percent", c_int),
        ("overhead", c_int),
        ("limit", c_size_t),
        ("keep", c_size_t),
        ("scrub", c_int),
        ("pressure", PressureFn),
        ("exhausted", ExhaustedFn),
        ("pressure_data", c_void_p),
        ("trace", c_char_p),
        ("overlap", c_int),
        ("export_as", c_int),
        ("rdma", c_int),
        ("peers", c_uint64),
    ]


class CAllocation(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("pool", c_void_p), ("device", c_int), ("base", c_void_p), ("bytes", c_uint64)]


# What each call takes. All but those of the last two lines return 0 or a negative errno value.
_CALLS: Dict[str, List[Any]] = {
    "vpmm_pool_create": [POINTER(c_void_p), POINTER(COpts)],
    "vpmm_malloc_flags": [c_void_p, POINTER(c_void_p), c_size_t, c_void_p, c_uint],
    "vpmm_realloc": [c_void_p, POINTER(c_void_p), c_size_t, c_void_p],
    "vpmm_free": [c_void_p, c_void_p, c_void_p],
    "vpmm_use": [c_void_p, c_void_p, c_void_p],
    "vpmm_stream_retire": [c_void_p, c_void_p],
    "vpmm_capture_id": [c_void_p, c_void_p, POINTER(c_uint64)],
    "vpmm_capture_group": [c_void_p, c_uint64, c_uint64],
    "vpmm_graph_retire": [c_void_p, c_uint64, c_void_p],
    "vpmm_pool_trim": [c_void_p, c_size_t, POINTER(c_size_t)],
    "vpmm_pool_stats": [c_void_p, POINTER(CStats)],
    "vpmm_pool_set_peers": [c_void_p, POINTER(c_int), c_size_t],
    "vpmm_pool_reset_peaks": [c_void_p],
    "vpmm_pool_info": [c_void_p, POINTER(CInfo)],
    "vpmm_pool_dump": [c_void_p, c_void_p],
    "vpmm_pool_check": [c_void_p],
    "vpmm_lookup": [c_void_p, POINTER(CAllocation)],
    "vpmm_opts_from_env": [POINTER(COpts)],
    "vpmm_last_error": [],
    "vpmm_version": [],
    "vpmm_pool_destroy": [c_void_p],
}


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(SONAME)
    except OSError as error:
        raise ImportError(f"{error}; install libvpmm (Debian's package libvpmm0), or name its directory in "
                          "LD_LIBRARY_PATH") from error
    for name, arguments in _CALLS.items():
        call = getattr(library, name, None)
        if call is None:
            raise ImportError(f"{SONAME} has no {name}: it is older than this package")
        call.argtypes = arguments
        call.restype = c_int
    library.vpmm_last_error.restype = c_char_p
    library.vpmm_version.restype = c_char_p
    library.vpmm_pool_destroy.restype = None
    return library


lib = _load()


def last_error() -> str:
    text: bytes = lib.vpmm_last_error()
    return text.decode(errors="replace")


def check(result: int) -> None:
    """Raises what a call of the library has returned, unless that is 0."""
    if result == 0:
        return
    kind = OutOfMemoryError if result == -errno.ENOMEM else Error
    raise kind(-result, last_error() or os.strerror(-result))


def whole(name: str, value: Any, most: float) -> int:
    """A whole number from 0, of any type. ctypes would cut off what does not fit, and a call do something else."""
    if type(value) is int and 0 <= value <= most:
        return value
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} is not a whole number")
    if number < 0:
        raise ValueError(f"{name}={number} is less than 0")
    if number > most:
        raise ValueError(f"{name}={number} is more than {most}")
    return number


def block_size(value: Any) -> int:
    """The size of a block. What no size_t holds is as much too large as what the largest holds."""
    return min(whole("size", value, math.inf), SIZE_MAX)


def stream_handle(stream: Any) -> int:
    """The address of a stream: of one of PyTorch, CuPy, Numba, cuda.core, or a number; None is the default stream."""
    if stream is None:
        return 0
    if hasattr(stream, "__index__"):
        return whole("stream", stream, SIZE_MAX)
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    handle = getattr(stream, "handle", None)
    value = getattr(handle, "value", handle)
    if handle is not None and value is None:
        return 0
    # That of a Numba which has its streams from cuda.bindings.
    if value is not None and hasattr(value, "__int__"):
        return whole("stream", int(value), SIZE_MAX)
    raise TypeError(f"{stream!r} is no stream: it has neither cuda_stream, nor ptr, nor __cuda_stream__, nor handle")


class _Found(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("base", c_void_p), ("symbol", c_char_p), ("address", c_void_p)]


def directory() -> str:
    """Where the library that is in use lies."""
    found = _Found()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [c_void_p, POINTER(_Found)]
    if not dladdr(ctypes.cast(lib.vpmm_version, c_void_p), byref(found)) or not found.name:
        return ""
    return os.path.dirname(os.path.abspath(os.fsdecode(found.name)))


class _Libc:
    """A FILE in memory, for calls that write to one."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self.open_memstream = libc.open_memstream
        self.open_memstream.argtypes = [POINTER(c_void_p), POINTER(c_size_t)]
        self.open_memstream.restype = c_void_p
        self.fclose = libc.fclose
        self.fclose.argtypes = [c_void_p]
        self.free = libc.free
        self.free.argtypes = [c_void_p]
        self.free.restype = None


_libc = _Libc()


def written_by(call: Any) -> str:
    """What a call writes to the FILE that it is given the address of."""
    text, size = c_void_p(), c_size_t()
    out = _libc.open_memstream(byref(text), byref(size))
    if not out:
        raise MemoryError("open_memstream")
    try:
        result = call(out)
    finally:
        _libc.fclose(out)
        written = ctypes.string_at(text, size.value).decode(errors="replace") if text else ""
        _libc.free(text)
    check(result)
    return written
