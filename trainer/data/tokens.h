/* SPDX-License-Identifier: Apache-2.0 */
/* From a run of tokens to a sample of a language model: causal, or masked as RoBERTa does. */
#ifndef LH_TRAINER_DATA_TOKENS_H
#define LH_TRAINER_DATA_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "core/rng.h"
#include "trainer/data/dataset.h"

/* How samples are made of tokens 0 <= token < n_known. */
struct lh_tokens {
	uint32_t n_known;
	int32_t mask;	   /* also pads; n_known where the tokeniser has none of its own */
	uint32_t n_tokens; /* of one sample */
	enum lh_data_objective objective;
	double mask_probability;
};

/* How many tokens a sample looks at: one more than it has where targets are the next ones. */
size_t lh_tokens_window(const struct lh_tokens *t);

/*
 * Makes a sample of window[n], 1 <= n <= lh_tokens_window(): what is missing is padding
 * without targets. Masked: the share mask_probability of the n tokens (rounded by chance) are
 * targets, and of these 80 % become the mask, 10 % any token, 10 % stay. rng is used where
 * masked.
 * Source: Y. Liu et al., RoBERTa, 2019, section 2.2; J. Devlin et al., BERT, 2018, section 3.1.
 */
void lh_tokens_sample(const struct lh_tokens *t, const int32_t *window, size_t n,
		      struct lh_rng *rng, int32_t *ret_tokens, int32_t *ret_targets);

struct lh_bpe;
struct lh_dataset;

/* Takes the tokens of a tokeniser (its <mask>, where it has one), or bytes where that is NULL.
 * Fills in the spec's zeros, refuses a vocab_size that the tokens and the mask do not fit in, and
 * adds the fields tokens and targets. */
int lh_tokens_init(struct lh_tokens *t, struct lh_dataset *ds, const struct lh_bpe *bpe,
		   struct lh_error *err);

/* The same for n_known tokens, none of them a mask. */
int lh_tokens_init_plain(struct lh_tokens *t, struct lh_dataset *ds, uint32_t n_known,
			 struct lh_error *err);

#endif
