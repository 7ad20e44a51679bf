/* SPDX-License-Identifier: Apache-2.0 */
/* The table of choices and the form on the wire. See sparse.h. */
#include "trainer/compress/sparse.h"

#include <inttypes.h>
#include <string.h>

#include "trainer/compress/wire_internal.h"

enum { WORD = 4 };

const struct lh_sparse_ops *const lh_sparse_choices[] = {
	&lh_sparse_topk, &lh_sparse_mstopk, &lh_sparse_dgc, &lh_sparse_random_k, NULL,
};

const struct lh_sparse_ops *lh_sparse_find(const char *name)
{
	for (size_t i = 0; lh_sparse_choices[i]; i++)
		if (strcmp(lh_sparse_choices[i]->name, name) == 0)
			return lh_sparse_choices[i];
	return NULL;
}

uint64_t lh_sparse_wire_bytes(uint32_t count)
{
	return WORD + UINT64_C(2) * WORD * count;
}

void lh_sparse_write(const struct lh_sparse *message, void *wire)
{
	unsigned char *indices = (unsigned char *)wire + WORD;
	unsigned char *values = indices + (size_t)WORD * message->count;

	lh_wire_put32(wire, message->count);
	for (size_t i = 0; i < message->count; i++) {
		lh_wire_put32(indices + WORD * i, message->indices[i]);
		lh_wire_put_float(values + WORD * i, message->values[i]);
	}
}

int lh_sparse_parse(const void *wire, size_t bytes, uint32_t n, uint32_t capacity,
		    struct lh_sparse *ret, struct lh_error *err)
{
	const unsigned char *indices = (const unsigned char *)wire + WORD, *values;
	uint64_t least = 0;
	uint32_t count;

	if (bytes < WORD)
		return lh_fail(err, LH_EINPUT, 0, "a sparse message of %zu bytes has no count",
			       bytes);
	count = lh_wire_get32(wire);
	if (bytes != lh_sparse_wire_bytes(count))
		return lh_fail(err, LH_EINPUT, 0,
			       "a sparse message of %" PRIu32 " elements has %zu bytes", count,
			       bytes);
	if (count > capacity)
		return lh_fail(err, LH_EINPUT, 0,
			       "a sparse message of %" PRIu32 " elements; expected up to %" PRIu32,
			       count, capacity);
	values = indices + (size_t)WORD * count;
	for (size_t i = 0; i < count; i++) {
		uint32_t index = lh_wire_get32(indices + WORD * i);

		if (index >= n || index < least)
			return lh_fail(err, LH_EINPUT, 0,
				       "index %" PRIu32 " of a sparse message; expected %" PRIu64
				       " to %" PRIu32 ", the last",
				       index, least, n - 1);
		least = (uint64_t)index + 1;
		ret->indices[i] = index;
		ret->values[i] = lh_wire_get_float(values + WORD * i);
	}
	ret->count = count;
	return 0;
}

void lh_sparse_add(const struct lh_sparse *message, float weight, float *sum)
{
	for (size_t i = 0; i < message->count; i++)
		sum[message->indices[i]] += weight * message->values[i];
}
