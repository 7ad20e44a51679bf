/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of a run. See cost.h. */
#include "collect/cost.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/cleanup.h"

#define NS_PER_HOUR INT64_C(3600000000000)
#define GB INT64_C(1000000000)
#define USD_MICRO 1e6

static const struct lh_column columns_of_cost[] = {
	{"scope", "scope", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"node", "node", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"site", "site", LH_CELL_TEXT, 0, 0, 7},
	{"item", "item", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"class", "class", LH_CELL_TEXT, 0, 0, 2},
	{"quantity", "quantity", LH_CELL_REAL, 9, 3, 4},
	{"unit", "unit", LH_CELL_TEXT, 0, 0, 4},
	{"price", "price", LH_CELL_REAL, 6, 4, 5},
	{"price_unit", "price unit", LH_CELL_TEXT, 0, 0, 5},
	{"usd_micro", "micro-USD", LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"usd_per_hour", "USD/h", LH_CELL_REAL, 6, 4, LH_COLUMN_KEEP},
	{"usd_per_million_samples", "USD/M samples", LH_CELL_REAL, 6, 4, LH_COLUMN_KEEP},
	{"source", "source", LH_CELL_TEXT, 0, 0, LH_COLUMN_HIDE},
};

/* One row before it is written. */
struct row {
	const char *node;
	const char *site;
	const char *item;
	const char *class;
	double quantity;
	const char *unit;
	double price;
	const char *price_unit;
	int64_t usd_micro; /* -1: does not fit */
	const char *source;
};

/* The work in hand. */
struct bill {
	const struct lh_scenario *sc;
	const struct lh_cost_usage *usage;
	struct lh_cost *cost;
	int scope;
	struct lh_error *err;
};

const char *lh_cost_scope_name(int scope)
{
	return scope == LH_VM_SPOT ? "spot" : "on-demand";
}

/* a x b / whole, rounded half up, of non-negative numbers; -1 where it does not fit. */
static int64_t scale_half_up(int64_t a, int64_t b, int64_t whole)
{
	__extension__ typedef __int128 wide;
	wide product = (wide)a * b;
	wide quotient = product / whole;

	if (product % whole >= (wide)whole - product % whole)
		quotient++;
	return quotient > INT64_MAX ? -1 : (int64_t)quotient;
}

int64_t lh_cost_of_time(int64_t usd_micro_per_h, int64_t time_ns)
{
	return scale_half_up(usd_micro_per_h, time_ns, NS_PER_HOUR);
}

int64_t lh_cost_of_bytes(const struct lh_byte_price *price, int64_t bytes)
{
	return scale_half_up(price->usd_micro, bytes, price->per_bytes);
}

static double per_hour(const struct bill *bill, int64_t usd_micro)
{
	return (double)usd_micro / USD_MICRO * (double)NS_PER_HOUR / (double)bill->usage->wall_ns;
}

/* A million samples and a million micro-dollars to the dollar cancel out. */
static double per_million_samples(const struct bill *bill, int64_t usd_micro)
{
	if (bill->usage->samples < 0)
		return NAN;
	return (double)usd_micro / (double)bill->usage->samples;
}

/* Writes the row and adds it to sum, which belongs to the scope, and to the total. */
static int add_row(struct bill *bill, const struct row *row, int64_t *sum)
{
	struct lh_table *table = &bill->cost->table;

	if (row->usd_micro < 0 || row->usd_micro > INT64_MAX / 4 ||
	    bill->cost->scopes[bill->scope].total_usd_micro > INT64_MAX / 4)
		return lh_fail(bill->err, LH_EINPUT, 0, "the cost of %s %s does not fit",
			       row->node ? row->node : "all nodes", row->item);
	lh_table_row(table);
	lh_table_put_text(table, lh_cost_scope_name(bill->scope));
	lh_table_put_text(table, row->node);
	lh_table_put_text(table, row->site);
	lh_table_put_text(table, row->item);
	lh_table_put_text(table, row->class);
	lh_table_put_real(table, row->quantity);
	lh_table_put_text(table, row->unit);
	lh_table_put_real(table, row->price);
	lh_table_put_text(table, row->price_unit);
	lh_table_put_int(table, row->usd_micro);
	lh_table_put_real(table, per_hour(bill, row->usd_micro));
	lh_table_put_real(table, per_million_samples(bill, row->usd_micro));
	lh_table_put_text(table, row->source);
	if (sum) {
		*sum += row->usd_micro;
		bill->cost->scopes[bill->scope].total_usd_micro += row->usd_micro;
	}
	return 0;
}

