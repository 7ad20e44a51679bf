/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of flows.csv and flow-intervals.csv. See capture_internal.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/capture_internal.h"
#include "core/cleanup.h"
#include "core/file.h"

static const double NS_PER_S = 1e9;

/* In the order of put_flow. What is hidden in text is in CSV. */
static const struct lh_column flow_columns[] = {
	{"capture", NULL, LH_CELL_TEXT, 0, 0, 9},
	{"connection", "conn", LH_CELL_INT, 0, 0, 12},
	{"from", NULL, LH_CELL_TEXT, 0, 0, 0},
	{"from_port", "port", LH_CELL_INT, 0, 0, 0},
	{"to", NULL, LH_CELL_TEXT, 0, 0, 0},
	{"to_port", "port", LH_CELL_INT, 0, 0, 0},
	{"from_node", "from node", LH_CELL_TEXT, 0, 0, 10},
	{"to_node", "to node", LH_CELL_TEXT, 0, 0, 10},
	{"side", NULL, LH_CELL_TEXT, 0, 0, 8},
	{"begin_ns", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"end_ns", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"packets", NULL, LH_CELL_INT, 0, 0, 5},
	{"segments", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"wire_bytes", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"payload_bytes", "payload B", LH_CELL_INT, 0, 0, 0},
	{"new_bytes", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"retransmitted_packets", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"retransmitted_segments", "retrans.", LH_CELL_INT, 0, 0, 0},
	{"retransmitted_bytes", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"out_of_order_packets", "late", LH_CELL_INT, 0, 0, 6},
	{"duplicate_acks", "dup ACKs", LH_CELL_INT, 0, 0, 4},
	{"keep_alives", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"odd_packets", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"missing_bytes", "missing B", LH_CELL_INT, 0, 0, 7},
	{"in_flight_max_bytes", "in flight B", LH_CELL_INT, 0, 0, 3},
	{"segment_bytes", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"handshake_rtt_ns", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"rtt_samples", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"rtt_min_ns", "RTT min ns", LH_CELL_INT, 0, 0, 2},
	{"rtt_median_ns", "median ns", LH_CELL_INT, 0, 0, 0},
	{"rtt_p99_ns", "99 % ns", LH_CELL_INT, 0, 0, 1},
	{"throughput_bps", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"goodput_bps", "goodput bit/s", LH_CELL_INT, 0, 0, 0},
	{"opened", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_HIDE},
	{"closed", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_HIDE},
};

static void format_address(const struct lh_tcp_connection *c, int end, char *buf)
{
	if (!inet_ntop(c->ip_version == 4 ? AF_INET : AF_INET6, c->ends[end].address, buf,
		       INET6_ADDRSTRLEN))
		buf[0] = '\0';
}

static const char *name_of(const struct lh_capture_tables *t, const char *address)
{
	for (size_t i = 0; t->names && i < t->names->n; i++)
		if (strcmp(t->names->items[i].address, address) == 0)
			return t->names->items[i].node;
	return NULL;
}

/* Whether an end is at a node: it bears its name, or is a rank of it ("us/0.3" of "us/0"). */
static bool is_at(const char *end, const char *node)
{
	size_t n = node ? strlen(node) : 0;

	return node && end && strncmp(end, node, n) == 0 && (!end[n] || end[n] == '.');
}

/* Whether the capture was made at the link of the flow's sender or of its receiver. */
static const char *side_of(const struct lh_capture_source *source, const char *from, const char *to)
{
	if (is_at(from, source->node))
		return "sender";
	if (is_at(to, source->node))
		return "receiver";
	return NULL;
}

static void put_count(struct lh_table *t, uint64_t value)
{
	lh_table_put_int(t, (int64_t)value);
}

static void put_rounded(struct lh_table *t, double value)
{
	if (isfinite(value) && value < 9e18)
		lh_table_put_int(t, (int64_t)llround(value));
	else
		lh_table_skip(t);
}

/* bit/s, or not known where no time has passed. */
static double rate_of(uint64_t bytes, int64_t duration_ns)
{
	return duration_ns > 0 ? (double)bytes * 8 * NS_PER_S / (double)duration_ns : NAN;
}

static void put_names(struct lh_capture_tables *tables, const struct lh_capture_source *source,
		      const struct lh_tcp_connection *c, int from)
{
	struct lh_table *t = &tables->flows;
	char addresses[2][INET6_ADDRSTRLEN];
	const char *names[2];

	for (int i = 0; i < 2; i++) {
		format_address(c, i ? !from : from, addresses[i]);
		names[i] = name_of(tables, addresses[i]);
	}
	lh_table_put_text(t, source->name);
	put_count(t, c->number);
	lh_table_put_text(t, addresses[0]);
	lh_table_put_int(t, c->ends[from].port);
	lh_table_put_text(t, addresses[1]);
	lh_table_put_int(t, c->ends[!from].port);
	lh_table_put_text(t, names[0]);
	lh_table_put_text(t, names[1]);
	lh_table_put_text(t, side_of(source, names[0], names[1]));
}

