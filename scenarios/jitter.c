/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of delay distributions. See jitter.h. With u the probability:
 *   normal        z(u), the inverse of the normal distribution function
 *   uniform       u
 *   pareto        (1 - u)^(-1/3): shape 3, the least with a variance
 *   paretonormal  a quarter normal, three quarters pareto, both of deviation 1
 *   samples       the sorted samples, linear between them
 * each then shifted and stretched so that the 4096 entries have mean 0 and deviation 1.
 */
#include "scenarios/jitter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "core/stats.h"

static const double pareto_shape = 3;
static const int64_t sigma_max_ns = INT32_MAX; /* what netem holds */
static const double sample_max_ms = 3600000;   /* an hour, as for delays */

bool lh_jitter_is_asked(const struct lh_path_spec *path)
{
	return path->jitter_ns > 0 || path->n_jitter_samples > 0;
}

/* Shifts and stretches x to mean 0 and deviation 1; the deviation that it had. */
static double standardise(double *x)
{
	double mean = 0, square = 0, sd;

	for (int i = 0; i < LH_JITTER_ENTRIES; i++)
		mean += x[i] / LH_JITTER_ENTRIES;
	for (int i = 0; i < LH_JITTER_ENTRIES; i++)
		square += (x[i] - mean) * (x[i] - mean) / LH_JITTER_ENTRIES;
	sd = sqrt(square);
	for (int i = 0; i < LH_JITTER_ENTRIES && sd > 0; i++)
		x[i] = (x[i] - mean) / sd;
	return sd;
}

static double probability(int i)
{
	return (i + 0.5) / LH_JITTER_ENTRIES;
}

static void fill_pareto(double *x)
{
	for (int i = 0; i < LH_JITTER_ENTRIES; i++)
		x[i] = pow(1 - probability(i), -1 / pareto_shape);
	standardise(x);
}

static void fill_closed_form(enum lh_jitter_distribution distribution, double *x)
{
	const double normal_part = 0.25;

	fill_pareto(x);
	for (int i = 0; i < LH_JITTER_ENTRIES; i++)
		switch (distribution) {
		case LH_JITTER_NORMAL:
			x[i] = lh_normal_quantile(probability(i));
			break;
		case LH_JITTER_UNIFORM:
			x[i] = probability(i);
			break;
		case LH_JITTER_PARETONORMAL:
			x[i] = (1 - normal_part) * x[i] +
			       normal_part * lh_normal_quantile(probability(i));
			break;
		default:
			break;
		}
	standardise(x);
}

/* Quantiles of the samples; *ret_sd_ms is theirs. */
static int fill_samples(const struct lh_path_spec *path, double *x, double *ret_sd_ms,
			struct lh_error *err)
{
	size_t n = path->n_jitter_samples;
	lh_cleanup_free double *sorted = calloc(n, sizeof(*sorted));

	if (!sorted)
		return lh_fail(err, LH_ESYS, ENOMEM, "read jitter samples");
	for (size_t i = 0; i < n; i++) {
		char *end;

		sorted[i] = strtod(path->jitter_samples[i], &end);
		if (end == path->jitter_samples[i] || *end || !(fabs(sorted[i]) <= sample_max_ms))
			return lh_fail(err, LH_EINPUT, 0,
				       "sample %zu, '%.40s', is not a number of ms", i + 1,
				       path->jitter_samples[i]);
	}
	lh_sort_doubles(sorted, n);
	for (int i = 0; i < LH_JITTER_ENTRIES; i++) {
		double at = probability(i) * (double)n - 0.5;
		size_t below = at <= 0 ? 0 : (size_t)at;
		size_t above = below + 1 < n ? below + 1 : below;
		double part = at <= 0 ? 0 : at - (double)below;

		x[i] = sorted[below] + part * (sorted[above] - sorted[below]);
	}
	*ret_sd_ms = standardise(x);
	return *ret_sd_ms > 0 ? 0 : lh_fail(err, LH_EINPUT, 0, "the samples do not vary");
}

/* Entries and sigma from quantiles of mean 0 and deviation 1. */
static int quantise(const double *x, double sd_ns, struct lh_jitter_table *ret,
		    struct lh_error *err)
{
	const double ends[] = {fabs(x[0]), fabs(x[LH_JITTER_ENTRIES - 1])};
	double widest = ends[0] > ends[1] ? ends[0] : ends[1];
	double scale = floor(INT16_MAX / widest);
	double square = 0;

	if (scale > LH_JITTER_SCALE)
		scale = LH_JITTER_SCALE;
	ret->sigma_ns = llround(sd_ns * LH_JITTER_SCALE / scale);
	if (ret->sigma_ns > sigma_max_ns)
		return lh_fail(err, LH_EINPUT, 0,
			       "a deviation of %.3f ms with this distribution is more than netem "
			       "can hold; at most %.3f ms",
			       sd_ns / 1e6, (double)sigma_max_ns * scale / LH_JITTER_SCALE / 1e6);
	for (int i = 0; i < LH_JITTER_ENTRIES; i++) {
		double y;

		ret->entries[i] = (int16_t)lround(x[i] * scale);
		y = (double)ret->entries[i] / LH_JITTER_SCALE * (double)ret->sigma_ns;
		square += y * y / LH_JITTER_ENTRIES;
	}
	ret->sd_ns = sqrt(square);
	ret->lowest_ns = (int64_t)ret->entries[0] * ret->sigma_ns / LH_JITTER_SCALE - 1;
	ret->highest_ns =
		(int64_t)ret->entries[LH_JITTER_ENTRIES - 1] * ret->sigma_ns / LH_JITTER_SCALE + 1;
	return 0;
}

/* Quantiles of a closed form, made when first asked for; NULL where memory is out. */
static const double *form_of(struct lh_jitter_forms *forms, enum lh_jitter_distribution d)
{
	double *x = forms->quantiles[d];

	if (x)
		return x;
	x = forms->quantiles[d] = calloc(LH_JITTER_ENTRIES, sizeof(*x));
	if (x)
		fill_closed_form(d, x);
	return x;
}

void lh_jitter_forms_done(struct lh_jitter_forms *forms)
{
	for (size_t i = 0; i < sizeof(forms->quantiles) / sizeof(forms->quantiles[0]); i++)
		free(forms->quantiles[i]);
	*forms = (struct lh_jitter_forms){.quantiles = {NULL}};
}

int lh_jitter_make(const struct lh_path_spec *path, struct lh_jitter_forms *forms,
		   struct lh_jitter_table *ret, struct lh_error *err)
{
	struct lh_jitter_forms single = {.quantiles = {NULL}};
	lh_cleanup_free double *own = NULL;
	double sd_ns = (double)path->jitter_ns, sd_ms = 0;
	const double *x;
	int r = 0;

	if (path->n_jitter_samples)
		x = own = calloc(LH_JITTER_ENTRIES, sizeof(*own));
	else
		x = form_of(forms ? forms : &single,
			    (enum lh_jitter_distribution)path->jitter_distribution);
	if (!x)
		return lh_fail(err, LH_ESYS, ENOMEM, "make a table of jitter");
	if (own)
		r = fill_samples(path, own, &sd_ms, err);
	if (path->jitter_ns < 0)
		sd_ns = sd_ms * 1e6;
	if (r == 0)
		r = quantise(x, sd_ns, ret, err);
	lh_jitter_forms_done(&single);
	return r;
}
