# SPDX-License-Identifier: LGPL-2.1-or-later
"""As much of cuda.core as vpmm.core and its example touch, by the same names, in three versions of its interface."""

import os

if os.environ.get("FAKE_CUDA_CORE") != "0.1":
    from ._interface import Buffer, Device, GraphBuilder, MemoryResource, Stream

    __all__ = ["Buffer", "Device", "GraphBuilder", "MemoryResource", "Stream"]
