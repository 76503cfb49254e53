#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The allocator class of vpmm.torch on a GPU: what PyTorch's own allocator answers, it answers. The same checks run with
native's and with ours, in a process each. One line of TAP for each check, and what both took. It is no part of make check,
as it wants a GPU, PyTorch 2.4 or later with its headers, and a C++ compiler; some 60 seconds:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-torch-class.py [--compile]

With a word, it runs in this process alone: native or vpmm. --compile adds torch.compile(mode="reduce-overhead").
"""

import argparse
import faulthandler
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback

MIB = 1 << 20
parser = argparse.ArgumentParser(description="PyTorch's allocator interface, native and libvpmm's")
parser.add_argument("mode", nargs="?", choices=("native", "vpmm"))
parser.add_argument("--compile", action="store_true", help="also torch.compile with CUDA graphs")
parser.add_argument("--only", default="", help="only checks whose name has this in it")
parser.add_argument("--skip", default="-", help="no checks whose name has this in it")
options = parser.parse_args()


def follow(out, rows):
    """Passes on what a process says, as it comes. Into rows: its last line, and how many checks failed."""
    rows["failed"] = 0
    for line in out:
        if line.startswith("{"):
            rows["found"] = json.loads(line)
        else:
            rows["failed"] += line.startswith("FAIL")
            print(line, end="", flush=True)


def run_both():
    """Both modes at once, as nothing here is timed against the other to a percent."""
    rows, failed = {}, 0
    more = ["--compile"] * options.compile + [f"--only={options.only}", f"--skip={options.skip}"]
    started = []
    for mode in ("native", "vpmm"):
        said, told = tempfile.TemporaryFile("w+"), {}
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), mode, *more], stdout=subprocess.PIPE,
                                   stderr=said, text=True)
        follower = threading.Thread(target=follow, args=(process.stdout, told))
        follower.start()
        started.append((mode, process, follower, said, told))
    for mode, process, follower, said, told in started:
        try:
            process.wait(timeout=280)
        except subprocess.TimeoutExpired:
            process.kill()
        follower.join()
        rows[mode] = told.get("found", {})
        bad = process.wait() != 0 or not rows[mode]
        failed += bad + told["failed"]
        print(f"{'FAIL' if bad else 'ok'} - {mode}: ends well, with status {process.returncode}")
        said.seek(0)
        for line in said.read().splitlines()[-20:]:
            print(f"# stderr: {line}")
    for name in sorted(set(rows["native"]) | set(rows["vpmm"])):
        native, ours = rows["native"].get(name), rows["vpmm"].get(name)
        if name.startswith("same_"):
            failed += native != ours
            print(f"{'ok' if native == ours else 'FAIL'} - both: {name[5:]} is the same")
            if native != ours:
                print(f"# native {native}\n# vpmm {ours}")
        else:
            print(f"# {name:28} native {native} vpmm {ours}")
    print(f"{'FAIL' if failed else 'ok'}: {failed} failed")
    return 1 if failed else 0


if options.mode is None:
    sys.exit(run_both())

faulthandler.enable()
faulthandler.dump_traceback_later(270, exit=True)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

is_vpmm = options.mode == "vpmm"
found = {}
if is_vpmm:
    import vpmm.torch

    began = time.time()
    os.environ["VPMM_TORCH_BUILD"] = "require"
    vpmm.torch.enable()
    found["enable_s"] = round(time.time() - began, 2)

checks = []


def check(fn):
    checks.append(fn)
    return fn


def sync():
    torch.cuda.synchronize()


def seconds(fn, times=1):
    """The least of three."""
    best = None
    for _ in range(3):
        sync()
        start = time.perf_counter()
        for _ in range(times):
            fn()
        sync()
        took = (time.perf_counter() - start) / times
        best = took if best is None else min(best, took)
    return best


@check
def whole():
    if is_vpmm:
        assert vpmm.torch.is_whole()
        assert torch.cuda.get_allocator_backend() == "vpmm"
    a = torch.ones(1000, device="cuda")
    assert torch.cuda.memory_allocated() == 4096
    b = torch.empty(0, device="cuda")
    assert b.data_ptr() == 0 and float(a.sum()) == 1000


@check
def statistics():
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    before = torch.cuda.memory_stats()
    a = torch.empty(3 * MIB + 5, dtype=torch.uint8, device="cuda")
    b = torch.empty(100, dtype=torch.uint8, device="cuda")
    after = torch.cuda.memory_stats()

    def delta(name):
        return after[name] - before[name]
    found["same_delta"] = [delta(f"{name}.{kind}.current") for kind in ("all", "small_pool", "large_pool")
                           for name in ("allocation", "active", "allocated_bytes", "active_bytes", "requested_bytes")]
    found["same_keys"] = sorted(after)
    del a
    now = torch.cuda.memory_stats()
    found["same_freed"] = [now["allocation.all.freed"], now["requested_bytes.large_pool.freed"],
                           now["allocated_bytes.all.peak"] - after["allocated_bytes.all.current"]]
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    torch.cuda.memory_summary()
    if hasattr(torch, "accelerator") and hasattr(torch.accelerator, "memory_allocated"):
        assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
        assert torch.accelerator.max_memory_reserved() == torch.cuda.max_memory_reserved()
    del b


def answer(fn, *arguments):
    """Of which type the answer is, with the keys that it has, or what is raised."""
    try:
        result = fn(*arguments)
    except Exception as error:
        return type(error).__name__
    return sorted(map(str, result)) if isinstance(result, dict) else type(result).__name__


@check
def functions():
    """All that torch.cuda.memory and torch.accelerator have of this version: none raises that does not with native's."""
    given = {"set_per_process_memory_fraction": (1.0,)}
    left_out = ("CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
                "caching_allocator_enable", "change_current_allocator", "list_gpu_processes", "use_mem_pool")
    found["same_functions"] = {name: answer(getattr(torch.cuda.memory, name), *given.get(name, ()))
                               for name in torch.cuda.memory.__all__ if name not in left_out}
    accelerator = getattr(getattr(torch, "accelerator", None), "memory", None)
    found["same_accelerator"] = {name: answer(getattr(accelerator, name))
                                 for name in getattr(accelerator, "__all__", ())}
    path = os.path.join(tempfile.mkdtemp(), "snapshot")
    found["same_private"] = {name: answer(getattr(torch.cuda.memory, name), *arguments) for name, arguments in {
        "_snapshot": (), "_dump_snapshot": (path,), "_save_segment_usage": (path,), "_save_memory_usage": (path,),
        "_set_allocator_settings": ("max_split_size_mb:64",), "_record_memory_history": (None,)}.items()}


