/* SPDX-License-Identifier: Apache-2.0 */
/* Distribution functions against values of tables and sums. */
#include "core/stats.h"

#include <math.h>

#include "tests/unit/test.h"

static void test_normal_quantiles_are_those_of_tables(void **state)
{
	static const struct {
		double u, z;
	} cases[] = {{0.5, 0},
		     {0.975, 1.959963984540054},
		     {0.0005, -3.290526731491895},
		     {0.99, 2.326347874040841},
		     {1e-9, -5.997807015007687}};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_near(lh_normal_quantile(cases[i].u), cases[i].z, 1e-9);
}

/* The sum of the probabilities themselves. */
static double binomial_sum(int k, int n, double p)
{
	double sum = 0;

	for (int i = 0; i <= k; i++)
		sum += exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) + i * log(p) +
			   (n - i) * log1p(-p));
	return sum;
}

static void test_binomial_probabilities_are_the_sum_of_their_terms(void **state)
{
	static const struct {
		int k, n;
		double p;
	} cases[] = {{0, 10, 0.1},	 {3, 10, 0.5},	    {20, 20000, 0.001},
		     {45, 20000, 0.001}, {4000, 5000, 0.8}, {90, 100, 0.99}};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_near(lh_binomial_cdf(cases[i].k, cases[i].n, cases[i].p),
			    binomial_sum(cases[i].k, cases[i].n, cases[i].p), 1e-8);
	assert_true(lh_binomial_cdf(-1, 5, 0.5) == 0);
	assert_true(lh_binomial_cdf(5, 5, 0.5) == 1);
}

static void test_kolmogorovs_limits_are_those_of_tables(void **state)
{
	(void)state;
	/* critical values at 5 % and 1 %: 1.358 and 1.628 over the root of n */
	assert_near(lh_ks_p(1.358 / 1000, 1000000), 0.05, 2e-4);
	assert_near(lh_ks_p(1.628 / 1000, 1000000), 0.01, 1e-4);
	assert_true(lh_ks_p(0, 100) == 1);
	assert_true(lh_ks_p(1, 100) < 1e-12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_normal_quantiles_are_those_of_tables),
		cmocka_unit_test(test_binomial_probabilities_are_the_sum_of_their_terms),
		cmocka_unit_test(test_kolmogorovs_limits_are_those_of_tables),
	};

	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
