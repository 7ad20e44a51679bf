/* SPDX-License-Identifier: Apache-2.0 */
/* IDX, the format of MNIST: arrays of unsigned bytes. Source: Y. LeCun's page on MNIST. */
#ifndef LH_TRAINER_DATA_IDX_H
#define LH_TRAINER_DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum { LH_IDX_DIMS_MAX = 3 };

/* An array within the file's bytes. */
struct lh_idx {
	uint32_t n_dims;
	uint32_t dims[LH_IDX_DIMS_MAX];
	const uint8_t *values;
};

/* Reads a file's bytes as an array of n_dims dimensions, each at least 1, and nothing behind it;
 * path is for messages. LH_EINPUT. */
int lh_idx_parse(const char *path, const uint8_t *data, size_t size, uint32_t n_dims,
		 struct lh_idx *ret, struct lh_error *err);

#endif
