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

int64_t lh_scenario_payload_bytes(const struct lh_scenario *sc)
{
	const struct lh_workload *w = &sc->workload;
	unsigned kind = lh_section_kind_named(&lh_strategy_section, w->strategy.kind);
	int64_t element =
		bytes_per_element(lh_section_kind_named(&lh_compress_section, w->compress.kind));

	if (!element || !(kind & LH_KINDS_DENSE))
		return -1;
	return 2 * ((int64_t)sc->n_ranks - 1) * sc->model->parameters * element;
}
