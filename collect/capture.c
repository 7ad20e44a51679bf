/* SPDX-License-Identifier: Apache-2.0 */
/* Captures as tables. See capture.h; the rows are capture_rows.c's. */
#include "collect/capture.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

#include "collect/capture_internal.h"

enum { BUCKETS = 1 << 16, NS_PER_S = 1000000000 };

/* The connections of one file, and the interval that is being counted. */
struct reading {
	const struct lh_capture_source *source;
	struct lh_capture_tables *tables;
	struct lh_capture_tally tally;
	struct lh_tcp_connection **buckets;
	struct lh_tcp_connection *first; /* in order of their first packets */
	struct lh_tcp_connection **end;
	struct lh_tcp_connection **active; /* with a packet in the interval */
	size_t n_active;
	size_t active_room;
	int64_t interval; /* its number */
};

static void put_end(struct lh_tcp_end *to, const uint8_t *address, uint16_t port)
{
	memcpy(to->address, address, LH_ADDRESS_BYTES);
	to->port = port;
}

static int compare_ends(const struct lh_tcp_end *a, const struct lh_tcp_end *b)
{
	int r = memcmp(a->address, b->address, LH_ADDRESS_BYTES);

	return r ? r : (int)a->port - (int)b->port;
}

/* FNV-1a, the same for both directions. */
static size_t hash_ends(const struct lh_tcp_end *a, const struct lh_tcp_end *b)
{
	const struct lh_tcp_end *ends[2] = {a, b};
	uint64_t hash = 0xcbf29ce484222325u;

	if (compare_ends(a, b) > 0) {
		ends[0] = b;
		ends[1] = a;
	}
	for (int i = 0; i < 2; i++) {
		for (size_t k = 0; k < LH_ADDRESS_BYTES; k++)
			hash = (hash ^ ends[i]->address[k]) * 0x100000001b3u;
		hash = (hash ^ ends[i]->port) * 0x100000001b3u;
		hash = (hash ^ ends[i]->port >> 8) * 0x100000001b3u;
	}
	return (size_t)((hash ^ hash >> 32) % BUCKETS);
}

/* The latest connection between two ends, or NULL; which of them is `from`. */
static struct lh_tcp_connection *find(const struct reading *rd, size_t bucket,
				      const struct lh_packet *p, const struct lh_tcp_end *from,
				      const struct lh_tcp_end *to, int *ret_from)
{
	struct lh_tcp_connection *c = rd->buckets[bucket];

	for (; c; c = c->next_in_bucket) {
		if (c->ip_version != p->ip_version)
			continue;
		for (*ret_from = 0; *ret_from < 2; ++*ret_from)
			if (compare_ends(&c->ends[*ret_from], from) == 0 &&
			    compare_ends(&c->ends[!*ret_from], to) == 0)
				return c;
	}
	return NULL;
}

static struct lh_tcp_connection *open_connection(struct reading *rd, size_t bucket,
						 const struct lh_packet *p,
						 const struct lh_tcp_end *from,
						 const struct lh_tcp_end *to)
{
	struct lh_tcp_connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->number = rd->tally.connections++;
	c->ip_version = p->ip_version;
	c->ends[0] = *from;
	c->ends[1] = *to;
	c->tcp.handshake_rtt_ns = -1;
	c->next_in_bucket = rd->buckets[bucket];
	rd->buckets[bucket] = c;
	*rd->end = c;
	rd->end = &c->next;
	return c;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = (*(struct lh_tcp_connection *const *)a)->number;
	uint64_t y = (*(struct lh_tcp_connection *const *)b)->number;

	return (x > y) - (x < y);
}

/* Writes the interval that has passed. */
static void end_interval(struct reading *rd)
{
	if (rd->n_active)
		qsort(rd->active, rd->n_active, sizeof(*rd->active), compare_numbers);
	for (size_t i = 0; i < rd->n_active; i++) {
		struct lh_tcp_connection *c = rd->active[i];

		for (int d = 0; d < 2; d++) {
			struct lh_flow *f = &c->tcp.flows[d];

			lh_capture_put_interval(rd->tables, rd->source, c, d,
						rd->interval * rd->tables->interval_ns);
			memset(&f->interval, 0, sizeof(f->interval));
			f->interval_rtts_ns.n = 0;
			f->interval_rtts_ns.n_seen = 0;
			f->interval_rtts_ns.stride = 0;
		}
		c->is_active = false;
	}
	rd->n_active = 0;
}

/* Has the connection in the interval of a packet; those that come late count in the one that
 * is open. */
