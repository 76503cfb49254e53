# SPDX-License-Identifier: LGPL-2.1-or-later
"""vpmm.cupy with a CuPy of our own."""

import unittest

from programs import ProgramTest


class CupyTest(ProgramTest):
    START = """
import vpmm.cupy
import cupy
from cupy.cuda import Stream
"""

    def test_import(self):
        # Not before it is needed.
        self.run_python(["-c", "import sys, vpmm.cupy; assert 'cupy' not in sys.modules"])

    def test_late(self):
        # What goes at the interpreter's end, after the package has gone, goes quietly, and a stream is destroyed.
        out = self.program("""
            import os
            Stream.__del__ = lambda stream, write=os.write: stream.ptr > 2 and write(1, b"destroyed")
            vpmm.cupy.enable()
            stream = Stream()
            with stream:
                array = cupy.empty(MIB)
            threading.kept = [array, stream]
            del array, stream
        """)
        self.assertEqual(out, "destroyed")

    def test_memory(self):
        self.program("""
            assert not vpmm.cupy.is_enabled()
            vpmm.cupy.enable()
            vpmm.cupy.enable()
            assert vpmm.cupy.is_enabled() and cupy._Pool.freed == 1
            a = cupy.full(3 * MIB + 5, 7)
            assert a.sum() == 7 * (3 * MIB + 5) and live() == 3 * MIB + 5
            assert vpmm.lookup(a.data.ptr).base == a.data.ptr and a.data.device_id == 0
            b = a.data
            del a
            assert live() == 3 * MIB + 5
            del b
            assert live() == 0
            assert cupy.empty(0).data.ptr == 0 and live() == 0
            raises(ValueError, "-1 bytes", cupy.empty, -1)
            vpmm.default_pool().check()
        """)

    def test_disable(self):
        # CuPy has its own allocator again, and what was allocated stays.
        self.program("""
            vpmm.cupy.disable()
            before = cupy.cuda.get_allocator()
            vpmm.cupy.enable()
            a = cupy.empty(MIB)
            vpmm.cupy.disable()
            assert not vpmm.cupy.is_enabled() and cupy.cuda.get_allocator() == before
            raises(AssertionError, "CuPy's own pool", cupy.empty, MIB)
            assert live() == MIB
            del a
            assert live() == 0
            vpmm.cupy.enable()
            cupy.empty(1)
        """)

    def test_replaced(self):
        # The program sets an allocator of its own: it is in use, can be replaced again, and is given back.
        self.program("""
            vpmm.cupy.enable()
            def own(size):
                raise AssertionError(f"{size} bytes from the program's own")
            cupy.cuda.set_allocator(own)
            assert not vpmm.cupy.is_enabled()
            vpmm.cupy.enable()
            assert vpmm.cupy.is_enabled()
            a = cupy.empty(MIB)
            assert live() == MIB
            vpmm.cupy.disable()
            raises(AssertionError, "the program's own", cupy.empty, MIB)
            vpmm.cupy.enable()
            cupy.cuda.set_allocator(own)
            vpmm.cupy.disable()
            assert cupy.cuda.get_allocator() is own
        """)

    def test_scope(self):
        # For a part of a program, without enable(), which is not to be called there.
        self.program("""
            with cupy.cuda.using_allocator(vpmm.cupy.allocator):
                a = cupy.empty(MIB)
                raises(ValueError, "using_allocator", vpmm.cupy.enable)
            assert live() == MIB and not vpmm.cupy.is_enabled() and cupy._Pool.freed == 0
            raises(AssertionError, "CuPy's own pool", cupy.empty, MIB)
        """)

    def test_stream(self):
        # Freed on the stream of the allocation, wherever the last reference goes: that alone may have it at once.
        self.program("""
            vpmm.cupy.enable()
            stream = Stream(non_blocking=True)
            with stream:
                a = cupy.empty(4 * MIB)
            assert lib.vpmm_host_stream_submit(stream.ptr) == 0
            address = a.data.ptr
            del a
            b = cupy.empty(4 * MIB)
            assert b.data.ptr != address or is_blocked(None)
            with stream:
                c = cupy.empty(4 * MIB)
            assert c.data.ptr == address or b.data.ptr == address
            assert lib.vpmm_host_stream_complete(stream.ptr, 1 << 20) == 0
        """)

    def test_stream_life(self):
        # A stream lives as long as memory that was allocated on it, and the pool forgets it with its end.
        self.program("""
            vpmm.cupy.enable()
            keep = cupy.empty(MIB)
            known = vpmm.stats().streams
            for i in range(20):
                stream = Stream(non_blocking=True)
                with stream:
                    a = cupy.empty(4 * MIB)
                assert lib.vpmm_host_stream_submit(stream.ptr) == 0
                assert lib.vpmm_host_stream_complete(stream.ptr, 1) == 0
                handle = stream.ptr
                del stream
                assert handle not in Stream.destroyed
                del a
                assert handle in Stream.destroyed
                Stream.destroyed.clear()
                assert vpmm.stats().streams <= known, (i, vpmm.stats().streams)
        """)

    def test_garbage(self):
        # In a cycle, the stream may be destroyed before the memory is freed.
        self.program("""
            vpmm.cupy.enable()
            gc.disable()
            stream = Stream()
            with stream:
                stream.array = cupy.empty(4 * MIB)
            del stream
            assert live() == 4 * MIB
            gc.collect()
            assert live() == 0 and len(Stream.destroyed) == 1
            vpmm.default_pool().check()
        """)

    def test_thread_stream(self):
        # The per-thread stream of another thread has no handle here, so the free is behind everything.
        self.program("""
            vpmm.cupy.enable()
            made, go, done = [], threading.Event(), threading.Event()
            def other():
                with Stream.ptds:
                    made.append(cupy.empty(4 * MIB))
                assert lib.vpmm_host_stream_submit(2) == 0
                done.set()
                go.wait()
                assert lib.vpmm_host_stream_complete(2, 1 << 20) == 0
            thread = threading.Thread(target=other, daemon=True)
            thread.start()
            done.wait()
            address = made[0].data.ptr
            made.clear()
            with Stream.ptds:
                b = cupy.empty(4 * MIB)
            assert b.data.ptr != address or is_blocked(2)
            go.set()
            thread.join()
        """)

    def test_out_of_memory(self):
        # CuPy's exception, with the library's reason; garbage is collected before.
        self.program("""
            import pickle
            vpmm.cupy.enable()
            error = raises(cupy.cuda.memory.OutOfMemoryError, "vpmm_malloc", cupy.empty, 80 * MIB)
            assert isinstance(error, MemoryError) and isinstance(error.__cause__, vpmm.OutOfMemoryError)
            assert "83,886,080 bytes" in str(error) and type(pickle.loads(pickle.dumps(error))) is type(error)
            a = [cupy.empty(40 * MIB)]
            raises(cupy.cuda.memory.OutOfMemoryError, "", cupy.empty, 40 * MIB)
            a.append(a)
            del a
            b = cupy.empty(40 * MIB)
            assert live() == 40 * MIB
        """)

    def test_devices(self):
        self.program("""
            vpmm.cupy.enable()
            with cupy.cuda.Device(1):
                a = cupy.empty(4 * MIB)
                assert live() == 4 * MIB
                stream = Stream()
                with stream:
                    b = cupy.empty(MIB)
                known = vpmm.stats().streams
            assert live() == 0 and a.data.device_id == 1 and vpmm.lookup(a.data.ptr).device == 1
            del a, b, stream
            with cupy.cuda.Device(1):
                assert live() == 0 and vpmm.stats().streams < known
        """, VPMM_HOST_DEVICES="2")

    def test_peers(self):
        # Devices that are in use reach each other's memory, as copies between them want it.
        self.program("""
            vpmm.cupy.enable()
            a = cupy.empty(4 * MIB)
            assert not reaches(1, a.data.ptr)
            with cupy.cuda.Device(1):
                b = cupy.empty(4 * MIB)
                vpmm.default_pool().set_peers([0, 2])
            c = cupy.empty(8 * MIB)
            assert reaches(1, a.data.ptr) and reaches(0, b.data.ptr) and reaches(1, c.data.ptr)
            assert not reaches(2, a.data.ptr)
            with cupy.cuda.Device(2):
                d = cupy.empty(MIB)
            assert all(reaches(i, x.data.ptr) for i in range(3) for x in (a, b, c, d))
        """, VPMM_HOST_DEVICES="3")

    def test_graph(self):
        # Memory of a capture is the graph's until that is retired.
        self.program("""
            vpmm.cupy.enable()
            stream = Stream(non_blocking=True)
            with stream:
                stream.begin_capture()
                a = cupy.empty(20 * MIB)
                del a
                graph = stream.end_capture()
            graph.launch(stream)
            assert vpmm.trim() == 0 and vpmm.stats().mapped >= 20 * MIB
            raises(cupy.cuda.memory.OutOfMemoryError, "", cupy.empty, 50 * MIB)
            raises(ValueError, "no graph", vpmm.cupy.retire, stream)
            vpmm.cupy.retire(graph, stream)
            raises(ValueError, "no graph", vpmm.cupy.retire, graph)
            b = cupy.empty(50 * MIB)
        """)

    def test_graph_of_another_device(self):
        # Whichever device is current when the capture begins.
        self.program("""
            vpmm.cupy.enable()
            cupy.empty(1)
            with cupy.cuda.Device(1):
                stream = Stream(non_blocking=True)
            stream.begin_capture()
            with cupy.cuda.Device(1), stream:
                a = cupy.empty(20 * MIB)
                del a
            graph = stream.end_capture()
            vpmm.cupy.retire(graph, stream)
            with cupy.cuda.Device(1):
                assert vpmm.trim() == 20 * MIB
        """, VPMM_HOST_DEVICES="2")

    def test_failed_capture(self):
        # Its memory comes back at once, as there is no graph.
        self.program("""
            vpmm.cupy.enable()
            stream, other = Stream(), Stream()
            with stream:
                stream.begin_capture()
                a = cupy.empty(40 * MIB)
                # Invalidates the capture.
                assert lib.vpmm_host_stream_wait(other.ptr, stream.ptr) == 0
                assert lib.vpmm_host_stream_destroy(other.ptr) == 0
                other.ptr = 0
                del a
                raises(OSError, "", stream.end_capture)
            b = cupy.empty(40 * MIB)
            assert live() == 40 * MIB
            vpmm.default_pool().check()
        """)

    def test_failed_twice(self):
        # The error is that of CuPy, whatever becomes of the memory.
        self.program("""
            vpmm.cupy.enable()
            def refuse(*_arguments):
                raise vpmm.Error(5, "the device is gone")
            vpmm.cupy.Calls.retire_graph = refuse
            stream = Stream()
            stream.begin_capture()
            assert lib.vpmm_host_stream_submit(None) < 0
            try:
                stream.end_capture()
                raise AssertionError("no error")
            except OSError as error:
                assert "gone" not in str(error), error
        """)

    def test_rocm(self):
        self.program("""
            cupy.cuda.runtime.is_hip = True
            raises(RuntimeError, "ROCm", vpmm.cupy.enable)
            assert not vpmm.cupy.is_enabled()
        """)

    def test_fork(self):
        # Arrays of the parent that a child drops leave the parent's alone, and say nothing.
        self.program("""
            import os
            vpmm.cupy.enable()
            a = cupy.full(MIB, 3)
            child = os.fork()
            if not child:
                del a
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert a.sum() == 3 * MIB and live() == MIB
        """)

    def test_example(self):
        said = self.example("cupy/streams.py")
        self.assertIn("bytes", said)


if __name__ == "__main__":
    unittest.main()
