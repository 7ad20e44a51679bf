/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings, attention and factorization machines of the reference device. See reference.h and
 * layers.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "trainer/device/reference/reference.h"

int LH_REFERENCE(embedding_forward)(struct lh_device *device, const struct lh_graph_node *node,
				    const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_embedding *s = node->spec;
	const int32_t *index = node->in[0]->data;
	const real *w = node->parameter[0]->data;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	for (int64_t i = 0; i < s->n; i++) {
		if (index[i] < 0 || index[i] >= s->rows)
			return lh_fail(err, LH_EINPUT, 0,
				       "index %" PRId32 " at %" PRId64 "; expected 0 to %" PRId64,
				       index[i], i, s->rows - 1);
		memcpy(y + i * s->c, w + index[i] * s->c, (size_t)s->c * sizeof(*y));
	}
	return 0;
}

int LH_REFERENCE(embedding_backward)(struct lh_device *device, const struct lh_graph_node *node,
				     const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_embedding *s = node->spec;
	const int32_t *index = node->in[0]->data;
	const real *dy = node->out->grad;
	real *dw = node->parameter[0]->grad;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; i < s->n; i++)
		for (int64_t c = 0; c < s->c; c++)
			put(dw, index[i] * s->c + c, (double)dy[i * s->c + c], true);
	return 0;
}

/* ---- embeddings of fields ---------------------------------------------------------------------
 */

/* The row of the table that column j of sample n takes, and what it is multiplied by. */
static int64_t find_row(const struct lh_graph_node *node, int64_t n, int64_t j, double *ret_value)
{
	const struct lh_field_embedding *s = node->spec;
	int64_t m = j - s->fields;

	*ret_value = 1;
	if (m < 0)
		return j * s->buckets + ((const int32_t *)node->in[0]->data)[n * s->fields + j];
	*ret_value = (double)((const real *)node->in[1]->data)[n * s->numbers + m];
	return s->fields * s->buckets + m;
}

static int check_buckets(const struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_field_embedding *s = node->spec;
	const int32_t *index = node->in[0]->data;

	for (int64_t i = 0; i < s->n * s->fields; i++)
		if (index[i] < 0 || index[i] >= s->buckets)
			return lh_fail(err, LH_EINPUT, 0,
				       "index %" PRId32 " in field %" PRId64 " of sample %" PRId64
				       "; expected 0 to %" PRId64,
				       index[i], i % s->fields, i / s->fields, s->buckets - 1);
	return 0;
}

int LH_REFERENCE(field_embedding_forward)(struct lh_device *device,
					  const struct lh_graph_node *node,
					  const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_field_embedding *s = node->spec;
	const real *w = node->parameter[0]->data;
	int64_t all = s->fields + s->numbers;
	real *y = node->out->data;
	double value;

	(void)device;
	(void)pass;
	if (check_buckets(node, err))
		return LH_EINPUT;
	for (int64_t i = 0; i < s->n * s->k; i++) {
		int64_t n = i / s->k, k = i % s->k;
		double sum = 0;

		for (int64_t j = 0; j < all; j++) {
			double x = (double)w[find_row(node, n, j, &value) * s->k + k] * value;

			if (!s->is_summed)
				y[(n * all + j) * s->k + k] = (real)x;
			sum += x;
		}
		if (s->is_summed)
			y[i] = (real)sum;
	}
	return 0;
}

int LH_REFERENCE(field_embedding_backward)(struct lh_device *device,
					   const struct lh_graph_node *node,
					   const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_field_embedding *s = node->spec;
	const real *w = node->parameter[0]->data, *dy = node->out->grad;
	real *dw = node->parameter[0]->grad, *dx = s->numbers ? node->in[1]->grad : NULL;
	int64_t all = s->fields + s->numbers;
	double value;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; i < s->n * all; i++) {
		int64_t n = i / all, j = i % all, row = find_row(node, n, j, &value);
		const real *d = dy + (s->is_summed ? n : i) * s->k;
		double sum = 0;

		for (int64_t k = 0; k < s->k; k++) {
			put(dw, row * s->k + k, (double)d[k] * value, true);
			sum += (double)d[k] * (double)w[row * s->k + k];
		}
		if (dx && j >= s->fields)
			put(dx, n * s->numbers + j - s->fields, sum, node->adds[1]);
	}
	return 0;
}

