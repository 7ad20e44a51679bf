/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TCP did on one connection. See flow.h.
 *
 * Round trips: from the packet that carried the last byte which an acknowledgement is the
 * first to cover, to that acknowledgement. None from data that were sent more than once
 * (Karn and Partridge 1987), nor from data that waited behind such: their acknowledgement
 * tells of the repair.
 */
#include "collect/flow.h"
#include "core/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	SAMPLES_MAX = 1 << 22,
	HOLES_MAX = 4096,
	SENT_MAX = 1 << 16,
	FAR_BYTES = 1 << 30,	    /* the largest window (RFC 7323) */
	REORDER_LIMIT_NS = 3000000, /* where no handshake tells of the round trip */
	TIMESTAMP_OPTION_BYTES = 12,
};

/* What was not seen, and since when that is known. */
struct lh_flow_hole {
	uint64_t begin;
	uint64_t end;
	int64_t since_ns;
};

struct lh_flow_sent {
	uint64_t begin;
	uint64_t end;
	int64_t t_ns;
};

void lh_samples_add(struct lh_samples *s, double value)
{
	if (!s->n_seen || value < s->least)
		s->least = value;
	if (!s->stride)
		s->stride = 1;
	if (s->n_seen++ % s->stride)
		return;
	if (s->n == SAMPLES_MAX) {
		for (size_t i = 0; i < SAMPLES_MAX / 2; i++)
			s->values[i] = s->values[2 * i];
		s->n = SAMPLES_MAX / 2;
		s->stride *= 2;
	}
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		double *grown = reallocarray(s->values, room, sizeof(*grown));

		if (!grown)
			return;
		s->values = grown;
		s->room = room;
	}
	s->values[s->n++] = value;
}

double lh_samples_quantile(struct lh_samples *s, double share)
{
	size_t rank;

	if (!s->n)
		return NAN;
	lh_sort_doubles(s->values, s->n);
	rank = (size_t)ceil(share * (double)s->n);
	return s->values[rank ? rank - 1 : 0];
}

/* The number nearest to `near` that a field of 32 bits shows as seq. */
static uint64_t unwrap(uint64_t near, uint32_t seq)
{
	return near + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)near);
}

static bool is_far(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) > FAR_BYTES;
}

static void add(struct lh_flow_counts *to, const struct lh_flow_counts *c)
{
	to->packets += c->packets;
	to->segments += c->segments;
	to->wire_bytes += c->wire_bytes;
	to->payload_bytes += c->payload_bytes;
	to->new_bytes += c->new_bytes;
	to->retransmitted_packets += c->retransmitted_packets;
	to->retransmitted_segments += c->retransmitted_segments;
	to->retransmitted_bytes += c->retransmitted_bytes;
	to->out_of_order_packets += c->out_of_order_packets;
	to->duplicate_acks += c->duplicate_acks;
	to->keep_alives += c->keep_alives;
	to->odd_packets += c->odd_packets;
}

static void count(struct lh_flow *f, const struct lh_flow_counts *c)
{
	add(&f->total, c);
	add(&f->interval, c);
}

uint32_t lh_connection_segment_bytes(const struct lh_connection *c, int from)
{
	uint16_t own = c->flows[from].mss_option, other = c->flows[!from].mss_option;
	uint16_t least = own < other ? own : other;
	uint32_t options = c->flows[0].has_timestamps && c->flows[1].has_timestamps
				   ? TIMESTAMP_OPTION_BYTES
				   : 0;

	return least > options ? least - options : 0;
}

static uint64_t count_segments(const struct lh_connection *c, int from, uint64_t bytes)
{
	uint32_t segment = lh_connection_segment_bytes(c, from);

	return bytes && segment ? (bytes + segment - 1) / segment : 1;
}

/* Room for one more hole. */
static bool grow_holes(struct lh_flow *f)
{
	size_t room = f->holes_room ? 2 * f->holes_room : 16;
	struct lh_flow_hole *grown;

	if (f->n_holes < f->holes_room)
		return true;
	if (f->holes_room == HOLES_MAX)
		return false;
	grown = reallocarray(f->holes, room, sizeof(*grown));
	if (!grown)
		return false;
	f->holes = grown;
	f->holes_room = room;
	return true;
}