@check
def raw():
    stream = torch.cuda.Stream()
    before = torch.cuda.memory_allocated()
    ptr = torch.cuda.caching_allocator_alloc(10000, stream=stream)
    assert torch.cuda.memory_allocated() == before + 10240
    torch.cuda.caching_allocator_delete(ptr)
    assert torch.cuda.memory_allocated() == before
    try:
        torch.cuda.caching_allocator_delete(ptr)
        raise AssertionError("a block is freed twice")
    except RuntimeError as error:
        assert "invalid device pointer" in str(error), error


@check
def backends():
    """Whatever allocator the settings name, which PyTorch checks when it begins."""
    for settings in "backend:native", "backend:cudaMallocAsync,max_split_size_mb:64":
        program = f"import torch, vpmm.torch; {is_vpmm} and vpmm.torch.enable(); print(torch.ones(9).cuda().sum().item())"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings})
        assert done.stdout == "9.0\n", done.stderr


@check
def empty_cache():
    a = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    reserved = torch.cuda.memory_reserved()
    del a
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 300 * MIB


@check
def cudnn_benchmark():
    torch.backends.cudnn.benchmark = True
    try:
        model = nn.Sequential(nn.Conv2d(64, 128, 3), nn.ReLU(), nn.Conv2d(128, 128, 3, stride=2)).cuda()
        x = torch.randn(32, 64, 56, 56, device="cuda", requires_grad=True)

        def step():
            model(x).square().mean().backward()
        step()
        found["conv_ms"] = round(1e3 * seconds(step, 10), 3)
    finally:
        torch.backends.cudnn.benchmark = False


