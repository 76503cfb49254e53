# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pools, the default ones included."""

import ctypes
import errno
import select
import socket
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, SupportsIndex, Tuple, Union

from ._header import (IDLE, SHAREABLE, WORDS, ZERO, BudgetThread, CAllocation, CForecast, CInfo, COpts, CStats,
                      ExhaustedFn, Export, Forecast, Info, LogFn, LogLevel, PressureFn, Rdma, Reuse, Scrub, Small,
                      Stats, Top)
from ._library import (INT_MAX, SIZE_MAX, Allocation, Error, address_of, answer, block_size, check, lib, stream_handle,
                       whole, written_by)
from ._ranges import Ranges
from ._settings import Size, fill, ordinals, read, size_of
from ._tags import Tags

if TYPE_CHECKING:
    import os

# For Pool.free(), in place of a stream: after all work of the context so far.
STREAM_ANY = c_void_p(-1).value or 0

# What a socket is: a number, or an object that has one.
Socket = Union[SupportsIndex, "socket.socket"]


def _ready(connection: Any, event: int) -> int:
    """
    The descriptor of a socket, once it can be read or written. With an object's own timeout, and signals are handled
    meanwhile, as Python's own calls have it; with a number, the call of the library waits.
    """
    descriptor = whole("socket", connection.fileno() if hasattr(connection, "fileno") else connection, INT_MAX)
    timeout = connection.gettimeout() if hasattr(connection, "gettimeout") else 0
    if timeout != 0:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(None if timeout is None else min(timeout * 1000, INT_MAX)):
            raise socket.timeout("timed out")
    return descriptor


