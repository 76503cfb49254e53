#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The largest size that fits: how long a sequence, or how large a batch, a training program can have with so much memory of
the device, with PyTorch's allocators and with libvpmm. Found by bisection: a size fits if all steps run. It is no part
of make check, as it wants a GPU and PyTorch; with the default limits some 10 minutes for a round:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-torch-fit.py [--limit=16] [--steps=200]

Allocators take turns on a device, or run --at-once, each with the limit for itself.
"""

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys

GIB = 1 << 30
MODES = ("native", "expandable", "async", "vpmm")
parser = argparse.ArgumentParser(description="the largest size of a training program that fits")
parser.add_argument("mode", nargs="?", choices=MODES)
parser.add_argument("--limit", type=float, default=16, help="GiB of the device that the program may have; 0: all")
parser.add_argument("--steps", type=int, default=200, help="steps that have to run")
parser.add_argument("--rounds", type=int, default=3, help="how often each is measured, with other random sizes")
parser.add_argument("--names", default="gpt,lora,unet", help="which programs")
parser.add_argument("--at-once", action="store_true", help="run the allocators beside one another")
options = parser.parse_args()


def run_all():
    started, rows = [], {}
    for mode in MODES:
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), mode, *sys.argv[1:]],
                                   stdout=subprocess.PIPE, text=True)
        started.append((mode, process))
        if not options.at_once:
            process.wait()
    for mode, process in started:
        out = process.communicate()[0]
        rows[mode] = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        print(f"# {mode}: status {process.returncode}")
    print(f"{'largest size that runs':32}" + "".join(f"{mode:>16}" for mode in MODES))
    for name in options.names.split(","):
        cells = [[row["size"] for row in rows[mode] if row["name"] == name] for mode in MODES]
        print(f"{name:32}" + "".join(f"{' '.join(map(str, sorted(cell))) or 'failed':>16}" for cell in cells))
        middle = [statistics.median(cell) if cell else 0 for cell in cells]
        print(f"{'':32}" + "".join(f"{size / middle[0]:16.3f}" if middle[0] else f"{'':16}" for size in middle))


if options.mode is None:
    sys.exit(run_all())
if options.mode == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
if options.mode == "async":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

if options.mode == "vpmm":
    import vpmm.torch

    vpmm.torch.enable()


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
        tokens = torch.randint(0, 16000, (2, max(int(size * chance.uniform(0.2, 1)), 8)), device="cuda")
        loss = F.cross_entropy(layers(tokens).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, 256


def lora_steps():
    """Fixed weights with small ones beside them, and activations that are computed anew; the size is the longest."""
    layers = nn.ModuleList(Layer(1024, 16) for _ in range(8)).cuda()
    optimizer = torch.optim.AdamW([p for p in layers.parameters() if p.requires_grad], lr=1e-4)

    def step(size, chance):
        x = torch.randn(2, max(int(size * chance.uniform(0.2, 1)), 8), 1024, device="cuda", requires_grad=True)
        target, kept = x.detach(), x
        for layer in layers:
            kept = checkpoint(layer, kept, use_reentrant=False)
        F.mse_loss(kept, target).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, 256


def unet_steps():
    """Images of several resolutions, down and up again; the size is the batch, at the least resolution."""
    widths = (32, 64, 128, 256)
    down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip((3,) + widths, widths)).cuda()
    up = nn.ModuleList(nn.ConvTranspose2d(2 * b, a, 4, 2, 1) for a, b in zip((3,) + widths, widths)).cuda()
    optimizer = torch.optim.AdamW([*down.parameters(), *up.parameters()], lr=1e-4)

    def step(size, chance):
        edge = chance.choice((64, 96, 128, 160, 192))
        x = torch.randn(max(size * 64 * 64 // (edge * edge), 1), 3, edge, edge, device="cuda")
        kept, y = [], x
        for layer in down:
            y = F.silu(layer(y))
            kept.append(y)
        y = kept[-1]
        for layer, beside in zip(reversed(up), reversed(kept)):
            y = F.silu(layer(torch.cat([y[:, :beside.shape[1]], beside], 1)))
        F.mse_loss(y, x).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, 64


def fits(step, size, seed):
    chance = random.Random(seed)
    try:
        for _ in range(options.steps):
            step(size, chance)
        torch.cuda.synchronize()
        return True
    except torch.OutOfMemoryError:
        return False


def largest(make, seed):
    """Within two percent."""
    step, low = make()
    high = 2 * low

    def tries(size):
        result = fits(step, size, seed)
        gc.collect()
        torch.cuda.empty_cache()
        return result

    while tries(high):
        low, high = high, 2 * high
    while high - low > max(low // 50, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if tries(middle) else (low, middle)
    return low


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    if options.limit:
        torch.cuda.set_per_process_memory_fraction(options.limit * GIB / total)
    for name in options.names.split(","):
        for turn in range(options.rounds):
            torch.manual_seed(turn)
            size = largest(globals()[name + "_steps"], turn)
            print(json.dumps({"name": name, "size": size}), flush=True)
            gc.collect()
            torch.cuda.empty_cache()


main()
