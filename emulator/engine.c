/* SPDX-License-Identifier: Apache-2.0 */
/* The engine. See engine.h. */
#include "emulator/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/cgroup.h"
#include "emulator/launch.h"
#include "emulator/network.h"
#include "emulator/probe.h"
#include "emulator/probe_internal.h"
#include "emulator/verify.h"

enum {
	SAMPLE_NS = LH_NS_PER_S,
	PEER_LOSS_PATIENCE_S = 60, /* beyond what a trainer needs to notice a dead peer */
};

struct engine {
	const struct lh_engine_request *req;
	struct lh_plan *plan;
	struct lh_net *net;
	struct lh_links links;
	struct lh_child *children;
	FILE *counters;
	struct lh_net_counter *last; /* what was written last, per pair */
	struct lh_net_counter *now;
	int64_t begin_ns;
	int64_t end_ns;
};

static char *in_run_dir(const struct engine *e, const char *name)
{
	return lh_path_join(e->req->run_dir, name);
}

static int write_json(const struct engine *e, const char *name, json_t *value, struct lh_error *err)
{
	lh_cleanup_json json_t *owned = value;
	lh_cleanup_free char *path = in_run_dir(e, name);

	if (!value || !path)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", name);
	return lh_json_write(path, owned, err);
}

/* Appends the counters that moved since the last time. */
static int sample_counters(struct engine *e, struct lh_error *err)
{
	size_t n = e->plan->n_nodes;
	int64_t t_ns = lh_now_ns();
	int r = lh_net_read_counters(e->net, e->now, err);

	if (r < 0)
		return r;
	for (size_t from = 0; from < n; from++)
		for (size_t to = 0; to < n; to++) {
			const struct lh_net_counter *c = &e->now[from * n + to];

			if (from == to || memcmp(c, &e->last[from * n + to], sizeof(*c)) == 0)
				continue;
			fprintf(e->counters,
				"%" PRId64 ",%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
				",%" PRIu64 "\n",
				t_ns, e->plan->nodes[from].name, e->plan->nodes[to].name,
				c->wire_bytes, c->wire_packets, c->ack_bytes, c->ack_packets,
				c->dropped_packets);
		}
	memcpy(e->last, e->now, n * n * sizeof(*e->last));
	return ferror(e->counters) ? lh_fail(err, LH_ESYS, errno, "write counters.csv") : 0;
}

static int open_counters(struct engine *e, struct lh_error *err)
{
	size_t n = e->plan->n_nodes;
	lh_cleanup_free char *path = in_run_dir(e, "counters.csv");

	e->last = calloc(n * n, sizeof(*e->last));
	e->now = calloc(n * n, sizeof(*e->now));
	if (!path || !e->last || !e->now)
		return lh_fail(err, LH_ESYS, ENOMEM, "write counters.csv");
	e->counters = fopen(path, "we");
	if (!e->counters)
		return lh_fail(err, LH_ESYS, errno, "create %s", path);
	fputs("t_ns,from,to,wire_bytes,wire_packets,ack_bytes,ack_packets,dropped_packets\n",
	      e->counters);
	return sample_counters(e, err);
}

static int start_trainer(struct engine *e, size_t rank, const char *job, struct lh_error *err)
{
	lh_cleanup_free char *number = lh_strf("%zu", rank);
	lh_cleanup_free char *events = lh_strf("%s/events/rank-%zu.jsonl", e->req->run_dir, rank);
	lh_cleanup_free char *log = lh_strf("%s/events/rank-%zu.log", e->req->run_dir, rank);
	char *argv[] = {(char *)e->req->trainer_path,
			"--job",
			(char *)job,
			"--rank",
			number,
			"--events",
			events,
			NULL};

	if (!number || !events || !log)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a trainer");
	return lh_child_start(e->net, rank, argv, log, &e->children[rank], err);
}

/* A trainer that ended badly, or -1: one that was killed before those that lost it. */
static long first_failed(const struct engine *e)
{
	long failed = -1;

	for (size_t i = 0; i < e->plan->n_nodes; i++) {
		if (e->children[i].pid || !e->children[i].status)
			continue;
		if (WIFSIGNALED(e->children[i].status))
			return (long)i;
		if (failed < 0)
			failed = (long)i;
	}
	return failed;
}

