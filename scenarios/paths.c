/* SPDX-License-Identifier: Apache-2.0 */
/* Which path connects two sites. See scenario.h. */
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/check_internal.h"

static bool is_same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

int lh_site_find(const struct lh_network *network, const char *name)
{
	for (size_t i = 0; i < network->n_sites; i++)
		if (is_same(network->sites[i].name, name))
			return (int)i;
	return -1;
}

bool lh_path_spec_matches(const struct lh_path_spec *p, const char *from, const char *to)
{
	if (p->n_between == 2)
		return (is_same(p->between[0], from) && is_same(p->between[1], to)) ||
		       (is_same(p->between[0], to) && is_same(p->between[1], from));
	return is_same(p->from, from) && is_same(p->to, to);
}

const struct lh_path_spec *lh_path_spec_at(const struct lh_network *network, size_t from, size_t to)
{
	return network->path_at ? network->path_at[from * network->n_sites + to] : NULL;
}

const struct lh_path_spec *lh_path_spec_find(const struct lh_network *network, const char *from,
					     const char *to)
{
	int a = lh_site_find(network, from), b = lh_site_find(network, to);

	return a < 0 || b < 0 ? NULL : lh_path_spec_at(network, (size_t)a, (size_t)b);
}

/* Notes the path for one direction; complains, once a path, where another stands there. */
static bool note(struct lh_network *network, int from, int to, const struct lh_path_spec *p,
		 struct lh_diag *diag)
{
	const struct lh_path_spec **at =
		&network->path_at[(size_t)from * network->n_sites + (size_t)to];
	lh_cleanup_free char *key_path = NULL;

	if (!*at || *at == p) {
		*at = p;
		return true;
	}
	key_path = lh_strf("network.paths[%zu]", (size_t)(p - network->paths));
	lh_diag_add(diag, p->pos, key_path, "the path from %s to %s stands already in line %d",
		    network->sites[from].name, network->sites[to].name, (*at)->pos.line);
	return false;
}

void lh_index_paths(struct lh_network *network, struct lh_diag *diag)
{
	size_t n = network->n_sites;

	free(network->path_at);
	network->path_at = calloc(n * n + 1, sizeof(*network->path_at));
	for (size_t i = 0; network->path_at && i < network->n_paths; i++) {
		const struct lh_path_spec *p = &network->paths[i];
		bool both = p->n_between == 2;
		int from = lh_site_find(network, both ? p->between[0] : p->from);
		int to = lh_site_find(network, both ? p->between[1] : p->to);

		if (from >= 0 && to >= 0 && note(network, from, to, p, diag) && both)
			note(network, to, from, p, diag);
	}
}
