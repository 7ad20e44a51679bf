/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy `ad-psgd`: every rank computes and steps at its own speed. Beside that, even ranks
 * average with one odd neighbour after another, drawn at random: both go to the mean of the two, at
 * one instant each. An even rank begins an exchange with each of its gradients, unless the last is
 * still under way; an odd one answers one at a time. A gradient is of weights that may have moved
 * meanwhile, and is applied to those that are.
 *
 * How many steps a rank takes follows from the job, so that samples are exact; a slow rank holds
 * up none but the end, when all have done theirs.
 *
 * An exchange carries differences to what the two had in common after their last one, through the
 * compressor. Both move by half of the same distance, so the mean over all ranks stays as it is.
 *
 * Source: Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML
 * 2018, arXiv 1710.06952, Algorithm 1.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/strategy/gossip.h"
#include "trainer/strategy/strategy.h"

enum { PHASE_CALL = 1, PHASE_WEIGHTS };

/* What a call, a message of one byte, says. */
enum call { CALL_EXCHANGE = 1, CALL_END };

/* A rank that this one averages with. */
struct partner {
	uint32_t rank;
	uint32_t n_exchanges;
	int64_t heard_ns;     /* when it was last at hand */
	unsigned char called; /* what its call says */
	struct lh_request call;
	float *common; /* what both had after the last exchange; NULL: replayed */
};

struct ad_psgd {
	struct lh_rank *rank;
	struct lh_gossip gossip;
	bool asks; /* else it answers */
	uint32_t n_partners;
	struct partner *partners;
	struct lh_beside_task task;
	bool is_posted;
	/* the helper's: */
	struct lh_rng rng;	   /* of partners */
	struct lh_request **calls; /* by partner; NULL: none is awaited */
	struct lh_request send;	   /* of what is under way */
	struct lh_request receive;
	unsigned char calling;
	unsigned char *own; /* on the wire */
	unsigned char *other;
	float *difference; /* n, of the partner; NULL: replayed */
	/* of both threads: */
	pthread_mutex_t mutex;	  /* of gossip.weights and of all below */
	struct lh_average untold; /* exchanges that no `average` has told */
	bool has_untold;
	int64_t untold_begin_ns;
	int64_t untold_end_ns;
};

/* ---- exchanges, on the helper ------------------------------------------------------------- */

/* What this rank tells. */
static void encode_own(struct ad_psgd *a, const struct partner *p)
{
	struct lh_gossip *g = &a->gossip;

	if (!g->weights) {
		lh_gossip_draw(g, a->rank->self, p->rank, p->n_exchanges, a->own);
		return;
	}
	pthread_mutex_lock(&a->mutex);
	for (uint64_t i = 0; i < g->n; i++)
		g->scratch[i] = (float)((double)g->weights[i] - (double)p->common[i]);
	pthread_mutex_unlock(&a->mutex);
	a->rank->job->compress->encode(g->scratch, g->n, a->own);
}

/* Goes half of the way to the partner, as both see it. */
static int meet(struct ad_psgd *a, struct partner *p, struct lh_error *err)
{
	struct lh_gossip *g = &a->gossip;
	const struct lh_codec_ops *codec = a->rank->job->compress;

	if (!g->weights)
		return lh_gossip_check(g, p->rank, a->rank->self, p->n_exchanges, a->other, err);
	codec->decode(a->own, g->n, g->scratch);
	codec->decode(a->other, g->n, a->difference);
	pthread_mutex_lock(&a->mutex);
	for (uint64_t i = 0; i < g->n; i++) {
		double own = g->scratch[i], other = a->difference[i];

		g->weights[i] = (float)((double)g->weights[i] + (other - own) / 2);
		p->common[i] = (float)((double)p->common[i] + (own + other) / 2);
	}
	pthread_mutex_unlock(&a->mutex);
	return 0;
}

/* Books what no `average` has told yet, from begin_ns to now. */
static void book(struct ad_psgd *a, int64_t begin_ns, const struct lh_average *done)
{
	pthread_mutex_lock(&a->mutex);
	if (!a->has_untold)
		a->untold_begin_ns = begin_ns;
	a->has_untold = true;
	a->untold_end_ns = lh_clock_now_ns();
	a->untold.host_ns += done->host_ns;
	a->untold.payload_sent_bytes += done->payload_sent_bytes;
	a->untold.payload_received_bytes += done->payload_received_bytes;
	a->untold.checked_elements += done->checked_elements;
	pthread_mutex_unlock(&a->mutex);
}

