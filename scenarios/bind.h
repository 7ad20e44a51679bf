/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field tables: one table per section binds YAML to a struct, checks it, fills in
 * defaults, documents it and makes the JSON Schema. Private to the scenario room.
 */
#ifndef LH_SCENARIOS_BIND_H
#define LH_SCENARIOS_BIND_H

#include <jansson.h>
#include <stdbool.h>

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
	LH_FIELD_STRINGS,    /* char **, with a count; of choices where there are some */
	LH_FIELD_INTEGERS,   /* int64_t *, with a count; min and max hold for each */
	LH_FIELD_SECTION,    /* struct */
	LH_FIELD_LIST,	     /* array of structs, with a count */
	LH_FIELD_MAP,	     /* array of structs keyed by name, with a count */
	LH_FIELD_TREE,	     /* struct lh_yaml *, borrowed; for what is bound elsewhere */
};

enum {
	LH_FIELD_REQUIRED = 1,
	LH_FIELD_OR_FILE =
		2, /* a list that may be named by a file, and whose items may be numbers */
	LH_FIELD_OR_KIND = 4,	 /* a section that may be a word, its kind */
	LH_FIELD_NOT_IN_JOB = 8, /* the trainers are not told */
	LH_FIELD_ABOVE_0 = 16,	 /* a NUMBER or RATIO that must not be 0 */
	LH_FIELD_BELOW_MAX = 32, /* a NUMBER that must not be its max */
	LH_FIELD_OR_ONE = 64,	 /* STRINGS: one word may stand without its list */
};

enum { LH_FIELD_INTEGERS_MAX = 8 };

struct lh_choice {
	const char *name;
	int value;
};

struct lh_section;

/* A default that holds for some kinds, or there where another key has a value. */
struct lh_fallback {
	unsigned kinds;	   /* bits; 0 ends a list */
	const char *where; /* a field that stands before in the table; NULL: everywhere */
	const char *is;	   /* its value */
	const char *text;  /* NULL: none */
};

/*
 * A section may have kinds: the choices of its field `kind`, whose values are bits. Then each field
 * may belong to some kinds alone, and have a default for each. A field of which no kind among the
 * choices is does not exist.
 */
struct lh_field {
	const char *key;
	enum lh_field_type type;
	int flags;
	size_t offset;
	size_t count_offset;		     /* STRINGS, LIST, MAP: of the size_t */
	const char *fallback;		     /* as the user would write it; NULL: none */
	unsigned kinds;			     /* bits of those that have it; 0: all */
	const struct lh_fallback *fallbacks; /* the first that fits goes before fallback */
	int64_t min;			     /* INTEGER and quantities: least value */
	int64_t max;			     /* 0: no bound; NUMBER has this one alone */
	const struct lh_choice *choices;     /* ends with name NULL */
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

/* What the section is by the word under `kind` in map, as bits; 0: it has no kinds, or another
 * stands there. */
unsigned lh_section_kind(const struct lh_section *section, const struct lh_yaml *map);

/* The same by the word itself, which may be NULL. */
unsigned lh_section_kind_named(const struct lh_section *section, const char *word);

/* Writes the names of the section's kinds among bits: "ring, tree". */
void lh_kinds_format(const struct lh_section *section, unsigned kinds, char *buf, size_t n_buf);

/* Whether the field belongs to a kind; true where kind is 0. */
bool lh_field_is_of(const struct lh_field *field, unsigned kind);

/* The section's field of that key, or NULL. */
const struct lh_field *lh_field_find(const struct lh_section *section, const char *key);

/* The key of the section's field i, or NULL at the end: for lh_nearest. */
const char *lh_section_key_at(const void *section, size_t i);

/* What stands for the field where it is absent in map, or NULL. */
const char *lh_field_fallback(const struct lh_field *field, unsigned kind,
			      const struct lh_yaml *map);

/* The field's doc with the kinds that have it, and its defaults where they differ by kind; owned by
 * the caller. */
char *lh_field_describe(const struct lh_section *section, const struct lh_field *field);

/* Whether any kind of the section has it. */
bool lh_field_exists(const struct lh_section *section, const struct lh_field *field);

/* The JSON Schema of a section; owned by the caller. */
json_t *lh_section_schema(const struct lh_section *section);

#endif
