/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model that learns: its graph on a device, its data, its optimizer. Micro-batches add up
 * gradients; a step uses them, or others in their place. Whoever calls decides when, so that one
 * rank of many and a training alone are the same code.
 */
#ifndef LH_TRAINER_LEARNER_H
#define LH_TRAINER_LEARNER_H

#include <jansson.h>

#include "core/error.h"
#include "trainer/learn/spec.h"

struct lh_layer_run; /* trainer/strategy/fragments.h */
struct lh_learner;
struct lh_matrix_shape; /* trainer/compress/low_rank.h */

/* Which part of a training this is. */
struct lh_learner_place {
	uint64_t seed;
	uint32_t micro_batch; /* samples */
	uint32_t rank;
	uint32_t n_ranks;
	uint32_t n_sites;
	const uint32_t *ranks_of_sites; /* ranks by site, which are numbered site by site */
	/* By site, of the samples that lie there; NULL: all ranks take them from anywhere. Borrowed
	 * while it is opened. */
	const double *shares_of_sites;
	bool evaluates;	      /* opens the test data, too */
	bool takes_gradients; /* steps use gradients from the host */
};

/* What a number of samples have shown. */
struct lh_score {
	double loss;	  /* mean over counted targets, in nats */
	double accuracy;  /* share of counted targets that were foretold */
	double n_counted; /* targets */
	uint64_t n_samples;
	/* Of test data, NAN where the task has no such measure (quality.h): */
	double bits_per_byte;
	double word_accuracy;
};

/* The parts of a step. */
enum lh_learner_phase {
	LH_PHASE_LOAD,
	LH_PHASE_FORWARD,
	LH_PHASE_BACKWARD,
	LH_PHASE_UPDATE,
	LH_N_PHASES
};

/* Bytes on the device; see README, "What training needs". */
struct lh_learner_memory {
	struct lh_graph_memory graph;
	uint64_t optimizer_bytes;
};

/* What the model, its optimizer and one micro-batch will take, without memory for them: nothing is
 * known of workspace_bytes. LH_EINPUT, LH_EENV, LH_ESYS. */
int lh_learner_foresee(const struct lh_learn_spec *spec, uint32_t micro_batch,
		       struct lh_learner_memory *ret_memory, struct lh_error *err);

/* Opens data and device, builds the model and draws its parameters from the seed. *ret_learner
 * belongs to the caller. LH_EINPUT, LH_EENV, LH_ESYS. */
int lh_learner_open(const struct lh_learn_spec *spec, const struct lh_learner_place *place,
		    struct lh_learner **ret_learner, struct lh_error *err);

void lh_learner_close(struct lh_learner *learner); /* NULL is fine */

/* Another schedule from the next step on: one that depends on the size of the data. LH_EINPUT. */
int lh_learner_set_schedule(struct lh_learner *learner, const struct lh_schedule *schedule,
			    struct lh_error *err);

/* The next micro-batch, forward and backward: adds the gradient of its mean loss. */
int lh_learner_accumulate(struct lh_learner *learner, struct lh_error *err);

/* The micro-batches since the last take or step. */
uint32_t lh_learner_n_accumulated(const struct lh_learner *learner);

/* Copies the mean gradient of the accumulated micro-batches to n_parameters floats on the host, and
 * zeroes it. */
int lh_learner_take_gradients(struct lh_learner *learner, float *ret_gradients,
			      struct lh_error *err);

/* The optimizer's step with gradients from the host. lr: the highest, times `ratio` of the schedule
 * at the steps done so far. */
int lh_learner_step_with(struct lh_learner *learner, const float *gradients, struct lh_error *err);

/* The same with the accumulated gradients, which are zeroed. */
int lh_learner_step(struct lh_learner *learner, struct lh_error *err);

/* All parameters, n_parameters floats, to and from the host. */
int lh_learner_read_weights(const struct lh_learner *learner, float *ret_weights,
			    struct lh_error *err);
int lh_learner_write_weights(struct lh_learner *learner, const float *weights,
			     struct lh_error *err);

/* All parameters' tensors as matrices, in the order in which they lie: a vector has one column.
 * *ret_shapes is the caller's to free. LH_ESYS. */
int lh_learner_shapes(const struct lh_learner *learner, struct lh_matrix_shape **ret_shapes,
		      size_t *ret_n, struct lh_error *err);

/* The layers with parameters, from the input on, as runs of those: of every tensor one. *ret_runs
 * is the caller's to free. LH_ESYS. */
int lh_learner_layers(const struct lh_learner *learner, struct lh_layer_run **ret_runs,
		      size_t *ret_n, struct lh_error *err);

/* What the training samples since the last call have shown. */
void lh_learner_take_score(struct lh_learner *learner, struct lh_score *ret_score);

/* All of the test data. */
int lh_learner_evaluate(struct lh_learner *learner, struct lh_score *ret_score,
			struct lh_error *err);

/* Times the parts of every step from now on: the device is waited for after each. */
void lh_learner_time_phases(struct lh_learner *learner);

/* The times since the last call, in ns. */
void lh_learner_take_phases(struct lh_learner *learner, int64_t ret_ns[static LH_N_PHASES]);

int64_t lh_learner_n_parameters(const struct lh_learner *learner);
uint64_t lh_learner_steps(const struct lh_learner *learner);
uint64_t
lh_learner_epoch_samples(const struct lh_learner *learner); /* of the training data, all ranks */
uint64_t lh_learner_test_samples(const struct lh_learner *learner); /* 0: it does not evaluate */
double lh_learner_lr(const struct lh_learner *learner);		    /* of the next step */
double lh_learner_grad_norm(const struct lh_learner *learner);	    /* of the last step */
void lh_learner_count_memory(const struct lh_learner *learner,
			     struct lh_learner_memory *ret_memory);
struct lh_graph *lh_learner_graph(const struct lh_learner *learner);
struct lh_device *lh_learner_device(const struct lh_learner *learner);

/* A hash of all parameters, bit by bit: equal for equal weights. */
int lh_learner_fingerprint(const struct lh_learner *learner, uint64_t *ret_hash,
			   struct lh_error *err);

/* All that another learner of the same specification goes on from: parameters, running means, the
 * optimizer's vectors, the steps done and the loss scale. *ret_bytes: how many bytes of memory that
 * takes, which the next two copy out and in; what was accumulated is dropped by the latter. */
int lh_learner_count_state(const struct lh_learner *learner, uint64_t *ret_bytes,
			   struct lh_error *err);
int lh_learner_read_state(const struct lh_learner *learner, void *ret_bytes, struct lh_error *err);
int lh_learner_write_state(struct lh_learner *learner, const void *bytes, struct lh_error *err);

/* Passes over n_batches of the data, as if they had been computed. */
void lh_learner_skip(struct lh_learner *learner, uint64_t n_batches);

/* Checkpoints: see trainer/optim/checkpoint.h. settings: what must agree, from the specification
 * and place. */
int lh_learner_save(const struct lh_learner *learner, const char *path, struct lh_error *err);
int lh_learner_load(struct lh_learner *learner, const char *path, struct lh_error *err);

/* The same file with the model alone. */
int lh_learner_save_model(const struct lh_learner *learner, const char *path, struct lh_error *err);

#endif
