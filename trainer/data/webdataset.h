/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of tar shards as WebDataset groups them: neighbours whose names are equal up to
 * the first dot of their last part are one sample; what follows the dot says what they are.
 */
#ifndef LH_TRAINER_DATA_WEBDATASET_H
#define LH_TRAINER_DATA_WEBDATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* What a member is; of each sample at most one of each. */
enum lh_wds_part { LH_WDS_IMAGE, LH_WDS_WAV, LH_WDS_TXT, LH_WDS_CLS, LH_WDS_N_PARTS };

struct lh_wds_sample {
	uint32_t shard; /* which of the paths it was added from */
	uint32_t has;	/* bit 1 << part */
	const char *key;
	struct {
		const uint8_t *data;
		size_t size;
	} parts[LH_WDS_N_PARTS];
};

/* All samples; plain data, to be zero at first. Content stays in the shards' bytes. */
struct lh_wds_index {
	struct lh_wds_sample *samples;
	size_t n;
	size_t room;
};

/* Adds a shard's samples; path is for messages. LH_EINPUT, LH_ESYS. */
int lh_wds_index_add(struct lh_wds_index *index, uint32_t shard, const char *path,
		     const uint8_t *data, size_t size, struct lh_error *err);

void lh_wds_index_done(struct lh_wds_index *index);

/* Reads a label's text, a decimal number; white space around it is allowed. 0, or -1. */
int lh_wds_label(const uint8_t *text, size_t n, int32_t *ret);

#endif
