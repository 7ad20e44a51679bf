/* SPDX-License-Identifier: Apache-2.0 */
/* Distribution functions. See stats.h. */
#include "core/stats.h"

#include <math.h>
#include <stdlib.h>

enum { BISECTIONS = 80, FRACTION_TERMS = 100000, KS_TERMS = 100 };

static double normal_cdf(double z)
{
	return 0.5 * erfc(-z * M_SQRT1_2);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void lh_sort_doubles(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
}

double lh_normal_quantile(double u)
{
	double low = -40, high = 40;

	if (u > 0.5) /* the lower tail has more digits */
		return -lh_normal_quantile(1 - u);
	for (int i = 0; i < BISECTIONS; i++) {
		double mid = (low + high) / 2;

		if (normal_cdf(mid) < u)
			low = mid;
		else
			high = mid;
	}
	return (low + high) / 2;
}

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300, enough = 1e-14;
	double c = 1, d = 1 - (a + b) * x / (a + 1), f;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	f = d;
	for (int m = 1; m < FRACTION_TERMS; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double step;

		d = 1 + even * d;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = 1 + even / c;
		c = fabs(c) < tiny ? tiny : c;
		f *= c * d;
		d = 1 + odd * d;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = 1 + odd / c;
		c = fabs(c) < tiny ? tiny : c;
		step = c * d;
		f *= step;
		if (fabs(step - 1) < enough)
			break;
	}
	return f;
}

/* The regularised incomplete beta function I_x(a, b). */
static double beta_inc(double a, double b, double x)
{
	double front;

	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
					 : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double lh_binomial_cdf(int64_t k, int64_t n, double p)
{
	if (k < 0)
		return 0;
	if (k >= n)
		return 1;
	return beta_inc((double)(n - k), (double)k + 1, 1 - p);
}

double lh_ks_p(double d, size_t n)
{
	double root = sqrt((double)n);
	double x = (root + 0.12 + 0.11 / root) * d;
	double sum = 0;

	if (x < 0.2) /* the series does not converge there; the value is 1 to nine digits */
		return 1;
	for (int k = 1; k <= KS_TERMS; k++)
		sum += (k % 2 ? 2 : -2) * exp(-2.0 * k * k * x * x);
	return sum < 0 ? 0 : sum > 1 ? 1 : sum;
}
