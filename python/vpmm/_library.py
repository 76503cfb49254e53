# SPDX-License-Identifier: LGPL-2.1-or-later
"""libvpmm.so.0 by ctypes: its calls, and its errors as exceptions; and what is passed to it."""

import contextlib
import ctypes
import errno
import math
import operator
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_size_t, c_void_p
from typing import Any, Callable, NamedTuple, Union

from ._header import CALLS

SONAME = "libvpmm.so.0"

# The largest size_t, uint64_t and address; and the largest int.
SIZE_MAX = (1 << 64) - 1
INT_MAX = (1 << 31) - 1


class Error(OSError):
    """A call of the library that failed; errno has the number, and the text is that of vpmm_last_error(3)."""

    def __str__(self) -> str:
        return self.strerror or ""


class OutOfMemoryError(Error, MemoryError):
    """Device memory, the limit, the budget, address space or mappings are exhausted."""


class Allocation(NamedTuple):
    """An allocation, as lookup() returns it: the device, the start, and the size as requested."""

    device: int
    base: int
    bytes: int


def answer(question: Callable[[], Any]) -> int:
    """
    The result of a callback that returns True or False. An exception is printed and counts as False. Without this,
    ctypes would return a random number, and the library might call the callback for ever.
    """
    try:
        return int(bool(question()))
    except BaseException:
        # A hook of the program's own may raise as well.
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info())
        return 0


def _name() -> str:
    """The file of the library: the one in the package, if a wheel has brought it, or else a name for the linker."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", SONAME)
    return inside if os.path.exists(inside) else SONAME


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_name())
    except OSError as error:
        raise ImportError(f"{error}; install libvpmm (Debian's package libvpmm0), or name its directory in "
                          "LD_LIBRARY_PATH") from error
    for name, (result, arguments) in CALLS.items():
        call = getattr(library, name, None)
        if call is None:
            raise ImportError(f"{SONAME} has no {name}: it is older than this package")
        call.argtypes = arguments
        call.restype = result
    return library


lib = _load()


def last_error() -> str:
    found: bytes = lib.vpmm_last_error()
    return found.decode(errors="replace")


def check(result: int) -> None:
    """Raises what a call of the library has returned, unless that is 0."""
    if result == 0:
        return
    kind = OutOfMemoryError if result == -errno.ENOMEM else Error
    raise kind(-result, last_error() or os.strerror(-result))


def counted(result: int) -> int:
    """A count that a call of the library has returned. Raises an error."""
    if result < 0:
        check(result)
    return result


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


def block_size(value: Any, name: str = "size") -> int:
    """The size of a block. A size beyond size_t becomes the largest one, which is as much too large."""
    return min(whole(name, value, math.inf), SIZE_MAX)


def address_of(value: Any) -> int:
    return whole("address", value, SIZE_MAX)


def text(name: str, value: Union[str, bytes, "os.PathLike[Any]"]) -> bytes:
    """A string for C, which ends at the first NUL: one inside would cut off the rest."""
    try:
        found = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name}={value!r} is no text") from None
    if b"\0" in found:
        raise ValueError(f"{name}={value!r} has a NUL inside")
    return found


def _handle(value: Any) -> int:
    """Of a number, or of a handle of cuda.bindings, which becomes one."""
    return whole("stream", value if hasattr(value, "__index__") else int(value), SIZE_MAX)


def stream_handle(stream: Any) -> int:
    """The address of a stream: of one of PyTorch, CuPy, Numba, cuda.core, or a number; None is the default stream."""
    if stream is None:
        return 0
    if hasattr(stream, "__index__"):
        return _handle(stream)
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return _handle(handle)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return _handle((protocol() if callable(protocol) else protocol)[1])
    handle = getattr(stream, "handle", None)
    value = getattr(handle, "value", handle)
    if handle is not None and value is None:
        return 0
    # That of a Numba which has its streams from cuda.bindings.
    if value is not None and hasattr(value, "__int__"):
        return _handle(value)
    raise TypeError(f"{stream!r} is no stream: it has neither cuda_stream, nor ptr, nor __cuda_stream__, nor handle")


class _Found(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("base", c_void_p), ("symbol", c_char_p), ("address", c_void_p)]


def directory() -> str:
    """The folder of the library that is in use."""
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
    """Returns the text that a call writes to the FILE which it gets."""
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
