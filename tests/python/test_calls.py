# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls for growable blocks, forecasts, other processes and shared ranges, on the host backend."""

import ctypes
import errno
import os
import socket
import subprocess
import sys
import textwrap
import threading
import unittest

import vpmm
from programs import ProgramTest

MIB = 1 << 20


class CallsTest(unittest.TestCase):
    def open(self, **options):
        pool = vpmm.Pool(backend="host", va_size="1G", **options)
        self.addCleanup(pool.close)
        return pool

    def fails(self, number, call, *arguments):
        with self.assertRaises(vpmm.Error) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.errno, number)


class Aligned(CallsTest):
    def test_addresses(self):
        pool = self.open()
        for alignment in (1, 512, 4096, 2 * MIB):
            for stream in (None, vpmm.STREAM_ANY):
                a = pool.malloc_aligned(1000, alignment, stream)
                self.assertEqual(a % alignment, 0)
                self.assertEqual(vpmm.lookup(a).bytes, 1000)
                pool.free(a, stream)
        self.fails(errno.EINVAL, pool.malloc_aligned, 1000, 3)
        self.fails(errno.EINVAL, pool.malloc_aligned, 1000, 4 * MIB)
        with self.assertRaisesRegex(ValueError, "^alignment=-1"):
            pool.malloc_aligned(1, -1)


class Growable(CallsTest):
    def test_sizes(self):
        # It stays where it is, and so do its contents.
        pool = self.open()
        a = pool.malloc_growable(3 * MIB, 200 * MIB)
        ctypes.memset(a, 5, 3 * MIB)
        for size in (90 * MIB, 200 * MIB, 4 * MIB):
            self.assertEqual(pool.realloc(a, size), a)
            self.assertEqual(vpmm.lookup(a).bytes, size)
        self.assertEqual(ctypes.string_at(a, 3 * MIB), b"\5" * (3 * MIB))
        self.fails(errno.EINVAL, pool.realloc, a, 201 * MIB)
        self.fails(errno.EINVAL, pool.malloc_growable, 5, 4)
        self.fails(errno.EINVAL, pool.malloc_growable, 0, 4)
        with self.assertRaisesRegex(ValueError, "^most=-1"):
            pool.malloc_growable(1, -1)
        with self.assertRaises(vpmm.OutOfMemoryError):
            pool.malloc_growable(1, 1 << 70)
        pool.free(a)
        pool.check()


class Query(CallsTest):
    def test_ways(self):
        # Each in turn, and each as the allocation then does it.
        pool = self.open(limit=32 * MIB, overhead=1)
        self.assertEqual(pool.query(20 * MIB), pool.query(20 * MIB))
        forecast = pool.query(20 * MIB)
        self.assertEqual((forecast.way, forecast.waits, forecast.remapped), ("grow", 0, 0))
        self.assertGreaterEqual(forecast.grown, 20 * MIB)
        self.assertGreaterEqual(forecast.largest, 20 * MIB)
        pool.free(pool.malloc(20 * MIB))
        self.assertEqual(pool.query(20 * MIB).way, "reuse")
        self.assertEqual(pool.query(40 * MIB).way, "none")
        self.assertEqual(pool.query(1 << 70).way, "none")
        blocks = [pool.malloc(4 * MIB) for _ in range(8)]
        for block in blocks[::2]:
            pool.free(block)
        forecast = pool.query(16 * MIB)
        self.assertEqual((forecast.way, forecast.grown), ("harvest", 0))
        pool.malloc(16 * MIB)
        self.assertEqual(pool.stats().remapped, forecast.remapped)


class Sockets(CallsTest):
    def pair(self):
        ends = socket.socketpair()
        for end in ends:
            self.addCleanup(end.close)
        return ends

    def test_hand_over(self):
        # To another process, which writes; by a socket, and by the number of one.
        pool = self.open(export_as="fd")
        mine, theirs = self.pair()
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent("""
            import ctypes, socket, sys, vpmm
            end = int(sys.argv[1])
            with vpmm.Pool(backend="host", va_size="1G", export_as="fd") as pool:
                for connection in end, socket.socket(fileno=end):
                    address, size = pool.receive(connection)
                    assert vpmm.lookup(address).bytes == size == 3 << 20, size
                    assert ctypes.string_at(address, 5) == b"mine!"
                    ctypes.memmove(address, b"yours", 5)
                    pool.free(address)
                connection.send(b".")
        """), str(theirs.fileno())], pass_fds=[theirs.fileno()])
        blocks = [pool.malloc(3 * MIB, shareable=True) for _ in range(2)]
        for block, connection in zip(blocks, (mine, mine.fileno())):
            ctypes.memmove(block, b"mine!", 5)
            pool.send(block, connection)
        self.assertEqual(mine.recv(1), b".")
        self.assertEqual(process.wait(), 0)
        self.assertEqual([ctypes.string_at(block, 5) for block in blocks], [b"yours"] * 2)

    def test_refused(self):
        pool = self.open(export_as="fd")
        mine, theirs = self.pair()
        self.fails(errno.EINVAL, pool.send, pool.malloc(3 * MIB), mine)
        self.fails(errno.EINVAL, pool.send, 4096, mine)
        with open(os.devnull, "rb") as file:
            self.fails(errno.EINVAL, pool.receive, file)
        with self.assertRaisesRegex(TypeError, "^socket='socket' "):
            pool.receive("socket")
        theirs.close()
        self.fails(errno.EPIPE, pool.receive, mine)
        mine.close()
        with self.assertRaisesRegex(ValueError, "^socket=-1"):
            pool.receive(mine)

    def test_timeout(self):
        # As Python's own calls have it.
        pool = self.open(export_as="fd")
        mine, theirs = self.pair()
        mine.settimeout(0.01)
        with self.assertRaises(socket.timeout):
            pool.receive(mine)
        mine.settimeout(0)
        self.fails(errno.EAGAIN, pool.receive, mine)
        mine.settimeout(60)
        block = pool.malloc(2 * MIB, shareable=True)
        threading.Timer(0.05, pool.send, (block, theirs)).start()
        address, size = pool.receive(mine)
        self.assertEqual((size, ctypes.string_at(address, 1)), (2 * MIB, ctypes.string_at(block, 1)))
        # More milliseconds than poll() takes.
        for end in mine, theirs:
            end.settimeout(1e9)
        pool.send(block, theirs)
        self.assertEqual(pool.receive(mine)[1], 2 * MIB)

    def test_interrupt(self):
        # A signal interrupts a wait without a timeout.
        program = textwrap.dedent("""
            import signal, socket, vpmm
            ends = socket.socketpair()
            signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
            with vpmm.Pool(backend="host", va_size="1G") as pool:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                try:
                    pool.receive(ends[0])
                except ZeroDivisionError:
                    print("interrupted")
        """)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("interrupted\n", ""))


