/* SPDX-License-Identifier: Apache-2.0 */
/* A model that learns. See learner.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/clock.h"
#include "trainer/learn/learner_internal.h"
#include "trainer/optim/checkpoint.h"

enum { SHIFT_DENOMINATOR = 8 }; /* augmented images move by up to this part of their height */

/* ---- opening -------------------------------------------------------------------------------- */

static int build_graph(struct lh_learner *l, struct lh_error *err)
{
	int rc = lh_graph_new(l->device, &l->graph, err);

	if (rc)
		return rc;
	lh_model_build(l->graph, &l->spec.model, l->place.micro_batch, &l->model);
	if ((rc = lh_graph_finish(l->graph, l->model.loss, false, err)))
		return lh_error_prefix(err, "model %s", l->spec.model.preset->name);
	if ((rc = lh_graph_init_parameters(l->graph, l->place.seed, err)))
		return rc;
	rc = lh_optimizer_new(l->graph, &l->spec.optimizer, &l->optimizer, err);
	if (rc == 0 && l->place.takes_gradients)
		rc = l->device->ops->alloc(l->device,
					   (size_t)lh_graph_n_parameters(l->graph) *
						   lh_dtype_bytes(l->device->master),
					   &l->step_gradients, err);
	return rc;
}

static int open_loader(struct lh_learner *l, struct lh_error *err)
{
	const struct lh_learner_place *place = &l->place;
	bool moves = l->spec.augment && l->spec.model.preset->family->task == LH_TASK_IMAGES;
	struct lh_loader_spec spec = {
		.seed = place->seed,
		.rank = place->rank,
		.n_ranks = place->n_ranks,
		.crop_padding = moves ? lh_dataset_spec(l->data)->height / SHIFT_DENOMINATOR : 0,
		.flip = moves,
		.disguises_voices = l->spec.augment && !moves,
	};
	const struct lh_shard_spec shard = {
		.mode = place->shares_of_sites ? LH_SHARD_PLACED : LH_SHARD_SKEWED,
		.seed = place->seed,
		.alpha = l->spec.skew,
		.shares = place->shares_of_sites,
		.n_sites = place->n_sites,
		.n_ranks = place->ranks_of_sites,
	};
	int rc;

	if (l->spec.skew > 0 || place->shares_of_sites) {
		if ((rc = lh_shards_make(l->data, &shard, &l->shards, err)))
			return rc;
		spec.indices = lh_shards_of(l->shards, place->rank, &spec.n_indices);
		spec.rank = 0;
		spec.n_ranks = 1;
	}
	return lh_loader_new(l->data, &spec, &l->loader, err);
}

static int open_data(struct lh_learner *l, struct lh_error *err)
{
	const struct lh_loader_spec in_order = {.in_order = true};
	struct lh_data_request spec = l->spec.data;
	int rc;

	spec.seed = l->place.seed;
	spec.split = LH_DATA_TRAIN;
	if ((rc = lh_dataset_open(&spec, &l->data, err)) || (rc = open_loader(l, err)) ||
	    !l->place.evaluates)
		return rc;
	spec.split = LH_DATA_TEST;
	spec.n_samples = l->spec.n_test_samples;
	if ((rc = lh_dataset_open(&spec, &l->test_data, err)))
		return lh_error_prefix(err, "test data");
	return lh_loader_new(l->test_data, &in_order, &l->test_loader, err);
}

/* Whether a batch of the field's samples is what the input takes. */
static bool fits(const struct lh_data_field *field, const struct lh_tensor *input, uint32_t batch)
{
	return (field->type == LH_DATA_I32) == (input->dtype == LH_I32) &&
	       (int64_t)(lh_data_field_elements(field) * batch) == input->n;
}

/* Ties the data's fields to the model's inputs, all of them. */
static int bind_batch(struct lh_learner *l, struct lh_error *err)
{
	struct lh_learner_batch *b = &l->batch;
	const struct lh_data_field *fields = lh_dataset_fields(l->data, &b->n_fields);
	uint32_t n_tensors, n_inputs = 0;
	struct lh_tensor *const *tensors = lh_graph_tensors(l->graph, &n_tensors);

	for (uint32_t i = 0; i < n_tensors; i++)
		n_inputs += tensors[i]->role == LH_INPUT && !tensors[i]->view_of;
	for (uint32_t i = 0; i < b->n_fields; i++) {
		struct lh_tensor *input = lh_graph_find(l->graph, fields[i].name);

		if (lh_data_field_elements(&fields[i]) == 0) {
			n_inputs++;
			continue;
		}
		if (!input || !fits(&fields[i], input, l->place.micro_batch))
			return lh_fail(err, LH_EINPUT, 0, "model %s cannot take the %s of %s data",
				       l->spec.model.preset->name, fields[i].name,
				       l->spec.data.kind);
		b->inputs[i] = input;
		b->sample_bytes[i] = 4 * lh_data_field_elements(&fields[i]);
		b->is_target[i] = strcmp(fields[i].name, "labels") == 0 ||
				  strcmp(fields[i].name, "targets") == 0;
		b->fields[i] = calloc(l->place.micro_batch, b->sample_bytes[i]);
		if (!b->fields[i])
			return lh_fail(err, LH_ESYS, ENOMEM, "batch");
	}
	if (n_inputs != b->n_fields)
		return lh_fail(err, LH_EINPUT, 0,
			       "model %s takes %" PRIu32 " inputs; %s data have %" PRIu32,
			       l->spec.model.preset->name, n_inputs, l->spec.data.kind,
			       b->n_fields);
	return 0;
}

