/* SPDX-License-Identifier: Apache-2.0 */
/* Averaging of low-rank factors. See factors.h. */
#include "trainer/strategy/factors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/compress/low_rank.h"
#include "trainer/compute/compute.h"

/* Of the two averagings of an epoch. */
enum { P, Q, N_PARTS };

static const double MIN_COMPRESSION_RATIO = 2;

struct factors {
	struct lh_rank *rank;
	struct lh_averaged averaged;
	struct lh_low_rank *low_rank;
	void *parts[N_PARTS]; /* states of lh_averaging_dense; NULL where a part is empty */
};

static int new_low_rank(const struct lh_rank *rank, uint64_t n_values, struct lh_low_rank **ret,
			struct lh_error *err)
{
	const struct lh_compress_settings *c = &rank->job->compressing;
	struct lh_low_rank_settings settings = {
		.rank = c->rank,
		.min_compression_ratio = MIN_COMPRESSION_RATIO,
		.seed = rank->job->seed,
		.forgets = !c->feedback,
	};
	struct lh_matrix_shape *shapes = NULL;
	int rc;

	if (!rank->compute->shapes)
		return lh_fail(err, LH_EINPUT, 0,
			       "compress.kind: powersgd needs the shapes of the model's tensors, "
			       "which mode %s does not have",
			       rank->compute->name);
	rc = rank->compute->shapes(rank->computing, &shapes, &settings.n_tensors, err);
	settings.tensors = shapes;
	if (rc == 0)
		rc = lh_low_rank_new(&settings, ret, err);
	free(shapes);
	if (rc == 0 && lh_low_rank_elements(*ret) != n_values) {
		rc = lh_fail(err, LH_ERUN, 0,
			     "the model's tensors have %" PRIu64 " numbers; expected %" PRIu64,
			     lh_low_rank_elements(*ret), n_values);
		lh_low_rank_free(*ret);
	}
	return rc;
}

static struct lh_low_rank_part part_of(struct factors *f, int part)
{
	return part == P ? lh_low_rank_p(f->low_rank) : lh_low_rank_q(f->low_rank);
}

static void factors_close(void *state)
{
	struct factors *f = state;

	if (!f)
		return;
	for (int part = P; part < N_PARTS; part++)
		lh_averaging_dense.close(f->parts[part]);
	lh_low_rank_free(f->low_rank);
	free(f);
}

/* All that one of the parts exchanges with. */
static int factors_peers(const struct lh_rank *rank, uint64_t n_values, bool *ret_wanted,
			 struct lh_error *err)
{
	bool *wanted = calloc(rank->n, sizeof(*wanted));
	struct factors f = {0};
	int rc = wanted ? new_low_rank(rank, n_values, &f.low_rank, err)
			: lh_fail(err, LH_ESYS, ENOMEM, "list peers");

	memset(ret_wanted, 0, rank->n * sizeof(*ret_wanted));
	for (int part = P; rc == 0 && part < N_PARTS; part++) {
		uint64_t n = part_of(&f, part).n;

		if (!n)
			continue;
		rc = lh_averaging_dense.peers(rank, n, wanted, err);
		for (uint32_t peer = 0; peer < rank->n; peer++)
			ret_wanted[peer] |= wanted[peer];
	}
	if (f.low_rank)
		lh_low_rank_free(f.low_rank);
	free(wanted);
	return rc;
}

static int open_all(struct factors *f, struct lh_error *err)
{
	int rc = new_low_rank(f->rank, f->averaged.n, &f->low_rank, err);

	for (int part = P; rc == 0 && part < N_PARTS; part++) {
		struct lh_low_rank_part numbers = part_of(f, part);
		struct lh_averaged averaged = {
			.n = numbers.n,
			.values = f->averaged.values ? numbers.values : NULL,
		};

		if (numbers.n)
			rc = lh_averaging_dense.open(f->rank, averaged, &f->parts[part], err);
	}
	return rc;
}

static int factors_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
			struct lh_error *err)
{
	struct factors *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	f->rank = rank;
	f->averaged = averaged;
	rc = open_all(f, err);
	if (rc) {
		factors_close(f);
		return rc;
	}
	*ret_state = f;
	return 0;
}

static int average_part(struct factors *f, int part, uint32_t epoch, const uint64_t *samples,
			struct lh_average *sum, struct lh_error *err)
{
	struct lh_average done;
	int rc;

	if (!f->parts[part])
		return 0;
	rc = lh_averaging_dense.average(f->parts[part], epoch, samples, &done, err);
	if (rc)
		return rc;
	sum->host_ns += done.host_ns;
	sum->payload_sent_bytes += done.payload_sent_bytes;
	sum->payload_received_bytes += done.payload_received_bytes;
	sum->group_samples = done.group_samples;
	sum->checked_elements += done.checked_elements;
	return 0;
}

static int factors_average(void *state, uint32_t epoch, const uint64_t *samples,
			   struct lh_average *ret_average, struct lh_error *err)
{
	struct factors *f = state;
	bool is_real = f->averaged.values;
	int rc;

	*ret_average = (struct lh_average){0};
	if (is_real)
		lh_low_rank_project(f->low_rank, f->averaged.values);
	if ((rc = average_part(f, P, epoch, samples, ret_average, err)))
		return rc;
	if (is_real)
		lh_low_rank_back_project(f->low_rank);
	if ((rc = average_part(f, Q, epoch, samples, ret_average, err)))
		return rc;
	if (is_real)
		lh_low_rank_reconstruct(f->low_rank, f->averaged.values);
	return 0;
}

const struct lh_averaging_ops lh_averaging_factors = {
	.name = "factors",
	.peers = factors_peers,
	.open = factors_open,
	.average = factors_average,
	.close = factors_close,
};
