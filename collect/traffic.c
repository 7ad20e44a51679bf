/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic by second and by pair. See traffic.h. */
#include "collect/traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collect/csv.h"
#include "core/cleanup.h"

enum { NS_PER_S = 1000000000 };

/* An amount of each quantity within a span of time. */
struct share {
	int64_t from_ns;
	int64_t to_ns;
	int64_t amounts[LH_N_TRAFFIC_QUANTITIES];
};

/* part / whole of amount, rounded down. */
static int64_t fraction_of(int64_t amount, int64_t part, int64_t whole)
{
	__extension__ typedef __int128 wide;

	return (int64_t)((wide)amount * part / whole);
}

/* Cuts the share's span to the training; false where nothing is left. */
static bool clip(const struct lh_run_traffic *traffic, struct share *share)
{
	if (share->to_ns <= traffic->begin_ns || share->from_ns >= traffic->end_ns)
		return false;
	if (share->from_ns < traffic->begin_ns)
		share->from_ns = traffic->begin_ns;
	if (share->to_ns > traffic->end_ns)
		share->to_ns = traffic->end_ns;
	if (share->to_ns <= share->from_ns)
		share->to_ns = share->from_ns + 1;
	return true;
}

/* Spreads a clipped share over the seconds of the pair. */
static int spread(struct lh_run_traffic *traffic, size_t pair, const struct share *share,
		  struct lh_error *err)
{
	int64_t from = share->from_ns - traffic->begin_ns;
	int64_t to = share->to_ns - traffic->begin_ns;
	int64_t given[LH_N_TRAFFIC_QUANTITIES] = {0};

	if (!traffic->pairs[pair]) {
		traffic->pairs[pair] = calloc(traffic->n_seconds, sizeof(**traffic->pairs));
		if (!traffic->pairs[pair])
			return lh_fail(err, LH_ESYS, ENOMEM, "add up the traffic");
	}
	for (int64_t second = from / NS_PER_S; second * NS_PER_S < to; second++) {
		int64_t until = (second + 1) * NS_PER_S < to ? (second + 1) * NS_PER_S : to;
		struct lh_traffic_second *cell = &traffic->pairs[pair][second];

		for (int q = 0; q < LH_N_TRAFFIC_QUANTITIES; q++) {
			int64_t due = fraction_of(share->amounts[q], until - from, to - from);

			cell->amounts[q] += due - given[q];
			given[q] = due;
		}
	}
	return 0;
}

/* Where what one node sent to another is added up: by their sites, or where both are one, apart. */
static size_t pair_of(const struct lh_scenario *sc, size_t from, size_t to)
{
	size_t n = sc->network.n_sites;

	return from == to ? n * n + sc->nodes[from].site
			  : sc->nodes[from].site * n + sc->nodes[to].site;
}

static int add_events(const struct lh_scenario *sc, const struct lh_run_events *events, size_t rank,
		      struct lh_run_traffic *traffic, struct lh_error *err)
{
	const struct lh_rank_events *r = &events->ranks[rank];

	for (size_t i = 0; i < r->n_traffic; i++) {
		const struct lh_rank_traffic *t = &r->traffic[i];

		for (size_t k = 0; k < t->n_sent; k++) {
			const struct lh_rank_sent *sent = &t->sent[k];
			struct share share = {t->from_ns, t->to_ns, {0}};
			size_t pair = pair_of(sc, sc->ranks[rank].node, sc->ranks[sent->peer].node);
			int res;

			share.amounts[LH_TRAFFIC_PAYLOAD_BYTES] = sent->payload_bytes;
			share.amounts[LH_TRAFFIC_CONTROL_BYTES] = sent->control_bytes;
			if (!clip(traffic, &share))
				continue;
			res = spread(traffic, pair, &share, err);
			if (res < 0)
				return res;
			traffic->sent_bytes += sent->payload_bytes + sent->control_bytes;
		}
	}
	return 0;
}

/* The columns of counters.csv. */
enum { T_NS, FROM, TO, WIRE_BYTES, WIRE_PACKETS, ACK_BYTES, ACK_PACKETS, DROPPED, N_COLUMNS };

static const char *const counter_names[N_COLUMNS] = {
	"t_ns",		"from",	     "to",	    "wire_bytes",
	"wire_packets", "ack_bytes", "ack_packets", "dropped_packets",
};

/* One row, and the last one of the same pair. */
struct sample {
	bool is_known;
	int64_t values[N_COLUMNS]; /* FROM and TO unused */
};

