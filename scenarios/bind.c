/* SPDX-License-Identifier: Apache-2.0 */
/* Binding YAML to structs by field tables. See bind.h; the schema is in schema_json.c. */
#include "scenarios/bind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/nearest.h"
#include "core/units.h"

static const char *field_key_at(const void *context, size_t i)
{
	return ((const struct lh_field *)context)[i].key;
}

/* The value being bound, for the functions below. */
struct site {
	const struct lh_field *field;
	struct lh_yaml *value;
	const char *path;
	struct lh_diag *diag;
	void *at;
};

static void bind_string(const struct site *s)
{
	*(char **)s->at = strdup(s->value->text);
	s->value->quoted = true; /* a name such as 1.10 is no number in JSON either */
	if (!s->value->text[0])
		lh_diag_add(s->diag, s->value->pos, s->path, "is empty");
}

/* Complains where v is out of the field's bounds. */
static void check_bounds(const struct site *s, int64_t v, const char *shown_min,
			 const char *shown_max)
{
	if (v < s->field->min)
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' is too small; at least %s",
			    s->value->text, shown_min);
	else if (s->field->max && v > s->field->max)
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' is too large; at most %s",
			    s->value->text, shown_max);
}

static void bind_integer(const struct site *s)
{
	char least[32], most[32];
	char *end;
	long long v;

	errno = 0;
	v = strtoll(s->value->text, &end, 10);
	if (end == s->value->text || *end || errno) {
		lh_diag_add(s->diag, s->value->pos, s->path,
			    "'%.60s' is not a whole number; expected one such as 8",
			    s->value->text);
		return;
	}
	*(int64_t *)s->at = v;
	snprintf(least, sizeof(least), "%lld", (long long)s->field->min);
	snprintf(most, sizeof(most), "%lld", (long long)s->field->max);
	check_bounds(s, v, least, most);
}

static void bind_number(const struct site *s)
{
	char *end;
	double v = strtod(s->value->text, &end);

	if (end == s->value->text || *end || !(v >= 0 && v < 1e18)) {
		lh_diag_add(s->diag, s->value->pos, s->path,
			    "'%.60s' is not a number of at least 0", s->value->text);
		*(double *)s->at = 1; /* as in bind_quantity: said once */
		return;
	}
	*(double *)s->at = v;
}

static void bind_boolean(const struct site *s)
{
	const char *t = s->value->text;

	if (strcmp(t, "true") == 0)
		*(bool *)s->at = true;
	else if (strcmp(t, "false") == 0)
		*(bool *)s->at = false;
	else
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s'; expected true or false", t);
}

static void bind_quantity(const struct site *s, enum lh_unit_kind kind)
{
	char why[256], least[64], most[64];
	int64_t v;

	if (lh_unit_parse(kind, s->value->text, &v, why, sizeof(why)) < 0) {
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' %s; expected such as '%s'",
			    s->value->text, why, lh_unit_example(kind));
		/* said once: what is checked later must not stumble over it again */
		*(int64_t *)s->at = s->field->min;
		return;
	}
	*(int64_t *)s->at = v;
	check_bounds(s, v, lh_unit_format(kind, s->field->min, least, sizeof(least)),
		     lh_unit_format(kind, s->field->max, most, sizeof(most)));
}

static void bind_byte_price(const struct site *s)
{
	char why[256];

	if (lh_byte_price_parse(s->value->text, s->at, why, sizeof(why)) < 0)
		lh_diag_add(s->diag, s->value->pos, s->path,
			    "'%.60s' %s; expected such as '0.08 USD/GB'", s->value->text, why);
}

static void bind_ratio(const struct site *s)
{
	char why[256];

	if (lh_ratio_parse(s->value->text, s->at, why, sizeof(why)) < 0)
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' %s; expected such as '5 %%'",
			    s->value->text, why);
}

static void bind_queue(const struct site *s)
{
	struct lh_queue_size *queue = s->at;
	char why[256], most[64];

	if (lh_queue_parse(s->value->text, queue, why, sizeof(why)) < 0)
		lh_diag_add(s->diag, s->value->pos, s->path,
			    "'%.60s' %s; expected such as '50 ms', '1 MB', '1000 packets' or "
			    "'1 BDP'",
			    s->value->text, why);
	else if (queue->unit == LH_QUEUE_TIME && queue->amount > s->field->max)
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' is too large; at most %s",
			    s->value->text,
			    lh_unit_format(LH_UNIT_DURATION, s->field->max, most, sizeof(most)));
}

