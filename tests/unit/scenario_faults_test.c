/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong in a scenario, where, and what would be right. */
#include "tests/unit/scenario_fixture.h"

/* Reads text and gives all messages as one text, owned by the caller. */
static char *messages_of(const char *text, const struct lh_override *o, size_t n)
{
	struct lh_scenario *sc = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	char *all = strdup("");

	if (fixture_read(text, NULL, o, n, &sc, &diag, &err) == 0)
		fail_msg("accepted: %s=%s", n ? o->path : text, n ? o->value : "");
	for (size_t i = 0; i < diag.n_messages; i++) {
		char *grown = lh_strf("%s%s\n", all, diag.messages[i]);

		free(all);
		all = grown;
	}
	lh_diag_done(&diag);
	return all;
}

static void test_every_type_of_field_refuses_what_it_is_not(void **state)
{
	static const struct {
		struct lh_override o;
		const char *message;
	} cases[] = {
		{{"longhaul", "2"}, "longhaul: format version '2' is unknown"},
		{{"longhaul", "[1]"}, "longhaul: expected a single value"},
		{{"name", "''"}, "name: is empty"},
		{{"name", "a b"}, "name: 'a b' is not a name"},
		{{"name", "../x"}, "name: '../x' is not a name"},
		{{"name", "{a: b}"}, "name: expected a single value"},
		{{"workload.epochs", "two"}, "workload.epochs: 'two' is not a whole number"},
		{{"workload.epochs", "1.5"}, "workload.epochs: '1.5' is not a whole number"},
		{{"workload.epochs", "0"}, "workload.epochs: '0' is too small; at least 1"},
		{{"workload.epochs", "1000001"}, "workload.epochs: '1000001' is too large"},
		{{"workload.epochs", "99999999999999999999"}, "is not a whole number"},
		{{"nodes.0.count", "-1"}, "nodes[0].count: '-1' is too small"},
		{{"profiles.gpu.models.tiny.samples_per_s", "-1"}, "is not a number of at least 0"},
		{{"profiles.gpu.models.tiny.samples_per_s", "nan"},
		 "is not a number of at least 0"},
		{{"profiles.gpu.models.tiny.samples_per_s", "inf"},
		 "is not a number of at least 0"},
		{{"profiles.gpu.models.tiny.samples_per_s", "1 s"},
		 "is not a number of at least 0"},
		{{"profiles.gpu.models.tiny.samples_per_s", "0"},
		 "gives model 'tiny' 0 samples/s; expected 0.001 to 1e+08"},
		{{"workload.strategy.delayed_update", "yes"}, "'yes'; expected true or false"},
		{{"network.paths.0.rtt", "5"}, "network.paths[0].rtt: '5' is a bare number"},
		{{"network.paths.0.rtt", "5 Mbit/s"}, "unknown unit 'Mbit/s'"},
		{{"network.paths.0.rtt", "-5 ms"}, "'-5 ms' is negative"},
		{{"network.paths.0.rtt", "2 h"}, "network.paths[0].rtt: '2 h' is too large"},
		{{"network.paths.0.bandwidth", "7 bit/s"}, "is too small; at least 8 bit/s"},
		{{"network.paths.0.bandwidth", "1.1 Tbit/s"}, "'1.1 Tbit/s' is too large"},
		{{"network.mtu", "575 B"}, "network.mtu: '575 B' is too small; at least 576 B"},
		{{"network.mtu", "64 KiB"}, "network.mtu: '64 KiB' is too large"},
		{{"pricing.catalog.vm.0.spot", "1 USD"}, "pricing.catalog.vm[0].spot: '1 USD'"},
		{{"pricing.catalog.vm.0.spot", "-1 USD/h"}, "'-1 USD/h' is negative"},
		{{"pricing.catalog.egress.google.oceania", "1"}, "oceania: '1' is a bare number"},
		{{"pricing.catalog.egress.google.oceania", "1 USD/TB"}, "unknown unit 'USD/TB'"},
		{{"profiles.gpu.models.tiny.variation", "101 %"}, "is more than 1 (100 %)"},
		{{"profiles.gpu.models.tiny.variation", "x"}, "does not begin with a number"},
		{{"run.clock", "virtaul"},
		 "run.clock: 'virtaul' is unknown; expected one of virtual, real"},
		{{"workload.compress", "zip"},
		 "workload.compress.kind: 'zip' is unknown; expected one of "
		 "fp16, none, bf16"},
		{{"network.paths.0.between", "east"}, "between: expected a list"},
		{{"network.paths.0.between", "[[east], west]"}, "between: expected a word"},
		{{"workload", "5"}, "workload: expected a mapping"},
		{{"nodes", "5"}, "nodes: expected a list"},
		{{"nodes", "[5]"}, "nodes[0]: expected nodes, a mapping"},
		{{"nodes", "[]"}, "nodes: 0 nodes; expected 1 to "},
		{{"models", "[a]"}, "models: expected a mapping"},
		{{"machines.box.machine", "crate"}, "'crate' stands under the name 'box'"},
		{{"run.backend", "host"}, "run.backend: the host's kernel has no virtual clock"},
		{{"network.sites.a/b", "{provider: x, continent: asia}"}, "'a/b' is not a name"},
		{{"data", "{store: nowhere}"}, "has no storage 'nowhere'"},
		{{"pricing.catalog.egress", "{}"}, "no egress prices of provider 'google'"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *all = messages_of(small_scenario, &cases[i].o, 1);

		if (!strstr(all, cases[i].message))
			fail_msg("%s=%s: '%s', not '%s'", cases[i].o.path, cases[i].o.value, all,
				 cases[i].message);
	}
}

static void test_all_faults_are_told_at_once_in_their_places(void **state)
{
	static const struct lh_override o[] = {
		{"network.paths.0.rtt", "5"},
		{"workload.epochs", "0"},
		{"nodes.1.site", "wset"},
		{"run.colour", "red"},
	};
	lh_cleanup_free char *all = messages_of(small_scenario, o, N_ELEMENTS(o));

	(void)state;
	assert_non_null(strstr(all, "--set network.paths.0.rtt:1:1: network.paths[0].rtt: "));
	assert_non_null(strstr(all, "--set workload.epochs:1:1: workload.epochs: "));
	assert_non_null(strstr(all, "s.yaml:13:5: nodes[1]: no site 'wset' in network two-sites; "
				    "did you mean 'west'?"));
	assert_non_null(strstr(all, "--set run.colour:1:1: run.colour: unknown key in run"));
}

/* Replaces the first `from` in the small scenario; owned by the caller. */
static char *with(const char *from, const char *to)
{
	const char *at = strstr(small_scenario, from);

	assert_non_null(at);
	return lh_strf("%.*s%s%s", (int)(at - small_scenario), small_scenario, to,
		       at + strlen(from));
}

/* rows 12, 58 */
static void test_paths_have_one_form_and_one_meaning(void **state)
{
	static const char first[] = "{between: [east, west], rtt: 40 ms, bandwidth: 200 Mbit/s}";
	static const char form[] = "expected either `between: [A, B]` with `rtt`, or `from` and "
				   "`to` with `delay`";
	static const struct {
		const char *path;
		const char *message;
	} cases[] = {
		{"{between: [east, west, east], rtt: 1 ms, bandwidth: 1 Mbit/s}", form},
		{"{between: [east], rtt: 1 ms, bandwidth: 1 Mbit/s}", form},
		{"{between: [east, west], rtt: 1 ms, delay: 1 ms, bandwidth: 1 Mbit/s}", form},
		{"{between: [east, west], delay: 1 ms, bandwidth: 1 Mbit/s}", form},
		{"{from: east, to: west, rtt: 1 ms, bandwidth: 1 Mbit/s}", form},
		{"{from: east, delay: 1 ms, bandwidth: 1 Mbit/s}", form},
		{"{bandwidth: 1 Mbit/s}", form},
		{"{between: [east, west], rtt: 1 ms}", "network.paths[0].bandwidth: is missing"},
		{"{between: [east, wets], rtt: 1 ms, bandwidth: 1 Mbit/s}",
		 "no site 'wets' in network two-sites; did you mean 'west'?"},
		{"{from: east, to: west, delay: 1 ms, bandwidth: 1 Mbit/s}",
		 "network two-sites has no path from west to east, and both have nodes"},
		{"{between: [east, east], rtt: 1 ms, bandwidth: 1 Mbit/s}",
		 "network.paths[1]: the path from east to east stands already in line 9"},
		{"{between: [east, west], rtt: 1 ms, bandwidth: 1 Mbit/s, measured: [{from: east, "
		 "to: east, throughput: 1 Mbit/s}]}",
		 "measured[0] is from east to east, which is not this path"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *text = with(first, cases[i].path);
		lh_cleanup_free char *all = messages_of(text, NULL, 0);

		if (!strstr(all, cases[i].message))
			fail_msg("%s: '%s', not '%s'", cases[i].path, all, cases[i].message);
	}
}

/* row 32 */
static void test_a_path_from_a_to_b_and_back_may_differ(void **state)
{
	static const char first[] = "{between: [east, west], rtt: 40 ms, bandwidth: 200 Mbit/s}";
	lh_cleanup_free char *text =
		with(first, "{from: east, to: west, delay: 1 ms, bandwidth: 1 Mbit/s}\n"
			    "    - {from: west, to: east, delay: 2 ms, bandwidth: 2 Mbit/s}");
	struct lh_scenario *sc = fixture_read_ok(text, NULL, 0);

	(void)state;
	assert_int_equal(lh_path_spec_find(&sc->network, "east", "west")->delay_ns, 1000000);
	assert_int_equal(lh_path_spec_find(&sc->network, "west", "east")->delay_ns, 2000000);
	assert_null(lh_path_spec_find(&sc->network, "west", "west"));
	lh_scenario_free(sc);
}

static void test_a_missing_name_is_told_with_the_nearest(void **state)
{
	static const struct {
		const char *name; /* of the file or experiment */
		const char *message;
	} cases[] = {
		{"A-8-vc", "A-8-vc: no such file, and no experiment of that name; did you mean"},
		{"/none/s.yaml", "/none/s.yaml: no such file"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_scenario *sc = NULL;
		struct lh_diag diag = {0};
		struct lh_error err = {0};

		assert_int_equal(lh_scenario_read(cases[i].name, catalog_dir(), NULL, 0, &sc, &diag,
						  &err),
				 LH_EINPUT);
		assert_int_equal(diag.n_messages, 0);
		if (!strstr(err.message, cases[i].message))
			fail_msg("'%s', not '%s'", err.message, cases[i].message);
	}
}

static void test_a_missing_catalog_file_is_told_with_the_nearest(void **state)
{
	static const struct lh_override o[] = {
		{"network", "networks/google-cloud-2032.yaml"},
		{"nodes.0.machine", "lambda-a01"},
		{"workload.model", "convnext-lage"},
		{"pricing.catalog", "prices/2023-05.yaml"},
	};
	static const char *const near[] = {
		"did you mean 'networks/google-cloud-2023.yaml'?",
		"did you mean 'machines/lambda-a10.yaml'?",
		"did you mean 'models/convnext-large.yaml'?",
		"did you mean 'prices/2023-04.yaml'?",
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(o); i++) {
		struct lh_scenario *sc = NULL;
		struct lh_diag diag = {0};
		struct lh_error err = {0};

		assert_int_equal(fixture_read(small_scenario, catalog_dir(), &o[i], 1, &sc, &diag,
					      &err),
				 LH_EINPUT);
		assert_true(diag.n_messages > 0);
		if (!strstr(diag.messages[0], near[i]))
			fail_msg("'%s', not '%s'", diag.messages[0], near[i]);
		lh_diag_done(&diag);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_type_of_field_refuses_what_it_is_not),
		cmocka_unit_test(test_all_faults_are_told_at_once_in_their_places),
		cmocka_unit_test(test_paths_have_one_form_and_one_meaning),
		cmocka_unit_test(test_a_path_from_a_to_b_and_back_may_differ),
		cmocka_unit_test(test_a_missing_name_is_told_with_the_nearest),
		cmocka_unit_test(test_a_missing_catalog_file_is_told_with_the_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
