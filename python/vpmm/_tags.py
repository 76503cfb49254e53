# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tags: what allocations are for, and pausing of those that have one."""

import ctypes
import threading
from ctypes import byref, c_uint
from types import TracebackType
from typing import Any, List, Optional, Type, Union

from ._header import PAUSE_DROP, TAG_ALL, TAG_DROP, TAG_PAUSABLE, TAG_STAY, CTagStats, TagStats
from ._library import check, lib, stream_handle
from ._settings import Size, size_of

_ANY_STREAM = ctypes.c_void_p(-1).value or 0


class Tag:
    """
    A tag of vpmm.tag(). As a context manager it is the tag of what this thread allocates in its block; they nest, and
    one object serves any number of threads.
    """

    def __init__(self, name: str, pausable: bool, bits: int) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no tag, and no name of one")
        if "\0" in name:
            raise ValueError(f"name={name!r} has a NUL")
        number = c_uint()
        check(lib.vpmm_tag_open(name.encode(), TAG_PAUSABLE if pausable else 0, byref(number)))
        self.name = name
        self.number = number.value
        self._word = self.number | bits
        self._before = threading.local()

    def __repr__(self) -> str:
        return f"vpmm.tag({self.name!r})"

    def _stack(self) -> List[int]:
        if not hasattr(self._before, "words"):
            self._before.words = []
        words: List[int] = self._before.words
        return words

    def __enter__(self) -> "Tag":
        self._stack().append(lib.vpmm_tag_set(self._word))
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        lib.vpmm_tag_set(self._stack().pop())


def tag(name: str, *, pausable: bool = True, drop: bool = False, stay: bool = False) -> Tag:
    """
    The tag of a name, for "with vpmm.tag(...):". With drop, pausing does not save the contents of what is allocated
    there; with stay, that keeps its memory.
    """
    return Tag(name, pausable, (TAG_DROP if drop else 0) | (TAG_STAY if stay else 0))


# A tag, the name of a pausable one, or None for all that are pausable.
Tagged = Union[Tag, str, None]


def number_of(which: Tagged) -> int:
    """The tag of C."""
    if which is None:
        return TAG_ALL
    return which.number if isinstance(which, Tag) else tag(which).number


class Tags:
    """What can be done with a pool's tags."""

    def _pool(self) -> Optional[int]:
        raise NotImplementedError

    def pause(self, which: Tagged = None, *, drop: bool = False) -> None:
        """Gives the memory of a tag's blocks back, and saves their contents unless they are to be dropped."""
        check(lib.vpmm_pause(self._pool(), number_of(which), PAUSE_DROP if drop else 0))

    def resume(self, which: Tagged = None, stream: Any = _ANY_STREAM) -> None:
        """Gives them memory and contents again, where they were. What is too little changes nothing."""
        check(lib.vpmm_resume(self._pool(), number_of(which), stream_handle(stream)))

    def pause_prepare(self, which: Tagged = None) -> None:
        """Makes the host memory that a pause would need."""
        check(lib.vpmm_pause_prepare(self._pool(), number_of(which)))

    def tag_stats(self, which: Union[Tag, str]) -> TagStats:
        """What the pool has under a tag."""
        found = CTagStats(size=ctypes.sizeof(CTagStats))
        check(lib.vpmm_tag_stats(self._pool(), number_of(which), byref(found)))
        return TagStats(*(getattr(found, name) for name in TagStats._fields))

    def tag_limit(self, which: Union[Tag, str], limit: Size) -> None:
        """Bounds what can be live under a tag; 0: not at all."""
        check(lib.vpmm_tag_limit(self._pool(), number_of(which), size_of("limit", limit)))
