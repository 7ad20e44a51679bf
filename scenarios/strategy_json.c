/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies and compressors for the trainers' job. See strategy_json.h. */
#include "scenarios/strategy_json.h"

#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/strategy_kinds.h"

/* The unit that a key gets where values have none. */
static const char *unit_of(const struct lh_field *f)
{
	switch (f->type) {
	case LH_FIELD_DURATION:
		return "_ns";
	case LH_FIELD_SIZE:
		return "_bytes";
	case LH_FIELD_RATIO:
		return "_ratio";
	default:
		return "";
	}
}

static json_t *integer_or_none(int64_t v)
{
	return v < 0 ? NULL : json_integer((json_int_t)v);
}

static json_t *list_to_json(const struct lh_field *f, const void *at, size_t n)
{
	json_t *list = n ? json_array() : NULL;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, f->type == LH_FIELD_STRINGS
						    ? json_string((*(char *const *const *)at)[i])
						    : json_integer((*(int64_t *const *)at)[i]));
	return list;
}

/* NULL: absent. */
static json_t *value_to_json(const struct lh_field *f, const void *bound)
{
	const void *at = (const char *)bound + f->offset;
	double number;

	switch (f->type) {
	case LH_FIELD_WORD:
		return *(char *const *)at ? json_string(*(char *const *)at) : NULL;
	case LH_FIELD_BOOLEAN:
		return json_boolean(*(const bool *)at);
	case LH_FIELD_INTEGER:
	case LH_FIELD_DURATION:
	case LH_FIELD_SIZE:
		return integer_or_none(*(const int64_t *)at);
	case LH_FIELD_NUMBER:
	case LH_FIELD_RATIO:
		number = *(const double *)at;
		return number < 0 ? NULL : json_real(number);
	case LH_FIELD_STRINGS:
	case LH_FIELD_INTEGERS:
		return list_to_json(f, at,
				    *(const size_t *)((const char *)bound + f->count_offset));
	default:
		return NULL;
	}
}

json_t *lh_kind_to_json(const struct lh_section *section, const void *bound)
{
	const struct lh_field *kind = lh_field_find(section, "kind");
	unsigned bits = lh_section_kind_named(section,
					      *(char *const *)((const char *)bound + kind->offset));
	json_t *object = json_object();

	for (const struct lh_field *f = section->fields; f->key; f++) {
		bool is_of = lh_field_is_of(f, bits) && !(f->flags & LH_FIELD_NOT_IN_JOB);
		json_t *value = is_of ? value_to_json(f, bound) : NULL;
		lh_cleanup_free char *key = lh_strf("%s%s", f->key, unit_of(f));

		if (value && key)
			json_object_set_new(object, key, value);
		else
			json_decref(value);
	}
	return object;
}

json_t *lh_strategy_to_json(const struct lh_strategy_spec *strategy)
{
	return lh_kind_to_json(&lh_strategy_section, strategy);
}

json_t *lh_compress_to_json(const struct lh_compress_spec *compress)
{
	return lh_kind_to_json(&lh_compress_section, compress);
}
