/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parameters of strategies and compressors by one table for each. See settings.h. */
#include "trainer/strategy/settings.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "trainer/transport/comm.h"

enum setting_type {
	SETTING_TIME,	 /* int64_t */
	SETTING_SIZE,	 /* uint64_t */
	SETTING_COUNT,	 /* uint32_t */
	SETTING_NUMBER,	 /* double */
	SETTING_FLAG,	 /* bool */
	SETTING_CHOICE,	 /* an enum whose values are the choices' places */
	SETTING_WORD,	 /* char[LH_STRATEGY_WORD_MAX] */
	SETTING_NUMBERS, /* uint32_t[LH_STRATEGY_DIMENSIONS_MAX], and how many */
	SETTING_LEVELS,	 /* bool by bool: whether each of the choices is there */
};

struct setting {
	const char *key;
	enum setting_type type;
	size_t offset;
	size_t count_offset; /* NUMBERS: of the uint32_t */
	double min;
	double max;
	bool is_above_min; /* NUMBER: min is not allowed, max for the next */
	bool is_below_max;
	const char *const *choices; /* CHOICE, LEVELS; NULL at the end */
};

/* A value while it is read. */
struct place {
	const struct setting *setting;
	const json_t *value;
	const char *name;
	struct lh_error *err;
	void *at;
};

static const double HOUR_NS = 3600e9;
static const double SIZE_MAX_BYTES = 1e12;
static const double EPOCHS_MAX = 1e6;

#define AT(member) .offset = offsetof(struct lh_strategy_settings, member)
#define OF(member) .offset = offsetof(struct lh_compress_settings, member)

static const char *const balances[] = {"dynamic", "fixed", NULL};
static const char *const orders[] = {"given", "shortest", NULL};
static const char *const shards[] = {"equal", "bandwidth", NULL};
static const char *const exchanges[] = {"asgd", "asgd-ga", "averaging", NULL};
static const char *const graphs[] = {"ring", "exponential", "complete", NULL};
static const char *const levels[] = {"node", "site", NULL};
static_assert(offsetof(struct lh_strategy_settings, has_site_level) ==
		      offsetof(struct lh_strategy_settings, has_node_level) + sizeof(bool),
	      "levels are read as an array");

/* clang-format off */
static const struct setting strategy_settings[] = {
	{"matchmaking_ns", SETTING_TIME, AT(matchmaking_ns), .max = HOUR_NS},
	{"delayed_update", SETTING_FLAG, AT(delayed_update)},
	{"balance", SETTING_CHOICE, AT(balance), .choices = balances},
	{"streams", SETTING_COUNT, AT(streams), .min = 1, .max = LH_COMM_STREAMS_MAX},
	{"bucket_bytes", SETTING_SIZE, AT(bucket_bytes), .min = 4, .max = SIZE_MAX_BYTES},
	{"overlap", SETTING_FLAG, AT(overlap)},
	{"order", SETTING_CHOICE, AT(order), .choices = orders},
	{"shards", SETTING_CHOICE, AT(shards), .choices = shards},
	{"segment_bytes", SETTING_SIZE, AT(segment_bytes), .min = 4, .max = SIZE_MAX_BYTES},
	{"dimensions", SETTING_NUMBERS, AT(dimensions), .min = 2, .max = 1000000,
	 .count_offset = offsetof(struct lh_strategy_settings, n_dimensions)},
	{"levels", SETTING_LEVELS, AT(has_node_level), .choices = levels},
	{"collective", SETTING_WORD, AT(collective)},
	{"period", SETTING_COUNT, AT(period), .min = 1, .max = EPOCHS_MAX},
	{"outer_lr", SETTING_NUMBER, AT(outer_lr), .max = 1000, .is_above_min = true},
	{"outer_momentum", SETTING_NUMBER, AT(outer_momentum), .max = 1, .is_below_max = true},
	{"fragments", SETTING_COUNT, AT(fragments), .min = 1, .max = 1000000},
	{"fragment_delay", SETTING_COUNT, AT(fragment_delay), .max = EPOCHS_MAX},
	{"fragment_mix", SETTING_NUMBER, AT(fragment_mix), .max = 1},
	{"graph", SETTING_CHOICE, AT(graph), .choices = graphs},
	{"exchange", SETTING_CHOICE, AT(exchange), .choices = exchanges},
	{"asynchronous", SETTING_FLAG, AT(asynchronous)},
	{"min_group", SETTING_COUNT, AT(min_group), .min = 1, .max = 1000000},
	{"rounds", SETTING_COUNT, AT(rounds), .min = 1, .max = 1000},
	{"timeout_ns", SETTING_TIME, AT(timeout_ns), .min = 1e6, .max = HOUR_NS},
	{"heartbeat_ns", SETTING_TIME, AT(heartbeat_ns), .min = 1e6, .max = HOUR_NS},
	{.key = NULL},
};

