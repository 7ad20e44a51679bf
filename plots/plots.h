/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a run, drawn by gnuplot from the run folder's CSV files. Each figure leaves its
 * data (NAME.csv), a script that draws it again without longhaul (NAME.gp), NAME.svg, NAME.png.
 */
#ifndef LH_PLOTS_PLOTS_H
#define LH_PLOTS_PLOTS_H

#include <stddef.h>

#include "core/error.h"

/* A figure that a run may have. */
struct lh_plot {
	const char *name; /* of its files */
	const char *caption;
};

/* All figures, in the order of the report; ends with name NULL. */
extern const struct lh_plot lh_plots[];

/*
 * Writes run_dir/figures. template_dir holds style.gp and NAME.gp. A figure for which the run
 * has no data (one node has no links) is left out. gnuplot runs once, for all of them.
 * LH_EENV where gnuplot is not installed, LH_ERUN with what it said where it fails, LH_EINPUT
 * for a malformed CSV file, LH_ESYS.
 */
int lh_plots_make(const char *run_dir, const char *template_dir, struct lh_error *err);

/*
 * The same for a proof's folder, from its verify.csv, verify.json and, where there is jitter,
 * jitter.csv: figures `verify` and `jitter`.
 */
int lh_plots_make_proof(const char *proof_dir, const char *template_dir, struct lh_error *err);

/*
 * Writes dir/figures with one figure of dir/flows.csv and dir/flow-intervals.csv: the flows with
 * the most payload over time. Nothing where no flow carried any. about stands below the
 * title. Errors as above.
 */
int lh_plots_make_flows(const char *dir, const char *template_dir, const char *about,
			struct lh_error *err);

/* What the figure of a sweep says beside its data. */
struct lh_plot_sweep {
	const char *about; /* below the title */
	const char *label; /* of the axis */
	const char *base;  /* the run that speed-ups are over, for the key */
	double base_accuracy; /* 0 to 1; NaN: not known */
};

/*
 * Writes dir/figures with one figure of dir/sweep.csv (collect/claims.h): speed-up and, where it is
 * known, accuracy of series of runs. Errors as above.
 */
int lh_plots_make_sweep(const char *dir, const char *template_dir,
			const struct lh_plot_sweep *sweep, struct lh_error *err);

/*
 * Writes dir/figures with one figure of dir/loss.csv: loss and accuracy over epochs. about stands
 * below the title. Errors as above.
 */
int lh_plots_make_training(const char *dir, const char *template_dir, const char *about,
			   struct lh_error *err);

#endif
