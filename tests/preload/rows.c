// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * rows [GROUP]: runs the rows of a group, or of all that leave the context usable. rows --differ: the rows whose line
 * may be another under the preload object, and the sentence of vpmm-preload(7) that says so. Build it by
 * "gcc -o rows rows*.c -ldl".
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

struct rows_calls cu_calls;
int device;
void *primary;
bool kernels_lost = true;

static const struct rows *const groups[] = {
	&rows_memory, &rows_attributes, &rows_waits, &rows_captures, &rows_contexts, &rows_faults,
};

static jmp_buf out_of_row;
static char line[4096];
static size_t length;

/* Of the suite's own driver. */
static int (*fake_submit)(void *stream);

static void *hold, *bad;
static void *under_way;

/* Each waits for a time in nanoseconds, or writes where nothing is. */
static const char kernels[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry hold(.param .u64 p0)\n{\n"
	"	.reg .b64 %time, %start, %now;\n"
	"	.reg .pred %go;\n"
	"	ld.param.u64 %time, [p0];\n"
	"	mov.u64 %start, %globaltimer;\n"
	"again:\n"
	"	nanosleep.u32 10000;\n"
	"	mov.u64 %now, %globaltimer;\n"
	"	sub.u64 %now, %now, %start;\n"
	"	setp.lt.u64 %go, %now, %time;\n"
	"	@%go bra again;\n"
	"	ret;\n"
	"}\n"
	".visible .entry bad(.param .u64 p0)\n{\n"
	"	.reg .b64 %at;\n"
	"	ld.param.u64 %at, [p0];\n"
	"	st.global.u64 [%at], %at;\n"
	"	ret;\n"
	"}\n";

static void __attribute__((format(printf, 1, 2))) add(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line + length, sizeof(line) - length, format, args);
	va_end(args);
	if (n > 0 && length + (size_t)n < sizeof(line))
		length += (size_t)n;
}

result said(const char *what, result code)
{
	add(" %s=%d", what, code);
	return code;
}

bool fact(const char *what, bool is)
{
	add(" %s=%s", what, is ? "yes" : "no");
	return is;
}

void number(const char *what, long long value)
{
	add(" %s=%lld", what, value);
}

void row_lacks(const char *name)
{
	length = 0;
	add(" # SKIP the driver has no %s", name);
	longjmp(out_of_row, 1);
}

void must(const char *what, result code)
{
	if (!code)
		return;
	add(" # %s: %d", what, code);
	longjmp(out_of_row, 1);
}

address get(size_t size)
{
	address va = 0;

	must("cuMemAlloc", CU(cuMemAlloc_v2, &va, size));
	return va;
}

address get_async(size_t size, void *stream)
{
	address va = 0;

	must("cuMemAllocAsync", CU(cuMemAllocAsync, &va, size, stream));
	return va;
}

void *new_stream(void)
{
	void *stream = NULL;

	must("cuStreamCreate", CU(cuStreamCreate, &stream, 1));
	return stream;
}

size_t memory_free(void)
{
	size_t free = 0, total = 0;

	must("cuMemGetInfo", CU(cuMemGetInfo_v2, &free, &total));
	return free;
}

static void load_kernels(void)
{
	unsigned long long none = 0;
	void *params[] = { &none };
	void *module;

	must("cuModuleLoadData", CU(cuModuleLoadData, &module, kernels));
	must("cuModuleGetFunction", CU(cuModuleGetFunction, &hold, module, "hold"));
	must("cuModuleGetFunction", CU(cuModuleGetFunction, &bad, module, "bad"));
	/* A kernel is loaded at its first launch, which waits for what is running. */
	must("cuLaunchKernel", CU(cuLaunchKernel, hold, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	must("cuCtxSynchronize", CU(cuCtxSynchronize));
}

void spin(void *stream, unsigned int ms)
{
	unsigned long long time = ms * 1000000ULL;
	void *params[] = { &time };

	if (fake_submit)
		must("fake_cuda_submit", fake_submit(stream));
	else
		must("cuLaunchKernel", CU(cuLaunchKernel, hold, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void fault(void)
{
	unsigned long long nowhere = 8;
	void *params[] = { &nowhere };

	if (!bad)
		row_lacks("kernels");
	must("cuLaunchKernel", CU(cuLaunchKernel, bad, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

void busy(void *stream)
{
	must("cuCtxSynchronize", CU(cuCtxSynchronize));
	must("cuEventCreate", CU(cuEventCreate, &under_way, 2));
	spin(stream, 300);
	must("cuEventRecord", CU(cuEventRecord, under_way, stream));
}

void waited(void)
{
	result code = CU(cuEventQuery, under_way);

	if (code && code != 600)
		said("cuEventQuery", code);
	fact("waited", !code);
	must("cuCtxSynchronize", CU(cuCtxSynchronize));
	CU(cuEventDestroy_v2, under_way);
}

static void load_calls(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "rows: %s\n", dlerror());
		exit(77);
	}
#define X(name, args) *(void **)&cu_calls.name = dlsym(library, #name);
	ROWS_CALLS(X)
#undef X
	*(void **)&fake_submit = dlsym(library, "fake_cuda_submit");
}

/* A row before may have left another context, or none. */
static void prepare(void)
{
	must("cuCtxSetCurrent", CU(cuCtxSetCurrent, primary));
	if (!fake_submit && kernels_lost)
		load_kernels();
	kernels_lost = false;
}

static void run(const struct row *row)
{
	length = 0;
	if (row->lacks && fake_submit)
		add(" # SKIP the suite's own driver %s", row->lacks);
	else if (!setjmp(out_of_row)) {
		prepare();
		row->run(row->arg);
	}
	printf("%s:%.*s\n", row->name, (int)length, line);
	fflush(stdout);
}

static bool load_driver(void)
{
	load_calls();
	if (setjmp(out_of_row)) {
		fprintf(stderr, "rows:%.*s\n", (int)length, line);
		return false;
	}
	must("cuInit", CU(cuInit, 0));
	must("cuDeviceGet", CU(cuDeviceGet, &device, 0));
	must("cuDevicePrimaryCtxRetain", CU(cuDevicePrimaryCtxRetain, &primary, device));
	return true;
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	const bool list = only && !strcmp(only, "--differ");
	size_t i, j;

	for (i = 0; list && i < sizeof(groups) / sizeof(*groups); i++)
		for (j = 0; j < groups[i]->count; j++)
			if (groups[i]->rows[j].differs)
				printf("%s\t%s\n", groups[i]->rows[j].name, groups[i]->rows[j].differs);
	if (list)
		return 0;
	if (!load_driver())
		return 77;
	for (i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		for (j = 0; j < groups[i]->count; j++)
			if (only ? !strcmp(only, groups[i]->group) : groups[i] != &rows_faults)
				run(&groups[i]->rows[j]);
	return 0;
}
