/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a scenario, printed. See dry_run.h. */
#include "cli/dry_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/cleanup.h"
#include "core/units.h"
#include "emulator/engine.h"
#include "emulator/plan.h"

enum { CELL = 32, SHOWN_MAX = 20 };

static const char *show(enum lh_unit_kind kind, int64_t v, char *buf)
{
	return lh_unit_format(kind, v, buf, CELL);
}

static void print_command(const struct lh_scenario *sc)
{
	const struct lh_workload *w = &sc->workload;
	char a[CELL];

	printf("Workload ");
	for (size_t i = 0; i < w->n_command; i++)
		printf(" %s", w->command[i]);
	printf("\n          progress %s%s\n",
	       w->progress.pattern ? "by the pattern "
	       : w->progress.file  ? "in the file "
				   : "is not reported",
	       w->progress.pattern ? w->progress.pattern
	       : w->progress.file  ? w->progress.file
				   : "");
	if (w->stop_after_ns > 0)
		printf("          stopped after %s\n", show(LH_UNIT_DURATION, w->stop_after_ns, a));
	if (w->time_limit_ns > 0)
		printf("          fails after %s\n", show(LH_UNIT_DURATION, w->time_limit_ns, a));
}

/* What a section of the workload has beside its kind, defaults included. */
static void print_parameters(const struct lh_scenario *sc, const char *section)
{
	json_t *map = json_object_get(json_object_get(sc->resolved, "workload"), section);
	bool has_any = false;
	const char *key;
	json_t *value;

	json_object_foreach (map, key, value) {
		lh_cleanup_free char *text =
			json_is_string(value)
				? strdup(json_string_value(value))
				: json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

		if (strcmp(key, "kind") == 0)
			continue;
		if (has_any)
			printf(", %s %s", key, text ? text : "");
		else
			printf("          %s: %s %s",
			       json_string_value(json_object_get(map, "kind")), key,
			       text ? text : "");
		has_any = true;
	}
	if (has_any)
		putchar('\n');
}

/* The nodes that an elastic strategy does without. */
static void print_released(const struct lh_scenario *sc)
{
	for (size_t i = 0; i < sc->n_released; i++)
		printf("%s%s", i ? ", " : "Released  ", sc->released[i].name);
	if (sc->n_released)
		putchar('\n');
}

/* By formula, where there is one. */
static void print_payload(const struct lh_scenario *sc)
{
	int64_t first = lh_scenario_payload_bytes(sc, 0), sum = 0;
	bool is_even = true;

	if (first < 0)
		return;
	for (int64_t epoch = 0; epoch < sc->workload.epochs; epoch++) {
		int64_t bytes = lh_scenario_payload_bytes(sc, epoch);

		is_even = is_even && bytes == first;
		sum += bytes;
	}
	printf("          all ranks send %lld bytes %s\n", (long long)(is_even ? first : sum),
	       is_even ? "an epoch" : "in all epochs together");
}

static void print_training(const struct lh_scenario *sc)
{
	const struct lh_workload *w = &sc->workload;

	printf("Workload  %s, %lld parameters, target batch %lld, %lld epochs, %s over %s\n",
	       w->model, (long long)sc->model->parameters, (long long)w->target_batch,
	       (long long)w->epochs, w->strategy.kind, w->compress.kind);
	print_parameters(sc, "strategy");
	print_parameters(sc, "compress");
	print_payload(sc);
	print_released(sc);
}