@check
def out_of_memory():
    def raises(text, size):
        try:
            torch.empty(size, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError as error:
            assert text in str(error) and "CUDA out of memory" in str(error), error
            return str(error)
        raise AssertionError("no error")
    found["oom_text"] = raises("Tried to allocate 800000000.00 GiB. GPU 0 has a total capacity of", 800000000 << 30)
    raises("Tried to allocate more than 1EB memory", 1 << 61)
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *args: seen.append((args, len(torch.cuda.memory_snapshot()))))
    before = torch.cuda.memory_stats()
    raises("Tried to allocate", 1 << 40)
    assert len(seen) == 1 and seen[0][0][:2] == (0, 1 << 40), seen
    after = torch.cuda.memory_stats()
    found["same_ooms"] = [after["num_ooms"] - before["num_ooms"], after["num_alloc_retries"] - before["num_alloc_retries"]]
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        assert abs(torch.cuda.get_per_process_memory_fraction() - 0.25) < 0.01
        raises("Tried to allocate", int(total * 0.26))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@check
def record_stream():
    side = torch.cuda.Stream()
    total = torch.zeros((), device="cuda", dtype=torch.float64)
    side.wait_stream(torch.cuda.current_stream())
    for i in range(50):
        a = torch.full((4 * MIB,), float(i), device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(200000)
            total += a.sum(dtype=torch.float64)
            a.record_stream(side)
        del a
        torch.full((4 * MIB,), -1.0, device="cuda")
    torch.cuda.current_stream().wait_stream(side)
    assert float(total) == sum(range(50)) * 4 * MIB, float(total)


@check
def mem_pools():
    before = torch.cuda.memory_reserved()
    pools = [torch.cuda.MemPool() for _ in range(10)]
    kept = []
    for i, pool in enumerate(pools):
        assert pool.use_count() == 1
        with torch.cuda.use_mem_pool(pool):
            assert pool.use_count() == 2
            kept.append(torch.full((MIB,), float(i), device="cuda"))
        assert pool.use_count() == 1
        segments = pool.snapshot()
        assert len(segments) == 1 and segments[0]["total_size"] == 20 * MIB, segments
        assert tuple(segments[0]["segment_pool_id"]) == tuple(pool.id)
    outside = torch.ones(MIB, device="cuda")
    assert all(float(one.mean()) == i for i, one in enumerate(kept)) and float(outside.mean()) == 1
    del kept, pool, pools, outside
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before, (torch.cuda.memory_reserved(), before)


@check
def use_on_oom():
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        pool = torch.cuda.MemPool(use_on_oom=True)
    except TypeError:
        return
    with torch.cuda.use_mem_pool(pool):
        a = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    address = a.data_ptr()
    del a
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 100 * MIB) / total)
    try:
        b = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
        assert b.data_ptr() == address
        del b
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    del pool


def small_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()


@check
def graphs():
    model = small_model()
    x = torch.randn(64, 256, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    gone = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    before = torch.cuda.memory_stats()
    with torch.cuda.graph(first):
        y = model(x)
        del gone
    with torch.cuda.graph(second, pool=first.pool()):
        z = model(y)
    after = torch.cuda.memory_stats()
    found["same_graph_segments"] = after["segment.all.current"] - before["segment.all.current"]
    torch.cuda.empty_cache()
    for _ in range(20):
        x.normal_()
        junk = [torch.empty(5 * MIB, device="cuda") for _ in range(5)]
        first.replay()
        second.replay()
        assert torch.allclose(z, model(model(x)), atol=1e-4, rtol=1e-4)
        del junk
    del y, z
    reserved = torch.cuda.memory_reserved()
    first.reset()
    second.reset()
    del first, second
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved


@check
def failed_capture():
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            torch.ones(1000, device="cuda").sum().item()
    except RuntimeError:
        pass
    sync()
    a = torch.ones(1000, device="cuda")
    assert float(a.sum()) == 1000
    del graph, a
    torch.cuda.empty_cache()


@check
def history():
    torch.cuda.memory._record_memory_history("all", stacks="python")
    a = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
    b = torch.empty(100, device="cuda")
    del a
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.empty_cache()
    later = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(None)
    trace = [entry for entry in snapshot["device_traces"][0] if entry["action"] != "segment_map"]
    found["same_actions"] = sorted({entry["action"] for entry in trace} - {"segment_alloc"})
    allocs = [entry for entry in trace if entry["action"] == "alloc" and entry["size"] == 5 * MIB]
    assert len(allocs) == 1 and any(frame["name"] == "history" for frame in allocs[0]["frames"]), allocs
    assert abs(allocs[0]["time_us"] / 1e6 - time.time()) < 100
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]
              if block["state"] == "active_allocated" and block["address"] == b.data_ptr()]
    assert len(blocks) == 1 and blocks[0]["requested_size"] == 400 and blocks[0]["frames"], blocks
    assert later["device_traces"][0][-1]["action"] in ("segment_free", "segment_unmap", "snapshot")
    for segment in snapshot["segments"]:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    stats = torch.cuda.memory_stats()
    segments = torch.cuda.memory_snapshot()
    assert sum(segment["total_size"] for segment in segments) == stats["reserved_bytes.all.current"]
    assert sum(segment["allocated_size"] for segment in segments) == stats["allocated_bytes.all.current"]
    from torch.cuda import _memory_viz
    for draw in ("trace", "segsum"):
        getattr(_memory_viz, draw)(snapshot)
    assert "html" in _memory_viz.trace_plot(snapshot) and "html" in _memory_viz.segment_plot(snapshot)
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        torch.cuda.memory._dump_snapshot(file.name)
        assert os.path.getsize(file.name) > 100


