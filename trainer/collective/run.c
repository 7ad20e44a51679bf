/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of collectives. See run.h. */
#include "trainer/collective/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "trainer/clock.h"

struct lh_collective_run {
	struct lh_collective_run_config config;
	struct lh_collective_slices slices;
	struct lh_collective_numbers *numbers;
	uint64_t *send_bytes; /* by send: payload, filler included */
	uint64_t *receive_bytes;
	int64_t *host_ns; /* by phase */
	struct lh_request *sends;
	struct lh_request *receives;
	struct lh_request **expected; /* by receive; NULL once it has come */
	struct lh_collective_done done;
	uint32_t culprit; /* whose message was waited for last */
};

static uint64_t payload_bytes(const struct lh_collective_run_config *config,
			      const struct lh_collective_move *move)
{
	uint64_t bytes = 0;

	for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++)
		bytes += config->codec->wire_bytes(config->plan->at[c + 1] - config->plan->at[c]);
	return bytes;
}

static int64_t host_ns_of(uint64_t bytes, uint64_t bps)
{
	__extension__ typedef unsigned __int128 wide;

	return bps ? (int64_t)((wide)bytes * 8 * (uint64_t)LH_NS_PER_S / bps) : 0;
}

static int alloc(struct lh_collective_run *run, struct lh_error *err)
{
	const struct lh_collective_plan *plan = run->config.plan;
	size_t n_sends = (size_t)plan->n_sends + 1, n_receives = (size_t)plan->n_receives + 1;

	run->send_bytes = calloc(n_sends, sizeof(*run->send_bytes));
	run->receive_bytes = calloc(n_receives, sizeof(*run->receive_bytes));
	run->host_ns = calloc(plan->n_phases, sizeof(*run->host_ns));
	run->sends = calloc(n_sends, sizeof(*run->sends));
	run->receives = calloc(n_receives, sizeof(*run->receives));
	run->expected = calloc(n_receives, sizeof(struct lh_request *));
	if (!run->send_bytes || !run->receive_bytes || !run->host_ns || !run->sends ||
	    !run->receives || !run->expected)
		return lh_fail(err, LH_ESYS, ENOMEM, "open a collective");
	return 0;
}

/* The bytes of a message; LH_EINPUT where its real ones are too many. */
static int measure_move(const struct lh_collective_run *run, const struct lh_collective_move *move,
			uint64_t *ret_bytes, struct lh_error *err)
{
	const uint64_t *at = run->slices.wire_at;
	uint64_t head_bytes = at[move->first_chunk + move->n_chunks] - at[move->first_chunk];

	*ret_bytes = payload_bytes(&run->config, move);
	return head_bytes <= UINT32_MAX
		       ? 0
		       : lh_fail(err, LH_EINPUT, 0,
				 "a message of %" PRIu64 " bytes; expected below 4 GiB",
				 head_bytes);
}

/* What each message is, and how long the host takes for a phase. */
static int measure(struct lh_collective_run *run, struct lh_error *err)
{
	const struct lh_collective_plan *plan = run->config.plan;
	int rc = 0;

	for (uint32_t s = 0; rc == 0 && s < plan->n_sends; s++)
		rc = measure_move(run, &plan->sends[s], &run->send_bytes[s], err);
	for (uint32_t r = 0; rc == 0 && r < plan->n_receives; r++)
		rc = measure_move(run, &plan->receives[r], &run->receive_bytes[r], err);
	for (uint32_t p = 0; p < plan->n_phases; p++) {
		const struct lh_collective_phase *phase = &plan->phases[p];
		uint64_t bytes = 0;

		for (uint32_t s = 0; s < phase->n_sends; s++)
			bytes += run->send_bytes[phase->first_send + s];
		run->host_ns[p] = host_ns_of(bytes, run->config.host_bps);
	}
	return rc;
}

int lh_collective_run_open(const struct lh_collective_run_config *config,
			   struct lh_collective_run **ret_run, struct lh_error *err)
{
	struct lh_collective_run *run = calloc(1, sizeof(*run));
	int rc;

	if (!run)
		return lh_fail(err, LH_ESYS, ENOMEM, "open a collective");
	run->config = *config;
	if ((rc = lh_collective_slices_init(&run->slices, config->plan, config->codec,
					    config->slice_elements, err)) ||
	    (rc = alloc(run, err)) || (rc = measure(run, err)) ||
	    (rc = lh_collective_numbers_open(config->plan, &run->slices, config->codec,
					     (float)config->plan->n_members, &run->numbers, err))) {
		lh_collective_run_close(run);
		return rc;
	}
	*ret_run = run;
	return 0;
}

const struct lh_collective_slices *lh_collective_run_slices(const struct lh_collective_run *run)
{
	return &run->slices;
}

static struct lh_message message_of(const struct lh_collective_move *move, uint32_t epoch,
				    uint64_t samples, uint64_t bytes, size_t head_bytes)
{
	return (struct lh_message){
		.epoch = epoch,
		.phase = (uint16_t)move->first_chunk,
		.samples = samples,
		.length = bytes,
		.head_bytes = (uint32_t)head_bytes,
	};
}

