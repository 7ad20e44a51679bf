/* SPDX-License-Identifier: Apache-2.0 */
/* The job reader: a right job, and one wrong thing at a time. */
#include "trainer/job.h"

#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/test.h"
#include "trainer/strategy/strategy.h"

#define RANK(n)                                                                      \
	"{\"node\": \"gc-us/" n "\", \"site\": \"gc-us\", \"address\": \"10.64.0." n \
	"\", \"port\": 29500, \"micro_batch\": 32, \"samples_per_s\": 36.9,"         \
	" \"variation_ratio\": 0.01, \"accumulate_ns\": 40000000,"                   \
	" \"averaging_bps\": 646000000, \"apply_ns\": 0}"

static const char right[] =
	"{\"format\": \"longhaul-trainer-job/1\", \"seed\": 1, \"mode\": \"replay\","
	" \"model\": \"convnext-large\", \"parameters\": 197767336, \"target_batch\": 32768,"
	" \"epochs\": 4, \"transport\": \"tcp\", \"compress\": {\"kind\": \"fp16\"},"
	" \"strategy\": {\"kind\": \"butterfly\", \"matchmaking_ns\": 5000000000,"
	" \"delayed_update\": true}, \"start_timeout_ns\": 30000000000,"
	" \"ranks\": [" RANK("1") ", " RANK("2") "]}";

/* right with the first `from` replaced by `to`; owned by the caller. */
static char *changed(const char *from, const char *to)
{
	const char *at = strstr(right, from);

	assert_non_null(at);
	return lh_strf("%.*s%s%s", (int)(at - right), right, to, at + strlen(from));
}

static void test_a_right_job_is_read(void **state)
{
	struct lh_error err = {0};
	struct lh_job job;

	(void)state;
	assert_int_equal(lh_job_parse(right, strlen(right), "job", &job, &err), 0);
	assert_int_equal(job.n_ranks, 2);
	assert_true(job.parameters == 197767336 && job.target_batch == 32768);
	assert_int_equal(job.epochs, 4);
	assert_ptr_equal(job.compress, &lh_codec_fp16);
	assert_ptr_equal(job.strategy, lh_strategy_find("butterfly"));
	assert_true(job.settings.matchmaking_ns == 5000000000 && job.settings.delayed_update);
	assert_string_equal(job.ranks[1].node, "gc-us/2");
	assert_int_equal(job.ranks[1].socket_address.ss_family, AF_INET);
	assert_near(job.ranks[1].samples_per_s, 36.9, 0.0);
	assert_true(job.ranks[1].averaging_bps == 646000000);
	lh_job_done(&job);
}

/* Keys of the second rank that say what it shares a machine with; owned by the caller. */
static char *in_one_machine(const char *first, const char *second)
{
	static const char at_1[] = "\"gc-us/1\",", at_2[] = "\"gc-us/2\",";
	const char *one = strstr(right, at_1), *two = strstr(right, at_2);

	return lh_strf("%.*s%s%s%.*s%s%s%s", (int)(one - right), right, at_1, first,
		       (int)(two - one - (long)strlen(at_1)), one + strlen(at_1), at_2, second,
		       two + strlen(at_2));
}

