/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup (v2) whose sockets obey the window program. Private to the emulator. */
#ifndef LH_EMULATOR_CGROUP_H
#define LH_EMULATOR_CGROUP_H

#include <stdbool.h>

#include "core/error.h"

/*
 * Finds the cgroup whose sockets are ours: the root where the kernel is ours alone,
 * otherwise a new one that this process moves into. *ret_path is owned; release it with
 * lh_cgroup_leave. LH_EENV where there is no cgroup v2.
 */
int lh_cgroup_enter(bool owns_kernel, char **ret_path, struct lh_error *err);

/* Removes the cgroups of processes that are gone. */
void lh_cgroup_remove_stale(void);

/* Moves back and removes the cgroup; frees path. NULL is fine. */
void lh_cgroup_leave(char *path);

#endif
