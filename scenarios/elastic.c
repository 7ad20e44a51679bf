/* SPDX-License-Identifier: Apache-2.0 */
/* Elastic scheduling. See elastic.h. */
#include "scenarios/elastic.h"

#include <stdbool.h>
#include <string.h>

/* Sums of speeds are as good as what they are compared with but for rounding. */
static const double SPEED_TOLERANCE = 1e-9;

/* A set of a site's nodes, by kind. */
struct set {
	size_t n[LH_ELASTIC_KINDS_MAX];
	size_t n_nodes;
	double samples_per_s;
	int64_t price;
};

static double speed_of_all(const struct lh_elastic_site *site)
{
	double speed = 0;

	for (size_t k = 0; k < site->n_kinds; k++)
		speed += (double)site->kinds[k].n_nodes * site->kinds[k].samples_per_s;
	return speed;
}

static bool is_better(const struct set *a, const struct set *b)
{
	if (a->price != b->price)
		return a->price < b->price;
	if (a->n_nodes != b->n_nodes)
		return a->n_nodes < b->n_nodes;
	return a->samples_per_s < b->samples_per_s;
}

static void sum_up(const struct lh_elastic_site *site, struct set *set)
{
	set->n_nodes = 0;
	set->samples_per_s = 0;
	set->price = 0;
	for (size_t k = 0; k < site->n_kinds; k++) {
		set->n_nodes += set->n[k];
		set->samples_per_s += (double)set->n[k] * site->kinds[k].samples_per_s;
		set->price += (int64_t)set->n[k] * site->kinds[k].price;
	}
}

/* The next set in the order of an odometer; false after the last. */
static bool next_set(const struct lh_elastic_site *site, struct set *set)
{
	for (size_t k = 0; k < site->n_kinds; k++) {
		if (set->n[k]++ < site->kinds[k].n_nodes)
			return true;
		set->n[k] = 0;
	}
	return false;
}

/* The best set that is fast enough; there is one, all nodes. */
static void choose(struct lh_elastic_site *site, double samples_per_s)
{
	struct set best = {0}, set = {0};
	double enough = samples_per_s * (1 - SPEED_TOLERANCE);

	for (size_t k = 0; k < site->n_kinds; k++)
		best.n[k] = site->kinds[k].n_nodes;
	sum_up(site, &best);
	do {
		sum_up(site, &set);
		if (set.samples_per_s >= enough && is_better(&set, &best))
			best = set;
	} while (next_set(site, &set));
	memcpy(site->needed, best.n, sizeof(best.n));
}

int lh_elastic_plan(struct lh_elastic_site *sites, size_t n_sites, double *ret_time_s,
		    struct lh_error *err)
{
	double time_s = 0;

	for (size_t i = 0; i < n_sites; i++) {
		double speed = speed_of_all(&sites[i]);

		if (sites[i].samples <= 0)
			continue;
		if (speed <= 0)
			return lh_fail(err, LH_EINPUT, 0, "site %zu has data and no nodes", i);
		if (sites[i].samples / speed > time_s)
			time_s = sites[i].samples / speed;
	}
	if (time_s <= 0)
		return lh_fail(err, LH_EINPUT, 0, "no site has data");
	for (size_t i = 0; i < n_sites; i++)
		choose(&sites[i], sites[i].samples / time_s);
	*ret_time_s = time_s;
	return 0;
}