static int add_vm(struct bill *bill, size_t node_index)
{
	const struct lh_node *node = &bill->sc->nodes[node_index];
	const struct lh_site *site = &bill->sc->network.sites[node->site];
	const struct lh_vm_price *vm =
		lh_vm_price_find(&bill->sc->pricing.catalog, node->machine->name, site->name);
	struct lh_cost_sum *sum = &bill->cost->scopes[bill->scope];
	struct row row = {.node = node->name,
			  .site = site->name,
			  .item = "vm",
			  .unit = "h",
			  .price_unit = "USD/h"};
	int64_t away_ns = bill->usage->away_ns ? bill->usage->away_ns[node_index] : 0;
	int64_t there_ns = bill->usage->wall_ns - away_ns;
	int64_t price = -1;

	if (vm)
		price = bill->scope == LH_VM_SPOT ? vm->spot_usd_micro_per_h
						  : vm->on_demand_usd_micro_per_h;
	if (price < 0) {
		sum->is_complete = false;
		lh_notes_add(&bill->cost->notes,
			     "no %s price for machine %s at %s in price list %s: the %s total is "
			     "left out",
			     lh_cost_scope_name(bill->scope), node->machine->name, site->name,
			     bill->sc->pricing.catalog.name, lh_cost_scope_name(bill->scope));
		return 0;
	}
	row.quantity = (double)there_ns / (double)NS_PER_HOUR;
	row.price = (double)price / USD_MICRO;
	row.usd_micro = lh_cost_of_time(price, there_ns);
	row.source = vm->source;
	return add_row(bill, &row, &sum->vm_usd_micro);
}

/* Fills what a row says of bytes at a price, in the unit that they are billed in. */
static void set_bytes(struct row *row, const struct lh_byte_price *price, int64_t bytes)
{
	bool is_gib = price->per_bytes == INT64_C(1) << 30;

	row->quantity = (double)bytes / (double)price->per_bytes;
	row->unit = is_gib ? "GiB" : "GB";
	row->price = (double)price->usd_micro / USD_MICRO;
	row->price_unit = is_gib ? "USD/GiB" : "USD/GB";
	row->usd_micro = lh_cost_of_bytes(price, bytes);
}

/* What a node sent within one class, and the price of it. */
struct egress {
	bool is_used;
	int64_t bytes;
	struct lh_byte_price price;
	const char *source;
};

/* Adds what one node sent to another to the class of that pair. */
static void add_egress_bytes(struct bill *bill, size_t from, size_t to, struct egress *classes)
{
	const struct lh_site *sites = bill->sc->network.sites;
	const struct lh_site *a = &sites[bill->sc->nodes[from].site];
	const struct lh_site *b = &sites[bill->sc->nodes[to].site];
	struct egress *egress =
		&classes[from == to ? LH_EGRESS_INSIDE_NODE : lh_egress_class_of(a, b)];
	int64_t bytes = bill->usage->wire_bytes[from * bill->sc->n_nodes + to];
	struct lh_error unpriced = {0};

	if (!bytes)
		return;
	if (from == to) {
		egress->is_used = true;
		egress->bytes += bytes;
		egress->price = (struct lh_byte_price){0, GB};
		egress->source = "inside a node: nothing charged";
		return;
	}
	if (lh_egress_price_find(&bill->sc->pricing.catalog, a, b, &egress->price, &egress->source,
				 &unpriced) < 0) {
		bill->cost->scopes[bill->scope].is_complete = false;
		lh_notes_add(&bill->cost->notes, "%s: totals are left out", unpriced.message);
		return;
	}
	egress->is_used = true;
	egress->bytes += bytes;
}

