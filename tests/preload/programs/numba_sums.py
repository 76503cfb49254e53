# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fills and copies arrays by kernels of Numba, on several streams."""
import hashlib

import numpy as np

# Some releases of Numba ask for it, and NumPy 2 has it no more.
if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack
from numba import cuda


@cuda.jit
def fill(words, seed):
    at = cuda.grid(1)
    if at < words.size:
        words[at] = seed * 31 + at * at


@cuda.jit
def mix(to, left, right):
    at = cuda.grid(1)
    if at < to.size:
        to[at] = left[at] * 3 + right[to.size - 1 - at]


digest = hashlib.sha256()
streams = [cuda.stream() for _ in range(3)]
for step in range(60):
    stream = streams[step % 3]
    count = 1000 + step * 7919 % 499 * 3000
    grid = (count + 255) // 256
    left = cuda.device_array(count, dtype=np.int64, stream=stream)
    right = cuda.device_array(count, dtype=np.int64, stream=stream)
    out = cuda.device_array(count, dtype=np.int64, stream=stream)
    fill[grid, 256, stream](left, step)
    fill[grid, 256, stream](right, step + 1)
    mix[grid, 256, stream](out, left, right)
    host = out.copy_to_host(stream=stream)
    stream.synchronize()
    digest.update(host.tobytes())
    del left, right, out
free, total = cuda.current_context().get_memory_info()
print("checksum", digest.hexdigest(), "free", 0 < free <= total)
