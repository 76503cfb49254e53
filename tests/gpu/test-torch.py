#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
PyTorch on a GPU with its own allocator and with libvpmm's, in a process each: the same losses to the bit, graphs that
share a pool, streams, running out of memory, and what torch.cuda tells of memory. One line of TAP for each check, and
what both took. It is no part of make check, as it wants a GPU and PyTorch 2.2 or later, and some 60 seconds:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-torch.py

with a library that is installed below PREFIX, or build/lib/.libs in place of PREFIX/lib. With a word, it runs in this
process alone: native or vpmm. --compile adds torch.compile, --steps=N a longer run without growth. --all is both, with
10,000 steps, and all of test-torch-programs.py and test-frameworks.py beside this file, Numba's own tests included:
what there is to show of PyTorch, CuPy, Numba, cuda.core and Warp, on two GPUs where there are two.
"""

import argparse
import faulthandler
import gc
import json
import os
import subprocess
import sys
import time
import traceback

# As a deterministic run needs it, and before CUDA is initialised.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
MIB = 1 << 20

parser = argparse.ArgumentParser(description="PyTorch with its own allocator and with libvpmm's")
parser.add_argument("mode", nargs="?", choices=("native", "vpmm"))
parser.add_argument("--compile", action="store_true", help="also torch.compile")
parser.add_argument("--steps", type=int, default=1000, help="steps of the run without growth")
parser.add_argument("--passes", type=int, default=3, help="passes of the training run; the last is the warm one")
parser.add_argument("--plugin", action="store_true", help="through the plug-in, also where the class can be compiled")
parser.add_argument("--all", action="store_true", help="all that there is to show of frameworks in Python")
parser.add_argument("--workloads", help="with --all: the folder of torch_workloads.py, see test-torch-programs.py")
options = parser.parse_args()
if options.plugin:
    os.environ["VPMM_TORCH_BUILD"] = "never"
if options.all:
    options.compile, options.steps = True, max(options.steps, 10000)


def compare(rows):
    """What the two processes have found, side by side."""
    native, vpmm = rows["native"], rows["vpmm"]
    failed = 0
    same = native.get("losses") and native.get("losses") == vpmm.get("losses")
    failed += not same
    print(f"{'ok' if same else 'FAIL'} - both: losses are equal to the bit ({len(native.get('losses', []))} steps)")
    for mode in rows:
        print(f"# {mode}: {rows[mode].get('oom_type')}: {rows[mode].get('oom_text')!r}")
    for name in ("first_s", "warm_s", "graph_replay_us", "alloc_us", "peak_allocated_mib", "peak_reserved_mib",
                 "steps_s", "total_s"):
        if name in native or name in vpmm:
            print(f"# {name:20} native {native.get(name, '-'):>10} vpmm {vpmm.get(name, '-'):>10}")
    return failed


def run_others():
    """The scripts beside this one, and the manual's examples. Returns how many have failed."""
    here = os.path.dirname(os.path.abspath(__file__))
    workloads = [f"--workloads={options.workloads}"] if options.workloads else []
    examples = [(f"../../man/examples/{path}",) for path in ("torch/train.py", "cupy/streams.py", "numba/scale.py",
                                                             "core/copy.py", "warp/fill.py")]
    failed = 0
    for script, *arguments in (["test-torch-programs.py", *workloads], ["test-frameworks.py", "--numba-suite"],
                               *examples):
        bad = subprocess.run([sys.executable, os.path.join(here, script), *arguments], check=False).returncode
        print(f"{'FAIL' if bad else 'ok'} - {script}: status {bad}", flush=True)
        failed += bad != 0
    return failed


def run_both():
    rows, failed = {}, 0
    for mode in ("native", "vpmm"):
        arguments = [sys.executable, os.path.abspath(__file__), mode, f"--steps={options.steps}",
                     f"--passes={options.passes}"] + (["--compile"] if options.compile else [])
        try:
            done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                                  check=False)
        except subprocess.TimeoutExpired as error:
            print(f"FAIL - {mode}: does not end\n{(error.stdout or b'').decode()[-2000:]}")
            return 1
        rows[mode] = {}
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                rows[mode] = json.loads(line)
            else:
                print(line)
                failed += line.startswith("FAIL")
        bad = done.returncode != 0 or not rows[mode]
        failed += bad
        print(f"{'FAIL' if bad else 'ok'} - {mode}: ends well, with status {done.returncode}")
        if done.stderr:
            print("\n".join(f"# stderr: {line}" for line in done.stderr.splitlines()[-20:]))
    failed += compare(rows)
    if options.all:
        failed += run_others()
    print(f"{'FAIL' if failed else 'ok'}: {failed} failed")
    return 1 if failed else 0


