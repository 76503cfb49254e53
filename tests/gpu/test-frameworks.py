#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
CuPy, Numba and cuda.core on a GPU with memory of libvpmm, each in a process of its own and by its own idioms: four
streams whose contents are checked, graphs, running out of memory; and PyTorch and CuPy that hand arrays to each other
on one pool. Prints TAP; a framework that is not there is skipped. It is no part of make check, as it wants a GPU, and
some two minutes:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-frameworks.py

with a library that is installed below PREFIX, or build/lib/.libs in place of PREFIX/lib. With a word, it runs that part
in this process: cupy, numba, core, warp or together. --numba-suite adds some of Numba's own tests, with its own memory
manager and with libvpmm's, some minutes each; --whole-suite adds all of them, within --suite-seconds.
"""

import argparse
import ctypes
import faulthandler
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

MIB = 1 << 20
PARTS = ("cupy", "numba", "core", "warp", "together")

parser = argparse.ArgumentParser(description="CuPy, Numba, cuda.core and Warp with memory of libvpmm")
parser.add_argument("part", nargs="?", choices=PARTS + ("suite",))
parser.add_argument("--numba-suite", action="store_true", help="also some of Numba's own tests, twice")
parser.add_argument("--whole-suite", action="store_true", help="also all of Numba's own tests, twice")
parser.add_argument("--suite-seconds", type=int, default=240, help="how long each run of those may take")
options = parser.parse_args()


# Numba's own tests.

# Those that have to do with memory, streams and contexts.
SUITE = [f"numba.cuda.tests.cudadrv.test_{name}" for name in (
    "array_attr", "context_stack", "cuda_array_slicing", "cuda_auto_context", "cuda_devicerecord", "cuda_driver",
    "cuda_memory", "cuda_ndarray", "deallocations", "emm_plugins", "events", "host_alloc", "managed_alloc", "pinned",
    "reset_device", "select_device", "streams")]
SUITE += [f"numba.cuda.tests.cudapy.test_{name}" for name in (
    "array", "array_args", "array_methods", "constmem", "cuda_array_interface", "device_array_capture", "gufunc",
    "intrinsics", "ipc", "laplace", "localmem", "matmul", "multigpu", "multiprocessing", "multithreads", "random",
    "record_dtype", "reduction", "retrieve_autoconverted_arrays", "slicing", "sm", "stream_api", "sync", "transpose",
    "ufuncs", "vectorize")]

# Prints them all.
SUITE_LIST = """
import pkgutil
import numba.cuda.tests as tests
found = pkgutil.walk_packages(tests.__path__, tests.__name__ + ".", onerror=lambda name: None)
print(*sorted(module.name for module in found if module.name.rsplit(".", 1)[1].startswith("test_")))
"""

# Runs modules by name: as files, pytest takes numba.cuda for the package cuda. With what the tests need of Numba's
# source tree, and of packages that few have. Writes down what came of each test, as it comes.
SUITE_RUNNER = '''
import os, sys, traceback, types, unittest

try:
    import filecheck.matcher
except ImportError:
    for name, value in (("filecheck", None), ("filecheck.matcher", "Matcher"), ("filecheck.options", "Options"),
                        ("filecheck.parser", "Parser"), ("filecheck.finput", "FInput")):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = []
        if value:
            setattr(module, value, type(value, (), {}))
    sys.modules["filecheck.parser"].pattern_for_opts = None


class Result(unittest.TestResult):
    def note(self, outcome, test, error=None):
        with open(os.environ["SUITE_OUT"], "a") as out:
            out.write(f"{outcome} {test.id()}\\n")
        if error:
            print(outcome, test.id(), *traceback.format_exception(*error)[-3:], sep="\\n", flush=True)

    def addSuccess(self, test):
        self.note("passed", test)

    def addFailure(self, test, error):
        self.note("failed", test, error)

    def addError(self, test, error):
        self.note("error", test, error)

    def addSubTest(self, test, subtest, error):
        if error:
            self.note("failed", test, error)

    def addSkip(self, test, reason):
        self.note("skipped", test)

    def addExpectedFailure(self, test, error):
        self.note("passed", test)

    def addUnexpectedSuccess(self, test):
        self.note("failed", test)


# Newer NumPy has it no more, and some numba-cuda ask for it when they compile the first kernel.
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack

unittest.TestCase._dump_failed_filechecks = False
for name in sys.argv[1:]:
    unittest.defaultTestLoader.loadTestsFromName(name).run(Result())
'''


def run_suite(directory, manager):
    """What came of each test, and the modules that were run to their end."""
    out = os.path.join(directory, manager)
    # The modules run elsewhere.
    path = os.pathsep.join(os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part)
    environment = dict(os.environ, SUITE_OUT=out, NUMBA_CUDA_MEMORY_MANAGER=manager, PYTHONPATH=path,
                       PYTHONUNBUFFERED="1")
    began = time.time()
    results, ran = {}, []
    # A few at a time, so that one that ends the process leaves the others.
    for first in range(0, len(SUITE), 5):
        modules = SUITE[first:first + 5]
        left = options.suite_seconds - (time.time() - began)
        if left < 10:
            print(f"# numba suite, {manager}: no time for {' '.join(modules)}")
            continue
        try:
            done = subprocess.run([sys.executable, "-c", SUITE_RUNNER, *modules], cwd=directory, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=left,
                                  check=False)
        except subprocess.TimeoutExpired:
            print(f"# numba suite, {manager}: too slow, or stuck, in {' '.join(modules)}")
            continue
        ran += modules
        if done.returncode:
            results[f"the process of {' '.join(modules)}"] = f"status {done.returncode}"
        if manager != "default":
            print("\n".join(f"# {line}" for line in done.stdout.splitlines()[-25:]))
    if os.path.exists(out):
        with open(out, encoding="utf-8") as written:
            for line in written:
                outcome, _, name = line.strip().partition(" ")
                if results.get(name) not in ("failed", "error"):
                    results[name] = outcome
    numbers = {outcome: list(results.values()).count(outcome) for outcome in sorted(set(results.values()))}
    print(f"# numba suite, {manager}: {numbers}, {time.time() - began:.0f} s, {len(ran)} of {len(SUITE)} modules")
    return results, ran


def compare_suite(tap):
    """With libvpmm passes what passes without, but what asks for Numba's own memory manager or CUDA IPC."""
    with tempfile.TemporaryDirectory() as directory:
        found = subprocess.run([sys.executable, "-c", SUITE_LIST], capture_output=True, text=True, check=False)
        if found.returncode:
            tap("numba-suite: passes with libvpmm what passes without",
                skip=(found.stderr.strip().splitlines() or ["no Numba tests"])[-1])
            return
        if options.whole_suite:
            SUITE[:] = found.stdout.split()
        own, _ran = run_suite(directory, "default")
        ours, ran = run_suite(directory, "vpmm.numba")
    # A test that is missing was not reached, unless its module had no time.
    reached = tuple(module + "." for module in ran)
    worse = sorted(name for name, outcome in own.items() if outcome == "passed" and (
        ours[name] not in ("passed", "skipped") if name in ours else name.startswith(reached)))
    worse += sorted(name for name, outcome in ours.items() if outcome.startswith("status") and name not in own)
    better = sorted(name for name, outcome in own.items() if outcome != "passed" and ours.get(name) == "passed")
    for name in better:
        print(f"# passes with libvpmm alone: {name}")
    expected = ("ipc", "deallocations")
    surprises = []
    for name in worse:
        known = any(word in name for word in expected)
        print(f"# {'as expected, ' if known else ''}{ours.get(name, 'missing')} with libvpmm: {name}")
        surprises += [] if known else [name]
    tap(f"numba-suite: of {list(own.values()).count('passed')} tests that pass without libvpmm, {len(worse)} fail with "
        "it, none but those of CUDA IPC and of Numba's own deferred frees", not surprises and "passed" in own.values())


