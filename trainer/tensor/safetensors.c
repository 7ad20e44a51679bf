/* SPDX-License-Identifier: Apache-2.0 */
/* Reading safetensors files. See safetensors.h. */
#include "trainer/tensor/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "trainer/tensor/safetensors_internal.h"

const struct lh_safetensors_type lh_safetensors_types[] = {
	[LH_F32] = {"F32", 4},
	[LH_F64] = {"F64", 8},
	[LH_F16] = {"F16", 2},
	[LH_BF16] = {"BF16", 2},
	[LH_I32] = {"I32", 4},
	{"BOOL", 1},
	{"U8", 1},
	{"I8", 1},
	{"F8_E5M2", 1},
	{"F8_E4M3", 1},
	{"I16", 2},
	{"U16", 2},
	{"U32", 4},
	{"I64", 8},
	{"U64", 8},
	{NULL, 0},
};

const char *lh_safetensors_type_name(enum lh_dtype dtype)
{
	return lh_safetensors_types[dtype].name;
}

struct lh_safetensors {
	int fd;
	char *path;
	uint64_t size_bytes; /* of the file */
	uint64_t data_at_bytes;
	json_t *header;
	size_t n;
	struct lh_safetensor *tensors;	      /* in the order of their data */
	const struct lh_safetensor **by_name; /* sorted */
};

/* ---- the header ------------------------------------------------------------------------------ */

static int read_at(const struct lh_safetensors *file, uint64_t at, void *ret_data, uint64_t bytes,
		   struct lh_error *err)
{
	char *to = ret_data;

	while (bytes) {
		ssize_t n = pread(file->fd, to, bytes, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return lh_fail(err, LH_ESYS, errno, "read %s", file->path);
		if (n == 0)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s ends at byte %" PRIu64 "; expected %" PRIu64 " more",
				       file->path, at, bytes);
		to += n;
		at += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return 0;
}

static int open_file(struct lh_safetensors *file, const char *path, struct lh_error *err)
{
	struct stat st;

	/* not to wait for the writer of a pipe */
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file->fd < 0 || fstat(file->fd, &st) < 0)
		return lh_fail(err, LH_ESYS, errno, "open %s", path);
	if (!S_ISREG(st.st_mode))
		return lh_fail(err, LH_EINPUT, 0, "%s is no regular file", path);
	file->size_bytes = (uint64_t)st.st_size;
	file->path = strdup(path);
	return file->path ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "open %s", path);
}

static int read_header(struct lh_safetensors *file, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	uint64_t length = 0, rest = file->size_bytes - LH_SAFETENSORS_LENGTH_BYTES;
	json_error_t je;
	int rc;

	if (file->size_bytes < LH_SAFETENSORS_LENGTH_BYTES)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s has %" PRIu64 " bytes; expected a safetensors file, which has "
			       "at least 8",
			       file->path, file->size_bytes);
	rc = read_at(file, 0, &length, sizeof(length), err);
	if (rc)
		return rc;
	if (length > rest || length > LH_SAFETENSORS_HEADER_MAX_BYTES)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s begins with the length of a header, %" PRIu64
			       " bytes; expected at most the %" PRIu64
			       " that follow and %d: truncated, or no safetensors file",
			       file->path, length, rest, LH_SAFETENSORS_HEADER_MAX_BYTES);
	text = malloc(length + 1);
	if (!text)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", file->path);
	rc = read_at(file, LH_SAFETENSORS_LENGTH_BYTES, text, length, err);
	if (rc)
		return rc;
	file->data_at_bytes = LH_SAFETENSORS_LENGTH_BYTES + length;
	file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &je);
	if (!file->header)
		return lh_fail(err, LH_EINPUT, 0, "%s: header, byte %d: %s", file->path,
			       je.position, je.text);
	return json_is_object(file->header)
		       ? 0
		       : lh_fail(err, LH_EINPUT, 0, "%s: header: expected an object", file->path);
}

/* ---- its entries ----------------------------------------------------------------------------- */

static int fail_tensor(const struct lh_safetensors *file, const char *name, const char *what,
		       const char *expected, struct lh_error *err)
{
	return lh_fail(err, LH_EINPUT, 0, "%s: tensor %s: %s; expected %s", file->path, name, what,
		       expected);
}

