// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory of RMM's resource is device memory to the runtime, on a thread that has no context as on any other. */
#ifndef TESTS_CPP_BOUND_HPP
#define TESTS_CPP_BOUND_HPP

#include "check.hpp"

#include <cuda_runtime_api.h>
#include <thread>

template <class Allocate, class Deallocate>
void check_bound(Allocate allocate, Deallocate deallocate)
{
	for (int set : {0, 1}) {
		std::thread thread([&] {
			cudaPointerAttributes attributes = {};

			if (set)
				CHECK(cudaSetDevice(0) == cudaSuccess);
			for (int round = 0; round < 2; round++) {
				void *ptr = allocate();

				CHECK(cudaGetLastError() == cudaSuccess);
				CHECK(cudaPointerGetAttributes(&attributes, ptr) == cudaSuccess);
				CHECK(attributes.devicePointer == ptr);
				deallocate(ptr);
			}
			/* What the program has made current stays. */
			CHECK(stub_sets == 1);
		});

		thread.join();
	}
}

#endif
