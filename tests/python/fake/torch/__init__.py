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
        if isinstance(name, device):
            name = f"{name.type}:{name.index}" if name.index is not None else name.type
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


class _Matrix(cuda.Tensor):
    """Numbers in float32, of which there is nothing but their memory."""

    def __init__(self, rows, columns):
        super().__init__(4 * rows * columns)
        if not self.address:
            raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {self.size} bytes")
        self.rows, self.columns = rows, columns

    def square(self):
        return _Matrix(self.rows, self.columns)

    def mean(self):
        return _Matrix(1, 1)

    def backward(self):
        pass


def randn(rows, columns, device):
    assert device == "cuda"
    return _Matrix(rows, columns)


class _Linear:
    def __init__(self, inputs, outputs):
        self.inputs, self.outputs = inputs, outputs

    def cuda(self):
        self.weight = _Matrix(self.outputs, self.inputs)
        return self

    def parameters(self):
        return [self.weight]

    def __call__(self, x):
        assert x.columns == self.inputs
        return _Matrix(x.rows, self.outputs)


class _ReLU:
    def cuda(self):
        return self

    def parameters(self):
        return []

    def __call__(self, x):
        return _Matrix(x.rows, x.columns)


class _Sequential:
    def __init__(self, *layers):
        self.layers = layers

    def cuda(self):
        for layer in self.layers:
            layer.cuda()
        return self

    def parameters(self):
        return [weight for layer in self.layers for weight in layer.parameters()]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class _AdamW:
    def __init__(self, parameters):
        self.state = [_Matrix(weight.rows, weight.columns) for weight in parameters]

    def step(self):
        pass

    def zero_grad(self, set_to_none):
        pass


nn = types.SimpleNamespace(Linear=_Linear, ReLU=_ReLU, Sequential=_Sequential)
optim = types.SimpleNamespace(AdamW=_AdamW)
