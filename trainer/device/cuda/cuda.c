/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device: the first GPU that CUDA shows, its memory, and the copies to and from it. See
 * cuda.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/device/cuda/cuda.h"
#include "trainer/device/cuda/trace.h"

int lh_cuda_check(cudaError_t code, const char *what, struct lh_error *err)
{
	if (code == cudaSuccess)
		return 0;
	return lh_fail(err, LH_ERUN, 0, "%s: %s (%s)", what, cudaGetErrorString(code),
		       cudaGetErrorName(code));
}

/* ---- opening -------------------------------------------------------------------------------- */

/* bf16 has been in GPUs since compute capability 8.0. */
static int check_gpu(enum lh_dtype compute, struct cudaDeviceProp *ret_gpu, struct lh_error *err)
{
	int n = 0, rc;
	cudaError_t code = cudaGetDeviceCount(&n);

	if (code != cudaSuccess || n == 0)
		return lh_fail(err, LH_EENV, 0,
			       "no GPU: %s; device cuda needs an NVIDIA GPU and its driver",
			       code == cudaSuccess ? "CUDA shows none" : cudaGetErrorString(code));
	rc = lh_cuda_check(cudaGetDeviceProperties(ret_gpu, 0), "cudaGetDeviceProperties", err);
	if (rc)
		return rc;
	if (compute == LH_BF16 && ret_gpu->major < 8)
		return lh_fail(err, LH_EENV, 0,
			       "%s has compute capability %d.%d; bf16 needs 8.0: use fp16 or fp32",
			       ret_gpu->name, ret_gpu->major, ret_gpu->minor);
	return 0;
}

/* 13000 is CUDA 13.0; cuDNN counts so in tens of thousands. */
static void name_software(const struct cudaDeviceProp *gpu, struct lh_device *device)
{
	int runtime = 0, driver = 0;
	int dnn = (int)lh_cuda_convolutions_version();

	cudaRuntimeGetVersion(&runtime);
	cudaDriverGetVersion(&driver);
	snprintf(device->processor, sizeof(device->processor), "%.63s", gpu->name);
	snprintf(device->software, sizeof(device->software),
		 "CUDA %d.%d, driver for %d.%d, cuDNN %d.%d.%d, sm_%d%d", runtime / 1000,
		 runtime % 1000 / 10, driver / 1000, driver % 1000 / 10, dnn / 10000,
		 dnn % 10000 / 100, dnn % 100, gpu->major, gpu->minor);
}

static int open_parts(struct lh_cuda *cuda, struct lh_error *err)
{
	int rc = lh_cuda_check(cudaSetDevice(0), "cudaSetDevice", err);

	if (rc == 0)
		rc = lh_cuda_check(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking),
				   "cudaStreamCreate", err);
	if (rc == 0)
		rc = lh_cuda_check(cudaHostAlloc((void **)&cuda->fault, sizeof(*cuda->fault),
						 cudaHostAllocMapped),
				   "cudaHostAlloc", err);
	if (rc)
		return rc;
	memset(cuda->fault, 0, sizeof(*cuda->fault));
	rc = lh_cuda_check(cudaMalloc(&cuda->staging, LH_CUDA_STAGING_BYTES), "cudaMalloc", err);
	if (rc == 0)
		rc = lh_cuda_check(cudaMallocHost(&cuda->staging_host, LH_CUDA_STAGING_BYTES),
				   "cudaMallocHost", err);
	if (rc == 0)
		rc = lh_cuda_check(cudaEventCreateWithFlags(&cuda->staging_is_free,
							    cudaEventDisableTiming),
				   "cudaEventCreate", err);
	if (rc == 0)
		rc = lh_cuda_matmuls_open(cuda, err);
	return rc ? rc : lh_cuda_convolutions_open(cuda, err);
}

