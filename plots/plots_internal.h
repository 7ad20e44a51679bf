/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind plots.h share. */
#ifndef LH_PLOTS_PLOTS_INTERNAL_H
#define LH_PLOTS_PLOTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "collect/csv.h"
#include "plots/plots.h"

/* What figures say about the run, from throughput.csv. */
struct lh_plot_run {
	const char *dir; /* borrowed */
	char *about;	 /* the line below the title */
	char *scenario;
	int64_t seed;
	int64_t n_nodes;
	int64_t n_epochs;
	bool is_valid;
	double samples;
	double wall_s;
	double baseline_sps; /* NaN: unknown; so the next one */
	double published_throughput_sps;
	const struct lh_plot_sweep *sweep; /* of its figure alone; borrowed */
};

/*
 * Prepares one figure: writes its data to data (CSV) and the variables that its template needs
 * to head (gnuplot). Returns 1, 0 where the run has no data for it, or an error.
 */
typedef int (*lh_plot_prepare)(const struct lh_plot_run *run, FILE *head, FILE *data,
			       struct lh_error *err);

/* One figure and how it is prepared. */
struct lh_plot_figure {
	const char *name;
	const char *title;
	lh_plot_prepare prepare;
};

/* Writes n figures into a folder `figures` of the run's. As lh_plots_make. */
int lh_plot_draw(const struct lh_plot_run *run, const struct lh_plot_figure *figures, size_t n,
		 const char *template_dir, struct lh_error *err);

int lh_plot_throughput_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			       struct lh_error *err);
int lh_plot_time_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			 struct lh_error *err);
int lh_plot_learning_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			     struct lh_error *err);
int lh_plot_cost_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			 struct lh_error *err);
int lh_plot_traffic_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			    struct lh_error *err);
int lh_plot_links_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			  struct lh_error *err);

int lh_plot_flows_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			  struct lh_error *err);

/* Opens run_dir/name: 1, 0 where there is no such file, or an error. */
int lh_plot_csv_open(const struct lh_plot_run *run, const char *name, struct lh_csv *ret_csv,
		     struct lh_error *err);

/* Writes `name = 'text'`, quoted so that gnuplot takes text as it is. */
void lh_plot_put_text(FILE *head, const char *name, const char *text);

/* Writes `name = value` (NaN as gnuplot's NaN). */
void lh_plot_put_real(FILE *head, const char *name, double value);

/* Names in the order in which they were first seen; characters that mean something to gnuplot
 * or in CSV are underscores. */
struct lh_plot_names {
	char **items;
	size_t n;
};

/* The index of name, which is added where it is new; -1 where memory is out. */
int lh_plot_names_add(struct lh_plot_names *names, const char *name);
void lh_plot_names_done(struct lh_plot_names *names);

/* Writes the names as one gnuplot text of words. */
void lh_plot_names_put(FILE *head, const char *name, const struct lh_plot_names *names);

#endif
