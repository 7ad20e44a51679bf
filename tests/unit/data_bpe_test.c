/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair tokens: training against a plain one, round trips, and vocabularies' files. */
#include "trainer/data/bpe.h"

#include "core/cleanup.h"
#include "core/rng.h"
#include "tests/unit/data_fixture.h"

static struct lh_bpe *train(const char *text, size_t n, uint32_t vocab_size)
{
	struct lh_bpe *bpe = NULL;
	struct lh_error err = {0};

	if (lh_bpe_train(text, n, vocab_size, &bpe, &err) < 0)
		fail_msg("%s", err.message);
	return bpe;
}

static void assert_round_trip(struct lh_bpe *bpe, const char *text, size_t n)
{
	lh_cleanup_free int32_t *tokens = malloc((n + 1) * sizeof(*tokens));
	lh_cleanup_free char *back = malloc(n + 1);
	size_t n_tokens = lh_bpe_encode(bpe, text, n, tokens, n);

	assert_int_equal(lh_bpe_decode(bpe, tokens, n_tokens, back, n), n);
	assert_memory_equal(back, text, n);
	if (n_tokens > 1) {
		assert_int_equal(lh_bpe_encode(bpe, text, n, tokens, n_tokens - 1), n_tokens - 1);
		assert_true(lh_bpe_decode(bpe, tokens, n_tokens - 1, back, n) < n);
	}
}

static const char poem[] = "the cat sat on the mat; the cat ate the rat. "
			   "that's what the cat's at, isn't it?  99 cats sat, 1999 rats ran\n"
			   "na\xc3\xafve caf\xc3\xa9s \xe2\x80\x9cquoted\xe2\x80\x9d\n\n\n  end";

static void test_the_most_frequent_pair_is_merged_first(void **state)
{
	/* By hand: (a,b) and (b,c) come 5 times, a is the smaller; then (blank,b) and (b,c) 3
	 * times, the blank is the smaller; then that with c, 3 times. */
	static const char text[] = "ab\nab\nab\nx bc bc bc abc abc";
	static const int32_t expected[] = {256, '\n', 256, '\n', 256, '\n', 'x', 258, 258, 258};
	struct lh_bpe *bpe = train(text, sizeof(text) - 1, 259);
	int32_t tokens[64];

	(void)state;
	assert_int_equal(lh_bpe_size(bpe), 259);
	assert_true(lh_bpe_encode(bpe, text, sizeof(text) - 1, tokens, 64) > 10);
	assert_memory_equal(tokens, expected, sizeof(expected));
	lh_bpe_free(bpe);
}

/* As the definition has it: count all pairs anew before each merge. Words are split at blanks,
 * which stay with what follows; letters and blanks alone. */
static size_t plain_merges(const char *text, size_t n, size_t n_max, int32_t (*merges)[2])
{
	lh_cleanup_free int32_t *tokens = malloc(n * sizeof(*tokens));
	lh_cleanup_free uint8_t *begins = malloc(n);
	lh_cleanup_free uint32_t *counts = malloc(512 * 512 * sizeof(*counts));
	size_t n_merges = 0;

	for (size_t i = 0; i < n; i++) {
		tokens[i] = (uint8_t)text[i];
		begins[i] = text[i] == ' ';
	}
	while (n_merges < n_max) {
		uint32_t best = 0, to = 0;

		memset(counts, 0, 512 * 512 * sizeof(*counts));
		for (size_t i = 0; i + 1 < n; i++)
			if (!begins[i + 1])
				counts[tokens[i] * 512 + tokens[i + 1]]++;
		for (uint32_t p = 0; p < 512 * 512; p++)
			best = counts[p] > counts[best] ? p : best;
		if (counts[best] < 2)
			break;
		merges[n_merges][0] = (int32_t)(best / 512);
		merges[n_merges][1] = (int32_t)(best % 512);
		for (size_t i = 0; i < n; i++, to++) {
			bool is_pair = i + 1 < n && !begins[i + 1] &&
				       tokens[i] == merges[n_merges][0] &&
				       tokens[i + 1] == merges[n_merges][1];

			begins[to] = begins[i];
			tokens[to] = is_pair ? (int32_t)(256 + n_merges) : tokens[i];
			i += is_pair;
		}
		n = to;
		n_merges++;
	}
	return n_merges;
}

