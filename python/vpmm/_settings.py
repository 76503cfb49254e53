# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The options of a pool, as Python has them, to struct vpmm_opts, and struct vpmm_info to the same. Text is whatever the
variable of the environment takes.
"""

import ctypes
import os
import re
from ctypes import c_int
from typing import Any, Dict, Iterable, List, SupportsIndex, Tuple, Union

from ._header import BUDGET_WAIT_NONE, KEEP_NONE, OVERLAP_AUTO, OVERLAP_NONE, WORDS, CInfo, COpts, Info
from ._library import INT_MAX, SIZE_MAX, text, whole

Size = Union[SupportsIndex, str]

_SIZES = ("page_size", "va_size", "extent_max", "limit", "keep", "stacks", "budget_floor")
_COUNTS = {"pages": SIZE_MAX, "frag_ratio": INT_MAX, "limit_percent": INT_MAX, "overhead": INT_MAX, "overlap": INT_MAX,
           "budget_weight": INT_MAX, "budget_wait": INT_MAX}

# Words for what struct vpmm_opts has.
_SPECIAL = {("limit", "none"): 0, ("keep", "all"): 0, ("keep", "none"): KEEP_NONE, ("pages", "none"): 0,
            ("frag_ratio", "none"): 0, ("overlap", "auto"): OVERLAP_AUTO, ("overlap", "none"): OVERLAP_NONE,
            ("trace", "none"): None, ("stacks", "none"): 0, ("oom_dump", "none"): None,
            ("plan", "none"): None, ("budget", "none"): None, ("budget_floor", "none"): 0,
            ("budget_wait", "none"): BUDGET_WAIT_NONE}

# 0 is none, as in the environment. In struct vpmm_opts it stands for the default; text cannot be 0 where there is no
# none.
_NONE = {"keep": KEEP_NONE, "overlap": OVERLAP_NONE, "budget_wait": BUDGET_WAIT_NONE}
_POSITIVE = ("page_size", "va_size", "extent_max", "limit", "overhead", "budget_weight")

_DEVICES = 64
_SUFFIXES = "kmgt"

# What is on or off takes these words as well.
_SWITCH = {"none": "off", "0": "off", "1": "on"}


def _bad(name: str, value: Any, *wanted: str) -> ValueError:
    *others, last = wanted
    return ValueError(f"{name}={value!r}: expected {' or '.join(filter(None, (', '.join(others), last)))}")


def _words(name: str) -> Tuple[str, ...]:
    """What an option takes as well, whatever its type."""
    words = tuple(repr(word) for option, word in _SPECIAL if option == name)
    return ("'1%' to '100%'", *words) if name == "limit" else words


def _positive(name: str, value: str, number: int) -> int:
    if not number and name in _POSITIVE:
        raise _bad(name, value, "more than 0")
    return number


def size_of(name: str, value: Any, words: Tuple[str, ...] = ()) -> int:
    """Bytes, or text such as 2M."""
    if not isinstance(value, str):
        return whole(name, value, SIZE_MAX)
    found = re.fullmatch("([0-9]+)([kKmMgGtT]?)", value)
    if not found:
        raise _bad(name, value, "a size such as 4096 or '2M'", *words)
    shift = 10 * (_SUFFIXES.index(found[2].lower()) + 1) if found[2] else 0
    return whole(name, _positive(name, value, int(found[1]) << shift), SIZE_MAX)


def _count(name: str, value: Any) -> int:
    if not isinstance(value, str):
        number = whole(name, value, _COUNTS[name])
    elif re.fullmatch("[0-9]+", value):
        number = whole(name, _positive(name, value, int(value)), _COUNTS[name])
    else:
        raise _bad(name, value, "a number", *_words(name))
    return number


def ordinals(name: str, devices: Iterable[Any]) -> List[int]:
    return [whole(name, device, INT_MAX) for device in devices]


def _peers(value: Any) -> int:
    if value == "all":
        return (1 << _DEVICES) - 1
    if isinstance(value, str):
        if value != "none" and not re.fullmatch("[0-9]+(,[0-9]+)*", value):
            raise _bad("peers", value, "'all', 'none' or devices")
        value = [] if value == "none" else [int(device) for device in value.split(",")]
        if len(set(value)) != len(value):
            raise ValueError(f"peers={value!r}: a device is there twice")
    mask = 0
    for device in ordinals("peers", value):
        if device >= _DEVICES:
            raise ValueError(f"peers: there is no device {device}")
        mask |= 1 << device
    return mask


def _value(name: str, value: Any) -> Any:
    """The value of a field of struct vpmm_opts."""
    if isinstance(value, str) and (name, value) in _SPECIAL:
        return _SPECIAL[name, value]
    if name in WORDS:
        switch = _SWITCH if "off" in WORDS[name] else {}
        word = switch.get(value, value) if isinstance(value, str) else value
        if word not in WORDS[name]:
            raise _bad(name, value, *map(repr, (*WORDS[name], *switch)))
        return WORDS[name].index(word)
    if name in _SIZES or name in _COUNTS:
        number = size_of(name, value, _words(name)) if name in _SIZES else _count(name, value)
        return number or _NONE.get(name, 0)
    return _peers(value) if name == "peers" else text(name, value)


def _limits(given: Dict[str, Any]) -> Dict[str, Any]:
    """Of bytes and percent, a program that gives one does not mean the environment's other."""
    limit = given.get("limit")
    if isinstance(limit, str) and re.fullmatch("0*([1-9][0-9]?|100)%", limit):
        # As of all limits, the smaller counts.
        percent = int(limit[:-1])
        other = _count("limit_percent", given.get("limit_percent", 0)) or percent
        given = {**given, "limit": "none", "limit_percent": min(percent, other)}
    if "limit" in given or "limit_percent" in given:
        given = {"limit": "none", "limit_percent": 0, **given}
    return given


def fill(opts: COpts, given: Dict[str, Any]) -> None:
    """None stands for what the environment says."""
    given = {name: value for name, value in given.items() if value is not None}
    device = given.pop("device", None)
    if device is not None:
        opts.device = ctypes.pointer(c_int(whole("device", device, INT_MAX)))
    for name, value in _limits(given).items():
        setattr(opts, name, _value(name, value))


def _worded(name: str, value: Any) -> Any:
    """What an option would be, of which struct vpmm_info has a number."""
    if name in WORDS:
        return WORDS[name][value]
    if name in ("limit", "keep") and value == SIZE_MAX:
        return "none" if name == "limit" else "all"
    if name in ("keep", "overlap") and not value:
        return "none"
    if name == "overlap" and value == OVERLAP_AUTO:
        return "auto"
    if name == "peers":
        return bits(value)
    return os.fsdecode(value) if isinstance(value, bytes) else value


def bits(mask: int) -> Tuple[int, ...]:
    return tuple(number for number in range(_DEVICES) if mask >> number & 1)


def read(found: CInfo) -> Info:
    return Info(*(_worded(name, getattr(found, name)) for name in Info._fields))
