/* SPDX-License-Identifier: Apache-2.0 */
/* What the servers of strategy parameter-server tell each other. See parameter_server.c. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/strategy/ps_server_internal.h"
#include "trainer/transport/tcp.h"

enum { TAIL_MAX_BYTES = 64 << 10 };

/* Between two looks at how much of a message the kernel still has. */
static const int64_t LOOK_NS = 10 * LH_NS_PER_MS;

static bool exchanges_weights(const struct server *s)
{
	return s->job->settings.exchange == LH_EXCHANGE_AVERAGING;
}

static bool has_barrier(const struct server *s)
{
	return exchanges_weights(s) && !s->job->settings.asynchronous;
}

/* Whether what comes can be foretold: not weights that depend on what came when. */
static bool is_checked(const struct server *s)
{
	return s->numbers.is_replayed && (!exchanges_weights(s) || has_barrier(s));
}

int lh_ps_peer_open(struct server *s, struct lh_ps_peer *peer, struct lh_error *err)
{
	uint32_t n = s->numbers.n_real;
	bool has_lacks = !exchanges_weights(s), is_known = is_checked(s);
	int rc = lh_ps_form_open(&peer->form, s->job, s->rank->self, &s->numbers, err);

	if (rc == 0)
		rc = lh_ps_form_open(&peer->their_form, s->job, peer->rank, &s->numbers, err);
	if (rc)
		return rc;
	peer->received = calloc(n, sizeof(float));
	peer->lacks = has_lacks ? calloc(n, sizeof(float)) : NULL;
	peer->expected = is_known ? calloc(n, sizeof(float)) : NULL;
	peer->drawn = is_known ? calloc(n, sizeof(float)) : NULL;
	peer->expected_bytes = is_known ? calloc(1, s->wire_bytes) : NULL;
	if (!peer->received || (has_lacks && !peer->lacks) ||
	    (is_known && (!peer->expected || !peer->drawn || !peer->expected_bytes)))
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy parameter-server");
	return 0;
}

void lh_ps_peer_close(struct lh_ps_peer *peer)
{
	lh_ps_form_close(&peer->form);
	lh_ps_form_close(&peer->their_form);
	free(peer->received);
	free(peer->lacks);
	free(peer->expected);
	free(peer->drawn);
	free(peer->expected_bytes);
}

/* ---- receiving ---------------------------------------------------------------------------- */

static void add(float *sum, const float *values, uint32_t n, float weight)
{
	for (uint32_t i = 0; i < n; i++)
		sum[i] += weight * values[i];
}

/* Adds the gradient of a site's update, as its server works it out, times sign. */
static void add_expected(struct server *s, struct lh_ps_peer *peer, uint32_t update, float sign)
{
	uint32_t n = s->numbers.n_real, first = s->plan->first[peer->site];
	uint32_t end = s->plan->first[peer->site + 1];
	double all = (double)lh_ps_plan_site_samples(s->plan, s->job, peer->site);
	float *mean = peer->received;

	if (end - first > 1)
		memset(mean, 0, n * sizeof(*mean));
	for (uint32_t rank = first; rank < end; rank++) {
		uint64_t samples = lh_ps_plan_samples(s->plan, s->job, rank);

		lh_sample_draw(s->job->seed, update, rank, 1, n,
			       end - first > 1 ? peer->drawn : mean);
		if (end - first > 1)
			add(mean, peer->drawn, n, (float)((double)samples / all));
	}
	add(peer->expected, mean, n, sign);
}

/* Whether the message has what must have come of updates [first, end), bit by bit. */
static int check_values(struct server *s, struct lh_ps_peer *peer, uint32_t first, uint32_t end,
			struct lh_error *err)
{
	uint32_t n = s->numbers.n_real;
	uint32_t head_bytes = lh_ps_form_size(&peer->their_form, end - 1).head_bytes;

	for (uint32_t update = first; update < end; update++)
		add_expected(s, peer, update, exchanges_weights(s) ? -1 : 1);
	if (exchanges_weights(s))
		s->job->compress->encode(peer->expected, n, peer->expected_bytes);
	else
		lh_ps_form_write(&peer->their_form, peer->expected, end - 1, peer->expected_bytes);
	if (memcmp(peer->expected_bytes, peer->coming->bytes, head_bytes) != 0)
		return lh_fail(err, LH_ERUN, 0,
			       "the message of rank %" PRIu32 " with updates %" PRIu32
			       " to %" PRIu32 " is not the %s of its gradients",
			       peer->rank, first, end - 1,
			       exchanges_weights(s) ? "outcome" : "sum");
	s->checked_elements += n;
	return 0;
}

