# SPDX-License-Identifier: LGPL-2.1-or-later
"""
PyTorch's CUDA memory from libvpmm, instead of from its own caching allocator:

    import vpmm.torch
    vpmm.torch.enable()

before anything is done on a GPU. vpmm-torch(7) says what works then and what does not.

    python -m vpmm.torch build

compiles ahead what enable() else compiles at the first use.
"""

import contextlib
import ctypes
import errno
import functools
import logging
import os
import re
import sys
import threading
import warnings
from ctypes import POINTER, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import torch

from . import _library, _torch_build, _torch_share, _torch_tags
from ._header import PAUSE_DROP, CStats, CTagStats, Stats, TagStats
from ._library import Error, answer, check, text, written_by
from ._snapshot import segments
from ._tags import Tagged, number_of
from ._torch_tags import Words, disabled

__all__ = ["Counts", "counts", "cuda_graph", "disable", "dump", "enable", "is_enabled", "is_paused", "is_whole", "pause",
           "pause_prepare", "region", "resume", "stats", "tag_stats", "trim"]

OBJECT = "libvpmm-torch.so"

# Those of which the object knows.
_DEVICES = 64

# Methods of PyTorch's allocator object, some of which a version may not have, and what each is given.
_HOOKS = {
    "set_init_fn": "vpmm_torch_init",
    "set_reset_fn": "vpmm_torch_reset",
    "set_memory_fraction_fn": "vpmm_torch_memory_fraction",
    "set_base_alloc_fn": "vpmm_torch_base",
    "set_record_stream_fn": "vpmm_torch_record_stream",
    "set_begin_allocate_to_pool": "vpmm_torch_begin",
    "set_end_allocate_to_pool_fn": "vpmm_torch_end",
    "set_release_pool": "vpmm_torch_release",
}


class Counts(NamedTuple):
    """The requests of PyTorch on a device. The fields from kept on count all devices together."""

    allocs: int
    frees: int
    alloc_bytes: int
    free_bytes: int
    peak_blocks: int
    retries: int
    ooms: int
    limit: int
    kept: int
    unknown: int
    failed: int
    pools: int
    graphs: int


class _CCounts(ctypes.Structure):
    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in Counts._fields]


_PressureFn = ctypes.CFUNCTYPE(c_int, c_int, c_size_t)


class _Plugin:
    """libvpmm-torch.so."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lib = ctypes.CDLL(path)
        for name, (result, *arguments) in {
            "vpmm_torch_counts": (c_int, c_int, POINTER(_CCounts)),
            "vpmm_torch_stats": (c_int, c_int, POINTER(CStats)),
            "vpmm_torch_reset_peaks": (c_int, c_int),
            "vpmm_torch_trim": (c_int, c_int, POINTER(c_size_t)),
            "vpmm_torch_dump": (c_int, c_int, c_void_p),
            "vpmm_torch_pause": (c_int, c_int, c_uint, c_uint),
            "vpmm_torch_resume": (c_int, c_int, c_uint),
            "vpmm_torch_pause_prepare": (c_int, c_int, c_uint),
            "vpmm_torch_tag_stats": (c_int, c_int, c_uint, POINTER(CTagStats)),
            "vpmm_torch_set_pressure": (None, _PressureFn),
            "vpmm_torch_begun": (c_uint,),
            "vpmm_torch_capture_failed": (None, c_uint),
            "vpmm_torch_class": (c_void_p,),
        }.items():
            call = getattr(self.lib, name, None)
            if call is None:
                raise RuntimeError(f"{path} has no {name}: it is no {OBJECT} of this version")
            call.restype, call.argtypes = result, arguments
        # For good: another thread may be on its way into one that has been replaced.
        self.pressures: List[Any] = []
        # As long as PyTorch can call it.
        self.allocator: Any = None
        # What was compiled against PyTorch, in place of that.
        self.compiled: Optional[ctypes.CDLL] = None

    def address(self, name: str) -> int:
        return ctypes.cast(getattr(self.lib, name), c_void_p).value or 0

    def ask_on_pressure(self, fn: Callable[[int, int], bool]) -> None:
        self.pressures.append(_PressureFn(lambda device, size: answer(lambda: fn(device, size))))
        self.lib.vpmm_torch_set_pressure(self.pressures[-1])


_plugin: Optional[_Plugin] = None
_lock = threading.Lock()

# Settings of PyTorch's own allocator that the class follows.
_SETTINGS = ("per_process_memory_fraction", "roundup_power2_divisions")

# What the accumulated statistics of each device were when they were last reset.
_baselines: Dict[int, Dict[str, int]] = {}


def _need() -> _Plugin:
    if _plugin is None:
        raise RuntimeError("vpmm.torch is not enabled: call vpmm.torch.enable() first")
    return _plugin


def find_plugin() -> str:
    directory = _library.directory()
    places = [os.path.join(directory, "vpmm", OBJECT), os.path.join(directory, OBJECT)]
    for place in places:
        if os.path.exists(place):
            return place
    raise RuntimeError(f"there is no {OBJECT} beside {_library.SONAME}, at {' or '.join(places)}; "
                       "say where it is by vpmm.torch.enable(library=...)")


def _device(device: Any) -> int:
    """The ordinal of a device as PyTorch's functions take it."""
    if device is None:
        # Which device is current is not asked before: that would initialise CUDA.
        return int(torch.cuda.current_device()) if torch.cuda.is_initialized() else 0
    if isinstance(device, bool):
        raise TypeError(f"device={device!r} is no CUDA device")
    if not isinstance(device, int):
        named = torch.device(device)
        if named.type != "cuda":
            raise ValueError(f"device={device!r} is no CUDA device")
        if named.index is None:
            return _device(None)
        device = named.index
    if not 0 <= device < _DEVICES:
        raise ValueError(f"there is no device {device}")
    return int(device)


