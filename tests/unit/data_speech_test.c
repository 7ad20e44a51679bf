/* SPDX-License-Identifier: Apache-2.0 */
/* WAV files, log-mel spectrograms against PyTorch's, and datasets of speech. */
#include "core/cleanup.h"
#include "tests/unit/data_fixture.h"
#include "trainer/data/mel.h"
#include "trainer/data/wav.h"

enum { FRAMES = 20, N = FRAMES * LH_MEL_HOP, SOUND = 2600 };

/* Whole numbers that sweep through the frequencies; the oracle has the same. */
static int16_t sample_at(int64_t i)
{
	return (int16_t)(i < SOUND ? (i * i * 7 / 1000 + i * 37) % 20001 - 10000 : 0);
}

/*
 * From torch.stft() in double precision (window Hann, 400, hop 160, centred, the last frame
 * left out), filters by Slaney's formulas with numpy, log10, clamped, scaled.
 */
static const struct {
	uint32_t n_mels;
	uint32_t frame, mel;
	double value;
} oracle[] = {
	{80, 0, 0, 1.3255325},	 {80, 0, 17, -0.1439918},  {80, 3, 5, 1.0231094},
	{80, 7, 79, -0.4975598}, {80, 10, 20, 0.7170342},  {80, 15, 40, 0.3186113},
	{80, 16, 3, 1.1632375},	 {80, 19, 10, -0.6744675}, {80, 12, 78, 0.3096848},
	{40, 0, 0, 1.1998203},	 {40, 0, 17, -0.4559010},  {40, 3, 5, 0.8759393},
	{40, 7, 39, -0.4961180}, {40, 10, 20, 0.5461544},  {40, 15, 20, 0.3199584},
	{40, 16, 3, 0.9479438},	 {40, 19, 10, -0.7273151}, {40, 12, 38, 0.3136031},
};
static const struct {
	uint32_t n_mels;
	double sum;
} oracle_sums[] = {{80, 328.962561}, {40, 157.231812}};

static void test_mels_are_pytorchs(void **state)
{
	static float signal[N], ret[FRAMES * 80];

	(void)state;
	for (int i = 0; i < N; i++)
		signal[i] = (float)sample_at(i) / 32768;
	for (size_t k = 0; k < N_ELEMENTS(oracle_sums); k++) {
		uint32_t n_mels = oracle_sums[k].n_mels;
		struct lh_mel *mel = lh_mel_new(n_mels);
		double sum = 0;

		lh_mel_compute(mel, signal, FRAMES, ret);
		for (uint32_t i = 0; i < FRAMES * n_mels; i++)
			sum += (double)ret[i];
		assert_near(sum, oracle_sums[k].sum, 1e-3);
		for (size_t i = 0; i < N_ELEMENTS(oracle); i++)
			if (oracle[i].n_mels == n_mels)
				assert_near(ret[oracle[i].frame * n_mels + oracle[i].mel],
					    oracle[i].value, 1e-5);
		lh_mel_free(mel);
	}
}

static void test_a_tone_is_loudest_in_its_mel(void **state)
{
	static float signal[N], ret[FRAMES * 80];
	struct lh_mel *mel = lh_mel_new(80);

	(void)state;
	for (int m = 5; m < 80; m += 7) {
		/* the middles of filters, by the formula that is inverse to the code's */
		double at = (m + 1) * (15 + log(8) * 27 / log(6.4)) / 81;
		double hz = at < 15 ? at * 200 / 3 : 1000 * pow(6.4, (at - 15) / 27);
		int best = 0;

		for (int i = 0; i < N; i++)
			signal[i] = (float)(0.3 * sin(6.283185307179586 * hz * i / 16000));
		lh_mel_compute(mel, signal, FRAMES, ret);
		for (int i = 1; i < 80; i++)
			if (ret[10 * 80 + i] > ret[10 * 80 + best])
				best = i;
		assert_in_range(best, m - 1, m + 1);
	}
	lh_mel_free(mel);
}

static void test_silence_is_even(void **state)
{
	static float signal[N], ret[FRAMES * 80];
	struct lh_mel *mel = lh_mel_new(80);

	(void)state;
	lh_mel_compute(mel, signal, FRAMES, ret);
	for (int i = 0; i < FRAMES * 80; i++)
		assert_near(ret[i], -1.5, 1e-6); /* (log10(1e-10) + 4) / 4 */
	lh_mel_free(mel);
}

