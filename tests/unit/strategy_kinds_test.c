/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of all kinds of strategies and compressors, those too that the schema does not
 * list: what each has where it does not say, what is refused, and that the trainer reads it.
 */
#include "scenarios/strategy_kinds.h"

#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/yaml.h"
#include "scenarios/check_internal.h"
#include "scenarios/scenario.h"
#include "scenarios/strategy_json.h"
#include "tests/unit/test.h"
#include "trainer/strategy/settings.h"

enum { FIELDS_MAX = 40 };

static const struct lh_choice strategies[] = {
	{"butterfly", LH_KIND_BUTTERFLY},
	{"ring", LH_KIND_RING},
	{"halving-doubling", LH_KIND_HALVING_DOUBLING},
	{"tree", LH_KIND_TREE},
	{"torus", LH_KIND_TORUS},
	{"hierarchical", LH_KIND_HIERARCHICAL},
	{"sparse-allgather", LH_KIND_SPARSE_ALLGATHER},
	{"hierarchical-topk", LH_KIND_HIERARCHICAL_TOPK},
	{"local-sgd", LH_KIND_LOCAL_SGD},
	{"diloco", LH_KIND_DILOCO},
	{"d-psgd", LH_KIND_D_PSGD},
	{"ad-psgd", LH_KIND_AD_PSGD},
	{"parameter-server", LH_KIND_PARAMETER_SERVER},
	{"hivemind", LH_KIND_HIVEMIND},
	{"moshpit", LH_KIND_MOSHPIT},
	{NULL, 0},
};

static const struct lh_choice compressors[] = {
	{"fp16", LH_KIND_FP16},
	{"none", LH_KIND_NONE},
	{"bf16", LH_KIND_BF16},
	{"uniform8", LH_KIND_UNIFORM8},
	{"blockwise8", LH_KIND_BLOCKWISE8},
	{"onebit", LH_KIND_ONEBIT},
	{"topk", LH_KIND_TOPK},
	{"mstopk", LH_KIND_MSTOPK},
	{"random-k", LH_KIND_RANDOM_K},
	{"dgc", LH_KIND_DGC},
	{"powersgd", LH_KIND_POWERSGD},
	{NULL, 0},
};

/* A section as in the schema, with all kinds. */
struct whole_section {
	struct lh_field fields[FIELDS_MAX];
	struct lh_section section;
};

static void make_whole(const struct lh_section *section, const struct lh_choice *kinds,
		       struct whole_section *ret)
{
	size_t n = 0;

	while (section->fields[n].key)
		n++;
	assert_true(n < FIELDS_MAX);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->fields, section->fields, n * sizeof(ret->fields[0]));
	assert_string_equal(ret->fields[0].key, "kind");
	ret->fields[0].choices = kinds;
	ret->section = *section;
	ret->section.fields = ret->fields;
}

/* A workload of a number of ranks, read. */
struct reading {
	struct whole_section strategies;
	struct whole_section compressors;
	struct lh_scenario sc;
	struct lh_node_spec ranks;
	struct lh_diag diag;
	json_t *strategy; /* as in the job */
	json_t *compress;
};

static void read_workload(const char *strategy, const char *compress, int64_t n_ranks,
			  struct reading *r)
{
	lh_cleanup_free char *text =
		compress
			? lh_strf("workload:\n  strategy: %s\n  compress: %s\n", strategy, compress)
			: lh_strf("workload:\n  strategy: %s\n", strategy);
	struct lh_error err = {0};

	memset(r, 0, sizeof(*r));
	make_whole(&lh_strategy_section, strategies, &r->strategies);
	make_whole(&lh_compress_section, compressors, &r->compressors);
	const struct lh_field fields[] = {
		{.key = "strategy",
		 .type = LH_FIELD_SECTION,
		 .flags = LH_FIELD_REQUIRED,
		 .offset = offsetof(struct lh_workload, strategy),
		 .section = &r->strategies.section},
		{.key = "compress",
		 .type = LH_FIELD_SECTION,
		 .flags = LH_FIELD_OR_KIND,
		 .offset = offsetof(struct lh_workload, compress),
		 .section = &r->compressors.section,
		 .fallback = "fp16"},
		{.key = NULL},
	};
	const struct lh_section workload = {.name = "a workload",
					    .size = sizeof(struct lh_workload),
					    .name_offset = LH_NO_OFFSET,
					    .pos_offset = LH_NO_OFFSET,
					    .fields = fields};