/* Waits for a partner, for as long as the timeout. */
static int wait_for(struct ad_psgd *a, struct lh_request *request, struct lh_error *err)
{
	int64_t timeout_ns = a->rank->job->settings.timeout_ns;
	int rc = lh_comm_wait(a->rank->comm, request, lh_clock_now_ns() + timeout_ns, err);

	if (rc && err && err->sys == ETIMEDOUT)
		lh_error_prefix(err, "nothing within %g s",
				(double)timeout_ns / (double)LH_NS_PER_S);
	return rc;
}

/* Swaps weights with a partner, which has called or been called. *ret_done: but for the call. */
static int swap(struct ad_psgd *a, struct partner *p, struct lh_average *ret_done,
		struct lh_error *err)
{
	struct lh_message message = lh_gossip_message(&a->gossip, p->n_exchanges, PHASE_WEIGHTS, 0);
	int rc;

	*ret_done = (struct lh_average){
		.host_ns = lh_rank_host_ns(a->rank, message.length),
		.payload_sent_bytes = message.length,
		.payload_received_bytes = message.length,
		.checked_elements = a->gossip.weights ? 0 : a->gossip.n_real,
	};
	lh_comm_receive(a->rank->comm, p->rank, &message, a->other, &a->receive);
	encode_own(a, p);
	lh_clock_sleep_until(lh_clock_now_ns() + ret_done->host_ns);
	lh_comm_send(a->rank->comm, p->rank, &message, a->own, &a->send);
	if ((rc = wait_for(a, &a->receive, err)) || (rc = wait_for(a, &a->send, err)) ||
	    (rc = meet(a, p, err)))
		return rc;
	p->n_exchanges++;
	return 0;
}

static struct lh_message call_of(const struct partner *p)
{
	return (struct lh_message){
		.epoch = p->n_exchanges, .phase = PHASE_CALL, .length = 1, .head_bytes = 1};
}

static int call(struct ad_psgd *a, struct partner *p, enum call what, struct lh_error *err)
{
	struct lh_message message = call_of(p);

	a->calling = (unsigned char)what;
	lh_comm_send(a->rank->comm, p->rank, &message, &a->calling, &a->send);
	return wait_for(a, &a->send, err);
}

/* Averages with a partner that chance names. */
static int ask(void *arg, struct lh_error *err)
{
	struct ad_psgd *a = arg;
	struct partner *p = &a->partners[lh_rng_below(&a->rng, a->n_partners)];
	int64_t begin_ns = lh_clock_now_ns();
	struct lh_average done;
	int rc;

	if ((rc = call(a, p, CALL_EXCHANGE, err)) || (rc = swap(a, p, &done, err)))
		return rc;
	done.payload_sent_bytes++;
	book(a, begin_ns, &done);
	return 0;
}

static void await_call(struct ad_psgd *a, uint32_t i)
{
	struct partner *p = &a->partners[i];
	struct lh_message message = call_of(p);

	p->heard_ns = lh_clock_now_ns();
	a->calls[i] = &p->call;
	lh_comm_receive(a->rank->comm, p->rank, &message, &p->called, &p->call);
}

/* Answers a call. *ret_has_ended: the partner will not call again. */
static int answer(struct ad_psgd *a, struct partner *p, bool *ret_has_ended, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();
	struct lh_average done = {0};
	int rc = wait_for(a, &p->call, err); /* it has come, or failed */

	if (rc)
		return rc;
	if (p->called != CALL_EXCHANGE && p->called != CALL_END)
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " (%s): an unknown call, %u",
			       p->rank, a->rank->job->ranks[p->rank].node, p->called);
	*ret_has_ended = p->called == CALL_END;
	if (!*ret_has_ended)
		rc = swap(a, p, &done, err);
	done.payload_received_bytes++;
	if (rc == 0)
		book(a, begin_ns, &done);
	return rc;
}

/* The partner that has been silent for longest of those that will call again. */
static const struct partner *longest_silent(const struct ad_psgd *a)
{
	const struct partner *silent = NULL;

	for (uint32_t i = 0; i < a->n_partners; i++)
		if (a->calls[i] && (!silent || a->partners[i].heard_ns < silent->heard_ns))
			silent = &a->partners[i];
	return silent;
}

