/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between the parts of a scenario. See check.h. */
#include "scenarios/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/nearest.h"
#include "core/yaml.h"
#include "scenarios/bind.h"
#include "scenarios/capture.h"
#include "scenarios/check_internal.h"
#include "scenarios/churn.h"
#include "scenarios/jitter.h"
#include "scenarios/report.h"

/* Of packets lost, doubled, damaged: beyond it no connection would come about. */
static const double SHARE_MAX = 0.9;

static bool same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static const char *site_name_at(const void *context, size_t i)
{
	const struct lh_network *n = context;

	return i < n->n_sites ? n->sites[i].name : NULL;
}

void lh_say_unknown_site(const struct lh_network *network, const char *name, struct lh_pos pos,
			 const char *key_path, struct lh_diag *diag)
{
	const char *near = lh_nearest(name, site_name_at, network);

	if (network->name)
		lh_diag_add(diag, pos, key_path, "no site '%.60s' in network %s%s%s%s", name,
			    network->name, near ? "; did you mean '" : "", near ? near : "",
			    near ? "'?" : "");
}

/* Whether a path has the keys of one of the two forms. What is wrong with a value has been
 * said already. */
static bool has_a_form(const struct lh_yaml *written)
{
	const struct lh_yaml *between = lh_yaml_get(written, "between");
	bool has_rtt = lh_yaml_get(written, "rtt"), has_delay = lh_yaml_get(written, "delay");
	bool has_from = lh_yaml_get(written, "from"), has_to = lh_yaml_get(written, "to");

	if (written->kind != LH_YAML_MAPPING)
		return true;
	if (between)
		return has_rtt && !has_from && !has_to && !has_delay &&
		       (between->kind != LH_YAML_SEQUENCE || between->n_entries == 2);
	return has_from && has_to && has_delay && !has_rtt;
}

/* Complains where a packet would have to arrive before it was sent. */
static void check_jitter(const struct lh_path_spec *p, const struct lh_yaml *written,
			 const char *key_path, struct lh_jitter_forms *forms, struct lh_diag *diag)
{
	struct lh_jitter_table *table;
	int64_t delay = p->n_between ? p->rtt_ns / 2 : p->delay_ns;
	struct lh_error err = {0};
	char least[64];

	if (p->n_jitter_samples && lh_yaml_get(written, "jitter_distribution"))
		lh_diag_add(diag, p->pos, key_path,
			    "jitter_samples and jitter_distribution exclude each other");
	if (!lh_jitter_is_asked(p)) {
		if (lh_yaml_get(written, "jitter_distribution") && p->jitter_ns < 0)
			lh_diag_add(diag, p->pos, key_path, "jitter_distribution without jitter");
		return;
	}
	table = malloc(sizeof(*table));
	if (!table)
		return;
	if (lh_jitter_make(p, forms, table, &err) < 0)
		lh_diag_add(diag, p->pos, key_path, "jitter: %s", err.message);
	else if (delay + table->lowest_ns < 0)
		lh_diag_add(
			diag, p->pos, key_path,
			"this jitter makes packets up to %s earlier than the one-way delay, and "
			"none can arrive before it was sent; less jitter, a longer delay, or "
			"another jitter_distribution (pareto reaches 0.62 jitter below it)",
			lh_unit_format_short(LH_UNIT_DURATION, -table->lowest_ns, least,
					     sizeof(least)));
	free(table);
}

