/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of datasets. See shard.h. */
#include "trainer/data/shard.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/rng.h"

enum { SITES_MAX = 4096, RANKS_MAX = 65536 };

static const double alpha_min = 1e-3, alpha_max = 1e6;

struct lh_shards {
	uint32_t n_ranks;
	uint64_t *starts; /* [n_ranks + 1] within indices */
	uint32_t *indices;
};

/* While splitting. */
struct split {
	const struct lh_shard_spec *spec;
	uint32_t n_ranks;
	uint64_t n;
	uint32_t *order;       /* all samples, in the order in which they are dealt out */
	uint64_t *site_starts; /* [n_sites + 1] within order; but of iid */
	struct lh_rng rng;
};

static void shuffle(struct lh_rng *rng, uint32_t *values, uint64_t n)
{
	for (uint64_t i = n; i > 1; i--) {
		uint64_t j = lh_rng_below(rng, i);
		uint32_t value = values[j];

		values[j] = values[i - 1];
		values[i - 1] = value;
	}
}

/* ---- skew --------------------------------------------------------------------------------- */

/* The logarithm of a gamma-distributed number of the given shape; small shapes would underflow
 * without it. Source: G. Marsaglia, W. Tsang, A Simple Method for Generating Gamma Variables,
 * 2000. */
static double log_gamma_variate(struct lh_rng *rng, double shape)
{
	double extra = shape < 1 ? log(1 - lh_rng_uniform(rng)) / shape : 0;
	double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;

	for (;;) {
		double x = lh_rng_normal(rng), v = 1 + x / sqrt(9 * d);
		double u = 1 - lh_rng_uniform(rng);

		if (v <= 0)
			continue;
		v = v * v * v;
		if (log(u) < x * x / 2 + d - d * v + d * log(v))
			return log(d * v) + extra;
	}
}

/* The sites' shares of one label. */
static void draw_shares(struct split *s, double *ret)
{
	const struct lh_shard_spec *spec = s->spec;
	double greatest = -INFINITY, sum = 0;

	for (uint32_t i = 0; i < spec->n_sites; i++) {
		ret[i] = log_gamma_variate(&s->rng, spec->alpha * spec->n_ranks[i] * spec->n_sites /
							    s->n_ranks);
		greatest = fmax(greatest, ret[i]);
	}
	for (uint32_t i = 0; i < spec->n_sites; i++)
		sum += ret[i] = exp(ret[i] - greatest);
	for (uint32_t i = 0; i < spec->n_sites; i++)
		ret[i] /= sum;
}

/* Says in sites[i] to which site sample order[i] goes; order is sorted by label. */
static void deal_label(struct split *s, uint64_t begin, uint64_t end, double *shares,
		       uint32_t *sites)
{
	double until = 0;
	uint64_t at = begin;

	draw_shares(s, shares);
	for (uint32_t i = 0; i < s->spec->n_sites; i++) {
		uint64_t stop;

		until += shares[i];
		stop = begin + (uint64_t)llround(until * (double)(end - begin));
		if (i + 1 == s->spec->n_sites || stop > end)
			stop = end;
		for (; at < stop; at++)
			sites[at] = i;
	}
}

/* Stable: a copy of `from` in the order of keys below n_keys; starts[n_keys + 1] are filled. */
static void sort_by_key(const uint32_t *from, const uint32_t *keys, uint64_t n, uint32_t n_keys,
			uint64_t *starts, uint32_t *ret)
{
	memset(starts, 0, (n_keys + 1) * sizeof(*starts));
	for (uint64_t i = 0; i < n; i++)
		starts[keys[i] + 1]++;
	for (uint32_t k = 0; k < n_keys; k++)
		starts[k + 1] += starts[k];
	for (uint64_t i = 0; i < n; i++)
		ret[starts[keys[i]]++] = from[i];
	for (uint32_t k = n_keys; k > 0; k--)
		starts[k] = starts[k - 1];
	starts[0] = 0;
}

static int deal_skewed(struct split *s, const struct lh_dataset *ds, struct lh_error *err)
{
	uint32_t n_labels = lh_dataset_n_labels(ds), n_sites = s->spec->n_sites;
	lh_cleanup_free uint32_t *keys = malloc(s->n * sizeof(*keys));
	lh_cleanup_free uint32_t *sorted = malloc(s->n * sizeof(*sorted));
	lh_cleanup_free uint64_t *starts = malloc(((size_t)n_labels + 1) * sizeof(*starts));
	lh_cleanup_free double *shares = malloc(n_sites * sizeof(*shares));

	if (!keys || !sorted || !starts || !shares)
		return lh_fail(err, LH_ESYS, ENOMEM, "split data");
	for (uint64_t i = 0; i < s->n; i++)
		keys[i] = (uint32_t)lh_dataset_label(ds, s->order[i]);
	sort_by_key(s->order, keys, s->n, n_labels, starts, sorted);
	for (uint32_t label = 0; label < n_labels; label++)
		deal_label(s, starts[label], starts[label + 1], shares, keys);
	sort_by_key(sorted, keys, s->n, n_sites, s->site_starts, s->order);
	/* or the first ranks of a site would get its first labels */
	for (uint32_t i = 0; i < n_sites; i++)
		shuffle(&s->rng, s->order + s->site_starts[i],
			s->site_starts[i + 1] - s->site_starts[i]);
	return 0;
}

/* ---- places -------------------------------------------------------------------------------- */

static void place(struct split *s)
{
	double sum = 0, until = 0;

	for (uint32_t i = 0; i < s->spec->n_sites; i++)
		sum += s->spec->shares[i];
	for (uint32_t i = 0; i < s->spec->n_sites; i++) {
		until += s->spec->shares[i];
		s->site_starts[i + 1] = (uint64_t)llround(until / sum * (double)s->n);
	}
	s->site_starts[s->spec->n_sites] = s->n;
}

