/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul train: a model that learns, alone on this machine. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/learner.h"
#include "cli/run_folder.h"
#include "cli/train_defaults.h"
#include "cli/train_job.h"
#include "cli/training_view.h"
#include "config.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "core/log.h"
#include "plots/plots.h"
#include "trainer/learn/catalog.h"

struct train_options {
	const char *model;
	const char *out;
	struct lh_overrides overrides;
	bool json, quiet, no_figures;
	bool lists, helps;
};

static int take_out(void *context, const char *value)
{
	((struct train_options *)context)->out = value;
	return *value ? -1 : lh_cli_usage("train", "--out takes the name of a folder");
}

static int take_json(void *context, const char *value)
{
	(void)value;
	((struct train_options *)context)->json = true;
	return -1;
}

static int take_quiet(void *context, const char *value)
{
	(void)value;
	((struct train_options *)context)->quiet = true;
	return -1;
}

static int take_no_figures(void *context, const char *value)
{
	(void)value;
	((struct train_options *)context)->no_figures = true;
	return -1;
}

static int take_list(void *context, const char *value)
{
	(void)value;
	((struct train_options *)context)->lists = true;
	return -1;
}

static int take_help(void *context, const char *value)
{
	(void)value;
	((struct train_options *)context)->helps = true;
	return -1;
}

/* clang-format off */
static const struct lh_option option_rows[] = {
	{.name = "list", .doc = "list the models, or the settings of MODEL", .take = take_list},
	LH_OPTIONS_OF_MODEL,
	{.name = "lr", .arg = "X", .key = "train.optimizer.lr", .doc = "highest learning rate"},
	{.name = "momentum", .arg = "X", .key = "train.optimizer.momentum",
	 .doc = "of sgd and lars"},
	{.name = "weight-decay", .arg = "X", .key = "train.optimizer.weight_decay",
	 .doc = "of weights, not of biases and norms"},
	{.name = "clip-norm", .arg = "X", .key = "train.optimizer.clip_norm",
	 .doc = "largest norm of the whole gradient; 0: any"},
	{.name = "schedule", .arg = "KIND", .key = "train.schedule.kind",
	 .doc = "constant, cosine, linear or polynomial"},
	{.name = "warm-up", .arg = "N", .key = "train.schedule.warm_up",
	 .doc = "steps in which the learning rate rises first"},
	{.name = "batch", .arg = "N", .key = "batch", .doc = "samples of a step"},
	{.name = "micro-batch", .arg = "N", .key = "micro_batch",
	 .doc = "samples at once: less memory, the same step"},
	{.name = "epochs", .arg = "N", .key = "epochs", .doc = "times through the data"},
	{.name = "steps", .arg = "N", .key = "steps", .doc = "in place of epochs"},
	{.name = "samples", .arg = "N", .key = "train.data.samples",
	 .doc = "no more than these; of synthetic data: exactly these"},
	{.name = "evaluate", .arg = "N", .key = "train.evaluate",
	 .doc = "epochs between two looks at the test data (1)"},
	{.name = "augment", .key = "train.data.augment", .value = "true",
	 .doc = "shift and mirror images at random"},
	{.name = "checkpoint", .arg = "DIR", .key = "checkpoints",
	 .doc = "keep checkpoints there, the newest two"},
	{.name = "checkpoint-every", .arg = "N", .key = "checkpoint_every",
	 .doc = "steps between two; without: at the end of every epoch"},
	{.name = "resume", .key = "resume", .value = "true",
	 .doc = "go on from the newest checkpoint, bit for bit"},
	{.name = "log-every", .arg = "N", .key = "log_every",
	 .doc = "steps per row of loss.csv; without: about 2000 rows"},
	{.name = "out", .letter = 'o', .arg = "DIR", .take = take_out,
	 .doc = "results folder (results/train-MODEL-seedN); it must not exist"},
	{.name = "json", .doc = "print the results as JSON", .take = take_json},
	{.name = "quiet", .doc = "no progress", .take = take_quiet},
	{.name = "no-figures", .doc = "no figure", .take = take_no_figures},
	{.name = "help", .doc = "this text; with MODEL, its settings, too", .take = take_help},
	{.name = NULL},
};
/* clang-format on */

