/* SPDX-License-Identifier: Apache-2.0 */
/* Bits per byte, words written right. See quality.h. */
#include "trainer/learn/quality.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/bpe.h"

enum { N_BYTES = 256 };

struct quality_text {
	uint16_t *bytes_of; /* by token */
	uint32_t n_known;
};

struct lh_quality {
	enum lh_task task;
	struct quality_text text;
	float *logits; /* of one sample, [rows, classes] */
	int64_t rows, classes;
	double n_bytes;
	double n_words, n_words_right;
};

/* ---- text ----------------------------------------------------------------------------------- */

/* The bytes that each token stands for; without a vocabulary a token is a byte. */
static int measure_tokens(const char *vocabulary, struct quality_text *text, struct lh_error *err)
{
	struct lh_bpe *bpe = NULL;
	int rc = vocabulary ? lh_bpe_load(vocabulary, &bpe, err) : 0;

	if (rc)
		return rc;
	text->n_known = bpe ? lh_bpe_size(bpe) : N_BYTES;
	text->bytes_of = calloc(text->n_known, sizeof(*text->bytes_of));
	for (uint32_t i = 0; text->bytes_of && i < text->n_known; i++) {
		int32_t token = (int32_t)i;

		text->bytes_of[i] = bpe ? (uint16_t)lh_bpe_decode(bpe, &token, 1, NULL, 0) : 1;
	}
	lh_bpe_free(bpe);
	return text->bytes_of ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "vocabulary");
}

static double count_bytes(const struct quality_text *text, const int32_t *targets, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		if (targets[i] >= 0 && (uint32_t)targets[i] < text->n_known)
			sum += text->bytes_of[targets[i]];
	return sum;
}

/* ---- speech --------------------------------------------------------------------------------- */

static int64_t find_largest(const float *x, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

/*
 * Whether greedy decoding writes the sample's transcript. It begins as the transcript does, and as
 * long as every token so far was right it has seen what the model was given here; so it is
 * right exactly where each largest logit is the token that follows.
 */
static bool is_written_right(const struct lh_quality *q, const int32_t *targets)
{
	for (int64_t t = 0; t < q->rows; t++)
		if (targets[t] != -1 &&
		    find_largest(q->logits + t * q->classes, q->classes) != targets[t])
			return false;
	return true;
}

/* Logits are there: the loss's backward would need them. */
static int read_logits(struct lh_quality *q, struct lh_graph *graph, const struct lh_tensor *logits,
		       uint32_t sample, struct lh_error *err)
{
	struct lh_device *device = lh_graph_device(graph);
	int64_t n = q->rows * q->classes;
	const char *at = (const char *)logits->data +
			 (size_t)sample * (size_t)n * lh_dtype_bytes(logits->dtype);

	return device->ops->read(device, at, logits->dtype, q->logits, n, err);
}

static int add_words(struct lh_quality *q, struct lh_graph *graph, const struct lh_tensor *logits,
		     const int32_t *targets, uint32_t n, struct lh_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		int rc = read_logits(q, graph, logits, i, err);

		if (rc)
			return rc;
		q->n_words++;
		q->n_words_right += is_written_right(q, targets + (int64_t)i * q->rows);
	}
	return 0;
}

/* ---- both ----------------------------------------------------------------------------------- */

static bool is_of_bytes(const struct lh_learn_spec *spec)
{
	return spec->model.preset->family->task == LH_TASK_TEXT &&
	       strncmp(spec->data.kind, "synthetic-", strlen("synthetic-")) != 0;
}

int lh_quality_new(const struct lh_learn_spec *spec, const struct lh_built_model *model,
		   struct lh_quality **ret_quality, struct lh_error *err)
{
	bool is_text = is_of_bytes(spec), is_speech = model->task == LH_TASK_SPEECH;
	const struct lh_tensor *logits = model->logits;
	struct lh_quality *q;
	int rc = 0;

	*ret_quality = NULL;
	if (!is_text && !is_speech)
		return 0;
	q = calloc(1, sizeof(*q));
	if (!q)
		return lh_fail(err, LH_ESYS, ENOMEM, "measures");
	q->task = model->task;
	q->classes = logits->dims[logits->n_dims - 1];
	q->rows = lh_model_size(&spec->model, "sequence");
	if (is_text)
		rc = measure_tokens(spec->data.vocab_path, &q->text, err);
	else if (!(q->logits = calloc((size_t)(q->rows * q->classes), sizeof(*q->logits))))
		rc = lh_fail(err, LH_ESYS, ENOMEM, "logits of a sample");
	if (rc) {
		lh_quality_free(q);
		return rc;
	}
	*ret_quality = q;
	return 0;
}

void lh_quality_free(struct lh_quality *q)
{
	if (!q)
		return;
	free(q->text.bytes_of);
	free(q->logits);
	free(q);
}

void lh_quality_clear(struct lh_quality *q)
{
	if (q)
		q->n_bytes = q->n_words = q->n_words_right = 0;
}

int lh_quality_add(struct lh_quality *q, struct lh_graph *graph, const struct lh_built_model *model,
		   const int32_t *targets, uint32_t n, struct lh_error *err)
{
	if (!q)
		return 0;
	if (q->task == LH_TASK_SPEECH)
		return add_words(q, graph, model->logits, targets, n, err);
	q->n_bytes += count_bytes(&q->text, targets, (int64_t)n * q->rows);
	return 0;
}

void lh_quality_take(const struct lh_quality *q, struct lh_quality_values *ret_values)
{
	*ret_values = (struct lh_quality_values){NAN, NAN};
	if (q && q->task == LH_TASK_TEXT)
		ret_values->n_bytes = q->n_bytes;
	if (q && q->task == LH_TASK_SPEECH && q->n_words > 0)
		ret_values->word_accuracy = q->n_words_right / q->n_words;
}
