# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tags: what allocations are for, and pausing of those that have one."""

import ctypes
import threading
from ctypes import byref, c_uint
from types import TracebackType
from typing import Any, List, Optional, Tuple, Type, Union

from ._header import PAUSE_DROP, TAG_ALL, TAG_DROP, TAG_PAUSABLE, TAG_STAY, CTagStats, TagStats
from ._library import check, lib, stream_handle
from ._settings import Size, size_of

_ANY_STREAM = ctypes.c_void_p(-1).value or 0


# Of each thread: whose blocks it is in, outermost first, and which word was in force before each.
_entered = threading.local()


class Word:
    """
    As a context manager, the word of vpmm_tag_set() for what this thread allocates in its block. Blocks nest, and one
    object serves any number of threads.
    """

    def __init__(self, word: int, name: str) -> None:
        self._word = word
        self._name = name

    def __repr__(self) -> str:
        return self._name

    @staticmethod
    def _stack() -> List[Tuple["Word", int]]:
        stack: List[Tuple["Word", int]] = _entered.__dict__.setdefault("stack", [])
        return stack

    def __enter__(self) -> "Word":
        self._stack().append((self, lib.vpmm_tag_set(self._word)))
        return self

    def _leave(self) -> Optional[str]:
        """Ends the block. What is wrong with that, in words."""
        stack = self._stack()
        at = len(stack) - 1
        while at >= 0 and stack[at][0] is not self:
            at -= 1
        if at < 0:
            return f"the block of {self!r} ends on a thread that is not in it"
        before = stack.pop(at)[1]
        if at == len(stack):
            lib.vpmm_tag_set(before)
            return None
        # The one that was entered next ends this one's as well.
        inner = stack[at][0]
        stack[at] = (inner, before)
        return (f"the block of {self!r} ends inside that of {inner!r}: blocks of a thread have to nest, so there is no "
                "await in them that lets others enter theirs")

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        wrong = self._leave()
        if wrong is not None and error is None:
            raise RuntimeError(wrong)


class Tag(Word):
    """A tag of vpmm.tag(). As a context manager, it is the tag of the thread's allocations in the block."""

    def __init__(self, name: str, pausable: bool, bits: int) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no tag, and no name of one")
        if "\0" in name:
            raise ValueError(f"name={name!r} has a NUL")
        number = c_uint()
        check(lib.vpmm_tag_open(name.encode(), TAG_PAUSABLE if pausable else 0, byref(number)))
        super().__init__(number.value | bits, f"vpmm.tag({name!r})")
        self.name = name
        self.number = number.value
        self._made_of = name, pausable, bits

    def __enter__(self) -> "Tag":
        super().__enter__()
        return self

    def __reduce__(self) -> Any:
        # The number is this process's alone.
        return Tag, self._made_of


def tag(name: str, *, pausable: bool = True, drop: bool = False, stay: bool = False) -> Tag:
    """
    Returns the tag of a name, for "with vpmm.tag(...):". With drop, pausing does not save the contents of blocks that
    are allocated there. With stay, these blocks keep their memory.
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
    """The calls on the tags of a pool."""

    def _pool(self) -> Optional[int]:
        raise NotImplementedError

    def pause(self, which: Tagged = None, *, drop: bool = False) -> None:
        """Gives the memory of a tag, or of all pausable tags, back to the device. With drop it saves no contents."""
        check(lib.vpmm_pause(self._pool(), number_of(which), PAUSE_DROP if drop else 0))

    def resume(self, which: Tagged = None, stream: Any = _ANY_STREAM) -> None:
        """Restores memory and contents at the same addresses. If there is too little memory, nothing changes."""
        check(lib.vpmm_resume(self._pool(), number_of(which), stream_handle(stream)))

    def pause_prepare(self, which: Tagged = None) -> None:
        """Creates the host memory that a pause would need."""
        check(lib.vpmm_pause_prepare(self._pool(), number_of(which)))

    def tag_stats(self, which: Union[Tag, str]) -> TagStats:
        """Returns the statistics of a tag in the pool."""
        found = CTagStats(size=ctypes.sizeof(CTagStats))
        check(lib.vpmm_tag_stats(self._pool(), number_of(which), byref(found)))
        return TagStats(*(getattr(found, name) for name in TagStats._fields))

    def tag_limit(self, which: Union[Tag, str], limit: Size) -> None:
        """Limits the live bytes of a tag; 0 removes the limit."""
        check(lib.vpmm_tag_limit(self._pool(), number_of(which), size_of("limit", limit)))