# The parts, one process each.

def run_all():
    count, failed = 0, 0

    def tap(text, good=True, skip=""):
        nonlocal count, failed
        count += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {count} - {text}{' # SKIP ' + skip if skip else ''}", flush=True)

    for part in () if options.part == "suite" else PARTS:
        try:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), part], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=200, check=False)
            said, wrong, status = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired as error:
            said, wrong, status = (error.stdout or b"").decode(errors="replace"), "", "timeout"
        for line in said.splitlines():
            if line.startswith("{"):
                result = json.loads(line)
                tap(f"{part}: {result['name']}", result["good"], result.get("skip", ""))
            else:
                print(f"# {line}")
        for line in wrong.splitlines()[-25:]:
            print(f"# {part}, stderr: {line}")
        # 1: what has failed was said.
        tap(f"{part}: ends well, with status {status}", status in (0, 1))
    if options.numba_suite or options.whole_suite or options.part == "suite":
        compare_suite(tap)
    print(f"1..{count}")
    return 1 if failed else 0


if options.part in (None, "suite"):
    sys.exit(run_all())

faulthandler.enable()
faulthandler.dump_traceback_later(190, exit=True)

import vpmm  # noqa: E402


class Skip(Exception):
    pass


def check(condition, text="the condition does not hold"):
    if not condition:
        raise AssertionError(text)


