/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of few repetitions. See stats.h. */
#include "collect/stats.h"
#include "core/stats.h"

#include <math.h>
#include <stdlib.h>

enum { DF_MAX = 10000, BISECTIONS = 100 };

/* P(|T| <= t) at df degrees: the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4. */
static double t_inside(double t, size_t df)
{
	double theta = atan(t / sqrt((double)df));
	double c2 = cos(theta) * cos(theta);
	double term = df % 2 ? cos(theta) : 1;
	double sum = 0;

	for (size_t k = df % 2 ? 3 : 2; k <= df; k += 2) {
		sum += term;
		term *= c2 * (double)(k - 1) / (double)k;
	}
	if (df % 2)
		return 2 / M_PI * (theta + sin(theta) * sum);
	return sin(theta) * sum;
}

double lh_stats_t975(size_t df)
{
	double low = 0, high = 1000;

	df = df > DF_MAX ? DF_MAX : df;
	for (int i = 0; i < BISECTIONS && low < high; i++) {
		double mid = (low + high) / 2;

		if (t_inside(mid, df) < 0.95)
			low = mid;
		else
			high = mid;
	}
	return (low + high) / 2;
}

struct lh_sample_stats lh_stats_of(const double *values, size_t n)
{
	struct lh_sample_stats s = {n, NAN, NAN, NAN, NAN};
	double sum = 0, squares = 0, half;

	if (!n)
		return s;
	for (size_t i = 0; i < n; i++)
		sum += values[i];
	s.mean = sum / (double)n;
	if (n < 2)
		return s;
	for (size_t i = 0; i < n; i++)
		squares += (values[i] - s.mean) * (values[i] - s.mean);
	s.sd = sqrt(squares / (double)(n - 1));
	half = lh_stats_t975(n - 1) * s.sd / sqrt((double)n);
	s.ci95_low = s.mean - half;
	s.ci95_high = s.mean + half;
	return s;
}

double lh_stats_median(double *values, size_t n)
{
	if (!n)
		return NAN;
	lh_sort_doubles(values, n);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