def _check(result: int) -> None:
    """Raises the error of a call of the object. If the device could not be made current, the library has no text."""
    if result == -errno.ENXIO:
        raise Error(errno.ENXIO, "the device's primary context cannot be made current")
    check(result)


def stats(device: Any = None) -> Stats:
    """Returns the statistics of the pool of a device, as vpmm.stats(); all 0 before PyTorch has used the device."""
    found = CStats(size=ctypes.sizeof(CStats))
    _check(_need().lib.vpmm_torch_stats(_device(device), byref(found)))
    return Stats(*(getattr(found, name) for name in Stats._fields))


def counts(device: Any = None) -> Counts:
    """Returns the requests of PyTorch on a device."""
    found = _CCounts(size=ctypes.sizeof(_CCounts))
    check(_need().lib.vpmm_torch_counts(_device(device), byref(found)))
    return Counts(*(getattr(found, name) for name in Counts._fields))


def trim(device: Any = None) -> int:
    """Gives free memory of a device's pool back, and returns the bytes given back."""
    released = c_size_t()
    _check(_need().lib.vpmm_torch_trim(_device(device), byref(released)))
    return released.value


def dump(device: Any = None) -> str:
    """Returns the layout of a device's pool, in the format of vpmm_pool_dump(3)."""
    plugin, ordinal = _need(), _device(device)
    return written_by(lambda out: plugin.lib.vpmm_torch_dump(ordinal, out))


def region(tag: str = "default", enable_cpu_backup: bool = False, enable_disk_backup: bool = False,
           cpu_backup_backend: Optional[str] = None) -> ContextManager[Any]:
    """
    A block in which the thread's allocations get a pausable tag. Without a backup their contents are undefined after a
    pause. The backup is in pinned host memory, whichever kind is requested.
    """
    _need()
    return _torch_tags.region(tag, enable_cpu_backup, enable_disk_backup, cpu_backup_backend)


def disable() -> ContextManager[None]:
    """A block in which the thread's allocations get no tag."""
    _need()
    return disabled()


def _each(which: Tagged, words: Words, undo: Optional[Words]) -> None:
    plugin = _need().lib
    used = [device for device in range(min(torch.cuda.device_count(), _DEVICES)) if counts(device).allocs]
    _torch_tags.each(plugin, used, number_of(which), words, undo)


