/* SPDX-License-Identifier: Apache-2.0 */
/* IDX files. See idx.h. */
#include "trainer/data/idx.h"

static uint32_t read_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int lh_idx_parse(const char *path, const uint8_t *data, size_t size, uint32_t n_dims,
		 struct lh_idx *ret, struct lh_error *err)
{
	enum { TYPE_U8 = 8, GZIP = 0x1f8b };
	size_t head = 4 + 4 * (size_t)n_dims;
	struct lh_idx idx = {.n_dims = n_dims};
	uint64_t wanted = 1;

	if (size >= 2 && (data[0] << 8 | data[1]) == GZIP)
		return lh_fail(err, LH_EINPUT, 0, "%s: is compressed; run: gunzip %s", path, path);
	if (size < head || data[0] || data[1] || data[2] != TYPE_U8 || data[3] != n_dims)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: does not begin as an IDX file of bytes in %u dimensions does "
			       "(00 00 08 %02x)",
			       path, n_dims, n_dims);
	for (uint32_t i = 0; i < n_dims; i++) {
		idx.dims[i] = read_be32(data + 4 + 4 * i);
		if (idx.dims[i] == 0)
			return lh_fail(err, LH_EINPUT, 0, "%s: its dimension %u is 0", path, i);
		if (wanted <= size && __builtin_mul_overflow(wanted, idx.dims[i], &wanted))
			wanted = UINT64_MAX;
	}
	if (wanted > size - head)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: cut off in record %llu: its %u records need at least %llu "
			       "bytes after the head, %zu are there",
			       path, (unsigned long long)((size - head) / (wanted / idx.dims[0])),
			       idx.dims[0], (unsigned long long)wanted, size - head);
	if (wanted < size - head)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: %llu bytes stand behind its %u records; is the head wrong?",
			       path, (unsigned long long)(size - head - wanted), idx.dims[0]);
	idx.values = data + head;
	*ret = idx;
	return 0;
}
