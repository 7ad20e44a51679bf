/* SPDX-License-Identifier: Apache-2.0 */
/* See compress_compare.h. */
#include "tests/unit/compress_compare.h"

#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"
#include "trainer/compress/compress.h"
#include "trainer/compress/sparse.h"
#include "trainer/device/cuda/compress.h"

enum { MANY = 70001 }; /* more than 16 chunks */

static const int64_t sizes[] = {1, 8, 17, 4095, 4097, MANY};

static void must(int rc, const struct lh_error *err)
{
	if (rc)
		fail_msg("%s", err->message);
}

static struct lh_device *open_device(const struct lh_device_ops *ops)
{
	struct lh_device_options options = {.n_threads = 1, .compute = LH_F32};
	struct lh_device *device = NULL;
	struct lh_error err = {0};

	must(ops->open(&options, &device, &err), &err);
	return device;
}

/* ---- memory, in words of 4 bytes ------------------------------------------------------------ */

static int64_t words_of(uint64_t bytes)
{
	return (int64_t)((bytes + 3) / 4);
}

static void *put(struct lh_device *device, const void *host, int64_t words)
{
	void *memory = NULL;
	struct lh_error err = {0};

	must(device->ops->alloc(device, (size_t)words * 4, &memory, &err), &err);
	must(device->ops->write(device, memory, LH_I32, host, words, &err), &err);
	return memory;
}

static void get(struct lh_device *device, const void *memory, void *ret_host, int64_t words)
{
	struct lh_error err = {0};

	must(device->ops->read(device, memory, LH_I32, ret_host, words, &err), &err);
}

/* ---- inputs --------------------------------------------------------------------------------- */

enum kind { NORMAL, HEAVY, EQUAL, ZERO, TINY, ODD, N_KINDS };

static void fill(struct lh_rng *rng, enum kind kind, float *ret, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double z = lh_rng_normal(rng);

		ret[i] = (float)(kind == NORMAL	 ? z
				 : kind == HEAVY ? pow(z, 9)
				 : kind == EQUAL ? (z < 0 ? -0.7 : 0.7)
				 : kind == TINY	 ? z * 1e-41
				 : kind == ODD	 ? z * 1e30
						 : 0);
		if (kind == ODD && lh_rng_below(rng, 3000) == 0)
			ret[i] = lh_rng_below(rng, 2) ? INFINITY : NAN;
	}
}

/* ---- codecs --------------------------------------------------------------------------------- */

struct pair {
	const struct lh_codec_ops *codec;
	int (*encode)(struct lh_cuda *, const float *, int64_t, void *, struct lh_error *);
	int (*decode)(struct lh_cuda *, const void *, int64_t, float *, struct lh_error *);
};

static const struct pair pairs[] = {
	{&lh_codec_blockwise8, lh_cuda_blockwise8_encode, lh_cuda_blockwise8_decode},
	{&lh_codec_onebit, lh_cuda_onebit_encode, lh_cuda_onebit_decode},
};

static bool is_same(float a, float b)
{
	return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

/* Means of NaNs are NaNs of any bits: then it is what is decoded that counts. */
static void compare_codec(struct lh_device *device, const struct pair *p, const float *values,
			  int64_t n, bool is_finite)
{
	static uint32_t expected[2 * MANY], got[2 * MANY];
	static float decoded[MANY], decoded_by_gpu[MANY];
	int64_t words = words_of(p->codec->wire_bytes((uint64_t)n));
	void *x, *wire, *y;
	struct lh_error err = {0};

	memset(expected, 0, (size_t)words * 4);
	p->codec->encode(values, (size_t)n, expected);
	x = put(device, values, n);
	memset(got, 0, (size_t)words * 4);
	wire = put(device, got, words);
	y = put(device, decoded_by_gpu, n);
	must(p->encode(lh_cuda_of(device), x, n, wire, &err), &err);
	get(device, wire, got, words);
	if (is_finite)
		assert_memory_equal(got, expected, p->codec->wire_bytes((uint64_t)n));
	must(p->decode(lh_cuda_of(device), wire, n, y, &err), &err);
	get(device, y, decoded_by_gpu, n);
	p->codec->decode(expected, (size_t)n, decoded);
	for (int64_t i = 0; i < n; i++)
		assert_true(is_same(decoded[i], decoded_by_gpu[i]));
	device->ops->free(device, x);
	device->ops->free(device, wire);
	device->ops->free(device, y);
}

void lh_codecs_compare(const struct lh_device_ops *ops)
{
	static float values[MANY];
	struct lh_device *device = open_device(ops);
	struct lh_rng rng;

	lh_rng_init(&rng, 1, "codecs on a GPU");
	for (size_t s = 0; s < N_ELEMENTS(sizes); s++)
		for (int kind = 0; kind < N_KINDS; kind++) {
			fill(&rng, kind, values, sizes[s]);
			for (size_t p = 0; p < N_ELEMENTS(pairs); p++)
				compare_codec(device, &pairs[p], values, sizes[s], kind != ODD);
		}
	ops->close(device);
}

/* ---- MSTopK --------------------------------------------------------------------------------- */

static uint32_t key_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits & 0x7fffffff;
}

