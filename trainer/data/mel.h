/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-mel spectrograms as Whisper takes them: 16 kHz, windows of 400 samples (periodic Hann)
 * every 160, the signal mirrored at both ends, mels on Slaney's scale with equal areas, log10,
 * at most 8 below the greatest, then (x + 4) / 4.
 * Source: A. Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision, 2022,
 * section 2.2, and its published code; M. Slaney, Auditory Toolbox, 1998.
 */
#ifndef LH_TRAINER_DATA_MEL_H
#define LH_TRAINER_DATA_MEL_H

#include <stddef.h>
#include <stdint.h>

enum { LH_MEL_RATE_HZ = 16000, LH_MEL_HOP = 160, LH_MEL_FRAMES_MIN = 2 };

struct lh_mel;

/* Tables for n_mels (1 to 128) mels; NULL: memory is out. */
struct lh_mel *lh_mel_new(uint32_t n_mels);
void lh_mel_free(struct lh_mel *mel);

/* Writes ret[n_frames, n_mels] of signal[n_frames * LH_MEL_HOP]; n_frames >= LH_MEL_FRAMES_MIN.
 * Allocates nothing; any number of threads. */
void lh_mel_compute(const struct lh_mel *mel, const float *signal, uint32_t n_frames, float *ret);

#endif
