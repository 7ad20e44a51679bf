/* SPDX-License-Identifier: Apache-2.0 */
/* The engine. See engine.h. */
#include "emulator/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/capture.h"
#include "emulator/cgroup.h"
#include "emulator/cross.h"
#include "emulator/detach.h"
#include "emulator/engine_internal.h"
#include "emulator/launch.h"
#include "emulator/verify.h"
#include "emulator/wan.h"

enum { FILES = 256 + LH_PROBE_FILES_MAX, FILES_OF_RANK = 8, FILES_OF_NODE = 2 };

char *lh_engine_path(const struct lh_engine *e, const char *name)
{
	return lh_path_join(e->req->run_dir, name);
}

int lh_engine_write_json(const struct lh_engine *e, const char *name, json_t *value,
			 struct lh_error *err)
{
	lh_cleanup_json json_t *owned = value;
	lh_cleanup_free char *path = lh_engine_path(e, name);

	if (!value || !path)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", name);
	return lh_json_write(path, owned, err);
}

static const double peak_least_s = 0.1; /* a burst in less is no rate */

/* The largest rate of a pair since the counters were read last. */
static void note_peak(struct lh_engine *e)
{
	int64_t t_ns = lh_net_counted_ns(e->net);
	size_t n = e->plan->n_nodes;
	double seconds = (double)(t_ns - e->sampled_ns) / LH_NS_PER_S;

	for (size_t i = 0; i < n * n && e->sampled_ns && seconds >= peak_least_s; i++) {
		double bps = (double)(e->now[i].wire_bytes - e->last[i].wire_bytes) * 8 / seconds;

		if (bps > e->peak_bps)
			e->peak_bps = bps;
	}
	e->sampled_ns = t_ns;
}

/* Where cross traffic was taken off, a packet of it too much may have been. */
static void keep_growing(struct lh_engine *e)
{
	for (size_t i = 0; i < e->plan->n_nodes * e->plan->n_nodes; i++) {
		if (e->now[i].wire_bytes < e->last[i].wire_bytes)
			e->now[i].wire_bytes = e->last[i].wire_bytes;
		if (e->now[i].wire_packets < e->last[i].wire_packets)
			e->now[i].wire_packets = e->last[i].wire_packets;
	}
}

int lh_engine_sample(struct lh_engine *e, struct lh_error *err)
{
	size_t n = e->plan->n_nodes;
	int64_t t_ns = lh_now_ns();
	int n_moved = 0;
	int r = lh_net_read_counters(e->net, e->now, err);

	if (r < 0)
		return r;
	keep_growing(e);
	note_peak(e);
	for (size_t from = 0; from < n; from++)
		for (size_t to = 0; to < n; to++) {
			const struct lh_net_counter *c = &e->now[from * n + to];

			if (memcmp(c, &e->last[from * n + to], sizeof(*c)) == 0)
				continue;
			n_moved++;
			fprintf(e->counters,
				"%" PRId64 ",%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
				",%" PRIu64 "\n",
				t_ns, e->plan->nodes[from].name, e->plan->nodes[to].name,
				c->wire_bytes, c->wire_packets, c->ack_bytes, c->ack_packets,
				c->dropped_packets);
		}
	memcpy(e->last, e->now, n * n * sizeof(*e->last));
	return ferror(e->counters) ? lh_fail(err, LH_ESYS, errno, "write counters.csv") : n_moved;
}

static int write_plan(const struct lh_engine *e, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_engine_path(e, "network.json");

	return path ? lh_plan_write(e->plan, path, err)
		    : lh_fail(err, LH_ESYS, ENOMEM, "write network.json");
}

int lh_engine_begin_timeline(struct lh_engine *e, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_engine_path(e, "timeline.csv");

	return lh_timeline_begin(e->timeline, e->net, e->begin_ns, path, err);
}

int lh_engine_begin_churn(struct lh_engine *e, const struct lh_churn_ops *ops, void *context,
			  struct lh_error *err)
{
	lh_cleanup_free char *path = lh_engine_path(e, "faults.csv");

