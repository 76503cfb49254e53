// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
#include <vpmm-host.h>

namespace faiss::gpu {
inline int current_device;

class DeviceScope
{
public:
	explicit DeviceScope(int device) : before_(current_device) { set(device); }
	~DeviceScope() { set(before_); }

private:
	static void set(int device)
	{
		current_device = device;
		vpmm_host_set_device(device);
	}

	int before_;
};
}
