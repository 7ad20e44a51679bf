/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over the rows of matrices, for any number of threads the same. See cpu.h. */
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

enum {
	WIDE_MIN = 64,	      /* floats of the innermost loops */
	BLOCK_FLOATS = 32768, /* 128 KiB: two such blocks stay in a second level cache */
	BLOCK_ROWS_MIN = 32,  /* so that sums of blocks are small beside the blocks */
};

struct lh_cpu_columns lh_cpu_split_rows(int64_t rows, int64_t c)
{
	int64_t repeat = c < WIDE_MIN ? (WIDE_MIN + c - 1) / c : 1;
	int64_t groups = BLOCK_FLOATS / (repeat * c);
	struct lh_cpu_columns columns = {.rows = rows, .c = c, .wide = repeat * c};

	columns.block_rows = (groups < BLOCK_ROWS_MIN ? BLOCK_ROWS_MIN : groups) * repeat;
	columns.n_blocks = (rows + columns.block_rows - 1) / columns.block_rows;
	return columns;
}

struct lh_cpu_block lh_cpu_find_block(const struct lh_cpu_columns *columns, int64_t i)
{
	int64_t from = i * columns->block_rows, left = columns->rows - from;

	return (struct lh_cpu_block){from * columns->c,
				     (left < columns->block_rows ? left : columns->block_rows) *
					     columns->c};
}

void lh_cpu_fold(const struct lh_cpu_columns *columns, float *sums)
{
	for (int64_t at = columns->c; at < columns->wide; at += columns->c)
		for (int64_t j = 0; j < columns->c; j++)
			sums[j] += sums[at + j];
}

void lh_cpu_repeat(const struct lh_cpu_columns *columns, float *values)
{
	for (int64_t j = columns->c; j < columns->wide; j++)
		values[j] = values[j - columns->c];
}

size_t lh_cpu_partials_bytes(int64_t rows, int64_t c)
{
	struct lh_cpu_columns columns = lh_cpu_split_rows(rows, c);

	return (size_t)(columns.n_blocks * columns.wide) * sizeof(float);
}

struct column_sums {
	struct lh_cpu_columns columns;
	const float *x, *y;
	float *partials;
};

static void add_group(const float *x, float *sums, int64_t n)
{
#pragma omp simd
	for (int64_t j = 0; j < n; j++)
		sums[j] += x[j];
}

static void add_products(const float *x, const float *y, float *sums, int64_t n)
{
#pragma omp simd
	for (int64_t j = 0; j < n; j++)
		sums[j] = fmaf(x[j], y[j], sums[j]);
}

static void sum_blocks(const void *work, struct lh_cpu_span span)
{
	const struct column_sums *s = work;
	int64_t wide = s->columns.wide;

	for (int64_t i = span.from; i < span.to; i++) {
		struct lh_cpu_block block = lh_cpu_find_block(&s->columns, i);
		float *sums = s->partials + i * wide;

		memset(sums, 0, (size_t)wide * sizeof(*sums));
		for (int64_t at = block.from; at < block.from + block.n; at += wide) {
			int64_t left = block.from + block.n - at, n = left < wide ? left : wide;

			if (s->y)
				add_products(s->x + at, s->y + at, sums, n);
			else
				add_group(s->x + at, sums, n);
		}
		lh_cpu_fold(&s->columns, sums);
	}
}

void lh_cpu_add_columns(const struct lh_device *device, int64_t rows, int64_t c, const float *x,
			const float *y, float *partials, float *ret_sums)
{
	struct column_sums s = {lh_cpu_split_rows(rows, c), x, y, partials};

	lh_cpu_for(device, s.columns.n_blocks, 1, rows * c, sum_blocks, &s);
	for (int64_t i = 1; i < s.columns.n_blocks; i++)
		add_group(partials + i * s.columns.wide, partials, c);
	add_group(partials, ret_sums, c);
}
