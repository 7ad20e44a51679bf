/* SPDX-License-Identifier: Apache-2.0 */
/* The network plan as JSON. See plan.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/cleanup.h"
#include "emulator/plan.h"

enum { PLAN_JSON_FLAGS = JSON_INDENT(2) | JSON_REAL_PRECISION(15) };

/* The ranks of a node with several, and the network between them. */
static void add_ranks(json_t *doc, const struct lh_plan *plan, const struct lh_plan_node *n)
{
	json_t *ranks = json_array();
	char address[16];

	for (size_t i = n->first_rank; i < n->first_rank + n->n_ranks; i++)
		json_array_append_new(
			ranks, json_pack("{s:s, s:s}", "node", plan->ranks[i].name, "address",
					 lh_address_format(plan->ranks[i].address, address,
							   sizeof(address))));
	json_object_set_new(doc, "ranks", ranks);
	json_object_set_new(doc, "inner",
			    json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "mtu_bytes",
				      (json_int_t)LH_INNER_MTU_BYTES, "bandwidth_bps",
				      (json_int_t)n->inner.bandwidth_bps, "delay_ns",
				      (json_int_t)n->inner.delay_ns, "burst_bytes",
				      (json_int_t)n->inner.burst_bytes, "limit_bytes",
				      (json_int_t)n->inner.limit_bytes, "limit_pkts",
				      (json_int_t)n->inner.limit_pkts));
}

static json_t *node_to_json(const struct lh_plan *plan, size_t i)
{
	const struct lh_plan_node *n = &plan->nodes[i];
	char address[16];
	json_t *doc;

	doc = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I}", "node", n->name,
			"site", plan->scenario->network.sites[n->site].name, "address",
			lh_address_format(n->address, address, sizeof(address)), "nic_up_bps",
			(json_int_t)n->nic_up_bps, "nic_down_bps", (json_int_t)n->nic_down_bps,
			"nic_burst_bytes", (json_int_t)n->nic_burst_bytes, "nic_limit_bytes",
			(json_int_t)n->nic_limit_bytes, "burst_segments",
			(json_int_t)n->burst_segments, "congestion_control",
			n->tcp->congestion_control, "rmem_max_bytes",
			(json_int_t)n->tcp->rmem_max_bytes, "wmem_max_bytes",
			(json_int_t)n->tcp->wmem_max_bytes);
	if (n->n_ranks > 1)
		add_ranks(doc, plan, n);
	return doc;
}

static void add_chance(json_t *path, const char *key, uint32_t chance)
{
	if (chance)
		json_object_set_new(path, key, json_integer(chance));
}

/* What is random on a path; keys of what is not are left out. */
static void add_randomness(json_t *path, const struct lh_plan_path *p)
{
	static const char *const names[] = {[LH_JITTER_NORMAL] = "normal",
					    [LH_JITTER_PARETO] = "pareto",
					    [LH_JITTER_PARETONORMAL] = "paretonormal",
					    [LH_JITTER_UNIFORM] = "uniform",
					    [LH_JITTER_EMPIRICAL] = "empirical"};

	if (p->jitter) {
		json_object_set_new(path, "jitter_ns", json_integer(llround(p->jitter->sd_ns)));
		json_object_set_new(
			path, "jitter_distribution",
			json_string(
				names[p->spec->n_jitter_samples ? LH_JITTER_EMPIRICAL
								: p->spec->jitter_distribution]));
		json_object_set_new(path, "jitter_sigma_ns", json_integer(p->jitter->sigma_ns));
		json_object_set_new(path, "jitter_lowest_ns", json_integer(p->jitter->lowest_ns));
		json_object_set_new(path, "jitter_highest_ns", json_integer(p->jitter->highest_ns));
	}
	add_chance(path, "loss_of_2_32", p->chances.loss);
	add_chance(path, "burst_in_of_2_32", p->chances.burst_in);
	add_chance(path, "burst_out_of_2_32", p->chances.burst_out);
	add_chance(path, "duplicate_of_2_32", p->chances.duplicate);
	add_chance(path, "corrupt_of_2_32", p->chances.corrupt);
	add_chance(path, "reorder_of_2_32", p->chances.reorder);
	if (p->seed)
		json_object_set_new(path, "seed", json_integer((json_int_t)p->seed));
}

