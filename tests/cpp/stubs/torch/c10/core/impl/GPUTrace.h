/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef STUB_C10_GPUTRACE_H
#define STUB_C10_GPUTRACE_H

#include <c10/core/Allocator.h>

namespace c10::impl {
struct PyInterpreter {
	const PyInterpreter *operator->() const
	{
		return this;
	}
	void trace_gpu_memory_allocation(DeviceType, uintptr_t) const {}
	void trace_gpu_memory_deallocation(DeviceType, uintptr_t) const {}
};
struct GPUTrace {
	static const PyInterpreter *get_trace()
	{
		return nullptr;
	}
};
} // namespace c10::impl

#endif
