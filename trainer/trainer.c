/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The epochs of one rank. Everything but bulk transfers happens in this one thread, by
 * absolute deadlines: micro-batches, news, matchmaking and late updates beside them. It
 * sleeps blindly while the target is far, and listens to its peers once that matters.
 *
 * Source: target-batch averaging of Hivemind, hivemind/optim/optimizer.py; arXiv 2306.03163.
 */
#include "trainer/trainer.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/control.h"
#include "trainer/events.h"
#include "trainer/matchmaking.h"
#include "trainer/progress.h"
#include "trainer/strategy/strategy.h"
#include "trainer/traffic.h"
#include "trainer/transport/mesh.h"
#include "trainer/transport/tcp.h"

/* News go out and are read every tenth of the time left, within these. */
enum { NEWS_PER_TIME_LEFT = 10 };
static const int64_t NEWS_MIN_NS = 250 * LH_NS_PER_MS;
static const int64_t NEWS_MAX_NS = 3 * LH_NS_PER_S;

/* An optimizer's step that runs beside computing. */
struct late_update {
	bool is_pending;
	uint32_t epoch;
	int64_t begin_ns;
	int64_t end_ns;
};

struct trainer {
	const struct lh_job *job;
	const struct lh_job_rank *me;
	uint32_t self;
	struct lh_events *events;
	struct lh_mesh mesh;
	struct lh_traffic *traffic;
	void *strategy; /* state of job->strategy; NULL with one rank */
	struct lh_control control;
	struct lh_progress progress;
	struct lh_matchmaking matchmaking;
	const struct lh_compute_ops *compute;
	void *computing; /* state of compute */
	struct late_update late;
	const char *doing; /* for messages */
	int64_t epoch_begin_ns;
	int64_t compute_end_ns;
	int64_t told_ns;
	int64_t read_ns;
	uint64_t n_micro_batches; /* of this epoch */
};

static int add_span(struct trainer *t, const char *event, uint32_t epoch, int64_t begin_ns,
		    int64_t end_ns, int64_t t_ns, struct lh_error *err)
{
	return lh_events_add(t->events, event, t_ns,
			     json_pack("{s:I, s:I, s:I}", "epoch", (json_int_t)epoch, "begin_ns",
				       (json_int_t)begin_ns, "end_ns", (json_int_t)end_ns),
			     err);
}

/* What the strategy's threads have met with. */
static int check_strategy(struct trainer *t, struct lh_error *err)
{
	return t->strategy ? t->job->strategy->check(t->strategy, err) : 0;
}

static int listen_until(struct trainer *t, int64_t until_ns, struct lh_error *err)
{
	int rc = lh_control_wait(&t->control, until_ns, err);

	return rc ? rc : check_strategy(t, err);
}

static int tell(struct trainer *t, bool is_urgent, int64_t now_ns, struct lh_error *err)
{
	t->told_ns = now_ns;
	return lh_control_tell(&t->control, is_urgent, now_ns, err);
}

static int begin_matchmaking(struct trainer *t, int64_t now_ns, struct lh_error *err)
{
	lh_matchmaking_begin(&t->matchmaking, &t->progress, now_ns);
	return tell(t, true, now_ns, err);
}

/* Lets the time of a micro-batch pass, from from_ns to end_ns, and begins matchmaking within
 * it where that is due. */
static int work_until(struct trainer *t, int64_t from_ns, int64_t end_ns, struct lh_error *err)
{
	int64_t now_ns = from_ns;
	int rc = 0;

	if (t->strategy && !t->matchmaking.is_begun) {
		int64_t due_ns = lh_matchmaking_due_ns(&t->matchmaking, &t->progress, now_ns);

		if (due_ns < end_ns) {
			lh_clock_sleep_until(due_ns);
			now_ns = due_ns;
			rc = begin_matchmaking(t, due_ns, err);
		}
	}
	while (rc == 0 && now_ns < end_ns) {
		bool listens = t->matchmaking.is_begun && !lh_progress_has_all_joined(&t->progress);

		if (!listens) {
			lh_clock_sleep_until(end_ns);
			break;
		}
		rc = listen_until(t, end_ns, err);
		now_ns = lh_clock_now_ns();
	}
	return rc;
}