static const char *const discipline_names[] = {
	[LH_DROP_TAIL] = "drop-tail", [LH_CODEL] = "codel", [LH_FQ_CODEL] = "fq_codel"};

/* A bottleneck that stands by itself. */
static json_t *bottleneck_to_json(const struct lh_plan_bottleneck *b)
{
	json_t *doc = json_pack("{s:s, s:I, s:I, s:I}", "discipline",
				discipline_names[b->queue->discipline], "bandwidth_bps",
				(json_int_t)b->bandwidth_bps, "queue_ns", (json_int_t)b->queue_ns,
				"burst_bytes", (json_int_t)b->burst_bytes);

	if (b->queue->discipline == LH_DROP_TAIL)
		json_object_set_new(doc, "limit_bytes", json_integer(b->limit_bytes));
	else
		json_object_set_new(doc, "limit_pkts", json_integer(b->limit_pkts));
	if (b->queue->target_ns > 0)
		json_object_set_new(doc, "target_ns", json_integer(b->queue->target_ns));
	if (b->queue->interval_ns > 0)
		json_object_set_new(doc, "interval_ns", json_integer(b->queue->interval_ns));
	if (b->queue->ecn)
		json_object_set_new(doc, "ecn", json_true());
	return doc;
}

/* Adds the cross traffic, if there is any. */
static void add_cross(json_t *doc, const struct lh_cross_spec *cross)
{
	if (cross->mean_bps <= 0)
		return;
	json_object_set_new(doc, "cross_mean_bps", json_integer(cross->mean_bps));
	json_object_set_new(doc, "cross_flow_bytes", json_integer(cross->flow_bytes));
	if (cross->peak_bps > 0)
		json_object_set_new(doc, "cross_peak_bps", json_integer(cross->peak_bps));
}

/* A site's link with its cross traffic. */
static json_t *link_to_json(const struct lh_plan_bottleneck *b, const struct lh_site_link *link)
{
	json_t *doc = bottleneck_to_json(b);

	add_cross(doc, &link->cross);
	return doc;
}

/* The links that the nodes of a site share. */
static json_t *site_links_to_json(const struct lh_plan *plan)
{
	json_t *links = json_array();

	for (size_t i = 0; i < plan->n_accesses; i++) {
		const struct lh_plan_access *access = &plan->accesses[i];
		json_t *doc = access->site ? json_pack("{s:s}", "site", access->site->name) : NULL;

		if (!doc)
			continue;
		if (access->up.bandwidth_bps)
			json_object_set_new(doc, "up",
					    link_to_json(&access->up, &access->site->uplink));
		if (access->down.bandwidth_bps)
			json_object_set_new(doc, "down",
					    link_to_json(&access->down, &access->site->downlink));
		json_array_append_new(links, doc);
	}
	return links;
}

static json_t *path_to_json(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);

	json_t *path =
		json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "from",
			  plan->nodes[from].name, "to", plan->nodes[to].name, "delay_ns",
			  (json_int_t)p->delay_ns, "bandwidth_bps", (json_int_t)p->bandwidth_bps,
			  "queue_ns", (json_int_t)p->queue_ns, "limit_pkts",
			  (json_int_t)p->limit_pkts, "clamp_segments",
			  (json_int_t)p->clamp_segments, "splits_segments", p->splits_segments);

	if (p->bottleneck.bandwidth_bps)
		json_object_set_new(path, "bottleneck", bottleneck_to_json(&p->bottleneck));
	if (p->varies)
		json_object_set_new(path, "uncut_bytes", json_integer(p->uncut_bytes));
	add_cross(path, &p->spec->cross);
	add_randomness(path, p);
	return path;
}

/* When nodes are away: null where none ever is. to_ns is missing where one stays away. */
static json_t *absences_to_json(const struct lh_scenario *sc)
{
	json_t *list = sc->n_absences ? json_array() : NULL;

	for (size_t i = 0; i < sc->n_absences; i++) {
		const struct lh_absence *a = &sc->absences[i];
		json_t *doc = json_pack("{s:s, s:I, s:I, s:s}", "node", sc->nodes[a->node].name,
					"from_ns", (json_int_t)(a->from_ns < 0 ? 0 : a->from_ns),
					"notice_ns", (json_int_t)a->notice_ns, "cause",
					lh_absence_cause_name(a->cause));

		if (a->to_ns != INT64_MAX)
			json_object_set_new(doc, "to_ns", json_integer(a->to_ns));
		json_array_append_new(list, doc);
	}
	return list;
}

