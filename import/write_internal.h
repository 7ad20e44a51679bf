/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements by pair of sites, as the writer works on them. */
#ifndef LH_IMPORT_WRITE_INTERNAL_H
#define LH_IMPORT_WRITE_INTERNAL_H

#include <stdio.h>

#include "import/import_internal.h"

/* Round trips of one direction, pooled. */
struct im_pooled {
	size_t n_sets, n;
	double median_ms, min_ms;
	double sd_ms; /* negative: not known */
};

/* Two sites, or one with itself, and what was measured between them. */
struct im_pair {
	size_t a, b; /* a <= b */
	const struct im_rtt **rtts;
	size_t n_rtts;
	const struct im_rate **rates;
	size_t n_rates;
	enum im_rtt_kind rtt_kind;
	struct im_pooled ab, ba;
	double rtt_ms, sd_ms;
	struct im_judged judged; /* limit is IM_LIMIT_NONE without rates */
};

/* What the writing needs throughout. */
struct im_writing {
	const struct lh_import *im;
	const struct lh_import_options *o;
	struct lh_diag *diag;
	FILE *out;
	int64_t mtu_bytes;
	double initial; /* window, bytes */
	struct im_pair *pairs;
	size_t n_pairs;
	const struct im_pair *link; /* with the largest link rate seen between sites, or NULL */
	bool shows_windows;	    /* some path between sites does */
};

/* Whether a set counts: TCP's own round trips only where nothing else is there. */
static inline bool im_counts(const struct im_pair *p, const struct im_rtt *rtt)
{
	return (rtt->kind == IM_RTT_TCP) == (p->rtt_kind == IM_RTT_TCP);
}

/*
 * Groups all measurements into w->pairs by pair, derives round trips, judges throughputs. The
 * two arrays hold pointers to all of them and get sorted. -1 when memory is out.
 */
int im_gather(struct im_writing *w, const struct im_rtt **rtts, const struct im_rate **rates);

#endif
