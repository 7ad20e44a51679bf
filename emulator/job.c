/* SPDX-License-Identifier: Apache-2.0 */
/* The trainers' job file, from a plan. Its format is in docs/formats.md. */
#include <math.h>
#include <string.h>

#include "core/cleanup.h"
#include "emulator/engine.h"
#include "emulator/plan_internal.h"
#include "scenarios/strategy_json.h"
#include "scenarios/train_json.h"
#include "trainer/collective/order.h"

enum { FP32_BITS = 32, TRAINER_PORT = 29500, START_TIMEOUT_FLOOR_S = 30, OUTAGE_FACTOR = 3 };

static const double NS_PER_S = 1e9;
static const int64_t PATIENCE_MAX_NS = INT64_C(3600000000000); /* what a trainer's job may say */

/* What the strategy's streams carry from one node to another without others, bit/s. */
static double pair_bps(const struct lh_plan *plan, size_t from, size_t to)
{
	double link = (double)lh_plan_slowest_bps(plan, from, to);
	double rtt_ns = (double)lh_plan_rtt_ns(plan, from, to);
	double windows_bits = 8.0 * lh_plan_window_bytes(plan, from, to) *
			      (double)plan->scenario->workload.strategy.streams;

	return rtt_ns > 0 && windows_bits / rtt_ns * NS_PER_S < link
		       ? windows_bits / rtt_ns * NS_PER_S
		       : link;
}

/* What a rank reaches when it exchanges as much with each other one: the slowest pair bounds them
 * all, its card the whole. */
static int64_t bandwidth_bps(const struct lh_plan *plan, size_t rank)
{
	size_t node = plan->ranks[rank].node;
	double slowest = INFINITY, card = (double)plan->nodes[node].nic_up_bps, all;

	if ((double)plan->nodes[node].nic_down_bps < card)
		card = (double)plan->nodes[node].nic_down_bps;
	for (size_t other = 0; other < plan->n_nodes; other++)
		if (other != node)
			slowest = fmin(slowest, fmin(pair_bps(plan, node, other),
						     pair_bps(plan, other, node)));
	all = slowest * (double)(plan->n_ranks - 1);
	return (int64_t)fmax(1, fmin(all, card));
}

static json_t *rank_to_json(const struct lh_plan *plan, size_t i)
{
	const struct lh_plan_rank *rank = &plan->ranks[i];
	const struct lh_node *node = &plan->scenario->nodes[rank->node];
	const char *shards = plan->scenario->workload.strategy.shards;
	char address[16];
	json_t *doc = json_pack(
		"{s:s, s:s, s:s, s:i, s:I, s:f, s:f, s:I, s:I, s:I}", "node", rank->name, "site",
		plan->scenario->network.sites[node->site].name, "address",
		lh_address_format(rank->address, address, sizeof(address)), "port", TRAINER_PORT,
		"micro_batch", (json_int_t)node->micro_batch, "samples_per_s",
		node->profile->samples_per_s, "variation_ratio", node->profile->variation_ratio,
		"accumulate_ns", (json_int_t)node->accumulate_ns, "averaging_bps",
		(json_int_t)node->host->averaging_bps, "apply_ns", (json_int_t)node->apply_ns);

	if (node->target_ratio > 0)
		json_object_set_new(doc, "target_ratio",
				    json_real(node->target_ratio / (double)node->n_ranks));
	if (shards && strcmp(shards, "bandwidth") == 0)
		json_object_set_new(doc, "bandwidth_bps", json_integer(bandwidth_bps(plan, i)));
	if (node->n_ranks > 1) {
		json_object_set_new(doc, "vm", json_string(node->name));
		json_object_set_new(doc, "local_rank", json_integer((json_int_t)rank->local));
	}
	return doc;
}

/* Until when a rank is slow that begins at begin_ns. */
static json_int_t slow_until(const struct lh_slowdown *s, int64_t begin_ns)
{
	return s->to_ns == INT64_MAX ? INT64_MAX : begin_ns + s->to_ns;
}

static void add_slowdown(json_t *rank, const struct lh_slowdown *s, int64_t begin_ns)
{
	if (!json_object_get(rank, "slow"))
		json_object_set_new(rank, "slow", json_array());
	json_array_append_new(json_object_get(rank, "slow"),
			      json_pack("{s:I, s:I, s:f}", "from_ns",
					(json_int_t)(begin_ns + s->from_ns), "to_ns",
					slow_until(s, begin_ns), "factor", s->factor));
}

