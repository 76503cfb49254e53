# SPDX-License-Identifier: LGPL-2.1-or-later
"""The definitions of vpmm.h and vpmm-shared.h. python/generate.py writes this file: do not edit it."""

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Dict, List, Literal, NamedTuple, Optional, Tuple, Union, get_args

VERSION_MAJOR = 0
VERSION_MINOR = 1
VERSION_PATCH = 0
BUDGET_WAIT_NONE = -1
KEEP_NONE = 1
OVERLAP_AUTO = -1
OVERLAP_NONE = -2
ZERO = 0x1
IDLE = 0x2
SHAREABLE = 0x4
TAG_PAUSABLE = 0x1
TAG_DROP = 0x40000000
TAG_STAY = 0x80000000
TAG_ALL = 0x3fffffff
PAUSE_DROP = 0x1
SHARED_FINE = 0x1
PAGE_EMPTY = 0x1
PAGE_PREFER_HOST = 0x2
PAGE_PREFER_DEVICE = 0x4
PAGE_MOVING = 0x8
PAGE_READ_MOSTLY = 0x10
PAGE_DUPLICATE = 0x20
PAGE_PINNED = 0x40
MOVE_SKIP = 0x1
MOVE_COPIED = 0x2
MOVE_DONE = 0x4

LogLevel = Literal["none", "error", "warning", "info", "debug"]
Reuse = Literal["async", "block"]
Small = Literal["pool", "driver"]
Scrub = Literal["none", "stream", "always"]
Export = Literal["none", "fd", "fabric", "auto"]
Top = Literal["off", "on"]
Rdma = Literal["off", "on"]
BudgetThread = Literal["on", "off"]
Way = Literal["none", "reuse", "harvest", "grow"]
Location = Literal["host", "device"]
Advice = Literal["none", "prefer_host", "prefer_device", "read_mostly"]
MirrorAction = Literal["move", "unmap", "map"]

# By the names of the fields.
WORDS: Dict[str, Tuple[str, ...]] = {
    "reuse": get_args(Reuse),
    "log_level": get_args(LogLevel),
    "small": get_args(Small),
    "scrub": get_args(Scrub),
    "export_as": get_args(Export),
    "rdma": get_args(Rdma),
    "budget_thread": get_args(BudgetThread),
    "top": get_args(Top),
    "way": get_args(Way),
}

LogFn = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
PressureFn = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
ExhaustedFn = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_char_p)
GuardFn = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)


class COpts(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("backend", c_char_p),
        ("device", POINTER(c_int)),
        ("page_size", c_size_t),
        ("va_size", c_size_t),
        ("pages", c_size_t),
        ("reuse", c_int),
        ("log_level", c_int),
        ("log", LogFn),
        ("log_data", c_void_p),
        ("extent_max", c_size_t),
        ("small", c_int),
        ("frag_ratio", c_int),
        ("limit_percent", c_int),
        ("overhead", c_int),
        ("limit", c_size_t),
        ("keep", c_size_t),
        ("scrub", c_int),
        ("pressure", PressureFn),
        ("exhausted", ExhaustedFn),
        ("pressure_data", c_void_p),
        ("trace", c_char_p),
        ("overlap", c_int),
        ("export_as", c_int),
        ("rdma", c_int),
        ("peers", c_uint64),
        ("stacks", c_size_t),
        ("oom_dump", c_char_p),
        ("budget", c_char_p),
        ("budget_floor", c_size_t),
        ("budget_weight", c_int),
        ("budget_wait", c_int),
        ("budget_thread", c_int),
        ("top", c_int),
        ("plan", c_char_p),
    ]


