/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy `d-psgd`: in every epoch each rank tells its weights to its neighbours while it computes
 * its gradient, goes to the weighted mean of theirs and its own, and steps with the gradient:
 *   x(r) = sum over s of W(r, s) x(s) - lr x gradient(x(r) before)
 * W is doubly stochastic: 1 / (degree + 1) for a rank itself and each that it hears.
 *
 * What travels are differences to what a rank has told so far, through the compressor. All hold the
 * same sum of them, so the mean over all ranks stays what it would be with exact messages, and the
 * error of rounding shrinks with the steps. With exact messages this is D-PSGD.
 *
 * Source: Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NeurIPS
 * 2017, arXiv 1705.09056, Algorithm 1; the compressed form: Koloskova, Stich, Jaggi, ICML 2019,
 * arXiv 1902.00340, with step size 1.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/strategy/gossip.h"
#include "trainer/strategy/strategy.h"

enum { PHASE_WEIGHTS = 1 };

/* A rank that this one hears. */
struct neighbour {
	uint32_t rank;
	struct lh_request request;
	unsigned char *wire; /* what it told last */
};

struct d_psgd {
	struct lh_rank *rank;
	struct lh_gossip gossip;
	uint32_t degree;
	double weight;		  /* 1 / (degree + 1) */
	struct neighbour *heard;  /* degree */
	uint32_t *told;		  /* degree: ranks */
	struct lh_request *sends; /* degree */
	unsigned char *own;	  /* what this rank tells */
	float *public_weights;	  /* what all know of this rank's weights; NULL: replayed */
	float *mean;		  /* sum over s of W(r, s) x public weights of s */
	uint32_t epoch;
	int64_t begin_ns;
	int64_t host_ns;
	struct lh_beside_task task;
};

/* ---- opening and closing ------------------------------------------------------------------ */

static int alloc(struct d_psgd *d, struct lh_error *err)
{
	size_t n = d->rank->n;

	d->heard = calloc(n, sizeof(*d->heard));
	d->told = calloc(n, sizeof(*d->told));
	d->sends = calloc(n, sizeof(*d->sends));
	return d->heard && d->told && d->sends ? 0
					       : lh_fail(err, LH_ESYS, ENOMEM, "start to gossip");
}

/* Who hears whom; marks both in wanted. */
static void list_neighbours(struct d_psgd *d, uint8_t *wanted)
{
	enum lh_gossip_graph graph = d->rank->job->settings.graph;
	uint32_t n = d->rank->n, self = d->rank->self, n_told = 0;

	for (uint32_t peer = 0; peer < n; peer++) {
		if (lh_gossip_has_edge(graph, n, self, peer)) {
			d->told[n_told++] = peer;
			wanted[peer] |= LH_MESH_DATA;
		}
		if (lh_gossip_has_edge(graph, n, peer, self)) {
			d->heard[d->degree++].rank = peer;
			wanted[peer] |= LH_MESH_DATA;
		}
	}
	d->weight = 1.0 / (d->degree + 1);
}

static int open_numbers(struct d_psgd *d, struct lh_error *err)
{
	size_t size = d->gossip.n * sizeof(float);
	bool has_memory;

	d->own = calloc(d->gossip.head_bytes, 1);
	has_memory = d->own;
	for (uint32_t i = 0; i < d->degree; i++) {
		d->heard[i].wire = calloc(d->gossip.head_bytes, 1);
		has_memory = has_memory && d->heard[i].wire;
	}
	if (d->gossip.weights) {
		d->public_weights = malloc(size);
		d->mean = malloc(size);
		has_memory = has_memory && d->public_weights && d->mean;
	}
	if (!has_memory)
		return lh_fail(err, LH_ESYS, ENOMEM, "start to gossip");
	if (d->gossip.weights) {
		memcpy(d->public_weights, d->gossip.weights, size);
		memcpy(d->mean, d->gossip.weights, size);
	}
	return 0;
}

static void close_d_psgd(struct d_psgd *d)
{
	lh_gossip_close(&d->gossip);
	for (uint32_t i = 0; i < d->degree; i++)
		free(d->heard[i].wire);
	free(d->heard);
	free(d->told);
	free(d->sends);
	free(d->own);
	free(d->public_weights);
	free(d->mean);
}

