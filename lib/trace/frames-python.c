// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The frames of Python, by calls that an interpreter has exported since 3.9. The library is not linked with one: they
 * are looked up in the process.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "trace/frames.h"

/* Places in Python code whose text is kept. The text of any other is made each time. */
#define SPOTS_MOST 65536
#define BUCKET_BITS 12

/**
 * struct spot - a place in Python code
 * @code: a code object, of which it has a reference, so that there is never another at its address
 * @position: in it: of the instruction where the interpreter can say it, or the line
 * @text: of it
 * @next: in the same bucket
 */
struct spot {
	void *code;
	int position;
	const char *text;
	struct spot *next;
};

typedef int (*int_fn)(void);
typedef void (*plain_fn)(void);
typedef void *(*get_fn)(void);
typedef void (*release_fn)(int);
typedef void (*fetch_fn)(void **, void **, void **);
typedef void (*restore_fn)(void *, void *, void *);
typedef void *(*from_fn)(void *);
typedef int (*number_fn)(void *);
typedef void *(*attribute_fn)(void *, const char *);
typedef const char *(*text_fn)(void *, ssize_t *);
typedef void (*count_fn)(void *);

#define CALLS(X) \
	X(int_fn, Py_IsInitialized) \
	X(get_fn, PyGILState_GetThisThreadState) \
	X(int_fn, PyGILState_Ensure) \
	X(release_fn, PyGILState_Release) \
	X(fetch_fn, PyErr_Fetch) \
	X(restore_fn, PyErr_Restore) \
	X(plain_fn, PyErr_Clear) \
	X(get_fn, PyEval_GetFrame) \
	X(from_fn, PyFrame_GetBack) \
	X(from_fn, PyFrame_GetCode) \
	X(number_fn, PyFrame_GetLineNumber) \
	X(attribute_fn, PyObject_GetAttrString) \
	X(text_fn, PyUnicode_AsUTF8AndSize) \
	X(count_fn, Py_IncRef) \
	X(count_fn, Py_DecRef)

static struct {
#define X(type, name) type name;
	CALLS(X)
#undef X
	int_fn is_finalizing;
	number_fn position;
	_Atomic bool found;
	uintptr_t low;
	uintptr_t high;
} py;

static pthread_mutex_t find_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Found without a lock, as in frames-table.c. */
static struct spot *_Atomic buckets[1 << BUCKET_BITS];
static pthread_mutex_t spots_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int spots_count;

static bool find_calls(void)
{
#define X(type, name) \
	*(void **)&py.name = dlsym(RTLD_DEFAULT, #name); \
	if (!py.name) \
		return false;
	CALLS(X)
#undef X
	*(void **)&py.is_finalizing = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
	if (!py.is_finalizing)
		*(void **)&py.is_finalizing = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
	/* Since 3.11. Before, a line has to do, which takes longer to find. */
	*(void **)&py.position = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
	if (!py.position)
		py.position = py.PyFrame_GetLineNumber;
	return frames_object((uintptr_t)py.PyEval_GetFrame, &py.low, &py.high) >= 0;
}

bool frames_find_python(void)
{
	bool found;

	pthread_mutex_lock(&find_mutex);
	if (!py.found) {
		py.found = find_calls();
		/* The program is not to be told that it is no Python. */
		dlerror();
	}
	found = py.found;
	pthread_mutex_unlock(&find_mutex);
	return found;
}

bool frames_in_python(uintptr_t pc)
{
	return pc >= py.low && pc < py.high;
}

/* An attribute of a code object as text, which is appended. */
static void append_attribute(void *code, const char *name, GString *out)
{
	void *value = py.PyObject_GetAttrString(code, name);
	const char *text = value ? py.PyUnicode_AsUTF8AndSize(value, NULL) : NULL;

	if (!text)
		py.PyErr_Clear();
	g_string_append(out, text ? text : "?");
	if (value)
		py.Py_DecRef(value);
}

static const char *describe_python(void *frame, void *code)
{
	GString *text = g_string_new(NULL);
	const char *kept;

	append_attribute(code, "co_name", text);
	g_string_append(text, " (");
	append_attribute(code, "co_filename", text);
	g_string_append_printf(text, ":%d)", py.PyFrame_GetLineNumber(frame));
	kept = g_intern_string(text->str);
	g_string_free(text, TRUE);
	return kept;
}

static struct spot *_Atomic *bucket_of_spot(const void *code, int position)
{
	uint64_t hash = ((uintptr_t)code ^ (uint64_t)position << 48) * UINT64_C(0x9e3779b97f4a7c15);

	return &buckets[hash >> (64 - BUCKET_BITS)];
}

static const struct spot *find_spot(struct spot *_Atomic *bucket, const void *code, int position)
{
	const struct spot *spot = atomic_load_explicit(bucket, memory_order_acquire);

	while (spot && !(spot->code == code && spot->position == position))
		spot = spot->next;
	return spot;
}

static void keep_text(struct spot *_Atomic *bucket, void *code, int position, const char *text)
{
	struct spot *spot;

	pthread_mutex_lock(&spots_mutex);
	if (spots_count < SPOTS_MOST) {
		spots_count++;
		spot = g_new(struct spot, 1);
		py.Py_IncRef(code);
		*spot = (struct spot){ code, position, text, atomic_load_explicit(bucket, memory_order_relaxed) };
		atomic_store_explicit(bucket, spot, memory_order_release);
	}
	pthread_mutex_unlock(&spots_mutex);
}

static const char *text_of(void *frame)
{
	void *code = py.PyFrame_GetCode(frame);
	int position = py.position(frame);
	struct spot *_Atomic *bucket = bucket_of_spot(code, position);
	const struct spot *spot = find_spot(bucket, code, position);
	const char *text = spot ? spot->text : describe_python(frame, code);

	if (!spot)
		keep_text(bucket, code, position, text);
	py.Py_DecRef(code);
	return text;
}

static const struct call *walk(const struct call *calls)
{
	void *frame = py.PyEval_GetFrame(), *back;

	if (frame)
		py.Py_IncRef(frame);
	while (frame && calls->count < FRAMES_MOST) {
		calls = frames_add(calls, (struct frame){ .text = text_of(frame) });
		back = py.PyFrame_GetBack(frame);
		py.Py_DecRef(frame);
		frame = back;
	}
	if (frame)
		py.Py_DecRef(frame);
	return calls;
}

/* A thread that the interpreter does not know has no frames, and need not wait for its lock. */
const struct call *frames_python(const struct call *calls)
{
	void *type, *value, *traceback;
	int state;

	if (!py.found || !py.Py_IsInitialized() || (py.is_finalizing && py.is_finalizing()) ||
	    !py.PyGILState_GetThisThreadState())
		return calls;
	state = py.PyGILState_Ensure();
	py.PyErr_Fetch(&type, &value, &traceback);
	calls = walk(calls);
	py.PyErr_Restore(type, value, traceback);
	py.PyGILState_Release(state);
	return calls;
}
