/* SPDX-License-Identifier: Apache-2.0 */
/* From options to the learner's job. See train_job.h. */
#include "cli/train_job.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/train_defaults.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/learn/alone_job.h"
#include "trainer/learn/catalog.h"
#include "trainer/learn/check.h"

#define SETTINGS "train.settings."
#define TRAIN "train."

/* ---- options -------------------------------------------------------------------------------- */

int lh_train_option_data(const char *verb, struct lh_overrides *o, const char *value)
{
	const char *colon = strchr(value, ':');
	lh_cleanup_free char *key = NULL;
	int status;

	if (!colon)
		return lh_overrides_add(verb, o, "train.data.kind", value);
	/* the kind is cut off where it is set: options borrow their values */
	status = lh_overrides_add(verb, o, "train.data.kind", value);
	return status >= 0 ? status : lh_overrides_add(verb, o, "train.data.path", colon + 1);
}

int lh_train_option_set(const char *verb, struct lh_overrides *o, const char *value)
{
	const char *equals = strchr(value, '=');

	if (!equals || equals == value)
		return lh_cli_usage(verb, "--set takes NAME=VALUE, not '%s'", value);
	return lh_overrides_add_owned(
		verb, o, lh_strf(SETTINGS "%.*s", (int)(equals - value), value), equals + 1);
}

/* ---- the job -------------------------------------------------------------------------------- */

/* Whether a key's value is a text whatever it looks like. */
static bool is_text(const char *key)
{
	static const char *const keys[] = {
		"train.data.kind",	"train.data.path",     "train.data.vocabulary",
		"train.optimizer.kind", "train.schedule.kind", "train.device",
		"train.precision",	"checkpoints",	       "weights"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(keys[i], key) == 0)
			return true;
	return false;
}

/* A number, true, false or, where it is none of them, the text as it is. */
static json_t *to_value(const char *key, const char *text)
{
	char *end;
	long long whole;
	double real;

	if (strcmp(key, "train.data.kind") == 0)
		return json_stringn(text, strcspn(text, ":"));
	if (is_text(key))
		return json_string(text);
	if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
		return json_boolean(*text == 't');
	errno = 0;
	whole = strtoll(text, &end, 10);
	if (end != text && !*end && !errno)
		return json_integer(whole);
	real = strtod(text, &end);
	return end != text && !*end && isfinite(real) ? json_real(real) : json_string(text);
}

int lh_train_job_set(json_t *job, const char *key, const char *value)
{
	const char *rest = key, *dot;

	/* the name of a size has no dots that mean anything */
	while ((dot = strchr(rest, '.')) &&
	       (rest == key || strncmp(key, SETTINGS, strlen(SETTINGS)) != 0 ||
		rest < key + strlen(SETTINGS))) {
		lh_cleanup_free char *word = strndup(rest, (size_t)(dot - rest));
		json_t *next = word ? json_object_get(job, word) : NULL;

		if (!next) {
			next = json_object();
			if (!word || json_object_set_new(job, word, next))
				return -1;
		}
		job = next;
		rest = dot + 1;
	}
	return json_object_set_new(job, rest, to_value(key, value));
}

static json_t *make_default(const char *model, const struct lh_train_defaults *d)
{
	json_t *job = json_pack(
		"{s:s, s:s, s:I, s:i, s:f, s:{s:{}, s:{s:s}, s:{s:s, s:f, s:f}, s:{s:s}, s:i}}",
		"format", "longhaul-alone/1", "model", model, "seed", (json_int_t)1, "batch",
		d->batch, "warm_up_ratio", d->warm_up_ratio, "train", "settings", "data", "kind",
		d->data, "optimizer", "kind", d->optimizer, "lr", d->lr, "weight_decay",
		d->weight_decay, "schedule", "kind", d->schedule, "evaluate", 1);
	json_t *optimizer = json_object_get(json_object_get(job, "train"), "optimizer");

	if (d->momentum > 0) {
		json_object_set_new(optimizer, "momentum", json_real(d->momentum));
		json_object_set_new(optimizer, "nesterov", json_true());
	}
	if (d->clip_norm > 0)
		json_object_set_new(optimizer, "clip_norm", json_real(d->clip_norm));
	return job;
}

/* Whoever names another optimizer than the default one gets that one's own defaults. */
static void drop_other_optimizer(json_t *job, const struct lh_overrides *overrides)
{
	json_t *train = json_object_get(job, "train");
	const char *kind =
		json_string_value(json_object_get(json_object_get(train, "optimizer"), "kind"));

	for (size_t i = 0; i < overrides->n; i++)
		if (strcmp(overrides->list[i].path, "train.optimizer.kind") == 0 && kind &&
		    strcmp(overrides->list[i].value, kind) != 0)
			json_object_set_new(train, "optimizer", json_object());
}

/* ---- what is wrong with it ------------------------------------------------------------------ */

/* The option whose key is the word that a message begins with; n: of the word. */
static const struct lh_option *find_option(const struct lh_option *rows, const char *word, size_t n)
{
	for (; rows->name; rows++) {
		const char *key = rows->key;

		if (!key)
			continue;
		if (strncmp(key, TRAIN, strlen(TRAIN)) == 0)
			key += strlen(TRAIN);
		if (strlen(key) == n && strncmp(key, word, n) == 0)
			return rows;
	}
	return NULL;
}

