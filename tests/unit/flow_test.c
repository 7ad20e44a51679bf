/* SPDX-License-Identifier: Apache-2.0 */
/* Packets built by hand: taken apart, and as flows of TCP. */
#include <arpa/inet.h>
#include <pcap/dlt.h>
#include <stdlib.h>
#include <string.h>

#include "collect/flow.h"
#include "tests/unit/test.h"

enum { MS = 1000000, A = 0, B = 1, MSS = 1460 };

/* ---- packets ------------------------------------------------------------------------- */

struct frame {
	uint8_t bytes[256];
	size_t n;
};

static void put(struct frame *f, const void *bytes, size_t n)
{
	memcpy(f->bytes + f->n, bytes, n);
	f->n += n;
}

static void put16(struct frame *f, unsigned v)
{
	uint16_t n = htons((uint16_t)v);

	put(f, &n, 2);
}

static void put32(struct frame *f, uint32_t v)
{
	uint32_t n = htonl(v);

	put(f, &n, 4);
}

static void put_tcp(struct frame *f, size_t options_bytes)
{
	put16(f, 5201);
	put16(f, 40000);
	put32(f, 0xfffffff0u);
	put32(f, 77);
	put16(f, (unsigned)((20 + options_bytes) / 4 << 12 | LH_TCP_ACK));
	put16(f, 501);
	put32(f, 0);
}

static void put_ipv4(struct frame *f, unsigned length, unsigned fragment, unsigned protocol)
{
	put16(f, 0x4500);
	put16(f, length);
	put16(f, 1);
	put16(f, fragment);
	put16(f, 64 << 8 | protocol);
	put16(f, 0);
	put32(f, 0x0a400001);
	put32(f, 0x0a400002);
}

static void put_ethernet(struct frame *f, unsigned type)
{
	put(f, "\2\1\1\1\1\1\2\2\2\2\2\2", 12);
	put16(f, type);
}

static void test_ipv4_with_options_is_taken_apart(void **state)
{
	static const uint8_t options[] = {2, 4, 5, 0xb4, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2};
	struct frame f = {.n = 0};
	struct lh_packet p;

	(void)state;
	put_ethernet(&f, 0x0800);
	put_ipv4(&f, 20 + 20 + sizeof(options) + 65000, 0x4000, 6);
	put_tcp(&f, sizeof(options));
	put(&f, options, sizeof(options));
	assert_int_equal(lh_packet_parse(DLT_EN10MB, f.bytes, f.n, f.n + 65000, &p), LH_PACKET_TCP);
	assert_int_equal(p.payload_bytes, 65000); /* of the wire, not of what was captured */
	assert_int_equal(p.header_bytes, 14 + 20 + 20 + sizeof(options));
	assert_int_equal(p.from_port, 5201);
	assert_int_equal(p.to_port, 40000);
	assert_true(p.seq == 0xfffffff0u && p.ack == 77 && p.window == 501);
	assert_int_equal(p.mss, 1460);
	assert_true(p.has_timestamps);
	assert_memory_equal(p.from, "\x0a\x40\0\1\0\0\0\0", 8);
}

static void test_lengths_that_lie_are_damage(void **state)
{
	struct lh_packet p;

	(void)state;
	for (unsigned length = 0; length < 100; length++) {
		struct frame f = {.n = 0};
		enum lh_packet_kind kind;

		put_ethernet(&f, 0x0800);
		put_ipv4(&f, length, 0, 6);
		put_tcp(&f, 0);
		kind = lh_packet_parse(DLT_EN10MB, f.bytes, f.n, f.n, &p);
		/* 0: a super-packet too long for the field; the rest of the frame counts */
		assert_int_equal(kind, length == 40 || !length ? LH_PACKET_TCP : LH_PACKET_DAMAGED);
	}
}

static void test_too_little_captured_is_said(void **state)
{
	struct frame f = {.n = 0};
	struct lh_packet p;

	(void)state;
	put_ethernet(&f, 0x0800);
	put_ipv4(&f, 40, 0, 6);
	put_tcp(&f, 0);
	for (size_t n = 0; n < f.n; n++) {
		uint8_t *exact = malloc(n + 1);

		memcpy(exact, f.bytes, n);
		assert_int_equal(lh_packet_parse(DLT_EN10MB, exact, n, f.n, &p), LH_PACKET_CUT);
		free(exact);
	}
	assert_int_equal(lh_packet_parse(DLT_EN10MB, f.bytes, f.n, f.n, &p), LH_PACKET_TCP);
}

