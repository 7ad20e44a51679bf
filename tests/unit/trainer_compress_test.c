/* SPDX-License-Identifier: Apache-2.0 */
/* Compressors against the compiler's own half precision, and their table. */
#include "trainer/compress/compress.h"

#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

#ifdef __FLT16_MANT_DIG__
static uint16_t compiler_half(float value)
{
	_Float16 half = (_Float16)value;
	uint16_t bits;

	memcpy(&bits, &half, sizeof(bits));
	return bits;
}

static void assert_rounds_like_the_compiler(uint32_t bits)
{
	float value = float_of(bits);
	uint16_t got = lh_fp16_from_float(value);

	if (isnan(value)) {
		assert_int_equal(got & 0x7c00, 0x7c00);
		assert_int_not_equal(got & 0x3ff, 0);
	} else if (got != compiler_half(value)) {
		fail_msg("0x%08x became 0x%04x, not 0x%04x", bits, got, compiler_half(value));
	}
}

static void test_every_half_has_the_compilers_value(void **state)
{
	(void)state;
	for (uint32_t i = 0; i <= UINT16_MAX; i++) {
		uint16_t bits = (uint16_t)i;
		_Float16 half;
		float got = lh_fp16_to_float(bits);

		memcpy(&half, &bits, sizeof(half));
		if (isnan((float)half))
			assert_true(isnan(got));
		else
			assert_int_equal(bits_of(got), bits_of((float)half));
	}
}

static void test_every_neighbourhood_of_a_half_rounds_like_the_compiler(void **state)
{
	(void)state;
	for (uint32_t i = 0; i <= UINT16_MAX; i++) {
		uint32_t bits = bits_of(lh_fp16_to_float((uint16_t)i));

		/* At, beside, and half way to the next: ties and their neighbours. */
		for (uint32_t d = 0; d < 3; d++) {
			assert_rounds_like_the_compiler(bits + d);
			assert_rounds_like_the_compiler(bits - d);
			assert_rounds_like_the_compiler(bits + 0x0fff + d);
		}
	}
}

static void test_random_floats_round_like_the_compiler(void **state)
{
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "fp16");
	for (int i = 0; i < 2000000; i++) {
		uint32_t bits = (uint32_t)(lh_rng_next(&rng) >> 32);

		assert_rounds_like_the_compiler(bits);
		/* The same digits within half precision's range. */
		assert_rounds_like_the_compiler((bits & 0x80ffffff) | 0x38000000);
		assert_rounds_like_the_compiler((bits & 0x83ffffff) | 0x30000000);
	}
}
#else
static void test_every_half_has_the_compilers_value(void **state)
{
	(void)state;
	skip();
}
#define test_every_neighbourhood_of_a_half_rounds_like_the_compiler \
	test_every_half_has_the_compilers_value
#define test_random_floats_round_like_the_compiler test_every_half_has_the_compilers_value
#endif

static void test_none_returns_the_same_bits(void **state)
{
	const float values[] = {0.0f, -0.0f, 1.5f, -3.25e-40f, INFINITY, 1e30f};
	float back[N_ELEMENTS(values)];
	uint8_t wire[sizeof(values) + 1];

	(void)state;
	lh_codec_none.encode(values, N_ELEMENTS(values), wire + 1);
	lh_codec_none.decode(wire + 1, N_ELEMENTS(values), back);
	assert_memory_equal(values, back, sizeof(values));
}

static void test_fp16_is_little_endian(void **state)
{
	const float one_and_minus_two[] = {1.0f, -2.0f};
	const uint8_t expected[] = {0x00, 0x3c, 0x00, 0xc0};
	uint8_t wire[sizeof(expected)];

	(void)state;
	lh_codec_fp16.encode(one_and_minus_two, 2, wire);
	assert_memory_equal(wire, expected, sizeof(expected));
}

static void test_compressors_are_found_by_name(void **state)
{
	(void)state;
	for (size_t i = 0; lh_codecs[i]; i++)
		assert_ptr_equal(lh_codec_find(lh_codecs[i]->name), lh_codecs[i]);
	assert_null(lh_codec_find("fp8"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_half_has_the_compilers_value),
		cmocka_unit_test(test_every_neighbourhood_of_a_half_rounds_like_the_compiler),
		cmocka_unit_test(test_random_floats_round_like_the_compiler),
		cmocka_unit_test(test_none_returns_the_same_bits),
		cmocka_unit_test(test_fp16_is_little_endian),
		cmocka_unit_test(test_compressors_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