static void close_cuda(struct lh_device *device)
{
	struct lh_cuda *cuda = lh_cuda_of(device);

	if (cuda->stream)
		cudaStreamSynchronize(cuda->stream);
	lh_cuda_convolutions_close(cuda);
	lh_cuda_matmuls_close(cuda);
	if (cuda->staging_is_free)
		cudaEventDestroy(cuda->staging_is_free);
	cudaFreeHost(cuda->staging_host);
	cudaFree(cuda->staging);
	cudaFreeHost(cuda->fault);
	if (cuda->stream)
		cudaStreamDestroy(cuda->stream);
	free(cuda);
}

static int open_cuda(const struct lh_device_options *options, struct lh_device **ret_device,
		     struct lh_error *err)
{
	struct cudaDeviceProp gpu;
	struct lh_cuda *cuda;
	int rc;

	if (options->compute == LH_F64 || options->compute == LH_I32)
		return lh_fail(err, LH_EINPUT, 0,
			       "device cuda computes in fp32, fp16 or bf16, not "
			       "in %s",
			       lh_dtype_name(options->compute));
	rc = check_gpu(options->compute, &gpu, err);
	if (rc)
		return rc;
	cuda = calloc(1, sizeof(*cuda));
	if (!cuda)
		return lh_fail(err, LH_ESYS, 0, "no memory for a device");
	cuda->device = (struct lh_device){.ops = &lh_device_cuda,
					  .compute = options->compute,
					  .master = LH_F32,
					  .n_threads = 1};
	name_software(&gpu, &cuda->device);
	rc = open_parts(cuda, err);
	if (rc) {
		close_cuda(&cuda->device);
		return rc;
	}
	*ret_device = &cuda->device;
	return 0;
}

/* ---- memory --------------------------------------------------------------------------------- */

static int alloc_cuda(struct lh_device *device, size_t bytes, void **ret_memory,
		      struct lh_error *err)
{
	cudaError_t code = cudaMalloc(ret_memory, bytes);
	size_t unused = 0, all = 0;

	if (code == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		cudaMemGetInfo(&unused, &all);
		return lh_fail(err, LH_EENV, 0,
			       "no memory for %.1f MB on the GPU: %.1f of its %.1f MB are unused",
			       (double)bytes / 1e6, (double)unused / 1e6, (double)all / 1e6);
	}
	if (code != cudaSuccess)
		return lh_cuda_check(code, "cudaMalloc", err);
	return device->ops->zero(device, *ret_memory, bytes, err);
}

/* cudaFree waits for the GPU. */
static void free_cuda(struct lh_device *device, void *memory)
{
	(void)device;
	cudaFree(memory);
}

static int zero_cuda(struct lh_device *device, void *memory, size_t bytes, struct lh_error *err)
{
	return lh_cuda_check(cudaMemsetAsync(memory, 0, bytes, lh_cuda_of(device)->stream),
			     "cudaMemsetAsync", err);
}

/* Waits, and tells what went wrong meanwhile. */
static int synchronize_cuda(struct lh_device *device, struct lh_error *err)
{
	struct lh_cuda *cuda = lh_cuda_of(device);
	struct lh_cuda_fault fault;
	int rc = lh_cuda_check(cudaStreamSynchronize(cuda->stream), "a kernel", err);

	if (rc || !cuda->fault->is_set)
		return rc;
	fault = *cuda->fault;
	memset(cuda->fault, 0, sizeof(*cuda->fault));
	return lh_fail(err, LH_EINPUT, 0,
		       "layer number %" PRIu32 ": index %" PRId32 " at %" PRId64
		       "; expected 0 to %" PRId64,
		       fault.position, fault.value, fault.at, fault.n - 1);
}

/* ---- copies --------------------------------------------------------------------------------- */

static bool is_narrow(enum lh_dtype dtype)
{
	return dtype == LH_F16 || dtype == LH_BF16;
}

/* Elements of 4 bytes that the staging memory holds. */
enum { CHUNK = LH_CUDA_STAGING_BYTES / 4 };

