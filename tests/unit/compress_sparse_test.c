/* SPDX-License-Identifier: Apache-2.0 */
/* Choices of k of n against an exhaustive one, and sparse messages on the wire. */
#include "trainer/compress/sparse.h"

#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "tests/unit/test.h"
#include "trainer/compress/compress.h"
#include "trainer/compress/kernels_internal.h"
#include "trainer/compress/kernels_sparse_internal.h"
#include "trainer/compress/select_internal.h"

enum { MANY = 40000 };

static uint32_t key_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits & 0x7fffffff;
}

/* ---- inputs --------------------------------------------------------------------------------- */

typedef void fill_fn(struct lh_rng *rng, float *ret, size_t n);

static void fill_normal(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)lh_rng_normal(rng);
}

static void fill_heavy(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)pow(lh_rng_normal(rng), 9);
}

static void fill_equal(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = lh_rng_below(rng, 2) ? 0.5f : -0.5f;
}

static void fill_zero(struct lh_rng *rng, float *ret, size_t n)
{
	(void)rng;
	memset(ret, 0, n * sizeof(ret[0]));
}

static void fill_mostly_zero(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = lh_rng_below(rng, 700) ? 0 : (float)lh_rng_normal(rng);
}

static void fill_few_values(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)lh_rng_below(rng, 5) - 2;
}

static void fill_tiny(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)(lh_rng_normal(rng) * 1e-42);
}

static void fill_any_bits(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = (uint32_t)(lh_rng_next(rng) >> 32);

		memcpy(&ret[i], &bits, sizeof(bits));
	}
}

static void fill_ascending(struct lh_rng *rng, float *ret, size_t n)
{
	(void)rng;
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)i;
}

/* all that is large is at one end, where a sample by strides sees little of it */
static void fill_clustered(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)(lh_rng_normal(rng) * (i < n / 900 + 1 ? 1e6 : 1e-6));
}

static fill_fn *const fills[] = {fill_normal,	   fill_heavy,	    fill_equal, fill_zero,
				 fill_mostly_zero, fill_few_values, fill_tiny,	fill_any_bits,
				 fill_ascending,   fill_clustered};
static const uint32_t sizes[] = {1, 2, 3, 31, 32, 33, 100, 1000, 8192, 20001, MANY};

/* ---- choices -------------------------------------------------------------------------------- */

struct chosen {
	struct lh_sparse sparse;
	void *memory;
};

static void choose(const struct lh_sparse_ops *ops, const float *values, uint32_t n, uint32_t k,
		   uint64_t seed, struct chosen *ret)
{
	struct lh_rng rng;
	struct lh_sparse_choice choice = {.k = k, .rng = &rng};
	lh_cleanup_free void *scratch = malloc(ops->scratch_bytes(n, k));

	lh_rng_init(&rng, seed, "choose");
	assert_non_null(scratch);
	choice.scratch = scratch;
	ret->memory = malloc(k * (sizeof(uint32_t) + sizeof(float)) + 1);
	assert_non_null(ret->memory);
	ret->sparse = (struct lh_sparse){.count = 12345, .indices = ret->memory};
	ret->sparse.values = (float *)(void *)(ret->sparse.indices + k);
	ops->select(values, n, &choice, &ret->sparse);
}

static void assert_is_a_choice(const struct lh_sparse *got, const float *values, uint32_t n,
			       uint32_t k)
{
	assert_int_equal(got->count, k);
	for (uint32_t i = 0; i < k; i++) {
		assert_true(got->indices[i] < n);
		assert_true(!i || got->indices[i] > got->indices[i - 1]);
		assert_memory_equal(&got->values[i], &values[got->indices[i]], sizeof(float));
	}
}

