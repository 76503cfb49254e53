# SPDX-License-Identifier: LGPL-2.1-or-later
"""
CuPy's device memory from libvpmm, instead of from its own pool:

    import vpmm.cupy
    vpmm.cupy.enable()

An array is freed on the stream that was current when it was made. vpmm-python(7) says what else there is to know.
"""

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Optional, Tuple

from . import _blocks
from ._library import OutOfMemoryError
from ._pool import Calls

__all__ = ["allocator", "disable", "enable", "is_enabled", "retire"]

_lock = threading.RLock()
_cupy: Any = None

# CuPy's allocator before enable().
_before: Optional[Callable[[int], Any]] = None
_enabled = False

# The captures that have begun, by stream, and those of graphs, by the graph's id(): the device and the capture.
_begun: Dict[int, Tuple[int, int]] = {}
_graphs: Dict[int, Tuple[int, int]] = {}


def _stream_of(stream: Any) -> Tuple[int, int]:
    return stream.device_id, stream.ptr


def _load() -> Any:
    """CuPy, not before it is asked for."""
    global _cupy
    with _lock:
        if _cupy is None:
            import cupy

            if cupy.cuda.runtime.is_hip:
                raise RuntimeError(f"CuPy {cupy.__version__} is built for ROCm, and libvpmm has memory of CUDA only")
            _blocks.retire_first(cupy.cuda.Stream, _stream_of)
            _note_captures(cupy.cuda.stream)
            _cupy = cupy
    return _cupy


def _note_captures(module: Any) -> None:
    """Has the library's number of each capture noted, with the graph that comes of it."""
    kind = getattr(module, "_BaseStream", module.Stream)
    begin_before, end_before = kind.begin_capture, kind.end_capture

    @functools.wraps(begin_before)
    def begin_capture(stream: Any, *arguments: Any, **words: Any) -> Any:
        result = begin_before(stream, *arguments, **words)
        # A stream of CuPy's own has its device, which need not be the current one.
        device = getattr(stream, "device_id", -1)
        if device < 0:
            device = _cupy.cuda.runtime.getDevice()
        # Without the number, the graph keeps its memory.
        with contextlib.suppress(OSError, RuntimeError), _blocks.on_device(device):
            _begun[stream.ptr] = (device, Calls(None).capture_id(stream.ptr))
        return result

    @functools.wraps(end_before)
    def end_capture(stream: Any) -> Any:
        begun = _begun.pop(stream.ptr, None)
        try:
            graph = end_before(stream)
        except Exception:
            # There is no graph of it.
            if begun is not None:
                # CuPy's own error is the one to tell.
                with contextlib.suppress(OSError, RuntimeError), _blocks.on_device(begun[0]):
                    Calls(None).retire_graph(begun[1], stream.ptr)
            raise
        if begun is not None:
            _graphs[id(graph)] = begun
        return graph

    kind.begin_capture, kind.end_capture = begin_capture, end_capture


def retire(graph: Any, stream: Any = None) -> None:
    """
    Gives the memory of a graph back that CuPy has captured. The graph is not launched any more, and stream, by default
    the current one, is behind its last launch. Call it before the last reference to the graph goes.
    """
    cupy = _load()
    with _lock:
        if id(graph) not in _graphs:
            raise ValueError(f"{graph!r} is no graph that was captured since vpmm.cupy is in use, or was retired")
        device, capture = _graphs[id(graph)]
        with _blocks.on_device(device):
            Calls(None).retire_graph(capture, cupy.cuda.get_current_stream() if stream is None else stream)
        del _graphs[id(graph)]


def _out_of_memory(cupy: Any, size: int, reason: OutOfMemoryError) -> MemoryError:
    """CuPy's own exception, with the library's reason added to its text."""
    held, limit = 0, 0
    with contextlib.suppress(OSError):
        stats = Calls(None).stats()
        held = stats.mapped + stats.small_mapped
        bound = Calls(None).info().limit
        # CuPy's own word for no limit.
        limit = 0 if bound == "none" else bound
    error: MemoryError = cupy.cuda.memory.OutOfMemoryError(size, held, limit)
    error.args = (f"{error} {reason}",)
    return error


def allocator(nbytes: int) -> Any:
    """Memory of the current device for the current stream: for cupy.cuda.using_allocator() as well."""
    cuda = (_cupy or _load()).cuda
    current = cuda.get_current_stream()
    device = cuda.runtime.getDevice()
    try:
        block = _blocks.Block(nbytes, _blocks.Stream(current.ptr, current))
    except OutOfMemoryError as reason:
        raise _out_of_memory(_cupy, int(nbytes), reason) from reason
    _blocks.serve(device, current.ptr)
    return cuda.MemoryPointer(cuda.UnownedMemory(block.address, block.size, block, device), 0)


def is_enabled() -> bool:
    """Whether CuPy takes this thread's device memory from libvpmm, by enable()."""
    return _enabled and _cupy.cuda.get_allocator() is allocator


def enable() -> None:
    """
    Makes CuPy take its device memory from the default pools of libvpmm from now on. Arrays that exist stay valid. Free
    memory of CuPy's own pool is given back.
    """
    global _before, _enabled
    cupy = _load()
    with _lock:
        if is_enabled():
            return
        before = cupy.cuda.get_allocator()
        cupy.cuda.set_allocator(allocator)
        _before, _enabled = before, True
        cupy.get_default_memory_pool().free_all_blocks()


def disable() -> None:
    """
    Gives CuPy the allocator back that it had before, unless the program has set another since. Arrays in memory of
    libvpmm stay valid.
    """
    global _before, _enabled
    with _lock:
        if _enabled:
            current = _cupy.cuda.get_allocator()
            _cupy.cuda.set_allocator(_before if current is allocator else current)
            _before, _enabled = None, False
