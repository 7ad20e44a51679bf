/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings. The backward sorts the indexes, so that one block adds up all that a row of the table
 * gets, in order. See cuda.h and layers.h. */
#include "trainer/device/cuda/tables.cuh"

using namespace lh;

namespace
{

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
		if (c == 0)
			tell_fault(fault, position, row, at, s.rows);
	}
}

template <typename T> struct embedded_gradient {
	const T *dy;
	int64_t c;

	__device__ const T *operator()(int64_t position) const
	{
		return dy + position * c;
	}
};

const struct lh_embedding &spec_of_embedding(const struct lh_graph_node *node)
{
	return *static_cast<const struct lh_embedding *>(node->spec);
}

} // namespace

extern "C" {

int lh_cuda_embedding_prepare(struct lh_device *, struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_embedding &s = spec_of_embedding(node);

	if (s.n > INT32_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%lld indexes; at most 2^31 - 1",
			       static_cast<long long>(s.n));
	node->workspace_bytes = lh_cuda_sort_bytes(s.n);
	return 0;
}

int lh_cuda_embedding_forward(struct lh_device *device, const struct lh_graph_node *node,
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

int lh_cuda_embedding_backward(struct lh_device *device, const struct lh_graph_node *node,
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

		struct embedded_gradient<T> f = {
			grad<T>(node->out), s.c
		};

		return launch(cuda, err, "embedding, backward", add_to_table<decltype(f)>,
			      dim3(static_cast<unsigned int>(s.n)), dim3(CHANNELS, MEMBERS), f, s.n,
			      s.rows, s.c, rows, positions, grad<float>(node->parameter[0]));
	});
}

} // extern "C"
