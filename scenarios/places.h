/* SPDX-License-Identifier: Apache-2.0 */
/* Words that name a node (SITE/N) or a site, which stands for all of its nodes. Private to the
 * scenario room. */
#ifndef LH_SCENARIOS_PLACES_H
#define LH_SCENARIOS_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "scenarios/scenario.h"

enum { LH_PLACE_LENGTH_MAX = 600 };

/* Such a word; borrowed. */
struct lh_place {
	const char *name;
	size_t length;
};

/* Whether it is, or holds, a node of a resolved scenario. */
bool lh_place_has_node(const struct lh_scenario *scenario, struct lh_place place, size_t node);

/* Whether it is written SITE/N, and such a node is asked for; also where nodes could not be
 * resolved, as the next. */
bool lh_place_is_node(const struct lh_scenario *scenario, struct lh_place place);

/* How many nodes it names; 0: it names nothing. */
int64_t lh_place_count(const struct lh_scenario *scenario, struct lh_place place);

/* Complains that it names nothing. */
void lh_place_say_unknown(const struct lh_scenario *scenario, struct lh_place place,
			  struct lh_pos pos, const char *key_path, struct lh_diag *diag);

#endif
