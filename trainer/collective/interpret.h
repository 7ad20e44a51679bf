/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serial interpreter of collectives: it runs the plans of all members in one process. Building
 * a programme proves that the plans fit together; running it for a chunk tells what every member
 * must end with, bit by bit, with the codec at every hop. Pure functions.
 */
#ifndef LH_TRAINER_COLLECTIVE_INTERPRET_H
#define LH_TRAINER_COLLECTIVE_INTERPRET_H

#include "trainer/collective/plan.h"
#include "trainer/compress/compress.h"

struct lh_collective_program;

/*
 * From the plans of all n members, in any order; they are not needed afterwards. LH_EINPUT where
 * they break a rule of plan.h: chunks or members that differ, a message that nobody expects or
 * sends, numbers counted twice or not at all, a chunk finished twice or never, members that wait
 * for each other for ever. LH_ESYS. *ret_program is given to lh_collective_program_free.
 */
int lh_collective_program_build(const struct lh_collective_plan *plans, uint32_t n,
				struct lh_collective_program **ret_program, struct lh_error *err);

/* NULL is fine. */
void lh_collective_program_free(struct lh_collective_program *program);

/* The member, by its place in the plans, that finishes the chunk; n where the chunk is empty. */
uint32_t lh_collective_program_owner(const struct lh_collective_program *program, uint32_t chunk);

/*
 * Works out what a chunk, or a slice of one, comes to: values holds n runs of n_elements, the
 * members' own numbers in the plans' order, and is used up; n_elements at least 1. divisor: by
 * which sums are divided. scratch: n_elements. ret_wire: the finished chunk, encoded. For
 * all-reduces and reduce-scatters.
 */
void lh_collective_program_run(const struct lh_collective_program *program, uint32_t chunk,
			       const struct lh_codec_ops *codec, float divisor, uint32_t n_elements,
			       float *values, float *scratch, void *ret_wire);

/* values[i] += more[i], in single precision: the one place that reduces, so that rounding is the
 * same everywhere. */
void lh_collective_add(float *values, const float *more, size_t n);

/* values[i] /= divisor, likewise. */
void lh_collective_divide(float *values, size_t n, float divisor);

#endif
