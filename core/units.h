/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantities as people write them and as the program holds them.
 * k M G T are powers of 1000, Ki Mi Gi Ti of 1024; b and bit are bits, B is byte. A
 * quantity without its unit is an error. Parsing is exact (decimal, not floating point):
 * what does not come out as a whole number of the target unit is rounded to nearest.
 */
#ifndef LH_CORE_UNITS_H
#define LH_CORE_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum lh_unit_kind {
	LH_UNIT_DURATION,     /* "103.1 ms" -> ns */
	LH_UNIT_RATE,	      /* "210 Mbit/s" -> bit/s */
	LH_UNIT_SIZE,	      /* "6 MiB" -> bytes */
	LH_UNIT_USD_PER_HOUR, /* "0.18 USD/h" -> micro-USD per hour */
};

/* A price per amount of data, kept as it is billed. */
struct lh_byte_price {
	int64_t usd_micro; /* micro-USD ... */
	int64_t per_bytes; /* ... for this many bytes: 1e9 (GB) or 2^30 (GiB) */
};

/*
 * Parses text as a quantity of the given kind into *ret_value. Returns 0, or -1 with a
 * one-line reason ("a bare number; write a unit, such as 103.1 ms") in why[n_why].
 * Negative quantities are refused.
 */
int lh_unit_parse(enum lh_unit_kind kind, const char *text, int64_t *ret_value, char *why,
		  size_t n_why);

/* The same for a price per data: "0.08 USD/GB" or "0.08 USD/GiB". */
int lh_byte_price_parse(const char *text, struct lh_byte_price *ret_price, char *why, size_t n_why);

/* Parses a share: "5 %" or a number from 0 to 1 such as "0.05". Returns 0, or -1 with why. */
int lh_ratio_parse(const char *text, double *ret_ratio, char *why, size_t n_why);

/* A queue's length, in one of the ways to say it. */
struct lh_queue_size {
	enum lh_queue_unit {
		LH_QUEUE_TIME,	  /* ns at the path's bandwidth */
		LH_QUEUE_BYTES,	  /* of whole packets, headers included */
		LH_QUEUE_PACKETS, /* full ones */
		LH_QUEUE_BDP,	  /* thousandths of bandwidth x round-trip time */
	} unit;
	int64_t amount;
};

/* Parses "50 ms", "1 MB", "1000 packets" or "1 BDP". Returns 0, or -1 with why. */
int lh_queue_parse(const char *text, struct lh_queue_size *ret_queue, char *why, size_t n_why);

/* Writes value with a fitting unit ("103.1 ms", "210 Mbit/s", "6 MiB"), exactly: what it
 * writes parses back to the same value. Returns buf. */
char *lh_unit_format(enum lh_unit_kind kind, int64_t value, char *buf, size_t n_buf);

/* The same for people: three to four significant digits, not exact. Returns buf. */
char *lh_unit_format_short(enum lh_unit_kind kind, int64_t value, char *buf, size_t n_buf);

/* An example of how to write the kind, for messages: "103.1 ms". */
const char *lh_unit_example(enum lh_unit_kind kind);

#endif
