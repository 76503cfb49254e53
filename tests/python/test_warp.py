# SPDX-License-Identifier: LGPL-2.1-or-later
"""vpmm.warp with a Warp of our own."""

import unittest

from programs import ProgramTest


class WarpTest(ProgramTest):
    START = """
import warp
from warp import Stream
import vpmm.warp
"""

    def test_memory(self):
        self.program("""
            vpmm.warp.enable()
            a = warp.zeros(3 * MIB)
            a.fill_(5)
            assert set(a.numpy()) == {5} and live() == 3 * MIB
            assert vpmm.lookup(a.ptr).base == a.ptr
            del a
            assert live() == 0
            warp.empty(0)
            allocator = warp.get_device().get_allocator()
            assert allocator.allocate(0) == 0
            allocator.deallocate(0, 0)
            raises(ValueError, "0x1000 is no address", allocator.deallocate, 4096, 1)
            assert allocator._blocks == {}
            vpmm.default_pool().check()
        """)

    def test_disable(self):
        # Warp has its own allocators again, and what was allocated stays.
        self.program("""
            vpmm.warp.enable("cuda:1")
            a = warp.empty(MIB, device="cuda:1")
            raises(AssertionError, "Warp's own allocator", warp.empty, MIB)
            vpmm.warp.disable("cuda:1")
            raises(AssertionError, "Warp's own allocator", warp.empty, MIB, device="cuda:1")
            assert vpmm.lookup(a.ptr).device == 1
            del a
            vpmm.warp.enable()
            a, b = warp.empty(MIB), warp.empty(2 * MIB, device="cuda:1")
            assert (vpmm.lookup(a.ptr).device, vpmm.lookup(b.ptr).device) == (0, 1) and live() == MIB
            assert reaches(1, a.ptr) and reaches(0, b.ptr)
            vpmm.warp.disable()
            raises(AssertionError, "Warp's own allocator", warp.empty, MIB)
        """, VPMM_HOST_DEVICES="2")

    def test_old(self):
        self.program("""
            del warp.set_cuda_allocator
            raises(RuntimeError, "1.13", vpmm.warp.enable)
        """)

    def test_stream(self):
        # Freed on the stream of the allocation, wherever the last reference goes.
        self.program("""
            vpmm.warp.enable()
            stream = Stream()
            with warp.ScopedStream(stream):
                a = warp.empty(4 * MIB)
            assert lib.vpmm_host_stream_submit(stream.cuda_stream) == 0
            address = a.ptr
            del a
            b = warp.empty(4 * MIB)
            assert b.ptr != address or is_blocked(None)
            assert lib.vpmm_host_stream_complete(stream.cuda_stream, 1 << 20) == 0
        """)

    def test_stream_life(self):
        # A stream lives as long as memory that was allocated on it, and the pool forgets it with its end.
        self.program("""
            vpmm.warp.enable()
            keep = warp.empty(MIB)
            known = vpmm.stats().streams
            for i in range(20):
                stream = Stream()
                with warp.ScopedStream(stream):
                    a = warp.empty(4 * MIB)
                assert lib.vpmm_host_stream_submit(stream.cuda_stream) == 0
                assert lib.vpmm_host_stream_complete(stream.cuda_stream, 1) == 0
                handle = stream.cuda_stream
                del stream
                assert handle not in Stream.destroyed
                del a
                assert handle in Stream.destroyed
                Stream.destroyed.clear()
                assert vpmm.stats().streams <= known, (i, vpmm.stats().streams)
        """)

    def test_out_of_memory(self):
        self.program("""
            vpmm.warp.enable()
            error = raises(RuntimeError, "on device 'cuda:0'", warp.empty, 80 * MIB)
            assert isinstance(error, (MemoryError, vpmm.warp.OutOfMemoryError)) and "vpmm_malloc" in str(error)
            warp.empty(40 * MIB)
        """)

    def test_example(self):
        self.assertIn("bytes", self.example("warp/fill.py"))


if __name__ == "__main__":
    unittest.main()
