/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather of sparse messages between some ranks: each sends its own to all others directly, so
 * that one delay passes, not one for every rank as around a ring; the bytes are the same. What the
 * messages say is added up in the order of members, the same everywhere.
 *
 * Messages of a round have one length, which may change from round to round. Where gradients are
 * replayed, the real message is a shorter one, and filler follows.
 */
#ifndef LH_TRAINER_SPARSE_GATHER_H
#define LH_TRAINER_SPARSE_GATHER_H

#include "trainer/collective/run.h"
#include "trainer/compress/sparse.h"

struct lh_sparse_gather;

struct lh_sparse_gather_config {
	struct lh_comm *comm;	 /* borrowed; all members are attached */
	const uint32_t *members; /* their ranks; copied. NULL: 0 to n_members - 1 */
	uint32_t n_members;
	uint32_t self;	   /* a rank */
	uint32_t elements; /* that messages are about */
	uint64_t host_bps; /* see run.h */
};

/* *ret_gather is given to lh_sparse_gather_close. LH_ESYS. */
int lh_sparse_gather_open(const struct lh_sparse_gather_config *config,
			  struct lh_sparse_gather **ret_gather, struct lh_error *err);

/*
 * One round, blocking: own is this member's message; sent_count, at least its count, the elements
 * that all messages have on the wire; both the same at all members. samples: see
 * lh_collective_run_round. A message that is none is LH_ERUN, naming its rank.
 */
int lh_sparse_gather_round(struct lh_sparse_gather *gather, uint32_t epoch, uint64_t samples,
			   const struct lh_sparse *own, uint32_t sent_count,
			   struct lh_collective_done *ret_done, struct lh_error *err);

/* After a round: sum becomes the sum of all members' messages, `elements` numbers. LH_ERUN. */
int lh_sparse_gather_sum(struct lh_sparse_gather *gather, float *ret_sum, struct lh_error *err);

/* NULL is fine. */
void lh_sparse_gather_close(struct lh_sparse_gather *gather);

#endif
