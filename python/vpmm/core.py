# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Memory of libvpmm for cuda.core:

    import vpmm.core
    device.memory_resource = vpmm.core.MemoryResource(device)

vpmm-python(7) says what else there is to know.
"""

import errno
from typing import Any, ClassVar, Dict, Optional

from . import _blocks
from ._library import Error, lib, stream_handle
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


def _open_handle(stream: Any) -> int:
    """The handle to free on; STREAM_ANY if the stream is closed: cuda.core answers that by an exception of its own."""
    try:
        return _handle(stream)
    except Exception:
        return STREAM_ANY


def _order(address: int, home: Optional[_blocks.Stream], named: Optional[int]) -> int:
    """The stream to free on, of the block's own and the one that the close names."""
    if home is None:
        # Where a buffer does not know its stream, the close names the default stream, whatever the work is on.
        return named if named is not None and _takes_stream else STREAM_ANY
    own = home.now()
    if own == STREAM_ANY or _open_handle(home.keep) != own:
        # Another thread's, or closed and destroyed with that.
        return STREAM_ANY
    if named is None or named == own or _takes_stream:
        return own if named is None else named
    # The named stream need not be behind the block's own. Where that cannot be announced, as when its capture was
    # invalidated, the free is behind all work.
    return STREAM_ANY if lib.vpmm_use(None, address, own) else named


class MemoryResource(_Base):  # type: ignore[misc]
    """
    Device memory from the default pool of a device, by default of the current one. A buffer is freed on the stream
    that it is closed on, or else on that of its allocation.
    """

    # The stream of each buffer: some versions of cuda.core close a buffer on the default stream. Of all resources, as
    # a buffer of one can be wrapped anew with another.
    _streams: ClassVar[Dict[int, _blocks.Stream]] = {}

    def __init__(self, device: Any = None) -> None:
        self._device = device if isinstance(device, Device) else Device(device)
        self._ordinal = int(self._device.device_id)

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
        """Frees a block of allocate(), or another block of a pool, which Buffer.from_handle() has wrapped."""
        address = int(ptr)
        home = self._streams.pop(address, None)
        if not address:
            return
        named = None if stream is None else _open_handle(stream)
        try:
            _blocks.release(address, _order(address, home, named), home.keep if home else None)
        except Error as error:
            if error.errno != errno.EINVAL:
                raise
            raise ValueError(f"{address:#x} is no address of a buffer of this resource") from error

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