int lh_learner_open(const struct lh_learn_spec *spec, const struct lh_learner_place *place,
		    struct lh_learner **ret_learner, struct lh_error *err)
{
	struct lh_learner *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return lh_fail(err, LH_ESYS, ENOMEM, "learner");
	l->spec = *spec;
	l->spec.data.path = spec->data.path ? l->spec.data_path : NULL;
	l->spec.data.vocab_path = spec->data.vocab_path ? l->spec.vocabulary_path : NULL;
	l->place = *place;
	if (spec->device_options.compute == LH_F16)
		lh_loss_scale_init(&l->loss_scale);
	else
		lh_loss_scale_init_none(&l->loss_scale);
	rc = spec->schedule.total_steps ? lh_schedule_check(&spec->schedule, err) : 0;
	if (rc == 0 && (rc = spec->device->open(&spec->device_options, &l->device, err)) == 0 &&
	    (rc = open_data(l, err)) == 0 && (rc = build_graph(l, err)) == 0 &&
	    (rc = bind_batch(l, err)) == 0 && l->place.evaluates)
		rc = lh_quality_new(&l->spec, &l->model, &l->quality, err);
	if (rc) {
		lh_learner_close(l);
		return rc;
	}
	*ret_learner = l;
	return 0;
}

void lh_learner_close(struct lh_learner *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < LH_DATA_FIELDS_MAX; i++)
		free(l->batch.fields[i]);
	lh_loader_free(l->loader);
	lh_loader_free(l->test_loader);
	lh_quality_free(l->quality);
	lh_shards_free(l->shards);
	lh_dataset_free(l->data);
	lh_dataset_free(l->test_data);
	lh_optimizer_free(l->optimizer);
	lh_graph_free(l->graph);
	if (l->device && l->step_gradients)
		l->device->ops->free(l->device, l->step_gradients);
	if (l->device)
		l->device->ops->close(l->device);
	free(l);
}

int lh_learner_set_schedule(struct lh_learner *l, const struct lh_schedule *schedule,
			    struct lh_error *err)
{
	int rc = lh_schedule_check(schedule, err);

	if (rc == 0)
		l->spec.schedule = *schedule;
	return rc;
}

/* ---- passes --------------------------------------------------------------------------------- */

int lh_learner_write_inputs(struct lh_learner *l, struct lh_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < l->batch.n_fields; i++)
		if (l->batch.inputs[i])
			rc = lh_tensor_write(l->graph, l->batch.inputs[i], l->batch.fields[i], err);
	return rc;
}

/* Ends a phase that began where the last one ended. */
static int end_phase(struct lh_learner *l, enum lh_learner_phase phase, struct lh_error *err)
{
	int64_t now_ns;
	int rc;

	if (!l->is_timed)
		return 0;
	rc = l->device->ops->synchronize(l->device, err);
	now_ns = lh_clock_now_ns();
	l->phases_ns[phase] += now_ns - l->mark_ns;
	l->mark_ns = now_ns;
	return rc;
}

static void begin_phase(struct lh_learner *l)
{
	if (l->is_timed)
		l->mark_ns = lh_clock_now_ns();
}

void lh_learner_time_phases(struct lh_learner *l)
{
	l->is_timed = true;
	memset(l->phases_ns, 0, sizeof(l->phases_ns));
}

void lh_learner_take_phases(struct lh_learner *l, int64_t ret_ns[static LH_N_PHASES])
{
	memcpy(ret_ns, l->phases_ns, sizeof(l->phases_ns));
	memset(l->phases_ns, 0, sizeof(l->phases_ns));
}

int lh_learner_accumulate(struct lh_learner *l, struct lh_error *err)
{
	const struct lh_pass pass = {
		.is_training = true,
		.seed = l->place.seed,
		.step = l->n_batches * l->place.n_ranks + l->place.rank,
	};
	struct lh_loss loss;
	int rc;

	begin_phase(l);
	if ((rc = lh_loader_next(l->loader, l->place.micro_batch, l->batch.fields, err)) ||
	    (rc = lh_learner_write_inputs(l, err)) || (rc = end_phase(l, LH_PHASE_LOAD, err)) ||
	    (rc = lh_graph_forward(l->graph, &pass, err)) ||
	    (rc = end_phase(l, LH_PHASE_FORWARD, err)) ||
	    (rc = lh_graph_backward(l->graph, &pass, l->loss_scale.scale, err)) ||
	    (rc = lh_loss_read(l->graph, l->model.loss, &loss, err)) ||
	    (rc = end_phase(l, LH_PHASE_BACKWARD, err)))
		return rc;
	l->loss_sum += loss.mean * loss.n_counted;
	l->n_counted += loss.n_counted;
	l->n_right += loss.n_right;
	l->n_samples += l->place.micro_batch;
	l->n_batches++;
	l->n_accumulated++;
	return 0;
}

