# SPDX-License-Identifier: LGPL-2.1-or-later
"""vpmm.numba with a Numba of our own."""

import unittest

from programs import ProgramTest


class NumbaTest(ProgramTest):
    START = """
from numba import cuda
from numba.cuda.cudadrv import driver
"""

    def test_memory(self):
        text = """
            import vpmm.numba
            assert not vpmm.numba.is_enabled()
            vpmm.numba.enable()
            vpmm.numba.enable()
            assert vpmm.numba.is_enabled()
            a = cuda.to_device(b"abcdef")
            assert a.copy_to_host() == b"abcdef" and live() == 6
            # A part keeps the whole.
            b = a[2:4]
            del a
            assert b.copy_to_host() == b"cd" and live() == 6
            del b
            assert live() == 0
            assert cuda.device_array(0).gpu_data.device_pointer_value is None and live() == 0
            c = cuda.device_array(MIB)
            c.gpu_data.free()
            assert live() == 0
            vpmm.default_pool().check()
        """
        self.program(text)
        self.program(text, FAKE_NUMBA="old")

    def test_environment(self):
        self.program("""
            a = cuda.device_array(MIB)
            assert live() == MIB
            import vpmm.numba
            assert vpmm.numba.is_enabled()
            vpmm.numba.enable()
        """, NUMBA_CUDA_MEMORY_MANAGER="vpmm.numba")

    def test_late(self):
        # Numba would go on with its own manager, and say nothing.
        self.program("""
            import vpmm.numba
            cuda.current_context()
            raises(RuntimeError, "too late", vpmm.numba.enable)
            assert not vpmm.numba.is_enabled()
        """)

    def test_simulator(self):
        self.program("""
            def load():
                import vpmm.numba
            raises(ImportError, "NUMBA_ENABLE_CUDASIM", load)
        """, NUMBA_ENABLE_CUDASIM="1")

    def test_streams(self):
        # Nobody says which stream uses memory: a new block is idle, a free waits for all.
        self.program("""
            import hosts, vpmm.numba
            vpmm.numba.enable()
            s, t = hosts.create(), hosts.create()
            # Freed behind work of a stream that nobody named.
            a = cuda.device_array(4 * MIB)
            address = a.gpu_data.device_pointer_value
            assert lib.vpmm_host_stream_submit(s) == 0
            del a
            block = vpmm.default_pool().malloc(4 * MIB, t)
            assert block != address or is_blocked(t)
            # Pending work on what is free: not for any stream at once.
            vpmm.default_pool().free(block, t)
            b = cuda.device_array(4 * MIB)
            assert b.gpu_data.device_pointer_value != address
            assert not is_blocked(None)
            for stream in s, t:
                assert lib.vpmm_host_stream_complete(stream, 1 << 20) == 0
        """)

    def test_ahead(self):
        # A program that submits faster than the device works takes more memory, and waits where there is none.
        self.program("""
            import ctypes, hosts, vpmm.numba
            lib.vpmm_host_stream_submit_for.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64]
            lib.vpmm_host_time.restype = ctypes.c_uint64
            vpmm.numba.enable()
            stream = hosts.create()
            for step in range(20):
                a = cuda.device_array(4 * MIB)
                assert lib.vpmm_host_stream_submit_for(stream, 0, 1000) == 0
                del a
            assert vpmm.stats().peak_taken <= 16 * MIB
            assert 10000 <= lib.vpmm_host_time() <= 20000, lib.vpmm_host_time()
        """, VPMM_LIMIT="16M")

    def test_out_of_memory(self):
        self.program("""
            import pickle
            import vpmm.numba
            vpmm.numba.enable()
            error = raises(driver.CudaAPIError, "vpmm_malloc", cuda.device_array, 80 * MIB)
            assert error.code == 2 and isinstance(error, (MemoryError, vpmm.numba.OutOfMemoryError))
            assert isinstance(error.__cause__, vpmm.OutOfMemoryError)
            # As it gets from a worker process to its parent.
            again = pickle.loads(pickle.dumps(error))
            assert type(again) is type(error) and (again.code, str(again)) == (2, str(error))
            cuda.device_array(40 * MIB)
        """)

    def test_memory_info(self):
        self.program("""
            import vpmm.numba
            vpmm.numba.enable()
            free, total = cuda.current_context().get_memory_info()
            assert 0 < free <= total == 64 * MIB
            a = cuda.device_array(8 * MIB)
            assert cuda.current_context().get_memory_info().free == free - 8 * MIB
            del a
            # What the pool keeps can be had.
            assert vpmm.stats().mapped and cuda.current_context().get_memory_info() == (free, total)
            assert cuda.current_context().memory_manager.deallocations.memory_capacity == total
        """)
        self.program("""
            import vpmm.numba
            vpmm.numba.enable()
            a = cuda.device_array(4 * MIB)
            assert cuda.current_context().get_memory_info().free == 12 * MIB
        """, VPMM_LIMIT="16M")

    def test_ipc(self):
        self.program("""
            import vpmm.numba
            vpmm.numba.enable()
            a = cuda.device_array(MIB)
            raises(NotImplementedError, "IPC", a.get_ipc_handle)
        """)

    def test_defer(self):
        # Nothing is freed in between, but where memory runs out; what Numba frees itself is deferred too.
        self.program("""
            import vpmm.numba
            vpmm.numba.enable()
            a, b = cuda.device_array(MIB), cuda.device_array(40 * MIB)
            manager = cuda.current_context().memory_manager
            with cuda.defer_cleanup():
                with cuda.defer_cleanup():
                    del a
                assert live() == 41 * MIB and manager.deallocations.disabled == 1
            assert live() == 40 * MIB and manager.deallocations.disabled == 0
            with cuda.defer_cleanup():
                del b
                c = cuda.device_array(40 * MIB)
                assert live() == 40 * MIB
        """)

    def test_reset(self):
        # All memory of the context goes, and arrays that are dropped later free nothing any more.
        self.program("""
            import vpmm.numba
            vpmm.numba.enable()
            a = [cuda.device_array(4 * MIB), cuda.device_array(4 * MIB)]
            before = {array.gpu_data.device_pointer_value for array in a}
            manager = cuda.current_context().memory_manager
            manager.reset()
            assert live() == 0 and manager.deallocations.cleared == 1
            c = cuda.device_array(4 * MIB)
            assert c.gpu_data.device_pointer_value in before
            del a
            assert live() == 4 * MIB
            del c
            assert live() == 0
        """)

    def test_close(self):
        # The device is reset, and another context comes.
        self.program("""
            import vpmm.numba
            vpmm.numba.enable()
            a = cuda.device_array(MIB)
            cuda.close()
            b = cuda.device_array(2 * MIB)
            del a
            assert live() == 2 * MIB
            vpmm.default_pool().check()
        """)

    def test_peers(self):
        # Devices that are in use reach each other's memory, also after they were reset.
        self.program("""
            import vpmm.numba
            vpmm.numba.enable()
            for _ in range(2):
                arrays = []
                for device in range(2):
                    with cuda.gpus[device]:
                        arrays.append(cuda.device_array(MIB))
                a, b = (array.gpu_data.device_pointer_value for array in arrays)
                assert vpmm.lookup(b).device == 1 and reaches(1, a) and reaches(0, b)
                arrays.clear()
                cuda.close()
        """, VPMM_HOST_DEVICES="2")

    def test_example(self):
        self.assertIn("bytes", self.example("numba/scale.py"))


if __name__ == "__main__":
    unittest.main()
