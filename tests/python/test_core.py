# SPDX-License-Identifier: LGPL-2.1-or-later
"""vpmm.core with a cuda.core of our own, in three versions of its interface."""

import unittest

from programs import ProgramTest

VERSIONS = "1.2", "1.0", "0.1"


class CoreTest(ProgramTest):
    START = """
import os
if os.environ.get("FAKE_CUDA_CORE") == "0.1":
    from cuda.core.experimental import Buffer, Device, MemoryResource, Stream
else:
    from cuda.core import Buffer, Device, MemoryResource, Stream
import vpmm.core
device = Device()
device.set_current()
device.memory_resource = vpmm.core.MemoryResource()

def handle(stream):
    return stream.__cuda_stream__()[1]
"""

    def test_memory(self):
        for version in VERSIONS:
            self.program("""
                resource = device.memory_resource
                assert isinstance(resource, MemoryResource) and resource.device_id == 0
                assert resource.is_device_accessible and not (resource.is_host_accessible or resource.is_managed)
                stream = device.create_stream()
                a = device.allocate(3 * MIB, stream=stream)
                assert isinstance(a, Buffer) and a.size == live() == 3 * MIB and a.memory_resource is resource
                assert vpmm.lookup(a.handle).base == a.handle
                a.fill(7, stream=stream)
                b = a.copy_to(stream=stream)
                del a
                assert live() == 3 * MIB
                b.close()
                b.close()
                assert live() == 0
                c = resource.allocate(MIB)
                assert live() == MIB
                c.close(stream)
                assert live() == 0
                assert resource.allocate(0, stream=stream).handle == 0 and resource._streams == {}
                raises(ValueError, "-1 bytes", resource.allocate, -1, stream=stream)
                raises(ValueError, "no address", resource.deallocate, 4096, 1, stream=stream)
                raises(ValueError, "no address", resource.deallocate, 4096, 1)
                vpmm.default_pool().check()
            """, FAKE_CUDA_CORE=version)

    def test_stream(self):
        # Without a stream of its own, a close is behind the work of the stream of the allocation.
        for version in VERSIONS:
            self.program("""
                stream, other = device.create_stream(), device.create_stream()
                a = device.allocate(4 * MIB, stream=stream)
                assert lib.vpmm_host_stream_submit(handle(stream)) == 0
                address = a.handle
                del a
                for late in None, other:
                    b = device.memory_resource.allocate(4 * MIB, stream=late)
                    assert b.handle != address or is_blocked(handle(late) if late else None)
                assert lib.vpmm_host_stream_complete(handle(stream), 1 << 20) == 0
            """, FAKE_CUDA_CORE=version)

    def test_close_stream(self):
        # With a stream, which the caller has put behind the other, that stream alone counts.
        self.program("""
            stream, other = device.create_stream(), device.create_stream()
            a = device.allocate(4 * MIB, stream=stream)
            assert lib.vpmm_host_stream_submit(handle(other)) == 0
            address = a.handle
            a.close(other)
            b = device.allocate(4 * MIB, stream=stream)
            assert b.handle != address or is_blocked(handle(stream))
            assert lib.vpmm_host_stream_complete(handle(other), 1 << 20) == 0
        """)
        self.program("""
            stream, other = device.create_stream(), device.create_stream()
            a = device.allocate(4 * MIB, stream=stream)
            assert lib.vpmm_host_stream_submit(handle(stream)) == 0
            address = a.handle
            a.close(other)
            b = device.allocate(4 * MIB, stream=other)
            assert b.handle == address and not is_blocked(handle(other))
            assert lib.vpmm_host_stream_complete(handle(stream), 1 << 20) == 0
        """)

    def test_destroyed_stream(self):
        # A buffer can outlive its stream.
        for version in VERSIONS:
            self.program("""
                stream = device.create_stream()
                a = device.allocate(4 * MIB, stream=stream)
                stream.close()
                del a
                assert live() == 0
                vpmm.default_pool().check()
            """, FAKE_CUDA_CORE=version)

    def test_closed_stream(self):
        # Nor does the order of the work suffer from that: whoever gets the memory next is behind it.
        for version in VERSIONS:
            self.program("""
                import hosts
                stream, other = device.create_stream(), device.create_stream()
                a = device.allocate(4 * MIB, stream=stream)
                address, number = a.handle, handle(stream)
                kept = stream._handle
                assert lib.vpmm_host_stream_submit(number) == 0
                stream.close()
                del a
                assert live() == 0 and device.memory_resource._streams == {}
                b = device.allocate(4 * MIB, stream=other)
                assert b.handle != address or is_blocked(handle(other))
                assert lib.vpmm_host_stream_complete(number, 1 << 20) == 0
                vpmm.default_pool().check()
            """, FAKE_CUDA_CORE=version)

    def test_wrapped(self):
        # A buffer that is made of an address is freed as any other, whichever resource or call the address is from.
        for version in VERSIONS[:2]:
            self.program("""
                stream = device.create_stream()
                second = vpmm.core.MemoryResource()
                first = device.allocate(4 * MIB, stream=stream)
                # The first object goes without a free, as one that its owner has released.
                first.memory_resource, address = None, first.handle
                a = Buffer.from_handle(address, 4 * MIB, mr=second)
                b = Buffer.from_handle(vpmm.default_pool().malloc(MIB, stream), MIB, mr=second)
                assert live() == 5 * MIB
                assert lib.vpmm_host_stream_submit(handle(stream)) == 0
                own = b.handle
                a.close(stream)
                b.close(stream)
                assert live() == 0 and vpmm.core.MemoryResource._streams == {}
                other = device.create_stream()
                c = device.allocate(MIB, stream=other)
                assert c.handle not in (own, address) or is_blocked(handle(other))
                # A part of a block cannot be freed.
                d = device.allocate(MIB, stream=stream)
                raises(ValueError, "no address", second.deallocate, d.handle + 512, 512, stream=stream)
                assert live() == 2 * MIB
                assert lib.vpmm_host_stream_complete(handle(stream), 1 << 20) == 0
                vpmm.default_pool().check()
            """, FAKE_CUDA_CORE=version)

    def test_unnamed(self):
        # The stream of the work cannot be named: nothing is lost, and the memory is behind all work.
        self.program("""
            import errno
            class Busy:
                def __getattr__(self, name):
                    return getattr(lib, name)
                def vpmm_use(self, pool, address, stream):
                    return -errno.EBUSY
            stream, other = device.create_stream(), device.create_stream()
            a = device.allocate(4 * MIB, stream=stream)
            assert lib.vpmm_host_stream_submit(handle(stream)) == 0
            address = a.handle
            vpmm.core.lib = Busy()
            a.close(other)
            assert live() == 0
            b = device.allocate(4 * MIB, stream=other)
            assert b.handle != address or is_blocked(handle(other))
            assert lib.vpmm_host_stream_complete(handle(stream), 1 << 20) == 0
            assert lib.vpmm_host_stream_complete(handle(other), 1 << 20) == 0
        """, FAKE_CUDA_CORE="1.0")

    def test_graph_builder(self):
        self.program("""
            from cuda.core import GraphBuilder
            import hosts
            stream = device.create_stream()
            builder = GraphBuilder(stream)
            hosts.begin_capture(handle(stream))
            capture = vpmm.default_pool().capture_id(stream)
            a = device.allocate(20 * MIB, stream=builder)
            a.close(builder)
            graph = hosts.end_capture(handle(stream))
            assert vpmm.trim() == 0 and vpmm.stats().mapped >= 20 * MIB
            hosts.destroy_graph(graph)
            vpmm.default_pool().retire_graph(capture, stream)
            assert vpmm.trim() >= 20 * MIB
        """)

    def test_closed_builder(self):
        # The buffer outlives the builder, which no longer has a stream then.
        self.program("""
            from cuda.core import GraphBuilder
            import hosts
            stream = device.create_stream()
            builder = GraphBuilder(stream)
            hosts.begin_capture(handle(stream))
            capture = vpmm.default_pool().capture_id(stream)
            a, b = (device.allocate(20 * MIB, stream=builder) for _ in range(2))
            hosts.destroy_graph(hosts.end_capture(handle(stream)))
            builder.close()
            del a
            b.close(stream)
            vpmm.default_pool().retire_graph(capture, stream)
            assert live() == 0 and vpmm.trim() >= 40 * MIB
        """)

    def test_no_buffer(self):
        # Nothing is lost where the framework makes no buffer of the memory.
        for version in VERSIONS[:2]:
            self.program("""
                stream = device.create_stream()
                raises(RuntimeError, "no buffer", device.allocate, 13, stream=stream)
                assert live() == 0 and device.memory_resource._streams == {}
            """, FAKE_CUDA_CORE=version)

    def test_out_of_memory(self):
        self.program("""
            stream = device.create_stream()
            raises(vpmm.OutOfMemoryError, "vpmm_malloc", device.allocate, 80 * MIB, stream=stream)
            raises(MemoryError, "vpmm_malloc", device.allocate, 80 * MIB, stream=stream)
            device.allocate(40 * MIB, stream=stream)
        """)

    def test_devices(self):
        # From the device of the resource, whichever is current.
        self.program("""
            second = Device(1)
            second.memory_resource = vpmm.core.MemoryResource(second)
            a = second.allocate(4 * MIB, stream=second.create_stream())
            assert vpmm.lookup(a.handle).device == 1 and vpmm.info().device == 0
            assert vpmm.core.MemoryResource(1).device_id == second.memory_resource.device_id == 1
            assert device.memory_resource.device_id == 0 and live() == 0
            b = device.allocate(4 * MIB, stream=device.create_stream())
            assert reaches(0, a.handle) and reaches(1, b.handle)
            second.set_current()
            assert live() == 4 * MIB
            del a
            assert live() == 0
        """, VPMM_HOST_DEVICES="2")

    def test_example(self):
        self.assertIn("bytes", self.example("core/copy.py"))


if __name__ == "__main__":
    unittest.main()
