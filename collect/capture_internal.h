/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind capture.h share. */
#ifndef LH_COLLECT_CAPTURE_INTERNAL_H
#define LH_COLLECT_CAPTURE_INTERNAL_H

#include "collect/capture.h"
#include "collect/flow.h"

struct lh_tcp_end {
	uint8_t address[LH_ADDRESS_BYTES];
	uint16_t port;
};

struct lh_tcp_connection {
	uint64_t number; /* in order of first packets, from 0 */
	uint8_t ip_version;
	struct lh_tcp_end ends[2]; /* 0: whose packet came first */
	struct lh_connection tcp;
	bool is_active;
	struct lh_tcp_connection *next;
	struct lh_tcp_connection *next_in_bucket;
};

/* Adds the row of what one end sent; nothing where it sent nothing. */
void lh_capture_put_flow(struct lh_capture_tables *tables, const struct lh_capture_source *source,
			 struct lh_tcp_connection *connection, int from);
void lh_capture_put_interval(struct lh_capture_tables *tables,
			     const struct lh_capture_source *source,
			     struct lh_tcp_connection *connection, int from, int64_t begin_ns);

#endif
