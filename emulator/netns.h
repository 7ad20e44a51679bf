/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces held by file descriptors: when the process that holds them ends,
 * however it ends, the kernel takes them back. Private to the emulator.
 */
#ifndef LH_EMULATOR_NETNS_H
#define LH_EMULATOR_NETNS_H

#include "core/error.h"

/* The calling thread's namespace as a descriptor. */
int lh_netns_open_current(int *ret_fd, struct lh_error *err);

/* Makes a new namespace and enters it with the calling thread; *ret_fd holds it. */
int lh_netns_create(int *ret_fd, struct lh_error *err);

/* Enters a namespace with the calling thread. */
int lh_netns_enter(int fd, struct lh_error *err);

/* Writes value to /proc/sys/KEY (with slashes) of the current namespace and reads it back;
 * LH_ESYS when the kernel holds something else. White space is not compared. */
int lh_sysctl_write(const char *key, const char *value, struct lh_error *err);

/* Reads /proc/sys/KEY; white space becomes single blanks; buf holds n_buf bytes. */
int lh_sysctl_read(const char *key, char *buf, size_t n_buf, struct lh_error *err);

#endif
