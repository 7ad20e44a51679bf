/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may report of its progress. See report.h. */
#include "scenarios/report.h"

#include <string.h>

#include "core/nearest.h"
#include "core/pattern.h"
#include "core/yaml.h"

static const char *const names[LH_N_REPORT_KEYS] = {
	"epoch", "samples", "total_samples", "loss", "calc_s", "comm_s",
};

const char *lh_report_key_name(enum lh_report_key key)
{
	return names[key];
}

static const char *name_at(const void *context, size_t i)
{
	(void)context;
	return i < LH_N_REPORT_KEYS ? names[i] : NULL;
}

static void check_group(const char *group, struct lh_pos pos, const char *path, bool *has_samples,
			struct lh_diag *diag)
{
	const char *near;

	for (int k = 0; k < LH_N_REPORT_KEYS; k++)
		if (strcmp(group, names[k]) == 0) {
			*has_samples |= k == LH_REPORT_SAMPLES || k == LH_REPORT_TOTAL_SAMPLES;
			return;
		}
	near = lh_nearest(group, name_at, NULL);
	lh_diag_add(diag, pos, path,
		    "unknown group '%.60s'%s%s%s; expected epoch, samples, total_samples, loss, "
		    "calc_s, comm_s",
		    group, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void check_pattern(const struct lh_progress_spec *p, struct lh_pos pos, struct lh_diag *diag)
{
	static const char path[] = "workload.progress.pattern";
	struct lh_pattern *pattern = NULL;
	struct lh_error err = {0};
	bool has_samples = p->samples > 0;
	const char *group;

	if (lh_pattern_new(p->pattern, &pattern, &err) < 0) {
		lh_diag_add(diag, pos, path, "%s", err.message);
		return;
	}
	for (size_t i = 0; (group = lh_pattern_group(pattern, i)); i++)
		check_group(group, pos, path, &has_samples, diag);
	if (!has_samples)
		lh_diag_add(diag, pos, path,
			    "says nothing of samples; expected a group (?<samples>...) or "
			    "(?<total_samples>...), or progress.samples");
	lh_pattern_free(pattern);
}

void lh_progress_check(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_workload *w = &sc->workload;
	const struct lh_yaml *workload = lh_yaml_get(sc->tree, "workload");
	const struct lh_yaml *progress = lh_yaml_get(workload, "progress");
	const struct lh_yaml *pattern = lh_yaml_get(progress, "pattern");
	const struct lh_yaml *data = lh_yaml_get(sc->tree, "data");

	if (!lh_scenario_has_command(sc) || !progress || progress->kind != LH_YAML_MAPPING)
		return;
	if (!pattern == !lh_yaml_get(progress, "file"))
		lh_diag_add(diag, progress->pos, "workload.progress",
			    "expected either `pattern` or `file`");
	else if (w->progress.pattern)
		check_pattern(&w->progress, pattern->pos, diag);
	if (sc->data.store && data && w->bytes_per_sample < 0)
		lh_diag_add(diag, data->pos, "data.store",
			    "loading cannot be priced without workload.bytes_per_sample");
}
