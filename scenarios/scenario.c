/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a scenario: file or experiment, changes from the command line, catalogs, checks. */
#include "scenarios/scenario.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/yaml.h"
#include "scenarios/bind.h"
#include "scenarios/catalog.h"
#include "scenarios/check.h"
#include "scenarios/schema.h"
#include "scenarios/suite.h"

void lh_scenario_free(struct lh_scenario *sc)
{
	if (!sc)
		return;
	for (size_t i = 0; i < sc->n_nodes; i++)
		free(sc->nodes[i].name);
	free(sc->nodes);
	lh_unbind(&lh_scenario_section, sc);
	json_decref(sc->resolved);
	lh_yaml_free(sc->tree);
	free(sc);
}

void lh_scenario_set_seed(struct lh_scenario *sc, int64_t seed)
{
	sc->run.seed = seed;
	json_object_set_new(json_object_get(sc->resolved, "run"), "seed", json_integer(seed));
}

/* The entry of a sequence that a path's word "2" names, or NULL. */
static struct lh_yaml *item_at(struct lh_yaml *seq, const char *word)
{
	char *end;
	unsigned long i = strtoul(word, &end, 10);

	return seq->kind == LH_YAML_SEQUENCE && end != word && !*end && i < seq->n_entries
		       ? seq->entries[i].value
		       : NULL;
}

/* A change parsed as YAML, standing at "--set PATH=VALUE". */
static struct lh_yaml *override_value(const struct lh_override *o, struct lh_diag *diag)
{
	lh_cleanup_free char *name = lh_strf("--set %s", o->path);
	struct lh_error err = {0};
	struct lh_yaml *v = NULL;

	if (name)
		lh_yaml_parse(name, o->value, strlen(o->value), &v, diag, &err);
	return v;
}

enum override_result { OVERRIDE_DONE, OVERRIDE_LATER, OVERRIDE_FAILED };

/* Walks to where the change belongs and sets it; LATER where a file's name stands in the way. */
static enum override_result override_apply(struct lh_yaml *tree, const struct lh_override *o,
					   struct lh_diag *diag)
{
	lh_cleanup_free char *path = strdup(o->path);
	struct lh_pos pos = {"--set", 1, 1};
	struct lh_yaml *at = tree;
	char *rest = path;
	char *word;

	while ((word = strsep(&rest, ".")) && rest) {
		struct lh_yaml *next =
			at->kind == LH_YAML_MAPPING ? lh_yaml_get(at, word) : item_at(at, word);

		if (!next && at->kind == LH_YAML_MAPPING && *word) {
			if (lh_yaml_set(at, word, lh_yaml_mapping(pos)) < 0)
				return OVERRIDE_FAILED;
			next = lh_yaml_get(at, word);
		}
		if (!next) {
			lh_diag_add(diag, pos, o->path, "no item '%.40s' there", word);
			return OVERRIDE_FAILED;
		}
		if (next->kind == LH_YAML_SCALAR)
			return OVERRIDE_LATER;
		at = next;
	}
	if (at->kind != LH_YAML_MAPPING || !word || !*word) {
		lh_diag_add(diag, pos, o->path, "expected the path of a key, such as run.seed");
		return OVERRIDE_FAILED;
	}
	return lh_yaml_set(at, word, override_value(o, diag)) < 0 ? OVERRIDE_FAILED : OVERRIDE_DONE;
}

/* Whether the change goes into a machine, model or profile, which may be filled in later. */
static bool is_about_catalog(const char *path)
{
	static const char *const maps[] = {"machines.", "models.", "profiles."};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		if (strncmp(path, maps[i], strlen(maps[i])) == 0)
			return strchr(path + strlen(maps[i]), '.') != NULL;
	return false;
}

/* Applies the changes that can be before (first) or after the files are in place. */
static void overrides_apply(struct lh_yaml *tree, const struct lh_override *overrides, size_t n,
			    bool *done, bool first, struct lh_diag *diag)
{
	for (size_t i = 0; i < n; i++) {
		enum override_result r;

		if (done[i] || (first && is_about_catalog(overrides[i].path)))
			continue;
		r = override_apply(tree, &overrides[i], diag);
		done[i] = r != OVERRIDE_LATER;
		if (r == OVERRIDE_LATER && !first)
			lh_diag_add(diag, (struct lh_pos){"--set", 1, 1}, overrides[i].path,
				    "goes through a single value; nothing stands below it");
	}
}

