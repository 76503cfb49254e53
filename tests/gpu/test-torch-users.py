#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Small programs of what users do with PyTorch, each with PyTorch's own allocator and with libvpmm's in processes of their
own: what they compute and report has to be equal. One line of TAP for each; one that fails natively as well is skipped.
It is no part of make check, as it wants a GPU; two minutes on 16 cores:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-torch-users.py [--mode=vpmm|preload] [NAME]...

With --mode=preload PyTorch's own allocator runs under the object of vpmm-run, PREFIX/lib/vpmm/libvpmm-preload.so.
"""

import argparse
import concurrent.futures
import gc
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import threading

import torch_libraries
from torch_libraries import total

MIB = 1 << 20
# Seconds that a program may take.
PATIENCE = 200
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def settings(**variables):
    """The program wants variables of the environment."""
    def add(function):
        function.variables = variables
        return program(function)
    return add


def network(size=256):
    torch.manual_seed(0)
    layers = nn.Linear(size, size), nn.ReLU(), nn.Dropout(0.1), nn.Linear(size, size)
    return nn.Sequential(*layers).cuda()


def batch(seed, *shape):
    torch.manual_seed(seed)
    return torch.randn(*shape, device="cuda")


def begin_group(**words):
    """A process group of this process alone."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000), RANK="0", WORLD_SIZE="1")
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl", **words)
    return torch.distributed


def in_threads(count, work):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# CUDA graphs and compiled code.


@program
def graphed_callables():
    model = network()
    graphed = torch.cuda.make_graphed_callables(model, (batch(0, 64, 256).requires_grad_(),))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(20):
        loss = graphed(batch(step, 64, 256).requires_grad_()).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return bool(torch.isfinite(loss))


@program
def graph_trees():
    """Outputs are kept, sizes change, and other work allocates in between."""
    compiled, kept, sums = torch.compile(network().eval(), mode="reduce-overhead"), [], []
    for step in range(30):
        torch.compiler.cudagraph_mark_step_begin()
        out = compiled(batch(step, (16, 32, 48)[step % 3], 256))
        out = compiled(out) if step % 2 else out
        kept = kept[-3:] + [out.clone()]
        torch.empty(step * 7919 % 50 * 100000 + 1, device="cuda")
        sums.append(total(out, 1))
    return sums


