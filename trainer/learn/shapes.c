/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of a learner's parameters, and their layers. See learner.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/compress/low_rank.h"
#include "trainer/learn/learner.h"
#include "trainer/strategy/fragments.h"

static int compare(const void *a, const void *b)
{
	const struct lh_tensor *const *x = a, *const *y = b;

	return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

int lh_learner_shapes(const struct lh_learner *learner, struct lh_matrix_shape **ret_shapes,
		      size_t *ret_n, struct lh_error *err)
{
	uint32_t n_tensors;
	struct lh_tensor *const *tensors = lh_graph_tensors(lh_learner_graph(learner), &n_tensors);
	const struct lh_tensor **parameters = calloc((size_t)n_tensors + 1, sizeof(*parameters));
	struct lh_matrix_shape *shapes = calloc((size_t)n_tensors + 1, sizeof(*shapes));
	size_t n = 0;

	if (!parameters || !shapes) {
		free(parameters);
		free(shapes);
		return lh_fail(err, LH_ESYS, ENOMEM, "list tensors");
	}
	for (uint32_t i = 0; i < n_tensors; i++)
		if (tensors[i]->role == LH_PARAMETER)
			parameters[n++] = tensors[i];
	qsort(parameters, n, sizeof(*parameters), compare);
	for (size_t i = 0; i < n; i++) {
		shapes[i].rows = (uint32_t)parameters[i]->dims[0];
		shapes[i].columns = (uint32_t)(parameters[i]->n / parameters[i]->dims[0]);
	}
	free(parameters);
	*ret_shapes = shapes;
	*ret_n = n;
	return 0;
}

/* Whether two parameters' names differ in the last word alone. */
static bool is_of_one_layer(const char *a, const char *b)
{
	const char *end_a = strrchr(a, '.'), *end_b = strrchr(b, '.');

	return end_a && end_b && end_a - a == end_b - b && memcmp(a, b, (size_t)(end_a - a)) == 0;
}

int lh_learner_layers(const struct lh_learner *learner, struct lh_layer_run **ret_runs,
		      size_t *ret_n, struct lh_error *err)
{
	uint32_t n_tensors, layer = 0;
	struct lh_tensor *const *tensors = lh_graph_tensors(lh_learner_graph(learner), &n_tensors);
	struct lh_layer_run *runs = calloc((size_t)n_tensors + 1, sizeof(*runs));
	const struct lh_tensor *last = NULL;
	size_t n = 0;

	if (!runs)
		return lh_fail(err, LH_ESYS, ENOMEM, "list layers");
	for (uint32_t i = 0; i < n_tensors; i++) {
		const struct lh_tensor *t = tensors[i];

		if (t->role != LH_PARAMETER)
			continue;
		if (last && !is_of_one_layer(last->name, t->name))
			layer++;
		runs[n++] = (struct lh_layer_run){{(uint64_t)t->at, (uint64_t)t->n}, layer};
		last = t;
	}
	*ret_runs = runs;
	*ret_n = n;
	return 0;
}
