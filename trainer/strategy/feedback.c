/* SPDX-License-Identifier: Apache-2.0 */
/* Averaging all to all with error feedback. See feedback.h. */
#include "trainer/strategy/feedback.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/collective/interpret.h"
#include "trainer/strategy/halves.h"
#include "trainer/strategy/sample.h"

/* What was lost so far: by everybody, of the slices, or of this rank alone. */
struct errors {
	float *of_ranks;  /* rank by rank, all slices */
	float *of_owners; /* all slices, each its owner's */
};

struct feedback {
	struct lh_rank *rank;
	struct lh_averaged averaged;
	const struct lh_codec_ops *codec;
	struct lh_halves halves;
	const struct lh_collective_slices *slices; /* of these */
	uint64_t n;				   /* real numbers, in slices */
	float *values;				   /* n: averaged.values, or own */
	float *sent_error;			   /* n */
	float *owned_error;			   /* the own share */
	float *scratch;				   /* a share */
	struct errors reckoned;			   /* where replayed, as the next ones */
	float *own;				   /* n */
	float *drawn;				   /* one share of all ranks */
	float *expected;			   /* n */
	unsigned char *wire;			   /* a share */
};

static bool is_replayed(const struct feedback *f)
{
	return !f->averaged.values;
}

static void feedback_close(void *state)
{
	struct feedback *f = state;

	if (!f)
		return;
	lh_halves_close(&f->halves);
	free(f->sent_error);
	free(f->owned_error);
	free(f->scratch);
	free(f->reckoned.of_ranks);
	free(f->reckoned.of_owners);
	free(f->own);
	free(f->drawn);
	free(f->expected);
	free(f->wire);
	free(f);
}

static int open_reckoning(struct feedback *f, struct lh_error *err)
{
	size_t longest = f->slices->longest + 1, n = f->n + 1;

	f->reckoned.of_ranks = calloc(n * f->rank->n, sizeof(float));
	f->reckoned.of_owners = calloc(n, sizeof(float));
	f->own = calloc(n, sizeof(*f->own));
	f->expected = calloc(n, sizeof(*f->expected));
	f->drawn = calloc(longest * f->rank->n, sizeof(*f->drawn));
	f->wire = calloc(f->codec->wire_bytes(longest), 1);
	f->values = f->own;
	return f->reckoned.of_ranks && f->reckoned.of_owners && f->own && f->expected && f->drawn &&
			       f->wire
		       ? 0
		       : lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
}

static int open_all(struct feedback *f, struct lh_error *err)
{
	struct lh_rank *rank = f->rank;
	struct lh_halves_config config = {
		.rank = rank,
		.n_members = rank->n,
		.elements = f->averaged.n,
		.slice_elements = UINT64_MAX,
		.codec = f->codec,
	};
	int rc = rank->comm ? 0 : lh_rank_open_comm(rank, err);

	if (is_replayed(f))
		config.slice_elements = lh_sample_slice_elements(rank->n, rank->n);
	if (rc || (rc = lh_halves_open(&config, &f->halves, err)))
		return rc;
	f->slices = f->halves.slices;
	f->n = f->slices->at[rank->n];
	f->values = f->averaged.values;
	f->sent_error = calloc(f->n + 1, sizeof(*f->sent_error));
	f->owned_error = calloc(f->slices->longest + 1, sizeof(*f->owned_error));
	f->scratch = calloc(f->slices->longest + 1, sizeof(*f->scratch));
	if (!f->sent_error || !f->owned_error || !f->scratch)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	return is_replayed(f) ? open_reckoning(f, err) : 0;
}

static int feedback_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
			 struct lh_error *err)
{
	struct feedback *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	f->rank = rank;
	f->averaged = averaged;
	f->codec = rank->job->compress;
	rc = open_all(f, err);
	if (rc) {
		feedback_close(f);
		return rc;
	}
	*ret_state = f;
	return 0;
}

/* values[i] -= less[i] */
static void subtract(float *values, const float *less, size_t n)
{
	for (size_t i = 0; i < n; i++)
		values[i] -= less[i];
}

/* ---- reckoning of what is replayed ---------------------------------------------------------- */

/* values become what others decode of them; error what they lost. */
static void lose(const struct feedback *f, float *values, uint32_t n, float *ret_error)
{
	memcpy(ret_error, values, n * sizeof(*values));
	f->codec->encode(values, n, f->wire);
	f->codec->decode(f->wire, n, values);
	subtract(ret_error, values, n);
}

