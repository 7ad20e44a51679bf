/* SPDX-License-Identifier: Apache-2.0 */
/* What strategies send, by formula. See scenario.h. */
#include <math.h>
#include <string.h>

#include "scenarios/scenario.h"
#include "scenarios/strategy_kinds.h"

enum {
	SPARSE_COUNT_BYTES = 4,
	SPARSE_ELEMENT_BYTES = 8, /* a place and a value */
	WARM_UP_STEPS_MAX = 15,
};

/* On the wire, 0 where the compressor's ratio is not a constant. */
static int64_t bytes_per_element(unsigned compressor)
{
	switch (compressor) {
	case LH_KIND_NONE:
		return 4;
	case LH_KIND_FP16:
	case LH_KIND_BF16:
		return 2;
	default:
		return 0;
	}
}

/* Share of the elements that is sent: in a warm-up 25 %, 6.25 %, ... for as many epochs each. */
static double density_at(const struct lh_compress_spec *c, unsigned compressor, int64_t epoch)
{
	int64_t step = compressor == LH_KIND_DGC && c->warm_up_epochs > 0
			       ? epoch / c->warm_up_epochs
			       : WARM_UP_STEPS_MAX;
	double warm = step < WARM_UP_STEPS_MAX ? pow(0.25, (double)(step + 1)) : 0;

	return warm > c->density_ratio ? warm : c->density_ratio;
}

/* A message about a number of elements. */
static int64_t sparse_bytes(double density, int64_t elements)
{
	double count = round(density * (double)elements);

	return SPARSE_COUNT_BYTES + SPARSE_ELEMENT_BYTES * (count > 1 ? (int64_t)count : 1);
}

/* Ranks of a group of hierarchical top-k: of the first node, or site. */
static int64_t group_size(const struct lh_scenario *sc)
{
	bool is_by_site = sc->workload.strategy.n_levels == 1 &&
			  strcmp(sc->workload.strategy.levels[0], "site") == 0;
	int64_t n = 0;

	if (!is_by_site)
		return 1;
	for (size_t i = 0; i < sc->n_nodes; i++)
		n += sc->nodes[i].site == sc->nodes[0].site;
	return n;
}

/* Inside, every rank's numbers go to their owners and come back; across, owners' messages to all
 * groups. */
static int64_t hierarchical_topk_bytes(const struct lh_scenario *sc, double density)
{
	int64_t size = group_size(sc), n_groups = (int64_t)sc->n_nodes / size;
	int64_t parameters = sc->model->parameters;
	int64_t bytes = n_groups * 2 * (size - 1) * parameters * 4;

	for (int64_t i = 0; i < size; i++) {
		int64_t share = parameters / size + (i < parameters % size);

		if (share)
			bytes += n_groups * (n_groups - 1) * sparse_bytes(density, share);
	}
	return bytes;
}

int64_t lh_scenario_payload_bytes(const struct lh_scenario *sc, int64_t epoch)
{
	const struct lh_workload *w = &sc->workload;
	unsigned kind = lh_section_kind_named(&lh_strategy_section, w->strategy.kind);
	unsigned compressor = lh_section_kind_named(&lh_compress_section, w->compress.kind);
	int64_t n = (int64_t)sc->n_nodes, parameters = sc->model->parameters;

	if (kind == LH_KIND_SPARSE_ALLGATHER)
		return n * (n - 1) *
		       sparse_bytes(density_at(&w->compress, compressor, epoch), parameters);
	if (kind == LH_KIND_HIERARCHICAL_TOPK)
		return hierarchical_topk_bytes(sc, density_at(&w->compress, compressor, epoch));
	if (!bytes_per_element(compressor) || !(kind & (LH_KIND_BUTTERFLY | LH_KIND_RING)))
		return -1;
	return 2 * (n - 1) * parameters * bytes_per_element(compressor);
}
