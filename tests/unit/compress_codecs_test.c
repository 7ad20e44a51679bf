/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs: sizes, bounds of their errors, hard inputs, and the same bits with and without vectors.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/crc64.h"
#include "core/rng.h"
#include "tests/unit/test.h"
#include "trainer/compress/compress.h"
#include "trainer/compress/kernels_internal.h"

enum { MANY = 10007 };

/* Numbers of a kind, MANY or fewer. */
typedef void fill_fn(struct lh_rng *rng, float *ret, size_t n);

static void fill_normal(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)lh_rng_normal(rng);
}

/* a few are far out */
static void fill_heavy(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double z = lh_rng_normal(rng);

		ret[i] = (float)(z * z * z * z * z);
	}
}

static void fill_shifted(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)(100 + 1e-3 * lh_rng_normal(rng));
}

static void fill_equal(struct lh_rng *rng, float *ret, size_t n)
{
	(void)rng;
	for (size_t i = 0; i < n; i++)
		ret[i] = -0.37f;
}

static void fill_zero(struct lh_rng *rng, float *ret, size_t n)
{
	(void)rng;
	memset(ret, 0, n * sizeof(ret[0]));
}

static void fill_outlier(struct lh_rng *rng, float *ret, size_t n)
{
	fill_zero(rng, ret, n);
	ret[lh_rng_below(rng, n)] = -5000;
}

/* nearly all at one end, so that the mean is there and an outer bin is as wide as can be */
static void fill_one_sided(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = lh_rng_below(rng, 500) ? -1 : (float)(lh_rng_below(rng, 30) ? -0.7 : 1);
}

static void fill_tiny(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)(lh_rng_normal(rng) * 1e-41);
}

static void fill_huge(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (float)((2 * lh_rng_uniform(rng) - 1) * (double)FLT_MAX);
}

static void fill_any_bits(struct lh_rng *rng, float *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = (uint32_t)(lh_rng_next(rng) >> 32);

		memcpy(&ret[i], &bits, sizeof(bits));
	}
}

static fill_fn *const fills[] = {fill_normal, fill_heavy,   fill_shifted,  fill_equal,
				 fill_zero,   fill_outlier, fill_one_sided};
static fill_fn *const odd_fills[] = {fill_tiny, fill_huge, fill_any_bits};
static const size_t sizes[] = {1,  2,	3,   7,	   8,	 9,    15,   16,   17,
			       31, 100, 255, 4095, 4096, 4097, 8192, 8193, MANY};

/* Encodes and decodes with buffers as long as they must be, at odd addresses. */
static void pass(const struct lh_codec_ops *codec, const float *values, size_t n, float *ret)
{
	size_t bytes = codec->wire_bytes(n);
	lh_cleanup_free uint8_t *wire = malloc(bytes + 1);
	lh_cleanup_free float *exact = malloc(n * sizeof(*exact));

	assert_non_null(wire);
	assert_non_null(exact);
	memcpy(exact, values, n * sizeof(*exact));
	codec->encode(exact, n, wire + 1);
	codec->decode(wire + 1, n, exact);
	memcpy(ret, exact, n * sizeof(*exact));
}

static double largest_of(const float *values, size_t n)
{
	double largest = 0;

	for (size_t i = 0; i < n; i++)
		largest = fmax(largest, fabs((double)values[i]));
	return largest;
}

