/* SPDX-License-Identifier: Apache-2.0 */
/* Checking and reading checkpoints. See checkpoint.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/optim/checkpoint_internal.h"

/* ---- whole? ---------------------------------------------------------------------------------- */

static int check_version(const char *path, const struct lh_safetensors *file, struct lh_error *err)
{
	const char *version = lh_safetensors_metadata(file, LH_CHECKPOINT_VERSION_KEY);
	char *end;
	long number;

	if (!version)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s is no checkpoint of longhaul: its metadata lack %s", path,
			       LH_CHECKPOINT_VERSION_KEY);
	number = strtol(version, &end, 10);
	if (*version && !*end && number == LH_CHECKPOINT_VERSION)
		return 0;
	return lh_fail(err, LH_EINPUT, 0,
		       "%s is a checkpoint of version %.32s; this program reads version %d%s", path,
		       version, LH_CHECKPOINT_VERSION,
		       number > LH_CHECKPOINT_VERSION ? ": a newer one has written it" : "");
}

static int add_data(int fd, const char *path, int64_t at, struct lh_crc64 *crc,
		    struct lh_error *err)
{
	lh_cleanup_free void *buffer = malloc(LH_CHECKPOINT_CHUNK_BYTES);
	ssize_t n = 1;

	if (!buffer)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	while (n) {
		n = pread(fd, buffer, LH_CHECKPOINT_CHUNK_BYTES, (off_t)at);
		if (n < 0 && errno != EINTR)
			return lh_fail(err, LH_ESYS, errno, "read %s", path);
		if (n > 0) {
			lh_crc64_add(crc, buffer, (size_t)n);
			at += n;
		}
	}
	return 0;
}

static int check_checksum(const char *path, struct lh_error *err)
{
	lh_cleanup_free struct lh_crc64 *crc = malloc(sizeof(*crc));
	lh_cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char told[LH_CHECKPOINT_DIGITS + 1], found[LH_CHECKPOINT_DIGITS + 1];
	int64_t digits_at, data_at;
	int rc;

	if (fd < 0 || !crc)
		return lh_fail(err, LH_ESYS, errno, "open %s", path);
	lh_crc64_init(crc);
	rc = lh_checkpoint_add_header(fd, path, crc, told, &digits_at, &data_at, err);
	if (rc == 0)
		rc = add_data(fd, path, data_at, crc, err);
	if (rc)
		return rc;
	snprintf(found, sizeof(found), "%016" PRIx64, lh_crc64_value(crc));
	if (strcmp(told, found) != 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s is damaged: its checksum is %s, the one written in it %s", path,
			       found, told);
	return 0;
}

/* A file that is a whole checkpoint. */
static int open_whole(const char *path, struct lh_safetensors **ret_file, struct lh_error *err)
{
	struct lh_safetensors *file;
	int rc = lh_safetensors_open(path, &file, err);

	if (rc)
		return rc;
	rc = check_version(path, file, err);
	if (rc == 0)
		rc = check_checksum(path, err);
	if (rc)
		lh_safetensors_close(file);
	else
		*ret_file = file;
	return rc;
}

/* ---- its metadata ---------------------------------------------------------------------------- */

static int load_json(const char *path, const struct lh_safetensors *file, const char *key,
		     json_t **ret_value, struct lh_error *err)
{
	const char *text = lh_safetensors_metadata(file, key);
	json_error_t je;
	json_t *value;

	if (!text)
		return lh_fail(err, LH_EINPUT, 0, "%s holds no %s", path, key);
	value = json_loads(text, JSON_REJECT_DUPLICATES, &je);
	if (!json_is_object(value)) {
		json_decref(value);
		return lh_fail(err, LH_EINPUT, 0, "%s: %s: expected an object", path, key);
	}
	*ret_value = value;
	return 0;
}

int lh_checkpoint_check(const char *path, json_t **ret_settings, json_t **ret_progress,
			struct lh_error *err)
{
	lh_cleanup_json json_t *settings = NULL, *progress = NULL;
	struct lh_safetensors *file;
	int rc = open_whole(path, &file, err);

	if (rc)
		return rc;
	rc = load_json(path, file, LH_CHECKPOINT_SETTINGS_KEY, &settings, err);
	if (rc == 0)
		rc = load_json(path, file, LH_CHECKPOINT_PROGRESS_KEY, &progress, err);
	lh_safetensors_close(file);
	if (rc)
		return rc;
	if (ret_settings)
		*ret_settings = lh_steal(&settings);
	if (ret_progress)
		*ret_progress = lh_steal(&progress);
	return 0;
}