static void test_training_agrees_with_a_plain_one(void **state)
{
	struct data_fixture *f = *state;
	static int32_t expected[200][2];
	lh_cleanup_free char *written = NULL;
	char text[4000], line[32];
	struct lh_bpe *bpe;
	struct lh_rng rng;
	size_t n_merges;
	char *p;

	lh_rng_init(&rng, 3, "letters");
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = " abcd"[lh_rng_below(&rng, 5)];
	for (size_t i = 1; i < sizeof(text); i++) /* single blanks, none at the end */
		if (text[i] == ' ' && (text[i - 1] == ' ' || i + 1 == sizeof(text)))
			text[i] = 'e';
	n_merges = plain_merges(text, sizeof(text), 200, expected);
	assert_int_equal(n_merges, 200);
	bpe = train(text, sizeof(text), 456);
	assert_int_equal(lh_bpe_save(bpe, data_path(f, "v.bpe"), NULL), 0);
	assert_int_equal(lh_file_read(f->path, 1 << 20, &written, NULL, NULL), 0);
	p = strchr(strchr(written, '\n') + 1, '\n') + 1;
	for (size_t i = 0; i < n_merges; i++) {
		int n = snprintf(line, sizeof(line), "%d %d\n", expected[i][0], expected[i][1]);

		if (strncmp(p, line, (size_t)n) != 0)
			fail_msg("merge %zu is %.10s, not %s", i, p, line);
		p += n;
	}
	assert_round_trip(bpe, text, sizeof(text));
	lh_bpe_free(bpe);
}

static void test_any_bytes_come_back(void **state)
{
	struct lh_bpe *bpe = train(poem, sizeof(poem) - 1, 300);
	static char bytes[5000];
	struct lh_rng rng;

	(void)state;
	assert_true(lh_bpe_size(bpe) > 270);
	assert_round_trip(bpe, poem, sizeof(poem) - 1);
	assert_round_trip(bpe, "", 0);
	lh_rng_init(&rng, 1, "bytes");
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] =
				(char)(round % 2
					       ? lh_rng_below(&rng, 256)
					       : (uint64_t) "the \xc3\xa9 "[lh_rng_below(&rng, 7)]);
		assert_round_trip(bpe, bytes, sizeof(bytes));
	}
	memset(bytes, 't', sizeof(bytes)); /* one piece, longer than any token may be */
	assert_round_trip(bpe, bytes, sizeof(bytes));
	memset(bytes, ' ', sizeof(bytes));
	assert_round_trip(bpe, bytes, sizeof(bytes));
	lh_bpe_free(bpe);
}

static void test_frequent_words_become_one_token(void **state)
{
	struct lh_bpe *bpe = train(poem, sizeof(poem) - 1, 400);
	int32_t tokens[16];

	(void)state;
	assert_int_equal(lh_bpe_encode(bpe, " the cat", 8, tokens, 16), 2);
	/* nothing is learnt from what occurs once */
	assert_true(lh_bpe_size(bpe) < 400);
	lh_bpe_free(bpe);
}

static void test_a_vocabulary_reads_back(void **state)
{
	struct data_fixture *f = *state;
	struct lh_bpe *bpe = train(poem, sizeof(poem) - 1, 320), *again = NULL;
	int32_t a[300], b[300];
	size_t n;

	assert_int_equal(lh_bpe_save(bpe, data_path(f, "v.bpe"), NULL), 0);
	assert_int_equal(lh_bpe_load(f->path, &again, NULL), 0);
	assert_int_equal(lh_bpe_size(again), lh_bpe_size(bpe));
	n = lh_bpe_encode(bpe, poem, sizeof(poem) - 1, a, 300);
	assert_int_equal(lh_bpe_encode(again, poem, sizeof(poem) - 1, b, 300), n);
	assert_memory_equal(a, b, n * sizeof(*a));
	lh_bpe_free(bpe);
	lh_bpe_free(again);
}

