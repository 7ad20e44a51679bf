/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a vocabulary of byte pairs, ours or (up to a line "---" and after it) GPT-2's two
 * files, and as text to train on: what is taken encodes the bytes, and decodes them again.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/data/bpe.h"

const char lh_fuzz_name[] = "bpe";
const char *const lh_fuzz_words[] = {
	"longhaul-bpe 1\n", "merges ", "97 98\n", "256", "257 257\n", "1048576",  "\n---\n",
	"#version: 0.2\n",  "\": 0,",  "{",	  "}",	 "\\u0120",   "\xc4\xa0", " ",
	"\xe2\x80\x9c",	    "\xff",    "'s",	  "  ",	 NULL};

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "bpe: %s\n", what);
	abort();
}

/* is_exact: every token decodes to what it was made of, which a GPT-2 file need not hold to. */
static void round_trip(struct lh_bpe *bpe, const char *text, size_t n, bool is_exact)
{
	lh_cleanup_free int32_t *tokens = malloc((n + 1) * sizeof(*tokens));
	lh_cleanup_free char *back = malloc(n + 1);
	size_t n_tokens, n_back;

	if (!tokens || !back)
		return;
	n_tokens = lh_bpe_encode(bpe, text, n, tokens, n);
	expect(n_tokens <= n, "more tokens than bytes");
	for (size_t i = 0; i < n_tokens; i++)
		expect(tokens[i] >= 0 && (uint32_t)tokens[i] < lh_bpe_size(bpe), "no such token");
	n_back = lh_bpe_decode(bpe, tokens, n_tokens, back, n);
	if (is_exact)
		expect(n_back == n && memcmp(back, text, n) == 0, "other bytes come back");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *cut = memmem(data, size, "\n---\n", 5);
	size_t n_vocab = cut ? (size_t)(cut - text) : size;
	struct lh_bpe *bpe = NULL;
	struct lh_error err = {0};

	if (lh_bpe_parse("fuzz", text, size, &bpe, &err) == 0)
		round_trip(bpe, text, size, true);
	else
		expect(err.message[0] && !bpe, "an error without a message");
	lh_bpe_free(bpe);
	bpe = NULL;
	if (cut) {
		if (lh_bpe_parse_gpt2("fuzz", text, n_vocab, cut + 5, size - n_vocab - 5, &bpe,
				      &err) == 0)
			round_trip(bpe, text, size, false);
		else
			expect(err.message[0] && !bpe, "an error without a message");
	}
	lh_bpe_free(bpe);
	bpe = NULL;
	expect(lh_bpe_train(text, size, 300, &bpe, &err) == 0, err.message);
	round_trip(bpe, text, size, true);
	lh_bpe_free(bpe);
	return 0;
}
