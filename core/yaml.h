/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as a tree of values that know where they stand. One document a file; anchors and
 * aliases are expanded within bounds; tags and merge keys are refused. Nothing is typed
 * here: a scalar is its text.
 */
#ifndef LH_CORE_YAML_H
#define LH_CORE_YAML_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

enum lh_yaml_kind {
	LH_YAML_SCALAR,
	LH_YAML_MAPPING,
	LH_YAML_SEQUENCE,
	LH_YAML_FAILED, /* already complained about: nothing more is to be said */
};

/* A value. Owned by its parent; the root by the caller. */
struct lh_yaml {
	enum lh_yaml_kind kind;
	struct lh_pos pos; /* pos.file is owned by this value */
	char *text;	   /* of a scalar */
	bool quoted;
	struct lh_yaml_entry *entries; /* of a mapping or sequence, in the file's order */
	size_t n_entries;
};

struct lh_yaml_entry {
	char *key; /* NULL in a sequence */
	struct lh_pos key_pos;
	struct lh_yaml *value;
};

/*
 * Reads the document in text. name is shown in messages. Faults go to diag with their
 * positions and give LH_EINPUT. *ret_root is owned by the caller.
 */
int lh_yaml_parse(const char *name, const char *text, size_t size, struct lh_yaml **ret_root,
		  struct lh_diag *diag, struct lh_error *err);

/* The same from a file of at most 16 MiB. A file that cannot be read gives LH_ESYS in err. */
int lh_yaml_read(const char *path, struct lh_yaml **ret_root, struct lh_diag *diag,
		 struct lh_error *err);

void lh_yaml_free(struct lh_yaml *value);

/* A new scalar standing at pos; NULL when memory is out. */
struct lh_yaml *lh_yaml_scalar(const char *text, struct lh_pos pos);

/* A new empty mapping standing at pos; NULL when memory is out. */
struct lh_yaml *lh_yaml_mapping(struct lh_pos pos);

/* A deep copy; NULL when memory is out. */
struct lh_yaml *lh_yaml_copy(const struct lh_yaml *value);

/* The value of key in a mapping, or NULL (also when map is not a mapping, or NULL). */
struct lh_yaml *lh_yaml_get(const struct lh_yaml *map, const char *key);

/* Sets key in a mapping, replacing and freeing what was there; takes value over in every
 * case. -1 when memory is out or value is NULL. */
int lh_yaml_set(struct lh_yaml *map, const char *key, struct lh_yaml *value);

/* Copies into map every entry of base that map lacks, descending into mappings that both have. */
int lh_yaml_merge(struct lh_yaml *map, const struct lh_yaml *base);

/* The tree as JSON: unquoted scalars that read as integers, decimals or booleans become such. */
json_t *lh_yaml_to_json(const struct lh_yaml *value);

#endif
