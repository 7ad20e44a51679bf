/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One member's numbers during a collective: what each message carries, and what becomes of those
 * that come. Of every chunk a slice at its begin is real numbers, or the whole of it; the rest of a
 * message is filler, and not here. It holds no sockets: whoever moves messages asks it for their
 * bytes and tells it when they have come.
 */
#ifndef LH_TRAINER_COLLECTIVE_NUMBERS_H
#define LH_TRAINER_COLLECTIVE_NUMBERS_H

#include <stddef.h>

#include "trainer/collective/plan.h"
#include "trainer/compress/compress.h"

/* The real numbers of every chunk, one after another, as numbers and as they are on the wire. */
struct lh_collective_slices {
	uint32_t n_chunks;
	uint64_t *at;	   /* n_chunks + 1: where a chunk's slice begins, elements */
	uint64_t *wire_at; /* n_chunks + 1: likewise, bytes */
	uint64_t longest;  /* elements */
};

struct lh_collective_numbers;

/* At most `most` elements of every chunk; UINT64_MAX: all. LH_EINPUT where that is 2^32 or more;
 * LH_ESYS. */
int lh_collective_slices_init(struct lh_collective_slices *slices,
			      const struct lh_collective_plan *plan,
			      const struct lh_codec_ops *codec, uint64_t most,
			      struct lh_error *err);

/* All zeros is fine. */
void lh_collective_slices_done(struct lh_collective_slices *slices);

/* Elements of the chunk's slice. */
static inline uint32_t lh_collective_slice_elements(const struct lh_collective_slices *slices,
						    uint32_t chunk)
{
	return (uint32_t)(slices->at[chunk + 1] - slices->at[chunk]);
}

/* All is borrowed until close. divisor: by which sums are divided when they are finished; what is
 * only gathered is not.
 * *ret_numbers is given to lh_collective_numbers_close. LH_ESYS. */
int lh_collective_numbers_open(const struct lh_collective_plan *plan,
			       const struct lh_collective_slices *slices,
			       const struct lh_codec_ops *codec, float divisor,
			       struct lh_collective_numbers **ret_numbers, struct lh_error *err);

/* NULL is fine. */
void lh_collective_numbers_close(struct lh_collective_numbers *numbers);

/* Begins a round with the member's own numbers, scaled by its weight already, in the slices' order;
 * they are used up, and stay the caller's. */
void lh_collective_numbers_begin(struct lh_collective_numbers *numbers, float *values);

/* The next phase that may send now, or false. */
bool lh_collective_numbers_next(struct lh_collective_numbers *numbers, uint32_t *ret_phase);

/* The real bytes of a send of a phase that next has told of; they stay as they are until the
 * receiver has them. *ret_n_bytes at least 1. */
const void *lh_collective_numbers_message(struct lh_collective_numbers *numbers, uint32_t send,
					  size_t *ret_n_bytes);

/* Where the real bytes of a receive's message go, and how many they are; at any time from begin. */
void *lh_collective_numbers_room(struct lh_collective_numbers *numbers, uint32_t receive,
				 size_t *ret_n_bytes);

/* A receive's bytes are in its room. */
void lh_collective_numbers_arrive(struct lh_collective_numbers *numbers, uint32_t receive);

bool lh_collective_numbers_is_done(const struct lh_collective_numbers *numbers);

/* The finished chunk as it was on the wire, once all is done (of a reduce-scatter: own chunks
 * alone). */
const void *lh_collective_numbers_wire(const struct lh_collective_numbers *numbers, uint32_t chunk);

/* A chunk's part that was given away, as it was on the wire. */
const void *lh_collective_numbers_part(const struct lh_collective_numbers *numbers, uint32_t chunk);

/* Writes all that is finished here to the values that the round began with. */
void lh_collective_numbers_decode(struct lh_collective_numbers *numbers);

#endif
