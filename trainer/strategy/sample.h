/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real numbers of a replayed averaging: a slice at the begin of every chunk carries seeded
 * gradients, so that every rank can work out what everyone's average must be.
 */
#ifndef LH_TRAINER_SAMPLE_H
#define LH_TRAINER_SAMPLE_H

#include <stdint.h>

/* How long slices are: at most 4096 elements, shorter with many chunks or ranks, so that all slices
 * of all ranks together stay about a million, but at least 8. */
uint64_t lh_sample_slice_elements(uint32_t n_chunks, uint32_t n_ranks);

/* Draws the gradients of n_ranks in a chunk's slice in an epoch, n_elements each, rank by rank:
 * uniform in [-1/64, 1/64), stream "gradient/<epoch>/<chunk>". */
void lh_sample_draw(uint64_t seed, uint32_t epoch, uint32_t chunk, uint32_t n_ranks,
		    uint32_t n_elements, float *ret_values);

/* values[i] *= samples x n / total, in single precision: a rank's weight in a mean over n ranks,
 * before they are added up and divided by n. */
void lh_sample_weigh(float *values, uint64_t n_values, uint64_t samples, uint64_t total,
		     uint32_t n);

#endif