/* ---- an epoch ----------------------------------------------------------------------------- */

/* On the helper: tells and hears. */
static int exchange(void *arg, struct lh_error *err)
{
	struct d_psgd *d = arg;
	const struct lh_gossip *g = &d->gossip;
	const uint64_t *samples = g->steps.samples;
	struct lh_comm *comm = d->rank->comm;
	int rc = 0;

	for (uint32_t i = 0; i < d->degree; i++) {
		struct neighbour *peer = &d->heard[i];
		struct lh_message message =
			lh_gossip_message(g, d->epoch, PHASE_WEIGHTS, samples[peer->rank]);

		lh_comm_receive(comm, peer->rank, &message, peer->wire, &peer->request);
	}
	lh_clock_sleep_until(d->begin_ns + d->host_ns);
	for (uint32_t i = 0; i < d->degree; i++) {
		struct lh_message message =
			lh_gossip_message(g, d->epoch, PHASE_WEIGHTS, samples[d->rank->self]);

		lh_comm_send(comm, d->told[i], &message, d->own, &d->sends[i]);
	}
	for (uint32_t i = 0; rc == 0 && i < d->degree; i++)
		rc = lh_comm_wait(comm, &d->heard[i].request, INT64_MAX, err);
	for (uint32_t i = 0; rc == 0 && i < d->degree; i++)
		rc = lh_comm_wait(comm, &d->sends[i], INT64_MAX, err);
	return rc;
}

/* Adds a told difference to the mean, and to the public weights where it is the rank's own. */
static void add_told(struct d_psgd *d, const unsigned char *wire, bool is_own)
{
	const struct lh_gossip *g = &d->gossip;

	d->rank->job->compress->decode(wire, g->n, g->scratch);
	for (uint64_t i = 0; i < g->n; i++) {
		double way = g->scratch[i];

		d->mean[i] = (float)((double)d->mean[i] + d->weight * way);
		if (is_own)
			d->public_weights[i] = (float)((double)d->public_weights[i] + way);
	}
}

static void begin_exchange(struct d_psgd *d, uint32_t epoch)
{
	struct lh_gossip *g = &d->gossip;

	d->epoch = epoch;
	d->begin_ns = lh_clock_now_ns();
	if (g->weights) {
		for (uint64_t i = 0; i < g->n; i++)
			g->scratch[i] =
				(float)((double)g->weights[i] - (double)d->public_weights[i]);
		d->rank->job->compress->encode(g->scratch, g->n, d->own);
		add_told(d, d->own, true);
	} else {
		lh_gossip_draw(g, d->rank->self, d->rank->self, epoch, d->own);
	}
	lh_beside_post(g->beside, &d->task);
}

static int check_heard(struct d_psgd *d, const struct neighbour *peer, struct lh_error *err)
{
	const struct lh_message *message = &peer->request.message;

	if (message->samples != d->gossip.steps.samples[peer->rank])
		return lh_fail(err, LH_ERUN, 0,
			       "rank %" PRIu32 " (%s) computes %" PRIu64
			       " samples; expected %" PRIu64,
			       peer->rank, d->rank->job->ranks[peer->rank].node, message->samples,
			       d->gossip.steps.samples[peer->rank]);
	if (d->gossip.weights)
		return 0;
	return lh_gossip_check(&d->gossip, peer->rank, peer->rank, d->epoch, peer->wire, err);
}

static int write_exchange(struct d_psgd *d, int64_t wait_ns, struct lh_error *err)
{
	const struct lh_gossip *g = &d->gossip;
	int64_t now_ns = lh_clock_now_ns();
	struct lh_average done = {
		.host_ns = d->host_ns,
		.payload_sent_bytes = d->degree * g->wire_bytes,
		.payload_received_bytes = d->degree * g->wire_bytes,
		.group_samples = g->steps.samples[d->rank->self],
		.checked_elements = g->weights ? 0 : (uint64_t)d->degree * g->n_real,
	};
	int rc = lh_rank_write_span(d->rank, "wait", d->epoch, wait_ns, now_ns, now_ns, err);

	for (uint32_t i = 0; i < d->degree; i++)
		done.group_samples += g->steps.samples[d->heard[i].rank];
	return rc ? rc
		  : lh_rank_write_average_beside(d->rank, d->epoch, d->begin_ns, d->task.end_ns,
						 &done, err);
}

