#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays of Warp in memory of libvpmm, on the default stream and on another one."""

import vpmm
import vpmm.warp
import warp

vpmm.warp.enable()


def main():
    first = warp.zeros(1 << 20, dtype=warp.uint8, device="cuda:0")
    with warp.ScopedStream(warp.Stream("cuda:0")):
        # Freed on this stream as well, whenever the last reference goes.
        second = warp.empty(1 << 20, dtype=warp.uint8, device="cuda:0")
        second.fill_(7)
        assert set(second.numpy()) == {7}
    assert set(first.numpy()) == {0}
    print(f"{vpmm.stats().requested} bytes are in use, {vpmm.stats().mapped} taken of the device")


if __name__ == "__main__":
    main()
