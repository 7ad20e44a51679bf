/* SPDX-License-Identifier: Apache-2.0 */
/* Suites: placements x workloads, each an experiment with an id. See suite.h. */
#include "scenarios/suite.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/nearest.h"
#include "scenarios/schema.h"

/* A suite's file while it is being read. */
struct reader {
	struct lh_yaml *tree;
	struct lh_suite_file file;
	struct lh_diag *diag;
};

/* Called for each experiment of a suite; a non-zero result ends the walk. */
typedef int visit_fn(void *context, const struct reader *reader, const char *id,
		     const struct lh_yaml *placement, const struct lh_yaml *workload);

static void reader_close(struct reader *r)
{
	lh_unbind(&lh_suite_section, &r->file);
	lh_yaml_free(r->tree);
}

static int reader_open(struct reader *r, const char *path, struct lh_diag *diag,
		       struct lh_error *err)
{
	int code;

	memset(r, 0, sizeof(*r));
	r->diag = diag;
	code = lh_yaml_read(path, &r->tree, diag, err);
	if (code < 0)
		return code;
	lh_bind(&lh_suite_section, r->tree, "", &r->file, diag);
	code = lh_diag_check(diag, err);
	if (code < 0)
		reader_close(r);
	return code;
}

static int walk_workload(const struct reader *r, const struct lh_yaml_entry *placement,
			 const struct lh_yaml *name, visit_fn *visit, void *context)
{
	const struct lh_yaml *workload;
	lh_cleanup_free char *id = NULL;

	if (name->kind != LH_YAML_SCALAR)
		return 0;
	workload = lh_yaml_get(r->file.workloads, name->text);
	if (!workload || workload->kind != LH_YAML_MAPPING) {
		lh_diag_add(r->diag, name->pos, "groups", "no workload '%.60s' in this suite",
			    name->text);
		return 0;
	}
	id = lh_strf("%s-%s", placement->key, name->text);
	return id ? visit(context, r, id, placement->value, workload) : 0;
}

/* Visits every experiment in the file's order. */
static int walk(const struct reader *r, visit_fn *visit, void *context)
{
	const struct lh_yaml *groups = r->file.groups;

	for (size_t g = 0; g < groups->n_entries; g++) {
		const struct lh_yaml *group = groups->entries[g].value;
		const struct lh_yaml *workloads = lh_yaml_get(group, "workloads");
		const struct lh_yaml *placements = lh_yaml_get(group, "placements");

		if (!workloads || !placements || placements->kind != LH_YAML_MAPPING ||
		    workloads->kind != LH_YAML_SEQUENCE) {
			lh_diag_add(r->diag, group->pos, "groups",
				    "expected {workloads: [...], placements: {...}}");
			continue;
		}
		for (size_t p = 0; p < placements->n_entries; p++)
			for (size_t w = 0; w < workloads->n_entries; w++) {
				int end =
					walk_workload(r, &placements->entries[p],
						      workloads->entries[w].value, visit, context);

				if (end)
					return end;
			}
	}
	return 0;
}

/* The scenario of one experiment: its placement, its workload, and the suite's base under both. */
static struct lh_yaml *make_scenario(const struct reader *r, const char *id,
				     const struct lh_yaml *placement,
				     const struct lh_yaml *workload)
{
	struct lh_yaml *tree = lh_yaml_copy(placement);
	const struct lh_yaml *published = lh_yaml_get(r->file.published, id);

	if (!tree)
		return NULL;
	if (tree->kind != LH_YAML_MAPPING)
		return tree;
	lh_yaml_set(tree, "longhaul", lh_yaml_scalar("1", placement->pos));
	lh_yaml_set(tree, "name", lh_yaml_scalar(id, placement->pos));
	lh_yaml_set(tree, "workload", lh_yaml_copy(workload));
	if (published)
		lh_yaml_set(tree, "published", lh_yaml_copy(published));
	if (r->file.base && r->file.base->kind == LH_YAML_MAPPING)
		lh_yaml_merge(tree, r->file.base);
	return tree;
}

struct search {
	const char *id;
	struct lh_yaml *found;
	char **ids; /* all seen, for the nearest */
	size_t n_ids;
};

static int search_visit(void *context, const struct reader *r, const char *id,
			const struct lh_yaml *placement, const struct lh_yaml *workload)
{
	struct search *s = context;
	char **grown = realloc(s->ids, (s->n_ids + 1) * sizeof(*grown));

	if (grown) {
		s->ids = grown;
		s->ids[s->n_ids] = strdup(id);
		s->n_ids += s->ids[s->n_ids] != NULL;
	}
	if (strcmp(id, s->id) != 0)
		return 0;
	s->found = make_scenario(r, id, placement, workload);
	return 1;
}

static const char *id_at(const void *context, size_t i)
{
	const struct search *s = context;

	return i < s->n_ids ? s->ids[i] : NULL;
}

static int is_yaml(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 5 && strcmp(e->d_name + n - 5, ".yaml") == 0;
}

static void search_suite(struct search *s, const char *path, struct lh_diag *diag)
{
	struct reader r;
	struct lh_error err = {0};

	if (reader_open(&r, path, diag, &err) < 0)
		return;
	walk(&r, search_visit, s);
	reader_close(&r);
}

