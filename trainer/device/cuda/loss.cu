/* SPDX-License-Identifier: Apache-2.0 */
/* Losses: a block for each row of logits, then one block for the sum over rows. See cuda.h and
 * layers.h. */
#include "trainer/device/cuda/tables.cuh"

using namespace lh;

namespace
{

/* What a row adds to the sums. */
struct row_loss {
	float loss, is_counted, is_right;
};

/* A largest element and the first place where it stands. */
struct largest {
	float value;
	int64_t at;
};

__device__ struct largest larger(struct largest a, struct largest b)
{
	bool is_b = b.value > a.value || (b.value == a.value && b.at < a.at);

	return is_b ? b : a;
}

/* Of a block of THREADS, in all of its threads. */
__device__ struct largest block_largest(struct largest mine)
{
	__shared__ struct largest found[THREADS / WARP];
	struct largest best;

	for (int lane = WARP / 2; lane > 0; lane /= 2) {
		struct largest other = {__shfl_xor_sync(ALL_LANES, mine.value, lane),
					__shfl_xor_sync(ALL_LANES, mine.at, lane)};

		mine = larger(mine, other);
	}
	if (threadIdx.x % WARP == 0)
		found[threadIdx.x / WARP] = mine;
	__syncthreads();
	best = found[0];
	for (int i = 1; i < THREADS / WARP; i++)
		best = larger(best, found[i]);
	__syncthreads();
	return best;
}

template <typename T>
__global__ void cross_entropy_rows(struct lh_cross_entropy s, const T *logits,
				   const int32_t *targets, float *saved_denominator,
				   struct row_loss *losses, struct lh_cuda_fault *fault,
				   uint32_t position)
{
	int64_t row = blockIdx.x;
	const T *x = logits + row * s.classes;
	int32_t target = targets[row];
	struct largest best = {-INFINITY, s.classes};
	float sum = 0, total = 0, denominator;

	for (int64_t i = threadIdx.x; i < s.classes; i += THREADS) {
		best = larger(best, {to_float(x[i]), i});
		total += to_float(x[i]);
	}
	best = block_largest(best);
	for (int64_t i = threadIdx.x; i < s.classes; i += THREADS)
		sum += expf(to_float(x[i]) - best.value);
	denominator = best.value + logf(block_sum(sum));
	total = s.smoothing > 0 ? block_sum(total) : 0;
	if (threadIdx.x != 0)
		return;
	saved_denominator[row] = denominator;
	losses[row] = {0, 0, 0};
	if (target < -1 || target >= s.classes)
		tell_fault(fault, position, target, row, s.classes);
	else if (target != -1)
		losses[row] = {denominator -
				       static_cast<float>(1 - s.smoothing) * to_float(x[target]) -
				       static_cast<float>(s.smoothing / s.classes) * total,
			       1, best.at == target ? 1.0f : 0.0f};
}

template <typename T>
__global__ void cross_entropy_dx(struct lh_cross_entropy s, const T *logits, const int32_t *targets,
				 const float *saved_denominator, const float *sums, const float *dy,
				 T *dx, bool adds)
{
	int64_t row = blockIdx.x;
	int32_t target = targets[row];
	float factor = target == -1 ? 0 : *dy / sums[1], denominator = saved_denominator[row];
	float hit = static_cast<float>(1 - s.smoothing);
	float all = static_cast<float>(s.smoothing / s.classes);

	for (int64_t i = threadIdx.x; i < s.classes; i += THREADS) {
		float d = expf(to_float(logits[row * s.classes + i]) - denominator) -
			  (i == target ? hit : 0) - all;

		put(dx + row * s.classes + i, target == -1 ? 0 : d * factor, adds);
	}
}

template <typename T>
__global__ void binary_rows(int64_t rows, const T *logits, const int32_t *targets,
			    struct row_loss *losses, struct lh_cuda_fault *fault, uint32_t position)
{
	for (int64_t row = first_index(); row < rows; row += index_step()) {
		float x = to_float(logits[row]);
		int32_t target = targets[row];

		losses[row] = {0, 0, 0};
		if (target < -1 || target > 1)
			tell_fault(fault, position, target, row, 2);
		else if (target != -1)
			losses[row] = {fmaxf(x, 0) - x * static_cast<float>(target) +
					       log1pf(expf(-fabsf(x))),
				       1, (x > 0) == (target == 1) ? 1.0f : 0.0f};
	}
}

template <typename T>
__global__ void binary_dx(int64_t rows, const T *logits, const int32_t *targets, const float *sums,
			  const float *dy, T *dx, bool adds)
{
	for (int64_t row = first_index(); row < rows; row += index_step()) {
		int32_t target = targets[row];
		float d = 1 / (1 + expf(-to_float(logits[row]))) - static_cast<float>(target);

		put(dx + row, target == -1 ? 0 : d * *dy / sums[1], adds);
	}
}

/* One block: sums of all rows' losses, and the mean. */
__global__ void sum_losses(int64_t rows, const struct row_loss *losses, float *sums, float *mean)
{
	float loss = 0, counted = 0, right = 0;

	for (int64_t row = threadIdx.x; row < rows; row += THREADS) {
		loss += losses[row].loss;
		counted += losses[row].is_counted;
		right += losses[row].is_right;
	}
	loss = block_sum(loss);
	counted = block_sum(counted);
	right = block_sum(right);
	if (threadIdx.x != 0)
		return;
	sums[0] = loss;
	sums[1] = counted;
	sums[2] = right;
	*mean = counted > 0 ? loss / counted : 0;
}

int sum_up(struct lh_cuda *cuda, const struct lh_graph_node *node, int64_t rows, struct lh_error *err)
{
	return launch(cuda, err, "loss", sum_losses, dim3(1), dim3(THREADS), rows,
		      static_cast<const struct row_loss *>(node->workspace),
		      static_cast<float *>(node->saved[0]->data),
		      static_cast<float *>(node->out->data));
}

const struct lh_cross_entropy &spec_of(const struct lh_graph_node *node)
{
	return *static_cast<const struct lh_cross_entropy *>(node->spec);
}

} // namespace

