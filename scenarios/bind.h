/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field tables: one table per section binds YAML to a struct, checks it, fills in
 * defaults, documents it and makes the JSON Schema. Private to the scenario room.
 */
#ifndef LH_SCENARIOS_BIND_H
#define LH_SCENARIOS_BIND_H

#include <jansson.h>

#include "core/error.h"
#include "core/yaml.h"

enum lh_field_type {
	LH_FIELD_VERSION,    /* the format's version, 1; bound to nothing */
	LH_FIELD_STRING,     /* char * */
	LH_FIELD_INTEGER,    /* int64_t */
	LH_FIELD_NUMBER,     /* double */
	LH_FIELD_BOOLEAN,    /* bool */
	LH_FIELD_DURATION,   /* int64_t ns */
	LH_FIELD_RATE,	     /* int64_t bit/s */
	LH_FIELD_SIZE,	     /* int64_t bytes */
	LH_FIELD_USD_HOUR,   /* int64_t micro-USD per hour */
	LH_FIELD_BYTE_PRICE, /* struct lh_byte_price */
	LH_FIELD_RATIO,	     /* double 0..1 */
	LH_FIELD_QUEUE,	     /* struct lh_queue_size */
	LH_FIELD_CHOICE,     /* int, from choices */
	LH_FIELD_WORD,	     /* char *, one of choices (their value is not used) */
	LH_FIELD_STRINGS,    /* char **, with a count */
	LH_FIELD_SECTION,    /* struct */
	LH_FIELD_LIST,	     /* array of structs, with a count */
	LH_FIELD_MAP,	     /* array of structs keyed by name, with a count */
	LH_FIELD_TREE,	     /* struct lh_yaml *, borrowed; for what is bound elsewhere */
};

enum {
	LH_FIELD_REQUIRED = 1,
	LH_FIELD_OR_FILE =
		2, /* a list that may be named by a file, and whose items may be numbers */
	LH_FIELD_OR_ONE = 4, /* STRINGS: one word may stand without its list */
};

struct lh_choice {
	const char *name;
	int value;
};

struct lh_section;

struct lh_field {
	const char *key;
	enum lh_field_type type;
	int flags;
	size_t offset;
	size_t count_offset;		 /* STRINGS, LIST, MAP: of the size_t */
	const char *fallback;		 /* as the user would write it; NULL: none */
	int64_t min;			 /* INTEGER and quantities: least value */
	int64_t max;			 /* 0: no bound */
	const struct lh_choice *choices; /* ends with name NULL */
	const struct lh_section *section;
	const struct lh_section *other; /* SECTION: binds in its stead where other_key stands */
	const char *other_key;
	const char *doc;
};

#define LH_NO_OFFSET ((size_t)-1)

struct lh_section {
	const char *name;
	const char *doc;
	size_t size;
	size_t name_offset;	       /* in a MAP: where the key goes (char *), or LH_NO_OFFSET */
	const char *name_key;	       /* in a MAP: the key inside that repeats the name, or NULL */
	size_t pos_offset;	       /* struct lh_pos, or LH_NO_OFFSET */
	const struct lh_field *fields; /* ends with key NULL */
};

/*
 * Binds value to the zeroed struct out. Absent optional values become -1 (numbers), NULL
 * or 0; fallbacks are also written into the tree. Faults go to diag. path is the key path
 * so far ("" at the root). Release with lh_unbind, whatever the outcome.
 */
void lh_bind(const struct lh_section *section, struct lh_yaml *value, const char *path, void *out,
	     struct lh_diag *diag);

/* Frees what lh_bind allocated in out (not out itself). */
void lh_unbind(const struct lh_section *section, void *out);

/* The JSON Schema of a section; owned by the caller. */
json_t *lh_section_schema(const struct lh_section *section);

#endif
