/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a WAV file: what is taken lies within them, decodes to numbers in [-1,1), and
 * has a finite log-mel spectrogram.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "trainer/data/mel.h"
#include "trainer/data/wav.h"

const char lh_fuzz_name[] = "wav";
const char *const lh_fuzz_words[] = {"RIFF", "WAVE",	 "fmt ",     "data",
				     "LIST", "\x80\x3e", "\xfe\xff", "\xff\xff\xff\xff",
				     "\x10", "\x28",	 "\x01",     NULL};

enum { FRAMES = 4, N = FRAMES * LH_MEL_HOP, MELS = 20 };

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "wav: %s\n", what);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct lh_mel *mel;
	float signal[N], spectrogram[FRAMES * MELS];
	struct lh_error err = {0};
	struct lh_wav wav;

	if (!mel)
		mel = lh_mel_new(MELS);
	if (!mel)
		return 0;
	if (lh_wav_parse("fuzz.wav", data, size, LH_MEL_RATE_HZ, &wav, &err) < 0) {
		expect(err.message[0], "an error without a message");
		return 0;
	}
	expect(wav.n_samples > 0 && wav.pcm >= data && wav.n_samples * wav.n_channels * 2 <= size &&
		       wav.pcm + wav.n_samples * wav.n_channels * 2 <= data + size,
	       "samples outside");
	lh_wav_decode(&wav, signal, N);
	for (int i = 0; i < N; i++)
		expect(signal[i] >= -1 && signal[i] < 1, "a sample out of range");
	lh_mel_compute(mel, signal, FRAMES, spectrogram);
	for (int i = 0; i < FRAMES * MELS; i++)
		expect(isfinite(spectrogram[i]), "a mel that is no number");
	return 0;
}
