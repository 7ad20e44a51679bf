/* SPDX-License-Identifier: Apache-2.0 */
/* A training alone. See alone.h. */
#include "trainer/learn/alone.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/clock.h"
#include "trainer/learn/machine.h"
#include "trainer/optim/checkpoint.h"

enum { LOG_LINES = 2000, CHECKPOINTS_KEPT = 2 };

struct alone {
	struct lh_alone_job job;
	struct lh_learn_spec spec;
	struct lh_learner *learner;
	FILE *out;
	int stop_fd;
	uint64_t first_step, n_steps, log_every;
	uint64_t samples_per_epoch;
	uint64_t before_bytes; /* of this process, before the learner was opened */
	int64_t begin_ns;
	int64_t testing_ns, saving_ns; /* no training */
	int signal;		       /* that asked to end; 0: none has */
};

/* ---- telling -------------------------------------------------------------------------------- */

/* Writes one line; fields is taken over, NULL counts as memory that ran out. */
static int tell(struct alone *a, const char *event, json_t *fields, struct lh_error *err)
{
	lh_cleanup_json json_t *line =
		json_pack("{s:s, s:f}", "event", event, "wall_s",
			  a->begin_ns ? (double)(lh_clock_now_ns() - a->begin_ns) / 1e9 : 0.0);
	bool is_made = line && fields && json_object_update(line, fields) == 0;

	json_decref(fields);
	if (!is_made)
		return lh_fail(err, LH_ESYS, ENOMEM, "events");
	if (json_dumpf(line, a->out, JSON_COMPACT) || fputc('\n', a->out) == EOF || fflush(a->out))
		return lh_fail(err, LH_ESYS, errno, "write events");
	return 0;
}

static void put_real(json_t *object, const char *key, double value)
{
	json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

/* Epochs that are whole after so many steps. */
static uint64_t whole_epochs(const struct alone *a, uint64_t steps)
{
	return steps * a->job.batch / a->samples_per_epoch;
}

static json_t *score_to_json(const struct alone *a, const struct lh_score *score)
{
	uint64_t step = lh_learner_steps(a->learner);
	json_t *json =
		json_pack("{s:I, s:f, s:I, s:I}", "step", (json_int_t)step, "epoch",
			  (double)(step * a->job.batch) / (double)a->samples_per_epoch, "samples",
			  (json_int_t)score->n_samples, "counted", (json_int_t)score->n_counted);

	if (!json)
		return NULL;
	put_real(json, "loss", score->loss);
	put_real(json, "accuracy", score->accuracy);
	return json;
}

static int tell_learnt(struct alone *a, double lr, struct lh_error *err)
{
	struct lh_score score;
	json_t *json;

	lh_learner_take_score(a->learner, &score);
	json = score_to_json(a, &score);
	if (json) {
		put_real(json, "lr", lr);
		put_real(json, "grad_norm", lh_learner_grad_norm(a->learner));
	}
	return tell(a, "learn", json, err);
}

static int test(struct alone *a, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();
	struct lh_score score;
	json_t *json;
	int rc = lh_learner_evaluate(a->learner, &score, err);

	a->testing_ns += lh_clock_now_ns() - begin_ns;
	if (rc)
		return rc;
	json = score_to_json(a, &score);
	if (json) {
		put_real(json, "bits_per_byte", score.bits_per_byte);
		put_real(json, "word_accuracy", score.word_accuracy);
	}
	return tell(a, "evaluate", json, err);
}

static int tell_begin(struct alone *a, struct lh_error *err)
{
	const struct lh_learner *l = a->learner;

	return tell(a, "begin",
		    json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "model", a->job.model,
			      "parameters", (json_int_t)lh_learner_n_parameters(l), "samples",
			      (json_int_t)a->samples_per_epoch, "test_samples",
			      (json_int_t)lh_learner_test_samples(l), "steps",
			      (json_int_t)a->n_steps, "first_step", (json_int_t)a->first_step,
			      "device", lh_alone_describe_device(lh_learner_device(l)), "memory",
			      lh_alone_describe_memory(l)),
		    err);
}

