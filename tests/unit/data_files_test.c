/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets of plain files: IDX, CIFAR-10, text, click logs; and what is refused. */
#include <sys/stat.h>

#include "tests/unit/data_fixture.h"

static void put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Three images of 2 x 3 with pixels 0, 10, 20 ... and labels 0, 2, 1. */
static void write_mnist(struct data_fixture *f, const char *prefix)
{
	uint8_t images[16 + 18], labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 2, 1};
	char name[128];

	put_be32(images, 0x803);
	put_be32(images + 4, 3);
	put_be32(images + 8, 2);
	put_be32(images + 12, 3);
	for (int i = 0; i < 18; i++)
		images[16 + i] = (uint8_t)(10 * i);
	snprintf(name, sizeof(name), "%strain-images-idx3-ubyte", prefix);
	data_write(f, name, images, sizeof(images));
	snprintf(name, sizeof(name), "%strain-labels-idx1-ubyte", prefix);
	data_write(f, name, labels, sizeof(labels));
}

static void test_mnist_is_read_normalised(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "mnist", .path = f->dir};
	struct data_sample s;
	struct lh_dataset *ds;
	const struct lh_data_field *fields;
	uint32_t n;

	write_mnist(f, "");
	ds = data_open(&spec);
	fields = lh_dataset_fields(ds, &n);
	assert_int_equal(n, 2);
	assert_string_equal(fields[0].name, "images");
	assert_int_equal(fields[0].n_dims, 3);
	assert_int_equal(fields[0].dims[0], 2);
	assert_int_equal(fields[0].dims[1], 3);
	assert_int_equal(fields[0].dims[2], 1);
	assert_int_equal(fields[1].n_dims, 0);
	assert_int_equal(lh_dataset_size(ds), 3);
	assert_int_equal(lh_dataset_n_labels(ds), 3);
	data_read(ds, 1, 0, &s);
	for (int i = 0; i < 6; i++)
		assert_near(s.fields[0].f[i], (10 * (6 + i) / 255.0 - 0.1307) / 0.3081, 1e-6);
	assert_int_equal(s.fields[1].i[0], 2);
	assert_int_equal(lh_dataset_label(ds, 1), 2);
	lh_dataset_free(ds);
}

static void test_mnist_is_found_by_a_prefix(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "mnist"};

	write_mnist(f, "my-");
	spec.path = data_path(f, "my-");
	lh_dataset_free(data_open(&spec));
}

static void test_small_images_are_padded_or_scaled(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "mnist",
				       .path = f->dir,
				       .height = 4,
				       .width = 7,
				       .fit = LH_DATA_FIT_PAD,
				       .channels = 3,
				       .mean = {0.5f, 0.5f, 0.5f},
				       .stddev = {1, 1, 1}};
	struct data_sample s;
	struct lh_dataset *ds;

	write_mnist(f, "");
	ds = data_open(&spec);
	data_read(ds, 0, 0, &s);
	for (int y = 0; y < 4; y++)
		for (int x = 0; x < 7; x++)
			for (int c = 0; c < 3; c++) {
				bool is_in = y >= 1 && y < 3 && x >= 2 && x < 5;
				double v = is_in ? 10 * ((y - 1) * 3 + x - 2) / 255.0 : 0;

				assert_near(s.fields[0].f[(y * 7 + x) * 3 + c], v - 0.5, 1e-6);
			}
	lh_dataset_free(ds);
	/* halved in width after the centred part of the same proportions: pixels 0 1 / 3 4 */
	spec.fit = LH_DATA_FIT_RESIZE;
	spec.height = spec.width = 1;
	spec.channels = 1;
	ds = data_open(&spec);
	data_read(ds, 0, 0, &s);
	assert_near(s.fields[0].f[0], (0 + 10 + 30 + 40) / 4.0 / 255 - 0.5, 1e-6);
	lh_dataset_free(ds);
	/* doubled: samples lie at quarters between pixels, the outermost at the edge */
	spec.height = 4;
	spec.width = 4;
	ds = data_open(&spec);
	data_read(ds, 0, 0, &s);
	assert_near(s.fields[0].f[0], 0 / 255.0 - 0.5, 1e-6);
	assert_near(s.fields[0].f[1], 2.5 / 255.0 - 0.5, 1e-6);
	assert_near(s.fields[0].f[2], 7.5 / 255.0 - 0.5, 1e-6);
	assert_near(s.fields[0].f[5], (2.5 + 7.5) / 255.0 - 0.5, 1e-6);
	lh_dataset_free(ds);
}