/* The mean of own and received weights. */
static int meet_halfway(struct server *s, struct lh_ps_peer *peer, struct lh_error *err)
{
	int rc = lh_ps_numbers_read(&s->numbers, err);

	for (uint32_t i = 0; rc == 0 && i < s->numbers.n_real; i++)
		s->numbers.weights[i] = (s->numbers.weights[i] + peer->received[i]) / 2;
	return rc ? rc : lh_ps_numbers_write(&s->numbers, err);
}

static int use_message(struct server *s, struct lh_ps_peer *peer, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();
	int rc;

	peer->has_come = true;
	if (has_barrier(s))
		return 0;
	lh_ps_server_charge(s->rank->me->apply_ns);
	rc = exchanges_weights(s) ? meet_halfway(s, peer, err)
				  : lh_ps_numbers_apply(&s->numbers, peer->received, err);
	return rc ? rc
		  : lh_rank_write_apply(s->rank, s->n_updates, begin_ns, lh_clock_now_ns(), false,
					lh_clock_now_ns(), err);
}

/* The message of that number, which ends with an update; or, of update 0, the longest. */
static struct lh_message exchange_message(const struct lh_ps_form *form, uint32_t number,
					  uint32_t update)
{
	struct lh_ps_size size = lh_ps_form_size(form, update);

	return (struct lh_message){
		.epoch = number,
		.phase = LH_PS_EXCHANGE,
		.length = size.bytes,
		.head_bytes = size.head_bytes,
		.is_variable = lh_ps_form_is_variable(form),
	};
}

static int take_message(struct server *s, struct lh_ps_wire *wire, struct lh_error *err);

static void expect_message(struct server *s, struct lh_ps_peer *peer)
{
	const struct lh_message message =
		exchange_message(&peer->their_form, peer->n_messages_received, 0);

	peer->coming->take = take_message;
	lh_ps_server_expect(s, peer->coming, peer->rank, &message);
}

/* The message's note is how many updates it ends with; it begins where the one before ended. */
static int check_message(const struct server *s, const struct lh_ps_peer *peer,
			 struct lh_error *err)
{
	const struct lh_message *m = &peer->coming->request.message;
	uint64_t samples = lh_ps_plan_site_samples(s->plan, s->job, peer->site);
	uint32_t first = peer->n_heard;
	struct lh_ps_size size;

	if (m->note <= first || m->note > s->job->epochs ||
	    m->samples != samples * ((uint64_t)m->note - first))
		return lh_fail(err, LH_ERUN, 0,
			       "rank %" PRIu32 " tells of %" PRIu64
			       " samples, up to update %" PRId64 "; expected %" PRIu64
			       " for each, from %" PRIu32 " on",
			       peer->rank, m->samples, m->note, samples, first);
	size = lh_ps_form_size(&peer->their_form, (uint32_t)m->note - 1);
	if (m->length != size.bytes || m->head_bytes != size.head_bytes)
		return lh_fail(err, LH_ERUN, 0,
			       "rank %" PRIu32 " sends %" PRIu64 " bytes, %" PRIu32
			       " of them numbers; expected %" PRIu64 " and %" PRIu32,
			       peer->rank, m->length, m->head_bytes, size.bytes, size.head_bytes);
	return 0;
}

static int take_message(struct server *s, struct lh_ps_wire *wire, struct lh_error *err)
{
	struct lh_ps_peer *peer = &s->peers[wire->owner];
	uint32_t first = peer->n_heard;
	int rc = check_message(s, peer, err);

	if (rc)
		return rc;
	peer->n_heard = (uint32_t)wire->request.message.note;
	peer->n_messages_received++;
	if ((is_checked(s) && (rc = check_values(s, peer, first, peer->n_heard, err))) ||
	    (rc = lh_ps_form_read(&peer->their_form, wire->bytes, wire->request.message.head_bytes,
				  peer->received, err)) ||
	    (rc = use_message(s, peer, err)))
		return rc;
	/* behind a barrier its next message must not overtake the others */
	if (peer->n_heard < s->job->epochs && !has_barrier(s))
		expect_message(s, peer);
	return 0;
}

void lh_ps_exchange_begin(struct server *s)
{
	for (uint32_t i = 0; i < s->n_peers; i++)
		expect_message(s, &s->peers[i]);
}

/* ---- sending ------------------------------------------------------------------------------ */

static struct lh_ps_wire *find_free(const struct server *s, const struct lh_ps_peer *peer)
{
	for (uint32_t i = 0; i < s->n_going; i++)
		if (!lh_ps_server_is_pending(s, &peer->going[i]))
			return &peer->going[i];
	return NULL;
}

