/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a server of strategy parameter-server. See parameter_server.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/strategy/ps_server_internal.h"

/* ---- messages ----------------------------------------------------------------------------- */

static void post(struct server *s, struct lh_ps_wire *wire)
{
	s->pending[wire - s->wires] = &wire->request;
}

void lh_ps_server_send(struct server *s, struct lh_ps_wire *wire, uint32_t peer,
		       const struct lh_message *message)
{
	post(s, wire);
	lh_comm_send(s->rank->comm, peer, message, wire->bytes, &wire->request);
}

void lh_ps_server_expect(struct server *s, struct lh_ps_wire *wire, uint32_t peer,
			 const struct lh_message *message)
{
	post(s, wire);
	lh_comm_receive(s->rank->comm, peer, message, wire->bytes, &wire->request);
}

bool lh_ps_server_is_pending(const struct server *s, const struct lh_ps_wire *wire)
{
	return s->pending[wire - s->wires];
}

void lh_ps_server_charge(int64_t ns)
{
	if (ns > 0)
		lh_clock_sleep_until(lh_clock_now_ns() + ns);
}

int lh_ps_server_pump(struct server *s, bool (*is_met)(const struct server *s, const void *arg),
		      const void *arg, int64_t until_ns, struct lh_error *err)
{
	while (!is_met || !is_met(s, arg)) {
		struct lh_error why = {0};
		struct lh_ps_wire *wire;
		uint32_t index;
		int rc = lh_comm_wait_any(s->rank->comm, s->pending, s->n_wires, until_ns, &index,
					  &why);

		/* a lane that has timed out says so by the same number */
		if (rc && why.sys == ETIMEDOUT)
			return lh_comm_check(s->rank->comm, err);
		if (rc) {
			if (err)
				*err = why;
			return rc;
		}
		wire = &s->wires[index];
		s->pending[index] = NULL;
		/* of a request that failed; lanes fail together, so there is none */
		if ((rc = lh_comm_wait(s->rank->comm, &wire->request, 0, err)) ||
		    (wire->take && (rc = wire->take(s, wire, err))))
			return rc;
	}
	return 0;
}

/* ---- workers ------------------------------------------------------------------------------ */

static uint32_t rank_of_worker(const struct server *s, uint32_t worker)
{
	return s->rank->self + 1 + worker;
}

static struct lh_ps_wire *push_of(struct server *s, uint32_t worker)
{
	return &s->workers[2 * worker];
}

static struct lh_ps_wire *pull_of(struct server *s, uint32_t worker)
{
	return &s->workers[2 * worker + 1];
}

static int take_push(struct server *s, struct lh_ps_wire *wire, struct lh_error *err)
{
	uint32_t rank = rank_of_worker(s, wire->owner);
	uint64_t expected = lh_ps_plan_samples(s->plan, s->job, rank);

	if (wire->request.message.samples != expected)
		return lh_fail(err, LH_ERUN, 0,
			       "rank %" PRIu32 " pushes the gradient of %" PRIu64
			       " samples; expected %" PRIu64,
			       rank, wire->request.message.samples, expected);
	s->n_pushed++;
	return 0;
}

static struct lh_message dense_message(const struct server *s, uint32_t epoch, uint16_t phase)
{
	return (struct lh_message){
		.epoch = epoch,
		.phase = phase,
		.length = lh_ps_numbers_bytes(&s->numbers),
		.head_bytes = lh_ps_numbers_head_bytes(&s->numbers),
	};
}

static void expect_pushes(struct server *s, uint32_t update)
{
	const struct lh_message message = dense_message(s, update, LH_PS_PUSH);

	s->n_pushed = 0;
	for (uint32_t i = 0; i < s->n_workers; i++)
		lh_ps_server_expect(s, push_of(s, i), rank_of_worker(s, i), &message);
}

static bool have_all_pushed(const struct server *s, const void *arg)
{
	(void)arg;
	return s->n_pushed == s->n_workers;
}

/* Whether the weights sent before have left, so that their place can be used again. */
static bool have_all_pulled(const struct server *s, const void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < s->n_workers; i++)
		if (lh_ps_server_is_pending(s, &s->workers[2 * i + 1]))
			return false;
	return true;
}