@program
def graph_trees_training():
    model = network()
    compiled = torch.compile(model, dynamic=True, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    for step in range(20):
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(batch(step, 8 + 3 * step, 256)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return bool(torch.isfinite(loss))


@program
def graph_partitions():
    torch._inductor.config.graph_partition = True

    def function(x):
        y = x * 2
        return (y.cpu().cuda() + 1 if y.shape[0] > 4 else y).sin()

    compiled, sums = torch.compile(function, mode="reduce-overhead"), []
    for step in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        sums.append(total(compiled(torch.full((4 + step % 3, 100), float(step), device="cuda"))))
    return sums


@program
def graph_orders():
    """Graphs of one pool go in any order, and the rest is replayed."""
    order, pool, graphs, sums = random.Random(3), torch.cuda.graph_pool_handle(), [], []
    x = torch.ones(512, 512, device="cuda")
    torch.mm(x, x)
    torch.cuda.synchronize()
    for step in range(12):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            out = x
            for k in range(order.randrange(1, 6)):
                out = (out @ x) / 512 + torch.full((512, 512), float(k), device="cuda")
        graphs.append((graph, out))
        if step % 3 == 2:
            graphs.pop(order.randrange(len(graphs)))
            gc.collect()
            torch.cuda.empty_cache()
        graphs[-1][0].replay()
        sums.append(total(graphs[-1][1]))
    while graphs:
        graph, out = graphs.pop(order.randrange(len(graphs)))
        graph.replay()
        sums.append(total(out))
    return sums


@program
def graph_in_mem_pool():
    pool, graph, sums = torch.cuda.MemPool(), torch.cuda.CUDAGraph(), []
    x = torch.ones(1000, 1000, device="cuda")
    (x @ x).sum()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, pool=pool.id):
        out = (x * 2 @ x).sum()
    for step in range(3):
        x.fill_(step)
        graph.replay()
        sums.append(total(out))
    with torch.cuda.use_mem_pool(pool):
        other = torch.zeros(MIB, device="cuda")
    graph.replay()
    sums.append(total(other))
    graph.reset()
    del graph, out, other
    torch.cuda.empty_cache()
    with torch.cuda.use_mem_pool(pool):
        return sums + [total(torch.ones(MIB, device="cuda"))]


@program
def capture_beside_threads():
    x, sums, ends = torch.ones(256, 256, device="cuda"), [], threading.Event()

    def allocate():
        with torch.cuda.stream(torch.cuda.Stream()):
            step = 0
            while not ends.is_set():
                torch.empty(step * 7919 % 4000000 + 1, device="cuda").fill_(1)
                step += 1

    threads = [threading.Thread(target=allocate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(10):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="relaxed"):
            out = (x * step).cumsum(0).sum()
        graph.replay()
        sums.append(total(out))
    ends.set()
    for thread in threads:
        thread.join()
    return sums


@program
def kept_graph():
    graph, x = torch.cuda.CUDAGraph(keep_graph=True), torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = x * 2
    graph.instantiate()
    graph.replay()
    return total(out), graph.raw_cuda_graph() != 0


@program
def compiled_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    compiled, sums = torch.compile(flex_attention), []
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 512, 512)
    for step in range(4):
        torch.manual_seed(step)
        q, k, v = (torch.randn(2, 4, 512, 64, device="cuda", requires_grad=True) for _ in range(3))
        compiled(q, k, v, block_mask=mask).sum().backward()
        sums.append(total(q.grad.abs(), 0))
    return sums


@program
def scripted():
    frozen = torch.jit.freeze(torch.jit.script(network().eval()))
    with torch.no_grad():
        return [total(frozen(batch(step, 8 + step, 256))) for step in range(6)]


@program
def triton_benchmark():
    import triton
    x = torch.ones(MIB, device="cuda")
    return triton.testing.do_bench(lambda: x * 2) > 0, triton.testing.do_bench_cudagraph(lambda: x * 2) > 0


# Training.


@program
def scaled_training():
    model, scaler = network(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, capturable=True, foreach=True)
    for step in range(10):
        with torch.autocast("cuda", torch.float16):
            loss = model(batch(step, 64, 256)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return bool(torch.isfinite(loss))


@program
def saved_on_cpu():
    from torch.utils.checkpoint import checkpoint
    weight, sums = batch(0, 512, 512).requires_grad_(), []
    for step in range(5):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            x = checkpoint(lambda a: torch.tanh(a @ weight), batch(step, 256 + 31 * step, 512), use_reentrant=False)
            torch.tanh(x @ weight).square().mean().backward()
        sums.append(total(weight.grad.abs()))
        weight.grad = None
    return sums


@program
def loader_with_workers():
    data = torch.utils.data.TensorDataset(torch.arange(4096 * 64, dtype=torch.float32).view(4096, 64))
    stream, found = torch.cuda.Stream(), torch.zeros((), device="cuda", dtype=torch.double)
    for _ in range(2):
        for (x,) in torch.utils.data.DataLoader(data, 100, num_workers=3, pin_memory=True):
            with torch.cuda.stream(stream):
                y = x.cuda(non_blocking=True) * 2
            torch.cuda.current_stream().wait_stream(stream)
            y.record_stream(torch.cuda.current_stream())
            found += y.double().sum()
    return float(found)


@program
def streams_in_autograd():
    streams, sums, weight = [torch.cuda.Stream() for _ in range(2)], [], batch(0, 512, 512).requires_grad_()
    for step in range(20):
        x, outs = torch.full((512, 512), 0.01 * step, device="cuda"), []
        for stream, function in zip(streams, (torch.tanh, torch.sigmoid)):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                outs.append(function(x @ weight))
            torch.cuda.current_stream().wait_stream(stream)
            x.record_stream(stream)
        (outs[0] * outs[1]).mean().backward()
        sums.append(total(weight.grad))
    return sums


@program
def sharded():
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
    group, losses = begin_group(), []
    for offload in OffloadPolicy(), CPUOffloadPolicy():
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.TransformerEncoderLayer(128, 4, 256, 0, batch_first=True) for _ in range(3)])
        for layer in model:
            fully_shard(layer, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16), offload_policy=offload)
        fully_shard(model, offload_policy=offload)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        for step in range(5):
            loss = model(batch(step, 4, 16 + 8 * step, 128)).float().square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(round(float(loss), 2))
    group.destroy_process_group()
    return losses