/* Waits for a call, by none for longer than the timeout. */
static int next_call(struct ad_psgd *a, uint32_t *ret_partner, struct lh_error *err)
{
	const struct partner *silent = longest_silent(a);
	int64_t timeout_ns = a->rank->job->settings.timeout_ns;
	int rc = lh_comm_wait_any(a->rank->comm, a->calls, a->n_partners,
				  silent->heard_ns + timeout_ns, ret_partner, err);

	if (rc && err && err->sys == ETIMEDOUT)
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " (%s): no call within %g s",
			       silent->rank, a->rank->job->ranks[silent->rank].node,
			       (double)timeout_ns / (double)LH_NS_PER_S);
	return rc;
}

/* Answers in the order in which calls come, until nobody will call any more. */
static int answer_all(void *arg, struct lh_error *err)
{
	struct ad_psgd *a = arg;
	uint32_t n_left = a->n_partners, i;
	int rc = 0;

	for (i = 0; i < a->n_partners; i++)
		await_call(a, i);
	while (rc == 0 && n_left) {
		bool has_ended = false;

		rc = next_call(a, &i, err);
		if (rc)
			break;
		a->calls[i] = NULL;
		rc = answer(a, &a->partners[i], &has_ended, err);
		if (rc == 0 && has_ended)
			n_left--;
		else if (rc == 0)
			await_call(a, i);
	}
	return rc;
}

/* ---- opening and closing ------------------------------------------------------------------ */

static bool is_partner(const struct ad_psgd *a, uint32_t peer)
{
	enum lh_gossip_graph graph = a->rank->job->settings.graph;
	uint32_t n = a->rank->n, self = a->rank->self;

	return a->asks ? lh_gossip_is_pair(graph, n, self, peer)
		       : lh_gossip_is_pair(graph, n, peer, self);
}

static int open_partners(struct ad_psgd *a, struct lh_error *err)
{
	struct lh_gossip *g = &a->gossip;
	size_t size = g->n * sizeof(float);
	bool has_memory;

	a->own = calloc(g->head_bytes, 1);
	a->other = calloc(g->head_bytes, 1);
	a->difference = g->weights ? malloc(size) : NULL;
	has_memory = a->own && a->other && (!g->weights || a->difference);
	for (uint32_t i = 0; g->weights && i < a->n_partners; i++) {
		struct partner *p = &a->partners[i];

		p->common = malloc(size);
		has_memory = has_memory && p->common;
		if (p->common)
			memcpy(p->common, g->weights, size);
	}
	return has_memory ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "start to gossip");
}

static int check_beside(void *checked, struct lh_error *err)
{
	struct ad_psgd *a = checked;

	return a->gossip.beside ? lh_beside_check(a->gossip.beside, err) : 0;
}

/* The optimizer's step, on weights that may have moved since the gradient. */
static int step(void *applied, struct lh_error *err)
{
	struct ad_psgd *a = applied;
	const struct lh_compute_ops *compute = a->rank->compute;
	float *weights = a->gossip.weights;
	int rc = 0;

	pthread_mutex_lock(&a->mutex);
	if (weights)
		rc = compute->write_weights(a->rank->computing, weights, err);
	if (rc == 0)
		rc = compute->apply(a->rank->computing, err);
	if (rc == 0 && weights)
		rc = compute->read_weights(a->rank->computing, weights, err);
	pthread_mutex_unlock(&a->mutex);
	return rc;
}

static int start(struct ad_psgd *a, struct lh_error *err)
{
	lh_cleanup_free uint8_t *wanted = calloc(a->rank->n, sizeof(*wanted));
	char stream[32];
	int rc;

	a->partners = calloc(a->rank->n, sizeof(*a->partners));
	a->calls = calloc(a->rank->n, sizeof(struct lh_request *));
	if (!wanted || !a->partners || !a->calls)
		return lh_fail(err, LH_ESYS, ENOMEM, "start to gossip");
	for (uint32_t peer = 0; peer < a->rank->n; peer++)
		if (is_partner(a, peer)) {
			a->partners[a->n_partners++].rank = peer;
			wanted[peer] |= LH_MESH_DATA;
		}
	if ((rc = lh_gossip_open(&a->gossip, a->rank, wanted, err)) || (rc = open_partners(a, err)))
		return rc;
	snprintf(stream, sizeof(stream), "partners/%" PRIu32, a->rank->self);
	lh_rng_init(&a->rng, a->rank->job->seed, stream);
	a->task = (struct lh_beside_task){.run = a->asks ? ask : answer_all, .arg = a};
	a->gossip.steps.check = check_beside;
	a->gossip.steps.apply = step;
	a->gossip.steps.checked = a->gossip.steps.applied = a;
	return 0;
}

