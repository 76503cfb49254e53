/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* VPMM_OVERLAP=auto: fits what the pool holds to an allowance that has changed. */
#ifndef SURPLUS_H
#define SURPLUS_H

struct core;

/**
 * surplus_fit() - give back what is held above the allowance, before a request takes it again
 * @core: the pool's core, its lock held, its backend entered
 *
 * What work is pending on stays for now. A failure is ignored: the next request tries again.
 */
void surplus_fit(struct core *core);

#endif /* SURPLUS_H */