static void test_wav_files_are_read(void **state)
{
	const int16_t samples[] = {100, 300, -32768, -32768, 7, 8};
	uint8_t file[128], odd[160];
	struct lh_error err = {0};
	struct lh_wav wav;
	float ret[8];
	size_t n;

	(void)state;
	n = data_wav(file, 16000, 2, samples, 3);
	assert_int_equal(lh_wav_parse("a.wav", file, n, 16000, &wav, &err), 0);
	assert_int_equal(wav.n_samples, 3);
	lh_wav_decode(&wav, ret, 5);
	assert_near(ret[0], 200.0 / 32768, 1e-9);
	assert_near(ret[1], -1, 1e-9);
	assert_near(ret[2], 7.5 / 32768, 1e-9);
	assert_near(ret[4], 0, 0);
	lh_wav_decode(&wav, ret, 1);
	n = data_wav(file, 16000, 1, samples, 6);
	assert_int_equal(lh_wav_parse("a.wav", file, n, 16000, &wav, &err), 0);
	assert_int_equal(wav.n_samples, 6);
	/* a chunk of an odd size before the data is followed by one byte more */
	memcpy(odd, file, 36);
	memcpy(odd + 36, "LIST\3\0\0\0abc\0", 12);
	memcpy(odd + 48, file + 36, n - 36);
	assert_int_equal(lh_wav_parse("a.wav", odd, n + 12, 16000, &wav, &err), 0);
	assert_int_equal(wav.n_samples, 6);
}

static void test_bad_wav_files_are_refused(void **state)
{
	const int16_t samples[4] = {1, 2, 3, 4};
	static const struct {
		size_t at;
		uint8_t byte;
		size_t n;
		const char *says;
	} cases[] = {
		{0, 'X', 52, "is no WAV file"},
		{0, 'R', 11, "is no WAV file"},
		{20, 3, 52, "format 3 with 16 bits"},
		{34, 8, 52, "with 8 bits"},
		{22, 3, 52, "3 channels"},
		{25, 0x56, 52, "is at 22144 Hz; 16000 Hz is wanted"},
		{40, 9, 52, "cut off: a chunk (data) at byte 36 is of 9 bytes, 8 are left"},
		{0, 'R', 50, "cut off"},
		{0, 'R', 40, "has no samples"},
		{36, 'D', 52, "has no samples"},
		{12, 'F', 52, "no 'fmt ' before"},
		{43, 0xff, 52, "cut off"},
	};
	uint8_t file[64];
	struct lh_wav wav;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_error err = {0};

		assert_int_equal(data_wav(file, 16000, 1, samples, 4), 52);
		file[cases[i].at] = cases[i].byte;
		assert_int_equal(lh_wav_parse("a.wav", file, cases[i].n, 16000, &wav, &err),
				 LH_EINPUT);
		if (!strstr(err.message, cases[i].says) || !strstr(err.message, "a.wav: "))
			fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
	}
}

static void write_wav(struct data_fixture *f, const char *name, uint32_t rate_hz, uint32_t n)
{
	static uint8_t file[44 + 2 * N];
	static int16_t samples[N];

	for (uint32_t i = 0; i < n; i++)
		samples[i] = sample_at(i);
	data_write(f, name, file, data_wav(file, rate_hz, 1, samples, n));
}

