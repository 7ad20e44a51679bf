/* SPDX-License-Identifier: Apache-2.0 */
/* WAV files. See wav.h. */
#include "trainer/data/wav.h"

#include <stdbool.h>
#include <string.h>

enum { FORMAT_PCM = 1, FORMAT_EXTENSIBLE = 0xfffe, BITS = 16 };

static uint32_t read_le16(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t read_le32(const uint8_t *p)
{
	return read_le16(p) | read_le16(p + 2) << 16;
}

static int parse_format(const char *name, const uint8_t *p, uint32_t size, uint32_t rate_hz,
			struct lh_wav *wav, struct lh_error *err)
{
	enum { AT_SUBFORMAT = 24, EXTENSIBLE_BYTES = 40 };
	uint32_t format = size >= 16 ? read_le16(p) : 0;
	uint32_t bits = size >= 16 ? read_le16(p + 14) : 0;

	if (format == FORMAT_EXTENSIBLE && size >= EXTENSIBLE_BYTES)
		format = read_le16(p + AT_SUBFORMAT);
	if (format != FORMAT_PCM || bits != BITS)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: is of format %u with %u bits; 1 (PCM) with 16 bits is read",
			       name, format, bits);
	wav->n_channels = read_le16(p + 2);
	wav->rate_hz = read_le32(p + 4);
	if (wav->n_channels < 1 || wav->n_channels > 2 ||
	    read_le16(p + 12) != wav->n_channels * BITS / 8)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: %u channels in %u bytes; one or two of 2 bytes each are read",
			       name, wav->n_channels, read_le16(p + 12));
	if (wav->rate_hz != rate_hz)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: is at %u Hz; %u Hz is wanted, and nothing is resampled", name,
			       wav->rate_hz, rate_hz);
	return 0;
}

int lh_wav_parse(const char *name, const uint8_t *data, size_t size, uint32_t rate_hz,
		 struct lh_wav *ret, struct lh_error *err)
{
	enum { RIFF_BYTES = 12, CHUNK_BYTES = 8 };
	struct lh_wav wav = {0};
	size_t at = RIFF_BYTES;

	if (size < RIFF_BYTES || memcmp(data, "RIFF", 4) != 0 || memcmp(data + 8, "WAVE", 4) != 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: is no WAV file (RIFF....WAVE)", name);
	while (size - at >= CHUNK_BYTES) {
		const uint8_t *chunk = data + at;
		uint32_t length = read_le32(chunk + 4);
		bool is_data = memcmp(chunk, "data", 4) == 0;

		at += CHUNK_BYTES;
		if (length > size - at)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: cut off: a chunk (%s) at byte %zu is of %u bytes, "
				       "%zu are left",
				       name, is_data ? "data" : "not data", at - CHUNK_BYTES,
				       length, size - at);
		if (memcmp(chunk, "fmt ", 4) == 0) {
			int r = parse_format(name, data + at, length, rate_hz, &wav, err);

			if (r < 0)
				return r;
		} else if (is_data && wav.n_channels) {
			wav.pcm = data + at;
			wav.n_samples = length / (2 * wav.n_channels);
			break;
		}
		at += length + (length & 1);
		if (at > size)
			break;
	}
	if (wav.n_samples == 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: has no samples, or no 'fmt ' before its 'data'", name);
	*ret = wav;
	return 0;
}

void lh_wav_decode(const struct lh_wav *wav, float *ret, size_t n)
{
	size_t n_there = wav->n_samples < n ? wav->n_samples : n;
	const uint8_t *p = wav->pcm;

	for (size_t i = 0; i < n_there; i++) {
		int32_t sum = 0;

		for (uint32_t c = 0; c < wav->n_channels; c++, p += 2)
			sum += (int16_t)read_le16(p);
		ret[i] = (float)sum / (32768.0f * (float)wav->n_channels);
	}
	memset(ret + n_there, 0, (n - n_there) * sizeof(*ret));
}
