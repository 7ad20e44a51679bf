/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks a node has: one, or one for each of its GPUs. See check_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/check_internal.h"

int64_t lh_ranks_of(const struct lh_scenario *sc, const struct lh_machine *m)
{
	if (sc->workload.ranks_per_node > 0)
		return sc->workload.ranks_per_node;
	return m->inner.bandwidth_bps > 0 ? m->gpus : 1;
}

int64_t lh_count_ranks(const struct lh_scenario *sc, int64_t *ret_inside)
{
	int64_t n = 0, least = INT64_MAX, most = 0;

	for (size_t i = 0; i < sc->n_node_specs; i++) {
		const struct lh_node_spec *spec = &sc->node_specs[i];
		const struct lh_machine *m =
			spec->machine ? lh_machine_find(sc, spec->machine) : NULL;
		int64_t inside = m ? lh_ranks_of(sc, m) : 1;

		if (spec->count <= 0 || spec->count >= INT32_MAX)
			continue;
		n += spec->count * inside;
		least = inside < least ? inside : least;
		most = inside > most ? inside : most;
	}
	*ret_inside = least == most && most > 1 ? most : 0;
	return n;
}

bool lh_check_ranks(const struct lh_scenario *sc, size_t index, const struct lh_machine *m,
		    struct lh_diag *diag)
{
	const struct lh_node_spec *spec = &sc->node_specs[index];
	lh_cleanup_free char *path = lh_strf("nodes[%zu].machine", index);
	int64_t n = lh_ranks_of(sc, m);

	if (n > 1 && m->inner.bandwidth_bps <= 0)
		lh_diag_add(diag, spec->pos, path,
			    "machine '%s' has no `inner` network that %lld ranks could talk over; "
			    "add one, or leave workload.ranks_per_node out",
			    m->name, (long long)n);
	else if (n > m->gpus)
		lh_diag_add(diag, spec->pos, path,
			    "workload.ranks_per_node: %lld, but machine '%s' has %lld GPUs",
			    (long long)n, m->name, (long long)m->gpus);
	else if (n > 1 && sc->run.nodes == LH_NODES_HOST)
		lh_diag_add(diag, spec->pos, path,
			    "the inner network of machine '%s' needs netem beside its ranks; "
			    "expected `nodes: guest`, or workload.ranks_per_node: 1",
			    m->name);
	else
		return true;
	return false;
}

int lh_add_ranks(struct lh_scenario *sc, size_t total)
{
	sc->ranks = calloc(total + 1, sizeof(*sc->ranks));
	for (size_t i = 0; sc->ranks && i < sc->n_nodes; i++) {
		struct lh_node *node = &sc->nodes[i];

		node->first_rank = sc->n_ranks;
		node->n_ranks = (size_t)lh_ranks_of(sc, node->machine);
		for (size_t k = 0; k < node->n_ranks; k++) {
			struct lh_node_rank *rank = &sc->ranks[sc->n_ranks];

			*rank = (struct lh_node_rank){.node = i, .local = k};
			rank->name = node->n_ranks > 1 ? lh_strf("%s.%zu", node->name, k)
						       : strdup(node->name);
			if (!rank->name)
				return -1;
			sc->n_ranks++;
		}
	}
	return sc->ranks ? 0 : -1;
}
