# SPDX-License-Identifier: LGPL-2.1-or-later
"""
How vpmm.torch gets its allocator class: compiled, from the cache, or not at all. PyTorch and the compiler are of our own:
the latter writes down that it was called, and makes an object that says it is installed.
"""

import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

COMPILER = """#!/bin/sh
[ "$1" != -m64 ] || shift
[ "$1" != --version ] || { echo "fake $(cat "$BUILD_TEST/version" 2>/dev/null)"; exit 0; }
echo "$*" >>"$BUILD_TEST/calls"
error=Fehler
[ "${LC_ALL-}" != C ] || error=error
sleep "0$(cat "$BUILD_TEST/sleep" 2>/dev/null)"
[ ! -e "$BUILD_TEST/fails" ] || { echo "x.cpp:1: $error: $(cat "$BUILD_TEST/fails")" >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
cp "$BUILD_TEST/class.so" "$2"
"""

CLASS = """
#include "torch_class.h"

const char *missing(void);

const char *vpmm_torch_install(const struct torch_class *table)
{
	if (!table || table->version != TORCH_CLASS_VERSION || table->size != sizeof(*table))
		return "there is no table";
	return REASON;
}
"""


def compile_class(directory, reason):
    source = os.path.join(directory, "class.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(CLASS.replace("REASON", reason))
    headers = os.path.join(HERE, os.pardir, os.pardir, "python", "vpmm")
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{headers}", source, "-o", os.path.join(directory, "class.so")], check=True)


@unittest.skipUnless(shutil.which("cc"), "there is no compiler")
class BuildTest(unittest.TestCase):
    def setUp(self):
        self.where = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.where)
        self.torch = os.path.join(self.where, "torch")
        shutil.copytree(os.path.join(HERE, "fake"), self.torch)
        headers = os.path.join(self.torch, "torch", "include", "c10", "cuda")
        cuda = os.path.join(self.where, "toolkit", "include", "crt")
        os.makedirs(headers)
        os.makedirs(cuda)
        self.write(os.path.join(headers, "CUDACachingAllocator.h"), "struct ShareableHandle {};")
        self.write(os.path.join(cuda, "host_defines.h"), "")
        self.write(os.path.join(self.where, "toolkit", "include", "cuda_runtime_api.h"), "")
        self.compiler = os.path.join(self.where, "c++")
        self.write(self.compiler, COMPILER)
        os.chmod(self.compiler, 0o755)
        compile_class(self.where, "0")
        self.cache = os.path.join(self.where, "cache", "vpmm")

    def write(self, path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def calls(self):
        try:
            with open(os.path.join(self.where, "calls"), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def environment(self, **more):
        return {**os.environ, "PYTHONPATH": os.pathsep.join([self.torch, os.environ.get("PYTHONPATH", "")]),
                "VPMM_HOST_CAPACITY": "64M", "BUILD_TEST": self.where, "CXX": shlex.quote(self.compiler),
                "CUDA_HOME": os.path.join(self.where, "toolkit"),
                "XDG_CACHE_HOME": os.path.join(self.where, "cache"), **more}

    def start(self, first="", **more):
        text = first + textwrap.dedent("""
            import torch, vpmm.torch
            from torch.cuda import Tensor
            vpmm.torch.enable()
            vpmm.torch.enable()
            print(vpmm.torch.is_whole(), end="")
            if not vpmm.torch.is_whole():
                block = Tensor(1000)
                assert torch.cuda.memory_allocated() == 1024
        """)
        return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment(**more))

    def enable(self, first="", **more):
        """Whether the class serves, and what was said."""
        process = self.start(first, **more)
        out, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        return out == "True", said

    def refused(self, reason, **more):
        """The plug-in serves, and one line says what is missing and why."""
        whole, said = self.enable(**more)
        self.assertFalse(whole)
        lines = [line for line in said.splitlines() if "RuntimeWarning" in line]
        self.assertEqual(len(lines), 1, said)
        self.assertIn(reason, lines[0])
        self.assertIn("MemPool", lines[0])

    def files(self):
        return sorted(name for name in os.listdir(self.cache) if not name.startswith("."))

    def test_cache(self):
        self.assertEqual(self.enable(), (True, ""))
        self.assertEqual(len(self.calls()), 1)
        self.assertIn("-DVPMM_HAVE_SHAREABLE_HANDLE", self.calls()[0])
        self.assertNotIn("-DVPMM_HAVE_OOM_REJECTION", self.calls()[0])
        # From now on nothing is compiled, and nobody else can change what is loaded.
        self.assertEqual(self.enable(), (True, ""))
        self.assertEqual(len(self.calls()), 1)
        self.assertEqual(stat.S_IMODE(os.stat(self.cache).st_mode), 0o700)
        self.assertFalse(os.stat(os.path.join(self.cache, self.files()[0])).st_mode & 0o022)

    def test_versions(self):
        # Each PyTorch and each compiler has a file of its own, side by side.
        self.enable()
        path = os.path.join(self.torch, "torch", "__init__.py")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        header = os.path.join(self.torch, "torch", "include", "c10", "cuda", "CUDACachingAllocator.h")
        self.write(path, text.replace("2.11.0+fake", "2.4.1+fake"))
        self.assertEqual(self.enable(), (True, ""))
        self.write(os.path.join(self.where, "version"), "14")
        self.assertEqual(self.enable(), (True, ""))
        self.write(path, text)
        self.write(os.path.join(self.where, "version"), "")
        self.assertEqual(self.enable(), (True, ""))
        self.assertEqual(len(self.calls()), 3)
        self.assertEqual(len(self.files()), 3)
        # One version can be built for another CUDA, or from sources that were changed.
        self.write(path, text.replace('"13.0"', '"12.6"'))
        self.assertEqual(self.enable(), (True, ""))
        self.write(path, text)
        self.write(header, "struct ShareableHandle {}; struct StreamSegmentSize {};")
        self.assertEqual(self.enable(), (True, ""))
        # Systems with one home in common can have different C libraries.
        self.assertEqual(self.enable("import platform; platform.libc_ver = lambda: ('glibc', '2.17')"), (True, ""))
        self.assertEqual(len(self.calls()), 6)
        self.assertEqual(len(self.files()), 6)

    def test_system_headers(self):
        # A distribution's CUDA: to name the compiler's own folder hides the headers of C from those of C++.
        first = textwrap.dedent("""
            import os
            before = os.path.exists
            os.path.exists = lambda path: path == "/usr/include/cuda_runtime_api.h" or before(path)
        """)
        shutil.rmtree(os.path.join(self.where, "toolkit"))
        for home in "/usr", "/usr/", "":
            shutil.rmtree(self.cache, ignore_errors=True)
            self.assertEqual(self.enable(first, CUDA_HOME=home, CUDA_PATH=""), (True, ""))
            self.assertNotIn("/usr/include", self.calls()[-1].split())

    def test_encodings(self):
        # Names of files and what a compiler prints are bytes, in whatever encoding.
        odd = os.path.join(self.where, os.fsdecode(b"caf\xe9"))
        os.rename(self.torch, odd)
        self.torch = odd
        with open(os.path.join(self.where, "version"), "wb") as file:
            file.write(b"\xa9 14")
        self.write(os.path.join(odd, "mapped"), "x")
        first = (f"import mmap; file = open({os.path.join(odd, 'mapped')!a}); "
                 "mapped = mmap.mmap(file.fileno(), 1, prot=mmap.PROT_READ)")
        self.assertEqual(self.enable(first), (True, ""))
        done = subprocess.run([sys.executable, "-m", "vpmm.torch", "build", "--into", odd], capture_output=True,
                              check=False, env=self.environment(PYTHONIOENCODING="utf-8:strict"))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(os.path.exists(done.stdout.rstrip(b"\n")))

    def test_together(self):
        # The ranks of a host: one compiles, the others wait.
        self.write(os.path.join(self.where, "sleep"), ".5")
        started = [self.start() for _ in range(4)]
        for process in started:
            out, said = process.communicate(timeout=60)
            self.assertEqual((out, said, process.returncode), ("True", "", 0))
        self.assertEqual(len(self.calls()), 1)
        self.assertEqual(len(self.files()), 1)

    def test_damaged(self):
        # A file that cannot be loaded is none: it is compiled anew, and not by each process.
        def shorten(path):
            os.truncate(path, os.path.getsize(path) // 2)

        def empty(path):
            os.truncate(path, 0)

        def clear(path):
            self.write(path, "\0" * os.path.getsize(path))

        self.enable()
        path = os.path.join(self.cache, self.files()[0])
        for count, damage in enumerate((shorten, empty, clear), 2):
            damage(path)
            self.assertEqual(self.enable(), (True, ""))
            self.assertEqual(len(self.calls()), count)
            self.assertEqual(self.enable(), (True, ""))
            self.assertEqual(len(self.calls()), count)
        # A file that was named is the program's matter.
        shorten(path)
        self.refused("cannot be loaded", VPMM_TORCH_CLASS=path)

    def test_deleted(self):
        # The program that has loaded it goes on, and the next compiles it.
        first = f"import atexit, shutil; atexit.register(shutil.rmtree, {self.cache!r})"
        self.assertEqual(self.enable(first), (True, ""))
        self.assertFalse(os.path.exists(self.cache))
        self.assertEqual(self.enable(), (True, ""))
        self.assertEqual(len(self.calls()), 2)

    def test_damaged_together(self):
        self.enable()
        os.truncate(os.path.join(self.cache, self.files()[0]), 0)
        self.write(os.path.join(self.where, "sleep"), ".5")
        for process in [self.start() for _ in range(4)]:
            out, said = process.communicate(timeout=60)
            self.assertEqual((out, said, process.returncode), ("True", "", 0))
        self.assertEqual(len(self.calls()), 2)

    def test_killed(self):
        # What a killed compiler leaves goes with a later build, and what one is writing stays.
        os.makedirs(self.cache, mode=0o700)
        for name in (".build-left", ".build-written"):
            self.write(os.path.join(self.cache, name), "")
        os.utime(os.path.join(self.cache, ".build-left"), (0, 0))
        self.assertEqual(self.enable(), (True, ""))
        self.assertEqual([name for name in os.listdir(self.cache) if name.startswith(".build")], [".build-written"])

    def test_no_compiler(self):
        self.refused("there is no C++ compiler", CXX="", PATH=self.torch)
        self.refused("CXX=nowhere is not there", CXX="nowhere")
        self.assertFalse(os.path.exists(self.cache))

    def test_command(self):
        # CXX is a command as make has it: words, which quotes keep together.
        place = os.path.join(self.where, "my tools")
        os.mkdir(place)
        os.rename(self.compiler, os.path.join(place, "c++"))
        self.assertEqual(self.enable(CXX=f"'{place}/c++' -m64"), (True, ""))
        self.refused("CXX=' is no command: No closing quotation", CXX="'")

    def test_no_headers(self):
        os.unlink(os.path.join(self.torch, "torch", "include", "c10", "cuda", "CUDACachingAllocator.h"))
        self.refused("PyTorch's headers are missing")

    def test_failure(self):
        # It is tried with either standard; nothing is left of it, and the next process tries again.
        self.write(os.path.join(self.where, "fails"), "no such method")
        self.refused("error: no such method", LC_ALL="de_DE.UTF-8")
        self.assertEqual(len(self.calls()), 2)
        self.assertEqual(self.files(), [])
        self.assertEqual([name for name in os.listdir(self.cache) if name.startswith(".build")], [])
        os.unlink(os.path.join(self.where, "fails"))
        self.assertEqual(self.enable(), (True, ""))

    def test_failure_together(self):
        # The ranks of a host: one tries to compile, and the others wait and have its error.
        self.write(os.path.join(self.where, "fails"), "no such method")
        self.write(os.path.join(self.where, "sleep"), ".5")
        started = [self.start() for _ in range(4)]
        for process in started:
            out, said = process.communicate(timeout=60)
            self.assertEqual((out, process.returncode), ("False", 0))
            self.assertIn("error: no such method", said)
        self.assertLessEqual(len(self.calls()), 4)
        # Who comes later tries again.
        os.unlink(os.path.join(self.where, "fails"))
        self.assertEqual(self.enable(), (True, ""))

    def test_no_cache(self):
        file = os.path.join(self.where, "file")
        self.write(file, "")
        self.refused("there is no cache", XDG_CACHE_HOME=file)
        # Whatever folder is current is not the place for what is loaded.
        home = os.path.join(self.where, "home")
        self.refused("neither XDG_CACHE_HOME nor HOME is an absolute path", XDG_CACHE_HOME="",
                     HOME=os.path.relpath(home))
        self.assertFalse(os.path.exists(home))
        os.makedirs(self.cache)
        os.chmod(self.cache, 0o777)
        self.refused("others can write")
        if os.geteuid() == 0:
            os.chmod(self.cache, 0o755)
            os.chown(self.cache, 12345, 12345)
            self.refused("belongs to another user")
        self.assertEqual(self.calls(), [])

    def test_refused(self):
        # Of an object that is another version's, or none.
        compile_class(self.where, '"of another version"')
        self.refused("of another version")
        shutil.rmtree(self.cache)
        self.write(os.path.join(self.where, "class.so"), "no object")
        self.refused("cannot be loaded")
        # What this system cannot load it compiles once, and not at each start.
        compile_class(self.where, "missing()")
        count = len(self.calls())
        for _ in range(3):
            self.refused("undefined symbol: missing")
        self.assertEqual(len(self.calls()), count + 1)

    def test_wanted(self):
        self.assertEqual(self.enable(VPMM_TORCH_BUILD="never"), (False, ""))
        # One that is empty has its default, as all of the library's.
        self.assertEqual(self.enable(VPMM_TORCH_BUILD="", VPMM_TORCH_CLASS=""), (True, ""))
        shutil.rmtree(self.cache)
        self.write(os.path.join(self.where, "fails"), "no such method")
        for wanted, error in (("require", "VPMM_TORCH_BUILD is require: "), ("maybe", "expected auto, never or require")):
            process = self.start(VPMM_TORCH_BUILD=wanted)
            said = process.communicate(timeout=60)[1]
            self.assertNotEqual(process.returncode, 0)
            self.assertIn(error, said.splitlines()[-1])

    def test_ahead(self):
        # For images and machines without a compiler: built into a folder, and named.
        into = os.path.join(self.where, "image")
        done = subprocess.run([sys.executable, "-m", "vpmm.torch", "build", "--into", into], capture_output=True,
                              text=True, check=False, env=self.environment())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        path = done.stdout.rstrip("\n")
        self.assertEqual(os.path.dirname(path), into)
        # Of an image, other users run it.
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o755)
        self.assertEqual(self.enable(VPMM_TORCH_CLASS=path, CXX="nowhere"), (True, ""))
        # It names a file, as other paths do.
        self.assertEqual(self.enable(f"import os; os.chdir({into!r})", VPMM_TORCH_CLASS=os.path.basename(path),
                                     CXX="nowhere"), (True, ""))
        self.write(os.path.join(self.where, "fails"), "no such method")
        shutil.rmtree(into)
        done = subprocess.run([sys.executable, "-m", "vpmm.torch", "build", "--into", into], capture_output=True,
                              text=True, check=False, env=self.environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: no such method", done.stderr)


if __name__ == "__main__":
    unittest.main()
