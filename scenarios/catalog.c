/* SPDX-License-Identifier: Apache-2.0 */
/* Finding catalog files and putting their content in place of their names. See catalog.h. */
#include "scenarios/catalog.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/nearest.h"
#include "scenarios/churn.h"
#include "scenarios/trace.h"

enum { COLUMN_MAX_BYTES = 16 << 20, COLUMN_MIN_VALUES = 10, COLUMN_MAX_VALUES = 100000 };

struct names {
	char **list;
	size_t n;
};

static const char *name_at(const void *context, size_t i)
{
	const struct names *names = context;

	return i < names->n ? names->list[i] : NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the *.yaml files of base/folder, as "folder/x.yaml". */
static void names_add_folder(struct names *names, const char *base, const char *folder)
{
	lh_cleanup_free char *path = lh_path_join(base, folder);
	lh_cleanup_closedir DIR *dir = path ? opendir(path) : NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		size_t n = strlen(e->d_name);
		char **grown;

		if (n < 6 || strcmp(e->d_name + n - 5, ".yaml") != 0)
			continue;
		grown = realloc(names->list, (names->n + 1) * sizeof(*grown));
		if (!grown)
			return;
		names->list = grown;
		names->list[names->n] = lh_path_join(folder, e->d_name);
		names->n += names->list[names->n] != NULL;
	}
}