static void test_wire_sizes_follow_the_formulas(void **state)
{
	static const struct {
		const struct lh_codec_ops *codec;
		uint64_t n, bytes;
	} cases[] = {
		{&lh_codec_none, 1000, 4000},
		{&lh_codec_fp16, 1000, 2000},
		{&lh_codec_bf16, 1001, 2002},
		{&lh_codec_uniform8, 1000, 2024},
		{&lh_codec_uniform8, UINT64_C(6000000000), UINT64_C(6000001024)},
		{&lh_codec_blockwise8, 1, 5},
		{&lh_codec_blockwise8, 4096, 4100},
		{&lh_codec_blockwise8, 4097, 4105},
		{&lh_codec_onebit, 1, 9},
		{&lh_codec_onebit, 4096, 520},
		{&lh_codec_onebit, 4097, 529},
		{&lh_codec_onebit, 40960, 5200},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_int_equal(cases[i].codec->wire_bytes(cases[i].n), cases[i].bytes);
	for (size_t i = 0; lh_codecs[i]; i++) {
		assert_int_equal(lh_codecs[i]->wire_bytes(0), 0);
		if (lh_codecs[i]->bytes_per_element)
			assert_int_equal(lh_codecs[i]->wire_bytes(77),
					 77 * lh_codecs[i]->bytes_per_element);
	}
}

static void test_nothing_is_written_for_no_elements(void **state)
{
	float none = 1;
	uint8_t wire = 1;

	(void)state;
	for (size_t i = 0; lh_codecs[i]; i++) {
		lh_codecs[i]->encode(&none, 0, &wire);
		lh_codecs[i]->decode(&wire, 0, &none);
	}
	assert_int_equal(wire, 1);
	assert_true(none == 1);
}

static void test_errors_stay_within_each_codecs_bound(void **state)
{
	static float values[MANY], decoded[MANY];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "codec bounds");
	for (size_t c = 0; lh_codecs[c]; c++)
		for (size_t f = 0; f < N_ELEMENTS(fills); f++)
			for (size_t s = 0; s < N_ELEMENTS(sizes); s++) {
				double bound;

				fills[f](&rng, values, sizes[s]);
				bound = lh_codecs[c]->error_ratio * largest_of(values, sizes[s]);
				pass(lh_codecs[c], values, sizes[s], decoded);
				for (size_t i = 0; i < sizes[s]; i++)
					assert_near(decoded[i], values[i], bound);
			}
}

static void test_equal_values_come_back_exactly(void **state)
{
	static const struct lh_codec_ops *const of_means[] = {&lh_codec_uniform8, &lh_codec_onebit};
	static float values[MANY], decoded[MANY];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "equal");
	fill_equal(&rng, values, MANY);
	for (size_t c = 0; c < N_ELEMENTS(of_means); c++) {
		pass(of_means[c], values, MANY, decoded);
		assert_memory_equal(decoded, values, sizeof(values));
	}
}

static void test_uniform8_is_within_a_bin_of_the_value_inside_three_sigmas(void **state)
{
	static float values[MANY], decoded[MANY];
	struct lh_rng rng;
	double square = 0;

	(void)state;
	lh_rng_init(&rng, 1, "uniform8");
	fill_normal(&rng, values, MANY);
	pass(&lh_codec_uniform8, values, MANY, decoded);
	for (size_t i = 0; i < MANY; i++) {
		/* sigma is 1 within 2 % */
		if (fabs((double)values[i]) < 2.9)
			assert_near(decoded[i], values[i], 6 * 1.02 / 256);
		square += pow((double)(decoded[i] - values[i]), 2);
	}
	/* a bin's variance is width^2 / 12; the outer bins hold 0.27 % of the values, give or take
	 * a half, which vary by 0.07 */
	assert_true(square / MANY < pow(6.0 / 256, 2) / 12 + 1.5 * 0.0027 * 0.07);
}

