/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a learner share. */
#ifndef LH_TRAINER_LEARNER_INTERNAL_H
#define LH_TRAINER_LEARNER_INTERNAL_H

#include "trainer/data/loader.h"
#include "trainer/data/shard.h"
#include "trainer/layers/layers.h"
#include "trainer/learn/learner.h"
#include "trainer/learn/quality.h"
#include "trainer/optim/loss_scale.h"

/* The fields of a batch, on the host, and the inputs that they go to. */
struct lh_learner_batch {
	uint32_t n_fields;
	void *fields[LH_DATA_FIELDS_MAX];
	struct lh_tensor *inputs[LH_DATA_FIELDS_MAX];
	size_t sample_bytes[LH_DATA_FIELDS_MAX];
	bool is_target[LH_DATA_FIELDS_MAX];
};

struct lh_learner {
	struct lh_learn_spec spec;
	struct lh_learner_place place;
	struct lh_device *device;
	struct lh_graph *graph;
	struct lh_built_model model;
	struct lh_optimizer *optimizer;
	struct lh_dataset *data, *test_data; /* test_data: NULL where it does not evaluate */
	struct lh_shards *shards;
	struct lh_loader *loader, *test_loader;
	struct lh_learner_batch batch;
	void *step_gradients; /* on the device: what step_with was given */
	uint32_t n_accumulated;
	struct lh_loss_scale loss_scale;
	uint64_t n_batches; /* since the begin: the steps of dropout */
	double grad_norm;
	double loss_sum, n_counted, n_right; /* since the last score */
	uint64_t n_samples;
	struct lh_quality *quality; /* of the test data; NULL: the task has none of its own */
	bool is_timed;
	int64_t mark_ns; /* when the last phase ended */
	int64_t phases_ns[LH_N_PHASES];
};

/* Copies the batch to the model's inputs. */
int lh_learner_write_inputs(struct lh_learner *learner, struct lh_error *err);

#endif
