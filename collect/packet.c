/* SPDX-License-Identifier: Apache-2.0 */
/* Packets taken apart. See packet.h. Source: RFC 791, 8200, 9293; libpcap's link types. */
#include "collect/packet.h"

#include <pcap/dlt.h>
#include <string.h>

enum {
	ETHERTYPE_V4 = 0x0800,
	ETHERTYPE_V6 = 0x86dd,
	VLAN_BYTES = 4,
	VLANS_MAX = 4,
	IPV4_BYTES = 20,
	IPV6_BYTES = 40,
	IPV6_OPTION_HEADERS_MAX = 8,
	TCP_BYTES = 20,
	PROTOCOL_TCP = 6,
};

/* What is left of a packet. */
struct rest {
	const uint8_t *at;
	size_t n_captured;
	size_t n_wire;
};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static bool step(struct rest *r, size_t n)
{
	if (r->n_captured < n || r->n_wire < n)
		return false;
	r->at += n;
	r->n_captured -= n;
	r->n_wire -= n;
	return true;
}

bool lh_packet_knows_link(int link_type)
{
	switch (link_type) {
	case DLT_EN10MB:
	case DLT_RAW:
	case DLT_IPV4:
	case DLT_IPV6:
	case DLT_NULL:
	case DLT_LOOP:
	case DLT_LINUX_SLL:
	case DLT_LINUX_SLL2:
		return true;
	default:
		return false;
	}
}

/* Steps over the tags of virtual LANs; r stands behind the first type. */
static uint16_t skip_vlans(struct rest *r, uint16_t type)
{
	for (int i = 0; i < VLANS_MAX && (type == 0x8100 || type == 0x88a8 || type == 0x9100);
	     i++) {
		const uint8_t *tag = r->at;

		if (!step(r, VLAN_BYTES))
			return 0;
		type = get16(tag + 2);
	}
	return type;
}

/* Steps over the link's header; false where too little was captured. ret_is_ip: whether IP
 * follows. */
static bool skip_link(int link_type, struct rest *r, bool *ret_is_ip)
{
	const uint8_t *head = r->at;
	size_t n = 0, type_at = 0;
	uint16_t type;

	*ret_is_ip = true;
	switch (link_type) {
	case DLT_EN10MB:
		n = 14;
		type_at = 12;
		break;
	case DLT_LINUX_SLL:
		n = 16;
		type_at = 14;
		break;
	case DLT_LINUX_SLL2:
		n = 20;
		break;
	case DLT_NULL:
	case DLT_LOOP: /* the family's number differs between systems; IP says its version itself */
		return step(r, 4);
	default:
		return true;
	}
	if (!step(r, n))
		return false;
	type = skip_vlans(r, get16(head + type_at));
	*ret_is_ip = type == ETHERTYPE_V4 || type == ETHERTYPE_V6;
	return true;
}

/* Offload leaves a length of 0 in a super-packet that it does not fit in. */
static bool set_wire_length(struct rest *r, size_t length, size_t header_bytes)
{
	if (!length)
		return true;
	if (length < header_bytes || length > r->n_wire)
		return false;
	r->n_wire = length;
	if (r->n_captured > length)
		r->n_captured = length;
	return true;
}

static enum lh_packet_kind parse_ipv4(struct rest *r, struct lh_packet *p)
{
	const uint8_t *h = r->at;
	size_t header_bytes;

	if (r->n_captured < IPV4_BYTES)
		return r->n_wire < IPV4_BYTES ? LH_PACKET_DAMAGED : LH_PACKET_CUT;
	header_bytes = 4 * (size_t)(h[0] & 15);
	if (header_bytes < IPV4_BYTES || !set_wire_length(r, get16(h + 2), header_bytes))
		return LH_PACKET_DAMAGED;
	if (h[9] != PROTOCOL_TCP)
		return LH_PACKET_OTHER;
	if (get16(h + 6) & 0x3fff)
		return LH_PACKET_FRAGMENT;
	memcpy(p->from, h + 12, 4);
	memcpy(p->to, h + 16, 4);
	return step(r, header_bytes) ? LH_PACKET_TCP : LH_PACKET_CUT;
}

