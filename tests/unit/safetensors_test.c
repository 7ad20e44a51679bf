/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files: written and read again, and what is refused. */
#include "trainer/tensor/safetensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/test.h"

static char folder[] = "/tmp/lh-safetensors-XXXXXX";

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return lh_dir_remove(folder, NULL);
}

static char *path_of(const char *name)
{
	char *path = lh_path_join(folder, name);

	assert_non_null(path);
	return path;
}

/* ---- round trips ----------------------------------------------------------------------------- */

static const float floats[6] = {1, -2.5f, 3e-38f, 1e38f, -0.0f, 7};
static const double doubles[2] = {0.1, -1e300};
static const int32_t integers[3] = {INT32_MIN, 0, INT32_MAX};
static const uint16_t halves[5] = {0, 0x3c00, 0x7c00, 0x8000, 0xffff};

static const struct lh_safetensor_entry entries[] = {
	{"layer.weight", LH_F32, 2, {2, 3}, floats},
	{"wide", LH_F64, 3, {1, 2, 1}, doubles},
	{"labels", LH_I32, 1, {3}, integers},
	{"scalar", LH_F32, 0, {0}, &floats[1]},
	{"empty", LH_F32, 2, {0, 4}, floats},
	{"half", LH_F16, 5, {5, 1, 1, 1, 1}, halves},
	{"brain \"quoted\" \xc3\xa9", LH_BF16, 1, {5}, halves},
};

static void write_all(const char *path)
{
	lh_cleanup_json json_t *metadata = json_pack("{s:s, s:s}", "model", "gpt2", "empty", "");
	struct lh_error err = {0};

	if (lh_safetensors_write(path, entries, N_ELEMENTS(entries), metadata, &err))
		fail_msg("%s", err.message);
}

static void check_entry(const struct lh_safetensors *file, const struct lh_safetensor_entry *entry)
{
	const struct lh_safetensor *tensor = lh_safetensors_find(file, entry->name);
	char data[64];
	struct lh_error err = {0};

	assert_non_null(tensor);
	assert_string_equal(tensor->name, entry->name);
	assert_true(tensor->is_known);
	assert_int_equal(tensor->dtype, entry->dtype);
	assert_int_equal(tensor->n_dims, entry->n_dims);
	for (uint32_t i = 0; i < entry->n_dims; i++)
		assert_true(tensor->dims[i] == entry->dims[i]);
	assert_true(tensor->n_bytes == (uint64_t)tensor->n * lh_dtype_bytes(entry->dtype));
	assert_int_equal(lh_safetensors_read(file, tensor, 0, tensor->n, data, &err), 0);
	assert_memory_equal(data, entry->data, tensor->n_bytes);
	if (tensor->n > 1) {
		size_t bytes = lh_dtype_bytes(entry->dtype);

		assert_int_equal(lh_safetensors_read(file, tensor, 1, tensor->n - 1, data, &err),
				 0);
		assert_memory_equal(data, (const char *)entry->data + bytes,
				    tensor->n_bytes - bytes);
	}
	assert_int_equal(lh_safetensors_read(file, tensor, 1, tensor->n, data, &err), LH_EINPUT);
	assert_int_equal(lh_safetensors_read(file, tensor, -1, 1, data, &err), LH_EINPUT);
	assert_int_equal(lh_safetensors_read(file, tensor, 0, INT64_MAX, data, &err), LH_EINPUT);
}

static void test_what_is_written_is_read(void **state)
{
	lh_cleanup_free char *path = path_of("all.safetensors");
	const struct lh_safetensor *list;
	struct lh_safetensors *file;
	struct lh_error err = {0};
	size_t n;

	(void)state;
	write_all(path);
	assert_int_equal(lh_safetensors_open(path, &file, &err), 0);
	list = lh_safetensors_list(file, &n);
	assert_int_equal(n, N_ELEMENTS(entries));
	assert_true(list[0].at_bytes % 64 == 0);
	for (size_t i = 0; i < n; i++)
		check_entry(file, &entries[i]);
	assert_null(lh_safetensors_find(file, "layer"));
	assert_null(lh_safetensors_find(file, "__metadata__"));
	assert_string_equal(lh_safetensors_metadata(file, "model"), "gpt2");
	assert_string_equal(lh_safetensors_metadata(file, "empty"), "");
	assert_null(lh_safetensors_metadata(file, "settings"));
	lh_safetensors_close(file);
}

