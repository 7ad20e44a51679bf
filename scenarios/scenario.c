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
#include "scenarios/churn.h"
#include "scenarios/schema.h"
#include "scenarios/suite.h"
#include "scenarios/trace.h"

void lh_scenario_free(struct lh_scenario *sc)
{
	if (!sc)
		return;
	for (size_t i = 0; i < sc->n_nodes; i++)
		free(sc->nodes[i].name);
	free(sc->nodes);
	for (size_t i = 0; i < sc->n_released; i++)
		free(sc->released[i].name);
	free(sc->released);
	free(sc->absences);
	free(sc->slowdowns);
	for (size_t i = 0; i < sc->n_ranks; i++)
		free(sc->ranks[i].name);
	free(sc->ranks);
	free(sc->network.path_at);
	for (size_t i = 0; i < sc->network.n_paths && sc->network.paths; i++)
		lh_trace_done(&sc->network.paths[i].trace);
	for (size_t i = 0; i < sc->n_events && sc->events; i++)
		lh_trace_done(&sc->events[i].trace);
	lh_unbind(&lh_scenario_section, sc);
	json_decref(sc->resolved);
	lh_yaml_free(sc->tree);
	free(sc);
}

int lh_scenario_set_seed(struct lh_scenario *sc, int64_t seed, struct lh_error *err)
{
	struct lh_diag diag = {0};
	int r;

	sc->run.seed = seed;
	json_object_set_new(json_object_get(sc->resolved, "run"), "seed", json_integer(seed));
	lh_churn_resolve(sc, &diag);
	r = lh_diag_check(&diag, err);
	lh_diag_done(&diag);
	return r;
}