static void print_help(void)
{
	printf("Usage: longhaul train [OPTION...] MODEL\n\n"
	       "Trains a model on this machine alone: a first try of the engine that scenarios of "
	       "mode\n"
	       "train run in every rank. MODEL is one that --list shows. A results folder gets "
	       "loss.csv,\n"
	       "train.json, the weights and a figure.\n\n");
	lh_options_print(option_rows);
}

static const struct lh_options options = {"train", option_rows, print_help, NULL};

/* ---- lists ---------------------------------------------------------------------------------- */

static void print_models(void)
{
	struct lh_learn_model m;

	printf("%-17s %-11s %11s\n", "model", "learns from", "parameters");
	for (size_t i = 0; lh_learn_model_at(i, &m); i++)
		printf("%-17s %-11s %11" PRId64 "  %s%s%s%s\n", m.name, m.task, m.parameters, m.doc,
		       m.source ? " (" : "", m.source ? m.source : "", m.source ? ")" : "");
	printf("\n`longhaul train MODEL --list` lists the settings of one.\n");
}

static int print_settings(const char *model)
{
	const struct lh_train_defaults *d;
	struct lh_learn_setting s;
	struct lh_error err = {0};
	struct lh_learn_model m;

	if (lh_learn_model_find(model, &m, &err))
		return lh_cli_fail(NULL, &err);
	printf("%s: %s, %" PRId64 " parameters\n\n%-16s %12s\n", m.name, m.doc, m.parameters,
	       "--set", "here");
	for (size_t i = 0; lh_learn_setting_at(model, i, &s); i++)
		printf("%-16s %12.10g  %s (%.10g to %.10g)\n", s.name, s.value, s.doc, s.min,
		       s.max);
	d = lh_train_defaults_of(m.family);
	printf("\nWithout options: --data %s --optimizer %s --lr %g --weight-decay %g "
	       "--schedule %s --batch %d --epochs %d\n",
	       d->data, d->optimizer, d->lr, d->weight_decay, d->schedule, d->batch, d->epochs);
	return 0;
}

/* ---- results -------------------------------------------------------------------------------- */

/* A training under way. */
struct training {
	const struct train_options *o;
	json_t *job;
	char *out; /* where results go */
	char *dir; /* where they are made */
	int lock_fd;
	struct lh_training_view view;
};

/* What happened, and all that it takes to do it again. */
static json_t *to_json(const struct training *t, const char *status)
{
	lh_cleanup_json json_t *job = json_deep_copy(t->job);
	/* sums of convolutions depend on how many there were */
	json_t *threads = json_object_get(json_object_get(t->view.begin, "device"), "threads");
	lh_cleanup_free char *folder = getcwd(NULL, 0);
	json_t *doc;

	json_object_del(job, "weights");
	if (threads)
		json_object_set(json_object_get(job, "train"), "threads", threads);
	doc = json_pack("{s:s, s:s, s:s, s:s, s:O}", "format", "longhaul-train/1", "version",
			PACKAGE_VERSION, "status", status, "folder", folder ? folder : "", "job",
			job);
	if (doc && t->view.begin)
		json_object_set(doc, "begin", t->view.begin);
	if (doc && t->view.test)
		json_object_set(doc, "test", t->view.test);
	if (doc && t->view.end)
		json_object_set(doc, "end", t->view.end);
	return doc;
}

static int write_json(const struct training *t, const char *status, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(t->dir, "train.json");
	lh_cleanup_json json_t *doc = to_json(t, status);

	if (!path || !doc)
		return lh_fail(err, LH_ESYS, ENOMEM, "write train.json");
	return lh_json_write(path, doc, err);
}

static int open_folder(struct training *t, struct lh_error *err)
{
	const char *model = t->o->model;
	json_int_t seed = json_integer_value(json_object_get(t->job, "seed"));
	lh_cleanup_free char *name = lh_strf("results/train-%s-seed%lld", model, (long long)seed);
	lh_cleanup_free char *weights = NULL;
	int r;

	t->out = t->o->out ? strdup(t->o->out) : name ? lh_path_unused(name) : NULL;
	if (!t->out)
		return lh_fail(err, LH_ESYS, ENOMEM, "name results");
	if ((r = lh_run_folder_make(t->out, &t->dir, &t->lock_fd, err)) < 0)
		return r;
	weights = lh_path_join(t->dir, "weights.safetensors");
	if (!weights || json_object_set_new(t->job, "weights", json_string(weights)))
		return lh_fail(err, LH_ESYS, ENOMEM, "name results");
	return write_json(t, "running", err);
}