/* The node called name; looks at *hint first, since rows come in the order of nodes. */
static int find_node(const struct lh_scenario *sc, const char *name, size_t *hint)
{
	for (size_t i = 0; i < sc->n_nodes; i++) {
		size_t n = (*hint + i) % sc->n_nodes;

		if (strcmp(sc->nodes[n].name, name) == 0) {
			*hint = n;
			return 0;
		}
	}
	return -1;
}

static int read_sample(const struct lh_csv *csv, const int *columns, struct sample *ret,
		       struct lh_error *err)
{
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	ret->is_known = true;
	for (int c = 0; c < N_COLUMNS && r == 0; c++) {
		if (c == FROM || c == TO)
			continue;
		r = lh_csv_int(csv, columns[c], &ret->values[c], err);
		if (r == 0 && (ret->values[c] < 0 || ret->values[c] > INT64_MAX / 2))
			r = lh_fail(err, LH_EINPUT, 0, "%s:%zu: %s is out of bounds", csv->path,
				    csv->line, counter_names[c]);
	}
	return r;
}

/* Adds what happened on a pair of nodes between two samples. Samples that would repeat the one
 * before are not in the file, so it happened within the last period before now. */
static int add_sample(const struct lh_scenario *sc, struct lh_run_traffic *traffic, size_t from,
		      size_t to, const struct sample *last, const struct sample *now,
		      struct lh_error *err)
{
	int64_t to_ns = now->values[T_NS];
	int64_t from_ns =
		to_ns - last->values[T_NS] > NS_PER_S ? to_ns - NS_PER_S : last->values[T_NS];
	struct share share = {from_ns, to_ns, {0}};
	size_t pair = pair_of(sc, from, to);
	static const struct {
		int column;
		int quantity;
	} map[] = {
		{WIRE_BYTES, LH_TRAFFIC_WIRE_BYTES},
		{WIRE_PACKETS, LH_TRAFFIC_WIRE_PACKETS},
		{ACK_BYTES, LH_TRAFFIC_ACK_BYTES},
		{ACK_PACKETS, LH_TRAFFIC_ACK_PACKETS},
	};

	if (!clip(traffic, &share))
		return 0;
	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		share.amounts[map[i].quantity] =
			now->values[map[i].column] - last->values[map[i].column];
	traffic->wire_bytes[from * traffic->n_nodes + to] += share.amounts[LH_TRAFFIC_WIRE_BYTES];
	traffic->dropped_packets += now->values[DROPPED] - last->values[DROPPED];
	if (!share.amounts[LH_TRAFFIC_WIRE_BYTES] && !share.amounts[LH_TRAFFIC_WIRE_PACKETS] &&
	    !share.amounts[LH_TRAFFIC_ACK_BYTES])
		return 0;
	return spread(traffic, pair, &share, err);
}

static int add_row(const struct lh_scenario *sc, struct lh_run_traffic *traffic,
		   const struct lh_csv *csv, const int *columns, struct sample *last, size_t *hints,
		   struct lh_error *err)
{
	struct sample now, *before;
	int r = read_sample(csv, columns, &now, err);

	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++) {
		const char *name = csv->cells[columns[i ? TO : FROM]];

		if (find_node(sc, name, &hints[i]) < 0)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s:%zu: '%s' is not a node of the scenario", csv->path,
				       csv->line, name);
	}
	before = &last[hints[0] * traffic->n_nodes + hints[1]];
	for (int c = 0; c < N_COLUMNS && before->is_known; c++)
		if (now.values[c] < before->values[c])
			return lh_fail(err, LH_EINPUT, 0, "%s:%zu: %s runs backwards", csv->path,
				       csv->line, counter_names[c]);
	/* a pair without a sample up to the begin had counted nothing until then */
	if (before->is_known || now.values[T_NS] > traffic->begin_ns)
		r = add_sample(sc, traffic, hints[0], hints[1], before, &now, err);
	*before = now;
	return r;
}

static int add_counters(const struct lh_scenario *sc, struct lh_run_traffic *traffic,
			const char *path, struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	lh_cleanup_free struct sample *last =
		calloc(traffic->n_nodes * traffic->n_nodes, sizeof(*last));
	int columns[N_COLUMNS];
	size_t hints[2] = {0, 0};
	int r;

	if (!last)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	r = lh_csv_open(path, &csv, err);
	if (r == 0)
		r = lh_csv_find_all(&csv, counter_names, N_COLUMNS, columns, err);
	csv.is_growing = true;
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0)
		r = add_row(sc, traffic, &csv, columns, last, hints, err);
	return r;
}

