# SPDX-License-Identifier: LGPL-2.1-or-later
"""A dump of a pool in the form of torch.cuda.memory_snapshot(), which torch.cuda._memory_viz draws."""

from typing import Any, Dict, Iterator, List, NamedTuple

from ._library import Error
from ._pool import lookup


class _Region(NamedTuple):
    address: int
    size: int
    kind: str
    stream: int


def _regions(dump: str) -> Iterator[List[_Region]]:
    """Those of each chunk, in ascending order of address."""
    chunk: List[_Region] = []
    for line in dump.splitlines():
        if line.startswith("chunk "):
            yield chunk
            chunk = []
        elif line.startswith("  0x"):
            words = line.split()
            # Of several streams that have to be waited for, the first.
            stream = words[4].split(",")[0] if len(words) > 4 and words[3] == "stream" else ""
            chunk.append(_Region(int(words[0], 16), int(words[1]), words[2], int(stream) if stream.isdigit() else 0))
    yield chunk


def _requested(region: _Region) -> int:
    if region.kind != "malloc":
        return 0
    try:
        return lookup(region.address).bytes
    except Error:
        # Freed meanwhile.
        return region.size


def _segment(device: int, regions: List[_Region]) -> Dict[str, Any]:
    blocks: List[Dict[str, Any]] = [{
        "address": region.address, "size": region.size, "requested_size": _requested(region),
        "state": "active_allocated" if region.kind == "malloc" else "inactive", "frames": [],
    } for region in regions]
    allocated = sum(region.size for region in regions if region.kind == "malloc")
    return {
        "device": device, "address": regions[0].address, "total_size": sum(region.size for region in regions),
        "allocated_size": allocated, "active_size": allocated,
        "requested_size": sum(block["requested_size"] for block in blocks), "stream": regions[0].stream,
        "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": True, "frames": [], "blocks": blocks,
    }


def segments(device: int, dump: str) -> List[Dict[str, Any]]:
    """The stretches of address space with memory in them, and the blocks of each."""
    found = []
    for chunk in _regions(dump):
        run: List[_Region] = []
        for region in chunk:
            if region.kind in ("malloc", "free"):
                run.append(region)
            elif run:
                found.append(_segment(device, run))
                run = []
        if run:
            found.append(_segment(device, run))
    return found
