// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The frames of Python, by calls that an interpreter has exported since 3.9. The library is not linked with one: they
 * are looked up in the process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "trace/frames.h"

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
	bool found;
	uintptr_t low;
	uintptr_t high;
} py;

static pthread_mutex_t find_mutex = PTHREAD_MUTEX_INITIALIZER;

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
	return frames_object((uintptr_t)py.PyEval_GetFrame, &py.low, &py.high) >= 0;
}

/* An interpreter may be loaded at any time; it is looked for until there is one. */
static bool find_python(void)
{
	bool found;

	pthread_mutex_lock(&find_mutex);
	if (!py.found)
		py.found = find_calls();
	found = py.found;
	pthread_mutex_unlock(&find_mutex);
	return found;
}

gboolean frames_in_python(uintptr_t pc)
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

static const char *describe_python(void *frame)
{
	void *code = py.PyFrame_GetCode(frame);
	GString *text = g_string_new(NULL);
	const char *kept;

	append_attribute(code, "co_name", text);
	g_string_append(text, " (");
	append_attribute(code, "co_filename", text);
	g_string_append_printf(text, ":%d)", py.PyFrame_GetLineNumber(frame));
	kept = g_intern_string(text->str);
	g_string_free(text, TRUE);
	py.Py_DecRef(code);
	return kept;
}

static unsigned int walk(struct frame *frames, unsigned int most)
{
	void *frame = py.PyEval_GetFrame(), *back;
	unsigned int count = 0;

	if (frame)
		py.Py_IncRef(frame);
	while (frame && count < most) {
		frames[count++] = (struct frame){ .text = describe_python(frame) };
		back = py.PyFrame_GetBack(frame);
		py.Py_DecRef(frame);
		frame = back;
	}
	if (frame)
		py.Py_DecRef(frame);
	return count;
}

/* A thread that the interpreter does not know has no frames, and need not wait for its lock. */
unsigned int frames_python(struct frame *frames, unsigned int most)
{
	void *type, *value, *traceback;
	unsigned int count;
	int state;

	if (!find_python() || !py.Py_IsInitialized() || (py.is_finalizing && py.is_finalizing()) ||
	    !py.PyGILState_GetThisThreadState())
		return 0;
	state = py.PyGILState_Ensure();
	py.PyErr_Fetch(&type, &value, &traceback);
	count = walk(frames, most);
	py.PyErr_Restore(type, value, traceback);
	py.PyGILState_Release(state);
	return count;
}
