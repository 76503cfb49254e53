# SPDX-License-Identifier: LGPL-2.1-or-later
from .._interface import Buffer, Device, MemoryResource, Stream

__all__ = ["Buffer", "Device", "MemoryResource", "Stream"]