@program
def data_parallel():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.nn.parallel import DistributedDataParallel
    group, losses = begin_group(), []
    for wrap in (lambda model: FullyShardedDataParallel(model, device_id=0, use_orig_params=True),
                 lambda model: DistributedDataParallel(model, static_graph=True, gradient_as_bucket_view=True)):
        model = wrap(network())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(5):
            loss = model(batch(step, 32, 256)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(bool(torch.isfinite(loss)))
    group.destroy_process_group()
    return losses


@program
def distributed_tensors():
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    group, where = begin_group(), tempfile.mkdtemp()
    mesh = torch.distributed.device_mesh.init_device_mesh("cuda", (1,))
    x = distribute_tensor(batch(0, 64, 64), mesh, [Shard(0)])
    product = total((x @ x.redistribute(mesh, [Replicate()])).full_tensor())
    checkpoint.async_save({"x": x}, checkpoint_id=where).result()
    loaded = {"x": torch.zeros_like(x)}
    checkpoint.load(loaded, checkpoint_id=where)
    group.destroy_process_group()
    return product, total(loaded["x"].full_tensor())


@program
def collectives():
    """Captured, and of memory that is registered with NCCL."""
    group = begin_group(device_id=torch.device("cuda:0"))
    backend = group.distributed_c10d._get_default_group()._get_backend(torch.device("cuda:0"))
    pool, graph, x = torch.cuda.MemPool(), torch.cuda.CUDAGraph(), torch.ones(MIB, device="cuda")
    group.all_reduce(x)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = x * 2
        group.all_reduce(out)
    graph.replay()
    sums = [total(out)]
    with torch.cuda.use_mem_pool(pool):
        first = torch.ones(4 * MIB, device="cuda")
    backend.register_mem_pool(pool)
    with torch.cuda.use_mem_pool(pool):
        second = torch.ones(8 * MIB, device="cuda")
    for tensor in first, second:
        group.all_reduce(tensor)
        sums.append(total(tensor))
    del second, tensor
    torch.cuda.empty_cache()
    backend.deregister_mem_pool(pool)
    del graph
    group.destroy_process_group()
    return sums


# Pools, sharing, and what else the allocator is asked.


@program
def foreign_pool():
    """A MemPool whose allocator is the program's own: each segment comes from it, and goes back."""
    import ctypes

    from torch.utils.cpp_extension import CUDA_HOME
    where, home = tempfile.mkdtemp(), CUDA_HOME or "/usr/local/cuda"
    with open(where + "/a.cpp", "w", encoding="ascii") as file:
        file.write("#include <cuda_runtime_api.h>\n#include <sys/types.h>\nstatic int taken, given;\nextern \"C\" {\n"
                   "void *take(ssize_t n, int, cudaStream_t) { void *p = 0; taken++; cudaMalloc(&p, n); return p; }\n"
                   "void give(void *p, ssize_t, int, cudaStream_t) { given++; cudaFree(p); }\n"
                   "int counts() { return 100 * taken + given; }\n}\n")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", where + "/a.so", where + "/a.cpp", f"-I{home}/include",
                    f"-L{home}/lib64", "-lcudart"], check=True)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(where + "/a.so", "take", "give")
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        tensors = [torch.full((MIB,), float(i), device="cuda") for i in range(5)]
        tensors += [torch.full((10,), float(i), device="cuda") for i in range(20)]
    sums = [total(tensor) for tensor in tensors]
    del tensors
    gc.collect()
    del pool
    gc.collect()
    torch.cuda.empty_cache()
    return sums, ctypes.CDLL(where + "/a.so").counts()


@program
def handed_over():
    """Weights that an engine with PyTorch's own allocator gets by reduce_tensor(), as trainers give them."""
    from torch.multiprocessing.reductions import reduce_tensor
    weights, file = [torch.full((1000 * i,), float(i), device="cuda") for i in range(1, 20)], tempfile.mkstemp()[1]
    with open(file, "wb") as out:
        pickle.dump([reduce_tensor(weight) for weight in weights], out)
    engine = ("import pickle, sys, torch; mine = torch.ones(1000, device='cuda')\n"
              "for function, arguments in pickle.load(open(sys.argv[1], 'rb')):\n"
              "    print(float(function(*arguments).sum()) + float(mine.sum()))")
    done = subprocess.run([sys.executable, "-c", engine, file], capture_output=True, text=True, check=False)
    torch.cuda.ipc_collect()
    return done.stdout, done.stderr


