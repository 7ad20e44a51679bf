/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading scenarios: defaults, changes from the command line, catalogs and suites, what is
 * wrong and where, egress classes and prices, and lists that must agree with the trainer's.
 */
#include "scenarios/scenario.h"

#include <dirent.h>

#include "tests/unit/scenario_fixture.h"
#include "trainer/compress/compress.h"
#include "trainer/strategy/strategy.h"

static const char *catalog_dir(void)
{
	const char *dir = getenv("LONGHAUL_DATADIR");

	assert_non_null(dir); /* tests/Makefile.inc sets it */
	return dir;
}

static void test_what_is_absent_has_its_default(void **state)
{
	struct lh_scenario *sc = fixture_read_ok(small_scenario, NULL, 0);
	const struct lh_path_spec *path = &sc->network.paths[0];

	(void)state;
	assert_int_equal(sc->run.clock, LH_CLOCK_VIRTUAL);
	assert_int_equal(sc->run.backend, LH_BACKEND_AUTO);
	assert_int_equal(sc->run.segments, LH_SEGMENTS_MTU);
	assert_int_equal(sc->run.probe, LH_PROBE_SHORT);
	assert_int_equal(sc->run.seed, 1);
	assert_true(sc->run.guest_memory_bytes == INT64_C(8) << 30);
	assert_int_equal(sc->workload.mode, LH_MODE_REPLAY);
	assert_int_equal(sc->workload.epochs, 4);
	assert_int_equal(sc->workload.micro_batch, -1);
	assert_string_equal(sc->workload.compress, "fp16");
	assert_true(sc->workload.strategy.matchmaking_ns == 5000000000);
	assert_true(sc->workload.strategy.delayed_update);
	assert_int_equal(sc->network.mtu_bytes, 1500);
	assert_int_equal(sc->network.stream_window_bytes, -1);
	assert_int_equal(path->queue.size.unit, LH_QUEUE_TIME);
	assert_int_equal(path->queue.size.amount, 200000000);
	assert_true(path->loss_ratio < 0 && path->jitter_ns < 0);
	assert_int_equal(path->delay_ns, -1);
	assert_int_equal(path->stream_window_bytes, -1);
	assert_null(path->source);
	assert_string_equal(sc->machines[0].tcp.congestion_control, "cubic");
	assert_int_equal(sc->machines[0].tcp.rmem_max_bytes, 6 << 20);
	assert_int_equal(sc->machines[0].tcp.wmem_max_bytes, 16 << 20);
	assert_int_equal(sc->machines[0].gpus, 1);
	assert_int_equal(sc->node_specs[1].count, 1);
	assert_int_equal(sc->pricing.vm, LH_VM_SPOT);
	assert_null(sc->data.store);
	assert_near(sc->published.throughput_sps, -1, 0);
	assert_near(sc->nodes[0].profile->paper_samples_per_s, -1, 0);
	assert_int_equal(sc->nodes[2].micro_batch, 16);
	assert_ptr_equal(sc->model, &sc->models[0]);
	lh_scenario_free(sc);
}

static void test_defaults_stand_in_the_resolved_document(void **state)
{
	struct lh_scenario *sc = fixture_read_ok(small_scenario, NULL, 0);
	json_t *run = json_object_get(sc->resolved, "run");

	(void)state;
	assert_string_equal(json_string_value(json_object_get(run, "clock")), "virtual");
	assert_int_equal(json_integer_value(json_object_get(run, "seed")), 1);
	assert_string_equal(json_string_value(json_object_get(run, "guest_memory")), "8 GiB");
	lh_scenario_set_seed(sc, 7);
	assert_int_equal(sc->run.seed, 7);
	assert_int_equal(json_integer_value(json_object_get(run, "seed")), 7);
	lh_scenario_free(sc);
}

