/* SPDX-License-Identifier: Apache-2.0 */
/* What reading and writing of safetensors files share. */
#ifndef LH_TRAINER_SAFETENSORS_INTERNAL_H
#define LH_TRAINER_SAFETENSORS_INTERNAL_H

#include "trainer/tensor/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian");

enum {
	LH_SAFETENSORS_LENGTH_BYTES = 8, /* of the header's length, before it */
};

static const char LH_SAFETENSORS_METADATA[] = "__metadata__";

/* The types of the format; those that tensors have come first, in the order of enum lh_dtype. */
struct lh_safetensors_type {
	const char *name;
	uint32_t n_bytes;
};
extern const struct lh_safetensors_type lh_safetensors_types[]; /* no name at the end */
enum { LH_SAFETENSORS_N_KNOWN = LH_I32 + 1 };

#endif
