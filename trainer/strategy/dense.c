/* SPDX-License-Identifier: Apache-2.0 */
/* Dense averaging by a collective. See dense.h. */
#include "trainer/strategy/dense.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/clock.h"
#include "trainer/collective/interpret.h"
#include "trainer/collective/run.h"
#include "trainer/strategy/averaging.h"
#include "trainer/strategy/sample.h"
#include "trainer/strategy/strategy.h"

struct dense {
	struct lh_rank *rank;
	struct lh_averaged averaged;
	struct lh_collective_plan plan;
	struct lh_collective_run *run;
	const struct lh_collective_slices *slices;
	/* Where replayed: */
	struct lh_collective_program *program;
	float *own;		 /* this rank's slices */
	uint32_t *members;	 /* the ranks, as the program has them */
	float *drawn;		 /* one chunk's slice of all members */
	float *scratch;		 /* one slice */
	unsigned char *expected; /* all slices, by own reckoning, as on the wire */
};

/* The collective that the job's strategy is, or that it averages by. */
static const struct lh_collective_ops *collective_of(const struct lh_job *job)
{
	const struct lh_collective_ops *ops = lh_collective_find(job->strategy->name);

	return ops ? ops : lh_collective_find(job->settings.collective);
}

static int make_plan(const struct lh_rank *rank, uint64_t n_values,
		     struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	const struct lh_collective_ops *ops = collective_of(rank->job);
	struct lh_dense_form form;
	int rc;

	if (!ops)
		return lh_fail(err, LH_EINPUT, 0, "strategy.collective: \"%s\" is no all-reduce",
			       rank->job->settings.collective);
	rc = lh_dense_form_init(&form, rank->job, ops, n_values, err);
	if (rc == 0)
		rc = ops->make(&form.form, rank->self, ret_plan, err);
	lh_dense_form_done(&form);
	return rc;
}

static int dense_peers(const struct lh_rank *rank, uint64_t n_values, bool *ret_wanted,
		       struct lh_error *err)
{
	struct lh_collective_plan plan = {0};
	int rc = make_plan(rank, n_values, &plan, err);

	for (uint32_t peer = 0; peer < rank->n; peer++)
		ret_wanted[peer] = false;
	for (uint32_t s = 0; s < plan.n_sends; s++)
		ret_wanted[plan.sends[s].peer] = true;
	for (uint32_t r = 0; r < plan.n_receives; r++)
		ret_wanted[plan.receives[r].peer] = true;
	lh_collective_plan_done(&plan);
	return rc;
}

static void dense_close(void *state)
{
	struct dense *d = state;

	if (!d)
		return;
	lh_collective_run_close(d->run);
	lh_collective_plan_done(&d->plan);
	lh_collective_program_free(d->program);
	free(d->own);
	free(d->members);
	free(d->drawn);
	free(d->scratch);
	free(d->expected);
	free(d);
}

static int build_program(struct dense *d, struct lh_error *err)
{
	const struct lh_collective_ops *ops = collective_of(d->rank->job);
	struct lh_collective_plan *plans = NULL;
	struct lh_dense_form form;
	int rc = lh_dense_form_init(&form, d->rank->job, ops, d->averaged.n, err);

	if (rc == 0)
		rc = lh_collective_plans_make(ops, &form.form, &plans, err);
	if (rc == 0)
		rc = lh_collective_program_build(plans, d->rank->n, &d->program, err);
	for (uint32_t i = 0; rc == 0 && i < d->rank->n; i++)
		d->members[i] = plans[i].self;
	lh_collective_plans_free(plans, d->rank->n);
	lh_dense_form_done(&form);
	return rc;
}

/* What replayed numbers are worked out with. */
static int open_reckoning(struct dense *d, struct lh_error *err)
{
	const struct lh_collective_slices *s = d->slices;

	d->own = calloc(s->at[s->n_chunks] + 1, sizeof(*d->own));
	d->members = calloc(d->rank->n, sizeof(*d->members));
	d->drawn = calloc(s->longest * d->rank->n + 1, sizeof(*d->drawn));
	d->scratch = calloc(s->longest + 1, sizeof(*d->scratch));
	d->expected = calloc(s->wire_at[s->n_chunks] + 1, 1);
	if (!d->own || !d->members || !d->drawn || !d->scratch || !d->expected)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	return build_program(d, err);
}

static int open_run(struct dense *d, struct lh_error *err)
{
	bool is_replayed = !d->averaged.values;
	struct lh_collective_run_config config = {
		.plan = &d->plan,
		.codec = d->rank->job->compress,
		.slice_elements = UINT64_MAX,
		.host_bps = d->rank->me->averaging_bps,
	};
	int rc = d->rank->comm ? 0 : lh_rank_open_comm(d->rank, err);

	if (rc || (rc = make_plan(d->rank, d->averaged.n, &d->plan, err)))
		return rc;
	config.comm = d->rank->comm;
	if (is_replayed)
		config.slice_elements = lh_sample_slice_elements(d->plan.n_chunks, d->rank->n);
	rc = lh_collective_run_open(&config, &d->run, err);
	if (rc)
		return rc;
	d->slices = lh_collective_run_slices(d->run);
	return is_replayed ? open_reckoning(d, err) : 0;
}

