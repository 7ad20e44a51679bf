/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments of a model's weights. See fragments.h. */
#include "trainer/strategy/fragments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int lh_fragments_cut(uint64_t n_values, uint32_t n, struct lh_fragments *ret_fragments,
		     struct lh_error *err)
{
	struct lh_fragments f = {.n = n, .fragments = calloc(n, sizeof(*f.fragments))};
	uint64_t at = 0;
	bool has_memory = f.fragments;

	if (n > n_values) {
		lh_fragments_done(&f);
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.fragments: %" PRIu32 " of %" PRIu64 " parameters", n,
			       n_values);
	}
	for (uint32_t i = 0; has_memory && i < n; i++) {
		struct lh_fragment *one = &f.fragments[i];

		one->n = n_values / n + (i < n_values % n);
		one->n_runs = 1;
		one->runs = calloc(1, sizeof(*one->runs));
		has_memory = one->runs;
		if (has_memory)
			one->runs[0] = (struct lh_run){at, one->n};
		at += one->n;
	}
	if (!has_memory) {
		lh_fragments_done(&f);
		return lh_fail(err, LH_ESYS, ENOMEM, "cut the weights into fragments");
	}
	*ret_fragments = f;
	return 0;
}

void lh_fragments_done(struct lh_fragments *fragments)
{
	for (uint32_t i = 0; fragments->fragments && i < fragments->n; i++)
		free(fragments->fragments[i].runs);
	free(fragments->fragments);
	*fragments = (struct lh_fragments){0};
}

void lh_fragment_gather(const struct lh_fragment *fragment, const float *flat, float *ret_values)
{
	for (uint32_t r = 0; r < fragment->n_runs; r++) {
		memcpy(ret_values, flat + fragment->runs[r].at,
		       fragment->runs[r].n * sizeof(*flat));
		ret_values += fragment->runs[r].n;
	}
}

void lh_fragment_scatter(const struct lh_fragment *fragment, const float *values, float *flat)
{
	for (uint32_t r = 0; r < fragment->n_runs; r++) {
		memcpy(flat + fragment->runs[r].at, values, fragment->runs[r].n * sizeof(*flat));
		values += fragment->runs[r].n;
	}
}

bool lh_fragment_is_due(uint32_t i, uint32_t n, uint32_t period, uint32_t epoch)
{
	uint32_t offset = (uint32_t)((uint64_t)period * i / n);

	return (epoch + 1 - offset) % period == 0 && epoch + 1 >= offset;
}
