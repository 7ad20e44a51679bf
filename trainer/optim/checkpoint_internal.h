/* SPDX-License-Identifier: Apache-2.0 */
/* What writing and reading of checkpoints share. */
#ifndef LH_TRAINER_CHECKPOINT_INTERNAL_H
#define LH_TRAINER_CHECKPOINT_INTERNAL_H

#include "core/crc64.h"
#include "trainer/optim/checkpoint.h"
#include "trainer/tensor/safetensors.h"

enum {
	LH_CHECKPOINT_VERSION = 1,
	LH_CHECKPOINT_CHUNK_BYTES = 1 << 20, /* copied at once between file and device */
	LH_CHECKPOINT_DIGITS = 16,	     /* of the checksum, lower case */
};

/* The metadata's keys. */
static const char LH_CHECKPOINT_VERSION_KEY[] = "longhaul-checkpoint";
static const char LH_CHECKPOINT_CHECKSUM_KEY[] = "checksum";
static const char LH_CHECKPOINT_SETTINGS_KEY[] = "settings";
static const char LH_CHECKPOINT_PROGRESS_KEY[] = "progress";
static const char LH_CHECKPOINT_OPTIMIZER_KEY[] = "optimizer";

/* Before the checksum's digits. */
static const char LH_CHECKPOINT_CHECKSUM_NAME[] = "crc64-xz:";

/* Before the names of the optimizer's tensors. */
static const char LH_CHECKPOINT_OPTIMIZER_PREFIX[] = "optimizer.";

/* Tensors of a graph and an optimizer (NULL: none) with where they lie on the device. */
struct lh_checkpoint_items {
	size_t n;
	struct lh_safetensor_entry *entries; /* names owned */
	void **memory;
};
int lh_checkpoint_items_list(const struct lh_graph *graph, const struct lh_optimizer *optimizer,
			     struct lh_checkpoint_items *ret_items, struct lh_error *err);
void lh_checkpoint_items_done(struct lh_checkpoint_items *items);

/* The optimizer's kind, options and steps; NULL: no memory. */
json_t *lh_checkpoint_describe_optimizer(const struct lh_optimizer *optimizer);

/* Reads the first 8 bytes and the header of fd, adds them to crc with zeros for the checksum's
 * digits, and tells the digits (NUL-terminated) and their place in the file. LH_EINPUT where there
 * are none. */
int lh_checkpoint_add_header(int fd, const char *path, struct lh_crc64 *crc,
			     char ret_digits[LH_CHECKPOINT_DIGITS + 1], int64_t *ret_digits_at,
			     int64_t *ret_data_at, struct lh_error *err);

#endif
