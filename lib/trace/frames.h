/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call stacks: who called, in C and, where the process has an interpreter of Python, in Python. */
#ifndef FRAMES_H
#define FRAMES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A stack is cut off behind so many. */
#define FRAMES_MOST 48

/**
 * struct frame - a call that has not returned
 * @pc: where it goes on; 0: it is one of Python
 * @text: of Python: "function (file:line)", a string that lasts
 */
struct frame {
	uintptr_t pc;
	const char *text;
};

/**
 * struct call - a call, and all those inside of it
 * @inner: the call inside of it; NULL: this is the beginning, and no call
 * @frame: the call itself
 * @count: of calls, with this one
 * @next: in the same bucket
 *
 * The same calls are one struct, which stays until the process ends. So a pointer to the outermost is a whole stack.
 */
struct call {
	const struct call *inner;
	struct frame frame;
	unsigned int count;
	struct call *next;
};

/* The beginning of all stacks, and a stack without calls. */
extern const struct call frames_none;

/**
 * frames_add() - the stack that has one more call
 * @inner: the stack
 * @frame: the call outside of it
 *
 * Context: any lock but frames_lock may be held.
 * Return: the stack; @inner if it is full, or if there are too many stacks.
 */
const struct call *frames_add(const struct call *inner, struct frame frame);

/**
 * frames_list() - the frames of a stack, the innermost first
 * @calls: the stack
 * @frames: receives them
 *
 * Return: how many.
 */
unsigned int frames_list(const struct call *calls, struct frame frames[FRAMES_MOST]);

/**
 * frames_native() - the calls of this thread that are not Python's, up to those of the interpreter, without those of
 *	the library
 *
 * Context: no lock held.
 */
const struct call *frames_native(void);

/**
 * frames_python() - the same with the Python frames of this thread
 * @calls: the stack inside of them
 *
 * Context: no lock held. Waits for Python's global lock if the thread has Python frames.
 * Return: the stack; @calls if there is no interpreter, or if the thread does not run Python.
 */
const struct call *frames_python(const struct call *calls);

/**
 * frames_find_python() - look for an interpreter, which may be loaded at any time
 *
 * Return: whether there is one.
 */
bool frames_find_python(void);

/**
 * frames_in_python() - whether code belongs to the interpreter that frames_find_python() found
 * @pc: an address of it
 */
bool frames_in_python(uintptr_t pc);

/**
 * frames_object() - the range of addresses of the object that an address is in
 * @addr: the address
 * @low: receives the first; unchanged if there is none
 * @high: receives the end
 *
 * Return: 1: it is the program; 0: it is a shared object; -1: there is none.
 */
int frames_object(uintptr_t addr, uintptr_t *low, uintptr_t *high);

/**
 * frames_describe() - say what a frame is
 * @frame: the frame
 * @out: receives "FUNCTION (OBJECT+0xOFFSET)", with the offset of the call as addr2line(1) wants it; or Python's text
 */
void frames_describe(const struct frame *frame, GString *out);

/**
 * frames_name() - say it in few words
 * @frame: the frame
 * @out: receives the function; of one that has no name, the object and the offset in it
 */
void frames_name(const struct frame *frame, GString *out);

#endif /* FRAMES_H */
