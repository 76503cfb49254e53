#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The largest size that fits: how long a sequence, or how large a batch, a training program can have with so much memory of
the device, with PyTorch's allocators and with libvpmm. Found by bisection: a size fits if all steps run, in a process of
its own, as cuDNN's choices depend on what has failed before. It is no part of make check, as it wants a GPU and PyTorch;
with the default limits some 10 minutes for each program on an H200:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-torch-fit.py [--limit=16] [--steps=200]

Allocators take turns on a device, or run --at-once, each with the limit for itself. cudaMallocAsync counts against the
limit of PyTorch only what is allocated, not what it has reserved. So it gets a device on which no more than the limit
is free, and runs alone, before the others.
"""

import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import time

GIB = 1 << 30
MODES = ("async", "native", "expandable", "vpmm")
parser = argparse.ArgumentParser(description="the largest size of a training program that fits")
parser.add_argument("mode", nargs="?", choices=MODES)
parser.add_argument("--limit", type=float, default=16, help="GiB of the device that the program may have; 0: all")
parser.add_argument("--steps", type=int, default=200, help="steps that have to run")
parser.add_argument("--rounds", default="0,1,2", help="seeds of the random sizes; each is a measurement")
parser.add_argument("--names", default="gpt,lora,unet", help="which programs")
parser.add_argument("--modes", default=",".join(MODES), help="which allocators")
parser.add_argument("--at-once", action="store_true", help="run the allocators beside one another, but for async")
parser.add_argument("--seconds", type=float, default=1e9, help="start no further try after so many for an allocator")
options = parser.parse_args()


def run_all():
    modes, started, rows = options.modes.split(","), [], {}
    for mode in modes:
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), mode, *sys.argv[1:]],
                                   stdout=subprocess.PIPE, text=True)
        started.append((mode, process))
        if mode == "async" or not options.at_once:
            rows[mode] = process.communicate()[0]
    for mode, process in started:
        out = rows[mode] if mode in rows else process.communicate()[0]
        rows[mode] = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        print(f"# {mode}: status {process.returncode}")
    print(f"{'largest size that runs':32}" + "".join(f"{mode:>24}" for mode in modes))
    for name in options.names.split(","):
        cells = [[row["size"] for row in rows[mode] if row["name"] == name] for mode in modes]
        print(f"{name:32}" + "".join(f"{' '.join(map(str, cell)) or 'failed':>24}" for cell in cells))
        middle = [statistics.median(cell) if cell else 0 for cell in cells]
        print(f"{'of the least':32}" + "".join(f"{size / min(middle):24.3f}" if min(middle) else "" for size in middle))


if options.mode is None:
    sys.exit(run_all())
if options.mode == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
if options.mode == "async":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
# Nothing touches the driver before a try, which is a fork of this process.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
BEGAN = time.monotonic()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


class Layer(nn.Module):
    """A layer of a transformer; with a rank, its weights are fixed and small ones beside them are trained."""

    def __init__(self, width, rank=0):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        sizes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
        self.fixed = nn.ModuleList(nn.Linear(*size) for size in sizes)
        self.beside = None
        if rank:
            self.fixed.requires_grad_(False)
            self.beside = nn.ModuleList(nn.Sequential(nn.Linear(a, rank), nn.Linear(rank, b)) for a, b in sizes)

    def linear(self, i, x):
        y = self.fixed[i](x)
        return y + self.beside[i](x) if self.beside else y

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.linear(0, self.norms[0](x)).view(batch, length, 3, -1, 64).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.linear(1, y.transpose(1, 2).reshape(batch, length, width))
        return x + self.linear(3, F.gelu(self.linear(2, self.norms[1](x))))


def gpt_steps():
    """Sequences of varying length, two at a time; the size is the longest."""
    layers = nn.Sequential(nn.Embedding(16000, 512), *[Layer(512) for _ in range(6)], nn.Linear(512, 16000)).cuda()
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4)

    def step(size, chance):
        optimizer.zero_grad(set_to_none=True)
        tokens = torch.randint(0, 16000, (2, max(int(size * chance.uniform(0.2, 1)), 8)), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(layers(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
    return step


def lora_steps():
    """Fixed weights with small ones beside them, and activations that are computed anew; the size is the longest."""
    layers = nn.ModuleList(Layer(512, 16) for _ in range(2)).cuda()
    optimizer = torch.optim.AdamW([p for p in layers.parameters() if p.requires_grad], lr=1e-4)

    def step(size, chance):
        optimizer.zero_grad(set_to_none=True)
        x = torch.randn(512, max(int(size * chance.uniform(0.2, 1)), 8), 512, device="cuda", requires_grad=True)
        target, kept = x.detach(), x
        with torch.autocast("cuda", torch.bfloat16):
            for layer in layers:
                kept = checkpoint(layer, kept, use_reentrant=False)
            loss = F.mse_loss(kept.float(), target)
        loss.backward()
        optimizer.step()
    return step


def unet_steps():
    """Images of several resolutions, down and up again; the size is the batch, at the least resolution."""
    widths = (32, 64, 128, 256)
    down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip((3,) + widths, widths)).cuda()
    up = nn.ModuleList(nn.ConvTranspose2d(2 * b, a, 4, 2, 1) for a, b in zip((3,) + widths, widths)).cuda()
    optimizer = torch.optim.AdamW([*down.parameters(), *up.parameters()], lr=1e-4)

    def step(size, chance):
        optimizer.zero_grad(set_to_none=True)
        edge = chance.choice((64, 96, 128, 160, 192))
        x = torch.randn(max(size * 64 * 64 // (edge * edge), 1), 3, edge, edge, device="cuda")
        kept, y = [], x
        for layer in down:
            y = F.silu(layer(y))
            kept.append(y)
        for layer, beside in zip(reversed(up), reversed(kept)):
            y = F.silu(layer(torch.cat([y[:, :beside.shape[1]], beside], 1)))
        F.mse_loss(y, x).backward()
        optimizer.step()
    return step


def is_exhausted(error):
    """Libraries below PyTorch have errors of their own for that."""
    return isinstance(error, torch.OutOfMemoryError) or any(
        word in str(error) for word in ("out of memory", "ALLOC_FAILED", "HOST_ALLOCATION_FAILED"))


def run_steps(name, size, seed, steps):
    """How many ran."""
    if options.mode == "vpmm":
        import vpmm.torch
        vpmm.torch.enable()
    torch.manual_seed(seed)
    step, chance = PROGRAMS[name][0](), random.Random(seed)
    # The driver's memory for kernels is no part of the limit.
    step(64, random.Random(0))
    kept = set_limit() if options.limit else None
    for done in range(steps):
        try:
            step(size, chance)
        except RuntimeError as error:
            if not is_exhausted(error):
                raise
            return done
    torch.cuda.synchronize()
    del kept
    return steps


def fits(name, size, seed, steps):
    if time.monotonic() - BEGAN > options.seconds:
        raise TimeoutError
    began = time.monotonic()
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(into, str(run_steps(name, size, seed, steps)).encode())
        os._exit(0)
    os.close(into)
    with open(out, encoding="ascii") as file:
        done = int(file.read() or -1)
    os.waitpid(pid, 0)
    assert done >= 0, "the try has failed"
    print(f"# {options.mode}: {name} {seed}: size {size}, {done} of {steps} steps, {time.monotonic() - began:.1f} s",
          file=sys.stderr, flush=True)
    return done == steps


def bisect(low, high, tries):
    """low fits and high does not; within one percent."""
    while high - low > max(low // 100, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if tries(middle) else (low, middle)
    return low, high


def largest(name, seed, low, high):
    """Few steps, which take little time, say what certainly does not fit. Then all steps, from there downwards."""
    few = min(options.steps, 20)

    while not fits(name, low, seed, few):
        low, high = low // 2, low
    while not high or fits(name, high, seed, few):
        low, high = high or low, 2 * (high or low)
    low, high = bisect(low, high, lambda size: fits(name, size, seed, few))
    down = max(low // 100, 1)
    while not fits(name, low, seed, options.steps):
        low, high, down = max(low - down, 1), low, 2 * down
    return bisect(low, high, lambda size: fits(name, size, seed, options.steps))


def set_limit():
    """The rest of the device is out of reach for this process, or nobody's: then what this returns keeps it."""
    size = int(options.limit * GIB)
    if options.mode != "async":
        torch.cuda.set_per_process_memory_fraction(size / torch.cuda.get_device_properties(0).total_memory)
        return None
    torch.cuda.synchronize()
    pointer, driver = ctypes.c_uint64(), ctypes.CDLL("libcuda.so.1")
    status = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(torch.cuda.mem_get_info()[0] - size))
    assert status == 0, status
    return pointer


# How a program is made, and where the search begins.
PROGRAMS = {"gpt": (gpt_steps, 20000), "lora": (lora_steps, 800), "unet": (unet_steps, 2048)}


def main():
    for name in options.names.split(","):
        low, high = PROGRAMS[name][1], 0
        for seed in map(int, options.rounds.split(",")):
            try:
                size, above = largest(name, seed, low, high)
            except TimeoutError:
                print(f"# {options.mode}: {name}: out of time in round {seed}", file=sys.stderr, flush=True)
                break
            print(json.dumps({"name": name, "size": size, "above": above}), flush=True)
            low, high = size * 19 // 20, size * 21 // 20


main()
