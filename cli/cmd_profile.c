/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul profile: how fast a model learns on this machine, as a profile that replay uses. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/learner.h"
#include "cli/profile_file.h"
#include "cli/train_defaults.h"
#include "cli/train_job.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/learn/catalog.h"

enum { BATCHES_MAX = 16, BATCH_MAX = 1000000 };
static const double NOISY_RATIO = 0.1;

struct profile_options {
	const char *model;
	const char *out;
	const char *name;
	struct lh_overrides overrides;
	int batches[BATCHES_MAX];
	size_t n_batches;
	double seconds;
	bool json, quiet;
};

static int take_out(void *context, const char *value)
{
	((struct profile_options *)context)->out = value;
	return *value ? -1 : lh_cli_usage("profile", "--out takes the name of a file");
}

static int take_name(void *context, const char *value)
{
	((struct profile_options *)context)->name = value;
	return *value ? -1 : lh_cli_usage("profile", "--name takes a name");
}

static int take_json(void *context, const char *value)
{
	(void)value;
	((struct profile_options *)context)->json = true;
	return -1;
}

static int take_quiet(void *context, const char *value)
{
	(void)value;
	((struct profile_options *)context)->quiet = true;
	return -1;
}

/* N or N,N,... */
static int take_batch(void *context, const char *value)
{
	struct profile_options *o = context;
	const char *p = value;
	char *end;

	for (o->n_batches = 0;; p = end + 1) {
		long n = strtol(p, &end, 10);

		if (end == p || (*end && *end != ',') || n < 1 || n > BATCH_MAX ||
		    o->n_batches == BATCHES_MAX)
			return lh_cli_usage("profile",
					    "--batch takes up to %d numbers from 1 to %d with "
					    "commas, not '%s'",
					    BATCHES_MAX, BATCH_MAX, value);
		o->batches[o->n_batches++] = (int)n;
		if (!*end)
			return -1;
	}
}

static int take_seconds(void *context, const char *value)
{
	struct profile_options *o = context;
	char *end;

	o->seconds = strtod(value, &end);
	if (end == value || *end || !(o->seconds > 0 && o->seconds <= 3600))
		return lh_cli_usage("profile", "--seconds takes a number up to 3600, not '%s'",
				    value);
	return -1;
}

/* clang-format off */
static const struct lh_option option_rows[] = {
	LH_OPTIONS_OF_MODEL,
	{.name = "batch", .arg = "N[,N...]", .take = take_batch,
	 .doc = "samples of a micro-batch; one measurement each"},
	{.name = "seconds", .arg = "S", .take = take_seconds,
	 .doc = "how long each is measured, after a warm-up (5)"},
	{.name = "name", .arg = "NAME", .take = take_name,
	 .doc = "of the profile, as machines call it in `gpu` (the file's)"},
	{.name = "out", .letter = 'o', .arg = "FILE", .take = take_out,
	 .doc = "(or -o) write there, not to standard output; it must not exist"},
	{.name = "json", .doc = "print the measurements as JSON", .take = take_json},
	{.name = "quiet", .doc = "no progress", .take = take_quiet},
	LH_OPTION_HELP,
	{.name = NULL},
};
/* clang-format on */

static void print_help(void)
{
	printf("Usage: longhaul profile [OPTION...] MODEL\n\n"
	       "Measures how fast a model learns on this machine: wall time of micro-batches, with "
	       "the\n"
	       "parts of a step and the memory, for several sizes. The fastest becomes a compute "
	       "profile:\n"
	       "put it into a folder `profiles` beside a scenario, and name it as the `gpu` of a "
	       "machine.\n\n");
	lh_options_print(option_rows);
}

static const struct lh_options options = {"profile", option_rows, print_help, NULL};

/* ---- measuring ------------------------------------------------------------------------------ */

static int keep(void *measurements, const json_t *event, struct lh_error *err)
{
	if (json_array_append_new(measurements, json_deep_copy(event)))
		return lh_fail(err, LH_ESYS, ENOMEM, "keep a measurement");
	return 0;
}

/* One process per size, so that each has a memory of its own; *ret_status: not 0 where one failed,
 * and has said why. */
static int measure(const struct profile_options *o, json_t *job, json_t *measurements,
		   int *ret_status, struct lh_error *err)
{
	const struct lh_learner_listener listener = {measurements, keep, NULL};
	int r = 0;

	*ret_status = 0;
	for (size_t i = 0; r == 0 && *ret_status == 0 && i < o->n_batches; i++) {
		if (json_object_set_new(job, "batch", json_integer(o->batches[i])))
			return lh_fail(err, LH_ESYS, ENOMEM, "make the job");
		if (!o->quiet)
			fprintf(stderr, "%s: micro-batches of %d\n", o->model, o->batches[i]);
		r = lh_cli_learner_run("profile", lh_train_job_device(job), job, &listener,
				       ret_status, err);
	}
	if (r == 0 && *ret_status == 0 && json_array_size(measurements) != o->n_batches)
		r = lh_fail(err, LH_ERUN, 0, "longhaul-learner measured nothing");
	return r;
}