/* ---- splitting ---------------------------------------------------------------------------- */

/* Cuts what a site has into equal parts for its ranks; or all at once, where sites do not
 * matter. */
static int cut(const struct split *s, struct lh_shards *shards, struct lh_error *err)
{
	uint32_t rank = 0;

	for (uint32_t i = 0; i < s->spec->n_sites; i++)
		for (uint32_t j = 0; j < s->spec->n_ranks[i]; j++, rank++) {
			uint64_t begin = s->site_starts[i], n = s->site_starts[i + 1] - begin;

			shards->starts[rank] = s->spec->mode == LH_SHARD_IID
						       ? s->n * rank / s->n_ranks
						       : begin + n * j / s->spec->n_ranks[i];
		}
	shards->starts[rank] = s->n;
	for (uint32_t r = 0; r < s->n_ranks; r++)
		if (shards->starts[r] == shards->starts[r + 1])
			return lh_fail(err, LH_EINPUT, 0,
				       "split data: rank %u of %u would have none of the %llu "
				       "samples; fewer ranks, another seed, a larger alpha (%g) or "
				       "a larger share would give it some",
				       r, s->n_ranks, (unsigned long long)s->n, s->spec->alpha);
	return 0;
}

static int check(const struct lh_dataset *ds, const struct lh_shard_spec *spec, uint32_t *ret_ranks,
		 struct lh_error *err)
{
	uint64_t n_ranks = 0;

	if (spec->n_sites < 1 || spec->n_sites > SITES_MAX)
		return lh_fail(err, LH_EINPUT, 0, "split data: %u sites; 1 to %d", spec->n_sites,
			       SITES_MAX);
	for (uint32_t i = 0; i < spec->n_sites; i++) {
		n_ranks += spec->n_ranks[i];
		if (spec->n_ranks[i] < 1 || n_ranks > RANKS_MAX)
			return lh_fail(err, LH_EINPUT, 0,
				       "split data: site %u has %u ranks; at least 1, all sites at "
				       "most %d",
				       i, spec->n_ranks[i], RANKS_MAX);
	}
	if (lh_dataset_size(ds) > UINT32_MAX)
		return lh_fail(err, LH_EINPUT, 0, "split data: more than %u samples", UINT32_MAX);
	if (spec->mode == LH_SHARD_SKEWED && !lh_dataset_n_labels(ds))
		return lh_fail(err, LH_EINPUT, 0,
			       "split data: %s has no labels that sites could be skewed by",
			       lh_dataset_spec(ds)->kind);
	if (spec->mode == LH_SHARD_SKEWED &&
	    !(spec->alpha >= alpha_min && spec->alpha <= alpha_max))
		return lh_fail(err, LH_EINPUT, 0, "split data: alpha is %g; from %g to %g",
			       spec->alpha, alpha_min, alpha_max);
	for (uint32_t i = 0; spec->mode == LH_SHARD_PLACED && i < spec->n_sites; i++)
		if (!(spec->shares[i] > 0))
			return lh_fail(
				err, LH_EINPUT, 0,
				"split data: the share of site %u is %g; expected more than 0", i,
				spec->shares[i]);
	*ret_ranks = (uint32_t)n_ranks;
	return 0;
}

static int deal(struct split *s, const struct lh_dataset *ds, struct lh_shards *shards,
		struct lh_error *err)
{
	int r = 0;

	for (uint64_t i = 0; i < s->n; i++)
		s->order[i] = (uint32_t)i;
	lh_rng_init(&s->rng, s->spec->seed, "data/shards");
	shuffle(&s->rng, s->order, s->n);
	if (s->spec->mode == LH_SHARD_SKEWED)
		r = deal_skewed(s, ds, err);
	if (s->spec->mode == LH_SHARD_PLACED)
		place(s);
	return r < 0 ? r : cut(s, shards, err);
}

int lh_shards_make(const struct lh_dataset *ds, const struct lh_shard_spec *spec,
		   struct lh_shards **ret, struct lh_error *err)
{
	struct split s = {.spec = spec, .n = lh_dataset_size(ds)};
	struct lh_shards *shards;
	int r = check(ds, spec, &s.n_ranks, err);

	if (r < 0)
		return r;
	shards = calloc(1, sizeof(*shards));
	if (!shards)
		return lh_fail(err, LH_ESYS, ENOMEM, "split data");
	shards->n_ranks = s.n_ranks;
	shards->starts = malloc(((size_t)s.n_ranks + 1) * sizeof(*shards->starts));
	shards->indices = s.order = malloc(s.n * sizeof(*s.order));
	s.site_starts = calloc((size_t)spec->n_sites + 1, sizeof(*s.site_starts));
	if (!shards->starts || !s.order || !s.site_starts)
		r = lh_fail(err, LH_ESYS, ENOMEM, "split data");
	else
		r = deal(&s, ds, shards, err);
	free(s.site_starts);
	if (r < 0) {
		lh_shards_free(shards);
		return r;
	}
	*ret = shards;
	return 0;
}

void lh_shards_free(struct lh_shards *shards)
{
	if (!shards)
		return;
	free(shards->starts);
	free(shards->indices);
	free(shards);
}

const uint32_t *lh_shards_of(const struct lh_shards *shards, uint32_t rank, uint64_t *ret_n)
{
	assert(rank < shards->n_ranks);
	*ret_n = shards->starts[rank + 1] - shards->starts[rank];
	return shards->indices + shards->starts[rank];
}
