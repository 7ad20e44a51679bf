/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors files. See safetensors.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "trainer/tensor/safetensors_internal.h"

/* The header is padded so that data begin at a multiple of this. */
enum { DATA_ALIGN = 64 };

struct lh_safetensors_writer {
	int fd;
	char *path;
	uint64_t data_bytes; /* of all entries */
	uint64_t at_bytes;   /* written of them */
};

static uint64_t bytes_of(const struct lh_safetensor_entry *entry)
{
	uint64_t bytes = lh_dtype_bytes(entry->dtype);

	for (uint32_t i = 0; i < entry->n_dims; i++)
		bytes *= (uint64_t)entry->dims[i];
	return bytes;
}

static int add_entry(json_t *header, const char *path, const struct lh_safetensor_entry *entry,
		     uint64_t at, struct lh_error *err)
{
	lh_cleanup_json json_t *shape = json_array();
	json_t *value;

	if (json_object_get(header, entry->name) ||
	    strcmp(entry->name, LH_SAFETENSORS_METADATA) == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: two entries are called %s", path,
			       entry->name);
	for (uint32_t i = 0; i < entry->n_dims; i++)
		json_array_append_new(shape, json_integer(entry->dims[i]));
	value = json_pack("{s:s, s:O, s:[I, I]}", "dtype", lh_safetensors_types[entry->dtype].name,
			  "shape", shape, "data_offsets", (json_int_t)at,
			  (json_int_t)(at + bytes_of(entry)));
	if (json_array_size(shape) != entry->n_dims ||
	    json_object_set_new(header, entry->name, value) < 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: no entry can be called %s", path,
			       entry->name);
	return 0;
}

static int check_metadata(const char *path, const json_t *metadata, struct lh_error *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(metadata))
		return lh_fail(err, LH_EINPUT, 0, "%s: metadata that are not an object", path);
	json_object_foreach ((json_t *)(uintptr_t)metadata, key, value) {
		if (!json_is_string(value))
			return lh_fail(err, LH_EINPUT, 0, "%s: metadata %s; expected a string",
				       path, key);
	}
	return 0;
}

/* The header's text with its padding; *ret_data_bytes: what the entries take. */
static int format_header(const char *path, const struct lh_safetensor_entry *entries, size_t n,
			 const json_t *metadata, char **ret_text, uint64_t *ret_data_bytes,
			 struct lh_error *err)
{
	lh_cleanup_json json_t *header = json_object();
	lh_cleanup_free char *text = NULL;
	uint64_t at = 0;
	size_t length, padded;
	int rc = 0;

	if (metadata)
		rc = check_metadata(path, metadata, err);
	if (rc == 0 && metadata)
		json_object_set(header, LH_SAFETENSORS_METADATA, (json_t *)(uintptr_t)metadata);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = add_entry(header, path, &entries[i], at, err);
		at += bytes_of(&entries[i]);
	}
	if (rc)
		return rc;
	text = json_dumps(header, JSON_COMPACT);
	if (!text)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	length = strlen(text);
	padded = (LH_SAFETENSORS_LENGTH_BYTES + length + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN -
		 LH_SAFETENSORS_LENGTH_BYTES;
	if (padded > LH_SAFETENSORS_HEADER_MAX_BYTES)
		return lh_fail(err, LH_EINPUT, 0, "%s: a header of %zu bytes; at most %d", path,
			       padded, LH_SAFETENSORS_HEADER_MAX_BYTES);
	*ret_text = malloc(padded + 1);
	if (!*ret_text)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	memcpy(*ret_text, text, length);
	memset(*ret_text + length, ' ', padded - length);
	(*ret_text)[padded] = '\0';
	*ret_data_bytes = at;
	return 0;
}

static int write_all(const struct lh_safetensors_writer *writer, const void *data, size_t bytes,
		     struct lh_error *err)
{
	const char *at = data;

	while (bytes) {
		ssize_t n = write(writer->fd, at, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return lh_fail(err, LH_ESYS, errno, "write %s", writer->path);
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static void free_writer(struct lh_safetensors_writer *writer)
{
	if (writer->fd >= 0)
		close(writer->fd);
	free(writer->path);
	free(writer);
}

int lh_safetensors_create(const char *path, const struct lh_safetensor_entry *entries, size_t n,
			  const json_t *metadata, struct lh_safetensors_writer **ret_writer,
			  struct lh_error *err)
{
	struct lh_safetensors_writer *writer = calloc(1, sizeof(*writer));
	lh_cleanup_free char *text = NULL;
	uint64_t length;
	int rc;

	if (!writer)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	writer->fd = -1;
	rc = format_header(path, entries, n, metadata, &text, &writer->data_bytes, err);
	if (rc == 0 && !(writer->path = strdup(path)))
		rc = lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	if (rc) {
		free_writer(writer);
		return rc;
	}
	writer->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (writer->fd < 0) {
		rc = lh_fail(err, LH_ESYS, errno, "create %s", path);
		free_writer(writer);
		return rc;
	}
	length = strlen(text);
	rc = write_all(writer, &length, sizeof(length), err);
	if (rc == 0)
		rc = write_all(writer, text, length, err);
	if (rc) {
		lh_safetensors_abandon(writer);
		return rc;
	}
	*ret_writer = writer;
	return 0;
}

int lh_safetensors_append(struct lh_safetensors_writer *writer, const void *data, size_t bytes,
			  struct lh_error *err)
{
	if (bytes > writer->data_bytes - writer->at_bytes)
		return lh_fail(err, LH_EINPUT, 0,
			       "write %s: %zu bytes after %" PRIu64 "; the entries take %" PRIu64,
			       writer->path, bytes, writer->at_bytes, writer->data_bytes);
	writer->at_bytes += bytes;
	return write_all(writer, data, bytes, err);
}

int lh_safetensors_finish(struct lh_safetensors_writer *writer, bool is_synced,
			  struct lh_error *err)
{
	int rc = 0, fd = writer->fd;

	if (writer->at_bytes != writer->data_bytes)
		rc = lh_fail(err, LH_EINPUT, 0,
			     "write %s: %" PRIu64 " bytes of data; the entries take %" PRIu64,
			     writer->path, writer->at_bytes, writer->data_bytes);
	if (rc == 0 && is_synced && fsync(fd) < 0)
		rc = lh_fail(err, LH_ESYS, errno, "bring %s to the disk", writer->path);
	writer->fd = -1;
	if (close(fd) < 0 && rc == 0)
		rc = lh_fail(err, LH_ESYS, errno, "write %s", writer->path);
	free_writer(writer);
	return rc;
}

void lh_safetensors_abandon(struct lh_safetensors_writer *writer)
{
	if (!writer)
		return;
	unlink(writer->path);
	free_writer(writer);
}

int lh_safetensors_write(const char *path, const struct lh_safetensor_entry *entries, size_t n,
			 const json_t *metadata, struct lh_error *err)
{
	struct lh_safetensors_writer *writer;
	int rc = lh_safetensors_create(path, entries, n, metadata, &writer, err);

	if (rc)
		return rc;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = lh_safetensors_append(writer, entries[i].data, bytes_of(&entries[i]), err);
	if (rc) {
		lh_safetensors_abandon(writer);
		return rc;
	}
	return lh_safetensors_finish(writer, false, err);
}