static void print_nodes(const struct lh_plan *plan)
{
	const struct lh_scenario *sc = plan->scenario;

	printf("\n%-5s %-14s %-13s %-22s %14s", "rank", "node", "address", "machine", "NIC up");
	if (sc->model)
		printf(" %6s %10s %14s %9s", "micro", "samples/s", "averaging", "host/mb");
	putchar('\n');
	for (size_t i = 0; i < plan->n_ranks; i++) {
		const struct lh_plan_rank *rank = &plan->ranks[i];
		const struct lh_node *node = &sc->nodes[rank->node];
		char address[16], up[CELL], averaging[CELL], accumulate[CELL];

		printf("%-5zu %-14s %-13s %-22s %14s", i, rank->name,
		       lh_address_format(rank->address, address, sizeof(address)),
		       node->machine->name,
		       show(LH_UNIT_RATE, plan->nodes[rank->node].nic_up_bps, up));
		if (!sc->model) {
			putchar('\n');
			continue;
		}
		printf(" %6lld %10.1f %14s %9s\n", (long long)node->micro_batch,
		       node->profile->samples_per_s,
		       show(LH_UNIT_RATE, node->host->averaging_bps, averaging),
		       show(LH_UNIT_DURATION, node->accumulate_ns, accumulate));
	}
}

/* Whether an earlier pair of nodes has the same two sites. */
static bool is_repeated(const struct lh_plan *plan, size_t from, size_t to)
{
	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < plan->n_nodes; j++) {
			if (i == from && j == to)
				return false;
			if (i != j && plan->nodes[i].site == plan->nodes[from].site &&
			    plan->nodes[j].site == plan->nodes[to].site)
				return true;
		}
	return false;
}

static void print_paths(const struct lh_plan *plan)
{
	const struct lh_network *net = &plan->scenario->network;

	printf("\n%-14s %-14s %14s %14s %10s %10s %9s %12s\n", "from", "to", "delay", "bandwidth",
	       "queue", "limit/pkt", "window/seg", "one stream");
	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < plan->n_nodes; j++) {
			const struct lh_plan_path *p = lh_plan_path_at(plan, i, j);
			int64_t stream = i == j ? -1 : lh_plan_stream_bps(plan, i, j);
			char delay[CELL], rate[CELL], queue[CELL], one[CELL];

			if (i == j || is_repeated(plan, i, j))
				continue;
			printf("%-14s %-14s %14s %14s %10s %10u %9u %12s\n",
			       net->sites[plan->nodes[i].site].name,
			       net->sites[plan->nodes[j].site].name,
			       show(LH_UNIT_DURATION, p->delay_ns, delay),
			       show(LH_UNIT_RATE, p->bandwidth_bps, rate),
			       show(LH_UNIT_DURATION, p->queue_ns, queue), p->limit_pkts,
			       p->clamp_segments,
			       stream < 0 ? "buffers"
					  : lh_unit_format_short(LH_UNIT_RATE, stream, one, CELL));
		}
}

/* The inner networks, one of each kind; nothing where there is none. */
static void print_inner(const struct lh_plan *plan)
{
	bool has_head = false;

	for (size_t i = 0; i < plan->n_nodes; i++) {
		const struct lh_plan_node *n = &plan->nodes[i];
		char delay[CELL], rate[CELL];

		if (!lh_plan_is_first_inner(plan, i))
			continue;
		if (!has_head)
			printf("\n%-22s %6s %14s %14s\n", "inside each", "ranks", "delay",
			       "bandwidth");
		has_head = true;
		printf("%-22s %6zu %14s %14s\n", plan->scenario->nodes[i].machine->name, n->n_ranks,
		       show(LH_UNIT_DURATION, n->inner.delay_ns, delay),
		       show(LH_UNIT_RATE, n->inner.bandwidth_bps, rate));
	}
}

/* Sets text to what is random on a path. */
static void describe_randomness(const struct lh_path_spec *s, const struct lh_jitter_table *jitter,
				char *text, size_t n_text)
{
	static const char *const names[] = {
		[LH_JITTER_NORMAL] = "normal",
		[LH_JITTER_PARETO] = "pareto",
		[LH_JITTER_PARETONORMAL] = "paretonormal",
		[LH_JITTER_UNIFORM] = "uniform",
	};
	const struct {
		const char *name;
		double ratio;
	} shares[] = {{"loss", s->loss_ratio},
		      {"duplicate", s->duplicate_ratio},
		      {"corrupt", s->corrupt_ratio},
		      {"reorder", s->reorder_ratio}};
	size_t used = 0;
	char sd[CELL];

	text[0] = '\0';
	if (jitter)
		used += (size_t)snprintf(
			text, n_text, "jitter %s %s",
			lh_unit_format_short(LH_UNIT_DURATION, (int64_t)(jitter->sd_ns + 0.5), sd,
					     CELL),
			s->n_jitter_samples ? "as sampled" : names[s->jitter_distribution]);
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		if (shares[i].ratio > 0 && used < n_text)
			used += (size_t)snprintf(text + used, n_text - used, "%s%s %g %%",
						 used ? ", " : "", shares[i].name,
						 100 * shares[i].ratio);
	if (s->loss_burst_pkts > 0 && used < n_text)
		snprintf(text + used, n_text - used, ", %g packets a burst", s->loss_burst_pkts);
}