static void check_loss(const struct lh_path_spec *p, const char *key_path, struct lh_diag *diag)
{
	const struct {
		const char *key;
		double ratio;
	} shares[] = {{"loss", p->loss_ratio},
		      {"duplicate", p->duplicate_ratio},
		      {"corrupt", p->corrupt_ratio},
		      {"reorder", p->reorder_ratio}};

	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		if (shares[i].ratio > SHARE_MAX)
			lh_diag_add(diag, p->pos, key_path, "%s: more than %.0f %%", shares[i].key,
				    100 * SHARE_MAX);
	if (p->loss_burst_pkts < 0)
		return;
	if (!(p->loss_ratio > 0))
		lh_diag_add(diag, p->pos, key_path, "loss_burst without loss");
	else if (p->loss_burst_pkts < 1)
		lh_diag_add(diag, p->pos, key_path, "loss_burst: at least 1 packet");
	else if (p->loss_ratio > p->loss_burst_pkts / (1 + p->loss_burst_pkts))
		lh_diag_add(diag, p->pos, key_path,
			    "bursts of %g packets with at least one between them lose at most "
			    "%.3g %%",
			    p->loss_burst_pkts,
			    100 * p->loss_burst_pkts / (1 + p->loss_burst_pkts));
}

/* Returns false where the path is in no form that could connect sites. */
static bool check_path(const struct lh_network *network, const struct lh_path_spec *p,
		       const struct lh_yaml *written, size_t index, struct lh_jitter_forms *forms,
		       struct lh_diag *diag)
{
	lh_cleanup_free char *key_path = lh_strf("network.paths[%zu]", index);
	const char *names[] = {p->n_between > 0 ? p->between[0] : NULL,
			       p->n_between > 1 ? p->between[1] : NULL, p->from, p->to};
	bool formed = has_a_form(written);

	if (!formed)
		lh_diag_add(diag, p->pos, key_path,
			    "expected either `between: [A, B]` with `rtt`, or `from` and `to` with "
			    "`delay`");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i] && lh_site_find(network, names[i]) < 0)
			lh_say_unknown_site(network, names[i], p->pos, key_path, diag);
	for (size_t i = 0; i < p->n_measured; i++) {
		const struct lh_measured *m = &p->measured[i];

		if (m->from && m->to && !lh_path_spec_matches(p, m->from, m->to))
			lh_diag_add(diag, p->pos, key_path,
				    "measured[%zu] is from %s to %s, which is not this path", i,
				    m->from, m->to);
	}
	if (formed && !diag->n_messages)
		check_jitter(p, written, key_path, forms, diag);
	check_loss(p, key_path, diag);
	lh_check_queue(&p->queue, p->pos, key_path, diag);
	lh_check_cross(&p->cross, p->bandwidth_bps, key_path, diag);
	return formed;
}

/* Returns false where a path is in no form that could connect sites. */
static bool check_network(struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_network *network = &sc->network;
	const struct lh_yaml *paths = lh_yaml_get(lh_yaml_get(sc->tree, "network"), "paths");
	struct lh_jitter_forms forms = {.quantiles = {NULL}};
	bool formed = true;

	for (size_t i = 0; i < network->n_paths; i++)
		formed &= check_path(network, &network->paths[i], paths->entries[i].value, i,
				     &forms, diag);
	lh_jitter_forms_done(&forms);
	lh_index_paths(&sc->network, diag);
	lh_check_site_links(network, diag);
	return formed;
}

const struct lh_machine *lh_machine_find(const struct lh_scenario *sc, const char *name)
{
	for (size_t i = 0; i < sc->n_machines; i++)
		if (name && same_text(sc->machines[i].name, name))
			return &sc->machines[i];
	return NULL;
}

static const struct lh_profile_entry *profile_find(const struct lh_scenario *sc, const char *gpu,
						   const char *model)
{
	for (size_t i = 0; i < sc->n_profiles; i++)
		for (size_t j = 0;
		     same_text(sc->profiles[i].name, gpu) && j < sc->profiles[i].n_models; j++)
			if (same_text(sc->profiles[i].models[j].name, model))
				return &sc->profiles[i].models[j];
	return NULL;
}

static const struct lh_host_cost *host_cost_find(const struct lh_machine *m, const char *model)
{
	const struct lh_host_cost *fallback = NULL;

	for (size_t i = 0; i < m->n_host; i++) {
		if (same_text(m->host[i].name, model))
			return &m->host[i];
		if (same_text(m->host[i].name, "default"))
			fallback = &m->host[i];
	}
	return fallback;
}

