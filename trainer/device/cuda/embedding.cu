/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings and factorization machines. The backward sorts the indexes, so that one block adds up
 * all that a row of the table gets, in order. See cuda.h and layers.h. */
#include "trainer/device/cuda/kernels.cuh"

using namespace lh;

namespace
{

/* Threads over channels in x, over what is added up in y. */
constexpr int CHANNELS = WARP, MEMBERS = THREADS / WARP;

template <typename T>
__global__ void embed(struct lh_embedding s, const int32_t *index, const T *w, T *y,
		      struct lh_cuda_fault *fault, uint32_t position)
{
	for (int64_t i = first_index(); i < s.n * s.c; i += index_step()) {
		int64_t at = i / s.c, c = i % s.c;
		int32_t row = index[at];

		if (row >= 0 && row < s.rows) {
			y[i] = w[row * s.c + c];
			continue;
		}
		put(y + i, 0);
		if (c == 0 && atomicCAS(&fault->is_set, 0u, 1u) == 0) {
			fault->position = position;
			fault->value = row;
			fault->at = at;
			fault->n = s.rows;
		}
	}
}

/* A block for each sorted place; those where a row of the table begins add up the whole row. */
template <typename T>
__global__ void embed_backward(struct lh_embedding s, const int32_t *rows, const int32_t *positions,
			       const T *dy, float *dw)
{
	__shared__ float shared[MEMBERS][CHANNELS];
	int64_t begin = blockIdx.x, end = begin + 1;
	int32_t row = rows[begin];

	if ((begin > 0 && rows[begin - 1] == row) || row < 0 || row >= s.rows)
		return;
	for (int64_t past = s.n; end < past;) {
		int64_t middle = end + (past - end) / 2;

		if (rows[middle] == row)
			end = middle + 1;
		else
			past = middle;
	}
	for (int64_t c0 = 0; c0 < s.c; c0 += CHANNELS) {
		int64_t c = c0 + threadIdx.x;
		float sum = 0;

		for (int64_t i = begin + threadIdx.y; c < s.c && i < end; i += MEMBERS)
			sum += to_float(dy[positions[i] * s.c + c]);
		shared[threadIdx.y][threadIdx.x] = sum;
		__syncthreads();
		if (threadIdx.y == 0 && c < s.c) {
			for (int i = 1; i < MEMBERS; i++)
				sum += shared[i][threadIdx.x];
			dw[row * s.c + c] += sum;
		}
		__syncthreads();
	}
}

/* A warp for each sample. */
template <typename T> __global__ void factorize(struct lh_factorization s, const T *x, T *y)
{
	int64_t step = index_step() / WARP;
	int lane = threadIdx.x % WARP;

	for (int64_t n = first_index() / WARP; n < s.n; n += step) {
		float total = 0;

		for (int64_t k = lane; k < s.k; k += WARP) {
			float sum = 0, squares = 0;

			for (int64_t f = 0; f < s.fields; f++) {
				float value = to_float(x[(n * s.fields + f) * s.k + k]);

				sum += value;
				squares += value * value;
			}
			total += sum * sum - squares;
		}
		total = warp_sum(total);
		if (lane == 0)
			put(y + n, total / 2);
	}
}

template <typename T>
__global__ void factorize_backward(struct lh_factorization s, const T *x, const T *dy, T *dx,
				   bool adds)
{
	for (int64_t i = first_index(); i < s.n * s.k; i += index_step()) {
		int64_t n = i / s.k, k = i % s.k;
		float sum = 0;

		for (int64_t f = 0; f < s.fields; f++)
			sum += to_float(x[(n * s.fields + f) * s.k + k]);
		for (int64_t f = 0; f < s.fields; f++) {
			int64_t at = (n * s.fields + f) * s.k + k;

			put(dx + at, to_float(dy[n]) * (sum - to_float(x[at])), adds);
		}
	}
}

const struct lh_embedding &spec_of_embedding(const struct lh_node *node)
{
	return *static_cast<const struct lh_embedding *>(node->spec);
}

const struct lh_factorization &spec_of_factorization(const struct lh_node *node)
{
	return *static_cast<const struct lh_factorization *>(node->spec);
}

} // namespace

extern "C" {

int lh_cuda_embedding_prepare(struct lh_device *, struct lh_node *node, struct lh_error *err)
{
	const struct lh_embedding &s = spec_of_embedding(node);

	if (s.n > INT32_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%lld indexes; at most 2^31 - 1",
			       static_cast<long long>(s.n));
	node->workspace_bytes = lh_cuda_sort_bytes(s.n);
	return 0;
}

int lh_cuda_embedding_forward(struct lh_device *device, const struct lh_node *node,
			      const struct lh_pass *, struct lh_error *err)
{
	const struct lh_embedding &s = spec_of_embedding(node);
	struct lh_cuda *cuda = lh_cuda_of(device);

	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(cuda, err, "embedding", embed<T>, blocks_for(s.n * s.c),
			      dim3(THREADS), s, data<int32_t>(node->in[0]),
			      static_cast<const T *>(lh_cuda_weight(node->parameter[0])),
			      static_cast<T *>(node->out->data), cuda->fault, node->position);
	});
}

int lh_cuda_embedding_backward(struct lh_device *device, const struct lh_node *node,
			       const struct lh_pass *, struct lh_error *err)
{
	const struct lh_embedding &s = spec_of_embedding(node);
	struct lh_cuda *cuda = lh_cuda_of(device);
	const int32_t *rows, *positions;
	int rc;

	if (!node->parameter[0]->grad)
		return 0;
	rc = lh_cuda_sort(cuda, data<int32_t>(node->in[0]), s.n, node->workspace, &rows, &positions,
			  err);
	if (rc)
		return rc;
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(cuda, err, "embedding, backward", embed_backward<T>,
			      dim3(static_cast<unsigned int>(s.n)), dim3(CHANNELS, MEMBERS), s,
			      rows, positions, grad<T>(node->out), grad<float>(node->parameter[0]));
	});
}

int lh_cuda_factorization_forward(struct lh_device *device, const struct lh_node *node,
				  const struct lh_pass *, struct lh_error *err)
{
	const struct lh_factorization &s = spec_of_factorization(node);

	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(lh_cuda_of(device), err, "factorization", factorize<T>,
			      blocks_for(s.n * WARP), dim3(THREADS), s, data<T>(node->in[0]),
			      static_cast<T *>(node->out->data));
	});
}

int lh_cuda_factorization_backward(struct lh_device *device, const struct lh_node *node,
				   const struct lh_pass *, struct lh_error *err)
{
	const struct lh_factorization &s = spec_of_factorization(node);

	if (!node->in[0]->grad)
		return 0;
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(lh_cuda_of(device), err, "factorization, backward",
			      factorize_backward<T>, blocks_for(s.n * s.k), dim3(THREADS), s,
			      data<T>(node->in[0]), grad<T>(node->out), grad<T>(node->in[0]),
			      node->adds[0]);
	});
}

} // extern "C"