/* Sends the weights to all workers, who wait for them. */
static int answer(struct server *s, uint32_t epoch, uint16_t phase, struct lh_error *err)
{
	const struct lh_message message = dense_message(s, epoch, phase);
	int64_t host_ns = lh_rank_host_ns(s->rank, message.length) * s->n_workers;
	int rc = lh_ps_server_pump(s, have_all_pulled, NULL, INT64_MAX, err);

	if (rc || !s->n_workers)
		return rc;
	lh_ps_server_charge(host_ns);
	s->host_ns += host_ns;
	if ((rc = lh_ps_numbers_read(&s->numbers, err)))
		return rc;
	for (uint32_t i = 0; i < s->n_workers; i++) {
		struct lh_ps_wire *wire = pull_of(s, i);

		lh_codec_none.encode(s->numbers.weights, s->numbers.n_real, wire->bytes);
		lh_ps_server_send(s, wire, rank_of_worker(s, i), &message);
	}
	return 0;
}

/* ---- an update ---------------------------------------------------------------------------- */

static int compute_share(struct server *s, struct lh_error *err)
{
	struct lh_rank *rank = s->rank;
	int64_t at_ns = rank->epoch_begin_ns, step_ns;
	int rc = 0;

	rank->doing = "computing";
	for (uint64_t n = s->plan->micro_batches[rank->self]; rc == 0 && n; n--) {
		if ((rc = rank->compute->micro_batch(rank->computing, &step_ns, err)))
			return rc;
		/* in real time the arithmetic may take longer than the profile says */
		if (lh_clock_now_ns() - at_ns > step_ns)
			step_ns = lh_clock_now_ns() - at_ns;
		at_ns += step_ns;
		rc = lh_ps_server_pump(s, NULL, NULL, at_ns, err);
	}
	s->compute_end_ns = at_ns;
	return rc;
}

static void add_weighted(float *sum, const float *values, uint32_t n, float weight)
{
	for (uint32_t i = 0; i < n; i++)
		sum[i] += weight * values[i];
}

/* numbers.gradient becomes the mean over the site's samples, in the order of ranks. */
static int combine(struct server *s, uint32_t update, struct lh_error *err)
{
	uint32_t self = s->rank->self, n = s->numbers.n_real;
	uint64_t own = lh_ps_plan_samples(s->plan, s->job, self);
	double all = (double)lh_ps_plan_site_samples(s->plan, s->job, s->plan->site);
	int rc = lh_ps_numbers_take(&s->numbers, update, own, err);

	if (rc || !s->n_workers)
		return rc;
	memset(s->sum, 0, n * sizeof(*s->sum));
	add_weighted(s->sum, s->numbers.gradient, n, (float)((double)own / all));
	for (uint32_t i = 0; i < s->n_workers; i++) {
		uint64_t samples = lh_ps_plan_samples(s->plan, s->job, rank_of_worker(s, i));

		lh_codec_none.decode(push_of(s, i)->bytes, n, s->numbers.gradient);
		add_weighted(s->sum, s->numbers.gradient, n, (float)((double)samples / all));
	}
	memcpy(s->numbers.gradient, s->sum, n * sizeof(*s->sum));
	return 0;
}

static int update(struct server *s, uint32_t epoch, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns(), end_ns;
	int rc;

	s->rank->doing = "applying";
	lh_ps_server_charge(s->rank->me->apply_ns);
	if ((rc = combine(s, epoch, err)) ||
	    (rc = lh_ps_numbers_apply(&s->numbers, s->numbers.gradient, err)))
		return rc;
	for (uint32_t i = 0; i < s->n_peers; i++)
		if (s->peers[i].lacks)
			add_weighted(s->peers[i].lacks, s->numbers.gradient, s->numbers.n_real, 1);
	s->n_updates = epoch + 1;
	end_ns = lh_clock_now_ns();
	return lh_rank_write_apply(s->rank, epoch, begin_ns, end_ns, true, end_ns, err);
}

/* ---- the loop ----------------------------------------------------------------------------- */

