/* SPDX-License-Identifier: Apache-2.0 */
/* What kinds of layers need and allow, and what losses tell. See layers.h. */
#include "trainer/layers/layers.h"

enum { IN_0 = 1, IN_1 = 2, IN_2 = 4, ALL_IN = 7 };

/* clang-format off */
static const struct lh_layer_kind kinds[LH_N_LAYERS] = {
	[LH_CONV2D] = {"conv2d", .backward_needs_in = IN_0},
	[LH_LINEAR] = {"linear", .backward_needs_in = IN_0},
	[LH_BATCH_NORM] = {"batch_norm", .backward_needs_in = IN_0, .changes_gradient = true},
	[LH_LAYER_NORM] = {"layer_norm", .backward_needs_in = IN_0, .changes_gradient = true},
	[LH_ACTIVATE] = {"activate", .backward_needs_in = IN_0, .changes_gradient = true},
	[LH_ADD] = {"add", .runs_in_place = true, .passes_gradient = true},
	[LH_SCALE] = {"scale", .backward_needs_in = IN_0, .changes_gradient = true},
	[LH_DROPOUT] = {"dropout", .runs_in_place = true, .changes_gradient = true},
	[LH_POOL] = {"pool"},
	[LH_SHORTCUT] = {"shortcut"},
	[LH_EMBEDDING] = {"embedding", .backward_needs_in = IN_0},
	[LH_FIELD_EMBEDDING] = {"field_embedding", .backward_needs_in = IN_0 | IN_1},
	[LH_ATTENTION] = {"attention", .backward_needs_in = ALL_IN | 8, .backward_needs_out = true},
	[LH_CONCAT] = {"concat"},
	[LH_FACTORIZATION] = {"factorization", .backward_needs_in = IN_0},
	[LH_CROSS_ENTROPY] = {"cross_entropy", .backward_needs_in = IN_0 | IN_1},
	[LH_BINARY_CROSS_ENTROPY] = {"binary_cross_entropy", .backward_needs_in = IN_0 | IN_1},
};
/* clang-format on */

/* ReLU and what includes it need no more than the sign of what came out. */
static const struct lh_layer_kind batch_norm_relu = {"batch_norm", .backward_needs_in = IN_0,
						     .backward_needs_out = true,
						     .changes_gradient = true};
static const struct lh_layer_kind add_relu = {"add", .backward_needs_out = true,
					      .runs_in_place = true, .passes_gradient = true,
					      .changes_gradient = true};
static const struct lh_layer_kind activate_by_output = {
	"activate", .backward_needs_out = true, .runs_in_place = true, .changes_gradient = true};
static const struct lh_layer_kind max_pool = {"pool", .backward_needs_in = IN_0};

const struct lh_layer_kind *lh_layer_kind(enum lh_layer layer, const void *spec)
{
	switch (layer) {
	case LH_BATCH_NORM:
		return ((const struct lh_batch_norm *)spec)->has_relu ? &batch_norm_relu
								      : &kinds[layer];
	case LH_ADD:
		return ((const struct lh_add *)spec)->has_relu ? &add_relu : &kinds[layer];
	case LH_ACTIVATE:
		switch (((const struct lh_activate *)spec)->f) {
		case LH_RELU:
		case LH_SIGMOID:
		case LH_TANH:
			return &activate_by_output;
		case LH_IDENTITY:
		case LH_GELU:
		case LH_GELU_TANH:
			break;
		}
		return &kinds[layer];
	case LH_POOL:
		return ((const struct lh_pool *)spec)->is_max ? &max_pool : &kinds[layer];
	default:
		return &kinds[layer];
	}
}

int lh_loss_read(struct lh_graph *graph, const struct lh_tensor *loss, struct lh_loss *ret_loss,
		 struct lh_error *err)
{
	uint32_t n_nodes;
	const struct lh_graph_node *node = lh_graph_nodes(graph, &n_nodes)[loss->producer];
	const struct lh_tensor *sums = node->saved[0];
	double wide[3];
	float narrow[3];
	int rc = lh_tensor_read(graph, sums, LH_DATA,
				sums->dtype == LH_F64 ? (void *)wide : (void *)narrow, err);

	if (rc)
		return rc;
	for (int i = 0; sums->dtype != LH_F64 && i < 3; i++)
		wide[i] = narrow[i];
	*ret_loss = (struct lh_loss){wide[1] > 0 ? wide[0] / wide[1] : 0, wide[1], wide[2]};
	return 0;
}

uint64_t lh_dropout_key(const struct lh_pass *pass, uint32_t position)
{
	uint64_t key = pass->seed * 0x9e3779b97f4a7c15u + pass->step;

	key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93u + position;
	key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93u;
	return key ^ (key >> 32);
}

uint32_t lh_dropout_threshold(double p)
{
	return (uint32_t)(p * 4294967296.0);
}
