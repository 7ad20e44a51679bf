/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of a workload that really trains. See docs/formats.md for examples. */
#include "scenarios/schema_internal.h"

/* clang-format off */

/* A test holds this list and the engine's table of datasets together. */
static const struct lh_choice datasets[] = {
	{"mnist", 0}, {"cifar10", 0}, {"webdataset", 0}, {"text", 0}, {"ctr", 0}, {"speech", 0},
	{"synthetic-images", 0}, {"synthetic-text", 0}, {"synthetic-ctr", 0},
	{"synthetic-speech", 0}, {NULL, 0},
};

static const struct lh_field train_data_fields[] = {
	{.key = "kind", .type = LH_FIELD_WORD, .flags = REQUIRED,
	 AT(struct lh_train_data, kind), .choices = datasets, .doc = "form of the data set"},
	{.key = "path", .type = LH_FIELD_STRING, AT(struct lh_train_data, path),
	 .doc = "its file or folder, seen from this file; not of synthetic ones"},
	{.key = "vocabulary", .type = LH_FIELD_STRING, AT(struct lh_train_data, vocabulary),
	 .doc = "of a byte-pair tokeniser, a file; without: bytes"},
	{.key = "samples", .type = LH_FIELD_INTEGER, AT(struct lh_train_data, samples),
	 .min = 1, .max = 1000000000,
	 .doc = "no more than these; of synthetic data: exactly these"},
	{.key = "test_samples", .type = LH_FIELD_INTEGER, AT(struct lh_train_data, test_samples),
	 .min = 1, .max = 1000000000, .doc = "no more than these of the test data; all where absent"},
	{.key = "skew", .type = LH_FIELD_NUMBER, AT(struct lh_train_data, skew),
	 .doc = "how unlike the sites' labels are: the alpha of a Dirichlet distribution (the "
		"smaller, the more unlike); without: all ranks share one random order"},
	{.key = "augment", .type = LH_FIELD_BOOLEAN, AT(struct lh_train_data, augment),
	 .fallback = "false",
	 .doc = "images are shifted by up to an eighth and mirrored, spectrograms of speech shifted "
		"by up to a sixteenth and an eighth made silent, at random"},
	END,
};

static const struct lh_section train_data_section = {
	"training data", "What is learnt from.", sizeof(struct lh_train_data), LH_NO_OFFSET, NULL,
	LH_NO_OFFSET, train_data_fields,
};

/* A test holds this list and the engine's table of optimizers together. */
static const struct lh_choice optimizers[] = {
	{"sgd", 0}, {"adamw", 0}, {"lamb", 0}, {"lars", 0}, {NULL, 0},
};

static const struct lh_field optimizer_fields[] = {
	{.key = "kind", .type = LH_FIELD_WORD, .flags = REQUIRED,
	 AT(struct lh_train_optimizer, kind), .choices = optimizers, .doc = "its formula"},
	{.key = "lr", .type = LH_FIELD_NUMBER, AT(struct lh_train_optimizer, lr),
	 .doc = "highest learning rate; the optimizer's default where absent, as for all that follow"},
	{.key = "momentum", .type = LH_FIELD_NUMBER, AT(struct lh_train_optimizer, momentum),
	 .doc = "of sgd and lars, 0 to less than 1"},
	{.key = "nesterov", .type = LH_FIELD_BOOLEAN, AT(struct lh_train_optimizer, nesterov),
	 .fallback = "false", .doc = "of sgd: look ahead along the momentum"},
	{.key = "beta1", .type = LH_FIELD_NUMBER, AT(struct lh_train_optimizer, beta1),
	 .doc = "of adamw and lamb: decay of the mean gradient"},
	{.key = "beta2", .type = LH_FIELD_NUMBER, AT(struct lh_train_optimizer, beta2),
	 .doc = "of adamw and lamb: decay of the mean square"},
	{.key = "eps", .type = LH_FIELD_NUMBER, AT(struct lh_train_optimizer, eps),
	 .doc = "added where it is divided by"},
	{.key = "weight_decay", .type = LH_FIELD_NUMBER,
	 AT(struct lh_train_optimizer, weight_decay), .doc = "of weights, not of biases and norms"},
	{.key = "trust", .type = LH_FIELD_NUMBER, AT(struct lh_train_optimizer, trust),
	 .doc = "of lars: the trust coefficient"},
	{.key = "clip_norm", .type = LH_FIELD_NUMBER, AT(struct lh_train_optimizer, clip_norm),
	 .doc = "largest norm of the whole gradient"},
	END,
};