static int write_average(struct server *s, uint32_t epoch, int64_t begin_ns, struct lh_error *err)
{
	struct lh_average average = {
		.host_ns = s->host_ns,
		.group_samples = s->plan->round_samples,
		.checked_elements = s->checked_elements,
	};

	lh_comm_take_bytes(s->rank->comm, &average.payload_sent_bytes,
			   &average.payload_received_bytes);
	s->host_ns = 0;
	s->checked_elements = 0;
	return lh_rank_write_average(s->rank, epoch, begin_ns, &average, err);
}

/* What the servers have told each other so far; heard: updates, of the peer that is furthest
 * behind.
 */
static int write_exchange(struct server *s, uint32_t epoch, struct lh_error *err)
{
	uint32_t heard = s->job->epochs;
	json_int_t sent = 0, received = 0;

	if (!s->n_peers)
		return 0;
	for (uint32_t i = 0; i < s->n_peers; i++) {
		sent += s->peers[i].n_messages_sent;
		received += s->peers[i].n_messages_received;
		if (s->peers[i].n_heard < heard)
			heard = s->peers[i].n_heard;
	}
	return lh_events_add(s->rank->events, "exchange", lh_clock_now_ns(),
			     json_pack("{s:I, s:I, s:I, s:I}", "epoch", (json_int_t)epoch,
				       "messages_sent", sent, "messages_received", received,
				       "updates_heard", (json_int_t)heard),
			     err);
}

static int synchronise(struct server *s, uint32_t epoch, struct lh_error *err)
{
	bool is_last = epoch + 1 == s->job->epochs;
	bool is_barrier = s->job->settings.exchange == LH_EXCHANGE_AVERAGING &&
			  !s->job->settings.asynchronous;
	int rc = 0;

	s->rank->doing = "exchanging with other servers";
	if (!is_barrier)
		rc = answer(s, epoch, LH_PS_PULL, err);
	if (rc == 0)
		rc = lh_ps_exchange(s, is_last, err);
	if (rc == 0 && is_barrier)
		rc = answer(s, epoch, LH_PS_PULL, err);
	/* the last epoch has all bytes */
	if (rc == 0 && is_last)
		rc = lh_ps_server_pump(s, have_all_pulled, NULL, INT64_MAX, err);
	return rc;
}

static int run_epoch(struct server *s, uint32_t epoch, struct lh_error *err)
{
	struct lh_rank *rank = s->rank;
	int64_t now_ns;
	int rc;

	expect_pushes(s, epoch);
	if ((rc = compute_share(s, err)))
		return rc;
	rank->doing = "waiting for workers";
	if ((rc = lh_ps_server_pump(s, have_all_pushed, NULL, INT64_MAX, err)))
		return rc;
	now_ns = lh_clock_now_ns();
	if ((rc = lh_rank_write_compute(rank, epoch, s->compute_end_ns,
					lh_ps_plan_samples(s->plan, s->job, rank->self),
					s->plan->micro_batches[rank->self], now_ns, err)) ||
	    (rc = lh_rank_write_span(rank, "wait", epoch, s->compute_end_ns, now_ns, now_ns,
				     err)) ||
	    (rc = update(s, epoch, err)))
		return rc;
	now_ns = lh_clock_now_ns();
	if ((rc = synchronise(s, epoch, err)) || (rc = write_average(s, epoch, now_ns, err)) ||
	    (rc = write_exchange(s, epoch, err)))
		return rc;
	return lh_rank_end_epoch(rank, epoch, s->plan->round_samples, err);
}

static int finish(struct server *s, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();
	double distance;
	int rc;

	s->rank->doing = "agreeing on the last weights";
	if (lh_ps_has_final(s->job, s->plan)) {
		if ((rc = lh_ps_exchange_final(s, &distance, err)) ||
		    (rc = answer(s, s->job->epochs, LH_PS_FINAL_PULL, err)))
			return rc;
	}
	if ((rc = lh_ps_server_pump(s, have_all_pulled, NULL, INT64_MAX, err)))
		return rc;
	if (lh_ps_has_final(s->job, s->plan) &&
	    (rc = lh_ps_write_agreement(s->rank, begin_ns, json_real(distance), err)))
		return rc;
	return lh_rank_finish(s->rank, err);
}