/* Steps over the headers between IPv6 and TCP. */
static enum lh_packet_kind skip_ipv6_options(struct rest *r, uint8_t next)
{
	for (int i = 0; i < IPV6_OPTION_HEADERS_MAX; i++) {
		const uint8_t *h = r->at;

		if (next == PROTOCOL_TCP)
			return LH_PACKET_TCP;
		if (next == 44)
			return LH_PACKET_FRAGMENT;
		if (next != 0 && next != 43 && next != 60)
			return LH_PACKET_OTHER;
		if (!step(r, 8))
			return LH_PACKET_CUT;
		next = h[0];
		if (!step(r, 8 * (size_t)h[1]))
			return LH_PACKET_CUT;
	}
	return LH_PACKET_OTHER;
}

static enum lh_packet_kind parse_ipv6(struct rest *r, struct lh_packet *p)
{
	const uint8_t *h = r->at;

	if (r->n_captured < IPV6_BYTES)
		return r->n_wire < IPV6_BYTES ? LH_PACKET_DAMAGED : LH_PACKET_CUT;
	if (get16(h + 4) && !set_wire_length(r, IPV6_BYTES + (size_t)get16(h + 4), IPV6_BYTES))
		return LH_PACKET_DAMAGED;
	memcpy(p->from, h + 8, LH_ADDRESS_BYTES);
	memcpy(p->to, h + 24, LH_ADDRESS_BYTES);
	step(r, IPV6_BYTES);
	return skip_ipv6_options(r, h[6]);
}

/* Takes from the options what is of use; those that were not captured are not there. */
static void parse_options(const uint8_t *at, const uint8_t *end, struct lh_packet *p)
{
	while (at < end && *at != 0) {
		if (*at == 1) {
			at++;
			continue;
		}
		if (end - at < 2 || at[1] < 2 || at[1] > end - at)
			return;
		if (at[0] == 2 && at[1] == 4)
			p->mss = get16(at + 2);
		p->has_timestamps |= at[0] == 8 && at[1] == 10;
		at += at[1];
	}
}

static enum lh_packet_kind parse_tcp(struct rest *r, struct lh_packet *p)
{
	const uint8_t *h = r->at;
	size_t header_bytes, n_captured;

	if (r->n_captured < TCP_BYTES)
		return r->n_wire < TCP_BYTES ? LH_PACKET_DAMAGED : LH_PACKET_CUT;
	header_bytes = 4 * (size_t)(h[12] >> 4);
	if (header_bytes < TCP_BYTES || header_bytes > r->n_wire)
		return LH_PACKET_DAMAGED;
	p->from_port = get16(h);
	p->to_port = get16(h + 2);
	p->seq = get32(h + 4);
	p->ack = get32(h + 8);
	p->flags = h[13];
	p->window = get16(h + 14);
	n_captured = r->n_captured < header_bytes ? r->n_captured : header_bytes;
	parse_options(h + TCP_BYTES, h + n_captured, p);
	p->payload_bytes = (uint32_t)(r->n_wire - header_bytes);
	p->header_bytes = (uint32_t)header_bytes;
	return LH_PACKET_TCP;
}

enum lh_packet_kind lh_packet_parse(int link_type, const uint8_t *bytes, size_t n_captured,
				    size_t n_wire, struct lh_packet *ret)
{
	struct rest r = {bytes, n_captured < n_wire ? n_captured : n_wire, n_wire};
	enum lh_packet_kind kind;
	bool is_ip;

	*ret = (struct lh_packet){.wire_bytes = (uint32_t)n_wire};
	if (!skip_link(link_type, &r, &is_ip))
		return LH_PACKET_CUT;
	if (!is_ip)
		return LH_PACKET_OTHER;
	if (!r.n_captured)
		return LH_PACKET_CUT;
	ret->ip_version = r.at[0] >> 4;
	if (ret->ip_version != 4 && ret->ip_version != 6)
		return LH_PACKET_OTHER;
	kind = ret->ip_version == 4 ? parse_ipv4(&r, ret) : parse_ipv6(&r, ret);
	if (kind != LH_PACKET_TCP)
		return kind;
	kind = parse_tcp(&r, ret);
	ret->header_bytes += (uint32_t)(r.at - bytes);
	return kind;
}