static void close_ad_psgd(struct ad_psgd *a)
{
	lh_gossip_close(&a->gossip);
	for (uint32_t i = 0; a->partners && i < a->n_partners; i++)
		free(a->partners[i].common);
	free(a->partners);
	free(a->calls);
	free(a->own);
	free(a->other);
	free(a->difference);
	pthread_mutex_destroy(&a->mutex);
}

/* ---- epochs ------------------------------------------------------------------------------- */

/* An even rank asks once per gradient at most; an odd one answers from the begin to the end. */
static void gossip_on(struct ad_psgd *a)
{
	struct lh_beside *beside = a->gossip.beside;

	if (!beside || (a->is_posted && (!a->asks || !lh_beside_has_ended(beside, &a->task))))
		return;
	a->is_posted = true;
	lh_beside_post(beside, &a->task);
}

static int write_untold(struct ad_psgd *a, uint32_t epoch, struct lh_error *err)
{
	struct lh_average untold;
	int64_t begin_ns, end_ns;
	bool has_untold;

	pthread_mutex_lock(&a->mutex);
	untold = a->untold;
	begin_ns = a->untold_begin_ns;
	end_ns = a->untold_end_ns;
	has_untold = a->has_untold;
	a->has_untold = false;
	a->untold = (struct lh_average){0};
	pthread_mutex_unlock(&a->mutex);
	untold.group_samples = a->gossip.steps.samples[a->rank->self];
	return has_untold ? lh_rank_write_average_beside(a->rank, epoch, begin_ns, end_ns, &untold,
							 err)
			  : 0;
}

/* An even rank tells its partners that it will not call again; an odd one waits for that. */
static int end_gossip(struct ad_psgd *a, uint32_t epoch, struct lh_error *err)
{
	static const struct lh_average a_call = {.payload_sent_bytes = 1};
	int64_t begin_ns = lh_clock_now_ns(), now_ns;
	int rc = 0;

	if (!a->gossip.beside)
		return 0;
	a->rank->doing = "waiting for neighbours";
	if (a->is_posted)
		rc = lh_beside_wait(a->gossip.beside, &a->task, INT64_MAX, err);
	for (uint32_t i = 0; rc == 0 && a->asks && i < a->n_partners; i++) {
		rc = call(a, &a->partners[i], CALL_END, err);
		book(a, begin_ns, &a_call);
	}
	now_ns = lh_clock_now_ns();
	return rc ? rc : lh_rank_write_span(a->rank, "wait", epoch, begin_ns, now_ns, now_ns, err);
}

static int run_epoch(struct ad_psgd *a, uint32_t epoch, struct lh_error *err)
{
	bool is_last = epoch + 1 == a->rank->job->epochs;
	int rc;

	lh_steps_begin(&a->gossip.steps, epoch);
	gossip_on(a);
	if ((rc = lh_steps_compute(&a->gossip.steps, err)) ||
	    (rc = lh_steps_apply(&a->gossip.steps, err)))
		return rc;
	if ((is_last && (rc = end_gossip(a, epoch, err))) || (rc = write_untold(a, epoch, err)) ||
	    (is_last && (rc = lh_gossip_end(&a->gossip, epoch, err))))
		return rc;
	return lh_steps_end(&a->gossip.steps, err);
}

static int run_all(struct ad_psgd *a, struct lh_error *err)
{
	int rc = start(a, err);

	if (rc)
		return lh_error_prefix(err, "connecting");
	for (uint32_t epoch = 0; rc == 0 && epoch < a->rank->job->epochs; epoch++)
		if ((rc = run_epoch(a, epoch, err)))
			lh_error_prefix(err, "epoch %" PRIu32 ", %s", epoch, a->rank->doing);
	if (rc == 0 && (rc = lh_rank_finish(a->rank, err)))
		lh_error_prefix(err, "ending");
	return rc;
}

static int run(struct lh_rank *rank, struct lh_error *err)
{
	struct ad_psgd a = {.rank = rank, .gossip = {.rank = rank}, .asks = rank->self % 2 == 0};
	int rc;

	pthread_mutex_init(&a.mutex, NULL);
	rc = run_all(&a, err);
	close_ad_psgd(&a);
	return rc;
}

const struct lh_strategy_ops lh_strategy_ad_psgd = {
	.name = "ad-psgd",
	.doc = "pairs average at random beside steps at own speed (AD-PSGD)",
	.run = run,
};
