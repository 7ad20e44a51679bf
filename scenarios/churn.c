/* SPDX-License-Identifier: Apache-2.0 */
/* The list of absences and that of slowdowns. See churn.h. */
#include "scenarios/churn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/places.h"

const char *lh_absence_cause_name(enum lh_absence_cause cause)
{
	static const char *const names[] = {[LH_AWAY_BY_TIMELINE] = "timeline",
					    [LH_AWAY_BY_SPOT] = "spot",
					    [LH_AWAY_BY_LATE_START] = "late-start"};

	return names[cause];
}

void lh_absence_add(struct lh_absence_drafts *drafts, const struct lh_absence_draft *draft)
{
	if (drafts->n == drafts->room && drafts->n < LH_ABSENCES_MAX) {
		size_t room = drafts->room ? 2 * drafts->room : 16;
		struct lh_absence_draft *grown = reallocarray(drafts->list, room, sizeof(*grown));

		if (grown) {
			drafts->list = grown;
			drafts->room = room;
		}
	}
	if (drafts->n == drafts->room || drafts->n == LH_ABSENCES_MAX) {
		drafts->is_short = true;
		return;
	}
	drafts->list[drafts->n++] = *draft;
}

/* Adds an absence of every node that a word names. */
static void add_place(const struct lh_scenario *sc, const char *word, struct lh_absence_draft draft,
		      struct lh_absence_drafts *drafts)
{
	const struct lh_place place = {word, strlen(word)};

	for (size_t i = 0; i < sc->n_nodes; i++)
		if (lh_place_has_node(sc, place, i)) {
			draft.absence.node = i;
			lh_absence_add(drafts, &draft);
		}
}

static void add_event(const struct lh_scenario *sc, const struct lh_event *e,
		      struct lh_absence_drafts *drafts)
{
	const struct lh_absence_draft preempted = {
		.event = e,
		.absence = {.from_ns = e->at_ns,
			    .to_ns = e->return_after_ns < 0 ? INT64_MAX
							    : e->at_ns + e->return_after_ns,
			    .notice_ns = e->notice_ns > 0 ? e->notice_ns : 0,
			    .cause = LH_AWAY_BY_TIMELINE}};
	const struct lh_absence_draft late = {
		.event = e,
		.absence = {.from_ns = -1, .to_ns = e->at_ns, .cause = LH_AWAY_BY_LATE_START}};

	for (size_t i = 0; i < e->n_preempt; i++)
		add_place(sc, e->preempt[i], preempted, drafts);
	for (size_t i = 0; i < e->n_join; i++)
		add_place(sc, e->join[i], late, drafts);
}

/* Nodes that start late by themselves. */
static void add_late(const struct lh_scenario *sc, struct lh_absence_drafts *drafts)
{
	for (size_t i = 0; i < sc->n_nodes; i++) {
		const struct lh_node_spec *spec = sc->nodes[i].spec;
		const struct lh_absence_draft draft = {.spec = spec,
						       .absence = {.node = i,
								   .from_ns = -1,
								   .to_ns = spec->joins_at_ns,
								   .cause = LH_AWAY_BY_LATE_START}};

		if (spec->joins_at_ns >= 0)
			lh_absence_add(drafts, &draft);
	}
}

