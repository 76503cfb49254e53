# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Numba's device memory from libvpmm: a plug-in for Numba's external memory management. Either

    NUMBA_CUDA_MEMORY_MANAGER=vpmm.numba

in the environment, or, before Numba has used a GPU,

    import vpmm.numba
    vpmm.numba.enable()

vpmm-python(7) says what else there is to know.
"""

import contextlib
import ctypes
import weakref
from typing import Any, Callable, Dict, Iterator, List

from numba import cuda

try:
    from numba.cuda.cudadrv import devices, driver
    from numba.cuda.cudadrv.driver import CudaAPIError, MemoryPointer
    _HostOnly: Any = cuda.HostOnlyCUDAMemoryManager
except (AttributeError, ImportError) as error:
    raise ImportError("this Numba has no external memory management, as when NUMBA_ENABLE_CUDASIM is set: it takes "
                      f"Numba 0.50 or numba-cuda, and a GPU ({error})") from error

from . import _blocks
from ._header import IDLE as _IDLE
from ._library import Error as _Error
from ._library import OutOfMemoryError as _OutOfMemoryError
from ._pool import STREAM_ANY, Calls

__all__ = ["MemoryManager", "OutOfMemoryError", "enable", "is_enabled"]


class OutOfMemoryError(CudaAPIError, MemoryError):  # type: ignore[misc]
    """
    Numba's exception for exhausted memory, with the library's reason; a MemoryError as well. It is made as its base
    class is, of a code and a text, so that it can be pickled.
    """


def _out_of_memory(reason: Exception) -> OutOfMemoryError:
    results = getattr(getattr(driver, "binding", None), "CUresult", None)
    return OutOfMemoryError(getattr(results, "CUDA_ERROR_OUT_OF_MEMORY", 2), str(reason))


def _pointer(address: int) -> Any:
    """An address in the type that this version of Numba wants."""
    if getattr(driver, "USE_NV_BINDING", True) and hasattr(driver, "binding"):
        return driver.binding.CUdeviceptr(address)
    return ctypes.c_uint64(address)


class _Frees:
    """
    The blocks of one context. Numba does not say which streams have used a block, and its users rely on a free that
    waits for all of them: so a block is free after all work of the context.
    """

    def __init__(self) -> None:
        self.live: Dict[int, object] = {}
        self.deferred: List[int] = []
        self.depth = 0

    def finalizer(self, address: int) -> Callable[[], None]:
        """To be called once. It does nothing if the context was reset meanwhile."""
        token = object()
        self.live[address] = token

        def finalize() -> None:
            if self.live.get(address) is token:
                del self.live[address]
                self.free(address)

        return finalize

    def free(self, address: int) -> None:
        if self.depth:
            self.deferred.append(address)
            return
        with contextlib.suppress(OSError):
            _blocks.release(address, STREAM_ANY)

    def flush(self) -> None:
        while self.deferred:
            with contextlib.suppress(OSError, IndexError):
                _blocks.release(self.deferred.pop(), STREAM_ANY)

    def end(self) -> None:
        while self.live:
            with contextlib.suppress(KeyError):
                self.deferred.append(self.live.popitem()[0])
        self.flush()


class MemoryManager(_HostOnly):  # type: ignore[misc]
    """
    Device memory from the default pool of the context's device. Pinned, mapped and managed memory is Numba's own
    matter.
    """

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self._frees = _Frees()

    @property
    def interface_version(self) -> int:
        return 1

    def initialize(self) -> None:
        # How much pinned and mapped memory Numba lets pile up before it frees it.
        pending = getattr(self, "deallocations", None)
        if pending is not None and not pending.memory_capacity:
            # Numba does this before it has made the context of a device anew after a reset, too.
            with contextlib.suppress(_Error):
                pending.memory_capacity = Calls(None).info().memory_total

    def memalloc(self, size: int) -> Any:
        # Any stream may use the memory at once.
        try:
            try:
                address = _blocks.allocate(size, 0, _IDLE)
            except _OutOfMemoryError:
                if not self._frees.deferred:
                    raise
                self._frees.flush()
                address = _blocks.allocate(size, 0, _IDLE)
        except _OutOfMemoryError as reason:
            raise _out_of_memory(reason) from reason
        context = weakref.proxy(self.context)
        if not address:
            return MemoryPointer(context, _pointer(0), size)
        pointer = MemoryPointer(context, _pointer(address), size, finalizer=self._frees.finalizer(address))
        _blocks.meet(int(self.context.device.id))
        return pointer

    def get_memory_info(self) -> Any:
        """The free memory of the device and of the pool together."""
        info, stats = Calls(None).info(), Calls(None).stats()
        free = info.memory_free + stats.free
        if info.limit != "none":
            free = min(free, max(info.limit - stats.live - stats.small_mapped, 0))
        return cuda.MemoryInfo(free=free, total=info.memory_total)

    def get_ipc_handle(self, memory: Any) -> Any:
        raise NotImplementedError("an array in memory of libvpmm has no CUDA IPC handle: that shares memory of "
                                  "cuMemAlloc() alone. vpmm_send(3) hands blocks to other processes")

    def reset(self) -> None:
        super().reset()
        self._frees.end()
        _blocks.part(int(self.context.device.id))

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """Frees nothing in between, but where memory runs out."""
        with super().defer_cleanup():
            self._frees.depth += 1
            try:
                yield
            finally:
                self._frees.depth -= 1
                if not self._frees.depth:
                    self._frees.flush()


# What NUMBA_CUDA_MEMORY_MANAGER=vpmm.numba looks for.
_numba_memory_manager = MemoryManager


def is_enabled() -> bool:
    """Whether the contexts that Numba will use take their device memory from libvpmm."""
    return driver._memory_manager is MemoryManager


def enable() -> None:
    """
    Makes Numba take its device memory from the default pools of libvpmm, for the rest of the process. It has to be
    called before Numba has used a GPU.
    """
    if is_enabled():
        return
    for gpu in vars(devices.gpus).get("lst", ()):
        if getattr(gpu, "primary_context", None) is not None:
            raise RuntimeError("vpmm.numba.enable() comes too late: Numba has used a GPU, and keeps the memory manager "
                               "that it had then. Call it right after the imports")
    cuda.set_memory_manager(MemoryManager)