	assert_int_equal(lh_yaml_parse("s.yaml", text, strlen(text), &r->sc.tree, &r->diag, &err),
			 0);
	r->ranks.count = n_ranks;
	r->sc.node_specs = &r->ranks;
	r->sc.n_node_specs = 1;
	lh_bind(&workload, lh_yaml_get(r->sc.tree, "workload"), "workload", &r->sc.workload,
		&r->diag);
	lh_strategy_check_among(&r->sc, &r->strategies.section, &r->compressors.section, &r->diag);
	r->strategy = lh_kind_to_json(&r->strategies.section, &r->sc.workload.strategy);
	r->compress = lh_kind_to_json(&r->compressors.section, &r->sc.workload.compress);
}

static void end_reading(struct reading *r)
{
	lh_unbind(&r->strategies.section, &r->sc.workload.strategy);
	lh_unbind(&r->compressors.section, &r->sc.workload.compress);
	lh_yaml_free(r->sc.tree);
	lh_diag_done(&r->diag);
	json_decref(r->strategy);
	json_decref(r->compress);
}

static void assert_json(const json_t *is, const char *expected)
{
	lh_cleanup_json json_t *other = json_loads(expected, 0, NULL);
	lh_cleanup_free char *text = json_dumps(is, JSON_REAL_PRECISION(15));

	assert_non_null(other);
	if (!json_equal(is, other))
		fail_msg("%s, not %s", text, expected);
}

/* Reads what must be right, compares it with what the job is to have, and gives it to the trainer's
 * reader. */
static void assert_reads(const char *strategy, const char *compress, int64_t n_ranks,
			 const char *job_strategy, const char *job_compress)
{
	struct lh_strategy_settings settings;
	struct lh_compress_settings compressing;
	struct lh_error err = {0};
	struct reading r;

	read_workload(strategy, compress, n_ranks, &r);
	if (r.diag.n_messages)
		fail_msg("%s: %s", strategy, r.diag.messages[0]);
	assert_json(r.strategy, job_strategy);
	if (job_compress)
		assert_json(r.compress, job_compress);
	if (lh_strategy_settings_read(r.strategy, "strategy", &settings, &err) ||
	    lh_compress_settings_read(r.compress, "compress", &compressing, &err))
		fail_msg("%s: %s", strategy, err.message);
	end_reading(&r);
}

#define DYNAMIC(kind)                                                               \
	"{\"kind\": \"" kind "\", \"balance\": \"dynamic\", \"matchmaking_ns\": 0," \
	" \"delayed_update\": false, \"streams\": 1, \"overlap\": false"
#define FIXED(kind)                                                               \
	"{\"kind\": \"" kind "\", \"balance\": \"fixed\", \"matchmaking_ns\": 0," \
	" \"delayed_update\": false, \"streams\": 1, \"overlap\": false"
#define SPARSE(kind)                                                              \
	"{\"kind\": \"" kind "\", \"balance\": \"fixed\", \"matchmaking_ns\": 0," \
	" \"delayed_update\": false, \"streams\": 1"
#define ELASTIC(kind)                                              \
	"{\"kind\": \"" kind "\", \"matchmaking_ns\": 5000000000," \
	" \"streams\": 1, \"min_group\": 2,"                       \
	" \"timeout_ns\": 60000000000, \"heartbeat_ns\": 1000000000"

