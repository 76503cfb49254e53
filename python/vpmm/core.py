# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Memory of libvpmm for cuda.core:

    import vpmm.core
    device.memory_resource = vpmm.core.MemoryResource(device)

vpmm-python(7) says what else there is to know.
"""

from typing import Any, Dict

from . import _blocks
from ._library import lib, stream_handle
from ._pool import STREAM_ANY

try:
    from cuda.core import Buffer, Device
    from cuda.core import MemoryResource as _Base
except ImportError:
    from cuda.core.experimental import Buffer, Device
    from cuda.core.experimental import MemoryResource as _Base

__all__ = ["MemoryResource"]

# Before Buffer.from_handle() there was the class itself.
_make: Any = getattr(Buffer, "from_handle", Buffer)

# Whether it lets a buffer know its stream; found out at the first buffer.
_takes_stream = hasattr(Buffer, "from_handle")


def _handle(stream: Any) -> int:
    """Of a stream, or of the stream that a GraphBuilder captures."""
    return stream_handle(getattr(stream, "stream", stream))


class MemoryResource(_Base):  # type: ignore[misc]
    """
    Device memory from the default pool of a device, by default of the current one. A buffer is freed on the stream
    that it is closed on, or else on that of its allocation.
    """

    def __init__(self, device: Any = None) -> None:
        self._device = device if isinstance(device, Device) else Device(device)
        self._ordinal = int(self._device.device_id)
        # The stream of each buffer: some versions of cuda.core close a buffer on the default stream.
        self._streams: Dict[int, _blocks.Stream] = {}

    def allocate(self, size: int, stream: Any = None) -> Any:
        """A buffer for work on a stream; None is the default stream."""
        if stream is None:
            stream = self._device.default_stream
        home = _blocks.Stream(_handle(stream), stream)
        with _blocks.on_device(self._ordinal):
            address = _blocks.allocate(size, home.handle)
        if address:
            self._streams[address] = home
            _blocks.meet(self._ordinal)
        try:
            return self._buffer(address, size, stream)
        except BaseException:
            if address in self._streams:
                self.deallocate(address, size)
            raise

    def _buffer(self, address: int, size: int, stream: Any) -> Any:
        global _takes_stream
        if _takes_stream:
            try:
                return _make(address, size, self, stream=stream)
            except TypeError:
                _takes_stream = False
        return _make(address, size, self)

    def deallocate(self, ptr: Any, size: int, stream: Any = None) -> None:
        """Frees a block of allocate()."""
        address = int(ptr)
        home = self._streams.pop(address, None)
        if not address:
            return
        if home is None:
            raise ValueError(f"{address:#x} is no address of a buffer of this resource")
        handle = home.now()
        if handle != STREAM_ANY and _handle(home.keep) != home.handle:
            # Closed, and destroyed with that.
            handle = STREAM_ANY
        if stream is not None and _handle(stream) != handle and handle != STREAM_ANY:
            # The buffer does not know where its work is, and the other stream need not be behind that. Where the stream
            # of the work cannot be named, as when its capture was invalidated, the free is behind all work.
            known = _takes_stream or not lib.vpmm_use(None, address, handle)
            handle = _handle(stream) if known else STREAM_ANY
        _blocks.release(address, handle, home.keep)

    @property
    def device_id(self) -> int:
        return self._ordinal

    @property
    def is_device_accessible(self) -> bool:
        return True

    @property
    def is_host_accessible(self) -> bool:
        return False

    @property
    def is_managed(self) -> bool:
        return False