static void test_the_same_is_written_in_pieces(void **state)
{
	lh_cleanup_free char *whole = path_of("whole.safetensors"), *path = path_of("pieces");
	lh_cleanup_free char *a = NULL, *b = NULL;
	lh_cleanup_json json_t *metadata = json_pack("{s:s, s:s}", "model", "gpt2", "empty", "");
	struct lh_safetensors_writer *writer;
	struct lh_error err = {0};
	size_t a_size, b_size;

	(void)state;
	write_all(whole);
	assert_int_equal(lh_safetensors_create(path, entries, N_ELEMENTS(entries), metadata,
					       &writer, &err),
			 0);
	for (size_t i = 0; i < N_ELEMENTS(entries); i++) {
		size_t bytes = lh_dtype_bytes(entries[i].dtype);

		for (uint32_t d = 0; d < entries[i].n_dims; d++)
			bytes *= (size_t)entries[i].dims[d];
		for (size_t k = 0; k < bytes; k++)
			assert_int_equal(lh_safetensors_append(writer,
							       (const char *)entries[i].data + k, 1,
							       &err),
					 0);
	}
	assert_int_equal(lh_safetensors_append(writer, "x", 1, &err), LH_EINPUT);
	assert_int_equal(lh_safetensors_finish(writer, true, &err), 0);
	assert_int_equal(lh_file_read(whole, 1 << 16, &a, &a_size, &err), 0);
	assert_int_equal(lh_file_read(path, 1 << 16, &b, &b_size, &err), 0);
	assert_int_equal(a_size, b_size);
	assert_memory_equal(a, b, a_size);
}

static void test_a_file_without_tensors(void **state)
{
	lh_cleanup_free char *path = path_of("none.safetensors");
	struct lh_safetensors *file;
	struct lh_error err = {0};
	size_t n;

	(void)state;
	assert_int_equal(lh_safetensors_write(path, NULL, 0, NULL, &err), 0);
	assert_int_equal(lh_safetensors_open(path, &file, &err), 0);
	lh_safetensors_list(file, &n);
	assert_int_equal(n, 0);
	assert_null(lh_safetensors_find(file, "x"));
	assert_null(lh_safetensors_metadata(file, "x"));
	lh_safetensors_close(file);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void refuse_to_write(const struct lh_safetensor_entry *bad, size_t n, json_t *metadata,
			    const char *message)
{
	lh_cleanup_free char *path = path_of("bad.safetensors");
	struct lh_error err = {0};

	assert_int_equal(lh_safetensors_write(path, bad, n, metadata, &err), LH_EINPUT);
	if (!strstr(err.message, message))
		fail_msg("'%s' lacks '%s'", err.message, message);
	assert_false(lh_path_exists(path));
	json_decref(metadata);
}

static void test_what_cannot_be_written_is_refused(void **state)
{
	const struct lh_safetensor_entry twice[] = {entries[0], entries[1], entries[0]};
	struct lh_safetensor_entry named = entries[0];

	(void)state;
	refuse_to_write(twice, 3, NULL, "two entries are called layer.weight");
	named.name = "__metadata__";
	refuse_to_write(&named, 1, NULL, "two entries are called __metadata__");
	named.name = "\xff";
	refuse_to_write(&named, 1, NULL, "no entry can be called");
	refuse_to_write(entries, 1, json_pack("{s:i}", "step", 3), "metadata step");
	refuse_to_write(entries, 1, json_pack("[s]", "step"), "not an object");
}

static void test_a_file_with_too_few_data_is_not_finished(void **state)
{
	lh_cleanup_free char *path = path_of("few.safetensors");
	struct lh_safetensors_writer *writer;
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_safetensors_create(path, entries, 1, NULL, &writer, &err), 0);
	assert_int_equal(lh_safetensors_append(writer, floats, 4, &err), 0);
	assert_int_equal(lh_safetensors_finish(writer, false, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "4 bytes of data; the entries take 24"));
	assert_int_equal(lh_safetensors_create(path, entries, 1, NULL, &writer, &err), 0);
	lh_safetensors_abandon(writer);
	assert_false(lh_path_exists(path));
	lh_safetensors_abandon(NULL);
}