static void test_blockwise8_finds_the_nearest_of_its_values(void **state)
{
	float map[256], value, decoded, block[2] = {0, 1};
	uint8_t wire[4 + 256] = {0, 0, 0x80, 0x3f};
	struct lh_rng rng;

	(void)state;
	for (int i = 0; i < 256; i++)
		wire[4 + i] = (uint8_t)i;
	lh_codec_blockwise8.decode(wire, 256, map);
	lh_rng_init(&rng, 1, "nearest");
	for (int i = 0; i < 20000; i++) {
		double nearest = 2, got;

		value = (float)((i % 2 ? 1 : -1) * exp(-17 * lh_rng_uniform(&rng)));
		block[0] = value;
		lh_codec_blockwise8.encode(block, 2, wire);
		lh_codec_blockwise8.decode(wire, 1, &decoded);
		for (int m = 0; m < 256; m++)
			nearest = fmin(nearest, fabs((double)map[m] - (double)value));
		got = fabs((double)decoded - (double)value);
		/* as near as the nearest, or half way between two */
		assert_near(got, nearest, 4e-7 * fabs((double)value));
	}
}

static void test_blockwise8_returns_its_own_values(void **state)
{
	float map[256], again[256];
	uint8_t wire[4 + 256] = {0, 0, 0x80, 0x3f};

	(void)state;
	for (int i = 0; i < 256; i++)
		wire[4 + i] = (uint8_t)i;
	lh_codec_blockwise8.decode(wire, 256, map);
	assert_true(map[0] == 0 && map[0x80] == 1);
	lh_codec_blockwise8.encode(map, 256, wire);
	lh_codec_blockwise8.decode(wire, 256, again);
	assert_memory_equal(map, again, sizeof(map));
}

static void test_blockwise8_scales_every_block_by_itself(void **state)
{
	static float values[2 * LH_CODEC_BLOCK], decoded[2 * LH_CODEC_BLOCK];

	(void)state;
	for (size_t i = 0; i < LH_CODEC_BLOCK; i++) {
		values[i] = 1000;
		values[LH_CODEC_BLOCK + i] = 1e-6f;
	}
	pass(&lh_codec_blockwise8, values, 2 * LH_CODEC_BLOCK, decoded);
	assert_memory_equal(values, decoded, sizeof(values));
}

static void test_onebit_decodes_to_the_mean_of_each_sign(void **state)
{
	const float values[] = {1, -1, 3, -5, 0, -0.0f, 4, -6, 8};
	const float expected[] = {16.0f / 6, -4,	16.0f / 6, -4,	     16.0f / 6,
				  16.0f / 6, 16.0f / 6, -4,	   16.0f / 6};
	float decoded[N_ELEMENTS(values)];

	(void)state;
	pass(&lh_codec_onebit, values, N_ELEMENTS(values), decoded);
	assert_memory_equal(decoded, expected, sizeof(expected));
}

/* What Seide's feedback is for: over time all that is sent is all there was to send. */
static void test_onebit_with_feedback_loses_nothing_over_time(void **state)
{
	static float values[500], decoded[500], residual[500];
	static double sent[500], meant[500];
	const size_t n = N_ELEMENTS(values);
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "feedback");
	for (int step = 0; step < 400; step++) {
		fill_normal(&rng, values, n);
		for (size_t i = 0; i < n; i++) {
			meant[i] += (double)values[i];
			values[i] += residual[i];
		}
		pass(&lh_codec_onebit, values, n, decoded);
		for (size_t i = 0; i < n; i++) {
			residual[i] = values[i] - decoded[i];
			sent[i] += (double)decoded[i];
		}
	}
	for (size_t i = 0; i < n; i++)
		assert_near(sent[i] + (double)residual[i], meant[i], 1e-3);
}

static void test_what_is_not_finite_never_disappears(void **state)
{
	static const float odd[] = {INFINITY, -INFINITY, NAN};
	static float values[MANY], decoded[MANY];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "not finite");
	for (size_t c = 0; lh_codecs[c]; c++)
		for (size_t o = 0; o < N_ELEMENTS(odd); o++)
			for (size_t s = 0; s < N_ELEMENTS(sizes); s++) {
				size_t at = (size_t)lh_rng_below(&rng, sizes[s]);

				fill_normal(&rng, values, sizes[s]);
				values[at] = odd[o];
				pass(lh_codecs[c], values, sizes[s], decoded);
				assert_true(isnan(decoded[at]) || isinf(decoded[at]));
			}
}

