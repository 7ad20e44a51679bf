/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Click logs as lines: a label 0 or 1, numbers, then categories, separated by commas or tabs;
 * empty values are allowed, quoted ones are not. Made for Criteo's published files (13 numbers,
 * 26 categories, tabs, no header).
 */
#ifndef LH_TRAINER_DATA_CTR_H
#define LH_TRAINER_DATA_CTR_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct lh_ctr_shape {
	uint32_t n_dense;
	uint32_t n_sparse;
	uint32_t n_buckets;
	char separator;
};

/* What one line says. Its arrays are the caller's, of the shape's sizes. */
struct lh_ctr_row {
	int32_t label;
	float *dense;	 /* sign(x) ln(1 + |x|); 0 where empty */
	int32_t *sparse; /* column * n_buckets + hash of the text; also where empty */
};

/* Reads one line of n bytes, without its end; path and number are for messages. Allocates
 * nothing. LH_EINPUT. */
int lh_ctr_parse(const struct lh_ctr_shape *shape, const char *path, uint64_t number,
		 const char *line, size_t n, struct lh_ctr_row *ret, struct lh_error *err);

#endif