static void test_ranks_may_share_a_machine(void **state)
{
	static const struct {
		const char *first, *second;
		const char *message; /* NULL: right */
	} cases[] = {
		{"\"vm\": \"v\", \"local_rank\": 0,", "\"vm\": \"v\", \"local_rank\": 1,", NULL},
		{"", "\"vm\": \"v\", \"local_rank\": 7,", NULL},
		{"", "\"vm\": \"v\",", "ranks[1].local_rank: missing"},
		{"", "\"local_rank\": 1,", "ranks[1].vm: missing"},
		{"", "\"vm\": \"v\", \"local_rank\": -1,", "ranks[1].local_rank: -1"},
		{"", "\"vm\": 5, \"local_rank\": 1,", "ranks[1].vm: not a string"},
		{"\"vm\": \"v\", \"local_rank\": 3,", "\"vm\": \"v\", \"local_rank\": 3,",
		 "ranks[0] and ranks[1]: both local_rank 3 of v"},
		{"", "\"vm\": \"gc-us/1\", \"local_rank\": 0,",
		 "ranks[0] and ranks[1]: both local_rank 0 of gc-us/1"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *text = in_one_machine(cases[i].first, cases[i].second);
		struct lh_error err = {0};
		struct lh_job job;
		int rc = lh_job_parse(text, strlen(text), "job", &job, &err);

		if (cases[i].message) {
			assert_int_equal(rc, LH_EINPUT);
			assert_non_null(strstr(err.message, cases[i].message));
			continue;
		}
		assert_int_equal(rc, 0);
		assert_string_equal(job.ranks[1].vm, "v");
		assert_string_equal(job.ranks[0].vm, *cases[i].first ? "v" : "gc-us/1");
		assert_int_equal(job.ranks[0].local_rank, 0);
		lh_job_done(&job);
	}
}

static void test_the_hash_ignores_spaces_but_no_value(void **state)
{
	static const char *const from[] = {"\"seed\": 1", "\"seed\": 1"};
	static const char *const to[] = {"\"seed\":  1", "\"seed\": 2"};
	struct lh_job job, other;

	(void)state;
	assert_int_equal(lh_job_parse(right, strlen(right), "job", &job, NULL), 0);
	for (size_t i = 0; i < N_ELEMENTS(from); i++) {
		lh_cleanup_free char *text = changed(from[i], to[i]);

		assert_int_equal(lh_job_parse(text, strlen(text), "job", &other, NULL), 0);
		assert_true((job.hash == other.hash) == (i == 0));
		lh_job_done(&other);
	}
	lh_job_done(&job);
}

#define SLOW(spans) "\"apply_ns\": 0, \"slow\": [" spans "]"
#define SPAN "{\"from_ns\": 9, \"to_ns\": 10, \"factor\": 2.5}"

static void test_spans_in_which_a_rank_is_slow_are_read(void **state)
{
	lh_cleanup_free char *text = changed("\"apply_ns\": 0", SLOW(SPAN));
	struct lh_error err = {0};
	struct lh_job job;

	(void)state;
	assert_int_equal(lh_job_parse(text, strlen(text), "job", &job, &err), 0);
	assert_int_equal(job.ranks[0].n_slow, 1);
	assert_true(job.ranks[0].slow[0].from_ns == 9 && job.ranks[0].slow[0].to_ns == 10);
	assert_near(job.ranks[0].slow[0].factor, 2.5, 0);
	assert_int_equal(job.ranks[1].n_slow, 0);
	lh_job_done(&job);
}

static void test_what_a_strategy_asks_for_is_read(void **state)
{
	lh_cleanup_free char *ordered =
		changed("\"seed\": 1", "\"seed\": 1, \"ring_order\": [1, 0]");
	lh_cleanup_free char *wide =
		changed("\"apply_ns\": 0", "\"apply_ns\": 0, \"bandwidth_bps\": 7");
	struct lh_job job;

	(void)state;
	assert_int_equal(lh_job_parse(ordered, strlen(ordered), "job", &job, NULL), 0);
	assert_int_equal(job.ring_order[0], 1);
	assert_int_equal(job.ring_order[1], 0);
	assert_int_equal(job.ranks[0].bandwidth_bps, 0);
	lh_job_done(&job);
	assert_int_equal(lh_job_parse(wide, strlen(wide), "job", &job, NULL), 0);
	assert_null(job.ring_order);
	assert_int_equal(job.ranks[0].bandwidth_bps, 7);
	lh_job_done(&job);
}

static void test_wrong_values_are_refused_by_key(void **state)
{
	static const struct {
		const char *from, *to, *message;
	} cases[] = {
		{"job/1", "job/2", "format: expected"},
		{"\"seed\": 1", "\"seed\": -1", "seed: -1; expected 0 to"},
		{"\"seed\": 1", "\"seed\": 1.5", "seed: not an integer"},
		{"\"seed\": 1,", "", "seed: missing"},
		{"\"seed\": 1", "\"seed\": 1, \"sead\": 2", "sead: unknown key"},
		{"\"seed\": 1", "\"seed\": 1, \"seed\": 2", "duplicate"},
		{"replay", "dream", "mode: expected \"replay\""},
		{"convnext-large", "", "model: expected 1 to 127 bytes"},
		{"197767336", "0", "parameters: 0; expected 1 to"},
		{"197767336", "99999999999999", "parameters: 99999999999999; expected"},
		{"32768", "0", "target_batch: 0"},
		{"\"epochs\": 4", "\"epochs\": 0", "epochs: 0"},
		{"fp16", "fp61", "compress.kind: no compressor \"fp61\""},
		{"fp16", "topk", "compress.kind: topk does not go with strategy butterfly"},
		{"butterfly", "moth", "strategy.kind: no strategy \"moth\""},
		{"5000000000", "-5", "strategy.matchmaking_ns: -5"},
		{"true", "1", "strategy.delayed_update: expected true or false"},
		{"30000000000", "0", "start_timeout_ns: 0"},
		{"10.64.0.1", "localhost", "ranks[0].address: expected an IPv4"},
		{"10.64.0.1", "10.64.0.2", "ranks[0] and ranks[1]: both at 10.64.0.2 port 29500"},
		{"29500", "0", "ranks[0].port: 0; expected 1 to 65535"},
		{"29500", "65536", "ranks[0].port: 65536"},
		{"\"micro_batch\": 32", "\"micro_batch\": 0", "ranks[0].micro_batch: 0"},
		{"36.9", "0", "ranks[0].samples_per_s: 0; expected"},
		{"36.9", "\"fast\"", "ranks[0].samples_per_s: not a number"},
		{"0.01", "0.5", "ranks[0].variation_ratio: 0.5; expected 0 to 0.33"},
		{"40000000", "-1", "ranks[0].accumulate_ns: -1"},
		{"646000000", "-1", "ranks[0].averaging_bps: -1"},
		{"\"apply_ns\": 0", "\"apply_ns\": 1e3", "ranks[0].apply_ns: not an integer"},
		{"\"apply_ns\": 0", "\"apply_ns\": 0, \"slow\": 3", "ranks[0].slow: expected"},
		{"\"apply_ns\": 0", SLOW("{\"from_ns\": 9, \"to_ns\": 8, \"factor\": 2}"),
		 "ranks[0].slow[0].to_ns: 8; expected 9"},
		{"\"apply_ns\": 0", SLOW("{\"from_ns\": 9, \"to_ns\": 10, \"factor\": 0.5}"),
		 "ranks[0].slow[0].factor: 0.5; expected 1 to 1000"},
		{"\"apply_ns\": 0", SLOW(SPAN "," SPAN),
		 "ranks[0].slow[1].from_ns: 9; expected 10"},
		{"\"apply_ns\": 0", SLOW("7"), "ranks[0].slow[0].: expected a mapping"},
		{"\"apply_ns\": 0", "\"apply_ns\": 0, \"bandwidth_bps\": 0",
		 "ranks[0].bandwidth_bps: 0"},
		{"\"seed\": 1", "\"seed\": 1, \"ring_order\": [0]",
		 "ring_order: expected an array"},
		{"\"seed\": 1", "\"seed\": 1, \"ring_order\": [1, 1]",
		 "ring_order: expected every rank once"},
		{"\"seed\": 1", "\"seed\": 1, \"ring_order\": [0, 2]",
		 "ring_order: expected every rank once"},
		{RANK("1"), "7", "ranks[0].: expected a mapping"},
		{"[" RANK("1") ", " RANK("2") "]", "[]", "ranks: expected an array of 1 to 512"},
		{"\"ranks\": [", "\"ranks\": ", "job:"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *text = changed(cases[i].from, cases[i].to);
		struct lh_error err = {0};
		struct lh_job job;

		assert_int_equal(lh_job_parse(text, strlen(text), "job", &job, &err), LH_EINPUT);
		if (!strstr(err.message, cases[i].message) || strncmp(err.message, "job:", 4) != 0)
			fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].message);
	}
}

static void test_every_cut_of_a_job_is_refused(void **state)
{
	struct lh_job job;

	(void)state;
	for (size_t size = 0; size < strlen(right); size++)
		assert_int_equal(lh_job_parse(right, size, "job", &job, NULL), LH_EINPUT);
}

static void test_a_missing_file_is_named(void **state)
{
	struct lh_error err = {0};
	struct lh_job job;

	(void)state;
	assert_int_equal(lh_job_read("/nonexistent/job.json", &job, &err), LH_ESYS);
	assert_non_null(strstr(err.message, "/nonexistent/job.json"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_right_job_is_read),
		cmocka_unit_test(test_ranks_may_share_a_machine),
		cmocka_unit_test(test_the_hash_ignores_spaces_but_no_value),
		cmocka_unit_test(test_spans_in_which_a_rank_is_slow_are_read),
		cmocka_unit_test(test_what_a_strategy_asks_for_is_read),
		cmocka_unit_test(test_wrong_values_are_refused_by_key),
		cmocka_unit_test(test_every_cut_of_a_job_is_refused),
		cmocka_unit_test(test_a_missing_file_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
