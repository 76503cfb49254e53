#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
CUDA tensors between processes, by torch.multiprocessing, with native's allocator and with libvpmm's. It is no part of
make check, as it wants a GPU and PyTorch 2.5 or later; some 20 seconds for each. One line of TAP for each check:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-torch-share.py [native|vpmm] [--count=N]
"""

import argparse
import faulthandler
import os
import subprocess
import sys
import time
import traceback

# A child of spawn comes here too, before anything is done on its GPU.
if os.environ.setdefault("SHARE_MODE", "vpmm" if "vpmm" in sys.argv else "native") == "vpmm":
    import vpmm.torch

    vpmm.torch.enable()

import torch  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

MIB = 1 << 20

# Seconds that a check may take; then its processes say where they are.
PATIENCE = 60
CHECKS = []


def check(fn):
    CHECKS.append(fn)
    return fn


def echo(inbox, outbox):
    """The other process: adds one to each tensor that comes, in place, says its sum, and lets go of it."""
    faulthandler.dump_traceback_later(PATIENCE)
    for tensors in iter(inbox.get, None):
        sums = []
        for tensor in tensors:
            sums.append(float(tensor.double().sum()))
            tensor += 1
        torch.cuda.synchronize()
        outbox.put(sums)
        del tensors, tensor


def keep(inbox, outbox):
    """Has a tensor, says so, and says what is in it once its sender has ended."""
    tensor = inbox.get()
    outbox.put("have")
    inbox.get()
    outbox.put(float(tensor.sum()))


def send_and_end(outbox, turn):
    """Sends a tensor, and ends once it is told to: without freeing it."""
    outbox.put(torch.full((3 * MIB,), 2.0, device="cuda"))
    turn.get()
    os._exit(0)


class Other:
    """Another process with two queues."""

    def __init__(self, target=echo, mode=None):
        """In a mode of its own if one is named."""
        before = os.environ["SHARE_MODE"]
        os.environ["SHARE_MODE"] = mode or before
        context = mp.get_context("spawn")
        self.to, self.back = context.Queue(), context.Queue()
        self.process = context.Process(target=target, args=(self.to, self.back))
        self.process.start()
        os.environ["SHARE_MODE"] = before

    def ask(self, *tensors):
        self.to.put(tensors)
        return self.back.get(timeout=60)

    def end(self):
        self.to.put(None)
        self.process.join(60)
        assert self.process.exitcode == 0, self.process.exitcode


@check
def kinds(options):
    """Small, large, views, and of a pool: the other sees what is there, and what it writes is seen here."""
    other = Other()
    base = torch.arange(6 * MIB, device="cuda", dtype=torch.float32)
    tensors = [torch.ones(3, device="cuda"), base, torch.ones(40 * MIB, device="cuda", dtype=torch.uint8),
               torch.full((1000, 77), 2.0, device="cuda").t(), torch.ones(5, 5, device="cuda")[1:3, 2:]]
    if hasattr(torch.cuda, "MemPool"):
        with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
            tensors += [torch.ones(1000, device="cuda") for _ in range(3)]
    for tensor in tensors:
        before = float(tensor.double().sum())
        count = tensor.numel()
        assert other.ask(tensor) == [before]
        assert float(tensor.double().sum()) == before + count, (before, count)
    view = base[MIB:2 * MIB]
    before = base.clone()
    other.ask(view, base[3 * MIB::2])
    view_sum = (base - before).double()
    assert float(view_sum[MIB:2 * MIB].sum()) == MIB and float(view_sum[3 * MIB::2].sum()) == 1.5 * MIB
    assert float(view_sum.sum()) == 2.5 * MIB
    other.end()


def half(inbox, outbox):
    """Has memory of PyTorch's own allocator as well, adds one to what comes, and sends a half of it back."""
    mine = torch.ones(MIB, device="cuda")
    held = []
    for tensors in iter(inbox.get, None):
        sums = [float(tensor.double().sum()) for tensor in tensors]
        for tensor in tensors:
            tensor += mine[0]
        # Again before the first has gone, as a queue that two read from.
        held = held[-2:] + [tensors[0]]
        back = tensors[0].flatten()[::2] * 1
        torch.cuda.synchronize()
        outbox.put((sums, back, torch.cuda.get_allocator_backend()))
        del tensors, tensor
    assert float(mine.sum()) == MIB


