/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of strategies and compressors: right ones, and one wrong thing at a time. */
#include "trainer/strategy/settings.h"

#include <string.h>

#include "core/cleanup.h"
#include "tests/unit/test.h"

static json_t *parsed(const char *text)
{
	json_t *object = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);

	assert_non_null(object);
	return object;
}

static struct lh_strategy_settings read_strategy(const char *text)
{
	lh_cleanup_json json_t *object = parsed(text);
	struct lh_strategy_settings settings;
	struct lh_error err = {0};

	if (lh_strategy_settings_read(object, "strategy", &settings, &err))
		fail_msg("%s", err.message);
	return settings;
}

static struct lh_compress_settings read_compress(const char *text)
{
	lh_cleanup_json json_t *object = parsed(text);
	struct lh_compress_settings settings;
	struct lh_error err = {0};

	if (lh_compress_settings_read(object, "compress", &settings, &err))
		fail_msg("%s", err.message);
	return settings;
}

static void test_every_parameter_of_a_strategy_reaches_its_place(void **state)
{
	struct lh_strategy_settings s = read_strategy(
		"{\"kind\": \"any\", \"matchmaking_ns\": 7, \"delayed_update\": true,"
		" \"balance\": \"fixed\", \"streams\": 64, \"bucket_bytes\": 25000000,"
		" \"overlap\": true, \"order\": \"shortest\", \"shards\": \"bandwidth\","
		" \"segment_bytes\": 4096, \"dimensions\": [2, 3, 4], \"levels\": [\"site\"],"
		" \"collective\": \"tree\", \"period\": 50, \"outer_lr\": 0.5,"
		" \"outer_momentum\": 0, \"fragments\": 4, \"fragment_delay\": 5,"
		" \"fragment_mix\": 1, \"graph\": \"complete\", \"exchange\": \"averaging\","
		" \"asynchronous\": true, \"min_group\": 3, \"rounds\": 6,"
		" \"timeout_ns\": 8000000, \"heartbeat_ns\": 9000000}");

	(void)state;
	assert_true(s.matchmaking_ns == 7 && s.delayed_update);
	assert_int_equal(s.balance, LH_BALANCE_FIXED);
	assert_int_equal(s.streams, 64);
	assert_true(s.bucket_bytes == 25000000 && s.overlap);
	assert_int_equal(s.order, LH_ORDER_SHORTEST);
	assert_int_equal(s.shards, LH_SHARDS_BANDWIDTH);
	assert_true(s.segment_bytes == 4096);
	assert_int_equal(s.n_dimensions, 3);
	assert_true(s.dimensions[0] == 2 && s.dimensions[1] == 3 && s.dimensions[2] == 4);
	assert_true(s.has_site_level && !s.has_node_level);
	assert_string_equal(s.collective, "tree");
	assert_int_equal(s.period, 50);
	assert_near(s.outer_lr, 0.5, 0);
	assert_near(s.outer_momentum, 0, 0);
	assert_true(s.fragments == 4 && s.fragment_delay == 5);
	assert_near(s.fragment_mix, 1, 0);
	assert_int_equal(s.graph, LH_GRAPH_COMPLETE);
	assert_int_equal(s.exchange, LH_EXCHANGE_AVERAGING);
	assert_true(s.asynchronous);
	assert_true(s.min_group == 3 && s.rounds == 6);
	assert_true(s.timeout_ns == 8000000 && s.heartbeat_ns == 9000000);
}

static void test_every_parameter_of_a_compressor_reaches_its_place(void **state)
{
	struct lh_compress_settings c = read_compress(
		"{\"kind\": \"any\", \"density_ratio\": 0.01, \"feedback\": false,"
		" \"momentum\": 0.5, \"nesterov\": true, \"clip_norm\": 2, \"warm_up\": 3,"
		" \"rank\": 64}");

	(void)state;
	assert_string_equal(c.kind, "any");
	assert_near(c.density_ratio, 0.01, 0);
	assert_true(!c.feedback && c.nesterov);
	assert_near(c.momentum, 0.5, 0);
	assert_near(c.clip_norm, 2, 0);
	assert_true(c.warm_up_epochs == 3 && c.rank == 64);
}

static void test_what_is_absent_has_its_default(void **state)
{
	struct lh_strategy_settings s = read_strategy("{}");
	struct lh_compress_settings c = read_compress("{\"kind\": \"none\"}");

	(void)state;
	assert_true(s.matchmaking_ns == 0 && !s.delayed_update && !s.overlap && !s.asynchronous);
	assert_int_equal(s.balance, LH_BALANCE_DYNAMIC);
	assert_true(s.streams == 1 && s.bucket_bytes == 0 && s.segment_bytes == 1048576);
	assert_true(s.n_dimensions == 0 && !s.has_node_level && !s.has_site_level);
	assert_string_equal(s.collective, "ring");
	assert_true(s.period == 1 && s.fragments == 1 && s.min_group == 2 && s.rounds == 1);
	assert_true(s.timeout_ns == 60000000000 && s.heartbeat_ns == 1000000000);
	assert_near(c.density_ratio, 0.001, 0);
	assert_true(c.feedback && !c.nesterov && c.rank == 2);
	assert_near(c.clip_norm, 0, 0);
}

