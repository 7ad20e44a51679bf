/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy `parameter-server`: one server per site, workers behind it. A site's first rank has the
 * server beside a worker of its own, which shares the server's weights; the site's other ranks push
 * gradients to it and pull weights from it over the site's inner paths, uncompressed. An update of
 * a site is one step of the optimizer with the mean gradient of its workers, weighted by samples;
 * its workers wait for it. Every site makes one update an epoch, on its share of the target batch,
 * and does not wait for other sites.
 *
 * Between servers, over the WAN, `exchange` says what travels, through the compressor:
 *   asgd       the gradient of every update; the receiver steps with it on arrival.
 *   asgd-ga    the sum of the gradients of `period` updates, in one message.
 *   averaging  the weights, every `period` updates: all servers wait for all and take the mean, or,
 *              `asynchronous`, each takes the mean of its own and the others' on arrival.
 *
 * Where the WAN is slower than the updates, asgd may lose no message and has a queue of
 * SERVER_QUEUE per peer, whose end the site waits for; a message that cannot go yet is made up
 * later in the others, and so covers more updates. After the last update every server waits for the
 * last message of each other; where weights may still differ then, their mean, in single precision,
 * is what all end with, and how far they were apart is written.
 *
 * Source: Cloudless-Training, arXiv 2303.05330: ASGD-GA and model averaging between the parameter
 * servers of clouds. Its pseudocode is not known here; what is said above is this program's own.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/shares.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/strategy/ps_internal.h"
#include "trainer/strategy/sparse_form.h"
#include "trainer/strategy/strategy.h"

void lh_ps_plan_done(struct lh_ps_plan *plan)
{
	free(plan->first);
	free(plan->micro_batches);
	memset(plan, 0, sizeof(*plan));
}

/* Sites are stretches of ranks, as the job lists them; none may come twice. */
static int find_sites(const struct lh_job *job, uint32_t self, struct lh_ps_plan *plan,
		      struct lh_error *err)
{
	for (uint32_t i = 0; i < job->n_ranks; i++) {
		if (i > 0 && strcmp(job->ranks[i].site, job->ranks[i - 1].site) == 0)
			continue;
		for (uint32_t s = 0; s < plan->n_sites; s++)
			if (strcmp(job->ranks[plan->first[s]].site, job->ranks[i].site) == 0)
				return lh_fail(err, LH_EINPUT, 0,
					       "rank %" PRIu32
					       ": site %s again; expected its ranks one after "
					       "another",
					       i, job->ranks[i].site);
		plan->first[plan->n_sites++] = i;
	}
	plan->first[plan->n_sites] = job->n_ranks;
	while (plan->first[plan->site + 1] <= self)
		plan->site++;
	return 0;
}

/* By the ranks' target_ratio, or by their speeds. */
static int share_out(const struct lh_job *job, struct lh_ps_plan *plan, struct lh_error *err)
{
	lh_cleanup_free struct lh_share *shares = calloc(job->n_ranks, sizeof(*shares));
	bool has_ratios = false;

	if (!shares)
		return lh_fail(err, LH_ESYS, ENOMEM, "share the target batch");
	for (uint32_t i = 0; i < job->n_ranks; i++)
		has_ratios |= job->ranks[i].target_ratio > 0;
	for (uint32_t i = 0; i < job->n_ranks; i++) {
		const struct lh_job_rank *rank = &job->ranks[i];

		shares[i].weight = has_ratios ? rank->target_ratio : rank->samples_per_s;
		shares[i].micro_batch = rank->micro_batch;
	}
	lh_shares_compute(shares, job->n_ranks, job->target_batch);
	for (uint32_t i = 0; i < job->n_ranks; i++) {
		plan->micro_batches[i] = shares[i].micro_batches;
		if (!shares[i].micro_batches)
			return lh_fail(err, LH_EINPUT, 0,
				       "target_batch: %" PRIu64
				       " samples leave less than a micro-batch of %" PRIu32
				       " to rank %" PRIu32 " (%s)",
				       job->target_batch, job->ranks[i].micro_batch, i,
				       job->ranks[i].node);
	}
	return 0;
}

int lh_ps_plan_make(const struct lh_job *job, uint32_t self, struct lh_ps_plan *ret_plan,
		    struct lh_error *err)
{
	struct lh_ps_plan plan = {
		.first = calloc(job->n_ranks + 1, sizeof(*plan.first)),
		.micro_batches = calloc(job->n_ranks, sizeof(*plan.micro_batches)),
	};
	int rc = 0;

	if (!plan.first || !plan.micro_batches)
		rc = lh_fail(err, LH_ESYS, ENOMEM, "plan strategy parameter-server");
	if (rc == 0)
		rc = find_sites(job, self, &plan, err);
	if (rc == 0)
		rc = share_out(job, &plan, err);
	if (rc) {
		lh_ps_plan_done(&plan);
		return rc;
	}
	for (uint32_t site = 0; site < plan.n_sites; site++)
		plan.round_samples += lh_ps_plan_site_samples(&plan, job, site);
	*ret_plan = plan;
	return 0;
}

uint64_t lh_ps_plan_samples(const struct lh_ps_plan *plan, const struct lh_job *job, uint32_t rank)
{
	return plan->micro_batches[rank] * job->ranks[rank].micro_batch;
}