static void test_bf16_rounds_to_nearest_even(void **state)
{
	static const struct {
		uint32_t bits;
		uint16_t expected;
	} cases[] = {
		{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81},
		{0x3f818000, 0x3f82}, {0x3f817fff, 0x3f81}, {0x7f7fffff, 0x7f80},
		{0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0},
		{0xffffffff, 0xffff}, {0x80000000, 0x8000}, {0x00000001, 0x0000},
		{0x00008001, 0x0001}, {0x007fffff, 0x0080},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		float value;

		memcpy(&value, &cases[i].bits, sizeof(value));
		assert_int_equal(lh_bf16_from_float(value), cases[i].expected);
	}
	for (uint32_t i = 0; i <= UINT16_MAX; i++) {
		float value = lh_bf16_to_float((uint16_t)i);

		if (!isnan(value))
			assert_int_equal(lh_bf16_from_float(value), i);
	}
}

/* ---- vectors -------------------------------------------------------------------------------- */

struct outputs {
	lh_wire16 half[MANY], upper[MANY];
	float from_half[MANY], from_upper[MANY], by_sign[MANY];
	struct lh_moments moments;
	uint32_t largest;
	uint8_t bins[MANY], codes[MANY], signs[MANY / 8 + 1];
	double sums[2];
};

static void run_kernels(const struct lh_kernels *k, const float *x, size_t n, struct outputs *out)
{
	const struct lh_uniform_bins place = {.mean = 0.125f, .bins_per_unit = 42.7f};
	const float means[2] = {-1.5f, 2.5f};

	memset(out, 0, sizeof(*out));
	k->fp16_encode(x, n, out->half);
	k->fp16_decode((const lh_wire16 *)x, n, out->from_half);
	k->bf16_encode(x, n, out->upper);
	k->bf16_decode((const lh_wire16 *)x, n, out->from_upper);
	k->moments(x, n, &out->moments);
	k->uniform8_bins(x, n, &place, out->bins);
	out->largest = k->largest_bits(x, n);
	k->blockwise8_encode(x, n, 0.37f, out->codes);
	k->signs(x, n, out->signs);
	k->sums_by_sign(x, n, out->sums);
	k->pick_by_sign((const uint8_t *)x, n, means, out->by_sign);
}

/* NaNs of sums may differ in bits that nobody reads. */
static void unify_nans(struct outputs *out)
{
	double *const all[] = {&out->moments.mean, &out->moments.sigma, &out->sums[0],
			       &out->sums[1]};

	for (size_t i = 0; i < N_ELEMENTS(all); i++)
		if (isnan(*all[i]))
			memset(all[i], 0xff, sizeof(*all[i]));
}

static void compare_kernels(fill_fn *fill, struct lh_rng *rng, size_t n)
{
	static struct outputs any, wide;
	static float values[MANY];

	fill(rng, values, n);
	run_kernels(&lh_kernels_any, values, n, &any);
	run_kernels(&lh_kernels_wide, values, n, &wide);
	unify_nans(&any);
	unify_nans(&wide);
	assert_memory_equal(&any, &wide, sizeof(any));
}

static void test_vectors_give_the_same_bits(void **state)
{
	struct lh_rng rng;

	(void)state;
	if (!lh_kernels_wide_fit())
		skip();
	lh_rng_init(&rng, 1, "vectors");
	for (size_t s = 0; s < N_ELEMENTS(sizes); s++) {
		for (size_t f = 0; f < N_ELEMENTS(fills); f++)
			compare_kernels(fills[f], &rng, sizes[s]);
		for (size_t f = 0; f < N_ELEMENTS(odd_fills); f++)
			compare_kernels(odd_fills[f], &rng, sizes[s]);
	}
}