static int fail_for_trainer(const struct engine *e, size_t rank, struct lh_error *err)
{
	int status = e->children[rank].status;
	const char *node = e->plan->nodes[rank].name;

	if (WIFSIGNALED(status))
		return lh_fail(err, LH_ERUN, 0,
			       "the trainer of %s (rank %zu) was killed by signal "
			       "%d",
			       node, rank, WTERMSIG(status));
	return lh_fail(err, LH_ERUN, 0,
		       "the trainer of %s (rank %zu) ended with status %d; see "
		       "events/rank-%zu.log",
		       node, rank, WEXITSTATUS(status), rank);
}

/* Waits for all trainers, reading counters every second. */
static int wait_for_trainers(struct engine *e, struct lh_error *err)
{
	size_t n = e->plan->n_nodes;
	long first = -1;
	int64_t deadline_ns = INT64_MAX;
	int64_t next_ns = e->begin_ns;

	for (;;) {
		size_t running;
		int r;

		next_ns += SAMPLE_NS;
		while ((running = lh_children_wait(e->children, n, next_ns)) &&
		       lh_now_ns() < next_ns)
			;
		r = running ? sample_counters(e, err) : 0;
		if (r < 0)
			return r;
		if (first < 0 && (first = first_failed(e)) >= 0)
			deadline_ns = lh_now_ns() + lh_start_timeout_ns(e->plan) +
				      PEER_LOSS_PATIENCE_S * INT64_C(1000000000);
		if (!running)
			break;
		if (lh_now_ns() > deadline_ns)
			lh_children_kill(e->children, n);
	}
	return first < 0 ? 0 : fail_for_trainer(e, (size_t)first, err);
}

static int run_trainers(struct engine *e, struct lh_error *err)
{
	lh_cleanup_free char *job = in_run_dir(e, "trainer.json");
	lh_cleanup_free char *events = in_run_dir(e, "events");
	int r;

	e->children = calloc(e->plan->n_nodes, sizeof(*e->children));
	if (!job || !events || !e->children)
		return lh_fail(err, LH_ESYS, ENOMEM, "start the trainers");
	r = lh_dir_make(events, err);
	if (r == 0)
		r = write_json(e, "trainer.json", lh_trainer_job(e->plan), err);
	if (r == 0)
		r = open_counters(e, err);
	e->begin_ns = lh_now_ns();
	for (size_t i = 0; i < e->plan->n_nodes && r == 0; i++)
		r = start_trainer(e, i, job, err);
	if (r == 0)
		r = wait_for_trainers(e, err);
	e->end_ns = lh_now_ns();
	lh_children_kill(e->children, e->plan->n_nodes);
	if (r == 0 && e->counters)
		r = sample_counters(e, err);
	return r;
}

static int probe(struct engine *e, struct lh_error *err)
{
	lh_cleanup_free char *path = in_run_dir(e, "links.csv");
	int r = e->plan->n_nodes > 1 ? lh_probe_run(e->net, e->plan, &e->links, err) : 0;

	if (e->plan->n_nodes == 1)
		e->links.ok = true;
	return r < 0 ? r : lh_links_write(&e->links, e->plan, path, err);
}

/* In place of probes and trainers. */
static int verify(struct engine *e, struct lh_error *err)
{
	struct lh_verdict verdict;
	int r = lh_verify_run(e->net, e->plan, e->req->verify_sample, &verdict, err);

	if (r < 0)
		return r;
	e->links.ok = verdict.ok;
	r = lh_verdict_write(&verdict, e->plan, e->req->run_dir, err);
	lh_verdict_done(&verdict);
	return r;
}

/* Whether some path makes TCP repeat segments by what it was asked to do to packets. */
static bool is_rough(const struct lh_plan *plan)
{
	size_t n = plan->n_nodes;

	for (size_t i = 0; i < n * n; i++)
		if (i / n != i % n &&
		    (lh_plan_is_rough(&plan->paths[i]) || lh_plan_may_mislead(plan, i / n, i % n)))
			return true;
	return lh_plan_longest_rtt_ns(plan) >= LH_TCP_RTO_MAX_NS;
}