/* ---- attention ------------------------------------------------------------------------------ */

/* Where the vectors of one head lie: rows are stride elements apart. */
struct heads {
	const real *q, *k, *v;
	real *dq, *dk, *dv; /* may be NULL */
	int64_t q_stride, k_stride;
};

static real *at(real *base, int64_t i)
{
	return base ? base + i : NULL;
}

static struct heads find_heads(const struct lh_graph_node *node, int64_t n, int64_t head)
{
	const struct lh_attention *s = node->spec;
	int64_t width = s->c / s->heads, wide = s->is_packed ? 3 * s->c : s->c;
	int64_t q = n * s->t * wide + head * width, k = n * s->s * wide + head * width;
	const struct lh_tensor *keys = node->in[s->is_packed ? 0 : 1];
	const struct lh_tensor *values = node->in[s->is_packed ? 0 : 2];
	int64_t second = s->is_packed ? s->c : 0, third = s->is_packed ? 2 * s->c : 0;

	return (struct heads){
		.q = (const real *)node->in[0]->data + q,
		.k = (const real *)keys->data + k + second,
		.v = (const real *)values->data + k + third,
		.dq = at(node->in[0]->grad, q),
		.dk = at(keys->grad, k + second),
		.dv = at(values->grad, k + third),
		.q_stride = wide,
		.k_stride = wide,
	};
}

