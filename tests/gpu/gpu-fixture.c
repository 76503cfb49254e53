// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "gpu/gpu-fixture.h"

#define BLOCK 256
#define GRID 1024
#define HOLDS 65536

struct drv_program cu;

static const char *missing = "not tried yet";
static drv_device device;
static drv_module module;
static drv_function fill, check, mix, hold;
static drv_stream copies;
static drv_deviceptr wrong;

/*
 * One word for each stream that anything was ever held on, in memory that both sides see: work with ticket t waits for
 * its word to be t or more.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint32_t *words;
static uint32_t tickets[HOLDS];
static GHashTable *word_of;		/* number of the word, plus one, by stream id */

/*
 * fill and check: the word at index i is seed ^ i * (a large odd number), so that neither a word of elsewhere nor one
 * of another seed passes for it.
 */
#define PATTERN_LOOP(body) \
	"	.reg .b64 %at, %seed, %n, %i, %step, %want, %word, %got, %count;\n" \
	"	.reg .b32 %a, %b, %c;\n" \
	"	.reg .pred %end, %bad;\n" \
	"	ld.param.u64 %at, [p0];\n" \
	"	ld.param.u64 %seed, [p1];\n" \
	"	ld.param.u64 %n, [p2];\n" \
	"	mov.u32 %a, %ctaid.x;\n" \
	"	mov.u32 %b, %ntid.x;\n" \
	"	mov.u32 %c, %tid.x;\n" \
	"	cvt.u64.u32 %i, %c;\n" \
	"	mad.wide.u32 %i, %a, %b, %i;\n" \
	"	mov.u32 %a, %nctaid.x;\n" \
	"	mul.wide.u32 %step, %a, %b;\n" \
	"next:\n" \
	"	setp.ge.u64 %end, %i, %n;\n" \
	"	@%end bra done;\n" \
	"	mul.lo.u64 %want, %i, 0x9E3779B97F4A7C15U;\n" \
	"	xor.b64 %want, %want, %seed;\n" \
	"	shl.b64 %word, %i, 3;\n" \
	"	add.u64 %word, %word, %at;\n" \
	body \
	"	add.u64 %i, %i, %step;\n" \
	"	bra next;\n" \
	"done:\n" \
	"	ret;\n" \
	"}\n"