static void test_bad_idx_files_are_refused(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "mnist", .path = f->dir};
	uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 2, 1, 0};

	assert_refused(&spec, "train-images-idx3-ubyte");
	write_mnist(f, "");
	data_write(f, "train-labels-idx1-ubyte", labels, 10);
	assert_refused(&spec, "train-labels-idx1-ubyte", "cut off in record 2");
	data_write(f, "train-labels-idx1-ubyte", labels, 12);
	assert_refused(&spec, "train-labels-idx1-ubyte", "1 bytes stand behind");
	data_write(f, "train-labels-idx1-ubyte", labels, 3);
	assert_refused(&spec, "does not begin as an IDX file");
	labels[7] = 2;
	data_write(f, "train-labels-idx1-ubyte", labels, 10);
	assert_refused(&spec, "3 train images, but 2 labels");
	data_write(f, "train-labels-idx1-ubyte", "\x1f\x8b\x08 and more", 12);
	assert_refused(&spec, "compressed", "gunzip");
	write_mnist(f, "");
	spec.n_classes = 2;
	assert_refused(&spec, "label 1 is 2", "below 2");
	spec.n_classes = 0;
	memset(labels, 0xff, 12);
	memcpy(labels, "\0\0\x08\x01", 4);
	data_write(f, "train-labels-idx1-ubyte", labels, 12);
	assert_refused(&spec, "cut off", "4294967295 records");
}

static void write_cifar(struct data_fixture *f, const char *name, int n, size_t n_bytes)
{
	uint8_t *bytes = calloc((size_t)n, 3073);

	for (int i = 0; i < n; i++) {
		bytes[3073 * i] = (uint8_t)(i % 10);
		for (int c = 0; c < 3; c++) /* red 50, green 100, blue 150, marked at (2,1) */
			memset(bytes + 3073 * i + 1 + 1024 * c, 50 * (c + 1), 1024);
		bytes[3073 * i + 1 + 2 * 32 + 1] = 255;
	}
	data_write(f, name, bytes, n_bytes ? n_bytes : 3073 * (size_t)n);
	free(bytes);
}

static void test_cifar10_is_read_channels_last(void **state)
{
	static const double mean[] = {0.4914, 0.4822, 0.4465}, stddev[] = {0.2470, 0.2435, 0.2616};
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "cifar10", .path = f->dir};
	struct data_sample s;
	struct lh_dataset *ds;
	char name[32];

	for (int i = 1; i <= 5; i++) {
		snprintf(name, sizeof(name), "data_batch_%d.bin", i);
		write_cifar(f, name, 10 + i, 0);
	}
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_size(ds), 65);
	data_read(ds, 12, 0, &s); /* the second one of the second file */
	assert_int_equal(s.fields[1].i[0], 1);
	for (int i = 0; i < 1024; i++)
		for (int c = 0; c < 3; c++) {
			double v = c == 0 && i == 65 ? 255 : 50 * (c + 1);

			assert_near(s.fields[0].f[3 * i + c], (v / 255 - mean[c]) / stddev[c],
				    1e-5);
		}
	assert_int_equal(lh_dataset_label(ds, 64), 4);
	lh_dataset_free(ds);
	spec.split = LH_DATA_TEST;
	assert_refused(&spec, "test_batch.bin");
	write_cifar(f, "test_batch.bin", 2, 3073 + 100);
	assert_refused(&spec, "test_batch.bin", "cut off in record 1");
	data_write(f, "test_batch.bin", "", 0);
	assert_refused(&spec, "test_batch.bin", "is empty");
}

static void test_text_is_cut_into_windows(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "text", .n_tokens = 4, .test_ratio = 0.25};
	struct data_sample s;
	struct lh_dataset *ds;

	data_write(f, "a.txt", "abcdefghijklmnopqrst", 20);
	spec.path = data_path(f, "a.txt");
	ds = data_open(&spec); /* a..o */
	assert_int_equal(lh_dataset_size(ds), 3);
	assert_int_equal(lh_dataset_spec(ds)->vocab_size, 256);
	assert_int_equal(lh_dataset_n_labels(ds), 0);
	data_read(ds, 2, 0, &s);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(s.fields[0].i[i], 'i' + i);
		assert_int_equal(s.fields[1].i[i], 'j' + i);
	}
	lh_dataset_free(ds);
	spec.split = LH_DATA_TEST;
	ds = data_open(&spec); /* p..t */
	assert_int_equal(lh_dataset_size(ds), 1);
	data_read(ds, 0, 0, &s);
	assert_int_equal(s.fields[0].i[0], 'p');
	assert_int_equal(s.fields[1].i[3], 't');
	lh_dataset_free(ds);
	spec.n_tokens = 5;
	assert_refused(&spec, "a.txt", "has 5 tokens", "needs 6");
	spec.n_tokens = 4;
	spec.vocab_size = 255;
	assert_refused(&spec, "vocab_size is 255", "256");
	spec.path = f->dir;
	assert_refused(&spec, "/test.txt");
}