static void list_choices(const struct lh_choice *choices, char *buf, size_t n_buf)
{
	size_t used = 0;

	buf[0] = '\0';
	for (const struct lh_choice *c = choices; c->name && used < n_buf; c++)
		used += (size_t)snprintf(buf + used, n_buf - used, "%s%s", used ? ", " : "",
					 c->name);
}

static const struct lh_choice *find_choice(const struct site *s)
{
	const struct lh_choice *c = s->field->choices;
	char all[256];

	for (; c->name; c++)
		if (strcmp(c->name, s->value->text) == 0)
			return c;
	list_choices(s->field->choices, all, sizeof(all));
	lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' is unknown; expected %s%s",
		    s->value->text, s->field->choices[1].name ? "one of " : "", all);
	return NULL;
}

static void bind_choice(const struct site *s)
{
	const struct lh_choice *c = find_choice(s);

	if (!c)
		return;
	if (s->field->type == LH_FIELD_CHOICE)
		*(int *)s->at = c->value;
	else
		*(char **)s->at = strdup(c->name);
}

/* A word where there might be a list of them. */
static void bind_one_string(const struct site *s, size_t *count)
{
	char **list = calloc(1, sizeof(*list));

	*(char ***)s->at = list;
	s->value->quoted = true;
	if (list)
		list[(*count)++] = strdup(s->value->text);
}

static void bind_strings(const struct site *s, size_t *count)
{
	char **list = calloc(s->value->n_entries ? s->value->n_entries : 1, sizeof(*list));

	*(char ***)s->at = list;
	for (size_t i = 0; list && i < s->value->n_entries; i++) {
		struct lh_yaml *v = s->value->entries[i].value;

		if (v->kind != LH_YAML_SCALAR) {
			lh_diag_add(s->diag, v->pos, s->path, "expected a word");
			continue;
		}
		v->quoted = true;
		list[(*count)++] = strdup(v->text);
	}
}

/* Makes sure that a MAP's value carries its own name where the section has a key for that. */
static void bind_map_name(const struct lh_section *section, const struct lh_yaml_entry *e,
			  const char *path, struct lh_diag *diag)
{
	const struct lh_yaml *inner = lh_yaml_get(e->value, section->name_key);

	if (!inner) {
		lh_yaml_set(e->value, section->name_key, lh_yaml_scalar(e->key, e->key_pos));
		return;
	}
	if (inner->kind == LH_YAML_SCALAR && strcmp(inner->text, e->key) != 0)
		lh_diag_add(diag, inner->pos, path, "'%.60s' stands under the name '%.60s'",
			    inner->text, e->key);
}

static void bind_items(const struct site *s, size_t *count)
{
	const struct lh_section *section = s->field->section;
	char *items = calloc(s->value->n_entries ? s->value->n_entries : 1, section->size);

	*(void **)s->at = items;
	if (s->field->max && s->value->n_entries > (size_t)s->field->max) {
		lh_diag_add(s->diag, s->value->pos, s->path, "%zu items; at most %lld",
			    s->value->n_entries, (long long)s->field->max);
		return;
	}
	for (size_t i = 0; items && i < s->value->n_entries; i++) {
		struct lh_yaml_entry *e = &s->value->entries[i];
		lh_cleanup_free char *path =
			e->key ? lh_strf("%s.%s", s->path, e->key) : lh_strf("%s[%zu]", s->path, i);
		void *item = items + i * section->size;

		if (e->key && section->name_key && e->value->kind == LH_YAML_MAPPING)
			bind_map_name(section, e, path, s->diag);
		lh_bind(section, e->value, path ? path : s->path, item, s->diag);
		if (e->key && section->name_offset != LH_NO_OFFSET && !section->name_key)
			*(char **)((char *)item + section->name_offset) = strdup(e->key);
		(*count)++;
	}
}

/* The kind of value that a field takes, and how to call it. */
static enum lh_yaml_kind field_kind(const struct lh_field *f, const char **ret_name)
{
	switch (f->type) {
	case LH_FIELD_SECTION:
	case LH_FIELD_MAP:
		*ret_name = "a mapping (key: value)";
		return LH_YAML_MAPPING;
	case LH_FIELD_LIST:
	case LH_FIELD_STRINGS:
		*ret_name = "a list ([...] or - ...)";
		return LH_YAML_SEQUENCE;
	default:
		*ret_name = "a single value";
		return LH_YAML_SCALAR;
	}
}