/* A file of that header and n zeros; length: of the header, or -1 for its true one. */
static void refuse_header(const char *header, int64_t length, size_t n, const char *message)
{
	lh_cleanup_free char *path = path_of("refused");
	uint64_t told = length < 0 ? strlen(header) : (uint64_t)length;
	FILE *out = fopen(path, "we");
	struct lh_safetensors *file = NULL;
	struct lh_error err = {0};

	assert_non_null(out);
	fwrite(&told, sizeof(told), 1, out);
	fputs(header, out);
	for (size_t i = 0; i < n; i++)
		fputc(0, out);
	fclose(out);
	if (lh_safetensors_open(path, &file, &err) == 0)
		fail_msg("not refused: %s", header);
	assert_int_equal(err.code, LH_EINPUT);
	if (!strstr(err.message, message) || !strstr(err.message, "/refused"))
		fail_msg("'%s' lacks '%s'", err.message, message);
	assert_null(file);
}

#define TENSOR(dtype, shape, offsets) \
	"{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void test_damaged_headers_are_refused_by_name(void **state)
{
	static const char two[] =
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%d,%d]}}";
	static const struct {
		const char *header;
		int64_t length;
		size_t n;
		const char *message;
	} cases[] = {
		{"{}", 3, 0, "the length of a header, 3 bytes; expected at most the 2"},
		{"{}", INT64_MAX, 0, "truncated, or no safetensors file"},
		{"{}", 1 << 25, 1 << 25, "expected at most"},
		{"{", -1, 0, "header, byte"},
		{"[]", -1, 0, "expected an object"},
		{"{} x", -1, 0, "header, byte"},
		{"{\"t\":1}", -1, 0, "tensor t: no object"},
		{"{\"t\":{}}", -1, 0, "tensor t: dtype is unknown or missing"},
		{TENSOR("\"F31\"", "[1]", "[0,4]"), -1, 4, "tensor t: dtype is unknown"},
		{TENSOR("\"F32\"", "[1,1,1,1,1,1]", "[0,4]"), -1, 4, "tensor t: shape"},
		{TENSOR("\"F32\"", "2", "[0,8]"), -1, 8, "tensor t: shape"},
		{TENSOR("\"F32\"", "[-1]", "[0,4]"), -1, 4, "tensor t: a dimension"},
		{TENSOR("\"F32\"", "[1.0]", "[0,4]"), -1, 4, "tensor t: a dimension"},
		{TENSOR("\"F32\"", "[4294967296,4294967296]", "[0,0]"), -1, 0,
		 "tensor t: a dimension"},
		{TENSOR("\"F32\"", "[4611686018427387904]", "[0,0]"), -1, 0,
		 "0 bytes of data for 4611686018427387904 elements"},
		{TENSOR("\"F32\"", "[1]", "[4,0]"), -1, 4, "tensor t: data_offsets"},
		{TENSOR("\"F32\"", "[1]", "[-4,0]"), -1, 4, "tensor t: data_offsets"},
		{TENSOR("\"F32\"", "[1]", "[0]"), -1, 4, "tensor t: data_offsets"},
		{TENSOR("\"F32\"", "[1]", "[0,4]"), -1, 3,
		 "tensor t ends at byte 4 of the data, of which there are 3"},
		{TENSOR("\"F32\"", "[1]", "[0,9223372036854775807]"), -1, 4, "tensor t ends at"},
		{TENSOR("\"F32\"", "[1]", "[0,9223372036854775808]"), -1, 4, "header, byte"},
		{TENSOR("\"F32\"", "[2]", "[0,4]"), -1, 4, "4 bytes of data for 2 elements"},
		{TENSOR("\"F32\"", "[1]", "[0,5]"), -1, 5, "5 bytes of data for 1 elements"},
		{TENSOR("\"F32\"", "[1]", "[0,4]"), -1, 6, "2 bytes of no tensor at its end"},
		{TENSOR("\"F32\"", "[1]", "[4,8]"), -1, 8, "tensor t begins at byte"},
		{"{\"t\":{},\"t\":{}}", -1, 0, "duplicate"},
		{"{\"__metadata__\":{\"a\":1}}", -1, 0, "__metadata__, a: expected a string"},
		{"{\"__metadata__\":[]}", -1, 0, "__metadata__: expected an object"},
	};
	char header[256];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		refuse_header(cases[i].header, cases[i].length, cases[i].n, cases[i].message);
	snprintf(header, sizeof(header), two, 4, 12);
	refuse_header(header, -1, 12, "tensor b begins at byte 120, within another; expected 124");
	snprintf(header, sizeof(header), two, 12, 20);
	refuse_header(header, -1, 20, "after a gap");
	snprintf(header, sizeof(header), two, 0, 8);
	refuse_header(header, -1, 8, "within another");
}

