/* SPDX-License-Identifier: Apache-2.0 */
/* Power iteration with error feedback. See low_rank.h. */
#include "trainer/compress/low_rank.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "trainer/compress/kernels_matrix_internal.h"
#include "trainer/compress/kernels_sparse_internal.h"

/* A column that lost more than this to the columns before it is rounding alone. */
static const double INDEPENDENT = 1e-6;

struct matrix {
	uint32_t rows, columns;
	uint32_t rank; /* 0: not compressed */
	uint64_t at;   /* in the gradient */
	uint64_t at_p; /* in P: rank columns of rows; all elements where it is not compressed */
	uint64_t at_q; /* in Q: rank columns of columns */
};

struct lh_low_rank {
	struct matrix *matrices;
	size_t n_matrices;
	uint64_t n, n_p, n_q, seed, step;
	bool forgets;
	float *error; /* n; M between project and reconstruct */
	float *p, *q;
};

/* ---- set-up --------------------------------------------------------------------------------- */

static int check(const struct lh_low_rank_settings *s, struct lh_error *err)
{
	uint64_t n = 0;

	if (s->n_tensors < 1 || s->n_tensors > LH_LOW_RANK_TENSORS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%zu tensors; expected 1 to %d", s->n_tensors,
			       LH_LOW_RANK_TENSORS_MAX);
	if (s->rank < 1 || s->rank > LH_LOW_RANK_MAX)
		return lh_fail(err, LH_EINPUT, 0, "rank %" PRIu32 "; expected 1 to %d", s->rank,
			       LH_LOW_RANK_MAX);
	if (!(s->min_compression_ratio >= 0 && isfinite(s->min_compression_ratio)))
		return lh_fail(err, LH_EINPUT, 0, "min_compression_ratio %g; expected 0 or more",
			       s->min_compression_ratio);
	for (size_t i = 0; i < s->n_tensors; i++) {
		uint64_t elements = (uint64_t)s->tensors[i].rows * s->tensors[i].columns;

		if (!elements || elements > LH_LOW_RANK_ELEMENTS_MAX - n)
			return lh_fail(err, LH_EINPUT, 0,
				       "tensor %zu is %" PRIu32 " x %" PRIu32
				       "; expected 1 to %d elements, of all together",
				       i, s->tensors[i].rows, s->tensors[i].columns,
				       LH_LOW_RANK_ELEMENTS_MAX);
		n += elements;
	}
	return 0;
}

static uint32_t rank_of(const struct lh_matrix_shape *t, const struct lh_low_rank_settings *s)
{
	uint32_t side = t->rows < t->columns ? t->rows : t->columns;
	uint32_t rank = s->rank < side ? s->rank : side;
	double whole = (double)t->rows * t->columns;
	double thin = (double)rank * ((double)t->rows + t->columns);

	return whole / thin > s->min_compression_ratio && whole > thin ? rank : 0;
}

/* Compressed ones first in P. */
static void lay_out(struct lh_low_rank *lr, const struct lh_low_rank_settings *s)
{
	for (size_t i = 0; i < lr->n_matrices; i++) {
		struct matrix *m = &lr->matrices[i];

		m->rows = s->tensors[i].rows;
		m->columns = s->tensors[i].columns;
		m->rank = rank_of(&s->tensors[i], s);
		m->at = lr->n;
		m->at_p = lr->n_p;
		m->at_q = lr->n_q;
		lr->n += (uint64_t)m->rows * m->columns;
		lr->n_p += (uint64_t)m->rows * m->rank;
		lr->n_q += (uint64_t)m->columns * m->rank;
	}
	for (size_t i = 0; i < lr->n_matrices; i++) {
		struct matrix *m = &lr->matrices[i];

		if (m->rank)
			continue;
		m->at_p = lr->n_p;
		lr->n_p += (uint64_t)m->rows * m->columns;
	}
}

static void draw_column(struct lh_low_rank *lr, size_t matrix, uint32_t column)
{
	const struct matrix *m = &lr->matrices[matrix];
	float *q = lr->q + m->at_q + (uint64_t)column * m->columns;
	struct lh_rng rng;
	char stream[96];

	snprintf(stream, sizeof(stream), "low-rank/%zu/%" PRIu32 "/%" PRIu64, matrix, column,
		 lr->step);
	lh_rng_init(&rng, lr->seed, stream);
	for (uint32_t j = 0; j < m->columns; j++)
		q[j] = (float)lh_rng_normal(&rng);
}

int lh_low_rank_new(const struct lh_low_rank_settings *settings, struct lh_low_rank **ret,
		    struct lh_error *err)
{
	struct lh_low_rank *lr;
	int rc = check(settings, err);

	if (rc)
		return rc;
	lr = calloc(1, sizeof(*lr));
	if (lr)
		lr->matrices = calloc(settings->n_tensors, sizeof(*lr->matrices));
	if (lr && lr->matrices) {
		lr->n_matrices = settings->n_tensors;
		lr->seed = settings->seed;
		lr->forgets = settings->forgets;
		lay_out(lr, settings);
		lr->error = calloc(lr->n, sizeof(*lr->error));
		lr->p = calloc(lr->n_p, sizeof(*lr->p));
		lr->q = calloc(lr->n_q + 1, sizeof(*lr->q));
	}
	if (!lr || !lr->error || !lr->p || !lr->q) {
		lh_low_rank_free(lr);
		return lh_fail(err, LH_ESYS, ENOMEM, "low rank of %zu tensors",
			       settings->n_tensors);
	}
	/* zero columns of Q are drawn where they are needed: in project */
	*ret = lr;
	return 0;
}

