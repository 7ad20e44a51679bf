/* SPDX-License-Identifier: Apache-2.0 */
/* Which probes are run, and the verdict on them. See probe.h. */
#include "emulator/probe.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/rng.h"
#include "emulator/probe_internal.h"

enum {
	MEASURED_RTTS = 4, /* whole round trips: a window-limited stream comes in bursts */
	MEASURE_FLOOR_NS = 20 * LH_NS_PER_MS,
	MEASURE_FLOOR_BYTES = 4 << 20, /* 64 of the largest super-packets: counted by the piece */
	SETTLE_FLOOR_BYTES = 1 << 20,  /* network cards let a burst of 128 KiB go first */
	MEASURED_BURSTS = 100,	       /* so that one more or less is 1 % */
	SETTLE_MARGIN_RTTS = 4,
	CUBIC_FLOOR_NS = 5 * LH_NS_PER_MS,
	STREAM_PAIRS_MAX = 1024, /* of sites: gigabytes are carried to probe so many */
	STREAMS_AT_ONCE = 512,
};

_Static_assert(2 * STREAMS_AT_ONCE <= LH_PROBE_FILES_MAX, "two descriptors for each stream");

static const double rtt_ratio_virtual = 0.001, rtt_abs_ms_virtual = 0.05;
static const double rtt_ratio_real = 0.01, rtt_abs_ms_real = 1;
static const double jitter_sds = 2;
/* Several streams at once were published with a wider spread than single ones. */
static const double stream_ratio = 0.05, few_streams_ratio = 0.07, many_streams_ratio = 0.10;
/* One measurement of ours may lie this many of their standard deviations from their mean. */
static const double published_sds = 2;
static const int few_streams = 10;
/* Probes that run together leave this share of every network card free. */
static const double nic_share = 0.8;

void lh_links_done(struct lh_links *links)
{
	free(links->rows);
	memset(links, 0, sizeof(*links));
}

struct lh_link_row *lh_links_add(struct lh_links *links)
{
	struct lh_link_row *grown =
		realloc(links->rows, (links->n_rows + 1) * sizeof(*links->rows));

	if (!grown)
		return NULL;
	links->rows = grown;
	memset(&grown[links->n_rows], 0, sizeof(*grown));
	return &grown[links->n_rows++];
}

void lh_links_judge(struct lh_links *links, struct lh_link_row *row)
{
	double allowed = row->target * row->tolerance_ratio + row->tolerance_abs;

	row->ok = row->target < 0 ||
		  (row->achieved >= 0 && fabs(row->achieved - row->target) <= allowed);
	links->ok &= row->ok;
}

/* How far the median round trip may lie from the mean for the jitter of both directions: a
 * skewed distribution's by most of a deviation. `longhaul verify` measures it better. */
static double jitter_allowance_ms(const struct lh_plan *plan, size_t a, size_t b)
{
	const struct lh_jitter_table *there = lh_plan_path_at(plan, a, b)->jitter;
	const struct lh_jitter_table *back = lh_plan_path_at(plan, b, a)->jitter;
	double sd_ns = (there ? there->sd_ns : 0) + (back ? back->sd_ns : 0);

	return jitter_sds * sd_ns / LH_NS_PER_MS;
}

/* Time that an echo and its answer themselves take to pass the two paths, in ms. */
static double echo_ms(const struct lh_plan *plan, size_t a, size_t b)
{
	double there = (double)lh_plan_path_at(plan, a, b)->bandwidth_bps;
	double back = (double)lh_plan_path_at(plan, b, a)->bandwidth_bps;

	return 8e3 * LH_ECHO_WIRE_BYTES / there + 8e3 * LH_ECHO_WIRE_BYTES / back;
}

static int probe_rtts(struct lh_net *net, const struct lh_plan *plan, struct lh_links *links,
		      struct lh_error *err)
{
	size_t n = plan->n_nodes;
	bool is_virtual = lh_run_is_exact(&plan->scenario->run);
	lh_cleanup_free int64_t *rtts = calloc(n * n, sizeof(*rtts));
	int r = rtts ? lh_probe_rtts(net, plan, rtts, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "probe round trips");

