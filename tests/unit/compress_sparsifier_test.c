/* SPDX-License-Identifier: Apache-2.0 */
/* Sparsifiers: nothing is lost between what is sent and what is remembered; DGC's memory against
 * its equations; the density's warm-up. */
#include "trainer/compress/sparsifier.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

enum { N = 5000 };

static const struct lh_sparsifier_settings usual = {
	.choice = &lh_sparse_topk,
	.n = N,
	.density = 0.01,
	.memory = LH_MEMORY_RESIDUAL,
	.n_ranks = 1,
	.warm_up_rounds = 1,
	.seed = 1,
};

static struct lh_sparsifier *make(const struct lh_sparsifier_settings *settings)
{
	struct lh_sparsifier *s = NULL;
	struct lh_error err = {0};

	if (lh_sparsifier_new(settings, &s, &err))
		fail_msg("%s", err.message);
	return s;
}

static void draw(struct lh_rng *rng, float *ret)
{
	for (int i = 0; i < N; i++)
		ret[i] = (float)lh_rng_normal(rng);
}

/* Takes one message, and checks that it and the residual are the accumulated gradient. */
static void take_and_check(struct lh_sparsifier *s, const float *gradient, const float *accumulated,
			   uint32_t epoch)
{
	const struct lh_sparse *got = lh_sparsifier_take(s, gradient, epoch);
	const float *residual = lh_sparsifier_residual(s);
	uint32_t next = 0;

	assert_int_equal(got->count, lh_sparsifier_count(s, epoch));
	for (uint32_t i = 0; i < N; i++) {
		float sent = 0;

		if (next < got->count && got->indices[next] == i)
			sent = got->values[next++];
		assert_true(sent == 0 || residual[i] == 0);
		assert_true(sent + residual[i] == accumulated[i]);
	}
	assert_int_equal(next, got->count);
}

static void test_value_and_residual_are_the_gradient(void **state)
{
	static float gradient[N], accumulated[N];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "conservation");
	for (size_t c = 0; lh_sparse_choices[c]; c++) {
		struct lh_sparsifier_settings settings = usual;
		struct lh_sparsifier *s;

		settings.choice = lh_sparse_choices[c];
		s = make(&settings);
		for (uint32_t epoch = 0; epoch < 20; epoch++) {
			draw(&rng, gradient);
			for (int i = 0; i < N; i++)
				accumulated[i] = lh_sparsifier_residual(s)[i] + gradient[i];
			take_and_check(s, gradient, accumulated, epoch);
		}
		lh_sparsifier_free(s);
	}
}

static void test_everything_is_sent_at_a_density_of_one(void **state)
{
	static float gradient[N], nothing[N];
	struct lh_sparsifier_settings settings = usual;
	struct lh_sparsifier *s;
	struct lh_rng rng;

	(void)state;
	settings.density = 1;
	s = make(&settings);
	lh_rng_init(&rng, 1, "all");
	draw(&rng, gradient);
	assert_memory_equal(lh_sparsifier_take(s, gradient, 0)->values, gradient, sizeof(gradient));
	assert_memory_equal(lh_sparsifier_residual(s), nothing, sizeof(nothing));
	lh_sparsifier_free(s);
}

static void test_without_memory_each_gradient_stands_alone(void **state)
{
	static float gradient[N];
	struct lh_sparsifier_settings settings = usual;
	static float first[N / 100];
	struct lh_sparsifier *s;
	struct lh_rng rng;

	(void)state;
	settings.memory = LH_MEMORY_NONE;
	s = make(&settings);
	assert_null(lh_sparsifier_residual(s));
	lh_rng_init(&rng, 1, "alone");
	draw(&rng, gradient);
	memcpy(first, lh_sparsifier_take(s, gradient, 0)->values, sizeof(first));
	assert_memory_equal(lh_sparsifier_take(s, gradient, 1)->values, first, sizeof(first));
	lh_sparsifier_free(s);
}

