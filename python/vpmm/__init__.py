# SPDX-License-Identifier: LGPL-2.1-or-later
"""
libvpmm, a GPU memory pool that undoes fragmentation by remapping free memory.

The functions of this module are those of the default pool of the current device, which PyTorch has after
vpmm.torch.enable(). A Pool is one of its own.
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

# By which names they are shown, pickled and imported.
for _public in (Allocation, Calls, Error, Forecast, Info, OutOfMemoryError, Page, Pool, SharedStats, Stats, Tag,
                TagStats, lookup, tag):
    _public.__module__ = __name__

# Of the library in use.
__version__: str = lib.vpmm_version().decode()

_default = Calls(None)


def default_pool() -> Calls:
    """The default pool of the current device, whichever that is when it is used. It is created at the first use."""
    return _default


def stats() -> Stats:
    """What the default pool of the current device holds and has done."""
    return _default.stats()


def info() -> Info:
    """The current device, and the settings of its default pool."""
    return _default.info()


def dump() -> str:
    """The layout of the default pool of the current device, as vpmm_pool_dump(3) has it."""
    return _default.dump()


def trim(keep: Size = 0) -> int:
    """Gives free memory of the default pool of the current device back, and returns how much that was."""
    return _default.trim(keep)


def pause(which: Tagged = None, *, drop: bool = False) -> None:
    """Gives the memory of a tag's blocks in the default pool back; of all pausable tags without one. vpmm_pause(3)."""
    _default.pause(which, drop=drop)


def resume(which: Tagged = None, stream: Any = STREAM_ANY) -> None:
    """Gives them memory and contents again, at the same addresses. vpmm_pause(3)."""
    _default.resume(which, stream)


def reset_peaks() -> None:
    """Lets the peaks in the statistics of the default pool of the current device begin anew."""
    _default.reset_peaks()


def trace(name: Union[str, "os.PathLike[str]"]) -> None:
    """
    Has the calls on default pools recorded in a file, which vpmm-replay(1) reads; %p in its name is the process id.
    It is VPMM_TRACE, so it is for pools that do not exist yet: call it before the first allocation. info().trace tells
    the file that is written.
    """
    os.environ["VPMM_TRACE"] = os.fsdecode(text("trace", name))
