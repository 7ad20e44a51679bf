/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of few repetitions: mean, standard deviation, Student's t, median. */
#ifndef LH_COLLECT_STATS_H
#define LH_COLLECT_STATS_H

#include <stddef.h>

/* What n values say about their mean; sd and the interval are NaN for n = 1, all for n = 0. */
struct lh_sample_stats {
	size_t n;
	double mean;
	double sd;	 /* of the sample, n - 1 in the denominator */
	double ci95_low; /* 95 % interval of the mean by Student's t with n - 1 degrees */
	double ci95_high;
};

struct lh_sample_stats lh_stats_of(const double *values, size_t n);

/*
 * The t that |T| exceeds with probability 5 % at df degrees of freedom, df >= 1 (12.706 for 1).
 * Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
 */
double lh_stats_t975(size_t df);

/* The median; sorts values in place; NaN for n = 0. */
double lh_stats_median(double *values, size_t n);

#endif
