/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the report that are added up for it. See report_internal.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "plots/html.h"
#include "plots/links.h"
#include "plots/report_internal.h"

static const struct lh_column columns_of_items[] = {
	{"scope", "prices", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"item", "item", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"class", "class", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"quantity", "quantity", LH_CELL_REAL, 9, 3, LH_COLUMN_KEEP},
	{"unit", "unit", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"usd", "USD", LH_CELL_REAL, 6, 4, LH_COLUMN_KEEP},
	{"usd_per_hour", "USD per hour", LH_CELL_REAL, 6, 3, LH_COLUMN_KEEP},
	{"usd_per_million_samples", "USD per million samples", LH_CELL_REAL, 6, 3, LH_COLUMN_KEEP},
};

enum {
	SCOPE,
	NODE,
	SITE,
	ITEM,
	CLASS,
	QUANTITY,
	UNIT,
	PRICE,
	PRICE_UNIT,
	USD_MICRO,
	PER_HOUR,
	PER_MILLION
};

/* A text cell of a row, "" where unknown. */
static const char *text_at(const struct lh_table *table, size_t row, size_t column)
{
	const struct lh_cell *cell = lh_table_cell(table, row, column);

	return cell->is_known ? cell->text : "";
}

static bool is_same_item(const struct lh_table *cost, size_t a, size_t b)
{
	static const int keys[] = {SCOPE, ITEM, CLASS, UNIT};

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
		if (strcmp(text_at(cost, a, (size_t)keys[k]), text_at(cost, b, (size_t)keys[k])) !=
		    0)
			return false;
	return true;
}

/* Adds the row of the item that first stands at row, summed over all rows like it. */
static void put_item(struct lh_table *items, const struct lh_table *cost, size_t row)
{
	double quantity = 0, usd = 0, per_hour = 0, per_million = 0;
	bool has_quantity = lh_table_cell(cost, row, QUANTITY)->is_known;

	for (size_t i = row; i < cost->n_rows; i++) {
		if (!is_same_item(cost, row, i))
			continue;
		quantity += lh_table_cell(cost, i, QUANTITY)->real;
		usd += (double)lh_table_cell(cost, i, USD_MICRO)->integer * 1e-6;
		per_hour += lh_table_cell(cost, i, PER_HOUR)->real;
		per_million += lh_table_cell(cost, i, PER_MILLION)->real;
	}
	lh_table_row(items);
	lh_table_put_text(items, text_at(cost, row, SCOPE));
	lh_table_put_text(items, text_at(cost, row, ITEM));
	lh_table_put_text(items, text_at(cost, row, CLASS));
	if (has_quantity)
		lh_table_put_real(items, quantity);
	else
		lh_table_skip(items);
	lh_table_put_text(items, text_at(cost, row, UNIT));
	lh_table_put_real(items, usd);
	lh_table_put_real(items, per_hour);
	lh_table_put_real(items, per_million);
}

void lh_report_put_cost(FILE *f, const struct lh_results *results)
{
	const struct lh_table *cost = &results->cost.table;
	struct lh_table items;

	lh_table_init(&items, columns_of_items,
		      sizeof(columns_of_items) / sizeof(columns_of_items[0]));
	for (size_t row = 0; row < cost->n_rows; row++) {
		bool is_first = true;

		for (size_t i = 0; i < row && is_first; i++)
			is_first = !is_same_item(cost, i, row);
		if (is_first)
			put_item(&items, cost, row);
	}
	lh_html_put_table(f, &items);
	lh_table_done(&items);
}

