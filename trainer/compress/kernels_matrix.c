/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of low rank, compiled twice. See kernels_matrix_internal.h. */
#include "trainer/compress/kernels_matrix_internal.h"

enum { LANES = 32 };

static float dot(const float *a, const float *b, size_t n)
{
	float lanes[LANES] = {0}, sum = 0;
	size_t whole = n - n % LANES;

	for (size_t i = 0; i < whole; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			lanes[l] += a[i + l] * b[i + l];
	for (size_t i = whole; i < n; i++)
		lanes[i - whole] += a[i] * b[i];
	for (int l = 0; l < LANES; l++)
		sum += lanes[l];
	return sum;
}

static double dot_double(const float *a, const float *b, size_t n)
{
	double lanes[LANES] = {0}, sum = 0;
	size_t whole = n - n % LANES;

	for (size_t i = 0; i < whole; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			lanes[l] += (double)a[i + l] * (double)b[i + l];
	for (size_t i = whole; i < n; i++)
		lanes[i - whole] += (double)a[i] * (double)b[i];
	for (int l = 0; l < LANES; l++)
		sum += lanes[l];
	return sum;
}

static void add_scaled(float a, const float *x, size_t n, float *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] += a * x[i];
}

static void scale(double a, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (float)(a * (double)x[i]);
}

static void subtract(const float *x, size_t n, float *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] -= x[i];
}

#ifdef LH_KERNELS_WIDE
const struct lh_matrix_kernels lh_matrix_kernels_wide = {
#else
const struct lh_matrix_kernels lh_matrix_kernels_any = {
#endif
	.dot = dot,
	.dot_double = dot_double,
	.add_scaled = add_scaled,
	.scale = scale,
	.subtract = subtract,
};