static void test_links_and_ipv6(void **state)
{
	static const uint8_t address[16] = {0x20, 1, [15] = 1};
	static const struct {
		int link;
		const char *head;
		size_t n;
	} links[] = {
		{DLT_RAW, "", 0},
		{DLT_IPV6, "", 0},
		{DLT_NULL, "\x1c\0\0\0", 4},
		{DLT_EN10MB, "\2\1\1\1\1\1\2\2\2\2\2\2\x81\0\0\5\x86\xdd", 18},
		{DLT_LINUX_SLL, "\0\0\0\1\0\6\2\1\1\1\1\1\0\0\x86\xdd", 16},
		{DLT_LINUX_SLL2, "\x86\xdd\0\0\0\0\0\1\0\1\0\6\2\1\1\1\1\1\0\0", 20},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(links); i++) {
		struct frame f = {.n = 0};
		struct lh_packet p;

		put(&f, links[i].head, links[i].n);
		put32(&f, 0x60000000);
		put16(&f, 8 + 20 + 3);
		put16(&f, 0 << 8 | 64); /* hop-by-hop options come first */
		put(&f, address, 16);
		put(&f, address, 16);
		put(&f, "\6\0\1\4\0\0\0\0", 8);
		put_tcp(&f, 0);
		put(&f, "abc", 3);
		assert_true(lh_packet_knows_link(links[i].link));
		assert_int_equal(lh_packet_parse(links[i].link, f.bytes, f.n, f.n, &p),
				 LH_PACKET_TCP);
		assert_int_equal(p.ip_version, 6);
		assert_int_equal(p.payload_bytes, 3);
		assert_int_equal(p.header_bytes, links[i].n + 40 + 8 + 20);
		assert_memory_equal(p.from, address, 16);
	}
	assert_false(lh_packet_knows_link(DLT_IEEE802_11));
}

static void test_what_is_not_tcp_is_told_apart(void **state)
{
	struct lh_packet p;
	struct frame arp = {.n = 0}, udp = {.n = 0}, fragment = {.n = 0};

	(void)state;
	put_ethernet(&arp, 0x0806);
	assert_int_equal(lh_packet_parse(DLT_EN10MB, arp.bytes, arp.n, arp.n, &p), LH_PACKET_OTHER);
	put_ethernet(&udp, 0x0800);
	put_ipv4(&udp, 20, 0, 17);
	assert_int_equal(lh_packet_parse(DLT_EN10MB, udp.bytes, udp.n, udp.n, &p), LH_PACKET_OTHER);
	put_ethernet(&fragment, 0x0800);
	put_ipv4(&fragment, 40, 0x2000, 6);
	put_tcp(&fragment, 0);
	assert_int_equal(lh_packet_parse(DLT_EN10MB, fragment.bytes, fragment.n, fragment.n, &p),
			 LH_PACKET_FRAGMENT);
}

/* ---- flows --------------------------------------------------------------------------- */

struct talk {
	struct lh_connection c;
	uint32_t first[2]; /* sequence number of each end's first byte */
};

/* One packet; seq and ack count bytes from each end's first. */
static void say(struct talk *t, double ms, int from, uint8_t flags, int64_t seq, uint32_t payload,
		int64_t ack)
{
	struct lh_packet p = {.t_ns = (int64_t)(ms * MS),
			      .ip_version = 4,
			      .flags = flags,
			      .seq = t->first[from] + (uint32_t)seq,
			      .ack = t->first[!from] + (uint32_t)ack,
			      .window = 500,
			      .wire_bytes = 54 + payload,
			      .header_bytes = 54,
			      .payload_bytes = payload};

	if (flags & LH_TCP_SYN)
		p.mss = MSS;
	assert_true(lh_connection_take(&t->c, from, &p));
}

static void data(struct talk *t, double ms, int64_t seq, uint32_t payload)
{
	say(t, ms, A, LH_TCP_ACK, seq, payload, 0);
}

static void ack(struct talk *t, double ms, int64_t up_to)
{
	say(t, ms, B, LH_TCP_ACK, 0, 0, up_to);
}

