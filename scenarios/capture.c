/* SPDX-License-Identifier: Apache-2.0 */
/* Which packets run.capture names. See capture.h. */
#include "scenarios/capture.h"

#include <stdio.h>
#include <string.h>

#include "core/nearest.h"
#include "core/yaml.h"

enum { WORDS_MAX = 1000, WORD_LENGTH_MAX = 600, NODE_DIGITS_MAX = 6 };

/* One end of a path: the name of a site or of a node. */
struct end {
	const char *name;
	size_t length;
};

static bool is_name(const char *name, struct end end)
{
	return strlen(name) == end.length && memcmp(name, end.name, end.length) == 0;
}

static bool end_has_node(const struct lh_scenario *sc, struct end end, size_t node)
{
	const struct lh_node *n = &sc->nodes[node];

	return is_name(n->name, end) || is_name(sc->network.sites[n->site].name, end);
}

/* How many nodes are asked for at a site; also where they could not be resolved. */
static int64_t n_nodes_at(const struct lh_scenario *sc, struct end site)
{
	int64_t n = 0;

	for (size_t i = 0; i < sc->n_node_specs; i++)
		if (sc->node_specs[i].site && is_name(sc->node_specs[i].site, site))
			n += sc->node_specs[i].count > 0 ? sc->node_specs[i].count : 0;
	return n;
}

/* Whether an end is written SITE/N, and such a node is asked for. */
static bool end_is_node(const struct lh_scenario *sc, struct end end)
{
	const char *slash = memrchr(end.name, '/', end.length);
	size_t digits = slash ? end.length - (size_t)(slash + 1 - end.name) : 0;
	int64_t number = 0;

	if (!digits || digits > NODE_DIGITS_MAX || (slash[1] == '0' && digits > 1))
		return false;
	for (size_t i = 1; i <= digits; i++) {
		if (slash[i] < '0' || slash[i] > '9')
			return false;
		number = 10 * number + slash[i] - '0';
	}
	return number < n_nodes_at(sc, (struct end){end.name, (size_t)(slash - end.name)});
}

static int64_t count_nodes(const struct lh_scenario *sc, struct end end)
{
	return end_is_node(sc, end) ? 1 : n_nodes_at(sc, end);
}

/* Takes A,B apart; false where the word is no path. */
static bool split_path(const char *word, struct end ret[static 2])
{
	const char *comma = strchr(word, ',');

	if (!comma)
		return false;
	ret[0] = (struct end){word, (size_t)(comma - word)};
	ret[1] = (struct end){comma + 1, strlen(comma + 1)};
	return true;
}

enum lh_capture_extent lh_capture_extent_at(const struct lh_scenario *sc, size_t node,
					    bool *ret_peers)
{
	enum lh_capture_extent extent = LH_CAPTURE_NOTHING;

	memset(ret_peers, 0, sc->n_nodes * sizeof(*ret_peers));
	for (size_t w = 0; w < sc->run.capture.n_where; w++) {
		const char *word = sc->run.capture.where[w];
		struct end ends[2];

		if (strcmp(word, "all") == 0 || strcmp(word, sc->nodes[node].name) == 0)
			return LH_CAPTURE_EVERYTHING;
		for (int here = 0; split_path(word, ends) && here < 2; here++)
			for (size_t i = 0; i < sc->n_nodes; i++) {
				if (i == node || !end_has_node(sc, ends[here], node) ||
				    !end_has_node(sc, ends[!here], i))
					continue;
				ret_peers[i] = true;
				extent = LH_CAPTURE_PEERS;
			}
	}
	return extent;
}

static const char *site_at(const void *context, size_t i)
{
	const struct lh_network *net = context;

	return i < net->n_sites ? net->sites[i].name : NULL;
}

static void say_unknown(const struct lh_scenario *sc, struct end end, struct lh_pos pos,
			const char *key_path, struct lh_diag *diag)
{
	char name[WORD_LENGTH_MAX + 1];
	const char *near;
	char *slash;

	snprintf(name, sizeof(name), "%.*s", (int)end.length, end.name);
	slash = strrchr(name, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sc->network.n_sites; i++)
		if (strcmp(sc->network.sites[i].name, name) == 0) {
			lh_diag_add(diag, pos, key_path,
				    "no node '%.*s'; site '%.60s' has %lld nodes, from 0 on",
				    (int)(end.length < 60 ? end.length : 60), end.name, name,
				    (long long)n_nodes_at(sc, (struct end){name, strlen(name)}));
			return;
		}
	near = lh_nearest(name, site_at, &sc->network);
	lh_diag_add(diag, pos, key_path, "no node or site '%.*s'%s%s%s",
		    (int)(end.length < 60 ? end.length : 60), end.name,
		    near ? "; did you mean site '" : "", near ? near : "", near ? "'?" : "");
}

static void check_path(const struct lh_scenario *sc, const struct end ends[static 2],
		       struct lh_pos pos, const char *key_path, struct lh_diag *diag)
{
	bool is_same = ends[0].length == ends[1].length &&
		       memcmp(ends[0].name, ends[1].name, ends[0].length) == 0;
	bool is_known = true;

	for (int i = 0; i < (is_same ? 1 : 2); i++)
		if (!count_nodes(sc, ends[i])) {
			say_unknown(sc, ends[i], pos, key_path, diag);
			is_known = false;
		}
	if (is_known && is_same && count_nodes(sc, ends[0]) < 2)
		lh_diag_add(diag, pos, key_path, "'%.*s' is one node, with no path to itself",
			    (int)(ends[0].length < 60 ? ends[0].length : 60), ends[0].name);
}

static void check_word(const struct lh_scenario *sc, const char *word, struct lh_pos pos,
		       struct lh_diag *diag)
{
	static const char key_path[] = "run.capture.where";
	struct end whole = {word, strlen(word)};
	struct end ends[2];

	if (whole.length > WORD_LENGTH_MAX)
		lh_diag_add(diag, pos, key_path, "'%.60s...' is too long", word);
	else if (split_path(word, ends))
		check_path(sc, ends, pos, key_path, diag);
	else if (strcmp(word, "all") == 0 || end_is_node(sc, whole))
		return;
	else if (count_nodes(sc, whole))
		lh_diag_add(diag, pos, key_path,
			    "'%.60s' is a site; expected a node (%.60s/0), two sites or nodes "
			    "(%.60s,B), or all",
			    word, word, word);
	else
		say_unknown(sc, whole, pos, key_path, diag);
}

void lh_capture_check(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_capture_spec *spec = &sc->run.capture;
	const struct lh_yaml *where =
		lh_yaml_get(lh_yaml_get(lh_yaml_get(sc->tree, "run"), "capture"), "where");

	if (!where || where->kind != LH_YAML_SEQUENCE)
		return;
	if (!where->n_entries)
		lh_diag_add(diag, where->pos, "run.capture.where",
			    "is empty; expected a node (SITE/N), two sites or nodes (A,B), or all");
	else if (where->n_entries > WORDS_MAX)
		lh_diag_add(diag, where->pos, "run.capture.where", "%zu items; at most %d",
			    where->n_entries, WORDS_MAX);
	else if (spec->n_where == where->n_entries && sc->network.name)
		for (size_t i = 0; i < spec->n_where; i++)
			check_word(sc, spec->where[i], where->entries[i].value->pos, diag);
}
