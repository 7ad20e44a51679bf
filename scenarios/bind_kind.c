/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of several kinds: which fields belong to which, and their defaults. See bind.h. */
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "scenarios/bind.h"

enum { TEXT_MAX_BYTES = 1024 };

static const struct lh_choice no_kinds[] = {{NULL, 0}};

static const struct lh_choice *kinds_of(const struct lh_section *section)
{
	for (const struct lh_field *f = section->fields; f->key; f++)
		if (f->choices && strcmp(f->key, "kind") == 0)
			return f->choices;
	return no_kinds;
}

static unsigned all_kinds(const struct lh_section *section)
{
	unsigned all = 0;

	for (const struct lh_choice *c = kinds_of(section); c->name; c++)
		all |= (unsigned)c->value;
	return all;
}

unsigned lh_section_kind_named(const struct lh_section *section, const char *word)
{
	for (const struct lh_choice *c = kinds_of(section); word && c->name; c++)
		if (strcmp(c->name, word) == 0)
			return (unsigned)c->value;
	return 0;
}

unsigned lh_section_kind(const struct lh_section *section, const struct lh_yaml *map)
{
	const struct lh_yaml *kind = lh_yaml_get(map, "kind");

	return kind && kind->kind == LH_YAML_SCALAR ? lh_section_kind_named(section, kind->text)
						    : 0;
}

void lh_kinds_format(const struct lh_section *section, unsigned kinds, char *buf, size_t n_buf)
{
	size_t used = 0;

	buf[0] = '\0';
	for (const struct lh_choice *c = kinds_of(section); c->name && used < n_buf; c++)
		if ((unsigned)c->value & kinds)
			used += (size_t)snprintf(buf + used, n_buf - used, "%s%s", used ? ", " : "",
						 c->name);
}

bool lh_field_is_of(const struct lh_field *f, unsigned kind)
{
	return !f->kinds || !kind || (f->kinds & kind);
}

bool lh_field_exists(const struct lh_section *section, const struct lh_field *f)
{
	return !f->kinds || (f->kinds & all_kinds(section));
}

const struct lh_field *lh_field_find(const struct lh_section *section, const char *key)
{
	for (const struct lh_field *f = section->fields; f->key; f++)
		if (strcmp(f->key, key) == 0 && lh_field_exists(section, f))
			return f;
	return NULL;
}

const char *lh_section_key_at(const void *context, size_t i)
{
	const struct lh_section *section = context;

	for (const struct lh_field *f = section->fields; f->key; f++)
		if (lh_field_exists(section, f) && i-- == 0)
			return f->key;
	return NULL;
}

const char *lh_field_fallback(const struct lh_field *f, unsigned kind, const struct lh_yaml *map)
{
	for (const struct lh_fallback *b = f->fallbacks; b && b->kinds; b++) {
		const struct lh_yaml *there = b->where ? lh_yaml_get(map, b->where) : NULL;
		bool fits = !b->where || (there && there->kind == LH_YAML_SCALAR &&
					  strcmp(there->text, b->is) == 0);

		if (fits && (b->kinds & kind))
			return b->text;
	}
	return f->fallback;
}

/* Appends what the default is of some kinds, where any of them is there. */
static size_t describe_fallback(const struct lh_section *section, const struct lh_field *f,
				const struct lh_fallback *b, char *text, size_t used)
{
	unsigned of = (f->kinds ? f->kinds : all_kinds(section)) & all_kinds(section);
	char kinds[TEXT_MAX_BYTES];

	if (!(b->kinds & of) || used >= TEXT_MAX_BYTES)
		return used;
	lh_kinds_format(section, b->kinds & of, kinds, sizeof(kinds));
	used += (size_t)snprintf(text + used, TEXT_MAX_BYTES - used, "%s%s", used ? ", " : "",
				 b->text ? b->text : "none");
	if ((b->kinds & of) != of && used < TEXT_MAX_BYTES)
		used += (size_t)snprintf(text + used, TEXT_MAX_BYTES - used, " for %s", kinds);
	if (b->where && used < TEXT_MAX_BYTES)
		used += (size_t)snprintf(text + used, TEXT_MAX_BYTES - used, " where %s is %s",
					 b->where, b->is);
	return used;
}

char *lh_field_describe(const struct lh_section *section, const struct lh_field *f)
{
	unsigned all = all_kinds(section);
	char defaults[TEXT_MAX_BYTES] = "", kinds[TEXT_MAX_BYTES] = "";
	size_t used = 0;

	for (const struct lh_fallback *b = f->fallbacks; b && b->kinds; b++)
		used = describe_fallback(section, f, b, defaults, used);
	if (used && f->fallback && used < TEXT_MAX_BYTES)
		snprintf(defaults + used, TEXT_MAX_BYTES - used, ", else %s", f->fallback);
	if (f->kinds && (f->kinds & all) != all)
		lh_kinds_format(section, f->kinds, kinds, sizeof(kinds));
	return lh_strf("%s%s%s%s%s", f->doc, *kinds ? "; of " : "", kinds, used ? "; default " : "",
		       defaults);
}