static void bind_version(const struct site *s)
{
	if (strcmp(s->value->text, "1") != 0)
		lh_diag_add(s->diag, s->value->pos, s->path,
			    "format version '%.20s' is unknown; this longhaul reads version 1",
			    s->value->text);
}

static void bind_section(const struct lh_section *section, const struct lh_section *rival,
			 struct lh_yaml *value, const char *path, void *out, struct lh_diag *diag);

/* Binds to the one of a field's two sections that the mapping is. */
static void bind_alternative(const struct site *s)
{
	const struct lh_field *f = s->field;
	bool is_other = f->other && lh_yaml_get(s->value, f->other_key);

	bind_section(is_other ? f->other : f->section, is_other ? f->section : f->other, s->value,
		     s->path, s->at, s->diag);
}

static void bind_value(const struct site *s, void *out)
{
	size_t *count = (size_t *)((char *)out + s->field->count_offset);
	const char *kind_name;

	if (s->value->kind == LH_YAML_FAILED)
		return;
	if (s->field->type == LH_FIELD_TREE) {
		*(struct lh_yaml **)s->at = s->value;
		return;
	}
	if ((s->field->flags & LH_FIELD_OR_ONE) && s->value->kind == LH_YAML_SCALAR) {
		bind_one_string(s, count);
		return;
	}
	if (s->value->kind != field_kind(s->field, &kind_name)) {
		lh_diag_add(s->diag, s->value->pos, s->path, "expected %s", kind_name);
		return;
	}
	switch (s->field->type) {
	case LH_FIELD_VERSION:
		bind_version(s);
		break;
	case LH_FIELD_STRING:
		bind_string(s);
		break;
	case LH_FIELD_INTEGER:
		bind_integer(s);
		break;
	case LH_FIELD_NUMBER:
		bind_number(s);
		break;
	case LH_FIELD_BOOLEAN:
		bind_boolean(s);
		break;
	case LH_FIELD_DURATION:
		bind_quantity(s, LH_UNIT_DURATION);
		break;
	case LH_FIELD_RATE:
		bind_quantity(s, LH_UNIT_RATE);
		break;
	case LH_FIELD_SIZE:
		bind_quantity(s, LH_UNIT_SIZE);
		break;
	case LH_FIELD_USD_HOUR:
		bind_quantity(s, LH_UNIT_USD_PER_HOUR);
		break;
	case LH_FIELD_BYTE_PRICE:
		bind_byte_price(s);
		break;
	case LH_FIELD_RATIO:
		bind_ratio(s);
		break;
	case LH_FIELD_QUEUE:
		bind_queue(s);
		break;
	case LH_FIELD_CHOICE:
	case LH_FIELD_WORD:
		bind_choice(s);
		break;
	case LH_FIELD_STRINGS:
		bind_strings(s, count);
		break;
	case LH_FIELD_SECTION:
		bind_alternative(s);
		break;
	case LH_FIELD_LIST:
	case LH_FIELD_MAP:
		bind_items(s, count);
		break;
	case LH_FIELD_TREE:
		break;
	}
}

/* What an absent optional value looks like in the struct. */
static void set_absent(const struct lh_field *f, void *at)
{
	switch (f->type) {
	case LH_FIELD_INTEGER:
	case LH_FIELD_DURATION:
	case LH_FIELD_RATE:
	case LH_FIELD_SIZE:
	case LH_FIELD_USD_HOUR:
		*(int64_t *)at = -1;
		break;
	case LH_FIELD_NUMBER:
	case LH_FIELD_RATIO:
		*(double *)at = -1;
		break;
	default:
		break;
	}
}

/* Gives every value of an absent section its fallback or, where the section has none or
 * cannot stand without something required, its "absent" value. */
static void bind_absent_section(const struct lh_field *f, struct lh_yaml *parent, const char *path,
				void *at, struct lh_diag *diag)
{
	struct lh_yaml *empty = lh_yaml_mapping(parent->pos);
	bool has_fallback = false, has_required = false;

	if (!empty)
		return;
	for (const struct lh_field *g = f->section->fields; g->key; g++) {
		set_absent(g, (char *)at + g->offset);
		has_fallback |= g->fallback != NULL;
		has_required |= (g->flags & LH_FIELD_REQUIRED) != 0;
	}
	if (!has_fallback || has_required)
		lh_yaml_free(empty);
	else if (lh_yaml_set(parent, f->key, empty) == 0)
		lh_bind(f->section, empty, path, at, diag);
}