/* Messages to the peer that it does not have yet: whole ones here, and what is left of others in
 * the kernel, whose buffers may hold many. The last segments count for nothing: a receiver may
 * acknowledge them late. */
static uint64_t count_under_way(const struct server *s, const struct lh_ps_peer *peer)
{
	uint64_t message_bytes = lh_ps_form_size(&peer->form, s->n_updates).bytes;
	uint64_t n = 0, bytes = 0, tail_bytes;

	for (uint32_t i = 0; i < s->n_going; i++)
		n += lh_ps_server_is_pending(s, &peer->going[i]);
	for (uint32_t i = 0; i < s->job->settings.streams; i++)
		bytes += lh_tcp_unacknowledged_bytes(
			lh_mesh_fd(&s->rank->mesh, peer->rank, LH_CHANNEL_DATA + i));
	tail_bytes = message_bytes / 2 < TAIL_MAX_BYTES ? message_bytes / 2 : TAIL_MAX_BYTES;
	bytes -= bytes < tail_bytes ? bytes : tail_bytes;
	return n + (bytes + message_bytes - 1) / message_bytes;
}

static bool can_send(const struct server *s, const void *arg)
{
	return find_free(s, arg) && count_under_way(s, arg) < s->n_going;
}

/* Waits until the path to the peer takes another message; what comes meanwhile is handled. */
static int wait_for_path(struct server *s, struct lh_ps_peer *peer, struct lh_error *err)
{
	int rc = 0;

	while (rc == 0 && !can_send(s, peer))
		rc = lh_ps_server_pump(s, can_send, peer, lh_clock_now_ns() + LOOK_NS, err);
	return rc;
}

static int fill(struct server *s, struct lh_ps_peer *peer, uint8_t *ret_bytes, struct lh_error *err)
{
	int rc;

	if (!exchanges_weights(s)) {
		lh_ps_form_write(&peer->form, peer->lacks, s->n_updates - 1, ret_bytes);
		return 0;
	}
	if ((rc = lh_ps_numbers_read(&s->numbers, err)))
		return rc;
	s->job->compress->encode(s->numbers.weights, s->numbers.n_real, ret_bytes);
	return 0;
}

static int send_message(struct server *s, struct lh_ps_peer *peer, struct lh_error *err)
{
	struct lh_message message =
		exchange_message(&peer->form, peer->n_messages_sent, s->n_updates - 1);
	struct lh_ps_wire *wire = find_free(s, peer);
	int64_t host_ns = lh_rank_host_ns(s->rank, message.length);
	int rc;

	lh_ps_server_charge(host_ns);
	s->host_ns += host_ns;
	if ((rc = fill(s, peer, wire->bytes, err)))
		return rc;
	message.note = s->n_updates;
	message.samples = (s->n_updates - peer->n_told) *
			  lh_ps_plan_site_samples(s->plan, s->job, s->plan->site);
	peer->n_told = s->n_updates;
	peer->n_messages_sent++;
	lh_ps_server_send(s, wire, peer->rank, &message);
	return 0;
}

/* Sends what is due. Where the path is still busy asgd waits, others leave it for later, but what
 * comes last. */
static int offer(struct server *s, struct lh_ps_peer *peer, bool is_last, struct lh_error *err)
{
	bool waits = s->job->settings.exchange == LH_EXCHANGE_ASGD || has_barrier(s) || is_last;
	int rc;

	if (s->n_updates - peer->n_told < s->job->settings.period && !is_last)
		return 0;
	if (!waits && !can_send(s, peer))
		return 0;
	rc = wait_for_path(s, peer, err);
	return rc ? rc : send_message(s, peer, err);
}

/* ---- barriers ----------------------------------------------------------------------------- */

static bool have_all_come(const struct server *s, const void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < s->n_peers; i++)
		if (!s->peers[i].has_come)
			return false;
	return true;
}

static bool have_all_ended(const struct server *s, const void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < s->n_peers; i++) {
		if (s->peers[i].n_heard < s->job->epochs)
			return false;
		for (uint32_t j = 0; j < s->n_going; j++)
			if (lh_ps_server_is_pending(s, &s->peers[i].going[j]))
				return false;
	}
	return true;
}

/* numbers.weights becomes the mean of own, as given, and the peers' weights: summed in the order of
 * sites, the same bits at all servers. */
static void take_mean(struct server *s, const float *own)
{
	uint32_t n = s->numbers.n_real;
	float n_servers = (float)(s->n_peers + 1);

	memset(s->sum, 0, n * sizeof(*s->sum));
	for (uint32_t site = 0; site < s->plan->n_sites; site++) {
		const float *weights = site == s->plan->site
					       ? own
					       : s->peers[site - (site > s->plan->site)].received;

		add(s->sum, weights, n, 1);
	}
	for (uint32_t i = 0; i < n; i++)
		s->numbers.weights[i] = s->sum[i] / n_servers;
}

