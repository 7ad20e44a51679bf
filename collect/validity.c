/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a run counts: what the engine and the probes say. See collect_internal.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "collect/collect_internal.h"
#include "collect/csv.h"
#include "core/cleanup.h"
#include "core/file.h"

enum { LINK_NOTES_MAX = 8 };

static void read_unexplained(const json_t *engine, struct lh_notes *invalid)
{
	json_t *unexplained = json_object_get(engine, "unexplained");
	const char *name;
	json_t *value;

	json_object_foreach (unexplained, name, value)
		if (json_is_integer(value) && json_integer_value(value) != 0)
			lh_notes_add(invalid,
				     "the network did what its paths do not explain: %s %lld", name,
				     (long long)json_integer_value(value));
}

static int read_engine(const char *run_dir, struct lh_notes *invalid, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "engine.json");
	lh_cleanup_json json_t *engine = NULL;
	const char *status, *message;
	int r;

	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", run_dir);
	if (!lh_path_exists(path)) {
		lh_notes_add(invalid, "engine.json is missing: the run was cut");
		return 0;
	}
	r = lh_json_read(path, &engine, err);
	if (r < 0)
		return r;
	status = json_string_value(json_object_get(engine, "status"));
	message = json_string_value(json_object_get(engine, "message"));
	if (!status)
		return lh_fail(err, LH_EINPUT, 0, "%s: no 'status'", path);
	if (strcmp(status, "done") != 0)
		lh_notes_add(invalid, "the engine says %s%s%s", status,
			     message && *message ? ": " : "", message ? message : "");
	read_unexplained(engine, invalid);
	return 0;
}

static bool is_false(const char *text)
{
	return strcmp(text, "0") == 0 || strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
}

/* The columns of links.csv that matter here. */
enum { KIND, FROM, TO, TARGET, ACHIEVED, UNIT, OK, N_COLUMNS };

static const char *const link_names[N_COLUMNS] = {
	"kind", "from", "to", "target", "achieved", "unit", "ok",
};

static int read_links(const char *path, struct lh_notes *invalid, struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	int columns[N_COLUMNS];
	size_t n_missed = 0;
	int r = lh_csv_open(path, &csv, err);

	if (r == 0)
		r = lh_csv_find_all(&csv, link_names, N_COLUMNS, columns, err);
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0) {
		char **cell = csv.cells;

		r = 0;
		if (!is_false(cell[columns[OK]]) || n_missed++ >= LINK_NOTES_MAX)
			continue;
		lh_notes_add(invalid, "%s from %s to %s missed its target: %s %s; expected %s",
			     cell[columns[KIND]], cell[columns[FROM]], cell[columns[TO]],
			     cell[columns[ACHIEVED]], cell[columns[UNIT]], cell[columns[TARGET]]);
	}
	if (n_missed > LINK_NOTES_MAX)
		lh_notes_add(invalid, "%zu more measurements missed their target",
			     n_missed - LINK_NOTES_MAX);
	return r;
}

static bool has_lost_ranks(const struct lh_run_events *events)
{
	for (size_t r = 0; r < events->n_ranks; r++)
		if (events->ranks[r].was_away)
			return true;
	return false;
}

static void judge_events(const struct lh_run_events *events, const struct lh_summary *summary,
			 struct lh_notes *invalid)
{
	for (size_t r = 0; r < events->n_ranks; r++)
		if (events->ranks[r].error)
			lh_notes_add(invalid, "rank %zu failed: %s", r, events->ranks[r].error);
	for (size_t r = 0; r < events->n_ranks; r++)
		if (events->ranks[r].is_cut)
			lh_notes_add(invalid, "the events of rank %zu end in the midst of a line",
				     r);
	if (summary->n_epochs < summary->n_epochs_asked)
		lh_notes_add(invalid, "only %zu of %zu epochs were finished", summary->n_epochs,
			     summary->n_epochs_asked);
	/* what a killed rank had handed over to its kernel went nowhere */
	if (summary->wire_bytes >= 0 && summary->wire_bytes < summary->sent_bytes &&
	    !has_lost_ranks(events))
		lh_notes_add(invalid,
			     "the links counted fewer bytes (%" PRId64
			     ") than the trainers sent (%" PRId64 ")",
			     summary->wire_bytes, summary->sent_bytes);
}

int lh_validity_read(const char *run_dir, const struct lh_run_events *events,
		     const struct lh_summary *summary, struct lh_notes *invalid,
		     struct lh_error *err)
{
	lh_cleanup_free char *links = lh_path_join(run_dir, "links.csv");
	int r = read_engine(run_dir, invalid, err);

	if (r < 0)
		return r;
	if (!links)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", run_dir);
	judge_events(events, summary, invalid);
	if (lh_path_exists(links))
		return read_links(links, invalid, err);
	if (summary->n_nodes > 1)
		lh_notes_add(invalid, "links.csv is missing: the network was not measured");
	return 0;
}
