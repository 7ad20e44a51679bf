/* SPDX-License-Identifier: Apache-2.0 */
/* Gossip. See gossip.h. */
#include "trainer/strategy/gossip.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/compute/replay.h"

enum { SLICE_ELEMENTS = 4096 };

static const double SLICE_SCALE = 1.0 / 64;
static const double PATIENCE_MAX_NS = 1e18;

/* ---- graphs ------------------------------------------------------------------------------- */

static bool is_power_of_two(uint32_t number)
{
	return number && (number & (number - 1)) == 0;
}

bool lh_gossip_has_edge(enum lh_gossip_graph graph, uint32_t n, uint32_t from, uint32_t to)
{
	uint32_t distance = (to + n - from) % n;

	switch (graph) {
	case LH_GRAPH_RING:
		return distance && (distance == 1 || distance == n - 1);
	case LH_GRAPH_EXPONENTIAL:
		return is_power_of_two(distance);
	case LH_GRAPH_COMPLETE:
		return distance > 0;
	}
	return false;
}

uint32_t lh_gossip_degree(enum lh_gossip_graph graph, uint32_t n)
{
	uint32_t degree = 0;

	for (uint32_t to = 1; to < n; to++)
		degree += lh_gossip_has_edge(graph, n, 0, to);
	return degree;
}

/* 1, 3, 5, 9, 17 ... */
static bool is_odd_step(uint32_t distance)
{
	return distance == 1 || (distance % 2 && is_power_of_two(distance - 1));
}

bool lh_gossip_is_pair(enum lh_gossip_graph graph, uint32_t n, uint32_t asks, uint32_t answers)
{
	uint32_t distance = (answers + n - asks) % n;

	if (asks % 2 || !(answers % 2))
		return false;
	switch (graph) {
	case LH_GRAPH_RING:
		return distance == 1 || distance == n - 1;
	case LH_GRAPH_EXPONENTIAL:
		return is_odd_step(distance) || is_odd_step(n - distance);
	case LH_GRAPH_COMPLETE:
		return true;
	}
	return false;
}

/* ---- opening ------------------------------------------------------------------------------ */

static int alloc(struct lh_gossip *g, struct lh_error *err)
{
	struct lh_rank *rank = g->rank;
	const struct lh_codec_ops *codec = rank->job->compress;
	struct lh_averaged model = rank->compute->averaged(rank->computing);
	uint64_t n_real = model.values || model.n < SLICE_ELEMENTS ? model.n : SLICE_ELEMENTS;

	g->n = model.n;
	g->wire_bytes = codec->wire_bytes(model.n);
	if (codec->wire_bytes(n_real) > UINT32_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "weights of %" PRIu64 " bytes in a message; expected below 4 GiB",
			       codec->wire_bytes(n_real));
	g->n_real = (uint32_t)n_real;
	g->head_bytes = (uint32_t)codec->wire_bytes(n_real);
	g->scratch = calloc(n_real, sizeof(*g->scratch));
	g->wire = calloc(g->head_bytes, 1);
	g->weights = model.values ? calloc(model.n, sizeof(*g->weights)) : NULL;
	if (!g->scratch || !g->wire || (model.values && !g->weights))
		return lh_fail(err, LH_ESYS, ENOMEM, "start to gossip");
	return g->weights ? rank->compute->read_weights(rank->computing, g->weights, err) : 0;
}

/* The job that the end is in, and its rank before it is connected. */
static void make_last(struct lh_gossip *g)
{
	g->last_job = *g->rank->job;
	g->last_job.compress = &lh_codec_none;
	g->last_job.settings.order = LH_ORDER_GIVEN;
	snprintf(g->last_job.settings.collective, sizeof(g->last_job.settings.collective), "ring");
	g->last_rank = *g->rank;
	g->last_rank.job = &g->last_job;
}

/* What a rank waits at the end for ranks that are slower. */
static int64_t last_patience_ns(const struct lh_job *job)
{
	double slowest_ns = 0;

	for (uint32_t r = 0; r < job->n_ranks; r++) {
		double micro_batches = (double)job->target_batch / job->ranks[r].micro_batch + 1;
		double ns = micro_batches * (double)lh_replay_mean_ns(&job->ranks[r]) +
			    (double)job->ranks[r].apply_ns;

		slowest_ns = ns > slowest_ns ? ns : slowest_ns;
	}
	slowest_ns = 4 * slowest_ns * job->epochs + (double)job->settings.timeout_ns;
	return slowest_ns < PATIENCE_MAX_NS ? (int64_t)slowest_ns : (int64_t)PATIENCE_MAX_NS;
}

static int open_last(struct lh_gossip *g, struct lh_error *err)
{
	struct lh_rank *rank = g->rank;
	struct lh_averaged averaged = {
		.n = g->n,
		.patience_ns = last_patience_ns(rank->job),
		.values = g->weights,
		.device = rank->compute->averaged(rank->computing).device,
	};

	make_last(g);
	return lh_averaging_dense.open(&g->last_rank, averaged, &g->last, err);
}

int lh_gossip_open(struct lh_gossip *ret_gossip, struct lh_rank *rank, uint8_t *wanted,
		   struct lh_error *err)
{
	struct lh_gossip *g = ret_gossip;
	int rc;