static const struct lh_column columns_of_pairs[] = {
	{"from", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"to", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"payload", "payload MB", LH_CELL_REAL, 6, 1, LH_COLUMN_KEEP},
	{"control", "control MB", LH_CELL_REAL, 6, 3, LH_COLUMN_KEEP},
	{"wire", "wire MB", LH_CELL_REAL, 6, 1, LH_COLUMN_KEEP},
	{"ack", "acknowledgements MB", LH_CELL_REAL, 6, 1, LH_COLUMN_KEEP},
	{"packets", "wire packets", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
};

/* The first columns of the traffic table; quantities follow from PAIR_QUANTITY on. */
enum { PAIR_SECOND, PAIR_FROM, PAIR_TO, PAIR_QUANTITY, N_PAIR_QUANTITIES = 5 };

/* Sums of one directed pair of sites; names are borrowed. */
struct pair {
	const char *from;
	const char *to;
	int64_t sums[N_PAIR_QUANTITIES]; /* payload, control, wire, ack, packets */
};

struct pairs {
	struct pair *items;
	size_t n;
	bool has_wire;
};

static int add_second(struct pairs *pairs, const struct lh_table *traffic, size_t row)
{
	const char *from = text_at(traffic, row, PAIR_FROM), *to = text_at(traffic, row, PAIR_TO);
	size_t i = 0;

	while (i < pairs->n &&
	       (strcmp(pairs->items[i].from, from) != 0 || strcmp(pairs->items[i].to, to) != 0))
		i++;
	if (i == pairs->n) {
		struct pair *grown =
			reallocarray(pairs->items, pairs->n + 1, sizeof(*pairs->items));

		if (!grown)
			return -1;
		pairs->items = grown;
		pairs->items[pairs->n++] = (struct pair){.from = from, .to = to};
	}
	for (size_t q = 0; q < N_PAIR_QUANTITIES; q++)
		pairs->items[i].sums[q] += lh_table_cell(traffic, row, PAIR_QUANTITY + q)->integer;
	pairs->has_wire |= lh_table_cell(traffic, row, PAIR_QUANTITY + 2)->is_known;
	return 0;
}

int lh_report_put_traffic(FILE *f, const struct lh_results *results, struct lh_error *err)
{
	struct pairs pairs = {0};
	struct lh_table table;
	int r = 0;

	for (size_t row = 0; row < results->traffic.n_rows && r == 0; row++)
		r = add_second(&pairs, &results->traffic, row);
	lh_table_init(&table, columns_of_pairs,
		      sizeof(columns_of_pairs) / sizeof(columns_of_pairs[0]));
	for (size_t i = 0; i < pairs.n; i++) {
		lh_table_row(&table);
		lh_table_put_text(&table, pairs.items[i].from);
		lh_table_put_text(&table, pairs.items[i].to);
		for (size_t q = 0; q < N_PAIR_QUANTITIES; q++) {
			bool is_packets = q + 1 == N_PAIR_QUANTITIES;

			if (q >= 2 && !pairs.has_wire)
				lh_table_skip(&table);
			else if (is_packets)
				lh_table_put_int(&table, pairs.items[i].sums[q]);
			else
				lh_table_put_real(&table, (double)pairs.items[i].sums[q] * 1e-6);
		}
	}
	if (r == 0 && pairs.n)
		lh_html_put_table(f, &table);
	lh_table_done(&table);
	free(pairs.items);
	return r < 0 ? lh_fail(err, LH_ESYS, ENOMEM, "write the report") : 0;
}

static void put_link_cell(FILE *f, const struct lh_link_cell *link)
{
	char buf[400];

	if (!link) {
		fputs("<td class=\"n\">–</td>", f);
		return;
	}
	fprintf(f, "<td%s><span class=\"g\">", link->is_missed ? " class=\"bad\"" : "");
	lh_html_put(f, lh_matrix_format(link->target, buf, sizeof(buf)));
	fputs("</span><br>", f);
	lh_html_put(f, lh_matrix_format(link->achieved, buf, sizeof(buf)));
	fputs("</td>", f);
}

static void put_matrix(FILE *f, const struct lh_link_matrix *matrix, int kind)
{
	size_t n = matrix->sites.n;

	fputs("<div class=\"wide\"><table>\n<tr><th class=\"t\">from \\ to</th>", f);
	for (size_t to = 0; to < n; to++) {
		fputs("<th>", f);
		lh_html_put(f, matrix->sites.items[to]);
		fputs("</th>", f);
	}
	fputs("</tr>\n", f);
	for (size_t from = 0; from < n; from++) {
		fputs("<tr><td class=\"t\">", f);
		lh_html_put(f, matrix->sites.items[from]);
		fputs("</td>", f);
		for (size_t to = 0; to < n; to++)
			put_link_cell(f, lh_link_matrix_get(matrix, kind, from, to));
		fputs("</tr>\n", f);
	}
	fputs("</table></div>\n", f);
}

int lh_report_put_links(FILE *f, const char *run_dir, struct lh_error *err)
{
	static const char *const heads[LH_N_MATRIX_KINDS] = {
		"RTT in ms: target, then achieved",
		"TCP throughput in Mbit/s: target, then achieved"};
	struct lh_link_matrix matrix = {0};
	int r = lh_link_matrix_read(run_dir, &matrix, err);

	if (r <= 0)
		return r;
	fputs("<h2>Links</h2>\n", f);
	for (int kind = 0; kind < LH_N_MATRIX_KINDS; kind++) {
		fprintf(f, "<h3>%s</h3>\n", heads[kind]);
		put_matrix(f, &matrix, kind);
	}
	lh_link_matrix_done(&matrix);
	return 0;
}

enum { SETTINGS_DEPTH_MAX = 6 };

/* One row per scalar or array, its name with the names of the objects around it. */
static void put_settings(FILE *f, const char *prefix, const json_t *object, int depth)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value) {
		lh_cleanup_free char *name = lh_strf("%s%s%s", prefix, *prefix ? "." : "", key);
		lh_cleanup_free char *text = NULL;

		if (!name)
			return;
		if (json_is_object(value) && depth < SETTINGS_DEPTH_MAX) {
			put_settings(f, name, value, depth + 1);
			continue;
		}
		text = json_is_string(value) ? strdup(json_string_value(value))
					     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT |
									 JSON_REAL_PRECISION(10));
		fputs("<tr><td class=\"t\">", f);
		lh_html_put(f, name);
		fputs("</td><td class=\"t\">", f);
		lh_html_put(f, text);
		fputs("</td></tr>\n", f);
	}
}

int lh_report_put_settings(FILE *f, const char *run_dir, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "engine.json");
	lh_cleanup_json json_t *engine = NULL;
	int r;

	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "write the report");
	if (!lh_path_exists(path))
		return 0;
	r = lh_json_read(path, &engine, err);
	if (r < 0)
		return r;
	fputs("<h2>Pinned settings</h2>\n<p>Set by the engine and read back from the kernel.</p>\n"
	      "<div class=\"wide\"><table>\n<tr><th class=\"t\">setting</th>"
	      "<th class=\"t\">value</th></tr>\n",
	      f);
	put_settings(f, "", json_object_get(engine, "pinned"), 0);
	fputs("</table></div>\n", f);
	fputs("<h3>What the network did that its paths do not explain</h3>\n"
	      "<div class=\"wide\"><table>\n<tr><th class=\"t\">counter</th>"
	      "<th class=\"t\">value</th></tr>\n",
	      f);
	put_settings(f, "", json_object_get(engine, "unexplained"), 0);
	fputs("</table></div>\n", f);
	return 0;
}
