/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of nodes that come, go and slow down. See churn.h. */
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/check_internal.h"
#include "scenarios/churn.h"
#include "scenarios/places.h"
#include "scenarios/strategy_kinds.h"

static const double FACTOR_MAX = 1000;

/* What an event about nodes may have beside `at`. */
static const struct {
	const char *key;
	const char *beside[3];
} kinds[] = {
	{"preempt", {"return_after", "notice"}},
	{"slow", {"factor", "for"}},
	{"join", {NULL}},
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

bool lh_event_is_of_nodes(const struct lh_yaml *written)
{
	static const char *const keys[] = {"preempt", "slow",	"join", "return_after",
					   "notice",  "factor", NULL};

	for (size_t i = 0; keys[i]; i++)
		if (lh_yaml_get(written, keys[i]))
			return true;
	return false;
}

/* The kind of an event about nodes; -1, with a message, where it is none or several. */
static int kind_of(const struct lh_yaml *written, const char *key_path, struct lh_diag *diag)
{
	int kind = -1, n = 0;

	for (int i = 0; i < N_KINDS; i++)
		if (lh_yaml_get(written, kinds[i].key)) {
			kind = i;
			n++;
		}
	if (n == 1)
		return kind;
	lh_diag_add(diag, written->pos, key_path,
		    "expected one of `preempt` (with return_after, notice), `slow` (with factor, "
		    "for) and `join`");
	return -1;
}

static bool may_stand(int kind, const char *key)
{
	if (strcmp(key, "at") == 0 || strcmp(key, kinds[kind].key) == 0)
		return true;
	for (size_t i = 0; kinds[kind].beside[i]; i++)
		if (strcmp(kinds[kind].beside[i], key) == 0)
			return true;
	return false;
}

/* Complains of words that name no node, and of none at all. */
static void check_places(const struct lh_scenario *sc, const struct lh_yaml *written,
			 const char *key_path, struct lh_diag *diag)
{
	size_t n = written->kind == LH_YAML_SEQUENCE ? written->n_entries : 1;

	if (!n)
		lh_diag_add(diag, written->pos, key_path,
			    "is empty; expected a node (SITE/N), a site, or a list of them");
	for (size_t i = 0; i < n && sc->network.name; i++) {
		const struct lh_yaml *word =
			written->kind == LH_YAML_SEQUENCE ? written->entries[i].value : written;
		struct lh_place place = {word->text, word->text ? strlen(word->text) : 0};

		if (word->kind != LH_YAML_SCALAR)
			continue;
		if (place.length > LH_PLACE_LENGTH_MAX)
			lh_diag_add(diag, word->pos, key_path, "'%.60s...' is too long",
				    word->text);
		else if (!lh_place_count(sc, place))
			lh_place_say_unknown(sc, place, word->pos, key_path, diag);
	}
}

void lh_node_event_check(const struct lh_scenario *sc, const struct lh_event *e,
			 const struct lh_yaml *written, const char *key_path, struct lh_diag *diag)
{
	int kind = kind_of(written, key_path, diag);
	lh_cleanup_free char *words_path = NULL;

	if (kind < 0)
		return;
	for (size_t i = 0; i < written->n_entries; i++)
		if (!may_stand(kind, written->entries[i].key))
			lh_diag_add(diag, written->entries[i].key_pos, key_path,
				    "'%.40s' does not go with `%s`", written->entries[i].key,
				    kinds[kind].key);
	words_path = lh_strf("%s.%s", key_path, kinds[kind].key);
	check_places(sc, lh_yaml_get(written, kinds[kind].key), words_path, diag);
	if (e->n_preempt && e->notice_ns > e->at_ns)
		lh_diag_add(diag, written->pos, key_path, "notice: begins before the start");
	if (!lh_yaml_get(written, "slow"))
		return;
	if (!lh_yaml_get(written, "factor"))
		lh_diag_add(diag, written->pos, key_path,
			    "slow without factor: how many times as long computing takes");
	else if (!(e->factor > 1 && e->factor <= FACTOR_MAX))
		lh_diag_add(diag, written->pos, key_path,
			    "factor: expected more than 1, at most %g", FACTOR_MAX);
	if (lh_scenario_has_command(sc))
		lh_diag_add(diag, written->pos, key_path,
			    "slow: a command computes as it does; only trainers can be slowed");
}

/* ---- spot -------------------------------------------------------------------------------- */

static void check_spot_keys(const struct lh_yaml *spot, struct lh_diag *diag)
{
	static const char *const of_means[] = {"mean_return", "for", "nodes", NULL};
	bool has_mean = lh_yaml_get(spot, "mean_time_to_preemption");
	bool has_table = lh_yaml_get(spot, "trace") || lh_yaml_get(spot, "table");

	if (has_mean == has_table)
		lh_diag_add(diag, spot->pos, "spot",
			    "expected one of `mean_time_to_preemption`, `trace` and `table`");
	for (size_t i = 0; has_table && !has_mean && of_means[i]; i++)
		if (lh_yaml_get(spot, of_means[i]))
			lh_diag_add(diag, lh_yaml_get(spot, of_means[i])->pos, "spot",
				    "%s goes with mean_time_to_preemption", of_means[i]);
}

static int64_t count_interrupted(const struct lh_scenario *sc)
{
	int64_t n = 0;

	for (size_t i = 0; i < sc->spot.n_nodes; i++)
		n += lh_place_count(sc, (struct lh_place){sc->spot.nodes[i],
							  strlen(sc->spot.nodes[i])});
	for (size_t i = 0; !sc->spot.n_nodes && i < sc->n_node_specs; i++)
		n += sc->node_specs[i].count;
	return n;
}

static void check_spot(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_yaml *spot = lh_yaml_get(sc->tree, "spot");
	const struct lh_yaml *nodes = lh_yaml_get(spot, "nodes");
	const struct lh_spot_spec *s = &sc->spot;
	double expected;

	if (!spot || spot->kind != LH_YAML_MAPPING)
		return;
	check_spot_keys(spot, diag);
	if (nodes && nodes->kind != LH_YAML_MAPPING)
		check_places(sc, nodes, "spot.nodes", diag);
	if (s->mean_time_to_preemption_ns <= 0)
		return;
	expected = (double)count_interrupted(sc);
	if (s->mean_return_ns > 0)
		expected *= 1 + (double)(s->for_ns < 0 ? LH_SPOT_FOR_NS : s->for_ns) /
					((double)s->mean_time_to_preemption_ns +
					 (double)s->mean_return_ns);
	/* so that those that are drawn stay below the bound, whatever the seed */
	if (expected > LH_ABSENCES_MAX * 0.9)
		lh_diag_add(
			diag, spot->pos, "spot",
			"makes about %.0f interruptions; expected at most %.0f: a shorter `for`",
			expected, LH_ABSENCES_MAX * 0.9);
}

/* Whether anything takes nodes away, as far as it is written. */
static bool takes_nodes_away(const struct lh_scenario *sc)
{
	const struct lh_yaml *spot = lh_yaml_get(sc->tree, "spot");

	for (size_t i = 0; i < sc->n_events; i++)
		if (sc->events[i].n_preempt || sc->events[i].n_join)
			return true;
	for (size_t i = 0; i < sc->n_node_specs; i++)
		if (sc->node_specs[i].joins_at_ns >= 0)
			return true;
	return spot && spot->kind == LH_YAML_MAPPING;
}

/* Complains where the node goes or is late on which elastic strategies have their coordinator. */
static void check_coordinator(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_node *node = lh_node_of(sc, 0);
	const struct lh_yaml *strategy = lh_yaml_get(lh_yaml_get(sc->tree, "workload"), "strategy");
	unsigned kind = lh_section_kind_named(&lh_strategy_section, sc->workload.strategy.kind);

	for (size_t i = 0; (kind & LH_KINDS_ELASTIC) && i < sc->n_absences; i++)
		if (&sc->nodes[sc->absences[i].node] == node) {
			lh_diag_add(diag, strategy->pos, "workload.strategy",
				    "rank 0, at %s, has the coordinator of %s: it must be there "
				    "from the start to the end; expected timeline and spot to "
				    "leave that node alone, such as by spot.nodes",
				    node->name, sc->workload.strategy.kind);
			return;
		}
}

void lh_churn_check(struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_yaml *run = lh_yaml_get(sc->tree, "run");

	check_spot(sc, diag);
	if (run && sc->run.nodes == LH_NODES_HOST && takes_nodes_away(sc))
		lh_diag_add(diag, run->pos, "run.nodes",
			    "nodes on the host cannot be taken away; expected `nodes: guest` with "
			    "preempt, join, joins_at or spot");
	if (!diag->n_messages && sc->nodes)
		lh_churn_resolve(sc, diag);
	if (!diag->n_messages && sc->nodes && sc->model)
		check_coordinator(sc, diag);
}
