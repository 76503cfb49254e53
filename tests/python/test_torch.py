# SPDX-License-Identifier: LGPL-2.1-or-later
"""vpmm.torch with a PyTorch of our own, each in a process that has not used it yet."""

import os
import re
import subprocess
import sys
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

START = """
import torch, vpmm, vpmm.torch
from torch.cuda import Tensor
MIB = 1 << 20
def raises(text, call, *arguments):
    try:
        call(*arguments)
    except RuntimeError as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no error with {text!r}")
"""


class TorchTest(unittest.TestCase):
    def program(self, text, **environment):
        """Runs a program, which fails by an exception."""
        path = os.pathsep.join([os.path.join(HERE, "fake"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run([sys.executable, "-c", START + textwrap.dedent(text)], capture_output=True, text=True,
                              check=False, env={**os.environ, "PYTHONPATH": path, "VPMM_HOST_CAPACITY": "64M",
                                                "VPMM_TORCH_BUILD": "never", **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stderr)
        return done.stdout

    def test_memory(self):
        # What torch.cuda tells of memory, as a program allocates and frees.
        self.program("""
            assert not vpmm.torch.is_enabled()
            vpmm.torch.enable()
            vpmm.torch.enable()
            assert vpmm.torch.is_enabled()
            assert torch.cuda.memory_allocated() == 0 and torch.cuda.memory_stats() == {}
            a, b = Tensor(3 * MIB), Tensor(5)
            assert torch.cuda.memory_allocated() == 3 * MIB + 512, torch.cuda.memory_allocated()
            assert torch.cuda.memory.memory_allocated() == torch.cuda.memory_allocated()
            assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
            stats = torch.cuda.memory_stats()
            assert stats["requested_bytes.all.current"] == 3 * MIB + 5
            assert stats["allocation.all.current"] == stats["allocation.all.allocated"] == 2
            assert stats["segment.all.current"] >= 1 and stats["num_device_alloc"] >= 1
            del a
            assert torch.cuda.memory_allocated() == 512
            assert torch.cuda.max_memory_allocated() == 3 * MIB + 512
            stats = torch.cuda.memory_stats()
            assert stats["allocation.all.freed"] == 1 and stats["requested_bytes.all.freed"] == 3 * MIB
            assert stats["allocation.all.peak"] == 2
            torch.cuda.reset_peak_memory_stats()
            assert torch.cuda.max_memory_allocated() == 512
            assert torch.cuda.memory_stats()["allocation.all.peak"] == 1
            torch.cuda.reset_accumulated_memory_stats()
            stats = torch.cuda.memory_stats()
            assert stats["allocation.all.freed"] == 0 and stats["allocation.all.current"] == 1
            del b
            b = Tensor(5)
            assert torch.cuda.memory_stats()["allocation.all.freed"] == 1
            torch.cuda.reset_accumulated_memory_stats()
            assert torch.cuda.memory_stats()["allocation.all.freed"] == 0
            reserved = torch.cuda.memory_reserved()
            del b
            torch.cuda.empty_cache()
            assert torch.cuda.memory_allocated() == 0 and torch.cuda.memory_reserved() < reserved
            assert torch.cuda.max_memory_reserved() == reserved
        """)

    def test_settings(self):
        # Those of PyTorch's own allocator are named once, in the log.
        self.program("""
            import logging
            lines = []
            handler = logging.Handler()
            handler.emit = lambda record: lines.append(record.getMessage())
            logging.getLogger("vpmm.torch").addHandler(handler)
            vpmm.torch.enable()
            vpmm.torch.enable()
            assert lines == ["PYTORCH_CUDA_ALLOC_CONF: roundup_power2_divisions, expandable_segments of PyTorch's own "
                             "allocator has no effect with libvpmm"], lines
        """, PYTORCH_CUDA_ALLOC_CONF="roundup_power2_divisions:[64:8,>:1], expandable_segments:True")

    def test_backend(self):
        # PyTorch checks that the allocator is the one which the settings name.
        for settings in "backend:native", "max_split_size_mb:64,backend:cudaMallocAsync":
            self.program("""
                import logging
                logging.disable()
                vpmm.torch.enable()
                block = Tensor(1000)
                assert torch.cuda.memory_allocated() == 1024
            """, PYTORCH_CUDA_ALLOC_CONF=settings)
        self.program("""
            raises("Unrecognized key", vpmm.torch.enable)
            assert not vpmm.torch.is_enabled()
        """, PYTORCH_CUDA_ALLOC_CONF="backend:native,nonsense:1")

    def test_registration(self):
        # What NCCL has registered must not be remapped, so that PyTorch does not register ordinary memory.
        for value, left in (("1", "0"), ("0", "0"), ("true", "0"), ("No", "No")):
            self.program(f"""
                import logging, os
                lines = []
                handler = logging.Handler()
                handler.emit = lambda record: lines.append(record.getMessage())
                logging.getLogger("vpmm.torch").addHandler(handler)
                vpmm.torch.enable()
                assert os.environ["TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"] == "{left}"
                assert len(lines) == ("{value}" != "{left}"), lines
                assert not lines or "torch.cuda.MemPool" in lines[0], lines
            """, TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=value)

    def test_keys(self):
        # Each key that torch.cuda.memory_summary() reads.
        self.program("""
            vpmm.torch.enable()
            Tensor(MIB)
            stats = torch.cuda.memory_stats()
            for metric in ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes",
                           "inactive_split_bytes", "allocation", "active", "segment", "inactive_split"):
                for pool in ("all", "small_pool", "large_pool"):
                    for kind in ("current", "peak", "allocated", "freed"):
                        assert stats[f"{metric}.{pool}.{kind}"] >= 0
            for metric in ("oversize_allocations", "oversize_segments"):
                for kind in ("current", "peak", "allocated", "freed"):
                    assert stats[f"{metric}.{kind}"] == 0
            assert stats["num_ooms"] == stats["num_alloc_retries"] == 0
        """)

    def test_stats(self):
        self.program("""
            raises("not enabled", vpmm.torch.stats)
            vpmm.torch.enable()
            for call in vpmm.torch.stats, vpmm.torch.counts, vpmm.torch.trim, vpmm.torch.dump:
                for kind, device in (ValueError, "cpu"), (ValueError, torch.device("cpu")), (TypeError, True):
                    try:
                        call(device)
                    except kind as error:
                        assert str(error).startswith(f"device={device!r} is no CUDA device"), error
                    else:
                        raise AssertionError(f"{call} takes {device!r}")
            for device in None, 1, "cuda", torch.device("cuda"):
                assert vpmm.torch.stats(device).mapped == 0
            # A question does not initialise CUDA: a program may fork yet.
            assert not torch.cuda.is_initialized()
            a = Tensor(2 * MIB)
            assert vpmm.torch.stats().requested == vpmm.torch.stats("cuda:0").requested == 2 * MIB
            assert vpmm.torch.stats(torch.device("cuda")) == vpmm.torch.stats(0)
            assert vpmm.torch.counts().allocs == 1 and vpmm.torch.counts(1).allocs == 0
            assert vpmm.stats().requested == 2 * MIB
            assert "[+" in vpmm.torch.dump() and vpmm.torch.dump(1) == ""
            del a
            assert vpmm.torch.trim() >= 2 * MIB
            for device in (-1, 64):
                try:
                    vpmm.torch.stats(device)
                except ValueError as error:
                    assert f"no device {device}" in str(error)
                else:
                    raise AssertionError(device)
        """, VPMM_HOST_DEVICES="2")

    def test_regions(self):
        # As users of torch_memory_saver know them, but for errors that are exceptions.
        self.program("""
            import ctypes, warnings
            raises("not enabled", vpmm.torch.region)
            raises("not enabled", vpmm.torch.pause)
            vpmm.torch.enable()
            with vpmm.torch.region("weights", enable_cpu_backup=True):
                a = Tensor(4 * MIB)
                with vpmm.torch.region():
                    b = Tensor(2 * MIB)
                    with vpmm.torch.disable():
                        c = Tensor(2 * MIB)
                d = Tensor(2 * MIB)
            ctypes.memset(a.address, 5, 4 * MIB)
            assert vpmm.torch.tag_stats("weights").live == 6 * MIB
            assert vpmm.torch.tag_stats("default").live == 2 * MIB
            vpmm.torch.pause_prepare("weights")
            for which in ("weights", None):
                vpmm.torch.pause(which)
                vpmm.torch.pause("weights")
                stats = vpmm.torch.tag_stats("weights")
                assert (stats.paused, stats.saved, stats.mapped) == (6 * MIB, 6 * MIB, 0), stats
                assert vpmm.torch.tag_stats("default").saved == 0
                try:
                    with vpmm.torch.region("weights"):
                        Tensor(1)
                except Exception as error:
                    assert "is paused" in str(error), error
                vpmm.torch.resume(which)
                vpmm.torch.resume()
                assert ctypes.string_at(a.address, 4 * MIB) == bytes([5]) * (4 * MIB)
            vpmm.torch.pause("never used")
            del a, b, d
        """)

    def test_region_arguments(self):
        self.program("""
            import warnings
            vpmm.torch.enable()
            warnings.simplefilter("error")
            for words, kind, text in (
                    ({"enable_cpu_backup": True, "enable_disk_backup": True}, AssertionError, "expected one"),
                    ({"cpu_backup_backend": "mmap"}, ValueError, "enable_cpu_backup"),
                    ({"enable_cpu_backup": True, "cpu_backup_backend": "tape"}, ValueError, "'tape'"),
                    ({"enable_disk_backup": True}, RuntimeWarning, "host memory")):
                try:
                    vpmm.torch.region("a", **words)
                    raise SystemError(words)
                except kind as error:
                    assert text in str(error), error
        """)

    def test_resume_without_memory(self):
        # What does not fit changes nothing, and does not end the process.
        self.program("""
            vpmm.torch.enable()
            with vpmm.torch.region("model"):
                a = Tensor(40 * MIB)
            vpmm.torch.pause("model")
            other = Tensor(40 * MIB)
            for _ in range(2):
                try:
                    vpmm.torch.resume("model")
                    raise SystemError
                except vpmm.OutOfMemoryError as error:
                    assert "model" in str(error), error
                assert vpmm.torch.tag_stats("model").paused == 40 * MIB
            del other
            vpmm.torch.resume("model")
            assert vpmm.torch.tag_stats("model").paused == 0
            del a
        """)

    def test_snapshot(self):
        # Segments are what is reserved, blocks what they are divided into, with what was asked for.
        self.program("""
            vpmm.torch.enable()
            a, b, c, d = Tensor(3 * MIB + 5), Tensor(5 * MIB), Tensor(1000), Tensor(10)
            del a
            segments = torch.cuda.memory_snapshot()
            assert sum(segment["total_size"] for segment in segments) == torch.cuda.memory_reserved()
            assert sum(segment["allocated_size"] for segment in segments) == torch.cuda.memory_allocated()
            assert sum(segment["requested_size"] for segment in segments) == 5 * MIB + 1010
            for segment in segments:
                address = segment["address"]
                for block in segment["blocks"]:
                    assert block["address"] == address and block["state"] in ("active_allocated", "inactive")
                    assert (block["requested_size"] == 0) == (block["state"] == "inactive")
                    address += block["size"]
                assert address == segment["address"] + segment["total_size"] and segment["device"] == 0
            held = {block["address"] for segment in segments for block in segment["blocks"]}
            assert {b.address, c.address, d.address} <= held
            assert torch._C._cuda_memorySnapshot(None)["device_traces"] == [[], []]
        """, VPMM_HOST_DEVICES="2")

    def test_graph(self):
        # What a capture has freed is the graph's: not allocated any more, but not free for others.
        self.program("""
            import ctypes
            from vpmm._library import lib
            vpmm.torch.enable()
            torch.cuda.init()
            stream, graph, id = ctypes.c_void_p(), ctypes.c_void_p(), torch._C.PoolId(1, 0)
            assert lib.vpmm_host_stream_create(ctypes.byref(stream)) == 0
            hooks = torch._C.current
            hooks.begin(0, id, None)
            assert lib.vpmm_host_capture_begin(stream) == 0
            hooks.free(hooks.alloc(4 * MIB, 0, stream), 4 * MIB, 0, stream)
            assert lib.vpmm_host_capture_end(stream, ctypes.byref(graph)) == 0
            hooks.end(0, id)
            stats = torch.cuda.memory_stats()
            assert torch.cuda.memory_allocated() == 0 and stats["active_bytes.all.current"] == 4 * MIB
            assert (vpmm.torch.counts().pools, vpmm.torch.counts().graphs) == (1, 1)
            hooks.release(0, id)
            assert torch.cuda.memory_stats()["active_bytes.all.current"] == 0
            assert (vpmm.torch.counts().pools, vpmm.torch.counts().graphs) == (0, 0)
        """)

    def test_failed_captures(self):
        # Of captures that fail PyTorch tells nothing: the memory of other graphs does not wait for their end.
        self.program("""
            import ctypes, hosts
            from vpmm._library import lib
            vpmm.torch.enable()
            torch.cuda.init()
            assert torch.cuda.CUDAGraph.capture_begin.__name__ == "capture_begin"
            streams = [hosts.create() for _ in range(3)]
            # One that does not begin leaves the one around it alone.
            around, other = torch.cuda.CUDAGraph(streams[2]), torch.cuda.CUDAGraph(streams[1])
            around.capture_begin()
            raises("Unknown", other.capture_begin, None, "never")
            assert vpmm.torch.counts().pools == 1
            around.capture_end()
            del around, other
            for fail in ("begin", "end", "nothing"):
                graph = torch.cuda.CUDAGraph(streams[0])
                graph.capture_begin()
                hooks = torch._C.current
                hooks.free(hooks.alloc(4 * MIB, 0, streams[0]), 4 * MIB, 0, streams[0])
                graph.capture_end()
                other = torch.cuda.CUDAGraph(streams[1])
                if fail == "begin":
                    raises("Unknown", other.capture_begin, None, "never")
                else:
                    other.capture_begin()
                if fail == "end":
                    assert lib.vpmm_host_stream_submit(None) < 0
                    try:
                        other.capture_end()
                        raise AssertionError("no error")
                    except OSError:
                        pass
                del graph
                stats = torch.cuda.memory_stats()
                assert stats["active_bytes.all.current"] == (4 * MIB if fail == "nothing" else 0), fail
                if fail == "nothing":
                    other.capture_end()
                del other
                assert torch.cuda.memory_stats()["active_bytes.all.current"] == 0
                assert (vpmm.torch.counts().pools, vpmm.torch.counts().graphs) == (0, 0)
        """)

    def test_late(self):
        self.program("""
            torch._C.initialized = True
            raises("comes too late", vpmm.torch.enable)
            assert not vpmm.torch.is_enabled() and torch._C.current is None
            torch._C.initialized = False
            torch.version.cuda = None
            raises("without CUDA", vpmm.torch.enable)
        """)

    def test_fork(self):
        # A child whose parent has used CUDA hears of that. One that needs nothing of it may call enable() again.
        self.program("""
            import os
            def in_child(call, *arguments):
                child = os.fork()
                if not child:
                    try:
                        call(*arguments)
                        os._exit(0)
                    finally:
                        os._exit(1)
                assert os.waitpid(child, 0)[1] == 0
            # Before CUDA is used, each can have it.
            in_child(vpmm.torch.enable)
            torch._C.initialized, torch._C.initialized_in = True, os.getpid()
            in_child(raises, "forked after PyTorch", vpmm.torch.enable)
            torch._C.initialized = False
            vpmm.torch.enable()
            torch.cuda.init()
            in_child(vpmm.torch.enable)
        """)

    def test_again(self):
        # A second call is no error, unless it wants another object.
        self.program("""
            import shutil, vpmm._library as library
            vpmm.torch.enable()
            own = vpmm.torch.find_plugin()
            Tensor(MIB)
            vpmm.torch.enable(library=own)
            raises("already", vpmm.torch.enable, library.__file__)
            for other in ("/nowhere/libvpmm-torch.so", ""):
                raises("already", vpmm.torch.enable, other)
            assert vpmm.torch.counts().allocs == 1
        """)

    def test_old(self):
        self.program("""
            del torch._C.Allocator.set_release_pool
            raises("2.2 or later", vpmm.torch.enable)
            assert not vpmm.torch.is_enabled() and torch._C.current is None
        """)

    def test_library(self):
        self.program("""
            try:
                vpmm.torch.enable(library="/nowhere\\0/libvpmm-torch.so")
            except ValueError as error:
                assert "library='/nowhere" in str(error) and "NUL" in str(error)
            try:
                vpmm.torch.enable(library="/nowhere/libvpmm-torch.so")
            except OSError as error:
                assert "/nowhere/libvpmm-torch.so" in str(error)
            else:
                raise AssertionError
            import os, vpmm._library as library
            other = os.path.join(library.directory(), library.SONAME)
            raises("no libvpmm-torch.so of this version", vpmm.torch.enable, other)
            assert not vpmm.torch.is_enabled()
            vpmm.torch.enable()
        """)

    def test_refusals(self):
        self.program("""
            torch.backends.cudnn.benchmark = True
            raises("benchmark = True does not work", vpmm.torch.enable)
            torch.backends.cudnn.benchmark = False
            vpmm.torch.enable()
            raises("benchmark = True does not work", setattr, torch.backends.cudnn, "benchmark", True)
            raises("benchmark = True does not work", torch.backends.cudnn.set_flags, True)
            torch.backends.cudnn.benchmark = False
            torch.backends.cudnn.set_flags(False)
            assert torch.backends.cudnn.benchmark is False
            raises("cannot be shared", torch.UntypedStorage()._share_cuda_)
            raises("vpmm.trace", torch._C._cuda_record_memory_history, "all", None)
            torch._C._cuda_record_memory_history(None, "all")
        """)

    def test_accelerator(self):
        self.program("""
            vpmm.torch.enable()
            a = Tensor(MIB)
            assert torch._C._accelerator_getDeviceStats(0)["allocated_bytes"]["all"]["current"] == MIB
            assert not hasattr(torch._C, "_accelerator_resetPeakStats")
        """)

    def test_no_function(self):
        self.program("""
            try:
                vpmm.torch.enable(on_pressure=5)
            except TypeError as error:
                assert str(error) == "on_pressure=5 is not a function", error
            else:
                raise AssertionError("5 is a function")
            assert not vpmm.torch.is_enabled()
        """)

    def test_exhausted(self):
        # Without PyTorch nothing can be thrown, so a null address comes of it; the count and the question are the same.
        self.program("""
            kept = []
            def give(device, size):
                asked.append((device, size))
                return bool(kept) and kept.pop() is not None
            asked = []
            vpmm.torch.enable(on_pressure=give)
            kept.append(Tensor(40 * MIB))
            a = Tensor(30 * MIB)
            assert a.address and asked == [(0, 30 * MIB)], asked
            assert torch.cuda.memory_stats()["num_alloc_retries"] == 1
            assert torch.cuda.memory_stats()["num_ooms"] == 0
        """)

    def test_warnings_raised(self):
        # As test runners have it. PyTorch's memory comes from the library by then, and the module knows.
        self.program("""
            import warnings
            asked = []
            warnings.simplefilter("error")
            try:
                vpmm.torch.enable(on_pressure=lambda device, size: asked.append(size))
            except RuntimeWarning as error:
                assert "CXX=nowhere is not there" in str(error), error
            else:
                raise AssertionError("no warning")
            assert vpmm.torch.is_enabled() and not vpmm.torch.is_whole()
            vpmm.torch.enable()
            a, b = Tensor(40 * MIB), Tensor(30 * MIB)
            assert torch.cuda.memory_allocated() == 40 * MIB
            assert asked == [30 * MIB]
        """, VPMM_TORCH_BUILD="auto", CXX="nowhere")

    def test_optimised(self):
        # What python -O leaves out is no check of arguments.
        self.program("""
            vpmm.torch.enable()
            try:
                vpmm.torch.region("both", True, True)
            except AssertionError:
                pass
            else:
                raise RuntimeError("no error")
        """, PYTHONOPTIMIZE="1")

    def test_pressure_raises(self):
        # It counts as no, and is not asked for ever.
        self.program("""
            import os, sys
            asked, printed = [], []
            def fail(device, size):
                asked.append(size)
                if len(asked) > 5:
                    os._exit(1)
                raise RuntimeError("no")
            sys.excepthook = lambda kind, error, trace: printed.append(error)
            vpmm.torch.enable(on_pressure=fail)
            a, b = Tensor(40 * MIB), Tensor(30 * MIB)
            assert a.address and not b.address
            assert asked == [30 * MIB] and [str(error) for error in printed] == ["no"]
            assert torch.cuda.memory_stats()["num_ooms"] == 1
        """)

    def test_fraction(self):
        self.program("""
            vpmm.torch.enable()
            torch.cuda.init()
            assert torch.cuda.get_per_process_memory_fraction() == 1.0
            torch.cuda.set_per_process_memory_fraction(0.25)
            assert torch.cuda.get_per_process_memory_fraction() == 0.25
            assert vpmm.torch.counts().limit == 16 * MIB
        """)

    def test_example(self):
        # A batch that is halved until it fits, and all steps with that; nothing is left of those that did not fit.
        path = os.pathsep.join([os.path.join(HERE, "fake"), os.environ.get("PYTHONPATH", "")])
        example = os.path.join(os.environ["top_srcdir"], "man", "examples", "torch", "train.py")
        done = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "PYTHONPATH": path, "VPMM_HOST_CAPACITY": "256M",
                                   "VPMM_TORCH_BUILD": "never"})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stderr)
        lines = done.stdout.splitlines()
        self.assertGreater(sum(line.startswith("CUDA out of memory.") for line in lines), 10)
        batch, allocated, reserved = map(int, re.match(
            r"a batch of (\d+): (\d+) bytes allocated, (\d+) reserved$", lines[-2]).groups())
        self.assertGreaterEqual(batch, 1024)
        self.assertTrue(allocated <= reserved <= 256 << 20)

    def test_trace(self):
        name = os.path.join(os.environ["work"], "torch.trace")
        self.program(f"""
            vpmm.trace({name!r})
            vpmm.torch.enable()
            Tensor(MIB)
            assert vpmm.info().trace == {name!r}
        """)
        with open(name, encoding="ascii") as trace:
            self.assertIn(f" {1 << 20} ", trace.read())


if __name__ == "__main__":
    unittest.main()
