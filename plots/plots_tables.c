/* SPDX-License-Identifier: Apache-2.0 */
/* Data of the figures drawn from epochs.csv and cost.csv. See plots_internal.h. */
#include <math.h>
#include <string.h>

#include "collect/table.h"
#include "plots/plots_internal.h"

enum { COST_ITEMS_MAX = 8, COST_SCOPES_MAX = 2, NAME_MAX_CHARS = 64 };

static void put_cell(FILE *data, double value, int decimals, char end)
{
	char buf[400];

	fprintf(data, "%s%c", lh_number_format(value, decimals, buf, sizeof(buf)), end);
}

/* Reads the current row's named numbers. */
static int read_reals(const struct lh_csv *csv, const char *const *names, size_t n, double *ret,
		      struct lh_error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = lh_csv_real(csv, lh_csv_find(csv, names[i]), &ret[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Keeps the range of epochs and writes it at the end. Programs may number theirs by tens. */
struct range {
	double first;
	double last;
	size_t n;
};

static void add_to_range(struct range *range, double epoch)
{
	range->first = range->n++ ? range->first : epoch;
	range->last = epoch;
}

static void put_range(FILE *head, const struct range *range)
{
	fprintf(head, "first_epoch = %.0f\nlast_epoch = %.0f\nn_epochs = %zu\n", range->first,
		range->last, range->n);
	lh_plot_put_real(head, "epoch_step",
			 range->n > 1 ? (range->last - range->first) / (double)(range->n - 1) : 1);
}

int lh_plot_throughput_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			       struct lh_error *err)
{
	static const char *const names[] = {"epoch", "throughput_sps", "local_sps"};
	lh_cleanup_csv struct lh_csv csv = {0};
	struct range range = {NAN, NAN, 0};
	bool has_group = false, has_local = false;
	double v[3];
	int r = lh_plot_csv_open(run, "epochs.csv", &csv, err);

	if (r <= 0)
		return r;
	fputs("epoch,throughput_sps,local_sps,speedup\n", data);
	while ((r = lh_csv_next(&csv, err)) > 0) {
		r = read_reals(&csv, names, 3, v, err);
		if (r < 0)
			return r;
		add_to_range(&range, v[0]);
		put_cell(data, v[0], 0, ',');
		put_cell(data, v[1], 3, ',');
		put_cell(data, v[2], 3, ',');
		put_cell(data, v[1] / run->baseline_sps, 4, '\n');
		has_group |= !isnan(v[1]);
		has_local |= !isnan(v[2]);
	}
	if (r < 0 || !has_group)
		return r;
	fprintf(head, "has_local = %d\n", has_local);
	put_range(head, &range);
	lh_plot_put_real(head, "baseline", run->baseline_sps);
	lh_plot_put_real(head, "published", run->published_throughput_sps);
	return 1;
}

int lh_plot_time_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			 struct lh_error *err)
{
	static const char *const names[] = {"epoch",  "calculation_s", "wait_s",
					    "host_s", "transfer_s",    "apply_s",
					    "wall_s", "granularity",   "communication_s"};
	enum { EPOCH, CALCULATION, WAIT, HOST, TRANSFER, APPLY, WALL, GRANULARITY, COMM, N };
	lh_cleanup_csv struct lh_csv csv = {0};
	struct range range = {NAN, NAN, 0};
	bool has_parts = false, has_whole = false;
	double v[N];
	int r = lh_plot_csv_open(run, "epochs.csv", &csv, err);

	if (r <= 0)
		return r;
	fputs("epoch,calculation_s,wait_s,host_s,transfer_s,apply_s,other_s,wall_s,granularity,"
	      "communication_s\n",
	      data);
	while ((r = lh_csv_next(&csv, err)) > 0) {
		double other;

		r = read_reals(&csv, names, N, v, err);
		if (r < 0)
			return r;
		add_to_range(&range, v[EPOCH]);
		other = v[WALL];
		put_cell(data, v[EPOCH], 0, ',');
		for (int i = CALCULATION; i <= APPLY; i++) {
			put_cell(data, v[i], 6, ',');
			other -= isnan(v[i]) ? 0 : v[i];
		}
		has_parts |= !isnan(v[TRANSFER]);
		/* a program tells its communication as one */
		if (isnan(v[TRANSFER]) && !isnan(v[COMM])) {
			has_whole = true;
			other -= v[COMM];
		} else {
			v[COMM] = NAN;
		}
		put_cell(data, other > 0 ? other : 0, 6, ',');
		put_cell(data, v[WALL], 6, ',');
		put_cell(data, v[GRANULARITY], 4, ',');
		put_cell(data, v[COMM], 6, '\n');
	}
	if (r < 0 || (!has_parts && !has_whole))
		return r;
	fprintf(head, "has_parts = %d\nhas_whole = %d\n", has_parts, has_whole);
	put_range(head, &range);
	return 1;
}

/* USD per hour by scope and item. */
struct costs {
	char items[COST_ITEMS_MAX][NAME_MAX_CHARS];
	size_t n_items;
	char scopes[COST_SCOPES_MAX][NAME_MAX_CHARS];
	size_t n_scopes;
	double usd_per_hour[COST_SCOPES_MAX][COST_ITEMS_MAX];
	double total[COST_SCOPES_MAX]; /* NaN: the scope is not complete */
};

/* The index of name among the n so far, added where it is new and there is room; else -1. */
static int name_index(char (*names)[NAME_MAX_CHARS], size_t *n, size_t max, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	if (*n == max)
		return -1;
	snprintf(names[*n], NAME_MAX_CHARS, "%s", name);
	return (int)(*n)++;
}

/* How an item is called in the legend. */
static void item_name(const char *item, const char *class, char *name)
{
	if (strcmp(item, "vm") == 0)
		snprintf(name, NAME_MAX_CHARS, "VMs");
	else if (strcmp(item, "egress") == 0)
		snprintf(name, NAME_MAX_CHARS, "egress: %.40s", class);
	else
		snprintf(name, NAME_MAX_CHARS, "loading data");
	for (char *p = name; *p; p++)
		if (*p == ',' || *p == '"')
			*p = ' ';
}

static int add_cost(const struct lh_csv *csv, struct costs *costs, struct lh_error *err)
{
	enum { SCOPE, ITEM, CLASS, USD_PER_HOUR, N };
	static const char *const names[N] = {"scope", "item", "class", "usd_per_hour"};
	char name[NAME_MAX_CHARS];
	int columns[N], scope, item, r = lh_csv_find_all(csv, names, N, columns, err);
	double value;

	if (r == 0)
		r = lh_csv_real(csv, columns[USD_PER_HOUR], &value, err);
	if (r < 0)
		return r;
	scope = name_index(costs->scopes, &costs->n_scopes, COST_SCOPES_MAX,
			   csv->cells[columns[SCOPE]]);
	if (scope < 0 || isnan(value))
		return 0;
	if (strcmp(csv->cells[columns[ITEM]], "total") == 0) {
		costs->total[scope] = value;
		return 0;
	}
	item_name(csv->cells[columns[ITEM]], csv->cells[columns[CLASS]], name);
	item = value > 0 ? name_index(costs->items, &costs->n_items, COST_ITEMS_MAX, name) : -1;
	if (item >= 0)
		costs->usd_per_hour[scope][item] += value;
	return 0;
}

static void put_costs(FILE *data, const struct costs *costs)
{
	fputs("scope", data);
	for (size_t i = 0; i < costs->n_items; i++)
		fprintf(data, ",%s", costs->items[i]);
	fputs(",total\n", data);
	for (size_t s = 0; s < costs->n_scopes; s++) {
		if (isnan(costs->total[s]))
			continue;
		fprintf(data, "%s,", costs->scopes[s]);
		for (size_t i = 0; i < costs->n_items; i++)
			put_cell(data, costs->usd_per_hour[s][i], 6, ',');
		put_cell(data, costs->total[s], 6, '\n');
	}
}

int lh_plot_cost_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			 struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	struct costs costs = {.total = {NAN, NAN}};
	int n_complete = 0, r = lh_plot_csv_open(run, "cost.csv", &csv, err);

	if (r <= 0)
		return r;
	while ((r = lh_csv_next(&csv, err)) > 0)
		if ((r = add_cost(&csv, &costs, err)) < 0)
			break;
	if (r < 0)
		return r;
	for (size_t s = 0; s < costs.n_scopes; s++)
		n_complete += !isnan(costs.total[s]);
	if (!n_complete || !costs.n_items)
		return 0;
	put_costs(data, &costs);
	fprintf(head, "n_items = %zu\nn_scopes = %d\n", costs.n_items, n_complete);
	lh_plot_put_real(head, "per_million", run->wall_s / 3600 / run->samples * 1e6);
	return 1;
}
