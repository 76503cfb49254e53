// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A CUDA device. The pattern is written and looked at by two kernels, so that the replay does not wait for either: a
 * block that is handed on too early is overwritten before its check.
 */
#include "device-cuda.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>

#include "fail.h"
#include "pattern.h"

#define BLOCK_THREADS 256
#define BLOCKS_PER_PROCESSOR 8

/* How close --limit comes to what it was given. */
#define LIMIT_SLACK ((size_t)4 << 20)

/* How long the driver may take to clear a device. */
#define SETTLE_US 1000000

/*
 * The kernels, in the oldest form that can say them, for the driver to translate. Each thread takes every so-manieth
 * word from its own on. The thread that comes to stand right behind the last whole word, of which there is one, takes
 * the bytes of the tail. pattern_word() is the same arithmetic; its multiplier is -1640531535 here.
 */
#define KERNEL_BEGIN \
	".reg .pred %done, %tail, %bad;\n" \
	".reg .b32 %key, %block, %threads, %thread, %blocks, %low, %high, %word, %found, %left, %one;\n" \
	".reg .b64 %ptr, %bytes, %index, %first, %stride, %words, %at, %flag;\n" \
	"	ld.param.u64 %ptr, [ptr];\n" \
	"	ld.param.u64 %bytes, [bytes];\n" \
	"	ld.param.u32 %key, [key];\n" \
	"	cvta.to.global.u64 %ptr, %ptr;\n" \
	"	mov.u32 %block, %ctaid.x;\n" \
	"	mov.u32 %threads, %ntid.x;\n" \
	"	mov.u32 %thread, %tid.x;\n" \
	"	mov.u32 %blocks, %nctaid.x;\n" \
	"	mul.wide.u32 %index, %block, %threads;\n" \
	"	cvt.u64.u32 %first, %thread;\n" \
	"	add.u64 %index, %index, %first;\n" \
	"	mul.wide.u32 %stride, %blocks, %threads;\n" \
	"	shr.u64 %words, %bytes, 2;\n"

#define KERNEL_WORD \
	"	shl.b64 %at, %index, 2;\n" \
	"	add.u64 %at, %ptr, %at;\n" \
	"	mov.b64 {%low, %high}, %index;\n" \
	"	xor.b32 %word, %low, %high;\n" \
	"	mul.lo.u32 %word, %word, -1640531535;\n" \
	"	xor.b32 %word, %word, %key;\n"

#define KERNEL_LOOP_BEGIN \
	"each_word:\n" \
	"	setp.ge.u64 %done, %index, %words;\n" \
	"	@%done bra tail;\n"

#define KERNEL_LOOP_END \
	"	add.u64 %index, %index, %stride;\n" \
	"	bra each_word;\n"

#define KERNEL_TAIL_BEGIN \
	"tail:\n" \
	"	setp.ne.u64 %tail, %index, %words;\n" \
	"	@%tail bra end;\n" \
	"	cvt.u32.u64 %left, %bytes;\n" \
	"	and.b32 %left, %left, 3;\n"

#define KERNEL_TAIL_LOOP_BEGIN \
	"each_byte:\n" \
	"	setp.eq.u32 %done, %left, 0;\n" \
	"	@%done bra end;\n"

#define KERNEL_TAIL_LOOP_END \
	"	shr.u32 %word, %word, 8;\n" \
	"	add.u64 %at, %at, 1;\n" \
	"	sub.u32 %left, %left, 1;\n" \
	"	bra each_byte;\n"

