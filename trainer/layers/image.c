/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of layers over images [N, H, W, C]. See layers.h. */
#include <inttypes.h>

#include "trainer/layers/layers.h"

static bool is_image(struct lh_graph *graph, const char *layer, const struct lh_tensor *x)
{
	if (x && x->n_dims != 4)
		lh_graph_fail(graph, "%s: an input of %u dimensions; expected N, H, W, C", layer,
			      x->n_dims);
	return x && x->n_dims == 4;
}

static bool has_windows(struct lh_graph *graph, const char *layer, const struct lh_tensor *x,
			int64_t oh, int64_t ow, int64_t kernel_h, int64_t kernel_w)
{
	if (oh < 1 || ow < 1)
		lh_graph_fail(graph,
			      "%s: %" PRId64 "x%" PRId64
			      " pixels are too few for a kernel of %" PRId64 "x%" PRId64,
			      layer, x->dims[1], x->dims[2], kernel_h, kernel_w);
	return oh >= 1 && ow >= 1;
}

static int64_t windows(int64_t size, int64_t kernel, int64_t stride, int64_t pad)
{
	return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}

struct lh_tensor *lh_conv2d(struct lh_graph *graph, const char *name, struct lh_tensor *x,
			    struct lh_conv2d spec, struct lh_init init_weight,
			    struct lh_init init_bias)
{
	struct lh_graph_node *node;
	int64_t weight[4], out[4];

	if (!is_image(graph, name, x))
		return NULL;
	spec.n = x->dims[0];
	spec.h = x->dims[1];
	spec.w = x->dims[2];
	spec.c = x->dims[3];
	if (spec.groups < 1 || spec.c % spec.groups || spec.out_channels % spec.groups)
		return lh_graph_fail(graph, "%s: %" PRId64 " groups of %" PRId64 " channels", name,
				     spec.groups, spec.c);
	spec.oh = windows(spec.h, spec.kernel_h, spec.stride_h, spec.pad_h);
	spec.ow = windows(spec.w, spec.kernel_w, spec.stride_w, spec.pad_w);
	node = lh_node_new(graph, LH_CONV2D, name, &spec, sizeof(spec));
	if (!node ||
	    !has_windows(graph, node->name, x, spec.oh, spec.ow, spec.kernel_h, spec.kernel_w))
		return NULL;
	weight[0] = spec.out_channels;
	weight[1] = spec.kernel_h;
	weight[2] = spec.kernel_w;
	weight[3] = spec.c / spec.groups;
	out[0] = spec.n;
	out[1] = spec.oh;
	out[2] = spec.ow;
	out[3] = spec.out_channels;
	lh_node_add_input(graph, node, x);
	lh_node_add_parameter(graph, node, "weight", 4, weight, init_weight, true);
	if (spec.has_bias)
		lh_node_add_parameter(graph, node, "bias", 1, &spec.out_channels, init_bias, false);
	return lh_node_set_output(graph, node, 4, out);
}

struct lh_tensor *lh_batch_norm(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				struct lh_batch_norm spec)
{
	const struct lh_init zeros = {.kind = LH_INIT_ZEROS}, ones = {.kind = LH_INIT_ONES};
	struct lh_graph_node *node;

	if (!x)
		return NULL;
	spec.c = x->dims[x->n_dims - 1];
	spec.rows = x->n / spec.c;
	node = lh_node_new(graph, LH_BATCH_NORM, name, &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	lh_node_add_parameter(graph, node, "weight", 1, &spec.c, ones, false);
	lh_node_add_parameter(graph, node, "bias", 1, &spec.c, zeros, false);
	lh_node_add_state(graph, node, "running_mean", spec.c, zeros);
	lh_node_add_state(graph, node, "running_var", spec.c, ones);
	lh_node_add_saved(graph, node, spec.c);
	lh_node_add_saved(graph, node, spec.c);
	return lh_node_set_output(graph, node, x->n_dims, x->dims);
}

struct lh_tensor *lh_pool(struct lh_graph *graph, struct lh_tensor *x, bool is_max, int64_t kernel,
			  int64_t stride, int64_t pad)
{
	struct lh_pool spec = {.is_max = is_max, .kernel = kernel, .stride = stride, .pad = pad};
	struct lh_graph_node *node;
	int64_t out[4];

	if (!is_image(graph, "pool", x))
		return NULL;
	spec.n = x->dims[0];
	spec.h = x->dims[1];
	spec.w = x->dims[2];
	spec.c = x->dims[3];
	if (kernel < 0 || (kernel > 0 && (stride < 1 || pad < 0 || 2 * pad > kernel)))
		return lh_graph_fail(graph,
				     "pool: kernel %" PRId64 ", stride %" PRId64 ", pad %" PRId64,
				     kernel, stride, pad);
	spec.oh = kernel ? windows(spec.h, kernel, stride, pad) : 1;
	spec.ow = kernel ? windows(spec.w, kernel, stride, pad) : 1;
	if (!has_windows(graph, "pool", x, spec.oh, spec.ow, kernel, kernel))
		return NULL;
	out[0] = spec.n;
	out[1] = kernel ? spec.oh : spec.c;
	out[2] = spec.ow;
	out[3] = spec.c;
	node = lh_node_new(graph, LH_POOL, "", &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	return lh_node_set_output(graph, node, kernel ? 4 : 2, out);
}

struct lh_tensor *lh_shortcut(struct lh_graph *graph, struct lh_tensor *x, int64_t stride,
			      int64_t out_channels)
{
	struct lh_shortcut spec = {.stride = stride, .out_channels = out_channels};
	struct lh_graph_node *node;

	if (!is_image(graph, "shortcut", x))
		return NULL;
	spec.n = x->dims[0];
	spec.h = x->dims[1];
	spec.w = x->dims[2];
	spec.c = x->dims[3];
	if (stride < 1 || out_channels < spec.c || (out_channels - spec.c) % 2)
		return lh_graph_fail(graph,
				     "shortcut: stride %" PRId64 ", %" PRId64 " to %" PRId64
				     " channels",
				     stride, spec.c, out_channels);
	spec.oh = (spec.h + stride - 1) / stride;
	spec.ow = (spec.w + stride - 1) / stride;
	node = lh_node_new(graph, LH_SHORTCUT, "", &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	return lh_node_set_output(graph, node, 4,
				  (const int64_t[]){spec.n, spec.oh, spec.ow, out_channels});
}
