/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the options of `train` and `profile` to the job that longhaul-learner gets: defaults of the
 * model's family, what the person said, and what is wrong with it.
 */
#ifndef LH_CLI_TRAIN_JOB_H
#define LH_CLI_TRAIN_JOB_H

#include <jansson.h>

#include "cli/options.h"
#include "core/error.h"

/* Rows that both verbs have; keys are those of the job (docs/formats.md, "A training alone"). */
/* clang-format off */
#define LH_OPTIONS_OF_MODEL                                                                        \
	{.name = "data", .arg = "KIND[:PATH]", .change = lh_train_option_data,                     \
	 .doc = "what to learn from; without: seeded synthetic data"},                             \
	{.name = "vocabulary", .arg = "FILE", .key = "train.data.vocabulary",                      \
	 .doc = "of a byte-pair tokeniser; without: bytes"},                                       \
	{.name = "set", .arg = "NAME=VALUE", .change = lh_train_option_set,                        \
	 .doc = "a size of the model, such as classes=10; repeat it"},                             \
	{.name = "optimizer", .arg = "KIND", .key = "train.optimizer.kind",                        \
	 .doc = "sgd, adamw, lamb or lars"},                                                       \
	{.name = "device", .arg = "NAME", .key = "train.device",                                   \
	 .doc = "cpu, cuda or reference"},                                                         \
	{.name = "precision", .arg = "P", .key = "train.precision",                                \
	 .doc = "fp32; on cuda also fp16 or bf16"},                                                \
	{.name = "threads", .arg = "N", .key = "train.threads",                                    \
	 .doc = "of the CPU; as many as it has processors"},                                       \
	{.name = "portable", .key = "train.portable", .value = "true",                             \
	 .doc = "only what all x86-64-v3 machines have: the same bits on them"},                   \
	{.name = "seed", .arg = "N", .key = "seed", .doc = "of everything random (1)"}
/* clang-format on */

int lh_train_option_data(const char *verb, struct lh_overrides *overrides, const char *value);
int lh_train_option_set(const char *verb, struct lh_overrides *overrides, const char *value);

/*
 * Makes the job for a model: the defaults of its family, then the overrides. All that is wrong goes
 * to diag, by the names of the options in rows. *ret_job is owned by the caller, NULL where the
 * model is not known. 0, or LH_ESYS.
 */
int lh_train_job_make(const char *model, const struct lh_option *rows,
		      const struct lh_overrides *overrides, json_t **ret_job, struct lh_diag *diag,
		      struct lh_error *err);

/* The device that a job names, or NULL. */
const char *lh_train_job_device(const json_t *job);

/* Sets key, words with dots, of a JSON object: what reads as a number is one, but where the key is
 * of a text. */
int lh_train_job_set(json_t *job, const char *key, const char *value);

#endif