/* Adds a message under the name of the option that it is about. */
static void add_by_option(const struct lh_option *rows, const char *message, struct lh_diag *diag)
{
	static const char settings[] = "settings.", data[] = "data.kind", path[] = "data.path";
	size_t n = strcspn(message, ":");
	const struct lh_option *row = find_option(rows, message, n);
	const char *what = message[n] ? message + n + 1 : "";

	what += *what == ' ';
	if (row)
		lh_diag_add(diag, (struct lh_pos){0}, "", "--%s: %s", row->name, what);
	else if (strncmp(message, settings, strlen(settings)) == 0)
		lh_diag_add(diag, (struct lh_pos){0}, "", "--set: %s", what);
	else if (strncmp(message, data, n) == 0 || strncmp(message, path, n) == 0)
		lh_diag_add(diag, (struct lh_pos){0}, "", "--data: %s", what);
	else if (n == strlen("optimizer") && strncmp(message, "optimizer", n) == 0)
		lh_diag_add(diag, (struct lh_pos){0}, "", "%s", what); /* names it itself */
	else
		lh_diag_add(diag, (struct lh_pos){0}, "", "%s", message);
}

static void check_path(const json_t *data, const char *key, struct lh_diag *diag)
{
	const char *path = json_string_value(json_object_get(data, key));
	char full[64];

	snprintf(full, sizeof(full), "data.%s", key);
	if (path && access(path, R_OK) < 0)
		lh_diag_add(diag, (struct lh_pos){0}, full, "%s: %s", path, strerror(errno));
}

/* Real data have a path, synthetic ones have none. */
static void check_data(const json_t *job, struct lh_diag *diag)
{
	const json_t *data = json_object_get(json_object_get(job, "train"), "data");
	const char *kind = json_string_value(json_object_get(data, "kind"));
	bool has_path = json_object_get(data, "path");
	bool is_synthetic = strncmp(kind, "synthetic-", strlen("synthetic-")) == 0;

	if (is_synthetic && has_path)
		lh_diag_add(diag, (struct lh_pos){0}, "data.path",
			    "%s data are made, not read; leave the path out", kind);
	else
		check_path(data, "path", diag);
	check_path(data, "vocabulary", diag);
}

static void check_missing_path(const json_t *job, struct lh_diag *diag)
{
	const json_t *data = json_object_get(json_object_get(job, "train"), "data");
	const char *kind = json_string_value(json_object_get(data, "kind"));

	if (diag->n_messages == 0 && strncmp(kind, "synthetic-", strlen("synthetic-")) != 0 &&
	    !json_object_get(data, "path"))
		lh_diag_add(diag, (struct lh_pos){0}, "data.path",
			    "%s data are read from a file or folder; expected %s:PATH", kind, kind);
}

static void check(const char *model, const json_t *job, const struct lh_option *rows,
		  struct lh_diag *diag)
{
	const struct lh_learn_reading reading = {.prefix = ""};
	struct lh_alone_job read;
	struct lh_diag found = {0};
	int64_t n_parameters;

	lh_learn_check(model, json_object_get(job, "train"), &reading, &n_parameters, &found);
	lh_alone_job_read(job, &read, &found);
	check_data(job, &found);
	check_missing_path(job, &found);
	for (size_t i = 0; i < found.n_messages; i++)
		add_by_option(rows, found.messages[i], diag);
	lh_diag_done(&found);
}

int lh_train_job_make(const char *model, const struct lh_option *rows,
		      const struct lh_overrides *overrides, json_t **ret_job, struct lh_diag *diag,
		      struct lh_error *err)
{
	lh_cleanup_json json_t *job = NULL;
	const struct lh_train_defaults *defaults;
	struct lh_learn_model found;
	struct lh_error unknown = {0};

	*ret_job = NULL;
	if (lh_learn_model_find(model, &found, &unknown)) {
		lh_diag_add(diag, (struct lh_pos){0}, "", "%s", unknown.message);
		return 0;
	}
	defaults = lh_train_defaults_of(found.family);
	job = make_default(model, defaults);
	if (!job)
		return lh_fail(err, LH_ESYS, ENOMEM, "make the job");
	drop_other_optimizer(job, overrides);
	for (size_t i = 0; i < overrides->n; i++) {
		const struct lh_override *o = &overrides->list[i];

		if (lh_train_job_set(job, o->path, o->value))
			return lh_fail(err, LH_ESYS, ENOMEM, "make the job");
		if (strcmp(o->path, "train.schedule.warm_up") == 0)
			json_object_del(job, "warm_up_ratio");
	}
	if (!json_object_get(job, "steps") && !json_object_get(job, "epochs"))
		json_object_set_new(job, "epochs", json_integer(defaults->epochs));
	check(model, job, rows, diag);
	*ret_job = lh_steal(&job);
	return 0;
}

const char *lh_train_job_device(const json_t *job)
{
	return json_string_value(json_object_get(json_object_get(job, "train"), "device"));
}
