#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays of Numba in memory of libvpmm: in and out, and one that is too large."""

import vpmm
import vpmm.numba
from numba import cuda

# Before Numba uses a GPU; NUMBA_CUDA_MEMORY_MANAGER=vpmm.numba does the same without these lines.
vpmm.numba.enable()


def main():
    array = cuda.to_device(bytearray(range(256)))
    assert bytes(array.copy_to_host()) == bytes(range(256))
    free, total = cuda.current_context().get_memory_info()
    print(f"{free} of {total} bytes are free")
    try:
        cuda.device_array(1 << 50)
    except vpmm.numba.OutOfMemoryError as error:
        print(error)
    # After all work of the context.
    del array
    print(f"{vpmm.stats().frees} blocks were freed, {vpmm.stats().waits} times a stream waited for another")


if __name__ == "__main__":
    main()
