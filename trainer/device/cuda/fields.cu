/* SPDX-License-Identifier: Apache-2.0 */
/* Layers over the fields of records: their embeddings, and factorization machines. See cuda.h and
 * layers.h. */
#include "trainer/device/cuda/tables.cuh"

using namespace lh;

namespace
{

/* ---- embeddings of fields ------------------------------------------------------------------- */

/* The row of the table that column j of sample n takes, and what it is multiplied by; -1: outside.
 */
template <typename T>
__device__ int64_t find_row(const struct lh_field_embedding &s, const int32_t *index,
			    const T *values, int64_t n, int64_t j, float *ret_value)
{
	int32_t bucket;

	*ret_value = 1;
	if (j >= s.fields) {
		*ret_value = to_float(values[n * s.numbers + j - s.fields]);
		return s.fields * s.buckets + j - s.fields;
	}
	bucket = index[n * s.fields + j];
	return bucket >= 0 && bucket < s.buckets ? j * s.buckets + bucket : -1;
}

template <typename T>
__global__ void embed_fields(struct lh_field_embedding s, const int32_t *index, const T *values,
			     const T *w, T *y, struct lh_cuda_fault *fault, uint32_t position)
{
	int64_t all = s.fields + s.numbers;

	for (int64_t i = first_index(); i < s.n * s.k; i += index_step()) {
		int64_t n = i / s.k, k = i % s.k;
		float sum = 0;

		for (int64_t j = 0; j < all; j++) {
			float value;
			int64_t row = find_row(s, index, values, n, j, &value);
			float x = row < 0 ? 0 : to_float(w[row * s.k + k]) * value;

			if (row < 0 && k == 0)
				tell_fault(fault, position, index[n * s.fields + j],
					   n * s.fields + j, s.buckets);
			if (!s.is_summed)
				put(y + (n * all + j) * s.k + k, x);
			sum += x;
		}
		if (s.is_summed)
			put(y + i, sum);
	}
}

/* Rows of the table as keys to be sorted. */
__global__ void find_keys(struct lh_field_embedding s, const int32_t *index, int32_t *keys)
{
	for (int64_t i = first_index(); i < s.n * s.fields; i += index_step()) {
		int32_t bucket = index[i];

		keys[i] = bucket >= 0 && bucket < s.buckets
				  ? static_cast<int32_t>(i % s.fields * s.buckets + bucket)
				  : -1;
	}
}

template <typename T> struct field_gradient {
	struct lh_field_embedding s;
	const T *dy;

	__device__ const T *at(int64_t n, int64_t j) const
	{
		return dy + (s.is_summed ? n : n * (s.fields + s.numbers) + j) * s.k;
	}

	__device__ const T *operator()(int64_t position) const
	{
		return at(position / s.fields, position % s.fields);
	}
};

/* A block for each number's row: the sum over samples of value dy. */
template <typename T>
__global__ void add_to_numbers(struct field_gradient<T> f, const T *values, float *dw)
{
	__shared__ float shared[MEMBERS][CHANNELS];
	const struct lh_field_embedding &s = f.s;
	int64_t m = blockIdx.x, row = s.fields * s.buckets + m;

	for (int64_t c0 = 0; c0 < s.k; c0 += CHANNELS) {
		int64_t k = c0 + threadIdx.x;
		float sum = 0;

		for (int64_t n = threadIdx.y; k < s.k && n < s.n; n += MEMBERS)
			sum += to_float(values[n * s.numbers + m]) *
			       to_float(f.at(n, s.fields + m)[k]);
		shared[threadIdx.y][threadIdx.x] = sum;
		__syncthreads();
		if (threadIdx.y == 0 && k < s.k) {
			for (int i = 1; i < MEMBERS; i++)
				sum += shared[i][threadIdx.x];
			dw[row * s.k + k] += sum;
		}
		__syncthreads();
	}
}

/* The gradient of a number: its row of the table times dy. */
template <typename T>
__global__ void number_gradients(struct field_gradient<T> f, const T *w, T *dx, bool adds)
{
	const struct lh_field_embedding &s = f.s;

	for (int64_t i = first_index(); i < s.n * s.numbers; i += index_step()) {
		int64_t n = i / s.numbers, m = i % s.numbers;
		const T *row = w + (s.fields * s.buckets + m) * s.k, *d = f.at(n, s.fields + m);
		float sum = 0;

		for (int64_t k = 0; k < s.k; k++)
			sum += to_float(row[k]) * to_float(d[k]);
		put(dx + i, sum, adds);
	}
}

const struct lh_field_embedding &spec_of_fields(const struct lh_graph_node *node)
{
	return *static_cast<const struct lh_field_embedding *>(node->spec);
}

template <typename T>
int fields_backward_w(struct lh_cuda *cuda, const struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_field_embedding &s = spec_of_fields(node);
	int64_t n = s.n * s.fields;
	int32_t *keys = static_cast<int32_t *>(node->workspace);
	void *sort_workspace = reinterpret_cast<char *>(keys) +
			       lh_cuda_align(static_cast<size_t>(n) * sizeof(*keys));
	struct field_gradient<T> f = {
		s, grad<T>(node->out)
	};
	float *dw = grad<float>(node->parameter[0]);
	const int32_t *rows, *positions;
	int rc = launch(cuda, err, "field embedding, backward", find_keys, blocks_for(n),
			dim3(THREADS), s, data<int32_t>(node->in[0]), keys);

	if (rc == 0)
		rc = lh_cuda_sort(cuda, keys, n, sort_workspace, &rows, &positions, err);
	if (rc == 0)
		rc = launch(cuda, err, "field embedding, backward", add_to_table<decltype(f)>,
			    dim3(static_cast<unsigned int>(n)), dim3(CHANNELS, MEMBERS), f, n,
			    s.fields * s.buckets, s.k, rows, positions, dw);
	if (rc || s.numbers == 0)
		return rc;
	return launch(cuda, err, "field embedding, backward", add_to_numbers<T>,
		      dim3(static_cast<unsigned int>(s.numbers)), dim3(CHANNELS, MEMBERS), f,
		      data<T>(node->in[1]), dw);
}

/* ---- factorization machines ------------------------------------------------------------------ */

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

const struct lh_factorization &spec_of_factorization(const struct lh_graph_node *node)
{
	return *static_cast<const struct lh_factorization *>(node->spec);
}

} // namespace

