#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Programs of PyTorch on GPUs, with its own allocator and with libvpmm's, in processes of their own: the hooks, a batch
that is halved until it fits, torch.compile, two devices, data parallel training by NCCL, a convolution net, and
workloads that are not ours. What is computed has to be the same to the bit. Prints TAP, and what each allocator took.
It is no part of make check:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-torch-programs.py [PART]... [--workloads=DIR]

with a library that is installed below PREFIX, or build/lib/.libs in place of PREFIX/lib. DIR has torch_workloads.py,
which is run as WORKLOAD MODE OUTDIR. What cannot run here, or fails with PyTorch's own allocator too, is skipped.
PART and --names say what runs: one workload with --rounds=1 fits into minutes of a machine that is lent.
"""

import argparse
import contextlib
import ctypes
import datetime
import faulthandler
import importlib.util
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
PARTS = ("hooks", "halve", "compile", "devices", "ddp", "conv", "workloads")
MODES = ("native", "vpmm", "expandable", "async")
WORKLOADS = ("gpt_varlen", "llama_generate", "long_context", "pipeline_streams", "stark_prover")
CONFIGURATIONS = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}

# As a deterministic run needs it, and before CUDA is initialised.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

parser = argparse.ArgumentParser(description="programs of PyTorch with its own allocator and with libvpmm's")
parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; otherwise all")
parser.add_argument("--workloads", help="the folder of torch_workloads.py")
parser.add_argument("--names", default=",".join(WORKLOADS), help="which of the workloads")
parser.add_argument("--rounds", type=int, default=5, help="how often each allocator is measured, in turn")
parser.add_argument("--scale", type=float, default=0.5, help="what part of their steps the workloads run")
parser.add_argument("--seconds", type=int, default=300, help="how long a process may take")
parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
options = parser.parse_args()


# The parent.

count = failed = 0


def tap(text, complaint="", skip=""):
    global count, failed
    count += 1
    failed += bool(complaint)
    print(f"{'not ok' if complaint else 'ok'} {count} - {text}{' # SKIP ' + skip if skip else ''}", flush=True)
    for line in complaint.splitlines()[-25:]:
        print(f"#   {line}", flush=True)


def start(part, mode, *arguments, **environment):
    """A process that does a part with an allocator."""
    configuration = CONFIGURATIONS.get(mode)
    if configuration:
        environment.update(PYTORCH_CUDA_ALLOC_CONF=configuration, PYTORCH_ALLOC_CONF=configuration)
    command = [sys.executable, os.path.abspath(__file__), f"--seconds={options.seconds}", f"--scale={options.scale}"]
    if options.workloads:
        command.append(f"--workloads={options.workloads}")
    return subprocess.Popen(command + ["--child", part, mode, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})


def finish(process):
    """What it has found: a dictionary, with skip or wrong where there is not more."""
    try:
        said, wrong = process.communicate(timeout=options.seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        said, wrong = process.communicate()
        return {"wrong": f"does not end\n{said[-1000:]}\n{wrong[-2000:]}"}
    row = {}
    for line in said.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                row.update(json.loads(line))
    if process.returncode or not row.get("done"):
        row.setdefault("wrong", f"status {process.returncode}\n{said[-1000:]}\n{wrong[-3000:]}")
    return row


def do(part, mode, *arguments, **environment):
    return finish(start(part, mode, *arguments, **environment))


def compare(text, native, vpmm, again=lambda: {}):
    """What libvpmm's process has found against that with PyTorch's own allocator, which may not give it twice."""
    if "skip" in native:
        tap(text, skip=native["skip"])
    elif "wrong" in native:
        reason = native["wrong"].strip().splitlines()
        tap(text, skip=f"it fails with PyTorch's own allocator too: {reason[-1] if reason else ''}")
    elif "wrong" in vpmm or "skip" in vpmm:
        tap(text, vpmm.get("wrong") or vpmm["skip"])
    elif not native.get("values"):
        tap(text)
    else:
        text += f": {len(native['values'])} values are equal to the bit"
        same = native["values"] == vpmm.get("values")
        if not same and again().get("values", native["values"]) != native["values"]:
            tap(text, skip="they are not with PyTorch's own allocator, from one run to the next")
            return
        tap(text, "" if same else "they differ: " + str(
            [pair for pair in zip(native["values"], vpmm.get("values", [])) if pair[0] != pair[1]][:4]))


def run_hooks():
    row = do("hooks", "vpmm")
    tap(f"hooks: PyTorch calls what it should: {row.get('calls')}", row.get("wrong", ""), row.get("skip", ""))


def run_pair(part, text):
    native, vpmm = do(part, "native"), do(part, "vpmm")
    compare(f"{part}: {text}", native, vpmm, lambda: do(part, "native"))
    for name in ("said", "batch"):
        if name in native or name in vpmm:
            print(f"# {part}, {name}: native {native.get(name)}; vpmm {vpmm.get(name)}")


def run_ddp():
    rows = {}
    for mode in ("native", "vpmm"):
        with tempfile.TemporaryDirectory() as directory:
            ranks = [start("ddp", mode, rank, os.path.join(directory, "store"), NCCL_DEBUG="WARN") for rank in (0, 1)]
            found = [finish(rank) for rank in ranks]
        rows[mode] = {}
        for row in found:
            for key in ("skip", "wrong"):
                if key in row:
                    rows[mode].setdefault(key, row[key])
            rows[mode].setdefault("values", []).extend(row.get("values", []))
    compare("ddp: training on two GPUs, and sums in a graph, by NCCL", rows["native"], rows["vpmm"])


def measure(part, *arguments):
    """Each allocator in turn, some times; prints what it took, and that it ended."""
    rows = {mode: [] for mode in MODES}
    for _ in range(options.rounds):
        for mode in MODES:
            rows[mode].append(do(part, mode, *arguments, "time"))
            if "skip" in rows[mode][-1]:
                return
    name = " ".join((part, *arguments))
    for mode in MODES:
        good = [row for row in rows[mode] if "warm_s" in row]
        if not good:
            reason = rows[mode][-1].get("wrong", "").split() if rows[mode] else []
            print(f"# {name}, {mode}: {' '.join(reason)[-200:] or 'not measured'}")
            continue
        times = sorted(row["warm_s"] for row in good)
        taken = [row["reserved"] / row["allocated"] for row in good if row.get("allocated")]
        print(f"# {name:28} {mode:10} warm {statistics.median(times):8.3f} s ({times[0]:.3f} to {times[-1]:.3f}), "
              f"taken / live {statistics.median(taken) if taken else 0:.3f}", flush=True)
    ours = [row for row in rows["vpmm"] if "wrong" in row]
    if options.rounds and not [row for row in rows["native"] if "wrong" in row]:
        tap(f"{name}: runs {options.rounds} times", ours[0]["wrong"] if ours else "")


def run_conv():
    run_pair("conv", "a convolution net, 50 steps")
    measure("conv")


def run_workloads():
    if not options.workloads:
        tap("workloads", skip="it takes --workloads=DIR")
        return
    for name in options.names.split(","):
        compare(f"workloads: {name}", do("workloads", "native", name), do("workloads", "vpmm", name),
                lambda name=name: do("workloads", "native", name))
        measure("workloads", name)


RUN = {
    "hooks": run_hooks, "ddp": run_ddp, "conv": run_conv, "workloads": run_workloads,
    "halve": lambda: run_pair("halve", "a batch that is halved until it fits"),
    "compile": lambda: run_pair("compile", "torch.compile in its default mode"),
    "devices": lambda: run_pair("devices", "copies to another device and back"),
}


def run_all():
    if not set(options.parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    for part in PARTS:
        if part in options.parts or not options.parts:
            RUN[part]()
    print(f"1..{count}")
    return 1 if failed else 0


if options.child is None:
    sys.exit(run_all())


# A child.

faulthandler.enable()
faulthandler.dump_traceback_later(max(options.seconds - 5, 1), exit=True)


def leave(**row):
    print(json.dumps({**row, "done": True}), flush=True)
    sys.exit(0)


part, mode, *arguments = options.child
try:
    import torch
    from torch import nn
except ImportError as error:
    leave(skip=str(error))
if not torch.cuda.is_available():
    leave(skip="PyTorch finds no GPU")
if mode == "vpmm":
    if part == "hooks":
        # They are the plug-in's.
        os.environ["VPMM_TORCH_BUILD"] = "never"
    import vpmm.torch

    vpmm.torch.enable()


def check(condition, text="the condition does not hold"):
    if not condition:
        raise AssertionError(text)


def be_deterministic():
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Otherwise all new memory is filled, and what reads it too early is not seen.
    if importlib.util.find_spec("torch.utils.deterministic"):
        importlib.import_module("torch.utils.deterministic").fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(7)


def exact(values):
    """Numbers of tensors, to the bit."""
    torch.cuda.synchronize()
    return [float(number).hex() for value in values for number in value.detach().double().cpu().flatten()]


def end_well():
    """Nothing was lost on the way."""
    if mode == "vpmm":
        check(vpmm.torch.counts().unknown == vpmm.torch.counts().failed == 0, f"{vpmm.torch.counts()}")
        vpmm.default_pool().check()


# The hooks, counted on their way to the plug-in.

class PoolId(ctypes.Structure):
    _fields_ = [("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


SIGNATURES = {
    "set_init_fn": ("init", None, ctypes.c_int),
    "set_reset_fn": ("reset", None),
    "set_memory_fraction_fn": ("memory_fraction", None, ctypes.c_double, ctypes.c_int),
    "set_base_alloc_fn": ("base", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "set_record_stream_fn": ("record_stream", None, ctypes.c_void_p, ctypes.c_void_p),
    "set_begin_allocate_to_pool": ("begin", None, ctypes.c_int, PoolId, ctypes.c_void_p),
    "set_end_allocate_to_pool_fn": ("end", None, ctypes.c_int, PoolId),
    "set_release_pool": ("release", None, ctypes.c_int, PoolId),
}


def count_hooks():
    """Puts a function of Python's in front of each. Returns the counts, and what has to be kept."""
    plugin = vpmm.torch._plugin
    library, allocator = ctypes.CDLL(plugin.path), plugin.allocator.allocator()
    calls, kept = {}, [library]
    for method, (name, result, *types) in SIGNATURES.items():
        function = getattr(library, f"vpmm_torch_{name}")
        function.restype, function.argtypes = result, types
        calls[name] = 0

        def counting(*given, name=name, function=function):
            calls[name] += 1
            return function(*given)

        kept.append(ctypes.CFUNCTYPE(result, *types)(counting))
        getattr(allocator, method)(ctypes.cast(kept[-1], ctypes.c_void_p).value)
    return calls, kept


