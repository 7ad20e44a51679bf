/* SPDX-License-Identifier: Apache-2.0 */
/* Binding single values and lists of them to structs. See bind.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/units.h"
#include "scenarios/bind_internal.h"

static void bind_string(const struct lh_bind_site *s)
{
	*(char **)s->at = strdup(s->value->text);
	s->value->quoted = true; /* a name such as 1.10 is no number in JSON either */
	if (!s->value->text[0])
		lh_diag_add(s->diag, s->value->pos, s->path, "is empty");
}

/* Complains where v is out of the field's bounds. */
static void check_bounds(const struct lh_bind_site *s, int64_t v, const char *shown_min,
			 const char *shown_max)
{
	if (v < s->field->min)
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' is too small; at least %s",
			    s->value->text, shown_min);
	else if (s->field->max && v > s->field->max)
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' is too large; at most %s",
			    s->value->text, shown_max);
}

static void bind_integer(const struct lh_bind_site *s)
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

static void check_above_0(const struct lh_bind_site *s, double v)
{
	if ((s->field->flags & LH_FIELD_ABOVE_0) && !(v > 0))
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' is too small; more than 0",
			    s->value->text);
}

static void bind_number(const struct lh_bind_site *s)
{
	bool is_open = (s->field->flags & LH_FIELD_BELOW_MAX) != 0;
	double most = (double)s->field->max;
	char *end;
	double v = strtod(s->value->text, &end);

	if (end == s->value->text || *end || !(v >= 0 && v < 1e18)) {
		lh_diag_add(s->diag, s->value->pos, s->path,
			    "'%.60s' is not a number of at least 0", s->value->text);
		*(double *)s->at = 1; /* as in bind_quantity: said once */
		return;
	}
	*(double *)s->at = v;
	check_above_0(s, v);
	if (s->field->max && (v > most || (v >= most && is_open)))
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' is too large; %s %lld",
			    s->value->text, is_open ? "less than" : "at most",
			    (long long)s->field->max);
}

static void bind_boolean(const struct lh_bind_site *s)
{
	const char *t = s->value->text;

	if (strcmp(t, "true") == 0)
		*(bool *)s->at = true;
	else if (strcmp(t, "false") == 0)
		*(bool *)s->at = false;
	else
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s'; expected true or false", t);
}

static void bind_quantity(const struct lh_bind_site *s, enum lh_unit_kind kind)
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

static void bind_byte_price(const struct lh_bind_site *s)
{
	char why[256];

	if (lh_byte_price_parse(s->value->text, s->at, why, sizeof(why)) < 0)
		lh_diag_add(s->diag, s->value->pos, s->path,
			    "'%.60s' %s; expected such as '0.08 USD/GB'", s->value->text, why);
}

static void bind_ratio(const struct lh_bind_site *s)
{
	char why[256];

	if (lh_ratio_parse(s->value->text, s->at, why, sizeof(why)) == 0)
		check_above_0(s, *(double *)s->at);
	else
		lh_diag_add(s->diag, s->value->pos, s->path, "'%.60s' %s; expected such as '5 %%'",
			    s->value->text, why);
}

static void bind_queue(const struct lh_bind_site *s)
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

static const struct lh_choice *find_choice(const struct lh_bind_site *s)
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

static void bind_choice(const struct lh_bind_site *s)
{
	const struct lh_choice *c = find_choice(s);

	if (!c)
		return;
	if (s->field->type == LH_FIELD_CHOICE)
		*(int *)s->at = c->value;
	else
		*(char **)s->at = strdup(c->name);
}

static void bind_version(const struct lh_bind_site *s)
{
	if (strcmp(s->value->text, "1") != 0)
		lh_diag_add(s->diag, s->value->pos, s->path,
			    "format version '%.20s' is unknown; this longhaul reads version 1",
			    s->value->text);
}

/* One word of a list. */
static char *bind_word(const struct lh_bind_site *s)
{
	if (!s->field->choices)
		return strdup(s->value->text);
	return find_choice(s) ? strdup(s->value->text) : NULL;
}

void lh_bind_list(const struct lh_bind_site *s, size_t *count)
{
	bool is_words = s->field->type == LH_FIELD_STRINGS;
	size_t n = s->value->n_entries, room = n ? n : 1;
	char **words = is_words ? calloc(room, sizeof(*words)) : NULL;
	int64_t *numbers = is_words ? NULL : calloc(room, sizeof(*numbers));

	if (is_words)
		*(char ***)s->at = words;
	else
		*(int64_t **)s->at = numbers;
	if (!is_words && n > LH_FIELD_INTEGERS_MAX) {
		lh_diag_add(s->diag, s->value->pos, s->path, "%zu numbers; at most %d", n,
			    LH_FIELD_INTEGERS_MAX);
		return;
	}
	for (size_t i = 0; (words || numbers) && i < n; i++) {
		lh_cleanup_free char *path = lh_strf("%s[%zu]", s->path, i);
		struct lh_bind_site item = {s->field, s->value->entries[i].value,
					    path ? path : s->path, s->diag, NULL};

		if (item.value->kind != LH_YAML_SCALAR) {
			lh_diag_add(s->diag, item.value->pos, s->path, "expected a %s",
				    is_words ? "word" : "whole number");
			*count += !is_words; /* 0 there */
			continue;
		}
		if (!is_words) {
			item.at = &numbers[*count];
			bind_integer(&item);
			(*count)++;
			continue;
		}
		item.value->quoted = true;
		words[*count] = bind_word(&item);
		*count += words[*count] != NULL;
	}
}

void lh_bind_scalar(const struct lh_bind_site *s)
{
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
	default:
		break;
	}
}