class Info(NamedTuple):
    """The device of a pool and the settings in force; vpmm_pool_info(3) explains each."""

    backend: str
    device: int
    device_name: str
    driver_version: int
    granularity: int
    memory_total: int
    memory_free: int
    mapping_limit: int
    page_size: int
    va_size: int
    pages: int
    reuse: Reuse
    log_level: LogLevel
    extent_max: int
    small: Small
    frag_ratio: int
    scrub: Scrub
    overhead: int
    limit: Union[int, Literal["none"]]
    keep: Union[int, Literal["all", "none"]]
    trace: Optional[str]
    overlap: Union[int, Literal["auto", "none"]]
    export_as: Export
    rdma: Rdma
    peers: Tuple[int, ...]
    stacks: int
    oom_dump: Optional[str]
    budget: Optional[str]
    budget_floor: int
    budget_weight: int
    budget_wait: int
    budget_thread: BudgetThread
    top: Top
    plan: Optional[str]


class CInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("backend", c_char * 16),
        ("device", c_int),
        ("device_name", c_char * 128),
        ("driver_version", c_int),
        ("granularity", c_uint64),
        ("memory_total", c_uint64),
        ("memory_free", c_uint64),
        ("mapping_limit", c_uint64),
        ("page_size", c_uint64),
        ("va_size", c_uint64),
        ("pages", c_uint64),
        ("reuse", c_int),
        ("log_level", c_int),
        ("extent_max", c_uint64),
        ("small", c_int),
        ("frag_ratio", c_int),
        ("scrub", c_int),
        ("overhead", c_int),
        ("limit", c_uint64),
        ("keep", c_uint64),
        ("trace", c_char_p),
        ("overlap", c_int),
        ("export_as", c_int),
        ("rdma", c_int),
        ("peers", c_uint64),
        ("stacks", c_uint64),
        ("oom_dump", c_char_p),
        ("budget", c_char_p),
        ("budget_floor", c_uint64),
        ("budget_weight", c_int),
        ("budget_wait", c_int),
        ("budget_thread", c_int),
        ("top", c_int),
        ("plan", c_char_p),
    ]


class Stats(NamedTuple):
    """The statistics of a pool; vpmm_pool_stats(3) explains each."""

    reserved: int
    mapped: int
    live: int
    free: int
    holes: int
    zombies: int
    small_live: int
    small_mapped: int
    peak_live: int
    peak_mapped: int
    mallocs: int
    frees: int
    reuses: int
    steals: int
    defrags: int
    grows: int
    waits: int
    creates: int
    maps: int
    accesses: int
    unmaps: int
    releases: int
    grown: int
    remapped: int
    chunks: int
    regions: int
    extents: int
    streams: int
    driver_ns: int
    peak_small: int
    peak_taken: int
    stuck: int
    spans: int
    mappings: int
    held: int
    given_back: int
    scrubbed: int
    waits_sampled: int
    wait_ns: int
    requested: int
    peak_requested: int
    shareable: int
    imported: int
    shared: int
    budget_size: int
    budget_left: int
    budget_idle: int
    paused: int
    saved: int
    overlap: int
    stranded: int
    unsettled: int


class CStats(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("reserved", c_uint64),
        ("mapped", c_uint64),
        ("live", c_uint64),
        ("free", c_uint64),
        ("holes", c_uint64),
        ("zombies", c_uint64),
        ("small_live", c_uint64),
        ("small_mapped", c_uint64),
        ("peak_live", c_uint64),
        ("peak_mapped", c_uint64),
        ("mallocs", c_uint64),
        ("frees", c_uint64),
        ("reuses", c_uint64),
        ("steals", c_uint64),
        ("defrags", c_uint64),
        ("grows", c_uint64),
        ("waits", c_uint64),
        ("creates", c_uint64),
        ("maps", c_uint64),
        ("accesses", c_uint64),
        ("unmaps", c_uint64),
        ("releases", c_uint64),
        ("grown", c_uint64),
        ("remapped", c_uint64),
        ("chunks", c_uint64),
        ("regions", c_uint64),
        ("extents", c_uint64),
        ("streams", c_uint64),
        ("driver_ns", c_uint64),
        ("peak_small", c_uint64),
        ("peak_taken", c_uint64),
        ("stuck", c_uint64),
        ("spans", c_uint64),
        ("mappings", c_uint64),
        ("held", c_uint64),
        ("given_back", c_uint64),
        ("scrubbed", c_uint64),
        ("waits_sampled", c_uint64),
        ("wait_ns", c_uint64),
        ("requested", c_uint64),
        ("peak_requested", c_uint64),
        ("shareable", c_uint64),
        ("imported", c_uint64),
        ("shared", c_uint64),
        ("budget_size", c_uint64),
        ("budget_left", c_uint64),
        ("budget_idle", c_uint64),
        ("paused", c_uint64),
        ("saved", c_uint64),
        ("overlap", c_uint64),
        ("stranded", c_uint64),
        ("unsettled", c_uint64),
    ]