uint64_t lh_ps_plan_site_samples(const struct lh_ps_plan *plan, const struct lh_job *job,
				 uint32_t site)
{
	uint64_t sum = 0;

	for (uint32_t rank = plan->first[site]; rank < plan->first[site + 1]; rank++)
		sum += lh_ps_plan_samples(plan, job, rank);
	return sum;
}

bool lh_ps_has_final(const struct lh_job *job, const struct lh_ps_plan *plan)
{
	bool is_synchronous =
		job->settings.exchange == LH_EXCHANGE_AVERAGING && !job->settings.asynchronous;

	return plan->n_sites > 1 && !is_synchronous;
}

int lh_ps_write_agreement(struct lh_rank *rank, int64_t begin_ns, json_t *distance,
			  struct lh_error *err)
{
	uint64_t sent, received;
	int64_t now_ns = lh_clock_now_ns();

	lh_comm_take_bytes(rank->comm, &sent, &received);
	return lh_events_add(
		rank->events, "agree", now_ns,
		json_pack("{s:I, s:I, s:o, s:I, s:I}", "begin_ns", (json_int_t)begin_ns, "end_ns",
			  (json_int_t)now_ns, "distance_ratio", distance, "payload_sent_bytes",
			  (json_int_t)sent, "payload_received_bytes", (json_int_t)received),
		err);
}

static int check_job(const struct lh_job *job, struct lh_error *err)
{
	const struct lh_strategy_settings *s = &job->settings;
	struct lh_ps_plan plan;
	int rc;

	if (s->exchange == LH_EXCHANGE_ASGD && s->period != 1)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.period: %" PRIu32
			       "; exchange asgd sends every update: expected 1, or asgd-ga",
			       s->period);
	if (s->delayed_update)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.delayed_update: not with parameter-server, whose updates "
			       "are applied as they come");
	if (strcmp(job->mode, "train") == 0 && job->parameters > UINT32_MAX / sizeof(float))
		return lh_fail(err, LH_EINPUT, 0,
			       "parameters: %" PRIu64 "; parameter-server trains up to %" PRIu32,
			       job->parameters, (uint32_t)(UINT32_MAX / sizeof(float)));
	if (lh_sparse_form_is(&job->compressing)) {
		if (s->exchange == LH_EXCHANGE_AVERAGING)
			return lh_fail(err, LH_EINPUT, 0,
				       "compress.kind: weights that are averaged are sent whole; "
				       "expected a codec, or exchange asgd or asgd-ga");
		if ((rc = lh_sparse_form_check(job, err)))
			return rc;
	}
	if ((rc = lh_ps_plan_make(job, 0, &plan, err)))
		return rc;
	lh_ps_plan_done(&plan);
	return 0;
}

/* Of a server: an update of its own each epoch, and a message from each other server a period. */
static uint64_t count_steps(const struct lh_job *job)
{
	uint32_t period = job->settings.period, n_others = 0;
	uint64_t messages = (job->epochs + period - 1) / period;

	for (uint32_t i = 1; i < job->n_ranks; i++)
		n_others += strcmp(job->ranks[i].site, job->ranks[i - 1].site) != 0;
	if (job->settings.exchange == LH_EXCHANGE_AVERAGING)
		n_others = 0;
	return job->epochs + n_others * messages;
}

/* A server has the other servers and its workers; a worker its server. */
static int connect_rank(struct lh_rank *rank, const struct lh_ps_plan *plan, struct lh_error *err)
{
	lh_cleanup_free uint8_t *wanted = calloc(rank->n, sizeof(*wanted));
	uint32_t server = plan->first[plan->site];
	int rc;

	if (!wanted)
		return lh_fail(err, LH_ESYS, ENOMEM, "list peers");
	if (rank->self == server) {
		for (uint32_t site = 0; site < plan->n_sites; site++)
			wanted[plan->first[site]] = LH_MESH_DATA;
		for (uint32_t i = server; i < plan->first[plan->site + 1]; i++)
			wanted[i] = LH_MESH_DATA;
		wanted[server] = 0;
	} else {
		wanted[server] = LH_MESH_DATA;
	}
	if ((rc = lh_rank_connect(rank, wanted, err)) || (rc = lh_rank_open_comm(rank, err)))
		return rc;
	return lh_rank_write_connected(rank, err);
}

static int run_rank(struct lh_rank *rank, struct lh_error *err)
{
	struct lh_ps_plan plan;
	int rc = lh_ps_plan_make(rank->job, rank->self, &plan, err);

	if (rc)
		return rc;
	if ((rc = connect_rank(rank, &plan, err)))
		lh_error_prefix(err, "connecting");
	else if (rank->self == plan.first[plan.site])
		rc = lh_ps_server_run(rank, &plan, err);
	else
		rc = lh_ps_worker_run(rank, &plan, err);
	lh_ps_plan_done(&plan);
	return rc;
}

const struct lh_strategy_ops lh_strategy_parameter_server = {
	.name = "parameter-server",
	.doc = "a server per site, exchanging gradients or weights (Cloudless-Training)",
	.check = check_job,
	.run = run_rank,
	.takes_sparse = true,
	.count_steps = count_steps,
};