static void bind_field(const struct lh_field *f, struct lh_yaml *map, const char *path, void *out,
		       struct lh_diag *diag)
{
	lh_cleanup_free char *key_path = lh_strf("%s%s%s", path, *path ? "." : "", f->key);
	void *at = (char *)out + f->offset;
	struct lh_yaml *value = lh_yaml_get(map, f->key);
	struct site s = {f, value, key_path ? key_path : path, diag, at};

	set_absent(f, at);
	if (!value && (f->flags & LH_FIELD_REQUIRED)) {
		lh_diag_add(diag, map->pos, s.path, "is missing; %s", f->doc);
		return;
	}
	if (!value && f->type == LH_FIELD_SECTION) {
		bind_absent_section(f, map, s.path, at, diag);
		return;
	}
	if (!value && f->fallback) {
		lh_yaml_set(map, f->key, lh_yaml_scalar(f->fallback, map->pos));
		s.value = lh_yaml_get(map, f->key);
	}
	if (s.value)
		bind_value(&s, out);
}

static bool has_key(const struct lh_section *section, const char *key)
{
	const struct lh_field *f = section ? section->fields : NULL;

	while (f && f->key && strcmp(f->key, key) != 0)
		f++;
	return f && f->key;
}

/* rival: the section that could stand in the same place; NULL: none. */
static void refuse_unknown_keys(const struct lh_section *section, const struct lh_section *rival,
				const struct lh_yaml *map, const char *path, struct lh_diag *diag)
{
	for (size_t i = 0; i < map->n_entries; i++) {
		const struct lh_yaml_entry *e = &map->entries[i];
		lh_cleanup_free char *key_path = lh_strf("%s%s%s", path, *path ? "." : "", e->key);
		const char *near;

		if (has_key(section, e->key))
			continue;
		if (has_key(rival, e->key)) {
			lh_diag_add(diag, e->key_pos, key_path,
				    "unknown key in %s; it belongs to %s", section->name,
				    rival->name);
			continue;
		}
		near = lh_nearest(e->key, field_key_at, section->fields);
		lh_diag_add(diag, e->key_pos, key_path, "unknown key in %s%s%s%s", section->name,
			    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	}
}

static void bind_section(const struct lh_section *section, const struct lh_section *rival,
			 struct lh_yaml *value, const char *path, void *out, struct lh_diag *diag)
{
	if (section->pos_offset != LH_NO_OFFSET)
		*(struct lh_pos *)((char *)out + section->pos_offset) = value->pos;
	if (value->kind != LH_YAML_MAPPING) {
		lh_diag_add(diag, value->pos, path, "expected %s, a mapping (key: value)",
			    section->name);
		return;
	}
	refuse_unknown_keys(section, rival, value, path, diag);
	for (const struct lh_field *f = section->fields; f->key; f++)
		bind_field(f, value, path, out, diag);
}

void lh_bind(const struct lh_section *section, struct lh_yaml *value, const char *path, void *out,
	     struct lh_diag *diag)
{
	bind_section(section, NULL, value, path, out, diag);
}

static void unbind_items(const struct lh_field *f, void *at, size_t count)
{
	char *items = *(char **)at;

	for (size_t i = 0; items && i < count; i++)
		lh_unbind(f->section, items + i * f->section->size);
	free(items);
	*(void **)at = NULL;
}

void lh_unbind(const struct lh_section *section, void *out)
{
	if (section->name_offset != LH_NO_OFFSET && !section->name_key) {
		char **name = (char **)((char *)out + section->name_offset);

		free(*name);
		*name = NULL;
	}
	for (const struct lh_field *f = section->fields; f->key; f++) {
		void *at = (char *)out + f->offset;
		size_t count = f->count_offset ? *(size_t *)((char *)out + f->count_offset) : 0;

		switch (f->type) {
		case LH_FIELD_STRING:
		case LH_FIELD_WORD:
			free(*(char **)at);
			*(char **)at = NULL;
			break;
		case LH_FIELD_STRINGS:
			for (size_t i = 0; i < count; i++)
				free((*(char ***)at)[i]);
			free(*(char ***)at);
			*(char ***)at = NULL;
			break;
		case LH_FIELD_SECTION:
			lh_unbind(f->section, at);
			if (f->other)
				lh_unbind(f->other, at);
			break;
		case LH_FIELD_LIST:
		case LH_FIELD_MAP:
			unbind_items(f, at, count);
			break;
		default:
			break;
		}
	}
}