/* What the machine's host costs with the model; false, with a message, where it does not say. */
static bool resolve_host(const struct lh_scenario *sc, const struct lh_node_spec *spec,
			 const char *path, struct lh_node *ret, struct lh_diag *diag)
{
	ret->host = host_cost_find(ret->machine, sc->workload.model);
	if (!ret->host)
		lh_diag_add(diag, spec->pos, path,
			    "machine '%s' has no host costs for model '%s' and no `default`",
			    spec->machine, sc->workload.model);
	return ret->host != NULL;
}

/* A node whose speed the workload says. */
static bool resolve_with_speed(struct lh_scenario *sc, const struct lh_node_spec *spec,
			       const char *path, struct lh_node *ret, struct lh_diag *diag)
{
	ret->profile = &sc->workload.speed;
	ret->micro_batch = sc->workload.micro_batch;
	return ret->machine && resolve_host(sc, spec, path, ret, diag);
}

/* Fills what a node of this kind is made of; false, with messages, where something lacks. */
static bool resolve_node_spec(struct lh_scenario *sc, size_t index, struct lh_node *ret,
			      struct lh_diag *diag)
{
	const struct lh_node_spec *spec = &sc->node_specs[index];
	const char *model = sc->workload.model;
	lh_cleanup_free char *path = lh_strf("nodes[%zu]", index);
	int site = spec->site ? lh_site_find(&sc->network, spec->site) : -1;

	if (spec->site && site < 0)
		lh_say_unknown_site(&sc->network, spec->site, spec->pos, path, diag);
	ret->spec = spec;
	ret->site = site < 0 ? 0 : (size_t)site;
	ret->machine = spec->machine ? lh_machine_find(sc, spec->machine) : NULL;
	if (spec->machine && !ret->machine && !diag->n_messages)
		lh_diag_add(diag, spec->pos, path, "no machine '%.60s' under machines",
			    spec->machine);
	if (lh_scenario_has_command(sc))
		return ret->machine && site >= 0;
	if (lh_yaml_get(lh_yaml_get(sc->tree, "workload"), "compute"))
		return resolve_with_speed(sc, spec, path, ret, diag) && site >= 0;
	if (ret->machine && !ret->machine->gpu)
		lh_diag_add(diag, spec->pos, path, "machine '%s' has no GPU, so no speed",
			    spec->machine);
	if (!ret->machine || !ret->machine->gpu || !sc->model)
		return false;
	ret->profile = profile_find(sc, ret->machine->gpu, model);
	if (!ret->profile)
		lh_diag_add(diag, spec->pos, path,
			    "profile '%s' of machine '%s' has no speed for model '%s'",
			    ret->machine->gpu, spec->machine, model);
	else if (ret->profile->variation_ratio > LH_VARIATION_MAX)
		lh_diag_add(diag, spec->pos, path,
			    "profile '%s' varies model '%s' by more than %.0f %%",
			    ret->machine->gpu, model, 100 * LH_VARIATION_MAX);
	else if (!(ret->profile->samples_per_s >= LH_SPEED_MIN &&
		   ret->profile->samples_per_s <= LH_SPEED_MAX))
		lh_diag_add(diag, spec->pos, path,
			    "profile '%s' gives model '%s' %g samples/s; expected %g to %g",
			    ret->machine->gpu, model, ret->profile->samples_per_s, LH_SPEED_MIN,
			    LH_SPEED_MAX);
	if (!resolve_host(sc, spec, path, ret, diag) || !ret->profile || site < 0)
		return false;
	ret->accumulate_ns = ret->host->accumulate_ns;
	ret->apply_ns = ret->host->apply_ns;
	ret->micro_batch =
		sc->workload.micro_batch > 0 ? sc->workload.micro_batch : ret->profile->micro_batch;
	return true;
}

/* Whether some earlier spec names the same site. */
static bool site_seen_before(const struct lh_scenario *sc, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (same_text(sc->node_specs[i].site, sc->node_specs[index].site))
			return true;
	return false;
}