static void say_missing(const struct lh_catalog *catalog, const char *name, struct lh_pos pos,
			const char *key_path, struct lh_diag *diag)
{
	lh_cleanup_free char *folder = lh_path_dirname(name);
	struct names names = {NULL, 0};
	const char *near;

	if (folder) {
		names_add_folder(&names, catalog->beside, folder);
		if (catalog->installed)
			names_add_folder(&names, catalog->installed, folder);
	}
	if (names.n > 1)
		qsort(names.list, names.n, sizeof(*names.list), compare_names);
	near = lh_nearest(name, name_at, &names);
	lh_diag_add(diag, pos, key_path,
		    "no file %s beside the scenario (%s) or in the catalog (%s)%s%s%s", name,
		    catalog->beside, catalog->installed ? catalog->installed : "none",
		    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	for (size_t i = 0; i < names.n; i++)
		free(names.list[i]);
	free(names.list);
}

/* The path of a file beside the scenario or in the catalog; owned by the caller, or NULL. */
static char *find_file(const struct lh_catalog *catalog, const char *name)
{
	lh_cleanup_free char *path = lh_path_join(catalog->beside, name);

	if (path && !lh_path_exists(path) && catalog->installed) {
		free(path);
		path = lh_path_join(catalog->installed, name);
	}
	return path && lh_path_exists(path) ? lh_steal(&path) : NULL;
}

char *lh_catalog_find(const struct lh_catalog *catalog, const char *name, struct lh_pos pos,
		      const char *key_path, struct lh_diag *diag)
{
	char *path = find_file(catalog, name);

	if (!path)
		lh_diag_add(diag, pos, key_path,
			    "no file %s beside the scenario (%s) or in the catalog (%s)", name,
			    catalog->beside, catalog->installed ? catalog->installed : "none");
	return path;
}

struct lh_yaml *lh_catalog_read(const struct lh_catalog *catalog, const char *name,
				struct lh_pos pos, const char *key_path, struct lh_diag *diag)
{
	lh_cleanup_free char *path = find_file(catalog, name);
	struct lh_yaml *tree = NULL;
	struct lh_error err = {0};

	if (!path) {
		say_missing(catalog, name, pos, key_path, diag);
		return NULL;
	}
	if (lh_yaml_read(path, &tree, diag, &err) == LH_ESYS)
		lh_diag_add(diag, pos, key_path, "%s", err.message);
	return tree;
}

/* The scalar text of key in map, or NULL. */
static const struct lh_yaml *scalar_of(const struct lh_yaml *map, const char *key)
{
	const struct lh_yaml *v = lh_yaml_get(map, key);

	return v && v->kind == LH_YAML_SCALAR ? v : NULL;
}

/* Replaces a file name under key by the file's content. */
static void inline_file(const struct lh_catalog *catalog, struct lh_yaml *map, const char *key,
			const char *key_path, struct lh_diag *diag)
{
	const struct lh_yaml *v = scalar_of(map, key);
	struct lh_yaml *content;

	if (!v)
		return;
	content = lh_catalog_read(catalog, v->text, v->pos, key_path, diag);
	if (content)
		lh_yaml_set(map, key, content);
	else
		lh_yaml_get(map, key)->kind = LH_YAML_FAILED;
}

/* Puts the file folder/name.yaml into tree[folder][name], unless something is there already. */
static void inline_named(const struct lh_catalog *catalog, struct lh_yaml *tree, const char *folder,
			 const struct lh_yaml *name, const char *key_path, struct lh_diag *diag)
{
	struct lh_yaml *map = lh_yaml_get(tree, folder);
	lh_cleanup_free char *file = NULL;
	struct lh_yaml *content;

	if (lh_yaml_get(map, name->text))
		return;
	if (strchr(name->text, '/') || !(file = lh_strf("%s/%s.yaml", folder, name->text))) {
		lh_diag_add(diag, name->pos, key_path, "'%.60s' is not a name", name->text);
		return;
	}
	content = lh_catalog_read(catalog, file, name->pos, key_path, diag);
	if (!content)
		return;
	if (!map) {
		if (lh_yaml_set(tree, folder, lh_yaml_mapping(tree->pos)) < 0)
			return;
		map = lh_yaml_get(tree, folder);
	}
	if (map->kind == LH_YAML_MAPPING)
		lh_yaml_set(map, name->text, content);
	else
		lh_yaml_free(content);
}

static void inline_machines(const struct lh_catalog *catalog, struct lh_yaml *tree,
			    struct lh_diag *diag)
{
	const struct lh_yaml *nodes = lh_yaml_get(tree, "nodes");
	bool replays = !lh_yaml_get(lh_yaml_get(tree, "workload"), "command");

	for (size_t i = 0; nodes && i < nodes->n_entries; i++) {
		const struct lh_yaml *machine = scalar_of(nodes->entries[i].value, "machine");
		const struct lh_yaml *gpu;
		lh_cleanup_free char *key_path = lh_strf("nodes[%zu].machine", i);

		if (!machine)
			continue;
		inline_named(catalog, tree, "machines", machine, key_path, diag);
		if (!replays)
			continue;
		gpu = scalar_of(lh_yaml_get(lh_yaml_get(tree, "machines"), machine->text), "gpu");
		if (gpu)
			inline_named(catalog, tree, "profiles", gpu, key_path, diag);
	}
}

/* Turns the first column of a CSV file, with or without a line of names, into a YAML list. */
static struct lh_yaml *column_read(const char *path, struct lh_pos pos, const char *key_path,
				   struct lh_diag *diag)
{
	lh_cleanup_free char *text = NULL;
	lh_cleanup_free char *list = NULL;
	struct lh_yaml *tree = NULL;
	struct lh_error err = {0};
	size_t size, used = 0, n = 0;
	int line = 0;

	if (lh_file_read(path, COLUMN_MAX_BYTES, &text, &size, &err) < 0) {
		lh_diag_add(diag, pos, key_path, "%s", err.message);
		return NULL;
	}
	list = malloc(2 * size + 3);
	if (!list)
		return NULL;
	list[used++] = '[';
	for (char *at = text; *at; at += *at == '\n') {
		size_t n_line = strcspn(at, "\n"), n_field = strcspn(at, ",;\r\n");
		char *end;

		line++;
		(void)strtod(at, &end);
		if (n_field > 0 && (size_t)(end - at) == n_field) {
			used += (size_t)sprintf(list + used, "%s%.*s", n++ ? "," : "", (int)n_field,
						at);
		} else if (n_line > 0 && line > 1) {
			lh_diag_add(diag, (struct lh_pos){path, line, 1}, key_path,
				    "'%.*s' is not a number; expected one column of ms",
				    n_field > 40 ? 40 : (int)n_field, at);
			return NULL;
		}
		at += n_line;
	}
	list[used++] = ']';
	if (n < COLUMN_MIN_VALUES || n > COLUMN_MAX_VALUES)
		lh_diag_add(diag, pos, key_path, "%s has %zu values; expected %d to %d", path, n,
			    COLUMN_MIN_VALUES, COLUMN_MAX_VALUES);
	else
		lh_yaml_parse(path, list, used, &tree, diag, &err);
	return tree;
}

/* Puts the columns of files that paths name in place of their names. */
static void inline_samples(const struct lh_catalog *catalog, struct lh_yaml *network,
			   struct lh_diag *diag)
{
	static const char key[] = "jitter_samples";
	const struct lh_yaml *paths = lh_yaml_get(network, "paths");

	for (size_t i = 0; paths && i < paths->n_entries; i++) {
		struct lh_yaml *path = paths->entries[i].value;
		const struct lh_yaml *v = scalar_of(path, key);
		lh_cleanup_free char *key_path = lh_strf("network.paths[%zu].%s", i, key);
		lh_cleanup_free char *file = NULL;
		struct lh_yaml *column;

		if (!v)
			continue;
		file = lh_catalog_find(catalog, v->text, v->pos, key_path, diag);
		column = file ? column_read(file, v->pos, key_path, diag) : NULL;
		if (column)
			lh_yaml_set(path, key, column);
		else
			lh_yaml_get(path, key)->kind = LH_YAML_FAILED;
	}
}

/* Puts the tables of traces into the items of a list that have one. */
static void inline_traces(const struct lh_catalog *catalog, struct lh_yaml *list, const char *name,
			  struct lh_diag *diag)
{
	for (size_t i = 0; list && i < list->n_entries; i++) {
		lh_cleanup_free char *key_path = lh_strf("%s[%zu].trace", name, i);

		lh_trace_inline(catalog, lh_yaml_get(list->entries[i].value, "trace"), key_path,
				diag);
	}
}

void lh_catalog_inline(const struct lh_catalog *catalog, struct lh_yaml *tree, struct lh_diag *diag)
{
	const struct lh_yaml *model = scalar_of(lh_yaml_get(tree, "workload"), "model");

	inline_file(catalog, tree, "network", "network", diag);
	inline_samples(catalog, lh_yaml_get(tree, "network"), diag);
	inline_traces(catalog, lh_yaml_get(lh_yaml_get(tree, "network"), "paths"), "network.paths",
		      diag);
	inline_traces(catalog, lh_yaml_get(tree, "timeline"), "timeline", diag);
	lh_spot_inline(catalog, lh_yaml_get(tree, "spot"), diag);
	inline_file(catalog, lh_yaml_get(tree, "pricing"), "catalog", "pricing.catalog", diag);
	inline_machines(catalog, tree, diag);
	if (model)
		inline_named(catalog, tree, "models", model, "workload.model", diag);
}