static int tell_end(struct alone *a, struct lh_error *err)
{
	uint64_t steps = lh_learner_steps(a->learner) - a->first_step;
	int64_t all_ns = lh_clock_now_ns() - a->begin_ns - a->testing_ns - a->saving_ns;
	double seconds = (double)all_ns / 1e9;
	struct lh_machine_memory memory = lh_machine_process_memory();

	return tell(a, "end",
		    json_pack("{s:I, s:I, s:f, s:f, s:I, s:I, s:I}", "steps", (json_int_t)steps,
			      "signal", (json_int_t)a->signal, "training_s", seconds,
			      "samples_per_s",
			      seconds > 0 ? (double)(steps * a->job.batch) / seconds : 0.0,
			      "before_bytes", (json_int_t)a->before_bytes, "files_bytes",
			      (json_int_t)memory.files_bytes, "peak_bytes",
			      (json_int_t)memory.peak_bytes),
		    err);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static int save(struct alone *a, struct lh_error *err)
{
	const char *folder = a->job.checkpoint_folder;
	int64_t begin_ns = lh_clock_now_ns();
	lh_cleanup_free char *path = lh_checkpoint_path(folder, lh_learner_steps(a->learner));
	int rc = path ? lh_learner_save(a->learner, path, err)
		      : lh_fail(err, LH_ESYS, ENOMEM, "checkpoint");

	if (rc == 0)
		rc = lh_checkpoint_prune(folder, CHECKPOINTS_KEPT, err);
	a->saving_ns += lh_clock_now_ns() - begin_ns;
	return rc ? rc : tell(a, "checkpoint", json_pack("{s:s}", "path", path), err);
}

static int resume(struct alone *a, const char *path, const struct lh_diag *skipped,
		  struct lh_error *err)
{
	int rc;

	for (size_t i = 0; i < skipped->n_messages; i++)
		if ((rc = tell(a, "skipped", json_pack("{s:s}", "why", skipped->messages[i]), err)))
			return rc;
	if (!path)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: no whole checkpoint to go on from; without resume the training "
			       "begins anew",
			       a->job.checkpoint_folder);
	if ((rc = lh_learner_load(a->learner, path, err)))
		return rc;
	a->first_step = lh_learner_steps(a->learner);
	return tell(a, "resume",
		    json_pack("{s:s, s:I}", "path", path, "step", (json_int_t)a->first_step), err);
}

/* Goes on from the newest checkpoint where that is asked for; else none may be there. */
static int open_checkpoints(struct alone *a, struct lh_error *err)
{
	const char *folder = a->job.checkpoint_folder;
	lh_cleanup_free char *path = NULL;
	struct lh_diag skipped = {0};
	int rc;

	if (!folder)
		return 0;
	if ((rc = lh_dir_make(folder, err)) == 0 &&
	    (rc = lh_checkpoint_find_latest(folder, &path, &skipped, err)) == 0) {
		if (a->job.resumes)
			rc = resume(a, path, &skipped, err);
		else if (path)
			rc = lh_fail(err, LH_EUSAGE, 0,
				     "%s already holds checkpoints, of another training: resume "
				     "that one, or name another folder",
				     folder);
	}
	lh_diag_done(&skipped);
	return rc;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static bool is_stopped(struct alone *a)
{
	struct signalfd_siginfo info;

	if (!a->signal && a->stop_fd >= 0 && read(a->stop_fd, &info, sizeof(info)) == sizeof(info))
		a->signal = (int)info.ssi_signo;
	return a->signal != 0;
}

/* Whether step ends an epoch that is a multiple of `every`. */
static bool ends_epochs(const struct alone *a, uint64_t step, uint64_t every)
{
	return whole_epochs(a, step) / every > whole_epochs(a, step - 1) / every;
}

static bool is_checkpoint_due(const struct alone *a, uint64_t step)
{
	if (!a->job.checkpoint_folder)
		return false;
	return step == a->n_steps || a->signal ||
	       (a->job.checkpoint_every ? step % a->job.checkpoint_every == 0
					: ends_epochs(a, step, 1));
}

static int step(struct alone *a, struct lh_error *err)
{
	uint64_t now = lh_learner_steps(a->learner) + 1;
	double lr = lh_learner_lr(a->learner);
	bool is_last, is_test_due, is_saved;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < a->job.batch / a->job.micro_batch; i++)
		rc = lh_learner_accumulate(a->learner, err);
	if (rc || (rc = lh_learner_step(a->learner, err)))
		return rc;
	if (lh_learner_steps(a->learner) != now)
		return 0; /* the loss was scaled by too much: the batch is lost */
	is_last = is_stopped(a) || now == a->n_steps;
	is_test_due =
		now == a->n_steps || (!a->signal && ends_epochs(a, now, a->spec.evaluate_every));
	is_saved = is_checkpoint_due(a, now);
	if (is_last || is_test_due || is_saved || now % a->log_every == 0)
		rc = tell_learnt(a, lr, err);
	if (rc == 0 && is_test_due)
		rc = test(a, err);
	return rc == 0 && is_saved ? save(a, err) : rc;
}