static void test_changes_reach_keys_items_and_catalogs(void **state)
{
	static const struct lh_override o[] = {
		{"workload.epochs", "2"},
		{"workload.epochs", "3"},
		{"nodes.0.count", "4"},
		{"network.paths.1.rtt", "0.7 ms"},
		{"run.clock", "real"},
		{"workload.strategy", "{kind: butterfly, "
				      "delayed_update: false}"},
		{"machines.box.nic.up", "1 Gbit/s"},
		{"models.tiny.parameters", "5"},
		{"profiles.gpu.models.tiny.samples_per_s", "12.5"},
	};
	struct lh_scenario *sc = fixture_read_ok(small_scenario, o, N_ELEMENTS(o));

	(void)state;
	assert_int_equal(sc->workload.epochs, 3);
	assert_int_equal(sc->n_nodes, 5);
	assert_int_equal(sc->network.paths[1].rtt_ns, 700000);
	assert_int_equal(sc->run.clock, LH_CLOCK_REAL);
	assert_false(sc->workload.strategy.delayed_update);
	assert_int_equal(sc->nodes[0].machine->nic.up_bps, 1000000000);
	assert_int_equal(sc->model->parameters, 5);
	assert_near(sc->nodes[0].profile->samples_per_s, 12.5, 0);
	lh_scenario_free(sc);
}

static void test_changes_reach_into_files_of_the_catalog(void **state)
{
	static const struct lh_override o[] = {
		{"network.paths.0.rtt", "123 ms"},
		{"pricing.catalog.vm.0.spot", "9 USD/h"},
		{"machines.gc-n1-standard-8-t4.nic.up", "1 Gbit/s"},
		{"models.convnext-large.parameters", "5"},
	};
	struct lh_scenario *sc = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	(void)state;
	if (lh_scenario_read("A-2-cv", catalog_dir(), o, N_ELEMENTS(o), &sc, &diag, &err) < 0)
		fail_msg("%s: %s", err.message, diag.n_messages ? diag.messages[0] : "");
	assert_string_equal(sc->name, "A-2-cv");
	assert_int_equal(sc->network.paths[0].rtt_ns, 123000000);
	assert_int_equal(sc->pricing.catalog.vm[0].spot_usd_micro_per_h, 9000000);
	assert_int_equal(sc->nodes[0].machine->nic.up_bps, 1000000000);
	assert_int_equal(sc->model->parameters, 5);
	lh_scenario_free(sc);
}

static void test_changes_that_lead_nowhere_are_refused(void **state)
{
	static const struct {
		struct lh_override o;
		const char *message;
	} cases[] = {
		{{"nodes.9.count", "1"}, "--set:1:1: nodes.9.count: no item '9' there"},
		{{"nodes.x.count", "1"}, "--set:1:1: nodes.x.count: no item 'x' there"},
		{{"nodes.0", "1"}, "--set:1:1: nodes.0: expected the path of a key"},
		{{"run.", "1"}, "--set:1:1: run.: expected the path of a key"},
		{{".seed", "1"}, "--set:1:1: .seed: no item '' there"},
		{{"name.x", "1"}, "--set:1:1: name.x: goes through a single value"},
		{{"run.seed", "[1"}, "--set run.seed:2:1: not YAML"},
		{{"run.seed", ""}, "--set run.seed:1:1: the file is empty"},
		{{"run.sed", "1"},
		 "--set run.sed:1:1: run.sed: unknown key in run; did you mean "
		 "'seed'?"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_scenario *sc = NULL;
		struct lh_diag diag = {0};
		struct lh_error err = {0};

		assert_int_equal(fixture_read(small_scenario, NULL, &cases[i].o, 1, &sc, &diag,
					      &err),
				 LH_EINPUT);
		assert_true(diag.n_messages > 0);
		if (!strstr(diag.messages[0], cases[i].message))
			fail_msg("%s=%s: '%s', not '%s'", cases[i].o.path, cases[i].o.value,
				 diag.messages[0], cases[i].message);
		lh_diag_done(&diag);
	}
}

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
		 "workload.compress: 'zip' is unknown; expected one of "
		 "fp16, none"},
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

