/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a capture file: what is refused is refused with a message; what is read gives
 * tables whose sums hold.
 */
#include <stdio.h>
#include <stdlib.h>

#include "collect/capture.h"
#include "tests/fuzz/fuzz.h"

const char lh_fuzz_name[] = "capture";
const char *const lh_fuzz_words[] = {
	"\x4d\x3c\xb2\xa1",
	"\xa1\xb2\xc3\xd4",
	"\x08\x01\x45",
	"\x86\xdd\x60",
	"\x81\x01",
	"\x50\x10",
	"\x50\x12",
	"\x50\x02",
	"\xff\xff\xff\xff",
	"\x02\x04\x05\xb4",
	"\x7f\xff\xff\xff",
	"\x0a\x0d\x0d\x0a",
	"\x01\x01\x08\x0a",
	"\x05\x0a\x01\x01",
	"\x50\x11",
	"\x50\x04",
	"\x0a\x40\x01\x01",
	"\x80\x80\x80\x80",
	NULL,
};

static int64_t value(const struct lh_table *t, size_t row, const char *column)
{
	const struct lh_cell *c = lh_table_cell(t, row, (size_t)lh_table_find_column(t, column));

	return c->is_known ? c->integer : 0;
}

static void check(const struct lh_table *t, size_t row)
{
	int64_t packets = value(t, row, "packets"), payload = value(t, row, "payload_bytes");

	if (packets < 1 || value(t, row, "segments") < packets || payload < 0 ||
	    value(t, row, "new_bytes") > payload ||
	    value(t, row, "retransmitted_bytes") > payload ||
	    value(t, row, "retransmitted_packets") + value(t, row, "out_of_order_packets") +
			    value(t, row, "keep_alives") + value(t, row, "odd_packets") >
		    packets ||
	    value(t, row, "rtt_min_ns") > value(t, row, "rtt_median_ns") ||
	    value(t, row, "rtt_median_ns") > value(t, row, "rtt_p99_ns") ||
	    value(t, row, "rtt_min_ns") < 0 || value(t, row, "missing_bytes") < 0 ||
	    value(t, row, "end_ns") < value(t, row, "begin_ns")) {
		fprintf(stderr, "the row of a flow does not hold\n");
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct lh_capture_source source = {"fuzz", NULL};
	struct lh_capture_tables tables;
	struct lh_capture_tally tally;
	struct lh_error err = {0};
	FILE *in = size ? fmemopen((void *)data, size, "rb") : NULL;
	FILE *out = fopen("/dev/null", "we");

	if (!in || !out)
		abort();
	lh_capture_tables_init(&tables, NULL, 1000000000, out);
	if (lh_capture_read(in, &source, &tables, &tally, &err) < 0 && !err.message[0]) {
		fprintf(stderr, "an error without a message\n");
		abort();
	}
	for (size_t i = 0; i < tables.flows.n_rows; i++)
		check(&tables.flows, i);
	lh_capture_tables_done(&tables);
	fclose(out);
	return 0;
}
