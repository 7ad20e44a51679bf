/* SPDX-License-Identifier: Apache-2.0 */
/* The link measurements of links.csv as matrices of sites, for the figure and the report. */
#ifndef LH_PLOTS_LINKS_H
#define LH_PLOTS_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "plots/plots_internal.h"

enum { LH_MATRIX_SITES_MAX = 24 }; /* that fit a figure; more are left out */

enum lh_matrix_kind { LH_MATRIX_RTT, LH_MATRIX_THROUGHPUT, LH_N_MATRIX_KINDS };

/* As in links.csv. */
extern const char *const lh_matrix_kind_names[LH_N_MATRIX_KINDS];

/* What was measured from one site to another: means over pairs of nodes; RTT in ms, throughput
 * in Mbit/s with the fewest streams that were measured. */
struct lh_link_cell {
	size_t n; /* rows; 0: not measured */
	double streams;
	double target;
	double achieved;
	bool is_missed; /* by any row */
};

struct lh_link_matrix {
	struct lh_plot_names sites; /* at most LH_MATRIX_SITES_MAX */
	struct lh_link_cell *links;
};

/* Reads run_dir/links.csv: 1, 0 where it is missing or empty (then there is nothing to free), or
 * LH_EINPUT, LH_ESYS. *ret_matrix is the caller's, for lh_link_matrix_done. */
int lh_link_matrix_read(const char *run_dir, struct lh_link_matrix *ret_matrix,
			struct lh_error *err);
void lh_link_matrix_done(struct lh_link_matrix *matrix);

/* The link between two sites by their index, or NULL where it was not measured. */
const struct lh_link_cell *lh_link_matrix_get(const struct lh_link_matrix *matrix, int kind,
					      size_t from, size_t to);

/* A measurement for people, about four digits. Returns buf. */
const char *lh_matrix_format(double value, char *buf, size_t n_buf);

#endif
