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
	BLOCK_ELEMENTS = 4096,
	BLOCK_HEADER_BYTES = 8, /* two means */
};

/* Of elements that are encoded together; -1 where there is no formula. */
static int64_t wire_bytes(unsigned compressor, int64_t elements)
{
	switch (compressor) {
	case LH_KIND_NONE:
		return 4 * elements;
	case LH_KIND_FP16:
	case LH_KIND_BF16:
		return 2 * elements;
	case LH_KIND_ONEBIT:
		return (elements + 7) / 8 +
		       BLOCK_HEADER_BYTES * ((elements + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS);
	default:
		return -1;
	}
}

/* Each of n equal shares, the first ones an element longer, goes n - 1 times to its owner and
 * back. */
static int64_t dense_bytes(unsigned compressor, int64_t parameters, int64_t n)
{
	int64_t bytes = 0;

	if (wire_bytes(compressor, 0) < 0)
		return -1;
	for (int64_t i = 0; i < n; i++)
		bytes +=
			2 * (n - 1) * wire_bytes(compressor, parameters / n + (i < parameters % n));
	return bytes;
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
	if (kind & (LH_KIND_BUTTERFLY | LH_KIND_RING))
		return dense_bytes(compressor, parameters, n);
	return -1;
}
