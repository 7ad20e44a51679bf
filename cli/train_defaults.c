/* SPDX-License-Identifier: Apache-2.0 */
/* What training begins with. See train_defaults.h. */
#include "cli/train_defaults.h"

#include <assert.h>
#include <string.h>

static const struct lh_train_defaults all[] = {
	{"lenet5", "synthetic-images", "sgd", 0.01, 0.9, 1e-4, 0, "cosine", 0.05, 64, 10},
	{"resnet", "synthetic-images", "sgd", 0.1, 0.9, 5e-4, 0, "cosine", 0.05, 64, 10},
	{"convnext", "synthetic-images", "adamw", 1e-3, 0, 0.05, 1, "cosine", 0.1, 64, 10},
	{"gpt2", "synthetic-text", "adamw", 1e-3, 0, 0.1, 1, "cosine", 0.05, 16, 2},
	{"roberta", "synthetic-text", "adamw", 5e-4, 0, 0.01, 1, "linear", 0.06, 16, 4},
	{"deepfm", "synthetic-ctr", "adamw", 1e-3, 0, 1e-4, 0, "cosine", 0.05, 256, 5},
	{"whisper", "synthetic-speech", "adamw", 1e-3, 0, 0.01, 1, "cosine", 0.1, 16, 10},
};

const struct lh_train_defaults *lh_train_defaults_of(const char *family)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i].family, family) == 0)
			return &all[i];
	assert(!"a family without defaults");
	return &all[0];
}
