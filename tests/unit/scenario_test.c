/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading scenarios: defaults, changes from the command line, catalogs and suites, and lists that
 * must agree with the trainer's.
 */
#include "scenarios/scenario.h"

#include <dirent.h>

#include "tests/unit/scenario_fixture.h"
#include "trainer/compress/compress.h"
#include "trainer/compress/sparse.h"
#include "trainer/strategy/strategy.h"

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
	assert_string_equal(sc->workload.compress.kind, "fp16");
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
	struct lh_error err = {0};

	(void)state;
	assert_string_equal(json_string_value(json_object_get(run, "clock")), "virtual");
	assert_int_equal(json_integer_value(json_object_get(run, "seed")), 1);
	assert_string_equal(json_string_value(json_object_get(run, "guest_memory")), "8 GiB");
	assert_int_equal(lh_scenario_set_seed(sc, 7, &err), 0);
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
	return json_object_get(json_object_get(field, "anyOf")
				       ? json_array_get(json_object_get(field, "anyOf"), 0)
				       : field,
			       "enum");
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
	n = 0;
	for (size_t i = 0; lh_codecs[i]; i++)
		assert_string_equal(json_string_value(json_array_get(compressors, n++)),
				    lh_codecs[i]->name);
	for (size_t i = 0; lh_sparse_choices[i]; i++)
		assert_string_equal(json_string_value(json_array_get(compressors, n++)),
				    lh_sparse_choices[i]->name);
	assert_string_equal(json_string_value(json_array_get(compressors, n++)), "powersgd");
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
		cmocka_unit_test(test_names_that_look_like_numbers_come_back),
		cmocka_unit_test(test_a_site_whose_name_is_a_number_is_found_again),
		cmocka_unit_test(test_every_scenario_that_ships_reads_and_comes_back),
		cmocka_unit_test(test_every_experiment_that_ships_reads_and_comes_back),
		cmocka_unit_test(test_an_experiment_carries_its_published_figures),
		cmocka_unit_test(test_the_schema_knows_the_trainers_strategies_and_compressors),
	};

	return cmocka_run_group_tests_name("scenario", tests, NULL, NULL);
}
