/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task is judged by beside loss and accuracy: bits per byte of text, words written right of
 * speech. Other tasks, and texts that are not of bytes, have none.
 */
#ifndef LH_TRAINER_LEARN_QUALITY_H
#define LH_TRAINER_LEARN_QUALITY_H

#include "core/error.h"
#include "trainer/learn/spec.h"
#include "trainer/tensor/graph.h"

struct lh_quality;

/* What test samples have shown; NAN where the task has no such measure. */
struct lh_quality_values {
	double n_bytes;	      /* of text that the counted targets stand for */
	double word_accuracy; /* share of transcripts that greedy decoding writes whole and right */
};

/* For the samples of a graph whose model is built and finished. *ret_quality is NULL where the task
 * has no measure of its own; else the caller's. LH_EINPUT (the vocabulary), LH_ESYS. */
int lh_quality_new(const struct lh_learn_spec *spec, const struct lh_built_model *model,
		   struct lh_quality **ret_quality, struct lh_error *err);
void lh_quality_free(struct lh_quality *quality); /* NULL is fine */

/* Forgets all samples; NULL is fine. */
void lh_quality_clear(struct lh_quality *quality);

/* After a forward pass: its first n samples count. targets: the batch's, on the host. NULL is
 * fine. */
int lh_quality_add(struct lh_quality *quality, struct lh_graph *graph,
		   const struct lh_built_model *model, const int32_t *targets, uint32_t n,
		   struct lh_error *err);

void lh_quality_take(const struct lh_quality *quality, struct lh_quality_values *ret_values);

#endif