static void test_every_kind_has_its_defaults(void **state)
{
	static const struct {
		const char *strategy, *compress;
		int64_t n_ranks;
		const char *job;
	} cases[] = {
		{"{kind: butterfly}", NULL, 3,
		 "{\"kind\": \"butterfly\", \"balance\": \"dynamic\", \"matchmaking_ns\": "
		 "5000000000,"
		 " \"delayed_update\": true, \"streams\": 1, \"overlap\": false,"
		 " \"shards\": \"equal\"}"},
		{"{kind: butterfly, balance: fixed}", NULL, 3,
		 "{\"kind\": \"butterfly\", \"balance\": \"fixed\", \"matchmaking_ns\": 0,"
		 " \"delayed_update\": true, \"streams\": 1, \"overlap\": false,"
		 " \"shards\": \"equal\"}"},
		{"{kind: ring}", NULL, 3, DYNAMIC("ring") ", \"order\": \"given\"}"},
		{"{kind: halving-doubling}", NULL, 3, DYNAMIC("halving-doubling") "}"},
		{"{kind: tree}", NULL, 3, DYNAMIC("tree") ", \"segment_bytes\": 1048576}"},
		{"{kind: torus}", NULL, 12, FIXED("torus") ", \"dimensions\": [3, 4]}"},
		{"{kind: torus, balance: dynamic, dimensions: [2, 2, 3]}", NULL, 12,
		 DYNAMIC("torus") ", \"dimensions\": [2, 2, 3]}"},
		{"{kind: hierarchical}", NULL, 3,
		 FIXED("hierarchical") ", \"levels\": [\"node\", \"site\"]}"},
		{"{kind: sparse-allgather}", "topk", 3, SPARSE("sparse-allgather") "}"},
		{"{kind: hierarchical-topk}", "topk", 3,
		 SPARSE("hierarchical-topk") ", \"levels\": [\"node\"]}"},
		{"{kind: hierarchical-topk, levels: [site]}", "mstopk", 3,
		 SPARSE("hierarchical-topk") ", \"levels\": [\"site\"]}"},
		{"{kind: local-sgd}", NULL, 3,
		 "{\"kind\": \"local-sgd\", \"period\": 8, \"collective\": \"ring\","
		 " \"streams\": 1, \"timeout_ns\": 1800000000000}"},
		{"{kind: local-sgd, collective: torus}", NULL, 12,
		 "{\"kind\": \"local-sgd\", \"period\": 8, \"collective\": \"torus\","
		 " \"dimensions\": [3, 4], \"streams\": 1, \"timeout_ns\": 1800000000000}"},
		{"{kind: local-sgd, collective: hierarchical}", NULL, 3,
		 "{\"kind\": \"local-sgd\", \"period\": 8, \"collective\": \"hierarchical\","
		 " \"levels\": [\"node\", \"site\"], \"streams\": 1,"
		 " \"timeout_ns\": 1800000000000}"},
		{"{kind: diloco}", NULL, 3,
		 "{\"kind\": \"diloco\", \"period\": 50, \"outer_lr\": 0.7,"
		 " \"outer_momentum\": 0.9, \"fragments\": 1, \"fragment_delay\": 0,"
		 " \"collective\": \"ring\", \"streams\": 1, \"timeout_ns\": 1800000000000}"},
		{"{kind: diloco, fragments: 4}", NULL, 3,
		 "{\"kind\": \"diloco\", \"period\": 50, \"outer_lr\": 0.7,"
		 " \"outer_momentum\": 0.9, \"fragments\": 4, \"fragment_delay\": 0,"
		 " \"fragment_mix\": 0.5, \"collective\": \"ring\", \"streams\": 1, "
		 "\"timeout_ns\": 1800000000000}"},
		{"{kind: d-psgd}", NULL, 3,
		 "{\"kind\": \"d-psgd\", \"graph\": \"ring\", \"streams\": 1,"
		 " \"timeout_ns\": 1800000000000}"},
		{"{kind: ad-psgd}", NULL, 3,
		 "{\"kind\": \"ad-psgd\", \"graph\": \"ring\", \"streams\": 1,"
		 " \"timeout_ns\": 1800000000000}"},
		{"{kind: parameter-server, elastic: true}", NULL, 3,
		 "{\"kind\": \"parameter-server\", \"exchange\": \"asgd\", \"period\": 1,"
		 " \"asynchronous\": true, \"streams\": 1}"},
		{"{kind: parameter-server, exchange: asgd-ga}", NULL, 3,
		 "{\"kind\": \"parameter-server\", \"exchange\": \"asgd-ga\", \"period\": 8,"
		 " \"asynchronous\": true, \"streams\": 1}"},
		{"{kind: parameter-server, exchange: averaging}", NULL, 3,
		 "{\"kind\": \"parameter-server\", \"exchange\": \"averaging\", \"period\": 8,"
		 " \"asynchronous\": false, \"streams\": 1}"},
		{"{kind: hivemind}", NULL, 3, ELASTIC("hivemind") ", \"delayed_update\": true}"},
		{"{kind: moshpit}", NULL, 7,
		 ELASTIC("moshpit") ", \"dimensions\": [2, 4], \"rounds\": 2}"},
		{"{kind: moshpit, dimensions: [2, 2, 2]}", NULL, 7,
		 ELASTIC("moshpit") ", \"dimensions\": [2, 2, 2], \"rounds\": 3}"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_reads(cases[i].strategy, cases[i].compress, cases[i].n_ranks, cases[i].job,
			     NULL);
}

static void test_every_compressor_has_its_defaults(void **state)
{
	static const struct {
		const char *strategy, *compress, *job;
	} cases[] = {
		{"{kind: sparse-allgather}", "topk",
		 "{\"kind\": \"topk\", \"density_ratio\": 0.001, \"feedback\": true}"},
		{"{kind: sparse-allgather}", "{kind: random-k, density: 5 %, feedback: false}",
		 "{\"kind\": \"random-k\", \"density_ratio\": 0.05, \"feedback\": false}"},
		{"{kind: sparse-allgather}", "dgc",
		 "{\"kind\": \"dgc\", \"density_ratio\": 0.001, \"feedback\": true,"
		 " \"momentum\": 0.9, \"nesterov\": false, \"warm_up\": 0}"},
		{"{kind: sparse-allgather}", "{kind: dgc, clip_norm: 2.5, warm_up: 4}",
		 "{\"kind\": \"dgc\", \"density_ratio\": 0.001, \"feedback\": true,"
		 " \"momentum\": 0.9, \"nesterov\": false, \"clip_norm\": 2.5, \"warm_up\": 4}"},
	};
	static const char *const dense[] = {"butterfly", "ring",  "halving-doubling",
					    "tree",	 "torus", "hierarchical"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct reading r;

		read_workload(cases[i].strategy, cases[i].compress, 4, &r);
		if (r.diag.n_messages)
			fail_msg("%s", r.diag.messages[0]);
		assert_json(r.compress, cases[i].job);
		end_reading(&r);
	}
	for (size_t i = 0; i < N_ELEMENTS(dense); i++) {
		lh_cleanup_free char *strategy = lh_strf("{kind: %s, balance: fixed}", dense[i]);
		struct reading r;

		read_workload(strategy, "powersgd", 4, &r);
		if (r.diag.n_messages)
			fail_msg("%s", r.diag.messages[0]);
		assert_json(r.compress,
			    "{\"kind\": \"powersgd\", \"feedback\": true, \"rank\": 2}");
		end_reading(&r);
	}
}

/* Which compressor goes with which strategy, all with all. */
static void test_compressors_go_with_their_strategies_alone(void **state)
{
	static const char *const with_sparse[] = {"topk", "mstopk", "random-k", "dgc"};

	(void)state;
	for (const struct lh_choice *k = strategies; k->name; k++)
		for (const struct lh_choice *c = compressors; c->name; c++) {
			bool is_sparse_kind = (k->value & (LH_KIND_SPARSE_ALLGATHER |
							   LH_KIND_HIERARCHICAL_TOPK)) != 0;
			bool is_dense = k->value <= LH_KIND_HIERARCHICAL;
			bool fits = !is_sparse_kind;
			lh_cleanup_free char *strategy = lh_strf(
				"{kind: %s%s}", k->name, is_dense ? ", balance: fixed" : "");
			struct reading r;

			for (size_t i = 0; i < N_ELEMENTS(with_sparse); i++)
				if (strcmp(c->name, with_sparse[i]) == 0)
					fits = is_sparse_kind ||
					       k->value == LH_KIND_PARAMETER_SERVER;
			if (strcmp(c->name, "onebit") == 0)
				fits = k->value == LH_KIND_BUTTERFLY;
			if (strcmp(c->name, "powersgd") == 0)
				fits = is_dense;
			read_workload(strategy, c->name, 4, &r);
			if ((r.diag.n_messages == 0) != fits)
				fail_msg("%s with %s: %s", k->name, c->name,
					 fits ? r.diag.messages[0] : "taken");
			end_reading(&r);
		}
}

static void test_what_does_not_go_together_is_refused(void **state)
{
	static const struct {
		const char *strategy, *compress;
		int64_t n_ranks;
		const char *message;
	} cases[] = {
		{"{kind: ring, segment: 1 MiB}", NULL, 4,
		 "s.yaml:2:26: workload.strategy.segment: ring has no such parameter; it belongs "
		 "to "
		 "tree, local-sgd, diloco"},
		{"{kind: hivemind, dimensions: [2, 2]}", NULL, 4,
		 "s.yaml:2:30: workload.strategy.dimensions: hivemind has no such parameter; it "
		 "belongs to torus, local-sgd, diloco, moshpit"},
		{"{kind: local-sgd, balance: fixed}", NULL, 4,
		 "balance: local-sgd has no such parameter; it belongs to butterfly, ring, "
		 "halving-doubling, tree, torus, hierarchical, sparse-allgather, "
		 "hierarchical-topk"},
		{"{kind: ring}", "{kind: fp16, density: 5 %}", 4,
		 "s.yaml:3:26: workload.compress.density: fp16 has no such parameter; it belongs "
		 "to "
		 "topk, mstopk, random-k, dgc"},
		{"{kind: torus, matchmaking: 1 s}", NULL, 4,
		 "s.yaml:2:40: workload.strategy.matchmaking: with balance fixed no group is "
		 "formed"},
		{"{kind: tree, overlap: true, bucket: 1 MB}", NULL, 4,
		 "overlap: whoever does not know which pass is the last"},
		{"{kind: tree, overlap: true, balance: fixed}", NULL, 4, "overlap: needs bucket"},
		{"{kind: torus}", NULL, 7, "dimensions: 7 ranks are no grid of two sides"},
		{"{kind: torus}", NULL, 2, "dimensions: 2 ranks are no grid of two sides"},
		{"{kind: torus, dimensions: [2, 3]}", NULL, 7,
		 "s.yaml:2:39: workload.strategy.dimensions: room for 6 ranks; expected exactly 7"},
		{"{kind: torus, dimensions: [2, 1]}", NULL, 2,
		 "workload.strategy.dimensions[1]: '1' is too small; at least 2"},
		{"{kind: torus, dimensions: []}", NULL, 4, "dimensions: is empty"},
		{"{kind: torus, dimensions: 4}", NULL, 4, "dimensions: expected a list"},
		{"{kind: torus, dimensions: [[2], 2]}", NULL, 4,
		 "dimensions: expected a whole number"},
		{"{kind: torus, dimensions: [2, 2, 2, 2, 2, 2, 2, 2, 2]}", NULL, 512,
		 "dimensions: 9 numbers; at most 8"},
		{"{kind: moshpit, dimensions: [2, 3]}", NULL, 7,
		 "dimensions: room for 6 ranks; expected at least 7"},
		{"{kind: hierarchical, levels: []}", NULL, 4, "levels: is empty; expected node"},
		{"{kind: hierarchical, levels: [rack]}", NULL, 4,
		 "levels[0]: 'rack' is unknown; expected one of node, site"},
		{"{kind: hierarchical, levels: [site, site]}", NULL, 4,
		 "levels: a level stands there twice"},
		{"{kind: local-sgd, levels: [site]}", NULL, 4,
		 "levels: is of collective hierarchical alone"},
		{"{kind: diloco, collective: ring, segment: 1 MiB}", NULL, 4,
		 "segment: is of collective tree alone"},
		{"{kind: local-sgd, collective: torus}", NULL, 7,
		 "dimensions: 7 ranks are no grid of two sides"},
		{"{kind: local-sgd, collective: gossip}", NULL, 4,
		 "collective: 'gossip' is unknown; expected one of"},
		{"{kind: diloco, fragment_mix: 0.5}", NULL, 4,
		 "fragment_mix: nothing is merged late"},
		{"{kind: diloco, fragments: 2, fragment_mix: 1.5}", NULL, 4,
		 "fragment_mix: '1.5' is too large; at most 1"},
		{"{kind: diloco, period: 4, fragments: 5}", NULL, 4, "fragments: more than the"},
		{"{kind: diloco, period: 4, fragment_delay: 4}", NULL, 4,
		 "fragment_delay: as long as the period"},
		{"{kind: diloco, outer_lr: 0}", NULL, 4, "outer_lr: '0' is too small; more than 0"},
		{"{kind: diloco, outer_momentum: 1}", NULL, 4,
		 "outer_momentum: '1' is too large; less than 1"},
		{"{kind: parameter-server, period: 2}", NULL, 4,
		 "period: asgd sends every gradient; expected 1"},
		{"{kind: parameter-server, asynchronous: false}", NULL, 4,
		 "asynchronous: servers that exchange gradients wait for none"},
		{"{kind: hivemind, min_group: 5}", NULL, 4, "min_group: more than there are ranks"},
		{"{kind: hivemind, heartbeat: 60 s}", NULL, 4, "heartbeat: not less than timeout"},
		{"{kind: sparse-allgather}", NULL, 4,
		 "workload.compress.kind: fp16 does not go with strategy sparse-allgather; "
		 "expected "
		 "one of topk, mstopk, random-k, dgc"},
		{"{kind: ring}", "{kind: mstopk}", 4,
		 "s.yaml:3:20: workload.compress.kind: mstopk does not go with strategy ring; "
		 "expected one of fp16, none, bf16, uniform8, blockwise8, powersgd"},
		{"{kind: parameter-server, exchange: averaging}", "topk", 4,
		 "compress.kind: weights that are averaged are sent whole"},
		{"{kind: ring}", "powersgd", 4, "compress.kind: its factors are averaged"},
		{"{kind: sparse-allgather}", "{kind: topk, density: 0 %}", 4,
		 "density: '0 %' is too small; more than 0"},
		{"{kind: sparse-allgather}", "{kind: dgc, momentum: 1}", 4,
		 "momentum: '1' is too large; less than 1"},
		{"{kind: sparse-allgather}", "{kind: dgc, clip_norm: 0}", 4,
		 "clip_norm: '0' is too small; more than 0"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct reading r;

		read_workload(cases[i].strategy, cases[i].compress, cases[i].n_ranks, &r);
		if (r.diag.n_messages != 1 || !strstr(r.diag.messages[0], cases[i].message))
			fail_msg("%s: %zu messages, '%s', not '%s'", cases[i].strategy,
				 r.diag.n_messages, r.diag.n_messages ? r.diag.messages[0] : "",
				 cases[i].message);
		end_reading(&r);
	}
}

/* The resolved tree read again is the same, computed defaults included. */
static void test_resolved_defaults_come_back(void **state)
{
	static const char *const kinds[] = {"torus",  "moshpit",   "hierarchical",
					    "diloco", "butterfly", "parameter-server"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
		lh_cleanup_free char *strategy =
			lh_strf("{kind: %s%s}", kinds[i],
				strcmp(kinds[i], "diloco") == 0 ? ", fragments: 2" : "");
		lh_cleanup_free char *resolved = NULL;
		json_t *tree;
		struct reading r, again;

		read_workload(strategy, NULL, 6, &r);
		assert_int_equal(r.diag.n_messages, 0);
		tree = lh_yaml_to_json(lh_yaml_get(lh_yaml_get(r.sc.tree, "workload"), "strategy"));
		resolved = json_dumps(tree, 0);
		json_decref(tree);
		read_workload(resolved, NULL, 6, &again);
		if (again.diag.n_messages)
			fail_msg("%s: %s", resolved, again.diag.messages[0]);
		assert_true(json_equal(r.strategy, again.strategy));
		end_reading(&again);
		end_reading(&r);
	}
}

static void test_the_schema_tells_kinds_and_defaults(void **state)
{
	static const struct {
		const char *key, *text;
	} cases[] = {
		{"segment", "; of tree, local-sgd, diloco"},
		{"matchmaking",
		 "; default 0 s for butterfly, ring, halving-doubling, tree, torus, hierarchical, "
		 "sparse-allgather, hierarchical-topk where balance is fixed, 5 s for butterfly, "
		 "hivemind, moshpit, else 0 s"},
		{"period",
		 "; of local-sgd, diloco, parameter-server; default 1 for parameter-server where "
		 "exchange is asgd, 50 for diloco, else 8"},
	};
	struct whole_section whole;

	(void)state;
	make_whole(&lh_strategy_section, strategies, &whole);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const struct lh_field *f = lh_field_find(&whole.section, cases[i].key);
		lh_cleanup_free char *text = lh_field_describe(&whole.section, f);

		if (!strstr(text, cases[i].text))
			fail_msg("'%s' does not say '%s'", text, cases[i].text);
	}
}

/* Of the kinds that are listed none has a parameter of another, nor does the schema show it. */
static void test_what_no_listed_kind_has_does_not_exist(void **state)
{
	static const struct lh_choice one[] = {{"ring", LH_KIND_RING}, {NULL, 0}};
	struct whole_section whole;
	lh_cleanup_json json_t *schema = NULL;
	json_t *properties;

	(void)state;
	make_whole(&lh_strategy_section, one, &whole);
	assert_null(lh_field_find(&whole.section, "segment"));
	assert_non_null(lh_field_find(&whole.section, "order"));
	schema = lh_section_schema(&whole.section);
	properties = json_object_get(schema, "properties");
	assert_null(json_object_get(properties, "segment"));
	assert_non_null(json_object_get(properties, "order"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_kind_has_its_defaults),
		cmocka_unit_test(test_every_compressor_has_its_defaults),
		cmocka_unit_test(test_compressors_go_with_their_strategies_alone),
		cmocka_unit_test(test_what_does_not_go_together_is_refused),
		cmocka_unit_test(test_resolved_defaults_come_back),
		cmocka_unit_test(test_the_schema_tells_kinds_and_defaults),
		cmocka_unit_test(test_what_no_listed_kind_has_does_not_exist),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