static void test_what_is_given_back_is_as_if_never_taken(void **state)
{
	static float gradient[N], accumulated[N];
	struct lh_sparsifier *s = make(&usual);
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "give back");
	draw(&rng, gradient);
	lh_sparsifier_take(s, gradient, 0);
	draw(&rng, gradient);
	for (int i = 0; i < N; i++)
		accumulated[i] = lh_sparsifier_residual(s)[i] + gradient[i];
	lh_sparsifier_give_back(s, lh_sparsifier_take(s, gradient, 1));
	assert_memory_equal(lh_sparsifier_residual(s), accumulated, sizeof(accumulated));
	lh_sparsifier_free(s);
}

/* ---- DGC ------------------------------------------------------------------------------------ */

struct dgc_oracle {
	float u[N], v[N];
};

static void accumulate(struct dgc_oracle *o, const float *gradient, float m, float scale,
		       bool is_nesterov)
{
	for (int i = 0; i < N; i++) {
		float g = scale * gradient[i];

		o->u[i] = is_nesterov ? m * (o->u[i] + g) : m * o->u[i] + g;
		o->v[i] += is_nesterov ? o->u[i] + g : o->u[i];
	}
}

static void run_dgc(bool is_nesterov)
{
	static struct dgc_oracle oracle;
	static float gradient[N];
	struct lh_sparsifier_settings settings = usual;
	struct lh_sparsifier *s;
	struct lh_rng rng;

	settings.choice = &lh_sparse_dgc;
	settings.memory = LH_MEMORY_DGC;
	settings.momentum = 0.9;
	settings.is_nesterov = is_nesterov;
	s = make(&settings);
	memset(&oracle, 0, sizeof(oracle));
	lh_rng_init(&rng, 1, "dgc");
	for (uint32_t epoch = 0; epoch < 30; epoch++) {
		draw(&rng, gradient);
		accumulate(&oracle, gradient, 0.9f, 1, is_nesterov);
		take_and_check(s, gradient, oracle.v, epoch);
		/* masking: where it was sent, the momentum ends, too */
		for (int i = 0; i < N; i++)
			if (oracle.v[i] != 0 && lh_sparsifier_residual(s)[i] == 0)
				oracle.u[i] = oracle.v[i] = 0;
	}
	lh_sparsifier_free(s);
}

static void test_dgc_follows_its_equations(void **state)
{
	(void)state;
	run_dgc(false);
}

static void test_dgc_follows_those_of_nesterov(void **state)
{
	(void)state;
	run_dgc(true);
}

static void test_dgc_clips_to_the_ranks_part_of_the_norm(void **state)
{
	static float gradient[N];
	struct lh_sparsifier_settings settings = usual;
	const struct lh_sparse *got;
	struct lh_sparsifier *s;
	double squares = 0;

	(void)state;
	settings.memory = LH_MEMORY_DGC;
	settings.density = 1;
	settings.clip_norm = 3;
	settings.n_ranks = 9;
	s = make(&settings);
	for (int i = 0; i < N; i++)
		gradient[i] = i % 2 ? 7 : -2;
	got = lh_sparsifier_take(s, gradient, 0);
	for (uint32_t i = 0; i < N; i++)
		squares += pow((double)got->values[i], 2);
	assert_near(sqrt(squares), 1, 1e-5);
	/* what is short enough stays as it is */
	for (int i = 0; i < N; i++)
		gradient[i] = 0.01f;
	assert_true(lh_sparsifier_take(s, gradient, 1)->values[0] == 0.01f);
	lh_sparsifier_free(s);
}

/* ---- density -------------------------------------------------------------------------------- */

static void test_density_warms_up_by_quarters(void **state)
{
	static const uint32_t expected[] = {250000, 250000, 62500, 62500, 15625, 15625,
					    3906,   3906,   1000,  1000,  1000};
	struct lh_sparsifier_settings settings = usual;
	struct lh_sparsifier *s;

	(void)state;
	settings.n = 1000000;
	settings.density = 0.001;
	settings.warm_up_steps = 5;
	settings.warm_up_rounds = 2;
	s = make(&settings);
	for (uint32_t epoch = 0; epoch < N_ELEMENTS(expected); epoch++)
		assert_int_equal(lh_sparsifier_count(s, epoch), expected[epoch]);
	assert_int_equal(lh_sparsifier_count(s, UINT32_MAX), 1000);
	lh_sparsifier_free(s);
}