def pause(tag: Tagged = None, *, drop: bool = False) -> None:
    """
    Gives the memory of a tag, or of all regions, back to the devices that PyTorch has used, after their work. With
    drop, contents are not kept. A call that raises has paused nothing; tags that were paused before stay paused.
    """
    _each(tag, Words("vpmm_torch_pause", (PAUSE_DROP if drop else 0,)), Words("vpmm_torch_resume", ()))


def resume(tag: Tagged = None) -> None:
    """
    Restores the memory of a tag, or of all regions, at the same addresses. After vpmm.OutOfMemoryError all is paused as
    before, and the call can be repeated.
    """
    _each(tag, Words("vpmm_torch_resume", ()), Words("vpmm_torch_pause", (0,)))


def pause_prepare(tag: Tagged = None) -> None:
    """Creates the host memory for the backups of a pause, which takes longer than the copies."""
    _each(tag, Words("vpmm_torch_pause_prepare", ()), None)


def tag_stats(tag: Tagged, device: Any = None) -> TagStats:
    """Returns the statistics of a tag in the pool of a device; all 0 before PyTorch has used the device."""
    found = CTagStats(size=ctypes.sizeof(CTagStats))
    _check(_need().lib.vpmm_torch_tag_stats(_device(device), number_of(tag), byref(found)))
    return TagStats(*(getattr(found, name) for name in TagStats._fields))


def is_paused(tag: Tagged) -> bool:
    """Returns whether a tag has paused memory on any device."""
    return any(tag_stats(tag, device).paused for device in range(min(torch.cuda.device_count(), _DEVICES)))


@contextlib.contextmanager
def cuda_graph(cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global",
               tag: str = "default", enable_cpu_backup: bool = False,
               cpu_backup_backend: Optional[str] = None) -> Iterator[None]:
    """torch.cuda.graph() in a region: the graph can be replayed after a pause, once the tag is resumed."""
    with region(tag, enable_cpu_backup, False, cpu_backup_backend), \
         torch.cuda.graph(cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode):
        yield


def is_enabled() -> bool:
    """Returns whether PyTorch's memory comes from libvpmm."""
    return _plugin is not None


def is_whole() -> bool:
    """Returns whether the allocator class is in use, and not the plug-in."""
    return _plugin is not None and _plugin.compiled is not None


# What torch.cuda.memory_stats() has of each: what is there now, the most that was, and the sums of what came and went.
def _stat(current: int, peak: int, allocated: int, freed: int) -> Dict[str, Dict[str, int]]:
    """The library does not divide memory into small and large, so all of it is in the pool for large."""
    row = {"current": current, "peak": max(peak, current), "allocated": allocated, "freed": freed}
    return {"all": row, "small_pool": dict.fromkeys(row, 0), "large_pool": dict(row)}


def _sums(device: int, held: Stats, asked: Counts) -> Dict[str, int]:
    """The accumulated statistics since they were last reset."""
    sums = {
        "allocs": asked.allocs, "frees": asked.frees, "alloc_bytes": asked.alloc_bytes,
        "free_bytes": asked.free_bytes, "retries": asked.retries, "ooms": asked.ooms, "creates": held.creates,
        "releases": held.releases, "grown": held.grown, "given_back": held.given_back,
    }
    baseline = _baselines.get(device, {})
    return {name: value - baseline.get(name, 0) for name, value in sums.items()}