static void test_masks_follow_robertas_shares(void **state)
{
	enum { N = 512, SAMPLES = 200 };
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "text",
				       .n_tokens = N,
				       .objective = LH_DATA_MASKED,
				       .seed = 7,
				       .test_ratio = 1e-9};
	int n_targets = 0, n_masked = 0, n_kept = 0, n_other = 0;
	struct data_sample s, again, other;
	struct lh_dataset *ds;
	char *text = malloc(N * SAMPLES);

	for (int i = 0; i < N * SAMPLES; i++)
		text[i] = (char)('a' + i % 26);
	data_write(f, "a.txt", text, N * SAMPLES);
	spec.path = data_path(f, "a.txt");
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_size(ds), SAMPLES);
	for (int n = 0; n < SAMPLES; n++) {
		int in_sample = 0;

		data_read(ds, (uint64_t)n, 0, &s);
		for (int i = 0; i < N; i++) {
			int32_t was = text[n * N + i], is = s.fields[0].i[i];

			if (s.fields[1].i[i] == -1) {
				assert_int_equal(is, was);
				continue;
			}
			assert_int_equal(s.fields[1].i[i], was);
			in_sample++;
			n_masked += is == 256;
			n_kept += is == was;
			n_other += is != 256 && is != was;
		}
		assert_in_range(in_sample, 76, 77); /* 0.15 x 512 = 76.8 */
		n_targets += in_sample;
	}
	/* of some 15,360 targets: standard deviations are 0.0032, 0.0024, 0.0024 */
	assert_near((double)n_masked / n_targets, 0.8, 0.013);
	assert_near((double)n_kept / n_targets, 0.1, 0.01);
	assert_near((double)n_other / n_targets, 0.1, 0.01);
	data_read(ds, 5, 3, &s);
	data_read(ds, 5, 3, &again);
	data_read(ds, 5, 4, &other);
	assert_memory_equal(&s, &again, sizeof(s));
	assert_memory_not_equal(&s, &other, sizeof(s));
	lh_dataset_free(ds);
	spec.seed = 8;
	ds = data_open(&spec);
	data_read(ds, 5, 3, &other);
	assert_memory_not_equal(&s, &other, sizeof(s));
	lh_dataset_free(ds);
	free(text);
}

static const char clicks[] = "label,i1,i2,c1,c2\n"
			     "1,0,-3.5,red,x\n"
			     "0,,1e2,blue,\r\n"
			     "0,7,0,red,red";

static void test_click_logs_are_read(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {
		.kind = "ctr", .n_dense = 2, .n_sparse = 2, .n_buckets = 1000};
	struct data_sample a, b, c;
	struct lh_dataset *ds;

	data_write(f, "train.csv", clicks, sizeof(clicks) - 1);
	spec.path = f->dir;
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_size(ds), 3);
	data_read(ds, 0, 0, &a);
	data_read(ds, 1, 0, &b);
	data_read(ds, 2, 0, &c);
	assert_near(a.fields[0].f[0], 0, 0);
	assert_near(a.fields[0].f[1], -log(4.5), 1e-6);
	assert_near(b.fields[0].f[0], 0, 0);
	assert_near(b.fields[0].f[1], log(101), 1e-6);
	assert_int_equal(a.fields[2].i[0], 1);
	assert_int_equal(b.fields[2].i[0], 0);
	assert_int_equal(lh_dataset_label(ds, 0), 1);
	assert_int_equal(lh_dataset_label(ds, 2), 0);
	assert_in_range(a.fields[1].i[0], 0, 999);
	assert_in_range(a.fields[1].i[1], 0, 999);
	assert_int_equal(a.fields[1].i[0], c.fields[1].i[0]);
	assert_int_not_equal(a.fields[1].i[0], b.fields[1].i[0]);
	assert_int_equal(c.fields[1].i[1], c.fields[1].i[0]);
	lh_dataset_free(ds);
}

