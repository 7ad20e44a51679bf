/* SPDX-License-Identifier: Apache-2.0 */
/* A learner looks at its test data. See learner.h. */
#include <math.h>
#include <string.h>

#include "trainer/learn/learner_internal.h"

/* Fills a batch with n test samples; what is left over repeats the first, not counted. */
static int fill_test_batch(struct lh_learner *l, uint32_t n, struct lh_error *err)
{
	struct lh_learner_batch *b = &l->batch;
	int rc = lh_loader_next(l->test_loader, n, b->fields, err);

	for (uint32_t i = 0; rc == 0 && i < b->n_fields; i++) {
		char *field = b->fields[i];
		size_t bytes = b->sample_bytes[i];

		for (uint32_t k = n; k < l->place.micro_batch; k++) {
			if (b->is_target[i])
				memset(field + k * bytes, 0xff, bytes); /* -1: not counted */
			else
				memcpy(field + k * bytes, field, bytes);
		}
	}
	return rc ? rc : lh_learner_write_inputs(l, err);
}

static const int32_t *find_targets(const struct lh_learner *l)
{
	for (uint32_t i = 0; i < l->batch.n_fields; i++)
		if (l->batch.is_target[i])
			return l->batch.fields[i];
	return NULL;
}

/* The next n test samples, added to the sums. */
static int test(struct lh_learner *l, uint32_t n, struct lh_loss *sums, struct lh_error *err)
{
	const struct lh_pass pass = {.is_training = false};
	struct lh_loss loss;
	int rc;

	if ((rc = fill_test_batch(l, n, err)) || (rc = lh_graph_forward(l->graph, &pass, err)) ||
	    (rc = lh_loss_read(l->graph, l->model.loss, &loss, err)) ||
	    (rc = lh_quality_add(l->quality, l->graph, &l->model, find_targets(l), n, err)))
		return rc;
	sums->mean += loss.mean * loss.n_counted;
	sums->n_counted += loss.n_counted;
	sums->n_right += loss.n_right;
	return 0;
}

int lh_learner_evaluate(struct lh_learner *l, struct lh_score *ret_score, struct lh_error *err)
{
	uint64_t n_left = l->test_loader ? lh_dataset_size(l->test_data) : 0;
	struct lh_quality_values values;
	struct lh_loss sums = {0};

	if (!l->test_loader)
		return lh_fail(err, LH_ERUN, 0, "this part of the training has no test data");
	*ret_score = (struct lh_score){.n_samples = n_left};
	lh_loader_seek(l->test_loader, 0);
	lh_quality_clear(l->quality);
	while (n_left) {
		uint32_t n =
			n_left < l->place.micro_batch ? (uint32_t)n_left : l->place.micro_batch;
		int rc = test(l, n, &sums, err);

		if (rc)
			return rc;
		n_left -= n;
	}
	lh_quality_take(l->quality, &values);
	ret_score->n_counted = sums.n_counted;
	ret_score->loss = sums.n_counted > 0 ? sums.mean / sums.n_counted : 0;
	ret_score->accuracy = sums.n_counted > 0 ? sums.n_right / sums.n_counted : 0;
	ret_score->bits_per_byte = values.n_bytes > 0 ? sums.mean / log(2) / values.n_bytes : NAN;
	ret_score->word_accuracy = values.word_accuracy;
	return 0;
}
