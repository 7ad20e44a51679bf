/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a machine is fit for real time. See fitness.h. */
#include "emulator/fitness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/probe_internal.h"
#include "emulator/wan.h"

enum {
	SLEEP_NS = LH_NS_PER_MS,
	SETTLE_NS = 100 * LH_NS_PER_MS,
	MEASURE_NS = 400 * LH_NS_PER_MS,
	STAT_MAX_BYTES = 1 << 20,
};

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

int64_t lh_fitness_timer(void)
{
	int64_t late[LH_FITNESS_SLEEPS];
	int64_t next = lh_now_ns();

	/* so late does Linux wake otherwise, to save energy */
	prctl(PR_SET_TIMERSLACK, 1);
	for (int i = 0; i < LH_FITNESS_SLEEPS; i++) {
		next += SLEEP_NS;
		lh_sleep_until(next);
		late[i] = lh_now_ns() - next;
	}
	prctl(PR_SET_TIMERSLACK, 0);
	qsort(late, LH_FITNESS_SLEEPS, sizeof(*late), compare_times);
	return late[LH_FITNESS_SLEEPS - 1 - LH_FITNESS_SLEEPS / 100];
}

struct cpu_times {
	unsigned long long all;
	unsigned long long stolen;
};

static void read_cpu(struct cpu_times *ret)
{
	lh_cleanup_free char *text = NULL;
	unsigned long long t[8] = {0};
	struct lh_error ignored;

	*ret = (struct cpu_times){0};
	if (lh_file_read("/proc/stat", STAT_MAX_BYTES, &text, NULL, &ignored) < 0 ||
	    sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
		   &t[4], &t[5], &t[6], &t[7]) != 8)
		return;
	for (size_t i = 0; i < 8; i++)
		ret->all += t[i];
	ret->stolen = t[7];
}

/* What one stream carries from the first to the second node. */
static int measure_rate(struct lh_net *net, const struct lh_plan *plan, double *ret_bps,
			struct lh_error *err)
{
	struct lh_stream_job job = {.from = 0,
				    .to = 1,
				    .streams = 1,
				    .settle_ns = SETTLE_NS,
				    .measure_ns = MEASURE_NS,
				    .n_phases = 1};
	int r = lh_probe_streams(net, plan, &job, 1, err);

	*ret_bps = job.achieved_bps;
	return r;
}

int lh_fitness_measure(struct lh_net *net, const struct lh_plan *plan, struct lh_wan *wan,
		       struct lh_fitness *ret, struct lh_error *err)
{
	struct lh_fitness f = {.is_measured = true,
			       .guest_timer_p99_ns = -1,
			       .carried_bps = -1,
			       .load_average = -1};
	struct cpu_times before, after;
	int r = 0;

	read_cpu(&before);
	(void)getloadavg(&f.load_average, 1);
	f.timer_p99_ns = lh_fitness_timer();
	if (wan)
		r = lh_wan_timer(wan, &f.guest_timer_p99_ns, err);
	if (r == 0 && plan->n_nodes > 1)
		r = measure_rate(net, plan, &f.carried_bps, err);
	read_cpu(&after);
	if (after.all > before.all)
		f.stolen_ratio =
			(double)(after.stolen - before.stolen) / (double)(after.all - before.all);
	if (r == 0)
		*ret = f;
	return r;
}

void lh_fitness_note_timer(struct lh_fitness *f, double p99_ms)
{
	int64_t p99_ns = (int64_t)(p99_ms * LH_NS_PER_MS);

	if (f->is_measured && p99_ns > f->timer_p99_ns)
		f->timer_p99_ns = p99_ns;
}

double lh_fitness_plan_bps(const struct lh_plan *plan)
{
	int64_t most = 0;

	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < plan->n_nodes; j++)
			if (i != j && lh_plan_slowest_bps(plan, i, j) > most)
				most = lh_plan_slowest_bps(plan, i, j);
	return (double)most;
}

static bool is_late(struct lh_fitness *f, const struct lh_fitness_spec *spec, int64_t p99_ns,
		    const char *whose)
{
	if (!spec->timer_lateness_ns || p99_ns <= spec->timer_lateness_ns)
		return false;
	f->ok = false;
	snprintf(f->message, sizeof(f->message),
		 "%s timers are late: one in a hundred by %.2f ms or more, and %.2f ms are allowed "
		 "(run.fitness.timer_lateness); end what else runs here, or use --clock virtual",
		 whose, (double)p99_ns / LH_NS_PER_MS,
		 (double)spec->timer_lateness_ns / LH_NS_PER_MS);
	return true;
}

void lh_fitness_judge(struct lh_fitness *f, const struct lh_fitness_spec *spec, double asked_bps)
{
	f->asked_bps = asked_bps;
	f->ok = true;
	if (!f->is_measured || is_late(f, spec, f->timer_p99_ns, "its") ||
	    is_late(f, spec, f->guest_timer_p99_ns, "the guest's"))
		return;
	if (f->carried_bps < 0 || f->carried_bps >= spec->rate_headroom * asked_bps)
		return;
	f->ok = false;
	snprintf(f->message, sizeof(f->message),
		 "it carries %.0f Mbit/s without any limit, and %.0f Mbit/s were asked for, of "
		 "which "
		 "it must carry %g times as much (run.fitness.rate_headroom); end what else runs "
		 "here, ask for less, or use --clock virtual",
		 f->carried_bps / 1e6, asked_bps / 1e6, spec->rate_headroom);
}

json_t *lh_fitness_to_json(const struct lh_fitness *f, const struct lh_fitness_spec *spec)
{
	json_t *doc;

	if (!f->is_measured)
		return NULL;
	doc = json_pack("{s:b, s:I, s:I, s:f, s:f, s:f, s:f}", "ok", f->ok, "timer_p99_ns",
			(json_int_t)f->timer_p99_ns, "timer_limit_ns",
			(json_int_t)spec->timer_lateness_ns, "asked_bps", f->asked_bps,
			"rate_headroom", spec->rate_headroom, "load_average", f->load_average,
			"stolen_ratio", f->stolen_ratio);
	if (f->guest_timer_p99_ns >= 0)
		json_object_set_new(doc, "guest_timer_p99_ns",
				    json_integer((json_int_t)f->guest_timer_p99_ns));
	if (f->carried_bps >= 0)
		json_object_set_new(doc, "carried_bps", json_real(f->carried_bps));
	return doc;
}
