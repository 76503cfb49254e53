# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tags, and pausing of what has one, on the host backend."""

import asyncio
import copy
import ctypes
import errno
import pickle
import subprocess
import sys
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


    def test_overlap(self):
        # Tasks of one thread whose blocks do not nest are told so, and leave no tag behind.
        pool = self.open()
        failed = []

        async def task(name, rounds):
            try:
                with vpmm.tag(name):
                    for _ in range(rounds):
                        await asyncio.sleep(0)
            except RuntimeError as error:
                failed.append(str(error))

        async def main(rounds):
            await asyncio.gather(*(task(f"task {i}", n) for i, n in enumerate(rounds)))

        for rounds in (2, 4), (2, 3, 4), (3, 2, 4), (4, 2, 3):
            failed.clear()
            asyncio.run(main(rounds))
            self.assertTrue(failed)
            for text in failed:
                self.assertRegex(text, r"^the block of vpmm.tag\('task \d'\) ends inside that of vpmm.tag\('task \d'\)")
            pool.malloc(1)
            for i in range(3):
                self.assertEqual(pool.tag_stats(f"task {i}").blocks, 0)
        failed.clear()
        asyncio.run(main((4, 3, 2)))
        self.assertEqual(failed, [])
        # An exception that is under way goes on.
        inner = vpmm.tag("inner")
        with self.assertRaises(KeyError):
            with vpmm.tag("outer"):
                inner.__enter__()
                raise KeyError
        inner.__exit__(None, None, None)
        pool.malloc(1)
        self.assertEqual(pool.tag_stats("outer").blocks, 0)

    def test_other_thread(self):
        # A block ends on the thread that has entered it: there is no other whose tag it could change.
        pool = self.open()
        tag = vpmm.tag("elsewhere")
        caught = []

        def leave():
            try:
                tag.__exit__(None, None, None)
            except RuntimeError as error:
                caught.append(str(error))
            pool.malloc(1)

        with tag:
            thread = threading.Thread(target=leave)
            thread.start()
            thread.join()
        self.assertEqual(caught, ["the block of vpmm.tag('elsewhere') ends on a thread that is not in it"])
        self.assertEqual(pool.tag_stats(tag).blocks, 0)

    def test_copies(self):
        # By name: the number is another one in another process.
        pool = self.open()
        tag = vpmm.tag("copied", drop=True)
        for other in copy.copy(tag), copy.deepcopy({"tag": tag})["tag"], pickle.loads(pickle.dumps(tag)):
            self.assertEqual((repr(other), other.number), (repr(tag), tag.number))
            with other:
                pool.malloc(1)
        self.assertEqual(pool.tag_stats(tag).blocks, 3)
        text = """import pickle, sys, vpmm
others = [vpmm.tag(str(i)) for i in range(100)]
tag = pickle.load(sys.stdin.buffer)
print(tag.number == vpmm.tag("copied").number and tag.number not in [other.number for other in others])
"""
        done = subprocess.run([sys.executable, "-c", text], input=pickle.dumps(tag), capture_output=True, check=False)
        self.assertEqual((done.stdout, done.stderr), (b"True\n", b""))


if __name__ == "__main__":
    unittest.main()