static void test_at_least_one_element_is_sent(void **state)
{
	struct lh_sparsifier_settings settings = usual;
	float one = 3;
	struct lh_sparsifier *s;

	(void)state;
	settings.n = 1;
	settings.density = 1e-9;
	for (size_t c = 0; lh_sparse_choices[c]; c++) {
		settings.choice = lh_sparse_choices[c];
		s = make(&settings);
		assert_int_equal(lh_sparsifier_take(s, &one, 0)->count, 1);
		lh_sparsifier_free(s);
	}
}

/* ---- random-k ------------------------------------------------------------------------------- */

static void take_indices(const struct lh_sparsifier_settings *settings, uint32_t epoch,
			 uint32_t ret[static N / 100])
{
	static const float gradient[N];
	struct lh_sparsifier *s = make(settings);

	memcpy(ret, lh_sparsifier_take(s, gradient, epoch)->indices, N / 100 * sizeof(*ret));
	lh_sparsifier_free(s);
}

static void test_ranks_share_their_choice_only_where_told(void **state)
{
	uint32_t of_0[N / 100], of_1[N / 100], later[N / 100];
	struct lh_sparsifier_settings settings = usual;

	(void)state;
	settings.choice = &lh_sparse_random_k;
	for (int is_shared = 0; is_shared < 2; is_shared++) {
		settings.is_choice_shared = is_shared;
		settings.rank = 0;
		take_indices(&settings, 7, of_0);
		take_indices(&settings, 8, later);
		settings.rank = 1;
		take_indices(&settings, 7, of_1);
		assert_int_equal(memcmp(of_0, of_1, sizeof(of_0)) == 0, is_shared);
		assert_memory_not_equal(of_0, later, sizeof(of_0));
	}
}

/* ---- settings ------------------------------------------------------------------------------- */

static void assert_refused(const struct lh_sparsifier_settings *settings, const char *complaint)
{
	struct lh_sparsifier *s = NULL;
	struct lh_error err = {0};

	assert_int_equal(lh_sparsifier_new(settings, &s, &err), LH_EINPUT);
	assert_null(s);
	assert_non_null(strstr(err.message, complaint));
}

#define ASSERT_REFUSED(field, value, complaint)                  \
	do {                                                     \
		struct lh_sparsifier_settings settings_ = usual; \
		settings_.field = (value);                       \
		assert_refused(&settings_, complaint);           \
	} while (0)

static void test_settings_out_of_range_are_refused(void **state)
{
	(void)state;
	ASSERT_REFUSED(n, 0, "0 elements; expected 1");
	ASSERT_REFUSED(n, 0x80000000, "2147483648 elements");
	ASSERT_REFUSED(density, 0, "density 0; expected");
	ASSERT_REFUSED(density, 1.1, "density 1.1");
	ASSERT_REFUSED(density, (double)NAN, "density nan");
	ASSERT_REFUSED(momentum, 1, "momentum 1;");
	ASSERT_REFUSED(momentum, 0.5, "belong to the memory of DGC");
	ASSERT_REFUSED(is_nesterov, true, "belong to the memory of DGC");
	ASSERT_REFUSED(clip_norm, -1, "clip_norm -1");
	ASSERT_REFUSED(clip_norm, 1, "belong to the memory of DGC");
	ASSERT_REFUSED(n_ranks, 0, "n_ranks is 0");
	ASSERT_REFUSED(warm_up_rounds, 0, "warm_up_rounds is 0");
	ASSERT_REFUSED(warm_up_steps, 16, "16 steps of warm-up; expected up to 15");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_value_and_residual_are_the_gradient),
		cmocka_unit_test(test_everything_is_sent_at_a_density_of_one),
		cmocka_unit_test(test_without_memory_each_gradient_stands_alone),
		cmocka_unit_test(test_what_is_given_back_is_as_if_never_taken),
		cmocka_unit_test(test_dgc_follows_its_equations),
		cmocka_unit_test(test_dgc_follows_those_of_nesterov),
		cmocka_unit_test(test_dgc_clips_to_the_ranks_part_of_the_norm),
		cmocka_unit_test(test_density_warms_up_by_quarters),
		cmocka_unit_test(test_at_least_one_element_is_sent),
		cmocka_unit_test(test_ranks_share_their_choice_only_where_told),
		cmocka_unit_test(test_settings_out_of_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
