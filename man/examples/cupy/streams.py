#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays on four streams in memory of libvpmm, smaller ones when memory runs out, and what it took."""

import cupy
import vpmm
import vpmm.cupy

vpmm.cupy.enable()


def main():
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    size = 1 << 40
    arrays = []
    while not arrays:
        try:
            for number, stream in enumerate(streams):
                # Freed on this stream as well, whenever the last reference goes.
                with stream:
                    arrays.append(cupy.full(size, number, dtype=cupy.uint8))
        except cupy.cuda.memory.OutOfMemoryError as error:
            print(error)
            arrays.clear()
            size //= 4
    for number, (stream, array) in enumerate(zip(streams, arrays)):
        with stream:
            assert int(array.sum()) == number * size
    print(f"4 arrays of {size} bytes: {vpmm.stats().peak_taken} bytes taken of the device at most")


if __name__ == "__main__":
    main()
