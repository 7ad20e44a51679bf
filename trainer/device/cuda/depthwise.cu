/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of one input channel for each output channel. Too little work per number for the
 * matrix units, so a thread takes one channel of one pixel. See cuda.h and layers.h. */
#include "trainer/device/cuda/kernels.cuh"

using namespace lh;

namespace
{

/* Where i lies in an image batch [N, H, W, C]. */
struct place {
	int64_t n, h, w, c;
};

__device__ struct place find_place(int64_t i, int64_t h, int64_t w, int64_t c)
{
	int64_t pixel = i / c;

	return {pixel / w / h, pixel / w % h, pixel % w, i % c};
}

template <typename T>
__global__ void depthwise_forward(struct lh_conv2d s, const T *x, const float *w, const float *b,
				  T *y, int64_t n_out)
{
	for (int64_t i = first_index(); i < n_out; i += index_step()) {
		struct place at = find_place(i, s.oh, s.ow, s.c);
		const float *kernel = w + at.c * s.kernel_h * s.kernel_w;
		float sum = b ? b[at.c] : 0;

		for (int64_t kh = 0; kh < s.kernel_h; kh++) {
			int64_t h = at.h * s.stride_h + kh - s.pad_h;

			if (h < 0 || h >= s.h)
				continue;
			for (int64_t kw = 0; kw < s.kernel_w; kw++) {
				int64_t column = at.w * s.stride_w + kw - s.pad_w;

				if (column >= 0 && column < s.w)
					sum += kernel[kh * s.kernel_w + kw] *
					       to_float(x[((at.n * s.h + h) * s.w + column) * s.c +
							  at.c]);
			}
		}
		put(y + i, sum);
	}
}

template <typename T>
__global__ void depthwise_dx(struct lh_conv2d s, const T *dy, const float *w, T *dx, bool adds,
			     int64_t n_in)
{
	for (int64_t i = first_index(); i < n_in; i += index_step()) {
		struct place at = find_place(i, s.h, s.w, s.c);
		const float *kernel = w + at.c * s.kernel_h * s.kernel_w;
		float sum = 0;

		for (int64_t kh = 0; kh < s.kernel_h; kh++) {
			int64_t h = at.h + s.pad_h - kh, oh = h / s.stride_h;

			if (h < 0 || h % s.stride_h || oh >= s.oh)
				continue;
			for (int64_t kw = 0; kw < s.kernel_w; kw++) {
				int64_t column = at.w + s.pad_w - kw, ow = column / s.stride_w;

				if (column >= 0 && column % s.stride_w == 0 && ow < s.ow)
					sum += kernel[kh * s.kernel_w + kw] *
					       to_float(dy[((at.n * s.oh + oh) * s.ow + ow) * s.c +
							   at.c]);
			}
		}
		put(dx + i, sum, adds);
	}
}

/* A block's part of the weights' gradient, partial [blocks][taps][C]: threads over channels in x
 * and over pixels in y, blocks over channels, taps and pixels. */
template <typename T>
__global__ void depthwise_dw(struct lh_conv2d s, const T *x, const T *dy, float *partial,
			     int64_t pixels, int64_t pixels_per_block)
{
	__shared__ float shared[THREADS];
	unsigned int thread = threadIdx.y * blockDim.x + threadIdx.x;
	int64_t c = first_index(), tap = blockIdx.y, taps = s.kernel_h * s.kernel_w;
	int64_t kh = tap / s.kernel_w, kw = tap % s.kernel_w;
	int64_t end = (blockIdx.z + 1) * pixels_per_block;
	float sum = 0;

	for (int64_t pixel = blockIdx.z * pixels_per_block + threadIdx.y;
	     c < s.c && pixel < end && pixel < pixels; pixel += blockDim.y) {
		int64_t h = pixel / s.ow % s.oh * s.stride_h + kh - s.pad_h;
		int64_t w = pixel % s.ow * s.stride_w + kw - s.pad_w;
		int64_t n = pixel / s.ow / s.oh;

		if (h >= 0 && h < s.h && w >= 0 && w < s.w)
			sum += to_float(dy[pixel * s.c + c]) *
			       to_float(x[((n * s.h + h) * s.w + w) * s.c + c]);
	}
	shared[thread] = sum;
	for (unsigned int half = blockDim.y / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.y < half)
			shared[thread] += shared[thread + half * blockDim.x];
	}
	if (threadIdx.y == 0 && c < s.c)
		partial[(blockIdx.z * taps + tap) * s.c + c] = shared[thread];
}

/* Adds up the blocks' parts: dw [C][taps]. */
__global__ void depthwise_finish(const float *partial, float *dw, int64_t n_partial, int64_t taps,
				 int64_t c)
{
	for (int64_t i = first_index(); i < taps * c; i += index_step()) {
		float sum = 0;

		for (int64_t j = 0; j < n_partial; j++)
			sum += partial[j * taps * c + i];
		dw[i % c * taps + i / c] += sum;
	}
}

/* How the pixels of y are shared out among blocks. */
struct tiling tile_pixels(const struct lh_conv2d *s)
{
	return tile(s->n * s->oh * s->ow, s->c, 64);
}

} // namespace

extern "C" {

size_t lh_cuda_depthwise_bytes(const struct lh_cuda *, const struct lh_conv2d *spec)
{
	return static_cast<size_t>(tile_pixels(spec).grid.y * spec->kernel_h * spec->kernel_w *
				   spec->c) *
	       sizeof(float);
}

int lh_cuda_depthwise(struct lh_cuda *cuda, const struct lh_conv2d *spec, const void *x,
		      const float *w, const float *b, void *y, struct lh_error *err)
{
	int64_t n_out = spec->n * spec->oh * spec->ow * spec->c;

	return by_type(cuda->device.compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(cuda, err, "depthwise convolution", depthwise_forward<T>,
			      blocks_for(n_out), dim3(THREADS), *spec, static_cast<const T *>(x), w,
			      b, static_cast<T *>(y), n_out);
	});
}

int lh_cuda_depthwise_backward_x(struct lh_cuda *cuda, const struct lh_conv2d *spec, const void *dy,
				 const float *w, void *dx, bool adds, struct lh_error *err)
{
	int64_t n_in = spec->n * spec->h * spec->w * spec->c;

	return by_type(cuda->device.compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(cuda, err, "depthwise convolution, backward", depthwise_dx<T>,
			      blocks_for(n_in), dim3(THREADS), *spec, static_cast<const T *>(dy), w,
			      static_cast<T *>(dx), adds, n_in);
	});
}

int lh_cuda_depthwise_backward_w(struct lh_cuda *cuda, const struct lh_conv2d *spec, const void *x,
				 const void *dy, float *dw, void *workspace, struct lh_error *err)
{
	struct tiling t = tile_pixels(spec);
	int64_t taps = spec->kernel_h * spec->kernel_w, pixels = spec->n * spec->oh * spec->ow;
	float *partial = static_cast<float *>(workspace);
	dim3 grid(t.grid.x, static_cast<unsigned int>(taps), t.grid.y);
	int rc = by_type(cuda->device.compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(cuda, err, "depthwise convolution, backward", depthwise_dw<T>, grid,
			      t.block, *spec, static_cast<const T *>(x), static_cast<const T *>(dy),
			      partial, pixels, t.rows_per_block);
	});

	if (rc)
		return rc;
	return launch(cuda, err, "depthwise convolution, backward", depthwise_finish,
		      blocks_for(taps * spec->c), dim3(THREADS), partial, dw,
		      static_cast<int64_t>(t.grid.y), taps, spec->c);
}

} // extern "C"