/* Says of those that are slow at times when that is. */
static void add_slowdowns(const struct lh_plan *plan, int64_t begin_ns, json_t *ranks)
{
	const struct lh_scenario *sc = plan->scenario;

	for (size_t i = 0; i < sc->n_slowdowns; i++) {
		const struct lh_slowdown *s = &sc->slowdowns[i];
		const struct lh_plan_node *node = &plan->nodes[s->node];

		for (size_t k = 0; k < node->n_ranks; k++)
			add_slowdown(json_array_get(ranks, node->first_rank + k), s, begin_ns);
	}
}

/* What a ring's step from one rank to another takes, a rank's share of the vector: how long it is
 * sent, and with the delay. */
static void step_ns(const struct lh_plan *plan, size_t from, size_t to, double *ret_step_ns,
		    double *ret_busy_ns)
{
	const struct lh_scenario *sc = plan->scenario;
	size_t a = plan->ranks[from].node, b = plan->ranks[to].node;
	double share_bits = FP32_BITS * (double)sc->model->parameters / (double)plan->n_ranks;

	if (a == b)
		return;
	*ret_busy_ns = share_bits / pair_bps(plan, a, b) * NS_PER_S;
	*ret_step_ns = (double)lh_plan_path_at(plan, a, b)->delay_ns + *ret_busy_ns;
}

/* The ranks in the order of the quickest ring; NULL where there is no memory. */
static json_t *ring_order(const struct lh_plan *plan)
{
	size_t n = plan->n_ranks;
	lh_cleanup_free double *costs = calloc(2 * n * n, sizeof(*costs));
	lh_cleanup_free uint32_t *order = calloc(n, sizeof(*order));
	json_t *ranks = NULL;
	double cost;

	for (size_t i = 0; costs && i < n * n; i++)
		step_ns(plan, i / n, i % n, &costs[i], &costs[n * n + i]);
	if (costs && order &&
	    lh_collective_ring_order(costs, costs + n * n, (uint32_t)n,
				     (uint64_t)plan->scenario->run.seed, order, &cost, NULL) == 0)
		ranks = json_array();
	for (size_t i = 0; ranks && i < n; i++)
		json_array_append_new(ranks, json_integer(order[i]));
	return ranks;
}

int64_t lh_start_timeout_ns(const struct lh_plan *plan)
{
	/* several round trips to connect and greet. TCP tries again after as long as it has waited:
	 * after an outage that may be as long again */
	int64_t patience_ns = START_TIMEOUT_FLOOR_S * INT64_C(1000000000) +
			      4 * lh_plan_longest_rtt_ns(plan) +
			      OUTAGE_FACTOR * lh_plan_longest_outage_ns(plan);

	return patience_ns > PATIENCE_MAX_NS ? PATIENCE_MAX_NS : patience_ns;
}

json_t *lh_trainer_job(const struct lh_plan *plan, int64_t begin_ns)
{
	const struct lh_workload *w = &plan->scenario->workload;
	bool is_training = w->mode == LH_MODE_TRAIN;
	json_t *ranks = json_array();
	json_t *job;

	for (size_t i = 0; i < plan->n_ranks; i++)
		json_array_append_new(ranks, rank_to_json(plan, i));
	add_slowdowns(plan, begin_ns, ranks);
	job = json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:o, s:s, s:o, s:I, s:o}", "format",
			"longhaul-trainer-job/1", "seed", (json_int_t)plan->scenario->run.seed,
			"mode", is_training ? "train" : "replay", "model", w->model, "parameters",
			(json_int_t)plan->scenario->model->parameters, "target_batch",
			(json_int_t)w->target_batch, "epochs", (json_int_t)w->epochs, "compress",
			lh_compress_to_json(&w->compress), "transport", w->transport, "strategy",
			lh_strategy_to_json(&w->strategy), "start_timeout_ns",
			(json_int_t)lh_start_timeout_ns(plan), "ranks", ranks);
	if (w->strategy.order && strcmp(w->strategy.order, "shortest") == 0)
		json_object_set_new(job, "ring_order", ring_order(plan));
	if (is_training)
		json_object_set_new(job, "train", lh_train_to_json(&w->train));
	return job;
}