static void test_speech_is_read_with_its_transcripts(void **state)
{
	static const char list[] = "a.wav\tyes\nsub/b.wav\tno\r\na.wav\tyes\n";
	static float signal[18 * LH_MEL_HOP], expected[18 * 80];
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "speech", .path = f->dir};
	struct lh_mel *mel = lh_mel_new(80);
	struct data_sample s;
	struct lh_dataset *ds;

	assert_int_equal(lh_dir_make(data_path(f, "sub"), NULL), 0);
	write_wav(f, "a.wav", 16000, 1000);
	write_wav(f, "sub/b.wav", 16000, SOUND);
	data_write(f, "train.tsv", list, sizeof(list) - 1);
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_size(ds), 3);
	assert_int_equal(lh_dataset_spec(ds)->n_frames, 18); /* 2600 samples are 16.25 */
	assert_int_equal(lh_dataset_spec(ds)->n_decoder, 4);
	assert_int_equal(lh_dataset_n_labels(ds), 2);
	assert_int_equal(lh_dataset_label(ds, 0), lh_dataset_label(ds, 2));
	assert_int_not_equal(lh_dataset_label(ds, 0), lh_dataset_label(ds, 1));
	data_read(ds, 1, 0, &s);
	for (int i = 0; i < 18 * LH_MEL_HOP; i++)
		signal[i] = (float)sample_at(i) / 32768;
	lh_mel_compute(mel, signal, 18, expected);
	assert_memory_equal(s.fields[0].f, expected, sizeof(expected));
	assert_memory_equal(s.fields[1].i, ((int32_t[]){256, 'n', 'o', 258}), 16);
	assert_memory_equal(s.fields[2].i, ((int32_t[]){'n', 'o', 257, -1}), 16);
	data_read(ds, 2, 0, &s);
	assert_memory_equal(s.fields[1].i, ((int32_t[]){256, 'y', 'e', 's'}), 16);
	assert_memory_equal(s.fields[2].i, ((int32_t[]){'y', 'e', 's', 257}), 16);
	lh_dataset_free(ds);
	spec.n_frames = 16;
	assert_refused(&spec, "sub/b.wav: lasts 0.16 s", "0.16 s");
	spec.n_frames = 0;
	spec.n_decoder = 3;
	assert_refused(&spec, "a.wav", "are 4 tokens; n_decoder is 3");
	spec.n_decoder = 0;
	spec.vocab_size = 256;
	assert_refused(&spec, "vocab_size is 256");
	spec.vocab_size = 0;
	data_write(f, "train.tsv", list, 10);
	data_write(f, "train.tsv", "a.wav\tyes\nb.wav no\n", 19);
	assert_refused(&spec, "train.tsv:2: is not: a WAV file's name");
	data_write(f, "train.tsv", "a.wav\tyes\nnone.wav\tno\n", 22);
	assert_refused(&spec, "train.tsv, recording 2", "none.wav");
	write_wav(f, "none.wav", 22050, 100);
	assert_refused(&spec, "none.wav: is at 22050 Hz; 16000 Hz is wanted");
	lh_mel_free(mel);
}

static void test_speech_comes_in_tar_shards(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "webdataset", .path = f->dir, .n_mels = 40};
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));
	static int16_t samples[1600];
	static uint8_t file[44 + 3200];
	struct data_sample s;
	struct lh_dataset *ds;
	uint32_t n;

	for (int i = 0; i < 1600; i++)
		samples[i] = sample_at(i);
	data_tar_add(t, "x.txt", '0', "up\n", 3);
	data_tar_add(t, "x.wav", '0', file, data_wav(file, 16000, 1, samples, 1600));
	data_tar_end(t);
	data_write(f, "train.tar", t->bytes, t->n);
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_fields(ds, &n)[0].dims[0], 10);
	assert_int_equal(lh_dataset_fields(ds, &n)[0].dims[1], 40);
	assert_int_equal(n, 3);
	data_read(ds, 0, 0, &s);
	assert_memory_equal(s.fields[2].i, ((int32_t[]){'u', 'p', 257}), 12);
	lh_dataset_free(ds);
	t->n = 0;
	data_tar_add(t, "x.cls", '0', "4\n", 2);
	data_tar_add(t, "x.wav", '0', file, data_wav(file, 16000, 1, samples, 1600));
	data_tar_end(t);
	data_write(f, "train.tar", t->bytes, t->n);
	ds = data_open(&spec);
	lh_dataset_fields(ds, &n);
	assert_int_equal(n, 2);
	data_read(ds, 0, 0, &s);
	assert_int_equal(s.fields[1].i[0], 4);
	lh_dataset_free(ds);
}

int main(void)
{
#define DATA_TEST(t) cmocka_unit_test_setup_teardown(t, data_setup, data_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mels_are_pytorchs),
		cmocka_unit_test(test_a_tone_is_loudest_in_its_mel),
		cmocka_unit_test(test_silence_is_even),
		cmocka_unit_test(test_wav_files_are_read),
		cmocka_unit_test(test_bad_wav_files_are_refused),
		DATA_TEST(test_speech_is_read_with_its_transcripts),
		DATA_TEST(test_speech_comes_in_tar_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
