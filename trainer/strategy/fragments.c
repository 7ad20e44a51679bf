/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments of a model's weights. See fragments.h. */
#include "trainer/strategy/fragments.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where the next fragment begins: among the runs of a stride, the next stride behind. */
struct cutter {
	const struct lh_layer_run *layers;
	size_t n_runs;
	uint32_t n; /* strides */
	uint32_t stride;
	size_t index;	 /* of the run */
	uint64_t offset; /* in it */
};

/* The next run, or NULL. */
static const struct lh_layer_run *next_run(struct cutter *c)
{
	while (c->stride < c->n) {
		while (c->index < c->n_runs && c->layers[c->index].layer % c->n != c->stride)
			c->index++;
		if (c->index < c->n_runs)
			return &c->layers[c->index];
		c->stride++;
		c->index = 0;
	}
	return NULL;
}

/* Gives a fragment its n values. */
static void fill(struct cutter *c, struct lh_fragment *fragment)
{
	uint64_t left = fragment->n;

	while (left) {
		const struct lh_layer_run *from = next_run(c);
		struct lh_run run;

		assert(from);
		run = (struct lh_run){from->run.at + c->offset, from->run.n - c->offset};
		if (run.n > left) {
			run.n = left;
			c->offset += left;
		} else {
			c->offset = 0;
			c->index++;
		}
		left -= run.n;
		if (run.n)
			fragment->runs[fragment->n_runs++] = run;
	}
}

int lh_fragments_cut(uint64_t n_values, uint32_t n, const struct lh_layer_run *layers,
		     size_t n_runs, struct lh_fragments *ret_fragments, struct lh_error *err)
{
	const struct lh_layer_run whole = {.run = {0, n_values}};
	struct cutter cutter = {
		.layers = n_runs ? layers : &whole, .n_runs = n_runs ? n_runs : 1, .n = n};
	struct lh_fragments f = {.n = n};

	if (n > n_values)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.fragments: %" PRIu32 " of %" PRIu64 " parameters", n,
			       n_values);
	f.fragments = calloc(n, sizeof(*f.fragments));
	for (uint32_t i = 0; f.fragments && i < n; i++) {
		struct lh_fragment *one = &f.fragments[i];

		one->n = n_values / n + (i < n_values % n);
		one->runs = calloc(cutter.n_runs, sizeof(*one->runs));
		if (!one->runs) {
			lh_fragments_done(&f);
			break;
		}
		fill(&cutter, one);
	}
	if (!f.fragments)
		return lh_fail(err, LH_ESYS, ENOMEM, "cut the weights into fragments");
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