static bool activate(struct reading *rd, struct lh_tcp_connection *c, int64_t t_ns)
{
	int64_t interval = t_ns / rd->tables->interval_ns;

	if (interval > rd->interval) {
		end_interval(rd);
		rd->interval = interval;
	}
	if (c->is_active)
		return true;
	if (rd->n_active == rd->active_room) {
		size_t room = rd->active_room ? 2 * rd->active_room : 64;
		struct lh_tcp_connection **grown = reallocarray(rd->active, room, sizeof(*grown));

		if (!grown)
			return false;
		rd->active = grown;
		rd->active_room = room;
	}
	rd->active[rd->n_active++] = c;
	c->is_active = true;
	return true;
}

static bool take_tcp(struct reading *rd, const struct lh_packet *p)
{
	struct lh_tcp_end from, to;
	struct lh_tcp_connection *c;
	size_t bucket;
	int direction;

	put_end(&from, p->from, p->from_port);
	put_end(&to, p->to, p->to_port);
	bucket = hash_ends(&from, &to);
	c = find(rd, bucket, p, &from, &to, &direction);
	if (!c || lh_connection_is_reopened(&c->tcp, direction, p)) {
		if (rd->tally.connections == LH_CONNECTIONS_MAX) {
			rd->tally.left_out_packets++;
			return true;
		}
		c = open_connection(rd, bucket, p, &from, &to);
		direction = 0;
	}
	return c && activate(rd, c, p->t_ns) && lh_connection_take(&c->tcp, direction, p);
}

static int take_packets(struct reading *rd, pcap_t *pcap, struct lh_error *err)
{
	int link = pcap_datalink(pcap);

	for (;;) {
		struct pcap_pkthdr *head;
		const u_char *bytes;
		struct lh_packet p;
		enum lh_packet_kind kind;
		int r = pcap_next_ex(pcap, &head, &bytes);

		if (r == PCAP_ERROR_BREAK)
			return 0;
		if (r < 0)
			return lh_fail(err, LH_EINPUT, 0, "%s: packet %llu: %s", rd->source->name,
				       (unsigned long long)rd->tally.packets + 1,
				       pcap_geterr(pcap));
		rd->tally.packets++;
		kind = lh_packet_parse(link, bytes, head->caplen, head->len, &p);
		rd->tally.kinds[kind]++;
		/* of 64 bits of seconds what fits in nanoseconds; a damaged file has any */
		p.t_ns = (int64_t)(uint32_t)head->ts.tv_sec * NS_PER_S + head->ts.tv_usec;
		if (kind == LH_PACKET_TCP && !take_tcp(rd, &p))
			return lh_fail(err, LH_ESYS, ENOMEM, "read %s", rd->source->name);
	}
}

static void reading_done(struct reading *rd)
{
	while (rd->first) {
		struct lh_tcp_connection *c = rd->first;

		rd->first = c->next;
		lh_connection_done(&c->tcp);
		free(c);
	}
	free(rd->buckets);
	free(rd->active);
}

static int read_all(struct reading *rd, pcap_t *pcap, struct lh_error *err)
{
	int r;

	if (!lh_packet_knows_link(pcap_datalink(pcap))) {
		const char *name = pcap_datalink_val_to_name(pcap_datalink(pcap));

		return lh_fail(err, LH_EINPUT, 0,
			       "%s: packets of link type %d (%s); Ethernet, raw IP, Linux cooked "
			       "and BSD loopback are read",
			       rd->source->name, pcap_datalink(pcap), name ? name : "unknown");
	}
	r = take_packets(rd, pcap, err);
	end_interval(rd);
	for (const struct lh_tcp_connection *c = rd->first; c; c = c->next)
		for (int d = 0; d < 2; d++)
			lh_capture_put_flow(rd->tables, rd->source, (struct lh_tcp_connection *)c,
					    d);
	return r;
}

int lh_capture_read(FILE *in, const struct lh_capture_source *source,
		    struct lh_capture_tables *tables, struct lh_capture_tally *ret_tally,
		    struct lh_error *err)
{
	struct reading rd = {.source = source, .tables = tables, .interval = INT64_MIN};
	char why[PCAP_ERRBUF_SIZE];
	pcap_t *pcap =
		pcap_fopen_offline_with_tstamp_precision(in, PCAP_TSTAMP_PRECISION_NANO, why);
	int r;

	*ret_tally = rd.tally;
	if (!pcap) {
		fclose(in);
		return lh_fail(err, LH_EINPUT, 0, "%s: %s", source->name, why);
	}
	rd.end = &rd.first;
	rd.buckets = calloc(BUCKETS, sizeof(struct lh_tcp_connection *));
	r = rd.buckets ? read_all(&rd, pcap, err)
		       : lh_fail(err, LH_ESYS, ENOMEM, "read %s", source->name);
	*ret_tally = rd.tally;
	reading_done(&rd);
	pcap_close(pcap);
	return r;
}