static const struct lh_section optimizer_section = {
	"an optimizer", "How weights follow from gradients.", sizeof(struct lh_train_optimizer),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, optimizer_fields,
};

/* A test holds this list and the engine's table of schedules together. */
static const struct lh_choice schedules[] = {
	{"constant", 0}, {"cosine", 0}, {"linear", 0}, {"polynomial", 0}, {NULL, 0},
};

static const struct lh_field schedule_fields[] = {
	{.key = "kind", .type = LH_FIELD_WORD, .flags = REQUIRED,
	 AT(struct lh_train_schedule, kind), .choices = schedules,
	 .doc = "how the learning rate falls, over all epochs"},
	{.key = "warm_up", .type = LH_FIELD_INTEGER, AT(struct lh_train_schedule, warm_up),
	 .fallback = "0", .max = 1000000, .doc = "epochs in which it rises first"},
	{.key = "final", .type = LH_FIELD_RATIO, AT(struct lh_train_schedule, final_ratio),
	 .fallback = "0 %", .doc = "what is left of it at the end"},
	{.key = "power", .type = LH_FIELD_NUMBER, AT(struct lh_train_schedule, power),
	 .fallback = "1", .doc = "of polynomial"},
	END,
};

static const struct lh_section schedule_section = {
	"a schedule", "The learning rate over the epochs.", sizeof(struct lh_train_schedule),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, schedule_fields,
};

/* A test holds this list and the engine's table of devices together. */
static const struct lh_choice devices[] = {{"cpu", 0}, {"cuda", 0}, {"reference", 0}, {NULL, 0}};

static const struct lh_choice precisions[] = {{"fp32", 0}, {"fp16", 0}, {"bf16", 0}, {NULL, 0}};

static const struct lh_field train_fields[] = {
	{.key = "settings", .type = LH_FIELD_TREE, AT(struct lh_train_spec, settings),
	 .doc = "sizes of the model by name, such as {classes: 10, image: 32} (longhaul train "
		"MODEL --help lists them)"},
	{.key = "data", .type = LH_FIELD_SECTION, .flags = REQUIRED,
	 AT(struct lh_train_spec, data), .section = &train_data_section,
	 .doc = "what is learnt from"},
	{.key = "optimizer", .type = LH_FIELD_SECTION, .flags = REQUIRED,
	 AT(struct lh_train_spec, optimizer), .section = &optimizer_section,
	 .doc = "how weights follow from gradients"},
	{.key = "schedule", .type = LH_FIELD_SECTION, AT(struct lh_train_spec, schedule),
	 .section = &schedule_section, .doc = "the learning rate over the epochs; constant where absent"},
	{.key = "evaluate", .type = LH_FIELD_INTEGER, AT(struct lh_train_spec, evaluate),
	 .fallback = "10", .min = 1, .max = 1000000,
	 .doc = "epochs between two looks at the test data; one more comes at the end. They take no "
		"time of the run's clock"},
	{.key = "device", .type = LH_FIELD_WORD, AT(struct lh_train_spec, device),
	 .fallback = "cpu", .choices = devices,
	 .doc = "what computes; cuda needs `run: {nodes: host, clock: real}`: the guest has no GPU"},
	{.key = "precision", .type = LH_FIELD_WORD, AT(struct lh_train_spec, precision),
	 .fallback = "fp32", .choices = precisions,
	 .doc = "of activations; fp16 and bf16 on cuda alone, where weights stay fp32"},
	{.key = "portable", .type = LH_FIELD_BOOLEAN, AT(struct lh_train_spec, is_portable),
	 .fallback = "false",
	 .doc = "compute with what every x86-64-v3 machine has, for the same bits on all"},
	END,
};

const struct lh_section lh_train_section = {
	"training", "What is learnt, from what, and how.", sizeof(struct lh_train_spec),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, train_fields,
};

/* clang-format on */
