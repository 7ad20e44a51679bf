/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: all that training needs to continue bit for bit, in one safetensors file.
 *
 * Tensors: parameters and state under the graph's names; the optimizer's state as
 * "optimizer.<state>.<parameter>". Metadata: "longhaul-checkpoint": the version of the format;
 * "checksum": CRC-64/XZ of the whole file, with zeros in place of its own digits; "settings",
 * "progress" and "optimizer": JSON.
 * A file is written beside its place, brought to the disk and then renamed: there is always a
 * whole one. One process writes into a folder.
 */
#ifndef LH_TRAINER_CHECKPOINT_H
#define LH_TRAINER_CHECKPOINT_H

#include <jansson.h>

#include "core/error.h"
#include "trainer/optim/optimizer.h"

/*
 * Writes path, replacing it atomically.
 * settings: an object of all that a resumed run must agree in: the model's name and its settings,
 * the schedule, seeds, the data. progress: an object of where it is: step, epoch, the sampler's
 * position, the loss scale. optimizer: NULL for a model alone. LH_ESYS: then the file that
 * was there is as it was.
 */
int lh_checkpoint_write(const char *path, const struct lh_graph *graph,
			const struct lh_optimizer *optimizer, const json_t *settings,
			const json_t *progress, struct lh_error *err);

/*
 * Reads path into a graph and an optimizer of the same make, and returns progress as it was
 * written, owned by the caller. Everything is checked before anything is changed: the checksum, the
 * version, settings (not compared where NULL), the optimizer's kind and options, every tensor's
 * name, type and shape. LH_EINPUT with the first difference; LH_ESYS.
 * optimizer NULL: only parameters and state.
 */
int lh_checkpoint_read(const char *path, struct lh_graph *graph, struct lh_optimizer *optimizer,
		       const json_t *settings, json_t **ret_progress, struct lh_error *err);

/* Whether path is a whole checkpoint of a version that this program reads: 0, LH_EINPUT, LH_ESYS.
 * ret_settings and ret_progress may be NULL; else owned by the caller. */
int lh_checkpoint_check(const char *path, json_t **ret_settings, json_t **ret_progress,
			struct lh_error *err);

/* folder/checkpoint-000000001000.safetensors; owned by the caller; NULL: no memory. */
char *lh_checkpoint_path(const char *folder, uint64_t step);

/* The checkpoint of the highest step in folder that is whole, owned by the caller; NULL where there
 * is none. Damaged ones are passed over, with the reason of each in skipped. LH_ESYS. */
int lh_checkpoint_find_latest(const char *folder, char **ret_path, struct lh_diag *skipped,
			      struct lh_error *err);

/* Removes all but the n_kept (1 or more) checkpoints of the highest steps in folder, and what
 * writers that were killed have left. To be called after a write. LH_ESYS. */
int lh_checkpoint_prune(const char *folder, uint32_t n_kept, struct lh_error *err);

#endif
