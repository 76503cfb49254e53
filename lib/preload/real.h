/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* dlsym() of the C library, behind ours. */
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
 * real_dlsym_address() - dlsym() of the C library, or of an object behind ours that stands in front of it
 *
 * Context: any thread, also before the constructors of the program have run.
 */
dlsym_fn *real_dlsym_address(void);

/**
 * real_dlsym() - look a symbol up as if ours were not preloaded
 * @handle: as for dlsym(); RTLD_NEXT is what follows the preload object
 * @name: the symbol
 *
 * Context: that of real_dlsym_address().
 * Return: its address, or NULL.
 */
void *real_dlsym(void *handle, const char *name);

#endif /* PRELOAD_REAL_H */