def need(module):
    """A framework, or the reason to skip its part."""
    import importlib

    try:
        return importlib.import_module(module)
    except Exception as error:
        raise Skip(f"{module}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error


def live():
    return vpmm.stats().requested


def is_ours(address):
    try:
        return vpmm.lookup(address).base == address
    except vpmm.Error:
        return False


class Driver:
    """Copies and fills without a framework."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        result = getattr(self.lib, name)(*arguments)
        check(result == 0, f"{name}: error {result}")

    def fill(self, address, value, size, stream):
        self.call("cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(value), ctypes.c_size_t(size),
                  ctypes.c_void_p(stream))

    def read(self, address, size):
        content = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return content.raw

    def synchronize(self):
        self.call("cuCtxSynchronize")


# A size that no GPU has, and one that none addresses.
TOO_LARGE = (1 << 42, 1 << 46)


# CuPy

def cupy_start():
    global cupy
    cupy = need("cupy")
    import vpmm.cupy

    if cupy.cuda.runtime.getDeviceCount() < 1:
        raise Skip("there is no GPU")
    before = cupy.arange(1000)
    vpmm.cupy.enable()
    check(vpmm.cupy.is_enabled())
    after = cupy.arange(1000)
    check(is_ours(after.data.ptr) and not is_ours(before.data.ptr), "memory is not where it should be")
    check(bool((before == after).all()))
    print(f"CuPy {cupy.__version__}, {vpmm.info().device_name}, driver {vpmm.info().driver_version}")


def cupy_streams():
    """Temporary arrays on four streams; each checks its own contents."""
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    wrong = []
    for stream in streams:
        with stream:
            wrong.append(cupy.zeros((), dtype=cupy.int64))
    for step in range(400):
        index = step % 4
        with streams[index]:
            size = (1 + step * 37 % 61) * MIB // 8
            x = cupy.full(size, step, dtype=cupy.int32)
            y = x * 3 + 1
            del x
            z = cupy.full(size, -1, dtype=cupy.int32)
            wrong[index] += (y != step * 3 + 1).sum() + (z != -1).sum()
            del y, z
    cupy.cuda.runtime.deviceSynchronize()
    check([int(count) for count in wrong] == [0] * 4, f"{wrong} elements were overwritten in use")
    vpmm.default_pool().check()


def cupy_hand_over():
    """An array that other streams read is freed behind them, when they were named."""
    first = cupy.cuda.Stream(non_blocking=True)
    others = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    sums = []
    wanted = []
    for step in range(200):
        other = others[step % 3]
        size = (1 + step * 53 % 31) * MIB // 4
        with first:
            x = cupy.full(size, step % 100, dtype=cupy.int32)
            event = first.record()
        other.wait_event(event)
        with other:
            sums.append(x.sum())
        vpmm.default_pool().use(x.data.ptr, other)
        wanted.append(size * (step % 100))
        del x
        with first:
            # In the memory, if it were to be had too early.
            cupy.full(size, 99, dtype=cupy.int32)
    cupy.cuda.runtime.deviceSynchronize()
    check([int(value) for value in sums] == wanted, "contents were overwritten in use")


def cupy_libraries():
    """What the libraries of CUDA take for themselves comes from there too."""
    import numpy

    host = numpy.random.default_rng(5).random((512, 512))
    device = cupy.asarray(host)
    check(numpy.allclose(cupy.asnumpy(device @ device), host @ host), "a product is wrong")
    check(numpy.allclose(cupy.asnumpy(cupy.sort(device, axis=None)), numpy.sort(host, axis=None)), "a sort is wrong")
    check(numpy.allclose(cupy.asnumpy(cupy.fft.ifft2(cupy.fft.fft2(device)).real), host), "a transform is wrong")
    # Blocks of solvers and sparse matrices.
    right = cupy.linalg.solve(device + 512 * cupy.eye(512), device)
    check(bool(cupy.allclose((device + 512 * cupy.eye(512)) @ right, device)), "a solution is wrong")
    from cupyx.scipy import sparse

    matrix = sparse.random(2000, 2000, density=0.01, format="csr", dtype=cupy.float64)
    vector = cupy.ones(2000)
    check(bool(cupy.allclose(matrix @ vector, matrix.toarray() @ vector)), "a sparse product is wrong")


def cupy_exhausted():
    kind = cupy.cuda.memory.OutOfMemoryError
    for size in TOO_LARGE:
        try:
            cupy.empty(size, dtype=cupy.uint8)
        except kind as error:
            check("vpmm_malloc" in str(error), str(error))
            print(f"{type(error).__name__}: {error}")
        else:
            raise AssertionError("there was memory")
    free = cupy.cuda.runtime.memGetInfo()[0]
    blocks, size, failures = [], free // 3, 0
    while failures < 3 and len(blocks) < 40:
        try:
            blocks.append(cupy.empty(size, dtype=cupy.uint8))
        except kind:
            failures += 1
            size //= 2
    check(failures == 3 and len(blocks) >= 2, f"{len(blocks)} blocks, {failures} failures")
    blocks.clear()
    again = cupy.full(free // 3, 5, dtype=cupy.uint8)
    check(int(again[-1]) == 5)
    del again
    vpmm.trim()


def cupy_stream_life():
    """Streams come and go, and the pool forgets them."""
    cupy.cuda.runtime.deviceSynchronize()
    gc.collect()
    kept = []
    before = vpmm.stats().streams
    for step in range(500):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            x = cupy.full(MIB, step % 100, dtype=cupy.uint8)
        del stream
        if step % 50 == 0:
            kept.append(x)
        del x
    cupy.cuda.runtime.deviceSynchronize()
    check([int(x[-1]) for x in kept] == 5 * [0, 50], "contents are wrong")
    kept.clear()
    gc.collect()
    # Those whose work was pending when they were retired go some at a time.
    check(vpmm.stats().streams <= before + 130, f"{before} streams before, {vpmm.stats().streams} after")


def cupy_graph():
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.zeros(4 * MIB, dtype=cupy.float32)

        def work():
            y = x * 2
            z = y + 1
            del y
            return z * z

        work()
        stream.synchronize()
        if not hasattr(stream, "begin_capture"):
            raise Skip("this CuPy has no graphs")
        before = vpmm.stats().held
        stream.begin_capture()
        out = work()
        graph = stream.end_capture()
        for value in range(20):
            x.fill(value)
            graph.launch(stream)
            other = cupy.full(4 * MIB, -1, dtype=cupy.float32)
            check(bool((out == (2 * value + 1) ** 2).all()) and bool((other == -1).all()), f"launch {value}")
        check(vpmm.stats().held > before, "the graph holds no memory")
        vpmm.cupy.retire(graph, stream)
    del out
    stream.synchronize()
    check(vpmm.stats().held == before, f"{vpmm.stats().held} bytes are held for no graph")


def cupy_threads():
    import threading

    wrong = []

    def work(seed):
        with cupy.cuda.Stream(non_blocking=True):
            for step in range(100):
                x = cupy.full(seed * 1000 + step * 4096, seed, dtype=cupy.int32)
                if not bool((x == seed).all()):
                    wrong.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not wrong, f"{wrong}")


def cupy_devices():
    """Copies to another device and back."""
    if cupy.cuda.runtime.getDeviceCount() < 2:
        raise Skip("there is one GPU")
    for step in range(20):
        with cupy.cuda.Device(0):
            x = cupy.arange(step + (step + 1) * MIB, dtype=cupy.int32)
        with cupy.cuda.Device(1):
            y = cupy.asarray(x)
            check(vpmm.lookup(y.data.ptr).device == 1, "memory of the wrong device")
            y += step
            cupy.cuda.get_current_stream().synchronize()
        with cupy.cuda.Device(0):
            check(bool((cupy.asarray(y) == x + step).all()), f"step {step}")


def cupy_speed():
    """No check: the time of an array and its end, with libvpmm and with CuPy's own pool."""
    def measure():
        for _ in range(2):
            start = time.perf_counter()
            for _ in range(20000):
                cupy.empty(MIB, dtype=cupy.uint8)
            found = (time.perf_counter() - start) / 20000 * 1e6
        return found

    ours = measure()
    with cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc):
        own = measure()
    print(f"an empty array of 1 MiB and its end: {ours:.2f} us, {own:.2f} us with CuPy's own pool")