/* ---- the same as here? ----------------------------------------------------------------------- */

/* As short as tells them apart. */
static char *format_value(const json_t *value, int digits)
{
	return value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT |
						 JSON_REAL_PRECISION((size_t)digits))
		     : strdup("missing");
}

static int fail_difference(const char *path, const char *key, const json_t *there,
			   const json_t *here, struct lh_error *err)
{
	static const int digits[] = {6, 15, 17};
	char *a = NULL, *b = NULL;

	for (size_t i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
		free(a);
		free(b);
		a = format_value(there, digits[i]);
		b = format_value(here, digits[i]);
		if (!a || !b || strcmp(a, b) != 0)
			break;
	}
	lh_fail(err, LH_EINPUT, 0, "%s is of other settings: %s is %.200s there, %.200s here", path,
		key, a ? a : "?", b ? b : "?");
	free(a);
	free(b);
	return LH_EINPUT;
}

static int compare(const char *path, const char *key, const json_t *there, const json_t *here,
		   struct lh_error *err);

/* Both ways, so that keys that only one has are found. */
static int compare_objects(const char *path, const char *key, const json_t *there,
			   const json_t *here, struct lh_error *err)
{
	const json_t *const sides[] = {here, there};
	const char *name;
	json_t *value;

	for (int side = 0; side < 2; side++)
		json_object_foreach ((json_t *)(uintptr_t)sides[side], name, value) {
			lh_cleanup_free char *inner = lh_strf("%s.%s", key, name);
			int rc = compare(path, inner ? inner : name, json_object_get(there, name),
					 json_object_get(here, name), err);

			if (rc)
				return rc;
		}
	return 0;
}

static int compare(const char *path, const char *key, const json_t *there, const json_t *here,
		   struct lh_error *err)
{
	if (json_is_object(there) && json_is_object(here))
		return compare_objects(path, key, there, here, err);
	if (json_is_number(there) && json_is_number(here) &&
	    json_is_integer(there) != json_is_integer(here) &&
	    json_number_value(there) == json_number_value(here))
		return 0;
	return json_equal(there, here) ? 0 : fail_difference(path, key, there, here, err);
}

static int check_settings(const char *path, const struct lh_safetensors *file,
			  const json_t *settings, struct lh_error *err)
{
	lh_cleanup_json json_t *there = NULL;
	int rc = load_json(path, file, LH_CHECKPOINT_SETTINGS_KEY, &there, err);

	return rc || !settings ? rc
			       : compare(path, LH_CHECKPOINT_SETTINGS_KEY, there, settings, err);
}

/* *ret_steps: of the optimizer in the file. */
static int check_optimizer(const char *path, const struct lh_safetensors *file,
			   const struct lh_optimizer *optimizer, uint64_t *ret_steps,
			   struct lh_error *err)
{
	lh_cleanup_json json_t *there = NULL;
	lh_cleanup_json json_t *here = lh_checkpoint_describe_optimizer(optimizer);
	const json_t *steps;
	int rc = load_json(path, file, LH_CHECKPOINT_OPTIMIZER_KEY, &there, err);

	if (rc)
		return rc;
	steps = json_object_get(there, "steps");
	if (!json_is_integer(steps) || json_integer_value(steps) < 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: optimizer.steps: expected a whole number",
			       path);
	*ret_steps = (uint64_t)json_integer_value(steps);
	json_object_del(there, "steps");
	json_object_del(here, "steps");
	return compare(path, LH_CHECKPOINT_OPTIMIZER_KEY, there, here, err);
}

/* "F32 [2,3]" */
static void format_shape(const char *type, uint32_t n_dims, const int64_t *dims, char *ret_text,
			 size_t size)
{
	size_t at = (size_t)snprintf(ret_text, size, "%s [", type);

	for (uint32_t i = 0; i < n_dims && at < size; i++)
		at += (size_t)snprintf(ret_text + at, size - at, "%s%" PRId64, i ? "," : "",
				       dims[i]);
	if (at < size)
		snprintf(ret_text + at, size - at, "]");
}

