/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of datasets share among each other. */
#ifndef LH_TRAINER_DATA_DATASET_INTERNAL_H
#define LH_TRAINER_DATA_DATASET_INTERNAL_H

#include <stdbool.h>

#include "core/rng.h"
#include "trainer/data/dataset.h"

/* A kind's open() fills fields, size, n_labels, state and the spec's zeros. */
struct lh_dataset {
	const struct lh_dataset_ops *ops;
	struct lh_data_request spec; /* its strings are owned */
	struct lh_data_field fields[LH_DATA_FIELDS_MAX];
	uint32_t n_fields;
	uint64_t size;
	uint32_t n_labels;
	void *state;
};

extern const struct lh_dataset_ops lh_dataset_mnist, lh_dataset_cifar10, lh_dataset_webdataset,
	lh_dataset_text, lh_dataset_ctr, lh_dataset_speech, lh_dataset_synthetic_images,
	lh_dataset_synthetic_text, lh_dataset_synthetic_ctr, lh_dataset_synthetic_speech;

/* Adds a field; dims beyond n_dims are not read. */
void lh_dataset_add_field(struct lh_dataset *ds, const char *name, enum lh_data_type type,
			  uint32_t n_dims, uint32_t dim0, uint32_t dim1, uint32_t dim2);

/* "train" or "test". */
const char *lh_data_split_name(enum lh_data_split split);

/* Starts the stream of a sample: a function of (seed, purpose, split, epoch, index). */
void lh_data_rng(struct lh_rng *rng, const struct lh_data_request *spec, const char *purpose,
		 uint64_t epoch, uint64_t index);

/*
 * The file of the split: spec.path itself, or spec.path/train SUFFIX where that is a folder
 * (test accordingly). *ret_is_whole says that it is the former. *ret_path is owned.
 */
int lh_data_split_path(const struct lh_data_request *spec, const char *suffix, char **ret_path,
		       bool *ret_is_whole, struct lh_error *err);

/* Of n records of a file that is not split: the split's first one and their number. Fails
 * where that is none. */
int lh_data_split_range(const struct lh_data_request *spec, uint64_t n, uint64_t *ret_first,
			uint64_t *ret_n, struct lh_error *err);

/* Sets *value where it is 0; otherwise it must be `data`, the data's own value. */
int lh_data_agree(uint32_t *value, uint32_t data, const char *what,
		  const struct lh_data_request *spec, struct lh_error *err);

#endif
