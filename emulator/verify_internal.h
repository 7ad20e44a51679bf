/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the proof share. */
#ifndef LH_EMULATOR_VERIFY_INTERNAL_H
#define LH_EMULATOR_VERIFY_INTERNAL_H

#include "emulator/verify.h"

enum { LH_PROBE_SMALL_BYTES = 64 }; /* UDP payload; as much as holds a probe's head */

/* How packets are sent on one directed pair of nodes. */
struct lh_train {
	size_t from;
	size_t to;
	uint32_t n;	   /* packets */
	uint32_t n_full;   /* of these every second one is full, until so many have been */
	int64_t gap_ns;	   /* between packets; 0: all at once */
	int64_t lag_ns;	   /* behind the first train; not less than those before it in the list */
	uint32_t n_before; /* after so many, at_once go at a time */
	uint32_t at_once;
	uint32_t in_one;  /* packets that the kernel is given as one; all full then */
	bool no_checksum; /* damaged ones are delivered, and noticed here */

	/* what came: by number, -1: nothing */
	int64_t *delay_ns;
	int64_t *arrival_ns; /* CLOCK_REALTIME */
	int64_t *all_ns;     /* arrivals of all, doubles and damaged ones too; 2 n at most */
	uint32_t n_all;
	uint32_t n_arrived; /* different ones */
	uint32_t n_twice;
	uint32_t n_damaged;
	uint32_t n_overtaken;
};

/* UDP payload that makes a full packet. */
uint32_t lh_probe_full_bytes(const struct lh_plan *plan);

/* Bytes on the wire of a UDP payload. */
uint32_t lh_probe_wire_bytes(uint32_t payload);

/* Whether packet i of a train is a full one. */
bool lh_train_is_full(const struct lh_train *train, uint32_t i);

/*
 * Sends all trains at the same time (they have one n, gap_ns, n_before and at_once) and waits for
 * what comes. Allocates their arrays, which lh_train_done frees.
 */
int lh_trains_run(struct lh_net *net, const struct lh_plan *plan, struct lh_train *trains,
		  size_t n_trains, struct lh_error *err);
void lh_train_done(struct lh_train *train);

/* A proof under way. */
struct lh_verify {
	struct lh_net *net;
	const struct lh_plan *plan;
	struct lh_train *trains;
	size_t n_trains;
	struct lh_verdict *verdict;
	bool is_virtual;
};

static const double lh_delay_abs_ms_virtual = 0.05;

const struct lh_plan_path *lh_verify_path(const struct lh_verify *v, const struct lh_train *t);

/* A row about a train's path, without values. */
struct lh_verify_row lh_verify_row_of(const struct lh_train *t, enum lh_property property);

/* Adds a row; what is decided by chance is judged at the end. */
int lh_verify_add(struct lh_verify *v, struct lh_verify_row row, struct lh_error *err);

/* Time that bytes take at a rate, in ns. */
double lh_verify_ns(double bytes, int64_t bps);

/* Rows of a train that an idle path has carried. */
int lh_verify_delays(struct lh_verify *v, const struct lh_train *t, struct lh_error *err);
int lh_verify_chances(struct lh_verify *v, const struct lh_train *t, struct lh_error *err);

/* Sends on the path of an idle train, and adds rows. */
int lh_verify_rate(struct lh_verify *v, const struct lh_train *idle, struct lh_error *err);
int lh_verify_queue(struct lh_verify *v, const struct lh_train *idle, struct lh_error *err);

/* Measures one inner network of each kind, and adds rows. */
int lh_verify_inner(struct lh_verify *v, struct lh_error *err);

/* Sends through every link that a site shares, and adds rows. */
int lh_verify_site_links(struct lh_verify *v, struct lh_error *err);

#endif