static int64_t news_interval_ns(int64_t left_ns)
{
	int64_t interval_ns = left_ns / NEWS_PER_TIME_LEFT;

	if (interval_ns < NEWS_MIN_NS)
		return NEWS_MIN_NS;
	return interval_ns < NEWS_MAX_NS ? interval_ns : NEWS_MAX_NS;
}

/* One micro-batch from *at_ns on, which becomes its end. */
static int compute_one(struct trainer *t, int64_t *at_ns, struct lh_error *err)
{
	int64_t step_ns, end_ns;
	int rc = t->compute->micro_batch(t->computing, &step_ns, err);

	if (rc)
		return rc;
	/* in real time the arithmetic may take longer than the profile says */
	if (lh_clock_now_ns() - *at_ns > step_ns)
		step_ns = lh_clock_now_ns() - *at_ns;
	end_ns = *at_ns + step_ns;
	rc = work_until(t, *at_ns, end_ns, err);
	lh_progress_advance(&t->progress, end_ns, step_ns);
	t->n_micro_batches++;
	t->compute_end_ns = end_ns;
	*at_ns = end_ns;
	return rc ? rc : check_strategy(t, err);
}

/* Computes until the target is reached or will be by what is under way, then says so. */
static int compute(struct trainer *t, struct lh_error *err)
{
	int64_t at_ns = t->epoch_begin_ns;
	int rc = 0;

	t->doing = "computing";
	while (rc == 0 && lh_progress_should_begin(&t->progress, at_ns)) {
		int64_t left_ns = lh_progress_left_ns(&t->progress, at_ns);
		int64_t interval_ns = news_interval_ns(left_ns);

		if (at_ns > t->epoch_begin_ns && at_ns - t->told_ns >= interval_ns)
			rc = tell(t, false, at_ns, err);
		if (rc == 0)
			rc = compute_one(t, &at_ns, err);
		if (rc == 0 && (interval_ns == NEWS_MIN_NS || at_ns - t->read_ns >= interval_ns)) {
			t->read_ns = at_ns;
			rc = lh_control_read(&t->control, err);
		}
	}
	if (rc)
		return rc;
	lh_progress_stop(&t->progress);
	if (t->strategy && !t->matchmaking.is_begun)
		return begin_matchmaking(t, at_ns, err);
	return tell(t, true, at_ns, err);
}

/* Computes what this rank still owes, after all stopped short of the target. */
static int compute_owed(struct trainer *t, uint64_t n, struct lh_error *err)
{
	int64_t at_ns = lh_clock_now_ns();
	int rc = 0;

	while (rc == 0 && n--)
		rc = compute_one(t, &at_ns, err);
	return rc ? rc : tell(t, true, at_ns, err);
}

static uint64_t owed_now(const struct trainer *t)
{
	const struct lh_progress_news *mine = &t->progress.news[t->self];

	if (!lh_progress_has_all_stopped(&t->progress) || mine->samples > mine->samples_at_stop)
		return 0;
	return lh_progress_owed(&t->progress, t->self);
}

/* Waits until the group is complete: all counts final, matchmaking over. */
static int wait_for_group(struct trainer *t, struct lh_error *err)
{
	t->doing = "waiting for the group";
	for (;;) {
		uint64_t n_owed = owed_now(t);
		int64_t until_ns = INT64_MAX;
		int rc;

		if (n_owed) {
			if ((rc = compute_owed(t, n_owed, err)))
				return rc;
			continue;
		}
		if (lh_progress_is_complete(&t->progress)) {
			if (!t->strategy)
				return 0;
			until_ns = lh_matchmaking_end_ns(&t->matchmaking, &t->progress);
			if (until_ns <= lh_clock_now_ns())
				return 0;
		}
		if ((rc = listen_until(t, until_ns, err)))
			return rc;
	}
}

