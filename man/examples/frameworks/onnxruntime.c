// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * ONNX Runtime on the default pool of the current device: an OrtAllocator that all sessions of an environment share.
 *
 *	cc onnxruntime.c $(pkg-config --cflags --libs vpmm) -lonnxruntime && ./a.out model.onnx
 *
 * ONNX Runtime names no stream at either call. So any stream may use a block at once, and it is free after all work
 * that was submitted before its free.
 */
#include <onnxruntime_c_api.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <vpmm.h>

static const OrtApi *api;

static void expect(OrtStatus *status)
{
	if (status) {
		fprintf(stderr, "%s\n", api->GetErrorMessage(status));
		api->ReleaseStatus(status);
		exit(1);
	}
}

struct allocator {
	OrtAllocator calls;
	OrtMemoryInfo *info;
};

/* NULL where there is no memory; ONNX Runtime makes an error of that. */
static void *ORT_API_CALL allocate(OrtAllocator *allocator, size_t size)
{
	void *ptr = NULL;

	(void)allocator;
	if (vpmm_malloc_flags(NULL, &ptr, size, NULL, VPMM_IDLE))
		fprintf(stderr, "%s\n", vpmm_last_error());
	return ptr;
}

static void ORT_API_CALL release(OrtAllocator *allocator, void *ptr)
{
	(void)allocator;
	if (vpmm_free(NULL, ptr, VPMM_STREAM_ANY))
		fprintf(stderr, "%s\n", vpmm_last_error());
}

static const OrtMemoryInfo *ORT_API_CALL get_info(const OrtAllocator *allocator)
{
	return ((const struct allocator *)allocator)->info;
}

static void show(const char *when)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	if (vpmm_pool_stats(NULL, &stats))
		fprintf(stderr, "%s\n", vpmm_last_error());
	else
		printf("%s: %zu KiB allocated in %zu blocks\n", when, (size_t)(stats.requested >> 10),
		       (size_t)(stats.mallocs - stats.frees));
}

int main(int argc, char **argv)
{
	struct allocator ours = { .calls = { .version = ORT_API_VERSION, .Alloc = allocate, .Free = release,
					     .Info = get_info } };
	OrtCUDAProviderOptionsV2 *cuda;
	OrtSessionOptions *options;
	OrtSession *session;
	OrtEnv *env;

	if (argc != 2) {
		fprintf(stderr, "usage: %s MODEL.onnx\n", argv[0]);
		return 1;
	}
	api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
	if (!api) {
		fprintf(stderr, "ONNX Runtime is older than its header\n");
		return 1;
	}
	expect(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "vpmm", &env));

	/* The memory of device 0 comes from here, for all sessions that ask for the environment's allocators. */
	expect(api->CreateMemoryInfo("Cuda", OrtDeviceAllocator, 0, OrtMemTypeDefault, &ours.info));
	expect(api->RegisterAllocator(env, &ours.calls));

	expect(api->CreateSessionOptions(&options));
	expect(api->AddSessionConfigEntry(options, "session.use_env_allocators", "1"));
	expect(api->CreateCUDAProviderOptions(&cuda));
	expect(api->SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda));
	expect(api->CreateSession(env, argv[1], options, &session));
	show("with a session");

	/* ... api->Run() ... */

	api->ReleaseSession(session);
	api->ReleaseCUDAProviderOptions(cuda);
	api->ReleaseSessionOptions(options);
	expect(api->UnregisterAllocator(env, ours.info));
	api->ReleaseMemoryInfo(ours.info);
	api->ReleaseEnv(env);
	show("without");
	return 0;
}