/* A connection between ends 40 ms apart, seen at A; first bytes after wrapping or not. */
static struct talk open_talk(uint32_t first)
{
	struct talk t = {.c = {.handshake_rtt_ns = -1}, .first = {first, first + 12345}};

	say(&t, 0, A, LH_TCP_SYN, -1, 0, 0);
	say(&t, 40, B, LH_TCP_SYN | LH_TCP_ACK, -1, 0, 0);
	say(&t, 40.5, A, LH_TCP_ACK, 0, 0, 0);
	return t;
}

static const struct lh_flow_counts *counts(const struct talk *t)
{
	return &t->c.flows[A].total;
}

static void test_a_plain_transfer(void **state)
{
	/* the second one wraps in the middle */
	static const uint32_t firsts[] = {1, 0xfffffc00u, 0x7ffffff0u};

	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(firsts); k++) {
		struct talk t = open_talk(firsts[k]);

		for (int i = 0; i < 100; i++) {
			data(&t, 100 + 50 * i, (int64_t)i * MSS, MSS);
			ack(&t, 142 + 50 * i, (int64_t)(i + 1) * MSS);
		}
		assert_int_equal(t.c.handshake_rtt_ns, 40500000);
		assert_int_equal(counts(&t)->packets, 102);
		assert_int_equal(counts(&t)->payload_bytes, 100 * MSS);
		assert_int_equal(counts(&t)->new_bytes, 100 * MSS);
		assert_int_equal(counts(&t)->retransmitted_packets, 0);
		assert_int_equal(counts(&t)->out_of_order_packets, 0);
		assert_int_equal(counts(&t)->duplicate_acks, 0);
		assert_int_equal(t.c.flows[A].in_flight_max_bytes, MSS);
		assert_int_equal(lh_flow_missing_bytes(&t.c.flows[A]), 0);
		assert_int_equal(t.c.flows[A].rtts_ns.n_seen, 101); /* and that of the SYN */
		assert_near(lh_samples_quantile(&t.c.flows[A].rtts_ns, 0.5), 42 * MS, 1);
		assert_near(t.c.flows[A].rtts_ns.least, 40 * MS, 1);
		lh_connection_done(&t.c);
	}
}

static void test_more_than_four_gib_are_counted(void **state)
{
	enum { STEP = 60000 };
	struct talk t = open_talk(5);
	int64_t n = 5 * ((int64_t)1 << 30) / STEP;

	(void)state;
	for (int64_t i = 0; i < n; i++) {
		data(&t, 100 + (double)i, i * STEP, STEP);
		ack(&t, 100.5 + (double)i, (i + 1) * STEP);
	}
	assert_true(counts(&t)->new_bytes == (uint64_t)(n * STEP));
	assert_int_equal(counts(&t)->retransmitted_packets, 0);
	assert_int_equal(counts(&t)->odd_packets, 0);
	lh_connection_done(&t.c);
}

static void test_a_super_packet_stands_for_segments(void **state)
{
	struct talk t = open_talk(1);

	(void)state;
	data(&t, 100, 0, 10 * MSS);
	data(&t, 100, 10 * MSS, 100);
	/* an acknowledgement in its middle tells of it, too */
	ack(&t, 141, 4 * MSS);
	ack(&t, 142, 10 * MSS + 100);
	data(&t, 150, 10 * MSS + 100, 1);
	assert_int_equal(counts(&t)->segments, 2 + 10 + 1 + 1);
	assert_int_equal(counts(&t)->wire_bytes, 2 * 54 + 10 * (54 + MSS) + 54 + 100 + 54 + 1);
	assert_int_equal(t.c.flows[A].rtts_ns.n_seen, 3);
	/* repeated in part: as many segments as are repeated */
	data(&t, 400, 2 * MSS, 2 * MSS + 1);
	assert_int_equal(counts(&t)->retransmitted_packets, 1);
	assert_int_equal(counts(&t)->retransmitted_segments, 3);
	lh_connection_done(&t.c);
}