/* Appends the nodes of all specs at one site, named SITE/0, SITE/1 ... */
static int add_site_nodes(struct lh_scenario *sc, const struct lh_node *kinds, const char *site)
{
	size_t number = 0;

	for (size_t i = 0; i < sc->n_node_specs; i++) {
		if (!same_text(sc->node_specs[i].site, site))
			continue;
		for (int64_t k = 0; k < sc->node_specs[i].count; k++) {
			struct lh_node *node = &sc->nodes[sc->n_nodes];

			*node = kinds[i];
			node->name = lh_strf("%s/%zu", site, number++);
			if (!node->name)
				return -1;
			sc->n_nodes++;
		}
	}
	return 0;
}

/* How many nodes stand at each site of the network; known sites only. Owned by the caller. */
static int64_t *count_nodes(const struct lh_scenario *sc)
{
	int64_t *count = calloc(sc->network.n_sites + 1, sizeof(*count));

	for (size_t i = 0; count && i < sc->n_node_specs; i++) {
		int site = lh_site_find(&sc->network, sc->node_specs[i].site);

		if (site >= 0)
			count[site] += sc->node_specs[i].count;
	}
	return count;
}

static void resolve_nodes(struct lh_scenario *sc, struct lh_diag *diag)
{
	lh_cleanup_free struct lh_node *kinds = calloc(sc->n_node_specs + 1, sizeof(*kinds));
	const struct lh_yaml *nodes = lh_yaml_get(sc->tree, "nodes");
	int64_t total = 0, n_ranks = 0;
	bool ok = kinds != NULL;

	for (size_t i = 0; kinds && i < sc->n_node_specs; i++) {
		int64_t count = sc->node_specs[i].count > 0 ? sc->node_specs[i].count : 0;

		ok &= resolve_node_spec(sc, i, &kinds[i], diag);
		total += count;
		if (kinds[i].machine && lh_check_ranks(sc, i, kinds[i].machine, diag))
			n_ranks += count * lh_ranks_of(sc, kinds[i].machine);
	}
	if (nodes && nodes->kind == LH_YAML_SEQUENCE && (total > LH_NODES_MAX || !sc->n_node_specs))
		lh_diag_add(diag, nodes->pos, "nodes", "%lld nodes; expected 1 to %d",
			    (long long)total, LH_NODES_MAX);
	else if (nodes && n_ranks > LH_RANKS_MAX)
		lh_diag_add(diag, nodes->pos, "nodes",
			    "%lld ranks, one for each GPU; expected at most %d (see "
			    "workload.ranks_per_node)",
			    (long long)n_ranks, LH_RANKS_MAX);
	if (!ok || diag->n_messages)
		return;
	sc->nodes = calloc((size_t)total, sizeof(*sc->nodes));
	for (size_t i = 0; sc->nodes && i < sc->n_node_specs; i++)
		if (!site_seen_before(sc, i) &&
		    add_site_nodes(sc, kinds, sc->node_specs[i].site) < 0)
			return;
	if (sc->nodes)
		lh_data_resolve(sc, diag);
	if (sc->nodes && lh_add_ranks(sc, (size_t)n_ranks) < 0)
		return;
}

/* Complains where two sites that both have nodes (or one with several) lack a path. */
static void check_connected(const struct lh_scenario *sc, const int64_t *count,
			    struct lh_diag *diag)
{
	const struct lh_network *net = &sc->network;
	const struct lh_yaml *nodes = lh_yaml_get(sc->tree, "nodes");

	for (size_t a = 0; a < net->n_sites; a++)
		for (size_t b = 0; b < net->n_sites; b++) {
			const char *from = net->sites[a].name, *to = net->sites[b].name;

			if (!count[a] || !count[b] || (a == b && count[a] < 2))
				continue;
			if (!lh_path_spec_at(net, a, b))
				lh_diag_add(diag, nodes->pos, "nodes",
					    "network %s has no path from %s to %s, and both have "
					    "nodes; add one under network.paths",
					    net->name ? net->name : "", from, to);
		}
}

