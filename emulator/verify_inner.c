/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of inner networks: round trip and one stream of each kind, as links.csv has them. See
 * verify_internal.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "emulator/probe_internal.h"
#include "emulator/verify_internal.h"

/* The property that a measurement of the probe shows. */
static enum lh_property property_of(const struct lh_link_row *row)
{
	return row->kind == LH_LINK_INNER_RTT ? LH_PROPERTY_INNER_RTT : LH_PROPERTY_INNER_RATE;
}

static int add_rows(struct lh_verify *v, const struct lh_links *links, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < links->n_rows && r == 0; i++) {
		const struct lh_link_row *row = &links->rows[i];

		if (row->target < 0)
			continue;
		r = lh_verify_add(
			v,
			(struct lh_verify_row){.property = property_of(row),
					       .from_node = (long)row->from_node,
					       .to_node = (long)row->to_node,
					       .target = row->target,
					       .achieved = row->achieved < 0 ? NAN : row->achieved,
					       .tolerance = row->target * row->tolerance_ratio +
							    row->tolerance_abs,
					       .p = -1},
			err);
	}
	return r;
}

int lh_verify_inner(struct lh_verify *v, struct lh_error *err)
{
	size_t n = v->plan->n_nodes;
	lh_cleanup_free int64_t *rtts = NULL;
	struct lh_links links = {.ok = true};
	int r;

	if (v->plan->n_ranks == n)
		return 0;
	rtts = calloc(n * n, sizeof(*rtts));
	if (!rtts)
		return lh_fail(err, LH_ESYS, ENOMEM, "verify inner networks");
	r = lh_probe_rtts(v->net, v->plan, rtts, err);
	if (r == 0)
		r = lh_probe_inner(v->net, v->plan, rtts, &links, err);
	if (r == 0)
		r = add_rows(v, &links, err);
	lh_links_done(&links);
	return r;
}
