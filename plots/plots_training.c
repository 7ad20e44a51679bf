/* SPDX-License-Identifier: Apache-2.0 */
/* Data of the figure of a training. See plots_internal.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/table.h"
#include "core/cleanup.h"
#include "plots/plots_internal.h"

enum { EPOCH, LOSS, ACCURACY, TEST_LOSS, TEST_ACCURACY, N_COLUMNS };

static const char *const names[N_COLUMNS] = {"epoch", "loss", "accuracy", "test_loss",
					     "test_accuracy"};

static int copy_row(const struct lh_csv *csv, const int *columns, bool *ret_has_tests, FILE *data,
		    struct lh_error *err)
{
	for (int i = 0; i < N_COLUMNS; i++) {
		char buf[400];
		double value;
		int r = lh_csv_real(csv, columns[i], &value, err);

		if (r < 0)
			return r;
		*ret_has_tests |= i == TEST_LOSS && !isnan(value);
		fprintf(data, "%s%s", i ? "," : "", lh_number_format(value, 9, buf, sizeof(buf)));
	}
	fputc('\n', data);
	return 0;
}

static int prepare(const struct lh_plot_run *run, FILE *head, FILE *data, struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	int columns[N_COLUMNS], n = 0, r = lh_plot_csv_open(run, "loss.csv", &csv, err);
	bool has_tests = false;

	if (r <= 0)
		return r;
	if ((r = lh_csv_find_all(&csv, names, N_COLUMNS, columns, err)) < 0)
		return r;
	for (int i = 0; i < N_COLUMNS; i++)
		fprintf(data, "%s%s", i ? "," : "", names[i]);
	fputc('\n', data);
	while ((r = lh_csv_next(&csv, err)) > 0) {
		if ((r = copy_row(&csv, columns, &has_tests, data, err)) < 0)
			return r;
		n++;
	}
	lh_plot_put_real(head, "has_tests", has_tests);
	return r < 0 ? r : n > 0;
}

int lh_plots_make_training(const char *dir, const char *template_dir, const char *about,
			   struct lh_error *err)
{
	static const struct lh_plot_figure figure = {"loss", "Loss and accuracy", prepare};
	lh_cleanup_free char *line = strdup(about);
	const struct lh_plot_run run = {.dir = dir, .about = line, .is_valid = true};

	if (!line)
		return lh_fail(err, LH_ESYS, ENOMEM, "write figures");
	return lh_plot_draw(&run, &figure, 1, template_dir, err);
}
