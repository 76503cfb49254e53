# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs another program of PyTorch, and prints to the bit each loss that it propagates back and what it generates.

usage: torch_losses.py PROGRAM [ARGUMENT...]     What the program prints itself, such as times, goes to standard error.
"""
import contextlib
import hashlib
import runpy
import sys

import torch

torch.use_deterministic_algorithms(True, warn_only=True)
# That would write to all memory.
torch.utils.deterministic.fill_uninitialized_memory = False
out = sys.stdout
backward = torch.Tensor.backward
steps = 0


def print_loss(self, *args, **kwargs):
    global steps
    print("loss", steps, self.item().hex(), file=out)
    steps += 1
    return backward(self, *args, **kwargs)


def print_words(model, *args, **kwargs):
    words = generate(model, *args, **kwargs)
    print("words", hashlib.sha256(words.cpu().numpy().tobytes()).hexdigest(), file=out)
    return words


torch.Tensor.backward = print_loss
try:
    import transformers

    generate = transformers.GenerationMixin.generate
    transformers.GenerationMixin.generate = print_words
except ImportError:
    pass
sys.argv = sys.argv[1:]
with contextlib.redirect_stdout(sys.stderr):
    runpy.run_path(sys.argv[0], run_name="__main__")
torch.cuda.synchronize()
print("random numbers", hashlib.sha256(torch.cuda.get_rng_state().numpy().tobytes()).hexdigest(), file=out)
