/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that NVIDIA's profilers show, where the NVTX headers are there. */
#ifndef LH_TRAINER_CUDA_TRACE_H
#define LH_TRAINER_CUDA_TRACE_H

#include <stddef.h>

#ifdef LH_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

/* Begins a range; NULL ends the last one. */
static inline void lh_trace_phase(const char *name)
{
#ifdef LH_HAVE_NVTX
	if (name)
		nvtxRangePushA(name);
	else
		nvtxRangePop();
#else
	(void)name;
#endif
}

#endif
