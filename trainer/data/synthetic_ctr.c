/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind synthetic-ctr: clicks by a hidden logistic model of the numbers, the categories, and
 * pairs of categories, as factorisation machines have them. Frequent categories are few.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "trainer/data/synthetic_internal.h"

enum { DENSE_DEFAULT = 13, SPARSE_DEFAULT = 26, BUCKETS_DEFAULT = 10000, ROWS_MAX = 1 << 26 };

/* Standard deviations of the three parts of a click's log-odds. */
static const double dense_part = 1.0, sparse_part = 1.2, pair_part = 1.2;
static const double intercept = -1.0;

struct clicks {
	float *dense;	/* [n_dense] weights */
	float *weights; /* [n_sparse * n_buckets] */
	float *factors; /* [n_sparse * n_buckets] */
};

static void draw(struct lh_rng *rng, double stddev, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)stddev * lh_synthetic_noise(rng);
}

static int open_clicks(struct lh_dataset *ds, struct lh_error *err)
{
	struct clicks *s = ds->state = calloc(1, sizeof(*s));
	struct lh_data_request *spec = &ds->spec;
	struct lh_rng rng;
	size_t n_rows;

	if (!s)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	if (!spec->n_dense && !spec->n_sparse) {
		spec->n_dense = DENSE_DEFAULT;
		spec->n_sparse = SPARSE_DEFAULT;
	}
	spec->n_buckets = spec->n_buckets ? spec->n_buckets : BUCKETS_DEFAULT;
	n_rows = (size_t)spec->n_sparse * spec->n_buckets;
	if (n_rows > ROWS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "data: n_sparse x n_buckets is %zu; at most %d",
			       n_rows, ROWS_MAX);
	s->dense = malloc(sizeof(float) * (spec->n_dense + 1));
	s->weights = malloc(sizeof(float) * (n_rows + 1));
	s->factors = malloc(sizeof(float) * (n_rows + 1));
	if (!s->dense || !s->weights || !s->factors)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	lh_synthetic_model_rng(&rng, spec);
	draw(&rng, dense_part / sqrt(fmax(spec->n_dense, 1)), s->dense, spec->n_dense);
	draw(&rng, sparse_part / sqrt(fmax(spec->n_sparse, 1)), s->weights, n_rows);
	draw(&rng, sqrt(pair_part / sqrt(fmax(spec->n_sparse, 1))), s->factors, n_rows);
	ds->size = lh_synthetic_size(spec);
	ds->n_labels = 2;
	lh_dataset_add_field(ds, "dense", LH_DATA_F32, 1, spec->n_dense, 0, 0);
	lh_dataset_add_field(ds, "sparse", LH_DATA_I32, 1, spec->n_sparse, 0, 0);
	lh_dataset_add_field(ds, "labels", LH_DATA_I32, 0, 0, 0, 0);
	return 0;
}

static void close_clicks(struct lh_dataset *ds)
{
	struct clicks *s = ds->state;

	free(s->dense);
	free(s->weights);
	free(s->factors);
	free(s);
}

/* Draws a sample, writing it where dense and sparse are not NULL; returns its label. */
static int draw_sample(const struct lh_dataset *ds, uint64_t index, float *dense, int32_t *sparse)
{
	const struct clicks *s = ds->state;
	const struct lh_data_request *spec = &ds->spec;
	double log_odds = intercept, last = 0;
	struct lh_rng rng;

	lh_data_rng(&rng, spec, "click", 0, index);
	for (uint32_t i = 0; i < spec->n_dense; i++) {
		float x = lh_synthetic_noise(&rng);

		log_odds += (double)s->dense[i] * (double)x;
		if (dense)
			dense[i] = x;
	}
	for (uint32_t i = 0; i < spec->n_sparse; i++) {
		double u = lh_rng_uniform(&rng);
		size_t row = (size_t)i * spec->n_buckets + (size_t)(u * u * u * spec->n_buckets);

		log_odds += (double)s->weights[row] + last * (double)s->factors[row];
		last = (double)s->factors[row];
		if (sparse)
			sparse[i] = (int32_t)(row % spec->n_buckets);
	}
	return lh_rng_uniform(&rng) < 1 / (1 + exp(-log_odds));
}

static int read_clicks(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		       void *const *ret_fields, struct lh_error *err)
{
	(void)epoch;
	(void)err;
	*(int32_t *)ret_fields[2] = draw_sample(ds, index, ret_fields[0], ret_fields[1]);
	return 0;
}

static int32_t label_of(const struct lh_dataset *ds, uint64_t index)
{
	return draw_sample(ds, index, NULL, NULL);
}

const struct lh_dataset_ops lh_dataset_synthetic_ctr = {
	.name = "synthetic-ctr",
	.doc = "seeded: clicks by a hidden model of numbers, categories and their pairs",
	.open = open_clicks,
	.close = close_clicks,
	.read = read_clicks,
	.label = label_of,
};