static int parse_type(const struct lh_safetensors *file, const json_t *value,
		      struct lh_safetensor *tensor, uint32_t *ret_bytes, struct lh_error *err)
{
	const char *name = json_string_value(json_object_get(value, "dtype"));

	for (size_t i = 0; name && lh_safetensors_types[i].name; i++) {
		if (strcmp(lh_safetensors_types[i].name, name) != 0)
			continue;
		tensor->format = lh_safetensors_types[i].name;
		tensor->is_known = i < LH_SAFETENSORS_N_KNOWN;
		tensor->dtype = tensor->is_known ? (enum lh_dtype)i : LH_F32;
		*ret_bytes = lh_safetensors_types[i].n_bytes;
		return 0;
	}
	return fail_tensor(file, tensor->name, "dtype is unknown or missing",
			   "a type of the format, such as F32", err);
}

static int parse_shape(const struct lh_safetensors *file, const json_t *value,
		       struct lh_safetensor *tensor, struct lh_error *err)
{
	const json_t *shape = json_object_get(value, "shape"), *dim;
	size_t i, n = json_array_size(shape);
	bool is_empty = false;

	if (!json_is_array(shape) || n > LH_TENSOR_DIMS_MAX)
		return fail_tensor(file, tensor->name, "shape is missing or too long",
				   "up to five dimensions", err);
	tensor->n_dims = (uint32_t)n;
	tensor->n = 1;
	json_array_foreach ((json_t *)(uintptr_t)shape, i, dim) {
		json_int_t d = json_integer_value(dim);

		if (!json_is_integer(dim) || d < 0 || (d > 0 && tensor->n > INT64_MAX / d))
			return fail_tensor(file, tensor->name, "a dimension is out of range",
					   "whole numbers", err);
		tensor->dims[i] = d;
		tensor->n *= d ? d : 1;
		is_empty = is_empty || d == 0;
	}
	if (is_empty)
		tensor->n = 0;
	return 0;
}

static int parse_offsets(const struct lh_safetensors *file, const json_t *value,
			 struct lh_safetensor *tensor, uint32_t element_bytes, struct lh_error *err)
{
	const json_t *offsets = json_object_get(value, "data_offsets");
	const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
	json_int_t begin = json_integer_value(first), end = json_integer_value(last);
	uint64_t data_bytes = file->size_bytes - file->data_at_bytes;

	if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
	    begin < 0 || end < begin)
		return fail_tensor(file, tensor->name, "data_offsets are missing or out of order",
				   "[begin, end]", err);
	if ((uint64_t)end > data_bytes)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: tensor %s ends at byte %" PRId64 " of the data, of which there "
			       "are %" PRIu64 ": the file is truncated or damaged",
			       file->path, tensor->name, (int64_t)end, data_bytes);
	tensor->at_bytes = file->data_at_bytes + (uint64_t)begin;
	tensor->n_bytes = (uint64_t)(end - begin);
	if (tensor->n_bytes % element_bytes ||
	    tensor->n_bytes / element_bytes != (uint64_t)tensor->n)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: tensor %s: %" PRIu64 " bytes of data for %" PRId64
			       " elements of type %s",
			       file->path, tensor->name, tensor->n_bytes, tensor->n,
			       tensor->format);
	return 0;
}

static int parse_tensor(const struct lh_safetensors *file, const json_t *value,
			struct lh_safetensor *tensor, struct lh_error *err)
{
	uint32_t element_bytes = 1;
	int rc = json_is_object(value) ? 0
				       : fail_tensor(file, tensor->name, "no object",
						     "dtype, shape and data_offsets", err);

	if (rc == 0)
		rc = parse_type(file, value, tensor, &element_bytes, err);
	if (rc == 0)
		rc = parse_shape(file, value, tensor, err);
	return rc ? rc : parse_offsets(file, value, tensor, element_bytes, err);
}

static int check_metadata(const struct lh_safetensors *file, const json_t *metadata,
			  struct lh_error *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(metadata))
		return lh_fail(err, LH_EINPUT, 0, "%s: __metadata__: expected an object",
			       file->path);
	json_object_foreach ((json_t *)(uintptr_t)metadata, key, value) {
		if (!json_is_string(value))
			return lh_fail(err, LH_EINPUT, 0, "%s: __metadata__, %s: expected a string",
				       file->path, key);
	}
	return 0;
}

