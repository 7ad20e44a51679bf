/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computing: what a rank does between two averagings, and with what comes of them. `replay` lets
 * measured times pass; `train` (in the program longhaul-learner) really computes. One file
 * each; a program lists those that it has.
 */
#ifndef LH_TRAINER_COMPUTE_H
#define LH_TRAINER_COMPUTE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/events.h"
#include "trainer/job.h"
#include "trainer/strategy/averaging.h"

struct lh_layer_run;	/* trainer/strategy/fragments.h */
struct lh_matrix_shape; /* trainer/compress/low_rank.h */

struct lh_compute_ops {
	const char *name; /* the job's mode */
	const char *doc;  /* one line */
	/* The job is borrowed until close. */
	int (*open)(const struct lh_job *job, uint32_t rank, void **ret_state,
		    struct lh_error *err);
	/* What the strategy averages; it stays where it is. */
	struct lh_averaged (*averaged)(void *state);
	/* The tensors whose gradients are averaged, as matrices, in their order; *ret_shapes is the
	 * caller's to free. NULL: they are not known. */
	int (*shapes)(void *state, struct lh_matrix_shape **ret_shapes, size_t *ret_n,
		      struct lh_error *err);
	/* The layers of the model as runs of what is averaged; *ret_runs is the caller's to free.
	 * NULL: they are not known. */
	int (*layers)(void *state, struct lh_layer_run **ret_runs, size_t *ret_n,
		      struct lh_error *err);
	/* Computes one micro-batch; *ret_ns, at least 1, is how long it takes by the rank's
	 * profile. */
	int (*micro_batch)(void *state, int64_t *ret_ns, struct lh_error *err);
	/* Before an averaging: what is averaged becomes the mean over own samples, which are done.
	 */
	int (*begin_average)(void *state, uint64_t samples, struct lh_error *err);
	/* The model's weights, as many as are averaged, to and from the host; nothing is done where
	 * they are replayed. */
	int (*read_weights)(void *state, float *ret_weights, struct lh_error *err);
	int (*write_weights)(void *state, const float *weights, struct lh_error *err);
	/* All that a training goes on from: weights, the optimizer's vectors, the steps done.
	 * *ret_real_bytes of what is returned are real ones, which the next two move; a state that
	 * is replayed has none. NULL: it cannot be moved. What had been computed for a step that
	 * was not done is dropped by write_state. */
	uint64_t (*state_bytes)(void *state, uint64_t *ret_real_bytes);
	int (*read_state)(void *state, void *ret_bytes, struct lh_error *err);
	int (*write_state)(void *state, const void *bytes, struct lh_error *err);
	/* This rank has been there incarnation times before: it goes on with other micro-batches
	 * than those it began with then. Before the first. */
	void (*renew)(void *state, uint32_t incarnation);
	/* The optimizer's step with what was averaged (alone: with own gradients). */
	int (*apply)(void *state, struct lh_error *err);
	/* After the averaging of an epoch, at t_ns: writes what has been learnt. */
	int (*end_epoch)(void *state, uint32_t epoch, int64_t t_ns, struct lh_events *events,
			 struct lh_error *err);
	/* Before `end`, all steps done, at t_ns. */
	int (*finish)(void *state, int64_t t_ns, struct lh_events *events, struct lh_error *err);
	void (*close)(void *state); /* NULL is fine */
};

extern const struct lh_compute_ops lh_compute_replay;
extern const struct lh_compute_ops lh_compute_train; /* in longhaul-learner */

#endif