/* All servers' weights become their mean, each as the compressor has it. */
static int average_all(struct server *s, struct lh_error *err)
{
	const struct lh_codec_ops *compress = s->job->compress;
	uint32_t n = s->numbers.n_real;
	lh_cleanup_free float *own = calloc(n, sizeof(*own));
	lh_cleanup_free uint8_t *bytes = calloc(1, s->wire_bytes);
	int rc = lh_ps_server_pump(s, have_all_come, NULL, INT64_MAX, err);

	if (!own || !bytes)
		return lh_fail(err, LH_ESYS, ENOMEM, "average weights");
	if (rc || (rc = lh_ps_numbers_read(&s->numbers, err)))
		return rc;
	compress->encode(s->numbers.weights, n, bytes);
	compress->decode(bytes, n, own);
	take_mean(s, own);
	for (uint32_t i = 0; i < s->n_peers; i++) {
		struct lh_ps_peer *peer = &s->peers[i];

		peer->has_come = false;
		if (peer->expected)
			memcpy(peer->expected, s->numbers.weights, n * sizeof(float));
		if (peer->n_heard < s->job->epochs)
			expect_message(s, peer);
	}
	return lh_ps_numbers_write(&s->numbers, err);
}

int lh_ps_exchange(struct server *s, bool is_last, struct lh_error *err)
{
	bool is_due = s->n_updates % s->job->settings.period == 0 || is_last;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < s->n_peers; i++)
		rc = offer(s, &s->peers[i], is_last, err);
	if (rc == 0 && s->n_peers && has_barrier(s) && is_due)
		rc = average_all(s, err);
	if (rc == 0 && is_last)
		rc = lh_ps_server_pump(s, have_all_ended, NULL, INT64_MAX, err);
	return rc;
}

/* ---- the end ------------------------------------------------------------------------------ */

static int take_final(struct server *s, struct lh_ps_wire *wire, struct lh_error *err)
{
	struct lh_ps_peer *peer = &s->peers[wire->owner];

	(void)err;
	lh_codec_none.decode(wire->bytes, s->numbers.n_real, peer->received);
	peer->has_come = true;
	return 0;
}

static double distance_of(const float *weights, const float *mean, uint32_t n)
{
	double squares = 0, norm = 0;

	for (uint32_t i = 0; i < n; i++) {
		double difference = (double)weights[i] - (double)mean[i];

		squares += difference * difference;
		norm += (double)mean[i] * (double)mean[i];
	}
	return norm > 0 ? sqrt(squares / norm) : 0;
}

static void exchange_weights(struct server *s)
{
	const struct lh_message message = {
		.epoch = s->job->epochs,
		.phase = LH_PS_FINAL,
		.length = lh_ps_numbers_bytes(&s->numbers),
		.head_bytes = lh_ps_numbers_head_bytes(&s->numbers),
	};

	for (uint32_t i = 0; i < s->n_peers; i++) {
		struct lh_ps_peer *peer = &s->peers[i];

		peer->has_come = false;
		peer->coming->take = take_final;
		lh_ps_server_expect(s, peer->coming, peer->rank, &message);
		lh_codec_none.encode(s->numbers.weights, s->numbers.n_real, peer->going[0].bytes);
		lh_ps_server_send(s, &peer->going[0], peer->rank, &message);
	}
}

int lh_ps_exchange_final(struct server *s, double *ret_distance, struct lh_error *err)
{
	uint32_t n = s->numbers.n_real;
	lh_cleanup_free float *own = calloc(n, sizeof(*own));
	int rc = lh_ps_numbers_read(&s->numbers, err);

	if (!own)
		return lh_fail(err, LH_ESYS, ENOMEM, "average weights");
	if (rc)
		return rc;
	memcpy(own, s->numbers.weights, n * sizeof(*own));
	exchange_weights(s);
	if ((rc = lh_ps_server_pump(s, have_all_come, NULL, INT64_MAX, err)) ||
	    (rc = lh_ps_server_pump(s, have_all_ended, NULL, INT64_MAX, err)))
		return rc;
	take_mean(s, own);
	*ret_distance = distance_of(own, s->numbers.weights, n);
	for (uint32_t i = 0; i < s->n_peers; i++) {
		double distance = distance_of(s->peers[i].received, s->numbers.weights, n);

		*ret_distance = distance > *ret_distance ? distance : *ret_distance;
	}
	return lh_ps_numbers_write(&s->numbers, err);
}
