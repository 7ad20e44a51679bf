/* SPDX-License-Identifier: Apache-2.0 */
/* Data connections that come and go. See lanes.h. */
#include "trainer/elastic/lanes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/elastic/door.h"

static const int64_t RETRY_NS = 100 * LH_NS_PER_MS;

/* A connection that is to come up. */
struct pending {
	uint32_t peer;
	uint32_t stream;
	int fd; /* -1: to be called at retry_ns */
	int64_t retry_ns;
};

/* What is under way while lanes open. */
struct opening {
	struct lh_lanes *lanes;
	const struct lh_notice *round;
	struct pending *calls;
	size_t n_calls;
	struct pollfd *polls; /* of the calls, and the mailbox */
	int64_t deadline_ns;
	uint32_t *ret_culprit;
	struct lh_error *err;
};

int lh_lanes_init(struct lh_lanes *lanes, struct lh_rank *rank, struct lh_mailbox *mailbox,
		  struct lh_error *err)
{
	*lanes = (struct lh_lanes){
		.rank = rank, .mailbox = mailbox, .n_streams = rank->job->settings.streams};
	lanes->ends = calloc(rank->n, sizeof(*lanes->ends));
	if (!lanes->ends)
		return lh_fail(err, LH_ESYS, ENOMEM, "open lanes");
	for (uint32_t peer = 0; peer < rank->n; peer++)
		for (uint32_t s = 0; s < LH_COMM_STREAMS_MAX; s++)
			lanes->ends[peer].fds[s] = -1;
	return 0;
}

static void close_fds(struct lh_lane_ends *ends)
{
	for (uint32_t s = 0; s < LH_COMM_STREAMS_MAX; s++) {
		if (ends->fds[s] >= 0)
			close(ends->fds[s]);
		ends->fds[s] = -1;
	}
}

int lh_lanes_close(struct lh_lanes *lanes, uint32_t peer, struct lh_error *err)
{
	struct lh_lane_ends *ends = &lanes->ends[peer];
	int rc = 0;

	if (ends->is_attached)
		lh_comm_detach(lanes->rank->comm, peer);
	ends->is_attached = false;
	for (uint32_t s = 0; rc == 0 && s < lanes->n_streams; s++)
		if (ends->fds[s] >= 0)
			rc = lh_rank_write_connection(lanes->rank, peer, "data", ends->fds[s], err);
	close_fds(ends);
	return rc;
}

void lh_lanes_done(struct lh_lanes *lanes)
{
	for (uint32_t peer = 0; lanes->ends && peer < lanes->rank->n; peer++) {
		if (lanes->ends[peer].is_attached)
			lh_comm_detach(lanes->rank->comm, peer);
		close_fds(&lanes->ends[peer]);
	}
	free(lanes->ends);
	*lanes = (struct lh_lanes){0};
}

/* ---- opening ------------------------------------------------------------------------------ */

static bool is_peer(const struct opening *o, const struct lh_notice_member *m, uint32_t group)
{
	return m->group == group && m->rank != o->lanes->rank->self;
}

static bool is_complete(const struct lh_lanes *lanes, uint32_t peer)
{
	for (uint32_t s = 0; s < lanes->n_streams; s++)
		if (lanes->ends[peer].fds[s] < 0)
			return false;
	return true;
}

/* Closes what belongs to others than the round's, and lists whom to call. */
static int prepare(struct opening *o, uint32_t group)
{
	struct lh_lanes *lanes = o->lanes;
	int64_t now_ns = lh_clock_now_ns();

	for (uint32_t i = 0; i < o->round->n_members; i++) {
		const struct lh_notice_member *m = &o->round->members[i];
		struct lh_lane_ends *ends = &lanes->ends[m->rank];
		int rc = 0;

		if (!is_peer(o, m, group) || (ends->is_attached && ends->session == m->session))
			continue;
		if ((rc = lh_lanes_close(lanes, m->rank, o->err)))
			return rc;
		ends->session = m->session;
		for (uint32_t s = 0; m->rank < lanes->rank->self && s < lanes->n_streams; s++)
			o->calls[o->n_calls++] = (struct pending){
				.peer = m->rank, .stream = s, .fd = -1, .retry_ns = now_ns};
	}
	return 0;
}

/* Takes in those who came for this round; closes who came for one before, keeps the others. */
static void take_visitors(struct opening *o)
{
	struct lh_lanes *lanes = o->lanes;
	struct lh_visitor v;
	lh_cleanup_free struct lh_visitor *early = NULL;
	size_t n_early = 0;

	while (lh_mailbox_take_visitor(lanes->mailbox, LH_DOOR_DATA, &v)) {
		struct lh_lane_ends *ends = &lanes->ends[v.hello.rank];
		uint32_t s = (uint32_t)v.hello.part - LH_DOOR_DATA;
		struct lh_visitor *grown = NULL;

		if (v.hello.epoch == o->round->serial && v.hello.rank > lanes->rank->self &&
		    s < lanes->n_streams && ends->session == v.hello.samples && ends->fds[s] < 0) {
			ends->fds[s] = v.fd;
			continue;
		}
		if (v.hello.epoch > o->round->serial)
			grown = reallocarray(early, n_early + 1, sizeof(*early));
		if (!grown) {
			close(v.fd);
			continue;
		}
		early = grown;
		early[n_early++] = v;
	}
	for (size_t i = 0; i < n_early; i++)
		lh_mailbox_put_visitor(lanes->mailbox, &early[i]);
}

