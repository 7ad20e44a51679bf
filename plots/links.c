/* SPDX-License-Identifier: Apache-2.0 */
/* Link measurements by pair of sites. See links.h. */
#include "plots/links.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/csv.h"
#include "collect/table.h"

const char *const lh_matrix_kind_names[LH_N_MATRIX_KINDS] = {"rtt", "throughput"};

enum { KIND, FROM, TO, TARGET, ACHIEVED, STREAMS, OK, N_COLUMNS };

static const char *const names[N_COLUMNS] = {
	"kind", "from", "to", "target", "achieved", "streams", "ok",
};

static struct lh_link_cell *link_at(const struct lh_link_matrix *matrix, int kind, size_t from,
				    size_t to)
{
	return &matrix->links[((size_t)kind * LH_MATRIX_SITES_MAX + from) * LH_MATRIX_SITES_MAX +
			      to];
}

static int kind_of(const char *text)
{
	for (int k = 0; k < LH_N_MATRIX_KINDS; k++)
		if (strcmp(text, lh_matrix_kind_names[k]) == 0)
			return k;
	return -1;
}

static bool is_false(const char *text)
{
	return strcmp(text, "0") == 0 || strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
}

/* The index of a site, -1 where there is no room or no memory. */
static int site_index(struct lh_link_matrix *matrix, const char *name)
{
	int i = lh_plot_names_add(&matrix->sites, name);

	if (i < LH_MATRIX_SITES_MAX)
		return i;
	free(matrix->sites.items[i]);
	matrix->sites.n--;
	return -1;
}

/* Adds the current row to its link; sums stand where means will. */
static int add_row(const struct lh_csv *csv, const int *columns, struct lh_link_matrix *matrix,
		   struct lh_error *err)
{
	int kind = kind_of(csv->cells[columns[KIND]]);
	int from = site_index(matrix, csv->cells[columns[FROM]]);
	int to = site_index(matrix, csv->cells[columns[TO]]);
	double v[N_COLUMNS];
	struct lh_link_cell *link;

	for (int c = TARGET; c <= STREAMS; c++) {
		int r = lh_csv_real(csv, columns[c], &v[c], err);

		if (r < 0)
			return r;
	}
	if (kind < 0 || from < 0 || to < 0 || isnan(v[TARGET]) || isnan(v[ACHIEVED]))
		return 0;
	link = link_at(matrix, kind, (size_t)from, (size_t)to);
	v[STREAMS] = isnan(v[STREAMS]) ? 0 : v[STREAMS];
	if (link->n && v[STREAMS] > link->streams)
		return 0;
	if (v[STREAMS] < link->streams)
		*link = (struct lh_link_cell){0};
	link->streams = v[STREAMS];
	link->n++;
	link->target += v[TARGET];
	link->achieved += v[ACHIEVED];
	link->is_missed |= is_false(csv->cells[columns[OK]]);
	return 0;
}

int lh_link_matrix_read(const char *run_dir, struct lh_link_matrix *ret_matrix,
			struct lh_error *err)
{
	enum { N_LINKS = LH_N_MATRIX_KINDS * LH_MATRIX_SITES_MAX * LH_MATRIX_SITES_MAX };
	const struct lh_plot_run run = {.dir = run_dir};
	lh_cleanup_csv struct lh_csv csv = {0};
	struct lh_link_matrix matrix = {0};
	int columns[N_COLUMNS], r = lh_plot_csv_open(&run, "links.csv", &csv, err);

	if (r <= 0)
		return r;
	matrix.links = calloc(N_LINKS, sizeof(*matrix.links));
	r = matrix.links ? lh_csv_find_all(&csv, names, N_COLUMNS, columns, err)
			 : lh_fail(err, LH_ESYS, ENOMEM, "read %s", csv.path);
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0)
		r = add_row(&csv, columns, &matrix, err);
	if (r < 0 || !matrix.sites.n) {
		lh_link_matrix_done(&matrix);
		return r;
	}
	for (size_t i = 0; i < N_LINKS; i++) {
		if (!matrix.links[i].n)
			continue;
		matrix.links[i].target /= (double)matrix.links[i].n;
		matrix.links[i].achieved /= (double)matrix.links[i].n;
	}
	*ret_matrix = matrix;
	return 1;
}

void lh_link_matrix_done(struct lh_link_matrix *matrix)
{
	lh_plot_names_done(&matrix->sites);
	free(matrix->links);
	matrix->links = NULL;
}

const struct lh_link_cell *lh_link_matrix_get(const struct lh_link_matrix *matrix, int kind,
					      size_t from, size_t to)
{
	const struct lh_link_cell *link = link_at(matrix, kind, from, to);

	return link->n ? link : NULL;
}

const char *lh_matrix_format(double value, char *buf, size_t n_buf)
{
	int decimals = value < 10 ? 2 : (value < 1000 ? 1 : 0);

	return lh_number_format(value, decimals, buf, n_buf);
}