void lh_scenario_set_parameters(struct lh_scenario *sc, int64_t parameters)
{
	json_t *models = json_object_get(sc->resolved, "models");

	for (size_t i = 0; i < sc->n_models; i++)
		if (&sc->models[i] == sc->model)
			sc->models[i].parameters = parameters;
	json_object_set_new(json_object_get(models, sc->model->name), "parameters",
			    json_integer(parameters));
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

/* Makes the path that a workload names under key absolute: it is meant from where it is written. */
static int resolve_path(struct lh_yaml *map, const char *key, const char *key_path,
			struct lh_error *err)
{
	const struct lh_yaml *written = lh_yaml_get(map, key);
	lh_cleanup_free char *beside = NULL;
	lh_cleanup_free char *path = NULL;
	lh_cleanup_free char *real = NULL;

	if (!written || written->kind != LH_YAML_SCALAR || !*written->text)
		return 0;
	beside = lh_path_dirname(written->pos.file ? written->pos.file : "");
	path = beside ? lh_path_join(beside, written->text) : NULL;
	real = path ? realpath(path, NULL) : NULL;
	if (path && !real)
		return lh_fail(err, LH_EINPUT, errno, "%s:%d:%d: %s: %s",
			       written->pos.file ? written->pos.file : "", written->pos.line,
			       written->pos.col, key_path, path);
	if (!real || lh_yaml_set(map, key, lh_yaml_scalar(real, written->pos)) < 0)
		return lh_fail(err, LH_ESYS, ENOMEM, "find %s", key_path);
	return 0;
}

static int resolve_paths(struct lh_yaml *workload, struct lh_error *err)
{
	struct lh_yaml *data = lh_yaml_get(lh_yaml_get(workload, "train"), "data");
	int r = resolve_path(workload, "folder", "workload.folder", err);

	if (r == 0)
		r = resolve_path(data, "path", "workload.train.data.path", err);
	return r ? r : resolve_path(data, "vocabulary", "workload.train.data.vocabulary", err);
}

/* Puts changes and files into a tree and makes it a scenario. Takes the tree over. */
static int complete(struct lh_yaml *tree, const char *file, const struct lh_scenario_source *source,
		    struct lh_scenario **ret_scenario, struct lh_diag *diag, struct lh_error *err)
{
	lh_cleanup_free char *beside = lh_path_dirname(file);
	struct lh_catalog catalog = {beside, source->catalog_dir};
	size_t n = source->n_overrides;
	lh_cleanup_free bool *done = calloc(n + 1, sizeof(*done));
	int r = 0;

	if (!beside || !done)
		r = lh_fail(err, LH_ESYS, ENOMEM, "read %s", file);
	if (r == 0 && tree->kind == LH_YAML_MAPPING) {
		overrides_apply(tree, source->overrides, n, done, true, diag);
		lh_catalog_inline(&catalog, tree, diag);
		overrides_apply(tree, source->overrides, n, done, false, diag);
		r = resolve_paths(lh_yaml_get(tree, "workload"), err);
	}
	if (r < 0) {
		lh_yaml_free(tree);
		return r;
	}
	return finish(tree, ret_scenario, diag, err);
}

/* Sets key to a JSON value, which it takes over. */
static int set_json(struct lh_yaml *map, const char *key, json_t *value, struct lh_diag *diag,
		    struct lh_error *err)
{
	lh_cleanup_json json_t *owned = value;
	lh_cleanup_free char *text = value ? json_dumps(value, 0) : NULL;
	struct lh_yaml *tree = NULL;
	int r;

	if (!text)
		return lh_fail(err, LH_ESYS, ENOMEM, "set %s", key);
	r = lh_yaml_parse(key, text, strlen(text), &tree, diag, err);
	if (r == 0 && lh_yaml_set(map, key, tree) < 0)
		r = lh_fail(err, LH_ESYS, ENOMEM, "set %s", key);
	return r;
}

static bool has_path_inside(const struct lh_yaml *network, const char *site)
{
	const struct lh_yaml *paths = lh_yaml_get(network, "paths");

	for (size_t i = 0; paths && i < paths->n_entries; i++) {
		const struct lh_yaml *b = lh_yaml_get(paths->entries[i].value, "between");
		const struct lh_yaml *from = lh_yaml_get(paths->entries[i].value, "from");
		const struct lh_yaml *to = lh_yaml_get(paths->entries[i].value, "to");

		if (b && b->kind == LH_YAML_SEQUENCE && b->n_entries == 2) {
			from = b->entries[0].value;
			to = b->entries[1].value;
		}
		if (from && to && from->kind == LH_YAML_SCALAR && to->kind == LH_YAML_SCALAR &&
		    strcmp(from->text, site) == 0 && strcmp(to->text, site) == 0)
			return true;
	}
	return false;
}

static json_t *nodes_for(const struct lh_yaml *network, enum lh_network_as as)
{
	const struct lh_yaml *sites = lh_yaml_get(network, "sites");
	json_t *nodes = json_array();

	for (size_t i = 0; sites->kind == LH_YAML_MAPPING && i < sites->n_entries; i++) {
		const char *site = sites->entries[i].key;
		bool has_pair = as == LH_NETWORK_AS_PATHS && has_path_inside(network, site);

		json_array_append_new(nodes, json_pack("{s:s, s:i, s:s}", "site", site, "count",
						       has_pair ? 2 : 1, "machine",
						       as == LH_NETWORK_AS_PATHS ? "unlimited"
										 : "generic"));
	}
	return nodes;
}

/* What measures paths has besides its nodes: nothing in it runs. */
static int add_for_paths(struct lh_yaml *scenario, struct lh_diag *diag, struct lh_error *err)
{
	int r = set_json(scenario, "workload", json_pack("{s:[s]}", "command", "true"), diag, err);

	if (r == 0)
		r = set_json(scenario, "run", json_pack("{s:s}", "guest_memory", "4 GiB"), diag,
			     err);
	if (r == 0)
		r = set_json(scenario, "machines",
			     json_pack("{s:{s:s, s:{s:s, s:s}}}", "unlimited", "provider",
				       "on-premise", "nic", "up", "1 Tbit/s", "down", "1 Tbit/s"),
			     diag, err);
	return r;
}

/* Makes a network's tree a scenario's. */
static int wrap_network(struct lh_yaml **tree, enum lh_network_as as, struct lh_diag *diag,
			struct lh_error *err)
{
	struct lh_yaml *network = *tree;
	struct lh_yaml *scenario = lh_yaml_mapping(network->pos);
	const struct lh_yaml *name = lh_yaml_get(network, "network");
	bool is_named = name && name->kind == LH_YAML_SCALAR && *name->text;
	json_t *nodes = nodes_for(network, as);
	int r;

	if (!scenario || lh_yaml_set(scenario, "longhaul", lh_yaml_scalar("1", network->pos)) < 0 ||
	    lh_yaml_set(scenario, "name",
			lh_yaml_scalar(is_named ? name->text : "network", network->pos)) < 0 ||
	    lh_yaml_set(scenario, "network", network) < 0) {
		json_decref(nodes);
		lh_yaml_free(scenario);
		return lh_fail(err, LH_ESYS, ENOMEM, "read the network");
	}
	*tree = scenario;
	r = set_json(scenario, "nodes", nodes, diag, err);
	return r == 0 && as == LH_NETWORK_AS_PATHS ? add_for_paths(scenario, diag, err) : r;
}

/* A command as the workload mapping; NULL where it is not text. */
static json_t *command_to_json(char *const *command)
{
	json_t *words = json_array();

	for (; *command; command++)
		if (json_array_append_new(words, json_string(*command)) < 0) {
			json_decref(words);
			return NULL;
		}
	return json_pack("{s:o}", "command", words);
}

/* networks/NAME.yaml of the catalog; owned by the caller, or NULL. */
static char *find_network(const char *file, const char *catalog_dir)
{
	static const char *const prefixes[] = {"networks/", "networks/", ""};
	static const char *const suffixes[] = {".yaml", "", ""};
	bool has_folder = strncmp(file, "networks/", strlen("networks/")) == 0;

	if (!catalog_dir || !*file || lh_path_exists(file) || (strchr(file, '/') && !has_folder) ||
	    strstr(file, ".."))
		return NULL;
	for (size_t i = has_folder ? 2 : 0; i < (has_folder ? 3 : 2); i++) {
		lh_cleanup_free char *path =
			lh_strf("%s/%s%s%s", catalog_dir, prefixes[i], file, suffixes[i]);

		if (path && lh_path_exists(path))
			return lh_steal(&path);
	}
	return NULL;
}

/* Puts the source's command in the tree's workload, and checks that there is one. */
static int set_command(struct lh_yaml *tree, const struct lh_scenario_source *source,
		       struct lh_diag *diag, struct lh_error *err)
{
	json_t *workload = source->command ? command_to_json(source->command) : NULL;

	if (source->command && !workload)
		return lh_fail(err, LH_EUSAGE, 0, "the command is not UTF-8 text");
	if (workload && tree->kind == LH_YAML_MAPPING)
		return set_json(tree, "workload", workload, diag, err);
	json_decref(workload);
	if (source->needs_command && !lh_yaml_get(lh_yaml_get(tree, "workload"), "command"))
		return lh_fail(err, LH_EUSAGE, 0,
			       "no command; it stands behind --, or in the scenario under "
			       "workload.command");
	return 0;
}

int lh_scenario_read_from(const struct lh_scenario_source *source,
			  struct lh_scenario **ret_scenario, struct lh_diag *diag,
			  struct lh_error *err)
{
	lh_cleanup_free char *network =
		source->network_as ? find_network(source->file, source->catalog_dir) : NULL;
	const char *file = network ? network : source->file;
	struct lh_yaml *tree = NULL;
	int r = read_tree(file, source->catalog_dir, &tree, diag, err);

	if (r == 0 && source->network_as && tree->kind == LH_YAML_MAPPING &&
	    lh_yaml_get(tree, "sites") && !lh_yaml_get(tree, "nodes"))
		r = wrap_network(&tree, source->network_as, diag, err);
	if (r == 0)
		r = set_command(tree, source, diag, err);
	if (r < 0) {
		lh_yaml_free(tree);
		return r;
	}
	return complete(tree, file, source, ret_scenario, diag, err);
}

int lh_scenario_read(const char *file, const char *catalog_dir, const struct lh_override *overrides,
		     size_t n_overrides, struct lh_scenario **ret_scenario, struct lh_diag *diag,
		     struct lh_error *err)
{
	const struct lh_scenario_source source = {.file = file,
						  .catalog_dir = catalog_dir,
						  .overrides = overrides,
						  .n_overrides = n_overrides};

	return lh_scenario_read_from(&source, ret_scenario, diag, err);
}

bool lh_scenario_has_command(const struct lh_scenario *sc)
{
	return lh_yaml_get(lh_yaml_get(sc->tree, "workload"), "command") != NULL;
}

bool lh_run_is_exact(const struct lh_run_spec *run)
{
	return run->clock == LH_CLOCK_VIRTUAL && !run->charge_cpu;
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