static int add_egress(struct bill *bill, size_t from)
{
	const struct lh_node *node = &bill->sc->nodes[from];
	struct lh_cost_sum *sum = &bill->cost->scopes[bill->scope];
	struct egress classes[LH_N_EGRESS_CLASSES] = {0};

	if (!bill->usage->wire_bytes)
		return 0;
	for (size_t to = 0; to < bill->sc->n_nodes; to++)
		add_egress_bytes(bill, from, to, classes);
	for (int c = 0; c < LH_N_EGRESS_CLASSES; c++) {
		struct row row = {.node = node->name,
				  .item = "egress",
				  .site = bill->sc->network.sites[node->site].name};
		int r;

		if (!classes[c].is_used)
			continue;
		row.class = lh_egress_class_name((enum lh_egress_class)c);
		set_bytes(&row, &classes[c].price, classes[c].bytes);
		row.source = classes[c].source;
		r = add_row(bill, &row, &sum->egress_usd_micro);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Samples that a row of loading stands for; -1: none of this node. Where it is not known which
 * node loaded what, the first one's row stands for all. */
static int64_t samples_loaded(const struct bill *bill, size_t node_index)
{
	if (bill->usage->node_samples)
		return bill->usage->node_samples[node_index];
	return node_index == 0 ? bill->usage->samples : -1;
}

static int add_data(struct bill *bill, size_t node_index)
{
	const struct lh_scenario *sc = bill->sc;
	const struct lh_node *node = &sc->nodes[node_index];
	struct lh_cost_sum *sum = &bill->cost->scopes[bill->scope];
	int64_t each = sc->model ? sc->model->bytes_per_sample : sc->workload.bytes_per_sample;
	int64_t samples = samples_loaded(bill, node_index), bytes;
	const struct lh_storage_price *store;
	struct row row = {.item = "data"};

	if (!sc->data.store)
		return 0;
	if (bill->usage->samples < 0 || each <= 0) {
		sum->is_complete = false;
		lh_notes_add(&bill->cost->notes,
			     "how much was loaded from %s is not known: totals are left out",
			     sc->data.store);
		return 0;
	}
	if (samples < 0)
		return 0;
	store = lh_storage_price_find(&sc->pricing.catalog, sc->data.store);
	if (!store)
		return lh_fail(bill->err, LH_EINPUT, 0,
			       "no storage price for '%s' in price list %s", sc->data.store,
			       sc->pricing.catalog.name);
	if (__builtin_mul_overflow(samples, each, &bytes))
		return lh_fail(bill->err, LH_EINPUT, 0, "the data that %s loads does not fit",
			       node->name);
	if (bill->usage->node_samples) {
		row.node = node->name;
		row.site = sc->network.sites[node->site].name;
	}
	row.class = store->name;
	set_bytes(&row, &store->egress, bytes);
	row.source = store->source;
	return add_row(bill, &row, &sum->data_usd_micro);
}

/* The rows of one scope and, where nothing is missing, its total. */
static int add_scope(struct bill *bill)
{
	struct lh_cost_sum *sum = &bill->cost->scopes[bill->scope];
	struct row total = {.item = "total", .quantity = NAN, .price = NAN};
	static int (*const items[])(struct bill * bill, size_t node) = {add_vm, add_egress,
									add_data};

	sum->is_complete = bill->usage->wire_bytes || bill->sc->n_nodes == 1;
	sum->total_usd_per_hour = NAN;
	sum->total_usd_per_million_samples = NAN;
	for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++)
		for (size_t n = 0; n < bill->sc->n_nodes; n++) {
			int r = items[i](bill, n);

			if (r < 0)
				return r;
		}
	if (!sum->is_complete)
		return 0;
	sum->total_usd_per_hour = per_hour(bill, sum->total_usd_micro);
	sum->total_usd_per_million_samples = per_million_samples(bill, sum->total_usd_micro);
	total.usd_micro = sum->total_usd_micro;
	return add_row(bill, &total, NULL);
}

/* Says for how much time no VM is paid. */
static void note_absences(const struct lh_scenario *sc, const struct lh_cost_usage *usage,
			  struct lh_notes *notes)
{
	int64_t sum_ns = 0;

	for (size_t i = 0; usage->away_ns && i < sc->n_nodes; i++)
		sum_ns += usage->away_ns[i];
	if (sum_ns)
		lh_notes_add(notes,
			     "a VM is not paid while it is away: together %.9g h of the %.9g h of "
			     "all nodes",
			     (double)sum_ns / (double)NS_PER_HOUR,
			     (double)usage->wall_ns / (double)NS_PER_HOUR * (double)sc->n_nodes);
}

int lh_cost_compute(const struct lh_scenario *sc, const struct lh_cost_usage *usage,
		    struct lh_cost *ret_cost, struct lh_error *err)
{
	struct lh_cost cost = {0};
	struct bill bill = {sc, usage, &cost, 0, err};
	int r = 0;

	if (usage->wall_ns <= 0 || usage->samples == 0)
		return lh_fail(err, LH_EINPUT, 0, "no training time or no samples to price");
	lh_table_init(&cost.table, columns_of_cost,
		      sizeof(columns_of_cost) / sizeof(columns_of_cost[0]));
	if (!usage->wire_bytes && sc->n_nodes > 1)
		lh_notes_add(&cost.notes,
			     "counters.csv is missing or empty: egress and totals are left out");
	if (!sc->pricing.catalog.name) {
		lh_notes_add(&cost.notes, "the scenario has no `pricing`: nothing is priced");
		for (size_t i = 0; i < LH_N_COST_SCOPES; i++)
			cost.scopes[i].total_usd_per_hour =
				cost.scopes[i].total_usd_per_million_samples = NAN;
		*ret_cost = cost;
		return 0;
	}
	note_absences(sc, usage, &cost.notes);
	for (bill.scope = 0; bill.scope < LH_N_COST_SCOPES && r == 0; bill.scope++)
		r = add_scope(&bill);
	if (r == 0)
		r = lh_table_check(&cost.table, err);
	if (r < 0) {
		lh_cost_done(&cost);
		return r;
	}
	*ret_cost = cost;
	return 0;
}

void lh_cost_done(struct lh_cost *cost)
{
	lh_table_done(&cost->table);
	lh_notes_done(&cost->notes);
	memset(cost->scopes, 0, sizeof(cost->scopes));
}