def child_hooks():
    calls, kept = count_hooks()
    torch.cuda.init()
    x = torch.zeros(1024, device="cuda")
    check(calls["init"] == 1, f"{calls}")
    before = dict(calls)
    torch.cuda.empty_cache()
    check(calls["reset"] == before["reset"] + 1, f"{calls}")
    torch.cuda.set_per_process_memory_fraction(0.5)
    check(calls["memory_fraction"] == before["memory_fraction"] + 1 and vpmm.torch.counts().limit > 0, f"{calls}")
    torch.cuda.set_per_process_memory_fraction(1.0)
    check(calls["memory_fraction"] == before["memory_fraction"] + 2 and vpmm.torch.counts().limit == 0, f"{calls}")
    side = torch.cuda.Stream()
    for _ in range(3):
        x.record_stream(side)
    check(calls["record_stream"] == 3, f"{calls}")

    # Two graphs with one pool: each begins, ends and is released once.
    graphs, pool = [], None
    for step in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            y = x + step
        pool = graph.pool()
        graphs.append((graph, y))
        check((calls["begin"], calls["end"], calls["release"]) == (step + 1, step + 1, 0), f"{calls}")
        check(tuple(vpmm.torch.counts())[-2:] == (1, step + 1), f"{vpmm.torch.counts()}")
    for _ in range(100):
        for pair in graphs:
            pair[0].replay()
    torch.cuda.synchronize()
    check([float(y[0]) for _graph, y in graphs] == [0, 1], "contents are wrong")
    graphs[0][0].reset()
    check(calls["release"] == 1 and vpmm.torch.counts().pools == 1, f"{calls}")
    del graph, y, pair
    graphs.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    check(calls["release"] == 2 and tuple(vpmm.torch.counts())[-2:] == (0, 0), f"{calls}, {vpmm.torch.counts()}")
    check(vpmm.torch.stats().held == 0, f"{vpmm.torch.stats().held} bytes are held")

    # PyTorch asks for a base only to share it with another process, which is refused.
    size = ctypes.c_size_t()
    base = kept[0].vpmm_torch_base(x.data_ptr() + 8, ctypes.addressof(size))
    check(base == x.data_ptr() and size.value == 4096, f"{base}, {size}")
    end_well()
    print(json.dumps({"calls": calls, "done": True}), flush=True)
    # PyTorch must not call functions of an interpreter that is gone.
    os._exit(0)