static const char kernels[] =
	".version 6.0\n"
	".target sm_60\n"
	".address_size 64\n"
	".visible .entry fill(.param .u64 ptr, .param .u64 bytes, .param .u32 key)\n"
	"{\n"
	KERNEL_BEGIN
	KERNEL_LOOP_BEGIN
	KERNEL_WORD
	"	st.global.u32 [%at], %word;\n"
	KERNEL_LOOP_END
	KERNEL_TAIL_BEGIN
	KERNEL_WORD
	KERNEL_TAIL_LOOP_BEGIN
	"	st.global.u8 [%at], %word;\n"
	KERNEL_TAIL_LOOP_END
	"end:\n"
	"	ret;\n"
	"}\n"
	".visible .entry check(.param .u64 ptr, .param .u64 bytes, .param .u32 key, .param .u64 flag)\n"
	"{\n"
	KERNEL_BEGIN
	"	ld.param.u64 %flag, [flag];\n"
	"	cvta.to.global.u64 %flag, %flag;\n"
	"	mov.u32 %one, 1;\n"
	KERNEL_LOOP_BEGIN
	KERNEL_WORD
	"	ld.global.u32 %found, [%at];\n"
	"	setp.ne.u32 %bad, %found, %word;\n"
	"	@%bad st.global.u32 [%flag], %one;\n"
	KERNEL_LOOP_END
	KERNEL_TAIL_BEGIN
	KERNEL_WORD
	KERNEL_TAIL_LOOP_BEGIN
	"	ld.global.u8 %found, [%at];\n"
	"	and.b32 %low, %word, 255;\n"
	"	setp.ne.u32 %bad, %found, %low;\n"
	"	@%bad st.global.u32 [%flag], %one;\n"
	KERNEL_TAIL_LOOP_END
	"end:\n"
	"	ret;\n"
	"}\n";

static struct device_cuda *cuda_of(struct device *dev)
{
	return (struct device_cuda *)dev;
}

static int cuda_attach(struct device *base)
{
	struct device_cuda *dev = cuda_of(base);

	return DRIVER_CALL(cuCtxSetCurrent, dev->context);
}

static int cuda_advance(struct device *base, uint64_t us)
{
	(void)base;
	(void)us;
	return 0;
}

static int cuda_wait(struct device *base, uint32_t stream, uint32_t other)
{
	drv_event event = cuda_of(base)->event;

	return DRIVER_CALL(cuEventRecord, event, base->streams[other]) ?:
	       DRIVER_CALL(cuStreamWaitEvent, base->streams[stream], event, 0);
}

static int cuda_copy(struct device *base, void *to, const void *from, size_t size)
{
	return DRIVER_CALL(cuMemcpyDtoDAsync, (drv_deviceptr)(uintptr_t)to, (drv_deviceptr)(uintptr_t)from, size,
					     base->streams[0]);
}

/* Pinned. */
static int cuda_host_alloc(struct device *base, void **ptr, size_t size)
{
	drv_result result = driver.cuMemAllocHost(ptr, size);

	return result ? driver_fail(result, "cuMemAllocHost of %zu bytes", size) : 0;
}

static int cuda_host_free(struct device *base, void *ptr, size_t size)
{
	(void)size;
	return DRIVER_CALL(cuMemFreeHost, ptr);
}

static int cuda_to_device(struct device *base, void *to, const void *from, size_t size)
{
	return DRIVER_CALL(cuMemcpyHtoDAsync, (drv_deviceptr)(uintptr_t)to, from, size, base->streams[0]) ?:
	       DRIVER_CALL(cuStreamSynchronize, base->streams[0]);
}

static int cuda_to_host(struct device *base, void *to, const void *from, size_t size)
{
	return DRIVER_CALL(cuMemcpyDtoHAsync, to, (drv_deviceptr)(uintptr_t)from, size, base->streams[0]) ?:
	       DRIVER_CALL(cuStreamSynchronize, base->streams[0]);
}

/* The pool may ask the driver for memory meanwhile. */
static int cuda_capture_begin(struct device *base, uint32_t stream)
{
	return DRIVER_CALL(cuStreamBeginCapture, base->streams[stream], DRV_STREAM_CAPTURE_MODE_RELAXED);
}

static int cuda_capture_end(struct device *base, uint32_t stream, void **graph)
{
	return DRIVER_CALL(cuStreamEndCapture, base->streams[stream], (drv_graph *)graph);
}