def cupy_disable():
    x = cupy.full(MIB, 3, dtype=cupy.uint8)
    vpmm.cupy.disable()
    y = cupy.full(MIB, 3, dtype=cupy.uint8)
    check(is_ours(x.data.ptr) and not is_ours(y.data.ptr) and bool((x == y).all()))
    vpmm.cupy.enable()


# Numba

def numba_start():
    global cuda, numpy
    need("numba")
    cuda = need("numba.cuda")
    numpy = need("numpy")
    # Newer NumPy has it no more, and some numba-cuda ask for it when they compile the first kernel.
    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack
    if not cuda.is_available():
        raise Skip("Numba finds no GPU")
    try:
        import vpmm.numba
    except ImportError as error:
        raise Skip(str(error)) from error
    vpmm.numba.enable()
    check(vpmm.numba.is_enabled())
    array = cuda.to_device(numpy.arange(1000, dtype=numpy.int32))
    check(is_ours(array.__cuda_array_interface__["data"][0]), "memory is not where it should be")
    check((array.copy_to_host() == numpy.arange(1000)).all())
    version = need("numba").__version__
    try:
        version += f", numba-cuda {need('numba_cuda').__version__}"
    except (Skip, AttributeError):
        pass
    print(f"Numba {version}")


def numba_kernel():
    global scale

    @cuda.jit
    def scale(x, by, add):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = x[i] * by + add

    x = cuda.to_device(numpy.ones(1000, dtype=numpy.int32))
    scale[8, 128](x, 3, 4)
    check((x.copy_to_host() == 7).all())


