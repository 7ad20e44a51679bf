/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective `butterfly`: all to all, as Hivemind averages. Every member owns a share of the
 * vector. Phase 0 (reduce-scatter) sends each other member its share; the owner adds them up in the
 * order of members, after its own; phase 1 (all-gather) sends the finished share to all others. A
 * member with s elements sends elements + (n - 2) s, all together 2 (n - 1) times the vector.
 *
 * Source: Hivemind, hivemind/averaging/allreduce.py and load_balancing.py; arXiv 2306.03163,
 * section 3.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "trainer/collective/build.h"

/* A vector's sending takes 1/bandwidth; the share that lets member i end at `level`. */
static double share_at(double bandwidth, uint32_t n, double level)
{
	double share = (level * bandwidth - 1) / (n - 2);

	return bandwidth > 0 && share > 0 ? share : 0;
}

/* The level at which the `count` fastest members' shares add up to 1. */
static double level_of(double sum_bandwidth, uint32_t count, uint32_t n)
{
	return (n - 2 + count) / sum_bandwidth;
}

static int compare_descending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* The end of sending that is the same for all with a share: as many of the fastest have one as end
 * no earlier with it than without. */
static double find_level(double *sorted, uint32_t n)
{
	double sum = 0, level = INFINITY;

	qsort(sorted, n, sizeof(*sorted), compare_descending);
	for (uint32_t i = 0; i < n && sorted[i] > 0 && level * sorted[i] > 1; i++) {
		sum += sorted[i];
		level = level_of(sum, i + 1, n);
	}
	return level;
}

int lh_collective_shares(const double *bandwidths, uint32_t n, double *ret_shares,
			 struct lh_error *err)
{
	lh_cleanup_free double *sorted = calloc(n, sizeof(*sorted));
	double total = 0, level;

	if (!sorted)
		return lh_fail(err, LH_ESYS, ENOMEM, "share a vector");
	for (uint32_t i = 0; i < n; i++) {
		if (!isfinite(bandwidths[i]) || bandwidths[i] < 0)
			return lh_fail(err, LH_EINPUT, 0,
				       "member %" PRIu32
				       " has the bandwidth %g; expected 0 or more",
				       i, bandwidths[i]);
		sorted[i] = bandwidths[i];
		total += bandwidths[i];
	}
	if (!(total > 0) || !isfinite(total))
		return lh_fail(err, LH_EINPUT, 0,
			       "no member may own a share: all bandwidths are 0");
	level = n > 2 ? find_level(sorted, n) : 0;
	for (uint32_t i = 0; i < n; i++)
		/* two send one vector each, however it is shared */
		ret_shares[i] = n > 2 ? share_at(bandwidths[i], n, level) : bandwidths[i] / total;
	return 0;
}

/* Ends at the nearest whole element of the sum of shares so far; no elements for no share. */
static void cut_by_shares(struct lh_collective_builder *b, const double *shares, uint32_t n,
			  uint64_t elements)
{
	double sum = 0;
	uint32_t last = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t end;

		sum += shares[i];
		if (shares[i] > 0)
			last = i;
		end = (uint64_t)llround(fmin(sum, 1) * (double)elements);
		b->plan.at[i + 1] = end < elements ? end : elements;
	}
	for (uint32_t i = last; i < n; i++)
		b->plan.at[i + 1] = elements;
}

static int cut(struct lh_collective_builder *b, const struct lh_collective_form *form,
	       struct lh_error *err)
{
	lh_cleanup_free double *shares = NULL;
	int rc;

	if (!form->bandwidths) {
		lh_collective_cut(b, 0, form->n, 0, form->elements);
		return 0;
	}
	shares = calloc(form->n, sizeof(*shares));
	if (!shares)
		return lh_fail(err, LH_ESYS, ENOMEM, "share a vector");
	rc = lh_collective_shares(form->bandwidths, form->n, shares, err);
	if (rc == 0)
		cut_by_shares(b, shares, form->n, form->elements);
	return rc;
}

/* To the next member first: not all to member 0 at once. */
static void send_all(struct lh_collective_builder *b, bool is_scattering)
{
	uint32_t n = b->plan.n_members;

	for (uint32_t i = 1; i < n; i++) {
		uint32_t peer = (b->member + i) % n;

		lh_collective_send(b, peer, is_scattering ? peer : b->member, 1);
	}
}

static int butterfly_make(const struct lh_collective_form *form, uint32_t self,
			  struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	struct lh_collective_builder b;
	int rc = lh_collective_begin(&b, form, self, LH_COLLECTIVE_ALL_REDUCE, form->n, err);

	if (rc)
		return rc;
	rc = cut(&b, form, err);
	if (rc) {
		lh_collective_plan_done(&b.plan);
		return rc;
	}
	lh_collective_phase(&b);
	send_all(&b, true);
	for (uint32_t peer = 0; peer < form->n; peer++)
		if (peer != b.member)
			lh_collective_reduce(&b, peer, b.member, 1);
	lh_collective_finish(&b, b.member, 1);
	lh_collective_phase(&b);
	send_all(&b, false);
	for (uint32_t peer = 0; peer < form->n; peer++)
		if (peer != b.member)
			lh_collective_copy(&b, peer, peer, 1);
	return lh_collective_end(&b, ret_plan, err);
}

const struct lh_collective_ops lh_collective_butterfly = {
	.name = "butterfly",
	.doc = "all to all: reduce-scatter, then all-gather (Hivemind)",
	.make = butterfly_make,
};
