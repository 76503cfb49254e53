#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A block of device memory that a process hands to another one, which has the same memory then."""

import multiprocessing
import socket

import vpmm


def receive(connection):
    with connection, vpmm.Pool(export_as="fd") as pool:
        address, size = pool.receive(connection)
        print(f"received {size >> 20} MiB, {pool.stats().imported >> 20} of them are the other process's", flush=True)
        # Work on the block goes here, and is to be complete before the answer.
        connection.sendall(b"done")
        pool.free(address)


def main():
    # Not by a fork: a child of one cannot use CUDA, nor the pools of its parent.
    context = multiprocessing.get_context("spawn")
    mine, theirs = socket.socketpair()
    mine.settimeout(60)
    process = context.Process(target=receive, args=(theirs,))
    process.start()
    with mine, theirs, vpmm.Pool(export_as="fd") as pool:
        block = pool.malloc(64 << 20, shareable=True)
        # The work that fills the block has to be complete here.
        pool.send(block, mine)
        print(mine.recv(4).decode())
        pool.free(block)
    process.join()


if __name__ == "__main__":
    main()