/* Reads back what was resolved: the same document, from memory and from its text. */
static void assert_comes_back(struct lh_scenario *sc)
{
	lh_cleanup_free char *text = json_dumps(sc->resolved, JSON_REAL_PRECISION(15));
	lh_cleanup_json json_t *reread = json_loads(text, 0, NULL);
	struct lh_scenario *again = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	assert_non_null(reread);
	if (lh_scenario_from_json("run.json", reread, &again, &diag, &err) < 0)
		fail_msg("%s: %s: %s", sc->name, err.message,
			 diag.n_messages ? diag.messages[0] : "");
	if (!json_equal(again->resolved, sc->resolved))
		fail_msg("%s: another document came back", sc->name);
	assert_int_equal(again->n_nodes, sc->n_nodes);
	for (size_t i = 0; i < sc->n_nodes; i++)
		assert_string_equal(again->nodes[i].name, sc->nodes[i].name);
	lh_scenario_free(again);
}

static void test_names_that_look_like_numbers_come_back(void **state)
{
	static const char *const names[] = {"1.10", "007",   "1e3",  "12345678901234567890123",
					    "true", "1_000", "0x10", "null",
					    "~",    "'1'"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		const struct lh_override o[] = {{"about", names[i]},
						{"network.source", names[i]},
						{"pricing.catalog.date", names[i]}};
		struct lh_scenario *sc, *again = NULL;
		struct lh_diag diag = {0};
		struct lh_error err = {0};

		sc = fixture_read_ok(small_scenario, o, N_ELEMENTS(o));
		assert_comes_back(sc);
		assert_int_equal(
			lh_scenario_from_json("run.json", sc->resolved, &again, &diag, &err), 0);
		if (strcmp(again->about, sc->about) != 0)
			fail_msg("%s came back as %s", sc->about, again->about);
		lh_scenario_free(again);
		lh_scenario_free(sc);
	}
}

/* A site, a machine and a model that are all called 1.10. */
static void test_a_site_whose_name_is_a_number_is_found_again(void **state)
{
	lh_cleanup_free char *text = strdup(small_scenario);
	static const char *const words[] = {"east", "box", "tiny"};
	struct lh_scenario *sc;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(words); i++) {
		char *at;

		while ((at = strstr(text, words[i]))) {
			char *grown = lh_strf("%.*s1.10%s", (int)(at - text), text,
					      at + strlen(words[i]));

			free(text);
			text = grown;
		}
	}
	sc = fixture_read_ok(text, NULL, 0);
	assert_string_equal(sc->nodes[0].name, "1.10/0");
	assert_comes_back(sc);
	lh_scenario_free(sc);
}

static void read_and_return(const char *name)
{
	struct lh_scenario *sc = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	if (lh_scenario_read(name, catalog_dir(), NULL, 0, &sc, &diag, &err) < 0)
		fail_msg("%s: %s: %s", name, err.message, diag.n_messages ? diag.messages[0] : "");
	assert_comes_back(sc);
	lh_scenario_free(sc);
}

/* Calls each for the *.yaml in a folder of the catalog; returns how many there were. */
static int for_each_yaml(const char *folder, void (*each)(const char *path, const char *name))
{
	lh_cleanup_free char *base = lh_path_join(catalog_dir(), folder);
	lh_cleanup_closedir DIR *dir = opendir(base);
	struct dirent *e;
	int n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		size_t size = strlen(e->d_name);
		lh_cleanup_free char *path = lh_path_join(base, e->d_name);
		lh_cleanup_free char *name = NULL;

		if (size <= 5 || strcmp(e->d_name + size - 5, ".yaml") != 0)
			continue;
		name = strndup(e->d_name, size - 5);
		each(path, name);
		n++;
	}
	return n;
}

static void each_scenario(const char *path, const char *name)
{
	(void)name;
	read_and_return(path);
}

static void each_suite(const char *path, const char *name)
{
	struct lh_suite *suite = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	(void)path;
	if (lh_suite_read(name, catalog_dir(), &suite, &diag, &err) < 0)
		fail_msg("%s: %s: %s", name, err.message, diag.n_messages ? diag.messages[0] : "");
	assert_true(suite->n_experiments > 0);
	for (size_t i = 0; i < suite->n_experiments; i++) {
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(suite->experiments[i].id, suite->experiments[k].id);
		read_and_return(suite->experiments[i].id);
	}
	lh_suite_free(suite);
}

