# SPDX-License-Identifier: LGPL-2.1-or-later
import hosts

from .cudadrv import devices, driver
from .cudadrv.driver import MemoryInfo, set_memory_manager

if not driver.SIMULATED:
    from .cudadrv.driver import HostOnlyCUDAMemoryManager

gpus = devices.gpus
__all__ = ["HostOnlyCUDAMemoryManager", "MemoryInfo", "set_memory_manager"]


class DeviceNDArray:
    """Bytes."""

    def __init__(self, size, gpu_data):
        self.size, self.gpu_data = size, gpu_data

    def __getitem__(self, item):
        return DeviceNDArray(item.stop - item.start, self.gpu_data.view(item.start, item.stop))

    def copy_to_host(self):
        return hosts.read(self.gpu_data.device_pointer_value, self.size)

    def get_ipc_handle(self):
        return current_context().memory_manager.get_ipc_handle(self.gpu_data)


def current_context(devnum=None):
    return devices.get_context(devnum)


def device_array(size):
    return DeviceNDArray(size, current_context().memalloc(size))


def to_device(content):
    array = device_array(len(content))
    for i, byte in enumerate(content):
        hosts.fill(array.gpu_data.device_pointer_value + i, byte, 1)
    return array


def defer_cleanup():
    return current_context().memory_manager.defer_cleanup()


def close():
    devices.reset()
