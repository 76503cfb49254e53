/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether a sanitizer is in use that tracks memory, or threads; each compiler has a macro of its own. */
#ifndef SANITIZED_H
#define SANITIZED_H

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if defined(__SANITIZE_THREAD__)
#define SANITIZED_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREADS 1
#endif
#endif
#ifndef SANITIZED_THREADS
#define SANITIZED_THREADS 0
#endif

#endif /* SANITIZED_H */
