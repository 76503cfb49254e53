// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Two processes that share memory of cudaMalloc() by CUDA's legacy IPC: the parent gives blocks of several sizes, the
 * child opens each twice, adds up what is there, writes to it and closes it. Then the child gives a block, and ends. With
 * an argument the parent is on the last device, and the child on the first.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define OK(call) ok((call), #call)

static int to, from;		/* of the other process */

static void ok(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	std::printf("%s: %s\n", call, cudaGetErrorName(error));
	std::exit(1);
}

template <typename T> static void tell(const T &what)
{
	if (write(to, &what, sizeof(what)) != (ssize_t)sizeof(what))
		std::exit(1);
}

template <typename T> static T hear()
{
	T what;

	if (read(from, &what, sizeof(what)) != (ssize_t)sizeof(what))
		std::exit(1);
	return what;
}

static unsigned long long sum_of(const unsigned char *block, size_t size)
{
	std::vector<unsigned char> bytes(size);
	unsigned long long sum = 1;

	OK(cudaMemcpy(bytes.data(), block, size, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < size; i += 1 + size / 5000)
		sum = sum * 31 + bytes[i];
	return sum;
}

static void *open_handle(const cudaIpcMemHandle_t &handle)
{
	void *block;

	OK(cudaIpcOpenMemHandle(&block, handle, cudaIpcMemLazyEnablePeerAccess));
	return block;
}

static void take(size_t size)
{
	const cudaIpcMemHandle_t handle = hear<cudaIpcMemHandle_t>();
	unsigned char *block = (unsigned char *)open_handle(handle), *again = (unsigned char *)open_handle(handle);

	tell(again == block);
	OK(cudaIpcCloseMemHandle(again));
	tell(sum_of(block, size));
	OK(cudaMemset(block, 7, size));
	OK(cudaDeviceSynchronize());
	OK(cudaIpcCloseMemHandle(block));
	tell(cudaIpcCloseMemHandle(block) != cudaSuccess);
	cudaGetLastError();
}

static const size_t sizes[] = { 1000, 3 << 20, 300 << 10, 70 << 20, 5000, 33 << 20 };

static int child()
{
	cudaIpcMemHandle_t handle;
	void *block;

	OK(cudaSetDevice(0));
	for (size_t size : sizes)
		take(size);
	OK(cudaMalloc(&block, 3 << 20));
	OK(cudaIpcGetMemHandle(&handle, block));
	tell(handle);
	hear<bool>();
	_exit(0);
}

static void give(size_t size, unsigned int number)
{
	unsigned char *block, *beside;
	cudaIpcMemHandle_t handle;
	void *own;

	OK(cudaMalloc(&beside, size));
	OK(cudaMalloc(&block, size));
	OK(cudaMemset(block, 0x30 + number, size));
	OK(cudaMemset(block + size / 2, 0x60 + number, size - size / 2));
	OK(cudaMemset(beside, 1, size));
	OK(cudaDeviceSynchronize());
	OK(cudaIpcGetMemHandle(&handle, block));
	tell(handle);
	const bool same = hear<bool>();
	const unsigned long long sum = hear<unsigned long long>();
	const bool closed = hear<bool>();
	std::printf("%zu bytes: opened twice at one address %d, sum %llu, closed %d, ", size, same, sum, closed);
	std::printf("now %llu, beside %llu, ", sum_of(block, size), sum_of(beside, size));
	std::printf("own refused %d\n", cudaIpcOpenMemHandle(&own, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess);
	cudaGetLastError();
	OK(cudaFree(block));
	OK(cudaFree(beside));
}

int main(int argc, char **)
{
	int there[2], back[2], status = 0, device = 0;
	unsigned int number = 0;
	pid_t pid;

	/* Before CUDA is used: a process that was forked later could not use it. */
	if (pipe(there) || pipe(back))
		return 1;
	pid = fork();
	to = pid ? there[1] : back[1];
	from = pid ? back[0] : there[0];
	close(pid ? there[0] : there[1]);
	close(pid ? back[1] : back[0]);
	if (!pid)
		return child();
	if (argc > 1) {
		OK(cudaGetDeviceCount(&device));
		device--;
	}
	OK(cudaSetDevice(device));
	for (size_t size : sizes)
		give(size, number++);

	const cudaIpcMemHandle_t handle = hear<cudaIpcMemHandle_t>();
	unsigned char *block = (unsigned char *)open_handle(handle);
	OK(cudaMemset(block, 5, 3 << 20));
	OK(cudaDeviceSynchronize());
	std::printf("the child's block: %llu\n", sum_of(block, 3 << 20));
	OK(cudaIpcCloseMemHandle(block));
	tell(true);
	waitpid(pid, &status, 0);
	void *gone;
	std::printf("the child has ended, status %d, refused %d\n", status,
		    cudaIpcOpenMemHandle(&gone, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess);
	return 0;
}
