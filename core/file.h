/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders: whole-file reads with a bound, atomic writes, paths, temporary folders. */
#ifndef LH_CORE_FILE_H
#define LH_CORE_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* A formatted string, owned by the caller; NULL only when memory is out. */
char *lh_strf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Reads a file of at most max_bytes; *ret_text is NUL-terminated and owned by the caller.
 * ret_size may be NULL. LH_ESYS. */
int lh_file_read(const char *path, size_t max_bytes, char **ret_text, size_t *ret_size,
		 struct lh_error *err);

/* Writes size bytes under path, all or nothing: a temporary file beside it, then a rename. */
int lh_file_write(const char *path, const void *data, size_t size, struct lh_error *err);

/* Writes a JSON value (indented by 2, keys in insertion order, new line at the end) under path. */
int lh_json_write(const char *path, const json_t *value, struct lh_error *err);

/* Reads a JSON file of at most 256 MiB; *ret_value is owned. Errors carry line and column. */
int lh_json_read(const char *path, json_t **ret_value, struct lh_error *err);

bool lh_path_exists(const char *path);

/* The path or, where that exists, PATH-2, PATH-3 ...: the first that does not; owned by the caller.
 */
char *lh_path_unused(const char *path);

/* mkdir -p. */
int lh_dir_make(const char *path, struct lh_error *err);

/* rm -r, following no links; a missing path is fine. */
int lh_dir_remove(const char *path, struct lh_error *err);

/* The folder part of path ("." where there is none); owned by the caller. */
char *lh_path_dirname(const char *path);

/* base/name, or name alone where it is absolute; owned by the caller. */
char *lh_path_join(const char *base, const char *name);

#endif