void lh_low_rank_free(struct lh_low_rank *lr)
{
	if (!lr)
		return;
	free(lr->matrices);
	free(lr->error);
	free(lr->p);
	free(lr->q);
	free(lr);
}

uint64_t lh_low_rank_elements(const struct lh_low_rank *lr)
{
	return lr->n;
}

struct lh_low_rank_part lh_low_rank_p(struct lh_low_rank *lr)
{
	return (struct lh_low_rank_part){lr->p, lr->n_p};
}

struct lh_low_rank_part lh_low_rank_q(struct lh_low_rank *lr)
{
	return (struct lh_low_rank_part){lr->q, lr->n_q};
}

const float *lh_low_rank_error(const struct lh_low_rank *lr)
{
	return lr->error;
}

/* ---- a step --------------------------------------------------------------------------------- */

static void project_matrix(struct lh_low_rank *lr, size_t index)
{
	const struct lh_matrix_kernels *k = lh_matrix_kernels();
	const struct matrix *m = &lr->matrices[index];
	const float *rows = lr->error + m->at;
	float *p = lr->p + m->at_p;

	for (uint32_t c = 0; c < m->rank; c++) {
		const float *q = lr->q + m->at_q + (uint64_t)c * m->columns;

		/* at first, and where nothing was left of a direction */
		if (k->dot_double(q, q, m->columns) == 0)
			draw_column(lr, index, c);
	}
	for (uint64_t i = 0; i < m->rows; i++)
		for (uint32_t c = 0; c < m->rank; c++)
			p[(uint64_t)c * m->rows + i] =
				k->dot(rows + i * m->columns,
				       lr->q + m->at_q + (uint64_t)c * m->columns, m->columns);
}

void lh_low_rank_project(struct lh_low_rank *lr, const float *gradient)
{
	for (size_t i = 0; i < lr->n_matrices; i++) {
		const struct matrix *m = &lr->matrices[i];
		uint64_t elements = (uint64_t)m->rows * m->columns;

		if (m->rank) {
			lh_sparse_kernels()->add(gradient + m->at, elements, lr->error + m->at);
			project_matrix(lr, i);
		} else {
			memcpy(lr->p + m->at_p, gradient + m->at, elements * sizeof(*gradient));
		}
	}
	lr->step++;
}

/* Gram and Schmidt's, twice, which is enough; columns that depend on those before become zero. */
static void make_orthonormal(float *p, uint32_t rows, uint32_t rank)
{
	const struct lh_matrix_kernels *k = lh_matrix_kernels();

	for (uint32_t c = 0; c < rank; c++) {
		float *column = p + (uint64_t)c * rows;
		double before = sqrt(k->dot_double(column, column, rows)), norm;

		for (int pass = 0; pass < 2; pass++)
			for (uint32_t d = 0; d < c; d++) {
				const float *other = p + (uint64_t)d * rows;

				k->add_scaled(-(float)k->dot_double(column, other, rows), other,
					      rows, column);
			}
		norm = sqrt(k->dot_double(column, column, rows));
		k->scale(norm <= INDEPENDENT * before ? 0 : 1 / norm, column, rows);
	}
}

void lh_low_rank_back_project(struct lh_low_rank *lr)
{
	const struct lh_matrix_kernels *k = lh_matrix_kernels();

	memset(lr->q, 0, lr->n_q * sizeof(*lr->q));
	for (size_t index = 0; index < lr->n_matrices; index++) {
		const struct matrix *m = &lr->matrices[index];
		float *p = lr->p + m->at_p, *q = lr->q + m->at_q;

		make_orthonormal(p, m->rows, m->rank);
		for (uint64_t i = 0; i < m->rows; i++)
			for (uint32_t c = 0; c < m->rank; c++)
				k->add_scaled(p[(uint64_t)c * m->rows + i],
					      lr->error + m->at + i * m->columns, m->columns,
					      q + (uint64_t)c * m->columns);
	}
}

static void reconstruct_matrix(struct lh_low_rank *lr, const struct matrix *m, float *ret)
{
	const struct lh_matrix_kernels *k = lh_matrix_kernels();
	const float *p = lr->p + m->at_p, *q = lr->q + m->at_q;

	for (uint64_t i = 0; i < m->rows; i++) {
		float *row = ret + i * m->columns;

		memset(row, 0, m->columns * sizeof(*row));
		for (uint32_t c = 0; c < m->rank; c++)
			k->add_scaled(p[(uint64_t)c * m->rows + i], q + (uint64_t)c * m->columns,
				      m->columns, row);
		k->subtract(row, m->columns, lr->error + m->at + i * m->columns);
	}
}

void lh_low_rank_reconstruct(struct lh_low_rank *lr, float *ret_gradient)
{
	for (size_t i = 0; i < lr->n_matrices; i++) {
		const struct matrix *m = &lr->matrices[i];
		float *ret = ret_gradient + m->at;

		if (m->rank)
			reconstruct_matrix(lr, m, ret);
		else
			memcpy(ret, lr->p + m->at_p, (uint64_t)m->rows * m->columns * sizeof(*ret));
	}
	if (lr->forgets)
		memset(lr->error, 0, lr->n * sizeof(*lr->error));
}