static void test_bad_vocabularies_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "v:1: expected 'longhaul-bpe 1'"},
		{"longhaul-bpe 2\nmerges 0\n", "v:1: expected 'longhaul-bpe 1'"},
		{"longhaul-bpe 1\nmerges x\n", "v:2: expected 'merges N'"},
		{"longhaul-bpe 1\nmerges 99999999\n", "v:2: expected 'merges N'"},
		{"longhaul-bpe 1\nmerges 1000000\n97 98\n", "cannot hold 1000000 merges"},
		{"longhaul-bpe 1\nmerges 2\n97 98\n", "v:4: expected two tokens"},
		{"longhaul-bpe 1\nmerges 1\n97  98\n", "v:3: expected two tokens"},
		{"longhaul-bpe 1\nmerges 1\n97 256\n",
		 "v:3: tokens 97 and 256; only those below 256"},
		{"longhaul-bpe 1\nmerges 1\n97 98\n1 2\n", "v:4: expected the end"},
		{"longhaul-bpe 1\nmerges 2\n97 98\n97 98\n", "merge 1 is there twice: 97 98"},
	};
	char text[400] = "longhaul-bpe 1\nmerges 12\n97 97\n";
	struct lh_bpe *bpe = NULL;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_error err = {0};

		assert_int_equal(lh_bpe_parse("v", cases[i].text, strlen(cases[i].text), &bpe,
					      &err),
				 LH_EINPUT);
		if (!strstr(err.message, cases[i].says))
			fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
	}
	/* each token twice the last: few lines that would be a very long token */
	for (int i = 0; i < 11; i++)
		snprintf(text + strlen(text), 20, "%d %d\n", 256 + i, 256 + i);
	assert_int_equal(lh_bpe_parse("v", text, strlen(text), &bpe, NULL), LH_EINPUT);
	assert_null(bpe);
}

/* vocab.json of the 256 bytes as GPT-2 writes them, and more. */
static void write_gpt2(struct data_fixture *f, const char *more, const char *merges)
{
	char vocab[16384] = "{";
	int n = 1, other = 0;

	assert_int_equal(lh_dir_make(data_path(f, "gpt2"), NULL), 0);
	for (int b = 0; b < 256; b++) {
		bool is_itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
		int c = is_itself ? b : 256 + other++;

		n += snprintf(vocab + n, sizeof(vocab) - (size_t)n, "\"\\u%04x\": %d, ", c,
			      300 + b);
	}
	snprintf(vocab + n, sizeof(vocab) - (size_t)n, "%s}", more);
	data_write(f, "gpt2/vocab.json", vocab, strlen(vocab));
	data_write(f, "gpt2/merges.txt", merges, strlen(merges));
	data_path(f, "gpt2");
}