@check
def without_libvpmm(options):
    """The other process has PyTorch's own allocator, and has used it by the time that a tensor comes."""
    other = Other(half, mode="native")
    for i in range(40):
        large = torch.full(((i % 5 + 1) * MIB,), 5.0, device="cuda")
        tensors = [torch.full((1000 * i + 10,), 2.0, device="cuda"), large[5:]]
        before = [float(tensor.double().sum()) for tensor in tensors]
        sums, back, backend = other.ask(*tensors)
        assert sums == before and backend == "native", (sums, before, backend)
        assert float(back.sum()) == 3.0 * back.numel() and float(tensors[0].sum()) == 3.0 * tensors[0].numel()
        del tensors, large, back
    other.end()
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() < 8 * MIB, torch.cuda.memory_allocated()


@check
def model(options):
    """A model's parameters, shared, as Hogwild and servers do."""
    other = Other()
    net = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(50)]).cuda()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        assert other.ask(*[parameter.detach() for parameter in net.parameters()]) == [0.0] * 100
        assert all(bool((parameter == 1).all()) for parameter in net.parameters())
    other.end()


@check
def many(options):
    """One after the other, each freed here while the next is made; then memory is as before."""
    other = Other()
    other.ask(torch.ones(1000, device="cuda"))
    began = time.perf_counter()
    for first in range(0, options.count, 10):
        tensors = [torch.full((1000 + 100 * i,), float(first), device="cuda") for i in range(10)]
        assert other.ask(*tensors) == [float(first) * (1000 + 100 * i) for i in range(10)]
        del tensors
        if first % 1000 == 0:
            print(f"# {options.mode}: {first} after {time.perf_counter() - began:.2f} s", flush=True)
    took = time.perf_counter() - began
    print(f"# {options.mode}: {options.count} tensors, {1e6 * took / options.count:.0f} us each", flush=True)
    other.end()
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() < 8 * MIB, torch.cuda.memory_allocated()
    print(f"# {options.mode}: {torch.cuda.memory_reserved() // MIB} MiB reserved afterwards", flush=True)


@check
def sender_ends(options):
    context = mp.get_context("spawn")
    path, turn = context.Queue(), context.Queue()
    sender = context.Process(target=send_and_end, args=(path, turn))
    sender.start()
    tensor = path.get(timeout=60)
    turn.put("end")
    sender.join(60)
    torch.cuda.synchronize()
    assert float(tensor.sum()) == 6.0 * MIB
    junk = [torch.full((3 * MIB,), 7.0, device="cuda") for _ in range(5)]
    assert float(tensor.sum()) == 6.0 * MIB and float(junk[4][0]) == 7
    del tensor


@check
def receiver_keeps(options):
    """The other has a tensor while this process frees and allocates, by PyTorch's counters."""
    other = Other(keep)
    tensor = torch.full((3 * MIB,), 3.0, device="cuda")
    other.to.put(tensor)
    assert other.back.get(timeout=60) == "have"
    del tensor
    junk = [torch.full((3 * MIB,), 7.0, device="cuda") for _ in range(20)]
    torch.cuda.synchronize()
    other.to.put("now")
    assert other.back.get(timeout=60) == 9.0 * MIB
    other.process.join(60)
    del junk


def run(options):
    failed = 0
    for fn in CHECKS:
        if options.only not in fn.__name__:
            continue
        faulthandler.dump_traceback_later(PATIENCE)
        try:
            fn(options)
            print(f"ok - {options.mode}: {fn.__name__}", flush=True)
        except BaseException:
            failed += 1
            print(f"FAIL - {options.mode}: {fn.__name__}", flush=True)
            print("\n".join(f"# {line}" for line in traceback.format_exc().splitlines()), flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description="CUDA tensors between processes")
    parser.add_argument("mode", nargs="?", choices=("native", "vpmm"))
    parser.add_argument("--only", default="", help="only checks whose name has this in it")
    parser.add_argument("--count", type=int, default=10000, help="tensors that are passed one after the other")
    options = parser.parse_args()
    if options.mode:
        return 1 if run(options) else 0
    results = [subprocess.run([sys.executable, os.path.abspath(__file__), mode, f"--count={options.count}",
                               f"--only={options.only}"], check=False).returncode for mode in ("native", "vpmm")]
    print(f"{'FAIL' if any(results) else 'ok'}: {sum(map(bool, results))} failed")
    return 1 if any(results) else 0


if __name__ == "__main__":
    sys.exit(main())
