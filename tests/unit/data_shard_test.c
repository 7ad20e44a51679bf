/* SPDX-License-Identifier: Apache-2.0 */
/* Orders and shards: complete, disjoint, functions of the seed, skewed as asked for. */
#include "trainer/data/shard.h"

#include "core/cleanup.h"
#include "tests/unit/data_fixture.h"
#include "trainer/data/order.h"

/* ---- orders ------------------------------------------------------------------------------- */

static void test_an_order_has_everything_once(void **state)
{
	static const uint64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097};
	static uint8_t seen[4097];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++)
		for (uint64_t epoch = 0; epoch < 3; epoch++) {
			struct lh_order order;

			lh_order_init(&order, sizes[i], 5, epoch);
			memset(seen, 0, sizeof(seen));
			for (uint64_t p = 0; p < sizes[i]; p++)
				assert_int_equal(seen[lh_order_at(&order, p)]++, 0);
		}
}

/* Chi-squared of where each of n stands, and of which pairs follow each other, over seeds. */
static void test_orders_are_uniform(void **state)
{
	enum { SEEDS = 20000, SIZES = 3 };
	static const uint64_t sizes[SIZES] = {3, 5, 10};

	(void)state;
	for (int k = 0; k < SIZES; k++) {
		uint64_t n = sizes[k];
		double at[10][10] = {{0}}, after[10][10] = {{0}}, chi = 0, chi_after = 0;
		double cells = (double)(n * n), pairs = (double)(n * (n - 1));

		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			struct lh_order order;
			uint64_t last = 0;

			lh_order_init(&order, n, seed, 0);
			for (uint64_t p = 0; p < n; p++) {
				uint64_t now = lh_order_at(&order, p);

				at[p][now]++;
				if (p)
					after[last][now]++;
				last = now;
			}
		}
		for (uint64_t a = 0; a < n; a++)
			for (uint64_t b = 0; b < n; b++) {
				double e = SEEDS / (double)n, f = SEEDS * (double)(n - 1) / pairs;

				chi += (at[a][b] - e) * (at[a][b] - e) / e;
				if (a != b)
					chi_after += (after[a][b] - f) * (after[a][b] - f) / f;
			}
		/* mean (n-1)^2 and about pairs; six standard deviations above */
		assert_true(chi < cells + 6 * sqrt(2 * cells));
		assert_true(chi_after < pairs + 6 * sqrt(2 * pairs));
	}
}

/* ---- shards ------------------------------------------------------------------------------- */

/* Every sample is in one rank's part. */
static void assert_complete(const struct lh_shards *shards, uint32_t n_ranks, uint64_t n)
{
	lh_cleanup_free uint8_t *seen = calloc(n, 1);
	uint64_t all = 0;

	for (uint32_t r = 0; r < n_ranks; r++) {
		uint64_t n_part;
		const uint32_t *part = lh_shards_of(shards, r, &n_part);

		assert_true(n_part > 0);
		all += n_part;
		for (uint64_t i = 0; i < n_part; i++) {
			assert_true(part[i] < n);
			assert_int_equal(seen[part[i]]++, 0);
		}
	}
	assert_int_equal(all, n);
}

static struct lh_shards *split(const struct lh_dataset *ds, const struct lh_shard_spec *spec)
{
	struct lh_shards *shards = NULL;
	struct lh_error err = {0};

	if (lh_shards_make(ds, spec, &shards, &err) < 0)
		fail_msg("%s", err.message);
	return shards;
}

static void test_iid_shards_are_complete_and_even(void **state)
{
	const struct lh_shard_spec spec = {
		.mode = LH_SHARD_IID, .seed = 3, .n_sites = 3, .n_ranks = (uint32_t[]){1, 4, 2}};
	struct lh_dataset *ds = data_open_images(1003, 10);
	struct lh_shards *shards = split(ds, &spec);

	(void)state;
	assert_complete(shards, 7, 1003);
	for (uint32_t r = 0; r < 7; r++) {
		int counts[10] = {0};
		uint64_t n;
		const uint32_t *part = lh_shards_of(shards, r, &n);

		assert_in_range(n, 143, 144);
		for (uint64_t i = 0; i < n; i++)
			counts[lh_dataset_label(ds, part[i])]++;
		for (int c = 0; c < 10; c++) /* 14.3 expected, deviation 3.6 */
			assert_in_range(counts[c], 1, 32);
	}
	lh_shards_free(shards);
	lh_dataset_free(ds);
}

