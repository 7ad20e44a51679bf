/* SPDX-License-Identifier: Apache-2.0 */
/* What strategies send, by formula. See scenario.h. */
#include <string.h>

#include "scenarios/scenario.h"
#include "scenarios/strategy_kinds.h"

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

/* Elements that all ranks of an all-reduce of so many send together; -1: there is no formula. */
static int64_t all_reduce_elements(const struct lh_scenario *sc, unsigned collective,
				   int64_t elements)
{
	if (!(collective & LH_KINDS_DENSE))
		return -1;
	return 2 * ((int64_t)sc->n_ranks - 1) * elements;
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

/* Elements that are averaged in an epoch. */
static int64_t averaged_elements(const struct lh_scenario *sc, unsigned kind, int64_t epoch)
{
	const struct lh_workload *w = &sc->workload;
	int64_t n_fragments = w->strategy.fragments, all = sc->model->parameters, sum = 0;

	if (kind != LH_KIND_DILOCO)
		return epoch + 1 == w->epochs || (epoch + 1) % w->strategy.period == 0 ? all : 0;
	for (int64_t i = 0; i < n_fragments; i++)
		sum += count_averagings(w, i, epoch) *
		       (all / n_fragments + (i < all % n_fragments));
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
static int64_t gossip_bytes(const struct lh_scenario *sc, int64_t element, int64_t epoch)
{
	int64_t parameters = sc->model->parameters;
	int64_t bytes = (int64_t)sc->n_ranks * gossip_degree(sc) * parameters * element;

	if (epoch + 1 < sc->workload.epochs)
		return bytes;
	return bytes + all_reduce_elements(sc, LH_KIND_RING, parameters) * (int64_t)sizeof(float);
}

int64_t lh_scenario_payload_bytes(const struct lh_scenario *sc, int64_t epoch)
{
	const struct lh_workload *w = &sc->workload;
	unsigned kind = lh_section_kind_named(&lh_strategy_section, w->strategy.kind);
	int64_t element =
		bytes_per_element(lh_section_kind_named(&lh_compress_section, w->compress.kind));
	int64_t elements = sc->model->parameters;
	unsigned collective = kind;

	if (!element)
		return -1;
	if (kind == LH_KIND_D_PSGD)
		return gossip_bytes(sc, element, epoch);
	if (kind & LH_KINDS_LOCAL) {
		collective = lh_section_kind_named(&lh_strategy_section, w->strategy.collective);
		elements = averaged_elements(sc, kind, epoch);
	}
	elements = all_reduce_elements(sc, collective, elements);
	return elements < 0 ? -1 : elements * element;
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