static const struct setting compress_settings[] = {
	{"kind", SETTING_WORD, OF(kind)},
	{"density_ratio", SETTING_NUMBER, OF(density_ratio), .max = 1, .is_above_min = true},
	{"feedback", SETTING_FLAG, OF(feedback)},
	{"momentum", SETTING_NUMBER, OF(momentum), .max = 1, .is_below_max = true},
	{"nesterov", SETTING_FLAG, OF(nesterov)},
	{"clip_norm", SETTING_NUMBER, OF(clip_norm), .max = 1e9, .is_above_min = true},
	{"warm_up", SETTING_COUNT, OF(warm_up_epochs), .max = EPOCHS_MAX},
	{"rank", SETTING_COUNT, OF(rank), .min = 1, .max = LH_COMPRESS_RANK_MAX},
	{.key = NULL},
};
/* clang-format on */

static int bad(const struct place *p, const char *what)
{
	return lh_fail(p->err, LH_EINPUT, 0, "%s.%s: %s", p->name, p->setting->key, what);
}

static int out_of_bounds(const struct place *p, double value)
{
	return lh_fail(p->err, LH_EINPUT, 0, "%s.%s: %.15g; expected %s%.15g to %s%.15g", p->name,
		       p->setting->key, value, p->setting->is_above_min ? "more than " : "",
		       p->setting->min, p->setting->is_below_max ? "less than " : "",
		       p->setting->max);
}

/* A whole number within the setting's bounds. */
static int get_whole(const struct place *p, const json_t *value, int64_t *ret)
{
	double number;

	if (!json_is_integer(value))
		return bad(p, "not an integer");
	*ret = json_integer_value(value);
	number = (double)*ret;
	return number < p->setting->min || number > p->setting->max ? out_of_bounds(p, number) : 0;
}

static int read_number(const struct place *p)
{
	double number = json_number_value(p->value);

	if (!json_is_number(p->value))
		return bad(p, "not a number");
	if (!(number >= p->setting->min && number <= p->setting->max) ||
	    (p->setting->is_above_min && !(number > p->setting->min)) ||
	    (p->setting->is_below_max && !(number < p->setting->max)))
		return out_of_bounds(p, number);
	*(double *)p->at = number;
	return 0;
}

static int read_flag(const struct place *p)
{
	if (!json_is_boolean(p->value))
		return bad(p, "expected true or false");
	*(bool *)p->at = json_is_true(p->value);
	return 0;
}

static int read_word(const struct place *p)
{
	const char *text = json_string_value(p->value);

	if (!text)
		return bad(p, "not a string");
	if (!*text || strlen(text) >= LH_STRATEGY_WORD_MAX)
		return bad(p, "expected 1 to 31 bytes");
	memcpy(p->at, text, strlen(text) + 1);
	return 0;
}

/* The place of a word among the setting's choices. */
static int get_choice(const struct place *p, const json_t *value, size_t *ret)
{
	const char *const *choices = p->setting->choices;
	const char *text = json_string_value(value);
	char all[128] = "";
	size_t used = 0;

	for (size_t i = 0; choices[i]; i++) {
		if (text && strcmp(text, choices[i]) == 0) {
			*ret = i;
			return 0;
		}
		if (used < sizeof(all))
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s\"%s\"",
						 i ? ", " : "", choices[i]);
	}
	return lh_fail(p->err, LH_EINPUT, 0, "%s.%s: %s%.40s%s; expected one of %s", p->name,
		       p->setting->key, text ? "\"" : "", text ? text : "not a string",
		       text ? "\"" : "", all);
}

