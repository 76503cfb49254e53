# SPDX-License-Identifier: LGPL-2.1-or-later
"""Regions of vpmm.torch, and what is done to those of all devices."""

import contextlib
import ctypes
import errno
import warnings
from ctypes import byref
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from ._header import TAG_ALL, CTagStats
from ._library import Error, check
from ._tags import Tag, Word, tag

# The most that there are.
_TAGS = 255


class Words(NamedTuple):
    """A call of libvpmm-torch.so, and its arguments behind the device and the tag."""

    call: str
    arguments: Tuple[int, ...]


def region(name: str, cpu: bool, disk: bool, backend: Optional[str]) -> Tag:
    """The tag of a region; its arguments as users of torch_memory_saver know them."""
    if cpu and disk:
        raise AssertionError("enable_cpu_backup and enable_disk_backup: expected one of them")
    if backend is not None and not cpu:
        raise ValueError(f"cpu_backup_backend={backend!r}: expected enable_cpu_backup with it")
    if backend not in (None, "pinned", "mmap"):
        raise ValueError(f"cpu_backup_backend={backend!r}: expected 'pinned' or 'mmap'")
    if disk or backend == "mmap":
        warnings.warn("vpmm.torch.region: the backup is in pinned host memory", RuntimeWarning, stacklevel=3)
    return tag(name, drop=not (cpu or disk))


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    with Word(0, "vpmm.torch.disable()"):
        yield


def _check(result: int) -> None:
    if result == -errno.ENXIO:
        raise Error(errno.ENXIO, "the device's primary context cannot be made current")
    check(result)


def _paused(plugin: Any, device: int, number: int) -> List[int]:
    """The tags, of those that are meant, which are paused on a device."""
    paused: List[int] = []
    one = number if number != TAG_ALL else 1
    while True:
        found = CTagStats(size=ctypes.sizeof(CTagStats))
        if plugin.vpmm_torch_tag_stats(device, one, byref(found)):
            return paused
        if found.paused:
            paused.append(one)
        if number != TAG_ALL or one == _TAGS:
            return paused
        one += 1


def each(plugin: Any, devices: List[int], number: int, words: Words, undo: Optional[Words]) -> None:
    """Makes a call for devices. If one fails, those before it are as they were."""
    before: List[Tuple[int, List[int]]] = []
    try:
        for device in devices:
            was = _paused(plugin, device, number) if undo else []
            _check(getattr(plugin, words.call)(device, number, *words.arguments))
            before.append((device, was))
    except Error:
        for device, was in before if undo else []:
            for one in set(_paused(plugin, device, number)) ^ set(was):
                getattr(plugin, undo.call)(device, one, *undo.arguments)  # type: ignore[union-attr]
        raise