static int check_tensor(const char *path, const struct lh_safetensors *file,
			const struct lh_safetensor_entry *entry, struct lh_error *err)
{
	const struct lh_safetensor *tensor = lh_safetensors_find(file, entry->name);
	char there[160], here[160];

	if (!tensor)
		return lh_fail(err, LH_EINPUT, 0, "%s is of another model: it has no tensor %s",
			       path, entry->name);
	if (tensor->is_known && tensor->dtype == entry->dtype && tensor->n_dims == entry->n_dims &&
	    memcmp(tensor->dims, entry->dims, entry->n_dims * sizeof(*entry->dims)) == 0)
		return 0;
	format_shape(tensor->format, tensor->n_dims, tensor->dims, there, sizeof(there));
	format_shape(lh_safetensors_type_name(entry->dtype), entry->n_dims, entry->dims, here,
		     sizeof(here));
	return lh_fail(err, LH_EINPUT, 0, "%s is of another model: tensor %s is %s there, %s here",
		       path, entry->name, there, here);
}

static bool is_wanted(const struct lh_checkpoint_items *items, const char *name)
{
	for (size_t i = 0; i < items->n; i++)
		if (strcmp(items->entries[i].name, name) == 0)
			return true;
	return false;
}

static int check_tensors(const char *path, const struct lh_safetensors *file,
			 const struct lh_checkpoint_items *items, bool has_optimizer,
			 struct lh_error *err)
{
	size_t n, prefix = strlen(LH_CHECKPOINT_OPTIMIZER_PREFIX);
	const struct lh_safetensor *tensors = lh_safetensors_list(file, &n);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < items->n; i++)
		rc = check_tensor(path, file, &items->entries[i], err);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const char *name = tensors[i].name;

		if (!has_optimizer && strncmp(name, LH_CHECKPOINT_OPTIMIZER_PREFIX, prefix) == 0)
			continue;
		if (!is_wanted(items, name))
			rc = lh_fail(err, LH_EINPUT, 0,
				     "%s is of another model: its tensor %s is not known here",
				     path, name);
	}
	return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_tensors(const struct lh_safetensors *file, struct lh_device *device,
			const struct lh_checkpoint_items *items, struct lh_error *err)
{
	lh_cleanup_free void *buffer = malloc(LH_CHECKPOINT_CHUNK_BYTES);
	int rc = 0;

	if (!buffer)
		return lh_fail(err, LH_ESYS, ENOMEM, "read a checkpoint");
	for (size_t k = 0; k < items->n; k++) {
		const struct lh_safetensor *tensor =
			lh_safetensors_find(file, items->entries[k].name);
		int64_t bytes = (int64_t)lh_dtype_bytes(tensor->dtype);
		int64_t chunk = LH_CHECKPOINT_CHUNK_BYTES / bytes;

		for (int64_t i = 0; i < tensor->n; i += chunk) {
			int64_t n = tensor->n - i < chunk ? tensor->n - i : chunk;

			rc = lh_safetensors_read(file, tensor, i, n, buffer, err);
			if (rc == 0)
				rc = device->ops->write(device,
							(char *)items->memory[k] + i * bytes,
							tensor->dtype, buffer, n, err);
			if (rc)
				return rc;
		}
	}
	return 0;
}

int lh_checkpoint_read(const char *path, struct lh_graph *graph, struct lh_optimizer *optimizer,
		       const json_t *settings, json_t **ret_progress, struct lh_error *err)
{
	lh_cleanup_json json_t *progress = NULL;
	struct lh_checkpoint_items items = {0};
	struct lh_safetensors *file;
	uint64_t steps = 0;
	int rc = open_whole(path, &file, err);

	if (rc)
		return rc;
	rc = check_settings(path, file, settings, err);
	if (rc == 0)
		rc = load_json(path, file, LH_CHECKPOINT_PROGRESS_KEY, &progress, err);
	if (rc == 0 && optimizer)
		rc = check_optimizer(path, file, optimizer, &steps, err);
	if (rc == 0)
		rc = lh_checkpoint_items_list(graph, optimizer, &items, err);
	if (rc == 0)
		rc = check_tensors(path, file, &items, optimizer != NULL, err);
	if (rc == 0)
		rc = read_tensors(file, lh_graph_device(graph), &items, err);
	if (rc == 0 && optimizer)
		lh_optimizer_set_steps(optimizer, steps);
	if (rc == 0)
		*ret_progress = lh_steal(&progress);
	lh_checkpoint_items_done(&items);
	lh_safetensors_close(file);
	return rc;
}