static json_t *slowdowns_to_json(const struct lh_scenario *sc)
{
	json_t *list = sc->n_slowdowns ? json_array() : NULL;

	for (size_t i = 0; i < sc->n_slowdowns; i++) {
		const struct lh_slowdown *s = &sc->slowdowns[i];
		json_t *doc = json_pack("{s:s, s:I, s:f}", "node", sc->nodes[s->node].name,
					"from_ns", (json_int_t)s->from_ns, "factor", s->factor);

		if (s->to_ns != INT64_MAX)
			json_object_set_new(doc, "to_ns", json_integer(s->to_ns));
		json_array_append_new(list, doc);
	}
	return list;
}

/* All but the paths, for which there is an empty list at the end. */
static json_t *head_to_json(const struct lh_plan *plan)
{
	json_t *nodes = json_array();

	for (size_t i = 0; i < plan->n_nodes; i++)
		json_array_append_new(nodes, node_to_json(plan, i));
	return json_pack("{s:s, s:I, s:I, s:I, s:[I,I,I], s:o, s:o, s:o*, s:o*, s:[]}", "format",
			 "longhaul-network/1", "mtu_bytes", (json_int_t)plan->mtu_bytes,
			 "segment_bytes", (json_int_t)plan->segment_bytes,
			 "initial_window_segments", (json_int_t)plan->initial_window_segments,
			 "tcp_mem_pages", (json_int_t)plan->tcp_mem_pages[0],
			 (json_int_t)plan->tcp_mem_pages[1], (json_int_t)plan->tcp_mem_pages[2],
			 "nodes", nodes, "site_links", site_links_to_json(plan), "absences",
			 absences_to_json(plan->scenario), "slowdowns",
			 slowdowns_to_json(plan->scenario), "paths");
}

json_t *lh_plan_to_json(const struct lh_plan *plan)
{
	json_t *doc = head_to_json(plan);
	json_t *paths = json_object_get(doc, "paths");

	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < plan->n_nodes; j++)
			if (i != j)
				json_array_append_new(paths, path_to_json(plan, i, j));
	return doc;
}

/* One path as it stands in the list of paths: two levels in. */
static int write_path(FILE *f, json_t *value)
{
	lh_cleanup_json json_t *path = value;
	lh_cleanup_free char *text = path ? json_dumps(path, PLAN_JSON_FLAGS) : NULL;

	if (!text)
		return -1;
	fputs("\n    ", f);
	for (const char *c = text; *c; c++) {
		fputc(*c, f);
		if (*c == '\n')
			fputs("    ", f);
	}
	return 0;
}

static int write_paths(FILE *f, const struct lh_plan *plan)
{
	const char *separator = "";

	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < plan->n_nodes; j++) {
			if (i == j)
				continue;
			fputs(separator, f);
			separator = ",";
			if (write_path(f, path_to_json(plan, i, j)) < 0)
				return -1;
		}
	fputs(*separator ? "\n  " : "", f);
	return 0;
}

int lh_plan_write(const struct lh_plan *plan, const char *path, struct lh_error *err)
{
	static const char end[] = "]\n}";
	lh_cleanup_json json_t *head = head_to_json(plan);
	lh_cleanup_free char *text = head ? json_dumps(head, PLAN_JSON_FLAGS) : NULL;
	lh_cleanup_fclose FILE *f = NULL;

	if (!text)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	f = fopen(path, "we");
	if (!f)
		return lh_fail(err, LH_ESYS, errno, "create %s", path);
	/* the empty list of paths is the last of the document */
	text[strlen(text) - strlen(end)] = '\0';
	fputs(text, f);
	if (write_paths(f, plan) < 0)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	fprintf(f, "%s\n", end);
	return fflush(f) == 0 ? 0 : lh_fail(err, LH_ESYS, errno, "write %s", path);
}