class Forecast(NamedTuple):
    """How a request would be served, and at what cost; vpmm_pool_query(3) explains each."""

    way: Way
    waits: int
    remapped: int
    grown: int
    calls: int
    largest: int


class CForecast(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("way", c_int),
        ("waits", c_uint64),
        ("remapped", c_uint64),
        ("grown", c_uint64),
        ("calls", c_uint64),
        ("largest", c_uint64),
    ]


class CAllocation(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pool", c_void_p),
        ("device", c_int),
        ("base", c_void_p),
        ("bytes", c_uint64),
    ]


class TagStats(NamedTuple):
    """The statistics of a tag in a pool; vpmm_tag_stats(3) explains each."""

    live: int
    peak_live: int
    requested: int
    blocks: int
    mapped: int
    limit: int
    paused: int
    saved: int
    kept: int


class CTagStats(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("live", c_uint64),
        ("peak_live", c_uint64),
        ("requested", c_uint64),
        ("blocks", c_uint64),
        ("mapped", c_uint64),
        ("limit", c_uint64),
        ("paused", c_uint64),
        ("saved", c_uint64),
        ("kept", c_uint64),
    ]


class CPage(ctypes.Structure):
    _fields_ = [
        ("addr", c_void_p),
        ("size", c_size_t),
        ("location", c_int),
        ("flags", c_uint),
        ("sequence", c_uint64),
    ]


class SharedStats(NamedTuple):
    """The statistics of the shared ranges of a pool; vpmm_shared_stats(3) explains each."""

    ranges: int
    device: int
    device_unused: int
    host: int
    host_unused: int
    faults: int
    read_ahead: int
    to_device: int
    to_host: int
    pages_to_device: int
    pages_to_host: int
    evicted: int
    skipped: int
    retries: int
    fault_ns: int
    migrate_ns: int
    duplicates: int
    read_copies: int


class CSharedStats(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("ranges", c_uint64),
        ("device", c_uint64),
        ("device_unused", c_uint64),
        ("host", c_uint64),
        ("host_unused", c_uint64),
        ("faults", c_uint64),
        ("read_ahead", c_uint64),
        ("to_device", c_uint64),
        ("to_host", c_uint64),
        ("pages_to_device", c_uint64),
        ("pages_to_host", c_uint64),
        ("evicted", c_uint64),
        ("skipped", c_uint64),
        ("retries", c_uint64),
        ("fault_ns", c_uint64),
        ("migrate_ns", c_uint64),
        ("duplicates", c_uint64),
        ("read_copies", c_uint64),
    ]


