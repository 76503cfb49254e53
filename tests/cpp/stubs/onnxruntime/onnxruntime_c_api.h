// SPDX-License-Identifier: LGPL-2.1-or-later
/* Of ONNX Runtime, what man/examples/frameworks/onnxruntime.c uses; tests/cpp/fake-onnxruntime.c is behind it. */
#ifndef STUBS_ONNXRUNTIME_C_API_H
#define STUBS_ONNXRUNTIME_C_API_H

#include <stddef.h>
#include <stdint.h>

#define ORT_API_VERSION 22
#define ORT_API_CALL

typedef struct OrtStatus OrtStatus;
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtCUDAProviderOptionsV2 OrtCUDAProviderOptionsV2;
typedef enum { ORT_LOGGING_LEVEL_WARNING = 2 } OrtLoggingLevel;
enum OrtAllocatorType { OrtDeviceAllocator = 0 };
enum OrtMemType { OrtMemTypeDefault = 0 };

typedef struct OrtAllocator {
	uint32_t version;
	void *(*Alloc)(struct OrtAllocator *allocator, size_t size);
	void (*Free)(struct OrtAllocator *allocator, void *ptr);
	const OrtMemoryInfo *(*Info)(const struct OrtAllocator *allocator);
	void *(*Reserve)(struct OrtAllocator *allocator, size_t size);
} OrtAllocator;

typedef struct {
	const char *(*GetErrorMessage)(const OrtStatus *status);
	OrtStatus *(*CreateEnv)(OrtLoggingLevel level, const char *id, OrtEnv **out);
	OrtStatus *(*CreateSession)(const OrtEnv *env, const char *path, const OrtSessionOptions *options,
				    OrtSession **out);
	OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **out);
	OrtStatus *(*CreateMemoryInfo)(const char *name, enum OrtAllocatorType type, int id, enum OrtMemType mem_type,
				       OrtMemoryInfo **out);
	OrtStatus *(*AddSessionConfigEntry)(OrtSessionOptions *options, const char *key, const char *value);
	OrtStatus *(*SessionOptionsAppendExecutionProvider_CUDA_V2)(OrtSessionOptions *options,
								    const OrtCUDAProviderOptionsV2 *cuda);
	OrtStatus *(*CreateCUDAProviderOptions)(OrtCUDAProviderOptionsV2 **out);
	OrtStatus *(*RegisterAllocator)(OrtEnv *env, OrtAllocator *allocator);
	OrtStatus *(*UnregisterAllocator)(OrtEnv *env, const OrtMemoryInfo *info);
	void (*ReleaseCUDAProviderOptions)(OrtCUDAProviderOptionsV2 *cuda);
	void (*ReleaseStatus)(OrtStatus *status);
	void (*ReleaseEnv)(OrtEnv *env);
	void (*ReleaseSession)(OrtSession *session);
	void (*ReleaseSessionOptions)(OrtSessionOptions *options);
	void (*ReleaseMemoryInfo)(OrtMemoryInfo *info);
} OrtApi;

typedef struct {
	const OrtApi *(*GetApi)(uint32_t version);
} OrtApiBase;

const OrtApiBase *OrtGetApiBase(void);

#endif