struct lh_yaml *lh_suite_find(const char *id, const char *catalog_dir, char **ret_near,
			      struct lh_diag *diag)
{
	lh_cleanup_free char *folder = lh_path_join(catalog_dir, "experiments");
	struct search s = {.id = id};
	struct dirent **entries;
	int n = folder ? scandir(folder, &entries, is_yaml, alphasort) : -1;
	const char *near;

	for (int i = 0; i < n; i++) {
		lh_cleanup_free char *path = lh_path_join(folder, entries[i]->d_name);

		if (path && !s.found)
			search_suite(&s, path, diag);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	near = lh_nearest(id, id_at, &s);
	*ret_near = !s.found && near ? strdup(near) : NULL;
	for (size_t i = 0; i < s.n_ids; i++)
		free(s.ids[i]);
	free(s.ids);
	return s.found;
}

static int list_visit(void *context, const struct reader *r, const char *id,
		      const struct lh_yaml *placement, const struct lh_yaml *workload)
{
	struct lh_suite *suite = context;
	const struct lh_yaml *about = lh_yaml_get(placement, "about");
	struct lh_yaml *published = lh_yaml_get(r->file.published, id);
	struct lh_experiment *grown, *e;

	(void)workload;
	grown = realloc(suite->experiments, (suite->n_experiments + 1) * sizeof(*grown));
	if (!grown)
		return -1;
	suite->experiments = grown;
	e = &grown[suite->n_experiments++];
	memset(e, 0, sizeof(*e));
	e->id = strdup(id);
	e->about = about && about->text ? strdup(about->text) : NULL;
	e->published = (struct lh_published){-1, -1, -1, NULL};
	if (published)
		lh_bind(&lh_published_section, published, id, &e->published, r->diag);
	return e->id ? 0 : -1;
}

/* Complains of an experiment that the suite does not have. */
static void check_experiment(const struct lh_suite *suite, const char *id, struct lh_pos pos,
			     const char *key, struct lh_diag *diag)
{
	for (size_t i = 0; i < suite->n_experiments; i++)
		if (!id || strcmp(suite->experiments[i].id, id) == 0)
			return;
	lh_diag_add(diag, pos, key, "no experiment '%.60s' in this suite", id ? id : "");
}

static void check_claims(const struct lh_suite *suite, struct lh_diag *diag)
{
	for (size_t i = 0; i < suite->n_claims; i++)
		for (size_t p = 0; p < suite->claims[i].n_pairs; p++) {
			const struct lh_claim_pair *pair = &suite->claims[i].pairs[p];

			check_experiment(suite, pair->of, pair->pos, "claims.pairs.of", diag);
			check_experiment(suite, pair->against, pair->pos, "claims.pairs.against",
					 diag);
		}
	if (!suite->sweep.label)
		return;
	check_experiment(suite, suite->sweep.against, suite->sweep.pos, "sweep.against", diag);
	for (size_t p = 0; p < suite->sweep.n_points; p++)
		check_experiment(suite, suite->sweep.points[p].run, suite->sweep.points[p].pos,
				 "sweep.points.run", diag);
}

int lh_suite_read(const char *name, const char *catalog_dir, struct lh_suite **ret_suite,
		  struct lh_diag *diag, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_strf("%s/experiments/%s.yaml", catalog_dir, name);
	struct lh_suite *suite;
	struct reader r;
	int code;

	if (!path || strchr(name, '/') || !lh_path_exists(path))
		return lh_fail(err, LH_EUSAGE, 0, "no suite '%s' in %s/experiments", name,
			       catalog_dir);
	code = reader_open(&r, path, diag, err);
	if (code < 0)
		return code;
	suite = calloc(1, sizeof(*suite));
	if (suite) {
		suite->name = lh_steal(&r.file.name);
		suite->about = lh_steal(&r.file.about);
		walk(&r, list_visit, suite);
		suite->claims = lh_steal(&r.file.claims);
		suite->n_claims = r.file.n_claims;
		suite->unknown = lh_steal(&r.file.unknown);
		suite->n_unknown = r.file.n_unknown;
		suite->sweep = r.file.sweep;
		memset(&r.file.sweep, 0, sizeof(r.file.sweep));
		r.file.n_claims = r.file.n_unknown = 0;
		check_claims(suite, diag);
	}
	reader_close(&r);
	code = suite ? lh_diag_check(diag, err) : lh_fail(err, LH_ESYS, 0, "out of memory");
	if (code < 0) {
		lh_suite_free(suite);
		return code;
	}
	*ret_suite = suite;
	return 0;
}

void lh_suite_free(struct lh_suite *suite)
{
	if (!suite)
		return;
	for (size_t i = 0; i < suite->n_experiments; i++) {
		free(suite->experiments[i].id);
		free(suite->experiments[i].about);
		lh_unbind(&lh_published_section, &suite->experiments[i].published);
	}
	free(suite->experiments);
	for (size_t i = 0; i < suite->n_claims; i++)
		lh_unbind(&lh_claim_section, &suite->claims[i]);
	for (size_t i = 0; i < suite->n_unknown; i++)
		lh_unbind(&lh_unknown_section, &suite->unknown[i]);
	lh_unbind(&lh_sweep_section, &suite->sweep);
	free(suite->claims);
	free(suite->unknown);
	free(suite->name);
	free(suite->about);
	free(suite);
}