	return lh_churn_begin(e->churn, e->net, e->begin_ns, path, ops, context, err);
}

static int open_counters(struct lh_engine *e, struct lh_error *err)
{
	size_t n = e->plan->n_nodes;
	lh_cleanup_free char *path = lh_engine_path(e, "counters.csv");
	int r;

	e->last = calloc(n * n, sizeof(*e->last));
	e->now = calloc(n * n, sizeof(*e->now));
	if (!path || !e->last || !e->now)
		return lh_fail(err, LH_ESYS, ENOMEM, "write counters.csv");
	e->counters = fopen(path, "we");
	if (!e->counters)
		return lh_fail(err, LH_ESYS, errno, "create %s", path);
	fputs("t_ns,from,to,wire_bytes,wire_packets,ack_bytes,ack_packets,dropped_packets\n",
	      e->counters);
	r = lh_engine_sample(e, err);
	return r < 0 ? r : 0;
}

/* Every node takes some descriptors, and every rank: a namespace, a socket, pipes and files of a
 * program. */
static int raise_file_limit(struct lh_engine *e, struct lh_error *err)
{
	rlim_t wanted = FILES + FILES_OF_RANK * e->plan->n_ranks + FILES_OF_NODE * e->plan->n_nodes;
	struct rlimit raised;

	if (getrlimit(RLIMIT_NOFILE, &e->file_limit) < 0)
		return lh_fail(err, LH_ESYS, errno, "read the limit of open files");
	raised = e->file_limit;
	if (raised.rlim_cur >= wanted)
		return 0;
	raised.rlim_cur = wanted;
	if (raised.rlim_max < wanted)
		raised.rlim_max = wanted;
	if (setrlimit(RLIMIT_NOFILE, &raised) < 0)
		return lh_fail(err, LH_EENV, errno,
			       "%zu ranks take up to %llu open files (ulimit -n %llu)",
			       e->plan->n_ranks, (unsigned long long)wanted,
			       (unsigned long long)wanted);
	return 0;
}

static int probe(struct lh_engine *e, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_engine_path(e, "links.csv");
	bool measures = e->plan->n_ranks > 1 && e->plan->scenario->run.probe != LH_PROBE_NONE;
	int r = measures ? lh_probe_run(e->net, e->plan, &e->links, err) : 0;

	if (!measures)
		e->links.ok = true;
	return r < 0 ? r : lh_links_write(&e->links, e->plan, path, err);
}

/* In place of probes and trainers. */
static int verify(struct lh_engine *e, struct lh_error *err)
{
	struct lh_verdict verdict;
	int r = lh_verify_run(e->net, e->plan, e->req->verify_sample, &verdict, err);

	if (r < 0)
		return r;
	e->links.ok = verdict.ok;
	for (size_t i = 0; i < verdict.n_rows; i++)
		if (verdict.rows[i].property == LH_PROPERTY_TIMER)
			lh_fitness_note_timer(&e->fitness, verdict.rows[i].achieved);
	r = lh_verdict_write(&verdict, e->plan, e->req->run_dir, err);
	lh_verdict_done(&verdict);
	return r;
}

static json_t *explained_to_json(const struct lh_net_faults *f)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "path_losses", (json_int_t)f->path_losses,
			 "path_drops", (json_int_t)f->path_drops, "retransmits",
			 (json_int_t)f->path_retransmits, "timeouts", (json_int_t)f->path_timeouts);
}

static bool faults_are_none(const struct lh_net_faults *f)
{
	return !f->retransmits && !f->timeouts && !f->receive_queue_drops && !f->qdisc_drops &&
	       !f->unclassified_packets && !f->softnet_drops && !f->link_drops;
}

static json_t *faults_to_json(const struct lh_net_faults *f)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "retransmits",
			 (json_int_t)f->retransmits, "timeouts", (json_int_t)f->timeouts,
			 "receive_queue_drops", (json_int_t)f->receive_queue_drops, "qdisc_drops",
			 (json_int_t)f->qdisc_drops, "unclassified_packets",
			 (json_int_t)f->unclassified_packets, "softnet_drops",
			 (json_int_t)f->softnet_drops, "link_drops", (json_int_t)f->link_drops);
}