	for (size_t i = 0; i < n && r == 0; i++)
		for (size_t j = 0; j < n && r == 0; j++) {
			struct lh_link_row *row = i == j ? NULL : lh_links_add(links);

			if (!row)
				continue;
			row->kind = LH_LINK_RTT;
			row->from_node = i;
			row->to_node = j;
			row->target = (double)lh_plan_rtt_ns(plan, i, j) / LH_NS_PER_MS;
			row->achieved =
				rtts[i * n + j] < 0 ? -1 : (double)rtts[i * n + j] / LH_NS_PER_MS;
			row->tolerance_ratio = is_virtual ? rtt_ratio_virtual : rtt_ratio_real;
			row->tolerance_abs = is_virtual ? rtt_abs_ms_virtual
							: rtt_abs_ms_real + echo_ms(plan, i, j);
			row->tolerance_abs += jitter_allowance_ms(plan, i, j);
			row->published = -1;
			lh_links_judge(links, row);
		}
	return r < 0 ? r : lh_probe_inner(net, plan, rtts, links, err);
}

/* Seconds that CUBIC takes back to a window of so many segments after it has left slow start
 * early (RFC 9438, with its C and beta); on short round trips it is there at once. */
static double cubic_s(double segments, int64_t rtt_ns)
{
	const double c = 0.4, one_minus_beta = 0.3;

	return rtt_ns < CUBIC_FLOOR_NS ? 0 : 1.5 * cbrt(segments * one_minus_beta / c);
}

/* Time that bytes take at a rate. */
static int64_t time_of(int64_t bytes, int64_t bps)
{
	return (int64_t)((double)bytes * 8 / (double)bps * LH_NS_PER_S);
}

/* Time until a stream's window is fully open: doubling from the initial window, a margin, and
 * where the link and not the window is the limit, CUBIC's approach. */
static int64_t settle_ns(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	int64_t rtt = lh_plan_rtt_ns(plan, from, to);
	int64_t slowest = lh_plan_slowest_bps(plan, from, to);
	double bdp = (double)slowest / 8 * ((double)rtt / LH_NS_PER_S) / plan->segment_bytes;
	bool by_window = p->clamp_segments && p->clamp_segments < bdp;
	double segments = by_window ? p->clamp_segments : bdp;
	double doublings = log2(segments / plan->initial_window_segments + 1);
	double extra_s = by_window ? 0 : cubic_s(segments, rtt);

	return (int64_t)((doublings + SETTLE_MARGIN_RTTS) * (double)rtt + extra_s * LH_NS_PER_S) +
	       time_of(SETTLE_FLOOR_BYTES, slowest) + MEASURE_FLOOR_NS;
}

/* A short measurement between the first nodes of two sites. */
static struct lh_stream_job short_job(const struct lh_plan *plan, size_t from, size_t to)
{
	int64_t rtt = lh_plan_rtt_ns(plan, from, to);
	int64_t floor_ns = time_of(MEASURE_FLOOR_BYTES, lh_plan_slowest_bps(plan, from, to));
	int64_t stream_bps = lh_plan_stream_bps(plan, from, to);
	int64_t bursts_bytes =
		(int64_t)MEASURED_BURSTS * plan->nodes[from].burst_segments * plan->segment_bytes;
	int64_t bursts_ns = stream_bps > 0 ? time_of(bursts_bytes, stream_bps) : 0;
	int64_t trips = MEASURED_RTTS;

	if (floor_ns < bursts_ns)
		floor_ns = bursts_ns;
	if (floor_ns < MEASURE_FLOOR_NS)
		floor_ns = MEASURE_FLOOR_NS;
	if (rtt > 0 && trips * rtt < floor_ns)
		trips = floor_ns / rtt + 1;
	return (struct lh_stream_job){
		.from = from,
		.to = to,
		.streams = 1,
		.settle_ns = settle_ns(plan, from, to),
		.measure_ns = rtt > 0 ? trips * rtt : floor_ns,
		.n_phases = LH_PROBE_PHASES_MAX,
		.phase_ns = rtt / LH_PROBE_PHASES_MAX,
	};
}

