# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Makes a trace for vpmm-replay(1) of a memory snapshot of PyTorch: python3 -m vpmm.convert SNAPSHOT [TRACE]

SNAPSHOT is what torch.cuda.memory._dump_snapshot() writes; - is standard input. The trace goes to standard output
unless TRACE is given. Nothing in the snapshot is run: a pickle with anything but plain data is refused.
"""

import contextlib
import gzip
import io
import pickle
import sys
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

_USAGE = "python3 -m vpmm.convert SNAPSHOT [TRACE]"
_PAGE = 2 << 20
_MOST = (1 << 64) - 1
_ACTIVE = ("active_allocated", "active_awaiting_free", "active_pending_free")


class Damaged(ValueError):
    """The file is no snapshot."""


class _Record(NamedTuple):
    us: int
    text: str


class _Plain(pickle.Unpickler):
    """Of dictionaries, lists, strings and numbers alone: a class in a pickle can run anything."""

    def find_class(self, module: str, name: str) -> Any:
        raise Damaged(f"the pickle has a {module}.{name}, and a snapshot has plain data alone")


def _number(entry: Any, key: str, otherwise: Optional[int] = None) -> int:
    value: object = entry.get(key, otherwise) if isinstance(entry, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Damaged(f"an entry has no {key}, or one that is no number: {str(entry)[:200]}")
    if value > _MOST:
        raise Damaged(f"an entry has a {key} of more than 64 bits: {value:#x}"[:200])
    return value


class _Device:
    """The history of a device, in order."""

    def __init__(self, history: Sequence[Any]) -> None:
        self.records: List[_Record] = []
        self.before: Dict[int, Tuple[int, int]] = {}
        self.live: Dict[int, int] = {}
        self.seen = set()  # type: ignore[var-annotated]
        self.us = 0
        for entry in history:
            self._add(entry)

    def _add(self, entry: Any) -> None:
        action = entry.get("action") if isinstance(entry, dict) else None
        if action not in ("alloc", "free_requested", "free", "oom"):
            return
        # Threads can be late by a little.
        self.us = max(self.us, _number(entry, "time_us", self.us))
        size, stream = _number(entry, "size"), _number(entry, "stream", 0)
        if action == "oom":
            self._note(f"x {size} {stream}")
            return
        addr = _number(entry, "addr")
        if action == "alloc":
            self._alloc(addr, size, stream)
        else:
            self._free(addr, size, stream)

    def _note(self, text: str) -> None:
        self.records.append(_Record(self.us, text))

    def _alloc(self, addr: int, size: int, stream: int) -> None:
        if addr in self.live:
            # The history lacks its free.
            self._note(f"f {addr:#x} {self.live[addr]}")
        self.live[addr] = stream
        self.seen.add(addr)
        self._note(f"a {addr:#x} {size} {stream}")

    def _free(self, addr: int, size: int, stream: int) -> None:
        if addr in self.live:
            del self.live[addr]
        elif addr in self.seen:
            return
        else:
            self.before[addr] = (size, stream)
            self.seen.add(addr)
        self._note(f"f {addr:#x} {stream}")

    def add_block(self, addr: int, size: int, stream: int) -> None:
        """One that is allocated in the end; it always was, unless the history has it."""
        if addr not in self.seen:
            self.before[addr] = (size, stream)
            self.seen.add(addr)


def _blocks(segment: Any) -> Iterator[Tuple[int, int, int]]:
    addr, stream = _number(segment, "address"), _number(segment, "stream", 0)
    for block in segment.get("blocks", ()):
        size = _number(block, "size")
        start = _number(block, "address", addr)
        if isinstance(block, dict) and block.get("state") in _ACTIVE:
            yield start, _number(block, "requested_size", size) or size, stream
        addr = start + size


def _lines(devices: Dict[int, _Device]) -> Iterator[str]:
    yield "# vpmm-trace 2 source=pytorch"
    start = min((device.records[0].us for device in devices.values() if device.records), default=0)
    merged: List[Tuple[int, int, int, str]] = []
    for number, (ordinal, device) in enumerate(sorted(devices.items()), 1):
        pool = f" pool={number}" if number > 1 else ""
        yield f"0 p {number} cuda {ordinal} {_PAGE}"
        for addr, (size, stream) in device.before.items():
            yield f"0 a {addr:#x} {size} {stream}{pool}"
        merged += [(us - start, number, place, text + pool) for place, (us, text) in enumerate(device.records)]
    merged.sort()
    for us, _, _, text in merged:
        yield f"{us} {text}"


def convert(snapshot: Any) -> List[str]:
    """The lines of the trace of a snapshot, as torch.cuda.memory._snapshot() returns it, or of its segments alone."""
    try:
        return _convert(snapshot)
    except Damaged:
        raise
    except Exception as error:
        # Plain data can be anything where a list or a dictionary belongs.
        raise Damaged(f"the pickle is no memory snapshot: {error}") from error


def _convert(snapshot: Any) -> List[str]:
    if isinstance(snapshot, list):
        snapshot = {"segments": snapshot}
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("segments"), list):
        raise Damaged("the pickle is no memory snapshot: it has no segments")
    histories = snapshot.get("device_traces") or []
    devices = {ordinal: _Device(history) for ordinal, history in enumerate(histories)}
    for segment in snapshot["segments"]:
        device = devices.setdefault(_number(segment, "device", 0), _Device(()))
        for block in _blocks(segment):
            device.add_block(*block)
    devices = {ordinal: device for ordinal, device in devices.items() if device.before or device.records}
    if not any(device.before or device.seen for device in devices.values()):
        raise Damaged("the snapshot has no allocation")
    return list(_lines(devices))


def load(file: BinaryIO) -> Any:
    """The plain data of a pickle."""
    try:
        return _Plain(file).load()
    except (Damaged, OSError):
        raise
    except Exception as error:
        raise Damaged(f"it is no pickle: {error}") from error


@contextlib.contextmanager
def _open(name: str) -> Iterator[Any]:
    is_input = name == "-"
    if is_input and sys.stdin is None:
        raise OSError("standard input is closed")
    with io.BufferedReader(io.FileIO(sys.stdin.fileno() if is_input else name, closefd=not is_input)) as file:
        if file.peek(2)[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=file) as plain:
                yield plain
        else:
            yield file


def _reason(error: Exception) -> str:
    """Without the number and the name that Python adds."""
    return getattr(error, "strerror", None) or str(error)


def main(arguments: Sequence[str]) -> int:
    """The program. 0; 2: the snapshot was refused, or a file cannot be read or written."""
    if len(arguments) not in (1, 2) or arguments[0] in ("-h", "--help"):
        # Without it where Python leaves such texts out.
        print((__doc__ or _USAGE).strip(), file=sys.stdout if arguments[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    try:
        with _open(arguments[0]) as file:
            lines = convert(load(file))
    except (Damaged, OSError, EOFError) as error:
        print(f"vpmm.convert: {arguments[0]}: {_reason(error)}", file=sys.stderr)
        return 2
    name = arguments[1] if len(arguments) == 2 else "standard output"
    try:
        if len(arguments) == 1 and sys.stdout is None:
            raise OSError("it is closed")
        # Not by sys.stdout: Python would try again at its exit to write what that has failed to, and fail as well.
        with open(name if len(arguments) == 2 else sys.stdout.fileno(), "w", encoding="ascii",
                  closefd=len(arguments) == 2) as out:
            out.writelines(line + "\n" for line in lines)
    except OSError as error:
        print(f"vpmm.convert: {name}: {_reason(error)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
