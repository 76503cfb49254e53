# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs of a framework of our own, each in a process of its own."""

import os
import subprocess
import sys
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.environ["top_srcdir"], "man", "examples")

# What the programs of all frameworks begin with.
COMMON = """
import ctypes, gc, threading
import vpmm
from vpmm._library import lib
MIB = 1 << 20
for name in ("submit", "complete", "wait", "destroy"):
    second = {"complete": [ctypes.c_uint], "wait": [ctypes.c_void_p]}.get(name, [])
    getattr(lib, "vpmm_host_stream_" + name).argtypes = [ctypes.c_void_p] + second

def raises(kind, text, call, *arguments, **words):
    try:
        call(*arguments, **words)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"no error with {text!r}")

def is_blocked(stream):
    "Whether new work on a stream has to wait for another stream."
    assert lib.vpmm_host_stream_submit(stream) == 0
    return lib.vpmm_host_stream_complete(stream, 1 << 20) != 0

def reaches(device, address):
    "Whether kernels of a device could use memory."
    return lib.vpmm_host_check_access(device, ctypes.c_void_p(address), ctypes.c_size_t(1)) == 0

def live():
    return vpmm.stats().requested
"""


class ProgramTest(unittest.TestCase):
    START = ""

    def run_python(self, arguments, **environment):
        path = os.pathsep.join([os.path.join(HERE, "fake"), os.environ.get("PYTHONPATH", "")])
        # A file or socket that is left open is printed, which fails the test.
        done = subprocess.run([sys.executable, "-W", "always::ResourceWarning", *arguments], capture_output=True,
                              text=True, check=False, timeout=120,
                              env={**os.environ, "PYTHONPATH": path, "VPMM_HOST_CAPACITY": "64M", "VPMM_TORCH_BUILD": "never",
                                   **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout + done.stderr)
        return done.stdout

    def program(self, text, **environment):
        """Runs a program, which fails by an exception."""
        return self.run_python(["-c", COMMON + self.START + textwrap.dedent(text)], **environment)

    def example(self, name):
        """Runs an example of the manual, as it stands."""
        return self.run_python([os.path.join(EXAMPLES, name)])