/* What is random, path by path; nothing where nothing is. */
static void print_randomness(const struct lh_plan *plan)
{
	const struct lh_network *net = &plan->scenario->network;
	bool has_head = false;

	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < plan->n_nodes; j++) {
			const struct lh_plan_path *p = lh_plan_path_at(plan, i, j);
			char text[160];

			if (i == j || !p->seed || is_repeated(plan, i, j))
				continue;
			if (!has_head)
				printf("\n%-14s %-14s %s\n", "from", "to", "random");
			has_head = true;
			describe_randomness(p->spec, p->jitter, text, sizeof(text));
			printf("%-14s %-14s %s\n", net->sites[plan->nodes[i].site].name,
			       net->sites[plan->nodes[j].site].name, text);
		}
}

/* Sets text to words with commas between. */
static void join_words(char *const *words, size_t n, char *text, size_t n_text)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n && used < n_text; i++)
		used += (size_t)snprintf(text + used, n_text - used, "%s%s", i ? ", " : "",
					 words[i]);
}

/* Sets text to whom an event is about. */
static void describe_place(const struct lh_event *e, char *text, size_t n_text)
{
	if (e->n_preempt)
		join_words(e->preempt, e->n_preempt, text, n_text);
	else if (e->n_slow)
		join_words(e->slow, e->n_slow, text, n_text);
	else if (e->n_join)
		join_words(e->join, e->n_join, text, n_text);
	else if (e->site)
		snprintf(text, n_text, "%s", e->site);
	else if (e->n_path)
		snprintf(text, n_text, "%s - %s", e->path[0], e->path[1]);
	else
		snprintf(text, n_text, "%s > %s", e->from, e->to);
}

/* Names what an event sets; network.json and the scenario have the values. */
static void describe_change(const struct lh_event *e, char *text, size_t n_text)
{
	static const struct {
		unsigned sets;
		const char *name;
	} names[] = {{LH_CUT, "cut off"},	  {LH_DELAY, "delay"},
		     {LH_BANDWIDTH, "bandwidth"}, {LH_QUEUE, "queue"},
		     {LH_JITTER, "jitter"},	  {LH_LOSS, "loss"},
		     {LH_LOSS_BURST, "bursts"},	  {LH_DUPLICATE, "duplicate"},
		     {LH_CORRUPT, "corrupt"},	  {LH_REORDER, "reorder"}};
	size_t used = 0;
	char notice[CELL];

	text[0] = '\0';
	if (e->n_slow)
		snprintf(text, n_text, "computing takes %g times as long", e->factor);
	if (e->n_join)
		snprintf(text, n_text, "joins");
	if (e->n_preempt)
		snprintf(text, n_text, "preempted%s%s%s", e->return_after_ns < 0 ? " for good" : "",
			 e->notice_ns > 0 ? ", told before by " : "",
			 e->notice_ns > 0 ? show(LH_UNIT_DURATION, e->notice_ns, notice) : "");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && used < n_text; i++)
		if ((e->change.sets | e->trace.sets) & names[i].sets)
			used += (size_t)snprintf(
				text + used, n_text - used, "%s%s%s", used ? ", " : "",
				names[i].name, e->trace.sets & names[i].sets ? " by a trace" : "");
}

