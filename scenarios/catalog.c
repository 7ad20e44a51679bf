/* SPDX-License-Identifier: Apache-2.0 */
/* Finding catalog files and putting their content in place of their names. See catalog.h. */
#include "scenarios/catalog.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/bind.h"

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

struct lh_yaml *lh_catalog_read(const struct lh_catalog *catalog, const char *name,
				struct lh_pos pos, const char *key_path, struct lh_diag *diag)
{
	lh_cleanup_free char *path = lh_path_join(catalog->beside, name);
	struct lh_yaml *tree = NULL;
	struct lh_error err = {0};

	if (path && !lh_path_exists(path) && catalog->installed) {
		free(path);
		path = lh_path_join(catalog->installed, name);
	}
	if (!path || !lh_path_exists(path)) {
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

void lh_catalog_inline(const struct lh_catalog *catalog, struct lh_yaml *tree, struct lh_diag *diag)
{
	const struct lh_yaml *model = scalar_of(lh_yaml_get(tree, "workload"), "model");

	inline_file(catalog, tree, "network", "network", diag);
	inline_file(catalog, lh_yaml_get(tree, "pricing"), "catalog", "pricing.catalog", diag);
	inline_machines(catalog, tree, diag);
	if (model)
		inline_named(catalog, tree, "models", model, "workload.model", diag);
}
