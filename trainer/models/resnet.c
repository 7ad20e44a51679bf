/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residual networks: of basic blocks or bottlenecks (the stride in the 3x3 convolution), for
 * ImageNet or for 32x32 images. Source: He et al. 2015, arXiv 1512.03385; inner_ratio: Zagoruyko,
 * Komodakis 2016, arXiv 1605.07146; initial values: He et al. 2015, arXiv 1502.01852.
 */
#include <math.h>

#include "trainer/models/models_internal.h"

enum { STAGES = 4, BOTTLENECK_EXPANSION = 4 };
static const struct lh_batch_norm NORM = {.eps = 1e-5, .momentum = 0.1};
static const struct lh_batch_norm NORM_RELU = {.eps = 1e-5, .momentum = 0.1, .has_relu = true};

static const struct lh_model_setting settings[] = {
	{"image", 224, 8, LH_MODEL_IMAGE_MAX, true, "pixels of a side"},
	{"channels", 3, 1, 64, true, "of a pixel"},
	{"classes", 1000, 2, LH_MODEL_CLASSES_MAX, true, "of the labels"},
	{"width", 64, 1, LH_MODEL_WIDTH_MAX / 64, true,
	 "channels of the first stage; each next one has twice as many"},
	{"bottleneck", 0, 0, 1, true, "blocks of 1x1, 3x3 and 1x1 convolutions instead of two 3x3"},
	{"inner_ratio", 1, 1, 16, true, "times as many channels inside a block"},
	{"stage1", 2, 1, LH_MODEL_DEPTH_MAX, true, "blocks of the first stage"},
	{"stage2", 2, 0, LH_MODEL_DEPTH_MAX, true, "blocks of the second stage; 0: no such stage"},
	{"stage3", 2, 0, LH_MODEL_DEPTH_MAX, true, "blocks of the third stage"},
	{"stage4", 2, 0, LH_MODEL_DEPTH_MAX, true, "blocks of the fourth stage"},
	{"small_stem", 0, 0, 1, true,
	 "for small images: a 3x3 convolution instead of 7x7 and pooling, each halving"},
	{"zero_pad", 0, 0, 1, true,
	 "shortcuts pad new channels with zeros instead of learning a projection"},
	{0},
};

/* What all blocks of a model have in common. */
struct blocks {
	bool is_bottleneck, has_zero_pad;
	int64_t inner_ratio;
};

/* Without bias; kernel x kernel, zeros around so that a stride of 1 keeps the size. */
static struct lh_tensor *convolve(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				  int64_t out_channels, int64_t kernel, int64_t stride)
{
	struct lh_conv2d spec = {.out_channels = out_channels,
				 .kernel_h = kernel,
				 .kernel_w = kernel,
				 .stride_h = stride,
				 .stride_w = stride,
				 .pad_h = kernel / 2,
				 .pad_w = kernel / 2,
				 .groups = 1};
	double fan_out = (double)(out_channels * kernel * kernel);

	return lh_conv2d(graph, name, x, spec, lh_init_normal(sqrt(2 / fan_out)), lh_init_zeros());
}

static struct lh_tensor *build_shortcut(struct lh_graph *graph, const struct blocks *blocks,
					struct lh_tensor *x, int64_t out_channels, int64_t stride)
{
	if (!x || (stride == 1 && x->dims[3] == out_channels))
		return x;
	if (blocks->has_zero_pad)
		return lh_shortcut(graph, x, stride, out_channels);
	lh_graph_enter(graph, "shortcut");
	x = convolve(graph, "conv", x, out_channels, 1, stride);
	x = lh_batch_norm(graph, "bn", x, NORM);
	lh_graph_leave(graph);
	return x;
}

/* width: channels of the block's stage. */
static struct lh_tensor *build_block(struct lh_graph *graph, const struct blocks *blocks,
				     struct lh_tensor *x, int64_t width, int64_t stride)
{
	int64_t inner = width * blocks->inner_ratio;
	int64_t outer = width * (blocks->is_bottleneck ? BOTTLENECK_EXPANSION : 1);
	struct lh_tensor *y, *passed = build_shortcut(graph, blocks, x, outer, stride);

	if (blocks->is_bottleneck) {
		y = convolve(graph, "conv1", x, inner, 1, 1);
		y = lh_batch_norm(graph, "bn1", y, NORM_RELU);
		y = convolve(graph, "conv2", y, inner, 3, stride);
		y = lh_batch_norm(graph, "bn2", y, NORM_RELU);
		y = convolve(graph, "conv3", y, outer, 1, 1);
		y = lh_batch_norm(graph, "bn3", y, NORM);
	} else {
		y = convolve(graph, "conv1", x, inner, 3, stride);
		y = lh_batch_norm(graph, "bn1", y, NORM_RELU);
		y = convolve(graph, "conv2", y, outer, 3, 1);
		y = lh_batch_norm(graph, "bn2", y, NORM);
	}
	return lh_add(graph, y, passed, true);
}

static struct lh_tensor *build_stem(struct lh_graph *graph, const struct lh_model_config *config,
				    struct lh_tensor *x)
{
	bool is_small = lh_model_size(config, "small_stem") != 0;

	x = convolve(graph, "conv1", x, lh_model_size(config, "width"), is_small ? 3 : 7,
		     is_small ? 1 : 2);
	x = lh_batch_norm(graph, "bn1", x, NORM_RELU);
	return is_small ? x : lh_pool(graph, x, true, 3, 2, 1);
}

static void build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		  struct lh_built_model *ret_model)
{
	static const char *const stages[STAGES] = {"stage1", "stage2", "stage3", "stage4"};
	struct blocks blocks = {.is_bottleneck = lh_model_size(config, "bottleneck") != 0,
				.has_zero_pad = lh_model_size(config, "zero_pad") != 0,
				.inner_ratio = lh_model_size(config, "inner_ratio")};
	int64_t width = lh_model_size(config, "width");
	struct lh_tensor *x = build_stem(graph, config, lh_model_images(graph, config, batch));

	for (int s = 0; s < STAGES && lh_model_size(config, stages[s]) > 0; s++) {
		for (int64_t i = 0; i < lh_model_size(config, stages[s]); i++) {
			lh_graph_enter(graph, "layer%d.%d", s + 1, (int)i);
			x = build_block(graph, &blocks, x, width << s, s > 0 && i == 0 ? 2 : 1);
			lh_graph_leave(graph);
		}
	}
	x = lh_pool(graph, x, false, 0, 0, 0);
	x = lh_model_linear_fan_in(graph, "fc", x, lh_model_size(config, "classes"));
	lh_model_classify(graph, batch, x, ret_model);
}

const struct lh_model_family lh_family_resnet = {
	.name = "resnet", .task = LH_TASK_IMAGES, .settings = settings, .build = build};