/* Goes to the mean of what the neighbours told. */
static int end_exchange(struct d_psgd *d, struct lh_error *err)
{
	struct lh_gossip *g = &d->gossip;
	int64_t begin_ns = lh_clock_now_ns(), timeout_ns = d->rank->job->settings.timeout_ns;
	int rc;

	d->rank->doing = "waiting for neighbours";
	rc = lh_beside_wait(g->beside, &d->task, begin_ns + timeout_ns, err);
	if (rc && err && err->sys == ETIMEDOUT)
		lh_error_prefix(err, "no message of a neighbour within %g s",
				(double)timeout_ns / (double)LH_NS_PER_S);
	if (rc == 0)
		rc = write_exchange(d, begin_ns, err);
	for (uint32_t i = 0; rc == 0 && i < d->degree; i++) {
		rc = check_heard(d, &d->heard[i], err);
		if (rc == 0 && g->weights)
			add_told(d, d->heard[i].wire, false);
	}
	if (rc || !g->weights)
		return rc;
	for (uint64_t i = 0; i < g->n; i++)
		g->weights[i] = (float)((double)g->weights[i] +
					((double)d->mean[i] - (double)d->public_weights[i]));
	return d->rank->compute->write_weights(d->rank->computing, g->weights, err);
}

static int run_epoch(struct d_psgd *d, uint32_t epoch, struct lh_error *err)
{
	struct lh_gossip *g = &d->gossip;
	int rc;

	lh_steps_begin(&g->steps, epoch);
	if (g->beside)
		begin_exchange(d, epoch);
	rc = lh_steps_compute(&g->steps, err);
	if (rc == 0 && g->beside)
		rc = end_exchange(d, err);
	if (rc == 0)
		rc = lh_steps_apply(&g->steps, err);
	if (rc == 0 && g->weights)
		rc = d->rank->compute->read_weights(d->rank->computing, g->weights, err);
	if (rc == 0 && epoch + 1 == d->rank->job->epochs)
		rc = lh_gossip_end(g, epoch, err);
	return rc ? rc : lh_steps_end(&g->steps, err);
}

static int check_beside(void *checked, struct lh_error *err)
{
	struct d_psgd *d = checked;

	return d->gossip.beside ? lh_beside_check(d->gossip.beside, err) : 0;
}

static int start(struct d_psgd *d, struct lh_error *err)
{
	lh_cleanup_free uint8_t *wanted = calloc(d->rank->n, sizeof(*wanted));
	int rc = alloc(d, err);

	if (!wanted)
		rc = lh_fail(err, LH_ESYS, ENOMEM, "start to gossip");
	if (rc)
		return rc;
	list_neighbours(d, wanted);
	if ((rc = lh_gossip_open(&d->gossip, d->rank, wanted, err)) || (rc = open_numbers(d, err)))
		return rc;
	d->host_ns = lh_rank_host_ns(d->rank, d->degree * d->gossip.wire_bytes);
	d->task = (struct lh_beside_task){.run = exchange, .arg = d};
	d->gossip.steps.check = check_beside;
	d->gossip.steps.checked = d;
	return 0;
}

static int run_all(struct d_psgd *d, struct lh_error *err)
{
	int rc = start(d, err);

	if (rc)
		return lh_error_prefix(err, "connecting");
	for (uint32_t epoch = 0; rc == 0 && epoch < d->rank->job->epochs; epoch++)
		if ((rc = run_epoch(d, epoch, err)))
			lh_error_prefix(err, "epoch %" PRIu32 ", %s", epoch, d->rank->doing);
	if (rc == 0 && (rc = lh_rank_finish(d->rank, err)))
		lh_error_prefix(err, "ending");
	return rc;
}

static int run(struct lh_rank *rank, struct lh_error *err)
{
	struct d_psgd d = {.rank = rank, .gossip = {.rank = rank}};
	int rc = run_all(&d, err);

	close_d_psgd(&d);
	return rc;
}

const struct lh_strategy_ops lh_strategy_d_psgd = {
	.name = "d-psgd",
	.doc = "mean of the neighbours' weights beside the gradient's computing (D-PSGD)",
	.run = run,
};
