/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LeNet-5 in its common form: ReLU and max pooling in place of the paper's sigmoids and trained
 * pooling. Source: LeCun, Bottou, Bengio, Haffner 1998, section II.
 */
#include <inttypes.h>

#include "trainer/models/models_internal.h"

enum { KERNEL = 5, PADDED_IMAGE = 32, FLAT = 5 * 5 * 16 };

static const struct lh_model_setting settings[] = {
	{"image", 28, 28, PADDED_IMAGE, true, "pixels of a side: 28, which is padded, or 32"},
	{"channels", 1, 1, 64, true, "of a pixel"},
	{"classes", 10, 2, LH_MODEL_CLASSES_MAX, true, "of the labels"},
	{0},
};

static struct lh_tensor *convolve(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				  int64_t out_channels, int64_t pad)
{
	struct lh_conv2d spec = {.out_channels = out_channels,
				 .kernel_h = KERNEL,
				 .kernel_w = KERNEL,
				 .stride_h = 1,
				 .stride_w = 1,
				 .pad_h = pad,
				 .pad_w = pad,
				 .groups = 1,
				 .has_bias = true};
	struct lh_init init;

	if (!x)
		return NULL;
	init = lh_init_fan_in(KERNEL * KERNEL * x->dims[3]);
	x = lh_activate(graph, lh_conv2d(graph, name, x, spec, init, init), LH_RELU);
	return lh_pool(graph, x, true, 2, 2, 0);
}

static void build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		  struct lh_built_model *ret_model)
{
	int64_t image = lh_model_size(config, "image");
	struct lh_tensor *x = lh_model_images(graph, config, batch);

	if (image != 28 && image != PADDED_IMAGE) {
		lh_graph_fail(graph, "image=%" PRId64 ": expected 28 or %d", image, PADDED_IMAGE);
		return;
	}
	x = convolve(graph, "conv1", x, 6, (PADDED_IMAGE - image) / 2);
	x = convolve(graph, "conv2", x, 16, 0);
	x = lh_reshape(graph, x, 2, (const int64_t[]){batch, FLAT});
	x = lh_activate(graph, lh_model_linear_fan_in(graph, "fc1", x, 120), LH_RELU);
	x = lh_activate(graph, lh_model_linear_fan_in(graph, "fc2", x, 84), LH_RELU);
	x = lh_model_linear_fan_in(graph, "fc3", x, lh_model_size(config, "classes"));
	lh_model_classify(graph, batch, x, ret_model);
}

const struct lh_model_family lh_family_lenet5 = {
	.name = "lenet5", .task = LH_TASK_IMAGES, .settings = settings, .build = build};
