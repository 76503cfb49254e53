/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* dlsym() behind ours. */
#ifndef PRELOAD_REAL_H
#define PRELOAD_REAL_H

/* For what can run before the runtime of a sanitizer is ready. Clang's no_sanitize leaves calls of that in. */
#if defined(__has_attribute) && __has_attribute(disable_sanitizer_instrumentation)
#define NOT_SANITIZED __attribute__((disable_sanitizer_instrumentation))
#else
#define NOT_SANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))
#endif

typedef void *dlsym_fn(void *handle, const char *name);

/**
 * real_dlsym() - look a symbol up as if no object stood in front of the C library's dlsym()
 * @handle: as for dlsym(); RTLD_NEXT is what follows the preload object
 * @name: the symbol
 *
 * Context: any thread, also before the constructors of the program have run.
 * Return: its address, or NULL.
 */
void *real_dlsym(void *handle, const char *name);

/**
 * real_dlsym_address() - the C library's dlsym(), or one that stands in front of it under the same version
 *
 * Context: that of real_dlsym().
 */
dlsym_fn *real_dlsym_address(void);

/**
 * real_dlsym_next() - the dlsym() that the program would have without us
 *
 * That is the C library's, unless an object behind ours has one, such as a library of quotas.
 *
 * Context: that of real_dlsym().
 */
dlsym_fn *real_dlsym_next(void);

/**
 * real_object() - the object that an address is in
 * @address: any
 *
 * Context: any thread.
 * Return: where the object begins; NULL: it is in none.
 */
const void *real_object(const void *address);

#endif /* PRELOAD_REAL_H */
