/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ended. See ending.h. */
#include "cli/ending.h"

#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"

/* "the program in gc-us/0 ended with status 3"; owned by the caller. */
static char *describe(const json_t *node)
{
	const char *name = json_string_value(json_object_get(node, "node"));
	const char *ending = json_string_value(json_object_get(node, "ending"));
	json_int_t status = json_integer_value(json_object_get(node, "status"));
	json_int_t sig = json_integer_value(json_object_get(node, "signal"));

	if (ending && strcmp(ending, "time limit") == 0)
		return lh_strf("the program in %s ran into the time limit", name);
	if (sig)
		return lh_strf("the program in %s was killed by signal %lld", name, (long long)sig);
	return lh_strf("the program in %s ended with status %lld", name, (long long)status);
}

void lh_ending_read(const char *run_dir, struct lh_ending *ret)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "exec.json");
	lh_cleanup_json json_t *doc = NULL;
	struct lh_error ignored;
	const char *first;
	size_t i;
	json_t *node;

	if (!path || lh_json_read(path, &doc, &ignored) < 0)
		return;
	ret->status = (int)json_integer_value(json_object_get(doc, "status"));
	ret->n_nodes = json_array_size(json_object_get(doc, "nodes"));
	first = json_string_value(json_object_get(doc, "first_failed"));
	json_array_foreach (json_object_get(doc, "nodes"), i, node) {
		const char *name = json_string_value(json_object_get(node, "node"));

		if (first && name && strcmp(first, name) == 0 && !ret->what)
			ret->what = describe(node);
	}
}