const char gpu_kernels[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry fill(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{\n"
	PATTERN_LOOP("	st.global.u64 [%word], %want;\n")
	".visible .entry check(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)\n{\n"
	PATTERN_LOOP(
	"	ld.global.u64 %got, [%word];\n"
	"	setp.ne.u64 %bad, %got, %want;\n"
	"	ld.param.u64 %count, [p3];\n"
	"	@%bad red.global.add.u64 [%count], 1;\n")
	".visible .entry mix(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4)\n{\n"
	PATTERN_LOOP(
	"	shl.b64 %got, %i, 3;\n"
	"	ld.param.u64 %count, [p3];\n"
	"	add.u64 %count, %count, %got;\n"
	"	ld.global.u64 %want, [%count];\n"
	"	ld.param.u64 %count, [p4];\n"
	"	add.u64 %count, %count, %got;\n"
	"	ld.global.u64 %got, [%count];\n"
	"	xor.b64 %want, %want, %got;\n"
	"	xor.b64 %want, %want, %seed;\n"
	"	st.global.u64 [%word], %want;\n")
	".visible .entry hold(.param .u64 p0, .param .u32 p1)\n{\n"
	"	.reg .b64 %at, %start, %now;\n"
	"	.reg .b32 %ticket, %got;\n"
	"	.reg .pred %end;\n"
	"	ld.param.u64 %at, [p0];\n"
	"	ld.param.u32 %ticket, [p1];\n"
	"	mov.u64 %start, %globaltimer;\n"
	"again:\n"
	"	ld.volatile.global.u32 %got, [%at];\n"
	"	setp.ge.u32 %end, %got, %ticket;\n"
	"	@%end bra over;\n"
	"	nanosleep.u32 2000;\n"
	"	mov.u64 %now, %globaltimer;\n"
	"	sub.u64 %now, %now, %start;\n"
	"	setp.lt.u64 %end, %now, 20000000000;\n"
	"	@%end bra again;\n"
	"over:\n"
	"	ret;\n"
	"}\n";

/*
 * A kernel is loaded when it is first launched, which waits for what is running; so each is launched once while nothing
 * is.
 */
static void open_kernels(void)
{
	void *bytes;

	gpu_ok(cu.cuModuleLoadData(&module, gpu_kernels));
	gpu_ok(cu.cuModuleGetFunction(&fill, module, "fill"));
	gpu_ok(cu.cuModuleGetFunction(&check, module, "check"));
	gpu_ok(cu.cuModuleGetFunction(&mix, module, "mix"));
	gpu_ok(cu.cuModuleGetFunction(&hold, module, "hold"));
	gpu_ok(cu.cuMemAllocHost(&bytes, HOLDS * sizeof(*words)));
	words = memset(bytes, 0, HOLDS * sizeof(*words));
	word_of = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
	gpu_ok(cu.cuMemAlloc(&wrong, BLOCK * sizeof(uint64_t)));
	copies = gpu_stream();
	gpu_fill((void *)wrong, BLOCK * sizeof(uint64_t), 0, copies);
	gpu_check((void *)wrong, BLOCK * sizeof(uint64_t), 0, copies);
	gpu_mix((void *)wrong, (void *)wrong, (void *)wrong, BLOCK * sizeof(uint64_t), 0, copies);
	gpu_ok(gpu_hold(copies));
	gpu_ok(gpu_finish(copies));
	gpu_sync(copies);
	gpu_ok(cu.cuMemsetD8Async(wrong, 0, sizeof(uint64_t), copies));
	gpu_sync(copies);
}

static const char *open_device(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	drv_context context;
	int count, vmm;

	if (!library)
		return "there is no CUDA driver";
	if (drv_load_program(library, &cu))
		return "the CUDA driver is older than 12.0";
	if (cu.cuInit(0) || cu.cuDeviceGetCount(&count) || !count)
		return "there is no CUDA device";
	if (cu.cuDeviceGet(&device, 0) ||
	    cu.cuDeviceGetAttribute(&vmm, DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) || !vmm)
		return "the CUDA device has no virtual memory management";
	gpu_ok(cu.cuDevicePrimaryCtxRetain(&context, device));
	gpu_ok(cu.cuCtxSetCurrent(context));
	open_kernels();
	return NULL;
}

const char *gpu_missing(void)
{
	static bool tried;

	if (!tried)
		missing = open_device();
	tried = true;
	return missing;
}

bool gpu_ready(void)
{
	if (gpu_missing())
		g_test_skip(missing);
	return !missing;
}

void gpu_close(void)
{
	if (missing)
		return;
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuStreamDestroy(copies));
	gpu_ok(cu.cuMemFree(wrong));
	gpu_ok(cu.cuMemFreeHost((void *)words));
	g_hash_table_unref(word_of);
	gpu_ok(cu.cuModuleUnload(module));
	gpu_ok(cu.cuCtxSetCurrent(NULL));
	gpu_ok(cu.cuDevicePrimaryCtxRelease(device));
}

drv_stream gpu_stream(void)
{
	drv_stream stream;

	gpu_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	return stream;
}

/* The number of a stream's word; made if it is to be. Called with the lock held. */
static uint32_t word_number(drv_stream stream, bool make)
{
	gpointer known;
	uint64_t id;

	gpu_ok(cu.cuStreamGetId(stream, &id));
	known = g_hash_table_lookup(word_of, &id);
	if (!known && make) {
		known = GUINT_TO_POINTER(g_hash_table_size(word_of) + 1);
		g_hash_table_insert(word_of, g_memdup2(&id, sizeof(id)), known);
	}
	g_assert_cmpuint(GPOINTER_TO_UINT(known), <=, HOLDS);
	return GPOINTER_TO_UINT(known);
}

int gpu_hold(drv_stream stream)
{
	uint32_t number, ticket;
	drv_deviceptr at;
	void *params[] = { &at, &ticket };
	drv_result result;

	pthread_mutex_lock(&lock);
	number = word_number(stream, true) - 1;
	ticket = ++tickets[number];
	at = (drv_deviceptr)(words + number);
	result = cu.cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	pthread_mutex_unlock(&lock);
	return result;
}

int gpu_finish(drv_stream stream)
{
	uint32_t number;

	pthread_mutex_lock(&lock);
	number = word_number(stream, false);
	if (number)
		words[number - 1] = tickets[number - 1];
	pthread_mutex_unlock(&lock);
	return 0;
}

bool gpu_busy(drv_stream stream)
{
	drv_result result = cu.cuStreamQuery(stream);

	if (result == DRV_ERROR_NOT_READY)
		return true;
	gpu_ok(result);
	return false;
}

void gpu_sync(drv_stream stream)
{
	gpu_ok(cu.cuStreamSynchronize(stream));
}

static unsigned int grid_of(uint64_t n)
{
	return (unsigned int)CLAMP((n + BLOCK - 1) / BLOCK, 1, GRID);
}

void gpu_fill(void *ptr, size_t size, uint64_t seed, drv_stream stream)
{
	drv_deviceptr at = (drv_deviceptr)ptr;
	uint64_t n = size / sizeof(uint64_t);
	void *params[] = { &at, &seed, &n };

	gpu_ok(cu.cuLaunchKernel(fill, grid_of(n), 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
}

void gpu_check(void *ptr, size_t size, uint64_t seed, drv_stream stream)
{
	drv_deviceptr at = (drv_deviceptr)ptr;
	uint64_t n = size / sizeof(uint64_t);
	void *params[] = { &at, &seed, &n, &wrong };

	gpu_ok(cu.cuLaunchKernel(check, grid_of(n), 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
}

void gpu_mix(void *to, const void *a, const void *b, size_t size, uint64_t word, drv_stream stream)
{
	drv_deviceptr at = (drv_deviceptr)to, from = (drv_deviceptr)a, other = (drv_deviceptr)b;
	uint64_t n = size / sizeof(uint64_t);
	void *params[] = { &at, &word, &n, &from, &other };

	gpu_ok(cu.cuLaunchKernel(mix, grid_of(n), 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
}

uint64_t gpu_wrong(void)
{
	uint64_t count;

	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(gpu_read(wrong, &count, sizeof(count)));
	gpu_ok(gpu_write(wrong, &(uint64_t){ 0 }, sizeof(count)));
	return count;
}

/* On a stream of their own, as the default stream waits for others. */
int gpu_write(uint64_t va, const void *bytes, size_t size)
{
	drv_result result = cu.cuMemcpyHtoDAsync(va, bytes, size, copies);

	return result ? result : cu.cuStreamSynchronize(copies);
}

int gpu_read(uint64_t va, void *bytes, size_t size)
{
	drv_result result = cu.cuMemcpyDtoHAsync(bytes, va, size, copies);

	return result ? result : cu.cuStreamSynchronize(copies);
}

size_t gpu_memory_free(void)
{
	size_t free, total;

	gpu_ok(cu.cuMemGetInfo(&free, &total));
	return free;
}
