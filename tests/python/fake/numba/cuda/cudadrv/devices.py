# SPDX-License-Identifier: LGPL-2.1-or-later
import os

import hosts
from vpmm._library import check, lib

from . import driver


class _DeviceList:
    """Has its list when that is first needed."""

    def __getattr__(self, name):
        if name != "lst":
            raise AttributeError(name)
        self.lst = [driver.Device(i) for i in range(int(os.environ.get("VPMM_HOST_DEVICES", "1")))]
        return self.lst

    def __getitem__(self, devnum):
        return self.lst[devnum]

    def __iter__(self):
        return iter(self.lst)


gpus = _DeviceList()


def get_context(devnum=None):
    return gpus.lst[hosts.current if devnum is None else devnum].get_primary_context()


def reset():
    for gpu in gpus:
        if gpu.primary_context is not None:
            gpu.primary_context.reset()
            gpu.primary_context = None
        before = hosts.set_device(gpu.id)
        check(lib.vpmm_host_reset())
        hosts.set_device(before)
