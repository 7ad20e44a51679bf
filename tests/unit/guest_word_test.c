/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as words of a kernel command line: every byte comes back, none has a meaning there. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "emulator/guest/guest_internal.h"
#include "tests/unit/test.h"

enum { PATH_BYTES = 300, ROUNDS = 1000 };

static void assert_returns(const char *path)
{
	lh_cleanup_free char *word = lh_guest_encode(path);

	assert_non_null(word);
	for (const char *c = word; *c; c++)
		assert_true(isalnum((unsigned char)*c) || strchr("/._-%", *c));
	lh_guest_decode(word);
	assert_string_equal(word, path);
}

static void test_every_byte_comes_back(void **state)
{
	char path[PATH_BYTES + 1];
	struct lh_rng rng;

	(void)state;
	for (int c = 1; c < 256; c++)
		path[c - 1] = (char)c;
	path[255] = '\0';
	assert_returns(path);
	assert_returns("");
	assert_returns("/tmp/a b/100%/%41/%zz/\"x\" -- init=/bin/sh");
	lh_rng_init(&rng, 1, "word");
	for (int i = 0; i < ROUNDS; i++) {
		size_t n = lh_rng_below(&rng, PATH_BYTES);

		for (size_t k = 0; k < n; k++)
			path[k] = (char)(1 + lh_rng_below(&rng, 255));
		path[n] = '\0';
		assert_returns(path);
	}
}

static void test_words_that_were_not_encoded_are_read_within_bounds(void **state)
{
	static const struct {
		const char *word;
		const char *decoded;
	} cases[] = {
		{"%", "%"},   {"%4", "%4"},   {"%4g", "%4g"}, {"a%41b", "aAb"}, {"%%41", "%A"},
		{"%2", "%2"}, {"%+1", "%+1"}, {"% 1", "% 1"}, {"%0x", "%0x"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		/* on the heap, exactly as long, so that memory checkers see a step too far */
		lh_cleanup_free char *word = strdup(cases[i].word);

		assert_non_null(word);
		lh_guest_decode(word);
		assert_string_equal(word, cases[i].decoded);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_byte_comes_back),
		cmocka_unit_test(test_words_that_were_not_encoded_are_read_within_bounds),
	};

	return cmocka_run_group_tests_name("guest word", tests, NULL, NULL);
}
