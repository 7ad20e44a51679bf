/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers and the writer of imports share. */
#ifndef LH_IMPORT_IMPORT_INTERNAL_H
#define LH_IMPORT_IMPORT_INTERNAL_H

#include "import/import.h"

enum { TCP_IP_BYTES = 52, ETHERNET_BYTES = 14, INITIAL_SEGMENTS = 10 };

struct im_site {
	char *name;
	char *provider;
	char *region;
	char *zone;
	char *source;
	const char *continent; /* one of the schema's, or NULL */
};

struct im_address {
	char *text;
	size_t site;
};

enum im_rtt_kind { IM_RTT_PING, IM_RTT_SUMMARY, IM_RTT_TABLE, IM_RTT_TCP };

/* Round trips from one site to another out of one file or row. */
struct im_rtt {
	size_t from, to;
	enum im_rtt_kind kind;
	double *ms; /* samples; one, the mean, of a summary */
	size_t n;
	double min_ms, sd_ms; /* of a summary; negative: not known */
	int64_t n_sent;	      /* 0: not known */
	char *source;
};

/* One measured throughput: the mean of all streams together. */
struct im_rate {
	size_t from, to;
	int64_t streams;
	int64_t duration_ns;
	bool steady; /* slow start was left out */
	double bps;
	double sd_bps; /* negative: not known */
	char *source;
};

struct lh_import {
	struct im_site *sites;
	size_t n_sites;
	struct im_address *addresses;
	size_t n_addresses;
	struct im_rtt *rtts;
	size_t n_rtts;
	size_t n_samples;
	struct im_rate *rates;
	size_t n_rates;
	char *provider;	       /* of sites without their own */
	const char *continent; /* the same */
	int64_t mtu_bytes;     /* smallest that iperf3 has told; 0: none */
	bool mtu_differs;
};

/* What a reader works on. */
struct im_reader {
	struct lh_import *im;
	const struct lh_import_file *file;
	const char *text;
	size_t size;
	struct lh_diag *diag;
	struct lh_error *err;
};

/* A line of the text, without its end; copied and NUL-terminated where it is given out. */
struct im_lines {
	const char *next;
	const char *end;
	int number;	 /* of the current line, from 1 */
	char line[4096]; /* cut where it is longer */
};

void im_lines_init(struct im_lines *l, const char *text, size_t size);
bool im_lines_next(struct im_lines *l);

/* Where p, in the line, stands. */
struct lh_pos im_lines_pos(const struct im_lines *l, const struct im_reader *r, const char *p);

/* Adds a message and returns LH_EINPUT. */
int im_bad(struct im_reader *r, struct lh_pos pos, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The same for what the CSV reader said in err; passes any other code on. */
int im_bad_csv(struct im_reader *r, int code);

/* The site called name, made where there is none; LH_EINPUT (a bad name, too many). */
int im_site(struct lh_import *im, const char *name, size_t *ret_site, struct lh_error *err);

/* The same for a reader: complains at pos. */
int im_reader_site(struct im_reader *r, struct lh_pos pos, const char *name, size_t *ret_site);

/* The site of an address, or of --from (is_from) or --to where the file has them. */
int im_reader_host(struct im_reader *r, struct lh_pos pos, bool is_from, const char *address,
		   size_t *ret_site);

/* Whether a host, or site, is known by that name. */
bool im_is_known(const struct lh_import *im, const char *address);

/* Takes a throughput, or round trips, over; ms is copied. Checks bounds, complains at pos. */
int im_add_rate(struct im_reader *r, struct lh_pos pos, const struct im_rate *rate);
int im_add_rtt(struct im_reader *r, struct lh_pos pos, const struct im_rtt *rtt);

/* A decimal number at the start of text, whatever the locale; *ret_end is what follows. -1. */
int im_number(const char *text, double *ret, const char **ret_end);

/* The continent of that name as the schema writes it, or NULL. */
const char *im_continent(const char *name);

/* Readers of the kinds of files. */
int im_read_iperf3(struct im_reader *r);
int im_read_iperf(struct im_reader *r);
int im_read_iperf_csv(struct im_reader *r);
int im_read_ping(struct im_reader *r);
int im_read_fping(struct im_reader *r);
int im_read_csv(struct im_reader *r);

/* What a path is, from its measurements. */
enum im_limit { IM_LIMIT_NONE, IM_LIMIT_WINDOW, IM_LIMIT_LINK, IM_LIMIT_UNKNOWN };

struct im_judged {
	enum im_limit limit;
	int64_t few, many;	   /* smallest and largest number of streams */
	double few_bps, many_bps;  /* means as measured */
	double few_steady_bps;	   /* slow start taken out */
	double largest_bps;	   /* the largest total: as measured, */
	double largest_steady_bps; /* and with slow start taken out; */
	int64_t largest_streams;   /* of so many streams */
	bool saturates;		   /* the largest total is less than its streams could carry */
	double window_bytes;	   /* of one stream; NaN: still in slow start */
	double scatter_ratio; /* sd / mean of the few streams' repetitions; negative: unknown */
};

/*
 * Judges n > 0 rates over a round trip. initial is the initial window in bytes. All rates
 * are of one path, in either direction.
 */
void im_judge(const struct im_rate *const *rates, size_t n, double rtt_s, double initial,
	      struct im_judged *ret);

/* One rate with slow start taken out, bit/s. */
double im_steady_bps(const struct im_rate *rate, double rtt_s, double initial);

#endif
