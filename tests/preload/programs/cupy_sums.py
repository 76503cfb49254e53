# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sorts, scans and multiplies with CuPy; cupy_sums.py async has its pool over the stream-ordered allocator."""
import hashlib
import sys

import cupy

if len(sys.argv) > 1 and sys.argv[1] == "async":
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
digest = hashlib.sha256()
kept = []
for step in range(60):
    count = 1000 + step * 7919 % 997 * 5000
    numbers = (cupy.arange(count, dtype=cupy.uint64) * cupy.uint64(0x9E3779B97F4A7C15)) >> cupy.uint64(11)
    ordered = cupy.sort(numbers)
    scanned = cupy.cumsum(ordered)
    digest.update(int(scanned[-1]).to_bytes(8, "little"))
    side = 32 * (1 + step % 20)
    matrix = cupy.arange(side * side, dtype=cupy.float64).reshape(side, side) % 17
    digest.update(cupy.asnumpy(matrix @ matrix.T).tobytes())
    kept.append(scanned)
    if step % 3 == 2:
        kept.pop(0)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        digest.update(cupy.asnumpy(kept[-1][::100] + cupy.uint64(step)).tobytes())
        stream.synchronize()
print("checksum", digest.hexdigest())
