/* SPDX-License-Identifier: Apache-2.0 */
/* ConvNeXt. Source: Liu et al. 2022, arXiv 2201.03545; stochastic depth: arXiv 1603.09382. */
#include "trainer/models/models_internal.h"

enum { STAGES = 4, INNER_RATIO = 4, DEPTHWISE_KERNEL = 7 };
static const double DEVIATION = 0.02, EPS = 1e-6;

static const struct lh_model_setting settings[] = {
	{"image", 224, 8, LH_MODEL_IMAGE_MAX, true, "pixels of a side"},
	{"channels", 3, 1, 64, true, "of a pixel"},
	{"classes", 1000, 2, LH_MODEL_CLASSES_MAX, true, "of the labels"},
	{"width", 192, 1, LH_MODEL_WIDTH_MAX / 8, true,
	 "channels of the first stage; each next one has twice as many"},
	{"stage1", 3, 1, LH_MODEL_DEPTH_MAX, true, "blocks of the first stage"},
	{"stage2", 3, 0, LH_MODEL_DEPTH_MAX, true, "blocks of the second stage; 0: no such stage"},
	{"stage3", 27, 0, LH_MODEL_DEPTH_MAX, true, "blocks of the third stage"},
	{"stage4", 3, 0, LH_MODEL_DEPTH_MAX, true, "blocks of the fourth stage"},
	{"patch", 4, 1, 64, true, "pixels of a side that the stem makes one"},
	{"layer_scale", 1e-6, 0, 1, false, "what branches are multiplied by at first"},
	{"stochastic_depth", 0.5, 0, LH_MODEL_DROPOUT_MAX, false,
	 "the probability that a sample skips the last block; it grows from 0 at the first"},
	{0},
};
static const char *const stages[STAGES] = {"stage1", "stage2", "stage3", "stage4"};

static struct lh_tensor *convolve(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				  int64_t out_channels, int64_t kernel, bool is_depthwise)
{
	struct lh_conv2d spec = {.out_channels = out_channels,
				 .kernel_h = kernel,
				 .kernel_w = kernel,
				 .stride_h = is_depthwise ? 1 : kernel,
				 .stride_w = is_depthwise ? 1 : kernel,
				 .pad_h = is_depthwise ? kernel / 2 : 0,
				 .pad_w = is_depthwise ? kernel / 2 : 0,
				 .groups = is_depthwise ? out_channels : 1,
				 .has_bias = true};

	return lh_conv2d(graph, name, x, spec, lh_init_normal(DEVIATION), lh_init_zeros());
}

static struct lh_tensor *map(struct lh_graph *graph, const char *name, struct lh_tensor *x,
			     int64_t out_features)
{
	struct lh_linear spec = {.out_features = out_features, .has_bias = true};

	return lh_linear(graph, name, x, spec, lh_init_normal(DEVIATION), lh_init_zeros());
}

static struct lh_tensor *build_block(struct lh_graph *graph, struct lh_tensor *x, int64_t width,
				     double layer_scale, double drop)
{
	struct lh_tensor *y = convolve(graph, "dwconv", x, width, DEPTHWISE_KERNEL, true);

	y = lh_layer_norm(graph, "norm", y, EPS);
	y = lh_activate(graph, map(graph, "up", y, INNER_RATIO * width), LH_GELU);
	y = lh_scale(graph, "layer_scale", map(graph, "down", y, width), layer_scale);
	return lh_add(graph, lh_dropout(graph, y, drop, true), x, false);
}

static struct lh_tensor *build_downsample(struct lh_graph *graph, struct lh_tensor *x, int stage,
					  int64_t width)
{
	lh_graph_enter(graph, "downsample.%d", stage - 1);
	x = convolve(graph, "1", lh_layer_norm(graph, "0", x, EPS), width, 2, false);
	lh_graph_leave(graph);
	return x;
}

static struct lh_tensor *build_stem(struct lh_graph *graph, const struct lh_model_config *config,
				    struct lh_tensor *x)
{
	lh_graph_enter(graph, "stem");
	x = convolve(graph, "0", x, lh_model_size(config, "width"), lh_model_size(config, "patch"),
		     false);
	x = lh_layer_norm(graph, "1", x, EPS);
	lh_graph_leave(graph);
	return x;
}

static void build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		  struct lh_built_model *ret_model)
{
	int64_t width = lh_model_size(config, "width"), n_all = 0, n_before = 0;
	double scale = lh_model_setting(config, "layer_scale");
	double drop = lh_model_setting(config, "stochastic_depth");
	struct lh_tensor *x = build_stem(graph, config, lh_model_images(graph, config, batch));

	for (int s = 0; s < STAGES && lh_model_size(config, stages[s]) > 0; s++)
		n_all += lh_model_size(config, stages[s]);
	for (int s = 0; s < STAGES && lh_model_size(config, stages[s]) > 0; s++) {
		if (s > 0)
			x = build_downsample(graph, x, s, width << s);
		for (int64_t i = 0; i < lh_model_size(config, stages[s]); i++, n_before++) {
			double depth = n_all > 1 ? (double)n_before / (double)(n_all - 1) : 0;

			lh_graph_enter(graph, "stages.%d.%d", s, (int)i);
			x = build_block(graph, x, width << s, scale, drop * depth);
			lh_graph_leave(graph);
		}
	}
	x = lh_layer_norm(graph, "norm", lh_pool(graph, x, false, 0, 0, 0), EPS);
	x = map(graph, "head", x, lh_model_size(config, "classes"));
	lh_model_classify(graph, batch, x, ret_model);
}

const struct lh_model_family lh_family_convnext = {
	.name = "convnext", .task = LH_TASK_IMAGES, .settings = settings, .build = build};