static void test_every_choice_has_exactly_k_in_order(void **state)
{
	static float values[MANY];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "exactly k");
	for (size_t f = 0; f < N_ELEMENTS(fills); f++)
		for (size_t s = 0; s < N_ELEMENTS(sizes); s++) {
			uint32_t n = sizes[s];
			const uint32_t ks[] = {0, 1, n / 1000, n / 97, n / 4, n / 2, n - 1, n};

			fills[f](&rng, values, n);
			for (size_t i = 0; lh_sparse_choices[i]; i++)
				for (size_t j = 0; j < N_ELEMENTS(ks); j++) {
					struct chosen got;

					choose(lh_sparse_choices[i], values, n, ks[j], j, &got);
					assert_is_a_choice(&got.sparse, values, n, ks[j]);
					free(got.memory);
				}
		}
}

struct ranked {
	uint32_t key, index;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

/* Marks the k largest by sorting all. */
static void mark_largest(const float *values, uint32_t n, uint32_t k, uint8_t *ret_marks)
{
	static struct ranked all[MANY];

	for (uint32_t i = 0; i < n; i++)
		all[i] = (struct ranked){key_of(values[i]), i};
	qsort(all, n, sizeof(all[0]), compare_ranked);
	memset(ret_marks, 0, n);
	for (uint32_t i = 0; i < k; i++)
		ret_marks[all[i].index] = 1;
}

static void test_topk_and_dgc_choose_what_sorting_does(void **state)
{
	static const struct lh_sparse_ops *const exact[] = {&lh_sparse_topk, &lh_sparse_dgc};
	static float values[MANY];
	static uint8_t marks[MANY];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "exact");
	for (size_t f = 0; f < N_ELEMENTS(fills); f++)
		for (size_t s = 0; s < N_ELEMENTS(sizes); s++) {
			uint32_t n = sizes[s], k = n / 50 + 1;

			fills[f](&rng, values, n);
			mark_largest(values, n, k, marks);
			for (size_t i = 0; i < N_ELEMENTS(exact); i++) {
				struct chosen got;

				choose(exact[i], values, n, k, 1, &got);
				for (uint32_t j = 0; j < k; j++)
					assert_true(marks[got.sparse.indices[j]]);
				free(got.memory);
			}
		}
}

static double squares_of(const struct lh_sparse *sparse)
{
	double sum = 0;

	for (uint32_t i = 0; i < sparse->count; i++)
		sum += pow((double)sparse->values[i], 2);
	return sum;
}

static void test_mstopk_has_nearly_all_of_the_largest_squares(void **state)
{
	static fill_fn *const finite[] = {fill_normal,	    fill_heavy,	     fill_equal,
					  fill_mostly_zero, fill_few_values, fill_ascending,
					  fill_clustered};
	static float values[MANY];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "squares");
	for (size_t f = 0; f < N_ELEMENTS(finite); f++)
		for (size_t s = 0; s < N_ELEMENTS(sizes); s++)
			for (uint32_t part = 2; part <= 1000; part *= 10) {
				uint32_t n = sizes[s], k = n / part + 1;
				struct chosen exact, near;

				k = k < n ? k : n;
				finite[f](&rng, values, n);
				choose(&lh_sparse_topk, values, n, k, 1, &exact);
				choose(&lh_sparse_mstopk, values, n, k, 1, &near);
				assert_true(squares_of(&near.sparse) >=
					    0.99 * squares_of(&exact.sparse));
				free(exact.memory);
				free(near.memory);
			}
}

static void test_mstopk_takes_a_random_run_of_equal_values(void **state)
{
	enum { K = 100 };
	static float values[MANY];
	uint32_t firsts[3];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "run");
	fill_equal(&rng, values, MANY);
	for (uint64_t seed = 0; seed < N_ELEMENTS(firsts); seed++) {
		struct chosen got;

		choose(&lh_sparse_mstopk, values, MANY, K, seed, &got);
		firsts[seed] = got.sparse.indices[0];
		assert_int_equal(got.sparse.indices[K - 1], firsts[seed] + K - 1);
		free(got.memory);
	}
	assert_true(firsts[0] != firsts[1] && firsts[1] != firsts[2] && firsts[0] != firsts[2]);
}