static int parse_entries(struct lh_safetensors *file, struct lh_error *err)
{
	size_t size = json_object_size(file->header);
	const char *key;
	json_t *value;

	file->tensors = calloc(size + 1, sizeof(*file->tensors));
	file->by_name = calloc(size + 1, sizeof(*file->by_name));
	if (!file->tensors || !file->by_name)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", file->path);
	json_object_foreach (file->header, key, value) {
		bool is_metadata = strcmp(key, LH_SAFETENSORS_METADATA) == 0;
		int rc;

		file->tensors[file->n].name = key;
		rc = is_metadata ? check_metadata(file, value, err)
				 : parse_tensor(file, value, &file->tensors[file->n], err);
		if (rc)
			return rc;
		file->n += !is_metadata;
	}
	return 0;
}

/* ---- their order ----------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
	const struct lh_safetensor *x = a, *y = b;

	if (x->at_bytes != y->at_bytes)
		return x->at_bytes < y->at_bytes ? -1 : 1;
	return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

static int compare_names(const void *a, const void *b)
{
	const struct lh_safetensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Sorts; the data must be those of the tensors, without gaps and overlaps. */
static int check_places(struct lh_safetensors *file, struct lh_error *err)
{
	uint64_t at = file->data_at_bytes;

	qsort(file->tensors, file->n, sizeof(*file->tensors), compare_places);
	for (size_t i = 0; i < file->n; i++) {
		const struct lh_safetensor *tensor = &file->tensors[i];

		if (tensor->at_bytes != at)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: tensor %s begins at byte %" PRIu64
				       ", %s; expected %" PRIu64 ", where the one before ends",
				       file->path, tensor->name, tensor->at_bytes,
				       tensor->at_bytes < at ? "within another" : "after a gap",
				       at);
		at += tensor->n_bytes;
		file->by_name[i] = tensor;
	}
	if (at != file->size_bytes)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: %" PRIu64 " bytes of no tensor at its end, from %" PRIu64 " on",
			       file->path, file->size_bytes - at, at);
	qsort(file->by_name, file->n, sizeof(*file->by_name), compare_names);
	return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

int lh_safetensors_open(const char *path, struct lh_safetensors **ret_file, struct lh_error *err)
{
	struct lh_safetensors *file = calloc(1, sizeof(*file));
	int rc;

	if (!file)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", path);
	rc = open_file(file, path, err);
	if (rc == 0)
		rc = read_header(file, err);
	if (rc == 0)
		rc = parse_entries(file, err);
	if (rc == 0)
		rc = check_places(file, err);
	if (rc) {
		lh_safetensors_close(file);
		return rc;
	}
	*ret_file = file;
	return 0;
}

void lh_safetensors_close(struct lh_safetensors *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	json_decref(file->header);
	free(file->path);
	free(file->tensors);
	free(file->by_name);
	free(file);
}

const struct lh_safetensor *lh_safetensors_list(const struct lh_safetensors *file, size_t *ret_n)
{
	*ret_n = file->n;
	return file->tensors;
}

const struct lh_safetensor *lh_safetensors_find(const struct lh_safetensors *file, const char *name)
{
	const struct lh_safetensor wanted = {.name = name}, *key = &wanted;
	const struct lh_safetensor **found =
		bsearch(&key, file->by_name, file->n, sizeof(*file->by_name), compare_names);

	return found ? *found : NULL;
}

const char *lh_safetensors_metadata(const struct lh_safetensors *file, const char *key)
{
	return json_string_value(
		json_object_get(json_object_get(file->header, LH_SAFETENSORS_METADATA), key));
}

int lh_safetensors_read(const struct lh_safetensors *file, const struct lh_safetensor *tensor,
			int64_t first, int64_t n, void *ret_data, struct lh_error *err)
{
	uint64_t element_bytes = lh_dtype_bytes(tensor->dtype);

	if (!tensor->is_known)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: tensor %s is of type %s; expected F32, F64, F16, BF16 or I32",
			       file->path, tensor->name, tensor->format);
	if (first < 0 || n < 0 || first > tensor->n || n > tensor->n - first)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: tensor %s: %" PRId64 " elements from %" PRId64
			       " on are not all within its %" PRId64,
			       file->path, tensor->name, n, first, tensor->n);
	return read_at(file, tensor->at_bytes + (uint64_t)first * element_bytes, ret_data,
		       (uint64_t)n * element_bytes, err);
}
