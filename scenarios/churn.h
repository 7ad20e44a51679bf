/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that come, go and slow down: events of the timeline, nodes that start late and spot
 * interruptions as one list of absences and one of slowdowns (struct lh_scenario). Private to the
 * scenario room.
 */
#ifndef LH_SCENARIOS_CHURN_H
#define LH_SCENARIOS_CHURN_H

#include "core/yaml.h"
#include "scenarios/scenario.h"

struct lh_catalog;

/* Whether an event as written is about nodes: has any of the keys that only those have. */
bool lh_event_is_of_nodes(const struct lh_yaml *written);

/* Checks the keys and words of an event about nodes; written: its tree. Faults go to diag. */
void lh_node_event_check(const struct lh_scenario *scenario, const struct lh_event *event,
			 const struct lh_yaml *written, const char *key_path, struct lh_diag *diag);

/*
 * Checks the rest of it and, where nothing is wrong in all of the scenario, fills absences and
 * slowdowns. Faults go to diag.
 */
void lh_churn_check(struct lh_scenario *scenario, struct lh_diag *diag);

/* Fills absences and slowdowns of a checked scenario with resolved nodes anew. Faults (nodes that
 * are away already, too many interruptions) go to diag. */
void lh_churn_resolve(struct lh_scenario *scenario, struct lh_diag *diag);

/* An absence while the list is made. */
struct lh_absence_draft {
	struct lh_absence absence;
	const struct lh_event *event;	 /* that says so; or */
	const struct lh_node_spec *spec; /* NULL, too: spot does */
};

struct lh_absence_drafts {
	struct lh_absence_draft *list; /* owned */
	size_t n;
	size_t room;
	bool is_short; /* memory is out, or there are more than LH_ABSENCES_MAX */
};

void lh_absence_add(struct lh_absence_drafts *drafts, const struct lh_absence_draft *draft);

/* Adds the interruptions of spot.table. Faults go to diag, in lines of the table. */
void lh_spot_read(const struct lh_scenario *scenario, struct lh_absence_drafts *drafts,
		  struct lh_diag *diag);

/*
 * Adds interruptions as spot's means have them, drawn for each node from its stream
 * "spot SITE/N" of the run's seed, in whole ms. The first n drafts, in order of node and from_ns,
 * stand: one that would meet them does not happen.
 */
void lh_spot_draw(const struct lh_scenario *scenario, struct lh_absence_drafts *drafts, size_t n);

/* Where spot (a mapping; NULL or another kind: nothing is done) names a trace, puts its content
 * under `table`. Faults go to diag, with the file's own lines. */
void lh_spot_inline(const struct lh_catalog *catalog, struct lh_yaml *spot, struct lh_diag *diag);

#endif
