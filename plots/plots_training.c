/* SPDX-License-Identifier: Apache-2.0 */
/* Data of the figure of a training. See plots_internal.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/table.h"
#include "core/cleanup.h"
#include "plots/plots_internal.h"

enum { AT, LOSS, ACCURACY, TEST_LOSS, TEST_ACCURACY, N_COLUMNS };

/* Where the numbers come from, and over what they are drawn. */
struct source {
	const char *file;
	const char *names[N_COLUMNS];
	const char *label;
};

static const struct source alone = {
	"loss.csv", {"epoch", "loss", "accuracy", "test_loss", "test_accuracy"}, "epoch"};
static const struct source in_a_run = {"epochs.csv",
				       {"end_s", "loss", "accuracy", "test_loss", "test_accuracy"},
				       "time on the run's clock (s)"};

static int copy_row(const struct lh_csv *csv, const int *columns, bool *ret_has_any,
		    bool *ret_has_tests, FILE *data, struct lh_error *err)
{
	for (int i = 0; i < N_COLUMNS; i++) {
		char buf[400];
		double value;
		int r = lh_csv_real(csv, columns[i], &value, err);

		if (r < 0)
			return r;
		*ret_has_any |= i == ACCURACY && !isnan(value);
		*ret_has_tests |= i == TEST_LOSS && !isnan(value);
		fprintf(data, "%s%s", i ? "," : "", lh_number_format(value, 9, buf, sizeof(buf)));
	}
	fputc('\n', data);
	return 0;
}

static int prepare(const struct source *source, const struct lh_plot_run *run, FILE *head,
		   FILE *data, struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	int columns[N_COLUMNS], r = lh_plot_csv_open(run, source->file, &csv, err);
	bool has_tests = false, has_any = false;

	if (r <= 0)
		return r;
	/* runs of older versions have no such columns */
	for (int i = 0; i < N_COLUMNS; i++)
		if ((columns[i] = lh_csv_find(&csv, source->names[i])) < 0)
			return 0;
	fputs("x,loss,accuracy,test_loss,test_accuracy\n", data);
	while ((r = lh_csv_next(&csv, err)) > 0)
		if ((r = copy_row(&csv, columns, &has_any, &has_tests, data, err)) < 0)
			return r;
	lh_plot_put_real(head, "has_tests", has_tests);
	lh_plot_put_text(head, "x_label", source->label);
	return r < 0 ? r : has_any;
}

int lh_plot_learning_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			     struct lh_error *err)
{
	return prepare(&in_a_run, run, head, data, err);
}

static int prepare_alone(const struct lh_plot_run *run, FILE *head, FILE *data,
			 struct lh_error *err)
{
	return prepare(&alone, run, head, data, err);
}

int lh_plots_make_training(const char *dir, const char *template_dir, const char *about,
			   struct lh_error *err)
{
	static const struct lh_plot_figure figure = {"loss", "Loss and accuracy", prepare_alone};
	lh_cleanup_free char *line = strdup(about);
	const struct lh_plot_run run = {.dir = dir, .about = line, .is_valid = true};

	if (!line)
		return lh_fail(err, LH_ESYS, ENOMEM, "write figures");
	return lh_plot_draw(&run, &figure, 1, template_dir, err);
}