static void test_a_choice_follows_from_its_stream_of_random_numbers(void **state)
{
	static float values[MANY];
	struct chosen a, b, c;
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "stream");
	fill_normal(&rng, values, MANY);
	choose(&lh_sparse_random_k, values, MANY, 50, 1, &a);
	choose(&lh_sparse_random_k, values, MANY, 50, 1, &b);
	choose(&lh_sparse_random_k, values, MANY, 50, 2, &c);
	assert_memory_equal(a.sparse.indices, b.sparse.indices, 50 * sizeof(uint32_t));
	assert_memory_not_equal(a.sparse.indices, c.sparse.indices, 50 * sizeof(uint32_t));
	free(a.memory);
	free(b.memory);
	free(c.memory);
}

static void test_random_k_chooses_all_alike(void **state)
{
	enum { N = 40, K = 7, DRAWS = 20000 };
	static const float values[N];
	uint32_t counts[N] = {0};

	(void)state;
	for (uint64_t draw = 0; draw < DRAWS; draw++) {
		struct chosen got;

		choose(&lh_sparse_random_k, values, N, K, draw, &got);
		for (uint32_t i = 0; i < K; i++)
			counts[got.sparse.indices[i]]++;
		free(got.memory);
	}
	/* five standard deviations of a binomial count: sqrt(20000 x 7/40 x 33/40) = 54 */
	for (size_t i = 0; i < N; i++)
		assert_near(counts[i], DRAWS * (double)K / N, 5 * 54);
}

/* ---- the k-th largest ----------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x > y ? -1 : x < y;
}

static void assert_selects(const uint32_t *keys, uint32_t n, uint32_t k)
{
	static uint32_t sorted[MANY], work[MANY];
	uint32_t got;

	memcpy(sorted, keys, n * sizeof(*keys));
	memcpy(work, keys, n * sizeof(*keys));
	qsort(sorted, n, sizeof(*sorted), compare_keys);
	got = lh_select_key(work, n, k);
	assert_int_equal(got, sorted[k - 1]);
	for (uint32_t i = k; i < n; i++)
		assert_true(work[i] <= got);
}

static void test_selection_is_right_whatever_the_order(void **state)
{
	static uint32_t keys[MANY];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "selection");
	for (size_t s = 0; s < N_ELEMENTS(sizes); s++)
		for (int kind = 0; kind < 5; kind++) {
			uint32_t n = sizes[s];

			for (uint32_t i = 0; i < n; i++)
				keys[i] = kind == 0   ? i
					  : kind == 1 ? n - i
					  : kind == 2 ? (i < n / 2 ? i : n - i)
					  : kind == 3 ? (uint32_t)lh_rng_below(&rng, 3)
						      : (uint32_t)lh_rng_below(&rng, 1u << 31);
			assert_selects(keys, n, 1);
			assert_selects(keys, n, n / 2 + 1);
			assert_selects(keys, n, n);
		}
}

/* Plays partitions backwards: wherever the largest two that are left lie where the median of three
 * looks, a partition takes two keys off. */
static void make_killer(uint32_t *keys, uint32_t n)
{
	static uint32_t at[MANY]; /* where the key began that is here now */
	uint32_t begin = 0, key = n;

	for (uint32_t i = 0; i < n; i++)
		at[i] = i;
	for (; n - begin > 4; begin += 2) {
		uint32_t *left = at + begin, m = n - begin, largest = left[m - 1];
		uint32_t second = left[m / 2];

		keys[largest] = key--;
		keys[second] = key--;
		left[m / 2] = left[0];
		left[m - 1] = left[1];
		left[0] = largest;
		left[1] = second;
	}
	for (uint32_t i = begin; i < n; i++)
		keys[at[i]] = key--;
}