static int add_stream_row(struct lh_links *links, const struct lh_stream_job *job,
			  double target_bps, double ratio, const struct lh_measured *published,
			  struct lh_error *err)
{
	struct lh_link_row *row = lh_links_add(links);

	if (!row)
		return lh_fail(err, LH_ESYS, ENOMEM, "probe streams");
	row->kind = LH_LINK_THROUGHPUT;
	row->from_node = job->from;
	row->to_node = job->to;
	row->streams = job->streams;
	row->duration_s = (double)job->measure_ns / LH_NS_PER_S;
	row->target = target_bps < 0 ? -1 : target_bps / 1e6;
	row->achieved = job->achieved_bps / 1e6;
	row->tolerance_ratio = ratio;
	if (published && published_sds * (double)published->sd_bps > ratio * target_bps) {
		row->tolerance_ratio = 0;
		row->tolerance_abs = published_sds * (double)published->sd_bps / 1e6;
	}
	row->published = published ? (double)published->throughput_bps / 1e6 : -1;
	row->published_source = published ? published->source : NULL;
	lh_links_judge(links, row);
	return 0;
}

/* The first node of a site, or the second where it is `not_this`; -1 where there is none. */
static long node_at(const struct lh_plan *plan, size_t site, long not_this)
{
	for (size_t i = 0; i < plan->n_nodes; i++)
		if (plan->nodes[i].site == site && (long)i != not_this)
			return (long)i;
	return -1;
}

/* Every directed pair of sites in use as a job between two of their nodes. */
static size_t list_jobs(const struct lh_plan *plan, struct lh_stream_job *jobs)
{
	size_t n_sites = plan->scenario->network.n_sites;
	size_t n = 0;

	for (size_t a = 0; a < n_sites; a++)
		for (size_t b = 0; b < n_sites; b++) {
			long from = node_at(plan, a, -1);
			long to = node_at(plan, b, from);

			if (from >= 0 && to >= 0)
				jobs[n++] = short_job(plan, (size_t)from, (size_t)to);
		}
	return n;
}

/* Leaves so many of the jobs as are probed at most, drawn by the seed. */
static size_t sample_jobs(const struct lh_plan *plan, struct lh_stream_job *jobs, size_t n)
{
	size_t kept = 0;
	struct lh_rng rng;

	lh_rng_init(&rng, (uint64_t)plan->scenario->run.seed, "probe sample");
	for (size_t i = 0; i < n && n > STREAM_PAIRS_MAX; i++)
		if (lh_rng_below(&rng, n - i) < STREAM_PAIRS_MAX - kept)
			jobs[kept++] = jobs[i];
	return n > STREAM_PAIRS_MAX ? kept : n;
}

/* What the jobs of a round ask of the cards of each node and of the links of each access. */
struct load {
	double up;
	double down;
};

/* Whether a job fits beside those that are chosen: no card and no link that a site shares is asked
 * for more than its share. loads: of all nodes, then of all accesses. */
static bool fits(const struct lh_plan *plan, const struct lh_stream_job *job, struct load *loads)
{
	const struct lh_plan_node *from = &plan->nodes[job->from], *to = &plan->nodes[job->to];
	bool outside = from->site != to->site;
	struct {
		double *used;
		int64_t rate_bps;
	} limits[4] = {{&loads[job->from].up, from->nic_up_bps},
		       {&loads[job->to].down, to->nic_down_bps}};
	double want = (double)lh_plan_stream_bps(plan, job->from, job->to);
	int n = 2;

	if (outside && from->access && from->access->up.bandwidth_bps) {
		limits[n].used = &loads[plan->n_nodes + (size_t)(from->access - plan->accesses)].up;
		limits[n++].rate_bps = from->access->up.bandwidth_bps;
	}
	if (outside && to->access && to->access->down.bandwidth_bps) {
		limits[n].used = &loads[plan->n_nodes + (size_t)(to->access - plan->accesses)].down;
		limits[n++].rate_bps = to->access->down.bandwidth_bps;
	}
	if (want < 0)
		want = (double)lh_plan_path_at(plan, job->from, job->to)->bandwidth_bps;
	for (int i = 0; i < n; i++)
		if (*limits[i].used > 0 &&
		    want > nic_share * (double)limits[i].rate_bps - *limits[i].used)
			return false;
	for (int i = 0; i < n; i++)
		*limits[i].used += want;
	return true;
}