static void check_prices(const struct lh_scenario *sc, const int64_t *count, struct lh_diag *diag)
{
	const struct lh_prices *prices = &sc->pricing.catalog;
	const struct lh_yaml *pricing = lh_yaml_get(sc->tree, "pricing");
	const struct lh_network *net = &sc->network;
	struct lh_byte_price price;
	const char *source;
	struct lh_error err = {0}, last = {0};

	if (!prices->name || !pricing)
		return;
	for (size_t a = 0; a < net->n_sites; a++)
		for (size_t b = 0; b < net->n_sites; b++) {
			if (!count[a] || !count[b] || !net->sites[a].provider ||
			    !net->sites[b].provider)
				continue;
			if (lh_egress_price_find(prices, &net->sites[a], &net->sites[b], &price,
						 &source, &err) == 0 ||
			    strcmp(err.message, last.message) == 0)
				continue;
			lh_diag_add(diag, pricing->pos, "pricing.catalog", "%s", err.message);
			last = err;
		}
	if (sc->data.store && !lh_storage_price_find(prices, sc->data.store))
		lh_diag_add(diag, lh_yaml_get(sc->tree, "data")->pos, "data.store",
			    "price catalog %s has no storage '%s'", prices->name, sc->data.store);
}

static void check_run(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_yaml *run = lh_yaml_get(sc->tree, "run");
	int64_t n_nodes = 0;

	for (size_t i = 0; i < sc->n_node_specs; i++)
		n_nodes += sc->node_specs[i].count;
	if (run && sc->run.backend == LH_BACKEND_HOST && sc->run.clock == LH_CLOCK_VIRTUAL)
		lh_diag_add(diag, run->pos, "run.backend",
			    "the host's kernel has no virtual clock; use `clock: real`, or backend "
			    "guest or auto");
	if (run && sc->run.charge_cpu && sc->run.clock == LH_CLOCK_REAL)
		lh_diag_add(diag, run->pos, "run.charge_cpu",
			    "in real time CPU time passes anyway; it is for `clock: virtual`");
	if (run && sc->run.nodes == LH_NODES_HOST && sc->run.clock == LH_CLOCK_VIRTUAL)
		lh_diag_add(diag, run->pos, "run.nodes",
			    "nodes on the host live by its clock; expected `clock: real` with "
			    "`nodes: host`");
	if (run && sc->run.nodes == LH_NODES_HOST && n_nodes > LH_HOST_NODES_MAX)
		lh_diag_add(diag, run->pos, "run.nodes",
			    "%lld nodes; expected at most %d with `nodes: host`",
			    (long long)n_nodes, LH_HOST_NODES_MAX);
}

/* Names become file names, CSV fields and host names. */
static void check_name(const char *name, struct lh_pos pos, const char *key_path,
		       struct lh_diag *diag)
{
	const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	if (name && (strspn(name, allowed) != strlen(name) || name[0] == '.' || name[0] == '-'))
		lh_diag_add(diag, pos, key_path,
			    "'%.60s' is not a name; expected letters, digits, '.', '_' and '-'",
			    name);
}

/* A TCP window never holds as much as the buffer behind it: the rest is overhead. */
static const double WINDOW_SHARE_MAX = 0.85;

/* Bytes that a stream keeps under way on a path: its window, or less where the link is full. */
static double bytes_under_way(const struct lh_network *net, const struct lh_path_spec *p)
{
	int64_t window =
		p->stream_window_bytes > 0 ? p->stream_window_bytes : net->stream_window_bytes;
	double rtt_s = (double)(p->n_between ? p->rtt_ns : 2 * p->delay_ns) / 1e9;
	double bdp = (double)p->bandwidth_bps / 8 * rtt_s;

	return window > 0 && (double)window < bdp ? (double)window : bdp;
}

