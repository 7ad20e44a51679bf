/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made of the trains that idle paths have carried: delays, and what chance has done to
 * packets. See verify.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "core/stats.h"
#include "emulator/probe_internal.h"
#include "emulator/verify_internal.h"

enum { ETHERNET_ADDRESS_BYTES = 6 };

static const double delay_ratio_virtual = 0.001;
static const double delay_ratio_real = 0.01, delay_abs_ms_real = 0.5;
static const double jitter_ratio = 0.005; /* entries of a table are few */
static const double clock_step = 0.002;	  /* what a microsecond is of a steep distribution */

/* Below this a packet has skipped the delay. */
static double early_ms(const struct lh_plan_path *p)
{
	int64_t least = p->delay_ns + (p->jitter ? p->jitter->lowest_ns : 0);

	return p->chances.reorder ? (double)least / 2 / LH_NS_PER_MS : -1;
}

/* The delays, in ms and sorted, of packets of one kind that were not early; how many. */
static size_t take_delays(const struct lh_plan_path *p, const struct lh_train *t, bool full,
			  double *ret)
{
	size_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		double ms = (double)t->delay_ns[i] / LH_NS_PER_MS;

		if (t->arrival_ns[i] >= 0 && lh_train_is_full(t, i) == full && ms > early_ms(p))
			ret[n++] = ms;
	}
	lh_sort_doubles(ret, n);
	return n;
}

/* Two-sided probability of a normal deviate, tol taken off first. */
static double p_of(double difference, double tol, double se)
{
	double beyond = fabs(difference) - tol;

	if (beyond <= 0)
		return 1;
	return se > 0 ? erfc(beyond / se * M_SQRT1_2) : 0;
}

static double delay_tolerance_ms(const struct lh_verify *v, double ms)
{
	double ratio = v->is_virtual ? delay_ratio_virtual : delay_ratio_real;

	return ms * ratio + (v->is_virtual ? lh_delay_abs_ms_virtual : delay_abs_ms_real);
}

/* Kolmogorov-Smirnov distance of sorted delays from a table around mean_ms; its steps taken
 * off. */
static double distance(const struct lh_jitter_table *j, double mean_ms, const double *ms, size_t n)
{
	double widest = 0;
	int below = 0;

	for (size_t i = 0; i < n; i++) {
		double sigmas = (ms[i] - mean_ms) * LH_NS_PER_MS / (double)j->sigma_ns;
		double here = sigmas * LH_JITTER_SCALE, f, d;

		while (below < LH_JITTER_ENTRIES && j->entries[below] <= here)
			below++;
		f = (double)below / LH_JITTER_ENTRIES;
		d = fmax((double)(i + 1) / (double)n - f, f - (double)i / (double)n);
		widest = fmax(widest, d);
	}
	widest -= 1.0 / LH_JITTER_ENTRIES + clock_step;
	return widest > 0 ? widest : 0;
}

/* Fourth moment of a table over the square of its second. */
static double kurtosis(const struct lh_jitter_table *j)
{
	double second = 0, fourth = 0;

	for (int i = 0; i < LH_JITTER_ENTRIES; i++) {
		double x = j->entries[i];

		second += x * x / LH_JITTER_ENTRIES;
		fourth += x * x * x * x / LH_JITTER_ENTRIES;
	}
	return fourth / (second * second);
}

/* Sorted delays beside the table's. */
static int add_quantiles(struct lh_verify *v, const struct lh_train *t, const double *ms, size_t n,
			 double mean_ms, struct lh_error *err)
{
	static const double shares[] = {0.001, 0.01, 0.02, 0.05, 0.1,  0.2,  0.3,  0.4,	 0.5,
					0.6,   0.7,  0.8,  0.9,	 0.95, 0.98, 0.99, 0.999};
	enum { N_SHARES = sizeof(shares) / sizeof(shares[0]) };
	const struct lh_jitter_table *j = lh_verify_path(v, t)->jitter;
	struct lh_verdict *verdict = v->verdict;
	struct lh_verify_quantile *grown = reallocarray(
		verdict->quantiles, verdict->n_quantiles + N_SHARES, sizeof(*verdict->quantiles));

	if (!grown)
		return lh_fail(err, LH_ESYS, ENOMEM, "verify the network");
	verdict->quantiles = grown;
	for (size_t i = 0; i < N_SHARES; i++) {
		double entry = j->entries[(size_t)(shares[i] * LH_JITTER_ENTRIES)];

		grown[verdict->n_quantiles++] = (struct lh_verify_quantile){
			.from_node = (long)t->from,
			.to_node = (long)t->to,
			.share = shares[i],
			.asked_ms = mean_ms +
				    entry / LH_JITTER_SCALE * (double)j->sigma_ns / LH_NS_PER_MS,
			.achieved_ms = ms[(size_t)(shares[i] * (double)n)],
			.asked_mean_ms = mean_ms,
			.asked_sd_ms = j->sd_ns / LH_NS_PER_MS,
			.n = (int64_t)n,
		};
	}
	return 0;
}

