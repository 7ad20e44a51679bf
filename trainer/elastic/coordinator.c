/* SPDX-License-Identifier: Apache-2.0 */
/* Members that come, load, work and go. See coordinator.h; rounds are in coordinator_rounds.c. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/elastic/coordinator_internal.h"

/* The weight of a micro-batch's time in the mean. */
static const int64_t STEP_WEIGHT = 10;

bool lh_member_is_connected(const struct lh_member *m)
{
	return m->state != LH_MEMBER_AWAY;
}

/* ---- what comes out ----------------------------------------------------------------------- */

/* Room for one more; NULL, and the training fails, where there is none. */
static void *grow(struct lh_coordinator *c, void *items, size_t item_bytes, size_t n, size_t *room)
{
	void *grown;

	if (n < *room)
		return items;
	grown = reallocarray(items, *room * 2 + 16, item_bytes);
	if (grown)
		*room = *room * 2 + 16;
	else if (!c->error.code)
		lh_fail(&c->error, LH_ESYS, ENOMEM, "coordinate");
	return grown;
}

static void add_order(struct lh_coordinator *c, const struct lh_coordinator_order *order)
{
	void *grown = grow(c, c->orders, sizeof(*c->orders), c->n_orders, &c->orders_room);

	if (!grown)
		return;
	c->orders = grown;
	c->orders[c->n_orders++] = *order;
}

void lh_coordinator_tell(struct lh_coordinator *c, uint32_t rank, const struct lh_notice *notice,
			 int64_t now_ns)
{
	struct lh_coordinator_order order = {.rank = rank, .notice = *notice};

	c->members[rank].told_ns = now_ns;
	add_order(c, &order);
}

void lh_coordinator_note(struct lh_coordinator *c, const struct lh_coordinator_record *record)
{
	void *grown = grow(c, c->records, sizeof(*c->records), c->n_records, &c->records_room);

	if (!grown)
		return;
	c->records = grown;
	c->records[c->n_records++] = *record;
}

bool lh_coordinator_next_order(struct lh_coordinator *c, struct lh_coordinator_order *ret_order)
{
	if (c->n_orders_taken == c->n_orders) {
		c->n_orders = c->n_orders_taken = 0;
		return false;
	}
	*ret_order = c->orders[c->n_orders_taken++];
	return true;
}

bool lh_coordinator_next_record(struct lh_coordinator *c, struct lh_coordinator_record *ret_record)
{
	if (c->n_records_taken == c->n_records) {
		c->n_records = c->n_records_taken = 0;
		return false;
	}
	*ret_record = c->records[c->n_records_taken++];
	return true;
}

/* ---- members ------------------------------------------------------------------------------ */

static void note_member(struct lh_coordinator *c, enum lh_coordinator_record_kind kind,
			uint32_t rank, const char *reason, int64_t now_ns)
{
	const struct lh_member *m = &c->members[rank];

	lh_coordinator_note(c, &(struct lh_coordinator_record){
				       .kind = kind,
				       .at_ns = now_ns,
				       .rank = rank,
				       .session = m->session,
				       .incarnation = m->incarnation,
				       .epoch = c->epoch,
				       .serial = c->serial,
				       .attempt = c->attempt,
				       .reason = reason,
			       });
}

void lh_coordinator_drop(struct lh_coordinator *c, uint32_t rank, bool closes, const char *reason,
			 int64_t now_ns)
{
	struct lh_member *m = &c->members[rank];

	if (!lh_member_is_connected(m))
		return;
	if (m->state != LH_MEMBER_LEAVING)
		note_member(c, LH_RECORD_LEAVE, rank, reason, now_ns);
	m->state = LH_MEMBER_AWAY;
	m->is_computing = m->is_ready = false;
	if (m->is_in_round && m->result == LH_RESULT_NONE)
		m->result = LH_RESULT_LOST;
	if (closes)
		add_order(c, &(struct lh_coordinator_order){.rank = rank, .closes = true});
	for (uint32_t i = 0; i < c->config.n_ranks; i++)
		if (c->members[i].state == LH_MEMBER_LOADING && c->members[i].donor == rank)
			c->members[i].state = LH_MEMBER_WAITING;
}

static uint32_t count_loads(const struct lh_coordinator *c, uint32_t donor)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->config.n_ranks; i++)
		n += c->members[i].state == LH_MEMBER_LOADING && c->members[i].donor == donor;
	return n;
}

