/* SPDX-License-Identifier: Apache-2.0 */
/* Log-mel spectrograms. See mel.h. The transform of 400 reals is one of 200 complex numbers. */
#include "trainer/data/mel.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { WINDOW = 400, HALF = WINDOW / 2, BINS = HALF + 1, FACTOR_MAX = 5 };

static const double two_pi = 6.283185307179586;

struct number {
	double re, im;
};

/* One mel's weights of neighbouring bins. */
struct filter {
	uint32_t first;
	uint32_t n;
	double weights[BINS];
};

struct lh_mel {
	uint32_t n_mels;
	double window[WINDOW];
	struct number roots[WINDOW]; /* exp(-2 pi i k / 400) */
	struct filter filters[];
};

static double mel_of_hz(double hz)
{
	return hz < 1000 ? hz * 3 / 200 : 15 + log(hz / 1000) * 27 / log(6.4);
}

static double hz_of_mel(double mel)
{
	return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

/* A triangle over [low, high] with its top at middle, of area 1 (in Hz). */
static void make_filter(struct filter *f, double low, double middle, double high)
{
	f->first = BINS;
	for (uint32_t k = 0; k < BINS; k++) {
		double hz = (double)k * LH_MEL_RATE_HZ / WINDOW;
		double up = (hz - low) / (middle - low), down = (high - hz) / (high - middle);
		double weight = fmin(up, down) * 2 / (high - low);

		if (weight <= 0)
			continue;
		if (f->first == BINS)
			f->first = k;
		f->n = k - f->first + 1;
		f->weights[k - f->first] = weight;
	}
}

struct lh_mel *lh_mel_new(uint32_t n_mels)
{
	struct lh_mel *m = calloc(1, sizeof(*m) + n_mels * sizeof(m->filters[0]));
	double step = mel_of_hz(LH_MEL_RATE_HZ / 2.0) / (n_mels + 1);

	if (!m)
		return NULL;
	m->n_mels = n_mels;
	for (int i = 0; i < WINDOW; i++) {
		m->roots[i] = (struct number){cos(two_pi * i / WINDOW), -sin(two_pi * i / WINDOW)};
		m->window[i] = 0.5 - 0.5 * m->roots[i].re;
	}
	for (uint32_t i = 0; i < n_mels; i++)
		make_filter(&m->filters[i], hz_of_mel(i * step), hz_of_mel((i + 1) * step),
			    hz_of_mel((i + 2) * step));
	return m;
}

void lh_mel_free(struct lh_mel *mel)
{
	free(mel);
}

static struct number multiply(struct number a, struct number b)
{
	return (struct number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* out = the transform of n numbers in[0], in[stride] ...; n has no factors but 2 and 5. */
static void transform(const struct lh_mel *m, const struct number *in, int stride, int n,
		      struct number *out)
{
	int p = n % 2 == 0 ? 2 : 5, part = n / p;

	if (n == 1) {
		out[0] = in[0];
		return;
	}
	for (int q = 0; q < p; q++)
		transform(m, in + q * stride, stride * p, part, out + q * part);
	for (int k = 0; k < part; k++) {
		struct number t[FACTOR_MAX];

		for (int q = 0; q < p; q++)
			t[q] = multiply(out[q * part + k], m->roots[q * k * (WINDOW / n)]);
		for (int r = 0; r < p; r++) {
			struct number sum = t[0];

			for (int q = 1; q < p; q++) {
				struct number x =
					multiply(t[q], m->roots[q * r % p * (WINDOW / p)]);

				sum.re += x.re;
				sum.im += x.im;
			}
			out[r * part + k] = sum;
		}
	}
}

/* power[k] = |transform of the 400 reals in z, two in each|^2. */
static void power_of(const struct lh_mel *m, const struct number *z, double power[static BINS])
{
	struct number y[HALF];

	transform(m, z, 1, HALF, y);
	for (int k = 0; k < BINS; k++) {
		struct number a = y[k % HALF], b = y[(HALF - k) % HALF];
		struct number even = {(a.re + b.re) / 2, (a.im - b.im) / 2};
		struct number odd = {(a.im + b.im) / 2, (b.re - a.re) / 2};

		odd = multiply(odd, m->roots[k]);
		power[k] = (even.re + odd.re) * (even.re + odd.re) +
			   (even.im + odd.im) * (even.im + odd.im);
	}
}

/* Puts the frame's window into z, two samples in each; false: all of it is 0. */
static bool take_frame(const struct lh_mel *m, const float *signal, int64_t n, uint32_t frame,
		       struct number *z)
{
	int64_t begin = (int64_t)frame * LH_MEL_HOP - HALF;
	bool has_any = false;

	for (int i = 0; i < WINDOW; i++) {
		int64_t at = llabs(begin + i);
		double x;

		at = at < n ? at : 2 * n - 2 - at;
		x = (double)signal[at] * m->window[i];
		has_any = has_any || x != 0;
		if (i % 2)
			z[i / 2].im = x;
		else
			z[i / 2].re = x;
	}
	return has_any;
}

void lh_mel_compute(const struct lh_mel *mel, const float *signal, uint32_t n_frames, float *ret)
{
	static const double power_min = 1e-10;
	size_t n = (size_t)n_frames * mel->n_mels;
	struct number z[HALF];
	double power[BINS];
	float greatest = -INFINITY;

	for (uint32_t t = 0; t < n_frames; t++) {
		bool has_any = take_frame(mel, signal, (int64_t)n_frames * LH_MEL_HOP, t, z);

		if (has_any)
			power_of(mel, z, power);
		for (uint32_t i = 0; i < mel->n_mels; i++) {
			const struct filter *f = &mel->filters[i];
			double sum = 0;

			for (uint32_t k = 0; has_any && k < f->n; k++)
				sum += f->weights[k] * power[f->first + k];
			ret[(size_t)t * mel->n_mels + i] = (float)log10(fmax(sum, power_min));
			greatest = fmaxf(greatest, ret[(size_t)t * mel->n_mels + i]);
		}
	}
	for (size_t i = 0; i < n; i++)
		ret[i] = (fmaxf(ret[i], greatest - 8) + 4) / 4;
}