static void test_placed_shards_are_as_large_as_asked_for(void **state)
{
	const struct lh_shard_spec spec = {.mode = LH_SHARD_PLACED,
					   .seed = 3,
					   .shares = (double[]){0.6, 0.1, 0.3},
					   .n_sites = 3,
					   .n_ranks = (uint32_t[]){2, 1, 3}};
	static const uint64_t expected[] = {300, 300, 100, 100, 100, 100};
	struct lh_dataset *ds = data_open_images(1000, 10);
	struct lh_shards *shards = split(ds, &spec);

	(void)state;
	assert_complete(shards, 6, 1000);
	for (uint32_t r = 0; r < 6; r++) {
		uint64_t n;

		lh_shards_of(shards, r, &n);
		assert_int_equal(n, expected[r]);
	}
	lh_shards_free(shards);
	lh_dataset_free(ds);
}

/* The mean, over sites, of the distance of a site's shares of labels from the whole's. */
static double skew_of(const struct lh_dataset *ds, const struct lh_shards *shards, uint32_t n_sites)
{
	double sum = 0;

	for (uint32_t s = 0; s < n_sites; s++) {
		double counts[10] = {0};
		uint64_t n_part;
		const uint32_t *part = lh_shards_of(shards, s, &n_part);

		for (uint64_t i = 0; i < n_part; i++)
			counts[lh_dataset_label(ds, part[i])]++;
		for (int c = 0; c < 10; c++)
			sum += fabs(counts[c] / (double)n_part - 0.1) / 2;
	}
	return sum / n_sites;
}

static void test_the_smaller_alpha_the_more_skewed(void **state)
{
	static const double alphas[] = {0.1, 1, 10, 1e5};
	static const uint32_t ranks[] = {1, 1, 1, 1};
	struct lh_dataset *ds = data_open_images(4000, 10);
	double skews[4] = {0};

	(void)state;
	for (int a = 0; a < 4; a++)
		for (uint64_t seed = 0; seed < 5; seed++) {
			const struct lh_shard_spec spec = {.mode = LH_SHARD_SKEWED,
							   .seed = seed,
							   .alpha = alphas[a],
							   .n_sites = 4,
							   .n_ranks = ranks};
			struct lh_shards *shards = split(ds, &spec);

			assert_complete(shards, 4, 4000);
			skews[a] += skew_of(ds, shards, 4) / 5;
			lh_shards_free(shards);
		}
	assert_true(skews[0] > 0.45);
	assert_true(skews[0] > skews[1] + 0.1);
	assert_true(skews[1] > skews[2] + 0.1);
	assert_true(skews[3] < 0.02);
	lh_dataset_free(ds);
}

static void test_ranks_of_a_skewed_site_are_alike(void **state)
{
	const struct lh_shard_spec spec = {.mode = LH_SHARD_SKEWED,
					   .seed = 4,
					   .alpha = 0.3,
					   .n_sites = 2,
					   .n_ranks = (uint32_t[]){3, 1}};
	struct lh_dataset *ds = data_open_images(8000, 4);
	struct lh_shards *shards = split(ds, &spec);
	double shares[4][4] = {{0}};

	(void)state;
	assert_complete(shards, 4, 8000);
	for (uint32_t r = 0; r < 4; r++) {
		uint64_t n;
		const uint32_t *part = lh_shards_of(shards, r, &n);

		for (uint64_t i = 0; i < n; i++)
			shares[r][lh_dataset_label(ds, part[i])] += 1.0 / (double)n;
	}
	for (int c = 0; c < 4; c++) {
		assert_near(shares[0][c], shares[1][c], 0.06);
		assert_near(shares[0][c], shares[2][c], 0.06);
	}
	lh_shards_free(shards);
	lh_dataset_free(ds);
}

