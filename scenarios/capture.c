/* SPDX-License-Identifier: Apache-2.0 */
/* Which packets run.capture names. See capture.h. */
#include "scenarios/capture.h"

#include <string.h>

#include "core/yaml.h"
#include "scenarios/places.h"

enum { WORDS_MAX = 1000 };

/* Takes A,B apart; false where the word is no path. */
static bool split_path(const char *word, struct lh_place ret[static 2])
{
	const char *comma = strchr(word, ',');

	if (!comma)
		return false;
	ret[0] = (struct lh_place){word, (size_t)(comma - word)};
	ret[1] = (struct lh_place){comma + 1, strlen(comma + 1)};
	return true;
}

enum lh_capture_extent lh_capture_extent_at(const struct lh_scenario *sc, size_t node,
					    bool *ret_peers)
{
	enum lh_capture_extent extent = LH_CAPTURE_NOTHING;

	memset(ret_peers, 0, sc->n_nodes * sizeof(*ret_peers));
	for (size_t w = 0; w < sc->run.capture.n_where; w++) {
		const char *word = sc->run.capture.where[w];
		struct lh_place ends[2];

		if (strcmp(word, "all") == 0 || strcmp(word, sc->nodes[node].name) == 0)
			return LH_CAPTURE_EVERYTHING;
		for (int here = 0; split_path(word, ends) && here < 2; here++)
			for (size_t i = 0; i < sc->n_nodes; i++) {
				if (i == node || !lh_place_has_node(sc, ends[here], node) ||
				    !lh_place_has_node(sc, ends[!here], i))
					continue;
				ret_peers[i] = true;
				extent = LH_CAPTURE_PEERS;
			}
	}
	return extent;
}

static void check_path(const struct lh_scenario *sc, const struct lh_place ends[static 2],
		       struct lh_pos pos, const char *key_path, struct lh_diag *diag)
{
	bool is_same = ends[0].length == ends[1].length &&
		       memcmp(ends[0].name, ends[1].name, ends[0].length) == 0;
	bool is_known = true;

	for (int i = 0; i < (is_same ? 1 : 2); i++)
		if (!lh_place_count(sc, ends[i])) {
			lh_place_say_unknown(sc, ends[i], pos, key_path, diag);
			is_known = false;
		}
	if (is_known && is_same && lh_place_count(sc, ends[0]) < 2)
		lh_diag_add(diag, pos, key_path, "'%.*s' is one node, with no path to itself",
			    (int)(ends[0].length < 60 ? ends[0].length : 60), ends[0].name);
}

static void check_word(const struct lh_scenario *sc, const char *word, struct lh_pos pos,
		       struct lh_diag *diag)
{
	static const char key_path[] = "run.capture.where";
	struct lh_place whole = {word, strlen(word)};
	struct lh_place ends[2];

	if (whole.length > LH_PLACE_LENGTH_MAX)
		lh_diag_add(diag, pos, key_path, "'%.60s...' is too long", word);
	else if (split_path(word, ends))
		check_path(sc, ends, pos, key_path, diag);
	else if (strcmp(word, "all") == 0 || lh_place_is_node(sc, whole))
		return;
	else if (lh_place_count(sc, whole))
		lh_diag_add(diag, pos, key_path,
			    "'%.60s' is a site; expected a node (%.60s/0), two sites or nodes "
			    "(%.60s,B), or all",
			    word, word, word);
	else
		lh_place_say_unknown(sc, whole, pos, key_path, diag);
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