# The loop that accelerate and lightning use.

def is_exhausted(error):
    return isinstance(error, RuntimeError) and len(error.args) == 1 and "CUDA out of memory." in error.args[0]


def step_of(batch):
    """Takes twice 512 MiB for each item."""
    x = torch.full((batch, MIB << 7), 0.5, device="cuda")
    return float((x * 2)[:, -1].sum())


def halve(function, batch):
    while batch:
        try:
            return batch, function(batch)
        except RuntimeError as error:
            if not is_exhausted(error):
                raise
        batch //= 2
    raise AssertionError("not even one item fits")


def child_halve():
    before = torch.cuda.memory_allocated()
    found = [halve(step_of, 4096) for _ in range(4)]
    check(len(set(found)) == 1, f"it is not the same each time: {found}")
    check(found[0][0] >= 4 and found[0][1] == found[0][0], f"{found}")
    check(torch.cuda.memory_allocated() == before, "something is left")
    said = "a loop of our own"
    try:
        from accelerate.utils import find_executable_batch_size
    except ImportError:
        said += " alone, as there is no accelerate"
    else:
        batch = find_executable_batch_size(lambda batch_size: (step_of(batch_size), batch_size),
                                           starting_batch_size=4096)()[1]
        check(batch >= 4, f"accelerate finds {batch}")
        said += f", accelerate's with a batch of {batch}"
    net = nn.Linear(256, 256).to("cuda")
    be_deterministic()
    loss = net(torch.ones(8, 256, device="cuda")).square().mean()
    loss.backward()
    check(bool(torch.isfinite(loss)), "what comes after does not work")
    end_well()
    return {"said": said, "batch": found[0][0]}