static int judge_jitter(struct lh_verify *v, const struct lh_train *t, const double *ms, size_t n,
			double target_ms, struct lh_error *err)
{
	const struct lh_jitter_table *j = lh_verify_path(v, t)->jitter;
	struct lh_verify_row mean = lh_verify_row_of(t, LH_PROPERTY_DELAY_MEAN);
	struct lh_verify_row sd = lh_verify_row_of(t, LH_PROPERTY_JITTER);
	struct lh_verify_row shape = lh_verify_row_of(t, LH_PROPERTY_JITTER_SHAPE);
	double sum = 0, square = 0;
	int r;

	for (size_t i = 0; i < n; i++)
		sum += ms[i];
	mean.n = sd.n = shape.n = (int64_t)n;
	mean.target = target_ms;
	mean.achieved = sum / (double)n;
	for (size_t i = 0; i < n; i++)
		square += (ms[i] - mean.achieved) * (ms[i] - mean.achieved);
	mean.tolerance = delay_tolerance_ms(v, target_ms);
	mean.chance = j->sd_ns / LH_NS_PER_MS / sqrt((double)n);
	mean.p = p_of(mean.achieved - mean.target, mean.tolerance, mean.chance);
	sd.target = j->sd_ns / LH_NS_PER_MS;
	sd.achieved = sqrt(square / (double)(n - 1));
	sd.tolerance = sd.target * jitter_ratio + (v->is_virtual ? 0.001 : delay_abs_ms_real);
	sd.chance = sd.target * sqrt((kurtosis(j) - 1) / (4 * (double)n));
	sd.p = p_of(sd.achieved - sd.target, sd.tolerance, sd.chance);
	/* around what was asked for: the sample's own mean is off by chance, which a steep place of
	 * the distribution would take for another shape */
	shape.achieved = distance(j, target_ms, ms, n);
	shape.p = lh_ks_p(shape.achieved, n);
	shape.chance = 1 / sqrt((double)n);
	r = add_quantiles(v, t, ms, n, target_ms, err);
	if (r == 0)
		r = lh_verify_add(v, mean, err);
	if (r == 0)
		r = lh_verify_add(v, sd, err);
	return r < 0 || !v->is_virtual ? r : lh_verify_add(v, shape, err);
}

int lh_verify_delays(struct lh_verify *v, const struct lh_train *t, struct lh_error *err)
{
	const struct lh_plan_path *p = lh_verify_path(v, t);
	lh_cleanup_free double *small = calloc(t->n, sizeof(*small));
	lh_cleanup_free double *full = calloc(t->n, sizeof(*full));
	bool all_full = t->n_full == t->n;
	double small_bytes =
		lh_probe_wire_bytes(all_full ? lh_probe_full_bytes(v->plan) : LH_PROBE_SMALL_BYTES);
	double more_bytes = lh_probe_wire_bytes(lh_probe_full_bytes(v->plan)) - small_bytes;
	struct lh_verify_row row = lh_verify_row_of(t, LH_PROPERTY_DELAY);
	size_t n_small, n_full;
	int r;

	if (!small || !full)
		return lh_fail(err, LH_ESYS, ENOMEM, "verify the network");
	n_small = take_delays(p, t, all_full, small);
	n_full = all_full ? 0 : take_delays(p, t, true, full);
	row.target =
		((double)p->delay_ns + lh_verify_ns(small_bytes, p->bandwidth_bps)) / LH_NS_PER_MS;
	if (p->jitter && n_small > 1)
		return judge_jitter(v, t, small, n_small, row.target, err);
	row.n = (int64_t)n_small;
	row.achieved = n_small ? small[n_small / 2] : NAN;
	row.tolerance = delay_tolerance_ms(v, row.target);
	r = lh_verify_add(v, row, err);
	if (r < 0 || !n_small || !n_full || p->jitter)
		return r;
	row = lh_verify_row_of(t, LH_PROPERTY_SERIALISATION);
	row.n = (int64_t)n_full;
	row.target = lh_verify_ns(more_bytes, p->bandwidth_bps) / LH_NS_PER_MS;
	row.achieved = full[n_full / 2] - small[n_small / 2];
	row.tolerance = 0.01 * row.target + (v->is_virtual ? 0.01 : delay_abs_ms_real);
	return lh_verify_add(v, row, err);
}

/* Probability of a count at least as far from its mean, if binomial. */
static double p_binomial(int64_t k, int64_t n, double ratio)
{
	double low = lh_binomial_cdf(k, n, ratio), high = 1 - lh_binomial_cdf(k - 1, n, ratio);
	double p = 2 * (low < high ? low : high);

	return p > 1 ? 1 : p;
}