static void test_dirichlet_shares_have_the_right_moments(void **state)
{
	/* two sites, alpha each: a share is Beta(alpha, alpha), variance 1 / (4 (2 alpha + 1)) */
	static const double alphas[] = {0.2, 0.7, 3};
	enum { SEEDS = 40, CLASSES = 50, EACH = 200 };
	struct lh_dataset *ds = data_open_images(CLASSES * EACH, CLASSES);

	(void)state;
	for (size_t a = 0; a < N_ELEMENTS(alphas); a++) {
		double sum = 0, squares = 0, n = SEEDS * CLASSES, variance;

		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			const struct lh_shard_spec spec = {.mode = LH_SHARD_SKEWED,
							   .seed = seed,
							   .alpha = alphas[a],
							   .n_sites = 2,
							   .n_ranks = (uint32_t[]){1, 1}};
			struct lh_shards *shards = split(ds, &spec);
			double counts[CLASSES] = {0};
			uint64_t n_part;
			const uint32_t *part = lh_shards_of(shards, 0, &n_part);

			for (uint64_t i = 0; i < n_part; i++)
				counts[lh_dataset_label(ds, part[i])]++;
			for (int c = 0; c < CLASSES; c++) {
				sum += counts[c] / EACH;
				squares += counts[c] / EACH * counts[c] / EACH;
			}
			lh_shards_free(shards);
		}
		variance = squares / n - sum / n * sum / n;
		assert_near(sum / n, 0.5, 0.04); /* 2,000 shares: 4 deviations or more */
		assert_near(variance * 4 * (2 * alphas[a] + 1), 1, 0.15);
	}
	lh_dataset_free(ds);
}

static void test_shards_are_a_function_of_the_seed(void **state)
{
	struct lh_dataset *ds = data_open_images(500, 10);

	(void)state;
	for (int mode = LH_SHARD_IID; mode <= LH_SHARD_SKEWED; mode++) {
		struct lh_shard_spec spec = {.mode = (enum lh_shard_mode)mode,
					     .seed = 1,
					     .alpha = 1,
					     .n_sites = 2,
					     .n_ranks = (uint32_t[]){1, 1}};
		struct lh_shards *a = split(ds, &spec), *b = split(ds, &spec), *c;
		uint64_t n_a, n_b, n_c;
		const uint32_t *p = lh_shards_of(a, 0, &n_a), *q = lh_shards_of(b, 0, &n_b);

		spec.seed = 2;
		c = split(ds, &spec);
		assert_int_equal(n_a, n_b);
		assert_memory_equal(p, q, n_a * sizeof(*p));
		q = lh_shards_of(c, 0, &n_c);
		assert_true(n_a != n_c || memcmp(p, q, n_a * sizeof(*p)) != 0);
		lh_shards_free(a);
		lh_shards_free(b);
		lh_shards_free(c);
	}
	lh_dataset_free(ds);
}

static void test_splits_that_cannot_be_are_refused(void **state)
{
	const struct lh_data_request text = {.kind = "synthetic-text"};
	const uint32_t one[] = {1, 1, 1}, none[] = {1, 0, 1};
	const struct {
		struct lh_shard_spec spec;
		bool is_text;
		const char *says;
	} cases[] = {
		{{.n_sites = 0, .n_ranks = one}, false, "0 sites"},
		{{.n_sites = 3, .n_ranks = none}, false, "site 1 has 0 ranks"},
		{{.n_sites = 3, .n_ranks = one}, false, "rank 0 of 3 would have none of the 2"},
		{{.mode = LH_SHARD_SKEWED, .alpha = 1, .n_sites = 2, .n_ranks = one},
		 true,
		 "synthetic-text has no labels"},
		{{.mode = LH_SHARD_SKEWED, .alpha = 0, .n_sites = 2, .n_ranks = one},
		 false,
		 "alpha is 0"},
		{{.mode = LH_SHARD_SKEWED, .alpha = NAN, .n_sites = 2, .n_ranks = one},
		 false,
		 "alpha is nan"},
	};
	struct lh_dataset *images = data_open_images(2, 2), *tokens = data_open(&text);

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_shards *shards = NULL;
		struct lh_error err = {0};

		assert_int_equal(lh_shards_make(cases[i].is_text ? tokens : images, &cases[i].spec,
						&shards, &err),
				 LH_EINPUT);
		assert_null(shards);
		if (!strstr(err.message, cases[i].says))
			fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
	}
	lh_dataset_free(images);
	lh_dataset_free(tokens);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_order_has_everything_once),
		cmocka_unit_test(test_orders_are_uniform),
		cmocka_unit_test(test_iid_shards_are_complete_and_even),
		cmocka_unit_test(test_placed_shards_are_as_large_as_asked_for),
		cmocka_unit_test(test_the_smaller_alpha_the_more_skewed),
		cmocka_unit_test(test_ranks_of_a_skewed_site_are_alike),
		cmocka_unit_test(test_dirichlet_shares_have_the_right_moments),
		cmocka_unit_test(test_shards_are_a_function_of_the_seed),
		cmocka_unit_test(test_splits_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