# The types of the result and of the arguments of each call.
CALLS: Dict[str, Tuple[Any, List[Any]]] = {
    "vpmm_pool_create": (c_int, [POINTER(c_void_p), POINTER(COpts)]),
    "vpmm_pool_destroy": (None, [c_void_p]),
    "vpmm_pool_abandon": (c_int, [c_void_p]),
    "vpmm_malloc": (c_int, [c_void_p, POINTER(c_void_p), c_size_t, c_void_p]),
    "vpmm_malloc_flags": (c_int, [c_void_p, POINTER(c_void_p), c_size_t, c_void_p, c_uint]),
    "vpmm_free": (c_int, [c_void_p, c_void_p, c_void_p]),
    "vpmm_realloc": (c_int, [c_void_p, POINTER(c_void_p), c_size_t, c_void_p]),
    "vpmm_malloc_aligned": (c_int, [c_void_p, POINTER(c_void_p), c_size_t, c_size_t, c_void_p]),
    "vpmm_malloc_growable": (c_int, [c_void_p, POINTER(c_void_p), c_size_t, c_size_t, c_void_p]),
    "vpmm_send": (c_int, [c_void_p, c_void_p, c_int]),
    "vpmm_lend": (c_int, [c_void_p, c_void_p, c_int]),
    "vpmm_lend_key": (c_int, [c_void_p, c_void_p, POINTER(c_uint64), POINTER(c_size_t)]),
    "vpmm_receive": (c_int, [c_void_p, POINTER(c_void_p), POINTER(c_size_t), c_int]),
    "vpmm_use": (c_int, [c_void_p, c_void_p, c_void_p]),
    "vpmm_stream_retire": (c_int, [c_void_p, c_void_p]),
    "vpmm_capture_id": (c_int, [c_void_p, c_void_p, POINTER(c_uint64)]),
    "vpmm_capture_group": (c_int, [c_void_p, c_uint64, c_uint64]),
    "vpmm_graph_retire": (c_int, [c_void_p, c_uint64, c_void_p]),
    "vpmm_pool_trim": (c_int, [c_void_p, c_size_t, POINTER(c_size_t)]),
    "vpmm_pool_query": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(CForecast)]),
    "vpmm_pool_stats": (c_int, [c_void_p, POINTER(CStats)]),
    "vpmm_tag_open": (c_int, [c_char_p, c_uint, POINTER(c_uint)]),
    "vpmm_tag_set": (c_uint, [c_uint]),
    "vpmm_tag_stats": (c_int, [c_void_p, c_uint, POINTER(CTagStats)]),
    "vpmm_tag_limit": (c_int, [c_void_p, c_uint, c_size_t]),
    "vpmm_pause_prepare": (c_int, [c_void_p, c_uint]),
    "vpmm_pause": (c_int, [c_void_p, c_uint, c_uint]),
    "vpmm_resume": (c_int, [c_void_p, c_uint, c_void_p]),
    "vpmm_pause_guard": (c_int, [GuardFn, c_void_p]),
    "vpmm_pool_set_limit": (c_int, [c_void_p, c_size_t]),
    "vpmm_pool_set_peers": (c_int, [c_void_p, POINTER(c_int), c_size_t]),
    "vpmm_pool_reset_peaks": (c_int, [c_void_p]),
    "vpmm_pool_save_plan": (c_int, [c_void_p]),
    "vpmm_pool_info": (c_int, [c_void_p, POINTER(CInfo)]),
    "vpmm_pool_dump": (c_int, [c_void_p, c_void_p]),
    "vpmm_pool_check": (c_int, [c_void_p]),
    "vpmm_lookup": (c_int, [c_void_p, POINTER(CAllocation)]),
    "vpmm_opts_from_env": (c_int, [POINTER(COpts)]),
    "vpmm_last_error": (c_char_p, []),
    "vpmm_version": (c_char_p, []),
    "vpmm_shared_alloc": (c_int, [c_void_p, POINTER(c_void_p), c_size_t, c_uint]),
    "vpmm_shared_free": (c_int, [c_void_p, c_void_p, c_void_p]),
    "vpmm_migrate": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p, c_void_p]),
    "vpmm_locate": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(CPage)]),
    "vpmm_fault": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_uint]),
    "vpmm_advise": (c_int, [c_void_p, c_void_p, c_size_t, c_int]),
    "vpmm_pin": (c_int, [c_void_p, c_void_p, c_size_t]),
    "vpmm_unpin": (c_int, [c_void_p, c_void_p, c_size_t]),
    "vpmm_mirror_register": (c_int, [c_void_p, POINTER(c_void_p), c_void_p, c_void_p]),
    "vpmm_mirror_unregister": (None, [c_void_p]),
    "vpmm_shared_stats": (c_int, [c_void_p, POINTER(CSharedStats)]),
}