/* Who is to give its state to rank: of those with the fewest to give it to, one of its own site
 * first; beginning behind the one that it had before. False where nobody has it. */
static bool choose_donor(const struct lh_coordinator *c, uint32_t rank, uint32_t *ret_donor)
{
	uint32_t n = c->config.n_ranks, best_cost = UINT32_MAX;

	for (uint32_t i = 1; i <= n; i++) {
		uint32_t donor = (c->members[rank].donor + i) % n;
		/* what is near may be what does not work */
		bool is_near = c->config.site[donor] == c->config.site[rank] &&
			       c->members[rank].n_loads == 0;
		uint32_t cost;

		if (c->members[donor].state != LH_MEMBER_ACTIVE)
			continue;
		cost = 2 * count_loads(c, donor) + !is_near;
		if (cost < best_cost) {
			best_cost = cost;
			*ret_donor = donor;
		}
	}
	return best_cost != UINT32_MAX;
}

static void load(struct lh_coordinator *c, uint32_t rank, int64_t now_ns)
{
	struct lh_member *m = &c->members[rank];
	uint32_t donor;

	if (!choose_donor(c, rank, &donor))
		return;
	m->state = LH_MEMBER_LOADING;
	m->donor = donor;
	if (m->n_loads++ == 0)
		m->awaited_until_ns = now_ns + c->config.timeout_ns;
	m->can_go_on = false;
	lh_coordinator_tell(c, rank,
			    &(struct lh_notice){.kind = LH_NOTICE_LOAD,
						.epoch = c->epoch,
						.serial = donor,
						.number = c->members[donor].session,
						.count = m->committed},
			    now_ns);
}

static void activate(struct lh_coordinator *c, uint32_t rank, int64_t now_ns)
{
	struct lh_member *m = &c->members[rank];

	m->state = LH_MEMBER_ACTIVE;
	m->is_ready = m->is_computing = m->is_spoiled = false;
	lh_grid_place_init(&m->place, rank, c->config.dimensions, c->config.n_dimensions);
	if (c->phase == LH_PHASE_FORMING)
		lh_coordinator_tell(c, rank,
				    &(struct lh_notice){.kind = LH_NOTICE_FORM,
							.epoch = c->epoch,
							.serial = c->serial,
							.count = m->done},
				    now_ns);
	else if (!lh_coordinator_is_closing(c))
		lh_coordinator_grant(c, rank, now_ns);
}

void lh_coordinator_settle(struct lh_coordinator *c, int64_t now_ns)
{
	if (c->phase != LH_PHASE_COMPUTING && c->phase != LH_PHASE_FORMING)
		return;
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		struct lh_member *m = &c->members[rank];

		if (m->state != LH_MEMBER_WAITING || m->is_left_out)
			continue;
		if (m->can_go_on && m->state_epoch == c->epoch)
			activate(c, rank, now_ns);
		else
			load(c, rank, now_ns);
	}
}

static int refuse(struct lh_coordinator *c, uint32_t rank, const char *why)
{
	struct lh_coordinator_order order = {
		.rank = rank, .closes = true, .notice = {.kind = LH_NOTICE_REFUSE}};

	memcpy(order.notice.text, why, strlen(why) + 1);
	add_order(c, &order);
	return 0;
}

static int join(struct lh_coordinator *c, const struct lh_notice *notice, int64_t now_ns,
		struct lh_error *err)
{
	struct lh_member *m = &c->members[notice->rank];
	bool is_new = notice->number > m->incarnation;

	if (lh_member_is_connected(m))
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " joins twice", notice->rank);
	if (notice->number > UINT32_MAX || notice->serial > notice->count)
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " joins with impossible counts",
			       notice->rank);
	if (notice->number < m->incarnation)
		return refuse(c, notice->rank, "a later one of this rank has been here");
	if (is_new)
		m->committed = 0;
	if (notice->count < m->committed)
		return refuse(c, notice->rank, "it has done less than was committed of it");
	m->incarnation = (uint32_t)notice->number;
	m->session = ++c->last_session;
	m->done = notice->count;
	m->state_epoch = notice->epoch;
	m->can_go_on = notice->serial == m->committed;
	m->is_left_out = false;
	m->is_computing = m->is_ready = false;
	m->n_loads = 0;
	m->donor = notice->rank;
	m->heard_ns = now_ns;
	m->state = c->phase == LH_PHASE_OVER ? LH_MEMBER_LEAVING : LH_MEMBER_WAITING;
	lh_coordinator_tell(c, notice->rank,
			    &(struct lh_notice){.kind = LH_NOTICE_WELCOME,
						.epoch = c->epoch,
						.number = m->session,
						.count = m->committed},
			    now_ns);
	if (c->phase == LH_PHASE_OVER)
		lh_coordinator_tell(c, notice->rank,
				    &(struct lh_notice){.kind = LH_NOTICE_END,
							.epoch = c->epoch,
							.count = m->committed},
				    now_ns);
	else
		note_member(c, LH_RECORD_JOIN, notice->rank, NULL, now_ns);
	return 0;
}