static int train(struct alone *a, struct lh_error *err)
{
	int rc = 0;

	/* from then on a step looks, which leaves a checkpoint where it stops */
	(void)is_stopped(a);
	while (rc == 0 && lh_learner_steps(a->learner) < a->n_steps && !a->signal)
		rc = step(a, err);
	return rc;
}

/* ---- from begin to end ---------------------------------------------------------------------- */

static int plan(struct alone *a, struct lh_error *err)
{
	struct lh_schedule schedule = a->spec.schedule;
	uint64_t samples = lh_learner_epoch_samples(a->learner);

	a->samples_per_epoch = samples;
	a->n_steps = a->job.steps ? a->job.steps
				  : (a->job.epochs * samples + a->job.batch - 1) / a->job.batch;
	a->log_every = a->job.log_every ? a->job.log_every : (a->n_steps - 1) / LOG_LINES + 1;
	schedule.total_steps = a->n_steps;
	if (!schedule.warmup_steps)
		schedule.warmup_steps = (uint64_t)(a->job.warm_up_ratio * (double)a->n_steps);
	return lh_learner_set_schedule(a->learner, &schedule, err);
}

static int open_alone(struct alone *a, struct lh_error *err)
{
	const uint32_t ranks = 1;
	const struct lh_learner_place place = {
		.seed = a->job.seed,
		.micro_batch = a->job.micro_batch,
		.n_ranks = 1,
		.n_sites = 1,
		.ranks_of_sites = &ranks,
		.evaluates = true,
	};
	int rc = lh_alone_spec_read(&a->job, &a->spec, err);

	if (rc || (rc = lh_alone_check_memory(&a->spec, a->job.micro_batch, err)))
		return rc;
	a->before_bytes = lh_machine_process_memory().own_bytes;
	if ((rc = lh_learner_open(&a->spec, &place, &a->learner, err)) || (rc = plan(a, err)) ||
	    (rc = open_checkpoints(a, err)))
		return rc;
	return tell_begin(a, err);
}

static int run(struct alone *a, struct lh_error *err)
{
	int rc;

	if ((rc = open_alone(a, err)))
		return rc;
	a->begin_ns = lh_clock_now_ns();
	if ((rc = train(a, err)))
		return rc;
	if (a->first_step >= a->n_steps && (rc = test(a, err)))
		return rc;
	if (a->job.weights_path &&
	    (rc = lh_learner_save_model(a->learner, a->job.weights_path, err)))
		return rc;
	if ((rc = tell_end(a, err)) || !a->signal)
		return rc;
	return lh_fail(err, LH_ESIGNAL, a->signal, "stopped by signal %d after step %" PRIu64,
		       a->signal, lh_learner_steps(a->learner));
}

int lh_alone_run(const json_t *job, FILE *out, int stop_fd, struct lh_error *err)
{
	struct alone a = {.out = out, .stop_fd = stop_fd};
	struct lh_diag diag = {0};
	int rc = 0;

	lh_alone_job_read(job, &a.job, &diag);
	if (diag.n_messages)
		rc = lh_fail(err, LH_EINPUT, 0, "%s", diag.messages[0]);
	lh_diag_done(&diag);
	if (rc == 0)
		rc = run(&a, err);
	lh_learner_close(a.learner);
	return rc;
}