static void choose_exactly(const float *values, int64_t n, uint32_t k, struct lh_sparse *ret)
{
	void *scratch = malloc(lh_sparse_topk.scratch_bytes((uint32_t)n, k));
	const struct lh_sparse_choice choice = {.k = k, .scratch = scratch};

	lh_sparse_topk.select(values, (uint32_t)n, &choice, ret);
	free(scratch);
}

static void check_choice(const float *values, int64_t n, uint32_t k, const uint32_t *indices,
			 const float *chosen, bool is_finite)
{
	static uint32_t exact_indices[MANY];
	static float exact_values[MANY];
	struct lh_sparse exact = {0, exact_indices, exact_values};
	double squares = 0, largest = 0;
	uint32_t least = UINT32_MAX;
	uint32_t next = 0;

	choose_exactly(values, n, k, &exact);
	for (uint32_t i = 0; i < k; i++) {
		assert_true(indices[i] < n && (!i || indices[i] > indices[i - 1]));
		assert_true(is_same(chosen[i], values[indices[i]]));
		squares += (double)chosen[i] * (double)chosen[i];
		largest += (double)exact_values[i] * (double)exact_values[i];
		least = key_of(exact_values[i]) < least ? key_of(exact_values[i]) : least;
	}
	if (is_finite)
		assert_true(squares >= 0.99 * largest);
	for (uint32_t i = 0; i < k; i++) {
		while (next < k && indices[next] < exact_indices[i])
			next++;
		/* what is missing is near the least of them */
		if (next == k || indices[next] != exact_indices[i])
			assert_true(key_of(exact_values[i]) - least <= 1 << 13);
	}
}

static void compare_mstopk(struct lh_device *device, const float *values, int64_t n, uint32_t k,
			   bool is_finite)
{
	static uint32_t indices[MANY], zeros[MANY];
	static float chosen[MANY], left[MANY];
	struct lh_cuda_mstopk job = {.n = n, .k = k};
	void *x = put(device, values, n), *workspace = NULL;
	struct lh_error err = {0};
	struct lh_rng rng;

	lh_rng_init(&rng, 1, "choice");
	must(device->ops->alloc(device, lh_cuda_mstopk_bytes(n), &workspace, &err), &err);
	job.values = x;
	job.rng = &rng;
	job.workspace = workspace;
	job.indices = put(device, zeros, k + 1);
	job.chosen = put(device, zeros, k + 1);
	must(lh_cuda_mstopk(lh_cuda_of(device), &job, &err), &err);
	get(device, job.indices, indices, k + 1);
	get(device, job.chosen, chosen, k + 1);
	assert_true(indices[k] == 0 && chosen[k] == 0);
	check_choice(values, n, k, indices, chosen, is_finite);
	must(lh_cuda_clear(lh_cuda_of(device), x, job.indices, k, &err), &err);
	get(device, x, left, n);
	for (int64_t i = 0, next = 0; i < n; i++) {
		bool is_taken = next < k && indices[next] == i;

		assert_true(is_taken ? left[i] == 0 : is_same(left[i], values[i]));
		next += is_taken;
	}
	device->ops->free(device, x);
	device->ops->free(device, workspace);
	device->ops->free(device, job.indices);
	device->ops->free(device, job.chosen);
}

void lh_mstopk_compare(const struct lh_device_ops *ops)
{
	static const int64_t lengths[] = {1, 4097, 12289};
	static float values[MANY];
	struct lh_device *device = open_device(ops);
	struct lh_rng rng;

	lh_rng_init(&rng, 1, "mstopk on a GPU");
	for (size_t s = 0; s < N_ELEMENTS(lengths); s++)
		for (int kind = 0; kind < N_KINDS; kind++) {
			int64_t n = lengths[s];
			const int64_t ks[] = {0, n / 1000 + 1, n / 4, n};

			fill(&rng, kind, values, n);
			for (size_t i = 0; i < N_ELEMENTS(ks); i++)
				compare_mstopk(device, values, n, (uint32_t)ks[i], kind != ODD);
		}
	ops->close(device);
}
