/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a model learns. See profile.h. */
#include "trainer/learn/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/stats.h"
#include "trainer/clock.h"
#include "trainer/learn/alone.h"
#include "trainer/learn/machine.h"

/* Enough steps for a spread, and no more than tell anything. */
enum { WARM_UP_STEPS = 3, STEPS_MIN = 10, STEPS_MAX = 2000 };
static const double SECONDS_DEFAULT = 5, SECONDS_MAX = 3600, WARM_UP_RATIO = 0.2;

/* What is timed: the phases of a step, then a micro-batch, which is all of them but the update. */
enum { MICRO_BATCH = LH_N_PHASES, N_TIMES };
static const char *const names[N_TIMES] = {"load", "forward", "backward", "update", "micro_batch"};

struct profile {
	struct lh_alone_job job;
	struct lh_learn_spec spec;
	struct lh_learner *learner;
	int stop_fd;
	double seconds;
	double *times_s[N_TIMES]; /* STEPS_MAX each */
	size_t n;
	uint64_t before_bytes;
};

static int check_stop(const struct profile *p, struct lh_error *err)
{
	struct signalfd_siginfo info;

	if (p->stop_fd < 0 || read(p->stop_fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	return lh_fail(err, LH_ESIGNAL, (int)info.ssi_signo, "stopped by signal %d",
		       (int)info.ssi_signo);
}

static int step(struct profile *p, struct lh_error *err)
{
	int rc = lh_learner_accumulate(p->learner, err);

	return rc ? rc : lh_learner_step(p->learner, err);
}

static int warm_up(struct profile *p, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();
	int64_t least_ns = (int64_t)(WARM_UP_RATIO * p->seconds * 1e9);
	int rc = 0;

	for (int i = 0; rc == 0 && (i < WARM_UP_STEPS || lh_clock_now_ns() - begin_ns < least_ns);
	     i++)
		if ((rc = step(p, err)) == 0)
			rc = check_stop(p, err);
	return rc;
}

static int measure(struct profile *p, struct lh_error *err)
{
	int64_t begin_ns, phases_ns[LH_N_PHASES];
	int rc = warm_up(p, err);

	lh_learner_time_phases(p->learner);
	begin_ns = lh_clock_now_ns();
	while (rc == 0 && p->n < STEPS_MAX &&
	       (p->n < STEPS_MIN || (double)(lh_clock_now_ns() - begin_ns) < p->seconds * 1e9)) {
		if ((rc = step(p, err)) || (rc = check_stop(p, err)))
			return rc;
		lh_learner_take_phases(p->learner, phases_ns);
		for (int i = 0; i < LH_N_PHASES; i++)
			p->times_s[i][p->n] = (double)phases_ns[i] / 1e9;
		p->times_s[MICRO_BATCH][p->n] =
			(double)(phases_ns[LH_PHASE_LOAD] + phases_ns[LH_PHASE_FORWARD] +
				 phases_ns[LH_PHASE_BACKWARD]) /
			1e9;
		p->n++;
	}
	return rc;
}

/* ---- what came out -------------------------------------------------------------------------- */

static double mean_of(const double *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	return sum / (double)n;
}

static double deviation_of(const double *values, size_t n)
{
	double mean = mean_of(values, n), sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (values[i] - mean) * (values[i] - mean);
	return sqrt(sum / (double)(n - 1));
}

/* Sorts the values. */
static json_t *times_to_json(double *values, size_t n)
{
	double mean = mean_of(values, n), deviation = deviation_of(values, n);

	lh_sort_doubles(values, n);
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean_s", mean, "deviation_s", deviation,
			 "median_s", (values[(n - 1) / 2] + values[n / 2]) / 2, "p10_s",
			 values[n / 10], "p90_s", values[n - 1 - n / 10]);
}

static int write_profile(struct profile *p, FILE *out, struct lh_error *err)
{
	double mean_s = mean_of(p->times_s[MICRO_BATCH], p->n);
	double deviation_s = deviation_of(p->times_s[MICRO_BATCH], p->n);
	struct lh_machine_memory memory = lh_machine_process_memory();
	lh_cleanup_json json_t *times = json_object();
	lh_cleanup_json json_t *line = json_pack(
		"{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:I, s:I, s:I}", "event", "profile",
		"model", p->job.model, "parameters",
		(json_int_t)lh_learner_n_parameters(p->learner), "micro_batch",
		(json_int_t)p->job.micro_batch, "steps", (json_int_t)p->n, "samples_per_s",
		p->job.micro_batch / mean_s, "variation_ratio", deviation_s / mean_s, "device",
		lh_alone_describe_device(lh_learner_device(p->learner)), "memory",
		lh_alone_describe_memory(p->learner), "before_bytes", (json_int_t)p->before_bytes,
		"files_bytes", (json_int_t)memory.files_bytes, "peak_bytes",
		(json_int_t)memory.peak_bytes);

	for (int i = 0; line && i < N_TIMES; i++)
		json_object_set_new(times, names[i], times_to_json(p->times_s[i], p->n));
	if (!line || json_object_set(line, "times", times))
		return lh_fail(err, LH_ESYS, ENOMEM, "profile");
	if (json_dumpf(line, out, JSON_COMPACT) || fputc('\n', out) == EOF || fflush(out))
		return lh_fail(err, LH_ESYS, errno, "write the profile");
	return 0;
}

/* ---- from begin to end ---------------------------------------------------------------------- */

/* The job is one of a training alone, of micro-batches without end, and how long to measure. */
static int read_job(struct profile *p, const json_t *json, struct lh_error *err)
{
	lh_cleanup_json json_t *copy = json_copy((json_t *)(uintptr_t)json);
	const json_t *seconds = json_object_get(copy, "seconds");
	struct lh_diag diag = {0};
	int rc = 0;

	p->seconds = seconds ? json_number_value(seconds) : SECONDS_DEFAULT;
	if (!(p->seconds > 0 && p->seconds <= SECONDS_MAX))
		return lh_fail(err, LH_EINPUT, 0, "seconds: expected a number up to %g",
			       SECONDS_MAX);
	json_object_del(copy, "seconds");
	json_object_set_new(copy, "steps", json_integer(STEPS_MAX));
	lh_alone_job_read(copy, &p->job, &diag);
	p->job.model = json_string_value(json_object_get(json, "model"));
	p->job.train = json_object_get(json, "train");
	if (diag.n_messages)
		rc = lh_fail(err, LH_EINPUT, 0, "%s", diag.messages[0]);
	lh_diag_done(&diag);
	return rc;
}

static int open_profile(struct profile *p, struct lh_error *err)
{
	const uint32_t ranks = 1;
	const struct lh_learner_place place = {.seed = p->job.seed,
					       .micro_batch = p->job.micro_batch,
					       .n_ranks = 1,
					       .n_sites = 1,
					       .ranks_of_sites = &ranks};
	struct lh_schedule schedule;
	int rc = lh_alone_spec_read(&p->job, &p->spec, err);

	if (rc || (rc = lh_alone_check_memory(&p->spec, p->job.micro_batch, err)))
		return rc;
	for (int i = 0; i < N_TIMES; i++)
		if (!(p->times_s[i] = calloc(STEPS_MAX, sizeof(double))))
			return lh_fail(err, LH_ESYS, ENOMEM, "times");
	p->before_bytes = lh_machine_process_memory().own_bytes;
	lh_schedule_init(p->spec.optimizer.lr, &schedule);
	if ((rc = lh_learner_open(&p->spec, &place, &p->learner, err)))
		return rc;
	return lh_learner_set_schedule(p->learner, &schedule, err);
}

int lh_profile_run(const json_t *job, FILE *out, int stop_fd, struct lh_error *err)
{
	struct profile p = {.stop_fd = stop_fd};
	int rc;

	if ((rc = read_job(&p, job, err)) == 0 && (rc = open_profile(&p, err)) == 0 &&
	    (rc = measure(&p, err)) == 0)
		rc = write_profile(&p, out, err);
	lh_learner_close(p.learner);
	for (int i = 0; i < N_TIMES; i++)
		free(p.times_s[i]);
	return rc;
}