static void test_selection_is_right_where_partitions_fail(void **state)
{
	static uint32_t keys[MANY];

	(void)state;
	make_killer(keys, MANY);
	assert_selects(keys, MANY, MANY);
	assert_selects(keys, MANY, 1);
	assert_selects(keys, MANY, MANY / 2);
}

/* ---- vectors -------------------------------------------------------------------------------- */

struct outputs {
	uint32_t keys[MANY], indices[MANY + LH_COLLECT_SLACK], emitted[MANY];
	size_t n_indices, n_emitted;
	uint64_t counts[LH_THRESHOLDS];
	float sum[MANY], velocity[MANY], momentum[MANY], nesterov_velocity[MANY], nesterov[MANY];
	double squares;
};

static void run_kernels(const struct lh_sparse_kernels *k, const float *x, size_t n,
			struct outputs *out)
{
	const uint32_t thresholds[LH_THRESHOLDS] = {0,		1,	    0x3f000000, 0x3f800000,
						    0x40000000, 0x7f800000, 0x7fffffff, LH_KEY_END};
	const struct lh_band band = {.low = 0x3f000000, .high = 0x3f800000, .skip = 3, .need = 11};
	const struct lh_momentum plain = {.factor = 0.9f, .scale = 0.7f};
	const struct lh_momentum nesterov = {.factor = 0.9f, .scale = 0.7f, .is_nesterov = 1};

	memset(out, 0, sizeof(*out));
	k->keys(x, n, out->keys);
	out->n_indices = k->collect(x, n, 0x3f400000, n / 2, out->indices);
	k->count(x, n, thresholds, out->counts);
	out->n_emitted = k->emit(x, n, &band, n / 3, out->emitted);
	for (size_t i = 0; i < n; i++)
		out->sum[i] = out->velocity[i] = out->nesterov[i] = x[n - 1 - i];
	k->add(x, n, out->sum);
	k->momentum(x, n, &plain, out->velocity, out->momentum);
	k->momentum(x, n, &nesterov, out->nesterov_velocity, out->nesterov);
	out->squares = k->sum_of_squares(x, n);
}

static void test_vectors_give_the_same_bits(void **state)
{
	static struct outputs any, wide;
	static float values[MANY];
	struct lh_rng rng;

	(void)state;
	if (!lh_kernels_wide_fit())
		skip();
	lh_rng_init(&rng, 1, "vectors");
	for (size_t s = 0; s < N_ELEMENTS(sizes); s++)
		for (size_t f = 0; f < N_ELEMENTS(fills); f++) {
			if (fills[f] == fill_any_bits) /* sums with NaN have any NaN's bits */
				continue;
			fills[f](&rng, values, sizes[s]);
			run_kernels(&lh_sparse_kernels_any, values, sizes[s], &any);
			run_kernels(&lh_sparse_kernels_wide, values, sizes[s], &wide);
			assert_memory_equal(&any, &wide, sizeof(any));
		}
}

/* ---- the wire ------------------------------------------------------------------------------- */

static void test_a_message_comes_back_as_it_was(void **state)
{
	uint32_t indices[] = {0, 5, 6, 4000000000u}, got_indices[4];
	float values[] = {1.5f, -0.0f, INFINITY, -3e-40f}, got_values[4];
	const struct lh_sparse message = {4, indices, values};
	struct lh_sparse got = {0, got_indices, got_values};
	uint8_t wire[4 + 4 * 8 + 1];

	(void)state;
	assert_int_equal(lh_sparse_wire_bytes(4), 36);
	assert_int_equal(lh_sparse_wire_bytes(UINT32_MAX), 4 + 8 * UINT64_C(4294967295));
	lh_sparse_write(&message, wire + 1);
	assert_int_equal(wire[1], 4);
	assert_int_equal(wire[5 + 4], 5);
	assert_int_equal(lh_sparse_parse(wire + 1, 36, UINT32_MAX, 4, &got, NULL), 0);
	assert_int_equal(got.count, 4);
	assert_memory_equal(got_indices, indices, sizeof(indices));
	assert_memory_equal(got_values, values, sizeof(values));
}

