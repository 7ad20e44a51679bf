/* SPDX-License-Identifier: Apache-2.0 */
/* A worker of strategy parameter-server: computes its share of every update of its site, pushes
 * the gradient, pulls the weights. See parameter_server.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/strategy/ps_internal.h"

struct worker {
	struct lh_rank *rank;
	const struct lh_ps_plan *plan;
	uint32_t server;
	uint64_t samples;
	struct lh_ps_numbers numbers;
	struct lh_request push;
	struct lh_request pull;
	uint8_t *pushed;
	uint8_t *pulled;
	int64_t compute_end_ns;
};

static int compute_share(struct worker *w, struct lh_error *err)
{
	struct lh_rank *rank = w->rank;
	int64_t at_ns = rank->epoch_begin_ns, step_ns;
	int rc = 0;

	rank->doing = "computing";
	for (uint64_t n = w->plan->micro_batches[rank->self]; rc == 0 && n; n--) {
		if ((rc = rank->compute->micro_batch(rank->computing, &step_ns, err)))
			return rc;
		/* in real time the arithmetic may take longer than the profile says */
		if (lh_clock_now_ns() - at_ns > step_ns)
			step_ns = lh_clock_now_ns() - at_ns;
		at_ns += step_ns;
		lh_clock_sleep_until(at_ns);
		rc = lh_comm_check(rank->comm, err);
	}
	w->compute_end_ns = at_ns;
	return rc;
}

static void expect_weights(struct worker *w, uint32_t epoch, uint16_t phase)
{
	const struct lh_message message = {
		.epoch = epoch,
		.phase = phase,
		.length = lh_ps_numbers_bytes(&w->numbers),
		.head_bytes = lh_ps_numbers_head_bytes(&w->numbers),
	};

	lh_comm_receive(w->rank->comm, w->server, &message, w->pulled, &w->pull);
}

/* Waits for the weights, and takes them over. */
static int take_weights(struct worker *w, struct lh_error *err)
{
	int rc = lh_comm_wait(w->rank->comm, &w->pull, INT64_MAX, err);

	if (rc)
		return rc;
	lh_codec_none.decode(w->pulled, w->numbers.n_real, w->numbers.weights);
	return lh_ps_numbers_write(&w->numbers, err);
}

static int push_and_pull(struct worker *w, uint32_t update, int64_t host_ns, struct lh_error *err)
{
	const struct lh_message message = {
		.epoch = update,
		.phase = LH_PS_PUSH,
		.samples = w->samples,
		.length = lh_ps_numbers_bytes(&w->numbers),
		.head_bytes = lh_ps_numbers_head_bytes(&w->numbers),
	};
	int rc;

	w->rank->doing = "averaging";
	lh_clock_sleep_until(lh_clock_now_ns() + host_ns);
	if ((rc = lh_ps_numbers_take(&w->numbers, update, w->samples, err)))
		return rc;
	lh_codec_none.encode(w->numbers.gradient, w->numbers.n_real, w->pushed);
	expect_weights(w, update, LH_PS_PULL);
	lh_comm_send(w->rank->comm, w->server, &message, w->pushed, &w->push);
	rc = take_weights(w, err);
	return rc ? rc : lh_comm_wait(w->rank->comm, &w->push, INT64_MAX, err);
}

static int run_epoch(struct worker *w, uint32_t epoch, struct lh_error *err)
{
	struct lh_rank *rank = w->rank;
	struct lh_average average = {
		.host_ns = lh_rank_host_ns(rank, lh_ps_numbers_bytes(&w->numbers)),
		.group_samples = w->plan->round_samples,
	};
	int64_t now_ns;
	int rc = compute_share(w, err);

	if (rc)
		return rc;
	now_ns = lh_clock_now_ns();
	if ((rc = lh_rank_write_compute(rank, epoch, w->compute_end_ns, w->samples,
					w->plan->micro_batches[rank->self], now_ns, err)) ||
	    (rc = push_and_pull(w, epoch, average.host_ns, err)))
		return rc;
	lh_comm_take_bytes(rank->comm, &average.payload_sent_bytes,
			   &average.payload_received_bytes);
	rc = lh_rank_write_average(rank, epoch, now_ns, &average, err);
	return rc ? rc : lh_rank_end_epoch(rank, epoch, w->plan->round_samples, err);
}

static int finish(struct worker *w, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();
	int rc;

	w->rank->doing = "waiting for the last weights";
	if (lh_ps_has_final(w->rank->job, w->plan)) {
		expect_weights(w, w->rank->job->epochs, LH_PS_FINAL_PULL);
		if ((rc = take_weights(w, err)) ||
		    (rc = lh_ps_write_agreement(w->rank, begin_ns, json_null(), err)))
			return rc;
	}
	return lh_rank_finish(w->rank, err);
}

static int run(struct worker *w, struct lh_error *err)
{
	int rc = 0;

	for (uint32_t epoch = 0; rc == 0 && epoch < w->rank->job->epochs; epoch++)
		if ((rc = run_epoch(w, epoch, err)))
			lh_error_prefix(err, "epoch %" PRIu32 ", %s", epoch, w->rank->doing);
	if (rc == 0 && (rc = finish(w, err)))
		lh_error_prefix(err, "ending");
	return rc;
}

int lh_ps_worker_run(struct lh_rank *rank, const struct lh_ps_plan *plan, struct lh_error *err)
{
	struct worker w = {
		.rank = rank,
		.plan = plan,
		.server = plan->first[plan->site],
		.samples = lh_ps_plan_samples(plan, rank->job, rank->self),
	};
	int rc = lh_ps_numbers_open(&w.numbers, rank, err);

	w.pushed = calloc(w.numbers.n_real, sizeof(float));
	w.pulled = calloc(w.numbers.n_real, sizeof(float));
	if (rc == 0 && (!w.pushed || !w.pulled))
		rc = lh_fail(err, LH_ESYS, ENOMEM, "open strategy parameter-server");
	if (rc == 0)
		rc = run(&w, err);
	/* what is under way may still use the buffers */
	lh_comm_detach(rank->comm, w.server);
	free(w.pushed);
	free(w.pulled);
	lh_ps_numbers_close(&w.numbers);
	return rc;
}
