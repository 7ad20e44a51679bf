/* SPDX-License-Identifier: Apache-2.0 */
/* What the families of models share. */
#ifndef LH_TRAINER_MODELS_INTERNAL_H
#define LH_TRAINER_MODELS_INTERNAL_H

#include "trainer/layers/layers.h"
#include "trainer/models/model.h"

/* The most that settings of the kind may be. */
enum {
	LH_MODEL_CLASSES_MAX = 1000000,
	LH_MODEL_WIDTH_MAX = 65536,
	LH_MODEL_IMAGE_MAX = 4096,
	LH_MODEL_SEQUENCE_MAX = 65536,
	LH_MODEL_VOCABULARY_MAX = 4000000,
	LH_MODEL_DEPTH_MAX = 256,
};
#define LH_MODEL_DROPOUT_MAX 0.95

extern const struct lh_model_family lh_family_lenet5;
extern const struct lh_model_family lh_family_resnet;
extern const struct lh_model_family lh_family_convnext;
extern const struct lh_model_family lh_family_roberta;
extern const struct lh_model_family lh_family_gpt2;
extern const struct lh_model_family lh_family_whisper;
extern const struct lh_model_family lh_family_deepfm;

static inline struct lh_init lh_init_normal(double deviation)
{
	return (struct lh_init){.kind = LH_INIT_NORMAL, .scale = deviation};
}

static inline struct lh_init lh_init_zeros(void)
{
	return (struct lh_init){.kind = LH_INIT_ZEROS};
}

/* Uniform within 1 / sqrt(fan_in): the initial weights and biases of LeCun's layers. */
struct lh_init lh_init_fan_in(int64_t fan_in);

/* The inputs of LH_TASK_IMAGES and the loss: square images, the settings image and channels. */
struct lh_tensor *lh_model_images(struct lh_graph *graph, const struct lh_model_config *config,
				  int64_t batch);
void lh_model_classify(struct lh_graph *graph, int64_t batch, struct lh_tensor *logits,
		       struct lh_built_model *ret_model);

/* A linear layer from all that x has for a sample to `classes` logits, weights and bias by
 * lh_init_fan_in. */
struct lh_tensor *lh_model_linear_fan_in(struct lh_graph *graph, const char *name,
					 struct lh_tensor *x, int64_t out_features);

#endif