static int run(struct server *s, struct lh_error *err)
{
	int rc = 0;

	lh_ps_exchange_begin(s);
	for (uint32_t epoch = 0; rc == 0 && epoch < s->job->epochs; epoch++)
		if ((rc = run_epoch(s, epoch, err)))
			lh_error_prefix(err, "epoch %" PRIu32 ", %s", epoch, s->rank->doing);
	if (rc == 0 && (rc = finish(s, err)))
		lh_error_prefix(err, "ending");
	return rc;
}

/* ---- opening ------------------------------------------------------------------------------ */

/* The longest of any message's real numbers: dense ones, or the first in the compressor's form. */
static int measure_wires(struct server *s, struct lh_error *err)
{
	uint32_t dense = lh_ps_numbers_head_bytes(&s->numbers);
	struct lh_ps_form form;
	int rc = lh_ps_form_open(&form, s->job, s->rank->self, &s->numbers, err);

	if (rc == 0)
		s->wire_bytes = lh_ps_form_size(&form, 0).head_bytes;
	lh_ps_form_close(&form);
	if (s->wire_bytes < dense)
		s->wire_bytes = dense;
	return rc;
}

/* Wires: by peer 1 for what comes and n_going for what goes; then 2 by worker. */
static int open_wires(struct server *s, struct lh_error *err)
{
	s->n_wires = s->n_peers * (1 + s->n_going) + 2 * s->n_workers;
	s->wires = calloc(s->n_wires + 1, sizeof(*s->wires));
	s->pending = calloc(s->n_wires + 1, sizeof(struct lh_request *));
	s->peers = calloc(s->n_peers + 1, sizeof(*s->peers));
	s->sum = calloc(s->numbers.n_real, sizeof(*s->sum));
	if (!s->wires || !s->pending || !s->peers || !s->sum)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy parameter-server");
	s->workers = s->wires + s->n_peers * (1 + s->n_going);
	for (uint32_t i = 0; i < s->n_workers; i++) {
		push_of(s, i)->owner = pull_of(s, i)->owner = i;
		push_of(s, i)->take = take_push;
	}
	for (uint32_t i = 0; i < s->n_wires; i++)
		if (!(s->wires[i].bytes = calloc(1, s->wire_bytes)))
			return lh_fail(err, LH_ESYS, ENOMEM, "open strategy parameter-server");
	return 0;
}

static int open_peers(struct server *s, struct lh_error *err)
{
	uint32_t n = 0;
	int rc = 0;

	for (uint32_t site = 0; rc == 0 && site < s->plan->n_sites; site++) {
		struct lh_ps_peer *peer = &s->peers[n];

		if (site == s->plan->site)
			continue;
		peer->site = site;
		peer->rank = s->plan->first[site];
		peer->coming = &s->wires[n * (1 + s->n_going)];
		peer->going = peer->coming + 1;
		peer->coming->owner = n++;
		rc = lh_ps_peer_open(s, peer, err);
	}
	return rc;
}

static void close_server(struct server *s)
{
	/* what is under way may still use the buffers */
	for (uint32_t peer = 0; peer < s->rank->n; peer++)
		lh_comm_detach(s->rank->comm, peer);
	for (uint32_t i = 0; s->peers && i < s->n_peers; i++)
		lh_ps_peer_close(&s->peers[i]);
	for (uint32_t i = 0; s->wires && i < s->n_wires; i++)
		free(s->wires[i].bytes);
	free(s->peers);
	free(s->wires);
	free(s->pending);
	free(s->sum);
	lh_ps_numbers_close(&s->numbers);
}

int lh_ps_server_run(struct lh_rank *rank, const struct lh_ps_plan *plan, struct lh_error *err)
{
	struct server s = {
		.rank = rank,
		.job = rank->job,
		.plan = plan,
		.n_peers = plan->n_sites - 1,
		.n_workers = plan->first[plan->site + 1] - plan->first[plan->site] - 1,
		.n_going = rank->job->settings.exchange == LH_EXCHANGE_ASGD ? SERVER_QUEUE : 1,
	};
	int rc = lh_ps_numbers_open(&s.numbers, rank, err);

	if (rc == 0)
		rc = measure_wires(&s, err);
	if (rc == 0)
		rc = open_wires(&s, err);
	if (rc == 0)
		rc = open_peers(&s, err);
	if (rc == 0)
		rc = run(&s, err);
	close_server(&s);
	return rc;
}
