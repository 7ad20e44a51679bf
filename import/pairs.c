/* SPDX-License-Identifier: Apache-2.0 */
/* Groups measurements by pair of sites, pools round trips. See write_internal.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/stats.h"
#include "import/write_internal.h"

static size_t low(size_t from, size_t to)
{
	return from < to ? from : to;
}

static size_t high(size_t from, size_t to)
{
	return from < to ? to : from;
}

static int compare(size_t a, size_t b)
{
	return (a > b) - (a < b);
}

static int compare_pair(size_t a_from, size_t a_to, size_t b_from, size_t b_to)
{
	int c = compare(low(a_from, a_to), low(b_from, b_to));

	return c ? c : compare(high(a_from, a_to), high(b_from, b_to));
}

/* By pair; within one, in the order in which they were read (they stand in one array). */
static int compare_rtts(const void *a, const void *b)
{
	const struct im_rtt *x = *(const struct im_rtt *const *)a;
	const struct im_rtt *y = *(const struct im_rtt *const *)b;
	int c = compare_pair(x->from, x->to, y->from, y->to);

	return c ? c : (x > y) - (x < y);
}

static int compare_rates(const void *a, const void *b)
{
	const struct im_rate *x = *(const struct im_rate *const *)a;
	const struct im_rate *y = *(const struct im_rate *const *)b;
	int c = compare_pair(x->from, x->to, y->from, y->to);

	return c ? c : (x > y) - (x < y);
}

/* ---- round trips ------------------------------------------------------------------------- */

/* Standard deviation of the sets: of their samples about each set's mean, or as told. */
static double spread(const struct im_pair *p, size_t from)
{
	double squares = 0, told = -1;
	size_t degrees = 0;

	for (size_t i = 0; i < p->n_rtts; i++) {
		const struct im_rtt *rtt = p->rtts[i];
		double mean = 0;

		if (rtt->from != from || !im_counts(p, rtt))
			continue;
		told = fmax(told, rtt->sd_ms);
		for (size_t k = 0; k < rtt->n; k++)
			mean += rtt->ms[k] / (double)rtt->n;
		for (size_t k = 0; k < rtt->n; k++)
			squares += (rtt->ms[k] - mean) * (rtt->ms[k] - mean);
		degrees += rtt->n - 1;
	}
	return degrees ? sqrt(squares / (double)degrees) : told;
}

/* Pools what was measured from one of the pair's sites. -1 when memory is out. */
static int pool(const struct im_pair *p, size_t from, struct im_pooled *ret)
{
	struct im_pooled d = {.min_ms = INFINITY, .sd_ms = spread(p, from)};
	lh_cleanup_free double *all = NULL;

	for (size_t i = 0; i < p->n_rtts; i++)
		if (p->rtts[i]->from == from && im_counts(p, p->rtts[i]))
			d.n += p->rtts[i]->n;
	all = malloc((d.n + 1) * sizeof(*all));
	if (!all)
		return -1;
	d.n = 0;
	for (size_t i = 0; i < p->n_rtts; i++) {
		const struct im_rtt *rtt = p->rtts[i];

		if (rtt->from != from || !im_counts(p, rtt))
			continue;
		d.n_sets++;
		memcpy(all + d.n, rtt->ms, rtt->n * sizeof(*all));
		d.n += rtt->n;
		if (rtt->min_ms >= 0)
			d.min_ms = fmin(d.min_ms, rtt->min_ms);
	}
	lh_sort_doubles(all, d.n);
	if (d.n) {
		d.median_ms = (all[(d.n - 1) / 2] + all[d.n / 2]) / 2;
		d.min_ms = fmin(d.min_ms, all[0]);
	}
	*ret = d;
	return 0;
}

/* The pair's round trip: the mean of both directions' medians. */
static int derive_rtt(struct im_pair *p)
{
	p->rtt_ms = p->sd_ms = -1;
	p->rtt_kind = IM_RTT_TCP;
	for (size_t i = 0; i < p->n_rtts; i++)
		if (p->rtts[i]->kind != IM_RTT_TCP)
			p->rtt_kind = p->rtts[i]->kind;
	if (pool(p, p->a, &p->ab) < 0 || (p->a != p->b && pool(p, p->b, &p->ba) < 0))
		return -1;
	if (p->ab.n && p->ba.n) {
		p->rtt_ms = (p->ab.median_ms + p->ba.median_ms) / 2;
		p->sd_ms = p->ab.sd_ms < 0   ? p->ba.sd_ms
			   : p->ba.sd_ms < 0 ? p->ab.sd_ms
					     : (p->ab.sd_ms + p->ba.sd_ms) / 2;
	} else if (p->ab.n || p->ba.n) {
		p->rtt_ms = p->ab.n ? p->ab.median_ms : p->ba.median_ms;
		p->sd_ms = p->ab.n ? p->ab.sd_ms : p->ba.sd_ms;
	}
	return 0;
}

/* ---- pairs ------------------------------------------------------------------------------- */

/* The pair that begins at the next rtt or rate, whichever sorts first. */
static void next_pair(struct im_pair *p, const struct im_rtt **rtts, size_t n_rtts,
		      const struct im_rate **rates, size_t n_rates)
{
	size_t from = n_rtts ? rtts[0]->from : rates[0]->from;
	size_t to = n_rtts ? rtts[0]->to : rates[0]->to;

	if (n_rtts && n_rates && compare_pair(rates[0]->from, rates[0]->to, from, to) < 0) {
		from = rates[0]->from;
		to = rates[0]->to;
	}
	*p = (struct im_pair){
		.a = low(from, to), .b = high(from, to), .rtts = rtts, .rates = rates};
	while (p->n_rtts < n_rtts &&
	       compare_pair(rtts[p->n_rtts]->from, rtts[p->n_rtts]->to, from, to) == 0)
		p->n_rtts++;
	while (p->n_rates < n_rates &&
	       compare_pair(rates[p->n_rates]->from, rates[p->n_rates]->to, from, to) == 0)
		p->n_rates++;
}

int im_gather(struct im_writing *w, const struct im_rtt **rtts, const struct im_rate **rates)
{
	size_t n_rtts = w->im->n_rtts, n_rates = w->im->n_rates, i = 0, k = 0;

	qsort(rtts, n_rtts, sizeof(*rtts), compare_rtts);
	qsort(rates, n_rates, sizeof(*rates), compare_rates);
	while (i < n_rtts || k < n_rates) {
		struct im_pair *p = &w->pairs[w->n_pairs++];

		next_pair(p, rtts + i, n_rtts - i, rates + k, n_rates - k);
		i += p->n_rtts;
		k += p->n_rates;
		if (derive_rtt(p) < 0)
			return -1;
		if (p->n_rates && p->rtt_ms >= 0)
			im_judge(p->rates, p->n_rates, p->rtt_ms / 1e3, w->initial, &p->judged);
		if (p->a == p->b || p->judged.limit == IM_LIMIT_NONE ||
		    p->judged.limit == IM_LIMIT_UNKNOWN)
			continue;
		w->shows_windows |= p->judged.limit == IM_LIMIT_WINDOW;
		if (!w->link || p->judged.largest_steady_bps > w->link->judged.largest_steady_bps)
			w->link = p;
	}
	return 0;
}
