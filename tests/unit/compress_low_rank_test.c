/* SPDX-License-Identifier: Apache-2.0 */
/* Low rank: exact where the matrix is of that rank, conserving where it is not, alike on all ranks.
 */
#include "trainer/compress/low_rank.h"

#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"
#include "trainer/compress/kernels_internal.h"
#include "trainer/compress/kernels_matrix_internal.h"

enum { ROWS = 40, COLUMNS = 70, N = ROWS * COLUMNS };

static struct lh_low_rank *make(const struct lh_matrix_shape *tensors, size_t n, uint32_t rank)
{
	const struct lh_low_rank_settings settings = {.tensors = tensors,
						      .n_tensors = n,
						      .rank = rank,
						      .min_compression_ratio = 2,
						      .seed = 1};
	struct lh_low_rank *lr = NULL;
	struct lh_error err = {0};

	if (lh_low_rank_new(&settings, &lr, &err))
		fail_msg("%s", err.message);
	return lr;
}

static struct lh_low_rank *make_one(uint32_t rank)
{
	const struct lh_matrix_shape shape = {ROWS, COLUMNS};

	return make(&shape, 1, rank);
}

/* A step of one rank alone. */
static void step(struct lh_low_rank *lr, const float *gradient, float *ret)
{
	lh_low_rank_project(lr, gradient);
	lh_low_rank_back_project(lr);
	lh_low_rank_reconstruct(lr, ret);
}

static void draw(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)lh_rng_normal(rng);
}

static void draw_of_rank(struct lh_rng *rng, uint32_t rank, float *ret)
{
	float left[ROWS], right[COLUMNS];

	memset(ret, 0, N * sizeof(*ret));
	for (uint32_t r = 0; r < rank; r++) {
		draw(rng, left, ROWS);
		draw(rng, right, COLUMNS);
		for (size_t i = 0; i < N; i++)
			ret[i] += left[i / COLUMNS] * right[i % COLUMNS];
	}
}

static void test_a_matrix_of_the_rank_comes_back(void **state)
{
	static float gradient[N], got[N];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "of the rank");
	for (uint32_t of = 1; of <= 4; of++)
		for (uint32_t rank = of; rank <= 6; rank++) {
			struct lh_low_rank *lr = make_one(rank);

			draw_of_rank(&rng, of, gradient);
			step(lr, gradient, got);
			for (size_t i = 0; i < N; i++) {
				assert_near(got[i], gradient[i], 1e-4);
				assert_near(lh_low_rank_error(lr)[i], 0, 1e-4);
			}
			lh_low_rank_free(lr);
		}
}

/* What comes out over time is what went in, but for the error that is still kept. */
static void test_nothing_is_lost_over_time(void **state)
{
	static float gradient[N], got[N];
	static double in[N], out[N];
	struct lh_low_rank *lr = make_one(2);
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "over time");
	for (int t = 0; t < 100; t++) {
		draw(&rng, gradient, N);
		step(lr, gradient, got);
		for (size_t i = 0; i < N; i++) {
			in[i] += (double)gradient[i];
			out[i] += (double)got[i];
		}
	}
	for (size_t i = 0; i < N; i++)
		assert_near(out[i] + (double)lh_low_rank_error(lr)[i], in[i], 1e-3);
	lh_low_rank_free(lr);
}

static double square_of(const float *values)
{
	double sum = 0;

	for (size_t i = 0; i < N; i++)
		sum += (double)values[i] * (double)values[i];
	return sum;
}

/* One step leaves no more than there was; with the next ones' feedback the mean of what comes out
 * of a gradient that stays the same nears it. */
static void test_feedback_finds_what_one_step_misses(void **state)
{
	enum { STEPS = 200 };
	static float gradient[N], got[N], mean[N];
	struct lh_low_rank *lr = make_one(3);
	struct lh_rng rng;
	double first = 0;

	(void)state;
	lh_rng_init(&rng, 1, "feedback");
	draw(&rng, gradient, N);
	for (int t = 0; t < STEPS; t++) {
		step(lr, gradient, got);
		if (t == 0)
			first = square_of(lh_low_rank_error(lr));
		for (size_t i = 0; i < N; i++)
			mean[i] += got[i] / STEPS;
	}
	assert_true(first < square_of(gradient));
	assert_true(first > 0.5 * square_of(gradient));
	for (size_t i = 0; i < N; i++)
		mean[i] -= gradient[i];
	assert_true(square_of(mean) < 0.02 * square_of(gradient));
	lh_low_rank_free(lr);
}

static void average(struct lh_low_rank_part *parts, int n_ranks)
{
	for (uint64_t i = 0; i < parts[0].n; i++) {
		float sum = 0;

		for (int r = 0; r < n_ranks; r++)
			sum += parts[r].values[i];
		for (int r = 0; r < n_ranks; r++)
			parts[r].values[i] = sum / (float)n_ranks;
	}
}

