/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* VPMM_PRELOAD_REPORT: what the library did for the program. */
#ifndef PRELOAD_REPORT_H
#define PRELOAD_REPORT_H

/**
 * report_pool() - add a line on the default pool of the current device to the report
 * @device: the device's ordinal
 *
 * Context: any thread; the device's primary context is current, and the library is in use.
 */
void report_pool(int device);

/**
 * report_at_exit() - have what is left when the process exits added to the report
 *
 * Of a process that was served nothing, a line says that, and which object stands in front of us, if one does.
 *
 * Context: any thread, after cuInit(): what is registered later runs before the driver's own end.
 */
void report_at_exit(void);

#endif /* PRELOAD_REPORT_H */