@program
def uncached():
    torch.cuda.caching_allocator_enable(False)
    x, y = torch.ones(MIB, device="cuda"), torch.ones(10, device="cuda")
    torch.cuda.caching_allocator_enable(True)
    z = torch.ones(MIB, device="cuda")
    sums = [total(tensor) for tensor in (x, y, z)]
    del x, y
    torch.cuda.caching_allocator_enable(False)
    del z
    torch.cuda.caching_allocator_enable(True)
    torch.cuda.empty_cache()
    return sums


@settings(PYTORCH_NO_CUDA_MEMORY_CACHING="1")
def uncached_at_all():
    return [total(torch.ones(1000 * i + 1, device="cuda")) for i in range(20)]


@program
def server_threads():
    model, sums = network().eval(), [0.0] * 8

    def serve(i):
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            for step in range(50):
                generator = torch.Generator(device="cuda").manual_seed(100 * i + step)
                x = torch.randn(1 + (37 * step + i) % 200, 256, device="cuda", generator=generator)
                sums[i] += total(model(x), 0)

    in_threads(8, serve)
    return [round(value, -1) for value in sums]


@program
def forked_early():
    """Workers that are forked before anything uses CUDA."""
    end, begin = os.pipe()
    if not os.fork():
        for _ in range(40):
            torch.ones(64 * MIB, device="cuda")
        os.write(begin, str(torch.cuda.memory_allocated()).encode())
        os._exit(0)
    os.wait()
    return os.read(end, 100).decode()


@program
def history_of_capture():
    torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")
    x, graph = torch.ones(1 << 16, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x * 2
        torch.cuda.memory._snapshot()
        z = y + 1
        del y
    graph.replay()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._dump_snapshot(tempfile.mkstemp()[1])
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    private = sorted({tuple(segment["segment_pool_id"]) != (0, 0) for segment in snapshot["segments"]})
    return total(z), private, actions.count("alloc") - actions.count("free_completed"), sorted(snapshot)


@program
def profiled():
    from torch.profiler import ProfilerActivity, profile
    model, where = network(), tempfile.mkdtemp()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True, record_shapes=True,
                 with_stack=True) as found:
        for step in range(3):
            model(batch(step, 64, 256)).sum().backward()
        torch.cuda.synchronize()
    found.export_chrome_trace(where + "/trace.json")
    with open(where + "/trace.json", encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("name") == "[memory]"]
    return len([event for event in events if event["args"].get("Device Type") == 1]), \
        sum(row.self_device_memory_usage for row in found.key_averages())


@program
def sums_of_snapshots():
    tensors = [torch.ones(size, device="cuda") for size in (10, 1000, MIB, 16 * MIB)]
    del tensors[1]
    segments, counts = torch.cuda.memory_snapshot(), torch.cuda.memory_stats()
    blocks = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
    return sum(block["size"] for block in blocks) == counts["allocated_bytes.all.current"], \
        sum(block["requested_size"] for block in blocks) == counts["requested_bytes.all.current"], \
        sum(segment["total_size"] for segment in segments) == counts["reserved_bytes.all.current"], \
        sorted(segments[0]), sorted(segments[0]["blocks"][0]), sorted(counts)


@program
def saved_and_loaded():
    file, found = tempfile.mkstemp()[1], []
    torch.save({"x": torch.arange(MIB, device="cuda")}, file)
    for words in {}, {"map_location": "cuda"}, {"map_location": "cuda:0", "mmap": True}:
        found.append(total(torch.load(file, **words)["x"]))
    return found


@program
def halved_until_it_fits():
    from accelerate.utils import find_executable_batch_size
    torch.cuda.set_per_process_memory_fraction(0.01)
    tried = []

    @find_executable_batch_size(starting_batch_size=4096)
    def run(size):
        tried.append(size)
        return total(torch.ones(size, MIB, device="cuda")[0])

    return run(), tried


# Other libraries.


