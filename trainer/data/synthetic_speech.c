/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind synthetic-speech: words of two syllables, of whose letters each is two tones; voices
 * differ in pitch, speed and loudness, and there is noise. n_classes is the number of words.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/speech_internal.h"
#include "trainer/data/synthetic_internal.h"

enum {
	WORDS_DEFAULT = 30,
	LETTERS = 4,
	SOUND_MAX_MS = 90,
	DELAY_MAX_MS = 100,
	LENGTH_MAX_MS = DELAY_MAX_MS + LETTERS * SOUND_MAX_MS,
};

static const char consonants[] = "bdfgklmnprstvz";
static const char vowels[] = "aeiou";
enum { N_VOWELS = 5, N_SYLLABLES = 14 * N_VOWELS, WORDS_MAX = N_SYLLABLES * N_SYLLABLES };

static const double two_pi = 6.283185307179586;

struct words {
	uint32_t first;	   /* word number of label 0 */
	double low_hz[26]; /* of each letter's two tones */
	double high_hz[26];
	struct lh_speech speech;
};

static int open_words(struct lh_dataset *ds, struct lh_error *err)
{
	struct words *s = ds->state = calloc(1, sizeof(*s));
	struct lh_speech_lengths lengths = {0};
	struct lh_data_request *spec = &ds->spec;
	struct lh_rng rng;

	if (!s)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	spec->n_classes = spec->n_classes ? spec->n_classes : WORDS_DEFAULT;
	if (spec->n_classes > WORDS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "data: n_classes is %u words; at most %d",
			       spec->n_classes, WORDS_MAX);
	lh_synthetic_model_rng(&rng, spec);
	s->first = (uint32_t)lh_rng_below(&rng, WORDS_MAX);
	for (int i = 0; i < 26; i++) {
		s->low_hz[i] = 250 + 900 * lh_rng_uniform(&rng);
		s->high_hz[i] = 1300 + 2700 * lh_rng_uniform(&rng);
	}
	ds->size = lh_synthetic_size(spec);
	ds->n_labels = spec->n_classes;
	lh_speech_lengths_add(&lengths, "synthetic-speech: every word",
			      LENGTH_MAX_MS * (LH_MEL_RATE_HZ / 1000), LETTERS);
	return lh_speech_init(&s->speech, ds, &lengths, true, err);
}

static void close_words(struct lh_dataset *ds)
{
	struct words *s = ds->state;

	lh_speech_done(&s->speech);
	free(s);
}

static int32_t label_of(const struct lh_dataset *ds, uint64_t index)
{
	return (int32_t)(index % ds->spec.n_classes);
}

/* A word's number to its letters. 1021 has no factor of WORDS_MAX: neighbours differ, and no
 * two are equal. */
static void spell(const struct words *s, int32_t label, char ret[static LETTERS])
{
	uint32_t number = (s->first + 1021 * (uint32_t)label) % WORDS_MAX;

	for (int i = 0; i < LETTERS; i += 2, number /= N_SYLLABLES) {
		ret[i] = consonants[number % N_SYLLABLES / N_VOWELS];
		ret[i + 1] = vowels[number % N_VOWELS];
	}
}

/* Adds a letter's tones, louder and fainter, to n samples. */
static void add_sound(const struct words *s, char letter, double pitch, float loudness, float *to,
		      size_t n)
{
	double low = two_pi * pitch * s->low_hz[letter - 'a'] / LH_MEL_RATE_HZ;
	double high = two_pi * pitch * s->high_hz[letter - 'a'] / LH_MEL_RATE_HZ;

	for (size_t i = 0; i < n; i++)
		to[i] += loudness * (float)(sin(two_pi / 2 * ((double)i + 0.5) / (double)n) *
					    (sin(low * (double)i) + 0.7 * sin(high * (double)i)));
}

static int read_words(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		      void *const *ret_fields, struct lh_error *err)
{
	struct words *s = ds->state;
	size_t n = (size_t)s->speech.n_frames * LH_MEL_HOP, at;
	double pitch, speed;
	float loudness;
	char letters[LETTERS];
	struct lh_rng rng;

	(void)epoch;
	(void)err;
	lh_data_rng(&rng, &ds->spec, "speech", 0, index);
	spell(s, label_of(ds, index), letters);
	pitch = 0.85 + 0.35 * lh_rng_uniform(&rng);
	speed = 0.65 + 0.35 * lh_rng_uniform(&rng);
	loudness = (float)(0.1 + 0.2 * lh_rng_uniform(&rng));
	at = lh_rng_below(&rng, DELAY_MAX_MS * (LH_MEL_RATE_HZ / 1000) + 1);
	for (size_t i = 0; i < n; i++)
		s->speech.signal[i] = 0.005f * lh_synthetic_noise(&rng);
	for (int i = 0; i < LETTERS; i++) {
		size_t length = (size_t)(speed * SOUND_MAX_MS * (LH_MEL_RATE_HZ / 1000));

		add_sound(s, letters[i], pitch, loudness, s->speech.signal + at, length);
		at += length;
	}
	lh_speech_write_mel(&s->speech, ret_fields[0]);
	lh_speech_write_text(&s->speech, letters, LETTERS, ret_fields[1], ret_fields[2]);
	return 0;
}

const struct lh_dataset_ops lh_dataset_synthetic_speech = {
	.name = "synthetic-speech",
	.doc = "seeded: words of four letters, each two tones, by different voices",
	.open = open_words,
	.close = close_words,
	.read = read_words,
	.label = label_of,
};