class Calls(Ranges, Tags):
    """The calls on a pool: a Pool, or the default pool of the current device."""

    def __init__(self, handle: Optional[int]) -> None:
        self._handle = handle

    def _pool(self) -> Optional[int]:
        return self._handle

    def malloc(self, size: SupportsIndex, stream: Any = None, *, zero: bool = False, idle: bool = False,
               shareable: bool = False) -> int:
        """Allocates memory for work on a stream, and returns its address; 0 for a size of 0."""
        address = c_void_p()
        flags = (ZERO if zero else 0) | (IDLE if idle else 0) | (SHAREABLE if shareable else 0)
        check(lib.vpmm_malloc_flags(self._pool(), byref(address), block_size(size), stream_handle(stream),
                                    flags))
        return address.value or 0

    def malloc_aligned(self, size: SupportsIndex, alignment: SupportsIndex, stream: Any = None) -> int:
        """Allocates memory at a multiple of a power of two. With STREAM_ANY, any stream may use it at once."""
        address = c_void_p()
        check(lib.vpmm_malloc_aligned(self._pool(), byref(address), block_size(size),
                                      block_size(alignment, "alignment"), stream_handle(stream)))
        return address.value or 0

    def malloc_growable(self, size: SupportsIndex, most: SupportsIndex, stream: Any = None) -> int:
        """Allocates a block that realloc() gives any size up to most at the same address."""
        address = c_void_p()
        check(lib.vpmm_malloc_growable(self._pool(), byref(address), block_size(size), block_size(most, "most"),
                                       stream_handle(stream)))
        return address.value or 0

    def realloc(self, address: SupportsIndex, size: SupportsIndex, stream: Any = None) -> int:
        """Changes the size of a block, and returns its address afterwards."""
        block = c_void_p(address_of(address))
        check(lib.vpmm_realloc(self._pool(), byref(block), block_size(size), stream_handle(stream)))
        return block.value or 0

    def free(self, address: SupportsIndex, stream: Any = None) -> None:
        """Frees a block in the order of a stream."""
        check(lib.vpmm_free(self._pool(), address_of(address), stream_handle(stream)))

    def use(self, address: SupportsIndex, stream: Any) -> None:
        """Names another stream that uses a block. The next user of the memory waits for its work up to the free."""
        check(lib.vpmm_use(self._pool(), address_of(address), stream_handle(stream)))

    def send(self, address: SupportsIndex, connection: Socket) -> None:
        """Sends a shareable block to the process at the other end of a Unix socket."""
        check(lib.vpmm_send(self._pool(), address_of(address), _ready(connection, select.POLLOUT)))

    def lend(self, address: SupportsIndex, connection: Socket) -> None:
        """Lends the memory of a block, as long as it is allocated, to the process at the other end of a Unix socket."""
        check(lib.vpmm_lend(self._pool(), address_of(address), _ready(connection, select.POLLOUT)))

    def receive(self, connection: Socket) -> Tuple[int, int]:
        """Maps a block that another process has sent, and returns its address and size."""
        address, size = c_void_p(), c_size_t()
        check(lib.vpmm_receive(self._pool(), byref(address), byref(size), _ready(connection, select.POLLIN)))
        return address.value or 0, size.value

    def retire_stream(self, stream: Any) -> None:
        """Notifies the pool that a stream is about to be destroyed."""
        check(lib.vpmm_stream_retire(self._pool(), stream_handle(stream)))

    def capture_id(self, stream: Any) -> int:
        """Returns the id of the capture that a stream is under, or 0."""
        found = c_uint64()
        check(lib.vpmm_capture_id(self._pool(), stream_handle(stream), byref(found)))
        return found.value

    def group_capture(self, capture: int, group: int) -> None:
        """Adds a capture to a group, whose graphs share memory."""
        check(lib.vpmm_capture_group(self._pool(), whole("capture", capture, SIZE_MAX),
                                     whole("group", group, SIZE_MAX)))

    def retire_graph(self, capture: int, stream: Any = None) -> None:
        """Notifies the pool that the graph of a capture will not be launched again."""
        check(lib.vpmm_graph_retire(self._pool(), whole("capture", capture, SIZE_MAX), stream_handle(stream)))

    def trim(self, keep: Size = 0) -> int:
        """Gives free memory back until the pool holds keep bytes, and returns the bytes given back."""
        released = c_size_t()
        check(lib.vpmm_pool_trim(self._pool(), size_of("keep", keep), byref(released)))
        return released.value

    def query(self, size: SupportsIndex, stream: Any = None) -> Forecast:
        """Forecasts how a request would be served, and at what cost. Allocates nothing."""
        found = CForecast(size=ctypes.sizeof(CForecast))
        check(lib.vpmm_pool_query(self._pool(), block_size(size), stream_handle(stream), byref(found)))
        values = {name: getattr(found, name) for name in Forecast._fields}
        return Forecast(**{**values, "way": WORDS["way"][found.way]})

    def stats(self) -> Stats:
        """Returns the statistics of the pool."""
        found = CStats(size=ctypes.sizeof(CStats))
        check(lib.vpmm_pool_stats(self._pool(), byref(found)))
        return Stats(*(getattr(found, name) for name in Stats._fields))

    def reset_peaks(self) -> None:
        """Sets the peaks in the statistics to the present values."""
        check(lib.vpmm_pool_reset_peaks(self._pool()))

    def save_plan(self) -> None:
        """Writes the plan of the pool, its memory and addresses, for the next process."""
        check(lib.vpmm_pool_save_plan(self._pool()))

    def info(self) -> Info:
        """Returns the device, and the settings in force."""
        found = CInfo(size=ctypes.sizeof(CInfo))
        check(lib.vpmm_pool_info(self._pool(), byref(found)))
        return read(found)

    def set_limit(self, size: Size = 0) -> None:
        """Limits the device memory that the pool may hold; 0 removes the limit."""
        check(lib.vpmm_pool_set_limit(self._pool(), size_of("size", size)))

    def set_peers(self, devices: Iterable[int]) -> None:
        """Sets the other devices whose kernels can access the memory."""
        numbers = ordinals("device", devices)
        check(lib.vpmm_pool_set_peers(self._pool(), (c_int * len(numbers))(*numbers), len(numbers)))

    def dump(self) -> str:
        """Returns the layout, in the format of vpmm_pool_dump(3)."""
        pool = self._pool()
        return written_by(lambda out: lib.vpmm_pool_dump(pool, out))

    def check(self) -> None:
        """Checks every invariant of the pool, for tests. Raises Error if one does not hold."""
        check(lib.vpmm_pool_check(self._pool()))