static int cuda_graph_destroy(struct device *base, void *graph)
{
	return DRIVER_CALL(cuGraphDestroy, graph);
}

static int launch(struct device_cuda *dev, drv_function kernel, uint32_t stream, const struct device_work *work)
{
	drv_deviceptr ptr = (drv_deviceptr)(uintptr_t)work->ptr;
	drv_deviceptr flag = dev->marks + work->mark * sizeof(uint32_t);
	uint64_t bytes = work->size;
	uint32_t key = work->key;
	void *params[] = { &ptr, &bytes, &key, &flag };
	unsigned int blocks = (unsigned int)MIN(bytes / 4 / BLOCK_THREADS + 1, dev->most_blocks);

	return !dev->base.opts.verify ? 0 : DRIVER_CALL(cuLaunchKernel, kernel, blocks, 1, 1, BLOCK_THREADS, 1, 1, 0,
							dev->base.streams[stream], params, NULL);
}

static int cuda_born(struct device *base, uint32_t stream, const struct device_work *work)
{
	return launch(cuda_of(base), cuda_of(base)->fill, stream, work);
}

static int cuda_dying(struct device *base, uint32_t stream, const struct device_work *work)
{
	return launch(cuda_of(base), cuda_of(base)->check, stream, work);
}

static int cuda_synchronize(struct device *base)
{
	return DRIVER_CALL(cuCtxSynchronize);
}

/* Memory is created once, and given back: what an error would say, the next call says too. */
static void wake(struct device_cuda *dev)
{
	const drv_allocation_prop prop = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, dev->device },
	};
	drv_handle handle;
	size_t size;

	if (driver.cuMemGetAllocationGranularity(&size, &prop, DRV_MEM_ALLOC_GRANULARITY_MINIMUM) == DRV_SUCCESS &&
	    driver.cuMemCreate(&handle, size, &prop, 0) == DRV_SUCCESS)
		driver.cuMemRelease(handle);
}

/*
 * What cuMemFree and a memory pool give back the driver clears, and nothing tells when it has done so. Who takes memory
 * meanwhile waits: 64 GiB that are created in 5 ms on an H200 take more than 100 after that. Nor is a driver that had
 * nothing to do for a second ready at once: the first creation then takes 10 to 25 ms, of whatever size it is.
 */
static void cuda_settle(struct device *base)
{
	cuda_synchronize(base);
	g_usleep(SETTLE_US);
	wake(cuda_of(base));
}

static int clear_marks(struct device_cuda *dev)
{
	size_t bytes = dev->base.opts.marks * sizeof(uint32_t);

	return DRIVER_CALL(cuMemsetD8Async, dev->marks, 0, bytes, dev->base.streams[0]) ?: cuda_synchronize(&dev->base);
}

static int cuda_damaged(struct device *base, uint32_t *marks)
{
	struct device_cuda *dev = cuda_of(base);

	return DRIVER_CALL(cuMemcpyDtoH, marks, dev->marks, base->opts.marks * sizeof(*marks)) ?: clear_marks(dev);
}

static int load_kernels(struct device_cuda *dev)
{
	int processors = 0, err;

	err = DRIVER_CALL(cuDeviceGetAttribute, &processors, DRV_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev->device);
	dev->most_blocks = (unsigned int)processors * BLOCKS_PER_PROCESSOR;
	return err ?: DRIVER_CALL(cuModuleLoadData, &dev->module, kernels) ?:
	       DRIVER_CALL(cuModuleGetFunction, &dev->fill, dev->module, "fill") ?:
	       DRIVER_CALL(cuModuleGetFunction, &dev->check, dev->module, "check") ?:
	       DRIVER_CALL(cuMemAlloc, &dev->marks, dev->base.opts.marks * sizeof(uint32_t)) ?: clear_marks(dev);
}

/*
 * Takes memory until what is left is the limit, give or take LIMIT_SLACK: the driver rounds, and needs a little for
 * what it has not set up yet.
 */