	*g = (struct lh_gossip){.rank = rank};
	if ((rc = lh_steps_init(&g->steps, rank, err)) || (rc = alloc(g, err)))
		return rc;
	make_last(g);
	if ((rc = lh_steps_want(&g->last_rank, &lh_averaging_dense, g->n, wanted, err)) ||
	    (rc = lh_rank_connect(rank, wanted, err)))
		return rc;
	if (rank->n > 1 && ((rc = lh_rank_open_comm(rank, err)) || (rc = open_last(g, err)) ||
			    (rc = lh_beside_open(&g->beside, err))))
		return rc;
	return lh_rank_write_connected(rank, err);
}

void lh_gossip_close(struct lh_gossip *gossip)
{
	/* whatever the helper waits for ends now */
	for (uint32_t peer = 0; gossip->rank->comm && peer < gossip->rank->n; peer++)
		lh_comm_detach(gossip->rank->comm, peer);
	lh_beside_close(gossip->beside);
	lh_averaging_dense.close(gossip->last);
	lh_steps_done(&gossip->steps);
	free(gossip->weights);
	free(gossip->scratch);
	free(gossip->wire);
}

/* ---- messages ----------------------------------------------------------------------------- */

struct lh_message lh_gossip_message(const struct lh_gossip *gossip, uint32_t epoch, uint16_t phase,
				    uint64_t samples)
{
	return (struct lh_message){
		.epoch = epoch,
		.phase = phase,
		.samples = samples,
		.length = gossip->wire_bytes,
		.head_bytes = gossip->head_bytes,
	};
}

void lh_gossip_draw(struct lh_gossip *gossip, uint32_t from, uint32_t to, uint32_t count,
		    unsigned char *ret_wire)
{
	struct lh_rng rng;
	char stream[64];

	snprintf(stream, sizeof(stream), "gossip/%" PRIu32 "/%" PRIu32 "/%" PRIu32, from, to,
		 count);
	lh_rng_init(&rng, gossip->rank->job->seed, stream);
	for (uint32_t i = 0; i < gossip->n_real; i++)
		gossip->scratch[i] = (float)((2.0 * lh_rng_uniform(&rng) - 1.0) * SLICE_SCALE);
	gossip->rank->job->compress->encode(gossip->scratch, gossip->n_real, ret_wire);
}

int lh_gossip_check(struct lh_gossip *gossip, uint32_t from, uint32_t to, uint32_t count,
		    const unsigned char *wire, struct lh_error *err)
{
	lh_gossip_draw(gossip, from, to, count, gossip->wire);
	if (memcmp(gossip->wire, wire, gossip->head_bytes) == 0)
		return 0;
	return lh_fail(err, LH_ERUN, 0,
		       "rank %" PRIu32 " (%s): its message %" PRIu32
		       " has other numbers than were sent",
		       from, gossip->rank->job->ranks[from].node, count);
}

/* ---- the end ------------------------------------------------------------------------------ */

/* How far own weights are from the mean, as a share of that. */
static int write_consensus(struct lh_gossip *g, uint32_t epoch, const float *own,
			   struct lh_error *err)
{
	double apart = 0, all = 0;

	for (uint64_t i = 0; i < g->n; i++) {
		double mean = g->weights[i], way = (double)own[i] - mean;

		apart += way * way;
		all += mean * mean;
	}
	return lh_events_add(g->rank->events, "consensus", lh_clock_now_ns(),
			     json_pack("{s:I, s:f}", "epoch", (json_int_t)epoch, "distance_ratio",
				       all > 0 ? sqrt(apart / all) : 0.0),
			     err);
}

static int average_all(struct lh_gossip *g, uint32_t epoch, struct lh_average *ret_done,
		       struct lh_error *err)
{
	lh_cleanup_free uint64_t *equal = calloc(g->rank->n, sizeof(*equal));

	if (!equal)
		return lh_fail(err, LH_ESYS, ENOMEM, "average the models");
	for (uint32_t r = 0; r < g->rank->n; r++)
		equal[r] = 1;
	return lh_averaging_dense.average(g->last, epoch, equal, ret_done, err);
}

int lh_gossip_end(struct lh_gossip *gossip, uint32_t epoch, struct lh_error *err)
{
	struct lh_gossip *g = gossip;
	struct lh_rank *rank = g->rank;
	lh_cleanup_free float *own = g->weights ? calloc(g->n, sizeof(*own)) : NULL;
	int64_t begin_ns = lh_clock_now_ns();
	struct lh_average done;
	int rc;

	if (!g->last)
		return 0;
	if (g->weights && !own)
		return lh_fail(err, LH_ESYS, ENOMEM, "average the models");
	rank->doing = "averaging all models";
	if (own)
		memcpy(own, g->weights, g->n * sizeof(*own));
	if ((rc = average_all(g, epoch, &done, err)))
		return rc;
	done.group_samples = g->steps.total;
	rc = lh_rank_write_average(rank, epoch, begin_ns, &done, err);
	if (rc == 0 && own)
		rc = write_consensus(g, epoch, own, err);
	if (rc == 0 && own)
		rc = rank->compute->write_weights(rank->computing, g->weights, err);
	return rc;
}