static double dot(const real *a, const real *b, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

/* How many keys query t of sequence n sees. */
static int64_t n_seen(const struct lh_graph_node *node, int64_t n, int64_t t)
{
	const struct lh_attention *s = node->spec;
	int64_t seen = s->is_causal ? t + 1 : s->s;
	int64_t length = s->s;

	if (s->has_lengths)
		length = ((const int32_t *)node->in[node->n_in - 1]->data)[n];
	return seen < length ? seen : length;
}

/* What dropout makes of the weight of key i for a row: 0 or 1/(1-p); 1 without. */
static double attention_mask(const struct lh_graph_node *node, const struct lh_pass *pass,
			     int64_t row, int64_t i)
{
	const struct lh_attention *s = node->spec;

	if (!pass->is_training || s->dropout == 0)
		return 1;
	if (!lh_dropout_keeps(lh_dropout_key(pass, node->position), (uint64_t)(row * s->s + i),
			      lh_dropout_threshold(s->dropout)))
		return 0;
	return 1 / (1 - s->dropout);
}

static void attend(const struct lh_graph_node *node, const struct lh_pass *pass,
		   const struct heads *h, int64_t n, int64_t head, int64_t t)
{
	const struct lh_attention *s = node->spec;
	int64_t width = s->c / s->heads, seen = n_seen(node, n, t),
		row = (n * s->heads + head) * s->t + t;
	double scale = 1 / sqrt((double)width), max = -INFINITY, sum = 0;
	real *y = (real *)node->out->data + (n * s->t + t) * s->c + head * width;

	for (int64_t i = 0; i < seen; i++)
		max = fmax(max, scale * dot(h->q + t * h->q_stride, h->k + i * h->k_stride, width));
	for (int64_t i = 0; i < seen; i++)
		sum += exp(scale * dot(h->q + t * h->q_stride, h->k + i * h->k_stride, width) -
			   max);
	((real *)node->saved[0]->data)[row] = (real)(max + log(sum));
	for (int64_t d = 0; d < width; d++) {
		double value = 0;

		for (int64_t i = 0; i < seen; i++) {
			double score =
				scale * dot(h->q + t * h->q_stride, h->k + i * h->k_stride, width);

			value += exp(score - max) / sum * attention_mask(node, pass, row, i) *
				 (double)h->v[i * h->k_stride + d];
		}
		y[d] = (real)value;
	}
}

int LH_REFERENCE(attention_forward)(struct lh_device *device, const struct lh_graph_node *node,
				    const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_attention *s = node->spec;

	(void)device;
	(void)err;
	for (int64_t n = 0; n < s->n; n++) {
		for (int64_t head = 0; head < s->heads; head++) {
			struct heads h = find_heads(node, n, head);

			for (int64_t t = 0; t < s->t; t++)
				attend(node, pass, &h, n, head, t);
		}
	}
	return 0;
}

/* One query's part of the gradients of queries, keys and values. */
static void attend_backward(const struct lh_graph_node *node, const struct lh_pass *pass,
			    const struct heads *h, int64_t n, int64_t head, int64_t t)
{
	const struct lh_attention *s = node->spec;
	int64_t width = s->c / s->heads, seen = n_seen(node, n, t),
		row = (n * s->heads + head) * s->t + t;
	int64_t out = (n * s->t + t) * s->c + head * width;
	const real *q = h->q + t * h->q_stride;
	const real *y = (const real *)node->out->data + out,
		   *dy = (const real *)node->out->grad + out;
	double scale = 1 / sqrt((double)width), mean = dot(y, dy, width);
	double log_sum = (double)((const real *)node->saved[0]->data)[row];

	for (int64_t i = 0; i < seen; i++) {
		const real *k = h->k + i * h->k_stride, *v = h->v + i * h->k_stride;
		double weight = exp(scale * dot(q, k, width) - log_sum);
		double kept = attention_mask(node, pass, row, i);
		double dscore = weight * (kept * dot(v, dy, width) - mean) * scale;

		for (int64_t d = 0; d < width; d++) {
			if (h->dq)
				put(h->dq, t * h->q_stride + d, dscore * (double)k[d], true);
			if (h->dk)
				put(h->dk, i * h->k_stride + d, dscore * (double)q[d], true);
			if (h->dv)
				put(h->dv, i * h->k_stride + d, weight * kept * (double)dy[d],
				    true);
		}
	}
}

int LH_REFERENCE(attention_backward)(struct lh_device *device, const struct lh_graph_node *node,
				     const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_attention *s = node->spec;

	(void)device;
	(void)err;
	for (uint32_t j = 0; j < (s->is_packed ? 1u : 3u); j++)
		if (node->in[j]->grad && !node->adds[j])
			memset(node->in[j]->grad, 0, (size_t)node->in[j]->n * sizeof(real));
	for (int64_t n = 0; n < s->n; n++) {
		for (int64_t head = 0; head < s->heads; head++) {
			struct heads h = find_heads(node, n, head);

			for (int64_t t = 0; t < s->t; t++)
				attend_backward(node, pass, &h, n, head, t);
		}
	}
	return 0;
}

/* ---- factorization machines ------------------------------------------------------------------ */

static double sum_fields(const struct lh_factorization *s, const real *x, int64_t n, int64_t k)
{
	double sum = 0;

	for (int64_t f = 0; f < s->fields; f++)
		sum += (double)x[(n * s->fields + f) * s->k + k];
	return sum;
}

int LH_REFERENCE(factorization_forward)(struct lh_device *device, const struct lh_graph_node *node,
					const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_factorization *s = node->spec;
	const real *x = node->in[0]->data;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t n = 0; n < s->n; n++) {
		double total = 0;

		for (int64_t k = 0; k < s->k; k++) {
			double sum = sum_fields(s, x, n, k);

			total += sum * sum;
			for (int64_t f = 0; f < s->fields; f++) {
				double value = (double)x[(n * s->fields + f) * s->k + k];

				total -= value * value;
			}
		}
		y[n] = (real)(total / 2);
	}
	return 0;
}

int LH_REFERENCE(factorization_backward)(struct lh_device *device, const struct lh_graph_node *node,
					 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_factorization *s = node->spec;
	const real *x = node->in[0]->data, *dy = node->out->grad;
	real *dx = node->in[0]->grad;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; dx && i < node->in[0]->n; i++) {
		int64_t n = i / s->k / s->fields;

		put(dx, i, (double)dy[n] * (sum_fields(s, x, n, i % s->k) - (double)x[i]),
		    node->adds[0]);
	}
	return 0;
}
