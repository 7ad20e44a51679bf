/* SPDX-License-Identifier: Apache-2.0 */
/* Tar archives and datasets of tar shards. */
#include "trainer/data/tar.h"

#include "core/cleanup.h"
#include "tests/unit/data_fixture.h"

static void assert_member(struct lh_tar *tar, const char *name, const char *content)
{
	struct lh_error err = {0};
	int r = lh_tar_next(tar, &err);

	if (r != 1)
		fail_msg("%d %s, not %s", r, err.message, name);
	assert_string_equal(tar->name, name);
	assert_int_equal(tar->content_size, strlen(content));
	assert_memory_equal(tar->content, content, strlen(content));
}

static void test_members_come_with_long_names(void **state)
{
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));
	lh_cleanup_free struct lh_tar *tar = malloc(sizeof(*tar));
	char name[301], record[400];
	int n;

	(void)state;
	memset(name, 'n', 300);
	name[300] = '\0';
	data_tar_add(t, "a.txt", '0', "hello", 5);
	data_tar_add(t, "folder/", '5', "", 0);
	data_tar_add(t, "link", '2', "", 0);
	data_tar_add(t, "@LongLink", 'L', name, 301);
	data_tar_add(t, "nnn", '0', "x", 1);
	data_tar_add(t, "global", 'g', "20 comment=whatever\n", 20);
	n = snprintf(record, sizeof(record), "310 path=%s\n", name);
	assert_int_equal(n, 310);
	data_tar_add(t, "pax", 'x', record, (size_t)n);
	data_tar_add(t, "short", '0', "yy", 2);
	data_tar_add(t, "last", '0', "", 0);
	data_tar_end(t);
	lh_tar_init(tar, "t.tar", t->bytes, t->n);
	assert_member(tar, "a.txt", "hello");
	assert_member(tar, name, "x");
	assert_member(tar, name, "yy");
	assert_member(tar, "last", "");
	assert_int_equal(lh_tar_next(tar, NULL), 0);
}

static void test_bad_archives_are_refused(void **state)
{
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));
	lh_cleanup_free struct lh_tar *tar = malloc(sizeof(*tar));
	struct lh_error err = {0};

	(void)state;
	data_tar_add(t, "a.txt", '0', "hello", 5);
	data_tar_add(t, "b.txt", '0', "world", 5);
	data_tar_end(t);
	/* cut off anywhere, it is refused: within a header, a content, between the zeros */
	for (size_t cut = 0; cut < t->n; cut += 64) {
		lh_cleanup_free uint8_t *exact = malloc(cut + 1);
		int r;

		memcpy(exact, t->bytes, cut);
		lh_tar_init(tar, "t.tar", exact, cut);
		while ((r = lh_tar_next(tar, &err)) > 0)
			;
		assert_int_equal(r, LH_EINPUT);
		assert_non_null(strstr(err.message, "t.tar: member "));
		assert_non_null(strstr(err.message, "cut off"));
	}
	t->bytes[1024 + 3] ^= 1;
	lh_tar_init(tar, "t.tar", t->bytes, t->n);
	assert_int_equal(lh_tar_next(tar, &err), 1);
	assert_int_equal(lh_tar_next(tar, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "member 1 (byte 1024)"));
	assert_non_null(strstr(err.message, "checksum"));
}

static const uint8_t grey[] = "P5 2 2 255 \x00\x40\x80\xff";
static const uint8_t colour[] = "P6 3 2 255 abcabcabcabcabcabc";

static void write_shard(struct data_fixture *f, const char *name, struct data_tar *t)
{
	data_tar_end(t);
	data_write(f, name, t->bytes, t->n);
	t->n = 0;
}

static void test_images_of_several_shards_are_read(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "webdataset",
				       .path = f->dir,
				       .height = 2,
				       .width = 2,
				       .channels = 1,
				       .mean = {0},
				       .stddev = {1}};
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));
	struct lh_dataset *ds;
	struct data_sample s;

	data_tar_add(t, "dir.x/a.pgm", '0', grey, sizeof(grey) - 1);
	data_tar_add(t, "dir.x/a.cls", '0', "1\n", 2);
	data_tar_add(t, "dir.x/a.json", '0', "{}", 2);
	data_tar_add(t, "dir.x/b.cls", '0', "3", 1);
	data_tar_add(t, "dir.x/b.ppm", '0', colour, sizeof(colour) - 1);
	write_shard(f, "train-1.tar", t);
	data_tar_add(t, "a.cls", '0', "0", 1);
	data_tar_add(t, "a.pgm", '0', grey, sizeof(grey) - 1);
	write_shard(f, "train-0.tar", t);
	data_tar_add(t, "a.cls", '0', "9", 1);
	data_tar_add(t, "a.pgm", '0', grey, sizeof(grey) - 1);
	write_shard(f, "test-0.tar", t);
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_size(ds), 3);
	assert_int_equal(lh_dataset_n_labels(ds), 4);
	data_read(ds, 0, 0, &s);
	assert_int_equal(s.fields[1].i[0], 0);
	data_read(ds, 1, 0, &s);
	assert_int_equal(s.fields[1].i[0], 1);
	for (int i = 0; i < 4; i++)
		assert_near(s.fields[0].f[i], grey[sizeof(grey) - 5 + (size_t)i] / 255.0, 1e-6);
	data_read(ds, 2, 0, &s);
	assert_int_equal(s.fields[1].i[0], 3);
	assert_near(s.fields[0].f[0], (0.299 * 'a' + 0.587 * 'b' + 0.114 * 'c') / 255, 1e-6);
	lh_dataset_free(ds);
	spec.width = 0;
	assert_refused(&spec, "train-1.tar: sample dir.x/b", "one height, width and channels");
}

