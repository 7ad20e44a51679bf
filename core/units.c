/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities with units. See units.h. */
#include "core/units.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a unit is used when a quantity is written; all are read. */
enum unit_use {
	UNIT_DECIMAL, /* for numbers with up to three decimals, and for people */
	UNIT_WHOLE,   /* for whole numbers only */
	UNIT_READ,    /* never */
};

struct unit {
	const char *name;
	int64_t factor; /* how many of the kind's base unit it is */
	enum unit_use use;
};

struct kind {
	const char *what;
	const char *example;
	const struct unit *units; /* ends with name NULL; the base unit, or the only one, first */
};

static const struct unit duration_units[] = {
	{"ns", 1, UNIT_DECIMAL},
	{"us", 1000, UNIT_DECIMAL},
	{"ms", 1000000, UNIT_DECIMAL},
	{"s", 1000000000, UNIT_DECIMAL},
	{"min", 60000000000, UNIT_WHOLE},
	{"h", 3600000000000, UNIT_WHOLE},
	{NULL, 0, UNIT_READ},
};

static const struct unit rate_units[] = {
	{"bit/s", 1, UNIT_DECIMAL},
	{"kbit/s", 1000, UNIT_DECIMAL},
	{"Mbit/s", 1000000, UNIT_DECIMAL},
	{"Gbit/s", 1000000000, UNIT_DECIMAL},
	{"Tbit/s", 1000000000000, UNIT_DECIMAL},
	{"B/s", 8, UNIT_READ},
	{"kB/s", 8000, UNIT_READ},
	{"MB/s", 8000000, UNIT_READ},
	{"GB/s", 8000000000, UNIT_READ},
	{"KiB/s", 8192, UNIT_READ},
	{"MiB/s", 8388608, UNIT_READ},
	{"GiB/s", 8589934592, UNIT_READ},
	{NULL, 0, UNIT_READ},
};

static const struct unit size_units[] = {
	{"B", 1, UNIT_DECIMAL},
	{"kB", 1000, UNIT_DECIMAL},
	{"MB", 1000000, UNIT_DECIMAL},
	{"GB", 1000000000, UNIT_DECIMAL},
	{"TB", 1000000000000, UNIT_DECIMAL},
	{"KiB", 1024, UNIT_WHOLE},
	{"MiB", 1048576, UNIT_WHOLE},
	{"GiB", 1073741824, UNIT_WHOLE},
	{"TiB", 1099511627776, UNIT_WHOLE},
	{NULL, 0, UNIT_READ},
};

static const struct unit usd_h_units[] = {
	{"USD/h", 1000000, UNIT_DECIMAL},
	{NULL, 0, UNIT_READ},
};

static const struct kind kinds[] = {
	[LH_UNIT_DURATION] = {"duration", "103.1 ms", duration_units},
	[LH_UNIT_RATE] = {"rate", "210 Mbit/s", rate_units},
	[LH_UNIT_SIZE] = {"size", "6 MiB", size_units},
	[LH_UNIT_USD_PER_HOUR] = {"price per hour", "0.18 USD/h", usd_h_units},
};

const char *lh_unit_example(enum lh_unit_kind kind)
{
	return kinds[kind].example;
}

/* A decimal number as digits and a number of places after the point. */
struct decimal {
	int64_t digits;
	int places;
};

enum { DECIMAL_PLACES_MAX = 18 };

__extension__ typedef __int128 wide;

/* Reads a decimal from the start of text; returns what follows, or NULL with why. */
static const char *decimal_read(const char *text, struct decimal *ret, char *why, size_t n_why)
{
	const char *p = text;
	bool seen_digit = false;

	ret->digits = 0;
	ret->places = 0;
	if (*p == '-') {
		snprintf(why, n_why, "is negative");
		return NULL;
	}
	for (bool after_point = false;; p++) {
		if (*p == '.' && !after_point) {
			after_point = true;
			continue;
		}
		if (!isdigit((unsigned char)*p))
			break;
		seen_digit = true;
		ret->places += after_point;
		if (ret->places > DECIMAL_PLACES_MAX ||
		    __builtin_mul_overflow(ret->digits, 10, &ret->digits) ||
		    __builtin_add_overflow(ret->digits, *p - '0', &ret->digits)) {
			snprintf(why, n_why, "has too many digits");
			return NULL;
		}
	}
	if (!seen_digit) {
		snprintf(why, n_why, "does not begin with a number");
		return NULL;
	}
	return p;
}

/* digits * factor / 10^places, rounded to nearest; -1 when it does not fit. */
static int decimal_scale(const struct decimal *d, int64_t factor, int64_t *ret)
{
	wide v = (wide)d->digits * factor;
	wide divisor = 1;

	for (int i = 0; i < d->places; i++)
		divisor *= 10;
	v = (v + divisor / 2) / divisor;
	if (v > INT64_MAX)
		return -1;
	*ret = (int64_t)v;
	return 0;
}

