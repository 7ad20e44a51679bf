/* SPDX-License-Identifier: Apache-2.0 */
/* Words that name nodes. See places.h. */
#include "scenarios/places.h"

#include <stdio.h>
#include <string.h>

#include "core/nearest.h"

enum { NODE_DIGITS_MAX = 6 };

static bool is_name(const char *name, struct lh_place place)
{
	return strlen(name) == place.length && memcmp(name, place.name, place.length) == 0;
}

bool lh_place_has_node(const struct lh_scenario *sc, struct lh_place place, size_t node)
{
	const struct lh_node *n = &sc->nodes[node];

	return is_name(n->name, place) || is_name(sc->network.sites[n->site].name, place);
}

/* How many nodes are asked for at a site. */
static int64_t n_nodes_at(const struct lh_scenario *sc, struct lh_place site)
{
	int64_t n = 0;

	for (size_t i = 0; i < sc->n_node_specs; i++)
		if (sc->node_specs[i].site && is_name(sc->node_specs[i].site, site))
			n += sc->node_specs[i].count > 0 ? sc->node_specs[i].count : 0;
	return n;
}

bool lh_place_is_node(const struct lh_scenario *sc, struct lh_place place)
{
	const char *slash = memrchr(place.name, '/', place.length);
	size_t digits = slash ? place.length - (size_t)(slash + 1 - place.name) : 0;
	int64_t number = 0;

	if (!digits || digits > NODE_DIGITS_MAX || (slash[1] == '0' && digits > 1))
		return false;
	for (size_t i = 1; i <= digits; i++) {
		if (slash[i] < '0' || slash[i] > '9')
			return false;
		number = 10 * number + slash[i] - '0';
	}
	return number < n_nodes_at(sc, (struct lh_place){place.name, (size_t)(slash - place.name)});
}

int64_t lh_place_count(const struct lh_scenario *sc, struct lh_place place)
{
	return lh_place_is_node(sc, place) ? 1 : n_nodes_at(sc, place);
}

static const char *site_at(const void *context, size_t i)
{
	const struct lh_network *net = context;

	return i < net->n_sites ? net->sites[i].name : NULL;
}

void lh_place_say_unknown(const struct lh_scenario *sc, struct lh_place place, struct lh_pos pos,
			  const char *key_path, struct lh_diag *diag)
{
	char name[LH_PLACE_LENGTH_MAX + 1];
	const char *near;
	char *slash;

	snprintf(name, sizeof(name), "%.*s", (int)place.length, place.name);
	slash = strrchr(name, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sc->network.n_sites; i++)
		if (strcmp(sc->network.sites[i].name, name) == 0) {
			lh_diag_add(diag, pos, key_path,
				    "no node '%.*s'; site '%.60s' has %lld nodes, from 0 on",
				    (int)(place.length < 60 ? place.length : 60), place.name, name,
				    (long long)n_nodes_at(sc,
							  (struct lh_place){name, strlen(name)}));
			return;
		}
	near = lh_nearest(name, site_at, &sc->network);
	lh_diag_add(diag, pos, key_path, "no node or site '%.*s'%s%s%s",
		    (int)(place.length < 60 ? place.length : 60), place.name,
		    near ? "; did you mean site '" : "", near ? near : "", near ? "'?" : "");
}
