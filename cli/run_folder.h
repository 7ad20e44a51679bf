/* SPDX-License-Identifier: Apache-2.0 */
/* The folder in which a run is made, beside its final place. Private to the command line. */
#ifndef LH_CLI_RUN_FOLDER_H
#define LH_CLI_RUN_FOLDER_H

#include "core/error.h"

/*
 * Makes OUT.partial-XXXXXX and takes a lock on it that ends with this process, however it ends.
 * Folders beside it whose runs were killed are removed: those that nobody holds. LH_EUSAGE where
 * out exists, LH_EENV. *ret_dir is an absolute path, owned by the caller, who closes
 * *ret_lock_fd.
 */
int lh_run_folder_make(const char *out, char **ret_dir, int *ret_lock_fd, struct lh_error *err);

#endif