extern "C" {

int lh_cuda_field_embedding_prepare(struct lh_device *, struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_field_embedding &s = spec_of_fields(node);
	int64_t n = s.n * s.fields;

	if (n > INT32_MAX || s.fields * s.buckets > INT32_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "%lld indexes into %lld rows; at most 2^31 - 1 each",
			       static_cast<long long>(n),
			       static_cast<long long>(s.fields * s.buckets));
	node->workspace_bytes =
		lh_cuda_align(static_cast<size_t>(n) * sizeof(int32_t)) + lh_cuda_sort_bytes(n);
	return 0;
}

int lh_cuda_field_embedding_forward(struct lh_device *device, const struct lh_graph_node *node,
				    const struct lh_pass *, struct lh_error *err)
{
	const struct lh_field_embedding &s = spec_of_fields(node);
	struct lh_cuda *cuda = lh_cuda_of(device);

	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(cuda, err, "field embedding", embed_fields<T>, blocks_for(s.n * s.k),
			      dim3(THREADS), s, data<int32_t>(node->in[0]),
			      s.numbers ? data<T>(node->in[1]) : nullptr,
			      static_cast<const T *>(lh_cuda_weight(node->parameter[0])),
			      static_cast<T *>(node->out->data), cuda->fault, node->position);
	});
}

int lh_cuda_field_embedding_backward(struct lh_device *device, const struct lh_graph_node *node,
				     const struct lh_pass *, struct lh_error *err)
{
	const struct lh_field_embedding &s = spec_of_fields(node);
	struct lh_cuda *cuda = lh_cuda_of(device);

	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);
		struct field_gradient<T> f = {
			s, grad<T>(node->out)
		};
		int rc = node->parameter[0]->grad ? fields_backward_w<T>(cuda, node, err) : 0;

		if (rc || s.numbers == 0 || !node->in[1]->grad)
			return rc;
		return launch(cuda, err, "field embedding, backward", number_gradients<T>,
			      blocks_for(s.n * s.numbers), dim3(THREADS), f,
			      static_cast<const T *>(lh_cuda_weight(node->parameter[0])),
			      grad<T>(node->in[1]), node->adds[1]);
	});
}

int lh_cuda_factorization_forward(struct lh_device *device, const struct lh_graph_node *node,
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

int lh_cuda_factorization_backward(struct lh_device *device, const struct lh_graph_node *node,
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
