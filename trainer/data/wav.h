/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WAV files in memory: PCM of 16 bits, one or two channels. Nothing is resampled.
 * Source: Multimedia Programming Interface and Data Specifications 1.0, chapter 3; RFC 2361.
 */
#ifndef LH_TRAINER_DATA_WAV_H
#define LH_TRAINER_DATA_WAV_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* A recording within the file's bytes. */
struct lh_wav {
	uint32_t rate_hz;
	uint32_t n_channels;
	size_t n_samples; /* of each channel */
	const uint8_t *pcm;
};

/* Reads a file's bytes; it must be at rate_hz. name is for messages. LH_EINPUT. */
int lh_wav_parse(const char *name, const uint8_t *data, size_t size, uint32_t rate_hz,
		 struct lh_wav *ret, struct lh_error *err);

/* Writes the recording in [-1,1), the mean of its channels, into ret[n]: cut off, or filled up
 * with zeros. */
void lh_wav_decode(const struct lh_wav *wav, float *ret, size_t n);

#endif
