# SPDX-License-Identifier: LGPL-2.1-or-later
"""
libvpmm, a GPU memory pool that undoes fragmentation by remapping free memory.

The functions of this module work on the default pool of the current device, which PyTorch uses after
vpmm.torch.enable(). A Pool is a separate one.
"""

import os
from typing import Any, Union

from ._header import Forecast, Info, SharedStats, Stats, TagStats
from ._library import Allocation, Error, OutOfMemoryError, lib, text
from ._pool import STREAM_ANY, Calls, Pool, lookup
from ._ranges import Page
from ._settings import Size
from ._tags import Tag, Tagged, tag

__all__ = [
    "Allocation", "Calls", "Error", "Forecast", "Info", "OutOfMemoryError", "Page", "Pool", "STREAM_ANY",
    "SharedStats", "Stats", "Tag", "TagStats", "__version__", "default_pool", "dump", "info", "lookup", "pause",
    "reset_peaks", "resume", "stats", "tag", "trace", "trim",
]

# These are shown, pickled and imported by the package's name.
for _public in (Allocation, Calls, Error, Forecast, Info, OutOfMemoryError, Page, Pool, SharedStats, Stats, Tag,
                TagStats, lookup, tag):
    _public.__module__ = __name__

# Of the library in use.
__version__: str = lib.vpmm_version().decode()

_default = Calls(None)


def default_pool() -> Calls:
    """Returns the default pool. Each call on it uses the pool of the device that is current then."""
    return _default


def stats() -> Stats:
    """Returns the statistics of the default pool of the current device."""
    return _default.stats()


def info() -> Info:
    """Returns the current device, and the settings of its default pool."""
    return _default.info()


def dump() -> str:
    """Returns the layout of the default pool of the current device, in the format of vpmm_pool_dump(3)."""
    return _default.dump()


def trim(keep: Size = 0) -> int:
    """Gives free memory of the default pool back to the current device, and returns the bytes given back."""
    return _default.trim(keep)


def pause(which: Tagged = None, *, drop: bool = False) -> None:
    """Gives the memory of a tag, or of all pausable tags, of the default pool back to the device. See vpmm_pause(3)."""
    _default.pause(which, drop=drop)


def resume(which: Tagged = None, stream: Any = STREAM_ANY) -> None:
    """Restores the memory and the contents of paused tags at the same addresses. See vpmm_pause(3)."""
    _default.resume(which, stream)


def reset_peaks() -> None:
    """Sets the peaks in the statistics of the default pool to the present values."""
    _default.reset_peaks()


def trace(name: Union[str, "os.PathLike[str]"]) -> None:
    """
    Records the calls on default pools in a file for vpmm-replay(1). %p in its name is the process id. The function sets
    VPMM_TRACE, which a pool reads when it is created. The first call on a default pool creates it, such as an
    allocation or info(): a later trace() does nothing for that pool. info().trace is the name of the file, or None.
    """
    os.environ["VPMM_TRACE"] = os.fsdecode(text("trace", name))
