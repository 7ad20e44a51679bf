/* SPDX-License-Identifier: Apache-2.0 */
/* Distribution functions that tests and intervals need. */
#ifndef LH_CORE_STATS_H
#define LH_CORE_STATS_H

#include <stddef.h>
#include <stdint.h>

/* Sorts from the least to the greatest. */
void lh_sort_doubles(double *values, size_t n);

/* z with P(Z <= z) = u for a standard normal Z; 0 < u < 1. */
double lh_normal_quantile(double u);

/* P(X <= k) for X binomial(n, p). Source: the incomplete beta function's continued fraction
 * (Abramowitz and Stegun 26.5.8, 26.5.24). */
double lh_binomial_cdf(int64_t k, int64_t n, double p);

/* Asymptotic P(D >= d) of the one-sample Kolmogorov-Smirnov statistic of n values, with
 * Stephens' correction for few of them. */
double lh_ks_p(double d, size_t n);

#endif
