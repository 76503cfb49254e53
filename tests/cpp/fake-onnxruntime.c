// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * As much of ONNX Runtime as an allocator of the environment sees: a session takes its weights from it, if the session
 * asks for the environment's allocators and there is one for its device.
 */
#include <onnxruntime_c_api.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <vpmm-host.h>
#include <vpmm.h>

struct OrtStatus { const char *text; };
struct OrtMemoryInfo { char name[16]; };
struct OrtEnv { OrtAllocator *allocator; };
struct OrtSessionOptions { int shares, on_cuda; };
struct OrtCUDAProviderOptionsV2 { int device; };
struct OrtSession {
	OrtAllocator *allocator;
	void *weights[3];
};

/* One at a time is enough. */
static OrtStatus *fail(const char *text)
{
	static OrtStatus status;

	status.text = text;
	return &status;
}

static const char *get_error_message(const OrtStatus *status)
{
	return status->text;
}

static OrtStatus *create_env(OrtLoggingLevel level, const char *id, OrtEnv **out)
{
	(void)level;
	(void)id;
	*out = calloc(1, sizeof(**out));
	return *out ? NULL : fail("no memory");
}

static OrtStatus *create_memory_info(const char *name, enum OrtAllocatorType type, int id, enum OrtMemType mem_type,
				     OrtMemoryInfo **out)
{
	(void)type;
	(void)id;
	(void)mem_type;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return fail("no memory");
	strncpy((*out)->name, name, sizeof((*out)->name) - 1);
	return NULL;
}

static OrtStatus *register_allocator(OrtEnv *env, OrtAllocator *allocator)
{
	if (allocator->version > ORT_API_VERSION || strcmp(allocator->Info(allocator)->name, "Cuda") != 0)
		return fail("no allocator for CUDA");
	env->allocator = allocator;
	return NULL;
}

static OrtStatus *unregister_allocator(OrtEnv *env, const OrtMemoryInfo *info)
{
	if (!env->allocator || env->allocator->Info(env->allocator) != info)
		return fail("there is no such allocator");
	env->allocator = NULL;
	return NULL;
}

static OrtStatus *create_session_options(OrtSessionOptions **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? NULL : fail("no memory");
}

static OrtStatus *add_session_config_entry(OrtSessionOptions *options, const char *key, const char *value)
{
	if (strcmp(key, "session.use_env_allocators") != 0)
		return fail("unknown key");
	options->shares = !strcmp(value, "1");
	return NULL;
}

static OrtStatus *create_cuda_provider_options(OrtCUDAProviderOptionsV2 **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? NULL : fail("no memory");
}

static OrtStatus *append_cuda(OrtSessionOptions *options, const OrtCUDAProviderOptionsV2 *cuda)
{
	options->on_cuda = cuda->device == 0;
	return NULL;
}

static void release_session(OrtSession *session)
{
	for (int i = 0; i < 3; i++)
		session->allocator->Free(session->allocator, session->weights[i]);
	free(session);
}

/*
 * Whether the allocator has a block free for others only once every stream is past what it had to do at the free. The
 * device is full, so the next who wants as much has to have the block.
 */
static int waits_for_users(OrtAllocator *allocator)
{
	const size_t most = (size_t)40 << 20;
	struct CUstream_st *user, *next;
	unsigned int pending = 0;
	void *ptr = allocator->Alloc(allocator, most);

	if (!ptr || vpmm_host_stream_create(&user) || vpmm_host_stream_create(&next))
		return 0;
	vpmm_host_stream_submit(user);
	allocator->Free(allocator, ptr);
	if (vpmm_malloc(NULL, &ptr, most, next))
		return 0;
	vpmm_host_stream_submit(next);
	vpmm_host_stream_complete(next, UINT_MAX);
	vpmm_host_stream_pending(next, &pending);
	vpmm_host_stream_complete(user, UINT_MAX);
	vpmm_host_stream_complete(next, UINT_MAX);
	return !vpmm_free(NULL, ptr, next) && pending == 1;
}

/* A model is as many KiB as its name says, three times. */
static OrtStatus *create_session(const OrtEnv *env, const char *path, const OrtSessionOptions *options, OrtSession **out)
{
	size_t size = strtoul(path, NULL, 10) << 10;
	OrtSession *session;

	if (!options->shares || !options->on_cuda || !env->allocator)
		return fail("the session does not use the allocator");
	session = calloc(1, sizeof(*session));
	if (!session)
		return fail("no memory");
	session->allocator = env->allocator;
	for (int i = 0; i < 3; i++) {
		session->weights[i] = session->allocator->Alloc(session->allocator, size);
		if (!session->weights[i]) {
			release_session(session);
			return fail("allocation failed");
		}
	}
	if (!waits_for_users(session->allocator)) {
		release_session(session);
		return fail("memory was handed out that is in use");
	}
	*out = session;
	return NULL;
}

static void release_env(OrtEnv *env) { free(env); }
static void release_status(OrtStatus *status) { (void)status; }
static void release_options(OrtSessionOptions *options) { free(options); }
static void release_cuda(OrtCUDAProviderOptionsV2 *cuda) { free(cuda); }
static void release_info(OrtMemoryInfo *info) { free(info); }

static const OrtApi calls = {
	.GetErrorMessage = get_error_message,
	.CreateEnv = create_env,
	.CreateSession = create_session,
	.CreateSessionOptions = create_session_options,
	.CreateMemoryInfo = create_memory_info,
	.AddSessionConfigEntry = add_session_config_entry,
	.SessionOptionsAppendExecutionProvider_CUDA_V2 = append_cuda,
	.CreateCUDAProviderOptions = create_cuda_provider_options,
	.RegisterAllocator = register_allocator,
	.UnregisterAllocator = unregister_allocator,
	.ReleaseCUDAProviderOptions = release_cuda,
	.ReleaseStatus = release_status,
	.ReleaseEnv = release_env,
	.ReleaseSession = release_session,
	.ReleaseSessionOptions = release_options,
	.ReleaseMemoryInfo = release_info,
};

static const OrtApi *get_api(uint32_t version)
{
	return version <= ORT_API_VERSION ? &calls : NULL;
}

const OrtApiBase *OrtGetApiBase(void)
{
	static const OrtApiBase base = { get_api };

	return &base;
}