/* A share of n packets that chance decides. */
static int add_share(struct lh_verify *v, const struct lh_train *t, enum lh_property property,
		     int64_t k, int64_t n, double ratio, struct lh_error *err)
{
	struct lh_verify_row row = lh_verify_row_of(t, property);

	row.n = n;
	row.target = ratio;
	row.achieved = n ? (double)k / (double)n : NAN;
	row.chance = n ? sqrt(ratio * (1 - ratio) / (double)n) : 0;
	row.p = n ? p_binomial(k, n, ratio) : 0;
	return lh_verify_add(v, row, err);
}

/* Of lost packets, how many are followed by another that is lost. */
static int64_t count_followed(const struct lh_train *t)
{
	int64_t n = 0;

	for (uint32_t i = 0; i + 1 < t->n; i++)
		n += t->arrival_ns[i] < 0 && t->arrival_ns[i + 1] < 0;
	return n;
}

/*
 * Losses: how many, and how many in a row. Each lost packet is followed by another with the
 * same probability, in bursts as without them, so both are binomial but for the number that is
 * lost in bursts, which varies more.
 */
static int judge_losses(struct lh_verify *v, const struct lh_train *t, struct lh_error *err)
{
	const struct lh_plan_chances *c = &lh_verify_path(v, t)->chances;
	double in = c->burst_in / 0x1p32, out = c->burst_out / 0x1p32;
	double ratio = c->burst_in ? in / (in + out) : c->loss / 0x1p32;
	double corrupt = c->corrupt / 0x1p32, doubled = c->duplicate / 0x1p32;
	double bytes = lh_probe_wire_bytes(lh_probe_full_bytes(v->plan));
	/* bits of the headers, which no sum or address guards but the sender's own */
	double unseen = (UINT32_C(42) - ETHERNET_ADDRESS_BYTES) / bytes;
	int64_t lost = (int64_t)t->n - t->n_arrived - t->n_damaged;
	int64_t followed = count_followed(t);
	struct lh_verify_row row;
	int r;

	/* what is doubled and lost passes once */
	ratio = ratio * (1 - doubled) + (1 - ratio) * corrupt * unseen;
	if (lost < 0)
		lost = 0;
	r = add_share(v, t, LH_PROPERTY_LOSS, lost, t->n, ratio, err);
	row = v->verdict->rows[v->verdict->n_rows - 1];
	if (r == 0 && c->burst_in) {
		row.chance *= sqrt((2 - in - out) / (in + out));
		row.p = p_of(row.achieved - ratio, 0, row.chance);
		v->verdict->rows[v->verdict->n_rows - 1] = row;
	}
	if (r < 0 || c->corrupt || c->duplicate || !lost || !ratio)
		return r;
	row = lh_verify_row_of(t, LH_PROPERTY_LOSS_BURST);
	row.n = lost;
	row.target = c->burst_in ? 1 / out : 1 / (1 - ratio);
	row.achieved = (double)lost / (double)(lost - followed);
	row.chance = row.target * sqrt((1 - 1 / row.target) / (double)lost) * row.target;
	row.p = p_binomial(followed, lost, 1 - 1 / row.target);
	return lh_verify_add(v, row, err);
}

int lh_verify_chances(struct lh_verify *v, const struct lh_train *t, struct lh_error *err)
{
	const struct lh_plan_path *p = lh_verify_path(v, t);
	const struct lh_plan_chances *c = &p->chances;
	double loss =
		c->burst_in ? c->burst_in / ((double)c->burst_in + c->burst_out) : c->loss / 0x1p32;
	double doubled = c->duplicate / 0x1p32;
	struct lh_verify_row order = lh_verify_row_of(t, LH_PROPERTY_ORDER);
	int64_t n_early = 0;
	int r = judge_losses(v, t, err);

	for (uint32_t i = 0; i < t->n; i++)
		n_early += t->arrival_ns[i] >= 0 &&
			   (double)t->delay_ns[i] / LH_NS_PER_MS <= early_ms(p);
	/* a double is lost as often as others are */
	if (r == 0 && doubled > 0)
		r = add_share(v, t, LH_PROPERTY_DUPLICATE, t->n_twice, t->n,
			      doubled * (1 - loss) * (1 - loss), err);
	if (r == 0 && c->corrupt > 0)
		r = add_share(v, t, LH_PROPERTY_CORRUPT, t->n_damaged, t->n,
			      c->corrupt / 0x1p32 * (1 - loss) * lh_probe_full_bytes(v->plan) /
				      lh_probe_wire_bytes(lh_probe_full_bytes(v->plan)),
			      err);
	if (r == 0 && c->reorder > 0)
		return add_share(v, t, LH_PROPERTY_REORDER, n_early, t->n_arrived,
				 c->reorder / 0x1p32, err);
	order.achieved = t->n_overtaken;
	return r < 0 ? r : lh_verify_add(v, order, err);
}