/* ---- what they say ------------------------------------------------------------------------ */

/* Takes a count of micro-batches done, which never shrinks. */
static int take_count(struct lh_member *m, const struct lh_notice *notice, struct lh_error *err)
{
	if (notice->count < m->done)
		return lh_fail(err, LH_ERUN, 0,
			       "rank %" PRIu32 " has done %" PRIu64 " micro-batches after %" PRIu64,
			       notice->rank, notice->count, m->done);
	m->done = notice->count;
	return 0;
}

static int take_progress(struct lh_member *m, const struct lh_notice *notice, struct lh_error *err)
{
	if (notice->time_ns > 0)
		m->step_ns += (notice->time_ns - m->step_ns) / STEP_WEIGHT;
	return take_count(m, notice, err);
}

static int take_ready(struct lh_coordinator *c, struct lh_member *m, const struct lh_notice *notice,
		      struct lh_error *err)
{
	int rc = take_count(m, notice, err);

	/* else of a group that is not formed any more */
	if (rc == 0 && c->phase == LH_PHASE_FORMING && m->state == LH_MEMBER_ACTIVE &&
	    notice->serial == c->serial) {
		m->is_ready = true;
		m->is_computing = false;
	}
	return rc;
}

static int take_result(struct lh_coordinator *c, struct lh_member *m,
		       const struct lh_notice *notice, struct lh_error *err)
{
	uint64_t culprit = notice->number - 1;

	if (notice->number > c->config.n_ranks)
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " blames rank %" PRIu64,
			       notice->rank, culprit);
	if (c->phase != LH_PHASE_AVERAGING || notice->serial != c->serial || !m->is_in_round ||
	    m->result != LH_RESULT_NONE)
		return 0; /* of a round that is over */
	m->result = notice->number ? LH_RESULT_FAILED : LH_RESULT_DONE;
	/* whom rank 0 could not reach would not be here */
	if (notice->number)
		c->members[culprit ? culprit : notice->rank].n_blames++;
	return 0;
}

static int take_loaded(struct lh_member *m, const struct lh_notice *notice, struct lh_error *err)
{
	int rc;

	if (m->state != LH_MEMBER_LOADING)
		return 0;
	m->state = LH_MEMBER_WAITING;
	if (notice->number)
		return 0;
	rc = take_count(m, notice, err);
	m->committed = m->done;
	m->state_epoch = notice->epoch;
	m->can_go_on = true;
	return rc;
}

static int take(struct lh_coordinator *c, const struct lh_notice *notice, int64_t now_ns,
		struct lh_error *err)
{
	struct lh_member *m = &c->members[notice->rank];

	if (notice->kind == LH_NOTICE_JOIN)
		return join(c, notice, now_ns, err);
	if (!lh_member_is_connected(m))
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " has not joined", notice->rank);
	m->heard_ns = now_ns;
	switch (notice->kind) {
	case LH_NOTICE_HEARTBEAT:
		return 0;
	case LH_NOTICE_PROGRESS:
		return take_progress(m, notice, err);
	case LH_NOTICE_READY:
		return take_ready(c, m, notice, err);
	case LH_NOTICE_RESULT:
		return take_result(c, m, notice, err);
	case LH_NOTICE_LOADED:
		return take_loaded(m, notice, err);
	case LH_NOTICE_BYE:
		lh_coordinator_drop(c, notice->rank, true, "it has left", now_ns);
		return 0;
	default:
		return lh_fail(err, LH_ERUN, 0, "a notice of kind %d, which no member sends",
			       (int)notice->kind);
	}
}

