/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL transport of a build without NCCL. See nccl.h. */
#include "trainer/transport/nccl.h"

static int refuse(struct lh_error *err)
{
	return lh_fail(err, LH_EENV, 0,
		       "transport nccl: built without NCCL; install NVIDIA's CUDA toolkit and NCCL "
		       "(nccl.h, libnccl), then run configure and make again");
}

int lh_nccl_open(const struct lh_nccl_options *options, struct lh_nccl **ret_nccl,
		 struct lh_error *err)
{
	(void)options;
	(void)ret_nccl;
	return refuse(err);
}

void lh_nccl_close(struct lh_nccl *nccl)
{
	(void)nccl;
}

int lh_nccl_all_reduce(struct lh_nccl *nccl, float *x, int64_t n, struct lh_error *err)
{
	(void)nccl;
	(void)x;
	(void)n;
	return refuse(err);
}

int lh_nccl_reduce_scatter(struct lh_nccl *nccl, const float *x, float *ret_part, int64_t n,
			   struct lh_error *err)
{
	(void)nccl;
	(void)x;
	(void)ret_part;
	(void)n;
	return refuse(err);
}

int lh_nccl_all_gather(struct lh_nccl *nccl, const float *part, float *ret_x, int64_t n,
		       struct lh_error *err)
{
	(void)nccl;
	(void)part;
	(void)ret_x;
	(void)n;
	return refuse(err);
}
