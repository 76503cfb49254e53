/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tells packagers what an object opens at run time: a note of ELF that programs such as dh_dlopenlibdeps read, see
 * https://systemd.io/ELF_DLOPEN_METADATA.
 */
#ifndef DLOPEN_NOTE_H
#define DLOPEN_NOTE_H

#include <stdint.h>

#define DLOPEN_NOTE_TYPE 0x407c0c0a

/* @json: an array of objects with feature, description, priority and soname. */
#define DLOPEN_NOTE(json) \
	static const struct { \
		uint32_t name_size; \
		uint32_t json_size; \
		uint32_t type; \
		char name[4]; \
		_Alignas(4) char text[sizeof(json)]; \
	} dlopen_note __attribute__((used, section(".note.dlopen"), aligned(4))) = { \
		4, sizeof(json), DLOPEN_NOTE_TYPE, "FDO", json, \
	}

#endif /* DLOPEN_NOTE_H */
