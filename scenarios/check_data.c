/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where data lie: checks of it, and what follows for the nodes. The plan of an elastic strategy is
 * made in elastic.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/shares.h"
#include "core/yaml.h"
#include "scenarios/check.h"
#include "scenarios/check_internal.h"
#include "scenarios/elastic.h"

static const double SUM_TOLERANCE = 1e-6; /* of shares, which are written with few digits */

static bool is_named_before(const struct lh_data_spec *data, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (data->at[i].site && data->at[index].site &&
		    strcmp(data->at[i].site, data->at[index].site) == 0)
			return true;
	return false;
}

/* The share of a site by its index, 0 where none of the data lie there. */
static double share_of(const struct lh_scenario *sc, size_t site)
{
	for (size_t i = 0; i < sc->data.n_at; i++)
		if (lh_site_find(&sc->network, sc->data.at[i].site) == (int)site)
			return sc->data.at[i].share_ratio;
	return 0;
}

static void check_place(const struct lh_scenario *sc, size_t index, const int64_t *count,
			struct lh_diag *diag)
{
	const struct lh_data_at *at = &sc->data.at[index];
	lh_cleanup_free char *path = lh_strf("data.at[%zu].site", index);
	int site = lh_site_find(&sc->network, at->site);

	if (!at->site || !path)
		return;
	if (site < 0)
		lh_say_unknown_site(&sc->network, at->site, at->pos, path, diag);
	else if (!count[site])
		lh_diag_add(diag, at->pos, path, "site '%s' has data and no nodes", at->site);
	else if (is_named_before(&sc->data, index))
		lh_diag_add(diag, at->pos, path, "site '%s' stands there twice", at->site);
}

static void check_shares(const struct lh_scenario *sc, const int64_t *count,
			 const struct lh_yaml *written, struct lh_diag *diag)
{
	double sum = 0;

	for (size_t i = 0; i < sc->data.n_at; i++)
		sum += sc->data.at[i].share_ratio;
	if (fabs(sum - 1) > SUM_TOLERANCE)
		lh_diag_add(diag, written->pos, "data.at",
			    "shares of %.6g %% in all; expected 100 %%", 100 * sum);
	for (size_t s = 0; s < sc->network.n_sites; s++)
		if (count[s] && !share_of(sc, s) && !sc->workload.strategy.elastic)
			lh_diag_add(diag, written->pos, "data.at",
				    "site '%s' has nodes and no data; expected a share for it, or "
				    "workload.strategy.elastic: true, which releases them",
				    sc->network.sites[s].name);
}

void lh_data_check(const struct lh_scenario *sc, const int64_t *count, struct lh_diag *diag)
{
	const struct lh_yaml *at = lh_yaml_get(lh_yaml_get(sc->tree, "data"), "at");
	const struct lh_yaml *workload = lh_yaml_get(sc->tree, "workload");
	const struct lh_yaml *elastic = lh_yaml_get(lh_yaml_get(workload, "strategy"), "elastic");
	const char *kind = sc->workload.strategy.kind;
	size_t n_messages = diag->n_messages;

	if (sc->workload.strategy.elastic && !sc->data.n_at)
		lh_diag_add(diag, elastic ? elastic->pos : workload->pos,
			    "workload.strategy.elastic",
			    "nodes are matched to where data lie; expected data: {at: [{site: ..., "
			    "share: 60 %%}, ...]}");
	if (!at)
		return;
	if (!kind || strcmp(kind, "parameter-server") != 0) {
		lh_diag_add(diag, at->pos, "data.at",
			    "strategy %s takes samples from anywhere; expected it absent, or "
			    "strategy: {kind: parameter-server}",
			    kind ? kind : "of a command");
		return;
	}
	if (sc->workload.train.data.skew > 0)
		lh_diag_add(diag, at->pos, "data.at",
			    "lie by given shares, and workload.train.data.skew would deal them "
			    "otherwise; expected one of both");
	for (size_t i = 0; i < sc->data.n_at; i++)
		check_place(sc, i, count, diag);
	if (diag->n_messages == n_messages)
		check_shares(sc, count, at, diag);
}

/* Wall-clock speed of one node alone, all its ranks together. */
static double speed_of(const struct lh_scenario *sc, const struct lh_node *node)
{
	double samples = (double)node->micro_batch;
	double pass_s = samples / node->profile->samples_per_s + (double)node->accumulate_ns * 1e-9;

	return samples / pass_s * (double)lh_ranks_of(sc, node->machine);
}

/* By the price that summaries use; -1: not known. */
static int64_t price_of(const struct lh_scenario *sc, const struct lh_node *node)
{
	const char *site = sc->network.sites[node->site].name;
	const struct lh_vm_price *price =
		sc->pricing.catalog.name
			? lh_vm_price_find(&sc->pricing.catalog, node->machine->name, site)
			: NULL;

	if (!price)
		return -1;
	return sc->pricing.vm == LH_VM_SPOT ? price->spot_usd_micro_per_h
					    : price->on_demand_usd_micro_per_h;
}

/* The kind of a node among those of its site: nodes of one machine are alike. */
static size_t kind_of(const struct lh_scenario *sc, size_t index)
{
	size_t kind = 0;

	for (size_t i = 0; i < index; i++) {
		bool is_new = sc->nodes[i].site == sc->nodes[index].site;

		if (is_new && sc->nodes[i].machine == sc->nodes[index].machine)
			return kind_of(sc, i);
		for (size_t j = 0; is_new && j < i; j++)
			is_new = sc->nodes[j].site != sc->nodes[i].site ||
				 sc->nodes[j].machine != sc->nodes[i].machine;
		kind += is_new;
	}
	return kind;
}