def _memory_stats(device: int) -> Dict[str, Any]:
    """In place of torch._C._cuda_memoryStats, which torch.cuda.memory_allocated() and all of its kin stand on."""
    held, asked = stats(device), counts(device)
    sums = _sums(device, held, asked)
    active = held.live + held.small_live + held.shareable
    # What is held can be another process's, which counts for nothing else.
    allocated = max(active - held.held, 0)
    blocks = asked.allocs - asked.frees
    taken = held.mapped + held.small_mapped + held.shareable + held.shared
    by_bytes = (sums["alloc_bytes"], sums["free_bytes"])
    by_blocks = (sums["allocs"], sums["frees"])
    by_extents = (sums["creates"], sums["releases"])
    none = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    return {
        "num_alloc_retries": sums["retries"],
        "num_ooms": sums["ooms"],
        "max_split_size": -1,
        "num_sync_all_streams": 0,
        "num_device_alloc": sums["creates"],
        "num_device_free": sums["releases"],
        "allocation": _stat(blocks, asked.peak_blocks, *by_blocks),
        "active": _stat(blocks, asked.peak_blocks, *by_blocks),
        "segment": _stat(held.extents, held.extents, *by_extents),
        "inactive_split": _stat(0, 0, 0, 0),
        "allocated_bytes": _stat(allocated, held.peak_live + held.small_live, *by_bytes),
        "reserved_bytes": _stat(taken, held.peak_taken, sums["grown"], sums["given_back"]),
        "active_bytes": _stat(active, held.peak_live + held.small_live, *by_bytes),
        "inactive_split_bytes": _stat(held.stuck, held.stuck, 0, 0),
        "requested_bytes": _stat(held.requested, held.peak_requested, *by_bytes),
        "oversize_allocations": dict(none),
        "oversize_segments": dict(none),
    }


def _reset_peaks(device: int) -> None:
    _check(_need().lib.vpmm_torch_reset_peaks(device))


def _reset_accumulated(device: int) -> None:
    _baselines.pop(device, None)
    _baselines[device] = _sums(device, stats(device), counts(device))


def _memory_snapshot(*_which: Any) -> Dict[str, Any]:
    """Of all devices. There is no history, and all memory is in one pool."""
    devices = range(torch.cuda.device_count())
    return {"segments": [segment for device in devices for segment in segments(device, dump(device))],
            "device_traces": [[] for _ in devices], "allocator_settings": {}, "external_annotations": []}


def _memory_fraction(device: int) -> float:
    limit = counts(device).limit
    return limit / int(torch.cuda.get_device_properties(device).total_memory) if limit else 1.0


def _refuse_benchmark() -> None:
    raise RuntimeError("torch.backends.cudnn.benchmark = True does not work with memory of libvpmm: to try algorithms, "
                       "cuDNN's part of PyTorch asks for the largest free block of PyTorch's own allocator. Leave it "
                       "False, or do without vpmm.torch.enable()")


def _refuse_sharing(*_arguments: Any, **_words: Any) -> None:
    raise RuntimeError("a CUDA tensor in memory of libvpmm cannot be shared with another process by CUDA IPC, as "
                       "torch.multiprocessing does: that shares memory of cudaMalloc() alone. Send a copy in host "
                       "memory (tensor.cpu()), or do without vpmm.torch.enable()")


def _refuse_history(enabled: Any = "all", *_arguments: Any, **_words: Any) -> None:
    if enabled is not None:
        raise RuntimeError("PyTorch's memory history is that of its own allocator. vpmm.trace(FILE), before the first "
                           "allocation, records what libvpmm is asked for, and vpmm-replay(1) draws it")