static void test_ranks_agree_and_conserve_their_sum(void **state)
{
	enum { RANKS = 4 };
	static const struct lh_matrix_shape shapes[] = {{30, 1}, {ROWS, COLUMNS}, {3, 4}};
	enum { ALL = 30 + N + 12 };
	static float gradients[RANKS][ALL], got[RANKS][ALL];
	static double in[ALL], out[ALL];
	struct lh_low_rank *lr[RANKS];
	struct lh_low_rank_part parts[RANKS];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "ranks");
	for (int r = 0; r < RANKS; r++)
		lr[r] = make(shapes, N_ELEMENTS(shapes), 3);
	for (int t = 0; t < 10; t++) {
		for (int r = 0; r < RANKS; r++) {
			draw(&rng, gradients[r], ALL);
			lh_low_rank_project(lr[r], gradients[r]);
			parts[r] = lh_low_rank_p(lr[r]);
			for (int i = 0; i < ALL; i++)
				in[i] += (double)gradients[r][i];
		}
		average(parts, RANKS);
		for (int r = 0; r < RANKS; r++) {
			lh_low_rank_back_project(lr[r]);
			parts[r] = lh_low_rank_q(lr[r]);
		}
		average(parts, RANKS);
		for (int r = 0; r < RANKS; r++)
			lh_low_rank_reconstruct(lr[r], got[r]);
		for (int r = 1; r < RANKS; r++)
			assert_memory_equal(got[r], got[0], sizeof(got[0]));
		for (int i = 0; i < ALL; i++)
			out[i] += RANKS * (double)got[0][i];
	}
	for (int i = 0; i < ALL; i++) {
		double kept = 0;

		for (int r = 0; r < RANKS; r++)
			kept += (double)lh_low_rank_error(lr[r])[i];
		assert_near(out[i] + kept, in[i], 1e-3);
	}
	for (int r = 0; r < RANKS; r++)
		lh_low_rank_free(lr[r]);
}

static void test_what_gains_too_little_is_not_touched(void **state)
{
	static const struct lh_matrix_shape shapes[] = {
		{1000, 1}, /* a vector */
		{10, 10},  /* 100 / (2 x 20) = 2.5: compressed */
		{8, 8},	   /* 64 / (2 x 16) = 2: not above the ratio */
		{1, 500},  {64, 576},
	};
	enum { ALL = 1000 + 100 + 64 + 500 + 64 * 576 };
	static float gradient[ALL], got[ALL];
	struct lh_low_rank *lr = make(shapes, N_ELEMENTS(shapes), 2);
	struct lh_rng rng;

	(void)state;
	/* r (m + n) of each matrix, and the others */
	assert_int_equal(lh_low_rank_p(lr).n + lh_low_rank_q(lr).n,
			 2 * (10 + 10) + 2 * (64 + 576) + 1000 + 64 + 500);
	assert_int_equal(lh_low_rank_q(lr).n, 2 * 10 + 2 * 576);
	assert_int_equal(lh_low_rank_elements(lr), ALL);
	lh_rng_init(&rng, 1, "untouched");
	draw(&rng, gradient, ALL);
	step(lr, gradient, got);
	assert_memory_equal(got, gradient, 1000 * sizeof(float));
	assert_memory_not_equal(got + 1000, gradient + 1000, 100 * sizeof(float));
	assert_memory_equal(got + 1100, gradient + 1100, 564 * sizeof(float));
	lh_low_rank_free(lr);
}

static void test_a_gradient_of_zero_ends_nothing(void **state)
{
	static float zero[N], gradient[N], got[N];
	struct lh_low_rank *lr = make_one(3);
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "zero");
	step(lr, zero, got);
	assert_memory_equal(got, zero, sizeof(zero));
	/* of rank 1: two columns vanish, and are there again when they are needed */
	for (uint32_t of = 1; of <= 3; of += 2) {
		draw_of_rank(&rng, of, gradient);
		step(lr, gradient, got);
		for (size_t i = 0; i < N; i++)
			assert_near(got[i], gradient[i], 1e-3);
	}
	lh_low_rank_free(lr);
}

static void test_very_small_and_large_numbers_keep_their_size(void **state)
{
	static float gradient[N], got[N];
	struct lh_rng rng;
	const double sizes[] = {1e-30, 1e-12, 1e12, 1e30};

	(void)state;
	lh_rng_init(&rng, 1, "sizes");
	for (size_t s = 0; s < N_ELEMENTS(sizes); s++) {
		struct lh_low_rank *lr = make_one(2);

		draw_of_rank(&rng, 1, gradient);
		for (size_t i = 0; i < N; i++)
			gradient[i] *= (float)sizes[s];
		step(lr, gradient, got);
		for (size_t i = 0; i < N; i++)
			assert_near(got[i], gradient[i], 1e-4 * sizes[s]);
		lh_low_rank_free(lr);
	}
}

