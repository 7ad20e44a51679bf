/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of the CPU device's own loops. The functions of one number have no branches, so that
 * compilers make vectors of loops over them, and use nothing but exactly rounded operations, so
 * that vectors give the same bits as single numbers. The sums of a row have 16 lanes, whatever the
 * machine's vectors hold.
 */
#ifndef LH_TRAINER_CPU_VECTOR_H
#define LH_TRAINER_CPU_VECTOR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LH_INLINE static inline __attribute__((always_inline, unused))

LH_INLINE uint32_t lh_float_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

LH_INLINE float lh_bits_float(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* ---- functions of one number ----------------------------------------------------------------
 */

/* x = n ln 2 + r, |r| <= ln 2 / 2; e^r - 1 by its series, whose rest is below 6e-9. */
struct lh_exp_parts {
	float less_one; /* e^r - 1 */
	float power;	/* 2^n */
};

LH_INLINE struct lh_exp_parts lh_exp_split(float x)
{
	/* added to a number it leaves the nearest integer in the last bits */
	const float rounder = 12582912.0f;
	float shifted = fmaf(x, 1.44269504f, rounder), n = shifted - rounder;
	float r = fmaf(n, -1.42860677e-6f, fmaf(n, -0.693145752f, x)); /* ln 2 in two parts */
	float p = fmaf(r, 1.0f / 5040, 1.0f / 720);

	p = fmaf(p, r, 1.0f / 120);
	p = fmaf(p, r, 1.0f / 24);
	p = fmaf(p, r, 1.0f / 6);
	p = fmaf(p, r, 0.5f);
	return (struct lh_exp_parts){fmaf(p * r, r, r),
				     lh_bits_float((lh_float_bits(shifted) + 127) << 23)};
}

/* e^x; 0 where it would be no normal number, the largest where it would overflow. */
LH_INLINE float lh_expf(float x)
{
	const float least = -87.336544f, most = 88.37626f;
	float bounded = x > most ? most : x;
	struct lh_exp_parts e = lh_exp_split(bounded < least ? least : bounded);
	float y = fmaf(e.less_one, e.power, e.power);

	return x < least ? 0 : y;
}

LH_INLINE float lh_sigmoid(float x)
{
	return 1 / (1 + lh_expf(-x));
}

/* By e^(-2|x|) - 1, so that small numbers keep their precision. */
LH_INLINE float lh_tanh(float x)
{
	float size = fabsf(x), bounded = size > 10 ? 10 : size;
	struct lh_exp_parts e = lh_exp_split(-2 * bounded);
	float less_one = fmaf(e.less_one, e.power, e.power - 1);

	return copysignf(-less_one / (2 + less_one), x);
}

/* The normal distribution: P(z < x) and its density. P(z > u) e^(u^2/2), u >= 0, is a polynomial
 * in 1 / (1 + 0.36 u) within 9e-8 of it. */
struct lh_normal {
	float below;
	float density;
};

LH_INLINE struct lh_normal lh_normal(float x)
{
	float u = fabsf(x), t = 1 / fmaf(0.36f, u, 1.0f), square = x * x;
	/* what squaring lost matters to the exponential of large numbers */
	float bell = lh_expf(-0.5f * square);
	float exact = fmaf(bell, -0.5f * fmaf(x, x, -square), bell);
	float p = fmaf(t, -0.03023756667971611f, 0.1395055502653122f), tail;

	p = fmaf(p, t, -0.2235947847366333f);
	p = fmaf(p, t, 0.10736485570669174f);
	p = fmaf(p, t, -0.0003841199795715511f);
	p = fmaf(p, t, 0.09603665769100189f);
	p = fmaf(p, t, 0.1240098774433136f);
	p = fmaf(p, t, 0.1436818689107895f);
	p = fmaf(p, t, 0.1436176598072052f);
	tail = p * t * exact;
	return (struct lh_normal){x > 0 ? 1 - tail : tail, 0.398942280f * exact};
}

/* ---- sums along a row -----------------------------------------------------------------------
 */

typedef float lh_v8 __attribute__((vector_size(32)));

LH_INLINE lh_v8 lh_load(const float *x)
{
	lh_v8 v;

	memcpy(&v, x, sizeof(v));
	return v;
}

LH_INLINE void lh_store(float *x, lh_v8 v)
{
	memcpy(x, &v, sizeof(v));
}

LH_INLINE lh_v8 lh_fill(float x)
{
	return (lh_v8){x, x, x, x, x, x, x, x};
}

/* a b + c, rounded once. */
LH_INLINE lh_v8 lh_fma(lh_v8 a, lh_v8 b, lh_v8 c)
{
	lh_v8 d;

	for (int i = 0; i < 8; i++)
		d[i] = fmaf(a[i], b[i], c[i]);
	return d;
}

struct lh_lanes {
	lh_v8 low, high;
};

LH_INLINE float lh_lanes_sum(struct lh_lanes s)
{
	lh_v8 v = s.low + s.high;

	return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

LH_INLINE struct lh_lanes lh_lanes_load(const float *x)
{
	return (struct lh_lanes){lh_load(x), lh_load(x + 8)};
}

/* n < 16 numbers, zeros behind the last. */
LH_INLINE struct lh_lanes lh_lanes_load_rest(const float *x, int64_t n)
{
	float rest[16] = {0};

	memcpy(rest, x, (size_t)n * sizeof(*rest));
	return lh_lanes_load(rest);
}

LH_INLINE void lh_lanes_add(struct lh_lanes *s, struct lh_lanes a)
{
	s->low += a.low;
	s->high += a.high;
}

LH_INLINE void lh_lanes_add_product(struct lh_lanes *s, struct lh_lanes a, struct lh_lanes b)
{
	s->low = lh_fma(a.low, b.low, s->low);
	s->high = lh_fma(a.high, b.high, s->high);
}

LH_INLINE float lh_sum(const float *x, int64_t n)
{
	struct lh_lanes s = {{0}, {0}};
	int64_t whole = n / 16 * 16;

	for (int64_t i = 0; i < whole; i += 16)
		lh_lanes_add(&s, lh_lanes_load(x + i));
	if (whole < n)
		lh_lanes_add(&s, lh_lanes_load_rest(x + whole, n - whole));
	return lh_lanes_sum(s);
}

LH_INLINE float lh_dot(const float *x, const float *y, int64_t n)
{
	struct lh_lanes s = {{0}, {0}};
	int64_t whole = n / 16 * 16;

	for (int64_t i = 0; i < whole; i += 16)
		lh_lanes_add_product(&s, lh_lanes_load(x + i), lh_lanes_load(y + i));
	if (whole < n)
		lh_lanes_add_product(&s, lh_lanes_load_rest(x + whole, n - whole),
				     lh_lanes_load_rest(y + whole, n - whole));
	return lh_lanes_sum(s);
}

LH_INLINE float lh_max(const float *x, int64_t n)
{
	float most[16], max;

	for (int l = 0; l < 16; l++)
		most[l] = x[0];
	for (int64_t i = 0; i + 16 <= n; i += 16)
		for (int l = 0; l < 16; l++)
			most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
	max = most[0];
	for (int l = 1; l < 16; l++)
		max = most[l] > max ? most[l] : max;
	for (int64_t i = n / 16 * 16; i < n; i++)
		max = x[i] > max ? x[i] : max;
	return max;
}

#endif