if options.mode is None:
    sys.exit(run_both())

faulthandler.enable()
faulthandler.dump_traceback_later(280, exit=True)
began = time.time()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch.utils.data  # noqa: E402
from torch import nn  # noqa: E402

is_vpmm = options.mode == "vpmm"
if is_vpmm:
    import vpmm.torch

    vpmm.torch.enable()

row = {"mode": options.mode, "torch": torch.__version__}
device = torch.device("cuda:0")


def check(condition, text):
    if not condition:
        raise AssertionError(text)


class Net(nn.Module):
    """Convolutions, attention and linear layers, whose kernels are deterministic."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
                                  nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.ReLU(),
                                  nn.Conv2d(128, 256, 3, stride=2, padding=1))
        self.qkv = nn.Linear(256, 3 * 256)
        self.mlp = nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        q, k, v = (t.reshape(*t.shape[:2], 4, 64).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8, -1)
        x = x + (weights @ v).transpose(1, 2).reshape(x.shape)
        return self.head((x + self.mlp(x)).mean(1))


def train(steps):
    """Batches and pictures of changing sizes. Returns the losses, exactly."""
    torch.manual_seed(11)
    net = Net().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        batch, side = 8 + step * 7 % 25, 32 + 4 * (step * 5 % 9)
        x = torch.randn(batch, 3, side, side, device=device)
        y = torch.randint(0, 10, (batch,), device=device)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return [float(loss).hex() for loss in torch.stack(losses).cpu()]


def test_training():
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    losses = []
    for index in range(options.passes):
        start = time.time()
        losses = train(60)
        torch.cuda.synchronize()
        row["warm_s" if index else "first_s"] = round(time.time() - start, 3)
    row["losses"] = losses
    torch.use_deterministic_algorithms(False)


def test_statistics():
    """What torch.cuda tells is what was allocated."""
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    a = torch.empty(10 * MIB, dtype=torch.uint8, device=device)
    b = torch.empty(MIB, dtype=torch.uint8, device=device)
    check(torch.cuda.memory_allocated() - before == 11 * MIB, f"{torch.cuda.memory_allocated() - before} allocated")
    check(0 < torch.cuda.memory_allocated() <= torch.cuda.memory_reserved(), "more allocated than reserved")
    del a
    check(torch.cuda.memory_allocated() - before == MIB, "a tensor that is gone counts")
    check(torch.cuda.max_memory_allocated() - before >= 11 * MIB, "the peak is too small")
    check(torch.cuda.max_memory_reserved() >= torch.cuda.max_memory_allocated(), "the peaks do not fit")
    stats = torch.cuda.memory_stats()
    check(stats["requested_bytes.all.current"] > 0 and stats["num_ooms"] == 0, "requested_bytes")
    check("Allocated memory" in torch.cuda.memory_summary(), "memory_summary")
    check("Allocated memory" in torch.cuda.memory_summary(abbreviated=True), "memory_summary, abbreviated")
    free, total = torch.cuda.mem_get_info()
    check(0 < free < total, "mem_get_info")
    torch.cuda.reset_accumulated_memory_stats()
    check(torch.cuda.memory_stats()["allocation.all.freed"] == 0, "accumulated statistics are not reset")
    check(torch.cuda.memory_allocated(0) == torch.cuda.memory_allocated(device), "the device by its number")
    if hasattr(torch, "accelerator") and hasattr(torch.accelerator, "memory_allocated"):
        check(torch.accelerator.memory_allocated() == torch.cuda.memory_allocated(), "torch.accelerator")
    backend = "native" if not is_vpmm else "vpmm" if vpmm.torch.is_whole() else "pluggable"
    check(torch.cuda.get_allocator_backend() == backend, "the backend")
    del b


def test_sums():
    """Sums that are kept here of tensors that come and go, and their peak."""
    if not is_vpmm:
        return "PyTorch's own allocator rounds in another way"
    torch.cuda.synchronize()
    start, counts = torch.cuda.memory_stats(), vpmm.torch.counts()
    torch.cuda.reset_peak_memory_stats()
    kept, rounded, requested, peak = [], 0, 0, 0
    for step in range(500):
        size = 1 + step * step * 7919 % (4 * MIB)
        kept.append(torch.empty(size, dtype=torch.uint8, device=device))
        rounded, requested = rounded + -(-size // 512) * 512, requested + size
        peak = max(peak, rounded)
        while len(kept) > step * 13 % 41:
            size = kept.pop(step * 31 % len(kept)).numel()
            rounded, requested = rounded - -(-size // 512) * 512, requested - size
        now = torch.cuda.memory_stats()
        for key, wanted in (("allocated_bytes", rounded), ("requested_bytes", requested), ("allocation", len(kept))):
            found = now[f"{key}.all.current"] - start[f"{key}.all.current"]
            check(found == wanted, f"step {step}: {key} says {found}, and it is {wanted}")
    check(now["allocated_bytes.all.peak"] - start["allocated_bytes.all.current"] >= peak, "the peak is too small")
    check(vpmm.torch.counts().allocs == counts.allocs + 500, "allocations are not counted")
    return None


def test_snapshot():
    """Segments and blocks, and a picture of them."""
    kept = [torch.empty(size * MIB, dtype=torch.uint8, device=device) for size in (3, 7, 1)]
    segments = torch.cuda.memory_snapshot()
    blocks = {block["address"]: block for segment in segments for block in segment["blocks"]}
    for tensor in kept:
        block = blocks[tensor.data_ptr()]
        check(block["state"] == "active_allocated" and block["size"] >= tensor.numel(), f"{block}")
    total = sum(segment["total_size"] for segment in segments)
    check(total == torch.cuda.memory_reserved(), f"{total}, and {torch.cuda.memory_reserved()} are reserved")
    from torch.cuda import _memory_viz

    check("<script" in _memory_viz.segment_plot(torch.cuda.memory._snapshot()), "no picture")


def test_empty_cache():
    a = torch.empty(512 * MIB, dtype=torch.uint8, device=device)
    del a
    torch.cuda.synchronize()
    before = torch.cuda.memory_reserved()
    free = torch.cuda.mem_get_info()[0]
    torch.cuda.empty_cache()
    check(before - torch.cuda.memory_reserved() >= 256 * MIB, "nothing was given back")
    check(torch.cuda.mem_get_info()[0] - free >= 256 * MIB, "the device has not got it")


def test_record_stream():
    """Buffers made on one stream and used on four others; each is checked where it was used."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    wrong = torch.zeros(4, dtype=torch.int64, device=device)
    torch.cuda.synchronize()
    for step in range(400):
        index = step % 4
        size = (1 + step * 37 % 61) * MIB // 8
        x = torch.full((size,), step, dtype=torch.int32, device=device)
        streams[index].wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(streams[index]):
            if step % 8 < 4:
                torch.cuda._sleep(200_000)
            wrong[index] += (x != step).sum()
            x.record_stream(streams[index])
        del x
    torch.cuda.synchronize()
    check(int(wrong.sum()) == 0, f"{wrong.tolist()} elements were overwritten in use")


