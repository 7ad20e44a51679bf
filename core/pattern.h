/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions with named groups: a thin layer over PCRE2. */
#ifndef LH_CORE_PATTERN_H
#define LH_CORE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

struct lh_pattern;

/* Compiles text. LH_EINPUT says what is wrong and at which character; LH_ESYS. *ret_pattern is
 * owned by the caller. */
int lh_pattern_new(const char *text, struct lh_pattern **ret_pattern, struct lh_error *err);
void lh_pattern_free(struct lh_pattern *pattern);

/* The name of the i-th named group, borrowed; NULL beyond the last. */
const char *lh_pattern_group(const struct lh_pattern *pattern, size_t i);

/* Looks for the pattern in the n bytes of text: true where it is found; the groups are those of
 * this match until the next call. */
bool lh_pattern_find(struct lh_pattern *pattern, const char *text, size_t n);

/* What the group called name matched last, as text owned by the caller; NULL where the pattern has
 * no such group, or it took no part. */
char *lh_pattern_take(const struct lh_pattern *pattern, const char *name);

#endif
