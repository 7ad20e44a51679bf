/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as YAML and, where they are YAML, as a scenario; where they are one, its plan.
 * Beside crashes and leaks it looks for this: a resolved scenario reads back as itself, and the
 * trainers take the job that is made of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/yaml.h"
#include "emulator/engine.h"
#include "emulator/plan.h"
#include "scenarios/scenario.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/job.h"

const char lh_fuzz_name[] = "yaml";
const char *const lh_fuzz_words[] = {
	"longhaul: 1\n",
	"network",
	"nodes",
	"paths",
	"between",
	"from",
	"to",
	"rtt",
	"delay",
	"bandwidth",
	"queue",
	"stream_window",
	"count",
	"machine",
	"machines",
	"models",
	"profiles",
	"workload",
	"pricing",
	"catalog",
	"egress",
	"measured",
	"run",
	"seed",
	"strategy: {kind: ring}",
	"compress: {kind: none}",
	"balance: fixed",
	"streams: 64",
	"bucket: 25 MB",
	"overlap: true",
	"shards: bandwidth",
	"order: shortest",
	"timeline",
	"spot",
	"preempt",
	"slow",
	"join",
	"east/0",
	" ms",
	" s",
	" Gbit/s",
	" MiB",
	" USD/GB",
	" %",
	"1.10",
	"99999999999999999999",
	"1e999",
	"-1",
	"&a ",
	"*a",
	"<<",
	"? ",
	"!!int ",
	"---\n",
	"...\n",
	"\"\\u0000\"",
	"\\x7f",
	"{",
	"}",
	"[",
	"]",
	": ",
	"- ",
	"\n",
	"\t",
	"# ",
	"|\n",
	"\xef\xbb\xbf",
	"\xf0\x9f\x9b\xb0",
	NULL,
};

/* Ends the program: a property does not hold. */
static void broken(const char *what, const char *detail)
{
	fprintf(stderr, "%s: %s\n", what, detail);
	abort();
}

static struct lh_scenario *read_scenario(json_t *doc, char *ret_why, size_t n_why)
{
	struct lh_scenario *sc = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	if (lh_scenario_from_json("fuzz.json", doc, &sc, &diag, &err) < 0) {
		if (sc)
			broken("a scenario was handed out with an error", err.message);
		if (!err.message[0])
			broken("an error without a message", "");
		snprintf(ret_why, n_why, "%s", diag.n_messages ? diag.messages[0] : err.message);
	}
	lh_diag_done(&diag);
	return sc;
}

static void read_job(const json_t *document)
{
	char *text = json_dumps(document, JSON_REAL_PRECISION(15));
	struct lh_error err = {0};
	struct lh_job job;

	if (!text || lh_job_parse(text, strlen(text), "job", &job, &err) < 0)
		broken("the trainers do not take their job", err.message);
	lh_job_done(&job);
	free(text);
}

static void plan(const struct lh_scenario *sc)
{
	struct lh_plan *plan = NULL;
	struct lh_error err = {0};
	json_t *network, *job;

	if (!sc->n_nodes || !sc->model)
		broken("a scenario without nodes or model", sc->name);
	if (lh_plan_build(sc, &plan, &err) < 0)
		broken("no plan", err.message);
	network = lh_plan_to_json(plan);
	job = lh_trainer_job(plan, 0);
	if (!network || !job)
		broken("no JSON of a plan", sc->name);
	read_job(job);
	json_decref(network);
	json_decref(job);
	lh_plan_free(plan);
}

static void read_and_return(json_t *doc)
{
	char why[1024] = "";
	struct lh_scenario *sc = read_scenario(doc, why, sizeof(why));
	struct lh_scenario *again;

	if (!sc)
		return;
	again = read_scenario(sc->resolved, why, sizeof(why));
	if (!again)
		broken("a resolved scenario is refused", why);
	if (!json_equal(again->resolved, sc->resolved))
		broken("a resolved scenario comes back as another", sc->name);
	plan(sc);
	lh_scenario_free(again);
	lh_scenario_free(sc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lh_yaml *tree = NULL, *copy;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	json_t *doc;

	if (lh_yaml_parse("fuzz.yaml", (const char *)data, size, &tree, &diag, &err) < 0) {
		if (tree || !err.message[0])
			broken("a tree was handed out with an error, or no message", err.message);
		lh_diag_done(&diag);
		return 0;
	}
	copy = lh_yaml_copy(tree);
	if (copy->kind == LH_YAML_MAPPING && lh_yaml_merge(copy, tree) < 0)
		broken("a tree does not merge with itself", "");
	doc = lh_yaml_to_json(copy);
	lh_yaml_free(copy);
	lh_yaml_free(tree);
	if (doc)
		read_and_return(doc);
	json_decref(doc);
	return 0;
}
