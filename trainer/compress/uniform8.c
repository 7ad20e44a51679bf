/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codec `uniform8`: 256 bins of equal width over six standard deviations around the mean, the outer
 * two without end; a code book of the mean of each bin's values (0 for an empty bin), then a byte
 * for every number. All elements that are encoded together share the bins.
 *
 * Source: the form of the compressor UNIFORM_8BIT of Hivemind, without its frames.
 */
#include <float.h>

#include "trainer/compress/compress.h"
#include "trainer/compress/kernels_internal.h"
#include "trainer/compress/wire_internal.h"

enum {
	RANGE_IN_SIGMAS = 6,
	LANES = 4, /* of sums, so that neighbours in one bin do not wait for each other */
};

_Static_assert(LH_BINS * sizeof(float) == LH_UNIFORM8_BOOK_BYTES, "a float per bin");

static uint64_t uniform8_wire_bytes(uint64_t n)
{
	return n ? LH_UNIFORM8_BOOK_BYTES + n : 0;
}

/* A range too narrow for a float is one bin. */
static struct lh_uniform_bins place_bins(const struct lh_moments *m)
{
	double per_unit = LH_BINS / (RANGE_IN_SIGMAS * m->sigma);

	return (struct lh_uniform_bins){
		.mean = (float)m->mean,
		.bins_per_unit = per_unit <= (double)FLT_MAX ? (float)per_unit : 0,
	};
}

static void write_book(const float *values, size_t n, const uint8_t *bins, unsigned char *ret_book)
{
	double sums[LANES][LH_BINS] = {{0}};
	uint64_t counts[LANES][LH_BINS] = {{0}};

	for (size_t i = 0; i < n; i++) {
		sums[i % LANES][bins[i]] += (double)values[i];
		counts[i % LANES][bins[i]]++;
	}
	for (size_t bin = 0; bin < LH_BINS; bin++) {
		double sum = 0;
		uint64_t count = 0;

		for (int lane = 0; lane < LANES; lane++) {
			sum += sums[lane][bin];
			count += counts[lane][bin];
		}
		lh_wire_put_float(ret_book + bin * sizeof(float),
				  count ? (float)(sum / (double)count) : 0);
	}
}

static void uniform8_encode(const float *values, size_t n, void *wire)
{
	const struct lh_kernels *k = lh_kernels();
	unsigned char *book = wire, *bins = book + LH_UNIFORM8_BOOK_BYTES;
	struct lh_uniform_bins place;
	struct lh_moments m;

	if (!n)
		return;
	k->moments(values, n, &m);
	place = place_bins(&m);
	k->uniform8_bins(values, n, &place, bins);
	write_book(values, n, bins, book);
}

static void uniform8_decode(const void *wire, size_t n, float *ret_values)
{
	const unsigned char *in = wire;
	float book[LH_BINS];

	if (!n)
		return;
	for (size_t bin = 0; bin < LH_BINS; bin++)
		book[bin] = lh_wire_get_float(in + bin * sizeof(float));
	for (size_t i = 0; i < n; i++)
		ret_values[i] = book[in[LH_UNIFORM8_BOOK_BYTES + i]];
}

const struct lh_codec_ops lh_codec_uniform8 = {
	.name = "uniform8",
	.doc = "256 bins over six standard deviations, a byte per parameter and 1,024 bytes",
	.wire_bytes = uniform8_wire_bytes,
	.encode = uniform8_encode,
	.decode = uniform8_decode,
	/* between the ends of an outer bin, which may be as far apart as the extremes */
	.error_ratio = 2,
};
