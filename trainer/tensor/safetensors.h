/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of tensors in the safetensors format: 8 bytes with the length of a JSON header
 * (little-endian), the header ({"name": {"dtype", "shape", "data_offsets"}, "__metadata__":
 * {string: string}}), the tensors' bytes without gaps, row-major and little-endian.
 * Source: the format's description in github.com/huggingface/safetensors.
 *
 * Whatever a file holds, reading it is bounded: a header of up to 16 MiB, every offset checked.
 * What is damaged is refused with the file's and the tensor's name.
 */
#ifndef LH_TRAINER_SAFETENSORS_H
#define LH_TRAINER_SAFETENSORS_H

#include <jansson.h>

#include "core/error.h"
#include "trainer/tensor/tensor.h"

enum { LH_SAFETENSORS_HEADER_MAX_BYTES = 16 << 20 };

/* The format's name of a type: "F32". */
const char *lh_safetensors_type_name(enum lh_dtype dtype);

/* A tensor to be written. */
struct lh_safetensor_entry {
	const char *name;
	enum lh_dtype dtype;
	uint32_t n_dims; /* 0: a scalar */
	int64_t dims[LH_TENSOR_DIMS_MAX];
	const void *data; /* on the host; NULL where lh_safetensors_append gives it */
};

/* Writes a whole file, replacing what was there, not atomically. metadata: an object of strings,
 * or NULL. Aligned: the data begin at a multiple of 64 bytes. LH_ESYS; LH_EINPUT for two tensors of
 * one name, or metadata that are not strings. */
int lh_safetensors_write(const char *path, const struct lh_safetensor_entry *entries, size_t n,
			 const json_t *metadata, struct lh_error *err);

/* The same in pieces. */
struct lh_safetensors_writer;

/* Writes the header to a new file. Entries are not used after the call. */
int lh_safetensors_create(const char *path, const struct lh_safetensor_entry *entries, size_t n,
			  const json_t *metadata, struct lh_safetensors_writer **ret_writer,
			  struct lh_error *err);

/* The next bytes of the tensors' data, in the order of the entries. */
int lh_safetensors_append(struct lh_safetensors_writer *writer, const void *data, size_t bytes,
			  struct lh_error *err);

/* Checks that all data have come, and closes the file; is_synced: waits for the disk. Frees writer
 * in any case. */
int lh_safetensors_finish(struct lh_safetensors_writer *writer, bool is_synced,
			  struct lh_error *err);

/* Gives a half-written file up: frees writer, removes the file. NULL is fine. */
void lh_safetensors_abandon(struct lh_safetensors_writer *writer);

/* A tensor in a file. */
struct lh_safetensor {
	const char *name;
	const char *format; /* the file's name of the type: "F32" */
	bool is_known;	    /* dtype holds; others can be listed but not read */
	enum lh_dtype dtype;
	uint32_t n_dims;
	int64_t dims[LH_TENSOR_DIMS_MAX];
	int64_t n;	   /* elements; may be 0 */
	uint64_t at_bytes; /* in the file */
	uint64_t n_bytes;
};

struct lh_safetensors;

/* Opens a file and checks its header. LH_ESYS; LH_EINPUT for what is no such file, or damaged. */
int lh_safetensors_open(const char *path, struct lh_safetensors **ret_file, struct lh_error *err);

void lh_safetensors_close(struct lh_safetensors *file);

/* All tensors, in the order of their data. */
const struct lh_safetensor *lh_safetensors_list(const struct lh_safetensors *file, size_t *ret_n);

/* The tensor of that name, or NULL. */
const struct lh_safetensor *lh_safetensors_find(const struct lh_safetensors *file,
						const char *name);

/* The metadata's text under key, or NULL; owned by the file. */
const char *lh_safetensors_metadata(const struct lh_safetensors *file, const char *key);

/* Reads n elements of a tensor from its element first on. LH_ESYS; LH_EINPUT where the file has
 * become shorter, or the range is not the tensor's. */
int lh_safetensors_read(const struct lh_safetensors *file, const struct lh_safetensor *tensor,
			int64_t first, int64_t n, void *ret_data, struct lh_error *err);

#endif