/* The largest window that a stream on a path in use can make use of, of those that are set. */
static double largest_window(const struct lh_scenario *sc, const int64_t *count)
{
	const struct lh_network *net = &sc->network;
	double largest = 0;

	for (size_t i = 0; i < net->n_paths; i++) {
		const struct lh_path_spec *p = &net->paths[i];
		int from = lh_site_find(net, p->n_between ? p->between[0] : p->from);
		int to = lh_site_find(net, p->n_between > 1 ? p->between[1] : p->to);

		if (from < 0 || to < 0 || !count[from] || !count[to] ||
		    (p->stream_window_bytes <= 0 && net->stream_window_bytes <= 0))
			continue;
		if (bytes_under_way(net, p) > largest)
			largest = bytes_under_way(net, p);
	}
	return largest;
}

/* Complains where a machine's buffers would bound the window before the network does. */
static void check_windows(const struct lh_scenario *sc, const int64_t *count, struct lh_diag *diag)
{
	double needed = largest_window(sc, count) / WINDOW_SHARE_MAX;

	for (size_t i = 0; i < sc->n_node_specs; i++) {
		const struct lh_machine *m = lh_machine_find(sc, sc->node_specs[i].machine);
		lh_cleanup_free char *path = lh_strf("nodes[%zu].machine", i);

		if (m && m->tcp.congestion_control &&
		    ((double)m->tcp.rmem_max_bytes < needed ||
		     (double)m->tcp.wmem_max_bytes < needed))
			lh_diag_add(diag, sc->node_specs[i].pos, path,
				    "the TCP buffers of machine '%s' do not hold the network's "
				    "stream_window; set tcp.rmem_max and tcp.wmem_max to at least "
				    "%.0f B",
				    m->name, ceil(needed));
	}
}

static void check_names(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_yaml *name = lh_yaml_get(sc->tree, "name");
	const struct lh_yaml *sites = lh_yaml_get(lh_yaml_get(sc->tree, "network"), "sites");
	const struct lh_yaml *machines = lh_yaml_get(sc->tree, "machines");

	if (name)
		check_name(sc->name, name->pos, "name", diag);
	for (size_t i = 0; sites && i < sites->n_entries; i++)
		check_name(sites->entries[i].key, sites->entries[i].key_pos, "network.sites", diag);
	for (size_t i = 0; machines && i < machines->n_entries; i++)
		check_name(machines->entries[i].key, machines->entries[i].key_pos, "machines",
			   diag);
}

static void check_command(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_yaml *run = lh_yaml_get(sc->tree, "run");
	bool has_command = lh_scenario_has_command(sc);

	if (has_command && !sc->workload.n_command && !diag->n_messages)
		lh_diag_add(diag, lh_yaml_get(sc->tree, "workload")->pos, "workload.command",
			    "is empty; expected a program and its arguments");
	if (run && !has_command && sc->run.probe == LH_PROBE_NONE)
		lh_diag_add(diag, run->pos, "run.probe",
			    "trainers run in networks that were measured; `none` is for a "
			    "workload with a command");
}

static void resolve_model(struct lh_scenario *sc, struct lh_diag *diag)
{
	if (lh_scenario_has_command(sc))
		return;
	for (size_t i = 0; i < sc->n_models; i++)
		if (same_text(sc->models[i].name, sc->workload.model))
			sc->model = &sc->models[i];
	if (!sc->model && !diag->n_messages)
		lh_diag_add(diag, lh_yaml_get(sc->tree, "workload")->pos, "workload.model",
			    "no model '%.60s' under models", sc->workload.model);
}

void lh_scenario_check(struct lh_scenario *sc, struct lh_diag *diag)
{
	lh_cleanup_free int64_t *count = count_nodes(sc);

	if (!count)
		return;
	check_names(sc, diag);
	check_run(sc, diag);
	check_command(sc, diag);
	lh_strategy_check(sc, diag);
	lh_progress_check(sc, diag);
	lh_train_check(sc, diag);
	resolve_model(sc, diag);
	if (check_network(sc, diag))
		check_connected(sc, count, diag);
	lh_timeline_check(sc, count, diag);
	check_windows(sc, count, diag);
	check_prices(sc, count, diag);
	lh_data_check(sc, count, diag);
	resolve_nodes(sc, diag);
	lh_capture_check(sc, diag);
	lh_churn_check(sc, diag);
}
