/* SPDX-License-Identifier: Apache-2.0 */
/* What only the engine of training knows about a scenario. See training.h. */
#include "cli/training.h"

#include <string.h>

#include "core/cleanup.h"
#include "core/yaml.h"
#include "scenarios/train_json.h"
#include "trainer/learn/check.h"

enum { WORD_MAX = 96 };

/* Where a key path of the specification stands, or the nearest thing around it. */
static struct lh_pos position_of(const void *context, const char *key_path)
{
	const struct lh_scenario *sc = context;
	const struct lh_yaml *workload = lh_yaml_get(sc->tree, "workload");
	const struct lh_yaml *at = lh_yaml_get(workload, "train");
	const struct lh_yaml *model = lh_yaml_get(workload, "model");

	if (strcmp(key_path, "../model") == 0)
		return model ? model->pos : (struct lh_pos){0};
	while (at && *key_path) {
		size_t n = strcspn(key_path, ".");
		char word[WORD_MAX];
		const struct lh_yaml *next;

		if (n >= sizeof(word))
			break;
		memcpy(word, key_path, n);
		word[n] = '\0';
		next = lh_yaml_get(at, word);
		if (!next)
			break;
		at = next;
		key_path += n + (key_path[n] == '.');
	}
	return at ? at->pos : (struct lh_pos){0};
}

int lh_cli_check_training(struct lh_scenario *sc, struct lh_diag *diag, struct lh_error *err)
{
	const struct lh_learn_reading reading = {
		.prefix = "workload.train", .pos_of = position_of, .context = sc};
	lh_cleanup_json json_t *json = NULL;
	int64_t n_parameters;

	if (sc->workload.mode != LH_MODE_TRAIN || lh_scenario_has_command(sc))
		return 0;
	json = lh_train_to_json(&sc->workload.train);
	lh_learn_check(sc->workload.model, json, &reading, &n_parameters, diag);
	if (diag->n_messages)
		return lh_diag_check(diag, err);
	lh_scenario_set_parameters(sc, n_parameters);
	return 0;
}
