/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a network file out of measurements: iperf3, iperf, ping and fping output, and CSV.
 * What was measured is collected first; lh_import_write then derives one path per pair of
 * sites and writes YAML in which every value names where it comes from. Everything read is
 * bounded and checked. It knows nothing of the file system but the text it is given.
 */
#ifndef LH_IMPORT_IMPORT_H
#define LH_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum {
	LH_IMPORT_FILE_MAX_BYTES = 64 << 20,
	LH_IMPORT_SITES_MAX = 1000,
	LH_IMPORT_SETS_MAX = 100000,	 /* throughputs; and sets of round trips */
	LH_IMPORT_SAMPLES_MAX = 4000000, /* round trips */
	LH_IMPORT_STREAMS_MAX = 1000,
};

/* All measurements read so far, and the sites between which they were made. */
struct lh_import;

/* NULL when memory is out. */
struct lh_import *lh_import_new(void);
void lh_import_free(struct lh_import *im);

/* The host called address (numbers or a name, as files have it) stands at a site. LH_EINPUT. */
int lh_import_set_address(struct lh_import *im, const char *address, const char *site,
			  struct lh_error *err);

/* Provider, or continent, of a site; of all sites without their own where site is NULL. LH_EINPUT.
 */
int lh_import_set_provider(struct lh_import *im, const char *site, const char *provider,
			   struct lh_error *err);
int lh_import_set_continent(struct lh_import *im, const char *site, const char *continent,
			    struct lh_error *err);

/* Reads a CSV of sites: site, and any of provider, continent, region, zone, address, source. */
int lh_import_read_sites(struct lh_import *im, const char *name, const char *text, size_t size,
			 struct lh_diag *diag, struct lh_error *err);

/* What is to be known of a file beside its text; NULL and 0 where it is not. */
struct lh_import_file {
	const char *name; /* shown in messages and sources */
	const char *from; /* site that sent (ping: that asked), whatever the addresses */
	const char *to;
	const char *unit;    /* of the cells of a matrix: "ms", "Mbit/s" */
	int64_t streams;     /* of a matrix, and of CSV rows that do not say */
	int64_t duration_ns; /* the same */
};

/*
 * Takes the measurements in size bytes of text; what they are is told from the text. Faults
 * go to diag as file:line:col (LH_EINPUT); some measurements may have been taken then.
 */
int lh_import_read(struct lh_import *im, const struct lh_import_file *file, const char *text,
		   size_t size, struct lh_diag *diag, struct lh_error *err);

/* What limits a stream where streams were counted in one number only. */
enum lh_import_assume {
	LH_ASSUME_AUTO, /* window where another path shows one and has a link rate, else link */
	LH_ASSUME_WINDOW,
	LH_ASSUME_LINK,
};

struct lh_import_options {
	const char *name; /* of the network */
	const char *about;
	enum lh_import_assume assume;
	int64_t mtu_bytes;     /* 0: from iperf3's segment size, else 1500 */
	int64_t bandwidth_bps; /* of links whose rate was not measured; 0: none is given */
	bool jitter;	       /* write `jitter` into paths, not only a comment */
};

/*
 * Derives the paths and writes the network file into *ret_yaml, owned by the caller. Faults
 * (a site without provider, a throughput without a round trip ...) go to diag, all at once.
 * *ret_n_unmeasured is the number of pairs of sites that have no path.
 */
int lh_import_write(struct lh_import *im, const struct lh_import_options *o, char **ret_yaml,
		    size_t *ret_n_unmeasured, struct lh_diag *diag, struct lh_error *err);

/*
 * The window in bytes of a stream that carried payload bytes in duration_s over a round trip
 * of rtt_s, beginning with initial bytes and doubling each round trip: the W of
 *   duration = rtt (payload/W + log2(W/initial) - 1 + initial/W),
 * payload/W round trips at full window, and what growing to it costs. NaN where the stream
 * cannot have left slow start. Source: the closed form of tools/fit-host-costs.
 */
double lh_import_window(double payload, double duration_s, double rtt_s, double initial);

#endif
