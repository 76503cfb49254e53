/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef STUB_C10_CLOCK_H
#define STUB_C10_CLOCK_H

#include <cstdint>
#include <functional>

namespace c10 {
using approx_time_t = uint64_t;

inline approx_time_t getApproximateTime()
{
	static approx_time_t now;

	return ++now;
}

class ApproximateClockToUnixTimeConverter {
public:
	std::function<int64_t(approx_time_t)> makeConverter()
	{
		return [](approx_time_t time) { return static_cast<int64_t>(time) * 1000; };
	}
};
} // namespace c10

#endif
