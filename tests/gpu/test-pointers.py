#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What CUDA's runtime and driver say of an address of a pool, and of one of cuMemAlloc(), on a thread in each state that
it can be in at its first allocation; and which calls make the runtime call it device memory. Prints a table and TAP. It
is no part of make check, as it wants a GPU and the runtime:

    LD_LIBRARY_PATH=PREFIX/lib PYTHONPATH=python python3 tests/gpu/test-pointers.py [--runtime=LIBCUDART]

with a library that is installed below PREFIX, or build/lib/.libs in place of PREFIX/lib. Each state is a process of its
own. A state is words, done in their order:

    malloc    vpmm_malloc() of 1 MiB from the default pool
    cumalloc  cuMemAlloc() of 1 MiB in the primary context, which is current for that call alone
    pool      a pool that is created, and used by malloc
    thread    what follows is done on a new thread
    set, free, priority, info   cudaSetDevice(cudaGetDevice()), cudaFree(NULL), cudaDeviceGetStreamPriorityRange(),
              cudaMemGetInfo()
    attr      cudaPointerGetAttributes(), of which the table has the last
"""

import argparse
import ctypes
import glob
import json
import os
import subprocess
import sys
import threading

MIB = 1 << 20

# And whether the runtime has to call the memory device memory then.
STATES = (
    ("malloc attr", None),
    ("malloc attr attr", None),
    ("pool malloc attr", None),
    ("cumalloc attr", None),
    ("thread malloc attr", None),
    ("set malloc attr", True),
    ("free malloc attr", True),
    ("set pool malloc attr", True),
    ("set thread malloc attr", None),
    ("set thread cumalloc attr", None),
    ("malloc attr set attr", True),
    ("pool malloc attr set attr", True),
    ("cumalloc attr set attr", True),
    ("thread malloc attr set attr", True),
    ("malloc thread attr set attr", True),
    ("malloc attr free attr", None),
    ("malloc attr priority attr", None),
    ("malloc attr info attr", None),
)
# The answer does not depend on who allocated.
SAME = (("malloc attr", "cumalloc attr"), ("set thread malloc attr", "set thread cumalloc attr"),
        ("malloc attr set attr", "cumalloc attr set attr"))

# CUDA 13 has a larger structure than this one, whose beginning is the same.
FIELDS = [("type", ctypes.c_int), ("device", ctypes.c_int), ("devicePointer", ctypes.c_void_p),
          ("hostPointer", ctypes.c_void_p), ("reserved", ctypes.c_long * 64)]
DRIVER = {"context": (1, ctypes.c_void_p), "type": (2, ctypes.c_int), "pointer": (3, ctypes.c_uint64),
          "device": (9, ctypes.c_int)}


class Attributes(ctypes.Structure):
    _fields_ = FIELDS


def find_runtime():
    places = [os.path.join(path, "nvidia", "*", "lib") for path in sys.path if path] + [
        os.path.join(path, "lib*") for path in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda") if path]
    for place in places:
        for name in sorted(glob.glob(os.path.join(place, "libcudart.so.1[0-9]")), reverse=True):
            return name
    return "libcudart.so"


class State:
    def __init__(self, runtime):
        self.runtime = ctypes.CDLL(runtime)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.pool, self.address, self.first, self.seen = None, 0, 0, {}

    def malloc(self):
        import vpmm
        self.address = (self.pool or vpmm.default_pool()).malloc(MIB)

    def make_pool(self):
        import vpmm
        self.pool = vpmm.Pool()

    def cumalloc(self):
        device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        assert not self.driver.cuInit(0) and not self.driver.cuDeviceGet(ctypes.byref(device), 0)
        assert not self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        assert not self.driver.cuCtxPushCurrent_v2(context)
        assert not self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(MIB))
        self.driver.cuCtxPopCurrent_v2(ctypes.byref(context))
        self.address = address.value

    def set(self):
        device = ctypes.c_int()
        assert not self.runtime.cudaGetDevice(ctypes.byref(device)) and not self.runtime.cudaSetDevice(device)

    def free(self):
        assert not self.runtime.cudaFree(None)

    def priority(self):
        numbers = ctypes.c_int(), ctypes.c_int()
        assert not self.runtime.cudaDeviceGetStreamPriorityRange(*map(ctypes.byref, numbers))

    def info(self):
        numbers = ctypes.c_size_t(), ctypes.c_size_t()
        assert not self.runtime.cudaMemGetInfo(*map(ctypes.byref, numbers))

    def attr(self):
        found, context = Attributes(), ctypes.c_void_p()
        said = self.driver.cuCtxGetCurrent(ctypes.byref(context))
        seen = {"context": "none" if said or not context.value else "current"}
        result = self.runtime.cudaPointerGetAttributes(ctypes.byref(found), ctypes.c_void_p(self.address))
        seen["runtime"] = {"result": result, "type": found.type, "device": found.device,
                           "pointer": (found.devicePointer or 0) == self.address}
        self.driver.cuCtxGetCurrent(ctypes.byref(context))
        seen["context after"] = "current" if context.value else "none"
        for name, (number, kind) in DRIVER.items():
            value = kind()
            result = self.driver.cuPointerGetAttribute(ctypes.byref(value), number, ctypes.c_uint64(self.address))
            got = value.value or 0
            seen["driver " + name] = f"error {result}" if result else (
                got == self.address if name == "pointer" else bool(got) if name == "context" else got)
        self.seen = seen

    def do(self, words):
        for i, word in enumerate(words):
            if word == "thread":
                thread = threading.Thread(target=self.caught, args=(words[i + 1:],))
                thread.start()
                thread.join()
                return
            getattr(self, "make_pool" if word == "pool" else word)()

    def caught(self, words):
        try:
            self.do(words)
        except BaseException as error:
            self.seen = {"error": repr(error)}


def main():
    parser = argparse.ArgumentParser(description="what CUDA says of addresses of a pool")
    parser.add_argument("--runtime", default=find_runtime(), help="the file of CUDA's runtime (%(default)s)")
    parser.add_argument("--state", help="do these words in this process, and print what was seen")
    options = parser.parse_args()
    if options.state:
        state = State(options.runtime)
        state.caught(options.state.split())
        print(json.dumps(state.seen), flush=True)
        # What a runtime does at exit is not asked here.
        os._exit(0)

    try:
        ctypes.CDLL("libcuda.so.1")
        ctypes.CDLL(options.runtime)
    except OSError as error:
        print(f"1..0 # SKIP {error}")
        return 0
    seen, count, failed = {}, 0, 0
    print(f"# {options.runtime}")
    for words, _ in STATES:
        done = subprocess.run([sys.executable, __file__, "--runtime", options.runtime, "--state", words],
                              capture_output=True, text=True, check=False, timeout=120)
        try:
            seen[words] = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            seen[words] = {"error": f"status {done.returncode}: {done.stderr[-300:]}"}
        print(f"# {words}: {seen[words]}", flush=True)

    def is_device(words):
        return seen[words].get("runtime", {}).get("pointer") is True

    checks = [(f"device memory after: {words}", is_device(words)) for words, wanted in STATES if wanted]
    checks += [(f"the same for both: {one}, {other}", "error" not in {**seen[one], **seen[other]} and
                is_device(one) == is_device(other)) for one, other in SAME]
    for name, good in checks:
        count += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {count} - {name}")
    print(f"1..{count}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