/* At every length that a file can be cut to. */
static void test_truncated_files_are_refused(void **state)
{
	lh_cleanup_free char *path = path_of("cut.safetensors");
	struct stat st;

	(void)state;
	write_all(path);
	assert_int_equal(stat(path, &st), 0);
	for (off_t size = st.st_size - 1; size >= 0; size--) {
		struct lh_safetensors *file = NULL;
		struct lh_error err = {0};

		assert_int_equal(truncate(path, size), 0);
		assert_int_equal(lh_safetensors_open(path, &file, &err), LH_EINPUT);
		assert_non_null(strstr(err.message, path));
		assert_null(file);
	}
}

static void test_a_file_that_shrinks_while_open_is_told(void **state)
{
	lh_cleanup_free char *path = path_of("shrinks.safetensors");
	struct lh_safetensors *file;
	struct lh_error err = {0};
	float data[6];

	(void)state;
	write_all(path);
	assert_int_equal(lh_safetensors_open(path, &file, &err), 0);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(lh_safetensors_read(file, lh_safetensors_find(file, "layer.weight"), 0, 6,
					     data, &err),
			 LH_EINPUT);
	assert_non_null(strstr(err.message, "ends at byte"));
	lh_safetensors_close(file);
}

static void test_types_that_tensors_lack_are_listed_but_not_read(void **state)
{
	static const char header[] = TENSOR("\"I64\"", "[]", "[0,8]");
	lh_cleanup_free char *path = path_of("foreign.safetensors");
	uint64_t length = sizeof(header) - 1, value = 7;
	FILE *out = fopen(path, "we");
	struct lh_safetensors *file;
	struct lh_error err = {0};
	const struct lh_safetensor *tensor;

	(void)state;
	assert_non_null(out);
	fwrite(&length, sizeof(length), 1, out);
	fputs(header, out);
	fwrite(&value, sizeof(value), 1, out);
	fclose(out);
	assert_int_equal(lh_safetensors_open(path, &file, &err), 0);
	tensor = lh_safetensors_find(file, "t");
	assert_non_null(tensor);
	assert_false(tensor->is_known);
	assert_string_equal(tensor->format, "I64");
	assert_int_equal(lh_safetensors_read(file, tensor, 0, 1, &value, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "tensor t is of type I64; expected F32"));
	lh_safetensors_close(file);
}

static void test_what_is_no_file_is_refused(void **state)
{
	lh_cleanup_free char *pipe = path_of("pipe"), *missing = path_of("missing");
	struct lh_safetensors *file;
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_safetensors_open(folder, &file, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "is no regular file"));
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(lh_safetensors_open(pipe, &file, &err), LH_EINPUT);
	assert_int_equal(lh_safetensors_open(missing, &file, &err), LH_ESYS);
	assert_int_equal(lh_safetensors_open("/dev/full", &file, &err), LH_EINPUT);
}

/* What stands for the full disk is a link, which giving up removes. */
static void test_a_full_disk_is_told(void **state)
{
	lh_cleanup_free char *path = path_of("full");
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(symlink("/dev/full", path), 0);
	assert_int_equal(lh_safetensors_write(path, entries, 1, NULL, &err), LH_ESYS);
	assert_non_null(strstr(err.message, "No space left"));
	assert_false(lh_path_exists(path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_the_same_is_written_in_pieces),
		cmocka_unit_test(test_a_file_without_tensors),
		cmocka_unit_test(test_what_cannot_be_written_is_refused),
		cmocka_unit_test(test_a_file_with_too_few_data_is_not_finished),
		cmocka_unit_test(test_damaged_headers_are_refused_by_name),
		cmocka_unit_test(test_truncated_files_are_refused),
		cmocka_unit_test(test_a_file_that_shrinks_while_open_is_told),
		cmocka_unit_test(test_types_that_tensors_lack_are_listed_but_not_read),
		cmocka_unit_test(test_what_is_no_file_is_refused),
		cmocka_unit_test(test_a_full_disk_is_told),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
