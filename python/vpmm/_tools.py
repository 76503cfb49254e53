# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tools of a wheel that has them, as commands."""

import os
import sys
from typing import NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))


def _run(name: str) -> NoReturn:
    os.environ.setdefault("VPMM_PRELOAD_OBJECT", os.path.join(HERE, "lib", "libvpmm-preload.so"))
    path = os.path.join(HERE, "bin", name)
    os.execv(path, [path, *sys.argv[1:]])


def bench() -> NoReturn:
    _run("vpmm-bench")


def info() -> NoReturn:
    _run("vpmm-info")


def pause() -> NoReturn:
    _run("vpmm-pause")


def replay() -> NoReturn:
    _run("vpmm-replay")


def run() -> NoReturn:
    _run("vpmm-run")


def top() -> NoReturn:
    _run("vpmm-top")
