/* SPDX-License-Identifier: Apache-2.0 */
/* A whole file in memory, read-only, by mmap. A file must not shrink while it is open. */
#ifndef LH_TRAINER_DATA_MAP_H
#define LH_TRAINER_DATA_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct lh_map {
	const uint8_t *data;
	size_t size;
};

/* Maps a regular file that is not empty; allocates nothing. LH_ESYS, LH_EINPUT. */
int lh_map_open(const char *path, struct lh_map *ret, struct lh_error *err);

void lh_map_close(struct lh_map *map);

#endif