static int read_numbers(const struct place *p, uint32_t *ret_count)
{
	size_t n = json_array_size(p->value);
	int64_t number = 0;
	int rc = 0;

	if (n < 1 || n > LH_STRATEGY_DIMENSIONS_MAX)
		return bad(p, "expected an array of 1 to 8 numbers");
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = get_whole(p, json_array_get(p->value, i), &number);
		((uint32_t *)p->at)[i] = (uint32_t)number;
	}
	*ret_count = (uint32_t)n;
	return rc;
}

static int read_levels(const struct place *p)
{
	size_t n = json_array_size(p->value), level;

	if (!n)
		return bad(p, "expected an array of levels");
	for (size_t i = 0; i < n; i++) {
		int rc = get_choice(p, json_array_get(p->value, i), &level);

		if (rc)
			return rc;
		if (((bool *)p->at)[level])
			return bad(p, "a level stands there twice");
		((bool *)p->at)[level] = true;
	}
	return 0;
}

static int read_setting(const struct place *p, void *settings)
{
	size_t choice = 0;
	int64_t whole = 0;
	int rc;

	switch (p->setting->type) {
	case SETTING_TIME:
		rc = get_whole(p, p->value, &whole);
		*(int64_t *)p->at = whole;
		return rc;
	case SETTING_SIZE:
		rc = get_whole(p, p->value, &whole);
		*(uint64_t *)p->at = (uint64_t)whole;
		return rc;
	case SETTING_COUNT:
		rc = get_whole(p, p->value, &whole);
		*(uint32_t *)p->at = (uint32_t)whole;
		return rc;
	case SETTING_NUMBER:
		return read_number(p);
	case SETTING_FLAG:
		return read_flag(p);
	case SETTING_CHOICE:
		rc = get_choice(p, p->value, &choice);
		*(unsigned *)p->at = (unsigned)choice;
		return rc;
	case SETTING_WORD:
		return read_word(p);
	case SETTING_NUMBERS:
		return read_numbers(p, (uint32_t *)((char *)settings + p->setting->count_offset));
	case SETTING_LEVELS:
		return read_levels(p);
	}
	return 0;
}

/* Reads every key of the object; other: one that is the caller's, or NULL. */
static int read_all(const struct setting *table, const json_t *object, const char *name,
		    const char *other, void *ret_settings, struct lh_error *err)
{
	const char *key;
	const json_t *value;

	if (!json_is_object(object))
		return lh_fail(err, LH_EINPUT, 0, "%s: expected a mapping", name);
	json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
		const struct setting *s = table;
		struct place p = {.value = value, .name = name, .err = err};
		int rc;

		if (other && strcmp(key, other) == 0)
			continue;
		while (s->key && strcmp(s->key, key) != 0)
			s++;
		if (!s->key)
			return lh_fail(err, LH_EINPUT, 0, "%s.%.60s: unknown key", name, key);
		p.setting = s;
		p.at = (char *)ret_settings + s->offset;
		rc = read_setting(&p, ret_settings);
		if (rc)
			return rc;
	}
	return 0;
}

int lh_strategy_settings_read(const json_t *object, const char *name,
			      struct lh_strategy_settings *ret_settings, struct lh_error *err)
{
	struct lh_strategy_settings settings = {
		.streams = 1,
		.segment_bytes = 1 << 20,
		.collective = "ring",
		.period = 1,
		.outer_lr = 0.7,
		.outer_momentum = 0.9,
		.fragments = 1,
		.fragment_mix = 0.5,
		.min_group = 2,
		.rounds = 1,
		.timeout_ns = INT64_C(60000000000),
		.heartbeat_ns = INT64_C(1000000000),
	};
	int rc = read_all(strategy_settings, object, name, "kind", &settings, err);

	if (rc == 0)
		*ret_settings = settings;
	return rc;
}

int lh_compress_settings_read(const json_t *object, const char *name,
			      struct lh_compress_settings *ret_settings, struct lh_error *err)
{
	struct lh_compress_settings settings = {
		.density_ratio = 0.001,
		.feedback = true,
		.momentum = 0.9,
		.rank = 2,
	};
	int rc = read_all(compress_settings, object, name, NULL, &settings, err);

	if (rc == 0 && !settings.kind[0])
		rc = lh_fail(err, LH_EINPUT, 0, "%s.kind: missing", name);
	if (rc == 0)
		*ret_settings = settings;
	return rc;
}