static void test_karn_a_repeated_segment_gives_no_round_trip(void **state)
{
	struct talk t = open_talk(1);

	(void)state;
	data(&t, 100, 0, MSS); /* lost behind us */
	data(&t, 101, MSS, MSS);
	data(&t, 102, 2 * MSS, MSS);
	for (int i = 0; i < 3; i++)
		ack(&t, 141 + i, 0);
	data(&t, 145, 0, MSS);
	ack(&t, 186, 3 * MSS); /* of the repair, not of what was sent at 102 ms */
	data(&t, 187, 3 * MSS, MSS);
	ack(&t, 227, 4 * MSS);
	assert_int_equal(counts(&t)->retransmitted_packets, 1);
	assert_int_equal(counts(&t)->retransmitted_segments, 1);
	assert_int_equal(counts(&t)->retransmitted_bytes, MSS);
	assert_int_equal(counts(&t)->new_bytes, 4 * MSS);
	assert_int_equal(counts(&t)->duplicate_acks, 3);
	assert_int_equal(t.c.flows[A].rtts_ns.n_seen, 2);
	assert_near(t.c.flows[A].rtts_ns.values[1], 40 * MS, 1);
	lh_connection_done(&t.c);
}

static void test_at_the_receiver_late_is_told_from_repeated(void **state)
{
	struct talk t = open_talk(1);

	(void)state;
	data(&t, 100, MSS, MSS);
	data(&t, 101, 0, MSS); /* overtaken: sooner than a repetition could be here */
	assert_int_equal(counts(&t)->out_of_order_packets, 1);
	assert_int_equal(counts(&t)->retransmitted_packets, 0);
	data(&t, 200, 3 * MSS, MSS);
	data(&t, 245, 2 * MSS, MSS); /* never seen before, but a round trip later */
	assert_int_equal(counts(&t)->out_of_order_packets, 1);
	assert_int_equal(counts(&t)->retransmitted_packets, 1);
	assert_int_equal(counts(&t)->new_bytes, 4 * MSS);
	assert_int_equal(lh_flow_missing_bytes(&t.c.flows[A]), 0);
	lh_connection_done(&t.c);
}

static void test_what_was_not_captured_is_missing(void **state)
{
	struct talk t = open_talk(1);

	(void)state;
	data(&t, 100, 0, MSS);
	data(&t, 101, 3 * MSS, MSS);
	ack(&t, 141, 4 * MSS);
	assert_int_equal(lh_flow_missing_bytes(&t.c.flows[A]), 2 * MSS);
	ack(&t, 142, 6 * MSS); /* of data that nobody saw */
	assert_int_equal(lh_flow_missing_bytes(&t.c.flows[A]), 4 * MSS);
	assert_int_equal(counts(&t)->retransmitted_packets, 0);
	lh_connection_done(&t.c);
}

static void test_a_capture_that_begins_in_the_middle(void **state)
{
	struct talk t = {.c = {.handshake_rtt_ns = -1}, .first = {4000000000u, 7}};

	(void)state;
	ack(&t, 1, 5000);
	data(&t, 2, 9000, 1000);
	ack(&t, 42, 10000);
	data(&t, 43, 8000, 1000); /* from before the begin: sent again */
	assert_int_equal(counts(&t)->retransmitted_packets, 1);
	assert_int_equal(lh_flow_missing_bytes(&t.c.flows[A]), 0);
	assert_int_equal(t.c.flows[A].rtts_ns.n_seen, 1);
	assert_int_equal(t.c.handshake_rtt_ns, -1);
	assert_int_equal(lh_connection_segment_bytes(&t.c, A), 0);
	lh_connection_done(&t.c);
}

static void test_keep_alives_resets_and_fins(void **state)
{
	struct talk t = open_talk(1);

	(void)state;
	data(&t, 100, 0, MSS);
	ack(&t, 140, MSS);
	data(&t, 5000, MSS - 1, 0);
	data(&t, 6000, MSS - 1, 1);
	assert_int_equal(counts(&t)->keep_alives, 2);
	say(&t, 7000, A, LH_TCP_ACK | LH_TCP_FIN, MSS, 0, 0);
	say(&t, 7200, A, LH_TCP_ACK | LH_TCP_FIN, MSS, 0, 0);
	assert_int_equal(counts(&t)->retransmitted_segments, 1);
	assert_int_equal(counts(&t)->retransmitted_bytes, 0);
	say(&t, 7300, A, LH_TCP_RST, 900000, 0, 0);
	assert_int_equal(counts(&t)->retransmitted_packets, 1);
	assert_int_equal(lh_flow_missing_bytes(&t.c.flows[A]), 0);
	assert_true(t.c.flows[A].has_rst && t.c.flows[A].has_fin);
	lh_connection_done(&t.c);
}

