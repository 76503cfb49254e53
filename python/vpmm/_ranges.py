# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shared ranges, of a pool or of the default one: vpmm-shared(7)."""

import ctypes
from ctypes import byref, c_void_p
from typing import Any, FrozenSet, List, NamedTuple, Optional, SupportsIndex, Tuple, get_args

from . import _header
from ._header import SHARED_FINE, Advice, CPage, CSharedStats, Location, SharedStats
from ._library import SIZE_MAX, address_of, block_size, check, counted, lib, stream_handle, whole

_FLAGS = {name[len("PAGE_"):].lower(): bit for name, bit in vars(_header).items() if name.startswith("PAGE_")}


class Page(NamedTuple):
    """
    A page of a shared range; vpmm_locate(3) explains each field. Flags can be empty, prefer_host, prefer_device,
    moving, read_mostly, duplicate and pinned.
    """

    address: int
    size: int
    location: Location
    flags: FrozenSet[str]
    sequence: int


def _number(name: str, word: Any, words: Tuple[str, ...]) -> int:
    if word not in words:
        raise ValueError(f"{name}={word!r} is none of {', '.join(words)}")
    return words.index(word)


def _page(page: CPage) -> Page:
    flags = frozenset(name for name, bit in _FLAGS.items() if page.flags & bit)
    return Page(page.addr or 0, page.size, get_args(Location)[page.location], flags, page.sequence)


class Ranges:
    """
    The calls on shared ranges: addresses that the CPU and the device both use. No object owns a range: it exists until
    shared_free(), or until the pool is destroyed.
    """

    def _pool(self) -> Optional[int]:
        raise NotImplementedError

    def shared_alloc(self, size: SupportsIndex, *, fine: bool = False) -> int:
        """Allocates a range, and returns its address. With fine its pages have the smallest size."""
        address = c_void_p()
        check(lib.vpmm_shared_alloc(self._pool(), byref(address), block_size(size), SHARED_FINE if fine else 0))
        return address.value or 0

    def shared_free(self, address: SupportsIndex, stream: Any = None) -> None:
        """Frees a range after the work of the streams that use it. No thread may touch it any more."""
        check(lib.vpmm_shared_free(self._pool(), address_of(address), stream_handle(stream)))

    def migrate(self, address: SupportsIndex, size: SupportsIndex, to: Location, stream: Any = None) -> int:
        """Moves pages to "device" or "host", in the order of a stream, and returns the number that have moved."""
        return counted(lib.vpmm_migrate(self._pool(), *_part(address, size), _number("to", to, get_args(Location)),
                                        stream_handle(stream), None, None))

    def fault(self, address: SupportsIndex, size: SupportsIndex, to: Location) -> int:
        """Moves all pages, empty ones too, to "device" or "host". Returns how many have moved or got memory."""
        return counted(lib.vpmm_fault(self._pool(), *_part(address, size), _number("to", to, get_args(Location)), 0))

    def locate(self, address: SupportsIndex, size: SupportsIndex) -> List[Page]:
        """Returns the location and the flags of each page."""
        part = _part(address, size)
        pages = (CPage * counted(lib.vpmm_locate(self._pool(), *part, None)))()
        counted(lib.vpmm_locate(self._pool(), *part, pages))
        return [_page(page) for page in pages]

    def advise(self, address: SupportsIndex, size: SupportsIndex, advice: Advice) -> None:
        """Sets how pages will be used: "none", "prefer_host", "prefer_device" or "read_mostly"."""
        check(lib.vpmm_advise(self._pool(), *_part(address, size), _number("advice", advice, get_args(Advice))))

    def pin(self, address: SupportsIndex, size: SupportsIndex) -> None:
        """Keeps pages on the host, until unpin() has been called as often."""
        check(lib.vpmm_pin(self._pool(), *_part(address, size)))

    def unpin(self, address: SupportsIndex, size: SupportsIndex) -> None:
        """Undoes one pin()."""
        check(lib.vpmm_unpin(self._pool(), *_part(address, size)))

    def shared_stats(self) -> SharedStats:
        """Returns the statistics of the shared ranges of the pool."""
        found = CSharedStats(size=ctypes.sizeof(CSharedStats))
        check(lib.vpmm_shared_stats(self._pool(), byref(found)))
        return SharedStats(*(getattr(found, name) for name in SharedStats._fields))


def _part(address: Any, size: Any) -> Tuple[int, int]:
    return address_of(address), whole("size", size, SIZE_MAX)
