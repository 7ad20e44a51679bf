/* SPDX-License-Identifier: Apache-2.0 */
/* A learner's state in memory, for another that goes on from it. See learner.h. */
#include <string.h>

#include "trainer/learn/learner_internal.h"
#include "trainer/optim/checkpoint_internal.h"

/* What goes before the tensors. */
struct progress {
	uint64_t steps;
	double loss_scale;
	uint64_t good_steps;
};

static int64_t count_elements(const struct lh_safetensor_entry *entry)
{
	int64_t n = 1;

	for (uint32_t d = 0; d < entry->n_dims; d++)
		n *= entry->dims[d];
	return n;
}

/* Copies all tensors one way or the other; with neither only counts. */
static int move(const struct lh_learner *l, uint8_t *ret_bytes, const uint8_t *bytes,
		uint64_t *ret_size, struct lh_error *err)
{
	struct lh_device *device = l->device;
	struct lh_checkpoint_items items;
	uint64_t at = sizeof(struct progress);
	int rc = lh_checkpoint_items_list(l->graph, l->optimizer, &items, err);

	if (rc)
		return rc;
	for (size_t i = 0; rc == 0 && i < items.n; i++) {
		const struct lh_safetensor_entry *entry = &items.entries[i];
		int64_t n = count_elements(entry);

		if (ret_bytes)
			rc = device->ops->read(device, items.memory[i], entry->dtype,
					       ret_bytes + at, n, err);
		else if (bytes)
			rc = device->ops->write(device, items.memory[i], entry->dtype, bytes + at,
						n, err);
		at += (uint64_t)n * lh_dtype_bytes(entry->dtype);
	}
	*ret_size = at;
	lh_checkpoint_items_done(&items);
	return rc;
}

int lh_learner_count_state(const struct lh_learner *l, uint64_t *ret_bytes, struct lh_error *err)
{
	return move(l, NULL, NULL, ret_bytes, err);
}

int lh_learner_read_state(const struct lh_learner *l, void *ret_bytes, struct lh_error *err)
{
	const struct progress progress = {
		.steps = lh_learner_steps(l),
		.loss_scale = l->loss_scale.scale,
		.good_steps = l->loss_scale.good_steps,
	};
	uint64_t size;

	memcpy(ret_bytes, &progress, sizeof(progress));
	return move(l, ret_bytes, NULL, &size, err);
}

int lh_learner_write_state(struct lh_learner *l, const void *bytes, struct lh_error *err)
{
	struct progress progress;
	uint64_t size;
	int rc = move(l, NULL, bytes, &size, err);

	if (rc)
		return rc;
	memcpy(&progress, bytes, sizeof(progress));
	lh_optimizer_set_steps(l->optimizer, progress.steps);
	/* a power of two within its bounds, or the peer is not to be trusted */
	if (progress.loss_scale >= l->loss_scale.min && progress.loss_scale <= l->loss_scale.max)
		l->loss_scale.scale = progress.loss_scale;
	l->loss_scale.good_steps = (uint32_t)progress.good_steps;
	l->n_accumulated = 0;
	return lh_graph_zero_gradients(l->graph, err);
}

void lh_learner_skip(struct lh_learner *l, uint64_t n_batches)
{
	lh_loader_seek(l->loader, lh_loader_position(l->loader) + n_batches * l->place.micro_batch);
	l->n_batches += n_batches;
}
