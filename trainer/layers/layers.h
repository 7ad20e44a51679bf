/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers that models are built of: what each computes, its parameters, and its builder.
 * Builders add a node to the graph and return its output; given NULL, or what does not fit, they
 * return NULL and the graph keeps the reason (trainer/tensor/graph.h).
 *
 * In the comments: N batch, H W height and width, C channels, T sequence, V vocabulary; x the
 * input, y the output, w and b weight and bias. A name of NULL for a bias means none.
 */
#ifndef LH_TRAINER_LAYERS_H
#define LH_TRAINER_LAYERS_H

#include "trainer/tensor/graph.h"

/* What a kind of layer needs and allows, the same on every device. */
struct lh_layer_kind {
	const char *name;
	uint32_t backward_needs_in; /* bit i: in[i]->data */
	bool backward_needs_out;
	bool runs_in_place; /* out may be the memory of in[0] where that is not needed any more */
	/* in[i]->grad may be the memory of out->grad: */
	bool passes_gradient; /* unchanged, or changed in a way that does no harm when repeated */
	bool changes_gradient;
};

/* in the order of enum lh_layer. */
const struct lh_layer_kind *lh_layer_kind(enum lh_layer layer, const void *spec);

enum lh_activation { LH_IDENTITY, LH_RELU, LH_GELU, LH_GELU_TANH, LH_SIGMOID, LH_TANH };

/* y[n,oh,ow,o] = b[o] + sum w[o,kh,kw,c] x[n, oh*stride+kh-pad, ow*stride+kw-pad,
 * group(o)*C/groups+c]. w: [O, KH, KW, C/groups]. A convolution over sequences has H = 1. */
struct lh_conv2d {
	int64_t n, h, w, c;   /* x; filled by the builder */
	int64_t oh, ow;	      /* y; filled by the builder */
	int64_t out_channels; /* O */
	int64_t kernel_h, kernel_w;
	int64_t stride_h, stride_w;
	int64_t pad_h, pad_w; /* zeros on both sides */
	int64_t groups;
	bool has_bias;
};
struct lh_tensor *lh_conv2d(struct lh_graph *graph, const char *name, struct lh_tensor *x,
			    struct lh_conv2d spec, struct lh_init init_weight,
			    struct lh_init init_bias);

/* y = x w^T + b over the last dimension; w: [O, C]. */
struct lh_linear {
	int64_t rows, in_features; /* filled by the builder */
	int64_t out_features;
	bool has_bias;
};
struct lh_tensor *lh_linear(struct lh_graph *graph, const char *name, struct lh_tensor *x,
			    struct lh_linear spec, struct lh_init init_weight,
			    struct lh_init init_bias);

/* The same with the weight of another layer, [O, C] (an embedding's): no new weight; has_bias: a
 * bias of its own. */
struct lh_tensor *lh_linear_tied(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				 struct lh_tensor *weight, bool has_bias);

/* Over all but the last dimension: y = f(w (x - mean) / sqrt(var + eps) + b), f identity or ReLU.
 * Training: the batch's mean and variance (biased), while running_mean and running_var move by
 * momentum towards the mean and the unbiased variance; else the running ones. Saved: mean,
 * 1/sqrt(var + eps). Source: arXiv 1502.03167. */
struct lh_batch_norm {
	int64_t rows, c; /* filled by the builder */
	double eps;
	double momentum;
	bool has_relu;
};
struct lh_tensor *lh_batch_norm(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				struct lh_batch_norm spec);

/* Over the last dimension, of each row. Saved: mean, 1/sqrt(var + eps). Source: arXiv 1607.06450.
 */
struct lh_layer_norm {
	int64_t rows, c; /* filled by the builder */
	double eps;
};
struct lh_tensor *lh_layer_norm(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				double eps);

struct lh_activate {
	enum lh_activation f;
};
struct lh_tensor *lh_activate(struct lh_graph *graph, struct lh_tensor *x, enum lh_activation f);

/* y = f(a + b), f identity or ReLU. b may lack leading dimensions of a: it is added to each
 * (positions). */
struct lh_add {
	bool has_relu;
};
struct lh_tensor *lh_add(struct lh_graph *graph, struct lh_tensor *a, struct lh_tensor *b,
			 bool has_relu);

/* y = x * gamma[C]; gamma begins at value. Source: layer scale, arXiv 2103.17239. */
struct lh_scale {
	double value;
};
struct lh_tensor *lh_scale(struct lh_graph *graph, const char *name, struct lh_tensor *x,
			   double value);

/* In training, zeroes with probability p and multiplies what is left by 1/(1-p): single elements,
 * or with per_sample all that belongs to one of the N (stochastic depth, arXiv 1603.09382). The
 * mask is a function of (seed, step, node, element), lh_dropout_keeps. p = 0 adds no node. */
struct lh_dropout {
	double p;
	bool per_sample;
	int64_t n; /* filled by the builder */
};
struct lh_tensor *lh_dropout(struct lh_graph *graph, struct lh_tensor *x, double p,
			     bool per_sample);

/* Windows of kernel x kernel; pad: outside counts as -inf (max), or is left out of the mean. kernel
 * 0: over the whole image, to [N, C]. Saved by max: nothing; the backward finds the first largest
 * again. */
struct lh_pool {
	bool is_max;
	int64_t n, h, w, c, oh, ow; /* filled by the builder */
	int64_t kernel, stride, pad;
};
struct lh_tensor *lh_pool(struct lh_graph *graph, struct lh_tensor *x, bool is_max, int64_t kernel,
			  int64_t stride, int64_t pad);

