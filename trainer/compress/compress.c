/* SPDX-License-Identifier: Apache-2.0 */
/* The table of compressors. See compress.h. */
#include "trainer/compress/compress.h"

#include <string.h>

const struct lh_compress_ops *const lh_compressors[] = {
	&lh_compress_fp16,
	&lh_compress_none,
	NULL,
};

const struct lh_compress_ops *lh_compress_find(const char *name)
{
	for (size_t i = 0; lh_compressors[i]; i++)
		if (strcmp(lh_compressors[i]->name, name) == 0)
			return lh_compressors[i];
	return NULL;
}