/* Waits for the late update that is under way, if any, and writes it. */
static int finish_late_update(struct trainer *t, struct lh_error *err)
{
	struct late_update *late = &t->late;
	int rc;

	if (!late->is_pending)
		return 0;
	lh_clock_sleep_until(late->end_ns);
	late->is_pending = false;
	if ((rc = t->compute->apply(t->computing, err)))
		return rc;
	return lh_events_add(t->events, "apply", lh_clock_now_ns(),
			     json_pack("{s:I, s:I, s:I, s:b}", "epoch", (json_int_t)late->epoch,
				       "begin_ns", (json_int_t)late->begin_ns, "end_ns",
				       (json_int_t)late->end_ns, "blocking", 0),
			     err);
}

static int write_computing(struct trainer *t, int64_t now_ns, struct lh_error *err)
{
	uint32_t epoch = t->progress.epoch;
	int64_t formed_ns;
	int rc = lh_events_add(t->events, "compute", now_ns,
			       json_pack("{s:I, s:I, s:I, s:I, s:I}", "epoch", (json_int_t)epoch,
					 "begin_ns", (json_int_t)t->epoch_begin_ns, "end_ns",
					 (json_int_t)t->compute_end_ns, "samples",
					 (json_int_t)t->progress.news[t->self].samples,
					 "micro_batches", (json_int_t)t->n_micro_batches),
			       err);

	if (rc || !t->strategy)
		return rc;
	formed_ns = lh_matchmaking_end_ns(&t->matchmaking, &t->progress);
	rc = add_span(t, "matchmaking", epoch, t->matchmaking.begin_ns, formed_ns, now_ns, err);
	return rc ? rc : add_span(t, "wait", epoch, t->compute_end_ns, now_ns, now_ns, err);
}

static int average(struct trainer *t, int64_t begin_ns, struct lh_error *err)
{
	uint64_t samples[LH_JOB_RANKS_MAX];
	struct lh_average done;
	int64_t end_ns;
	int rc;

	t->doing = "averaging";
	for (uint32_t rank = 0; rank < t->job->n_ranks; rank++)
		samples[rank] = t->progress.news[rank].samples;
	rc = t->job->strategy->average(t->strategy, t->progress.epoch, samples, &done, err);
	if (rc)
		return rc;
	end_ns = lh_clock_now_ns();
	return lh_events_add(
		t->events, "average", end_ns,
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "epoch",
			  (json_int_t)t->progress.epoch, "begin_ns", (json_int_t)begin_ns, "end_ns",
			  (json_int_t)end_ns, "host_ns", (json_int_t)done.host_ns,
			  "payload_sent_bytes", (json_int_t)done.payload_sent_bytes,
			  "payload_received_bytes", (json_int_t)done.payload_received_bytes,
			  "group_samples", (json_int_t)done.group_samples, "checked_elements",
			  (json_int_t)done.checked_elements),
		err);
}

/* The optimizer's step: now, or beside the next epoch's computing. */
static int apply(struct trainer *t, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns(), end_ns = begin_ns + t->me->apply_ns;
	int rc;

	if (t->job->delayed_update) {
		t->late = (struct late_update){true, t->progress.epoch, begin_ns, end_ns};
		return 0;
	}
	t->doing = "applying";
	if ((rc = t->compute->apply(t->computing, err)))
		return rc;
	lh_clock_sleep_until(end_ns);
	end_ns = lh_clock_now_ns();
	return lh_events_add(t->events, "apply", end_ns,
			     json_pack("{s:I, s:I, s:I, s:b}", "epoch",
				       (json_int_t)t->progress.epoch, "begin_ns",
				       (json_int_t)begin_ns, "end_ns", (json_int_t)end_ns,
				       "blocking", 1),
			     err);
}