static void test_bad_samples_are_refused(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "webdataset", .path = f->dir};
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));

	assert_refused(&spec, "has no shards called train*.tar");
	data_tar_add(t, "a.pgm", '0', grey, sizeof(grey) - 1);
	write_shard(f, "train.tar", t);
	assert_refused(&spec, "train.tar: sample a: is neither");
	data_tar_add(t, "a.pgm", '0', grey, sizeof(grey) - 1);
	data_tar_add(t, "a.cls", '0', "one", 3);
	write_shard(f, "train.tar", t);
	assert_refused(&spec, "train.tar: sample a: .cls is not a number");
	data_tar_add(t, "a.pgm", '0', grey, sizeof(grey) - 1);
	data_tar_add(t, "a.cls", '0', "1", 1);
	data_tar_add(t, "b.cls", '0', "1", 1);
	write_shard(f, "train.tar", t);
	assert_refused(&spec, "train.tar: sample b: is not what the first sample is: image");
	data_tar_add(t, "a.pgm", '0', grey, sizeof(grey) - 1);
	data_tar_add(t, "a.ppm", '0', grey, sizeof(grey) - 1);
	write_shard(f, "train.tar", t);
	assert_refused(&spec, "train.tar: sample a: has .ppm twice");
	data_tar_add(t, "readme", '0', "", 0);
	write_shard(f, "train.tar", t);
	assert_refused(&spec, "hold no samples");
	data_tar_add(t, "a.jpg", '0', "JFIF", 4);
	data_tar_add(t, "a.cls", '0', "1", 1);
	write_shard(f, "train.tar", t);
	assert_refused(&spec, "train.tar: sample a: is no image");
}

static void test_a_corrupt_image_is_told_when_it_is_read(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "webdataset", .path = f->dir};
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));
	float pixels[64];
	int32_t label;
	void *fields[] = {pixels, &label};
	struct lh_error err = {0};
	struct lh_dataset *ds;

	data_tar_add(t, "k7.pgm", '0', grey, sizeof(grey) - 3);
	data_tar_add(t, "k7.cls", '0', "1", 1);
	write_shard(f, "train.tar", t);
	ds = data_open(&spec);
	assert_int_equal(lh_dataset_read(ds, 0, 0, fields, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "train.tar: sample k7: cut off: 2 of its 4 bytes"));
	lh_dataset_free(ds);
}

static void test_text_samples_are_padded(void **state)
{
	struct data_fixture *f = *state;
	struct lh_data_request spec = {.kind = "webdataset", .path = f->dir, .n_tokens = 4};
	lh_cleanup_free struct data_tar *t = calloc(1, sizeof(*t));
	struct lh_dataset *ds;
	struct data_sample s;

	data_tar_add(t, "a.txt", '0', "abc", 3);
	data_tar_add(t, "b.txt", '0', "defghijk", 8);
	write_shard(f, "train.tar", t);
	ds = data_open(&spec);
	data_read(ds, 0, 0, &s);
	assert_memory_equal(s.fields[0].i, ((int32_t[]){'a', 'b', 'c', 0}), 16);
	assert_memory_equal(s.fields[1].i, ((int32_t[]){'b', 'c', -1, -1}), 16);
	data_read(ds, 1, 0, &s);
	assert_memory_equal(s.fields[0].i, ((int32_t[]){'d', 'e', 'f', 'g'}), 16);
	assert_memory_equal(s.fields[1].i, ((int32_t[]){'e', 'f', 'g', 'h'}), 16);
	lh_dataset_free(ds);
}

int main(void)
{
#define DATA_TEST(t) cmocka_unit_test_setup_teardown(t, data_setup, data_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members_come_with_long_names),
		cmocka_unit_test(test_bad_archives_are_refused),
		DATA_TEST(test_images_of_several_shards_are_read),
		DATA_TEST(test_bad_samples_are_refused),
		DATA_TEST(test_a_corrupt_image_is_told_when_it_is_read),
		DATA_TEST(test_text_samples_are_padded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
