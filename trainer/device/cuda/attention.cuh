/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both ways of attention share: attention.cu, with products of floats, and attention_mma.cu,
 * on the matrix units.
 * Source: FlashAttention-2, arXiv 2307.08691, algorithms 1 and 2.
 */
#ifndef LH_TRAINER_CUDA_ATTENTION_CUH
#define LH_TRAINER_CUDA_ATTENTION_CUH

#include "trainer/device/cuda/kernels.cuh"

namespace lh
{

struct attention {
	struct lh_attention s;
	int64_t width, stride; /* channels of a head; between rows of q, k and v */
	const int32_t *lengths;
	float scale, kept_factor;
	uint64_t key;
	uint32_t threshold;
	bool has_dropout;
};

/* Where one head of one sequence lies. */
template <typename T> struct head {
	const T *q, *k, *v, *y, *dy;
	T *dq, *dk, *dv;
	const float *log_sum, *mean; /* [T] */
	int64_t n, row0;	     /* sequence; the head's first row in [N, heads, T] */
};

template <typename T> struct tensors {
	const T *q, *k, *v;
	T *y;
	const T *dy;
	T *dq, *dk, *dv;
	bool adds_q, adds_k, adds_v;
	float *log_sum, *mean; /* mean: sum of y dy of each row */
};

template <typename T>
__device__ struct head<T> find_head(const struct attention &a, const struct tensors<T> &t) {
	int64_t n = blockIdx.y / a.s.heads, h = blockIdx.y % a.s.heads;
	int64_t q = n * a.s.t * a.stride + h * a.width, k = n * a.s.s * a.stride + h * a.width;
	int64_t y = n * a.s.t * a.s.c + h * a.width, row0 = blockIdx.y * a.s.t;

	return {t.q + q,
		t.k + k,
		t.v + k,
		t.y + y,
		t.dy + y,
		t.dq ? t.dq + q : nullptr,
		t.dk ? t.dk + k : nullptr,
		t.dv ? t.dv + k : nullptr,
		t.log_sum + row0,
		t.mean + row0,
		n,
		row0};
}

/* Keys that query t of sequence n sees. */
__device__ inline int64_t
n_seen(const struct attention &a, int64_t n, int64_t t)
{
	int64_t seen = a.s.is_causal ? t + 1 : a.s.s;
	int64_t length = a.lengths ? a.lengths[n] : a.s.s;

	return seen < length ? seen : length;
}

/* What dropout makes of a weight: 0, or 1/(1-p); 1 without. */
__device__ inline float kept(const struct attention &a, int64_t row, int64_t i)
{
	if (!a.has_dropout)
		return 1;
	return lh_dropout_keeps(a.key, static_cast<uint64_t>(row * a.s.s + i), a.threshold)
		       ? a.kept_factor
		       : 0;
}

inline struct attention describe(const struct lh_graph_node *node, const struct lh_pass *pass)
{
	struct attention a = {};

	a.s = *static_cast<const struct lh_attention *>(node->spec);
	a.width = a.s.c / a.s.heads;
	a.stride = a.s.is_packed ? 3 * a.s.c : a.s.c;
	a.lengths = a.s.has_lengths ? data<int32_t>(node->in[node->n_in - 1]) : nullptr;
	a.scale = static_cast<float>(1 / sqrt(static_cast<double>(a.width)));
	a.has_dropout = pass->is_training && a.s.dropout > 0;
	a.kept_factor = static_cast<float>(1 / (1 - a.s.dropout));
	a.key = lh_dropout_key(pass, node->position);
	a.threshold = lh_dropout_threshold(a.s.dropout);
	return a;
}

template <typename T> T *behind(T *x, int64_t n)
{
	return x ? x + n : nullptr;
}

template <typename T> struct tensors<T> find_tensors(const struct lh_graph_node *node) {
	const struct lh_attention *s = static_cast<const struct lh_attention *>(node->spec);
	uint32_t k = s->is_packed ? 0 : 1, v = s->is_packed ? 0 : 2;
	int64_t c = s->is_packed ? s->c : 0;
	struct tensors<T> t = {
	};

	t.q = data<T>(node->in[0]);
	t.k = data<T>(node->in[k]) + c;
	t.v = data<T>(node->in[v]) + 2 * c;
	t.y = static_cast<T *>(node->out->data);
	t.dy = grad<T>(node->out);
	t.dq = grad<T>(node->in[0]);
	t.dk = behind(grad<T>(node->in[k]), c);
	t.dv = behind(grad<T>(node->in[v]), 2 * c);
	t.adds_q = node->adds[0];
	t.adds_k = node->adds[k];
	t.adds_v = node->adds[v];
	t.log_sum = static_cast<float *>(node->saved[0]->data);
	t.mean = static_cast<float *>(node->workspace);
	return t;
}

inline dim3
tiles_of(int64_t rows, int tile, const struct lh_attention &s)
{
	return dim3(static_cast<unsigned int>(divide_up(rows, tile)),
		    static_cast<unsigned int>(s.n * s.heads));
}

/* Whether a head fits the matrix units' way. */
template <typename T> bool fits_matrix_units(const struct attention &a)
{
	return sizeof(T) == 2 && a.width <= 64;
}

} // namespace lh

/* attention_mma.cu: for those that fit. The means are in tensors.mean before the backward. */
int lh_cuda_attend_mma(struct lh_cuda *cuda, const struct lh::attention &a,
		       const struct lh::tensors<__half> &t, struct lh_error *err);
int lh_cuda_attend_mma(struct lh_cuda *cuda, const struct lh::attention &a,
		       const struct lh::tensors<__nv_bfloat16> &t, struct lh_error *err);
int lh_cuda_attend_mma_backward(struct lh_cuda *cuda, const struct lh::attention &a,
				const struct lh::tensors<__half> &t, struct lh_error *err);
int lh_cuda_attend_mma_backward(struct lh_cuda *cuda, const struct lh::attention &a,
				const struct lh::tensors<__nv_bfloat16> &t, struct lh_error *err);

#endif
