# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Warp's device memory from libvpmm, instead of from the driver's pools:

    import vpmm.warp
    vpmm.warp.enable()

An array is freed on the stream that was current when it was made. vpmm-python(7) says what else there is to know.
"""

from typing import Any, Dict, Tuple

import warp

from . import _blocks
from ._library import OutOfMemoryError as _OutOfMemoryError
from ._library import stream_handle

__all__ = ["Allocator", "OutOfMemoryError", "disable", "enable"]


class OutOfMemoryError(RuntimeError, MemoryError):
    """A RuntimeError, as Warp's own allocators raise it, and a MemoryError."""


def _stream_of(stream: Any) -> Tuple[int, int]:
    return stream.device.ordinal, stream_handle(stream)


class Allocator:
    """
    Memory of the default pool of the device that is current, which Warp sees to. One serves all devices and threads.
    """

    def __init__(self) -> None:
        self._blocks: Dict[int, _blocks.Block] = {}
        _blocks.retire_first(warp.Stream, _stream_of)

    def allocate(self, size_in_bytes: int) -> int:
        device = warp.get_cuda_device()
        stream = device.stream
        handle = stream_handle(stream)
        try:
            block = _blocks.Block(size_in_bytes, _blocks.Stream(handle, stream))
        except _OutOfMemoryError as reason:
            raise OutOfMemoryError(f"Failed to allocate {size_in_bytes} bytes on device '{device}': {reason}"
                                   ) from reason
        if block.address:
            _blocks.serve(device.ordinal, handle)
            self._blocks[block.address] = block
        return block.address

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        if not ptr:
            return
        block = self._blocks.pop(ptr, None)
        if block is None:
            raise ValueError(f"{ptr:#x} is no address that this allocator has given ({size_in_bytes} bytes)")
        block.free()


def enable(device: Any = None) -> None:
    """Makes Warp take the memory of a device, by default of all CUDA devices, from the default pools of libvpmm."""
    _set(device, Allocator())


def disable(device: Any = None) -> None:
    """Gives Warp its own allocators back. Arrays in memory of libvpmm stay valid."""
    _set(device, None)


def _set(device: Any, allocator: Any) -> None:
    if not hasattr(warp, "set_cuda_allocator"):
        raise RuntimeError(f"Warp {warp.__version__} has no allocators of others: that takes 1.13 or later")
    if device is None:
        warp.set_cuda_allocator(allocator)
    else:
        warp.set_device_allocator(device, allocator)
