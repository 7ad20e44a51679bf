/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The regular files of a tar archive in memory: ustar, GNU's and pax's long names and sizes.
 * Sparse files are refused; folders and links are passed over.
 * Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar's
 * manual, "Basic Tar Format".
 */
#ifndef LH_TRAINER_DATA_TAR_H
#define LH_TRAINER_DATA_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum { LH_TAR_NAME_MAX = 4096 };

/* A walk through an archive; also holds the member that it has come to. */
struct lh_tar {
	const char *path; /* for messages, borrowed */
	const uint8_t *data;
	size_t size;
	size_t at;
	uint64_t n_members; /* come to so far */
	char name[LH_TAR_NAME_MAX];
	const uint8_t *content;
	size_t content_size;
	bool has_long_name; /* of the member to come */
	bool has_long_size;
	uint64_t long_size;
};

void lh_tar_init(struct lh_tar *tar, const char *path, const uint8_t *data, size_t size);

/* Goes to the next regular file: 1, with name and content set; 0 at the archive's end;
 * LH_EINPUT names archive and member. Allocates nothing. */
int lh_tar_next(struct lh_tar *tar, struct lh_error *err);

#endif
