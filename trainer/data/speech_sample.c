/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of speech. See speech_internal.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainer/data/speech_internal.h"

enum { MELS_DEFAULT = 80, FRAMES_MAX = 1 << 16, DECODER_MAX = 1 << 16 };

void lh_speech_lengths_add(struct lh_speech_lengths *l, const char *name, size_t n_samples,
			   size_t n_text_bytes)
{
	if (n_samples > l->n_samples) {
		l->n_samples = n_samples;
		snprintf(l->longest, sizeof(l->longest), "%s", name);
	}
	if (n_text_bytes > l->n_text_bytes) {
		l->n_text_bytes = n_text_bytes;
		snprintf(l->longest_text, sizeof(l->longest_text), "%s", name);
	}
}

static int choose_frames(struct lh_data_request *spec, const struct lh_speech_lengths *l,
			 struct lh_error *err)
{
	size_t needed = (l->n_samples + LH_MEL_HOP - 1) / LH_MEL_HOP;
	size_t limit = spec->n_frames ? spec->n_frames : FRAMES_MAX;

	if (spec->n_frames && spec->n_frames < LH_MEL_FRAMES_MIN)
		return lh_fail(err, LH_EINPUT, 0, "data: n_frames is %u; at least %d",
			       spec->n_frames, LH_MEL_FRAMES_MIN);
	if (needed > limit)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: lasts %.2f s; n_frames, %zu of 10 ms, is enough for %.2f s",
			       l->longest, (double)l->n_samples / LH_MEL_RATE_HZ, limit,
			       (double)limit * LH_MEL_HOP / LH_MEL_RATE_HZ);
	/* even: encoders halve the frames */
	if (!spec->n_frames)
		spec->n_frames = (uint32_t)(needed < LH_MEL_FRAMES_MIN ? LH_MEL_FRAMES_MIN
								       : (needed + 1) / 2 * 2);
	return 0;
}

static int choose_decoder(struct lh_data_request *spec, const struct lh_speech_lengths *l,
			  struct lh_error *err)
{
	size_t needed = l->n_text_bytes + 1; /* with the end */
	size_t limit = spec->n_decoder ? spec->n_decoder : DECODER_MAX;

	if (needed > limit)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: its transcript and the end are %zu tokens; n_decoder is %zu",
			       l->longest_text, needed, limit);
	if (spec->vocab_size && spec->vocab_size < LH_SPEECH_VOCAB_SIZE)
		return lh_fail(err, LH_EINPUT, 0,
			       "data: vocab_size is %u; transcripts are bytes and three more: %d",
			       spec->vocab_size, LH_SPEECH_VOCAB_SIZE);
	spec->vocab_size = spec->vocab_size ? spec->vocab_size : LH_SPEECH_VOCAB_SIZE;
	spec->n_decoder = spec->n_decoder ? spec->n_decoder : (uint32_t)needed;
	return 0;
}

int lh_speech_init(struct lh_speech *s, struct lh_dataset *ds, const struct lh_speech_lengths *l,
		   bool has_text, struct lh_error *err)
{
	struct lh_data_request *spec = &ds->spec;
	int r = choose_frames(spec, l, err);

	if (r < 0 || (has_text && (r = choose_decoder(spec, l, err)) < 0))
		return r;
	spec->n_mels = spec->n_mels ? spec->n_mels : MELS_DEFAULT;
	lh_dataset_add_field(ds, "mel", LH_DATA_F32, 2, spec->n_frames, spec->n_mels, 0);
	if (has_text) {
		lh_dataset_add_field(ds, "tokens", LH_DATA_I32, 1, spec->n_decoder, 0, 0);
		lh_dataset_add_field(ds, "targets", LH_DATA_I32, 1, spec->n_decoder, 0, 0);
	} else {
		lh_dataset_add_field(ds, "labels", LH_DATA_I32, 0, 0, 0, 0);
	}
	s->n_frames = spec->n_frames;
	s->n_decoder = spec->n_decoder;
	s->mel = lh_mel_new(spec->n_mels);
	s->signal = malloc(sizeof(float) * LH_MEL_HOP * s->n_frames);
	if (!s->mel || !s->signal)
		return lh_fail(err, LH_ESYS, ENOMEM, "prepare speech");
	return 0;
}

void lh_speech_done(struct lh_speech *s)
{
	lh_mel_free(s->mel);
	free(s->signal);
	*s = (struct lh_speech){0};
}

void lh_speech_write_mel(const struct lh_speech *s, float *ret)
{
	lh_mel_compute(s->mel, s->signal, s->n_frames, ret);
}

void lh_speech_write_text(const struct lh_speech *s, const char *text, size_t n,
			  int32_t *ret_tokens, int32_t *ret_targets)
{
	for (size_t i = 0; i < s->n_decoder; i++) {
		ret_targets[i] = i < n ? (uint8_t)text[i] : i == n ? LH_SPEECH_END : -1;
		ret_tokens[i] = i == 0	 ? LH_SPEECH_START
				: i <= n ? (uint8_t)text[i - 1]
					 : LH_SPEECH_PAD;
	}
}
