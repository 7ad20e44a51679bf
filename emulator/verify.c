/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof of a network: which packets are sent, and what is made of what comes. See
 * verify.h. Packets are sent in verify_trains.c, judged in verify_idle.c and verify_load.c.
 */
#include "emulator/verify.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "core/stats.h"
#include "emulator/fitness.h"
#include "emulator/probe_internal.h"
#include "emulator/verify_internal.h"

enum {
	N_PLAIN = 40,	 /* packets where nothing is random, half of them full */
	N_RANDOM = 5000, /* where something is, at least, if ... */
	N_RANDOM_MIN = 1000,
	N_RANDOM_MAX = 100000,
	N_RANDOM_ALL = 200000, /* ... all paths together have no more, about */
	N_FULL = 20,
	GAP_NS = LH_NS_PER_MS,
};

static const double alpha_all = 0.001;
static const int64_t real_budget_ns = INT64_C(10000000000); /* of one group of trains */
static const double losses_wanted = 300;		    /* or bursts of them */

void lh_verdict_done(struct lh_verdict *v)
{
	free(v->rows);
	free(v->quantiles);
	memset(v, 0, sizeof(*v));
}

const struct lh_plan_path *lh_verify_path(const struct lh_verify *v, const struct lh_train *t)
{
	return lh_plan_path_at(v->plan, t->from, t->to);
}

/* Adds a row; what is decided by chance is judged at the end. */
int lh_verify_add(struct lh_verify *v, struct lh_verify_row row, struct lh_error *err)
{
	struct lh_verdict *verdict = v->verdict;
	struct lh_verify_row *grown =
		realloc(verdict->rows, (verdict->n_rows + 1) * sizeof(*verdict->rows));

	if (!grown)
		return lh_fail(err, LH_ESYS, ENOMEM, "verify the network");
	verdict->rows = grown;
	grown[verdict->n_rows++] = row;
	verdict->n_tests += row.p >= 0;
	return 0;
}

struct lh_verify_row lh_verify_row_of(const struct lh_train *t, enum lh_property property)
{
	return (struct lh_verify_row){.property = property,
				      .from_node = (long)t->from,
				      .to_node = (long)t->to,
				      .achieved = NAN,
				      .p = -1,
				      .n = t->n_arrived};
}

double lh_verify_ns(double bytes, int64_t bps)
{
	return bytes * 8 / (double)bps * LH_NS_PER_S;
}

/* Packets so far apart that none meets another: not in a queue, nor by drawing other delays. */
static int64_t idle_gap_ns(const struct lh_plan *plan, const struct lh_train *t)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, t->from, t->to);
	double wire = lh_probe_wire_bytes(lh_probe_full_bytes(plan));
	int64_t gap = (int64_t)(2 * lh_verify_ns(wire, lh_plan_slowest_bps(plan, t->from, t->to)));

	if (p->jitter && p->jitter->highest_ns - p->jitter->lowest_ns > gap)
		gap = p->jitter->highest_ns - p->jitter->lowest_ns;
	return gap > GAP_NS ? gap : GAP_NS;
}

/* So many packets show what is random on a path: the rarest of it often enough. */
static double wanted_packets(const struct lh_plan_path *p)
{
	const struct lh_plan_chances *c = &p->chances;
	const uint32_t chances[] = {c->loss, c->burst_in, c->duplicate, c->corrupt, c->reorder};
	double n = N_RANDOM;

	for (size_t i = 0; i < sizeof(chances) / sizeof(chances[0]); i++)
		if (chances[i])
			n = fmax(n, losses_wanted / (chances[i] / 0x1p32));
	return fmin(n, N_RANDOM_MAX);
}