static void test_wrong_parameters_of_a_strategy_are_refused_by_key(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"7", "strategy: expected a mapping"},
		{"{\"moths\": 1}", "strategy.moths: unknown key"},
		{"{\"bucket\": 1}", "strategy.bucket: unknown key"},
		{"{\"density_ratio\": 0.1}", "strategy.density_ratio: unknown key"},
		{"{\"matchmaking_ns\": -1}", "matchmaking_ns: -1; expected 0 to 3600000000000"},
		{"{\"matchmaking_ns\": \"5 s\"}", "matchmaking_ns: not an integer"},
		{"{\"matchmaking_ns\": 1.5}", "matchmaking_ns: not an integer"},
		{"{\"delayed_update\": 1}", "delayed_update: expected true or false"},
		{"{\"delayed_update\": null}", "delayed_update: expected true or false"},
		{"{\"balance\": \"even\"}",
		 "balance: \"even\"; expected one of \"dynamic\", \"fixed\""},
		{"{\"balance\": 1}", "balance: not a string; expected one of \"dynamic\""},
		{"{\"streams\": 0}", "streams: 0; expected 1 to 64"},
		{"{\"streams\": 65}", "streams: 65; expected 1 to 64"},
		{"{\"streams\": 4294967297}", "streams: 4294967297; expected 1 to 64"},
		{"{\"bucket_bytes\": 0}", "bucket_bytes: 0; expected 4 to 1000000000000"},
		{"{\"segment_bytes\": 3}", "segment_bytes: 3; expected 4 to"},
		{"{\"segment_bytes\": -9223372036854775808}",
		 "segment_bytes: -9.22337203685478e+18"},
		{"{\"dimensions\": 4}", "dimensions: expected an array of 1 to 8 numbers"},
		{"{\"dimensions\": []}", "dimensions: expected an array of 1 to 8 numbers"},
		{"{\"dimensions\": [2,2,2,2,2,2,2,2,2]}",
		 "dimensions: expected an array of 1 to 8 numbers"},
		{"{\"dimensions\": [2, 1]}", "dimensions: 1; expected 2 to 1000000"},
		{"{\"dimensions\": [2, \"2\"]}", "dimensions: not an integer"},
		{"{\"dimensions\": [[2], 2]}", "dimensions: not an integer"},
		{"{\"levels\": []}", "levels: expected an array of levels"},
		{"{\"levels\": \"node\"}", "levels: expected an array of levels"},
		{"{\"levels\": [\"rack\"]}",
		 "levels: \"rack\"; expected one of \"node\", \"site\""},
		{"{\"levels\": [\"site\", \"site\"]}", "levels: a level stands there twice"},
		{"{\"collective\": \"\"}", "collective: expected 1 to 31 bytes"},
		{"{\"collective\": \"12345678901234567890123456789012\"}",
		 "collective: expected 1 to 31 bytes"},
		{"{\"collective\": []}", "collective: not a string"},
		{"{\"period\": 0}", "period: 0; expected 1 to 1000000"},
		{"{\"outer_lr\": 0}", "outer_lr: 0; expected more than 0 to 1000"},
		{"{\"outer_lr\": \"high\"}", "outer_lr: not a number"},
		{"{\"outer_momentum\": 1}", "outer_momentum: 1; expected 0 to less than 1"},
		{"{\"fragment_mix\": 1.01}", "fragment_mix: 1.01; expected 0 to 1"},
		{"{\"graph\": \"star\"}",
		 "graph: \"star\"; expected one of \"ring\", \"exponential\", \"complete\""},
		{"{\"exchange\": \"mail\"}", "exchange: \"mail\"; expected one of \"asgd\""},
		{"{\"min_group\": 0}", "min_group: 0; expected 1 to"},
		{"{\"timeout_ns\": 0}", "timeout_ns: 0; expected 1000000 to"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_json json_t *object = parsed(cases[i].text);
		struct lh_strategy_settings settings = {.streams = 77};
		struct lh_error err = {0};

		assert_int_equal(lh_strategy_settings_read(object, "strategy", &settings, &err),
				 LH_EINPUT);
		if (!strstr(err.message, cases[i].message))
			fail_msg("%s: \"%s\", not \"%s\"", cases[i].text, err.message,
				 cases[i].message);
		assert_int_equal(settings.streams, 77);
	}
}

static void test_wrong_parameters_of_a_compressor_are_refused_by_key(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"\"fp16\"", "compress: expected a mapping"},
		{"{}", "compress.kind: missing"},
		{"{\"kind\": 5}", "compress.kind: not a string"},
		{"{\"kind\": \"topk\", \"density\": 0.1}", "compress.density: unknown key"},
		{"{\"kind\": \"topk\", \"density_ratio\": 0}",
		 "compress.density_ratio: 0; expected more than 0 to 1"},
		{"{\"kind\": \"topk\", \"density_ratio\": 1.1}", "density_ratio: 1.1; expected"},
		{"{\"kind\": \"topk\", \"feedback\": \"no\"}", "feedback: expected true or false"},
		{"{\"kind\": \"dgc\", \"momentum\": -0.1}", "momentum: -0.1; expected 0 to"},
		{"{\"kind\": \"dgc\", \"clip_norm\": 0}", "clip_norm: 0; expected more than 0 to"},
		{"{\"kind\": \"dgc\", \"warm_up\": -1}", "warm_up: -1; expected 0"},
		{"{\"kind\": \"powersgd\", \"rank\": 65}", "rank: 65; expected 1 to 64"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_json json_t *object = parsed(cases[i].text);
		struct lh_compress_settings settings;
		struct lh_error err = {0};

		assert_int_equal(lh_compress_settings_read(object, "compress", &settings, &err),
				 LH_EINPUT);
		if (!strstr(err.message, cases[i].message))
			fail_msg("%s: \"%s\", not \"%s\"", cases[i].text, err.message,
				 cases[i].message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_parameter_of_a_strategy_reaches_its_place),
		cmocka_unit_test(test_every_parameter_of_a_compressor_reaches_its_place),
		cmocka_unit_test(test_what_is_absent_has_its_default),
		cmocka_unit_test(test_wrong_parameters_of_a_strategy_are_refused_by_key),
		cmocka_unit_test(test_wrong_parameters_of_a_compressor_are_refused_by_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
