# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Compiles PyTorch's allocator class over libvpmm, torch_class.cpp, against the installed PyTorch. It takes one call of
the C++ compiler, and neither nvcc, ninja nor a network. The user's cache has one file for each PyTorch, compiler and
version of the sources. `python -m vpmm.torch build` compiles it ahead.
"""

import argparse
import contextlib
import ctypes
import fcntl
import glob
import hashlib
import os
import platform
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from typing import Dict, Iterator, List, Optional, Tuple

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("torch_class.cpp", "torch_class.h", "torch_history.hpp", "torch_memory.hpp", "torch_serve.hpp")

# In front of the file's name; the rest of it tells one build from another.
PREFIX = "vpmm-torch-"

# Types that the class has to name, where a version has them.
_TYPES = {
    "VPMM_HAVE_SHAREABLE_HANDLE": "struct ShareableHandle",
    "VPMM_HAVE_STREAM_SEGMENT_SIZE": "struct StreamSegmentSize",
    "VPMM_HAVE_OOM_REJECTION": "OomRejectionObserver",
}

# Seconds that a compiler may take. It takes some 20.
_LIMIT = 600

# Newer versions want the newer standard, and older compilers do not have it.
_STANDARDS = ("-std=c++20", "-std=c++17")

# In front of the name of a file that a compiler writes.
_UNDER_WAY = ".build-"


class CannotBuild(Exception):
    """In words that follow a colon."""


def _include() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "include")


def _header() -> str:
    path = os.path.join(_include(), "c10", "cuda", "CUDACachingAllocator.h")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise CannotBuild(f"PyTorch's headers are missing: {error.strerror}: {path}") from error


def _compiler() -> List[str]:
    """CXX, or what there is."""
    try:
        given = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise CannotBuild(f"CXX={os.environ['CXX']} is no command: {error}") from error
    if given:
        if shutil.which(given[0]) is None:
            raise CannotBuild(f"CXX={' '.join(given)} is not there")
        return given
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return [found]
    raise CannotBuild("there is no C++ compiler (g++ or clang++)")


def _environment() -> Dict[str, str]:
    """Of the compiler, for messages in words that are known."""
    return {**os.environ, "LC_ALL": "C"}


def _identity(compiler: List[str]) -> bytes:
    try:
        done = subprocess.run([*compiler, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60,
                              check=True, env=_environment())
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"{' '.join(compiler)} does not run: {error}") from error
    return done.stdout.split(b"\n", 1)[0]


def _cuda_includes() -> List[str]:
    """
    Where CUDA's headers are: a toolkit's, or those that PyTorch's wheels bring. The latter are without the compiler's
    folder crt/, of which stub/ has what is needed here.
    """
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    packages = [sysconfig.get_paths()["purelib"], os.path.dirname(os.path.dirname(_include()))]
    wheels = [place for package in packages for pattern in ("cu*", "cuda_runtime")
              for place in sorted(glob.glob(os.path.join(package, "nvidia", pattern, "include")), reverse=True)]
    major = (torch.version.cuda or "").split(".", maxsplit=1)[0]
    wheels.sort(key=lambda place: f"cu{major}" not in place)
    places = ([os.path.join(home, "include")] if home else []) + wheels
    places += ["/usr/local/cuda/include", "/usr/include"]
    for place in places:
        if os.path.exists(os.path.join(place, "cuda_runtime_api.h")):
            whole = os.path.exists(os.path.join(place, "crt", "host_defines.h"))
            return [place] if whole else [place, os.path.join(HERE, "stub")]
    raise CannotBuild("there is no cuda_runtime_api.h, neither of a CUDA toolkit nor of PyTorch's packages")


def _flags() -> List[str]:
    header = _header()
    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    flags = ["-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    flags += [f"-D{macro}" for macro, text in _TYPES.items() if text in header]
    for place in (_include(), os.path.join(_include(), "torch", "csrc", "api", "include"), *_cuda_includes()):
        # A folder that is named moves to the front, and the C++ library finds no headers of C behind its own.
        if os.path.realpath(place) != "/usr/include":
            flags += ["-isystem", place]
    return flags


def _loaded(name: bytes) -> List[str]:
    """The file of a library of that name that this process has."""
    with contextlib.suppress(OSError):
        with open("/proc/self/maps", "rb") as file:
            paths = {os.fsdecode(line.split(None, 5)[5].strip()) for line in file if name in line}
        return sorted(path for path in paths if os.path.exists(path))[:1]
    return []


def _libraries() -> List[str]:
    """
    PyTorch's; and its C++ library by its file, as a compiler whose own is an archive would put a second one in, whose
    exceptions and streams do not go with the first.
    """
    place = os.path.join(os.path.dirname(_include()), "lib")
    return [f"-L{place}", "-Wl,--no-as-needed", "-lc10", "-lc10_cuda", "-ltorch_cuda", "-ltorch_cpu",
            *_loaded(b"/libstdc++.so.6"), "-Wl,-z,nodelete"]


def file_name(compiler: List[str]) -> str:
    """Of what a compiler makes of these sources for the PyTorch at hand."""
    digest = hashlib.sha256()
    for source in SOURCES:
        with open(os.path.join(HERE, source), "rb") as file:
            digest.update(file.read())
    # Without it nothing can be compiled, but what was compiled before serves.
    header = ""
    with contextlib.suppress(CannotBuild):
        header = _header()
    # One version can have several builds, with other headers. Systems can have one home, and other C libraries.
    for text in (header, str(torch.__version__), str(getattr(torch.version, "git_version", "")),
                 str(torch.version.cuda), str(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True)), _include(),
                 platform.machine(), *platform.libc_ver()):
        digest.update(os.fsencode(text) + b"\0")
    digest.update(_identity(compiler) + b"\0")
    version = "".join(letter for letter in str(torch.__version__) if letter.isalnum() or letter in ".+")
    return f"{PREFIX}{version}-{digest.hexdigest()[:20]}.so"


def _usable(directory: str) -> str:
    """What is wrong with a folder that code is loaded from; nothing, if nobody else can write it."""
    state = os.stat(directory)
    if state.st_uid != os.geteuid():
        return f"{directory} belongs to another user"
    return f"others can write {directory}" if state.st_mode & 0o022 else ""


def cache_directory() -> str:
    """Of the user, made if need be."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    # A relative path is a place in whatever folder is current. "~" stays one without HOME and an entry in passwd.
    if not os.path.isabs(base):
        raise CannotBuild("there is no cache: neither XDG_CACHE_HOME nor HOME is an absolute path")
    directory = os.path.join(base, "vpmm")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        wrong = _usable(directory)
    except OSError as error:
        raise CannotBuild(f"there is no cache: {error.strerror}: {directory}") from error
    if wrong:
        raise CannotBuild(wrong)
    return directory


