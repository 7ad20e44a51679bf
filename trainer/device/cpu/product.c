/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices that fit in a cache, as attention has them: the right one in panels of 16
 * columns, the left one where it lies, six rows at a time, so that twelve vectors of sums
 * stay in registers. Each element is summed over k in order. See cpu.h.
 *
 * Source: the micro-kernel of Goto and van de Geijn, ACM TOMS 34 (2008), article 12.
 */
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

enum { PANEL = 16, ROWS = 6 };

int64_t lh_cpu_panels_floats(int64_t k, int64_t n)
{
	return (n + PANEL - 1) / PANEL * PANEL * k;
}

/* Whole rows of 16 beside each other. */
static void pack_rows(struct lh_cpu_matrix b, int64_t k, float *panel)
{
	for (int64_t i = 0; i < k; i++)
		memcpy(panel + i * PANEL, b.data + i * b.row, PANEL * sizeof(*panel));
}

static void pack_any(struct lh_cpu_matrix b, int64_t k, int64_t width, float *panel)
{
	for (int64_t i = 0; i < k; i++) {
		for (int64_t j = 0; j < width; j++)
			panel[i * PANEL + j] = b.data[i * b.row + j * b.column];
		for (int64_t j = width; j < PANEL; j++)
			panel[i * PANEL + j] = 0;
	}
}

void lh_cpu_pack(struct lh_cpu_matrix b, int64_t k, int64_t n, float *ret_panels)
{
	for (int64_t j = 0; j < n; j += PANEL) {
		int64_t width = n - j < PANEL ? n - j : PANEL;
		struct lh_cpu_matrix from = {b.data + j * b.column, b.row, b.column};

		if (width == PANEL && b.column == 1)
			pack_rows(from, k, ret_panels + j * k);
		else
			pack_any(from, k, width, ret_panels + j * k);
	}
}

/* Rows of one panel's product, in registers; width: columns that c has. */
struct tile {
	int64_t k, width, c_row;
	float scale;
	bool adds;
};

LH_INLINE void put(const struct tile *t, lh_v8 low, lh_v8 high, float *c)
{
	float row[PANEL];

	lh_store(row, low * lh_fill(t->scale));
	lh_store(row + 8, high * lh_fill(t->scale));
	for (int64_t j = 0; t->adds && j < t->width; j++)
		row[j] += c[j];
	memcpy(c, row, (size_t)t->width * sizeof(*c));
}

LH_INLINE void put_whole(const struct tile *t, lh_v8 low, lh_v8 high, float *c)
{
	low *= lh_fill(t->scale);
	high *= lh_fill(t->scale);
	lh_store(c, t->adds ? low + lh_load(c) : low);
	lh_store(c + 8, t->adds ? high + lh_load(c + 8) : high);
}

LH_INLINE void multiply_rows(const struct tile *t, int rows, struct lh_cpu_matrix a,
			     const float *panel, float *c)
{
	lh_v8 low[ROWS], high[ROWS];

#pragma GCC unroll 6
	for (int i = 0; i < rows; i++)
		low[i] = high[i] = lh_fill(0);
	for (int64_t k = 0; k < t->k; k++) {
		lh_v8 b_low = lh_load(panel + k * PANEL), b_high = lh_load(panel + k * PANEL + 8);

#pragma GCC unroll 6
		for (int i = 0; i < rows; i++) {
			lh_v8 x = lh_fill(a.data[i * a.row + k * a.column]);

			low[i] = lh_fma(x, b_low, low[i]);
			high[i] = lh_fma(x, b_high, high[i]);
		}
	}
#pragma GCC unroll 6
	for (int i = 0; i < rows; i++) {
		if (t->width == PANEL)
			put_whole(t, low[i], high[i], c + i * t->c_row);
		else
			put(t, low[i], high[i], c + i * t->c_row);
	}
}

static void multiply_tile(const struct tile *t, int64_t rows, struct lh_cpu_matrix a,
			  const float *panel, float *c)
{
	switch (rows) {
	case 1:
		multiply_rows(t, 1, a, panel, c);
		break;
	case 2:
		multiply_rows(t, 2, a, panel, c);
		break;
	case 3:
		multiply_rows(t, 3, a, panel, c);
		break;
	case 4:
		multiply_rows(t, 4, a, panel, c);
		break;
	case 5:
		multiply_rows(t, 5, a, panel, c);
		break;
	default:
		multiply_rows(t, ROWS, a, panel, c);
		break;
	}
}

void lh_cpu_multiply(const struct lh_cpu_product *p, struct lh_cpu_matrix a, const float *panels,
		     float *c, int64_t c_row)
{
	for (int64_t j = 0; j < p->n; j += PANEL) {
		struct tile t = {p->k, p->n - j < PANEL ? p->n - j : PANEL, c_row, p->scale,
				 p->adds};

		for (int64_t i = 0; i < p->m; i += ROWS) {
			struct lh_cpu_matrix rows = {a.data + i * a.row, a.row, a.column};

			multiply_tile(&t, p->m - i, rows, panels + j * p->packed_k,
				      c + i * c_row + j);
		}
	}
}