class Ranges(CallsTest):
    def setUp(self):
        self.pool = self.open()
        try:
            self.range = self.pool.shared_alloc(8 * MIB)
        except vpmm.Error as error:
            if error.errno != errno.ENOTSUP:
                raise
            self.skipTest(str(error))
        self.addCleanup(self.pool.shared_free, self.range)

    def places(self, size=8 * MIB):
        return {page.location for page in self.pool.locate(self.range, size)}

    def test_move(self):
        # There and back, and a touch brings a page back, with what was written.
        pages = self.pool.locate(self.range, 8 * MIB)
        self.assertEqual(sum(page.size for page in pages), 8 * MIB)
        self.assertEqual(pages[0].address, self.range)
        self.assertEqual({(page.location, page.flags) for page in pages}, {("host", frozenset({"empty"}))})
        ctypes.memset(self.range, 7, 8 * MIB)
        self.assertEqual(self.pool.migrate(self.range, 8 * MIB, "device"), len(pages))
        self.assertEqual(self.places(), {"device"})
        self.assertEqual(ctypes.string_at(self.range, 10), b"\7" * 10)
        self.assertEqual(self.places(1), {"host"})
        self.pool.migrate(self.range, 8 * MIB, "host")
        self.assertEqual(self.places(), {"host"})
        stats = self.pool.shared_stats()
        # A touch is counted once it was served, which its thread does not wait for.
        self.assertEqual(stats.ranges, 1)
        self.assertGreaterEqual(stats.faults, 1)
        self.assertGreaterEqual(stats.to_device, 8 * MIB)
        self.pool.check()

    def test_keep(self):
        # What advice and pins say is what a page then shows, and does.
        self.assertGreater(self.pool.fault(self.range, 8 * MIB, "device"), 0)
        self.pool.pin(self.range, 1)
        self.assertEqual(self.pool.locate(self.range, 1)[0].flags, {"pinned"})
        self.assertEqual(self.pool.migrate(self.range, 1, "device"), 0)
        self.fails(errno.EBUSY, self.pool.shared_free, self.range)
        self.pool.unpin(self.range, 1)
        self.fails(errno.EINVAL, self.pool.unpin, self.range, 1)
        for advice in "prefer_host", "prefer_device", "read_mostly", "none":
            self.pool.advise(self.range, 8 * MIB, advice)
            self.assertEqual(self.pool.locate(self.range, 1)[0].flags, {advice} - {"none"})

    def test_refused(self):
        for name, call, *arguments in (
                ("to", self.pool.migrate, self.range, 1, "gpu"), ("to", self.pool.fault, self.range, 1, 1),
                ("advice", self.pool.advise, self.range, 1, "prefer-host"),
                ("size", self.pool.locate, self.range, -1), ("address", self.pool.pin, 1 << 64, 1)):
            with self.assertRaisesRegex(ValueError, f"^{name}="):
                call(*arguments)
        self.fails(errno.EINVAL, self.pool.locate, self.range, 9 * MIB)
        self.fails(errno.EINVAL, self.pool.shared_free, self.range + MIB)
        self.fails(errno.EINVAL, self.pool.shared_alloc, 0)

    def test_default(self):
        # The default pool has ranges too, and finds those of others.
        self.assertEqual(vpmm.default_pool().locate(self.range, 1)[0].address, self.range)
        fine = vpmm.default_pool().shared_alloc(MIB, fine=True)
        self.assertEqual(vpmm.default_pool().shared_stats().ranges, 1)
        vpmm.default_pool().shared_free(fine, None)


class Examples(ProgramTest):
    def test_handoff(self):
        self.assertEqual(self.example("python/handoff.py"),
                         "received 64 MiB, 64 of them are the other process's\ndone\n")

    def test_ranges(self):
        said = self.example("python/ranges.py")
        self.assertIn("the CPU reads hello", said)
        self.assertIn("grown to 32 MiB", said)


if __name__ == "__main__":
    unittest.main()
