/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computing `train`: the rank's model really learns. A micro-batch takes the time of the rank's
 * profile on the run's clock, whatever the arithmetic takes. What is averaged are gradients;
 * they are copied to where the strategy finds them, so that a late step can use them while the next
 * ones add up. Rank 0 looks at the test data, which takes no time of the run's clock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/compute/replay.h"
#include "trainer/learn/learner.h"
#include "trainer/strategy/strategy.h"

struct train {
	const struct lh_job *job;
	struct lh_learn_spec spec;
	struct lh_learner *learner;
	struct lh_replay times;
	float *gradients; /* of the whole model, as averaged */
	uint32_t rank;
	uint64_t state_bytes;
	uint32_t last_evaluated; /* 1 + the epoch; 0: none */
};

static void close_train(void *state)
{
	struct train *t = state;

	if (!t)
		return;
	lh_learner_close(t->learner);
	free(t->gradients);
	free(t);
}

static int read_spec(struct train *t, struct lh_error *err)
{
	const struct lh_learn_reading reading = {.prefix = "train", .devices = lh_devices};
	struct lh_diag diag = {0};
	int rc = 0;

	lh_learn_spec_read(t->job->model, t->job->train, &reading, &t->spec, &diag);
	if (diag.n_messages)
		rc = lh_fail(err, LH_EINPUT, 0, "%s", diag.messages[0]);
	lh_diag_done(&diag);
	t->spec.schedule.total_steps = t->job->strategy->count_steps
					       ? t->job->strategy->count_steps(t->job)
					       : t->job->epochs;
	return rc;
}

/* Ranks by site, which the job lists site by site. */
static uint32_t count_sites(const struct lh_job *job, uint32_t ret_ranks[static LH_JOB_RANKS_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < job->n_ranks; i++) {
		if (i == 0 || strcmp(job->ranks[i].site, job->ranks[i - 1].site) != 0)
			ret_ranks[n++] = 0;
		ret_ranks[n - 1]++;
	}
	return n;
}

/* The samples that lie at a site are as many as its ranks compute of the target; 0: they do not
 * lie anywhere. */
static double add_up_shares(const struct lh_job *job, const uint32_t *ranks_of_sites,
			    uint32_t n_sites, double *ret_shares)
{
	uint32_t rank = 0;
	double sum = 0;

	for (uint32_t site = 0; site < n_sites; site++) {
		ret_shares[site] = 0;
		for (uint32_t i = 0; i < ranks_of_sites[site]; i++)
			ret_shares[site] += job->ranks[rank++].target_ratio;
		sum += ret_shares[site];
	}
	return sum;
}

static int open_train(const struct lh_job *job, uint32_t rank, void **ret_state,
		      struct lh_error *err)
{
	struct train *t = calloc(1, sizeof(*t));
	uint32_t ranks_of_sites[LH_JOB_RANKS_MAX];
	double shares[LH_JOB_RANKS_MAX];
	struct lh_learner_place place = {
		.seed = job->seed,
		.micro_batch = job->ranks[rank].micro_batch,
		.rank = rank,
		.n_ranks = job->n_ranks,
		.n_sites = count_sites(job, ranks_of_sites),
		.ranks_of_sites = ranks_of_sites,
		.evaluates = rank == 0,
		.takes_gradients = true,
	};
	int rc;

	if (!t)
		return lh_fail(err, LH_ESYS, ENOMEM, "train");
	if (add_up_shares(job, ranks_of_sites, place.n_sites, shares) > 0)
		place.shares_of_sites = shares;
	t->job = job;
	t->rank = rank;
	lh_replay_init(&t->times, job, rank);
	rc = read_spec(t, err);
	if (rc == 0)
		rc = lh_learner_open(&t->spec, &place, &t->learner, err);
	if (rc == 0 && (uint64_t)lh_learner_n_parameters(t->learner) != job->parameters)
		rc = lh_fail(err, LH_EINPUT, 0,
			     "parameters: %" PRIu64 "; model %s with these settings has %" PRId64,
			     job->parameters, job->model, lh_learner_n_parameters(t->learner));
	if (rc == 0)
		rc = lh_learner_count_state(t->learner, &t->state_bytes, err);
	if (rc == 0 && !(t->gradients = calloc(job->parameters, sizeof(*t->gradients))))
		rc = lh_fail(err, LH_ESYS, ENOMEM, "train");
	if (rc) {
		close_train(t);
		return rc;
	}
	*ret_state = t;
	return 0;
}

static struct lh_averaged averaged_gradients(void *state)
{
	struct train *t = state;

	return (struct lh_averaged){.n = t->job->parameters,
				    .values = t->gradients,
				    .device = lh_learner_device(t->learner)};
}

static int train_layers(void *state, struct lh_layer_run **ret_runs, size_t *ret_n,
			struct lh_error *err)
{
	return lh_learner_layers(((struct train *)state)->learner, ret_runs, ret_n, err);
}

static int train_shapes(void *state, struct lh_matrix_shape **ret_shapes, size_t *ret_n,
			struct lh_error *err)
{
	return lh_learner_shapes(((struct train *)state)->learner, ret_shapes, ret_n, err);
}