/* Whether a stream on the job's path is limited by its window, so that no queue builds up. */
static bool is_window_limited(const struct lh_plan *plan, const struct lh_stream_job *job)
{
	double link = (double)lh_plan_slowest_bps(plan, job->from, job->to) * plan->segment_bytes /
		      (plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES);

	return (double)lh_plan_stream_bps(plan, job->from, job->to) < 0.9 * link;
}

/* Whether one of the chosen jobs would queue before the acknowledgements of this one. */
static bool is_opposed(const struct lh_plan *plan, const struct lh_stream_job *job,
		       const struct lh_stream_job *chosen, size_t n_chosen)
{
	for (size_t i = 0; i < n_chosen; i++)
		if (plan->nodes[chosen[i].from].site == plan->nodes[job->to].site &&
		    plan->nodes[chosen[i].to].site == plan->nodes[job->from].site &&
		    !is_window_limited(plan, job))
			return true;
	return false;
}

/* Runs as many jobs at once as fit, until all are done. */
static int run_in_rounds(struct lh_net *net, const struct lh_plan *plan, struct lh_stream_job *jobs,
			 size_t n_jobs, struct lh_error *err)
{
	size_t n_loads = plan->n_nodes + plan->n_accesses;
	lh_cleanup_free struct load *loads = calloc(n_loads, sizeof(*loads));
	size_t done = 0;
	int r = loads ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "probe streams");

	while (done < n_jobs && r == 0) {
		size_t chosen = done;

		memset(loads, 0, n_loads * sizeof(*loads));
		for (size_t i = done; i < n_jobs && chosen - done < STREAMS_AT_ONCE; i++) {
			struct lh_stream_job job = jobs[i];

			if (is_opposed(plan, &job, jobs + done, chosen - done) ||
			    !fits(plan, &job, loads))
				continue;
			jobs[i] = jobs[chosen];
			jobs[chosen++] = job;
		}
		r = lh_probe_streams(net, plan, jobs + done, chosen - done, err);
		done = chosen;
	}
	return r;
}

static bool is_measured_on(const struct lh_measured *m, const struct lh_plan *plan,
			   const struct lh_stream_job *job)
{
	const struct lh_network *net = &plan->scenario->network;

	return strcmp(m->from, net->sites[plan->nodes[job->from].site].name) == 0 &&
	       strcmp(m->to, net->sites[plan->nodes[job->to].site].name) == 0;
}

static int probe_short(struct lh_net *net, const struct lh_plan *plan, struct lh_stream_job *jobs,
		       size_t n_jobs, struct lh_links *links, struct lh_error *err)
{
	int r = run_in_rounds(net, plan, jobs, n_jobs, err);

	for (size_t i = 0; i < n_jobs && r == 0; i++)
		r = add_stream_row(links, &jobs[i],
				   (double)lh_plan_stream_bps(plan, jobs[i].from, jobs[i].to),
				   stream_ratio, NULL, err);
	return r;
}

/* Repeats what was measured on the path, one measurement after the other, as it was made. */
static int probe_full(struct lh_net *net, const struct lh_plan *plan,
		      const struct lh_stream_job *base, struct lh_links *links,
		      struct lh_error *err)
{
	const struct lh_path_spec *spec = lh_plan_path_at(plan, base->from, base->to)->spec;
	int r = 0;

	for (size_t i = 0; i < spec->n_measured && r == 0; i++) {
		const struct lh_measured *m = &spec->measured[i];
		struct lh_stream_job job = {.from = base->from,
					    .to = base->to,
					    .streams = (int)m->streams,
					    .measure_ns = m->duration_ns,
					    .n_phases = 1};

		if (!is_measured_on(m, plan, base))
			continue;
		r = lh_probe_streams(net, plan, &job, 1, err);
		if (r == 0)
			r = add_stream_row(links, &job, (double)m->throughput_bps,
					   m->streams == 1	       ? stream_ratio
					   : m->streams <= few_streams ? few_streams_ratio
								       : many_streams_ratio,
					   m, err);
	}
	return r;
}

