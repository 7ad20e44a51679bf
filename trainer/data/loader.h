/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of samples, epoch after epoch. An epoch's order is a function of seed and epoch; the
 * position alone says what comes next, so that it is all a checkpoint keeps.
 */
#ifndef LH_TRAINER_DATA_LOADER_H
#define LH_TRAINER_DATA_LOADER_H

#include <stdbool.h>

#include "trainer/data/dataset.h"

struct lh_loader_spec {
	uint64_t seed;
	bool in_order; /* not shuffled, for evaluation */
	/* Samples to go through, borrowed (lh_shards_of); NULL: all of the dataset. */
	const uint32_t *indices;
	uint64_t n_indices;
	/*
	 * Takes positions rank, rank + n_ranks, ... of the order: n ranks with the same indices and
	 * seed see, batch by batch of n samples each, what one rank sees with n times the batch.
	 * 0 of 1 for a rank with indices of its own; n_ranks 0 is 1.
	 */
	uint32_t rank;
	uint32_t n_ranks;
	/* Images alone: moved by up to this many pixels, filled with the mean, and mirrored left
	 * to right every other time; by (seed, epoch, sample). */
	uint32_t crop_padding;
	bool flip;
	/* Speech alone: its spectrogram is moved by up to a sixteenth in time and in frequency, and
	 * up to an eighth of the frames and of the channels is made silent; by (seed, epoch,
	 * sample). Source of the masks: D. Park et al., SpecAugment, 2019, arXiv 1904.08779. */
	bool disguises_voices;
};

struct lh_loader;

/* Begins at position 0. ds is borrowed, and used by one loader at a time. LH_EINPUT: a rank that
 * is not below n_ranks, images asked to be moved that are none. */
int lh_loader_new(struct lh_dataset *ds, const struct lh_loader_spec *spec, struct lh_loader **ret,
		  struct lh_error *err);

void lh_loader_free(struct lh_loader *loader);

/* Writes the next n_samples into one buffer per field [n_samples, ...], and goes on; on failure
 * the position stays. Allocates nothing. */
int lh_loader_next(struct lh_loader *loader, uint32_t n_samples, void *const *ret_fields,
		   struct lh_error *err);

/* How many samples this loader has given out; lh_loader_seek() goes anywhere at once. */
uint64_t lh_loader_position(const struct lh_loader *loader);
void lh_loader_seek(struct lh_loader *loader, uint64_t position);

/* The epoch of the next sample, and how many samples all ranks together have in one. */
uint64_t lh_loader_epoch(const struct lh_loader *loader);
uint64_t lh_loader_epoch_size(const struct lh_loader *loader);

#endif