static int dense_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
		      struct lh_error *err)
{
	struct dense *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	d->rank = rank;
	d->averaged = averaged;
	rc = open_run(d, err);
	if (rc) {
		dense_close(d);
		return rc;
	}
	*ret_state = d;
	return 0;
}

/* Works out everybody's replayed numbers in a chunk and the averages that must come of them. */
static void reckon(struct dense *d, uint32_t epoch, uint32_t chunk, const uint64_t *samples,
		   uint64_t total)
{
	uint32_t n = d->rank->n, elements = lh_collective_slice_elements(d->slices, chunk);

	if (elements == 0)
		return;
	lh_sample_draw(d->rank->job->seed, epoch, chunk, n, elements, d->drawn);
	for (uint32_t i = 0; i < n; i++) {
		float *values = d->drawn + (size_t)i * elements;

		lh_sample_weigh(values, elements, samples[d->members[i]], total, n);
		if (d->members[i] == d->rank->self)
			memcpy(d->own + d->slices->at[chunk], values, elements * sizeof(*values));
	}
	lh_collective_program_run(d->program, chunk, d->rank->job->compress, (float)n, elements,
				  d->drawn, d->scratch, d->expected + d->slices->wire_at[chunk]);
}

static float *begin_round(struct dense *d, uint32_t epoch, const uint64_t *samples, uint64_t total)
{
	if (d->averaged.values) {
		lh_sample_weigh(d->averaged.values, d->averaged.n, samples[d->rank->self], total,
				d->rank->n);
		return d->averaged.values;
	}
	for (uint32_t chunk = 0; chunk < d->plan.n_chunks; chunk++)
		reckon(d, epoch, chunk, samples, total);
	return d->own;
}

/* Which element it is, for a chunk that is not what it must be. */
static int tell_difference(struct dense *d, uint32_t epoch, uint32_t chunk, struct lh_error *err)
{
	const struct lh_codec_ops *codec = d->rank->job->compress;
	uint32_t elements = lh_collective_slice_elements(d->slices, chunk), i = 0;
	float *is = d->drawn, *must = d->scratch;

	codec->decode(lh_collective_run_wire(d->run, chunk), elements, is);
	codec->decode(d->expected + d->slices->wire_at[chunk], elements, must);
	while (i + 1 < elements && memcmp(&is[i], &must[i], sizeof(*is)) == 0)
		i++;
	return lh_fail(err, LH_ERUN, 0,
		       "epoch %" PRIu32 ", chunk %" PRIu32 ", element %" PRIu32
		       ": averaged to %.9g; expected %.9g",
		       epoch, chunk, i, (double)is[i], (double)must[i]);
}

static int check_round(struct dense *d, uint32_t epoch, struct lh_error *err)
{
	for (uint32_t chunk = 0; chunk < d->plan.n_chunks; chunk++) {
		uint64_t at = d->slices->wire_at[chunk];

		if (memcmp(lh_collective_run_wire(d->run, chunk), d->expected + at,
			   d->slices->wire_at[chunk + 1] - at) != 0)
			return tell_difference(d, epoch, chunk, err);
	}
	return 0;
}

static int dense_average(void *state, uint32_t epoch, const uint64_t *samples,
			 struct lh_average *ret_average, struct lh_error *err)
{
	struct dense *d = state;
	struct lh_collective_done done;
	int64_t patience_ns = d->averaged.patience_ns;
	uint64_t total = 0;
	int rc;

	for (uint32_t rank = 0; rank < d->rank->n; rank++)
		total += samples[rank];
	assert(total);
	rc = lh_collective_run_round(d->run, epoch, total, begin_round(d, epoch, samples, total),
				     patience_ns ? lh_clock_now_ns() + patience_ns : INT64_MAX,
				     &done, err);
	if (rc)
		return rc;
	if (d->averaged.values)
		lh_collective_run_decode(d->run);
	else
		rc = check_round(d, epoch, err);
	*ret_average = (struct lh_average){
		.host_ns = done.host_ns,
		.payload_sent_bytes = done.sent_bytes,
		.payload_received_bytes = done.received_bytes,
		.group_samples = total,
		.checked_elements = d->averaged.values ? 0 : d->slices->at[d->plan.n_chunks],
	};
	return rc;
}

const struct lh_averaging_ops lh_averaging_dense = {
	.name = "dense",
	.peers = dense_peers,
	.open = dense_open,
	.average = dense_average,
	.close = dense_close,
};