/* Nodes that start late by themselves, and interruptions of spot VMs: the first of them. */
static void print_absences(const struct lh_scenario *sc)
{
	size_t n = 0;

	for (size_t i = 0; i < sc->n_absences; i++) {
		const struct lh_absence *a = &sc->absences[i];
		bool is_late = a->from_ns < 0 && sc->nodes[a->node].spec->joins_at_ns == a->to_ns;
		char at[CELL], length[CELL];

		if (!is_late && (a->cause != LH_AWAY_BY_SPOT || n++ >= SHOWN_MAX))
			continue;
		printf("%-12s %-12s %-29s %s\n",
		       show(LH_UNIT_DURATION, is_late ? a->to_ns : a->from_ns, at),
		       is_late || a->to_ns == INT64_MAX
			       ? ""
			       : show(LH_UNIT_DURATION, a->to_ns - a->from_ns, length),
		       sc->nodes[a->node].name,
		       is_late		       ? "joins"
		       : a->to_ns == INT64_MAX ? "a spot interruption, for good"
					       : "a spot interruption");
	}
	if (n > SHOWN_MAX)
		printf("... and %zu more spot interruptions (--json shows all)\n", n - SHOWN_MAX);
}

/* What changes in time; nothing where nothing does. */
static void print_timeline(const struct lh_scenario *sc)
{
	if (sc->n_events || sc->n_absences)
		printf("\n%-12s %-12s %-29s %s\n", "at", "for", "path, site or node", "changes");
	for (size_t i = 0; i < sc->n_events; i++) {
		const struct lh_event *e = &sc->events[i];
		int64_t for_ns = e->n_preempt ? e->return_after_ns : e->for_ns;
		char at[CELL], length[CELL], place[96], change[160];

		describe_place(e, place, sizeof(place));
		describe_change(e, change, sizeof(change));
		printf("%-12s %-12s %-29s %s\n", show(LH_UNIT_DURATION, e->at_ns, at),
		       for_ns < 0 ? "" : show(LH_UNIT_DURATION, for_ns, length), place, change);
	}
	print_absences(sc);
	for (size_t i = 0; i < sc->network.n_paths; i++) {
		const struct lh_path_spec *p = &sc->network.paths[i];

		if (p->trace.sets)
			printf("A trace of %zu rows of the path %s - %s, from the start\n",
			       p->trace.n_rows, p->n_between ? p->between[0] : p->from,
			       p->n_between ? p->between[1] : p->to);
	}
}

static void print_settings(const struct lh_plan *plan)
{
	const struct lh_tcp *tcp = plan->nodes[0].tcp;
	char memory[CELL], rmem[CELL], wmem[CELL];

	printf("\nMTU %u bytes (%u of payload), initial window %u segments, %s, buffers %s / %s, "
	       "guest memory %s\n",
	       plan->mtu_bytes, plan->segment_bytes, plan->initial_window_segments,
	       tcp->congestion_control, show(LH_UNIT_SIZE, tcp->rmem_max_bytes, rmem),
	       show(LH_UNIT_SIZE, tcp->wmem_max_bytes, wmem),
	       show(LH_UNIT_SIZE, plan->guest_memory_bytes, memory));
}

int lh_dry_run(const struct lh_scenario *sc, bool json)
{
	struct lh_plan *plan = NULL;
	struct lh_error err = {0};

	if (lh_plan_build(sc, &plan, &err) < 0)
		return lh_cli_fail(NULL, &err);
	if (json) {
		json_t *doc = json_pack("{s:O, s:o}", "scenario", sc->resolved, "network",
					lh_plan_to_json(plan));

		if (sc->model)
			json_object_set_new(doc, "trainer", lh_trainer_job(plan, 0));
		json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		putchar('\n');
		json_decref(doc);
	} else {
		printf("Scenario  %s%s%s\n", sc->name, sc->about ? ": " : "",
		       sc->about ? sc->about : "");
		if (sc->model)
			print_training(sc);
		else
			print_command(sc);
		print_nodes(plan);
		print_paths(plan);
		print_inner(plan);
		print_randomness(plan);
		print_timeline(sc);
		print_settings(plan);
	}
	lh_plan_free(plan);
	return 0;
}