static void put_counts(struct lh_table *t, const struct lh_flow_counts *n)
{
	put_count(t, n->packets);
	put_count(t, n->segments);
	put_count(t, n->wire_bytes);
	put_count(t, n->payload_bytes);
	put_count(t, n->new_bytes);
	put_count(t, n->retransmitted_packets);
	put_count(t, n->retransmitted_segments);
	put_count(t, n->retransmitted_bytes);
	put_count(t, n->out_of_order_packets);
	put_count(t, n->duplicate_acks);
	put_count(t, n->keep_alives);
	put_count(t, n->odd_packets);
}

void lh_capture_put_flow(struct lh_capture_tables *tables, const struct lh_capture_source *source,
			 struct lh_tcp_connection *c, int from)
{
	struct lh_table *t = &tables->flows;
	struct lh_flow *f = &c->tcp.flows[from];
	uint32_t segment_bytes = lh_connection_segment_bytes(&c->tcp, from);

	if (!f->total.packets)
		return;
	lh_table_row(t);
	put_names(tables, source, c, from);
	lh_table_put_int(t, f->begin_ns);
	lh_table_put_int(t, f->end_ns);
	put_counts(t, &f->total);
	put_count(t, lh_flow_missing_bytes(f));
	put_count(t, f->in_flight_max_bytes);
	put_rounded(t, segment_bytes ? (double)segment_bytes : NAN);
	put_rounded(t, c->tcp.handshake_rtt_ns < 0 ? NAN : (double)c->tcp.handshake_rtt_ns);
	put_count(t, f->rtts_ns.n_seen);
	put_rounded(t, f->rtts_ns.n_seen ? f->rtts_ns.least : NAN);
	put_rounded(t, lh_samples_quantile(&f->rtts_ns, 0.5));
	put_rounded(t, lh_samples_quantile(&f->rtts_ns, 0.99));
	put_rounded(t, rate_of(f->total.payload_bytes, f->end_ns - f->begin_ns));
	put_rounded(t, rate_of(f->total.new_bytes, f->end_ns - f->begin_ns));
	lh_table_put_text(t, f->has_syn ? "syn" : NULL);
	lh_table_put_text(t, f->has_rst ? "rst" : f->has_fin ? "fin" : NULL);
}

static void write_real(FILE *f, double value)
{
	if (isfinite(value) && value < 9e18)
		fprintf(f, ",%lld", llround(value));
	else
		fputc(',', f);
}

/* A field of CSV, quoted where it must be. */
static void write_text(FILE *f, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, f);
		return;
	}
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', f);
		fputc(*text, f);
	}
	fputc('"', f);
}

void lh_capture_put_interval(struct lh_capture_tables *tables,
			     const struct lh_capture_source *source, struct lh_tcp_connection *c,
			     int from, int64_t begin_ns)
{
	struct lh_flow *f = &c->tcp.flows[from];
	const struct lh_flow_counts *n = &f->interval;
	char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN];

	if (!n->packets && !n->duplicate_acks && !f->interval_rtts_ns.n_seen)
		return;
	format_address(c, from, a);
	format_address(c, !from, b);
	write_text(tables->intervals, source->name);
	fprintf(tables->intervals,
		",%" PRIu64 ",%s,%u,%s,%u,%" PRId64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
		c->number, a, c->ends[from].port, b, c->ends[!from].port, begin_ns, n->packets,
		n->segments, n->wire_bytes, n->payload_bytes, n->new_bytes,
		n->retransmitted_packets, n->retransmitted_segments, n->out_of_order_packets,
		n->duplicate_acks, f->interval_rtts_ns.n_seen);
	write_real(tables->intervals, f->interval_rtts_ns.n_seen ? f->interval_rtts_ns.least : NAN);
	write_real(tables->intervals, lh_samples_quantile(&f->interval_rtts_ns, 0.5));
	write_real(tables->intervals, rate_of(n->payload_bytes, tables->interval_ns));
	write_real(tables->intervals, rate_of(n->new_bytes, tables->interval_ns));
	fputc('\n', tables->intervals);
}

void lh_capture_tables_init(struct lh_capture_tables *tables, const struct lh_node_names *names,
			    int64_t interval_ns, FILE *intervals)
{
	*tables = (struct lh_capture_tables){
		.names = names, .interval_ns = interval_ns, .intervals = intervals};
	lh_table_init(&tables->flows, flow_columns, sizeof(flow_columns) / sizeof(flow_columns[0]));
	fputs("capture,connection,from,from_port,to,to_port,begin_ns,packets,segments,wire_bytes,"
	      "payload_bytes,new_bytes,retransmitted_packets,retransmitted_segments,"
	      "out_of_order_packets,duplicate_acks,rtt_samples,rtt_min_ns,rtt_median_ns,"
	      "throughput_bps,goodput_bps\n",
	      intervals);
}

void lh_capture_tables_done(struct lh_capture_tables *tables)
{
	lh_table_done(&tables->flows);
}
