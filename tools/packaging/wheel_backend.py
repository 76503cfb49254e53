# SPDX-License-Identifier: LGPL-2.1-or-later
"""How pip builds the source archive of sdist.sh: by wheel.sh."""

import os
import subprocess
import sys
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


def _run(script: str, folder: str) -> str:
    """The name of the file that a script writes there, which it prints last."""
    done = subprocess.run([os.path.join(HERE, script), folder], env={**os.environ, "PYTHON": sys.executable},
                          stdout=subprocess.PIPE, check=True, text=True)
    return os.path.basename(done.stdout.split()[-1])


def build_wheel(wheel_directory: str, *_: Any, **__: Any) -> str:
    return _run("wheel.sh", wheel_directory)


def build_sdist(sdist_directory: str, *_: Any, **__: Any) -> str:
    return _run("sdist.sh", sdist_directory)