def child_compile():
    be_deterministic()
    net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 256)).to("cuda")
    plain = {name: value.clone() for name, value in net.state_dict().items()}
    losses = {}
    for name, forward in (("eager", net), ("compiled", torch.compile(net))):
        net.load_state_dict(plain)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.manual_seed(9)
        losses[name] = []
        for step in range(20):
            x = torch.randn(32 + 16 * (step % 3), 256, device="cuda")
            loss = forward(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses[name].append(loss.detach())
    check(torch.allclose(torch.stack(losses["eager"]), torch.stack(losses["compiled"]), rtol=1e-3, atol=1e-4),
          f"{losses}")
    end_well()
    return {"values": exact(losses["compiled"])}


# Two devices.

def child_devices():
    if torch.cuda.device_count() < 2:
        leave(skip="there is one GPU")
    be_deterministic()
    streams = [torch.cuda.Stream(device) for device in (0, 1)]
    wrong = [torch.zeros((), dtype=torch.int64, device=f"cuda:{device}") for device in (0, 1)]
    for step in range(100):
        here, there = step % 2, 1 - step % 2
        x = torch.full((1000 + step * 40009,), step, dtype=torch.int32, device=f"cuda:{here}")
        y = x.to(f"cuda:{there}", non_blocking=True)
        del x
        # In the memory, if it were to be had too early.
        noise = torch.full_like(y, -1, device=f"cuda:{here}")
        with torch.cuda.device(there):
            streams[there].wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(streams[there]):
                z = y.to(f"cuda:{here}", non_blocking=True)
                y.record_stream(streams[there])
        for device in (0, 1):
            torch.cuda.current_stream(device).wait_stream(streams[there])
        with torch.cuda.device(here):
            wrong[here] += (z != step).sum()
        del y, z, noise
    for device in (0, 1):
        torch.cuda.synchronize(device)
    check([int(value) for value in wrong] == [0, 0], f"{wrong} elements are wrong")

    # A model of which each has a half.
    first, second = nn.Linear(512, 2048).to("cuda:0"), nn.Linear(2048, 512).to("cuda:1")
    losses = []
    for step in range(20):
        x = torch.randn(64 + step, 512, device="cuda:0")
        loss = second(torch.relu(first(x)).to("cuda:1")).square().mean()
        loss.backward()
        losses.append(loss.detach() + first.weight.grad.sum().to("cuda:1"))
        for half in (first, second):
            half.zero_grad(set_to_none=True)
    check(torch.cuda.memory_allocated(1) > 0 and torch.cuda.memory_allocated(0) > 0, "a device has nothing")
    found = exact(losses)
    end_well()
    return {"values": found}


def child_ddp(rank, store):
    import torch.distributed as dist

    if torch.cuda.device_count() < 2:
        leave(skip="there is one GPU")
    if not dist.is_available() or not dist.is_nccl_available():
        leave(skip="this PyTorch has no NCCL")
    rank = int(rank)
    torch.cuda.set_device(rank)
    be_deterministic()
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=120))
    net = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 512)).to(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    torch.manual_seed(100 + rank)
    losses = []
    for step in range(30):
        loss = net(torch.randn(64 + 8 * (step % 5), 512, device=rank)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    weights = torch.stack([weight.detach().double().sum() for weight in net.parameters()])
    both = [torch.empty_like(weights) for _ in range(2)]
    dist.all_gather(both, weights)
    check(torch.equal(both[0], both[1]), "the ranks have different weights")

    # Sums of both, in a graph.
    x = torch.zeros(4 * MIB, device=rank)
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Threads of NCCL's ask for its events meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y = x * 2
        dist.all_reduce(y)
    for step in range(10):
        x.fill_(step + rank)
        graph.replay()
        noise = torch.full_like(x, -1)
        torch.cuda.synchronize()
        check(bool((y == 2 * (2 * step + 1)).all()) and bool((noise == -1).all()), f"step {step}: a sum is wrong")
    found = exact(losses)
    dist.barrier()
    del graph, y
    dist.destroy_process_group()
    end_well()
    return {"values": found}


# What is measured: live memory and the warm time of the second of two passes.

def train_convolutions():
    be_deterministic()
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
                        nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
                        nn.Conv2d(128, 256, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(2)).to("cuda")
    head = nn.Linear(256, 10).to("cuda")
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.01, momentum=0.9)
    losses = []
    for step in range(50):
        batch, side = 16 + step * 7 % 49, 32 + 8 * (step * 5 % 9)
        x = torch.randn(batch, 3, side, side, device="cuda")
        y = torch.randint(0, 10, (batch,), device="cuda")
        loss = nn.functional.cross_entropy(head(net(x).mean(2)), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return losses


def child_conv(timed=""):
    for _ in range(2 if timed else 1):
        began = time.time()
        losses = train_convolutions()
        torch.cuda.synchronize()
        seconds = time.time() - began
    end_well()
    return {"values": exact(losses), "warm_s": seconds, "allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved()}


def record(name):
    """Has the results of a workload noted that keeps them to itself. Returns the list of them."""
    found = []

    def noting(before):
        def call(*given, **words):
            result = before(*given, **words)
            found.append((given[0] if result is None else result).detach().double().sum())
            return result
        return call

    def noting_method(self, *given, **words):
        return noting(lambda *_: generate(self, *given, **words))(self)

    if name == "pipeline_streams":
        # What its last stream makes of what the others have handed on.
        torch.Tensor.contiguous = noting(torch.Tensor.contiguous)
    elif name == "llama_generate":
        from transformers.generation.utils import GenerationMixin

        generate, GenerationMixin.generate = GenerationMixin.generate, noting_method
    else:
        torch.Tensor.backward = noting(torch.Tensor.backward)
    return found


def child_workloads(name, timed=""):
    program = os.path.join(options.workloads, "torch_workloads.py")
    if not os.path.exists(program):
        leave(skip=f"there is no {program}")
    if name in ("gpt_varlen", "llama_generate") and not importlib.util.find_spec("transformers"):
        leave(skip="there is no transformers")
    os.environ.update(SCALE=str(options.scale if timed else options.scale / 2), PASSES="2" if timed else "1")
    found = []
    if not timed:
        be_deterministic()
        found = record(name)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile("w+") as out:
        # The allocator is chosen already, so for the program it is PyTorch's own.
        sys.argv = [program, name, "native", directory]
        with contextlib.redirect_stdout(out):
            runpy.run_path(program, run_name="__main__")
        out.seek(0)
        row = json.loads(next(line for line in reversed(out.readlines()) if line.startswith("{")))
    check(not row["error"], row["error"])
    end_well()
    return {"values": exact(found), "warm_s": row["seconds"][-1], "allocated": row["peak_allocated"],
            "reserved": row["peak_reserved"]}


leave(**globals()[f"child_{part}"](*arguments))