class Pool(Calls):
    """
    A pool on one device. The options have the names and meanings of vpmm_pool_create(3). An option that is not given,
    or is None, has the value of its environment variable, or the default. Text is written as in the variable: "2M" for
    a size, "50%" for limit, "all" for peers, which is a list of devices otherwise. Both limit and limit_percent
    override VPMM_LIMIT.

    log is called with a level and a line. pressure is called with a size before an allocation fails, and returns
    whether it has given memory back. exhausted is called with a size and a text when an allocation fails. An exception
    in them is printed; in pressure it counts as False.
    """

    _handle: Optional[int] = None

    def __init__(self, *, device: Optional[SupportsIndex] = None, backend: Optional[str] = None,
                 page_size: Optional[Size] = None, va_size: Optional[Size] = None, pages: Optional[Size] = None,
                 reuse: Optional[Reuse] = None, log_level: Optional[LogLevel] = None,
                 log: Optional[Callable[[int, str], None]] = None, extent_max: Optional[Size] = None,
                 small: Optional[Small] = None, frag_ratio: Optional[Size] = None,
                 limit_percent: Optional[SupportsIndex] = None, overhead: Optional[Size] = None,
                 limit: Optional[Size] = None, keep: Optional[Size] = None, scrub: Optional[Scrub] = None,
                 pressure: Optional[Callable[[int], bool]] = None,
                 exhausted: Optional[Callable[[int, str], None]] = None,
                 trace: Union[str, bytes, "os.PathLike[str]", None] = None, overlap: Optional[Size] = None,
                 export_as: Optional[Export] = None, rdma: Optional[Rdma] = None,
                 peers: Union[str, Iterable[int], None] = None, stacks: Optional[Size] = None,
                 oom_dump: Union[str, bytes, "os.PathLike[str]", None] = None, budget: Optional[str] = None,
                 budget_floor: Optional[Size] = None, budget_weight: Optional[Size] = None,
                 budget_wait: Optional[Size] = None, budget_thread: Optional[BudgetThread] = None,
                 top: Optional[Top] = None,
                 plan: Union[str, bytes, "os.PathLike[str]", None] = None) -> None:
        # One that the object has already goes first: it has the functions that are replaced here.
        self.close()
        super().__init__(None)
        for name, function in (("log", log), ("pressure", pressure), ("exhausted", exhausted)):
            if function is not None and not callable(function):
                raise TypeError(f"{name}={function!r} is not a function")
        opts = COpts(size=ctypes.sizeof(COpts))
        check(lib.vpmm_opts_from_env(byref(opts)))
        fill(opts, {
            "device": device, "backend": backend, "page_size": page_size, "va_size": va_size, "pages": pages,
            "reuse": reuse, "log_level": log_level, "extent_max": extent_max, "small": small,
            "frag_ratio": frag_ratio, "limit_percent": limit_percent, "overhead": overhead, "limit": limit,
            "keep": keep, "scrub": scrub, "trace": trace, "overlap": overlap, "export_as": export_as, "rdma": rdma,
            "peers": peers, "stacks": stacks, "oom_dump": oom_dump,
            "budget": budget, "budget_floor": budget_floor, "budget_weight": budget_weight,
            "budget_wait": budget_wait, "budget_thread": budget_thread, "top": top,
            "plan": plan,
        })
        # The library keeps their addresses, and this object what is behind them.
        self._callbacks = (
            LogFn(lambda _data, level, message: log is not None and
                  log(level, message.decode(errors="replace"))),
            PressureFn(lambda _data, _pool, size: answer(lambda: pressure is not None and pressure(size))),
            ExhaustedFn(lambda _data, _pool, size, message: exhausted is not None and
                        exhausted(size, message.decode(errors="replace"))),
        )
        if log is not None:
            opts.log = self._callbacks[0]
        if pressure is not None:
            opts.pressure = self._callbacks[1]
        if exhausted is not None:
            opts.exhausted = self._callbacks[2]
        made = c_void_p()
        check(lib.vpmm_pool_create(byref(made), byref(opts)))
        self._handle = made.value

    def _pool(self) -> int:
        if not self._handle:
            raise Error(errno.EBADF, "the pool is closed")
        return self._handle

    def close(self) -> None:
        """Destroys the pool, and frees its blocks."""
        handle, self._handle = self._handle, None
        if handle:
            lib.vpmm_pool_destroy(handle)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Both would destroy it.
        raise TypeError("a pool cannot be copied or pickled")

    def __del__(self) -> None:
        self.close()


def lookup(address: SupportsIndex) -> Allocation:
    """Finds the allocation, in any pool of the process, that contains an address."""
    found = CAllocation(size=ctypes.sizeof(CAllocation))
    check(lib.vpmm_lookup(address_of(address), byref(found)))
    return Allocation(found.device, found.base or 0, found.bytes)
