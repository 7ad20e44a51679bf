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
	MEANS_BYTES = 8,   /* of a block: two */
	SCALE_BYTES = 4,   /* of a block */
	BOOK_BYTES = 1024, /* of all that is encoded together */
};

/* Of elements that are encoded together; -1 where there is no formula. */
static int64_t wire_bytes(unsigned compressor, int64_t elements)
{
	int64_t n_blocks = (elements + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;

	switch (compressor) {
	case LH_KIND_NONE:
		return 4 * elements;
	case LH_KIND_FP16:
	case LH_KIND_BF16:
		return 2 * elements;
	case LH_KIND_UNIFORM8:
		return elements ? BOOK_BYTES + elements : 0;
	case LH_KIND_BLOCKWISE8:
		return elements + SCALE_BYTES * n_blocks;
	case LH_KIND_ONEBIT:
		return (elements + 7) / 8 + MEANS_BYTES * n_blocks;
	default:
		return -1;
	}
}

/* What all ranks of an all-reduce send together; -1: there is no formula. Each of n equal shares,
 * the first ones an element longer, goes n - 1 times to its owner and back. */
static int64_t all_reduce_bytes(const struct lh_scenario *sc, unsigned collective,
				unsigned compressor, int64_t elements)
{
	const unsigned cut_in_shares = LH_KIND_BUTTERFLY | LH_KIND_RING;
	const unsigned constant = LH_KIND_NONE | LH_KIND_FP16 | LH_KIND_BF16;
	int64_t n = (int64_t)sc->n_ranks, bytes = 0;

	if (!(collective & LH_KINDS_DENSE) || wire_bytes(compressor, 0) < 0 ||
	    !(collective & cut_in_shares || compressor & constant))
		return -1;
	for (int64_t i = 0; i < n; i++)
		bytes += 2 * (n - 1) * wire_bytes(compressor, elements / n + (i < elements % n));
	return bytes;
}

/* Whether a fragment is sent at the end of an epoch: once in a period, all spread over it. */
static bool is_sent(const struct lh_strategy_spec *strategy, int64_t fragment, int64_t epoch)
{
	int64_t offset = strategy->period * fragment / strategy->fragments;

	return epoch + 1 >= offset && (epoch + 1 - offset) % strategy->period == 0;
}

/* How often a fragment comes back in an epoch: at once or late, and after the last epoch whatever
 * is under way, and all once more. */
static int64_t count_averagings(const struct lh_workload *w, int64_t fragment, int64_t epoch)
{
	int64_t delay = w->strategy.fragment_delay, n = 1;

	if (epoch + 1 < w->epochs)
		return epoch >= delay && is_sent(&w->strategy, fragment, epoch - delay);
	for (int64_t age = 1; age <= delay && age <= epoch; age++)
		n += is_sent(&w->strategy, fragment, epoch - age);
	return n;
}

/* Of strategies that average weights: each fragment by itself, as often as it comes back. */
static int64_t local_bytes(const struct lh_scenario *sc, unsigned kind, unsigned compressor,
			   int64_t epoch)
{
	const struct lh_workload *w = &sc->workload;
	unsigned collective = lh_section_kind_named(&lh_strategy_section, w->strategy.collective);
	int64_t n_fragments = kind == LH_KIND_DILOCO ? w->strategy.fragments : 1;
	int64_t all = sc->model->parameters, sum = 0;

	for (int64_t i = 0; i < n_fragments; i++) {
		int64_t bytes = all_reduce_bytes(sc, collective, compressor,
						 all / n_fragments + (i < all % n_fragments));

		if (bytes < 0)
			return -1;
		if (kind == LH_KIND_DILOCO)
			sum += count_averagings(w, i, epoch) * bytes;
		else if (epoch + 1 == w->epochs || (epoch + 1) % w->strategy.period == 0)
			sum += bytes;
	}
	return sum;
}

/* Ranks that each tells its weights. */
static int64_t gossip_degree(const struct lh_scenario *sc)
{
	int64_t n = (int64_t)sc->n_ranks, degree = 0;

	if (strcmp(sc->workload.strategy.graph, "complete") == 0)
		return n - 1;
	if (strcmp(sc->workload.strategy.graph, "ring") == 0)
		return n < 3 ? n - 1 : 2;
	for (int64_t distance = 1; distance < n; distance *= 2)
		degree++;
	return degree;
}

/* Of strategy d-psgd: all ranks tell their neighbours, and in the end are averaged as they are. */
static int64_t gossip_bytes(const struct lh_scenario *sc, unsigned compressor, int64_t epoch)
{
	int64_t parameters = sc->model->parameters;
	int64_t bytes;

	if (wire_bytes(compressor, 0) < 0)
		return -1;
	bytes = (int64_t)sc->n_ranks * gossip_degree(sc) * wire_bytes(compressor, parameters);

	if (epoch + 1 < sc->workload.epochs)
		return bytes;
	return bytes + all_reduce_bytes(sc, LH_KIND_RING, LH_KIND_NONE, parameters);
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

/* Ranks of a group of hierarchical top-k, which are alike: of a node, or of a site. */
static int64_t group_size(const struct lh_scenario *sc)
{
	bool is_by_site = sc->workload.strategy.n_levels == 1 &&
			  strcmp(sc->workload.strategy.levels[0], "site") == 0;
	int64_t n = 0;

	for (size_t i = 0; i < sc->n_nodes; i++)
		if (is_by_site ? sc->nodes[i].site == sc->nodes[0].site : i == 0)
			n += (int64_t)sc->nodes[i].n_ranks;
	return n;
}

/* Inside, every rank's numbers go to their owners and come back; across, owners' messages to all
 * groups. */
static int64_t hierarchical_topk_bytes(const struct lh_scenario *sc, double density)
{
	int64_t size = group_size(sc), n_groups = (int64_t)sc->n_ranks / size;
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
	int64_t n = (int64_t)sc->n_ranks, elements = sc->model->parameters;
	double density = density_at(&w->compress, compressor, epoch);

	if (kind == LH_KIND_D_PSGD)
		return gossip_bytes(sc, compressor, epoch);
	if (kind == LH_KIND_SPARSE_ALLGATHER)
		return n * (n - 1) * sparse_bytes(density, elements);
	if (kind == LH_KIND_HIERARCHICAL_TOPK)
		return hierarchical_topk_bytes(sc, density);
	/* of an epoch in which all have had a part */
	if (kind == LH_KIND_HIVEMIND)
		return all_reduce_bytes(sc, LH_KIND_BUTTERFLY, compressor, elements);
	if (kind & LH_KINDS_LOCAL)
		return local_bytes(sc, kind, compressor, epoch);
	return all_reduce_bytes(sc, kind, compressor, elements);
}

enum lh_averaged_samples lh_scenario_averaged_samples(const struct lh_scenario *sc)
{
	const struct lh_strategy_spec *strategy = &sc->workload.strategy;
	unsigned kind = lh_section_kind_named(&lh_strategy_section, strategy->kind);

	if (kind == LH_KIND_LOCAL_SGD ||
	    (kind == LH_KIND_DILOCO && strategy->fragments == 1 && !strategy->fragment_delay))
		return LH_AVERAGED_PERIOD;
	if (kind & LH_KINDS_GOSSIP)
		return LH_AVERAGED_OWN;
	return kind == LH_KIND_DILOCO ? LH_AVERAGED_SPAN : LH_AVERAGED_EPOCH;
}
