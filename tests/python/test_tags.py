# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tags, and pausing of what has one, on the host backend."""

import ctypes
import errno
import threading
import unittest

import vpmm

MIB = 1 << 20


class TagsTest(unittest.TestCase):
    def open(self, **options):
        pool = vpmm.Pool(backend="host", va_size="1G", **options)
        self.addCleanup(pool.close)
        return pool

    def fails(self, number, call, *arguments, **named):
        with self.assertRaises(vpmm.Error) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.errno, number)

    def test_blocks(self):
        pool = self.open()
        with vpmm.tag("weights") as weights:
            a = pool.malloc(4 * MIB)
            with vpmm.tag("cache", drop=True):
                pool.malloc(2 * MIB)
            b = pool.malloc(2 * MIB)
            seen = []
            thread = threading.Thread(target=lambda: seen.append(pool.malloc(8 * MIB)))
            thread.start()
            thread.join()
        pool.malloc(2 * MIB)
        self.assertEqual(pool.tag_stats(weights).live, 6 * MIB)
        self.assertEqual(pool.tag_stats("cache").blocks, 1)
        ctypes.memset(a, 7, 4 * MIB)
        ctypes.memset(b, 9, 2 * MIB)
        pool.pause_prepare(weights)
        pool.pause("weights")
        self.assertEqual(pool.stats().paused, 6 * MIB)
        with weights:
            self.fails(errno.EBUSY, pool.malloc, 1)
        pool.pause()
        self.assertEqual(pool.stats().saved, 6 * MIB)
        pool.resume()
        self.assertEqual(ctypes.string_at(a, 4 * MIB), b"\7" * (4 * MIB))
        self.assertEqual(ctypes.string_at(b, 2 * MIB), b"\t" * (2 * MIB))
        self.assertEqual(pool.stats().paused, 0)

    def test_limit(self):
        pool = self.open()
        with vpmm.tag("limited", pausable=False) as limited:
            pool.tag_limit(limited, "4M")
            pool.malloc(4 * MIB)
            with self.assertRaises(vpmm.OutOfMemoryError):
                pool.malloc(1)
        self.assertEqual(pool.tag_stats(limited).limit, 4 * MIB)
        self.fails(errno.EINVAL, pool.pause, limited)
        self.fails(errno.EINVAL, vpmm.tag, "limited")
        self.fails(errno.EINVAL, vpmm.tag, "")
        with self.assertRaises(ValueError):
            vpmm.tag("a\0b")
        for call in vpmm.tag, pool.pause, pool.resume, pool.tag_stats:
            for wrong in 5, b"limited", True:
                with self.assertRaisesRegex(TypeError, f"^{wrong!r} is no tag, and no name of one"):
                    call(wrong)

    def test_exhausted(self):
        # Nothing changes, and it works once there is room.
        pool = self.open(limit="8M")
        with vpmm.tag("sleeper"):
            a = pool.malloc(6 * MIB)
        ctypes.memset(a, 3, 6 * MIB)
        pool.pause("sleeper")
        other = pool.malloc(6 * MIB)
        with self.assertRaises(vpmm.OutOfMemoryError):
            pool.resume("sleeper")
        pool.free(other)
        pool.resume("sleeper")
        self.assertEqual(ctypes.string_at(a, 6 * MIB), b"\3" * (6 * MIB))


if __name__ == "__main__":
    unittest.main()
