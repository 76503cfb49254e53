#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs on libvpmm, cudaMallocAsync and PyTorch's caching allocator, side by side on a GPU.

    tests/tune/tune --write=programs --seeds=2
    tests/tune/beside.py programs/*.trace.gz

Each allocator runs each program twice, without kernels, in a process of its own. The table has the device memory taken
over the memory live at once, and the milliseconds of the first and of the second pass; of several rounds, the medians.
"taken" at the end of a line: libvpmm takes over 1 % more than the best of the others, and over 1.02. "time": its second
pass takes longer than the fastest of the others. "calls" are the driver calls of libvpmm's second pass that create, map
or unmap.

    vpmm        vpmm-replay --backend=cuda, with the settings of the environment
    async       vpmm-replay --backend=cuda --allocator=async
    native      PyTorch's caching allocator (beside-torch.cpp), as it is
    expandable  the same with expandable_segments:True

Taken is what the allocator itself counts: peak_taken of libvpmm, the reserved bytes of the other two. PyTorch has to be
there for python3, and a C++ compiler (CXX); without PyTorch, --allocators=vpmm,async.
"""
import argparse
import array
import ctypes
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ALLOCATORS = ["vpmm", "async", "native", "expandable"]
HEADINGS = {"vpmm": "vpmm", "async": "async", "native": "native", "expandable": "expand."}
PASSES = 2
HERE = os.path.dirname(os.path.abspath(__file__))


class Op(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint64), ("slot", ctypes.c_uint32), ("stream", ctypes.c_uint32),
                ("alloc", ctypes.c_uint32), ("unused", ctypes.c_uint32)]


class Pass(ctypes.Structure):
    _fields_ = [("errors", ctypes.c_uint64), ("peak_live", ctypes.c_uint64), ("peak_taken", ctypes.c_uint64),
                ("wall_s", ctypes.c_double), ("op_us_max", ctypes.c_double)]


def read_trace(path):
    """Return the operations, how many slots they need, and how many streams."""
    slots, spare, streams, ops = {}, [], {}, []
    n_slots = 0
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            _, op, name, size, stream = line.split()
            number = streams.setdefault(stream, len(streams))
            if op == "a":
                if spare:
                    slots[name] = spare.pop()
                else:
                    slots[name] = n_slots
                    n_slots += 1
                ops.append((int(size), slots[name], number, 1, 0))
            else:
                slot = slots.pop(name)
                spare.append(slot)
                ops.append((int(size), slot, number, 0, 0))
    return (Op * len(ops))(*ops), n_slots, len(streams)


def build(library):
    """Build beside-torch.cpp against the PyTorch of this Python."""
    import torch
    from torch.utils import cpp_extension
    nvidia = os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia")
    libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
    folders = cpp_extension.include_paths("cuda")
    if os.path.isdir(nvidia):
        folders += [os.path.join(nvidia, name, "include") for name in sorted(os.listdir(nvidia))]
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-fPIC", "-shared", "-w",
                    os.path.join(HERE, "beside-torch.cpp"), "-o", library,
                    "-L" + libraries, "-Wl,-rpath," + libraries, "-lc10", "-lc10_cuda"] +
                   ["-I" + folder for folder in folders], check=True)


def replay_torch(library, allocator, path):
    """Print a line of JSON for each pass. The CUDA context is this process's own."""
    import torch
    torch.cuda.init()
    ops, slots, n_streams = read_trace(path)
    streams = [torch.cuda.Stream() for _ in range(n_streams)]
    handles = array.array("Q", [stream.cuda_stream for stream in streams])
    replay = ctypes.CDLL(library).replay_pass
    replay.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
    replay.restype = None
    for number in range(1, PASSES + 1):
        result = Pass()
        replay(ops, len(ops), slots, handles.buffer_info()[0], ctypes.byref(result))
        row = {"trace": path, "allocator": allocator, "pass": number, "version": torch.__version__}
        row.update((name, getattr(result, name)) for name, _ in Pass._fields_)
        print(json.dumps(row), flush=True)


def serve_torch(library, allocator):
    """Replay the traces that standard input names: PyTorch is loaded once, and each has a child of its own."""
    import torch  # noqa: F401 (so that the children need not load it)
    for path in sys.stdin:
        child = os.fork()
        if not child:
            status = 1
            try:
                replay_torch(library, allocator, path.rstrip("\n"))
                status = 0
            except Exception as error:  # the other programs go on
                print(f"beside.py: {allocator}: {error}", file=sys.stderr, flush=True)
            os._exit(status)
        os.waitpid(child, 0)
        print(flush=True)


class Torch:
    def __init__(self, library, allocator):
        environment = dict(os.environ)
        for name in "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF":
            environment.pop(name, None)
            if allocator == "expandable":
                environment[name] = "expandable_segments:True"
        self.server = subprocess.Popen([sys.executable, __file__, "--serve", allocator, "--plugin", library],
                                       env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def replay(self, path):
        rows = []
        try:
            print(path, file=self.server.stdin, flush=True)
        except OSError:  # it has ended, and has said why
            return rows
        for line in self.server.stdout:
            if not line.strip():
                break
            if line.startswith("{"):
                rows.append(json.loads(line))
        return rows

    def close(self):
        try:
            self.server.stdin.close()
        except OSError:
            pass
        self.server.wait()


class Vpmm:
    def __init__(self, options, allocator):
        self.command = [options.replay, "--backend=" + options.backend, "--allocator=" + allocator,
                        f"--repeat={PASSES}", "--json"]

    def replay(self, path):
        output = subprocess.run(self.command + [path], stdout=subprocess.PIPE, text=True).stdout
        return [json.loads(line) for line in output.splitlines()]

    def close(self):
        pass


def name_of(path):
    return os.path.basename(path).removesuffix(".gz").removesuffix(".trace")


class Figures:
    """What one allocator took for one program, over all rounds."""

    def __init__(self):
        self.ratio, self.ms, self.calls = None, [[] for _ in range(PASSES)], 0

    def add(self, rows):
        if len(rows) != PASSES or any(row["errors"] for row in rows):
            return False
        self.ratio = max(rows[-1]["peak_taken"] / rows[-1]["peak_live"], self.ratio or 0)
        for i, row in enumerate(rows):
            self.ms[i].append(row["wall_s"] * 1e3)
        self.calls = sum(rows[-1].get(name, 0) for name in ("creates", "maps", "unmaps"))
        return True

    def median_ms(self, number):
        return statistics.median(self.ms[number])


def marks_of(figures):
    """What libvpmm does worse than the best of the others."""
    ours, others = figures.get("vpmm"), [f for name, f in figures.items() if name != "vpmm"]
    if not ours or not others:
        return ""
    marks = []
    if ours.ratio > 1.02 and ours.ratio > 1.01 * min(f.ratio for f in others):
        marks.append("taken")
    if ours.median_ms(1) > min(f.median_ms(1) for f in others):
        marks.append("time")
    return " ".join(marks)


def print_table(options, table):
    names = options.allocators
    heading = "".join(f"{HEADINGS[name]:>8}" for name in names)
    print(f"\n{'':34}{'taken / live':>{8 * len(names)}} |{'first pass, ms':>{8 * len(names)}} |"
          f"{'second pass, ms':>{8 * len(names)}} |  calls")
    print(f"{'program':34}{heading} |{heading} |{heading} |")
    sums, worse = {name: [] for name in names}, {"taken": 0, "time": 0}
    for path, figures in table.items():
        cells = []
        for name in names:
            got = figures.get(name)
            cells.append([f"{got.ratio:8.4f}", f"{got.median_ms(0):8.2f}", f"{got.median_ms(1):8.2f}"] if got
                         else [f"{'-':>8}"] * 3)
            if got:
                sums[name].append(got.ratio)
        marks = marks_of(figures)
        for mark in marks.split():
            worse[mark] += 1
        print(f"{name_of(path)[:34]:34}" + " |".join("".join(cell[i] for cell in cells) for i in range(3)) +
              f" |{figures['vpmm'].calls if 'vpmm' in figures else '-':>7} {marks}")
    for what, pick in ("mean", statistics.mean), ("worst", max):
        print(f"{what:34}" + "".join(f"{pick(sums[name]):8.4f}" if sums[name] else f"{'-':>8}" for name in names))
    print(f"{len(table)} programs; libvpmm takes more than the best of the others in {worse['taken']}, "
          f"and more time in the second pass in {worse['time']}", flush=True)


def measure(options, runners, table, log):
    """Return whether everything ran. Rounds are begun as long as there is time."""
    good, start = True, time.monotonic()
    for number in range(options.rounds):
        for path in options.traces:
            if options.seconds and time.monotonic() - start > options.seconds:
                print(f"beside.py: out of time in round {number + 1} of {options.rounds}", flush=True)
                return good
            for name, runner in runners.items():
                rows = runner.replay(path)
                for row in rows:
                    print(json.dumps(row), file=log, flush=True)
                figures = table.setdefault(path, {}).get(name) or Figures()
                if figures.add(rows):
                    table[path][name] = figures
                else:
                    good = False
                    print(f"beside.py: {name} failed on {path}", flush=True)
    return good


def parse():
    parser = argparse.ArgumentParser(description="Run programs on several allocators of a GPU, side by side.")
    parser.add_argument("--allocators", default=",".join(ALLOCATORS), help="which (default: %(default)s)")
    parser.add_argument("--backend", default="cuda", help="of vpmm-replay (default: cuda)")
    parser.add_argument("--replay", default="vpmm-replay", help="where vpmm-replay is")
    parser.add_argument("--rounds", type=int, default=1, help="how often (default: once)")
    parser.add_argument("--seconds", type=float, default=0, help="begin nothing after that; 0: no limit")
    parser.add_argument("--log", default=os.devnull, help="a file for a line of JSON of each pass")
    parser.add_argument("--serve", choices=ALLOCATORS[2:], help=argparse.SUPPRESS)
    parser.add_argument("--build", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plugin", help=argparse.SUPPRESS)
    parser.add_argument("traces", nargs="*", metavar="TRACE")
    options = parser.parse_args()
    options.allocators = options.allocators.split(",")
    for name in options.allocators:
        if name not in ALLOCATORS:
            parser.error(f"--allocators: {name} is none, expected {', '.join(ALLOCATORS)}")
    if options.rounds < 1:
        parser.error("--rounds: expected at least 1")
    if not options.traces and not options.serve and not options.build:
        parser.error("no trace given")
    return options


def main():
    options = parse()
    if options.build:
        return build(options.plugin)
    if options.serve:
        return serve_torch(options.plugin, options.serve)
    table, built = {}, True
    with tempfile.TemporaryDirectory() as folder, open(options.log, "a") as log:
        library = os.path.join(folder, "beside-torch.so")
        if set(options.allocators) & set(ALLOCATORS[2:]):
            # In a process of its own: what replays inherits nothing from it.
            built = not subprocess.run([sys.executable, __file__, "--build", "--plugin", library]).returncode
        if not built:
            print("beside.py: PyTorch is left out, as beside-torch.cpp could not be built", flush=True)
            options.allocators = [name for name in options.allocators if name in ALLOCATORS[:2]]
        runners = {name: Vpmm(options, name) if name in ALLOCATORS[:2] else Torch(library, name)
                   for name in options.allocators}
        good = measure(options, runners, table, log) and built
        for runner in runners.values():
            runner.close()
    print_table(options, table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
