/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of delays: mean, deviation and shape against closed forms and samples. */
#include "scenarios/jitter.h"

#include <math.h>

#include "core/rng.h"
#include "core/stats.h"
#include "tests/unit/scenario_fixture.h"

enum { N_SAMPLES = 5000 };

static struct lh_jitter_table make(const struct lh_path_spec *path)
{
	struct lh_jitter_forms forms = {.quantiles = {NULL}};
	struct lh_jitter_table table;
	struct lh_error err = {0};

	assert_int_equal(lh_jitter_make(path, &forms, &table, &err), 0);
	lh_jitter_forms_done(&forms);
	return table;
}

/* What the kernel makes of an entry: tabledist() of net/sched/sch_netem.c, mu 0. */
static double kernel_ns(const struct lh_jitter_table *t, int i)
{
	int64_t sigma = t->sigma_ns, entry = t->entries[i];
	int64_t x = sigma % 8192 * entry;

	x += x >= 0 ? 4096 : -4096;
	return (double)(x / 8192 + sigma / 8192 * entry);
}

/* row 15 */
static void test_mean_and_deviation_are_what_was_asked(void **state)
{
	static const int64_t sds[] = {1000, 50000, 2000000, 15000001, 90000000};

	(void)state;
	for (int d = LH_JITTER_NORMAL; d <= LH_JITTER_UNIFORM; d++)
		for (size_t k = 0; k < N_ELEMENTS(sds); k++) {
			struct lh_path_spec path = {.jitter_ns = sds[k], .jitter_distribution = d};
			struct lh_jitter_table t = make(&path);
			double sum = 0, square = 0, sd;

			for (int i = 0; i < LH_JITTER_ENTRIES; i++) {
				double y = kernel_ns(&t, i);

				sum += y;
				square += y * y;
				assert_true(i == 0 || t.entries[i] >= t.entries[i - 1]);
				assert_true(y >= (double)t.lowest_ns && y <= (double)t.highest_ns);
			}
			sd = sqrt(square / LH_JITTER_ENTRIES);
			assert_near(sum / LH_JITTER_ENTRIES, 0, 1 + 1e-3 * (double)sds[k]);
			assert_near(sd, (double)sds[k], 1 + 1e-3 * (double)sds[k]);
			assert_near(t.sd_ns, sd, 1);
		}
}

/* The distribution function at entry i is (i + 0.5) / 4096. */
static void test_the_shape_is_the_distributions(void **state)
{
	struct lh_path_spec path = {.jitter_ns = 1000000};
	struct lh_jitter_table t = make(&path);
	double mean = 0, square = 0;

	(void)state;
	for (int i = 100; i < LH_JITTER_ENTRIES; i += 397)
		assert_near(kernel_ns(&t, i) / 1e6, lh_normal_quantile((i + 0.5) / 4096), 3e-3);
	path.jitter_distribution = LH_JITTER_UNIFORM;
	t = make(&path);
	for (int i = 0; i < LH_JITTER_ENTRIES; i += 397)
		assert_near(kernel_ns(&t, i) / 1e6, sqrt(12) * ((i + 0.5) / 4096 - 0.5), 1e-3);
	/* pareto of shape 3; mean and deviation without what lies beyond the last quantile */
	for (int i = 0; i < LH_JITTER_ENTRIES; i++) {
		double x = pow(1 - (i + 0.5) / 4096, -1 / 3.0);

		mean += x / 4096;
		square += x * x / 4096;
	}
	path.jitter_distribution = LH_JITTER_PARETO;
	t = make(&path);
	for (int i = 0; i < 4000; i += 397)
		assert_near(kernel_ns(&t, i) / 1e6,
			    (pow(1 - (i + 0.5) / 4096, -1 / 3.0) - mean) /
				    sqrt(square - mean * mean),
			    1e-3);
	assert_true(t.highest_ns > 20000000);
}

static void test_samples_give_their_own_shape_and_deviation(void **state)
{
	char *texts[N_SAMPLES];
	struct lh_path_spec path = {
		.jitter_ns = -1, .jitter_samples = texts, .n_jitter_samples = N_SAMPLES};
	struct lh_jitter_table t;
	struct lh_rng rng;
	double sum = 0, square = 0, sd;

	(void)state;
	lh_rng_init(&rng, 1, "samples");
	for (int i = 0; i < N_SAMPLES; i++) { /* exponential, mean 3 ms, around 40 ms */
		double v = 40 - 3 * log(1 - lh_rng_uniform(&rng));

		texts[i] = lh_strf("%.6f", v);
		sum += v;
		square += v * v;
	}
	sd = sqrt(square / N_SAMPLES - sum / N_SAMPLES * sum / N_SAMPLES);
	t = make(&path);
	assert_near(t.sd_ns / 1e6, sd, 0.01 * sd);
	assert_near(kernel_ns(&t, 2048) / 1e6, 3 * log(2) - 3, 0.15);
	assert_near((double)t.lowest_ns / 1e6, -3, 0.15);
	path.jitter_ns = 1000000; /* which goes before that of the samples */
	t = make(&path);
	assert_near(t.sd_ns, 1e6, 1e3);
	for (int i = 0; i < N_SAMPLES; i++)
		free(texts[i]);
}

static void test_what_netem_cannot_hold_is_refused(void **state)
{
	char *same[] = {"5", "5", "5"}, *words[] = {"5", "six"};
	const struct lh_path_spec paths[] = {
		{.jitter_ns = 1500000000, .jitter_distribution = LH_JITTER_PARETO},
		{.jitter_ns = -1, .jitter_samples = same, .n_jitter_samples = 3},
		{.jitter_ns = -1, .jitter_samples = words, .n_jitter_samples = 2},
	};
	static const char *const said[] = {"more than netem", "do not vary", "'six'"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
		struct lh_jitter_forms forms = {.quantiles = {NULL}};
		struct lh_jitter_table t;
		struct lh_error err = {0};

		assert_int_equal(lh_jitter_make(&paths[i], &forms, &t, &err), LH_EINPUT);
		lh_jitter_forms_done(&forms);
		assert_non_null(strstr(err.message, said[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mean_and_deviation_are_what_was_asked),
		cmocka_unit_test(test_the_shape_is_the_distributions),
		cmocka_unit_test(test_samples_give_their_own_shape_and_deviation),
		cmocka_unit_test(test_what_netem_cannot_hold_is_refused),
	};

	return cmocka_run_group_tests_name("jitter", tests, NULL, NULL);
}