def numba_streams():
    """Copies in, a kernel and copies out on four streams, and arrays that go at once."""
    streams = [cuda.stream() for _ in range(4)]
    results = []
    for step in range(200):
        stream = streams[step % 4]
        size = 1000 + step * 4093 % 300000
        x = cuda.to_device(numpy.full(size, step, dtype=numpy.int32), stream=stream)
        scale[(size + 255) // 256, 256, stream](x, 2, 1)
        y = cuda.device_array(size, dtype=numpy.int32, stream=stream)
        y.copy_to_device(x, stream=stream)
        del x
        scale[(size + 255) // 256, 256, stream](y, 1, step)
        results.append((step, y))
        if len(results) == 8:
            cuda.synchronize()
            for number, y in results:
                check((y.copy_to_host() == number * 3 + 1).all(), f"step {number}")
            results.clear()
    cuda.synchronize()
    vpmm.default_pool().check()


def numba_views():
    """A part keeps the whole, and memory comes back with the last."""
    gc.collect()
    before = live()
    x = cuda.to_device(numpy.arange(100000, dtype=numpy.int32))
    part = x[1000:2000]
    del x
    other = cuda.device_array(100000, dtype=numpy.int32)
    scale[400, 256](other, 0, -1)
    check((part.copy_to_host() == numpy.arange(1000, 2000)).all())
    del part, other
    gc.collect()
    check(live() == before, f"{live() - before} bytes are left")


def numba_host():
    """Pinned, mapped and managed memory is Numba's own matter."""
    pinned = cuda.pinned_array(1000, dtype=numpy.int32)
    pinned[:] = 5
    x = cuda.to_device(pinned, stream=cuda.stream())
    mapped = cuda.mapped_array(1000, dtype=numpy.int32)
    mapped[:] = 2
    scale[8, 128](mapped, 3, 1)
    cuda.synchronize()
    check((mapped == 7).all() and (x.copy_to_host() == 5).all())
    managed = cuda.managed_array(1000, dtype=numpy.int32)
    managed[:] = 2
    cuda.synchronize()
    scale[8, 128](managed, 2, 0)
    cuda.synchronize()
    check((managed == 4).all())


def numba_exhausted():
    from numba.cuda.cudadrv.driver import CudaAPIError

    info = cuda.current_context().get_memory_info()
    check(0 < info.free <= info.total, f"{info}")
    for size in TOO_LARGE:
        try:
            cuda.device_array(size, dtype=numpy.uint8)
        except CudaAPIError as error:
            check(error.code == 2 and "vpmm_malloc" in str(error) and isinstance(error, MemoryError), str(error))
            print(f"{type(error).__name__}: {error}")
        else:
            raise AssertionError("there was memory")
    blocks, size = [], info.free // 3
    try:
        for _ in range(5):
            blocks.append(cuda.device_array(size, dtype=numpy.uint8))
        raise AssertionError("there was memory")
    except CudaAPIError:
        check(len(blocks) >= 2, f"{len(blocks)} blocks")
    blocks.clear()
    again = cuda.device_array(info.free // 2, dtype=numpy.uint8)
    del again
    vpmm.trim()


def numba_defer():
    gc.collect()
    x = cuda.device_array(MIB, dtype=numpy.uint8)
    before = live()
    with cuda.defer_cleanup():
        del x
        gc.collect()
        check(live() == before, "freed meanwhile")
    check(live() == before - MIB, "not freed afterwards")


def numba_ipc():
    try:
        cuda.device_array(MIB, dtype=numpy.uint8).get_ipc_handle()
    except NotImplementedError as error:
        check("IPC" in str(error))
    else:
        raise AssertionError("an IPC handle of memory that has none")


def numba_reset():
    """A context that is closed, and another one."""
    x = cuda.device_array(MIB, dtype=numpy.uint8)
    cuda.current_context().reset()
    check(live() == 0, f"{live()} bytes after the reset")
    del x
    for _ in range(2):
        cuda.close()
        x = cuda.to_device(numpy.full(1000, 4, dtype=numpy.int32))
        check((x.copy_to_host() == 4).all() and is_ours(x.__cuda_array_interface__["data"][0]))
    del x
    check(live() == 0, f"{live()} bytes are left")


# cuda.core

FILL = """
extern "C" __global__ void fill(int *p, int value, unsigned long long n, long long cycles)
{
	long long began = clock64();

	while (clock64() - began < cycles)
		;
	for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
	     i += (unsigned long long)gridDim.x * blockDim.x)
		p[i] = value;
}
"""


def core_start():
    global core, device, driver
    try:
        core = need("cuda.core")
        if not hasattr(core, "MemoryResource"):
            raise Skip("cuda.core has no MemoryResource")
    except Skip:
        core = need("cuda.core.experimental")
    import vpmm.core

    driver = Driver()
    device = core.Device()
    device.set_current()
    resource = vpmm.core.MemoryResource(device)
    device.memory_resource = resource
    stream = device.create_stream()
    buffer = device.allocate(MIB, stream=stream)
    check(is_ours(int(buffer.handle)) and buffer.size == MIB, "memory is not where it should be")
    check(buffer.memory_resource is resource and buffer.is_device_accessible and not buffer.is_host_accessible)
    check(buffer.device_id == device.device_id)
    buffer.close()
    check(live() == 0)
    print(f"cuda.core {getattr(core, '__version__', '?')}")
    print(f"a buffer {'knows' if vpmm.core._takes_stream else 'does not know'} the stream of its allocation")


def handle(stream):
    return stream.__cuda_stream__()[1]


def core_streams():
    """Buffers on four streams, copied and dropped while work is pending."""
    streams = [device.create_stream() for _ in range(4)]
    kept = []
    for step in range(240):
        stream = streams[step % 4]
        size = (1 + step * 37 % 13) * MIB
        one = device.allocate(size, stream=stream)
        driver.fill(int(one.handle), step, size, handle(stream))
        two = one.copy_to(stream=stream)
        # By close(), by close() on a stream, and by the end of the object.
        if step % 3 == 0:
            one.close()
        elif step % 3 == 1:
            one.close(stream)
        del one
        other = device.allocate(size, stream=stream)
        driver.fill(int(other.handle), 255, size, handle(stream))
        del other
        kept.append((step, two))
        if len(kept) == 12:
            driver.synchronize()
            for number, two in kept:
                check(driver.read(int(two.handle), two.size) == bytes([number]) * two.size, f"step {number}")
            kept.clear()
            del two
    driver.synchronize()
    check(live() == 0, f"{live()} bytes are left")
    vpmm.default_pool().check()


def core_program():
    """A kernel that runs long, and what is allocated behind it on another stream."""
    global fill
    try:
        program = core.Program(FILL, "c++", core.ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
        fill = program.compile("cubin").get_kernel("fill")
    except Exception as error:
        raise Skip(f"no kernel: {type(error).__name__}: {error}") from error
    import numpy

    def launch(stream, address, value, n, cycles):
        core.launch(stream, core.LaunchConfig(grid=64, block=256), fill, numpy.uint64(address), numpy.int32(value),
                    numpy.uint64(n), numpy.int64(cycles))

    streams = [device.create_stream() for _ in range(4)]
    n = 4 * MIB
    for step in range(20):
        slow, fast = streams[step % 4], streams[(step + 1) % 4]
        one = device.allocate(4 * n, stream=slow)
        launch(slow, int(one.handle), step, n, 20_000_000)
        # While that is pending; the memory may be had on another stream only behind it.
        del one
        two = device.allocate(4 * n, stream=fast)
        launch(fast, int(two.handle), -step, n, 0)
        slow.sync()
        fast.sync()
        content = numpy.frombuffer(driver.read(int(two.handle), 4 * n), dtype=numpy.int32)
        check((content == -step).all(), f"step {step}: contents were overwritten")
        del two


def core_exhausted():
    stream = device.create_stream()
    for size in TOO_LARGE:
        try:
            device.allocate(size, stream=stream)
        except MemoryError as error:
            check(isinstance(error, vpmm.OutOfMemoryError) and "vpmm_malloc" in str(error), str(error))
            print(f"{type(error).__name__}: {error}")
        else:
            raise AssertionError("there was memory")
    free = vpmm.info().memory_free
    blocks = []
    try:
        for _ in range(5):
            blocks.append(device.allocate(free // 3, stream=stream))
        raise AssertionError("there was memory")
    except vpmm.OutOfMemoryError:
        check(len(blocks) >= 2, f"{len(blocks)} blocks")
    blocks.clear()
    device.allocate(free // 2, stream=stream).close()
    stream.sync()
    vpmm.trim()


def core_closed():
    """Buffers whose stream was closed first, and buffers made of an address."""
    other = device.create_stream()
    for step in range(8):
        stream = device.create_stream()
        one = device.allocate(16 * MIB, stream=stream)
        driver.fill(int(one.handle), step, 16 * MIB, handle(stream))
        stream.close()
        if step % 2:
            one.close()
        del one
        check(live() == 0, f"{live()} bytes are left of a buffer whose stream was closed")
        two = device.allocate(16 * MIB, stream=other)
        driver.fill(int(two.handle), 255 - step, 16 * MIB, handle(other))
        driver.synchronize()
        check(driver.read(int(two.handle), MIB) == bytes([255 - step]) * MIB, f"step {step}")
        two.close()
    if not hasattr(core.Buffer, "from_handle"):
        raise Skip("this cuda.core makes no buffer of an address")
    for resource in device.memory_resource, vpmm.core.MemoryResource(device):
        wrapped = core.Buffer.from_handle(vpmm.default_pool().malloc(MIB, other), MIB, mr=resource)
        check(live() == MIB and is_ours(int(wrapped.handle)))
        wrapped.close()
        check(live() == 0, f"{live()} bytes are left of a buffer made of an address")
    vpmm.default_pool().check()


def core_graph():
    """Memory that is allocated and freed while a graph is built."""
    stream = device.create_stream()
    if not hasattr(stream, "create_graph_builder"):
        raise Skip("this cuda.core has no graphs")
    keep = device.allocate(MIB, stream=stream)
    driver.fill(int(keep.handle), 1, MIB, handle(stream))
    builder = stream.create_graph_builder()
    try:
        builder.begin_building(mode="relaxed")
    except TypeError:
        builder.begin_building()
    # The builder may have a stream of its own.
    capturing = getattr(builder, "stream", stream)
    capture = vpmm.default_pool().capture_id(capturing)
    check(capture, "nothing is captured")
    inner = device.memory_resource.allocate(MIB, stream=builder)
    driver.fill(int(inner.handle), 9, MIB, handle(capturing))
    driver.call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(int(keep.handle)), ctypes.c_uint64(int(inner.handle)),
                ctypes.c_size_t(MIB), ctypes.c_void_p(handle(capturing)))
    try:
        inner.close(builder)
    except TypeError:
        inner.close(capturing)
    graph = builder.end_building().complete()
    other = device.allocate(MIB, stream=stream)
    driver.fill(int(other.handle), 3, MIB, handle(stream))
    graph.launch(stream)
    stream.sync()
    check(driver.read(int(keep.handle), MIB) == b"\x09" * MIB and driver.read(int(other.handle), MIB) == b"\3" * MIB)
    check(vpmm.stats().held >= MIB, "the graph holds no memory")
    vpmm.default_pool().retire_graph(capture, stream)
    stream.sync()
    check(vpmm.stats().held == 0, f"{vpmm.stats().held} bytes are held for no graph")
    keep.close()
    other.close()


# Warp

def warp_start():
    global warp
    warp = need("warp")
    import vpmm.warp

    warp.init()
    if not warp.get_cuda_device_count():
        raise Skip("Warp finds no GPU")
    try:
        vpmm.warp.enable()
    except RuntimeError as error:
        raise Skip(str(error)) from error
    check(is_ours(warp.zeros(1000, dtype=warp.float32, device="cuda:0").ptr))
    print(f"Warp {warp.__version__}")


def warp_streams():
    streams = [warp.Stream("cuda:0") for _ in range(4)]
    for step in range(100):
        with warp.ScopedStream(streams[step % 4]):
            x = warp.full(1000 + step * 4096, step, dtype=warp.int32, device="cuda:0")
            y = warp.clone(x)
            del x
            z = warp.full(1000 + step * 4096, -1, dtype=warp.int32, device="cuda:0")
            check((y.numpy() == step).all() and (z.numpy() == -1).all(), f"step {step}")


def warp_exhausted():
    for size in TOO_LARGE:
        try:
            warp.empty(size // 4, dtype=warp.float32, device="cuda:0")
        except RuntimeError as error:
            check(isinstance(error, vpmm.warp.OutOfMemoryError) and "vpmm_malloc" in str(error), str(error))
        else:
            raise AssertionError("there was memory")
    warp.zeros(MIB, dtype=warp.float32, device="cuda:0")


# PyTorch and CuPy

def together_start():
    global cupy, torch
    torch, cupy = need("torch"), need("cupy")
    if not torch.cuda.is_available():
        raise Skip("PyTorch finds no GPU")
    import vpmm.cupy
    import vpmm.torch

    vpmm.torch.enable()
    vpmm.cupy.enable()
    torch.zeros(1, device="cuda")
    print(f"PyTorch {torch.__version__}, CuPy {cupy.__version__}")


def together_from_torch():
    """CuPy writes to a tensor, and keeps it when PyTorch lets it go."""
    gc.collect()
    before = live()
    tensor = torch.arange(MIB, device="cuda", dtype=torch.int32)
    array = cupy.from_dlpack(tensor)
    check(array.data.ptr == tensor.data_ptr())
    array += 1
    cupy.cuda.get_current_stream().synchronize()
    check(torch.equal(tensor, torch.arange(1, MIB + 1, device="cuda", dtype=torch.int32)), "PyTorch does not see it")
    del tensor
    check(live() >= before + 4 * MIB, "freed in use")
    check(bool((array == cupy.arange(1, MIB + 1, dtype=cupy.int32)).all()))
    del array
    gc.collect()
    check(live() == before, f"{live() - before} bytes are left")


def together_from_cupy():
    """PyTorch computes with an array, and keeps it when CuPy lets it go."""
    gc.collect()
    before = live()
    array = cupy.full(MIB, 3, dtype=cupy.float32)
    tensor = torch.from_dlpack(array)
    check(array.data.ptr == tensor.data_ptr())
    tensor.mul_(2)
    torch.cuda.synchronize()
    check(bool((array == 6).all()), "CuPy does not see it")
    del array
    cupy.full(MIB, -1, dtype=cupy.float32)
    check(bool((tensor == 6).all()), "overwritten in use")
    del tensor
    gc.collect()
    check(live() == before, f"{live() - before} bytes are left")


def together_pool():
    """What one has freed serves the other, and PyTorch's reserved memory has that of both."""
    torch.cuda.synchronize()
    gc.collect()
    vpmm.trim()
    size = 1 << 30
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    mapped = vpmm.stats().mapped
    del tensor
    torch.cuda.synchronize()
    for _ in range(3):
        array = cupy.empty(size, dtype=cupy.uint8)
        check(torch.cuda.memory_reserved() >= size, "PyTorch does not count what CuPy has")
        del array
        cupy.cuda.get_current_stream().synchronize()
        tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        del tensor
    grown = vpmm.stats().mapped - mapped
    check(grown <= 64 * MIB, f"the pool has grown by {grown}")


def together_streams():
    """Arrays to and fro on four streams of PyTorch's."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    wrong = []
    for step in range(200):
        stream = streams[step % 4]
        size = (1 + step * 37 % 61) * MIB // 16
        if hasattr(cupy.cuda.Stream, "from_external"):
            try:
                theirs = cupy.cuda.Stream.from_external(stream)
            except TypeError:
                theirs = cupy.cuda.ExternalStream(stream.cuda_stream)
        else:
            theirs = cupy.cuda.ExternalStream(stream.cuda_stream)
        with torch.cuda.stream(stream), theirs:
            tensor = torch.full((size,), step, dtype=torch.int32, device="cuda")
            array = cupy.from_dlpack(tensor) * 2
            del tensor
            back = torch.from_dlpack(array)
            del array
            noise = cupy.full(size, -1, dtype=cupy.int32)
            wrong.append((back != 2 * step).sum())
            del back, noise
    torch.cuda.synchronize()
    check(int(sum(wrong)) == 0, "contents were overwritten")
    vpmm.default_pool().check()


def together_exhausted():
    """Memory that PyTorch has is what CuPy lacks, and the other way round."""
    gc.collect()
    torch.cuda.empty_cache()
    size = torch.cuda.mem_get_info()[0] * 2 // 3
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    try:
        cupy.empty(size, dtype=cupy.uint8)
        raise AssertionError("there was memory")
    except cupy.cuda.memory.OutOfMemoryError:
        pass
    del tensor
    array = cupy.empty(size, dtype=cupy.uint8)
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
        raise AssertionError("there was memory")
    except RuntimeError as error:
        check("CUDA out of memory" in str(error), str(error))
    del array
    torch.empty(size, dtype=torch.uint8, device="cuda")


def run_part():
    tests = [(name, test) for name, test in globals().items() if name.startswith(options.part + "_") and
             callable(test)]
    bad = 0
    for name, test in tests:
        result = {"name": name[len(options.part) + 1:].replace("_", " "), "good": True}
        try:
            test()
        except (Skip, ImportError) as reason:
            result["skip"] = str(reason).splitlines()[0]
        except Exception:
            result["good"] = False
            print("\n".join(traceback.format_exc().splitlines()[-12:]))
        bad += not result["good"]
        print(json.dumps(result), flush=True)
        # Without the framework, or its memory, nothing that follows means anything.
        if name.endswith("_start") and ("skip" in result or not result["good"]):
            break
    sys.stdout.flush()
    return 1 if bad else 0


sys.exit(run_part())