/* Notes that [begin, end) was passed over. Of too many holes the oldest is taken as filled. */
static bool add_hole(struct lh_flow *f, uint64_t begin, uint64_t end, int64_t t_ns)
{
	if (f->n_holes == HOLES_MAX)
		memmove(f->holes, f->holes + 1, --f->n_holes * sizeof(*f->holes));
	if (!grow_holes(f))
		return false;
	f->holes[f->n_holes++] = (struct lh_flow_hole){begin, end, t_ns};
	return true;
}

/* Fills [begin, end): how many bytes of it were holes, and since when the first of them. */
static uint64_t fill_holes(struct lh_flow *f, uint64_t begin, uint64_t end, int64_t *ret_since_ns)
{
	uint64_t filled = 0;

	for (size_t i = 0; i < f->n_holes && f->holes[i].begin < end;) {
		struct lh_flow_hole *h = &f->holes[i];
		uint64_t from = h->begin > begin ? h->begin : begin;
		uint64_t to = h->end < end ? h->end : end;

		if (from >= to) {
			i++;
			continue;
		}
		if (!filled)
			*ret_since_ns = h->since_ns;
		filled += to - from;
		if (from > h->begin && to < h->end && grow_holes(f)) {
			h = &f->holes[i];
			memmove(h + 1, h, (f->n_holes++ - i) * sizeof(*h));
			h->end = from;
			h[1].begin = to;
			i += 2;
		} else if (from > h->begin) {
			h->end = from;
			i++;
		} else if (to < h->end) {
			h->begin = to;
			i++;
		} else {
			memmove(h, h + 1, (--f->n_holes - i) * sizeof(*h));
		}
	}
	return filled;
}

static struct lh_flow_sent *sent_at(const struct lh_flow *f, size_t i)
{
	return &f->sent[(f->first_sent + i) % f->sent_room];
}

static void drop_sent(struct lh_flow *f)
{
	f->first_sent = (f->first_sent + 1) % f->sent_room;
	f->n_sent--;
}

/* Remembers a packet until it is acknowledged; of too many the first is forgotten. */
static bool push_sent(struct lh_flow *f, uint64_t begin, uint64_t end, int64_t t_ns)
{
	if (f->n_sent == SENT_MAX)
		drop_sent(f);
	if (f->n_sent == f->sent_room) {
		size_t room = f->sent_room ? 2 * f->sent_room : 16;
		struct lh_flow_sent *grown = calloc(room, sizeof(*grown));

		if (!grown)
			return false;
		for (size_t i = 0; i < f->n_sent; i++)
			grown[i] = *sent_at(f, i);
		free(f->sent);
		f->sent = grown;
		f->sent_room = room;
		f->first_sent = 0;
	}
	*sent_at(f, f->n_sent) = (struct lh_flow_sent){begin, end, t_ns};
	f->n_sent++;
	return true;
}

/* Data beyond all that was seen. */
static bool extend(struct lh_flow *f, uint64_t begin, uint64_t end, int64_t t_ns)
{
	f->end_seq = end;
	if (f->has_acked && end > f->acked && end - f->acked > f->in_flight_max_bytes)
		f->in_flight_max_bytes = end - f->acked;
	return push_sent(f, begin, end, t_ns);
}

/* A number far from all others: of a packet that was damaged, or, the second time, of a flow
 * of which much was not captured. Returns whether it is to be counted as odd. */
static bool is_odd(struct lh_flow *f, uint32_t seq)
{
	if (!is_far(f->end_seq, unwrap(f->end_seq, seq))) {
		f->has_odd = false;
		return false;
	}
	if (!f->has_odd || is_far(f->odd_seq, unwrap(f->odd_seq, seq))) {
		f->has_odd = true;
		f->odd_seq = seq;
		return true;
	}
	f->has_odd = false;
	f->has_acked = false;
	f->end_seq = unwrap(f->end_seq, seq);
	f->tainted_until = f->end_seq;
	f->n_sent = 0;
	f->n_holes = 0;
	return false;
}