static void test_vectors_round_every_half_alike(void **state)
{
	lh_cleanup_free float *any = malloc(65536 * sizeof(*any));
	lh_cleanup_free float *wide = malloc(65536 * sizeof(*wide));
	lh_cleanup_free lh_wire16 *halves = malloc(65536 * sizeof(*halves));
	lh_cleanup_free lh_wire16 *again = malloc(65536 * sizeof(*again));

	(void)state;
	if (!lh_kernels_wide_fit())
		skip();
	for (uint32_t i = 0; i < 65536; i++)
		halves[i] = (uint16_t)i;
	lh_kernels_any.fp16_decode(halves, 65536, any);
	lh_kernels_wide.fp16_decode(halves, 65536, wide);
	assert_memory_equal(any, wide, 65536 * sizeof(*any));
	lh_kernels_any.fp16_encode(any, 65536, again);
	lh_kernels_wide.fp16_encode(any, 65536, halves);
	assert_memory_equal(again, halves, 65536 * sizeof(*again));
}

/* Other machines and compilers must read what this one writes, and write the same. */
static void test_the_wire_is_the_same_everywhere(void **state)
{
	static const struct {
		const struct lh_codec_ops *codec;
		uint64_t crc;
	} cases[] = {
		{&lh_codec_none, UINT64_C(0x131ad9145f32176b)},
		{&lh_codec_fp16, UINT64_C(0xfddd8924d87e0863)},
		{&lh_codec_bf16, UINT64_C(0x6c187b4ca24bba0a)},
		{&lh_codec_uniform8, UINT64_C(0x336097de9e4ea443)},
		{&lh_codec_blockwise8, UINT64_C(0x87c8e8427b48878f)},
		{&lh_codec_onebit, UINT64_C(0xc242a1b2c7544e1c)},
	};
	static float values[MANY];
	struct lh_crc64 crc;
	struct lh_rng rng;
	int n_wrong = 0;

	(void)state;
	lh_rng_init(&rng, 1, "everywhere");
	for (size_t i = 0; i < MANY; i++) {
		/* sums and products alone, which round alike everywhere */
		double u = 2 * lh_rng_uniform(&rng) - 1;

		values[i] = (float)(u * u * u * u * u);
	}
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		size_t bytes = cases[i].codec->wire_bytes(MANY);
		lh_cleanup_free uint8_t *wire = malloc(bytes);

		assert_non_null(wire);
		cases[i].codec->encode(values, MANY, wire);
		lh_crc64_init(&crc);
		lh_crc64_add(&crc, wire, bytes);
		if (lh_crc64_value(&crc) != cases[i].crc)
			print_error("%s: 0x%016llx\n", cases[i].codec->name,
				    (unsigned long long)lh_crc64_value(&crc));
		n_wrong += lh_crc64_value(&crc) != cases[i].crc;
	}
	assert_int_equal(n_wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire_sizes_follow_the_formulas),
		cmocka_unit_test(test_nothing_is_written_for_no_elements),
		cmocka_unit_test(test_errors_stay_within_each_codecs_bound),
		cmocka_unit_test(test_equal_values_come_back_exactly),
		cmocka_unit_test(test_uniform8_is_within_a_bin_of_the_value_inside_three_sigmas),
		cmocka_unit_test(test_blockwise8_finds_the_nearest_of_its_values),
		cmocka_unit_test(test_blockwise8_returns_its_own_values),
		cmocka_unit_test(test_blockwise8_scales_every_block_by_itself),
		cmocka_unit_test(test_onebit_decodes_to_the_mean_of_each_sign),
		cmocka_unit_test(test_onebit_with_feedback_loses_nothing_over_time),
		cmocka_unit_test(test_what_is_not_finite_never_disappears),
		cmocka_unit_test(test_bf16_rounds_to_nearest_even),
		cmocka_unit_test(test_the_wire_is_the_same_everywhere),
		cmocka_unit_test(test_vectors_give_the_same_bits),
		cmocka_unit_test(test_vectors_round_every_half_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
