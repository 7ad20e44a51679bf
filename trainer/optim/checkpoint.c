/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints hold, and writing them. See checkpoint.h. */
#include "trainer/optim/checkpoint.h"

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

/* Enough digits for every double to come back. */
enum { JSON_FORM = JSON_COMPACT | JSON_REAL_PRECISION(17) };

/* ---- what they hold -------------------------------------------------------------------------- */

static bool is_kept(const struct lh_tensor *tensor)
{
	return !tensor->view_of && (tensor->role == LH_PARAMETER || tensor->role == LH_STATE);
}

/* name becomes the items'. */
static int add_item(struct lh_checkpoint_items *items, const struct lh_tensor *tensor, char *name,
		    void *memory, struct lh_error *err)
{
	struct lh_safetensor_entry *entry = &items->entries[items->n];

	if (!name)
		return lh_fail(err, LH_ESYS, ENOMEM, "list the tensors of a checkpoint");
	*entry = (struct lh_safetensor_entry){
		.name = name, .dtype = tensor->dtype, .n_dims = tensor->n_dims};
	memcpy(entry->dims, tensor->dims, sizeof(entry->dims));
	items->memory[items->n++] = memory;
	return 0;
}

static int add_states(struct lh_checkpoint_items *items, const struct lh_optimizer *optimizer,
		      uint32_t k, const struct lh_graph *graph, struct lh_error *err)
{
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(graph, &n);
	char *state = lh_optimizer_state(optimizer, k);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		const struct lh_tensor *tensor = tensors[i];

		if (!is_kept(tensor) || tensor->role != LH_PARAMETER)
			continue;
		rc = add_item(items, tensor,
			      lh_strf("%s%s.%s", LH_CHECKPOINT_OPTIMIZER_PREFIX,
				      lh_optimizer_kind(optimizer)->state_names[k], tensor->name),
			      state + tensor->at * (int64_t)lh_dtype_bytes(tensor->dtype), err);
	}
	return rc;
}

int lh_checkpoint_items_list(const struct lh_graph *graph, const struct lh_optimizer *optimizer,
			     struct lh_checkpoint_items *ret_items, struct lh_error *err)
{
	uint32_t n, n_states = optimizer ? lh_optimizer_n_states(optimizer) : 0;
	struct lh_tensor *const *tensors = lh_graph_tensors(graph, &n);
	size_t size = (size_t)n * (1 + n_states) + 1;
	int rc = 0;

	*ret_items = (struct lh_checkpoint_items){
		.entries = calloc(size, sizeof(*ret_items->entries)),
		.memory = calloc(size, sizeof(*ret_items->memory)),
	};
	if (!ret_items->entries || !ret_items->memory)
		rc = lh_fail(err, LH_ESYS, ENOMEM, "list the tensors of a checkpoint");
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		if (is_kept(tensors[i]))
			rc = add_item(ret_items, tensors[i], strdup(tensors[i]->name),
				      tensors[i]->data, err);
	for (uint32_t k = 0; rc == 0 && k < n_states; k++)
		rc = add_states(ret_items, optimizer, k, graph, err);
	if (rc)
		lh_checkpoint_items_done(ret_items);
	return rc;
}

void lh_checkpoint_items_done(struct lh_checkpoint_items *items)
{
	for (size_t i = 0; i < items->n; i++)
		free((char *)(uintptr_t)items->entries[i].name);
	free(items->entries);
	free(items->memory);
	*items = (struct lh_checkpoint_items){0};
}

json_t *lh_checkpoint_describe_optimizer(const struct lh_optimizer *optimizer)
{
	const struct lh_optimizer_options *o = lh_optimizer_options(optimizer);

	return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:b}",
			 "kind", o->kind, "steps", (json_int_t)lh_optimizer_steps(optimizer), "lr",
			 o->lr, "momentum", o->momentum, "beta1", o->beta1, "beta2", o->beta2,
			 "eps", o->eps, "weight_decay", o->weight_decay, "trust", o->trust,
			 "clip_norm", o->clip_norm, "nesterov", o->nesterov, "decays_all",
			 o->decays_all, "adapts_all", o->adapts_all);
}

/* ---- the checksum ---------------------------------------------------------------------------- */

static int read_exactly(int fd, const char *path, void *ret_data, size_t bytes, int64_t at,
			struct lh_error *err)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(fd, (char *)ret_data + done, bytes - done,
				  (off_t)(at + (int64_t)done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return lh_fail(err, LH_ESYS, errno, "read %s", path);
		if (n == 0)
			return lh_fail(err, LH_EINPUT, 0, "%s ends within its header", path);
		done += (size_t)n;
	}
	return 0;
}

