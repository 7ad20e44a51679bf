/* SPDX-License-Identifier: Apache-2.0 */
/* How a member of an elastic training comes to its coordinator. See elastic.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trainer/clock.h"
#include "trainer/compute/replay.h"
#include "trainer/strategy/elastic_internal.h"

enum {
	/* How long a member looks for its coordinator, a coordinator for members, and a state may
	 * take to load, in times that an averaging may take. Source of the ratio: Hivemind's
	 * load_state_timeout and averaging_timeout. */
	PATIENCE_TIMEOUTS = 10,
};

/* A connection to a coordinator that is cut off comes up late or never: it is tried anew. */
static const int64_t CALL_NS = 3 * LH_NS_PER_S;
static const int64_t CALL_PAUSE_NS = 100 * LH_NS_PER_MS;

int64_t lh_elastic_patience_ns(const struct lh_job *job)
{
	return PATIENCE_TIMEOUTS * job->settings.timeout_ns;
}

/* The door's visitors: those for the coordinator go to its office, the others wait for the main
 * thread. */
void lh_elastic_take_visitor(void *context, int fd, const struct lh_frame *hello)
{
	struct lh_elastic *t = context;

	if (hello->part != LH_DOOR_COORDINATOR)
		lh_mailbox_put_visitor(&t->mailbox, &(struct lh_visitor){fd, *hello});
	else if (t->office && hello->rank)
		lh_office_admit(t->office, fd, hello->rank);
	else
		close(fd);
}

int lh_elastic_open_office(struct lh_elastic *t, struct lh_error *err)
{
	const struct lh_job *job = t->job;
	const struct lh_strategy_settings *s = &job->settings;
	struct lh_coordinator_config config = {
		.n_ranks = job->n_ranks,
		.target = job->target_batch,
		.epochs = job->epochs,
		.min_group = s->min_group,
		.matchmaking_ns = s->matchmaking_ns,
		.timeout_ns = s->timeout_ns,
		.heartbeat_ns = s->heartbeat_ns,
		.patience_ns = lh_elastic_patience_ns(job),
		.rounds = t->is_grid ? s->rounds : 0,
		.n_dimensions = s->n_dimensions,
	};

	memcpy(config.dimensions, s->dimensions, sizeof(config.dimensions));
	t->micro_batch = calloc(job->n_ranks, sizeof(*t->micro_batch));
	t->step_ns = calloc(job->n_ranks, sizeof(*t->step_ns));
	t->site = calloc(job->n_ranks, sizeof(*t->site));
	if (!t->micro_batch || !t->step_ns || !t->site)
		return lh_fail(err, LH_ESYS, ENOMEM, "coordinate");
	for (uint32_t i = 0; i < job->n_ranks; i++) {
		t->micro_batch[i] = job->ranks[i].micro_batch;
		t->step_ns[i] = lh_replay_mean_ns(&job->ranks[i]);
		/* ranks of a site are listed together */
		t->site[i] = i && strcmp(job->ranks[i].site, job->ranks[i - 1].site) == 0
				     ? t->site[i - 1]
				     : i;
	}
	config.micro_batch = t->micro_batch;
	config.step_ns = t->step_ns;
	config.site = t->site;
	return lh_office_open(&config, t->rank->traffic, &t->office, err);
}

/* A connection to rank 0's door, greeted; tried until deadline_ns. */
static int call_coordinator(const struct lh_elastic *t, int64_t deadline_ns, int *ret_fd,
			    struct lh_error *err)
{
	const struct lh_job *job = t->job;
	int sys = ETIMEDOUT;

	for (int64_t now_ns = lh_clock_now_ns(); now_ns < deadline_ns; now_ns = lh_clock_now_ns()) {
		struct lh_error why = {0};
		struct pollfd poll = {.events = POLLOUT};
		int64_t until_ns = now_ns + CALL_NS < deadline_ns ? now_ns + CALL_NS : deadline_ns;

		if (lh_door_call(job, t->rank->self, 0, &poll.fd, &why) == 0) {
			sys = ETIMEDOUT;
			if (lh_clock_poll_until(&poll, 1, until_ns) > 0 &&
			    lh_door_greet(job, t->rank->self, poll.fd, LH_DOOR_COORDINATOR, 0, 0,
					  &why) == 0) {
				*ret_fd = poll.fd;
				return 0;
			}
			close(poll.fd);
		}
		sys = why.sys ? why.sys : sys;
		lh_clock_sleep_until(lh_clock_now_ns() + CALL_PAUSE_NS);
	}
	return lh_fail(err, LH_ERUN, sys,
		       "no connection with the coordinator, rank 0 (%s, %s port %u)",
		       job->ranks[0].node, job->ranks[0].address, job->ranks[0].port);
}

