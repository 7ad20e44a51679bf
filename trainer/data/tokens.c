/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of language models. See tokens.h. */
#include "trainer/data/tokens.h"

#include <assert.h>

#include "trainer/data/bpe.h"
#include "trainer/data/dataset_internal.h"

enum { BYTES = 256 };

static const uint32_t n_tokens_default = 128;
static const double mask_probability_default = 0.15;
static const double masked_share = 0.8, random_share = 0.1;

size_t lh_tokens_window(const struct lh_tokens *t)
{
	return (size_t)t->n_tokens + (t->objective == LH_DATA_CAUSAL);
}

static int32_t disguise(const struct lh_tokens *t, int32_t token, struct lh_rng *rng)
{
	double u = lh_rng_uniform(rng);

	if (u < masked_share)
		return t->mask;
	if (u < masked_share + random_share)
		return (int32_t)lh_rng_below(rng, t->n_known);
	return token;
}

/* Picks `left` of n positions, each set of them equally likely, in one pass. Source: D. Knuth,
 * The Art of Computer Programming, 3.4.2, algorithm S. */
static void mask(const struct lh_tokens *t, size_t n, struct lh_rng *rng, int32_t *tokens,
		 int32_t *targets)
{
	size_t left = (size_t)(t->mask_probability * (double)n + lh_rng_uniform(rng));

	for (size_t i = 0; i < n; i++) {
		if (lh_rng_below(rng, n - i) >= left)
			continue;
		left--;
		targets[i] = tokens[i];
		tokens[i] = disguise(t, tokens[i], rng);
	}
}

void lh_tokens_sample(const struct lh_tokens *t, const int32_t *window, size_t n,
		      struct lh_rng *rng, int32_t *ret_tokens, int32_t *ret_targets)
{
	bool is_causal = t->objective == LH_DATA_CAUSAL;

	assert(n <= lh_tokens_window(t));
	for (size_t i = 0; i < t->n_tokens; i++) {
		ret_tokens[i] = i < n ? window[i] : t->mask;
		ret_targets[i] = is_causal && i + 1 < n ? window[i + 1] : -1;
	}
	if (!is_causal)
		mask(t, n, rng, ret_tokens, ret_targets);
}

static int init(struct lh_tokens *t, struct lh_dataset *ds, uint32_t n_known, int32_t mask,
		struct lh_error *err)
{
	struct lh_data_request *spec = &ds->spec;
	bool is_causal = spec->objective == LH_DATA_CAUSAL;
	uint32_t n_all = n_known + (mask < 0 && !is_causal);

	/* nothing is masked, and what pads comes after all that is foretold */
	if (mask < 0)
		mask = is_causal ? 0 : (int32_t)n_known;

	if (spec->vocab_size && spec->vocab_size < n_all)
		return lh_fail(err, LH_EINPUT, 0,
			       "data: vocab_size is %u; the data's tokens with one to mask and to "
			       "pad are %u",
			       spec->vocab_size, n_all);
	spec->vocab_size = spec->vocab_size ? spec->vocab_size : n_all;
	spec->n_tokens = spec->n_tokens ? spec->n_tokens : n_tokens_default;
	if (spec->mask_probability == 0)
		spec->mask_probability = mask_probability_default;
	*t = (struct lh_tokens){.n_known = n_known,
				.mask = mask,
				.n_tokens = spec->n_tokens,
				.objective = spec->objective,
				.mask_probability = spec->mask_probability};
	lh_dataset_add_field(ds, "tokens", LH_DATA_I32, 1, spec->n_tokens, 0, 0);
	lh_dataset_add_field(ds, "targets", LH_DATA_I32, 1, spec->n_tokens, 0, 0);
	return 0;
}

int lh_tokens_init(struct lh_tokens *t, struct lh_dataset *ds, const struct lh_bpe *bpe,
		   struct lh_error *err)
{
	return bpe ? init(t, ds, lh_bpe_size(bpe), lh_bpe_find(bpe, "<mask>"), err)
		   : init(t, ds, BYTES, -1, err);
}

int lh_tokens_init_plain(struct lh_tokens *t, struct lh_dataset *ds, uint32_t n_known,
			 struct lh_error *err)
{
	return init(t, ds, n_known, -1, err);
}