/* False where a site has more kinds of nodes than a plan takes. */
static bool describe_sites(const struct lh_scenario *sc, struct lh_elastic_site *sites,
			   struct lh_diag *diag)
{
	const struct lh_yaml *nodes = lh_yaml_get(sc->tree, "nodes");
	bool has_prices = true;

	for (size_t i = 0; i < sc->n_nodes; i++)
		has_prices &= price_of(sc, &sc->nodes[i]) >= 0;
	for (size_t i = 0; i < sc->n_nodes; i++) {
		const struct lh_node *node = &sc->nodes[i];
		struct lh_elastic_site *site = &sites[node->site];
		size_t k = kind_of(sc, i);

		if (k == LH_ELASTIC_KINDS_MAX) {
			lh_diag_add(diag, nodes->pos, "nodes",
				    "more than %d machine types at site '%s'; an elastic strategy "
				    "chooses among fewer",
				    LH_ELASTIC_KINDS_MAX, sc->network.sites[node->site].name);
			return false;
		}
		site->n_kinds = k + 1 > site->n_kinds ? k + 1 : site->n_kinds;
		site->kinds[k].n_nodes++;
		site->kinds[k].samples_per_s = speed_of(sc, node);
		site->kinds[k].price = has_prices ? price_of(sc, node) : 0;
	}
	for (size_t s = 0; s < sc->network.n_sites; s++)
		sites[s].samples = share_of(sc, s);
	return true;
}

/* Moves what no site needs from nodes to released: the last ones of a kind. */
static int release(struct lh_scenario *sc, struct lh_elastic_site *sites)
{
	lh_cleanup_free size_t *kinds = calloc(sc->n_nodes, sizeof(*kinds));
	size_t kept = 0;

	sc->released = calloc(sc->n_nodes, sizeof(*sc->released));
	if (!kinds || !sc->released)
		return -1;
	for (size_t i = 0; i < sc->n_nodes; i++)
		kinds[i] = kind_of(sc, i);
	for (size_t i = 0; i < sc->n_nodes; i++) {
		size_t *needed = &sites[sc->nodes[i].site].needed[kinds[i]];

		if (*needed) {
			--*needed;
			sc->nodes[kept++] = sc->nodes[i];
		} else {
			sc->released[sc->n_released++] = sc->nodes[i];
		}
	}
	sc->n_nodes = kept;
	return 0;
}

static void release_surplus(struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_yaml *at = lh_yaml_get(lh_yaml_get(sc->tree, "data"), "at");
	lh_cleanup_free struct lh_elastic_site *sites = calloc(sc->network.n_sites, sizeof(*sites));
	struct lh_error err = {0};
	double time_s;

	if (!sites || !describe_sites(sc, sites, diag))
		return;
	if (lh_elastic_plan(sites, sc->network.n_sites, &time_s, &err) || release(sc, sites))
		lh_diag_add(diag, at->pos, "data.at", "%s",
			    *err.message ? err.message : "out of memory");
}

/* Each rank must get a micro-batch at least, as the trainer shares the target batch out. */
static void check_target(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_yaml *workload = lh_yaml_get(sc->tree, "workload");
	lh_cleanup_free struct lh_share *shares = calloc(LH_RANKS_MAX, sizeof(*shares));
	size_t n = 0;

	for (size_t i = 0; shares && i < sc->n_nodes; i++) {
		const struct lh_node *node = &sc->nodes[i];
		int64_t n_ranks = lh_ranks_of(sc, node->machine);

		for (int64_t k = 0; k < n_ranks && n < LH_RANKS_MAX; k++) {
			shares[n].weight = sc->data.n_at ? node->target_ratio / (double)n_ranks
							 : node->profile->samples_per_s;
			shares[n++].micro_batch = (uint32_t)node->micro_batch;
		}
	}
	if (n)
		lh_shares_compute(shares, n, (uint64_t)sc->workload.target_batch);
	for (size_t i = 0; i < n; i++)
		if (!shares[i].micro_batches) {
			lh_diag_add(diag, lh_yaml_get(workload, "target_batch")->pos,
				    "workload.target_batch",
				    "leaves less than a micro-batch of %lld to rank %zu; expected "
				    "more, or a smaller workload.micro_batch",
				    (long long)shares[i].micro_batch, i);
			return;
		}
}

static void set_ratios(struct lh_scenario *sc)
{
	for (size_t i = 0; i < sc->n_nodes; i++) {
		double speed = 0;

		for (size_t j = 0; j < sc->n_nodes; j++)
			if (sc->nodes[j].site == sc->nodes[i].site)
				speed += speed_of(sc, &sc->nodes[j]);
		sc->nodes[i].target_ratio =
			share_of(sc, sc->nodes[i].site) * speed_of(sc, &sc->nodes[i]) / speed;
	}
}

void lh_data_resolve(struct lh_scenario *sc, struct lh_diag *diag)
{
	const char *kind = sc->workload.strategy.kind;

	if (!sc->n_nodes || diag->n_messages || !kind || strcmp(kind, "parameter-server") != 0)
		return;
	if (sc->workload.strategy.elastic)
		release_surplus(sc, diag);
	if (sc->data.n_at)
		set_ratios(sc);
	check_target(sc, diag);
}
