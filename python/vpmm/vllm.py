# SPDX-License-Identifier: LGPL-2.1-or-later
"""
vLLM's sleep mode on libvpmm: a backend of the name "vpmm" for sleep_mode_backend, which vLLM finds by the entry point
of this package. With VPMM_VLLM=1 PyTorch's memory in vLLM's processes comes from libvpmm, which the backend needs.

vpmm-torch(7) says what works.
"""

import gc
import os
from typing import Any, Callable, ContextManager, Dict, Iterable, List, Optional, Sequence

import torch
import vllm.device_allocator as _device_allocator
from vllm.device_allocator.sleep_mode_backend import SleepModeBackend, SleepModeBackendFactory

from . import torch as _torch

__all__ = ["Allocator", "SleepBackend", "register"]


class Allocator:
    """In place of the object that vLLM's workers allocate weights and caches by: each tag is a region that is kept."""

    def __init__(self) -> None:
        self.tags: List[str] = []

    def use_memory_pool(self, tag: Optional[str] = None) -> ContextManager[Any]:
        name = "default" if tag is None else tag
        if name not in self.tags:
            self.tags.append(name)
        return _torch.region(name, enable_cpu_backup=True)

    def _known(self, tags: Any) -> List[str]:
        if tags is None:
            return list(self.tags)
        return [name for name in self.tags if name in ([tags] if isinstance(tags, str) else tags)]

    @staticmethod
    def _change(names: Iterable[str], paused: bool, change: Callable[[str], Any], undo: Callable[[str], Any]) -> None:
        """All of them, or none."""
        done: List[str] = []
        try:
            for name in names:
                changes = _torch.is_paused(name) != paused
                change(name)
                if changes:
                    done.append(name)
        except Exception:
            for name in done:
                undo(name)
            raise

    def _pause(self, drop: Dict[str, bool]) -> None:
        # What is to be kept comes first: it can lack host memory, and what was dropped does not come back.
        names = sorted(drop, key=lambda name: drop[name])
        self._change(names, True, lambda name: _torch.pause(name, drop=drop[name]), _torch.resume)
        # Free memory without a tag goes back as well, as with vLLM's own allocator: others have the device meanwhile.
        gc.collect()
        torch.cuda.empty_cache()

    def sleep(self, offload_tags: Any = None) -> None:
        """Keeps the contents of these tags, of "default" without them, and drops those of the others."""
        kept = ["default"] if offload_tags is None else self._known(offload_tags)
        self._pause({name: name not in kept for name in self.tags})

    def discard(self, tags: Any) -> None:
        self._pause({name: True for name in self._known(tags)})

    def wake_up(self, tags: Any = None) -> None:
        self._change(self._known(tags), False, _torch.resume, _torch.pause)

    def get_current_usage(self) -> int:
        """Bytes of device memory."""
        return sum(_torch.tag_stats(name).mapped for name in self.tags)


_allocator = Allocator()


class SleepBackend(SleepModeBackend):  # type: ignore[misc]
    """Level 1 keeps the weights in host memory, level 2 nothing. A call that fails has changed nothing."""

    def suspend(self, level: int = 1) -> None:
        _allocator.sleep(("weights",) if level == 1 else ())
        self._state = "SUSPENDED"

    def resume(self, tags: Optional[Sequence[str]] = None) -> None:
        _allocator.wake_up(tags)
        self._state = "RUNNING"

    def discard(self, tags: Sequence[str]) -> None:
        _allocator.discard(tags)
        self._state = "SUSPENDED"

    @classmethod
    def is_supported(cls) -> bool:
        return _torch.is_enabled()

    @classmethod
    def preserves_communicators(cls) -> bool:
        return True

    @classmethod
    def preserves_compiled_artifacts(cls) -> bool:
        return True

    @classmethod
    def preserves_graphs_with_communicators(cls) -> bool:
        """A captured collective keeps what NCCL has registered, unless it registers nothing."""
        return os.environ.get("NCCL_GRAPH_REGISTER") == "0"


_registered = False


def _with(before: Callable[[], Any]) -> Callable[[], Any]:
    """vLLM's function for its allocator, which answers with this one where PyTorch's memory comes from libvpmm."""
    return lambda: _allocator if _torch.is_enabled() else before()


def register() -> None:
    """The entry point, in each process of vLLM, before it uses a GPU. vLLM may call it more than once."""
    global _registered
    if not _registered:
        SleepModeBackendFactory.register_backend("vpmm", "vpmm.vllm", "SleepBackend")
        _device_allocator.get_mem_allocator_instance = _with(_device_allocator.get_mem_allocator_instance)
        _registered = True
    if os.environ.get("VPMM_VLLM", "0") == "1":
        _torch.enable()
    elif os.environ.get("VPMM_VLLM", "0") not in ("", "0"):
        raise ValueError(f"VPMM_VLLM is {os.environ['VPMM_VLLM']!r}: expected 0 or 1")

