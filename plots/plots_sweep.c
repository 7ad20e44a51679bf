/* SPDX-License-Identifier: Apache-2.0 */
/* Data of the figure of a sweep. See plots.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/table.h"
#include "core/cleanup.h"
#include "plots/plots_internal.h"

enum { SERIES, AT, SPEEDUP, ACCURACY, N_COLUMNS };

static const char *const column_names[N_COLUMNS] = {"series", "at", "speedup", "test_accuracy"};

static int copy_rows(struct lh_csv *csv, const int *columns, struct lh_plot_names *series,
		     bool *ret_has_accuracy, FILE *data, struct lh_error *err)
{
	int r;

	fputs("series,at,speedup,test_accuracy\n", data);
	while ((r = lh_csv_next(csv, err)) > 0) {
		int index = lh_plot_names_add(series, csv->cells[columns[SERIES]]);

		if (index < 0)
			return lh_fail(err, LH_ESYS, ENOMEM, "draw a sweep");
		fputs(series->items[index], data);
		for (int i = AT; i < N_COLUMNS; i++) {
			char buf[400];
			double value;

			if ((r = lh_csv_real(csv, columns[i], &value, err)) < 0)
				return r;
			*ret_has_accuracy |= i == ACCURACY && !isnan(value);
			fprintf(data, ",%s", lh_number_format(value, 9, buf, sizeof(buf)));
		}
		fputc('\n', data);
	}
	return r;
}

static int prepare_sweep(const struct lh_plot_run *run, FILE *head, FILE *data,
			 struct lh_error *err)
{
	const struct lh_plot_sweep *sweep = run->sweep;
	lh_cleanup_csv struct lh_csv csv = {0};
	struct lh_plot_names series = {0};
	bool has_accuracy = false;
	int columns[N_COLUMNS], r = lh_plot_csv_open(run, "sweep.csv", &csv, err);

	if (r <= 0)
		return r;
	r = lh_csv_find_all(&csv, column_names, N_COLUMNS, columns, err);
	if (r == 0)
		r = copy_rows(&csv, columns, &series, &has_accuracy, data, err);
	lh_plot_names_put(head, "series", &series);
	lh_plot_put_real(head, "has_accuracy", has_accuracy);
	lh_plot_put_real(head, "base_accuracy", sweep->base_accuracy);
	lh_plot_put_text(head, "base_name", sweep->base);
	lh_plot_put_text(head, "x_label", sweep->label);
	lh_plot_names_done(&series);
	return r < 0 ? r : 1;
}

int lh_plots_make_sweep(const char *dir, const char *template_dir,
			const struct lh_plot_sweep *sweep, struct lh_error *err)
{
	static const struct lh_plot_figure figure = {"sweep", "Speed-up and accuracy",
						     prepare_sweep};
	lh_cleanup_free char *line = strdup(sweep->about);
	const struct lh_plot_run run = {
		.dir = dir, .about = line, .is_valid = true, .sweep = sweep};

	if (!line)
		return lh_fail(err, LH_ESYS, ENOMEM, "write figures");
	return lh_plot_draw(&run, &figure, 1, template_dir, err);
}