static void test_criteos_shape_needs_no_words(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "ctr", .test_ratio = 0.5};
	char line[512], text[1100];
	struct lh_dataset *ds;
	int n = snprintf(line, sizeof(line), "1");

	for (int i = 0; i < 13; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "\t%d", i);
	for (int i = 0; i < 26; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "\t%08x",
			      0x9e3779b9u * (unsigned)i);
	snprintf(text, sizeof(text), "%s\n%s\n", line, line);
	data_write(f, "day.tsv", text, strlen(text));
	spec.path = data_path(f, "day.tsv");
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_size(ds), 1);
	assert_int_equal(lh_dataset_spec(ds)->n_dense, 13);
	assert_int_equal(lh_dataset_spec(ds)->n_sparse, 26);
	lh_dataset_free(ds);
}

static void test_bad_click_logs_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"1,2,3,a,b\n0,x,3,a,b\n", "train.csv:2: column 2 is not a number: 'x'"},
		{"1,2,3,a,b\n2,3,3,a,b\n", "train.csv:2: column 1, the label"},
		{"1,2,3,a,b\n1,3,3,a\n", "train.csv:2: only 4 columns"},
		{"1,2,3,a,b\n1,3,3,a,b,c\n", "train.csv:2: more than 5 columns"},
		{"1,2,3,a,b\n\n", "train.csv:2:"},
		{"1,2,3,a,\"b\"\n", "train.csv:1: column 5 is quoted"},
		{"1,nan,3,a,b\n", "column 2 is not a number"},
		{"1,1e999,3,a,b\n", "column 2 is not a number"},
		{"1, 1,3,a,b\n", "column 2 is not a number"},
		{"label,a,b,c,d\n", "no lines but the header"},
		{"1,2,3\n", "has 3 columns"},
	};
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "ctr", .path = f->dir, .n_dense = 2, .n_sparse = 2};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		data_write(f, "train.csv", cases[i].text, strlen(cases[i].text));
		assert_refused(&spec, cases[i].says);
	}
	spec.n_buckets = 1 << 26;
	spec.n_sparse = 4096;
	assert_refused(&spec, "n_sparse x n_buckets");
}

static void test_what_cannot_be_asked_for_is_refused(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "imagenet", .path = f->dir};

	assert_refused(&spec, "kind imagenet is not known", "mnist", "synthetic-speech");
	spec.kind = NULL;
	assert_refused(&spec, "not known");
	spec = (struct lh_data_request){.kind = "synthetic-images", .height = 100000};
	assert_refused(&spec, "height is 100000", "at most");
	spec = (struct lh_data_request){.kind = "synthetic-images", .channels = 2};
	assert_refused(&spec, "channels is 2");
	spec = (struct lh_data_request){.kind = "synthetic-images", .mean = {0, NAN}};
	assert_refused(&spec, "of channel 1");
	spec = (struct lh_data_request){.kind = "synthetic-text", .mask_probability = 1.5};
	assert_refused(&spec, "mask_probability is 1.5");
	spec = (struct lh_data_request){.kind = "text", .path = f->dir, .test_ratio = NAN};
	assert_refused(&spec, "test_ratio");
	for (size_t i = 0; lh_datasets[i]; i++) {
		spec = (struct lh_data_request){.kind = lh_datasets[i]->name};
		if (strncmp(spec.kind, "synthetic", 9) != 0)
			assert_refused(&spec, "needs a path");
	}
}

int main(void)
{
#define DATA_TEST(t) cmocka_unit_test_setup_teardown(t, data_setup, data_teardown)
	const struct CMUnitTest tests[] = {
		DATA_TEST(test_mnist_is_read_normalised),
		DATA_TEST(test_mnist_is_found_by_a_prefix),
		DATA_TEST(test_small_images_are_padded_or_scaled),
		DATA_TEST(test_bad_idx_files_are_refused),
		DATA_TEST(test_cifar10_is_read_channels_last),
		DATA_TEST(test_text_is_cut_into_windows),
		DATA_TEST(test_masks_follow_robertas_shares),
		DATA_TEST(test_click_logs_are_read),
		DATA_TEST(test_criteos_shape_needs_no_words),
		DATA_TEST(test_bad_click_logs_are_refused),
		DATA_TEST(test_what_cannot_be_asked_for_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
