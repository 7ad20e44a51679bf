/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding YAML to structs by field tables. See bind.h; single values are in bind_value.c, kinds in
 * bind_kind.c, the schema is in schema_json.c.
 */
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/nearest.h"
#include "scenarios/bind_internal.h"

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

static void bind_items(const struct lh_bind_site *s, size_t *count)
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
		*ret_name = f->flags & LH_FIELD_OR_KIND ? "a word or a mapping (kind: word, ...)"
							: "a mapping (key: value)";
		return LH_YAML_MAPPING;
	case LH_FIELD_LIST:
	case LH_FIELD_STRINGS:
	case LH_FIELD_INTEGERS:
		*ret_name = "a list ([...] or - ...)";
		return LH_YAML_SEQUENCE;
	default:
		*ret_name = "a single value";
		return LH_YAML_SCALAR;
	}
}

static void bind_section(const struct lh_section *section, const struct lh_section *rival,
			 struct lh_yaml *value, const char *path, void *out, struct lh_diag *diag);

/* Binds to the one of a field's two sections that the mapping is. */
static void bind_alternative(const struct lh_bind_site *s)
{
	const struct lh_field *f = s->field;
	bool is_other = f->other && lh_yaml_get(s->value, f->other_key);

	bind_section(is_other ? f->other : f->section, is_other ? f->section : f->other, s->value,
		     s->path, s->at, s->diag);
}

/* A word where there might be a list of them. */
static void bind_one_string(const struct lh_bind_site *s, size_t *count)
{
	char **list = calloc(1, sizeof(*list));

	*(char ***)s->at = list;
	s->value->quoted = true;
	if (list)
		list[(*count)++] = strdup(s->value->text);
}

static void bind_value(const struct lh_bind_site *s, void *out)
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
	case LH_FIELD_STRINGS:
	case LH_FIELD_INTEGERS:
		lh_bind_list(s, count);
		break;
	case LH_FIELD_SECTION:
		bind_alternative(s);
		break;
	case LH_FIELD_LIST:
	case LH_FIELD_MAP:
		bind_items(s, count);
		break;
	default:
		lh_bind_scalar(s);
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

/* Puts a default, as a user would write it, into the tree. */
static void set_fallback(const struct lh_field *f, struct lh_yaml *map, const char *text,
			 struct lh_diag *diag)
{
	struct lh_error err = {0};
	struct lh_yaml *value = NULL;
	const char *name;

	if (field_kind(f, &name) == LH_YAML_SEQUENCE)
		lh_yaml_parse(f->key, text, strlen(text), &value, diag, &err);
	else
		value = lh_yaml_scalar(text, map->pos);
	lh_yaml_set(map, f->key, value);
}

/* Makes of a word, which is a section's kind, the section. */
static void expand_kind(const struct lh_field *f, struct lh_yaml *map)
{
	const struct lh_yaml *word = lh_yaml_get(map, f->key);
	struct lh_yaml *section = word ? lh_yaml_mapping(word->pos) : NULL;

	if (!word || word->kind != LH_YAML_SCALAR || !section ||
	    lh_yaml_set(section, "kind", lh_yaml_copy(word)) < 0)
		lh_yaml_free(section);
	else
		lh_yaml_set(map, f->key, section);
}

/* kind: what the section is, as bits; 0: it has no kinds, or an unknown one. */
static void bind_field(const struct lh_field *f, unsigned kind, struct lh_yaml *map,
		       const char *path, void *out, struct lh_diag *diag)
{
	lh_cleanup_free char *key_path = lh_strf("%s%s%s", path, *path ? "." : "", f->key);
	void *at = (char *)out + f->offset;
	struct lh_yaml *value = lh_yaml_get(map, f->key);
	const char *fallback = lh_field_fallback(f, kind, map);
	struct lh_bind_site s = {f, value, key_path ? key_path : path, diag, at};

	set_absent(f, at);
	if (!lh_field_is_of(f, kind))
		return;
	if (!value && (f->flags & LH_FIELD_REQUIRED)) {
		lh_diag_add(diag, map->pos, s.path, "is missing; %s", f->doc);
		return;
	}
	if (!value && !fallback && f->type == LH_FIELD_SECTION) {
		bind_absent_section(f, map, s.path, at, diag);
		return;
	}
	if (!value && fallback)
		set_fallback(f, map, fallback, diag);
	if (f->flags & LH_FIELD_OR_KIND)
		expand_kind(f, map);
	s.value = lh_yaml_get(map, f->key);
	if (s.value)
		bind_value(&s, out);
}

/* Says that a key, which the section has for other kinds, does not belong to this one. */
static void refuse_kind(const struct lh_section *section, const struct lh_field *f,
			const struct lh_yaml *map, struct lh_pos pos, const char *path,
			struct lh_diag *diag)
{
	char kinds[256];

	lh_kinds_format(section, f->kinds, kinds, sizeof(kinds));
	lh_diag_add(diag, pos, path, "%s has no such parameter; it belongs to %s",
		    lh_yaml_get(map, "kind")->text, kinds);
}

/* rival: the section that could stand in the same place; NULL: none. */
static void refuse_keys(const struct lh_section *section, const struct lh_section *rival,
			unsigned kind, const struct lh_yaml *map, const char *path,
			struct lh_diag *diag)
{
	for (size_t i = 0; i < map->n_entries; i++) {
		const struct lh_yaml_entry *e = &map->entries[i];
		const struct lh_field *f = lh_field_find(section, e->key);
		lh_cleanup_free char *key_path = lh_strf("%s%s%s", path, *path ? "." : "", e->key);
		const char *near;

		if (f && !lh_field_is_of(f, kind))
			refuse_kind(section, f, map, e->key_pos, key_path, diag);
		if (f)
			continue;
		if (rival && lh_field_find(rival, e->key)) {
			lh_diag_add(diag, e->key_pos, key_path,
				    "unknown key in %s; it belongs to %s", section->name,
				    rival->name);
			continue;
		}
		near = lh_nearest(e->key, lh_section_key_at, section);
		lh_diag_add(diag, e->key_pos, key_path, "unknown key in %s%s%s%s", section->name,
			    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	}
}

static void bind_section(const struct lh_section *section, const struct lh_section *rival,
			 struct lh_yaml *value, const char *path, void *out, struct lh_diag *diag)
{
	unsigned kind;

	if (section->pos_offset != LH_NO_OFFSET)
		*(struct lh_pos *)((char *)out + section->pos_offset) = value->pos;
	if (value->kind != LH_YAML_MAPPING) {
		lh_diag_add(diag, value->pos, path, "expected %s, a mapping (key: value)",
			    section->name);
		return;
	}
	kind = lh_section_kind(section, value);
	refuse_keys(section, rival, kind, value, path, diag);
	for (const struct lh_field *f = section->fields; f->key; f++)
		bind_field(f, kind, value, path, out, diag);
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
		case LH_FIELD_INTEGERS:
			free(*(int64_t **)at);
			*(int64_t **)at = NULL;
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
