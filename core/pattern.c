/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions. See pattern.h. */
#include "core/pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* A pattern that backtracks for longer than this gives up on the line. */
static const uint32_t steps_max = 1000000;

struct lh_pattern {
	pcre2_code *code;
	pcre2_match_data *match;
	pcre2_match_context *context;
};

int lh_pattern_new(const char *text, struct lh_pattern **ret, struct lh_error *err)
{
	struct lh_pattern *p = calloc(1, sizeof(*p));
	PCRE2_UCHAR why[256];
	PCRE2_SIZE at;
	int code;

	if (!p)
		return lh_fail(err, LH_ESYS, ENOMEM, "compile a pattern");
	p->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
	if (!p->code) {
		pcre2_get_error_message(code, why, sizeof(why));
		lh_pattern_free(p);
		return lh_fail(err, LH_EINPUT, 0, "%s, at character %zu of '%.200s'",
			       (const char *)why, (size_t)at + 1, text);
	}
	p->match = pcre2_match_data_create_from_pattern(p->code, NULL);
	p->context = pcre2_match_context_create(NULL);
	if (!p->match || !p->context) {
		lh_pattern_free(p);
		return lh_fail(err, LH_ESYS, ENOMEM, "compile a pattern");
	}
	pcre2_set_match_limit(p->context, steps_max);
	*ret = p;
	return 0;
}

void lh_pattern_free(struct lh_pattern *p)
{
	if (!p)
		return;
	pcre2_match_context_free(p->context);
	pcre2_match_data_free(p->match);
	pcre2_code_free(p->code);
	free(p);
}

const char *lh_pattern_group(const struct lh_pattern *p, size_t i)
{
	uint32_t n, size;
	PCRE2_SPTR table;

	pcre2_pattern_info(p->code, PCRE2_INFO_NAMECOUNT, &n);
	pcre2_pattern_info(p->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
	pcre2_pattern_info(p->code, PCRE2_INFO_NAMETABLE, &table);
	/* an entry is the group's number in two bytes, then its name */
	return i < n ? (const char *)table + i * size + 2 : NULL;
}

bool lh_pattern_find(struct lh_pattern *p, const char *text, size_t n)
{
	return pcre2_match(p->code, (PCRE2_SPTR)text, n, 0, 0, p->match, p->context) > 0;
}

char *lh_pattern_take(const struct lh_pattern *p, const char *name)
{
	PCRE2_UCHAR *found;
	PCRE2_SIZE n;
	char *text;

	if (pcre2_substring_get_byname(p->match, (PCRE2_SPTR)name, &found, &n) < 0)
		return NULL;
	text = strndup((const char *)found, n);
	pcre2_substring_free(found);
	return text;
}