/* What must come of a share, and everybody's errors of it. */
static void reckon_share(struct feedback *f, uint32_t share, uint32_t elements)
{
	uint64_t at = f->slices->at[share];
	float *mean = f->expected + at, *owned = f->reckoned.of_owners + at;

	for (uint32_t rank = 0; rank < f->rank->n; rank++) {
		float *values = f->drawn + (size_t)rank * elements;
		float *error = f->reckoned.of_ranks + f->n * rank + at;

		lh_collective_add(values, error, elements);
		if (rank != share)
			lose(f, values, elements, error);
	}
	/* in the order of a scatter: own numbers, then the others' by rank */
	memcpy(mean, f->drawn + (size_t)share * elements, elements * sizeof(*mean));
	for (uint32_t rank = 0; rank < f->rank->n; rank++)
		if (rank != share)
			lh_collective_add(mean, f->drawn + (size_t)rank * elements, elements);
	lh_collective_divide(mean, elements, (float)f->rank->n);
	lh_collective_add(mean, owned, elements);
	lose(f, mean, elements, owned);
}

static void reckon(struct feedback *f, uint32_t epoch, const uint64_t *samples, uint64_t total)
{
	uint32_t n = f->rank->n;

	for (uint32_t share = 0; share < n; share++) {
		uint32_t elements = lh_collective_slice_elements(f->slices, share);

		if (!elements)
			continue;
		lh_sample_draw(f->rank->job->seed, epoch, share, n, elements, f->drawn);
		for (uint32_t rank = 0; rank < n; rank++)
			lh_sample_weigh(f->drawn + (size_t)rank * elements, elements, samples[rank],
					total, n);
		memcpy(f->own + f->slices->at[share], f->drawn + (size_t)f->rank->self * elements,
		       elements * sizeof(*f->own));
		reckon_share(f, share, elements);
	}
}

static int check_averages(const struct feedback *f, uint32_t epoch, struct lh_error *err)
{
	uint64_t i = 0;

	if (memcmp(f->own, f->expected, f->n * sizeof(*f->own)) == 0)
		return 0;
	while (memcmp(&f->own[i], &f->expected[i], sizeof(*f->own)) == 0)
		i++;
	return lh_fail(err, LH_ERUN, 0,
		       "epoch %" PRIu32 ", number %" PRIu64 ": averaged to %.9g; expected %.9g",
		       epoch, i, (double)f->own[i], (double)f->expected[i]);
}

/* ---- averaging ------------------------------------------------------------------------------ */

/* What the shares that were sent have lost; nothing of the own. */
static void keep_sent_errors(struct feedback *f)
{
	for (uint32_t share = 0; share < f->rank->n; share++) {
		uint32_t n = lh_collective_slice_elements(f->slices, share);
		float *error = f->sent_error + f->slices->at[share];

		if (share == f->rank->self || !n) {
			memset(error, 0, n * sizeof(*error));
			continue;
		}
		f->codec->decode(lh_halves_sent(&f->halves, share), n, f->scratch);
		subtract(error, f->scratch, n);
	}
}

static int run_halves(struct feedback *f, uint32_t epoch, struct lh_average *done,
		      struct lh_error *err)
{
	uint32_t self = f->rank->self, n = lh_collective_slice_elements(f->slices, self);
	float *own = f->values + f->slices->at[self];
	int rc;

	lh_collective_add(f->sent_error, f->values, f->n);
	memcpy(f->values, f->sent_error, f->n * sizeof(*f->values));
	if ((rc = lh_halves_scatter(&f->halves, epoch, f->values, done, err)))
		return rc;
	keep_sent_errors(f);
	lh_collective_add(own, f->owned_error, n);
	memcpy(f->owned_error, own, n * sizeof(*own));
	if ((rc = lh_halves_gather(&f->halves, epoch, f->values, done, err)))
		return rc;
	subtract(f->owned_error, own, n);
	return 0;
}

static int feedback_average(void *state, uint32_t epoch, const uint64_t *samples,
			    struct lh_average *ret_average, struct lh_error *err)
{
	struct feedback *f = state;
	struct lh_average done = {0};
	int rc;

	for (uint32_t rank = 0; rank < f->rank->n; rank++)
		done.group_samples += samples[rank];
	assert(done.group_samples);
	if (is_replayed(f))
		reckon(f, epoch, samples, done.group_samples);
	else
		lh_sample_weigh(f->values, f->n, samples[f->rank->self], done.group_samples,
				f->rank->n);
	rc = run_halves(f, epoch, &done, err);
	if (rc == 0 && is_replayed(f)) {
		done.checked_elements = f->n;
		rc = check_averages(f, epoch, err);
	}
	*ret_average = done;
	return rc;
}

const struct lh_averaging_ops lh_averaging_feedback = {
	.name = "feedback",
	.open = feedback_open,
	.average = feedback_average,
	.close = feedback_close,
};