static void test_a_repeated_syn_counts_and_gives_no_handshake(void **state)
{
	struct talk t = {.c = {.handshake_rtt_ns = -1}, .first = {1, 1}};

	(void)state;
	say(&t, 0, A, LH_TCP_SYN, -1, 0, 0);
	say(&t, 1000, A, LH_TCP_SYN, -1, 0, 0);
	say(&t, 1040, B, LH_TCP_SYN | LH_TCP_ACK, -1, 0, 0);
	say(&t, 1041, A, LH_TCP_ACK, 0, 0, 0);
	assert_int_equal(counts(&t)->retransmitted_segments, 1);
	assert_int_equal(t.c.handshake_rtt_ns, -1);
	assert_int_equal(t.c.flows[A].rtts_ns.n_seen, 0);
	lh_connection_done(&t.c);
}

static void test_ports_that_are_used_again(void **state)
{
	struct talk t = open_talk(1);
	struct lh_packet p = {.flags = LH_TCP_SYN, .seq = 0};

	(void)state;
	assert_false(lh_connection_is_reopened(&t.c, A, &p)); /* the same SYN once more */
	p.seq = 999;
	assert_true(lh_connection_is_reopened(&t.c, A, &p));
	assert_true(lh_connection_is_reopened(&t.c, B, &p));
	p.flags = LH_TCP_SYN | LH_TCP_ACK;
	assert_false(lh_connection_is_reopened(&t.c, B, &p));
	lh_connection_done(&t.c);
}

static void test_a_damaged_number_does_not_derail(void **state)
{
	struct talk t = open_talk(1);

	(void)state;
	data(&t, 100, 0, MSS);
	data(&t, 101, 1800000000, MSS);
	data(&t, 102, MSS, MSS);
	ack(&t, 142, 2000000000);
	ack(&t, 143, 2 * MSS);
	assert_int_equal(counts(&t)->odd_packets, 1);
	assert_int_equal(lh_flow_missing_bytes(&t.c.flows[A]), 0);
	assert_int_equal(t.c.flows[A].rtts_ns.n_seen, 2);
	/* twice near each other it is the flow that has gone on */
	data(&t, 200, 1800000000, MSS);
	data(&t, 201, 1800000000 + MSS, MSS);
	data(&t, 202, 1800000000 + 2 * MSS, MSS);
	assert_int_equal(counts(&t)->odd_packets, 2);
	assert_int_equal(counts(&t)->retransmitted_packets, 0);
	lh_connection_done(&t.c);
}

static void test_many_samples_keep_their_quantiles(void **state)
{
	enum { N = 10000000 };
	struct lh_samples s = {.n = 0};

	(void)state;
	for (int i = 0; i < N; i++)
		lh_samples_add(&s, (double)((int64_t)i * 7919 % N));
	assert_int_equal(s.n_seen, N);
	assert_true(s.n < N);
	assert_near(s.least, 0, 0);
	assert_near(lh_samples_quantile(&s, 0.5), N / 2.0, N * 0.001);
	assert_near(lh_samples_quantile(&s, 0.99), N * 0.99, N * 0.001);
	free(s.values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4_with_options_is_taken_apart),
		cmocka_unit_test(test_lengths_that_lie_are_damage),
		cmocka_unit_test(test_too_little_captured_is_said),
		cmocka_unit_test(test_links_and_ipv6),
		cmocka_unit_test(test_what_is_not_tcp_is_told_apart),
		cmocka_unit_test(test_a_plain_transfer),
		cmocka_unit_test(test_more_than_four_gib_are_counted),
		cmocka_unit_test(test_a_super_packet_stands_for_segments),
		cmocka_unit_test(test_karn_a_repeated_segment_gives_no_round_trip),
		cmocka_unit_test(test_at_the_receiver_late_is_told_from_repeated),
		cmocka_unit_test(test_what_was_not_captured_is_missing),
		cmocka_unit_test(test_a_capture_that_begins_in_the_middle),
		cmocka_unit_test(test_keep_alives_resets_and_fins),
		cmocka_unit_test(test_a_repeated_syn_counts_and_gives_no_handshake),
		cmocka_unit_test(test_ports_that_are_used_again),
		cmocka_unit_test(test_a_damaged_number_does_not_derail),
		cmocka_unit_test(test_many_samples_keep_their_quantiles),
	};

	return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