static void test_gpt2s_form_is_read(void **state)
{
	/* "\u0120" is GPT-2's blank */
	static const char more[] =
		"\"th\": 0, \"\\u0120th\": 1, \"\\u0120the\": 2, \"<mask>\": 600";
	static const char merges[] = "#version: 0.2\nt h\n\xc4\xa0 th\n\xc4\xa0th e\n";
	struct data_fixture *f = *state;
	struct lh_bpe *bpe = NULL;
	struct lh_error err = {0};
	int32_t tokens[16];
	char text[16];

	write_gpt2(f, more, merges);
	if (lh_bpe_load(f->path, &bpe, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(lh_bpe_size(bpe), 601);
	assert_int_equal(lh_bpe_encode(bpe, "the the\n", 8, tokens, 16), 4);
	assert_memory_equal(tokens, ((int32_t[]){0, 300 + 'e', 2, 300 + '\n'}), 16);
	assert_int_equal(lh_bpe_decode(bpe, tokens, 4, text, 16), 8);
	assert_memory_equal(text, "the the\n", 8);
	assert_int_equal(lh_bpe_find(bpe, " the"), 2);
	assert_int_equal(lh_bpe_find(bpe, "<mask>"), 600);
	assert_int_equal(lh_bpe_find(bpe, "<pad>"), -1);
	assert_int_equal(lh_bpe_save(bpe, "/nowhere", &err), LH_EUSAGE);
	assert_round_trip(bpe, poem, sizeof(poem) - 1);
	lh_bpe_free(bpe);
	bpe = NULL;
	write_gpt2(f, more, "t h\nt x\n");
	assert_int_equal(lh_bpe_load(f->path, &bpe, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "line 2"));
	write_gpt2(f, "\"th\": 300", merges);
	assert_int_equal(lh_bpe_load(f->path, &bpe, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "number 300 belongs to"));
	data_write(f, "gpt2/vocab.json", "{\"a\": 1}", 8);
	data_path(f, "gpt2");
	assert_int_equal(lh_bpe_load(f->path, &bpe, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "no token for byte 0"));
}

static void test_pieces_are_gpt2s(void **state)
{
	/* merges within a piece alone: with all pairs of a, blank and n merged, the pieces of a
	 * text show in the tokens */
	static const char text[] = "it's  aa \n\n a11 !!";
	static const char *const pieces[] = {"it", "'s", " ", " aa", " \n\n", " a", "11", " !!"};
	struct lh_bpe *bpe;
	char often[400] = "";
	int32_t tokens[32];
	size_t n, at = 0;

	(void)state;
	for (int i = 0; i < 5; i++)
		strcat(often, text);
	bpe = train(often, strlen(often), 1000);
	n = lh_bpe_encode(bpe, text, sizeof(text) - 1, tokens, 32);
	assert_int_equal(n, N_ELEMENTS(pieces));
	for (size_t i = 0; i < n; i++) {
		char piece[16];
		size_t length = lh_bpe_decode(bpe, &tokens[i], 1, piece, sizeof(piece));

		assert_int_equal(length, strlen(pieces[i]));
		assert_memory_equal(piece, pieces[i], length);
		at += length;
	}
	assert_int_equal(at, sizeof(text) - 1);
	lh_bpe_free(bpe);
}

static void test_a_vocabularys_own_mask_is_used(void **state)
{
	struct data_fixture *f = *state;
	lh_cleanup_free char *vocab_path = strdup(data_path(f, "gpt2"));
	struct lh_data_request spec = {.kind = "text",
				       .path = f->dir,
				       .n_tokens = 100,
				       .vocab_path = vocab_path,
				       .objective = LH_DATA_MASKED,
				       .mask_probability = 1};
	struct data_sample s;
	struct lh_dataset *ds;
	int n_masked = 0;

	write_gpt2(f, "\"<mask>\": 7", "");
	data_write(f, "train.txt", poem, sizeof(poem) - 1);
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_spec(ds)->vocab_size, 556);
	data_read(ds, 0, 0, &s);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(s.fields[1].i[i], 300 + (uint8_t)poem[i]);
		n_masked += s.fields[0].i[i] == 7;
	}
	assert_in_range(n_masked, 60, 95);
	lh_dataset_free(ds);
}

static void test_text_is_read_with_a_vocabulary(void **state)
{
	struct data_fixture *f = *state;
	struct lh_bpe *bpe = train(poem, sizeof(poem) - 1, 300);
	lh_cleanup_free char *vocab_path = strdup(data_path(f, "v.bpe"));
	struct lh_data_request spec = {
		.kind = "text", .path = f->dir, .n_tokens = 8, .vocab_path = vocab_path};
	int32_t tokens[300];
	struct data_sample s;
	struct lh_dataset *ds;
	size_t n;

	assert_int_equal(lh_bpe_save(bpe, vocab_path, NULL), 0);
	data_write(f, "train.txt", poem, sizeof(poem) - 1);
	ds = data_open(&spec);
	n = lh_bpe_encode(bpe, poem, sizeof(poem) - 1, tokens, 300);
	assert_int_equal(lh_dataset_size(ds), (n - 1) / 8);
	assert_int_equal(lh_dataset_spec(ds)->vocab_size, lh_bpe_size(bpe));
	data_read(ds, 2, 0, &s);
	assert_memory_equal(s.fields[0].i, tokens + 16, 32);
	assert_memory_equal(s.fields[1].i, tokens + 17, 32);
	lh_dataset_free(ds);
	lh_bpe_free(bpe);
}

int main(void)
{
#define DATA_TEST(t) cmocka_unit_test_setup_teardown(t, data_setup, data_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_most_frequent_pair_is_merged_first),
		DATA_TEST(test_training_agrees_with_a_plain_one),
		cmocka_unit_test(test_any_bytes_come_back),
		cmocka_unit_test(test_frequent_words_become_one_token),
		DATA_TEST(test_a_vocabulary_reads_back),
		cmocka_unit_test(test_bad_vocabularies_are_refused),
		DATA_TEST(test_gpt2s_form_is_read),
		cmocka_unit_test(test_pieces_are_gpt2s),
		DATA_TEST(test_a_vocabularys_own_mask_is_used),
		DATA_TEST(test_text_is_read_with_a_vocabulary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