class _WithoutBenchmark:
    """torch.backends.cudnn.benchmark, but that it cannot become True."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __get__(self, module: Any, kind: Any) -> Any:
        return self.before.__get__(module, kind)

    def __set__(self, module: Any, value: Any) -> None:
        if value:
            _refuse_benchmark()
        self.before.__set__(module, value)


def _replace(name: str, function: Any) -> None:
    """Puts a function into torch._C, if this version of PyTorch has one of that name there."""
    if hasattr(torch._C, name):
        setattr(torch._C, name, function)


def _replace_statistics() -> None:
    _replace("_cuda_memoryStats", _memory_stats)
    _replace("_cuda_resetPeakMemoryStats", _reset_peaks)
    _replace("_cuda_resetAccumulatedMemoryStats", _reset_accumulated)
    _replace("_cuda_getMemoryFraction", _memory_fraction)
    _replace("_cuda_memorySnapshot", _memory_snapshot)
    # torch.accelerator has its own way to the same, which answers 0 under another allocator.
    _replace("_accelerator_isAllocatorInitialized", torch.cuda.is_initialized)
    _replace("_accelerator_getDeviceStats", _memory_stats)
    _replace("_accelerator_resetPeakStats", _reset_peaks)
    _replace("_accelerator_resetAccumulatedStats", _reset_accumulated)


def _refuse_the_rest() -> None:
    _replace("_cuda_record_memory_history", _refuse_history)
    torch.UntypedStorage._share_cuda_ = _refuse_sharing
    set_benchmark = torch._C._set_cudnn_benchmark

    def set_or_refuse(value: bool) -> None:
        if value:
            _refuse_benchmark()
        set_benchmark(value)

    torch._C._set_cudnn_benchmark = set_or_refuse
    kind = type(torch.backends.cudnn)
    before = vars(kind).get("benchmark")
    if before is not None:
        kind.benchmark = _WithoutBenchmark(before)


def _tell_failed_captures(plugin: _Plugin) -> None:
    """PyTorch tells its allocator of no capture that fails to begin, and only some versions of one that fails to end."""
    kind = getattr(torch.cuda, "CUDAGraph", None)
    if kind is None:
        return

    def telling(before: Any, begins: int) -> Any:
        @functools.wraps(before)
        def call(*arguments: Any, **words: Any) -> Any:
            begun = plugin.lib.vpmm_torch_begun()
            try:
                return before(*arguments, **words)
            except BaseException:
                plugin.lib.vpmm_torch_capture_failed(max(begun - begins, 0))
                raise

        return call

    kind.capture_begin = telling(kind.capture_begin, 0)
    kind.capture_end = telling(kind.capture_end, 1)


def _check_time() -> None:
    if torch.version.cuda is None:
        raise RuntimeError(f"PyTorch {torch.__version__} is built without CUDA, so it has no memory for vpmm.torch to "
                           "serve")
    # PyTorch says of such a child that it has not initialised CUDA.
    if getattr(torch._C, "_cuda_isInBadFork", lambda: False)():
        raise RuntimeError("vpmm.torch.enable() is called in a process that was forked after PyTorch had initialised "
                           "CUDA, and cannot use it. Start it by spawn or forkserver, or fork before CUDA is used")
    if torch.cuda.is_initialized():
        raise RuntimeError("vpmm.torch.enable() comes too late: PyTorch has initialised CUDA, and cannot change its "
                           "allocator any more. Call it right after the imports, before anything is done on a GPU")


def _give_hooks(allocator: Any, plugin: _Plugin) -> None:
    missing = [method for method in _HOOKS if not hasattr(allocator, method)]
    if missing:
        raise RuntimeError(f"PyTorch {torch.__version__} has no {', '.join(missing)} for another allocator's graphs "
                           "and streams: vpmm.torch needs 2.2 or later")
    for method, function in _HOOKS.items():
        getattr(allocator, method)(plugin.address(function))


def _tell_settings() -> None:
    """Settings of PyTorch's own allocator are no errors here, and do nothing."""
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        # A list of values has commas, too.
        value = re.sub(r"\[[^]]*\]", "", os.environ.get(variable, ""))
        names = [setting.split(":")[0].strip() for setting in value.split(",")]
        names = [name for name in names if name not in _SETTINGS or not is_whole()]
        if any(names):
            logging.getLogger("vpmm.torch").warning("%s: %s of PyTorch's own allocator has no effect with libvpmm",
                                                    variable, ", ".join(name for name in names if name))


def _read_settings() -> None:
    """
    PyTorch reads the settings when it initialises CUDA, and fails then if the allocator is not the one of "backend". So it
    reads them while that one is still there.
    """
    change = getattr(torch.cuda.memory, "_set_allocator_settings", None)
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        settings = os.environ.get(variable, "")
        if "backend" in settings and change is not None:
            change(settings)


def _end_registration() -> None:
    """
    NCCL would register all ordinary memory, and read at an address what was there when it did so. PyTorch does the same
    for its own segments that expand.
    """
    variable = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"
    if os.environ.get(variable, "0").lower() not in ("0", "n", "no", "f", "false"):
        os.environ[variable] = "0"
        logging.getLogger("vpmm.torch").warning("%s has no effect with libvpmm, which remaps ordinary memory: register "
                                                "a torch.cuda.MemPool with NCCL", variable)