static void call(struct opening *o, struct pending *p)
{
	const struct lh_rank *rank = o->lanes->rank;

	if (lh_door_call(rank->job, rank->self, p->peer, &p->fd, NULL)) {
		p->fd = -1;
		p->retry_ns = lh_clock_now_ns() + RETRY_NS;
	}
}

static void answered(struct opening *o, struct pending *p)
{
	struct lh_lanes *lanes = o->lanes;
	const struct lh_rank *rank = lanes->rank;
	int fd = p->fd;

	p->fd = -1;
	if (lh_door_greet(rank->job, rank->self, fd, (uint16_t)(LH_DOOR_DATA + p->stream),
			  o->round->serial, lanes->session, NULL)) {
		close(fd);
		p->retry_ns = lh_clock_now_ns() + RETRY_NS;
		return;
	}
	lanes->ends[p->peer].fds[p->stream] = fd;
	p->retry_ns = INT64_MAX;
}

/* The first member of the group with whom there is no lane yet; n_ranks: none. */
static uint32_t first_missing(const struct opening *o, uint32_t group)
{
	for (uint32_t i = 0; i < o->round->n_members; i++)
		if (is_peer(o, &o->round->members[i], group) &&
		    !is_complete(o->lanes, o->round->members[i].rank))
			return o->round->members[i].rank;
	return o->lanes->rank->n;
}

static int64_t prepare_polls(struct opening *o)
{
	int64_t until_ns = o->deadline_ns;

	for (size_t i = 0; i < o->n_calls; i++) {
		const struct pending *p = &o->calls[i];

		o->polls[i] = (struct pollfd){.fd = p->fd, .events = POLLOUT};
		if (p->fd < 0 && p->retry_ns < until_ns)
			until_ns = p->retry_ns;
	}
	o->polls[o->n_calls] = (struct pollfd){.fd = o->lanes->mailbox->wake_fd, .events = POLLIN};
	return until_ns;
}

static int wait_for_all(struct opening *o, uint32_t group)
{
	struct lh_lanes *lanes = o->lanes;
	const struct lh_job *job = lanes->rank->job;
	uint32_t missing;

	for (take_visitors(o); (missing = first_missing(o, group)) < lanes->rank->n;
	     take_visitors(o)) {
		int64_t now_ns;

		for (size_t i = 0; i < o->n_calls; i++)
			if (o->calls[i].fd < 0 && o->calls[i].retry_ns <= lh_clock_now_ns())
				call(o, &o->calls[i]);
		lh_clock_poll_until(o->polls, o->n_calls + 1, prepare_polls(o));
		now_ns = lh_clock_now_ns();
		for (size_t i = 0; i < o->n_calls; i++)
			if (o->calls[i].fd >= 0 && o->polls[i].revents)
				answered(o, &o->calls[i]);
		if (o->polls[o->n_calls].revents)
			lh_mailbox_wake(lanes->mailbox);
		if (lh_mailbox_has_left(lanes->mailbox, o->round->serial))
			return lh_fail(o->err, LH_ERUN, ECANCELED, "round %" PRIu32 " is void",
				       o->round->serial);
		if (now_ns >= o->deadline_ns && first_missing(o, group) < lanes->rank->n) {
			*o->ret_culprit = missing;
			return lh_fail(o->err, LH_ERUN, ETIMEDOUT,
				       "no connection with rank %" PRIu32 " (%s)", missing,
				       job->ranks[missing].node);
		}
	}
	return 0;
}

static int attach_all(struct opening *o, uint32_t group)
{
	struct lh_lanes *lanes = o->lanes;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < o->round->n_members; i++) {
		const struct lh_notice_member *m = &o->round->members[i];
		struct lh_lane_ends *ends = &lanes->ends[m->rank];

		if (!is_peer(o, m, group) || ends->is_attached)
			continue;
		rc = lh_comm_attach(lanes->rank->comm, m->rank, ends->fds, lanes->n_streams,
				    o->err);
		ends->is_attached = rc == 0;
	}
	return rc;
}

int lh_lanes_open(struct lh_lanes *lanes, const struct lh_notice *round, uint32_t group,
		  int64_t deadline_ns, uint32_t *ret_culprit, struct lh_error *err)
{
	size_t n = (size_t)round->n_members * lanes->n_streams;
	lh_cleanup_free struct pending *calls = calloc(n, sizeof(*calls));
	lh_cleanup_free struct pollfd *polls = calloc(n + 1, sizeof(*polls));
	struct opening o = {.lanes = lanes,
			    .round = round,
			    .calls = calls,
			    .polls = polls,
			    .deadline_ns = deadline_ns,
			    .ret_culprit = ret_culprit,
			    .err = err};
	int rc;

	if (!calls || !polls)
		return lh_fail(err, LH_ESYS, ENOMEM, "open lanes");
	rc = prepare(&o, group);
	if (rc == 0)
		rc = wait_for_all(&o, group);
	if (rc == 0)
		rc = attach_all(&o, group);
	for (size_t i = 0; i < o.n_calls; i++)
		if (calls[i].fd >= 0)
			close(calls[i].fd);
	return rc;
}