@program
def mathematics():
    sums = []
    for size in 10, 300, 900:
        a = batch(size, size, size).double()
        s = a @ a.T + size * torch.eye(size, device="cuda", dtype=torch.double)
        sums += [total(torch.linalg.svdvals(a)), total(torch.linalg.eigvalsh(s)), total(torch.linalg.solve(s, a), 4),
                 total(torch.fft.fft2(a).abs()), total(torch.linalg.cholesky(s)),
                 total(torch.where(a > 1, a, torch.zeros_like(a)).to_sparse_csr() @ a)]
    numbers = torch.randint(0, 1000, (3000000,), device="cuda")
    return sums, int(numbers.unique().numel()), int(numbers.sort()[0][12345]), int(numbers.nonzero().numel())


@settings(XLA_PYTHON_CLIENT_PREALLOCATE="false")
def exchanged_by_dlpack():
    import cupy
    import jax
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    y = cupy.from_dlpack(x)
    y *= 2
    z = jax.dlpack.from_dlpack(torch.ones(1000, device="cuda")) * 3
    return total(x), total(torch.from_dlpack(y + 1)), total(torch.from_dlpack(z))


@program
def generated():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                                         num_attention_heads=8, num_key_value_heads=4)).cuda().eval()
    found = []
    for i, words in enumerate(({}, {}, {"cache_implementation": "static"})):
        ids = torch.randint(1, 1000, (1 + i, 10 + 5 * i), device="cuda",
                            generator=torch.Generator("cuda").manual_seed(i))
        found.append(int(model.generate(ids, max_new_tokens=20, do_sample=False, pad_token_id=0, **words).sum()))
    return found


PROGRAMS.update((function.__name__, function) for function in torch_libraries.PROGRAMS)


def child(name, mode):
    """Prints the result of a program."""
    global torch, nn
    import torch
    from torch import nn
    torch_libraries.torch, torch_libraries.nn = torch, nn
    if mode == "vpmm":
        import vpmm.torch
        os.environ["VPMM_TORCH_BUILD"] = "require"
        vpmm.torch.enable()
    random.seed(0)
    result = PROGRAMS[name]()
    torch.cuda.synchronize()
    print("RESULT", json.dumps(result))


def run(name, mode, preload):
    """Its result, or else None and the end of what it said."""
    environment = {**os.environ, **getattr(PROGRAMS[name], "variables", {})}
    with tempfile.TemporaryDirectory() as where:
        environment.update(TORCHINDUCTOR_CACHE_DIR=where, TRITON_CACHE_DIR=where, TMPDIR=where)
        if mode == "preload":
            # As vpmm-run does.
            environment.update(LD_PRELOAD=preload, VPMM_EXPORT="auto")
        try:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", name, mode], check=False,
                                  capture_output=True, text=True, env=environment, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return None, f"not done after {PATIENCE} s"
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    result = results[-1] if results and not done.returncode else None
    return result, f"status {done.returncode}: {done.stderr[-1500:]}"


def main():
    parser = argparse.ArgumentParser(description="what users do with PyTorch, with its own allocator and libvpmm's")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(PROGRAMS)}; otherwise all")
    parser.add_argument("--mode", choices=("vpmm", "preload"), default="vpmm", help="how libvpmm serves")
    parser.add_argument("--jobs", type=int, default=6, help="programs at a time, each in two processes")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    names, failed = options.names or list(PROGRAMS), 0
    place = next((place for place in os.environ.get("LD_LIBRARY_PATH", "").split(":")
                  if os.path.exists(place + "/vpmm/libvpmm-preload.so")), "")
    if options.mode == "preload" and not place:
        parser.error("LD_LIBRARY_PATH names no folder that has vpmm/libvpmm-preload.so")
    print(f"1..{len(names)}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(2 * options.jobs) as workers:
        pairs = [[workers.submit(run, name, mode, place + "/vpmm/libvpmm-preload.so")
                  for mode in ("native", options.mode)] for name in names]
        for number, (name, pair) in enumerate(zip(names, pairs), 1):
            (native, why), (ours, complaint) = (future.result() for future in pair)
            if native is None:
                print(f"ok {number} - {name} # SKIP it fails natively as well: {why.splitlines()[-1][:60]}", flush=True)
                continue
            print(f"{'ok' if native == ours else 'not ok'} {number} - {name}", flush=True)
            if native != ours:
                failed += 1
                print(f"# native {native[:1000]}\n# {options.mode} {(ours or complaint)[:1500]!r}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