/* ---- what came out -------------------------------------------------------------------------- */

/* NAME of a file FOLDER/NAME.yaml; owned by the caller. */
static char *name_of(const struct profile_options *o)
{
	const char *slash = o->out ? strrchr(o->out, '/') : NULL;
	const char *base = slash ? slash + 1 : o->out;
	const char *dot = base ? strrchr(base, '.') : NULL;

	if (o->name)
		return strdup(o->name);
	if (!base)
		return strdup("measured");
	return strndup(base, dot && dot != base ? (size_t)(dot - base) : strlen(base));
}

static int print_json(const json_t *measurements)
{
	lh_cleanup_json json_t *doc = json_pack("{s:s, s:O}", "format", "longhaul-profile/1",
						"measurements", measurements);

	if (!doc || json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)))
		return -1;
	putchar('\n');
	return 0;
}

static int make_folder(const char *path, struct lh_error *err)
{
	lh_cleanup_free char *folder = lh_path_dirname(path);

	return folder ? lh_dir_make(folder, err) : lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
}

/* A measurement that another one would hardly repeat. */
static void warn_of_noise(const json_t *measurements)
{
	const json_t *fastest = lh_profile_fastest(measurements);
	double ratio = json_number_value(json_object_get(fastest, "variation_ratio"));

	if (ratio > NOISY_RATIO)
		fprintf(stderr,
			"longhaul: times of one micro-batch differ by %.0f %%: other work on this "
			"machine slows it; measure again without\n",
			100 * ratio);
}

/* A table for people where the profile goes to a file, else the profile. */
static int write_results(const struct profile_options *o, const json_t *measurements,
			 struct lh_error *err)
{
	lh_cleanup_free char *name = name_of(o);
	lh_cleanup_free char *text = NULL;
	lh_cleanup_free char *table = NULL;
	int r = name ? lh_profile_format(name, measurements, &text, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "name the profile");

	if (r == 0 && o->out)
		r = make_folder(o->out, err);
	if (r == 0 && o->out)
		r = lh_file_write(o->out, text, strlen(text), err);
	if (r < 0)
		return r;
	warn_of_noise(measurements);
	if (o->json)
		return print_json(measurements) ? lh_fail(err, LH_ESYS, ENOMEM, "print") : 0;
	if (!o->out) {
		fputs(text, stdout);
		return 0;
	}
	if ((r = lh_profile_table(measurements, lh_cli_width(), &table, err)) < 0)
		return r;
	printf("%s\nProfile: %s (`gpu: %s` of a machine names it)\n", table, o->out, name);
	return 0;
}

/* Half the usual batch, that, and twice as many. */
static int choose_batches(struct profile_options *o, struct lh_error *err)
{
	struct lh_learn_model model;
	int r = lh_learn_model_find(o->model, &model, err);
	int batch = r < 0 ? 0 : lh_train_defaults_of(model.family)->batch;

	if (r < 0 || o->n_batches)
		return r;
	o->batches[0] = (batch + 1) / 2;
	o->batches[1] = batch;
	o->batches[2] = 2 * batch;
	o->n_batches = 3;
	return 0;
}

static int make_job(struct profile_options *o, json_t **ret_job, struct lh_diag *diag,
		    struct lh_error *err)
{
	int r = lh_train_job_make(o->model, option_rows, &o->overrides, ret_job, diag, err);

	if (r < 0 || (r = lh_diag_check(diag, err)) < 0)
		return r;
	if (o->out && lh_path_exists(o->out))
		return lh_fail(err, LH_EUSAGE, 0, "%s exists; profiles are never overwritten",
			       o->out);
	json_object_del(*ret_job, "epochs");
	json_object_del(*ret_job, "warm_up_ratio");
	if (o->seconds > 0)
		json_object_set_new(*ret_job, "seconds", json_real(o->seconds));
	return choose_batches(o, err);
}

static int profile(struct profile_options *o)
{
	lh_cleanup_json json_t *job = NULL;
	lh_cleanup_json json_t *measurements = json_array();
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status = 0;
	int r = make_job(o, &job, &diag, &err);

	if (r == 0)
		r = measure(o, job, measurements, &status, &err);
	if (r == 0 && status == 0)
		r = write_results(o, measurements, &err);
	if (r < 0)
		status = lh_cli_fail(&diag, &err);
	lh_diag_done(&diag);
	return status;
}

int lh_cmd_profile(int argc, char **argv)
{
	struct profile_options o = {0};
	int index, end;
	int status = lh_options_parse(&options, argc, argv, &o, &o.overrides, &index, &end);

	if (status < 0 && index != argc - 1)
		status = lh_cli_usage("profile", index == end ? "no model was named; `longhaul "
								"train --list` shows them"
							      : "one model at a time");
	if (status < 0) {
		o.model = argv[index];
		status = profile(&o);
	}
	lh_overrides_done(&o.overrides);
	return status;
}
