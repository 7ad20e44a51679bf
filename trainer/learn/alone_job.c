/* SPDX-License-Identifier: Apache-2.0 */
/* What a training alone is asked to do. See alone_job.h. */
#include "trainer/learn/alone_job.h"

#include <string.h>

static const uint64_t STEPS_MAX = 1000000000000, SAMPLES_MAX = 1000000;

static void complain(struct lh_diag *diag, const char *key, const char *what)
{
	lh_diag_add(diag, (struct lh_pos){0}, key, "%s", what);
}

static void take_count(const json_t *json, const char *key, uint64_t min, uint64_t max,
		       uint64_t *value, struct lh_diag *diag)
{
	const json_t *number = json_object_get(json, key);

	if (!number)
		return;
	if (json_is_integer(number) && json_integer_value(number) >= (json_int_t)min &&
	    (uint64_t)json_integer_value(number) <= max)
		*value = (uint64_t)json_integer_value(number);
	else
		lh_diag_add(diag, (struct lh_pos){0}, key, "expected a whole number, %llu to %llu",
			    (unsigned long long)min, (unsigned long long)max);
}

static void take_ratio(const json_t *json, const char *key, double *value, struct lh_diag *diag)
{
	const json_t *number = json_object_get(json, key);

	if (!number)
		return;
	if (json_is_number(number) && json_number_value(number) >= 0 &&
	    json_number_value(number) < 1)
		*value = json_number_value(number);
	else
		complain(diag, key, "expected a number from 0 to below 1");
}

static const char *take_text(const json_t *json, const char *key, struct lh_diag *diag)
{
	const json_t *text = json_object_get(json, key);

	if (text && !json_is_string(text))
		complain(diag, key, "expected a text");
	return text ? json_string_value(text) : NULL;
}

static void check_keys(const json_t *json, struct lh_diag *diag)
{
	static const char *const known[] = {
		"format",	    "model",  "train",	 "seed",	 "batch",
		"micro_batch",	    "steps",  "epochs",	 "log_every",	 "checkpoints",
		"checkpoint_every", "resume", "weights", "warm_up_ratio"};
	const char *key;
	const json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)json, key, value) {
		size_t i = 0;

		while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], key) != 0)
			i++;
		if (i == sizeof(known) / sizeof(known[0]))
			complain(diag, key, "unknown key");
	}
}

static void check_batches(const struct lh_alone_job *job, struct lh_diag *diag)
{
	if (job->batch % job->micro_batch)
		lh_diag_add(diag, (struct lh_pos){0}, "batch",
			    "%u; expected a multiple of micro_batch, %u", job->batch,
			    job->micro_batch);
	if (!job->steps == !job->epochs)
		complain(diag, "epochs", "expected one of epochs and steps");
	if (!job->checkpoint_folder && (job->resumes || job->checkpoint_every))
		complain(diag, "checkpoints", "missing: the folder to write them to");
}

void lh_alone_job_read(const json_t *json, struct lh_alone_job *ret, struct lh_diag *diag)
{
	const json_t *resume = json_object_get(json, "resume");
	uint64_t batch = 0, micro_batch;

	*ret = (struct lh_alone_job){.model = take_text(json, "model", diag),
				     .train = json_object_get(json, "train"),
				     .seed = 1,
				     .checkpoint_folder = take_text(json, "checkpoints", diag),
				     .resumes = json_is_true(resume),
				     .weights_path = take_text(json, "weights", diag)};
	if (!json_is_object(json) || !ret->model || !json_is_object(ret->train)) {
		complain(diag, "train", "expected an object with `model` and `train`");
		return;
	}
	check_keys(json, diag);
	if (resume && !json_is_boolean(resume))
		complain(diag, "resume", "expected true or false");
	take_count(json, "seed", 0, INT64_MAX, &ret->seed, diag);
	take_count(json, "batch", 1, SAMPLES_MAX, &batch, diag);
	micro_batch = batch;
	take_count(json, "micro_batch", 1, SAMPLES_MAX, &micro_batch, diag);
	take_count(json, "steps", 1, STEPS_MAX, &ret->steps, diag);
	take_count(json, "epochs", 1, SAMPLES_MAX, &ret->epochs, diag);
	take_count(json, "log_every", 1, STEPS_MAX, &ret->log_every, diag);
	take_count(json, "checkpoint_every", 1, STEPS_MAX, &ret->checkpoint_every, diag);
	take_ratio(json, "warm_up_ratio", &ret->warm_up_ratio, diag);
	ret->batch = (uint32_t)batch;
	ret->micro_batch = (uint32_t)micro_batch;
	if (!json_object_get(json, "batch"))
		complain(diag, "batch", "missing: the samples of a step");
	if (diag->n_messages == 0)
		check_batches(ret, diag);
}