def _wanted() -> str:
    """The value of VPMM_TORCH_BUILD."""
    wanted = os.environ.get("VPMM_TORCH_BUILD") or "auto"
    if wanted not in ("auto", "never", "require"):
        raise ValueError(f"VPMM_TORCH_BUILD is {wanted!r}: expected auto, never or require")
    return wanted


def _compiled(wanted: str) -> Tuple[str, ctypes.CDLL]:
    """The allocator class, with its path. CannotBuild says why there is none."""
    if wanted == "never":
        raise _torch_build.CannotBuild("VPMM_TORCH_BUILD is never")
    path = os.environ.get("VPMM_TORCH_CLASS")
    return (path, _torch_build.load(path)) if path else _torch_build.build()


def _install_class(plugin: _Plugin, wanted: str) -> None:
    path, compiled = _compiled(wanted)
    reason = compiled.vpmm_torch_install(plugin.lib.vpmm_torch_class())
    if reason is not None:
        raise _torch_build.CannotBuild(f"{path}: {reason.decode(errors='replace')}")
    plugin.compiled = compiled
    if hasattr(compiled, "vpmm_torch_shares"):
        # For tensors that other processes get. No pool is there yet.
        os.environ.setdefault("VPMM_EXPORT", "auto")
        _torch_share.begin_sending()
    else:
        # A version whose IPC asks for an address, and then calls the driver, which refuses in other words.
        torch.UntypedStorage._share_cuda_ = _refuse_sharing


def _install_hooks(plugin: _Plugin) -> None:
    if torch._C._get_cudnn_benchmark():
        _refuse_benchmark()
    allocator = torch.cuda.memory.CUDAPluggableAllocator(plugin.path, "vpmm_torch_alloc", "vpmm_torch_free")
    _give_hooks(allocator.allocator(), plugin)
    torch.cuda.memory.change_current_allocator(allocator)
    plugin.allocator = allocator
    _replace_statistics()
    _refuse_the_rest()
    _tell_failed_captures(plugin)


def _install(plugin: _Plugin) -> Optional[str]:
    """The class if it can be had, or else the plug-in. What a program should be told of that."""
    wanted = _wanted()
    try:
        _install_class(plugin, wanted)
    except _torch_build.CannotBuild as error:
        if wanted == "require":
            raise RuntimeError(f"VPMM_TORCH_BUILD is require: {error}") from error
        _install_hooks(plugin)
        if wanted != "never":
            return ("vpmm.torch: cudnn.benchmark, CUDA graphs of torch.compile, MemPool and memory history do not work: "
                    f"{error}")
    return None


def enable(library: Union[str, "os.PathLike[str]", None] = None,
           on_pressure: Optional[Callable[[int, int], bool]] = None) -> None:
    """
    Makes PyTorch take its CUDA memory from the default pools of libvpmm, for the rest of the process. Call it before
    PyTorch initialises CUDA; a second call only changes on_pressure.

    library is the path of libvpmm-torch.so, if that is not beside libvpmm. on_pressure is called with a device and a
    size before an allocation fails for want of memory, on the thread of the allocation. It may free tensors, and
    returns whether to try the allocation again.
    """
    global _plugin
    if on_pressure is not None and not callable(on_pressure):
        raise TypeError(f"on_pressure={on_pressure!r} is not a function")
    path = None if library is None else os.fsdecode(text("library", library))
    warning = None
    with _lock:
        if _plugin is not None and path is not None and os.path.realpath(path) != os.path.realpath(_plugin.path):
            raise RuntimeError(f"vpmm.torch.enable(library={path!r}) comes too late: PyTorch's memory comes from "
                               f"{_plugin.path} already")
        if _plugin is None:
            _check_time()
            plugin = _Plugin(find_plugin() if path is None else path)
            _read_settings()
            warning = _install(plugin)
            _plugin = plugin
            _tell_settings()
            _end_registration()
        if on_pressure is not None:
            _plugin.ask_on_pressure(on_pressure)
    # Last, as a program can have warnings raised, and catch them.
    if warning is not None:
        warnings.warn(warning, RuntimeWarning, stacklevel=2)


if __name__ == "__main__":
    sys.exit(_torch_build.main(sys.argv[1:]))
