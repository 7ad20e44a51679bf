/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributions of delay as netem takes them: a table of quantiles, from which the kernel
 * draws with equal probability. Made here from closed forms or from samples.
 * Source of the format: tabledist() in net/sched/sch_netem.c.
 */
#ifndef LH_SCENARIOS_JITTER_H
#define LH_SCENARIOS_JITTER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "scenarios/scenario.h"

enum {
	LH_JITTER_ENTRIES = 4096,
	LH_JITTER_SCALE = 8192, /* an entry of 8192 is one sigma of the kernel's */
};

/*
 * Entry i is the quantile of (i + 0.5) / 4096, with mean 0 and a standard deviation of
 * scale / 8192 sigma: a distribution with a long tail has a smaller scale, so that its
 * largest entry fits into 16 bits.
 */
struct lh_jitter_table {
	int16_t entries[LH_JITTER_ENTRIES];
	int64_t sigma_ns;  /* the kernel's "jitter": with the entries it gives the deviation */
	int64_t lowest_ns; /* the most that a packet can be early, negative */
	int64_t highest_ns;
	double sd_ns; /* that the entries give */
};

/* Whether the path's delay varies. */
bool lh_jitter_is_asked(const struct lh_path_spec *path);

/*
 * Quantiles of the closed forms that have been asked for so far: making them takes longer than all
 * else, and many paths have one form. Begins as zeros; lh_jitter_forms_done frees it.
 */
struct lh_jitter_forms {
	double *quantiles[LH_JITTER_EMPIRICAL]; /* by distribution */
};

void lh_jitter_forms_done(struct lh_jitter_forms *forms);

/* Makes the table of a path whose delay varies. forms: NULL for a single one. LH_EINPUT where
 * the samples are no numbers, do not vary, or vary too much. */
int lh_jitter_make(const struct lh_path_spec *path, struct lh_jitter_forms *forms,
		   struct lh_jitter_table *ret_table, struct lh_error *err);

#endif
