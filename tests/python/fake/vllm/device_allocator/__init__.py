# SPDX-License-Identifier: LGPL-2.1-or-later


def get_mem_allocator_instance():
    return "vLLM's own"
