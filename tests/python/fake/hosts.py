# SPDX-License-Identifier: LGPL-2.1-or-later
"""Streams of the host backend for the frameworks of our own."""

import ctypes

from vpmm._library import check, lib

current = 0


def create():
    handle = ctypes.c_void_p()
    check(lib.vpmm_host_stream_create(ctypes.byref(handle)))
    return handle.value


def destroy(handle):
    check(lib.vpmm_host_stream_destroy(ctypes.c_void_p(handle)))


def begin_capture(handle):
    check(lib.vpmm_host_capture_begin(ctypes.c_void_p(handle)))


def end_capture(handle):
    graph = ctypes.c_void_p()
    check(lib.vpmm_host_capture_end(ctypes.c_void_p(handle), ctypes.byref(graph)))
    return graph.value


def destroy_graph(graph):
    check(lib.vpmm_host_graph_destroy(ctypes.c_void_p(graph)))


def set_device(device):
    """Returns the device before."""
    global current
    check(lib.vpmm_host_set_device(device))
    before, current = current, device
    return before


def fill(address, value, size):
    if size:
        ctypes.memset(address, value, size)


def copy(to, address, size):
    ctypes.memmove(to, address, size)


def read(address, size):
    return ctypes.string_at(address, size) if size else b""
