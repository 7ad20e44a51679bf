/* SPDX-License-Identifier: Apache-2.0 */
/* Matchmaking. See matchmaking.h. */
#include "trainer/matchmaking.h"

int64_t lh_matchmaking_due_ns(const struct lh_matchmaking *m, const struct lh_progress *p,
			      int64_t now_ns)
{
	int64_t left_ns = lh_progress_left_ns(p, now_ns);

	return left_ns > m->at_least_ns ? now_ns + left_ns - m->at_least_ns : now_ns;
}

void lh_matchmaking_begin(struct lh_matchmaking *m, struct lh_progress *p, int64_t now_ns)
{
	m->is_begun = true;
	m->begin_ns = now_ns;
	p->news[p->self].is_joined = true;
	p->news[p->self].joined_ns = now_ns;
}

int64_t lh_matchmaking_end_ns(const struct lh_matchmaking *m, const struct lh_progress *p)
{
	int64_t end_ns = m->begin_ns + m->at_least_ns;

	if (!m->is_begun || !lh_progress_has_all_joined(p))
		return INT64_MAX;
	for (uint32_t rank = 0; rank < p->n; rank++)
		if (p->news[rank].joined_ns > end_ns)
			end_ns = p->news[rank].joined_ns;
	return end_ns;
}
