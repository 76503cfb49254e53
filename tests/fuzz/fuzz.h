/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a fuzz target is: a function that takes any bytes, and aborts when something does not hold. libFuzzer and AFL++
 * call it with bytes of theirs, replay.c with those of files.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Sees to it that errors of GLib's abort, which fuzzers take note of, rather than trap, which they do not. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* FUZZ_H */
