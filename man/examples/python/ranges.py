#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory at addresses that the CPU and the device both use, a block that grows where it is, and a forecast."""

import collections
import ctypes

import vpmm

MIB = 1 << 20


def places(pool, address, size):
    """How many bytes are where."""
    found = collections.Counter()
    for page in pool.locate(address, size):
        found["nowhere" if "empty" in page.flags else page.location] += page.size
    return ", ".join(f"{size // MIB} MiB {place}" for place, size in sorted(found.items()))


def share(pool):
    address, size = pool.shared_alloc(64 * MIB), 64 * MIB
    memory = (ctypes.c_char * size).from_address(address)
    memory[:5] = b"hello"
    pool.fault(address, 32 * MIB, "device")
    print("before a touch:", places(pool, address, size))
    # Brings the page that it reads back, and perhaps some that come after it.
    print("the CPU reads", memory[:5].decode())
    pool.migrate(address, size, "host")
    print("afterwards:", places(pool, address, size))
    pool.shared_free(address)


def grow(pool):
    block = pool.malloc_growable(2 * MIB, 256 * MIB)
    for size in 8 * MIB, 32 * MIB:
        assert pool.realloc(block, size) == block
    print(f"a block has grown to {vpmm.lookup(block).bytes // MIB} MiB where it is")
    pool.free(block)
    forecast = pool.query(16 * MIB)
    print(f"16 MiB would be served by {forecast.way}, with {forecast.grown // MIB} MiB of new memory")


def main():
    with vpmm.Pool() as pool:
        share(pool)
        grow(pool)


if __name__ == "__main__":
    main()
