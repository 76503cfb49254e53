# SPDX-License-Identifier: LGPL-2.1-or-later
"""The backend of vLLM's sleep mode, with what such backends stand on and a PyTorch of our own."""

import os
import re
import unittest

from programs import ProgramTest

START = """
import torch, vpmm.torch, vpmm.vllm
import vllm.device_allocator as allocators
from vllm.device_allocator.sleep_mode_backend import SleepModeBackendFactory
from torch.cuda import Tensor
vpmm.vllm.register()
"""


class VllmTest(ProgramTest):
    START = START

    def test_levels(self):
        # As a worker has it: what is to be kept is, and the rest is as if it were new.
        self.program("""
            backend = SleepModeBackendFactory.create_backend("vpmm")
            allocator = allocators.get_mem_allocator_instance()
            with allocator.use_memory_pool(tag="weights"):
                weights = Tensor(8 * MIB)
            with allocator.use_memory_pool("kv_cache"):
                cache = Tensor(16 * MIB)
            with allocator.use_memory_pool():
                other = Tensor(2 * MIB)
            ctypes.memset(weights.address, 7, 8 * MIB)
            assert allocator.get_current_usage() == 26 * MIB and backend.state() == "RUNNING"
            for level, saved in ((1, 8 * MIB), (2, 0)):
                backend.suspend(level)
                assert backend.state() == "SUSPENDED" and allocator.get_current_usage() == 0
                assert vpmm.torch.stats().saved == saved
                backend.resume(["weights"])
                assert allocator.get_current_usage() == 8 * MIB
                assert level == 2 or ctypes.string_at(weights.address, 8 * MIB) == bytes([7]) * (8 * MIB)
                backend.resume(["kv_cache"])
                backend.resume()
                assert allocator.get_current_usage() == 26 * MIB and backend.state() == "RUNNING"
            allocator.sleep()
            assert vpmm.torch.stats().saved == 2 * MIB
            allocator.wake_up()
            backend.discard(("kv_cache",))
            assert vpmm.torch.is_paused("kv_cache") and not vpmm.torch.is_paused("weights")
            backend.resume(["kv_cache"])
        """, VPMM_VLLM="1")

    def test_rest(self):
        # Free memory without a tag goes back as well, as that of activations, and so does garbage.
        self.program("""
            backend = SleepModeBackendFactory.create_backend("vpmm")
            with allocators.get_mem_allocator_instance().use_memory_pool("weights"):
                weights = Tensor(8 * MIB)
            for put_away in (backend.suspend, lambda: backend.discard(["weights"])):
                garbage = [Tensor(20 * MIB)]
                garbage.append(garbage)
                del garbage
                put_away()
                assert vpmm.torch.stats().mapped == 0
                backend.resume()
        """, VPMM_VLLM="1")

    def test_full(self):
        # Too little memory changes nothing, and the next try succeeds.
        self.program("""
            backend = SleepModeBackendFactory.create_backend("vpmm")
            allocator = allocators.get_mem_allocator_instance()
            for tag in ("weights", "kv_cache"):
                with allocator.use_memory_pool(tag):
                    globals()[tag] = Tensor(20 * MIB)
            backend.suspend(1)
            taken = Tensor(30 * MIB)
            try:
                backend.resume()
                raise SystemExit("no error")
            except vpmm.OutOfMemoryError:
                assert backend.state() == "SUSPENDED" and allocator.get_current_usage() == 0
            del taken
            backend.resume()
            assert allocator.get_current_usage() == 40 * MIB
        """, VPMM_VLLM="1")

    def test_host_full(self):
        # Nothing is dropped before all that is to be kept is saved, whichever tag came first.
        self.program("""
            allocator = allocators.get_mem_allocator_instance()
            for tag in ("cache", "weights"):
                with allocator.use_memory_pool(tag):
                    globals()[tag] = Tensor(8 * MIB)
                ctypes.memset(globals()[tag].address, 7, 8 * MIB)
            before = vpmm.torch.pause
            def pause(tag, drop):
                if not drop:
                    raise vpmm.OutOfMemoryError(12, "no host memory")
                before(tag, drop=drop)
            vpmm.torch.pause = pause
            raises(vpmm.OutOfMemoryError, "no host memory", allocator.sleep, "weights")
            assert ctypes.string_at(cache.address, 8 * MIB) == bytes([7]) * (8 * MIB)
        """, VPMM_VLLM="1", VPMM_PAUSE_POISON="1")

    def test_flags(self):
        self.program("""
            kind = vpmm.vllm.SleepBackend
            assert kind.is_supported() and kind.preserves_communicators() and kind.preserves_compiled_artifacts()
            assert kind.preserves_graphs_with_communicators() and not kind.supports_durable_storage()
        """, VPMM_VLLM="1", NCCL_GRAPH_REGISTER="0")

    def test_left_alone(self):
        # Without the variable vLLM works as before.
        self.program("""
            assert not vpmm.torch.is_enabled() and allocators.get_mem_allocator_instance() == "vLLM's own"
            try:
                SleepModeBackendFactory.create_backend("vpmm")
                raise SystemExit("no error")
            except ValueError as error:
                assert "not supported" in str(error)
        """)

    def test_again(self):
        # vLLM may load its plug-ins more than once, and after a failure.
        self.program("""
            import os
            os.environ["VPMM_VLLM"] = "maybe"
            raises(ValueError, "expected 0 or 1", vpmm.vllm.register)
            os.environ["VPMM_VLLM"] = "1"
            for _ in range(2):
                vpmm.vllm.register()
            assert SleepModeBackendFactory.create_backend("vpmm").state() == "RUNNING"
            assert allocators.get_mem_allocator_instance().get_current_usage() == 0
        """)

    def test_entry_point(self):
        with open(os.path.join(os.environ["top_srcdir"], "python", "pyproject.toml"), encoding="utf-8") as project:
            text = project.read()
        self.assertRegex(text, re.escape('[project.entry-points."vllm.general_plugins"]\nvpmm = "vpmm.vllm:register"'))


if __name__ == "__main__":
    unittest.main()