static void test_what_is_no_number_is_seen(void **state)
{
	static float gradient[N], got[N];
	struct lh_low_rank *lr = make_one(2);
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "nan");
	draw(&rng, gradient, N);
	gradient[N / 2] = NAN;
	step(lr, gradient, got);
	assert_true(isnan(got[N / 2]));
	lh_low_rank_free(lr);
}

static void assert_refused(const struct lh_low_rank_settings *settings, const char *complaint)
{
	struct lh_low_rank *lr = NULL;
	struct lh_error err = {0};

	assert_int_equal(lh_low_rank_new(settings, &lr, &err), LH_EINPUT);
	assert_null(lr);
	assert_non_null(strstr(err.message, complaint));
}

static void test_settings_out_of_range_are_refused(void **state)
{
	const struct lh_matrix_shape good = {4, 4}, none = {4, 0}, huge = {UINT32_MAX, UINT32_MAX};
	const struct lh_matrix_shape many[] = {{0x7fffffff, 1}, {1, 1}};

	(void)state;
	assert_refused(&(struct lh_low_rank_settings){.tensors = &good, .rank = 1}, "0 tensors");
	assert_refused(
		&(struct lh_low_rank_settings){.tensors = &good, .n_tensors = 65537, .rank = 1},
		"65537 tensors; expected 1 to 65536");
	assert_refused(&(struct lh_low_rank_settings){.tensors = &good, .n_tensors = 1},
		       "rank 0; expected 1 to 64");
	assert_refused(&(struct lh_low_rank_settings){.tensors = &good, .n_tensors = 1, .rank = 65},
		       "rank 65");
	assert_refused(&(struct lh_low_rank_settings){.tensors = &good,
						      .n_tensors = 1,
						      .rank = 1,
						      .min_compression_ratio = (double)NAN},
		       "min_compression_ratio nan");
	assert_refused(&(struct lh_low_rank_settings){.tensors = &none, .n_tensors = 1, .rank = 1},
		       "tensor 0 is 4 x 0");
	assert_refused(&(struct lh_low_rank_settings){.tensors = &huge, .n_tensors = 1, .rank = 1},
		       "tensor 0 is 4294967295 x 4294967295");
	assert_refused(&(struct lh_low_rank_settings){.tensors = many, .n_tensors = 2, .rank = 1},
		       "tensor 1 is 1 x 1");
}

struct outputs {
	float dot, scaled[N], sum[N], rest[N];
	double exact;
};

static void run_kernels(const struct lh_matrix_kernels *k, const float *a, const float *b, size_t n,
			struct outputs *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->scaled, a, n * sizeof(*a));
	memcpy(out->sum, a, n * sizeof(*a));
	memcpy(out->rest, a, n * sizeof(*a));
	out->dot = k->dot(a, b, n);
	out->exact = k->dot_double(a, b, n);
	k->scale(1.0 / 3, out->scaled, n);
	k->add_scaled(0.3f, b, n, out->sum);
	k->subtract(b, n, out->rest);
}

static void test_vectors_give_the_same_bits(void **state)
{
	static struct outputs any, wide;
	static float a[N], b[N];
	struct lh_rng rng;

	(void)state;
	if (!lh_kernels_wide_fit())
		skip();
	lh_rng_init(&rng, 1, "vectors");
	for (size_t n = 0; n <= N; n = n < 200 ? n + 1 : n + 97) {
		draw(&rng, a, n);
		draw(&rng, b, n);
		run_kernels(&lh_matrix_kernels_any, a, b, n, &any);
		run_kernels(&lh_matrix_kernels_wide, a, b, n, &wide);
		assert_memory_equal(&any, &wide, sizeof(any));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_matrix_of_the_rank_comes_back),
		cmocka_unit_test(test_nothing_is_lost_over_time),
		cmocka_unit_test(test_feedback_finds_what_one_step_misses),
		cmocka_unit_test(test_ranks_agree_and_conserve_their_sum),
		cmocka_unit_test(test_what_gains_too_little_is_not_touched),
		cmocka_unit_test(test_a_gradient_of_zero_ends_nothing),
		cmocka_unit_test(test_very_small_and_large_numbers_keep_their_size),
		cmocka_unit_test(test_what_is_no_number_is_seen),
		cmocka_unit_test(test_settings_out_of_range_are_refused),
		cmocka_unit_test(test_vectors_give_the_same_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
