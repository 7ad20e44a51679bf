/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the CPU device share: single precision on the host's processors.
 * Convolutions and matrix products of linear layers are oneDNN's; all else are own loops, which
 * give the same bits for any number of threads and on every x86-64-v3 machine:
 * - work is split by its shape alone, sums run over fixed blocks that are added in order;
 * - sums along a row have 16 lanes, written out (vector.h);
 * - products are fused with sums where the source says so (fmaf), nowhere else.
 *
 * OpenBLAS is left out: its threads and OpenMP's get in each other's way (125-177 GFlop/s for a
 * transformer's products beside OpenMP loops on two cores of Zen 4, where oneDNN's reach 210-229).
 *
 * Loops over elements take pointers without `restrict`, since a gradient may lie in the
 * memory of another (struct lh_kernel): `omp simd` says that no element depends on another one.
 */
#ifndef LH_TRAINER_CPU_H
#define LH_TRAINER_CPU_H

#include "trainer/layers/layers.h"

/* ---- threads -------------------------------------------------------------------------------- */

/* What one thread does of a loop: [from, to). thread: its number, for memory of its own. */
struct lh_cpu_span {
	int64_t from, to;
	uint32_t thread;
};

typedef void lh_cpu_body(const void *work, struct lh_cpu_span span);

/*
 * Runs body over [0, n), in as many spans as threads are worth it: spans begin at multiples of
 * step. floats: about how many numbers the whole loop reads and writes.
 */
void lh_cpu_for(const struct lh_device *device, int64_t n, int64_t step, int64_t floats,
		lh_cpu_body *body, const void *work);

/* How many threads there will be where that many are wanted: OMP_THREAD_LIMIT may allow less. */
uint32_t lh_cpu_threads(uint32_t wanted);

/* Steps of loops over elements: spans share no cache line. */
enum { LH_CPU_LINE_FLOATS = 16 };

/* ---- sums of columns ------------------------------------------------------------------------
 */

/*
 * How sums over the rows of a matrix [rows, c] are split: blocks of rows that stay in the second
 * level cache. Narrow matrices are treated as if `wide` / c rows were one, so that loops are
 * long.
 */
struct lh_cpu_columns {
	int64_t rows, c;
	int64_t wide;	    /* a multiple of c */
	int64_t block_rows; /* a multiple of wide / c */
	int64_t n_blocks;
};

struct lh_cpu_columns lh_cpu_split_rows(int64_t rows, int64_t c);

/* The block's numbers: [from, from + n) of the matrix. */
struct lh_cpu_block {
	int64_t from, n;
};
struct lh_cpu_block lh_cpu_find_block(const struct lh_cpu_columns *columns, int64_t i);

/* Adds the wide / c groups of sums onto the first. */
void lh_cpu_fold(const struct lh_cpu_columns *columns, float *sums);

/* Repeats c numbers up to wide. */
void lh_cpu_repeat(const struct lh_cpu_columns *columns, float *values);

/* ret_sums[j] += sum over rows of x[r, j], or of x[r, j] y[r, j] where y is not NULL. partials:
 * lh_cpu_partials_bytes. */
void lh_cpu_add_columns(const struct lh_device *device, int64_t rows, int64_t c, const float *x,
			const float *y, float *partials, float *ret_sums);
size_t lh_cpu_partials_bytes(int64_t rows, int64_t c);

/* ---- products of small matrices ---------------------------------------------------------------
 */

/* A matrix whose element (i, j) lies at data[i * row + j * column]. */
struct lh_cpu_matrix {
	const float *data;
	int64_t row, column;
};

/* Copies b [k, n] into panels of 16 columns, zeros behind the last: lh_cpu_panels_floats. */
void lh_cpu_pack(struct lh_cpu_matrix b, int64_t k, int64_t n, float *ret_panels);
int64_t lh_cpu_panels_floats(int64_t k, int64_t n);

/* c [m, n], rows c_row apart, becomes or (adds) grows by scale a b; a [m, k]; b the first k rows of
 * packed_k in panels. In the calling thread. */
struct lh_cpu_product {
	int64_t m, n, k, packed_k;
	float scale;
	bool adds;
};
void lh_cpu_multiply(const struct lh_cpu_product *product, struct lh_cpu_matrix a,
		     const float *panels, float *c, int64_t c_row);

/* ---- layers ---------------------------------------------------------------------------------
 */

#define LH_CPU_DECLARE(name)                                                           \
	int lh_cpu_##name##_forward(struct lh_device *, const struct lh_graph_node *,  \
				    const struct lh_pass *, struct lh_error *);        \
	int lh_cpu_##name##_backward(struct lh_device *, const struct lh_graph_node *, \
				     const struct lh_pass *, struct lh_error *)
#define LH_CPU_DECLARE_PREPARED(name) \
	LH_CPU_DECLARE(name);         \
	int lh_cpu_##name##_prepare(struct lh_device *, struct lh_graph_node *, struct lh_error *)

LH_CPU_DECLARE_PREPARED(conv2d);
LH_CPU_DECLARE_PREPARED(linear);
LH_CPU_DECLARE_PREPARED(batch_norm);
LH_CPU_DECLARE_PREPARED(layer_norm);
LH_CPU_DECLARE(activate);
LH_CPU_DECLARE(add);
LH_CPU_DECLARE_PREPARED(scale);
LH_CPU_DECLARE(dropout);
LH_CPU_DECLARE(pool);
LH_CPU_DECLARE(shortcut);
LH_CPU_DECLARE(embedding);
LH_CPU_DECLARE(field_embedding);
LH_CPU_DECLARE_PREPARED(attention);
LH_CPU_DECLARE(concat);
LH_CPU_DECLARE(factorization);
LH_CPU_DECLARE_PREPARED(cross_entropy);
LH_CPU_DECLARE_PREPARED(binary_cross_entropy);

void lh_cpu_conv2d_done(struct lh_graph_node *node);
void lh_cpu_linear_done(struct lh_graph_node *node);

/* The weights' gradient of a depthwise convolution (groups = channels = outputs), added. */
void lh_cpu_add_depthwise(const struct lh_device *device, const struct lh_conv2d *spec,
			  const float *x, const float *dy, float *partials, float *dw);
size_t lh_cpu_depthwise_bytes(const struct lh_conv2d *spec);

#endif
