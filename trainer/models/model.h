/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models: what the engine can train, by name and size. A family builds its models from the layers
 * (trainer/layers/layers.h) by a table of settings; a preset is a family with values for
 * some of them: a published model, or a small one. Names of parameters and settings are kept from
 * version to version: checkpoints hold them.
 *
 * A built model's inputs, by task, found by name with lh_graph_find. N: batch; all integers are
 * int32, -1 in targets is not counted. LH_TASK_IMAGES: images [N, H, W, C], labels [N].
 * LH_TASK_TEXT: tokens [N, T], targets [N, T], the token that follows each. LH_TASK_MASKED_TEXT:
 * the same, targets -1 but where a token was masked. LH_TASK_CTR: sparse int32 [N, fields], each 0
 * to buckets - 1; dense [N, numbers] (absent without numbers), labels [N], 0 or 1. LH_TASK_SPEECH:
 * mel [N, frames, mels], tokens [N, T], targets [N, T], the token that follows each.
 */
#ifndef LH_TRAINER_MODEL_H
#define LH_TRAINER_MODEL_H

#include <stdio.h>

#include "core/error.h"
#include "trainer/tensor/graph.h"

enum lh_task {
	LH_TASK_IMAGES,
	LH_TASK_TEXT,	     /* the next token */
	LH_TASK_MASKED_TEXT, /* tokens that were masked */
	LH_TASK_CTR,	     /* click-through rate */
	LH_TASK_SPEECH,	     /* the next token, from what is heard and the tokens before */
};

/* "images", "text", "masked text", "clicks", "speech". */
const char *lh_task_name(enum lh_task task);

enum { LH_MODEL_SETTINGS_MAX = 16, LH_MODEL_VALUES_MAX = 12 };

/* A size or choice of a family; a choice is 0 (no) or 1 (yes). */
struct lh_model_setting {
	const char *name;
	double value; /* where a preset does not say otherwise */
	double min, max;
	bool is_integer;
	const char *doc; /* one line */
};

struct lh_model_config;
struct lh_built_model;

struct lh_model_family {
	const char *name;
	enum lh_task task;
	const struct lh_model_setting *settings; /* the last has no name */
	void (*build)(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		      struct lh_built_model *ret_model);
};

struct lh_model_value {
	const char *name;
	double value;
};

struct lh_model_preset {
	const char *name;
	const char *doc; /* one line */
	const struct lh_model_family *family;
	struct lh_model_value values[LH_MODEL_VALUES_MAX]; /* the last has no name */
	int64_t parameters;				   /* as published; 0: nowhere */
	const char *source;				   /* of the model, NULL: none */
};

/* All presets; the last has no name. */
extern const struct lh_model_preset lh_model_presets[];

/* The preset of that name, or NULL. */
const struct lh_model_preset *lh_model_find(const char *name);

/* A preset with values for all settings of its family, in the order of its table; plain data. */
struct lh_model_config {
	const struct lh_model_preset *preset;
	double values[LH_MODEL_SETTINGS_MAX];
};

/* The preset called name as it is. LH_EINPUT, with the nearest name, where there is none. */
int lh_model_config_init(const char *name, struct lh_model_config *ret_config,
			 struct lh_error *err);

/* Sets what text says, such as "classes=10". LH_EINPUT: no such setting (with the nearest), no
 * number, or outside its range; config is unchanged then. */
int lh_model_config_set(struct lh_model_config *config, const char *text, struct lh_error *err);

/* The value of the setting called name, which must be one of the family's. */
double lh_model_setting(const struct lh_model_config *config, const char *name);
int64_t lh_model_size(const struct lh_model_config *config, const char *name); /* an integer's */

struct lh_built_model {
	enum lh_task task;
	struct lh_tensor *logits; /* to be read only after lh_graph_keep */
	struct lh_tensor *loss;	  /* for lh_graph_finish and lh_loss_read */
};

/* Adds config's inputs and layers to an empty graph, for batches of `batch` samples. Settings that
 * do not fit each other are mistakes that lh_graph_finish tells. */
void lh_model_build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		    struct lh_built_model *ret_model);

/* How many parameters config has, counted without memory for them. LH_EINPUT where settings do not
 * fit each other; LH_ESYS. */
int lh_model_count_parameters(struct lh_device *device, const struct lh_model_config *config,
			      int64_t *ret_n, struct lh_error *err);

/* Writes all presets, families and settings to out, as Markdown; device: to count parameters.
 * LH_ESYS. */
int lh_models_document(struct lh_device *device, FILE *out, struct lh_error *err);

#endif