/* Fills in the trains that measure idle paths. */
static void plan_idle(struct lh_verify *v)
{
	double wanted = 0, share;

	for (size_t i = 0; i < v->n_trains; i++)
		if (lh_verify_path(v, &v->trains[i])->seed)
			wanted += wanted_packets(lh_verify_path(v, &v->trains[i]));
	share = wanted > N_RANDOM_ALL ? N_RANDOM_ALL / wanted : 1;
	for (size_t i = 0; i < v->n_trains; i++) {
		struct lh_train *t = &v->trains[i];
		const struct lh_plan_path *p = lh_verify_path(v, t);

		t->gap_ns = idle_gap_ns(v->plan, t);
		t->at_once = t->in_one = 1;
		t->n = p->seed ? (uint32_t)fmax(wanted_packets(p) * share, N_RANDOM_MIN) : N_PLAIN;
		if (!v->is_virtual && t->n * t->gap_ns > real_budget_ns)
			t->n = (uint32_t)(real_budget_ns / t->gap_ns);
		t->n = t->n < N_PLAIN ? N_PLAIN : t->n;
		t->no_checksum = p->chances.corrupt > 0;
		t->n_full = p->chances.corrupt ? t->n : N_FULL;
	}
}

static int compare_trains(const void *a, const void *b)
{
	const struct lh_train *x = a, *y = b;

	if (x->gap_ns != y->gap_ns)
		return x->gap_ns < y->gap_ns ? -1 : 1;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

/* Where nothing is random, all wait for the slowest: one train of trains for all of them. */
static void align_plain(struct lh_verify *v)
{
	int64_t longest = 0;

	for (size_t i = 0; i < v->n_trains; i++)
		if (v->trains[i].n == N_PLAIN && v->trains[i].gap_ns > longest)
			longest = v->trains[i].gap_ns;
	for (size_t i = 0; i < v->n_trains; i++)
		if (v->trains[i].n == N_PLAIN)
			v->trains[i].gap_ns = longest;
}

/* Packets of trains that share a link of a site must not meet there: each goes a little later than
 * the one before it. */
static void stagger(const struct lh_verify *v, struct lh_train *trains, size_t n)
{
	double wire = lh_probe_wire_bytes(lh_probe_full_bytes(v->plan));
	int64_t lag = 0;

	for (size_t i = 0; i < n; i++) {
		const struct lh_train *t = &trains[i];
		int64_t slowest = lh_plan_slowest_bps(v->plan, t->from, t->to);

		if (lh_plan_shares_link(v->plan, t->from, t->to))
			lag += (int64_t)(2 * lh_verify_ns(wire, slowest));
		trains[i].lag_ns = lag;
	}
	for (size_t i = 0; i < n; i++)
		if (trains[i].gap_ns < 2 * lag)
			trains[i].gap_ns = 2 * lag;
}

/* Runs and judges the trains of idle paths, those of one kind at a time. */
static int run_idle(struct lh_verify *v, struct lh_error *err)
{
	int r = 0;

	plan_idle(v);
	align_plain(v);
	qsort(v->trains, v->n_trains, sizeof(*v->trains), compare_trains);
	for (size_t i = 0; i < v->n_trains && r == 0;) {
		size_t n = 1;

		while (i + n < v->n_trains && v->trains[i + n].gap_ns == v->trains[i].gap_ns &&
		       v->trains[i + n].n == v->trains[i].n)
			n++;
		stagger(v, &v->trains[i], n);
		r = lh_trains_run(v->net, v->plan, &v->trains[i], n, err);
		for (size_t k = i; k < i + n; k++) {
			if (r == 0)
				r = lh_verify_delays(v, &v->trains[k], err);
			if (r == 0)
				r = lh_verify_chances(v, &v->trains[k], err);
			lh_train_done(&v->trains[k]);
		}
		i += n;
	}
	return r;
}

/* How late this machine wakes: real time is only as good as that. */
static int run_timer(struct lh_verify *v, struct lh_error *err)
{
	int64_t limit_ns = v->plan->scenario->run.fitness.timer_lateness_ns;
	struct lh_verify_row row = {.property = LH_PROPERTY_TIMER,
				    .from_node = -1,
				    .to_node = -1,
				    .p = -1,
				    .n = LH_FITNESS_SLEEPS,
				    .tolerance =
					    limit_ns ? (double)limit_ns / LH_NS_PER_MS : INFINITY};

	row.achieved = (double)lh_fitness_timer() / LH_NS_PER_MS;
	return lh_verify_add(v, row, err);
}

static int run_faults(struct lh_verify *v, struct lh_error *err)
{
	struct lh_verify_row row = {
		.property = LH_PROPERTY_FAULTS, .from_node = -1, .to_node = -1, .p = -1};
	struct lh_net_faults f;
	int r = lh_net_read_faults(v->net, &f, err);

	if (r < 0)
		return r;
	row.achieved = (double)(f.receive_queue_drops + f.qdisc_drops + f.unclassified_packets +
				f.softnet_drops);
	return lh_verify_add(v, row, err);
}

/* All directed pairs of nodes, or so many of them by chance. */
static int list_trains(struct lh_verify *v, size_t sample, struct lh_error *err)
{
	size_t n = v->plan->n_nodes, k = 0;
	struct lh_rng rng;

	v->trains = calloc(n * n + 1, sizeof(*v->trains));
	if (!v->trains)
		return lh_fail(err, LH_ESYS, ENOMEM, "verify the network");
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			if (i != j)
				v->trains[k++] = (struct lh_train){.from = i, .to = j};
	v->n_trains = v->verdict->n_all_paths = k;
	lh_rng_init(&rng, (uint64_t)v->plan->scenario->run.seed, "verify sample");
	if (sample && sample < k) {
		for (size_t i = 0; i < sample; i++) {
			size_t other = i + (size_t)lh_rng_below(&rng, k - i);
			struct lh_train t = v->trains[i];

			v->trains[i] = v->trains[other];
			v->trains[other] = t;
		}
		v->n_trains = sample;
	}
	v->verdict->n_paths = v->n_trains;
	return 0;
}

/* Every test with chance in it has its share of alpha (Bonferroni). */
static void judge(struct lh_verdict *verdict)
{
	double alpha = verdict->n_tests ? verdict->alpha / (double)verdict->n_tests : 1;
	double sds = verdict->n_tests ? lh_normal_quantile(1 - alpha / 2) : 0;

	verdict->ok = true;
	for (size_t i = 0; i < verdict->n_rows; i++) {
		struct lh_verify_row *row = &verdict->rows[i];

		row->chance *= sds;
		row->ok = row->p >= 0 ? row->p >= alpha && !isnan(row->achieved)
				      : fabs(row->achieved - row->target) <= row->tolerance;
		verdict->ok &= row->ok;
	}
}

int lh_verify_run(struct lh_net *net, const struct lh_plan *plan, size_t sample,
		  struct lh_verdict *ret_verdict, struct lh_error *err)
{
	struct lh_verdict verdict = {.alpha = alpha_all};
	struct lh_verify v = {.net = net,
			      .plan = plan,
			      .verdict = &verdict,
			      .is_virtual = lh_run_is_exact(&plan->scenario->run)};
	int r = list_trains(&v, sample, err);

	/* so late does Linux wake otherwise, to save energy */
	prctl(PR_SET_TIMERSLACK, 1);
	if (r == 0)
		r = run_timer(&v, err);
	if (r == 0)
		r = run_idle(&v, err);
	for (size_t i = 0; i < v.n_trains && r == 0; i++)
		r = lh_verify_rate(&v, &v.trains[i], err);
	if (r == 0)
		r = lh_verify_inner(&v, err);
	if (r == 0)
		r = run_faults(&v, err);
	/* overflowing queues on purpose: nothing is lost by accident after this */
	for (size_t i = 0; i < v.n_trains && r == 0; i++)
		r = lh_verify_queue(&v, &v.trains[i], err);
	if (r == 0)
		r = lh_verify_site_links(&v, err);
	free(v.trains);
	if (r < 0) {
		lh_verdict_done(&verdict);
		return r;
	}
	judge(&verdict);
	*ret_verdict = verdict;
	return 0;
}
