/* SPDX-License-Identifier: Apache-2.0 */
/* Random streams: the published generators' numbers, independence of streams, distributions. */
#include "core/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/stats.h"
#include "tests/unit/test.h"

/*
 * The seeds are fixed, so each statistic is one fixed number; the bounds are those that
 * a sound generator stays within with probability 0.9999.
 */

static void test_bits_are_those_of_xoshiro256_starstar(void **state)
{
	/* Published with the reference implementation's ports, for the state 1, 2, 3, 4. */
	static const uint64_t expected[] = {11520u,
					    0u,
					    1509978240u,
					    1215971899390074240u,
					    1216172134540287360u,
					    607988272756665600u,
					    16172922978634559625u,
					    8476171486693032832u,
					    10595114339597558777u,
					    2904607092377533576u};
	struct lh_rng rng = {{1, 2, 3, 4}};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(expected); i++)
		assert_true(lh_rng_next(&rng) == expected[i]);
}

static void test_seeding_is_splitmix64_of_seed_and_name(void **state)
{
	/* FNV-1a of "" is its offset basis; with it as the seed splitmix64 starts from 0. */
	static const uint64_t expected[] = {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u,
					    0x06c45d188009454fu, 0xf88bb8a8724c81ecu};
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 0xcbf29ce484222325u, "");
	assert_memory_equal(rng.state, expected, sizeof(expected));
	/* FNV-1a of "a" is 0xaf63dc4c8601ec8c */
	lh_rng_init(&rng, 0xaf63dc4c8601ec8cu, "a");
	assert_memory_equal(rng.state, expected, sizeof(expected));
}

static void test_streams_repeat_and_differ_by_seed_and_name(void **state)
{
	struct lh_rng a, b, other_name, other_seed;
	int same = 0;

	(void)state;
	lh_rng_init(&a, 7, "jitter");
	lh_rng_init(&b, 7, "jitter");
	lh_rng_init(&other_name, 7, "loss");
	lh_rng_init(&other_seed, 8, "jitter");
	for (int i = 0; i < 1000; i++) {
		uint64_t x = lh_rng_next(&a);

		assert_true(x == lh_rng_next(&b));
		same += x == lh_rng_next(&other_name);
		same += x == lh_rng_next(&other_seed);
	}
	assert_int_equal(same, 0);
}

/* The chi-square statistic of n draws below n_bins against the uniform distribution. */
static double chi_square_below(struct lh_rng *rng, uint64_t n_bins, int n)
{
	double expected = (double)n / (double)n_bins, sum = 0;
	int *counts = calloc(n_bins, sizeof(*counts));

	assert_non_null(counts);
	for (int i = 0; i < n; i++) {
		uint64_t bin = lh_rng_below(rng, n_bins);

		assert_true(bin < n_bins);
		counts[bin]++;
	}
	for (uint64_t i = 0; i < n_bins; i++)
		sum += (counts[i] - expected) * (counts[i] - expected) / expected;
	free(counts);
	return sum;
}

static void test_integers_are_uniform(void **state)
{
	/* quantiles 0.00005 and 0.99995 of chi-square with n - 1 degrees of freedom */
	static const struct {
		uint64_t n;
		double low, high;
	} cases[] = {
		{2, 0, 16.45},
		{6, 0.15, 27.40},
		{10, 0.98, 35.57},
		{100, 55.0, 161.0},
	};
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "chi-square");
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		double x = chi_square_below(&rng, cases[i].n, 200000);

		if (x < cases[i].low || x > cases[i].high)
			fail_msg("chi-square below %llu is %g, outside %g to %g",
				 (unsigned long long)cases[i].n, x, cases[i].low, cases[i].high);
	}
}

static void test_integers_have_no_modulo_bias(void **state)
{
	/* With n = 3 * 2^62 plain modulo would give the lower third half of all draws. */
	const uint64_t n = 3ull << 62, third = 1ull << 62;
	struct lh_rng rng;
	int lower = 0;

	(void)state;
	lh_rng_init(&rng, 1, "bias");
	for (int i = 0; i < 30000; i++)
		lower += lh_rng_below(&rng, n) < third;
	/* 10000 expected, standard deviation 81.6, four of them */
	assert_in_range(lower, 10000 - 330, 10000 + 330);
	for (int i = 0; i < 100; i++)
		assert_true(lh_rng_below(&rng, 1) == 0);
}

static void test_uniform_numbers_fill_the_unit_interval(void **state)
{
	enum { N = 200000 };
	double sum = 0, sum2 = 0, low = 1, high = 0;
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "uniform");
	for (int i = 0; i < N; i++) {
		double u = lh_rng_uniform(&rng);

		assert_true(u >= 0 && u < 1);
		sum += u;
		sum2 += u * u;
		low = fmin(low, u);
		high = fmax(high, u);
	}
	/* mean 1/2, variance 1/12; their standard errors are sqrt(1/12 N) and sqrt(1/180 N) */
	assert_near(sum / N, 0.5, 4 * sqrt(1.0 / 12 / N));
	assert_near(sum2 / N - sum / N * sum / N, 1.0 / 12, 4 * sqrt(1.0 / 180 / N));
	assert_true(low < 1e-4 && high > 1 - 1e-4);
}

static void test_normal_numbers_are_normal(void **state)
{
	enum { N = 100000 };
	static double x[N];
	double sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, distance = 0;
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "normal");
	for (int i = 0; i < N; i++) {
		x[i] = lh_rng_normal(&rng);
		assert_true(isfinite(x[i]));
		sum += x[i];
		sum2 += x[i] * x[i];
		sum3 += x[i] * x[i] * x[i];
		sum4 += x[i] * x[i] * x[i] * x[i];
	}
	/* moments 0, 1, 0, 3 with variances 1, 2, 15, 96 over N */
	assert_near(sum / N, 0, 4 * sqrt(1.0 / N));
	assert_near(sum2 / N, 1, 4 * sqrt(2.0 / N));
	assert_near(sum3 / N, 0, 4 * sqrt(15.0 / N));
	assert_near(sum4 / N, 3, 4 * sqrt(96.0 / N));
	/* Kolmogorov-Smirnov: sqrt(N) D is below 2.23 with probability 0.9999 */
	lh_sort_doubles(x, N);
	for (int i = 0; i < N; i++) {
		double cdf = 0.5 * erfc(-x[i] / sqrt(2.0));

		distance = fmax(distance, fmax(cdf - (double)i / N, (double)(i + 1) / N - cdf));
	}
	assert_true(sqrt(N) * distance < 2.23);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits_are_those_of_xoshiro256_starstar),
		cmocka_unit_test(test_seeding_is_splitmix64_of_seed_and_name),
		cmocka_unit_test(test_streams_repeat_and_differ_by_seed_and_name),
		cmocka_unit_test(test_integers_are_uniform),
		cmocka_unit_test(test_integers_have_no_modulo_bias),
		cmocka_unit_test(test_uniform_numbers_fill_the_unit_interval),
		cmocka_unit_test(test_normal_numbers_are_normal),
	};

	return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
