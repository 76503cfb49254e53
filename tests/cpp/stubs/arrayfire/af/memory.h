// SPDX-License-Identifier: LGPL-2.1-or-later
#ifndef STUBS_AF_MEMORY_H
#define STUBS_AF_MEMORY_H

typedef void *af_memory_manager;

/* Each call of a memory manager, with its arguments; its setter is af_memory_manager_set_NAME_fn(). */
#define AF_MEMORY_MANAGER_CALLS(CALL) \
	CALL(initialize, (af_memory_manager)) \
	CALL(shutdown, (af_memory_manager)) \
	CALL(alloc, (af_memory_manager, void **, int, const unsigned, dim_t *, const unsigned)) \
	CALL(allocated, (af_memory_manager, size_t *, void *)) \
	CALL(unlock, (af_memory_manager, void *, int)) \
	CALL(signal_memory_cleanup, (af_memory_manager)) \
	CALL(print_info, (af_memory_manager, char *, int)) \
	CALL(user_lock, (af_memory_manager, void *)) \
	CALL(user_unlock, (af_memory_manager, void *)) \
	CALL(is_user_locked, (af_memory_manager, int *, void *)) \
	CALL(get_memory_pressure, (af_memory_manager, float *)) \
	CALL(jit_tree_exceeds_memory_pressure, (af_memory_manager, int *, size_t))

#define AF_DECLARE_CALL(name, arguments) \
	typedef af_err(*af_memory_manager_##name##_fn) arguments; \
	af_err af_memory_manager_set_##name##_fn(af_memory_manager manager, af_memory_manager_##name##_fn fn);
AF_MEMORY_MANAGER_CALLS(AF_DECLARE_CALL)

af_err af_create_memory_manager(af_memory_manager *out);
af_err af_release_memory_manager(af_memory_manager manager);
af_err af_set_memory_manager(af_memory_manager manager);
af_err af_unset_memory_manager(void);
af_err af_memory_manager_get_active_device_id(af_memory_manager manager, int *id);
af_err af_memory_manager_native_free(af_memory_manager manager, void *ptr);

#endif