static const char *skip_space(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

static void list_units(const struct unit *units, char *buf, size_t n_buf)
{
	size_t used = 0;

	buf[0] = '\0';
	for (const struct unit *u = units; u->name && used < n_buf; u++)
		used += (size_t)snprintf(buf + used, n_buf - used, "%s%s", used ? ", " : "",
					 u->name);
}

int lh_unit_parse(enum lh_unit_kind kind, const char *text, int64_t *ret_value, char *why,
		  size_t n_why)
{
	const struct kind *k = &kinds[kind];
	struct decimal d;
	const char *unit = decimal_read(text, &d, why, n_why);
	char names[160];

	if (!unit)
		return -1;
	unit = skip_space(unit);
	if (!*unit) {
		snprintf(why, n_why, "is a bare number; a %s carries its unit", k->what);
		return -1;
	}
	for (const struct unit *u = k->units; u->name; u++) {
		if (strcmp(u->name, unit) != 0)
			continue;
		if (decimal_scale(&d, u->factor, ret_value) < 0) {
			snprintf(why, n_why, "is too large");
			return -1;
		}
		return 0;
	}
	list_units(k->units, names, sizeof(names));
	snprintf(why, n_why, "has the unknown unit '%.40s'; units of a %s are %s", unit, k->what,
		 names);
	return -1;
}

int lh_byte_price_parse(const char *text, struct lh_byte_price *ret_price, char *why, size_t n_why)
{
	struct decimal d;
	const char *unit = decimal_read(text, &d, why, n_why);

	if (!unit)
		return -1;
	unit = skip_space(unit);
	if (strcmp(unit, "USD/GB") == 0) {
		ret_price->per_bytes = 1000000000;
	} else if (strcmp(unit, "USD/GiB") == 0) {
		ret_price->per_bytes = 1073741824;
	} else {
		snprintf(why, n_why, "%s '%.40s'; a price per data is in USD/GB or USD/GiB",
			 *unit ? "has the unknown unit" : "is a bare number", unit);
		return -1;
	}
	if (decimal_scale(&d, 1000000, &ret_price->usd_micro) < 0) {
		snprintf(why, n_why, "is too large");
		return -1;
	}
	return 0;
}

int lh_queue_parse(const char *text, struct lh_queue_size *ret, char *why, size_t n_why)
{
	static const struct {
		const char *name;
		enum lh_queue_unit unit;
		int64_t factor;
	} own[] = {{"packets", LH_QUEUE_PACKETS, 1},
		   {"packet", LH_QUEUE_PACKETS, 1},
		   {"BDP", LH_QUEUE_BDP, 1000}};
	struct decimal d;
	const char *unit = decimal_read(text, &d, why, n_why);

	if (!unit)
		return -1;
	unit = skip_space(unit);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (strcmp(unit, own[i].name) != 0)
			continue;
		ret->unit = own[i].unit;
		if (decimal_scale(&d, own[i].factor, &ret->amount) == 0)
			return 0;
		snprintf(why, n_why, "is too large");
		return -1;
	}
	ret->unit = LH_QUEUE_BYTES;
	if (*unit && lh_unit_parse(LH_UNIT_SIZE, text, &ret->amount, why, n_why) == 0)
		return 0;
	ret->unit = LH_QUEUE_TIME;
	return lh_unit_parse(LH_UNIT_DURATION, text, &ret->amount, why, n_why);
}

int lh_ratio_parse(const char *text, double *ret_ratio, char *why, size_t n_why)
{
	struct decimal d;
	const char *unit = decimal_read(text, &d, why, n_why);
	double value;

	if (!unit)
		return -1;
	value = (double)d.digits;
	for (int i = 0; i < d.places; i++)
		value /= 10;
	unit = skip_space(unit);
	if (strcmp(unit, "%") == 0) {
		value /= 100;
	} else if (*unit) {
		snprintf(why, n_why, "has the unknown unit '%.40s'; a share is '5 %%' or 0.05",
			 unit);
		return -1;
	}
	if (value > 1) {
		snprintf(why, n_why, "is more than 1 (100 %%)");
		return -1;
	}
	*ret_ratio = value;
	return 0;
}

/* The largest unit in which value is a number of at most three decimals; else the first. */
static const struct unit *fitting_unit(const struct kind *k, int64_t value)
{
	const struct unit *best = k->units;

	for (const struct unit *u = k->units; u->name; u++) {
		int precision = u->use == UNIT_DECIMAL ? 1000 : 1;

		if (u->use != UNIT_READ && u->factor <= value && u->factor >= best->factor &&
		    (wide)value * precision % u->factor == 0)
			best = u;
	}
	return best;
}

char *lh_unit_format(enum lh_unit_kind kind, int64_t value, char *buf, size_t n_buf)
{
	const struct unit *u = fitting_unit(&kinds[kind], value);
	char decimals[DECIMAL_PLACES_MAX + 2] = "";
	wide rest = value % u->factor;

	/* factors of units with decimals are powers of ten, so this ends, and is exact */
	for (size_t n = 0; rest && n < DECIMAL_PLACES_MAX; n++) {
		if (n == 0)
			decimals[n++] = '.';
		rest *= 10;
		decimals[n] = (char)('0' + (int)(rest / u->factor));
		rest %= u->factor;
	}
	snprintf(buf, n_buf, "%lld%s %s", (long long)(value / u->factor), decimals, u->name);
	return buf;
}

char *lh_unit_format_short(enum lh_unit_kind kind, int64_t value, char *buf, size_t n_buf)
{
	const struct unit *best = kinds[kind].units;

	for (const struct unit *u = best; u->name; u++)
		if (u->use == UNIT_DECIMAL && value >= u->factor)
			best = u;
	snprintf(buf, n_buf, "%.4g %s", (double)value / (double)best->factor, best->name);
	return buf;
}