static int train_micro_batch(void *state, int64_t *ret_ns, struct lh_error *err)
{
	struct train *t = state;

	*ret_ns = lh_replay_next_ns(&t->times, lh_clock_now_ns());
	return lh_learner_accumulate(t->learner, err);
}

static int begin_train_average(void *state, uint64_t samples, struct lh_error *err)
{
	struct train *t = state;

	(void)samples;
	return lh_learner_take_gradients(t->learner, t->gradients, err);
}

static int read_train_weights(void *state, float *ret_weights, struct lh_error *err)
{
	return lh_learner_read_weights(((struct train *)state)->learner, ret_weights, err);
}

static int write_train_weights(void *state, const float *weights, struct lh_error *err)
{
	struct train *t = state;

	t->last_evaluated = 0;
	return lh_learner_write_weights(t->learner, weights, err);
}

static uint64_t count_train_state(void *state, uint64_t *ret_real_bytes)
{
	*ret_real_bytes = ((struct train *)state)->state_bytes;
	return *ret_real_bytes;
}

static int read_train_state(void *state, void *ret_bytes, struct lh_error *err)
{
	return lh_learner_read_state(((struct train *)state)->learner, ret_bytes, err);
}

static int write_train_state(void *state, const void *bytes, struct lh_error *err)
{
	return lh_learner_write_state(((struct train *)state)->learner, bytes, err);
}

/* Longer than any rank lives, so that no two incarnations see the same samples in the same order.
 */
enum { BATCHES_PER_INCARNATION = 1 << 20 };

static void renew_train(void *state, uint32_t incarnation)
{
	struct train *t = state;

	lh_replay_renew(&t->times, t->job->seed, t->rank, incarnation);
	lh_learner_skip(t->learner, (uint64_t)incarnation * BATCHES_PER_INCARNATION);
}

static int apply_average(void *state, struct lh_error *err)
{
	struct train *t = state;

	return lh_learner_step_with(t->learner, t->gradients, err);
}

static int write_score(const struct train *t, const char *event, uint32_t epoch, int64_t t_ns,
		       const struct lh_score *score, struct lh_events *events, struct lh_error *err)
{
	return lh_events_add(events, event, t_ns,
			     json_pack("{s:I, s:I, s:I, s:f, s:f, s:I, s:f}", "epoch",
				       (json_int_t)epoch, "samples", (json_int_t)score->n_samples,
				       "counted", (json_int_t)score->n_counted, "loss", score->loss,
				       "accuracy", score->accuracy, "steps",
				       (json_int_t)lh_learner_steps(t->learner), "grad_norm",
				       lh_learner_grad_norm(t->learner)),
			     err);
}

static int evaluate(struct train *t, uint32_t epoch, int64_t t_ns, struct lh_events *events,
		    struct lh_error *err)
{
	struct lh_score score;
	int rc = lh_learner_evaluate(t->learner, &score, err);

	t->last_evaluated = epoch + 1;
	return rc ? rc : write_score(t, "evaluate", epoch, t_ns, &score, events, err);
}

static int end_train_epoch(void *state, uint32_t epoch, int64_t t_ns, struct lh_events *events,
			   struct lh_error *err)
{
	struct train *t = state;
	struct lh_score score;
	int rc;

	lh_learner_take_score(t->learner, &score);
	rc = write_score(t, "learn", epoch, t_ns, &score, events, err);
	if (rc || t->rank != 0 || (epoch + 1) % t->spec.evaluate_every)
		return rc;
	return evaluate(t, epoch, t_ns, events, err);
}

/* What all ranks must agree in at the end. */
static int write_weights(const struct train *t, int64_t t_ns, struct lh_events *events,
			 struct lh_error *err)
{
	uint64_t hash;
	char text[20];
	int rc = lh_learner_fingerprint(t->learner, &hash, err);

	if (rc)
		return rc;
	snprintf(text, sizeof(text), "%016" PRIx64, hash);
	return lh_events_add(events, "weights", t_ns,
			     json_pack("{s:s, s:I}", "hash", text, "steps",
				       (json_int_t)lh_learner_steps(t->learner)),
			     err);
}

/* The last look comes after the last step, which may be a late one. */
static int finish_train(void *state, int64_t t_ns, struct lh_events *events, struct lh_error *err)
{
	struct train *t = state;
	int rc = write_weights(t, t_ns, events, err);

	if (rc || t->rank != 0 ||
	    (t->last_evaluated == t->job->epochs && !t->job->settings.delayed_update))
		return rc;
	return evaluate(t, t->job->epochs - 1, t_ns, events, err);
}

const struct lh_compute_ops lh_compute_train = {
	.name = "train",
	.doc = "the model learns, in the time that its profile takes",
	.open = open_train,
	.averaged = averaged_gradients,
	.shapes = train_shapes,
	.layers = train_layers,
	.micro_batch = train_micro_batch,
	.begin_average = begin_train_average,
	.read_weights = read_train_weights,
	.write_weights = write_train_weights,
	.state_bytes = count_train_state,
	.read_state = read_train_state,
	.write_state = write_train_state,
	.renew = renew_train,
	.apply = apply_average,
	.end_epoch = end_train_epoch,
	.finish = finish_train,
	.close = close_train,
};