/* A chunk to the device; narrow numbers are rounded there. */
static int write_chunk(struct lh_cuda *cuda, void *memory, enum lh_dtype dtype, const void *host,
		       int64_t n, struct lh_error *err)
{
	size_t bytes = (size_t)n * 4;
	void *to = is_narrow(dtype) ? cuda->staging : memory;
	int rc = lh_cuda_check(cudaEventSynchronize(cuda->staging_is_free), "a kernel", err);

	if (rc)
		return rc;
	memcpy(cuda->staging_host, host, bytes);
	rc = lh_cuda_check(cudaMemcpyAsync(to, cuda->staging_host, bytes, cudaMemcpyHostToDevice,
					   cuda->stream),
			   "cudaMemcpyAsync to the GPU", err);
	if (rc == 0)
		rc = lh_cuda_check(cudaEventRecord(cuda->staging_is_free, cuda->stream),
				   "cudaEventRecord", err);
	if (rc || !is_narrow(dtype))
		return rc;
	return lh_cuda_convert(cuda, LH_F32, cuda->staging, dtype, memory, false, n, err);
}

/* One number goes along with a kernel: the scale of a loss must not wait for what runs. */
static int write_cuda(struct lh_device *device, void *memory, enum lh_dtype dtype, const void *host,
		      int64_t n, struct lh_error *err)
{
	size_t width = lh_dtype_bytes(dtype);
	int rc = 0;

	if (n == 1 && dtype == LH_F32)
		return lh_cuda_fill(lh_cuda_of(device), memory, *(const float *)host, 1, err);
	for (int64_t at = 0; rc == 0 && at < n; at += CHUNK)
		rc = write_chunk(lh_cuda_of(device), (char *)memory + (size_t)at * width, dtype,
				 (const char *)host + at * 4, n - at < CHUNK ? n - at : CHUNK, err);
	return rc;
}

static int read_chunk(struct lh_cuda *cuda, const void *memory, enum lh_dtype dtype, void *ret_host,
		      int64_t n, struct lh_error *err)
{
	const void *from = is_narrow(dtype) ? cuda->staging : memory;
	int rc = is_narrow(dtype) ? lh_cuda_convert(cuda, dtype, memory, LH_F32, cuda->staging,
						    false, n, err)
				  : 0;

	if (rc == 0)
		rc = lh_cuda_check(cudaMemcpyAsync(ret_host, from, (size_t)n * 4,
						   cudaMemcpyDeviceToHost, cuda->stream),
				   "cudaMemcpyAsync from the GPU", err);
	return rc ? rc : synchronize_cuda(&cuda->device, err);
}

static int read_cuda(struct lh_device *device, const void *memory, enum lh_dtype dtype,
		     void *ret_host, int64_t n, struct lh_error *err)
{
	size_t width = lh_dtype_bytes(dtype);
	int rc = 0;

	for (int64_t at = 0; rc == 0 && at < n; at += CHUNK)
		rc = read_chunk(lh_cuda_of(device), (const char *)memory + (size_t)at * width,
				dtype, (char *)ret_host + at * 4, n - at < CHUNK ? n - at : CHUNK,
				err);
	return rc;
}

static int cast_cuda(struct lh_device *device, void *ret_cast, const void *data, int64_t n,
		     struct lh_error *err)
{
	return lh_cuda_convert(lh_cuda_of(device), LH_F32, data, device->compute, ret_cast, false,
			       n, err);
}

static void phase_cuda(struct lh_device *device, const char *name)
{
	(void)device;
	lh_trace_phase(name);
}

const struct lh_device_ops lh_device_cuda = {
	.name = "cuda",
	.doc = "an NVIDIA GPU: cuBLAS, cuDNN and own kernels; fp32, fp16 and bf16",
	.open = open_cuda,
	.close = close_cuda,
	.alloc = alloc_cuda,
	.free = free_cuda,
	.zero = zero_cuda,
	.write = write_cuda,
	.read = read_cuda,
	.cast = cast_cuda,
	.phase = phase_cuda,
	.synchronize = synchronize_cuda,
	.kernel = lh_cuda_kernel,
	.update = &lh_update_cuda,
};
