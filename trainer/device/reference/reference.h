/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference device: every layer in plain C, one loop per sum of its formula, in the order of
 * the formula and with sums in double. It is the oracle of the other devices, not fast. The same
 * source is compiled for float (lh_reference32_...) and, with LH_REFERENCE_DOUBLE, for double
 * (lh_reference64_...).
 */
#ifndef LH_TRAINER_REFERENCE_H
#define LH_TRAINER_REFERENCE_H

#include "trainer/layers/layers.h"

#ifdef LH_REFERENCE_DOUBLE
typedef double real;
#define LH_REFERENCE_REAL LH_F64
#define LH_REFERENCE(name) lh_reference64_##name
#else
typedef float real;
#define LH_REFERENCE_REAL LH_F32
#define LH_REFERENCE(name) lh_reference32_##name
#endif

/* forward and backward of a layer, as struct lh_kernel has them. */
#define LH_REFERENCE_DECLARE(name)                                                          \
	int LH_REFERENCE(name##_forward)(struct lh_device *, const struct lh_graph_node *,  \
					 const struct lh_pass *, struct lh_error *);        \
	int LH_REFERENCE(name##_backward)(struct lh_device *, const struct lh_graph_node *, \
					  const struct lh_pass *, struct lh_error *)

LH_REFERENCE_DECLARE(conv2d);
LH_REFERENCE_DECLARE(linear);
LH_REFERENCE_DECLARE(batch_norm);
LH_REFERENCE_DECLARE(layer_norm);
LH_REFERENCE_DECLARE(activate);
LH_REFERENCE_DECLARE(add);
LH_REFERENCE_DECLARE(scale);
LH_REFERENCE_DECLARE(dropout);
LH_REFERENCE_DECLARE(pool);
LH_REFERENCE_DECLARE(shortcut);
LH_REFERENCE_DECLARE(embedding);
LH_REFERENCE_DECLARE(field_embedding);
LH_REFERENCE_DECLARE(attention);
LH_REFERENCE_DECLARE(concat);
LH_REFERENCE_DECLARE(factorization);
LH_REFERENCE_DECLARE(cross_entropy);
LH_REFERENCE_DECLARE(binary_cross_entropy);

/* Puts value into a gradient: added, or written. */
static inline void put(real *grad, int64_t i, double value, bool adds)
{
	grad[i] = (real)(adds ? (double)grad[i] + value : value);
}

#endif