static json_t *site_counter_to_json(const struct lh_site_counter *c)
{
	return json_pack("{s:I, s:I, s:I}", "wire_bytes", (json_int_t)c->wire_bytes, "wire_packets",
			 (json_int_t)c->wire_packets, "dropped_packets",
			 (json_int_t)c->dropped_packets);
}

/* What the links that sites share have passed on: a list, empty where there are none. */
static json_t *site_links_to_json(struct lh_engine *e)
{
	size_t n = e->net ? e->plan->n_accesses : 0;
	lh_cleanup_free struct lh_site_counter *links = calloc(2 * n + 1, sizeof(*links));
	struct lh_error ignored;
	json_t *doc = json_array();

	if (!links || !n || lh_net_read_site_links(e->net, links, &ignored) < 0)
		return doc;
	for (size_t i = 0; i < n; i++) {
		const struct lh_plan_access *access = &e->plan->accesses[i];
		json_t *link = access->site ? json_pack("{s:s}", "site", access->site->name) : NULL;

		if (!link)
			continue;
		if (access->up.bandwidth_bps)
			json_object_set_new(link, "up", site_counter_to_json(&links[2 * i]));
		if (access->down.bandwidth_bps)
			json_object_set_new(link, "down", site_counter_to_json(&links[2 * i + 1]));
		json_array_append_new(doc, link);
	}
	return doc;
}

/* Writes engine.json: the last thing of a run. */
static int write_verdict(struct lh_engine *e, int result, const struct lh_error *why,
			 const struct lh_net_faults *faults, struct lh_capture *capture,
			 struct lh_error *err)
{
	/* in this order: ending a capture takes a while, in which packets may pass */
	json_t *site_links = site_links_to_json(e);
	json_t *captured = lh_capture_stop(capture);
	bool faultless = faults_are_none(faults);
	const struct lh_fitness_spec *spec = &e->req->scenario->run.fitness;
	lh_cleanup_free char *unfit = NULL;
	const char *status = "done", *message = "";
	json_t *doc;

	if (result < 0) {
		status = "failed";
		message = why->message;
	} else if (!e->fitness.ok) {
		status = "unfit";
		unfit = lh_strf("this machine is not fit for real time: %s", e->fitness.message);
		message = unfit ? unfit : e->fitness.message;
	} else if (!e->links.ok) {
		status = "invalid";
		message = e->req->verifies ? "the network missed its target: verify.csv says where"
					   : "the network missed its target: links.csv says where";
	} else if (!faultless) {
		status = "invalid";
		message = "packets were lost that no part of the network was asked to lose: see "
			  "unexplained";
	}
	doc = json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:O?, s:o*, s:o, s:o, s:o, s:o, s:o*}",
			"format", "longhaul-engine/1", "status", status, "message", message,
			"exit_status", lh_error_exit_status(why), "begin_ns",
			(json_int_t)e->begin_ns, "end_ns", (json_int_t)e->end_ns, "pinned",
			e->net ? lh_net_pinned(e->net) : NULL, "fitness",
			lh_fitness_to_json(&e->fitness, spec), "explained",
			explained_to_json(faults), "unexplained", faults_to_json(faults),
			"site_links", site_links, "cross_traffic", lh_cross_to_json(e->cross),
			"capture", captured);
	if (e->req->scenario->run.charge_cpu)
		json_object_set_new(doc, "charges_cpu", json_true());
	return lh_engine_write_json(e, "engine.json", doc, err);
}

static void engine_done(struct lh_engine *e)
{
	if (e->counters)
		fclose(e->counters);
	lh_links_done(&e->links);
	lh_timeline_free(e->timeline);
	lh_churn_free(e->churn);
	lh_cross_free(e->cross);
	lh_net_close(e->net);
	lh_wan_stop(e->wan);
	lh_plan_free(e->plan);
	free(e->last);
	free(e->now);
}

/* In virtual time each reading of the clock moves it. What runs begins at a whole second all the
 * same, so that probes and captures do not shift what comes after them. */