/* Moves what the paths' own queues and round-trip times explain out of the faults, and
 * returns it as JSON. */
static json_t *take_explained(const struct lh_plan *plan, struct lh_net_faults *f)
{
	bool explained = f->path_drops > 0 || (plan && is_rough(plan));
	json_t *doc = json_pack("{s:I, s:I, s:I, s:I}", "path_losses", (json_int_t)f->path_losses,
				"path_drops", (json_int_t)f->path_drops, "retransmits",
				explained ? (json_int_t)f->retransmits : 0, "timeouts",
				explained ? (json_int_t)f->timeouts : 0);

	if (explained)
		f->retransmits = f->timeouts = 0;
	return doc;
}

static bool faults_are_none(const struct lh_net_faults *f)
{
	return !f->retransmits && !f->timeouts && !f->receive_queue_drops && !f->qdisc_drops &&
	       !f->unclassified_packets && !f->softnet_drops;
}

static json_t *faults_to_json(const struct lh_net_faults *f)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "retransmits",
			 (json_int_t)f->retransmits, "timeouts", (json_int_t)f->timeouts,
			 "receive_queue_drops", (json_int_t)f->receive_queue_drops, "qdisc_drops",
			 (json_int_t)f->qdisc_drops, "unclassified_packets",
			 (json_int_t)f->unclassified_packets, "softnet_drops",
			 (json_int_t)f->softnet_drops);
}

/* Writes engine.json: the last thing of a run. */
static int write_verdict(struct engine *e, int result, const struct lh_error *why,
			 struct lh_net_faults *faults, struct lh_error *err)
{
	json_t *explained = take_explained(e->plan, faults);
	bool faultless = faults_are_none(faults);
	const char *status = "done", *message = "";

	if (result < 0) {
		status = "failed";
		message = why->message;
	} else if (!e->links.ok) {
		status = "invalid";
		message = e->req->verifies ? "the network missed its target: verify.csv says where"
					   : "the network missed its target: links.csv says where";
	} else if (!faultless) {
		status = "invalid";
		message = "packets were lost that no part of the network was asked to lose: see "
			  "unexplained";
	}
	return write_json(e, "engine.json",
			  json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:O?, s:o, s:o}", "format",
				    "longhaul-engine/1", "status", status, "message", message,
				    "exit_status", lh_error_exit_status(why), "begin_ns",
				    (json_int_t)e->begin_ns, "end_ns", (json_int_t)e->end_ns,
				    "pinned", e->net ? lh_net_pinned(e->net) : NULL, "explained",
				    explained, "unexplained", faults_to_json(faults)),
			  err);
}

static void engine_done(struct engine *e)
{
	if (e->counters)
		fclose(e->counters);
	lh_links_done(&e->links);
	lh_net_close(e->net);
	lh_plan_free(e->plan);
	free(e->children);
	free(e->last);
	free(e->now);
}

void lh_engine_clear_stale(void)
{
	lh_cgroup_remove_stale();
}

int lh_engine_run(const struct lh_engine_request *request, struct lh_error *err)
{
	struct engine e = {.req = request};
	struct lh_net_faults faults = {0};
	struct lh_error why = {0};
	int r, written;

	signal(SIGPIPE, SIG_IGN);
	lh_children_prepare();
	r = lh_plan_build(request->scenario, &e.plan, &why);
	if (r == 0)
		r = write_json(&e, "network.json", lh_plan_to_json(e.plan), &why);
	if (r == 0)
		r = lh_net_open(e.plan, request->owns_kernel, &e.net, &why);
	if (r == 0 && request->verifies)
		r = verify(&e, &why);
	if (r == 0 && !request->verifies)
		r = probe(&e, &why);
	if (r == 0 && !request->verifies)
		r = run_trainers(&e, &why);
	if (e.counters && fflush(e.counters) != 0 && r == 0)
		r = lh_fail(&why, LH_ESYS, errno, "write counters.csv");
	/* a proof judges what was lost itself, before it makes queues overflow */
	if (r == 0 && !request->verifies)
		r = lh_net_read_faults(e.net, &faults, &why);
	written = write_verdict(&e, r, &why, &faults, err);
	engine_done(&e);
	return written;
}