/* The checksum's digits in a header, or NULL. What stands within the texts of settings has its
 * quotation marks escaped, so it is not taken for them. */
static char *find_digits(char *header, size_t size)
{
	char mark[64];
	size_t length = (size_t)snprintf(mark, sizeof(mark), "\"%s\":\"%s",
					 LH_CHECKPOINT_CHECKSUM_KEY, LH_CHECKPOINT_CHECKSUM_NAME);
	char *found = memmem(header, size, mark, length);

	if (!found || (size_t)(header + size - found) < length + LH_CHECKPOINT_DIGITS)
		return NULL;
	return found + length;
}

int lh_checkpoint_add_header(int fd, const char *path, struct lh_crc64 *crc,
			     char ret_digits[LH_CHECKPOINT_DIGITS + 1], int64_t *ret_digits_at,
			     int64_t *ret_data_at, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	uint64_t length = 0;
	char *digits;
	int rc = read_exactly(fd, path, &length, sizeof(length), 0, err);

	if (rc)
		return rc;
	if (length > LH_SAFETENSORS_HEADER_MAX_BYTES)
		return lh_fail(err, LH_EINPUT, 0, "%s has a header of %" PRIu64 " bytes", path,
			       length);
	text = malloc(length + 1);
	if (!text)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	rc = read_exactly(fd, path, text, length, sizeof(length), err);
	if (rc)
		return rc;
	digits = find_digits(text, length);
	if (!digits)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s has no checksum: damaged, or not a checkpoint", path);
	memcpy(ret_digits, digits, LH_CHECKPOINT_DIGITS);
	ret_digits[LH_CHECKPOINT_DIGITS] = '\0';
	memset(digits, '0', LH_CHECKPOINT_DIGITS);
	lh_crc64_add(crc, &length, sizeof(length));
	lh_crc64_add(crc, text, length);
	*ret_digits_at = (int64_t)sizeof(length) + (digits - text);
	*ret_data_at = (int64_t)(sizeof(length) + length);
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int add_json(json_t *metadata, const char *key, const json_t *value, struct lh_error *err)
{
	lh_cleanup_free char *text = json_is_object(value) ? json_dumps(value, JSON_FORM) : NULL;

	if (!text || json_object_set_new(metadata, key, json_string(text)) < 0)
		return lh_fail(err, LH_EINPUT, 0, "a checkpoint's %s: expected an object", key);
	return 0;
}

/* The checksum stands first. */
static int make_metadata(const struct lh_optimizer *optimizer, const json_t *settings,
			 const json_t *progress, json_t **ret_metadata, struct lh_error *err)
{
	lh_cleanup_json json_t *metadata = json_object();
	lh_cleanup_json json_t *described =
		optimizer ? lh_checkpoint_describe_optimizer(optimizer) : NULL;
	int rc = 0;

	json_object_set_new(metadata, LH_CHECKPOINT_CHECKSUM_KEY,
			    json_sprintf("%s%0*d", LH_CHECKPOINT_CHECKSUM_NAME,
					 LH_CHECKPOINT_DIGITS, 0));
	json_object_set_new(metadata, LH_CHECKPOINT_VERSION_KEY,
			    json_sprintf("%d", LH_CHECKPOINT_VERSION));
	if (json_object_size(metadata) != 2)
		return lh_fail(err, LH_ESYS, ENOMEM, "describe a checkpoint");
	rc = add_json(metadata, LH_CHECKPOINT_SETTINGS_KEY, settings, err);
	if (rc == 0)
		rc = add_json(metadata, LH_CHECKPOINT_PROGRESS_KEY, progress, err);
	if (rc == 0 && optimizer)
		rc = add_json(metadata, LH_CHECKPOINT_OPTIMIZER_KEY, described, err);
	if (rc == 0)
		*ret_metadata = lh_steal(&metadata);
	return rc;
}

/* Copies an item from the device to the file. */
static int write_item(struct lh_device *device, const struct lh_safetensor_entry *entry,
		      const void *memory, struct lh_safetensors_writer *writer,
		      struct lh_crc64 *crc, void *buffer, struct lh_error *err)
{
	int64_t element_bytes = (int64_t)lh_dtype_bytes(entry->dtype), n = 1;
	int64_t chunk = LH_CHECKPOINT_CHUNK_BYTES / element_bytes;
	int rc = 0;

	for (uint32_t d = 0; d < entry->n_dims; d++)
		n *= entry->dims[d];
	for (int64_t i = 0; rc == 0 && i < n; i += chunk) {
		int64_t count = n - i < chunk ? n - i : chunk;
		size_t bytes = (size_t)(count * element_bytes);

		rc = device->ops->read(device, (const char *)memory + i * element_bytes,
				       entry->dtype, buffer, count, err);
		if (rc)
			return lh_error_prefix(err, "checkpoint, tensor %s", entry->name);
		lh_crc64_add(crc, buffer, bytes);
		rc = lh_safetensors_append(writer, buffer, bytes, err);
	}
	return rc;
}

static int write_items(struct lh_device *device, const struct lh_checkpoint_items *items,
		       struct lh_safetensors_writer *writer, struct lh_crc64 *crc,
		       struct lh_error *err)
{
	lh_cleanup_free void *buffer = malloc(LH_CHECKPOINT_CHUNK_BYTES);
	int rc = 0;

	if (!buffer)
		return lh_fail(err, LH_ESYS, ENOMEM, "write a checkpoint");
	for (size_t i = 0; rc == 0 && i < items->n; i++)
		rc = write_item(device, &items->entries[i], items->memory[i], writer, crc, buffer,
				err);
	return rc;
}

/* Puts the checksum into a file that is complete but for it, and brings the file to the disk. */
static int seal(int fd, const char *path, const struct lh_crc64 *crc, int64_t digits_at,
		struct lh_error *err)
{
	char digits[LH_CHECKPOINT_DIGITS + 1];

	snprintf(digits, sizeof(digits), "%016" PRIx64, lh_crc64_value(crc));
	if (pwrite(fd, digits, LH_CHECKPOINT_DIGITS, (off_t)digits_at) != LH_CHECKPOINT_DIGITS)
		return lh_fail(err, LH_ESYS, errno, "write %s", path);
	if (fsync(fd) < 0)
		return lh_fail(err, LH_ESYS, errno, "bring %s to the disk", path);
	return 0;
}

/* A whole checkpoint under path, on the disk. */
static int write_file(const char *path, struct lh_device *device,
		      const struct lh_checkpoint_items *items, const json_t *metadata,
		      struct lh_error *err)
{
	lh_cleanup_free struct lh_crc64 *crc = malloc(sizeof(*crc));
	lh_cleanup_close int fd = -1;
	struct lh_safetensors_writer *writer = NULL;
	char digits[LH_CHECKPOINT_DIGITS + 1];
	int64_t digits_at, data_at;
	int rc;

	if (!crc)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	lh_crc64_init(crc);
	rc = lh_safetensors_create(path, items->entries, items->n, metadata, &writer, err);
	if (rc)
		return rc;
	fd = open(path, O_RDWR | O_CLOEXEC);
	rc = fd < 0 ? lh_fail(err, LH_ESYS, errno, "open %s", path)
		    : lh_checkpoint_add_header(fd, path, crc, digits, &digits_at, &data_at, err);
	if (rc == 0)
		rc = write_items(device, items, writer, crc, err);
	if (rc) {
		lh_safetensors_abandon(writer);
		return rc;
	}
	rc = lh_safetensors_finish(writer, false, err);
	return rc ? rc : seal(fd, path, crc, digits_at, err);
}

/* A rename is on the disk when its folder is. */
static int sync_folder(const char *path, struct lh_error *err)
{
	lh_cleanup_free char *folder = lh_path_dirname(path);
	lh_cleanup_close int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd < 0 || fsync(fd) < 0)
		return lh_fail(err, LH_ESYS, errno, "bring the folder of %s to the disk", path);
	return 0;
}

int lh_checkpoint_write(const char *path, const struct lh_graph *graph,
			const struct lh_optimizer *optimizer, const json_t *settings,
			const json_t *progress, struct lh_error *err)
{
	lh_cleanup_free char *part = lh_strf("%s.part", path);
	lh_cleanup_json json_t *metadata = NULL;
	struct lh_checkpoint_items items = {0};
	int rc;

	if (!part)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	rc = make_metadata(optimizer, settings, progress, &metadata, err);
	if (rc == 0)
		rc = lh_checkpoint_items_list(graph, optimizer, &items, err);
	if (rc)
		return rc;
	rc = write_file(part, lh_graph_device(graph), &items, metadata, err);
	lh_checkpoint_items_done(&items);
	if (rc == 0 && rename(part, path) < 0)
		rc = lh_fail(err, LH_ESYS, errno, "rename %s to %s", part, path);
	if (rc) {
		unlink(part);
		return rc;
	}
	return sync_folder(path, err);
}