static void wait_for_whole_second(const struct lh_engine *e)
{
	if (e->req->scenario->run.clock == LH_CLOCK_VIRTUAL)
		lh_sleep_until((lh_now_ns() / LH_NS_PER_S + 1) * LH_NS_PER_S);
}

void lh_engine_clear_stale(void)
{
	lh_cgroup_remove_stale();
}

/* Nodes on the host, in a network of ours, and the guest that joins them. */
static int start_wan(struct lh_engine *e, struct lh_error *err)
{
	int r = lh_detach(err);

	/* a change of rights takes this back */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return r < 0 ? r : lh_wan_start(e->req->wan, e->req->run_dir, e->plan, &e->wan, err);
}

static int build_network(struct lh_engine *e, struct lh_error *err)
{
	const struct lh_fitness_spec *spec = &e->plan->scenario->run.fitness;
	struct lh_net_options options = {.owns_kernel = e->req->owns_kernel};
	int r = e->req->wan ? start_wan(e, err) : 0;

	options.wan = e->wan;
	options.part = e->wan ? LH_NET_NODES : LH_NET_ALL;
	if (r == 0)
		r = lh_net_open(e->plan, &options, &e->net, err);
	if (r == 0 && e->plan->scenario->run.clock == LH_CLOCK_REAL &&
	    (spec->timer_lateness_ns || spec->rate_headroom > 0))
		r = lh_fitness_measure(e->net, e->plan, e->wan, &e->fitness, err);
	return r < 0 ? r : lh_net_shape(e->net, err);
}

int lh_engine_run(const struct lh_engine_request *request, struct lh_error *err)
{
	struct lh_engine e = {.req = request};
	struct lh_net_faults faults = {0};
	struct lh_capture *capture = NULL;
	struct lh_error why = {0};
	int r, written;

	signal(SIGPIPE, SIG_IGN);
	lh_children_prepare();
	r = lh_plan_build(request->scenario, &e.plan, &why);
	if (r == 0 && !request->verifies)
		r = lh_timeline_new(e.plan, &e.timeline, &why);
	if (r == 0 && !request->verifies)
		r = lh_churn_new(e.plan, &e.churn, &why);
	if (r == 0)
		r = raise_file_limit(&e, &why);
	if (r == 0)
		r = write_plan(&e, &why);
	if (r == 0)
		r = build_network(&e, &why);
	if (r == 0 && request->verifies)
		r = verify(&e, &why);
	/* what was measured once was measured among others' traffic; single streams are judged
	 * alone */
	if (r == 0 && !request->verifies && request->scenario->run.probe == LH_PROBE_FULL)
		r = lh_cross_start(e.net, e.plan, &e.cross, &why);
	if (r == 0 && !request->verifies)
		r = probe(&e, &why);
	if (r == 0 && !request->verifies)
		r = open_counters(&e, &why);
	if (r == 0 && !request->verifies)
		r = lh_capture_start(e.net, e.plan, request->run_dir, &capture, &why);
	if (r == 0)
		wait_for_whole_second(&e);
	e.begin_ns = e.end_ns = lh_now_ns();
	if (r == 0 && !request->verifies && !e.cross)
		r = lh_cross_start(e.net, e.plan, &e.cross, &why);
	if (r == 0 && !request->verifies)
		r = request->command ? lh_run_commands(&e, &why) : lh_run_trainers(&e, &why);
	lh_cross_stop(e.cross);
	if (e.counters && fflush(e.counters) != 0 && r == 0)
		r = lh_fail(&why, LH_ESYS, errno, "write counters.csv");
	/* a proof judges what was lost itself, before it makes queues overflow */
	if (r == 0 && !request->verifies)
		r = lh_net_read_faults(e.net, &faults, &why);
	lh_fitness_judge(&e.fitness, &request->scenario->run.fitness,
			 request->verifies ? lh_fitness_plan_bps(e.plan) : e.peak_bps);
	written = write_verdict(&e, r, &why, &faults, capture, err);
	engine_done(&e);
	return written;
}