uint32_t lh_learner_n_accumulated(const struct lh_learner *l)
{
	return l->n_accumulated;
}

static int clear_gradients(struct lh_learner *l, struct lh_error *err)
{
	l->n_accumulated = 0;
	return lh_graph_zero_gradients(l->graph, err);
}

int lh_learner_take_gradients(struct lh_learner *l, float *ret_gradients, struct lh_error *err)
{
	int64_t n = lh_graph_n_parameters(l->graph);
	float divisor = (float)((l->n_accumulated ? l->n_accumulated : 1) * l->loss_scale.scale);
	int rc = l->device->ops->read(l->device, lh_graph_gradients(l->graph), l->device->master,
				      ret_gradients, n, err);

	for (int64_t i = 0; rc == 0 && divisor != 1 && i < n; i++)
		ret_gradients[i] /= divisor;
	return rc ? rc : clear_gradients(l, err);
}

int lh_learner_read_weights(const struct lh_learner *l, float *ret_weights, struct lh_error *err)
{
	return l->device->ops->read(l->device, lh_graph_parameters(l->graph), l->device->master,
				    ret_weights, lh_graph_n_parameters(l->graph), err);
}

int lh_learner_write_weights(struct lh_learner *l, const float *weights, struct lh_error *err)
{
	return l->device->ops->write(l->device, lh_graph_parameters(l->graph), l->device->master,
				     weights, lh_graph_n_parameters(l->graph), err);
}

/* Steps with gradients on the device. What is not finite is no step: in fp16 the loss is scaled by
 * less from then on, else it is a failure. */
static int step(struct lh_learner *l, const void *gradients, double divisor, struct lh_error *err)
{
	uint64_t before = lh_optimizer_steps(l->optimizer);
	int rc = lh_optimizer_step_with(l->optimizer, gradients, lh_learner_lr(l), divisor,
					&l->grad_norm, err);

	if (rc == 0 &&
	    !lh_loss_scale_update(&l->loss_scale, lh_optimizer_steps(l->optimizer) != before))
		return lh_fail(err, LH_ERUN, 0,
			       "step %" PRIu64
			       ": the gradient is not finite; expected training to converge: try a "
			       "smaller lr, a longer warm-up or clip_norm",
			       before);
	return rc;
}

int lh_learner_step_with(struct lh_learner *l, const float *gradients, struct lh_error *err)
{
	int rc = l->device->ops->write(l->device, l->step_gradients, l->device->master, gradients,
				       lh_graph_n_parameters(l->graph), err);

	/* the scale was taken out with the gradients */
	return rc ? rc : step(l, l->step_gradients, 1, err);
}

int lh_learner_step(struct lh_learner *l, struct lh_error *err)
{
	int rc;

	begin_phase(l);
	if ((rc = step(l, lh_graph_gradients(l->graph), l->n_accumulated * l->loss_scale.scale,
		       err)) ||
	    (rc = clear_gradients(l, err)))
		return rc;
	return end_phase(l, LH_PHASE_UPDATE, err);
}

void lh_learner_take_score(struct lh_learner *l, struct lh_score *ret_score)
{
	double counted = l->n_counted > 0 ? l->n_counted : 1;

	*ret_score = (struct lh_score){
		l->loss_sum / counted, l->n_right / counted, l->n_counted, l->n_samples, NAN, NAN};
	l->loss_sum = l->n_counted = l->n_right = 0;
	l->n_samples = 0;
}

/* ---- what it is ----------------------------------------------------------------------------- */

int64_t lh_learner_n_parameters(const struct lh_learner *l)
{
	return lh_graph_n_parameters(l->graph);
}

uint64_t lh_learner_steps(const struct lh_learner *l)
{
	return lh_optimizer_steps(l->optimizer);
}

uint64_t lh_learner_epoch_samples(const struct lh_learner *l)
{
	return lh_loader_epoch_size(l->loader);
}

uint64_t lh_learner_test_samples(const struct lh_learner *l)
{
	return l->test_data ? lh_dataset_size(l->test_data) : 0;
}

double lh_learner_lr(const struct lh_learner *l)
{
	return lh_schedule_lr(&l->spec.schedule, lh_optimizer_steps(l->optimizer));
}

double lh_learner_grad_norm(const struct lh_learner *l)
{
	return l->grad_norm;
}

void lh_learner_count_memory(const struct lh_learner *l, struct lh_learner_memory *ret_memory)
{
	lh_graph_count_memory(l->graph, &ret_memory->graph);
	ret_memory->optimizer_bytes = lh_optimizer_state_bytes(l->optimizer);
}

struct lh_graph *lh_learner_graph(const struct lh_learner *l)
{
	return l->graph;
}

struct lh_device *lh_learner_device(const struct lh_learner *l)
{
	return l->device;
}