/* Every stride-th pixel, and zero channels before and behind (equally many) up to out_channels: the
 * shortcut without parameters of arXiv 1512.03385, option A. */
struct lh_shortcut {
	int64_t n, h, w, c, oh, ow; /* filled by the builder */
	int64_t stride, out_channels;
};
struct lh_tensor *lh_shortcut(struct lh_graph *graph, struct lh_tensor *x, int64_t stride,
			      int64_t out_channels);

/* y[..., :] = w[index[...], :]; w: [V, C]. Indexes outside 0..V-1 make the forward fail on the
 * reference and CPU devices. */
struct lh_embedding {
	int64_t n, rows, c; /* n filled by the builder: indexes */
};
struct lh_tensor *lh_embedding(struct lh_graph *graph, const char *name, struct lh_tensor *indexes,
			       int64_t rows, int64_t c, struct lh_init init);
/* The weight of the embedding that returned embedded, for lh_linear_tied. */
struct lh_tensor *lh_embedding_weight(struct lh_graph *graph, const struct lh_tensor *embedded);

/*
 * One table for all fields of a record, w: [F * buckets + M, K]. y[n, f, :] = w[f * buckets +
 * indexes[n, f], :] for F fields, indexes int32 [N, F], each 0 to buckets - 1 (or the forward
 * fails as that of an embedding does); then y[n, F + m, :] = values[n, m] w[F * buckets + m, :] for
 * M numbers, values [N, M] (NULL: none). is_summed: the sum over all of them, [N, K].
 */
struct lh_field_embedding {
	int64_t n, fields, numbers; /* N, F, M; filled by the builder */
	int64_t buckets, k;
	bool is_summed;
};
struct lh_tensor *lh_field_embedding(struct lh_graph *graph, const char *name,
				     struct lh_tensor *indexes, struct lh_tensor *values,
				     struct lh_field_embedding spec, struct lh_init init);

/*
 * softmax(q k^T / sqrt(D)) v, each of `heads` heads of D = C / heads channels. q: [N, T, C]; k, v:
 * [N, S, C]; with k and v NULL, q is [N, T, 3C]: q, k and v side by side. is_causal: position t
 * sees up to t (S = T). lengths (may be NULL): int32 [N], keys from there on are not seen. Saved:
 * the logarithm of each row's softmax denominator, [N, heads, T]. Source: arXiv 1706.03762.
 */
struct lh_attention {
	int64_t n, t, s, c; /* filled by the builder */
	int64_t heads;
	bool is_causal;
	bool is_packed;	  /* one input with q, k, v; filled by the builder */
	bool has_lengths; /* the last input; filled by the builder */
	double dropout;	  /* of the softmax's output; lh_dropout_keeps */
};
struct lh_tensor *lh_attention(struct lh_graph *graph, struct lh_tensor *q, struct lh_tensor *k,
			       struct lh_tensor *v, struct lh_tensor *lengths,
			       struct lh_attention spec);

/* The last dimensions one behind the other, two to four inputs. */
struct lh_concat {
	int64_t rows; /* filled by the builder */
};
struct lh_tensor *lh_concat(struct lh_graph *graph, struct lh_tensor *const *xs, uint32_t n);

/* A factorization machine's second order: x [N, F, K] to y [N, 1],
 * y = 1/2 sum_k ((sum_f x)^2 - sum_f x^2). Source: Rendle 2010; arXiv 1703.04247. */
struct lh_factorization {
	int64_t n, fields, k; /* filled by the builder */
};
struct lh_tensor *lh_factorization(struct lh_graph *graph, struct lh_tensor *x);

/* Other dims, same elements, same memory: no node. */
struct lh_tensor *lh_reshape(struct lh_graph *graph, struct lh_tensor *x, uint32_t n_dims,
			     const int64_t *dims);

/*
 * Losses: means over the counted targets, a scalar. y[0] is the loss. Saved[0]: {sum of losses,
 * targets counted, of those right} as lh_loss_* read them. Cross entropy: logits [..., V], targets
 * int32 [...], -1 not counted; smoothing e: (1-e) of the target and e/V of all. Saved[1]: the
 * logarithm of each row's denominator. Binary: logits [N, 1], targets int32 [N], 0 or 1.
 */
struct lh_cross_entropy {
	int64_t rows, classes; /* filled by the builder */
	double smoothing;
};
struct lh_tensor *lh_cross_entropy(struct lh_graph *graph, struct lh_tensor *logits,
				   struct lh_tensor *targets, double smoothing);
struct lh_tensor *lh_binary_cross_entropy(struct lh_graph *graph, struct lh_tensor *logits,
					  struct lh_tensor *targets);

struct lh_loss {
	double mean;
	double n_counted;
	double n_right;
};
/* Of the last forward pass; loss is what one of the losses returned. */
int lh_loss_read(struct lh_graph *graph, const struct lh_tensor *loss, struct lh_loss *ret_loss,
		 struct lh_error *err);

/* ---- shared by all devices ------------------------------------------------------------------ */

/* What nvcc compiles for both sides. */
#ifdef __CUDACC__
#define LH_HOST_DEVICE __host__ __device__
#else
#define LH_HOST_DEVICE
#endif

/* Whether dropout keeps element i under key, with threshold p x 2^32. */
LH_HOST_DEVICE static inline bool lh_dropout_keeps(uint64_t key, uint64_t i, uint32_t threshold)
{
	uint64_t z = key + i * 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 32) >= threshold;
}

/* The key of a node's masks in a pass. */
uint64_t lh_dropout_key(const struct lh_pass *pass, uint32_t position);
uint32_t lh_dropout_threshold(double p);

#endif