static int reach_coordinator(struct lh_elastic *t, int64_t deadline_ns, int *ret_fd,
			     struct lh_error *err)
{
	int ends[2];

	if (t->rank->self)
		return call_coordinator(t, deadline_ns, ret_fd, err);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return lh_fail(err, LH_ESYS, errno, "make a pair of sockets");
	lh_office_admit(t->office, ends[0], 0);
	*ret_fd = ends[1];
	return 0;
}

/* Joins by that connection, which it takes over; false where it ended before the welcome. */
static int join(struct lh_elastic *t, int fd, bool *ret_is_welcome, struct lh_error *err)
{
	const struct lh_link_config config = {
		.self = t->rank->self,
		.heartbeat_ns = t->job->settings.heartbeat_ns,
		.traffic = t->rank->self ? t->rank->traffic : NULL,
		.mailbox = &t->mailbox,
		.comm = t->rank->comm,
	};
	const struct lh_notice notice = {
		.kind = LH_NOTICE_JOIN,
		.epoch = t->epoch,
		.number = t->rank->incarnation,
		.count = t->done,
		.serial = (uint32_t)t->from,
	};
	struct lh_notice answer;
	int rc;

	*ret_is_welcome = false;
	lh_mailbox_clear(&t->mailbox);
	if ((rc = lh_link_open(&config, fd, &t->link, err)) ||
	    (rc = lh_link_send(t->link, &notice, err)))
		return rc;
	while (!lh_mailbox_take(&t->mailbox, &answer)) {
		if (lh_mailbox_check(&t->mailbox, NULL))
			return 0;
		lh_mailbox_wait(&t->mailbox, INT64_MAX);
	}
	*ret_is_welcome = answer.kind == LH_NOTICE_WELCOME;
	t->lanes.session = (uint32_t)answer.number;
	if (answer.kind == LH_NOTICE_REFUSE)
		rc = lh_fail(err, LH_ERUN, 0, "the coordinator refuses: %s", answer.text);
	lh_notice_done(&answer);
	return rc;
}

/* Reaches the coordinator, for the first time or again. */
int lh_elastic_join(struct lh_elastic *t, int64_t within_ns, struct lh_error *err)
{
	int64_t deadline_ns = lh_clock_now_ns() + within_ns;
	bool is_welcome = false;
	int rc = 0, fd;

	while (rc == 0 && !is_welcome) {
		lh_link_close(t->link);
		t->link = NULL;
		rc = reach_coordinator(t, deadline_ns, &fd, err);
		if (rc == 0)
			rc = join(t, fd, &is_welcome, err);
		if (rc == 0 && !is_welcome)
			lh_clock_sleep_until(lh_clock_now_ns() + CALL_PAUSE_NS);
	}
	return rc ? lh_error_prefix(err, "within %.3f s", (double)within_ns / (double)LH_NS_PER_S)
		  : 0;
}

/* The coordinator is out of reach, or has dropped this member. */
int lh_elastic_rejoin(struct lh_elastic *t, const struct lh_error *why, struct lh_error *err)
{
	int rc = lh_events_add(t->rank->events, "cut_off", lh_clock_now_ns(),
			       json_pack("{s:I, s:s}", "epoch", (json_int_t)t->epoch, "message",
					 why->message),
			       err);

	t->rank->doing = "looking for the coordinator";
	t->computes = t->stops = t->round.is_open = false;
	for (uint32_t peer = 0; rc == 0 && peer < t->rank->n; peer++)
		rc = lh_lanes_close(&t->lanes, peer, err);
	if (rc == 0)
		rc = lh_events_write(t->rank->events, err);
	return rc ? rc : lh_elastic_join(t, lh_elastic_patience_ns(t->job), err);
}
