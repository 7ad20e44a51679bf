/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse averaging by an all-gather. See sparse.h. */
#include "trainer/strategy/sparse.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/collective/interpret.h"
#include "trainer/strategy/sample.h"
#include "trainer/strategy/sparse_form.h"
#include "trainer/strategy/sparse_gather.h"
#include "trainer/strategy/strategy.h"

struct sparse {
	struct lh_rank *rank;
	struct lh_averaged averaged;
	struct lh_sparsifier_settings settings; /* of the whole gradient, this rank's */
	struct lh_sparse_gather *gather;
	uint32_t n_real; /* numbers that are: all, or a slice's */
	/* By rank; where nothing is replayed this rank's alone. */
	struct lh_sparsifier **sparsifiers;
	/* Where replayed: */
	float *drawn;	 /* one slice of all ranks */
	float *sum;	 /* a slice */
	float *expected; /* a slice, by own reckoning */
};

static bool is_replayed(const struct sparse *s)
{
	return !s->averaged.values;
}

static void sparse_close(void *state)
{
	struct sparse *s = state;

	if (!s)
		return;
	lh_sparse_gather_close(s->gather);
	for (uint32_t rank = 0; s->sparsifiers && rank < s->rank->n; rank++)
		lh_sparsifier_free(s->sparsifiers[rank]);
	free(s->sparsifiers);
	free(s->drawn);
	free(s->sum);
	free(s->expected);
	free(s);
}

static int open_sparsifiers(struct sparse *s, struct lh_error *err)
{
	int rc = 0;

	s->sparsifiers = calloc(s->rank->n, sizeof(struct lh_sparsifier *));
	if (!s->sparsifiers)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	for (uint32_t rank = 0; rc == 0 && rank < s->rank->n; rank++) {
		struct lh_sparsifier_settings settings =
			lh_sparse_form_of(s->rank->job, rank, s->n_real);

		if (rank == s->rank->self || is_replayed(s))
			rc = lh_sparsifier_new(&settings, &s->sparsifiers[rank], err);
	}
	return rc;
}

static int open_slices(struct sparse *s, struct lh_error *err)
{
	s->drawn = calloc((size_t)s->n_real * s->rank->n, sizeof(*s->drawn));
	s->sum = calloc(s->n_real, sizeof(*s->sum));
	s->expected = calloc(s->n_real, sizeof(*s->expected));
	return s->drawn && s->sum && s->expected
		       ? 0
		       : lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
}

static int open_all(struct sparse *s, struct lh_error *err)
{
	struct lh_rank *rank = s->rank;
	struct lh_sparse_gather_config config = {
		.n_members = rank->n,
		.self = rank->self,
		.host_bps = rank->me->averaging_bps,
	};
	uint64_t most = lh_sample_slice_elements(1, rank->n);
	int rc = rank->comm ? 0 : lh_rank_open_comm(rank, err);

	if (rc)
		return rc;
	s->n_real = (uint32_t)s->averaged.n;
	if (is_replayed(s) && s->n_real > most)
		s->n_real = (uint32_t)most;
	s->settings = lh_sparse_form_of(rank->job, rank->self, (uint32_t)s->averaged.n);
	config.comm = rank->comm;
	config.elements = s->n_real;
	if ((rc = open_sparsifiers(s, err)) || (is_replayed(s) && (rc = open_slices(s, err))))
		return rc;
	return lh_sparse_gather_open(&config, &s->gather, err);
}

static int sparse_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
		       struct lh_error *err)
{
	struct sparse *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	s->rank = rank;
	s->averaged = averaged;
	rc = open_all(s, err);
	if (rc) {
		sparse_close(s);
		return rc;
	}
	*ret_state = s;
	return 0;
}

/* Works out what all ranks send of their replayed slices, and what it comes to; the own message. */
static const struct lh_sparse *reckon(struct sparse *s, uint32_t epoch, const uint64_t *samples,
				      uint64_t total)
{
	const struct lh_sparse *own = NULL;
	uint32_t n = s->rank->n;

	lh_sample_draw(s->rank->job->seed, epoch, 0, n, s->n_real, s->drawn);
	memset(s->expected, 0, s->n_real * sizeof(*s->expected));
	for (uint32_t rank = 0; rank < n; rank++) {
		float *values = s->drawn + (size_t)rank * s->n_real;
		const struct lh_sparse *message;

		lh_sample_weigh(values, s->n_real, samples[rank], total, n);
		message = lh_sparsifier_take(s->sparsifiers[rank], values, epoch);
		lh_sparse_add(message, 1, s->expected);
		if (rank == s->rank->self)
			own = message;
	}
	return own;
}

static const struct lh_sparse *take(struct sparse *s, uint32_t epoch, const uint64_t *samples,
				    uint64_t total)
{
	float *values = s->averaged.values;

	if (is_replayed(s))
		return reckon(s, epoch, samples, total);
	lh_sample_weigh(values, s->n_real, samples[s->rank->self], total, s->rank->n);
	return lh_sparsifier_take(s->sparsifiers[s->rank->self], values, epoch);
}

static int check_sum(const struct sparse *s, uint32_t epoch, struct lh_error *err)
{
	uint32_t i = 0;

	if (memcmp(s->sum, s->expected, s->n_real * sizeof(*s->sum)) == 0)
		return 0;
	while (memcmp(&s->sum[i], &s->expected[i], sizeof(*s->sum)) == 0)
		i++;
	return lh_fail(err, LH_ERUN, 0,
		       "epoch %" PRIu32 ", element %" PRIu32
		       ": the messages add up to %.9g; expected %.9g",
		       epoch, i, (double)s->sum[i], (double)s->expected[i]);
}

/* The messages that have come become the average. */
static int finish(struct sparse *s, uint32_t epoch, struct lh_error *err)
{
	int rc;

	if (is_replayed(s)) {
		rc = lh_sparse_gather_sum(s->gather, s->sum, err);
		return rc ? rc : check_sum(s, epoch, err);
	}
	rc = lh_sparse_gather_sum(s->gather, s->averaged.values, err);
	if (rc == 0)
		lh_collective_divide(s->averaged.values, s->n_real, (float)s->rank->n);
	return rc;
}

static int sparse_average(void *state, uint32_t epoch, const uint64_t *samples,
			  struct lh_average *ret_average, struct lh_error *err)
{
	struct sparse *s = state;
	struct lh_collective_done done;
	uint64_t total = 0;
	int rc;

	for (uint32_t rank = 0; rank < s->rank->n; rank++)
		total += samples[rank];
	assert(total);
	rc = lh_sparse_gather_round(s->gather, epoch, total, take(s, epoch, samples, total),
				    lh_sparsifier_count_by(&s->settings, epoch), &done, err);
	if (rc || (rc = finish(s, epoch, err)))
		return rc;
	*ret_average = (struct lh_average){
		.host_ns = done.host_ns,
		.payload_sent_bytes = done.sent_bytes,
		.payload_received_bytes = done.received_bytes,
		.group_samples = total,
		.checked_elements = is_replayed(s) ? s->n_real : 0,
	};
	return 0;
}

const struct lh_averaging_ops lh_averaging_sparse_allgather = {
	.name = "sparse-allgather",
	.open = sparse_open,
	.average = sparse_average,
	.close = sparse_close,
};