static bool is_keep_alive(const struct lh_flow *f, const struct lh_packet *p, uint64_t begin)
{
	return p->payload_bytes <= 1 && !(p->flags & (LH_TCP_SYN | LH_TCP_FIN)) &&
	       begin + 1 == f->end_seq &&
	       (!p->payload_bytes || (f->has_acked && f->acked >= f->end_seq));
}

/* Data that begin before the end of what was seen: sent again, or late. */
static bool take_earlier(struct lh_connection *c, int from, const struct lh_packet *p,
			 uint64_t begin, uint64_t end, struct lh_flow_counts *n)
{
	struct lh_flow *f = &c->flows[from];
	uint64_t seen_end = end < f->end_seq ? end : f->end_seq;
	int64_t since_ns = p->t_ns;
	int64_t limit_ns = c->handshake_rtt_ns > 0 ? c->handshake_rtt_ns : REORDER_LIMIT_NS;
	uint64_t filled = fill_holes(f, begin, seen_end, &since_ns);
	uint64_t old = seen_end - begin - filled;
	bool is_late = !old && p->t_ns - since_ns < limit_ns;

	if (old > p->payload_bytes)
		old = p->payload_bytes;
	n->new_bytes = p->payload_bytes - old;
	f->tainted_until = f->end_seq;
	if (is_late) {
		n->out_of_order_packets = 1;
	} else {
		uint64_t again = old ? old : p->payload_bytes;

		n->retransmitted_packets = 1;
		n->retransmitted_segments = count_segments(c, from, again);
		n->retransmitted_bytes = again;
	}
	return end <= f->end_seq || extend(f, f->end_seq, end, p->t_ns);
}

static bool take_data(struct lh_connection *c, int from, const struct lh_packet *p,
		      struct lh_flow_counts *n)
{
	struct lh_flow *f = &c->flows[from];
	uint64_t span = p->payload_bytes + !!(p->flags & LH_TCP_SYN) + !!(p->flags & LH_TCP_FIN);
	uint64_t begin;
	bool ok = true;

	if (p->flags & LH_TCP_RST)
		return true;
	if (!f->has_seq) {
		f->has_seq = true;
		f->end_seq = ((uint64_t)1 << 32) + p->seq; /* room for what is before it */
	}
	if (is_odd(f, p->seq)) {
		n->odd_packets = 1;
		return true;
	}
	begin = unwrap(f->end_seq, p->seq);
	if (is_keep_alive(f, p, begin)) {
		n->keep_alives = 1;
		return true;
	}
	if (!span)
		return true;
	if (begin < f->end_seq)
		return take_earlier(c, from, p, begin, begin + span, n);
	n->new_bytes = p->payload_bytes;
	if (begin > f->end_seq)
		ok = add_hole(f, f->end_seq, begin, p->t_ns);
	return extend(f, begin, begin + span, p->t_ns) && ok;
}

/* The other end has all before `ack`. */
static void acknowledge(struct lh_flow *f, uint64_t ack, int64_t t_ns)
{
	struct lh_flow_sent last = {0};

	f->acked = ack;
	while (f->n_sent && sent_at(f, 0)->end <= ack) {
		last = *sent_at(f, 0);
		drop_sent(f);
	}
	/* the packet with the last byte that it covers, of which it may cover a part only */
	if (last.end != ack && f->n_sent)
		last = *sent_at(f, 0);
	if (last.end < ack || last.begin >= ack || last.end <= f->tainted_until || t_ns < last.t_ns)
		return;
	lh_samples_add(&f->rtts_ns, (double)(t_ns - last.t_ns));
	lh_samples_add(&f->interval_rtts_ns, (double)(t_ns - last.t_ns));
}

