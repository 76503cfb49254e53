/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call stacks: who called, in C and, where the process has an interpreter of Python, in Python. */
#ifndef FRAMES_H
#define FRAMES_H

#include <glib.h>
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
 * frames_walk() - the calls of this thread, the innermost first, without those of the library
 * @frames: receives FRAMES_MOST at most
 *
 * Context: no lock held. Waits for Python's global lock if the thread has Python frames.
 * Return: how many.
 */
unsigned int frames_walk(struct frame *frames);

/**
 * frames_python() - the Python frames of this thread, the innermost first
 * @frames: receives them
 * @most: how many it has room for
 *
 * Context: as frames_walk().
 * Return: how many; 0: there is no interpreter, or the thread does not run Python.
 */
unsigned int frames_python(struct frame *frames, unsigned int most);

/**
 * frames_in_python() - whether code belongs to the interpreter
 * @pc: an address of it
 */
gboolean frames_in_python(uintptr_t pc);

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
