/* SPDX-License-Identifier: Apache-2.0 */
/* Averaging in a group that changes. See group.h. */
#include "trainer/elastic/group.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/collective/interpret.h"
#include "trainer/collective/run.h"
#include "trainer/strategy/sample.h"

struct lh_group {
	struct lh_rank *rank;
	struct lh_averaged averaged;
};

/* What is needed for one round. */
struct round {
	const struct lh_group *group;
	const struct lh_group_round *spec;
	uint32_t self; /* this member's place */
	uint64_t total;
	struct lh_collective_plan plan;
	struct lh_collective_run *run;
	const struct lh_collective_slices *slices;
	/* Where replayed: */
	struct lh_collective_program *program;
	float *own;	   /* this member's slices */
	float *drawn;	   /* one chunk's slice of all members */
	float *scratch;	   /* one slice */
	uint8_t *expected; /* all slices, by own reckoning, as on the wire */
};

int lh_group_open(struct lh_rank *rank, struct lh_averaged averaged, struct lh_group **ret_group,
		  struct lh_error *err)
{
	struct lh_group *g = calloc(1, sizeof(*g));

	if (!g)
		return lh_fail(err, LH_ESYS, ENOMEM, "open a group");
	*g = (struct lh_group){rank, averaged};
	*ret_group = g;
	return 0;
}

void lh_group_close(struct lh_group *g)
{
	free(g);
}

/* ---- opening a round ---------------------------------------------------------------------- */

static int build_program(struct round *r, const struct lh_collective_form *form,
			 struct lh_error *err)
{
	struct lh_collective_plan *plans = NULL;
	int rc = lh_collective_plans_make(&lh_collective_butterfly, form, &plans, err);

	if (rc == 0)
		rc = lh_collective_program_build(plans, form->n, &r->program, err);
	lh_collective_plans_free(plans, form->n);
	return rc;
}

static int open_reckoning(struct round *r, const struct lh_collective_form *form,
			  struct lh_error *err)
{
	const struct lh_collective_slices *s = r->slices;

	r->own = calloc(s->at[s->n_chunks] + 1, sizeof(*r->own));
	r->drawn = calloc(s->longest * form->n + 1, sizeof(*r->drawn));
	r->scratch = calloc(s->longest + 1, sizeof(*r->scratch));
	r->expected = calloc(s->wire_at[s->n_chunks] + 1, 1);
	if (!r->own || !r->drawn || !r->scratch || !r->expected)
		return lh_fail(err, LH_ESYS, ENOMEM, "average");
	return build_program(r, form, err);
}

static int open_round(struct round *r, struct lh_error *err)
{
	const struct lh_rank *rank = r->group->rank;
	bool is_replayed = !r->group->averaged.values;
	const struct lh_collective_form form = {
		.elements = r->group->averaged.n, .n = r->spec->n, .members = r->spec->ranks};
	struct lh_collective_run_config config = {
		.comm = rank->comm,
		.plan = &r->plan,
		.codec = rank->job->compress,
		.slice_elements = UINT64_MAX,
		.host_bps = rank->me->averaging_bps,
	};
	int rc = lh_collective_butterfly.make(&form, rank->self, &r->plan, err);

	if (rc)
		return rc;
	if (is_replayed)
		config.slice_elements = lh_sample_slice_elements(r->plan.n_chunks, form.n);
	rc = lh_collective_run_open(&config, &r->run, err);
	if (rc)
		return rc;
	r->slices = lh_collective_run_slices(r->run);
	return is_replayed ? open_reckoning(r, &form, err) : 0;
}

static void close_round(struct round *r)
{
	lh_collective_run_close(r->run);
	lh_collective_plan_done(&r->plan);
	lh_collective_program_free(r->program);
	free(r->own);
	free(r->drawn);
	free(r->scratch);
	free(r->expected);
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* Works out all members' replayed numbers in a chunk and the averages that must come of them. */
static void reckon(struct round *r, uint32_t chunk)
{
	const struct lh_job *job = r->group->rank->job;
	uint32_t n = r->spec->n, elements = lh_collective_slice_elements(r->slices, chunk);

	if (elements == 0)
		return;
	lh_sample_draw(job->seed, r->spec->draw, chunk, n, elements, r->drawn);
	for (uint32_t i = 0; i < n; i++)
		lh_sample_weigh(r->drawn + (size_t)i * elements, elements, r->spec->weights[i],
				r->total, n);
	memcpy(r->own + r->slices->at[chunk], r->drawn + (size_t)r->self * elements,
	       elements * sizeof(*r->own));
	lh_collective_program_run(r->program, chunk, job->compress, (float)n, elements, r->drawn,
				  r->scratch, r->expected + r->slices->wire_at[chunk]);
}

/* This member's numbers, weighted. */
static float *bring(struct round *r)
{
	const struct lh_averaged *averaged = &r->group->averaged;

	if (averaged->values) {
		lh_sample_weigh(averaged->values, averaged->n, r->spec->weights[r->self], r->total,
				r->spec->n);
		return averaged->values;
	}
	for (uint32_t chunk = 0; chunk < r->plan.n_chunks; chunk++)
		reckon(r, chunk);
	return r->own;
}

static int check(const struct round *r, struct lh_error *err)
{
	for (uint32_t chunk = 0; chunk < r->plan.n_chunks; chunk++) {
		uint64_t at = r->slices->wire_at[chunk];

		if (memcmp(lh_collective_run_wire(r->run, chunk), r->expected + at,
			   r->slices->wire_at[chunk + 1] - at) != 0)
			return lh_fail(err, LH_ERUN, 0,
				       "round %" PRIu32 ", chunk %" PRIu32
				       ": averaged to other numbers than it must be",
				       r->spec->serial, chunk);
	}
	return 0;
}

int lh_group_average(struct lh_group *g, const struct lh_group_round *spec,
		     struct lh_average *ret_average, uint32_t *ret_culprit, struct lh_error *err)
{
	struct round r = {.group = g, .spec = spec};
	struct lh_collective_done done;
	int rc;

	*ret_culprit = g->rank->self;
	while (spec->ranks[r.self] != g->rank->self)
		r.self++;
	for (uint32_t i = 0; i < spec->n; i++)
		r.total += spec->weights[i];
	assert(r.total);
	rc = open_round(&r, err);
	if (rc == 0) {
		rc = lh_collective_run_round(r.run, spec->serial, r.total, bring(&r),
					     spec->deadline_ns, &done, err);
		if (rc)
			*ret_culprit = lh_collective_run_culprit(r.run);
		else if (g->averaged.values)
			lh_collective_run_decode(r.run);
		else
			rc = check(&r, err);
	}
	if (rc == 0)
		*ret_average = (struct lh_average){
			.host_ns = done.host_ns,
			.payload_sent_bytes = done.sent_bytes,
			.payload_received_bytes = done.received_bytes,
			.group_samples = r.total,
			.checked_elements = g->averaged.values ? 0 : r.slices->at[r.plan.n_chunks],
		};
	close_round(&r);
	return rc;
}