/* Whether it says what the last one said, and nothing else. */
static bool is_duplicate_ack(const struct lh_flow *sender, const struct lh_packet *p)
{
	return !p->payload_bytes && p->window && sender->has_last_ack &&
	       p->ack == sender->last_ack && p->window == sender->last_window &&
	       !(p->flags & (LH_TCP_SYN | LH_TCP_FIN | LH_TCP_RST)) && sender->has_seq &&
	       p->seq == (uint32_t)sender->end_seq;
}

static bool take_ack(struct lh_flow *sender, struct lh_flow *data, const struct lh_packet *p)
{
	const struct lh_flow_counts duplicate = {.duplicate_acks = 1};
	bool ok = true;
	uint64_t ack;

	if (!(p->flags & LH_TCP_ACK))
		return true;
	if (is_duplicate_ack(sender, p))
		count(data, &duplicate);
	if (!(p->flags & LH_TCP_RST)) {
		sender->has_last_ack = true;
		sender->last_ack = p->ack;
		sender->last_window = p->window;
	}
	if (!data->has_seq)
		return true;
	ack = unwrap(data->end_seq, p->ack);
	if (is_far(data->end_seq, ack))
		return true;
	if (ack > data->end_seq) {
		ok = add_hole(data, data->end_seq, ack, p->t_ns);
		data->end_seq = ack;
		data->tainted_until = ack;
	}
	if (!data->has_acked || ack > data->acked) {
		data->has_acked = true;
		acknowledge(data, ack, p->t_ns);
	}
	return ok;
}

static void take_handshake(struct lh_connection *c, int from, const struct lh_packet *p)
{
	struct lh_flow *f = &c->flows[from];
	const struct lh_flow *other = &c->flows[!from];

	if (p->flags & LH_TCP_SYN) {
		f->has_syn = true;
		f->syn_seq = p->seq;
		f->syn_ns = p->t_ns;
		f->n_syns++;
		f->mss_option = p->mss;
		f->has_timestamps = p->has_timestamps;
	} else if (c->handshake_rtt_ns < 0 && f->n_syns == 1 && other->n_syns == 1 &&
		   f->syn_ns <= other->syn_ns && f->total.packets == 1 &&
		   p->ack == other->syn_seq + 1) {
		c->handshake_rtt_ns = p->t_ns - f->syn_ns;
	}
	f->has_fin |= (p->flags & LH_TCP_FIN) != 0;
	f->has_rst |= (p->flags & LH_TCP_RST) != 0;
}

bool lh_connection_take(struct lh_connection *c, int from, const struct lh_packet *p)
{
	struct lh_flow *f = &c->flows[from];
	struct lh_flow_counts n = {.packets = 1, .payload_bytes = p->payload_bytes};
	bool ok;

	if (!f->total.packets)
		f->begin_ns = p->t_ns;
	if (!f->total.packets || p->t_ns > f->end_ns)
		f->end_ns = p->t_ns;
	take_handshake(c, from, p);
	n.segments = count_segments(c, from, p->payload_bytes);
	n.wire_bytes = p->wire_bytes + (n.segments - 1) * p->header_bytes;
	ok = take_data(c, from, p, &n);
	count(f, &n);
	return take_ack(f, &c->flows[!from], p) && ok;
}

bool lh_connection_is_reopened(const struct lh_connection *c, int from, const struct lh_packet *p)
{
	const struct lh_flow *f = &c->flows[from], *other = &c->flows[!from];

	if ((p->flags & (LH_TCP_SYN | LH_TCP_ACK)) != LH_TCP_SYN)
		return false;
	if (f->has_syn)
		return p->seq != f->syn_seq;
	/* both ends may open it at the same time */
	return f->total.packets || !other->has_syn || other->total.packets > other->n_syns;
}

uint64_t lh_flow_missing_bytes(const struct lh_flow *f)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < f->n_holes; i++)
		sum += f->holes[i].end - f->holes[i].begin;
	return sum;
}

void lh_connection_done(struct lh_connection *c)
{
	for (int i = 0; i < 2; i++) {
		free(c->flows[i].rtts_ns.values);
		free(c->flows[i].interval_rtts_ns.values);
		free(c->flows[i].holes);
		free(c->flows[i].sent);
	}
}
