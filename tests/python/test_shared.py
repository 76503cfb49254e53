# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the modules of the frameworks have in common: one pool, and frees that cannot be done yet."""

import os
import unittest

from programs import ProgramTest


class SharedTest(ProgramTest):
    def test_one_pool(self):
        # What one framework has freed serves the others.
        self.program("""
            import cupy, hosts, torch, warp
            import vpmm.core, vpmm.cupy, vpmm.numba, vpmm.torch, vpmm.warp
            from cuda.core import Device
            from numba import cuda
            vpmm.torch.enable()
            vpmm.cupy.enable()
            vpmm.numba.enable()
            vpmm.warp.enable()
            device = Device()
            device.memory_resource = vpmm.core.MemoryResource()
            size = 40 * MIB
            for make in (torch.cuda.Tensor, cupy.empty, cuda.device_array, warp.empty,
                         lambda size: device.allocate(size, stream=device.default_stream)) * 2:
                block = make(size)
                assert live() == size and vpmm.stats().creates <= vpmm.stats().extents + vpmm.stats().releases
                del block
                assert live() == 0
            assert vpmm.stats().peak_taken < 2 * size
            assert torch.cuda.max_memory_allocated() == size
        """)

    def test_kept(self):
        # A free that cannot be done is done later, on the stream of the block, which lives until then.
        self.program("""
            import errno
            import cupy, vpmm.cupy
            from vpmm import _blocks
            class Busy:
                result = -errno.EBUSY
                def __getattr__(self, name):
                    return getattr(lib, name)
                def vpmm_free(self, pool, address, stream):
                    return self.result or lib.vpmm_free(pool, address, stream)
            vpmm.cupy.enable()
            keep = cupy.empty(1)
            for result in (-errno.EBUSY, -errno.ENOMEM):
                stream = cupy.cuda.Stream()
                with stream:
                    a = cupy.empty(4 * MIB)
                handle = stream.ptr
                _blocks.lib = Busy()
                Busy.result = result
                del a, stream
                cupy.empty(2)
                assert live() == 4 * MIB + 1 + 2 and not cupy.cuda.Stream.destroyed
                Busy.result = 0
                b = cupy.empty(4 * MIB)
                assert live() == 4 * MIB + 1 and cupy.cuda.Stream.destroyed == [handle]
                cupy.cuda.Stream.destroyed.clear()
                del b
            vpmm.default_pool().check()
        """)

    def test_stream_gone(self):
        # A stream of others is destroyed before the memory that was allocated on it: that comes back all the same.
        self.program("""
            import hosts
            from vpmm import _blocks
            stream = hosts.create()
            blocks = [_blocks.Block(MIB, _blocks.Stream(stream)) for _ in range(40)]
            hosts.destroy(stream)
            blocks.clear()
            assert live() == 0
            _blocks.Block(50 * MIB, _blocks.Stream(0))
            vpmm.default_pool().check()
        """)

    def test_driver(self):
        # With a driver, the suite's own: which device is current, and the one before afterwards.
        driver = os.path.abspath(os.path.join(os.environ["top_builddir"], "tests", "cuda", "fake", ".libs"))
        if not os.path.exists(os.path.join(driver, "libcuda.so.1")):
            self.skipTest("there is no driver")
        self.program("""
            import ctypes
            from vpmm import _blocks
            ctypes.CDLL("libcuda.so.1")
            driver = _blocks._find_driver()
            assert driver.current() is None
            with _blocks.on_device(1):
                assert driver.current() == vpmm.info().device == 1 and vpmm.info().backend == "cuda"
                with _blocks.on_device(1):
                    address = _blocks.allocate(4 * MIB, 0)
                with _blocks.on_device(0):
                    assert driver.current() == 0
                assert driver.current() == 1
            assert driver.current() is None and vpmm.lookup(address).device == 1
            _blocks.meet(1)
            _blocks.meet(0)
            assert vpmm.info().peers == (1,)
            _blocks.release(address, 0)
            def enter(device):
                with _blocks.on_device(device):
                    raise AssertionError("entered")
            raises(RuntimeError, "device 2 cannot be made current", enter, 2)
            assert driver.current() is None
        """, VPMM_BACKEND="cuda", VPMM_HOST_DEVICES="2",
            LD_LIBRARY_PATH=driver + os.pathsep + os.environ.get("LD_LIBRARY_PATH", ""))

    def test_sizes(self):
        # Whatever is a whole number.
        self.program("""
            from vpmm import _blocks
            class Four:
                def __index__(self):
                    return 4 * MIB
            address = _blocks.allocate(Four(), 0)
            assert live() == 4 * MIB
            _blocks.release(address, 0)
            raises(TypeError, "", _blocks.allocate, 1.5, 0)
            raises(vpmm.Error, "no allocation", _blocks.release, 4096, 0)
        """)


if __name__ == "__main__":
    unittest.main()
