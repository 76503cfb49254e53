# SPDX-License-Identifier: LGPL-2.1-or-later
"""
As much of PyTorch as vpmm.torch touches, by the same names: what calls what is as in PyTorch 2.11. It calls the plug-in
as PyTorch does, with memory of the host backend.
"""

import sys
import types

from . import _C

__version__ = "2.11.0+fake"


class OutOfMemoryError(RuntimeError):
    pass


class device:
    def __init__(self, name):
        kind, _, index = str(name).partition(":")
        self.type, self.index = kind, int(index) if index else None


class UntypedStorage:
    def _share_cuda_(self):
        raise AssertionError("shared")


version = types.SimpleNamespace(cuda="13.0")


class _Property:
    """As torch.backends.ContextProp: it has the functions from when it was made."""

    def __init__(self, get, put):
        self.get, self.put = get, put

    def __get__(self, module, kind):
        return self.get()

    def __set__(self, module, value):
        self.put(value)


class _Cudnn(types.ModuleType):
    benchmark = _Property(_C._get_cudnn_benchmark, _C._set_cudnn_benchmark)

    @staticmethod
    def set_flags(_benchmark):
        _C._set_cudnn_benchmark(_benchmark)


backends = types.ModuleType("torch.backends")
backends.cudnn = _Cudnn("torch.backends.cudnn")

from . import cuda  # noqa: E402

sys.modules["torch.backends"] = backends