static int take_ballast(struct device_cuda *dev)
{
	uint64_t limit = dev->base.opts.limit;
	size_t available = 0, total;
	drv_result result;
	int err;

	err = DRIVER_CALL(cuMemGetInfo, &available, &total);
	if (!err && available < limit)
		return fail_set(-ENOMEM, "--limit asks for %" PRIu64 " bytes, and the device has %zu free",
				(uint64_t)limit, available);
	while (!err && available > limit + LIMIT_SLACK && dev->n_ballast < G_N_ELEMENTS(dev->ballast)) {
		size_t bytes = available - limit;

		result = driver.cuMemAlloc(&dev->ballast[dev->n_ballast], bytes);
		if (result)
			return driver_fail(result, "cuMemAlloc of %zu bytes, to leave what --limit says",
						bytes);
		dev->n_ballast++;
		err = DRIVER_CALL(cuMemGetInfo, &available, &total);
	}
	return err;
}

static void cuda_close(struct device *base)
{
	struct device_cuda *dev = cuda_of(base);

	while (dev->n_ballast)
		driver.cuMemFree(dev->ballast[--dev->n_ballast]);
	if (dev->marks)
		driver.cuMemFree(dev->marks);
	if (dev->module)
		driver.cuModuleUnload(dev->module);
	if (dev->event)
		driver.cuEventDestroy(dev->event);
	for (uint32_t i = base->opts.streams; i-- > 0;) {
		if (base->streams[i])
			driver.cuStreamDestroy(base->streams[i]);
	}
	if (dev->context) {
		driver.cuCtxSetCurrent(NULL);
		driver.cuDevicePrimaryCtxRelease(dev->device);
	}
	g_free(base->streams);
	g_free(dev);
}

static int take_context(struct device_cuda *dev)
{
	if (DRIVER_CALL(cuDeviceGet, &dev->device, 0))
		return -ENODEV;
	return DRIVER_CALL(cuDevicePrimaryCtxRetain, &dev->context, dev->device) ?: cuda_attach(&dev->base);
}

static int create_streams(struct device_cuda *dev)
{
	int err = 0;

	for (uint32_t i = 0; i < dev->base.opts.streams && !err; i++)
		err = DRIVER_CALL(cuStreamCreate, &dev->base.streams[i], DRV_STREAM_NON_BLOCKING);
	return err ?: DRIVER_CALL(cuEventCreate, &dev->event, DRV_EVENT_DISABLE_TIMING);
}

static int cuda_open(const struct device_opts *opts, struct device **device)
{
	struct device_cuda *dev;
	int err;

	err = driver_open();
	if (err)
		return err;
	dev = g_new0(struct device_cuda, 1);
	dev->base.ops = &device_cuda;
	dev->base.opts = *opts;
	dev->base.streams = g_new0(struct CUstream_st *, opts->streams);
	err = take_context(dev);
	if (!err)
		err = create_streams(dev);
	if (!err && opts->verify)
		err = load_kernels(dev);
	if (!err && opts->limit)
		err = take_ballast(dev);
	if (err) {
		cuda_close(&dev->base);
		return err;
	}
	*device = &dev->base;
	return 0;
}

const struct device_ops device_cuda = {
	.open = cuda_open,
	.attach = cuda_attach,
	.close = cuda_close,
	.advance = cuda_advance,
	.wait = cuda_wait,
	.born = cuda_born,
	.dying = cuda_dying,
	.copy = cuda_copy,
	.host_alloc = cuda_host_alloc,
	.host_free = cuda_host_free,
	.to_device = cuda_to_device,
	.to_host = cuda_to_host,
	.capture_begin = cuda_capture_begin,
	.capture_end = cuda_capture_end,
	.graph_destroy = cuda_graph_destroy,
	.synchronize = cuda_synchronize,
	.settle = cuda_settle,
	.damaged = cuda_damaged,
	.async = device_cuda_async,
	.malloc = device_cuda_malloc,
};
