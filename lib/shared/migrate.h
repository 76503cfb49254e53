/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls on pages of ranges. */
#ifndef MIGRATE_H
#define MIGRATE_H

#include "shared/shared.h"

/**
 * struct migration - what vpmm_migrate() and vpmm_fault() ask for
 * @addr: where the pages start
 * @size: bytes
 * @to: where to
 * @stream: a stream that uses the range from now on, if @streamed
 * @streamed: whether there is one
 * @fill: empty pages get memory there, and all pages have to get there
 * @only_empty: the others stay where they are
 * @ops: who takes part; NULL: nobody
 * @data: passed to @ops
 * @moved: grows by how many have moved, also if there is an error; NULL: it need not be known
 */
struct migration {
	uint64_t addr;
	size_t size;
	enum vpmm_location to;
	struct CUstream_st *stream;
	bool streamed;
	bool fill;
	bool only_empty;
	const struct vpmm_migrate_ops *ops;
	void *data;
	size_t *moved;
};

/**
 * migrate_pages() - move pages
 * @shared: of the pool, its backend entered; no lock held
 * @want: which, and where to
 *
 * Return: how many have moved, -EINVAL if they are not in one range of the pool, or an error of the backend.
 */
int migrate_pages(struct shared *shared, const struct migration *want);

/**
 * migrate_missing() - the bytes of the pages that have not got there yet
 * @shared: of the pool
 * @want: as for migrate_pages()
 *
 * Return: bytes; 0 also if the range is gone, with the error set.
 */
size_t migrate_missing(struct shared *shared, const struct migration *want);

/**
 * migrate_evict() - have device pages go to the host, the coldest first
 * @shared: of the pool, its backend entered; no lock held
 * @bytes: how much is wanted
 * @call: the number of a call whose pages stay; 0: of none
 *
 * Return: how many bytes of device memory are unused now because of that.
 */
uint64_t migrate_evict(struct shared *shared, uint64_t bytes, uint64_t call);

/**
 * migrate_locate() - where pages are
 * @shared: of the pool
 * @addr: where they start
 * @size: bytes
 * @pages: receives an entry each, to be freed with g_free(); NULL: count them
 *
 * Return: how many, or -EINVAL.
 */
int migrate_locate(struct shared *shared, uint64_t addr, size_t size, struct vpmm_page **pages);

/**
 * migrate_advise() - note an advice
 * @shared: of the pool
 * @addr: where the pages start
 * @size: bytes
 * @advice: the advice
 *
 * No lock is held.
 *
 * Return: 0, -EINVAL, or -ENOMEM.
 */
int migrate_advise(struct shared *shared, uint64_t addr, size_t size, enum vpmm_advice advice);

/**
 * migrate_pin() - have pages stay on the host
 * @shared: of the pool, its backend entered; no lock held
 * @addr: where the pages start
 * @size: bytes
 *
 * Return: 0, -EINVAL, or an error of the backend, with which none is pinned by this.
 */
int migrate_pin(struct shared *shared, uint64_t addr, size_t size);

/**
 * migrate_unpin() - undo that
 * @shared: of the pool
 * @addr: where the pages start
 * @size: bytes
 *
 * Return: 0 or -EINVAL.
 */
int migrate_unpin(struct shared *shared, uint64_t addr, size_t size);

#endif /* MIGRATE_H */