@check
def history_cost():
    def step():
        torch.empty(1000, device="cuda")
    found["empty_us"] = round(1e6 * seconds(step, 20000), 3)


@check
def large_cost():
    for size in (MIB, 64 * MIB):
        found[f"empty_{size // MIB}_mib_us"] = round(1e6 * seconds(
            lambda n=size: torch.empty(n, dtype=torch.uint8, device="cuda"), 20000), 3)
    stream = torch.cuda.Stream()

    def pair():
        torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(1000, stream=stream))
    found["pair_us"] = round(1e6 * seconds(pair, 5000), 3)


@check
def traces():
    """The callbacks of PyTorch's GPU trace, in a process of their own, as they cannot be taken back."""
    from torch.cuda import _gpu_trace as trace

    class Seen(list):
        def __call__(self, *what):
            self.append(what)
    torch._C._activate_gpu_trace()
    allocated, freed = Seen(), Seen()
    trace.register_callback_for_memory_allocation(allocated)
    trace.register_callback_for_memory_deallocation(freed)
    a = torch.empty(10, 4, device="cuda")
    address = a.data_ptr()
    del a
    assert (address,) in allocated and (address,) in freed, (allocated, freed)


@check
def six_graphs():
    """Graphs of six sizes in one pool, replayed between eager calls."""
    import torchvision

    model = torchvision.models.resnet18().cuda().eval()
    inputs = [torch.randn(n, 3, 224, 224, device="cuda") for n in (1, 2, 4, 8, 16, 32)]
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for x in inputs:
                model(x)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        pool, captured = None, []
        for x in reversed(inputs):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                y = model(x)
            pool = graph.pool()
            captured.append((graph, x, y))
        found["six_graphs_mib"] = (torch.cuda.memory_reserved() - before) // MIB

        def passes():
            for graph, x, y in captured:
                eager = model(torch.cat([x, x]))
                graph.replay()
                assert eager.shape[0] == 2 * x.shape[0]
        passes()
        found["six_graphs_s"] = round(seconds(passes, 5), 4)
        for graph, x, y in captured:
            graph.replay()
            assert torch.allclose(y, model(x), atol=1e-2, rtol=1e-2)


def compiled():
    model = small_model()
    fast = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for step in range(12):
        torch.manual_seed(step)
        x = torch.randn(64 if step % 4 else 32, 256, device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        loss = F.mse_loss(fast(x), x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(round(float(loss), 5))
    found["same_compiled"] = losses
    found["compiled_mib"] = torch.cuda.memory_reserved() // MIB


if options.compile:
    checks.append(compiled)
# What they do stays for the rest of the process: PyTorch's random numbers do not get over a capture that fails.
checks.sort(key=lambda fn: fn in (failed_capture, traces))
for fn in checks:
    if options.only not in fn.__name__ or options.skip in fn.__name__:
        continue
    try:
        fn()
        print(f"ok - {options.mode}: {fn.__name__}", flush=True)
    except BaseException:
        print(f"FAIL - {options.mode}: {fn.__name__}", flush=True)
        print("\n".join(f"# {line}" for line in traceback.format_exc().splitlines()), flush=True)
print(json.dumps(found), flush=True)
