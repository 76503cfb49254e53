# SPDX-License-Identifier: LGPL-2.1-or-later
"""
CUDA tensors from processes that have vpmm.torch enabled, in a process that has not. The process keeps PyTorch's own
allocator, and maps the sender's memory beside it. The sender has the functions of this module called where the tensor
arrives.
"""

import contextlib
import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any, Callable, Optional

import torch
import torch.multiprocessing.reductions as reductions

from ._library import Error

# PyTorch's own of this process.
_rebuild = reductions.rebuild_cuda_tensor
_new_shared: Optional[Callable[..., Any]] = None


@functools.lru_cache(maxsize=None)
def _load() -> ctypes.CDLL:
    """libvpmm-torch.so, in a process whose PyTorch has its own allocator."""
    from . import torch as module
    plugin = ctypes.CDLL(module.find_plugin())
    plugin.vpmm_torch_take.argtypes = [c_char_p, c_int, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t)]
    plugin.vpmm_torch_drop.argtypes = [c_void_p]
    plugin.vpmm_torch_drop.restype = None
    plugin.vpmm_torch_explain.restype = c_char_p
    return plugin


class _Memory:
    """A storage's memory in another process, and its share in the sender's count of users."""

    def __init__(self, plugin: ctypes.CDLL, device: int, name: bytes, counter: Any, counter_offset: int) -> None:
        pointer, lead, size = c_void_p(), c_size_t(), c_size_t()
        result = plugin.vpmm_torch_take(name, device, byref(pointer), byref(lead), byref(size))
        if result:
            reason = plugin.vpmm_torch_explain(result).decode(errors="replace")
            raise Error(-result, f"a CUDA tensor of another process: {reason}")
        self.plugin, self.device, self.pointer = plugin, device, pointer
        self.counter = counter, counter_offset
        self.start = (pointer.value or 0) - lead.value

    def array(self, offset: int, size: int) -> Any:
        """For torch.as_tensor(), which keeps this object as long as there is a tensor."""
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (self.start + offset, False),
                                         "version": 2}
        return self

    def __del__(self, suppress: Any = contextlib.suppress(Exception)) -> None:
        if not hasattr(self, "start"):
            return
        # At the interpreter's end nothing of this may be left.
        with suppress:
            # As PyTorch does for its own: the sender may use the memory for something else at once.
            torch.cuda.current_stream(self.device).synchronize()
            torch.UntypedStorage._release_ipc_counter(*self.counter, device=self.device)
            self.plugin.vpmm_torch_drop(self.pointer)


def _new_shared_cuda(device: int, handle: bytes, size: int, offset: int, counter: Any, counter_offset: int,
                     event: bytes, event_needed: bool) -> Any:
    """In place of torch.UntypedStorage's, which knows no memory of libvpmm."""
    from . import torch as enabled
    if not handle.startswith(b"vpmm") or enabled.is_enabled():
        assert _new_shared is not None
        return _new_shared(device, handle, size, offset, counter, counter_offset, event, event_needed)
    with torch.cuda.device(device):
        if event_needed:
            torch.cuda.Event.from_ipc_handle(torch.device(f"cuda:{device}"), event).wait()
        memory = _Memory(_load(), device, handle, counter, counter_offset)
        return torch.as_tensor(memory.array(offset, size), device=torch.device(f"cuda:{device}")).untyped_storage()


def rebuild_cuda_tensor(*arguments: Any, **words: Any) -> Any:
    """In place of PyTorch's in what a process sends that has vpmm.torch enabled."""
    global _new_shared
    if _new_shared is None:
        _new_shared = torch.UntypedStorage._new_shared_cuda
        torch.UntypedStorage._new_shared_cuda = staticmethod(_new_shared_cuda)
    return _rebuild(*arguments, **words)


def begin_sending() -> None:
    """From now on the tensors that this process sends can arrive in any other."""
    reductions.rebuild_cuda_tensor = rebuild_cuda_tensor