static int end_epoch(struct trainer *t, struct lh_error *err)
{
	int64_t end_ns = lh_clock_now_ns();
	uint64_t samples = 0;
	int rc = lh_traffic_write(t->traffic, end_ns, t->events, err);

	for (uint32_t rank = 0; rank < t->job->n_ranks; rank++)
		samples += t->progress.news[rank].samples;
	if (rc == 0)
		rc = t->compute->end_epoch(t->computing, t->progress.epoch, end_ns, t->events, err);
	if (rc == 0)
		rc = lh_events_add(t->events, "epoch", end_ns,
				   json_pack("{s:I, s:I, s:I, s:I}", "epoch",
					     (json_int_t)t->progress.epoch, "begin_ns",
					     (json_int_t)t->epoch_begin_ns, "end_ns",
					     (json_int_t)end_ns, "samples", (json_int_t)samples),
				   err);
	t->epoch_begin_ns = end_ns;
	return rc ? rc : lh_events_flush(t->events, err);
}

static int run_epoch(struct trainer *t, uint32_t epoch, struct lh_error *err)
{
	int64_t now_ns;
	int rc;

	lh_progress_begin_epoch(&t->progress, epoch, t->epoch_begin_ns);
	t->matchmaking = (struct lh_matchmaking){.at_least_ns = t->job->matchmaking_ns};
	t->n_micro_batches = 0;
	t->compute_end_ns = t->epoch_begin_ns;
	t->told_ns = t->epoch_begin_ns;
	t->read_ns = t->epoch_begin_ns;
	if ((rc = compute(t, err)) || (rc = wait_for_group(t, err)) ||
	    (rc = finish_late_update(t, err)))
		return rc;
	now_ns = lh_clock_now_ns();
	if ((rc = write_computing(t, now_ns, err)) ||
	    (rc = t->compute->begin_average(t->computing, t->progress.news[t->self].samples,
					    err)) ||
	    (t->strategy && (rc = average(t, now_ns, err))) || (rc = apply(t, err)))
		return rc;
	return end_epoch(t, err);
}

static int write_connection(struct trainer *t, uint32_t peer, enum lh_channel channel,
			    int64_t now_ns, struct lh_error *err)
{
	struct lh_tcp_counters c;
	int rc = lh_tcp_read_counters(t->mesh.fd[peer][channel], &c, err);

	if (rc)
		return rc;
	return lh_events_add(
		t->events, "connection", now_ns,
		json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "peer", (json_int_t)peer,
			  "channel", lh_channel_name(channel), "segs_out", (json_int_t)c.segs_out,
			  "data_segs_out", (json_int_t)c.data_segs_out, "bytes_sent",
			  (json_int_t)c.bytes_sent, "bytes_retrans", (json_int_t)c.bytes_retrans,
			  "retransmits", (json_int_t)c.retransmits, "timeouts",
			  (json_int_t)c.timeouts, "rtt_ns", (json_int_t)c.rtt_ns),
		err);
}

/* Goodbyes, the connections' counters, `end`. */
static int finish(struct trainer *t, struct lh_error *err)
{
	int64_t now_ns;
	int rc = finish_late_update(t, err);

	t->doing = "parting";
	t->control.failure_fd = -1;
	if (rc || (rc = lh_control_part(&t->control, err)) ||
	    (rc = t->compute->finish(t->computing, lh_clock_now_ns(), t->events, err)))
		return rc;
	now_ns = lh_clock_now_ns();
	rc = lh_traffic_write_rest(t->traffic, now_ns, t->events, err);
	for (uint32_t peer = 0; rc == 0 && peer < t->job->n_ranks; peer++) {
		if (peer == t->self)
			continue;
		rc = write_connection(t, peer, LH_CHANNEL_CONTROL, now_ns, err);
		if (rc == 0)
			rc = write_connection(t, peer, LH_CHANNEL_DATA, now_ns, err);
	}
	if (rc == 0)
		rc = lh_events_add(t->events, "end", now_ns,
				   json_pack("{s:I}", "epochs", (json_int_t)t->job->epochs), err);
	return rc ? rc : lh_events_flush(t->events, err);
}

