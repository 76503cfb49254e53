/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The file that the processes of a budget have in common: where it is, what is in it, and who may use it.
 *
 * It is a header and a slot for each pool. A slot is written by its pool alone, but for what is asked of it, and counts
 * as long as its pool holds the lock of the slot's byte, which the kernel releases when the process ends, in whatever
 * way. So no sum is kept anywhere that a death could leave wrong. What others have written is never trusted: amounts
 * are cut to the budget, and there is nothing that is followed.
 */
#ifndef BUDGET_FILE_H
#define BUDGET_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/descriptor.h"

#define BUDGET_SLOTS 256

#define BUDGET_UUID 16

/* Bytes to lock: of whoever joins, and of each slot. */
#define BUDGET_BYTE_JOIN 0
#define BUDGET_BYTE_SLOT 1

/**
 * struct budget_slot - one pool, with its arenas
 * @taken: bytes of device memory that it has, or is about to create
 * @want: bytes that it is about to take, if the sum allows that
 * @floor: bytes that it is sure of
 * @idle: bytes of whole extents that were free at its latest call on the slow path
 * @last: when that was, on CLOCK_MONOTONIC in nanoseconds
 * @ask: bytes that others ask it to give back; written by those too
 * @answered: how often it has done so
 * @weight: what is beyond the floors is shared by weight
 * @bell: a futex: something is asked; written by others too
 * @pid: of the process, in the namespace of @space
 * @space: the inode of its namespace of processes
 * @born: when the process began, as /proc has it; 0: not known
 * @program: its name, with zeros behind it
 */
struct budget_slot {
	_Alignas(128) _Atomic uint64_t taken;
	_Atomic uint64_t want;
	_Atomic uint64_t floor;
	_Atomic uint64_t idle;
	_Atomic uint64_t last;
	_Atomic uint64_t ask;
	_Atomic uint64_t answered;
	_Atomic uint64_t born;
	_Atomic uint64_t space;
	_Atomic uint32_t weight;
	_Atomic uint32_t bell;
	_Atomic uint32_t pid;
	_Atomic char program[16];
};

/**
 * struct budget_file - all of the file
 * @magic: BUDGET_MAGIC, which tells versions apart too; zeros: the file is new
 * @size: bytes that the pools share
 * @used: slots from this one on were never used
 * @released: a futex: a slot has less, or has answered
 * @died: when a slot was found whose process had ended without leaving, as @last
 * @slots: of pools
 */
struct budget_file {
	char magic[16];
	_Atomic uint64_t size;
	_Atomic uint64_t died;
	_Atomic uint32_t used;
	_Atomic uint32_t released;
	struct budget_slot slots[BUDGET_SLOTS];
};

#define BUDGET_MAGIC "vpmm budget 1\n"

/**
 * budget_path() - where the file of a budget is
 * @name: of the budget, as budget_parse() allows it
 * @uuid: of the device
 *
 * Return: the path, to be freed by g_free().
 */
char *budget_path(const char *name, const unsigned char uuid[BUDGET_UUID]);

/**
 * budget_lock_byte() - lock a byte of the file, or unlock it
 * @fd: a descriptor of the file, which has the lock then
 * @byte: of BUDGET_BYTE_
 * @type: F_WRLCK or F_UNLCK
 *
 * Return: 0; -EAGAIN if another description of the file has the lock; or another error of fcntl().
 */
int budget_lock_byte(int fd, off_t byte, short type);

/**
 * budget_lock_join() - lock BUDGET_BYTE_JOIN, and wait for it as long as a process may need
 * @fd: a descriptor of the file
 * @name: of the file or the budget, for the text of an error
 *
 * Return: 0; -EBUSY if another process keeps it; or another error of fcntl().
 */
int budget_lock_join(int fd, const char *name);

/**
 * budget_open() - open the file of a budget, and create it if there is none
 * @path: of budget_path()
 * @own: the folder is the library's own, and is created as well
 * @locks: receives a descriptor that no other has the locks of; @file keeps these if it is closed
 * @file: receives the contents; a forked child has neither
 *
 * Return: 0; -EINVAL if the file or its folder is not what it should be, or anybody else's; or the error of the system
 * call.
 */
int budget_open(const char *path, bool own, struct descriptor *locks, struct budget_file **file);

/**
 * budget_close() - undo budget_open()
 * @locks: the descriptor, with whatever it has locked; it may have been closed already
 * @file: the contents
 */
void budget_close(struct descriptor *locks, struct budget_file *file);

#endif /* BUDGET_FILE_H */