/* A run that was cut early has left a file without even its header. */
static bool has_content(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_size > 0;
}

int lh_run_traffic_read(const struct lh_scenario *sc, const struct lh_run_events *events,
			const char *counters_path, int64_t begin_ns, int64_t end_ns,
			struct lh_run_traffic *ret_traffic, struct lh_error *err)
{
	struct lh_run_traffic traffic = {.begin_ns = begin_ns, .end_ns = end_ns};
	int64_t n_seconds = (end_ns - begin_ns + NS_PER_S - 1) / NS_PER_S;
	int r = 0;

	if (end_ns <= begin_ns || n_seconds > LH_TRAFFIC_SECONDS_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "a training of %lld s; expected more than 0 and at most %d s",
			       (long long)n_seconds, LH_TRAFFIC_SECONDS_MAX);
	traffic.n_nodes = sc->n_nodes;
	traffic.n_sites = sc->network.n_sites;
	traffic.n_seconds = (size_t)n_seconds;
	traffic.pairs = calloc(traffic.n_sites * (traffic.n_sites + 1), sizeof(*traffic.pairs));
	traffic.wire_bytes = calloc(sc->n_nodes * sc->n_nodes, sizeof(*traffic.wire_bytes));
	if (!traffic.pairs || !traffic.wire_bytes)
		r = lh_fail(err, LH_ESYS, ENOMEM, "add up the traffic");
	for (size_t rank = 0; rank < events->n_ranks && r == 0; rank++)
		r = add_events(sc, events, rank, &traffic, err);
	traffic.has_events = sc->model != NULL;
	traffic.has_counters = has_content(counters_path);
	if (r == 0 && traffic.has_counters)
		r = add_counters(sc, &traffic, counters_path, err);
	if (r < 0) {
		lh_run_traffic_done(&traffic);
		return r;
	}
	*ret_traffic = traffic;
	return 0;
}

void lh_run_traffic_done(struct lh_run_traffic *traffic)
{
	for (size_t i = 0; traffic->pairs && i < traffic->n_sites * (traffic->n_sites + 1); i++)
		free(traffic->pairs[i]);
	free(traffic->pairs);
	free(traffic->wire_bytes);
	memset(traffic, 0, sizeof(*traffic));
}

static const struct lh_column columns_of_traffic[] = {
	{"second", "second", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"from", "from", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"to", "to", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"payload_bytes", "payload B", LH_CELL_INT, 0, 0, 1},
	{"control_bytes", "control B", LH_CELL_INT, 0, 0, 3},
	{"wire_bytes", "wire B", LH_CELL_INT, 0, 0, 2},
	{"ack_bytes", "ack B", LH_CELL_INT, 0, 0, 5},
	{"wire_packets", "wire packets", LH_CELL_INT, 0, 0, 4},
	{"ack_packets", "ack packets", LH_CELL_INT, 0, 0, 6},
};

static bool is_silent(const struct lh_traffic_second *second)
{
	for (int q = 0; q < LH_N_TRAFFIC_QUANTITIES; q++)
		if (second->amounts[q])
			return false;
	return true;
}

void lh_run_traffic_format(const struct lh_scenario *sc, const struct lh_run_traffic *traffic,
			   struct lh_table *ret_table)
{
	size_t n = traffic->n_sites, n_pairs = n * (n + 1);

	lh_table_init(ret_table, columns_of_traffic,
		      sizeof(columns_of_traffic) / sizeof(columns_of_traffic[0]));
	for (size_t i = 0; i < traffic->n_seconds * n_pairs; i++) {
		size_t second = i / n_pairs, pair = i % n_pairs;
		const struct lh_traffic_second *cell;

		if (!traffic->pairs[pair])
			continue;
		cell = &traffic->pairs[pair][second];
		if (is_silent(cell))
			continue;
		lh_table_row(ret_table);
		lh_table_put_int(ret_table, (int64_t)second);
		lh_table_put_text(ret_table,
				  sc->network.sites[pair < n * n ? pair / n : pair - n * n].name);
		lh_table_put_text(ret_table, pair < n * n ? sc->network.sites[pair % n].name
							  : LH_TRAFFIC_INSIDE_NODE);
		for (int q = 0; q < LH_N_TRAFFIC_QUANTITIES; q++) {
			if (q >= LH_TRAFFIC_WIRE_BYTES ? !traffic->has_counters
						       : !traffic->has_events)
				lh_table_skip(ret_table);
			else
				lh_table_put_int(ret_table, cell->amounts[q]);
		}
	}
}