static int start(struct trainer *t, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();
	int rc = lh_events_add(t->events, "start", begin_ns,
			       json_pack("{s:s, s:I}", "node", t->me->node, "world",
					 (json_int_t)t->job->n_ranks),
			       err);

	if (rc || (rc = t->compute->open(t->job, t->self, &t->computing, err)) ||
	    (rc = lh_mesh_open(t->job, t->self, &t->mesh, err)))
		return rc;
	t->epoch_begin_ns = lh_clock_now_ns();
	if ((rc = lh_traffic_new(t->job->n_ranks, t->epoch_begin_ns, &t->traffic, err)))
		return rc;
	lh_progress_init(&t->progress, t->job, t->self);
	lh_control_init(&t->control, &t->mesh, t->traffic, &t->progress);
	if (t->job->n_ranks > 1) {
		if ((rc = t->job->strategy->open(&t->mesh, t->traffic,
						 t->compute->averaged(t->computing), &t->strategy,
						 err)))
			return rc;
		t->control.failure_fd = t->job->strategy->failure_fd(t->strategy);
	}
	rc = lh_events_add(t->events, "connected", t->epoch_begin_ns,
			   json_pack("{s:I, s:I}", "begin_ns", (json_int_t)begin_ns, "end_ns",
				     (json_int_t)t->epoch_begin_ns),
			   err);
	return rc ? rc : lh_events_flush(t->events, err);
}

static int run(struct trainer *t, struct lh_error *err)
{
	int rc = start(t, err);

	if (rc)
		return lh_error_prefix(err, "connecting");
	for (uint32_t epoch = 0; rc == 0 && epoch < t->job->epochs; epoch++)
		if ((rc = run_epoch(t, epoch, err)))
			lh_error_prefix(err, "epoch %" PRIu32 ", %s", epoch, t->doing);
	if (rc == 0 && (rc = finish(t, err)))
		lh_error_prefix(err, "ending");
	return rc;
}

/* The failure as last event; the threads have ended. What fails here cannot be told. */
static void write_failure(struct trainer *t, const struct lh_error *why)
{
	int64_t now_ns = lh_clock_now_ns();

	if (t->traffic)
		lh_traffic_write_rest(t->traffic, now_ns, t->events, NULL);
	lh_events_add(t->events, "error", now_ns, json_pack("{s:s}", "message", why->message),
		      NULL);
	lh_events_flush(t->events, NULL);
}

/* A group of fixed members has averaged without the rank, or waits for what only it had. */
static int refuse_to_rejoin(const struct trainer *t, uint32_t incarnation, struct lh_error *err)
{
	return lh_fail(err, LH_EINPUT, 0,
		       "strategy %s takes no rank back that was lost: rank %" PRIu32
		       " was started %" PRIu32 " times before",
		       t->job->strategy->name, t->self, incarnation);
}

int lh_trainer_run(const struct lh_job *job, const struct lh_compute_ops *compute,
		   const struct lh_trainer_options *options, struct lh_error *err)
{
	struct trainer t = {.job = job,
			    .compute = compute,
			    .self = options->rank,
			    .me = &job->ranks[options->rank]};
	struct lh_error why = {0};
	int rc;

	/* sendfile has no flag against it. */
	signal(SIGPIPE, SIG_IGN);
	if ((rc = lh_events_open(options->events_path, options->rank, &t.events, err)))
		return rc;
	rc = options->incarnation ? refuse_to_rejoin(&t, options->incarnation, &why)
				  : run(&t, &why);
	job->strategy->close(t.strategy);
	compute->close(t.computing);
	if (rc)
		write_failure(&t, &why);
	if (rc && err)
		*err = why;
	lh_mesh_close(&t.mesh);
	lh_traffic_free(t.traffic);
	lh_events_close(t.events);
	return rc;
}
