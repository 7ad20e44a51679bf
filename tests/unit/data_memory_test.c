/* SPDX-License-Identifier: Apache-2.0 */
/* Reading samples and batches allocates nothing, whatever the kind. */
#include "core/cleanup.h"
#include "tests/unit/data_fixture.h"
#include "trainer/data/bpe.h"
#include "trainer/data/loader.h"

#ifdef __SANITIZE_ADDRESS__

static void test_reading_allocates_nothing(void **state)
{
	(void)state;
	skip(); /* the sanitizer has malloc() to itself */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_reading_allocates_nothing)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static uint64_t n_allocations;

/* In place of the C library's, for the whole program. */
void *malloc(size_t n)
{
	n_allocations++;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	n_allocations++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	n_allocations++;
	return __libc_realloc(p, n);
}

/* Batches over more than an epoch; the first may still make what is kept. */
static void assert_reads_without_allocating(const struct lh_data_request *spec, bool moves)
{
	enum { BATCH = 2, BATCHES = 30 };
	struct lh_dataset *ds = data_open(spec);
	const struct lh_loader_spec how = {.seed = 1, .flip = moves, .crop_padding = moves};
	struct lh_loader *l = NULL;
	void *fields[LH_DATA_FIELDS_MAX] = {NULL};
	struct lh_error err = {0};
	uint64_t before = 0;
	uint32_t n;
	const struct lh_data_field *f = lh_dataset_fields(ds, &n);

	for (uint32_t i = 0; i < n; i++)
		fields[i] = malloc(4 * BATCH * lh_data_field_elements(&f[i]) + 4);
	assert_int_equal(lh_loader_new(ds, &how, &l, &err), 0);
	for (int b = 0; b < BATCHES; b++) {
		if (b == 1)
			before = n_allocations;
		if (lh_loader_next(l, BATCH, fields, &err) < 0)
			fail_msg("%s", err.message);
	}
	if (n_allocations != before)
		fail_msg("%s: %llu allocations", spec->kind,
			 (unsigned long long)(n_allocations - before));
	assert_true(before > 0);
	lh_loader_free(l);
	lh_dataset_free(ds);
	for (uint32_t i = 0; i < n; i++)
		free(fields[i]);
}

static void test_synthetic_samples(void **state)
{
	static const char *const kinds[] = {"synthetic-images", "synthetic-text", "synthetic-ctr",
					    "synthetic-speech"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
		const struct lh_data_request spec = {
			.kind = kinds[i], .n_samples = 9, .n_buckets = 50};

		assert_reads_without_allocating(&spec, i == 0);
	}
}

/* A grey PNG of 2 x 2 pixels, which libpng takes. */
static const uint8_t png[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00,
			      0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
			      0x00, 0x02, 0x08, 0x00, 0x00, 0x00, 0x00, 0x57, 0xdd, 0x52, 0xf8,
			      0x00, 0x00, 0x00, 0x0e, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63,
			      0xe0, 0x12, 0x61, 0x90, 0xd3, 0x00, 0x00, 0x00, 0xec, 0x00, 0x65,
			      0xe0, 0xf8, 0x5c, 0xd3, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
			      0x44, 0xae, 0x42, 0x60, 0x82};

static void test_samples_of_files(void **state)
{
	static const char text[] = "the cat sat on the mat, the cat sat on the mat: the end, the "
				   "\xc3\xa9nd.";
	struct data_fixture *f = *state;
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));
	lh_cleanup_free char *vocab = strdup(data_path(f, "v.bpe"));
	struct lh_data_request spec = {.kind = "text", .path = f->dir, .n_tokens = 4};
	const int16_t samples[900] = {1000, -1000, 500};
	uint8_t wav[2000];
	size_t n_wav = data_wav(wav, 16000, 1, samples, 900);
	struct lh_bpe *bpe = NULL;

	data_write(f, "train.txt", text, sizeof(text) - 1);
	assert_reads_without_allocating(&spec, false);
	assert_int_equal(lh_bpe_train(text, sizeof(text) - 1, 270, &bpe, NULL), 0);
	assert_int_equal(lh_bpe_save(bpe, vocab, NULL), 0);
	lh_bpe_free(bpe);
	data_tar_add(t, "a.txt", '0', text, sizeof(text) - 1);
	data_tar_end(t);
	data_write(f, "train.tar", t->bytes, t->n);
	spec.kind = "webdataset";
	spec.vocab_path = vocab;
	assert_reads_without_allocating(&spec, false);
	data_write(f, "a.wav", wav, n_wav);
	data_write(f, "train.tsv", "a.wav\tone\n", 10);
	spec.kind = "speech";
	assert_reads_without_allocating(&spec, false);
	data_write(f, "train.csv", "1,2,x\n0,,y\n", 11);
	spec = (struct lh_data_request){.kind = "ctr", .path = f->dir, .n_dense = 1, .n_sparse = 1};
	assert_reads_without_allocating(&spec, false);
}

static void test_images_of_shards(void **state)
{
	struct data_fixture *f = *state;
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));
	const struct lh_data_request spec = {
		.kind = "webdataset", .path = f->dir, .height = 5, .width = 3, .channels = 3};

	data_tar_add(t, "a.png", '0', png, sizeof(png));
	data_tar_add(t, "a.cls", '0', "1", 1);
	data_tar_add(t, "b.ppm", '0', "P6 1 2 255 abcdef", 17);
	data_tar_add(t, "b.cls", '0', "0", 1);
	data_tar_end(t);
	data_write(f, "train.tar", t->bytes, t->n);
	assert_reads_without_allocating(&spec, true);
}

int main(void)
{
#define DATA_TEST(t) cmocka_unit_test_setup_teardown(t, data_setup, data_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_synthetic_samples),
		DATA_TEST(test_samples_of_files),
		DATA_TEST(test_images_of_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