static int compare_by_node(const void *a, const void *b)
{
	const struct lh_absence *x = &((const struct lh_absence_draft *)a)->absence;
	const struct lh_absence *y = &((const struct lh_absence_draft *)b)->absence;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static int compare_by_time(const void *a, const void *b)
{
	const struct lh_absence *x = a, *y = b;

	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static struct lh_pos pos_of(const struct lh_scenario *sc, const struct lh_absence_draft *d)
{
	return d->event ? d->event->pos : d->spec ? d->spec->pos : sc->spot.pos;
}

/* Complains where a node would be taken away that is away. */
static void check_apart(const struct lh_scenario *sc, const struct lh_absence_drafts *drafts,
			struct lh_diag *diag)
{
	for (size_t i = 1; i < drafts->n; i++) {
		const struct lh_absence_draft *a = &drafts->list[i - 1], *b = a + 1, *last;
		lh_cleanup_free char *key_path = NULL;

		if (a->absence.node != b->absence.node || b->absence.from_ns > a->absence.to_ns)
			continue;
		/* the one that is written later is told */
		last = pos_of(sc, a).line > pos_of(sc, b).line ? a : b;
		key_path = last->event ? lh_strf("timeline[%zu]", last->event - sc->events)
			   : last->spec
				   ? lh_strf("nodes[%zu].joins_at", last->spec - sc->node_specs)
				   : lh_strf("spot");
		lh_diag_add(diag, pos_of(sc, last), key_path,
			    "node %s is away then already, as line %d says",
			    sc->nodes[a->absence.node].name, pos_of(sc, last == a ? b : a).line);
	}
}

static void fill_absences(struct lh_scenario *sc, struct lh_diag *diag)
{
	struct lh_absence_drafts drafts = {.list = NULL};
	size_t before = diag->n_messages;

	for (size_t i = 0; i < sc->n_events; i++)
		add_event(sc, &sc->events[i], &drafts);
	add_late(sc, &drafts);
	if (sc->spot.table)
		lh_spot_read(sc, &drafts, diag);
	if (drafts.n > 1)
		qsort(drafts.list, drafts.n, sizeof(*drafts.list), compare_by_node);
	check_apart(sc, &drafts, diag);
	if (sc->spot.mean_time_to_preemption_ns > 0)
		lh_spot_draw(sc, &drafts, drafts.n);
	if (drafts.is_short)
		lh_diag_add(diag, sc->tree->pos, "timeline",
			    "nodes are taken away more than %d times, or memory is out",
			    LH_ABSENCES_MAX);
	if (drafts.n && diag->n_messages == before)
		sc->absences = calloc(drafts.n, sizeof(*sc->absences));
	for (size_t i = 0; sc->absences && i < drafts.n; i++)
		sc->absences[sc->n_absences++] = drafts.list[i].absence;
	if (sc->n_absences > 1)
		qsort(sc->absences, sc->n_absences, sizeof(*sc->absences), compare_by_time);
	free(drafts.list);
}

/* ---- slowdowns --------------------------------------------------------------------------- */

static int compare_slowdowns(const void *a, const void *b)
{
	const struct lh_slowdown *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static size_t count_slowdowns(const struct lh_scenario *sc)
{
	size_t n = 0;

	for (size_t i = 0; i < sc->n_events; i++)
		for (size_t k = 0; k < sc->events[i].n_slow; k++)
			n += (size_t)lh_place_count(
				sc, (struct lh_place){sc->events[i].slow[k],
						      strlen(sc->events[i].slow[k])});
	return n;
}

static void add_slowdowns(struct lh_scenario *sc, const struct lh_event *e, const char *word)
{
	const struct lh_place place = {word, strlen(word)};

	for (size_t i = 0; i < sc->n_nodes; i++)
		if (lh_place_has_node(sc, place, i))
			sc->slowdowns[sc->n_slowdowns++] = (struct lh_slowdown){
				.node = i,
				.from_ns = e->at_ns,
				.to_ns = e->for_ns < 0 ? INT64_MAX : e->at_ns + e->for_ns,
				.factor = e->factor};
}

/* The line of the first event that slows a node from a time on. */
static const struct lh_event *slowing_event(const struct lh_scenario *sc,
					    const struct lh_slowdown *s)
{
	for (size_t i = 0; i < sc->n_events; i++)
		for (size_t k = 0; k < sc->events[i].n_slow; k++) {
			const char *word = sc->events[i].slow[k];

			if (sc->events[i].at_ns == s->from_ns &&
			    lh_place_has_node(sc, (struct lh_place){word, strlen(word)}, s->node))
				return &sc->events[i];
		}
	return sc->events;
}

static void fill_slowdowns(struct lh_scenario *sc, struct lh_diag *diag)
{
	size_t n = count_slowdowns(sc);

	if (!n)
		return;
	sc->slowdowns = calloc(n, sizeof(*sc->slowdowns));
	for (size_t i = 0; sc->slowdowns && i < sc->n_events; i++)
		for (size_t k = 0; k < sc->events[i].n_slow; k++)
			add_slowdowns(sc, &sc->events[i], sc->events[i].slow[k]);
	if (!sc->slowdowns)
		lh_diag_add(diag, sc->tree->pos, "timeline", "memory is out");
	else
		qsort(sc->slowdowns, sc->n_slowdowns, sizeof(*sc->slowdowns), compare_slowdowns);
	for (size_t i = 1; i < sc->n_slowdowns; i++) {
		const struct lh_slowdown *a = &sc->slowdowns[i - 1], *b = a + 1;
		const struct lh_event *e = slowing_event(sc, b);
		lh_cleanup_free char *key_path = NULL;

		if (a->node != b->node || b->from_ns >= a->to_ns)
			continue;
		key_path = lh_strf("timeline[%zu]", e - sc->events);
		lh_diag_add(diag, e->pos, key_path, "node %s is slow then already, as line %d says",
			    sc->nodes[a->node].name, slowing_event(sc, a)->pos.line);
	}
}

void lh_churn_resolve(struct lh_scenario *sc, struct lh_diag *diag)
{
	free(sc->absences);
	free(sc->slowdowns);
	sc->absences = NULL;
	sc->slowdowns = NULL;
	sc->n_absences = sc->n_slowdowns = 0;
	fill_absences(sc, diag);
	fill_slowdowns(sc, diag);
}