int lh_coordinator_take(struct lh_coordinator *c, const struct lh_notice *notice, int64_t now_ns,
			struct lh_error *err)
{
	int rc;

	if (notice->rank >= c->config.n_ranks)
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " of %" PRIu32, notice->rank,
			       c->config.n_ranks);
	rc = take(c, notice, now_ns, err);
	if (rc && notice->kind != LH_NOTICE_JOIN)
		lh_coordinator_drop(c, notice->rank, false, "it said what cannot be", now_ns);
	lh_coordinator_advance(c, now_ns);
	return rc;
}

void lh_coordinator_lose(struct lh_coordinator *c, uint32_t rank, int64_t now_ns)
{
	lh_coordinator_drop(c, rank, false, "its connection ended", now_ns);
	lh_coordinator_advance(c, now_ns);
}

/* ---- time --------------------------------------------------------------------------------- */

void lh_coordinator_tick(struct lh_coordinator *c, int64_t now_ns)
{
	const struct lh_notice heartbeat = {.kind = LH_NOTICE_HEARTBEAT, .epoch = c->epoch};

	c->now_ns = now_ns;
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		struct lh_member *m = &c->members[rank];

		if (!lh_member_is_connected(m))
			continue;
		if (now_ns - m->heard_ns >= LH_COORDINATOR_MISSED * c->config.heartbeat_ns)
			lh_coordinator_drop(c, rank, true, "it was silent", now_ns);
		else if (now_ns - m->told_ns >= c->config.heartbeat_ns)
			lh_coordinator_tell(c, rank, &heartbeat, now_ns);
	}
	lh_coordinator_advance(c, now_ns);
}

int64_t lh_coordinator_due_ns(const struct lh_coordinator *c)
{
	int64_t due_ns = lh_coordinator_phase_due_ns(c);

	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		const struct lh_member *m = &c->members[rank];

		if (!lh_member_is_connected(m))
			continue;
		due_ns = lh_coordinator_soonest_ns(c, due_ns, m->told_ns + c->config.heartbeat_ns);
		due_ns = lh_coordinator_soonest_ns(
			c, due_ns, m->heard_ns + LH_COORDINATOR_MISSED * c->config.heartbeat_ns);
	}
	return due_ns;
}

/* ---- as a whole --------------------------------------------------------------------------- */

int lh_coordinator_new(const struct lh_coordinator_config *config, int64_t now_ns,
		       struct lh_coordinator **ret_coordinator, struct lh_error *err)
{
	struct lh_coordinator *c = calloc(1, sizeof(*c));
	uint32_t n = config->n_ranks;

	if (!c)
		return lh_fail(err, LH_ESYS, ENOMEM, "coordinate");
	assert(n >= 1 && n <= LH_JOB_RANKS_MAX && config->min_group >= 1);
	c->config = *config;
	c->few_ns = c->now_ns = now_ns;
	c->members = calloc(n, sizeof(*c->members));
	c->round.members = calloc(n, sizeof(*c->round.members));
	c->round.incarnations = calloc(n, sizeof(*c->round.incarnations));
	c->round.is_void = calloc(n, sizeof(*c->round.is_void));
	if (!c->members || !c->round.members || !c->round.incarnations || !c->round.is_void) {
		lh_coordinator_free(c);
		return lh_fail(err, LH_ESYS, ENOMEM, "coordinate");
	}
	for (uint32_t rank = 0; rank < n; rank++)
		c->members[rank].step_ns = config->step_ns[rank];
	*ret_coordinator = c;
	return 0;
}

void lh_coordinator_free(struct lh_coordinator *c)
{
	if (!c)
		return;
	free(c->members);
	free(c->round.members);
	free(c->round.incarnations);
	free(c->round.is_void);
	free(c->orders);
	free(c->records);
	free(c);
}

bool lh_coordinator_is_over(const struct lh_coordinator *c)
{
	return c->phase == LH_PHASE_OVER;
}

uint32_t lh_coordinator_n_connected(const struct lh_coordinator *c)
{
	uint32_t n = 0;

	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++)
		n += lh_member_is_connected(&c->members[rank]);
	return n;
}

int lh_coordinator_check(const struct lh_coordinator *c, struct lh_error *err)
{
	if (c->error.code && err)
		*err = c->error;
	return c->error.code;
}

uint32_t lh_coordinator_epoch(const struct lh_coordinator *c)
{
	return c->epoch;
}