static void test_every_scenario_that_ships_reads_and_comes_back(void **state)
{
	(void)state;
	assert_true(for_each_yaml(".", each_scenario) > 0);
}

static void test_every_experiment_that_ships_reads_and_comes_back(void **state)
{
	(void)state;
	assert_true(for_each_yaml("experiments", each_suite) > 0);
}

static void test_an_experiment_carries_its_published_figures(void **state)
{
	struct lh_scenario *sc = NULL;
	struct lh_suite *suite = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	size_t i = 0;

	(void)state;
	assert_int_equal(lh_scenario_read("A-8-cv", catalog_dir(), NULL, 0, &sc, &diag, &err), 0);
	assert_int_equal(lh_suite_read("clouds-2023", catalog_dir(), &suite, &diag, &err), 0);
	while (i < suite->n_experiments && strcmp(suite->experiments[i].id, "A-8-cv") != 0)
		i++;
	assert_true(i < suite->n_experiments);
	assert_true(sc->published.throughput_sps > 0);
	assert_near(suite->experiments[i].published.throughput_sps, sc->published.throughput_sps,
		    0);
	assert_int_equal(sc->n_nodes, 8);
	lh_suite_free(suite);
	lh_scenario_free(sc);
	assert_int_equal(lh_suite_read("none", catalog_dir(), &suite, &diag, &err), LH_EUSAGE);
	assert_int_equal(lh_suite_read("../experiments/clouds-2023", catalog_dir(), &suite, &diag,
				       &err),
			 LH_EUSAGE);
}

static struct lh_site site(const char *name, const char *provider, int continent,
			   const char *region, const char *zone)
{
	return (struct lh_site){.name = (char *)name,
				.provider = (char *)provider,
				.continent = continent,
				.region = (char *)region,
				.zone = (char *)zone};
}

