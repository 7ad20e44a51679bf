/* SPDX-License-Identifier: Apache-2.0 */
/* A learner's files. See learner.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/learn/learner_internal.h"
#include "trainer/optim/checkpoint.h"

/* What a training that goes on must have in common with the one that wrote. */
static json_t *settings_to_json(const struct lh_learner *l)
{
	const struct lh_model_config *model = &l->spec.model;
	json_t *settings = json_object();

	for (size_t i = 0; model->preset->family->settings[i].name; i++)
		json_object_set_new(settings, model->preset->family->settings[i].name,
				    json_real(model->values[i]));
	return json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:I, s:f}", "model", model->preset->name,
			 "settings", settings, "data", l->spec.data.kind, "seed",
			 (json_int_t)l->place.seed, "micro_batch", (json_int_t)l->place.micro_batch,
			 "rank", (json_int_t)l->place.rank, "ranks", (json_int_t)l->place.n_ranks,
			 "skew", l->spec.skew);
}

static int save(const struct lh_learner *l, const struct lh_optimizer *optimizer, const char *path,
		struct lh_error *err)
{
	json_t *settings = settings_to_json(l);
	json_t *progress =
		json_pack("{s:I, s:I, s:I, s:f, s:I}", "steps", (json_int_t)lh_learner_steps(l),
			  "position", (json_int_t)lh_loader_position(l->loader), "batches",
			  (json_int_t)l->n_batches, "loss_scale", l->loss_scale.scale, "good_steps",
			  (json_int_t)l->loss_scale.good_steps);
	int rc = settings && progress
			 ? lh_checkpoint_write(path, l->graph, optimizer, settings, progress, err)
			 : lh_fail(err, LH_ESYS, ENOMEM, "checkpoint");

	json_decref(settings);
	json_decref(progress);
	return rc;
}

int lh_learner_save(const struct lh_learner *l, const char *path, struct lh_error *err)
{
	return save(l, l->optimizer, path, err);
}

int lh_learner_save_model(const struct lh_learner *l, const char *path, struct lh_error *err)
{
	return save(l, NULL, path, err);
}

/* A number of a checkpoint's progress, which the checksum vouches for. */
static uint64_t number_of(const json_t *progress, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(progress, key));
}

int lh_learner_load(struct lh_learner *l, const char *path, struct lh_error *err)
{
	json_t *settings = settings_to_json(l), *progress = NULL;
	int rc = settings ? lh_checkpoint_read(path, l->graph, l->optimizer, settings, &progress,
					       err)
			  : lh_fail(err, LH_ESYS, ENOMEM, "checkpoint");

	if (rc == 0) {
		lh_optimizer_set_steps(l->optimizer, number_of(progress, "steps"));
		lh_loader_seek(l->loader, number_of(progress, "position"));
		l->n_batches = number_of(progress, "batches");
		l->loss_scale.scale = json_number_value(json_object_get(progress, "loss_scale"));
		l->loss_scale.good_steps = (uint32_t)number_of(progress, "good_steps");
		l->n_accumulated = 0;
		rc = lh_graph_zero_gradients(l->graph, err);
	}
	json_decref(settings);
	json_decref(progress);
	return rc;
}

int lh_learner_fingerprint(const struct lh_learner *l, uint64_t *ret_hash, struct lh_error *err)
{
	size_t n = (size_t)lh_graph_n_parameters(l->graph);
	lh_cleanup_free float *weights = malloc(n * sizeof(*weights));
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, by words */
	int rc;

	if (!weights)
		return lh_fail(err, LH_ESYS, ENOMEM, "weights");
	rc = l->device->ops->read(l->device, lh_graph_parameters(l->graph), l->device->master,
				  weights, (int64_t)n, err);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &weights[i], sizeof(bits));
		hash = (hash ^ bits) * 0x100000001b3u;
	}
	*ret_hash = hash;
	return rc;
}