@contextlib.contextmanager
def _alone(directory: str, name: str) -> Iterator[None]:
    """
    One process builds, and the others wait for it. Where files cannot be locked, each builds. If it cannot be built,
    those that wait get the same error: the ranks of a host would fail one after the other.
    """
    with open(os.path.join(directory, f".{name}.lock"), "a+", encoding="utf-8", errors="surrogateescape") as file:
        waited = False
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = True
                fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        failure = file.read() if waited else ""
        if failure:
            raise CannotBuild(failure)
        file.truncate(0)
        try:
            yield
        except CannotBuild as error:
            file.write(str(error))
            raise


def _remove_left(made: str) -> None:
    """What killed builds have left beside a file that was just made: a build under way is younger."""
    now = os.stat(made).st_mtime
    for path in glob.glob(os.path.join(glob.escape(os.path.dirname(made)), f"{_UNDER_WAY}*")):
        with contextlib.suppress(OSError):
            if now - os.stat(path).st_mtime > len(_STANDARDS) * _LIMIT:
                os.unlink(path)


def _write_out(path: str) -> None:
    """Has a file on the disk before it takes its name: a name can survive a crash that the contents do not."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _compile(compiler: List[str], path: str) -> None:
    """Into a file of its own, which takes the name once it is whole."""
    flags, last = _flags(), ""
    handle, made = tempfile.mkstemp(prefix=_UNDER_WAY, dir=os.path.dirname(path))
    os.close(handle)
    try:
        _remove_left(made)
        for standard in _STANDARDS:
            done = subprocess.run([*compiler, standard, *flags, os.path.join(HERE, SOURCES[0]), "-o", made,
                                   *_libraries()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=_LIMIT, check=False,
                                  env=_environment())
            if done.returncode == 0:
                # Others may load it where the folder lets them in: who builds an image need not be who runs it.
                os.chmod(made, 0o755)
                _write_out(made)
                os.replace(made, path)
                return
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            last = errors[0] if errors else f"status {done.returncode}"
    except (OSError, subprocess.SubprocessError) as error:
        last = str(error)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(made)
    raise CannotBuild(f"{' '.join(compiler)} failed: {last}")


def _is_whole(path: str) -> bool:
    """Whether an object has its end, where its sections are listed. To load one without it can be SIGBUS."""
    with open(path, "rb") as file:
        head = file.read(64)
    if len(head) < 64 or not head.startswith(b"\x7fELF"):
        return False
    start, (size, count) = struct.unpack_from("=Q", head, 40)[0], struct.unpack_from("=HH", head, 58)
    return bool(os.path.getsize(path) >= start + size * count)


def load(path: str) -> ctypes.CDLL:
    """The class in a file. CannotBuild says why it cannot be loaded."""
    try:
        if not _is_whole(path):
            raise CannotBuild(f"{path} cannot be loaded: it is no object, or a part of one")
        # A name without a folder is one for the loader to search, and no file.
        compiled = ctypes.CDLL(os.path.abspath(path))
        compiled.vpmm_torch_install.argtypes = [ctypes.c_void_p]
        compiled.vpmm_torch_install.restype = ctypes.c_char_p
    except (OSError, AttributeError) as error:
        raise CannotBuild(f"{path} cannot be loaded: {error}") from error
    return compiled


def _is_there(path: str) -> bool:
    """Whether there is nothing to compile. What is whole and cannot be loaded would be no better a second time."""
    return os.path.exists(path) and _is_whole(path)


def build(directory: Optional[str] = None) -> Tuple[str, ctypes.CDLL]:
    """The compiled class, with its path; compiled now unless it is there. CannotBuild says why there is none."""
    compiler = _compiler()
    name = file_name(compiler)
    try:
        directory = directory or cache_directory()
        path = os.path.join(directory, name)
        if not _is_there(path):
            with _alone(directory, name):
                if not _is_there(path):
                    _compile(compiler, path)
    except OSError as error:
        raise CannotBuild(f"{error.strerror}: {error.filename}") from error
    return path, load(path)


def main(arguments: List[str]) -> int:
    """python -m vpmm.torch build"""
    parser = argparse.ArgumentParser(prog="python -m vpmm.torch", description="PyTorch's allocator class over libvpmm")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="compile it for the PyTorch at hand, ahead of the first use")
    command.add_argument("--into", metavar="DIR", help="a folder in place of the user's cache; VPMM_TORCH_CLASS "
                         "names the file then")
    options = parser.parse_args(arguments)
    try:
        if options.into:
            os.makedirs(options.into, exist_ok=True)
        path, _ = build(options.into)
    except (CannotBuild, OSError) as error:
        print(f"python -m vpmm.torch: {error}", file=sys.stderr)
        return 1
    # The name need not be text in any encoding.
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    return 0