def make_graph(size, pool):
    """A graph of several steps with temporary tensors. Returns graph, input, output."""
    x = torch.zeros(size, size, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            work(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        out = work(x)
    return graph, x, out


def work(x):
    y = torch.relu(x @ x.t() / x.shape[0]) + 1
    z = y.roll(1, 1) * 0.5
    return (z - y).sum(0) + x[0]


def clear_workspaces():
    """The matrix library has one for each stream that it was used on."""
    if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):
        torch._C._cuda_clearCublasWorkspaces()


def test_graphs():
    """Three graphs with one pool, replayed in turn, give what the same work gives without a graph."""
    torch.cuda.synchronize()
    gc.collect()
    clear_workspaces()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    pool = torch.cuda.graph_pool_handle()
    sizes = (2048, 1024, 1536)
    graphs = [make_graph(size, pool) for size in sizes]
    if is_vpmm:
        counts = vpmm.torch.counts()
        check((counts.pools, counts.graphs) == (1, 0 if vpmm.torch.is_whole() else 3), f"{counts}")
    for step in range(30):
        for graph, x, out in graphs:
            new = torch.randn_like(x)
            x.copy_(new)
            graph.replay()
            wanted = work(new)
            check(torch.equal(out, wanted), f"step {step}: a graph of {x.shape[0]} gives something else")
    torch.cuda.synchronize()
    start = time.time()
    for _ in range(200):
        graphs[1][0].replay()
    torch.cuda.synchronize()
    row["graph_replay_us"] = round((time.time() - start) / 200 * 1e6, 1)
    held = torch.cuda.memory_reserved()
    del graph, x, out, new, wanted
    graphs.clear()
    gc.collect()
    torch.cuda.synchronize()
    clear_workspaces()
    torch.cuda.empty_cache()
    if is_vpmm:
        counts = vpmm.torch.counts()
        check((counts.pools, counts.graphs, counts.kept) == (0, 0, 0), f"{counts}")
        check(vpmm.torch.stats().held == 0, f"{vpmm.torch.stats().held} bytes are held for graphs that are gone")
    left = torch.cuda.memory_allocated() - before
    check(left <= 4 * MIB, f"{left} bytes are left")
    check(torch.cuda.memory_reserved() < held, "nothing was given back")


def test_beside_capture():
    """A tensor of the default stream goes while another stream is captured, and so does one of the capture's own."""
    old = torch.full((MIB,), 3.0, device=device)
    x = torch.zeros(1024, device=device)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        del old
        z = y * 2
        del y
    fresh = torch.full((MIB,), 4.0, device=device)
    x.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    check(float(z[0]) == 12 and bool((fresh == 4).all()), "contents are wrong")
    if is_vpmm:
        check(vpmm.torch.counts().failed == 0, f"{vpmm.torch.counts()}")


def test_exhausted():
    """Running out of memory is an error that names it; half of it works; all of it works once memory is free."""
    for size in (1 << 42, 1 << 50):
        try:
            torch.empty(size, dtype=torch.uint8, device=device)
        except RuntimeError as error:
            check("CUDA out of memory." in str(error), str(error))
            row["oom_text"] = str(error)[:600]
            row["oom_type"] = type(error).__name__
        else:
            raise AssertionError("there was memory")
    check(torch.cuda.memory_stats()["num_ooms"] == 2, "num_ooms")
    free = torch.cuda.mem_get_info()[0] // MIB * MIB
    blocks, size, failures = [], free // 5, 0
    for _ in range(40):
        try:
            blocks.append(torch.empty(size, dtype=torch.uint8, device=device))
        except RuntimeError as error:
            check("CUDA out of memory." in str(error), str(error))
            failures += 1
            size //= 2
            if failures == 4:
                break
    check(failures == 4 and len(blocks) >= 4, f"{len(blocks)} blocks, {failures} failures")
    blocks[0].fill_(1)
    check(int(blocks[0][-1]) == 1, "contents are wrong")
    del blocks[1:3]
    a = torch.empty(free // 5, dtype=torch.uint8, device=device)
    a.fill_(7)
    check(int(a[-1]) == 7, "contents are wrong")
    del a
    blocks.clear()
    torch.use_deterministic_algorithms(True)
    again = train(2)
    torch.use_deterministic_algorithms(False)
    check(again == row["losses"][:2], "what comes after is not the same")
    torch.cuda.empty_cache()


def test_exhausted_type():
    """It is PyTorch's own error for it."""
    if not hasattr(torch, "OutOfMemoryError"):
        return "this PyTorch has none of its own"
    for _ in range(100):
        try:
            torch.empty(1 << 45, dtype=torch.uint8, device=device)
        except torch.OutOfMemoryError as error:
            check("CUDA out of memory." in str(error), str(error))
    return None


def test_fraction():
    """A limit by set_per_process_memory_fraction()."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.05)
    try:
        torch.empty(int(total * 0.06), dtype=torch.uint8, device=device)
    except RuntimeError as error:
        check("CUDA out of memory." in str(error), str(error))
    else:
        raise AssertionError("there was memory")
    torch.empty(int(total * 0.02), dtype=torch.uint8, device=device)
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.empty(int(total * 0.06), dtype=torch.uint8, device=device)


def test_growth():
    """Many steps of changing sizes take no more memory than the first hundred."""
    net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).to(device)
    first = reserved = 0
    start = time.time()
    for step in range(options.steps):
        x = torch.randn(64 + step * 131 % 977, 512, device=device)
        net(x).square().mean().backward()
        net.zero_grad(set_to_none=True)
        if step == 200:
            first = torch.cuda.memory_reserved()
    torch.cuda.synchronize()
    row["steps_s"] = round(time.time() - start, 3)
    reserved = torch.cuda.memory_reserved()
    check(reserved <= first + 32 * MIB, f"{reserved - first} bytes more than after 200 steps")


def test_speed():
    """The time of torch.empty() and its end, warm."""
    for _ in range(2):
        start = time.perf_counter()
        for _ in range(20000):
            torch.empty(MIB, dtype=torch.uint8, device=device)
        row["alloc_us"] = round((time.perf_counter() - start) / 20000 * 1e6, 3)


def test_threads():
    """Autograd on its own thread, and four threads that allocate on streams of their own."""
    import threading

    wrong = []

    def run(index):
        with torch.cuda.stream(torch.cuda.Stream()):
            for step in range(200):
                x = torch.full((1000 + step * 997,), index, dtype=torch.int32, device=device)
                if int((x != index).sum()):
                    wrong.append((index, step))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not wrong, f"{wrong[:5]}")


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((16,), float(index))


def test_fork():
    """Workers of a DataLoader fork from a process that has used CUDA."""
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True)
    total = sum(float(batch.to(device, non_blocking=True).sum()) for batch in loader)
    check(total == 16 * 64 * 63 / 2, f"{total}")


def test_devices():
    if torch.cuda.device_count() < 2:
        return "there is one device"
    x = torch.arange(MIB, device="cuda:0")
    y = x.to("cuda:1")
    z = y.to("cuda:0") + 1
    check(torch.equal(z.cpu(), x.cpu() + 1), "contents are wrong")
    check(torch.cuda.memory_allocated(1) >= 8 * MIB, "the second device has nothing")
    return None


def test_refusals():
    if not is_vpmm or vpmm.torch.is_whole():
        return "it is for the plug-in of vpmm"
    for call in (lambda: setattr(torch.backends.cudnn, "benchmark", True),
                 lambda: torch.empty(1, device=device).untyped_storage()._share_cuda_(),
                 lambda: torch.cuda.memory._record_memory_history()):
        try:
            call()
        except RuntimeError as error:
            check("libvpmm" in str(error), str(error))
        else:
            raise AssertionError("it was not refused")
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        train(1)
    return None


def test_compile():
    if not options.compile:
        return "it takes --compile"
    fn = torch.compile(work)
    x = torch.randn(512, 512, device=device)
    check(torch.allclose(fn(x), work(x), rtol=1e-4, atol=1e-4), "contents are wrong")
    return None


def test_failed_capture():
    """A capture that fails, by a wait on the host; what comes after works."""
    x = torch.zeros(1024, device=device)
    stream = torch.cuda.current_stream()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            y = x + 1
            y.cpu()
    except Exception:
        # PyTorch leaves the stream of the capture the current one.
        torch.cuda.set_stream(stream)
    else:
        raise AssertionError("it did not fail")
    y = graph = None
    gc.collect()
    torch.cuda.synchronize()
    check(float((x + 2).sum()) == 2048, "contents are wrong")
    if is_vpmm:
        torch.cuda.empty_cache()
        counts = vpmm.torch.counts()
        check((counts.pools, counts.graphs, counts.kept) == (0, 0, 0), f"{counts}")


def test_end():
    """Nothing was lost on the way."""
    if not is_vpmm:
        return "it is for vpmm"
    gc.collect()
    torch.cuda.synchronize()
    counts = vpmm.torch.counts()
    row["counts"] = counts._asdict()
    check(counts.unknown == 0 and counts.failed == 0, f"{counts}")
    vpmm.default_pool().check()
    return None


def run(name, test):
    try:
        skipped = test()
        print(f"ok - {options.mode}: {name}{' # SKIP ' + skipped if skipped else ''}", flush=True)
    except Exception:
        text = traceback.format_exc().rstrip().replace("\n", "\n# ")
        print(f"FAIL - {options.mode}: {name}\n# {text}", flush=True)


torch.cuda.init()
for test_name, test in [(key[5:], value) for key, value in list(globals().items()) if key.startswith("test_")]:
    run(test_name, test)
    if test_name == "training":
        row["peak_allocated_mib"] = round(torch.cuda.max_memory_allocated() / MIB, 1)
        row["peak_reserved_mib"] = round(torch.cuda.max_memory_reserved() / MIB, 1)
row["total_s"] = round(time.time() - began, 1)
print(json.dumps(row), flush=True)
# A tensor, and a graph, that live until the interpreter goes.
left = torch.zeros(MIB, device=device)
graph_left = make_graph(256, None)