/* What was learnt is worth more than its figure. */
static void draw(const struct training *t)
{
	struct lh_error err = {0};

	if (lh_plots_make_training(t->dir, lh_cli_plot_dir(), t->o->model, &err) < 0)
		lh_log(LH_LOG_WARNING, "no figure: %s", err.message);
}

static int keep_results(struct training *t, const char *status, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(t->dir, "loss.csv");
	int r = path ? lh_table_write_csv(&t->view.rows, path, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "write loss.csv");

	if (r == 0)
		r = write_json(t, status, err);
	if (r == 0 && !t->o->no_figures)
		draw(t);
	if (r == 0 && rename(t->dir, t->out) < 0)
		r = lh_fail(err, LH_ESYS, errno, "rename %s to %s", t->dir, t->out);
	if (r == 0) {
		free(t->dir);
		t->dir = NULL;
	}
	return r;
}

static int print_results(const struct training *t, const char *status)
{
	lh_cleanup_json json_t *doc = NULL;

	if (!t->o->json) {
		printf("Results: %s (loss.csv, train.json, weights.safetensors%s)\n", t->out,
		       t->o->no_figures ? "" : ", figures/");
		return 0;
	}
	doc = to_json(t, status);
	if (!doc)
		return 1;
	json_object_set_new(doc, "rows", lh_table_format_json(&t->view.rows));
	json_object_set_new(doc, "results_folder", json_string(t->out));
	json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	putchar('\n');
	return 0;
}

/* ---- from begin to end ---------------------------------------------------------------------- */

/* Whether the learner was asked to end, and did so in good order. */
static bool is_stopped(int status)
{
	return status > 128;
}

/* Runs the learner and keeps what came of it; *ret_status: the exit status. */
static int run(struct training *t, int *ret_status, struct lh_error *err)
{
	const struct lh_learner_listener listener = {&t->view, lh_training_view_event,
						     lh_training_view_clear};
	const char *status;
	int r = open_folder(t, err);

	if (r == 0)
		r = lh_cli_learner_run("alone", lh_train_job_device(t->job), t->job, &listener,
				       ret_status, err);
	lh_training_view_clear(&t->view);
	if (r < 0 || (*ret_status && !(is_stopped(*ret_status) && t->view.end)))
		return r;
	status = *ret_status ? "stopped" : "done";
	if ((r = lh_training_view_finish(&t->view, err)) < 0)
		return r;
	if (t->view.rows.n_rows == 0)
		return 0;
	if ((r = keep_results(t, status, err)) < 0)
		return r;
	return print_results(t, status) ? lh_fail(err, LH_ESYS, ENOMEM, "print results") : 0;
}

static int train(const struct train_options *o)
{
	struct training t = {.o = o, .lock_fd = -1};
	struct lh_diag diag = {0};
	struct lh_error err = {0}, ignored;
	int status = 1;
	int r = lh_train_job_make(o->model, option_rows, &o->overrides, &t.job, &diag, &err);

	lh_training_view_init(&t.view, o->json, o->quiet);
	if (r == 0)
		r = lh_diag_check(&diag, &err);
	if (r == 0)
		r = run(&t, &status, &err);
	if (t.dir)
		(void)lh_dir_remove(t.dir, &ignored);
	if (r < 0)
		status = lh_cli_fail(&diag, &err);
	if (t.lock_fd >= 0)
		close(t.lock_fd);
	lh_training_view_done(&t.view);
	lh_diag_done(&diag);
	json_decref(t.job);
	free(t.dir);
	free(t.out);
	return status;
}

int lh_cmd_train(int argc, char **argv)
{
	struct train_options o = {0};
	int index, end;
	int status = lh_options_parse(&options, argc, argv, &o, &o.overrides, &index, &end);

	if (status < 0 && index < argc)
		o.model = argv[index];
	if (status >= 0)
		;
	else if (index < argc - 1)
		status = lh_cli_usage("train", "one model at a time");
	else if (o.helps || o.lists) {
		if (o.helps)
			print_help();
		if (o.helps && o.model)
			printf("\n");
		status = o.model ? print_settings(o.model) : 0;
		if (!o.model && o.lists)
			print_models();
	} else if (!o.model)
		status = lh_cli_usage("train", "no model was named; --list shows them");
	else
		status = train(&o);
	lh_overrides_done(&o.overrides);
	return status;
}