static void test_egress_classes_follow_the_rule(void **state)
{
	const struct {
		struct lh_site from;
		struct lh_site to;
		enum lh_egress_class class;
	} cases[] = {
		{site("a", "g", LH_EUROPE, "e1", "e1-a"), site("a", "g", LH_EUROPE, "e1", "e1-a"),
		 LH_EGRESS_SAME_ZONE},
		{site("a", "g", LH_EUROPE, NULL, NULL), site("a", "g", LH_EUROPE, NULL, NULL),
		 LH_EGRESS_SAME_ZONE},
		{site("a", "g", LH_EUROPE, "e1", "z"), site("b", "g", LH_EUROPE, "e1", "z"),
		 LH_EGRESS_SAME_ZONE},
		{site("a", "g", LH_EUROPE, "e1", "z"), site("b", "g", LH_EUROPE, "e1", "y"),
		 LH_EGRESS_INTER_ZONE},
		{site("a", "g", LH_EUROPE, "e1", NULL), site("b", "g", LH_EUROPE, "e1", NULL),
		 LH_EGRESS_INTER_ZONE},
		{site("a", "g", LH_EUROPE, "e1", NULL), site("b", "g", LH_EUROPE, "e2", NULL),
		 LH_EGRESS_INTER_REGION},
		{site("a", "g", LH_EUROPE, NULL, NULL), site("b", "g", LH_EUROPE, NULL, NULL),
		 LH_EGRESS_INTER_REGION},
		{site("a", "g", LH_EUROPE, "e1", "z"), site("b", "h", LH_EUROPE, "e1", "z"),
		 LH_EGRESS_INTER_REGION},
		{site("a", "g", LH_EUROPE, "r", "z"), site("b", "g", LH_ASIA, "r", "z"),
		 LH_EGRESS_INTER_CONTINENT},
		{site("a", "g", LH_EUROPE, "r", "z"), site("b", "g", LH_OCEANIA, "r", "z"),
		 LH_EGRESS_OCEANIA},
		{site("a", "g", LH_OCEANIA, "r", "z"), site("b", "h", LH_AFRICA, "r", "z"),
		 LH_EGRESS_OCEANIA},
		{site("a", "g", LH_OCEANIA, "r1", "z"), site("b", "g", LH_OCEANIA, "r2", "z"),
		 LH_EGRESS_INTER_REGION},
		{site("a", "on-premise", LH_EUROPE, NULL, NULL),
		 site("b", "g", LH_OCEANIA, NULL, NULL), LH_EGRESS_ON_PREMISE},
		{site("a", "on-premise", LH_EUROPE, NULL, NULL),
		 site("a", "on-premise", LH_EUROPE, NULL, NULL), LH_EGRESS_ON_PREMISE},
		{site("a", "g", LH_EUROPE, NULL, NULL),
		 site("b", "on-premise", LH_EUROPE, NULL, NULL), LH_EGRESS_INTER_REGION},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		if (lh_egress_class_of(&cases[i].from, &cases[i].to) != cases[i].class)
			fail_msg("case %zu: %s, not %s", i,
				 lh_egress_class_name(
					 lh_egress_class_of(&cases[i].from, &cases[i].to)),
				 lh_egress_class_name(cases[i].class));
}

/* Prices of a sender g (one number a class, so that each can be told) and of no other. */
static struct lh_egress_prices g_prices = {
	.name = (char *)"g",
	.same_zone = {0, 1000000000},
	.inter_zone = {10, 1000000000},
	.inter_region
		.by_continent = {[LH_EUROPE] = {20, 1000000000}, [LH_OCEANIA] = {80, 1073741824}},
	.inter_continent = {90, 1000000000},
	.oceania = {150, 1000000000},
};

static void test_egress_prices_are_the_senders(void **state)
{
	const struct lh_prices prices = {.name = (char *)"p",
					 .source = (char *)"catalog",
					 .egress = &g_prices,
					 .n_egress = 1};
	const struct lh_site home = site("home", "g", LH_EUROPE, "e1", "z");
	const struct {
		struct lh_site from;
		struct lh_site to;
		int64_t usd_micro; /* -1: none */
		int64_t per_bytes;
	} cases[] = {
		{home, home, 0, 1000000000},
		{home, site("b", "g", LH_EUROPE, "e1", "y"), 10, 1000000000},
		{home, site("b", "g", LH_EUROPE, "e2", "y"), 20, 1000000000},
		{home, site("b", "h", LH_EUROPE, "e1", "z"), 20, 1000000000},
		{home, site("b", "g", LH_ASIA, "e1", "z"), 90, 1000000000},
		{home, site("b", "g", LH_OCEANIA, "e1", "z"), 150, 1000000000},
		{site("a", "g", LH_OCEANIA, "o1", NULL), site("b", "g", LH_OCEANIA, "o2", NULL), 80,
		 1073741824},
		{site("a", "g", LH_ASIA, "a1", NULL), site("b", "g", LH_ASIA, "a2", NULL), -1, 0},
		{site("b", "h", LH_EUROPE, "e1", "z"), home, -1, 0},
		{site("b", "on-premise", LH_EUROPE, NULL, NULL), home, 0, 1000000000},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_byte_price price = {0, 0};
		struct lh_error err = {0};
		const char *source = NULL;
		int r = lh_egress_price_find(&prices, &cases[i].from, &cases[i].to, &price, &source,
					     &err);

		assert_int_equal(r, cases[i].usd_micro < 0 ? LH_EINPUT : 0);
		assert_true((err.message[0] != '\0') == (r < 0));
		if (r < 0)
			continue;
		assert_int_equal(price.usd_micro, cases[i].usd_micro);
		assert_int_equal(price.per_bytes, cases[i].per_bytes);
		assert_non_null(source);
	}
}

static void test_an_on_premise_sender_may_have_a_price(void **state)
{
	struct lh_egress_prices own = {.name = (char *)"on-premise",
				       .inter_continent = {7, 1000000000}};
	const struct lh_prices prices = {.name = (char *)"p", .egress = &own, .n_egress = 1};
	const struct lh_site home = site("home", "on-premise", LH_EUROPE, NULL, NULL);
	const struct lh_site away = site("away", "g", LH_ASIA, NULL, NULL);
	struct lh_byte_price price = {0, 0};
	struct lh_error err = {0};
	const char *source = NULL;

	(void)state;
	assert_int_equal(lh_egress_price_find(&prices, &home, &away, &price, &source, &err), 0);
	assert_int_equal(price.usd_micro, 7);
}

static void test_the_vm_price_of_a_site_goes_before_that_of_all(void **state)
{
	struct lh_vm_price vm[] = {
		{.machine = (char *)"m", .spot_usd_micro_per_h = 1},
		{.machine = (char *)"m", .site = (char *)"eu", .spot_usd_micro_per_h = 2},
		{.machine = (char *)"n", .site = (char *)"us", .spot_usd_micro_per_h = 3},
	};
	const struct lh_prices prices = {.vm = vm, .n_vm = N_ELEMENTS(vm)};

	(void)state;
	assert_ptr_equal(lh_vm_price_find(&prices, "m", "eu"), &vm[1]);
	assert_ptr_equal(lh_vm_price_find(&prices, "m", "us"), &vm[0]);
	assert_ptr_equal(lh_vm_price_find(&prices, "n", "us"), &vm[2]);
	assert_null(lh_vm_price_find(&prices, "n", "eu"));
	assert_null(lh_vm_price_find(&prices, "o", "eu"));
	assert_null(lh_storage_price_find(&prices, "s3"));
}

/* The enum of a key of the workload in the schema. */
static json_t *words_of(json_t *schema, const char *key)
{
	json_t *forms = json_object_get(
		json_object_get(json_object_get(schema, "properties"), "workload"), "anyOf");
	json_t *workload = json_object_get(json_array_get(forms, 0), "properties");
	json_t *field = json_object_get(workload, key);

	if (!field)
		field = json_object_get(
			json_object_get(json_object_get(workload, "strategy"), "properties"), key);
	return json_object_get(field, "enum");
}

static void test_the_schema_knows_the_trainers_strategies_and_compressors(void **state)
{
	lh_cleanup_json json_t *schema = lh_scenario_schema();
	json_t *strategies = words_of(schema, "kind");
	json_t *compressors = words_of(schema, "compress");
	size_t n = 0;

	(void)state;
	for (; lh_strategies[n]; n++)
		assert_string_equal(json_string_value(json_array_get(strategies, n)),
				    lh_strategies[n]->name);
	assert_int_equal(json_array_size(strategies), n);
	for (n = 0; lh_compressors[n]; n++)
		assert_string_equal(json_string_value(json_array_get(compressors, n)),
				    lh_compressors[n]->name);
	assert_int_equal(json_array_size(compressors), n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_absent_has_its_default),
		cmocka_unit_test(test_defaults_stand_in_the_resolved_document),
		cmocka_unit_test(test_changes_reach_keys_items_and_catalogs),
		cmocka_unit_test(test_changes_reach_into_files_of_the_catalog),
		cmocka_unit_test(test_changes_that_lead_nowhere_are_refused),
		cmocka_unit_test(test_every_type_of_field_refuses_what_it_is_not),
		cmocka_unit_test(test_all_faults_are_told_at_once_in_their_places),
		cmocka_unit_test(test_paths_have_one_form_and_one_meaning),
		cmocka_unit_test(test_a_path_from_a_to_b_and_back_may_differ),
		cmocka_unit_test(test_a_missing_name_is_told_with_the_nearest),
		cmocka_unit_test(test_a_missing_catalog_file_is_told_with_the_nearest),
		cmocka_unit_test(test_names_that_look_like_numbers_come_back),
		cmocka_unit_test(test_a_site_whose_name_is_a_number_is_found_again),
		cmocka_unit_test(test_every_scenario_that_ships_reads_and_comes_back),
		cmocka_unit_test(test_every_experiment_that_ships_reads_and_comes_back),
		cmocka_unit_test(test_an_experiment_carries_its_published_figures),
		cmocka_unit_test(test_egress_classes_follow_the_rule),
		cmocka_unit_test(test_egress_prices_are_the_senders),
		cmocka_unit_test(test_an_on_premise_sender_may_have_a_price),
		cmocka_unit_test(test_the_vm_price_of_a_site_goes_before_that_of_all),
		cmocka_unit_test(test_the_schema_knows_the_trainers_strategies_and_compressors),
	};

	return cmocka_run_group_tests_name("scenario", tests, NULL, NULL);
}
