/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings and transcripts to a model's inputs: of the kinds speech, webdataset and
 * synthetic-speech. */
#ifndef LH_TRAINER_DATA_SPEECH_INTERNAL_H
#define LH_TRAINER_DATA_SPEECH_INTERNAL_H

#include <stdbool.h>

#include "trainer/data/dataset_internal.h"
#include "trainer/data/mel.h"
#include "trainer/data/wav.h"

struct lh_speech {
	struct lh_mel *mel;
	float *signal; /* [n_frames * LH_MEL_HOP] */
	uint32_t n_frames;
	uint32_t n_decoder;
};

/* Longest of a dataset's recordings and transcripts, with where they are for messages. */
struct lh_speech_lengths {
	size_t n_samples;
	size_t n_text_bytes;
	char longest[256];
	char longest_text[256];
};

void lh_speech_lengths_add(struct lh_speech_lengths *l, const char *name, size_t n_samples,
			   size_t n_text_bytes);

/* Fills in the spec's zeros, refuses what does not fit, adds the fields mel, tokens and targets,
 * or mel and labels. lh_speech_done() on any. */
int lh_speech_init(struct lh_speech *s, struct lh_dataset *ds, const struct lh_speech_lengths *l,
		   bool has_text, struct lh_error *err);

void lh_speech_done(struct lh_speech *s);

/* Writes ret[n_frames, n_mels] of s->signal. */
void lh_speech_write_mel(const struct lh_speech *s, float *ret);

/* Writes tokens (start, the bytes, padding) and targets (the bytes, end, then -1), [n_decoder]
 * each; n < n_decoder. */
void lh_speech_write_text(const struct lh_speech *s, const char *text, size_t n,
			  int32_t *ret_tokens, int32_t *ret_targets);

#endif
