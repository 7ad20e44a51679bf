/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Schema (draft-07) of a scenario, made from the field tables. */
#include "core/cleanup.h"
#include "scenarios/bind.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"

/* A decimal number, white space, one of the units. */
#define QUANTITY(units) "^[0-9]*\\.?[0-9]+[ \\t]*(" units ")$"

static json_t *string_pattern(const char *pattern)
{
	return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

static json_t *choices_schema(const struct lh_choice *choices)
{
	json_t *names = json_array();

	for (const struct lh_choice *c = choices; c->name; c++)
		json_array_append_new(names, json_string(c->name));
	return json_pack("{s:o}", "enum", names);
}

static json_t *integer_schema(const struct lh_field *f)
{
	json_t *schema = json_pack("{s:s, s:I}", "type", "integer", "minimum", (json_int_t)f->min);

	if (f->max)
		json_object_set_new(schema, "maximum", json_integer(f->max));
	return schema;
}

static json_t *number_schema(const struct lh_field *f)
{
	bool is_open = (f->flags & LH_FIELD_BELOW_MAX) != 0;
	json_t *schema = json_pack("{s:s, s:i}", "type", "number",
				   f->flags & LH_FIELD_ABOVE_0 ? "exclusiveMinimum" : "minimum", 0);

	if (f->max)
		json_object_set_new(schema, is_open ? "exclusiveMaximum" : "maximum",
				    json_integer(f->max));
	return schema;
}

static json_t *ratio_schema(const struct lh_field *f)
{
	return json_pack("{s:[{s:s, s:i, s:i}, o]}", "anyOf", "type", "number",
			 f->flags & LH_FIELD_ABOVE_0 ? "exclusiveMinimum" : "minimum", 0, "maximum",
			 1, string_pattern(QUANTITY("%")));
}

static json_t *words_schema(const struct lh_field *f)
{
	if (f->flags & LH_FIELD_OR_FILE)
		return json_pack("{s:[{s:s}, {s:s, s:{s:[s,s]}}]}", "anyOf", "type", "string",
				 "type", "array", "items", "type", "string", "number");
	if (f->flags & LH_FIELD_OR_ONE)
		return json_pack("{s:[{s:s}, {s:s, s:{s:s}}]}", "anyOf", "type", "string", "type",
				 "array", "items", "type", "string");
	return json_pack("{s:s, s:o}", "type", "array", "items",
			 f->choices ? choices_schema(f->choices)
				    : json_pack("{s:s}", "type", "string"));
}

/* A section, or one of two, or a word in its stead. */
static json_t *either_schema(const struct lh_field *f)
{
	if (f->flags & LH_FIELD_OR_KIND)
		return json_pack("{s:[o, o]}", "anyOf",
				 choices_schema(lh_field_find(f->section, "kind")->choices),
				 lh_section_schema(f->section));
	return f->other ? json_pack("{s:[o, o]}", "anyOf", lh_section_schema(f->section),
				    lh_section_schema(f->other))
			: lh_section_schema(f->section);
}

static json_t *map_schema(const struct lh_section *section)
{
	return json_pack("{s:s, s:o}", "type", "object", "additionalProperties",
			 lh_section_schema(section));
}

static json_t *field_schema(const struct lh_field *f)
{
	switch (f->type) {
	case LH_FIELD_VERSION:
		return json_pack("{s:i}", "const", 1);
	case LH_FIELD_STRING:
		return json_pack("{s:[s,s]}", "type", "string", "number");
	case LH_FIELD_INTEGER:
		return integer_schema(f);
	case LH_FIELD_NUMBER:
		return number_schema(f);
	case LH_FIELD_BOOLEAN:
		return json_pack("{s:s}", "type", "boolean");
	case LH_FIELD_DURATION:
		return string_pattern(QUANTITY("ns|us|ms|s|min|h"));
	case LH_FIELD_RATE:
		return string_pattern(QUANTITY("[kMGT]?bit/s|[kMG]?B/s|[KMG]iB/s"));
	case LH_FIELD_SIZE:
		return string_pattern(QUANTITY("[kMGT]?B|[KMGT]iB"));
	case LH_FIELD_USD_HOUR:
		return string_pattern(QUANTITY("USD/h"));
	case LH_FIELD_BYTE_PRICE:
		return string_pattern(QUANTITY("USD/GB|USD/GiB"));
	case LH_FIELD_RATIO:
		return ratio_schema(f);
	case LH_FIELD_QUEUE:
		return string_pattern(QUANTITY("ns|us|ms|s|min|h|[kMGT]?B|[KMGT]iB|packets?|BDP"));
	case LH_FIELD_CHOICE:
	case LH_FIELD_WORD:
		return choices_schema(f->choices);
	case LH_FIELD_STRINGS:
		return words_schema(f);
	case LH_FIELD_INTEGERS:
		return json_pack("{s:s, s:i, s:i, s:o}", "type", "array", "minItems", 1, "maxItems",
				 LH_FIELD_INTEGERS_MAX, "items", integer_schema(f));
	case LH_FIELD_SECTION:
		return either_schema(f);
	case LH_FIELD_LIST:
		return json_pack("{s:s, s:o}", "type", "array", "items",
				 lh_section_schema(f->section));
	case LH_FIELD_MAP:
		return map_schema(f->section);
	case LH_FIELD_TREE:
		break;
	}
	return json_object();
}

/* Catalogs may be named by a file instead of standing inline. */
static bool may_be_a_file(const struct lh_field *f)
{
	return f->section == &lh_network_section || f->section == &lh_prices_section;
}

json_t *lh_section_schema(const struct lh_section *section)
{
	json_t *properties = json_object();
	json_t *required = json_array();
	json_t *schema;

	for (const struct lh_field *f = section->fields; f->key; f++) {
		lh_cleanup_free char *text = NULL;
		json_t *s;

		if (!lh_field_exists(section, f))
			continue;
		text = lh_field_describe(section, f);
		s = field_schema(f);
		if (may_be_a_file(f))
			s = json_pack("{s:[{s:s}, o]}", "anyOf", "type", "string", s);
		json_object_set_new(s, "description", json_string(text ? text : f->doc));
		if (f->fallback && !f->fallbacks)
			json_object_set_new(s, "default", json_string(f->fallback));
		json_object_set_new(properties, f->key, s);
		if ((f->flags & LH_FIELD_REQUIRED) && f->key != section->name_key)
			json_array_append_new(required, json_string(f->key));
	}
	schema = json_pack("{s:s, s:s, s:b, s:o}", "type", "object", "description", section->doc,
			   "additionalProperties", 0, "properties", properties);
	if (json_array_size(required))
		json_object_set_new(schema, "required", required);
	else
		json_decref(required);
	return schema;
}

json_t *lh_scenario_schema(void)
{
	json_t *schema =
		json_pack("{s:s, s:s}", "$schema", "http://json-schema.org/draft-07/schema#",
			  "title", "longhaul scenario");
	json_t *body = lh_section_schema(&lh_scenario_section);

	json_object_update(schema, body);
	json_decref(body);
	return schema;
}