/* Binds and checks a tree whose files are in place. Takes the tree over. */
static int finish(struct lh_yaml *tree, struct lh_scenario **ret, struct lh_diag *diag,
		  struct lh_error *err)
{
	struct lh_scenario *sc = calloc(1, sizeof(*sc));
	int r;

	if (!sc) {
		lh_yaml_free(tree);
		return lh_fail(err, LH_ESYS, ENOMEM, "read scenario");
	}
	sc->tree = tree;
	lh_bind(&lh_scenario_section, tree, "", sc, diag);
	if (tree->kind == LH_YAML_MAPPING)
		lh_scenario_check(sc, diag);
	r = lh_diag_check(diag, err);
	if (r == 0 && !(sc->resolved = lh_yaml_to_json(tree)))
		r = lh_fail(err, LH_ESYS, ENOMEM, "read scenario");
	if (r < 0) {
		lh_scenario_free(sc);
		return r;
	}
	*ret = sc;
	return 0;
}

/* The file as named or, by its name alone, in the catalog; owned by the caller, or NULL. */
static char *find_file(const char *file, const char *catalog_dir)
{
	lh_cleanup_free char *in_catalog = NULL;

	if (lh_path_exists(file))
		return strdup(file);
	if (!catalog_dir || !*file || strchr(file, '/'))
		return NULL;
	in_catalog = lh_strf("%s/%s", catalog_dir, file);
	if (in_catalog && lh_path_exists(in_catalog))
		return lh_steal(&in_catalog);
	free(in_catalog);
	in_catalog = lh_strf("%s/%s.yaml", catalog_dir, file);
	return in_catalog && lh_path_exists(in_catalog) ? lh_steal(&in_catalog) : NULL;
}

/* The tree of the file or experiment, before anything is put into it. */
static int read_tree(const char *file, const char *catalog_dir, struct lh_yaml **ret_tree,
		     struct lh_diag *diag, struct lh_error *err)
{
	lh_cleanup_free char *near = NULL;
	lh_cleanup_free char *found = find_file(file, catalog_dir);
	int r;

	if (found) {
		r = lh_yaml_read(found, ret_tree, diag, err);
		if (r == LH_ESYS)
			err->code = LH_EINPUT;
		return r == LH_ESYS ? LH_EINPUT : r;
	}
	*ret_tree = catalog_dir ? lh_suite_find(file, catalog_dir, &near, diag) : NULL;
	if (*ret_tree)
		return 0;
	if (diag->n_messages)
		return lh_diag_check(diag, err);
	return lh_fail(err, LH_EINPUT, 0,
		       "%s: no such file, and no experiment of that name%s%s%s (longhaul list "
		       "shows all)",
		       file, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int lh_scenario_read(const char *file, const char *catalog_dir, const struct lh_override *overrides,
		     size_t n_overrides, struct lh_scenario **ret_scenario, struct lh_diag *diag,
		     struct lh_error *err)
{
	lh_cleanup_free char *beside = lh_path_dirname(file);
	struct lh_catalog catalog = {beside, catalog_dir};
	lh_cleanup_free bool *done = calloc(n_overrides + 1, sizeof(*done));
	struct lh_yaml *tree = NULL;
	int r;

	if (!beside || !done)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", file);
	r = read_tree(file, catalog_dir, &tree, diag, err);
	if (r < 0)
		return r;
	if (tree->kind == LH_YAML_MAPPING) {
		overrides_apply(tree, overrides, n_overrides, done, true, diag);
		lh_catalog_inline(&catalog, tree, diag);
		overrides_apply(tree, overrides, n_overrides, done, false, diag);
	}
	return finish(tree, ret_scenario, diag, err);
}

int lh_scenario_from_json(const char *file, json_t *resolved, struct lh_scenario **ret_scenario,
			  struct lh_diag *diag, struct lh_error *err)
{
	lh_cleanup_free char *text = json_dumps(resolved, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	struct lh_yaml *tree = NULL;
	int r;

	if (!text)
		return lh_fail(err, LH_EINPUT, 0, "%s: no scenario in it", file);
	r = lh_yaml_parse(file, text, strlen(text), &tree, diag, err);
	return r < 0 ? r : finish(tree, ret_scenario, diag, err);
}
