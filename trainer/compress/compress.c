/* SPDX-License-Identifier: Apache-2.0 */
/* The table of codecs, and the choice of their loops. See compress.h and kernels_internal.h. */
#include "trainer/compress/compress.h"

#include <string.h>

#include "trainer/compress/kernels_internal.h"
#include "trainer/compress/kernels_matrix_internal.h"
#include "trainer/compress/kernels_sparse_internal.h"

const struct lh_codec_ops *const lh_codecs[] = {
	&lh_codec_fp16,	      &lh_codec_none,	&lh_codec_bf16, &lh_codec_uniform8,
	&lh_codec_blockwise8, &lh_codec_onebit, NULL,
};

const struct lh_codec_ops *lh_codec_find(const char *name)
{
	for (size_t i = 0; lh_codecs[i]; i++)
		if (strcmp(lh_codecs[i]->name, name) == 0)
			return lh_codecs[i];
	return NULL;
}

#ifdef __x86_64__
int lh_kernels_wide_fit(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#else
int lh_kernels_wide_fit(void)
{
	return 1;
}
#endif

const struct lh_kernels *lh_kernels(void)
{
	return lh_kernels_wide_fit() ? &lh_kernels_wide : &lh_kernels_any;
}

const struct lh_sparse_kernels *lh_sparse_kernels(void)
{
	return lh_kernels_wide_fit() ? &lh_sparse_kernels_wide : &lh_sparse_kernels_any;
}

const struct lh_matrix_kernels *lh_matrix_kernels(void)
{
	return lh_kernels_wide_fit() ? &lh_matrix_kernels_wide : &lh_matrix_kernels_any;
}