static void expect_all(struct lh_collective_run *run, uint32_t epoch)
{
	const struct lh_collective_plan *plan = run->config.plan;

	for (uint32_t r = 0; r < plan->n_receives; r++) {
		const struct lh_collective_move *move = &plan->receives[r];
		size_t head_bytes;
		void *room = lh_collective_numbers_room(run->numbers, r, &head_bytes);
		struct lh_message message =
			message_of(move, epoch, 0, run->receive_bytes[r], head_bytes);

		run->expected[r] = &run->receives[r];
		lh_comm_receive(run->config.comm, move->peer, &message, room, &run->receives[r]);
	}
}

static void send_phase(struct lh_collective_run *run, uint32_t phase, uint32_t epoch,
		       uint64_t samples)
{
	const struct lh_collective_plan *plan = run->config.plan;
	const struct lh_collective_phase *p = &plan->phases[phase];

	if (run->host_ns[phase])
		lh_clock_sleep_until(lh_clock_now_ns() + run->host_ns[phase]);
	run->done.host_ns += run->host_ns[phase];
	for (uint32_t s = p->first_send; s < p->first_send + p->n_sends; s++) {
		size_t head_bytes;
		const void *head = lh_collective_numbers_message(run->numbers, s, &head_bytes);
		struct lh_message message =
			message_of(&plan->sends[s], epoch, samples, run->send_bytes[s], head_bytes);

		run->done.sent_bytes += run->send_bytes[s];
		lh_comm_send(run->config.comm, plan->sends[s].peer, &message, head, &run->sends[s]);
	}
}

/* Waits for the next message, and takes it. first: none is expected before it. */
static int take_next(struct lh_collective_run *run, uint32_t *first, uint64_t samples,
		     int64_t deadline_ns, struct lh_error *err)
{
	uint32_t n = run->config.plan->n_receives, r;
	const struct lh_request *request;
	int rc;

	while (*first < n && !run->expected[*first])
		(*first)++;
	run->culprit = run->receives[*first].peer;
	rc = lh_comm_wait_any(run->config.comm, run->expected + *first, n - *first, deadline_ns, &r,
			      err);
	if (rc && err && err->sys == ETIMEDOUT) /* tells whom it is waited for */
		return lh_comm_wait(run->config.comm, run->expected[*first], 0, err);
	if (rc)
		return rc;
	r += *first;
	request = &run->receives[r];
	run->culprit = request->peer;
	if (request->state == LH_REQUEST_FAILED)
		return lh_comm_wait(run->config.comm, &run->receives[r], deadline_ns, err);
	if (request->message.samples != samples)
		return lh_fail(err, LH_ERUN, 0,
			       "epoch %" PRIu32 ": rank %" PRIu32 " averages %" PRIu64
			       " samples; expected %" PRIu64,
			       request->message.epoch, request->peer, request->message.samples,
			       samples);
	run->expected[r] = NULL;
	run->done.received_bytes += run->receive_bytes[r];
	lh_collective_numbers_arrive(run->numbers, r);
	return 0;
}

int lh_collective_run_round(struct lh_collective_run *run, uint32_t epoch, uint64_t samples,
			    float *values, int64_t deadline_ns, struct lh_collective_done *ret_done,
			    struct lh_error *err)
{
	uint32_t first = 0, phase;
	int rc = 0;

	run->done = (struct lh_collective_done){0};
	lh_collective_numbers_begin(run->numbers, values);
	expect_all(run, epoch);
	for (;;) {
		while (lh_collective_numbers_next(run->numbers, &phase))
			send_phase(run, phase, epoch, samples);
		if (lh_collective_numbers_is_done(run->numbers))
			break;
		rc = take_next(run, &first, samples, deadline_ns, err);
		if (rc)
			return rc;
	}
	for (uint32_t s = 0; rc == 0 && s < run->config.plan->n_sends; s++) {
		run->culprit = run->sends[s].peer;
		rc = lh_comm_wait(run->config.comm, &run->sends[s], deadline_ns, err);
	}
	*ret_done = run->done;
	return rc;
}

uint32_t lh_collective_run_culprit(const struct lh_collective_run *run)
{
	return run->culprit;
}

const void *lh_collective_run_wire(const struct lh_collective_run *run, uint32_t chunk)
{
	return lh_collective_numbers_wire(run->numbers, chunk);
}

const void *lh_collective_run_part(const struct lh_collective_run *run, uint32_t chunk)
{
	return lh_collective_numbers_part(run->numbers, chunk);
}

void lh_collective_run_decode(struct lh_collective_run *run)
{
	lh_collective_numbers_decode(run->numbers);
}

/* After a failure: nothing may refer to our memory any more. */
static void take_back(struct lh_collective_run *run, struct lh_request *requests, uint32_t n)
{
	for (uint32_t i = 0; requests && i < n; i++)
		if (requests[i].state == LH_REQUEST_PENDING &&
		    !lh_comm_cancel(run->config.comm, &requests[i]))
			lh_comm_detach(run->config.comm, requests[i].peer);
}

void lh_collective_run_close(struct lh_collective_run *run)
{
	if (!run)
		return;
	take_back(run, run->sends, run->config.plan->n_sends);
	take_back(run, run->receives, run->config.plan->n_receives);
	lh_collective_numbers_close(run->numbers);
	lh_collective_slices_done(&run->slices);
	free(run->send_bytes);
	free(run->receive_bytes);
	free(run->host_ns);
	free(run->sends);
	free(run->receives);
	free(run->expected);
	free(run);
}