static void test_garbled_messages_are_refused(void **state)
{
	static const struct {
		uint32_t words[5];
		size_t bytes;
		const char *complaint;
	} cases[] = {
		{{0}, 0, "0 bytes has no count"},
		{{0}, 3, "3 bytes has no count"},
		{{0}, 8, "0 elements has 8 bytes"},
		{{1}, 4, "1 elements has 4 bytes"},
		{{2, 1, 2}, 12, "2 elements has 12 bytes"},
		{{0x20000000}, 4, "536870912 elements has 4 bytes"},
		{{0xffffffff}, 4, "4294967295 elements has 4 bytes"},
		{{1, 10, 0}, 12, "index 10 of a sparse message; expected 0 to 9"},
		{{2, 3, 3, 0, 0}, 20, "index 3 of a sparse message; expected 4 to 9"},
		{{2, 3, 2, 0, 0}, 20, "index 2 of a sparse message; expected 4 to 9"},
		{{2, 9, 10, 0, 0}, 20, "index 10 of a sparse message"},
		{{2, 0xffffffff, 0, 0, 0}, 20, "index 4294967295 of"},
	};
	uint32_t indices[2];
	float values[2];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_sparse got = {77, indices, values};
		struct lh_error err = {0};

		assert_int_equal(lh_sparse_parse(cases[i].words, cases[i].bytes, 10, 2, &got, &err),
				 LH_EINPUT);
		assert_non_null(strstr(err.message, cases[i].complaint));
		assert_int_equal(got.count, 77);
	}
}

static void test_more_than_there_is_room_for_is_refused(void **state)
{
	static const uint32_t words[] = {2, 1, 2, 0, 0};
	uint32_t index;
	float value;
	struct lh_sparse got = {0, &index, &value};
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_sparse_parse(words, sizeof(words), 10, 1, &got, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "of 2 elements; expected up to 1"));
}

static void test_adding_scatters_with_a_weight(void **state)
{
	uint32_t indices[] = {1, 3};
	float values[] = {2, -4}, sum[] = {1, 1, 1, 1};
	const struct lh_sparse message = {2, indices, values};
	const float expected[] = {1, 2, 1, -1};

	(void)state;
	lh_sparse_add(&message, 0.5f, sum);
	assert_memory_equal(sum, expected, sizeof(sum));
}

static void test_choices_are_found_by_name(void **state)
{
	(void)state;
	for (size_t i = 0; lh_sparse_choices[i]; i++)
		assert_ptr_equal(lh_sparse_find(lh_sparse_choices[i]->name), lh_sparse_choices[i]);
	assert_null(lh_sparse_find("top"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_choice_has_exactly_k_in_order),
		cmocka_unit_test(test_topk_and_dgc_choose_what_sorting_does),
		cmocka_unit_test(test_mstopk_has_nearly_all_of_the_largest_squares),
		cmocka_unit_test(test_mstopk_takes_a_random_run_of_equal_values),
		cmocka_unit_test(test_a_choice_follows_from_its_stream_of_random_numbers),
		cmocka_unit_test(test_random_k_chooses_all_alike),
		cmocka_unit_test(test_selection_is_right_whatever_the_order),
		cmocka_unit_test(test_selection_is_right_where_partitions_fail),
		cmocka_unit_test(test_vectors_give_the_same_bits),
		cmocka_unit_test(test_a_message_comes_back_as_it_was),
		cmocka_unit_test(test_garbled_messages_are_refused),
		cmocka_unit_test(test_more_than_there_is_room_for_is_refused),
		cmocka_unit_test(test_adding_scatters_with_a_weight),
		cmocka_unit_test(test_choices_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
