#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Buffers of cuda.core in memory of libvpmm, one filled and copied, and one that is too large."""

import vpmm
import vpmm.core

try:
    from cuda.core import Device
except ImportError:
    from cuda.core.experimental import Device


def main():
    device = Device()
    device.set_current()
    device.memory_resource = vpmm.core.MemoryResource(device)
    stream = device.create_stream()
    one = device.allocate(1 << 20, stream=stream)
    one.fill(7, stream=stream)
    two = one.copy_to(stream=stream)
    # On the stream of its allocation; close(other) frees on another one, which has to be behind the work.
    one.close()
    try:
        device.allocate(1 << 50, stream=stream)
    except vpmm.OutOfMemoryError as error:
        print(error)
    print(f"{two.size} bytes are in use, {vpmm.stats().mapped} taken of the device")
    two.close()


if __name__ == "__main__":
    main()