int lh_probe_run(struct lh_net *net, const struct lh_plan *plan, struct lh_links *ret_links,
		 struct lh_error *err)
{
	size_t n_sites = plan->scenario->network.n_sites;
	lh_cleanup_free struct lh_stream_job *jobs = calloc(n_sites * n_sites, sizeof(*jobs));
	struct lh_links links = {.ok = true};
	size_t n_jobs;
	int r;

	if (!jobs)
		return lh_fail(err, LH_ESYS, ENOMEM, "probe the network");
	r = probe_rtts(net, plan, &links, err);
	n_jobs = list_jobs(plan, jobs);
	if (r == 0 && plan->scenario->run.probe == LH_PROBE_SHORT)
		r = probe_short(net, plan, jobs, sample_jobs(plan, jobs, n_jobs), &links, err);
	for (size_t i = 0; i < n_jobs && r == 0 && plan->scenario->run.probe == LH_PROBE_FULL; i++)
		r = probe_full(net, plan, &jobs[i], &links, err);
	if (r < 0) {
		lh_links_done(&links);
		return r;
	}
	*ret_links = links;
	return 0;
}

/* A number, or nothing where it is not known. */
static void print_cell(FILE *f, double v)
{
	if (v >= 0)
		fprintf(f, "%.6f", v);
	fputc(',', f);
}

/* A text as a CSV field. */
static void print_text(FILE *f, const char *s)
{
	fputc('"', f);
	for (; s && *s; s++) {
		if (*s == '"')
			fputc('"', f);
		fputc(*s, f);
	}
	fputc('"', f);
}

static const char *const kind_names[] = {
	[LH_LINK_RTT] = "rtt",
	[LH_LINK_THROUGHPUT] = "throughput",
	[LH_LINK_INNER_RTT] = "inner-rtt",
	[LH_LINK_INNER_THROUGHPUT] = "inner-throughput",
};

static void print_row(FILE *f, const struct lh_link_row *row, const struct lh_plan *plan)
{
	const struct lh_network *net = &plan->scenario->network;
	const struct lh_plan_node *from = &plan->nodes[row->from_node];
	const struct lh_plan_node *to = &plan->nodes[row->to_node];
	bool is_inner = row->from_node == row->to_node;
	bool is_rtt = row->kind == LH_LINK_RTT || row->kind == LH_LINK_INNER_RTT;
	bool both = row->target > 0 && row->achieved >= 0;

	fprintf(f, "%s,%s,%s,%s,%s,", kind_names[row->kind], net->sites[from->site].name,
		net->sites[to->site].name,
		is_inner ? plan->ranks[from->first_rank].name : from->name,
		is_inner ? plan->ranks[from->first_rank + 1].name : to->name);
	if (!is_rtt)
		fprintf(f, "%d", row->streams);
	fputc(',', f);
	print_cell(f, is_rtt ? -1 : row->duration_s);
	print_cell(f, row->target);
	print_cell(f, row->achieved);
	fprintf(f, "%s,", is_rtt ? "ms" : "Mbit/s");
	if (both)
		fprintf(f, "%.6f", row->achieved / row->target - 1);
	fputc(',', f);
	print_cell(f, row->tolerance_ratio);
	print_cell(f, row->tolerance_abs);
	fprintf(f, "%s,", row->target < 0 ? "not judged" : row->ok ? "yes" : "no");
	print_cell(f, row->published);
	if (row->published_source)
		print_text(f, row->published_source);
	fputc('\n', f);
}

int lh_links_write(const struct lh_links *links, const struct lh_plan *plan, const char *path,
		   struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return lh_fail(err, LH_ESYS, errno, "write %s", path);
	fputs("kind,from,to,from_node,to_node,streams,duration_s,target,achieved,unit,error_ratio,"
	      "tolerance_ratio,tolerance_abs,ok,published,published_source\n",
	      f);
	for (size_t i = 0; i < links->n_rows; i++)
		print_row(f, &links->rows[i], plan);
	if (fclose(f) != 0)
		return lh_fail(err, LH_ESYS, errno, "write %s", path);
	return lh_file_write(path, text, size, err);
}
