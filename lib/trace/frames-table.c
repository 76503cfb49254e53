// SPDX-License-Identifier: LGPL-2.1-or-later
/* All stacks that were seen, as a tree of calls. */
#include <stdatomic.h>

#include "trace/frames.h"
#include "util/lock.h"

/* Calls that are kept, of all stacks. Beyond, a stack is cut off in front of a call that is new. */
#define CALLS_MOST (1u << 20)
#define BUCKET_BITS 14

const struct call frames_none;

/* Found without a lock: what is in a bucket stays, and what is new comes in front. */
static struct call *_Atomic buckets[1 << BUCKET_BITS];
static struct lock frames_lock = LOCK_INIT(LOCK_FRAMES);
static unsigned int calls_count GUARDED_BY(frames_lock);

static struct call *_Atomic *bucket_of_call(const struct call *inner, struct frame frame)
{
	uint64_t hash = ((uintptr_t)inner ^ frame.pc ^ (uintptr_t)frame.text >> 3) * UINT64_C(0x9e3779b97f4a7c15);

	return &buckets[hash >> (64 - BUCKET_BITS)];
}

static const struct call *find_known_call(struct call *_Atomic *bucket, const struct call *inner, struct frame frame)
{
	const struct call *call = atomic_load_explicit(bucket, memory_order_acquire);

	while (call && !(call->inner == inner && call->frame.pc == frame.pc && call->frame.text == frame.text))
		call = call->next;
	return call;
}

REQUIRES(frames_lock)
static const struct call *keep_call(struct call *_Atomic *bucket, const struct call *inner, struct frame frame)
{
	struct call *call;

	if (calls_count >= CALLS_MOST)
		return inner;
	calls_count++;
	call = g_new(struct call, 1);
	*call = (struct call){
		.inner = inner,
		.frame = frame,
		.count = inner->count + 1,
		.next = atomic_load_explicit(bucket, memory_order_relaxed),
	};
	atomic_store_explicit(bucket, call, memory_order_release);
	return call;
}

const struct call *frames_add(const struct call *inner, struct frame frame)
{
	struct call *_Atomic *bucket = bucket_of_call(inner, frame);
	const struct call *call = find_known_call(bucket, inner, frame);

	if (G_LIKELY(call))
		return call;
	if (inner->count >= FRAMES_MOST)
		return inner;
	lock_acquire(&frames_lock);
	call = find_known_call(bucket, inner, frame);
	if (!call)
		call = keep_call(bucket, inner, frame);
	lock_release(&frames_lock);
	return call;
}

unsigned int frames_list(const struct call *calls, struct frame frames[FRAMES_MOST])
{
	unsigned int count = calls->count;

	for (; calls->inner; calls = calls->inner)
		frames[calls->count - 1] = calls->frame;
	return count;
}