extern "C" {

int lh_cuda_cross_entropy_prepare(struct lh_device *, struct lh_graph_node *node, struct lh_error *err)
{
	int64_t rows = spec_of(node).rows;

	if (rows > INT32_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%lld rows; at most 2^31 - 1",
			       static_cast<long long>(rows));
	node->workspace_bytes = static_cast<size_t>(rows) * sizeof(struct row_loss);
	return 0;
}

int lh_cuda_cross_entropy_forward(struct lh_device *device, const struct lh_graph_node *node,
				  const struct lh_pass *, struct lh_error *err)
{
	struct lh_cuda *cuda = lh_cuda_of(device);
	const struct lh_cross_entropy &s = spec_of(node);
	int rc = by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(cuda, err, "cross entropy", cross_entropy_rows<T>,
			      dim3(static_cast<unsigned int>(s.rows)), dim3(THREADS), s,
			      data<T>(node->in[0]), data<int32_t>(node->in[1]),
			      static_cast<float *>(node->saved[1]->data),
			      static_cast<struct row_loss *>(node->workspace), cuda->fault,
			      node->position);
	});

	return rc ? rc : sum_up(cuda, node, s.rows, err);
}

int lh_cuda_cross_entropy_backward(struct lh_device *device, const struct lh_graph_node *node,
				   const struct lh_pass *, struct lh_error *err)
{
	const struct lh_cross_entropy &s = spec_of(node);

	if (!node->in[0]->grad)
		return 0;
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(lh_cuda_of(device), err, "cross entropy, backward",
			      cross_entropy_dx<T>, dim3(static_cast<unsigned int>(s.rows)),
			      dim3(THREADS), s, data<T>(node->in[0]), data<int32_t>(node->in[1]),
			      data<float>(node->saved[1]), data<float>(node->saved[0]),
			      grad<float>(node->out), grad<T>(node->in[0]), node->adds[0]);
	});
}

int lh_cuda_binary_cross_entropy_prepare(struct lh_device *device, struct lh_graph_node *node,
					 struct lh_error *err)
{
	return lh_cuda_cross_entropy_prepare(device, node, err);
}

int lh_cuda_binary_cross_entropy_forward(struct lh_device *device, const struct lh_graph_node *node,
					 const struct lh_pass *, struct lh_error *err)
{
	struct lh_cuda *cuda = lh_cuda_of(device);
	int64_t rows = spec_of(node).rows;
	int rc = by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(cuda, err, "binary cross entropy", binary_rows<T>, blocks_for(rows),
			      dim3(THREADS), rows, data<T>(node->in[0]), data<int32_t>(node->in[1]),
			      static_cast<struct row_loss *>(node->workspace), cuda->fault,
			      node->position);
	});

	return rc ? rc : sum_up(cuda, node, rows, err);
}

int lh_cuda_binary_cross_entropy_backward(struct lh_device *device, const struct lh_graph_node *node,
					  const struct lh_pass *, struct lh_error *err)
{
	int64_t rows = spec_of(node).rows;

	if (!node->in[0]->grad)
		return 0;
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(lh_cuda_of(device), err, "binary cross entropy, backward",
			      binary_dx<T>, blocks_for(rows), dim3(THREADS), rows,
			      data<T>(node->in[0]), data<int32_t>(node->in[1]),
			      data<float>(node->saved[0]), grad<float>(node->out),
			      grad<T>(node->in[0]), node->adds[0]);
	});
}

} // extern "C"
